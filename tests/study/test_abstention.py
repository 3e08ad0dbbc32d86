"""The queries without an answer are what they say, and confidence is measured by them."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.ablate import auc, below, confidences, load_unanswerable
from thumbindex.settings import Config, QuerySettings
from thumbindex.study.queries import Label, LabeledQuery

HERE = Path(__file__).parent
CORPORA = ("obsidian-help", "devdocs", "react", "deno")


class Confident:
    """A library that is as sure as its table says; what it finds first for a question is called
    like it.
    """

    config = Config()

    def __init__(self, table: dict[str, float]) -> None:
        self.table = table

    def answering_with(self, settings: QuerySettings) -> "Confident":
        # else nobody could say whether a refused passage was right
        assert settings.confidence.abstain == 0
        return self

    def query(self, text: str, limit: int) -> SimpleNamespace:
        return SimpleNamespace(
            confidence=self.table[text], passages=[SimpleNamespace(path=f"{text}.md")]
        )


def query(text: str, kind: str, *paths: str) -> LabeledQuery:
    return LabeledQuery(text, text, kind, tuple(Label(path, None, 2) for path in paths))


def test_each_kind_has_its_confidences_and_those_of_right_first_passages_are_apart() -> None:
    library = Confident({"a": 0.9, "b": 0.3, "far": 0.1, "near": 0.5})
    asked = [query("far", "off-topic"), query("near", "near-miss")]
    answerable = [query("a", "question", "a.md"), query("b", "question", "else.md")]
    found = confidences(library, answerable, asked)  # type: ignore[arg-type]
    assert (found.answerable, found.right) == ([0.9, 0.3], [0.9])
    assert found.unanswerable == {"off-topic": [0.1], "near-miss": [0.5]}
    assert [auc(found.answerable, each) for each in found.unanswerable.values()] == [1.0, 0.5]
    assert [below(found.answerable, at) for at in (0.3, 0.4, 1.0)] == [0.0, 0.5, 1.0]


def test_the_set_is_large_and_asks_nothing_twice() -> None:
    queries = load_unanswerable(HERE / "off_topic.jsonl", CORPORA)
    own = [load_unanswerable(HERE / "off_topic.jsonl", [corpus]) for corpus in CORPORA]
    assert Counter(each.kind for each in queries)["off-topic"] >= 60
    assert min(sum(each.kind == "near-miss" for each in one) for one in own) >= 55
    assert (
        len({each.query for each in queries}) == len({each.id for each in queries}) == len(queries)
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
