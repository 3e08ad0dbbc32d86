"""The folders, index and configuration that a command or a server opens."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thumbindex import library
from thumbindex.config import (
    NO_ROOT,
    configured_roots,
    load_config,
    real_folder,
    resolve_folders,
    with_folder_file,
)
from thumbindex.errors import UnknownFolderError, UsageError
from thumbindex.settings import Config
from thumbindex.text import one_line

if TYPE_CHECKING:
    from thumbindex.library import Library


_ENGINE_URL = "engine.url="
"""The setting that is kept from children, and from what is printed of an opening."""


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """Folders, index and configuration: the options that every command takes, a server and its
    child too.
    """

    folder: tuple[str, ...] = ()
    index: Path | None = None
    config: Path | None = None
    overrides: tuple[str, ...] = ()
    # the database that is asked, empty the configured one; None where only an index on this machine
    # will do
    engine: str | None = None

    def arguments(self) -> list[str]:
        """Return the same as command line arguments, for a child process; it is not told of a
        database, whose password others would see there.
        """
        overrides = [
            override for override in self.overrides if not override.startswith(_ENGINE_URL)
        ]
        given = [
            *(("--folder", each) for each in self.folder),
            *(("--set", override) for override in overrides),
        ]
        given += [("--index", str(self.index))] if self.index else []
        given += [("--config", str(self.config))] if self.config else []
        return [f"{name}={value}" for name, value in given]

    def command(self, name: str) -> str:
        """Return how a command over the same is typed where this was."""
        written = (argument.partition("=") for argument in self.arguments())
        return " ".join(
            [
                f"thumbindex {name}",
                *(f"{option} {shlex.quote(value)}" for option, _, value in written),
            ]
        )

    @classmethod
    def from_arguments(cls, arguments: Sequence[str]) -> OpenOptions:
        """Return what `arguments` wrote."""
        given: dict[str, list[str]] = {}
        for name, _, value in (argument.partition("=") for argument in arguments):
            given.setdefault(name, []).append(value)
        (index, config) = (
            Path(given[name][-1]) if name in given else None for name in ("--index", "--config")
        )
        return cls(tuple(given.get("--folder", ())), index, config, tuple(given.get("--set", ())))

    def over(self, group: OpenOptions) -> OpenOptions:
        """Return what this names, what a group of commands names where this names nothing."""
        overrides = (*group.overrides, *self.overrides)
        engine = None if self.engine is None else self.engine or group.engine or ""
        return OpenOptions(
            self.folder or group.folder,
            self.index or group.index,
            self.config or group.config,
            overrides,
            engine,
        )

    def load(self) -> Config:
        """Load the configuration; each folder's own file is the library's to take in."""
        return load_config(config_file=self.config, overrides=self.overrides)

    @property
    def database(self) -> str:
        """The address of the database that is asked in place of an index on this machine; empty
        where there is none.
        """
        return "" if self.engine is None else self.engine or self.database_in(self.load())

    def database_in(self, config: Config) -> str:
        """Return the same where the configuration is loaded."""
        return "" if self.engine is None else self.engine or config.engine.url


NameableDirectories = Mapping[Path, Callable[[str], bool]]
"""By folder, what tells whether a directory of its first level may be named."""


def open_library(opening: OpenOptions) -> Library:
    """Open the library that an opening describes."""
    config = opening.load()
    asked: dict[str, Any] = {"engine": url} if (url := opening.database_in(config)) else {}
    return library.Library.open(
        opening.folder, index=opening.index, config=config, wait_for_models=False, **asked
    )


def enclosing_folder(opening: OpenOptions) -> tuple[OpenOptions, str]:
    """Return the opening of the folder around the current directory, the nearest that is configured
    or indexed, and a sentence that says so.

    Where folders are named, or there is none around, it is the same opening, and nothing is said.
    Raises UsageError where none is named or configured and the current directory cannot be meant,
    as a home directory cannot: the index directory lies in it.
    """
    if opening.folder:
        return opening, ""
    config = opening.load()
    if opening.database_in(config):
        return opening, ""
    current, directory = real_folder("."), str(opening.index or config.index.directory)
    configured = configured_roots(config)
    for root in (current, *current.parents):
        with suppress(UsageError):  # an index on a network drive is nobody's
            if (
                root in configured.values()
                or library.index_paths_of(directory, root).store.exists()
            ):
                name = next(
                    (name for name, each in configured.items() if each == root), root.name or "root"
                )
                said = (
                    f"Using the index of {one_line(name)} ({root}): the current directory is part "
                    "of it; --folder names another one."
                )
                return replace(
                    opening, folder=(str(root),)
                ), said if root != current or configured else ""
    try:
        if not configured:
            library.index_paths_of(directory, current)
    except UsageError as error:
        raise UsageError(
            "No folder is named, by --folder DIR or `thumbindex add DIR`, so the current one "
            f"is meant. {error}"
        ) from error
    return opening, ""


def open_everywhere(opening: OpenOptions) -> Library:
    """Open the indexes in the index directory: those that the opening names by folder path or name,
    else all.
    """
    return library.Library.open_all(index=opening.index, config=opening.load(), only=opening.folder)


def named_folders(opening: OpenOptions) -> tuple[tuple[str, Path], ...]:
    """Return name and path of each folder that an opening names; one that is away will do where it
    has an index.
    """
    config = opening.load()
    try:
        return resolve_folders(config, opening.folder)
    except UnknownFolderError:
        directory = str(opening.index or config.index.directory)
        return library.find_folders(config, opening.folder, directory)


def served_folders(
    opening: OpenOptions, config: Config
) -> tuple[tuple[tuple[str, Path], ...], Mapping[str, str]]:
    """Return name and path of each folder that a server answers from, and what the owners of some
    say about them.
    """
    if not opening.database_in(config):
        return named_folders(opening), config.about
    with open_library(opening) as opened:
        said = {each.name: each.config.about.get(each.name, "") for each in opened.opened}
        return opened.folders, {
            **config.about,
            **{name: about for name, about in said.items() if about},
        }


def is_local_path(root: Path) -> bool:
    """Return whether a folder, or a note, lies on this machine, and not in a database."""
    return NO_ROOT not in root.parents


def nameable_directories(
    opening: OpenOptions, folders: tuple[tuple[str, Path], ...]
) -> NameableDirectories:
    """Return which directories of the folders on this machine may be named: none that is
    private.
    """
    config, folders = (
        opening.load(),
        tuple(folder for folder in folders if is_local_path(folder[1])),
    )
    if not any(
        own.blocks_indexing or own.corpus.private.globs
        for own in (with_folder_file(config, root) for _, root in folders)
    ):
        return {}
    return library.directory_filters(folders, config)
