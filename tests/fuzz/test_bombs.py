"""A bomb for each part of the parser, at small sizes: four times as large it takes four times as
long, in memory by its size. `make fuzz` sets off all of them.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from random import Random

import pytest

from fuzz.bombs import BOMBS
from thumbindex.corpus.parse import parse_document
from thumbindex.settings import CorpusSettings

ONE_OF_EACH_PART = (
    "lines of one letter",
    "headings",
    "quotes and lists",
    "rows of a table",
    "brackets",
    "images in links, paragraph by paragraph",
    "wikilinks never closed",
    "tags",
    "comments",
    "a billion laughs",
    "TOML, one number",
    "tags that hide beside code",
    "almost private, below titles",
)

SMALL, MOST, LEAST = 32_000, 500_000, 0.05
"""Bytes to begin with, the most; and seconds from which on a clock tells how times grow: what takes
them by the square of its size takes 0.003 at a quarter of it.
"""

GROWTH, TRIES = 9.0, 3
"""Four times the size may take so many times as long: the square of it would be sixteen. What a
busy machine adds is not there at twice the size again.
"""


def seconds(name: str, size: int) -> float:
    """Return the processor time of reading a bomb, without the collector of garbage, which looks at
    all that other tests have left.
    """
    data = BOMBS[name](Random(1), size)
    gc.collect()
    gc.disable()
    try:
        began = time.process_time()
        parse_document("a.md", data, CorpusSettings())
        return time.process_time() - began
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ONE_OF_EACH_PART)
def test_a_bomb_takes_time_by_its_size_and_not_by_the_square_of_it(name: str) -> None:
    seconds(name, SMALL // 4)  # imports what the first note needs
    size, took = SMALL, seconds(name, SMALL)
    while took < LEAST and size < MOST:
        size = min(MOST, int(size * max(1.5, LEAST / max(took, 1e-3))))
        took = seconds(name, size)
    growth = took / seconds(name, size // 4) if took >= LEAST else 0.0
    for double in (size * 2**n for n in range(1, TRIES)):
        if growth >= GROWTH:
            growth = seconds(name, double) / seconds(name, double // 4)
    assert growth < GROWTH


@pytest.mark.parametrize("name", ["lines of one letter", "a billion laughs", "tags"])
def test_a_bomb_takes_memory_by_its_size(name: str) -> None:
    data = BOMBS[name](Random(1), SMALL)
    tracemalloc.start()
    try:
        parse_document("a.md", data, CorpusSettings())
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 200 * len(data)
