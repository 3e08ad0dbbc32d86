"""The options that commands share, and how to open the folders that they name."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thumbindex.errors import UsageError
from thumbindex.model import read_day
from thumbindex.opening import OpenOptions, enclosing_folder, open_library
from thumbindex.present.exit_codes import print_error

if TYPE_CHECKING:
    from thumbindex.library import Library

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON, as described in docs/schema.")
]

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Override one setting; repeatable."),
]

_OPTIONS: dict[str, Any] = {
    "folder": Annotated[
        list[str] | None,
        typer.Option(
            "--folder",
            "-f",
            metavar="DIR",
            help="A folder, or a configured folder's name; repeatable.",
        ),
    ],
    "index": Annotated[
        Path | None,
        typer.Option(
            "--index", metavar="DIR", help="The directory with the indexes, one per folder."
        ),
    ],
    "config": Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="A configuration file that overrides your own and the folder's.",
        ),
    ],
    "overrides": SetOption,
}
_ENGINE = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="URL",
        help="The database of published folders, such as postgresql://host/name.",
    ),
]
_GROUP = "thumbindex.opening"


def opening_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Replace a command's second parameter with the options --folder, --index, --config and --set.

    Options of a command group also apply to its subcommands.
    """
    return _with_options(command, _OPTIONS)


def opening_or_engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `opening_options`, and --engine (default: the configured database)."""
    return _with_options(command, {**_OPTIONS, "engine": _ENGINE})


def _with_options(command: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    signature = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def run(ctx: typer.Context, **arguments: Any) -> Any:
        folder, index, config, overrides, *engine = (arguments.pop(name) for name in options)
        options_given = OpenOptions(
            tuple(folder or ()),
            index,
            config,
            tuple(overrides or ()),
            engine[0] or "" if engine else None,
        )
        group = ctx.meta.get(_GROUP, OpenOptions())
        if group.engine and not engine:
            raise UsageError(
                "This command works on the machine that indexes the folders, not on a database: "
                "omit --engine."
            )
        opening = ctx.meta[_GROUP] = options_given.over(group)
        return command(ctx, opening, **arguments)

    ctx, _, *parameters = signature.parameters.values()
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in options.items()
    ]
    run.__signature__ = signature.replace(parameters=[ctx, *parameters, *added])  # type: ignore[attr-defined]
    return run


def open_for(ctx: typer.Context, opening: OpenOptions) -> AbstractContextManager[Library]:
    """Open the folders that the options name.

    If they name none, open the indexed folder that contains the current directory, and report it.
    """
    return open_named(ctx, with_enclosing_folder(opening))


def with_enclosing_folder(opening: OpenOptions) -> OpenOptions:
    """Select the enclosing folder if no folder is named, and report the selection."""
    chosen, message = enclosing_folder(opening)
    if message:
        print_error(message, color=None)
    return chosen


def open_named(ctx: typer.Context, opening: OpenOptions) -> AbstractContextManager[Library]:
    """Open the folders that the options name, with the opener in `ctx.obj` if it is set."""
    opener: Callable[[OpenOptions], AbstractContextManager[Library]] = ctx.obj or open_library
    return opener(opening)


_AGO = re.compile(r"(\d{1,3})([dwmy])")
_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}
_WORDS = {"today": "0d", "yesterday": "1d"}


def _read_day(param: typer.CallbackParam, value: str | None) -> str | None:
    """Return the ISO date of a day, month or year, also of `today`, `yesterday` or `7d` ago."""
    if match := _AGO.fullmatch(_WORDS.get(value or "", value or "")):
        return str(date.today() - timedelta(int(match[1]) * _DAYS[match[2]]))
    try:
        day = read_day(param.name or "", value)
    except UsageError as error:
        raise typer.BadParameter(
            f"{value!r}: write a date such as 2026-01-31, 2026-01, yesterday or 7d."
        ) from error
    return str(day) if day else None


SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="DATE",
        callback=_read_day,
        help="Only notes of this date or later: 2026-01-31, 2026-01, yesterday, 7d (days; also w, "
        "m, y).",
    ),
]
UntilOption = Annotated[
    str | None,
    typer.Option(
        "--until", metavar="DATE", callback=_read_day, help="Only notes of this date or earlier."
    ),
]
TagOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tag", metavar="T", help="Only notes with this tag; repeatable (all must match)."
    ),
]
AlsoOption = Annotated[
    list[str] | None,
    typer.Option(
        "--also", metavar="WORDS", help="A rewording of the question; repeatable, up to four."
    ),
]
PassageOption = Annotated[
    str,
    typer.Option(
        "--passage", metavar="ANSWER", help="A guess at the answer, in a sentence or two."
    ),
]
VerbatimOption = Annotated[
    bool,
    typer.Option(
        "--verbatim", help="Search for the words as typed: no corrected spelling, no other forms."
    ),
]
RetiredOption = Annotated[
    bool,
    typer.Option("--retired", help="Rank superseded, deprecated and expired notes like others."),
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Only notes whose properties match, such as status:doing, 'rating>=4', "
        "'due<2026-12-01', has:due or -status:done; repeatable (all must match).",
    ),
]
GlobOption = Annotated[
    list[str] | None,
    typer.Option(
        "--path",
        metavar="GLOB",
        help="Only notes whose path matches, or that are in a directory of this name; repeatable.",
    ),
]
