"""Notes by the thousand: made up ones, and variants of real ones; the same for the same seed."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, count
from pathlib import Path

FOLDERS = 20
"""Folders of a made up vault."""

VOCABULARY = 5000
"""Words of a made up vault."""

HEAPS = 0.6
"""How vocabularies grow: as this power of the text's length (Heaps 1978; 0.4 to 0.6 in English)."""

RARE = 2
"""A variant renames words that stand in the notes at most so often: new notes bring words of their
own.
"""

_SYLLABLES = "ba co da fe gi ho ju ka le mi no pa qui ra se ti vu wo xa ze".split()
_ENDINGS = (
    "bel cor dan fim gul hest jor kav lun mer nop quil rost sev tam vod wix yar zen pru".split()
)
_WORD = re.compile(r"[^\W\d_]{4,}")
_FENCE = re.compile(r"\s*(```|~~~)")


class Author:
    """Writes notes: words as frequent as words are (Zipf), the most frequent first in `vocabulary`;
    sections of eight sentences.
    """

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
        """Return a note's Markdown of about so many characters, with a link to another note in each
        section.
        """
        parts = [f"# Note {number}\n"]
        written = len(parts[0])
        while written < characters:
            link = f"See [[note {self._random.randrange(notes)}]]."
            parts.append(
                f"\n## {' '.join(self._some(3))}\n\n"
                f"{' '.join(self._sentence() for _ in range(8))} {link}\n"
            )
            written += len(parts[-1])
        return "".join(parts)

    def _sentence(self) -> str:
        return f"{' '.join(self._some(self._random.randint(5, 15))).capitalize()}."

    def _some(self, count: int) -> Sequence[str]:
        return self._random.choices(self.vocabulary, cum_weights=self._weights, k=count)


def note_path(root: Path, number: int) -> Path:
    """Return where a note of a made up vault lies."""
    return root / f"folder {number % FOLDERS}" / f"note {number}.md"


def make_vault(root: Path, notes: int, characters: int) -> Author:
    """Write a vault; return its author, who can go on writing."""
    author = Author()
    for number in range(notes):
        write(note_path(root, number), author.write_note(number, notes, characters))
    return author


def write(path: Path, text: str) -> None:
    """Write a note; make its folder where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def make_variants(notes: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield paths and texts of new notes without end: the first `len(notes)` are the first copies
    of all notes, and so on.

    Each has a real note's front matter and headings over paragraphs of any. In each copy such a
    share of the rare words is renamed that all copies so far have as many words as Heaps' law says.
    """
    cut = [split_paragraphs(text) for _, text in notes]
    paragraphs = [part for parts in cut for part in parts if not _stays(part)]
    words = Counter(word for _, text in notes for word in _WORD.findall(text))
    rare = {word for word, times in words.items() if times <= RARE}
    for number in count():
        copy, at = divmod(number, len(notes))
        chance = random.Random(number)
        dealt = [
            part if _stays(part) or not paragraphs else chance.choice(paragraphs)
            for part in cut[at]
        ]
        # the real notes are the first text
        wanted = len(words) * ((copy + 2) ** HEAPS - (copy + 1) ** HEAPS)
        yield (
            f"variant {copy + 1}/{notes[at][0]}",
            _renamed("\n\n".join(dealt), rare, copy, wanted / max(1, len(rare))) + "\n",
        )


def split_paragraphs(text: str) -> tuple[str, ...]:
    """Split Markdown at blank lines, those in a fence of code and in front matter aside."""
    parts: list[list[str]] = [[]]
    within = ""
    for number, line in enumerate(text.splitlines()):
        mark = (
            "---"
            if line == "---" and (number == 0 or within == "---")
            else found[1]
            if (found := _FENCE.match(line))
            else ""
        )
        if mark and within in ("", mark):
            within = "" if within else mark
        if line.strip() or within:
            parts[-1].append(line)
        elif parts[-1]:
            parts.append([])
    return tuple("\n".join(part) for part in parts if part)


def _stays(part: str) -> bool:
    """Tell whether a paragraph is front matter or a heading."""
    return part.startswith(("---\n", "#"))


def _renamed(text: str, rare: Collection[str], copy: int, share: float) -> str:
    """Rename a share of the rare words of a text, drawn by the word and the copy."""

    def rename(found: re.Match[str]) -> str:
        word = found[0]
        drawn = hashlib.blake2b(f"{copy} {word}".encode(), digest_size=8).digest()
        if word not in rare or int.from_bytes(drawn[:4]) >= share * 2**32:
            return word
        return word + "".join(_ENDINGS[byte % len(_ENDINGS)] for byte in drawn[4:7])

    return _WORD.sub(rename, text)
