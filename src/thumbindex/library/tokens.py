"""What it would cost to read a note, told without reading it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from thumbindex.library.reader import Reader
from thumbindex.model import Passage

_SAMPLE = 4_000
"""Characters of a passage that tell how many bytes of its note a token stands for."""

_DIGITS = 2
"""Digits of an estimate that are more than noise."""


def note_tokens(passages: Sequence[Passage], readers: Sequence[Reader], count: Callable[[str], int]) -> dict[tuple[str, str], int]:
    """Return about how many tokens whole notes have, by folder and path: from their files' sizes, and what a token is in the passages."""
    sizes = {
        (reader.folder.name, path): size
        for reader in readers
        if reader.indexed
        for path, size in reader.store.sizes({each.path for each in passages if each.folder == reader.folder.name}).items()
    }
    samples = {(each.folder, each.path): each.text[:_SAMPLE] for each in reversed(passages)}  # the best one's last
    return {place: _rounded(size * _density(samples[place], count)) for place, size in sizes.items()}


def _density(sample: str, count: Callable[[str], int]) -> float:
    """Return the tokens of a byte."""
    size = len(sample.encode("utf-8", "replace"))
    return count(sample) / size if size else 0.0


def _rounded(tokens: float) -> int:
    return round(round(tokens), min(0, _DIGITS - len(str(round(tokens)))))
