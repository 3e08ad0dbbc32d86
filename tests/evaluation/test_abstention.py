"""The queries without an answer are what they say, and confidence is measured by them."""

from collections import Counter
from pathlib import Path

import pytest

from bench.ablate import load_unanswerable

HERE = Path(__file__).parent
CORPORA = ("obsidian-help", "devdocs", "react", "deno")


def test_the_set_is_large_and_asks_nothing_twice() -> None:
    queries = load_unanswerable(HERE / "off_topic.jsonl", CORPORA)
    own = [load_unanswerable(HERE / "off_topic.jsonl", [corpus]) for corpus in CORPORA]
    assert Counter(query.kind for query in queries)["off-topic"] >= 60
    assert min(sum(each.kind == "near-miss" for each in one) for one in own) >= 55
    assert (
        len({query.query for query in queries})
        == len({query.id for query in queries})
        == len(queries)
    )


@pytest.mark.parametrize("name", ["near_misses.client.jsonl", "off_topic.client.jsonl"])
def test_queries_with_invented_passages_ask_what_the_others_ask(name: str) -> None:
    reworded = load_unanswerable(HERE / name, CORPORA)
    assert {each.as_typed for each in reworded} <= {
        *load_unanswerable(HERE / "off_topic.jsonl", CORPORA)
    }
    assert (len(reworded) >= 78, all(each.also and each.passage for each in reworded)) == (
        True,
        True,
    )
