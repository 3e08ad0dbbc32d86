"""The commands that stay: the server, and the child that indexes for it. A client waits for their start, so they can do without the others."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from thumbindex.serve.opening import Opening
from thumbindex.serve.options import open_for, takes_opening
from thumbindex.serve.outcome import FOUND, reported
from thumbindex.serve.stdio import serve_stdio
from thumbindex.serve.work import work_for_server

ABOUT = "Answer questions from folders of Markdown with the right passages, cited to the line."

HELP_NAMES = {"help_option_names": ["--help", "-h"]}


@reported
@takes_opening
def serve(
    ctx: typer.Context,
    opening: Opening,
    as_json: Annotated[bool, typer.Option("--json", help="Without effect here: what a server writes is JSON.")] = False,
) -> int:
    """Serve MCP over standard input and output, for a client that starts this command."""
    return serve_stdio(opening)


@reported
@takes_opening
def work(
    ctx: typer.Context,
    opening: Opening,
) -> int:
    """Index for a server until its end of our standard input closes."""
    work_for_server(partial(open_for, ctx, opening))
    return FOUND


app = typer.Typer(name="thumbindex", help=ABOUT, add_completion=False, context_settings=HELP_NAMES, pretty_exceptions_enable=False)
"""The program with these commands alone."""

app.command()(serve)
app.command(hidden=True)(work)
