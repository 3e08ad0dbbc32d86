"""What has no answer is kept with the study, and a confidence that tells it from the rest is
measured.
"""

from collections import Counter
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import pytest

from thumbindex.errors import UsageError
from thumbindex.settings import Config, QuerySettings
from thumbindex.study.evaluate import (
    Bin,
    Unanswerable,
    load_unanswerable,
    measure_abstention,
    reliability,
)
from thumbindex.study.queries import Label, LabeledQuery

SHIPPED = Path(str(resources.files("thumbindex.study").joinpath("off_topic.jsonl")))


class Confident:
    """A library that is as sure as its table says; what it finds first for a question is called
    like it.
    """

    config = Config()
    folders = ()

    def __init__(self, table: dict[str, float]) -> None:
        self.table = table

    def answering_with(self, settings: QuerySettings) -> "Confident":
        # else nobody could say whether a refused passage was right
        assert settings.confidence.abstain == 0
        return self

    def query(
        self, text: str, limit: int, also: tuple[str, ...] = (), passage: str = ""
    ) -> SimpleNamespace:
        text = "+".join((text, *also, passage)) if also else text
        return SimpleNamespace(
            confidence=self.table[text], passages=[SimpleNamespace(path=f"{text}.md")]
        )


def labeled(query: str, path: str) -> LabeledQuery:
    return LabeledQuery(query, query, "question", (Label(path, None, 2),))


def test_each_kind_has_its_area_and_each_threshold_says_what_it_loses() -> None:
    library = Confident({"a": 0.9, "b": 0.3, "far": 0.1, "near": 0.5})
    asked = [Unanswerable("1", "far", "off-topic"), Unanswerable("2", "near", "near-miss", "notes")]
    measured = measure_abstention(library, [labeled("a", "a.md"), labeled("b", "b.md")], asked)  # type: ignore[arg-type]
    assert measured.auc == {"off-topic": 1.0, "near-miss": 0.5}
    assert measured.counts == {"answerable": 2, "right": 2, "off-topic": 1, "near-miss": 1}
    at = {each.confidence: (each.lost, *each.refused.values()) for each in measured.thresholds}
    assert (at[0.1], at[0.2], at[0.4], at[0.6]) == (
        (0.0, 0.0, 0.0),
        (0.0, 1.0, 0.0),
        (0.5, 1.0, 0.0),
        (0.5, 1.0, 1.0),
    )


def test_reliability_is_how_often_the_first_passage_is_right_by_tenths_of_confidence() -> None:
    bins = reliability(sure=[1.0, 0.95, 0.31], right=[1.0], unsure=[0.39, 0.0])
    assert bins == (Bin(0.0, 0, 0, 1), Bin(0.3, 1, 0, 1), Bin(0.9, 2, 1, 0))


def test_the_shipped_set_is_large_and_asks_nothing_twice() -> None:
    corpora = ("obsidian-help", "devdocs", "react", "deno")
    shipped = load_unanswerable(SHIPPED, corpora)
    counts = Counter(each.corpus or each.kind for each in shipped)
    assert counts["off-topic"] >= 60
    assert min(counts[corpus] for corpus in corpora) >= 55
    assert (
        len({each.query for each in shipped}) == len({each.id for each in shipped}) == len(shipped)
    )


@pytest.mark.parametrize("name", ["near_misses.client.jsonl", "off_topic.client.jsonl"])
def test_queries_with_invented_passages_ask_what_the_shipped_ones_ask(name: str) -> None:
    corpora = ("obsidian-help", "devdocs", "react", "deno")
    reworded = load_unanswerable(Path(__file__).with_name(name), corpora)
    assert {each.as_typed for each in reworded} <= set(load_unanswerable(SHIPPED, corpora))
    assert (len(reworded) >= 78, all(each.also and each.passage for each in reworded)) == (
        True,
        True,
    )


@pytest.mark.parametrize(
    ("line", "says"), [('{"id": "1"}', ":2: lacks query and kind"), ("", "no query in it")]
)
def test_a_file_that_is_none_is_refused_with_its_line(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "q.jsonl").write_text(f"\n{line}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=says):
        load_unanswerable(tmp_path / "q.jsonl")
