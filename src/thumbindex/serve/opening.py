"""What a caller asked to open: folders, index and configuration, the same from a command line, a server and its child."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from thumbindex.config import load_config
from thumbindex.settings import Config, QuerySettings

if TYPE_CHECKING:
    from thumbindex.library import Library


@dataclass(frozen=True, slots=True)
class Opening:
    """The options that every command takes."""

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


WITH_VOCABULARY = Opening(overrides=(f"query.skip={','.join(QuerySettings().with_stages('expand').skip)}",))
"""An index holds the vocabulary that `expand` needs only where it was opened with `expand` on."""


def open_library(opening: Opening) -> Library:
    """Open the library that an opening describes."""
    # Imported here: the handshake and `--help` must not pay for the rooms behind it.
    from thumbindex.library import Library

    return Library.open(opening.folder, index=opening.index, config=opening.load(), wait_for_models=False)


def open_models(opening: Opening) -> Library:
    """Open no folder at all: for what needs but the models and settings of an opening."""
    from thumbindex.library import Library

    return Library((), opening.load())


def open_everywhere(opening: Opening) -> Library:
    """Open the indexes in the index directory: those that the opening names by folder path or name, else all."""
    from thumbindex.library import Library

    return Library.everywhere(index=opening.index, config=opening.load(), only=opening.folder)
