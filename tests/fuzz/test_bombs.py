"""Each bomb at small sizes: four times as large it takes four times as long, in memory by its size;
`make bombs` takes them whole.
"""

from __future__ import annotations

import gc
import json
import time
import tracemalloc
from collections.abc import Callable
from random import Random

import pytest

from fuzz.bombs import BOMBS
from thumbindex.corpus.parse import parse_document
from thumbindex.settings import CorpusSettings

SMALL, MOST = 32_000, 1_000_000

LEAST = 0.05
"""Seconds from which on a clock tells how times grow: what takes them by the square of its size
takes 0.003 at a quarter of it.
"""

TRIES = 4

GROWTH = 9.0
"""Four times the size may take so many times as long: the square of it would be sixteen."""


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Import what is imported at the first note, as the splitter of sentences."""
    parse_document(
        "a.md", b"---\na: 1\n---\n" + b"a" * 600 + b" b. C\n\n\n\n" + b"a" * 600, CorpusSettings()
    )


def seconds(name: str, size: int) -> float:
    """Return how long a bomb takes to be read, without the collection of garbage, which looks at
    all that other tests have left, too.
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


def growth(read: Callable[[int], float]) -> float:
    """Return how many times as long a size takes as a quarter of it, where it takes long enough; 0
    where none does up to 1 MB.

    Where it is too many times, twice the size is tried: a square shows at each, what a busy machine
    adds, or one odd piece, does not.
    """
    size, took = SMALL, read(SMALL)
    while took < LEAST and size < MOST:
        size = min(MOST, int(size * max(1.5, LEAST / took)))
        took = read(size)
    found = took / read(size // 4) if took >= LEAST else 0.0
    for double in (size * 2**n for n in range(1, TRIES)):
        if found < GROWTH:
            break
        found = read(double) / read(double // 4)
    return found


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_takes_time_by_its_size_and_not_by_the_square_of_it(name: str) -> None:
    assert growth(lambda size: seconds(name, size)) < GROWTH


def test_a_reader_that_takes_14_seconds_for_5_megabytes_by_their_square_is_seen() -> None:
    assert growth(lambda size: 0.05 * size / 1e6 + 14 * (size / 5e6) ** 2) > GROWTH
    assert growth(lambda size: 2 * size / 1e6) == pytest.approx(4, rel=0.001)
    assert growth(lambda size: 0.01 * size / 1e6) == 0


@pytest.mark.parametrize(
    "name",
    [
        "lines of one letter",
        "headings",
        "brackets",
        "a billion laughs",
        "YAML of anchors",
        "TOML, one number",
        "tags",
    ],
)
def test_a_bomb_takes_memory_by_its_size(name: str) -> None:
    data = BOMBS[name](Random(1), SMALL)
    tracemalloc.start()
    try:
        parsed = parse_document("a.md", data, CorpusSettings())
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # of lines of one letter 400: what is whole is bounded by lines and headings
    assert most < 1000 * len(data)
    json.dumps(parsed.document.front_matter, allow_nan=False)


def test_a_seed_makes_the_same_bomb_again() -> None:
    assert all(bomb(Random(3), 2_000) == bomb(Random(3), 2_000) for bomb in BOMBS.values())
