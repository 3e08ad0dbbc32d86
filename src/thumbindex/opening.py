"""The folders, index and configuration that a command or a server opens."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
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
)
from thumbindex.errors import UnknownFolderError, UsageError
from thumbindex.settings import Config
from thumbindex.text import one_line

if TYPE_CHECKING:
    from thumbindex.library import Library


_ENGINE_URL = "engine.url="
"""Prefix of an override that sets the database address.

Such an override is never passed to a child process or printed, since the address may contain a
password.
"""


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """Options of commands, servers and indexers: folders, index, configuration and database."""

    folder: tuple[str, ...] = ()
    index: Path | None = None
    config: Path | None = None
    overrides: tuple[str, ...] = ()
    # database address; "": the configured one; None: use an index on this machine
    engine: str | None = None

    def arguments(self) -> list[str]:
        """Return the options as arguments for a child process.

        The database address is left out. It may contain a password, and other users of the machine
        can see arguments.
        """
        overrides = [
            override for override in self.overrides if not override.startswith(_ENGINE_URL)
        ]
        options = [
            *(("--folder", folder) for folder in self.folder),
            *(("--set", override) for override in overrides),
        ]
        options += [("--index", str(self.index))] if self.index else []
        options += [("--config", str(self.config))] if self.config else []
        return [f"{name}={value}" for name, value in options]

    def command(self, name: str, *folders: str) -> str:
        """Return a thumbindex command with these options, quoted for a shell.

        `folders` replace the folders of these options.
        """
        chosen = replace(self, folder=folders or self.folder)
        options = (argument.partition("=") for argument in chosen.arguments())
        return " ".join(
            [
                f"thumbindex {name}",
                *(f"{option} {shlex.quote(value)}" for option, _, value in options),
            ]
        )

    @classmethod
    def from_arguments(cls, arguments: Sequence[str]) -> OpenOptions:
        """Parse the output of `arguments`."""
        values: dict[str, list[str]] = {}
        for name, _, value in (argument.partition("=") for argument in arguments):
            values.setdefault(name, []).append(value)
        (index, config) = (
            Path(values[name][-1]) if name in values else None for name in ("--index", "--config")
        )
        return cls(tuple(values.get("--folder", ())), index, config, tuple(values.get("--set", ())))

    def over(self, group: OpenOptions) -> OpenOptions:
        """Return these options, supplemented by the options of the command group.

        These options take precedence.
        """
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
        """Load the configuration, without the configuration files inside the folders."""
        return load_config(config_file=self.config, overrides=self.overrides)

    @property
    def database(self) -> str:
        """Address of the database, or "" if an index on this machine is used."""
        return "" if self.engine is None else self.engine or self.database_in(self.load())

    def database_in(self, config: Config) -> str:
        """Return `database` for a configuration that is already loaded."""
        return "" if self.engine is None else self.engine or config.engine.url


def open_library(opening: OpenOptions) -> Library:
    """Open a library without waiting for its models."""
    config = opening.load()
    engine: dict[str, Any] = {"engine": url} if (url := opening.database_in(config)) else {}
    return library.Library.open(
        opening.folder, index=opening.index, config=config, wait_for_models=False, **engine
    )


def enclosing_folder(opening: OpenOptions) -> tuple[OpenOptions, str]:
    """Select the nearest configured or indexed folder that contains the current directory.

    Returns the options with this folder, and a message for the user, which may be empty. Options
    that name folders or a database are returned unchanged. Raises UsageError if there are
    no folders and the current directory cannot be indexed.
    """
    if opening.folder:
        return opening, ""
    config = opening.load()
    if opening.database_in(config):
        return opening, ""
    current, directory = real_folder("."), str(opening.index or config.index.directory)
    configured = configured_roots(config)
    for root in (current, *current.parents):
        with suppress(UsageError):  # raised if the index would be on a network drive
            if (
                root in configured.values()
                or library.index_paths_of(directory, root).store.exists()
            ):
                name = next(
                    (name for name, folder in configured.items() if folder == root),
                    root.name or "root",
                )
                message = (
                    f"Using the folder {one_line(name)} ({root}), since it contains the current "
                    "directory. To use another folder, name it with --folder."
                )
                return replace(opening, folder=(str(root),)), message if root != current else ""
    try:
        if not configured:
            library.index_paths_of(directory, current)
    except UsageError as error:
        cause = f" {error}" if opening.index else ""
        raise UsageError(
            f"No folder yet: run `thumbindex add DIR`, or give --folder DIR.{cause}"
        ) from error
    return opening, ""


def open_everywhere(opening: OpenOptions) -> Library:
    """Open the indexes of the named folders, or all indexes in the index directory."""
    return library.Library.open_all(index=opening.index, config=opening.load(), only=opening.folder)


def named_folders(opening: OpenOptions) -> tuple[tuple[str, Path], ...]:
    """Return the name and path of each named folder. Each must exist or have an index."""
    config = opening.load()
    try:
        return resolve_folders(config, opening.folder)
    except UnknownFolderError:
        directory = str(opening.index or config.index.directory)
        return library.find_folders(config, opening.folder, directory)


def served_folders(
    opening: OpenOptions, config: Config
) -> tuple[tuple[tuple[str, Path], ...], Mapping[str, str]]:
    """Return the name and path of each served folder, and the folders' descriptions by name."""
    if not opening.database_in(config):
        return named_folders(opening), config.about
    with open_library(opening) as opened:
        published = {
            folder.name: folder.config.about.get(folder.name, "") for folder in opened.opened
        }
        return opened.folders, {
            **config.about,
            **{name: about for name, about in published.items() if about},
        }


def is_local_path(root: Path) -> bool:
    """Return whether a folder or note is on this machine, not in a database."""
    return NO_ROOT not in root.parents
