"""The options that commands have in common, and opening what they name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thumbindex.errors import UsageError
from thumbindex.opening import OpenOptions, enclosing_folder, open_library
from thumbindex.present.exit_codes import print_error

if TYPE_CHECKING:
    from thumbindex.library import Library

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON; docs/schema describes it.")]

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="TABLE.KEY=VALUE", help="One setting; repeatable."),
]

_OPTIONS: dict[str, Any] = {
    "folder": Annotated[
        list[str] | None,
        typer.Option(
            "--folder", metavar="DIR", help="A folder, or a configured folder's name; repeatable."
        ),
    ],
    "index": Annotated[
        Path | None,
        typer.Option(
            "--index", metavar="DIR", help="The directory that holds the indexes, one a folder."
        ),
    ],
    "config": Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="A configuration file, over the user's and the folder's own.",
        ),
    ],
    "overrides": SetOption,
}
_ENGINE = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="URL",
        help="Ask the folders that are published to this database, as postgresql://host/name.",
    ),
]
_GROUP = "thumbindex.opening"


def opening_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name what is to be opened, in place of its second parameter;
    a group's are its commands' too.
    """
    return _taking(command, _OPTIONS)


def opening_or_engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Do the same for a command that can as well ask the folders that are published to a database:
    to the configured one where none is named.
    """
    return _taking(command, {**_OPTIONS, "engine": _ENGINE})


def _taking(command: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    signature = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def run(ctx: typer.Context, **given: Any) -> Any:
        folder, index, config, overrides, *engine = (given.pop(name) for name in options)
        named = OpenOptions(
            tuple(folder or ()),
            index,
            config,
            tuple(overrides or ()),
            engine[0] or "" if engine else None,
        )
        group = ctx.meta.get(_GROUP, OpenOptions())
        if group.engine and not engine:
            raise UsageError(
                "That is done where the folders are indexed, not in the database that they "
                "are published to: leave --engine out."
            )
        opening = ctx.meta[_GROUP] = named.over(group)
        return command(ctx, opening, **given)

    ctx, _, *own = signature.parameters.values()
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in options.items()
    ]
    run.__signature__ = signature.replace(parameters=[ctx, *own, *added])  # type: ignore[attr-defined]
    return run


def open_for(ctx: typer.Context, opening: OpenOptions) -> AbstractContextManager[Library]:
    """Open the folders that are named, else the one around the current directory, and say which
    that is.
    """
    return open_named(ctx, with_enclosing_folder(opening))


def with_enclosing_folder(opening: OpenOptions) -> OpenOptions:
    """Return the opening of the folder around the current directory where none is named, and say
    which that is.
    """
    chosen, said = enclosing_folder(opening)
    if said:
        print_error(said, color=None)
    return chosen


def open_named(ctx: typer.Context, opening: OpenOptions) -> AbstractContextManager[Library]:
    """Open just what an opening names, with what the caller of the program brought along (a test
    brings models of its own).
    """
    opener: Callable[[OpenOptions], AbstractContextManager[Library]] = ctx.obj or open_library
    return opener(opening)


SinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar="DATE", help="Only notes of this date (YYYY-MM-DD) or later."),
]
UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="DATE", help="Only notes of this date or earlier.")
]
TagOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tag", metavar="T", help="Only notes with this tag; repeatable, all must be there."
    ),
]
AlsoOption = Annotated[
    list[str] | None,
    typer.Option(
        "--also", metavar="WORDS", help="Other words for the question; repeatable, up to four."
    ),
]
PassageOption = Annotated[
    str,
    typer.Option(
        "--passage", metavar="ANSWER", help="The answer as it might read, a sentence or two."
    ),
]
GlobOption = Annotated[
    list[str] | None,
    typer.Option("--path", metavar="GLOB", help="Only notes at these paths; repeatable."),
]
