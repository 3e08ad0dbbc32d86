"""The command `why`: what became of a note when a question was asked."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thumbindex.errors import ModelError, UnknownPathError, UsageError
from thumbindex.serve.explained import why_payload
from thumbindex.serve.opening import Opening
from thumbindex.serve.options import JsonOption, check_limit, open_for, read_since, takes_opening
from thumbindex.serve.outcome import FOUND, reported, say_error
from thumbindex.serve.render import print_json, print_why
from thumbindex.serve.tools import replace_surrogates

if TYPE_CHECKING:
    from thumbindex.library import Library


@reported
@takes_opening
def why(
    ctx: typer.Context,
    opening: Opening,
    path: Annotated[str, typer.Argument(metavar="PATH", help="The note, or path#heading.")],
    words: Annotated[list[str], typer.Argument(metavar="QUERY", help="The question that it should answer, in quotes or not.")],
    limit: Annotated[int | None, typer.Option("--limit", metavar="N", help="Passages that were asked for, 1 to 100.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", metavar="T", help="As in `query`; repeatable.")] = None,
    glob: Annotated[list[str] | None, typer.Option("--path", metavar="GLOB", help="As in `query`; repeatable.")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="DATE", help="As in `query`.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Tell why a note is, or is not, among the answers to a question; indexes nothing."""
    check_limit(limit)
    day, text = read_since(since), replace_surrogates(" ".join(words))
    with open_for(ctx, opening) as library:
        _load_models(library)
        ask = partial(library.why, limit=limit, glob=glob or (), tag=tag or (), since=day)
        try:
            found = ask(named_here(path, library), text)
        except UnknownPathError as error:
            raise _swapped(library, path, text) or error from error
        several = len(library.folders) > 1
    if as_json:
        print_json(why_payload(found))
    else:
        print_why(found, several)
    return FOUND


def _swapped(library: Library, path: str, text: str) -> UsageError | None:
    """Return what says that the question came first, where the note that is asked about is named in its place."""
    try:
        library.outline(named_here(text, library).partition("#")[0])
    except UsageError:
        return None
    return UsageError(f"The note comes first, then the question: `thumbindex why {shlex.quote(text)} {shlex.quote(path)}`.")


def _load_models(library: Library) -> None:
    """Load the models where there are vectors to search, as `query` does."""
    try:
        if any(each.state.vectors for each in library.status()):
            library.load_models()
    except ModelError as error:
        say_error(f"{error} Going on without it.")


def named_here(path: str, library: Library) -> str:
    """Return a path as it was given, or the whole of it where it names a folder's file from the current directory only."""
    file, mark, heading = path.partition("#")
    here = Path(file).absolute()
    held = any((root / each).exists() for _, root in library.folders for each in (path, file))
    inside = any(root in (here.parent.resolve() / here.name).parents for _, root in library.folders)
    return f"{here}{mark}{heading}" if inside and here.exists() and not held else path
