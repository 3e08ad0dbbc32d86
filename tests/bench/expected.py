"""The model of a folder: what was done to it, and so what must be found in it.

No disk, no index, nothing of thumbindex.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

IGNORE_FILES = (".gitignore", ".thumbindexignore")
"""By weight in one folder, the weightier last."""


@dataclass(frozen=True, slots=True)
class Note:
    """What stands in one note: a word that no other text ever had, and whether the text says that
    it is private.
    """

    word: str
    is_private: bool = False


@dataclass(slots=True)
class Expected:
    """Notes and ignore files by path, the private globs that hold, and every word that a text ever
    had.
    """

    notes: dict[str, Note] = field(default_factory=dict)
    rules: dict[str, tuple[str, ...]] = field(default_factory=dict)
    globs: tuple[str, ...] = ()
    words: list[str] = field(default_factory=list)

    def visible(self) -> dict[str, str]:
        """Return the word of each note that everybody may find, by path."""
        return {
            path: note.word
            for path, note in sorted(self.notes.items())
            if not (self.is_private(path) or self.is_left_out(path))
        }

    def is_private(self, path: str) -> bool:
        """Tell whether nobody may find a note, from the very moment that it is so: its text or a
        glob says it.
        """
        lowered = [(place.lower(), is_folder) for place, is_folder in _places(path)]
        return self.notes[path].is_private or any(
            _matches(glob.lower(), *place) for glob in self.globs for place in lowered
        )

    def is_left_out(self, path: str) -> bool:
        """Tell whether ignore files leave a note, or a folder above it, out: the last rule that
        matches decides, deeper files after higher ones.
        """
        return any(self._is_ignored(place, is_folder) for place, is_folder in _places(path))

    def move(self, folder: str, to: str) -> None:
        """Move a folder with its notes and ignore files."""

        def moved(path: str) -> str:
            return f"{to}{path.removeprefix(folder)}" if path.startswith(folder) else path

        self.notes = {moved(path): note for path, note in self.notes.items()}
        self.rules = {moved(path): rules for path, rules in self.rules.items()}

    def forget(self, folder: str) -> None:
        """Delete a folder."""
        self.notes = {
            path: note for path, note in self.notes.items() if not path.startswith(folder)
        }
        self.rules = {
            path: each for path, each in self.rules.items() if not path.startswith(folder)
        }

    def _is_ignored(self, place: str, is_folder: bool) -> bool:
        said = False
        for above in ["", *(f"{folder}/" for folder, _ in list(_places(place))[:-1])]:
            for rule in (
                rule for name in IGNORE_FILES for rule in self.rules.get(f"{above}{name}", ())
            ):
                said = (
                    not rule.startswith("!")
                    if _matches(rule.lstrip("!"), place.removeprefix(above), is_folder)
                    else said
                )
        return said


def _places(path: str) -> Iterator[tuple[str, bool]]:
    """Yield each folder on the way to a path, the highest first, then the path itself; and whether
    it is a folder.
    """
    parts = path.split("/")
    yield from (("/".join(parts[:n]), n < len(parts)) for n in range(1, len(parts) + 1))


def _matches(rule: str, place: str, is_folder: bool) -> bool:
    """Tell whether a rule of git's names a place: `/` before it means right here, `/` behind it a
    folder; in between there is none.
    """
    name = rule.strip("/")
    return (is_folder or not rule.endswith("/")) and fnmatchcase(
        place if rule.startswith("/") else place.rpartition("/")[2], name
    )
