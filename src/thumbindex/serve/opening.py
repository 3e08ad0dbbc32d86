"""How each program of ours begins and ends: what a caller asks to open, exit codes, and errors as one line on stderr."""

from __future__ import annotations

import functools
import io
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thumbindex.config import configured_roots, load_config, real_folder, resolve_folders, with_folder_file
from thumbindex.errors import ThumbindexError, UnknownFolderError, UsageError
from thumbindex.process import caller
from thumbindex.settings import Config, QuerySettings
from thumbindex.text import one_line

if TYPE_CHECKING:
    from thumbindex.library import Library


@dataclass(frozen=True, slots=True)
class Opening:
    """Folders, index and configuration: the options that every command takes, a server and its child too."""

    folder: tuple[str, ...] = ()
    index: Path | None = None
    config: Path | None = None
    overrides: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        """Return the same as command line arguments, for a child process."""
        given = [*(("--folder", each) for each in self.folder), *(("--set", each) for each in self.overrides)]
        given += [("--index", str(self.index))] if self.index else []
        given += [("--config", str(self.config))] if self.config else []
        return [f"{name}={value}" for name, value in given]

    @classmethod
    def from_arguments(cls, arguments: Sequence[str]) -> Opening:
        """Return what `arguments` wrote."""
        given: dict[str, list[str]] = {}
        for name, _, value in (each.partition("=") for each in arguments):
            given.setdefault(name, []).append(value)
        (index, config) = (Path(given[name][-1]) if name in given else None for name in ("--index", "--config"))
        return cls(tuple(given.get("--folder", ())), index, config, tuple(given.get("--set", ())))

    def over(self, group: Opening) -> Opening:
        """Return what this names, what a group of commands names where this names nothing."""
        overrides = (*group.overrides, *self.overrides)
        return Opening(self.folder or group.folder, self.index or group.index, self.config or group.config, overrides)

    def load(self) -> Config:
        """Load the configuration; each folder's own file is the library's to take in."""
        return load_config(config_file=self.config, overrides=self.overrides)


MayName = Mapping[Path, Callable[[str], bool]]
"""By folder, what tells whether a directory of its first level may be named."""

WITH_VOCABULARY = Opening(overrides=(f"query.skip={','.join(QuerySettings().with_stages('expand').skip)}",))
"""An index holds the vocabulary that `expand` needs only where it was opened with `expand` on."""


def library_class() -> type[Library]:
    """Return the library, imported when it is first needed: the handshake and `--help` do without (`test_help_imports_nothing_heavy`)."""
    from thumbindex.library import Library

    return Library


def open_library(opening: Opening) -> Library:
    """Open the library that an opening describes."""
    return library_class().open(opening.folder, index=opening.index, config=opening.load(), wait_for_models=False)


def enclosing(opening: Opening) -> tuple[Opening, str]:
    """Return the opening of the folder around the current directory, the nearest that is configured or indexed, and a sentence that says so.

    Where folders are named, or there is none around, it is the same opening, and nothing is said.
    """
    if opening.folder:
        return opening, ""
    config, library, current = opening.load(), library_class(), real_folder(".")
    configured = configured_roots(config)
    for root in (current, *current.parents):
        with suppress(UsageError):  # an index on a network drive is nobody's
            if root in configured.values() or library.place_of(str(opening.index or config.index.directory), root).store.exists():
                name = next((name for name, each in configured.items() if each == root), root.name or "root")
                said = f"Using the index of {one_line(name)} ({root}): the current directory is part of it; --folder names another one."
                return replace(opening, folder=(str(root),)), said if root != current or configured else ""
    return opening, ""


def open_models(opening: Opening) -> Library:
    """Open no folder at all: for what needs but the models and settings of an opening."""
    return library_class()((), opening.load())


def open_everywhere(opening: Opening) -> Library:
    """Open the indexes in the index directory: those that the opening names by folder path or name, else all."""
    return library_class().everywhere(index=opening.index, config=opening.load(), only=opening.folder)


def named_folders(opening: Opening) -> tuple[tuple[str, Path], ...]:
    """Return name and path of each folder that an opening names; one that is away will do where it has an index."""
    config = opening.load()
    try:
        return resolve_folders(config, opening.folder)
    except UnknownFolderError:
        return library_class().find_folders(config, opening.folder, str(opening.index or config.index.directory))


def names_allowed(opening: Opening, folders: tuple[tuple[str, Path], ...]) -> MayName:
    """Return which directories of the folders may be named: none that is private."""
    config = opening.load()
    if not any(own.closed or own.corpus.private.globs for own in (with_folder_file(config, root) for _, root in folders)):
        return {}
    return library_class().open_directories(folders, config)


FOUND, NOT_FOUND, WRONG_USE, FAILURE, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes."""


def reported(command: Callable[..., int]) -> Callable[..., None]:
    """Turn what a command returns or raises into an exit code, an error into one line on stderr."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        raise SystemExit(outcome(functools.partial(command, *args, **kwargs)))

    return run


def outcome(command: Callable[[], int]) -> int:
    """Return a command's exit code, with an error reported in one line on stderr."""
    for stream in (sys.stdout, sys.stderr) if caller() is None else ():
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a path may hold bytes that are no UTF-8
    try:
        return command()
    except UsageError as error:
        say_error(str(error))
        return WRONG_USE
    except ThumbindexError as error:
        say_error(str(error))
        return FAILURE
    except KeyboardInterrupt:
        say_error("Interrupted: what is committed stays; the next run goes on from there.")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output is gone (`| head`): at exit the interpreter must not flush into the closed pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FOUND
    except Exception as error:  # the program's one report of what nobody foresaw
        say_error(unforeseen(error))
        return FAILURE


def say_error(message: str, color: str | None = "red") -> None:
    """Print one line on stderr."""
    # Imported here: the child of a server does without (`test_a_child_that_waits_has_loaded_little…`).
    import typer

    asked = caller()
    typer.secho(" ".join(message.split("\n")), asked.stderr if asked else None, fg=color, err=True)


def unforeseen(error: Exception) -> str:
    """Say what nobody foresaw, and where, in one sentence."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"Unexpected {type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno}). Please report this as a bug."
