"""Error rates of confidence levels: `high` without an answer, and `low` for a relevant first
passage.

The limits are the rates of docs/measurements.md, plus slack for one or two queries of a small set.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.ablate import Confidences, below, confidences, load_unanswerable
from evaluation.corpora import SHARED, needs_corpora, unpack
from thumbindex.config import load_config
from thumbindex.evaluation.queries import load_queries
from thumbindex.library import Library

CORPUS = "obsidian-help"
UNANSWERABLE = Path(__file__).with_name("off_topic.jsonl")

pytestmark = [pytest.mark.long, needs_corpora]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("rates")
    config = load_config(
        user_file=folder / "none",
        overrides=["encode.embed.model=all-MiniLM-L6-v2"],
    )
    with Library.open([unpack(CORPUS, folder)], index=folder / "index", config=config) as library:
        library.index(complete=False)
        yield library


def measure(
    library: Library, kind: str = "manual", unanswerable: Path = UNANSWERABLE
) -> Confidences:
    answerable = load_queries(SHARED / "queries" / "dev" / f"{CORPUS}.{kind}.jsonl")
    return confidences(library, answerable, load_unanswerable(unanswerable, [CORPUS]))


def rates(measured: Confidences, doubt: float) -> tuple[float, float, float]:
    """Return the shares of near misses and off-topic queries that are high, and of relevant first
    passages that are low.
    """
    near, off = (measured.unanswerable.get(kind, (0.0,)) for kind in ("near-miss", "off-topic"))
    return 1 - below(near, doubt), 1 - below(off, doubt), below(measured.right, doubt)


def test_error_rates_are_low_with_keywords_only(library: Library) -> None:
    near, off, low = rates(measure(library), library.config.query.confidence.low_below)
    assert (near <= 0.08, off <= 0.04, low <= 0.35) == (True, True, True), (near, off, low)


def test_error_rates_are_low_with_vectors(library: Library) -> None:
    library.index()
    near, off, low = rates(measure(library), library.config.query.confidence.low_below)
    assert (near <= 0.07, off <= 0.04, low <= 0.27) == (True, True, True), (near, off, low)


@pytest.mark.parametrize("name", ["near_misses.client.jsonl", "off_topic.client.jsonl"])
def test_rewordings_rarely_raise_confidence_of_unanswerable_queries(
    library: Library, name: str
) -> None:
    library.index()
    near, off, low = rates(
        measure(library, "client", Path(__file__).with_name(name)),
        library.config.query.confidence.low_below,
    )
    assert (near <= 0.04, off <= 0.04, low <= 0.05) == (True, True, True), (near, off, low)
