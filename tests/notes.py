"""Generate any number of notes, reproducibly by seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

FOLDERS = 20
"""Number of folders in a generated vault."""

VOCABULARY = 5000
"""Number of different words in a generated vault."""

_SYLLABLES = "ba co da fe gi ho ju ka le mi no pa qui ra se ti vu wo xa ze".split()


class Author:
    """Writes notes with sections of eight sentences; `vocabulary` is Zipf-distributed, by rank."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self.vocabulary = sorted(
            {
                "".join(self._random.choices(_SYLLABLES, k=self._random.randint(2, 4)))
                for _ in range(VOCABULARY)
            }
        )
        self._random.shuffle(self.vocabulary)
        self._weights = tuple(accumulate(1 / rank for rank in range(1, len(self.vocabulary) + 1)))

    def write_note(self, number: int, notes: int, characters: int) -> str:
        """Return a note of about `characters` characters, with a link in each section."""
        parts = [f"# Note {number}\n"]
        length = len(parts[0])
        while length < characters:
            link = f"See [[note {self._random.randrange(notes)}]]."
            parts.append(
                f"\n## {' '.join(self._some(3))}\n\n"
                f"{' '.join(self._sentence() for _ in range(8))} {link}\n"
            )
            length += len(parts[-1])
        return "".join(parts)

    def _sentence(self) -> str:
        return f"{' '.join(self._some(self._random.randint(5, 15))).capitalize()}."

    def _some(self, count: int) -> Sequence[str]:
        return self._random.choices(self.vocabulary, cum_weights=self._weights, k=count)


def note_path(root: Path, number: int) -> Path:
    """Return the path of a note in a generated vault."""
    return root / f"folder {number % FOLDERS}" / f"note {number}.md"


def make_vault(root: Path, notes: int, characters: int) -> Author:
    """Write a vault; return its author, which can write more notes."""
    author = Author()
    for number in range(notes):
        write(note_path(root, number), author.write_note(number, notes, characters))
    return author


def write(path: Path, text: str) -> None:
    """Write a note; create its folder if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
