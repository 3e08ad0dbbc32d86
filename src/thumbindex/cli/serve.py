"""The commands `serve`, `page` and `token`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from thumbindex.background.host import Closeable, StartCommandServer
from thumbindex.cli.options import (
    opening_options,
    opening_or_engine_options,
    with_enclosing_folder,
)
from thumbindex.errors import UsageError
from thumbindex.mcp.stdio import serve_stdio
from thumbindex.opening import OpenOptions
from thumbindex.present.exit_codes import FOUND, exits_with_code, print_error
from thumbindex.web.token_file import add_token, default_token_file

if TYPE_CHECKING:
    from thumbindex.library import Library


def _command_server(ctx: typer.Context) -> StartCommandServer:
    """Return a function that starts a CommandServer for this program with an open library."""
    return partial(_start_command_server, ctx.find_root().command)


def _start_command_server(program: Any, opened: Library) -> Closeable | None:
    # imported late: the handshake does not need it
    from thumbindex.cli.command_server import listen

    return listen(opened, program)


class _WebServers(Protocol):
    serve_http: Callable[..., int]
    serve_page: Callable[..., int]


def _web_servers() -> _WebServers:
    # imported late: `serve` over stdio does not need it
    from thumbindex.web import app

    return app


@exits_with_code
@opening_or_engine_options
def serve(
    ctx: typer.Context,
    opening: OpenOptions,
    http: Annotated[
        bool,
        typer.Option(
            "--http", help="Serve several clients over Streamable HTTP until interrupted."
        ),
    ] = False,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Address to listen on with --http; without tokens, this machine only.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=65_535,
            metavar="N",
            help="Port to listen on with --http; 0 picks a free one.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="File of token hashes, written by `thumbindex token`.",
        ),
    ] = None,
    page: Annotated[
        bool, typer.Option("--page", help="With --http, also serve the page for browsers.")
    ] = False,
) -> int:
    """Run the MCP server over stdio or HTTP.

    Over stdio, the default, it serves the client that started it; with --http, several clients.
    """
    options = {
        "host": host,
        "port": port,
        "token_file": None if token_file is None else str(token_file),
        "page": page or None,
    }
    settings = {name: value for name, value in options.items() if value is not None}
    if http:
        return _web_servers().serve_http(opening, settings, _command_server(ctx))
    if settings:
        raise UsageError(
            f"--{next(iter(settings)).replace('_', '-')} needs a server over HTTP: add --http."
        )
    return serve_stdio(opening, _command_server(ctx))


@exits_with_code
@opening_options
def page(
    ctx: typer.Context,
    opening: OpenOptions,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=65_535,
            metavar="N",
            help="Port to listen on (default: 8378, or a free one).",
        ),
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address without opening it.")
    ] = False,
) -> int:
    """Show the notes on a page in your browser.

    Search, read, review duplicates and judge answers. Only this machine can open the page.
    """
    return _web_servers().serve_page(
        with_enclosing_folder(opening),
        port,
        _command_server(ctx),
        opens_browser=not no_browser,
    )


@exits_with_code
@opening_options
def token(
    ctx: typer.Context,
    opening: OpenOptions,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The token's owner, as in a folder's `tokens`.")
    ],
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="File for the token's hash (default: the configured one).",
        ),
    ] = None,
) -> int:
    """Create a token for a client of `serve --http`.

    The token is printed only once: the file stores just its hash.
    """
    configured = opening.load().serve.http.token_file
    path = (token_file or (Path(configured) if configured else default_token_file())).expanduser()
    secret = add_token(path, name)
    typer.echo(secret)
    print_error(f"Only its hash is stored, in {path}.")
    print_error("Clients send it as `Authorization: Bearer TOKEN`.")
    if path == default_token_file():
        print_error(
            "From its next start, `thumbindex serve --http` requires a token from this file, "
            "unless `token_file` or `issuer` is set."
        )
    return FOUND
