"""As many notes as are wanted, made of a folder's own: paragraphs dealt anew, rare words renamed as fast as real vocabularies grow."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import count

HEAPS = 0.6
"""How vocabularies grow: as this power of the text's length (Heaps 1978; 0.4 to 0.6 in English)."""

RARE = 2
"""Words that stand in the notes at most so often are what new notes bring of their own."""

_WORD = re.compile(r"[^\W\d_]{4,}")
_FENCE = re.compile(r"\s*(```|~~~)")
_SYLLABLES = "bel cor dan fim gul hest jor kav lun mer nop quil rost sev tam vod wix yar zen pru".split()


class Variants:
    """Makes note after note: the first as many as there are of the real ones are their first copies, and so on; the same for the same notes."""

    def __init__(self, notes: Sequence[tuple[str, str]]) -> None:
        self._notes = notes
        self._parts = [split_paragraphs(text) for _, text in notes]
        self._paragraphs = [part for parts in self._parts for part in parts if not _stays(part)]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield path and text without end."""
        return (self.make(number) for number in count())

    def make(self, number: int) -> tuple[str, str]:
        """Return the path and text of one note: a real one's front matter and headings over paragraphs of any."""
        copy, at = divmod(number, len(self._notes))
        chance = random.Random(number)
        parts = [part if _stays(part) or not self._paragraphs else chance.choice(self._paragraphs) for part in self._parts[at]]
        return f"variant {copy + 1}/{self._notes[at][0]}", self._renamed("\n\n".join(parts), copy) + "\n"

    @cached_property
    def _counts(self) -> Counter[str]:
        return Counter(word for _, text in self._notes for word in _WORD.findall(text))

    @cached_property
    def _rare(self) -> frozenset[str]:
        return frozenset(word for word, times in self._counts.items() if times <= RARE)

    def _renamed(self, text: str, copy: int) -> str:
        """Rename such a share of the rare words in a copy that all copies so far have as many words as Heaps' law says."""
        wanted = len(self._counts) * ((copy + 2) ** HEAPS - (copy + 1) ** HEAPS)  # the real notes are the first text
        share = min(1.0, wanted / max(1, len(self._rare)))
        return _WORD.sub(lambda found: _rename(found[0], copy, share) if found[0] in self._rare else found[0], text)


def split_paragraphs(text: str) -> tuple[str, ...]:
    """Split Markdown at blank lines, those in a fence of code and in front matter aside."""
    parts: list[list[str]] = [[]]
    within = ""
    for number, line in enumerate(text.splitlines()):
        mark = "---" if line == "---" and (number == 0 or within == "---") else found[1] if (found := _FENCE.match(line)) else ""
        if mark and within in ("", mark):
            within = "" if within else mark
        if line.strip() or within:
            parts[-1].append(line)
        elif parts[-1]:
            parts.append([])
    return tuple("\n".join(part) for part in parts if part)


def _stays(part: str) -> bool:
    """Tell whether a paragraph is front matter or a heading, by which a note is what it is."""
    return part.startswith(("---\n", "#"))


def _rename(word: str, copy: int, share: float) -> str:
    drawn = hashlib.blake2b(f"{copy} {word}".encode(), digest_size=8).digest()
    if int.from_bytes(drawn[:4]) >= share * 2**32:
        return word
    return word + "".join(_SYLLABLES[byte % len(_SYLLABLES)] for byte in drawn[4:7])
