"""Each bomb at a small size: four times as large it takes four times as long, in memory by its size; `make bombs` takes them whole."""

from __future__ import annotations

import json
import time
import tracemalloc
from random import Random

import pytest

from fuzz.bombs import BOMBS
from thumbindex.corpus.parse import parse_document
from thumbindex.settings import CorpusSettings

SMALL, LARGE = 8_000, 32_000

LEAST = 0.02
"""Seconds below which a clock tells nothing."""

GROWTH = 9.0
"""Four times the size may take so many times as long: the square of it would be sixteen."""


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Import what is imported at the first note, as the splitter of sentences."""
    parse_document("a.md", b"---\na: 1\n---\n" + b"a" * 600 + b" b. C\n\n\n\n" + b"a" * 600, CorpusSettings())


def seconds(name: str, size: int) -> float:
    """Return how long a bomb takes to be read, the shorter of two times: a busy machine only ever adds."""
    data = BOMBS[name](Random(1), size)
    took = []
    for _ in range(2):
        began = time.process_time()
        parse_document("a.md", data, CorpusSettings())
        took.append(time.process_time() - began)
        if took[-1] < LEAST:
            break
    return min(took)


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_takes_time_by_its_size_and_not_by_the_square_of_it(name: str) -> None:
    large = seconds(name, LARGE)
    assert large < LEAST * GROWTH or large < seconds(name, SMALL) * GROWTH, large


@pytest.mark.parametrize("name", ["lines of one letter", "headings", "brackets", "a billion laughs", "YAML of anchors", "TOML, one number", "tags"])
def test_a_bomb_takes_memory_by_its_size(name: str) -> None:
    data = BOMBS[name](Random(1), LARGE)
    tracemalloc.start()
    try:
        parsed = parse_document("a.md", data, CorpusSettings())
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 1000 * len(data)  # of lines of one letter 400: what is whole is bounded by lines and headings
    json.dumps(parsed.document.front_matter, allow_nan=False)


def test_a_seed_makes_the_same_bomb_again() -> None:
    assert all(bomb(Random(3), 2_000) == bomb(Random(3), 2_000) for bomb in BOMBS.values())
