"""The sets of queries without an answer."""

from collections import Counter
from pathlib import Path

import pytest

from bench.ablate import load_unanswerable

HERE = Path(__file__).parent
CORPORA = ("obsidian-help", "devdocs", "react", "deno")


def test_set_is_large_and_has_no_duplicates() -> None:
    queries = load_unanswerable(HERE / "off_topic.jsonl", CORPORA)
    sets = [load_unanswerable(HERE / "off_topic.jsonl", [corpus]) for corpus in CORPORA]
    assert Counter(query.kind for query in queries)["off-topic"] >= 60
    assert min(sum(query.kind == "near-miss" for query in one_set) for one_set in sets) >= 55
    assert (
        len({query.query for query in queries})
        == len({query.id for query in queries})
        == len(queries)
    )


@pytest.mark.parametrize("name", ["near_misses.client.jsonl", "off_topic.client.jsonl"])
def test_reworded_queries_are_in_the_main_set(name: str) -> None:
    reworded = load_unanswerable(HERE / name, CORPORA)
    assert {query.as_typed for query in reworded} <= {
        *load_unanswerable(HERE / "off_topic.jsonl", CORPORA)
    }
    assert len(reworded) >= 78
    assert all(query.also and query.passage for query in reworded)
