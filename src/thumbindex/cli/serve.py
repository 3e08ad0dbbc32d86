"""The commands `serve`, `page` and `token`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from thumbindex.background.host import Closeable, StartCommandServer
from thumbindex.cli.options import (
    JsonOption,
    opening_options,
    opening_or_engine_options,
    with_enclosing_folder,
)
from thumbindex.cli.terminal import print_json
from thumbindex.errors import UsageError
from thumbindex.mcp.stdio import serve_stdio
from thumbindex.opening import OpenOptions
from thumbindex.present.exit_codes import FOUND, exits_with_code, print_error
from thumbindex.web.token_file import add_token, default_token_file

if TYPE_CHECKING:
    from thumbindex.library import Library


def _command_server(ctx: typer.Context) -> StartCommandServer:
    """Return a function that starts to answer this program's commands from the server's library."""
    return partial(_start_command_server, ctx.find_root().command)


def _start_command_server(program: Any, opened: Library) -> Closeable | None:
    # Imported here: the handshake does without.
    from thumbindex.cli.command_server import listen

    return listen(opened, program)


class _WebServers(Protocol):
    serve_http: Callable[..., int]
    serve_page: Callable[..., int]


def _web_servers() -> _WebServers:
    # Imported here: a client that starts `serve` over stdio does not wait for it.
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
            "--http", help="Serve several clients over Streamable HTTP, until a signal ends it."
        ),
    ] = False,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Where --http listens: this machine alone without a token.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65_535, metavar="N", help="The port; 0 takes a free one."
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", metavar="FILE", help="Hashes of tokens, by `thumbindex token`."
        ),
    ] = None,
    page: Annotated[
        bool, typer.Option("--page", help="With --http, serve the page for browsers, too.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="With --http, print the address as JSON; what a server says is JSON anyway.",
        ),
    ] = False,
) -> int:
    """Serve MCP to a client that starts this command.

    It speaks over standard input and output; with --http it serves several clients.
    """
    given = {
        "host": host,
        "port": port,
        "token_file": None if token_file is None else str(token_file),
        "page": page or None,
    }
    given_values = {name: value for name, value in given.items() if value is not None}
    if http:
        return _web_servers().serve_http(
            opening, given_values, _command_server(ctx), as_json=as_json
        )
    if given_values:
        raise UsageError(
            f"--{next(iter(given_values)).replace('_', '-')} is for a server over HTTP: add --http."
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
            help="The port; without it 8378, or a free one.",
        ),
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> int:
    """Show the notes as a page in the browser.

    On this machine alone: ask, read, review copies, judge answers.
    """
    return _web_servers().serve_page(
        with_enclosing_folder(opening),
        port,
        _command_server(ctx),
        opens_browser=not no_browser,
        as_json=as_json,
    )


@exits_with_code
@opening_options
def token(
    ctx: typer.Context,
    opening: OpenOptions,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Whose token it is, as in `tokens` of a folder.")
    ],
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="Where its hash is written; without it, into your configuration.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Make a token for a client of `serve --http`.

    It is printed this once: the file keeps its hash alone.
    """
    configured = opening.load().serve.http.token_file
    path = (token_file or (Path(configured) if configured else default_token_file())).expanduser()
    made = add_token(path, name)
    if as_json:
        print_json({"name": name, "token": made, "token_file": str(path)})
    else:
        typer.echo(made)
        print_error(
            f"Its hash is in {path}; the token itself is kept nowhere. A client sends it as "
            "`Authorization: Bearer`."
        )
        if path == default_token_file():
            print_error(
                "From its next start on, `thumbindex serve --http` asks for a token of this file."
            )
    return FOUND
