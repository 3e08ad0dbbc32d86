"""Answers get no worse unnoticed: nDCG@10 on two small corpora, against figures that are kept
beside this file.

The corpora are obsidian-help, whole, and a tenth of devdocs' files, chosen by a digest of their
paths, with those queries all of whose labeled pages are among them. `make frozen` writes the
figures anew, for a change that is meant.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

# As a program, too, this finds the shared modules one folder up.
sys.path.insert(0, str(Path(__file__).parents[1]))

from evaluation.corpora import SHARED, needs_corpora, unpack
from thumbindex.config import load_config
from thumbindex.evaluation.measures import MAIN_MEASURE
from thumbindex.evaluation.queries import LabeledQuery, load_queries
from thumbindex.evaluation.runner import evaluate, pooled_means
from thumbindex.library import Library

FIGURES = Path(__file__).with_name("frozen.json")

MOST_LOST = 0.02
"""The noise between two machines is smaller, a lost query on the smaller corpus larger."""


def is_in_tenth(path: str) -> bool:
    return int(hashlib.sha256(path.encode()).hexdigest(), 16) % 10 == 2


CORPORA: Mapping[str, tuple[tuple[str, ...], Callable[[str], bool]]] = {
    "obsidian-help": (("manual", "typo"), lambda _: True),
    "devdocs": (("manual", "typo", "auto"), is_in_tenth),
}
"""Kinds of query sets that are asked, and which files are indexed."""


def read_queries(corpus: str) -> list[LabeledQuery]:
    kinds, is_kept = CORPORA[corpus]
    queries = [
        query
        for kind in kinds
        for query in load_queries(SHARED / "queries" / "dev" / f"{corpus}.{kind}.jsonl")
    ]
    return [query for query in queries if all(is_kept(label.path) for label in query.relevant)]


def measure(corpus: str, folder: Path) -> dict[str, float]:
    """Index a corpus with the bundled model, no user's configuration, and ask."""
    config = load_config(
        user_file=folder / "none",
        overrides=["encode.embed.model=all-MiniLM-L6-v2"],
    )
    queries = read_queries(corpus)
    root = unpack(corpus, folder, CORPORA[corpus][1])
    with Library.open([root], index=folder / "index", config=config) as library:
        library.index()
        found = evaluate(library, queries)
    scores, counts = pooled_means([found])
    return {"queries": counts["ALL"], MAIN_MEASURE: round(scores["ALL"][MAIN_MEASURE], 4)}


@needs_corpora
@pytest.mark.parametrize(
    "corpus",
    [
        pytest.param("devdocs", marks=pytest.mark.slow),
        pytest.param("obsidian-help", marks=pytest.mark.long),
    ],
)
def test_answers_are_as_good_as_they_were(corpus: str, tmp_path: Path) -> None:
    before = json.loads(FIGURES.read_text(encoding="utf-8"))[corpus]
    after = measure(corpus, tmp_path)
    assert after["queries"] == before["queries"], (
        "other queries than those of the figures: `make frozen` writes them anew"
    )
    assert after[MAIN_MEASURE] >= before[MAIN_MEASURE] - MOST_LOST, (
        f"{MAIN_MEASURE} fell from {before[MAIN_MEASURE]} to {after[MAIN_MEASURE]}: "
        "if that is meant, run `make frozen`"
    )


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        figures = {corpus: measure(corpus, Path(made, corpus)) for corpus in CORPORA}
    FIGURES.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
