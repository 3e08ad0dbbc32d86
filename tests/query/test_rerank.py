import pytest

from fakes import FakeReranker, document, memory_snapshot
from thumbindex.model import Query
from thumbindex.query.reorder import blend, rerank
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import QuerySettings

SNAPSHOT = memory_snapshot([document("a.md", "one\n\ntwo\n\nthree\n\nfour")])


class Recorder(FakeReranker):
    """Keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def score(self, query, passages):
        self.asked.append(list(passages))
        return super().score(query, passages)


def blended(
    candidates, given: list[float], scores: list[float], weight: float
) -> list[tuple[int, float]]:
    made = candidates(SNAPSHOT, *given)
    return [
        (each.id, pytest.approx(each.score))
        for each in blend(made[: len(scores)], scores, made[len(scores) :], weight)
    ]


def test_both_scores_count_by_weight(candidates) -> None:
    assert blended(candidates, [0.9, 0.8, 0.1, 0.0], [0.0, 1.0, 0.0, 0.0], 0.5) == [
        (1, 0.9),
        (0, 0.45),
        (2, 0.05),
        (3, 0.0),
    ]


def test_who_was_not_scored_never_overtakes(candidates) -> None:
    assert blended(candidates, [0.9, 0.8, 0.7, 0.6], [0.0, 0.0], 0.5) == [
        (0, 0.45),
        (1, 0.4),
        (2, 0.4),
        (3, 0.4),
    ]


def test_only_the_top_is_read_with_its_headings_in_one_call(candidates) -> None:
    reranker = Recorder()
    made = candidates(
        memory_snapshot(
            [document("a.md", "# Title\n\n## Part\n\n**text**")]
            + [document(f"b{n}.md", "more") for n in range(20)]
        )
    )
    rerank(Search(Query("x"), "x", candidates=made), Tools(SNAPSHOT, reranker=reranker))
    assert [(len(passages), passages[0]) for passages in reranker.asked] == [
        (QuerySettings().rerank.top, "Title > Part\n\ntext")
    ]


def test_without_a_reranker_nothing_changes(candidates) -> None:
    search = Search(Query("x"), "x", candidates=candidates(SNAPSHOT))
    assert rerank(search, Tools(SNAPSHOT)) is search
