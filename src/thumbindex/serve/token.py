"""The command `token`: makes a token for a client of `serve --http`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thumbindex.errors import UsageError
from thumbindex.serve.opening import Opening
from thumbindex.serve.options import JsonOption, takes_opening
from thumbindex.serve.outcome import FOUND, reported, say_error
from thumbindex.serve.render import print_json
from thumbindex.serve.tokens import add_token


@reported
@takes_opening
def token(
    ctx: typer.Context,
    opening: Opening,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is, as in `tokens` of a folder.")],
    token_file: Annotated[Path | None, typer.Option("--token-file", metavar="FILE", help="Where its hash is written.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Make a token for a client of `serve --http` and print it, this once: the file keeps its hash alone."""
    configured = opening.load().serve.http.token_file
    if token_file is None and not configured:
        raise UsageError("No token file is named: give --token-file FILE, or set `serve.http.token_file`.")
    path = (token_file or Path(configured)).expanduser()
    made = add_token(path, name)
    if as_json:
        print_json({"name": name, "token": made, "token_file": str(path)})
    else:
        typer.echo(made)
        say_error(f"Its hash is in {path}; the token itself is kept nowhere. A client sends it as `Authorization: Bearer`.")
    return FOUND
