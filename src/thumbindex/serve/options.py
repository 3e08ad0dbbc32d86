"""The options that commands have in common, and opening what they name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thumbindex.serve.opening import Opening, open_library

if TYPE_CHECKING:
    from thumbindex.library import Library

FolderOption = Annotated[list[str] | None, typer.Option("--folder", metavar="DIR", help="A folder, or a configured folder's name; repeatable.")]
IndexOption = Annotated[Path | None, typer.Option("--index", metavar="DIR", help="The directory that holds the indexes, one a folder.")]
ConfigOption = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="A configuration file, over the user's and the folder's own.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", metavar="TABLE.KEY=VALUE", help="One setting; repeatable.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON; docs/schema describes it.")]


def opening_of(folder: Sequence[str] | None, index: Path | None, config: Path | None, overrides: Sequence[str] | None) -> Opening:
    """Return what a command's options ask to open."""
    return Opening(tuple(folder or ()), index, config, tuple(overrides or ()))


def open_for(ctx: typer.Context, opening: Opening) -> Library:
    """Open with what the caller of the program brought along (a test brings models of its own)."""
    opener: Callable[[Opening], Library] = ctx.obj or open_library
    return opener(opening)
