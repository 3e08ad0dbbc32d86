"""Regression test of retrieval quality: nDCG@10 on two small corpora, compared with frozen.json.

The corpora are obsidian-help and a tenth of devdocs, with the queries whose labeled pages are all
included. After an intended change, `make frozen` updates the file.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

# So that this file also runs as a program.
sys.path.insert(0, str(Path(__file__).parents[1]))

from evaluation.corpora import SHARED, needs_corpora, unpack
from thumbindex.config import load_config
from thumbindex.evaluation.measures import MAIN_MEASURE
from thumbindex.evaluation.queries import LabeledQuery, load_queries
from thumbindex.evaluation.runner import evaluate, pooled_means
from thumbindex.library import Library

FIGURES = Path(__file__).with_name("frozen.json")

MOST_LOST = 0.02
"""Tolerated loss: above the noise between machines, below a lost query on the smaller corpus."""


def is_in_tenth(path: str) -> bool:
    return int(hashlib.sha256(path.encode()).hexdigest(), 16) % 10 == 2


CORPORA: Mapping[str, tuple[tuple[str, ...], Callable[[str], bool]]] = {
    "obsidian-help": (("manual", "typo"), lambda _: True),
    "devdocs": (("manual", "typo", "auto"), is_in_tenth),
}
"""The kinds of query sets, and a filter of the files to index."""


def read_queries(corpus: str) -> list[LabeledQuery]:
    kinds, is_included = CORPORA[corpus]
    queries = [
        query
        for kind in kinds
        for query in load_queries(SHARED / "queries" / "dev" / f"{corpus}.{kind}.jsonl")
    ]
    return [query for query in queries if all(is_included(label.path) for label in query.relevant)]


def measure(corpus: str, folder: Path) -> dict[str, float]:
    """Evaluate a corpus with the bundled model and the default configuration."""
    config = load_config(
        user_file=folder / "none",
        overrides=["encode.embed.model=all-MiniLM-L6-v2"],
    )
    queries = read_queries(corpus)
    root = unpack(corpus, folder, CORPORA[corpus][1])
    with Library.open([root], index=folder / "index", config=config) as library:
        library.index()
        evaluation = evaluate(library, queries)
    scores, counts = pooled_means([evaluation])
    return {"queries": counts["ALL"], MAIN_MEASURE: round(scores["ALL"][MAIN_MEASURE], 4)}


@needs_corpora
@pytest.mark.parametrize(
    "corpus",
    [
        pytest.param("devdocs", marks=pytest.mark.slow),
        pytest.param("obsidian-help", marks=pytest.mark.long),
    ],
)
def test_quality_does_not_drop(corpus: str, tmp_path: Path) -> None:
    before = json.loads(FIGURES.read_text(encoding="utf-8"))[corpus]
    after = measure(corpus, tmp_path)
    assert after["queries"] == before["queries"], (
        "the number of queries has changed: update the figures with `make frozen`"
    )
    assert after[MAIN_MEASURE] >= before[MAIN_MEASURE] - MOST_LOST, (
        f"{MAIN_MEASURE} fell from {before[MAIN_MEASURE]} to {after[MAIN_MEASURE]}: "
        "if intended, run `make frozen`"
    )


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        figures = {corpus: measure(corpus, Path(folder, corpus)) for corpus in CORPORA}
    FIGURES.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
