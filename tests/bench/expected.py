"""A model of a folder: the notes that must and must not be found.

It uses neither the disk nor thumbindex.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

IGNORE_FILES = (".gitignore", ".thumbindexignore")
"""Ignore files of a folder, by increasing precedence."""


@dataclass(frozen=True, slots=True)
class Note:
    """A note: its unique word, and whether its text marks it private."""

    word: str
    is_private: bool = False


@dataclass(slots=True)
class Expected:
    """Notes and ignore files by path, private globs, and all words ever written."""

    notes: dict[str, Note] = field(default_factory=dict)
    rules: dict[str, tuple[str, ...]] = field(default_factory=dict)
    globs: tuple[str, ...] = ()
    words: list[str] = field(default_factory=list)

    def visible(self) -> dict[str, str]:
        """Return the word of each visible note, by path."""
        return {
            path: note.word
            for path, note in sorted(self.notes.items())
            if not (self.is_private(path) or self.is_ignored(path))
        }

    def is_private(self, path: str) -> bool:
        """Return whether a note is private by its text or a glob; this takes effect at once."""
        lowered = [(place.lower(), is_folder) for place, is_folder in _places(path)]
        return self.notes[path].is_private or any(
            _matches(glob.lower(), *place) for glob in self.globs for place in lowered
        )

    def is_ignored(self, path: str) -> bool:
        """Return whether ignore files exclude a note or a folder above it.

        The last matching rule wins; deeper files come after higher ones.
        """
        return any(self._matches_rules(place, is_folder) for place, is_folder in _places(path))

    def move(self, folder: str, target: str) -> None:
        """Move a folder with its notes and ignore files."""

        def moved(path: str) -> str:
            return f"{target}{path.removeprefix(folder)}" if path.startswith(folder) else path

        self.notes = {moved(path): note for path, note in self.notes.items()}
        self.rules = {moved(path): rules for path, rules in self.rules.items()}

    def forget(self, folder: str) -> None:
        """Delete a folder."""
        self.notes = {
            path: note for path, note in self.notes.items() if not path.startswith(folder)
        }
        self.rules = {
            path: rules for path, rules in self.rules.items() if not path.startswith(folder)
        }

    def _matches_rules(self, place: str, is_folder: bool) -> bool:
        ignored = False
        for parent in ["", *(f"{folder}/" for folder, _ in list(_places(place))[:-1])]:
            for rule in (
                rule for name in IGNORE_FILES for rule in self.rules.get(f"{parent}{name}", ())
            ):
                if _matches(rule.lstrip("!"), place.removeprefix(parent), is_folder):
                    ignored = not rule.startswith("!")
        return ignored


def _places(path: str) -> Iterator[tuple[str, bool]]:
    """Yield each parent folder from the top, then the path, with whether it is a folder."""
    parts = path.split("/")
    yield from (("/".join(parts[:n]), n < len(parts)) for n in range(1, len(parts) + 1))


def _matches(rule: str, place: str, is_folder: bool) -> bool:
    """Return whether a simple gitignore rule matches: a leading `/` anchors, a trailing one means a
    folder.
    """
    name = rule.strip("/")
    return (is_folder or not rule.endswith("/")) and fnmatchcase(
        place if rule.startswith("/") else place.rpartition("/")[2], name
    )
