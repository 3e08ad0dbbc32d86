"""One bomb per part of the parser takes linear time and memory at small sizes; `make fuzz` runs
all.
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

pytestmark = pytest.mark.slow

SAMPLE = (
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

MIN_SIZE, MAX_SIZE, MIN_SECONDS = 32_000, 500_000, 0.05
"""Smallest and largest bomb in bytes, and the shortest time that measures growth reliably."""

MAX_GROWTH, TRIES = 9.0, 3
"""Maximum growth of time at four times the size (quadratic would be 16), and repetitions at twice
the size.
"""


def seconds(name: str, size: int) -> float:
    """Return the processor time of parsing a bomb, without garbage collection."""
    data = BOMBS[name](Random(1), size)
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        parse_document("a.md", data, CorpusSettings())
        return time.process_time() - start
    finally:
        gc.enable()


@pytest.mark.parametrize("name", SAMPLE)
def test_parsing_a_bomb_takes_linear_time(name: str) -> None:
    seconds(name, MIN_SIZE // 4)  # warms up imports
    size, elapsed = MIN_SIZE, seconds(name, MIN_SIZE)
    while elapsed < MIN_SECONDS and size < MAX_SIZE:
        size = min(MAX_SIZE, int(size * max(1.5, MIN_SECONDS / max(elapsed, 1e-3))))
        elapsed = seconds(name, size)
    growth = elapsed / seconds(name, size // 4) if elapsed >= MIN_SECONDS else 0.0
    for double in (size * 2**n for n in range(1, TRIES)):
        if growth >= MAX_GROWTH:
            growth = seconds(name, double) / seconds(name, double // 4)
    assert growth < MAX_GROWTH


@pytest.mark.parametrize("name", ["lines of one letter", "a billion laughs", "tags"])
def test_parsing_a_bomb_takes_linear_memory(name: str) -> None:
    data = BOMBS[name](Random(1), MIN_SIZE)
    tracemalloc.start()
    try:
        parse_document("a.md", data, CorpusSettings())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 * len(data)
