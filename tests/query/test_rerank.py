import pytest

from fakes import FakeReranker, document, memory_snapshot
from thumbindex.model import Query
from thumbindex.query.reorder import blend, rerank
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import QuerySettings

SNAPSHOT = memory_snapshot([document("a.md", "one\n\ntwo\n\nthree\n\nfour")])


class Recorder(FakeReranker):
    """Records the scored passages of each call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def score(self, query, passages):
        self.calls.append(list(passages))
        return super().score(query, passages)


def blended(
    candidates, own_scores: list[float], scores: list[float], weight: float
) -> list[tuple[int, float]]:
    ranked = candidates(SNAPSHOT, *own_scores)
    return [
        (each.id, pytest.approx(each.score))
        for each in blend(ranked[: len(scores)], scores, ranked[len(scores) :], weight)
    ]


def test_blend_weighs_both_scores(candidates) -> None:
    assert blended(candidates, [0.9, 0.8, 0.1, 0.0], [0.0, 1.0, 0.0, 0.0], 0.5) == [
        (1, 0.9),
        (0, 0.45),
        (2, 0.05),
        (3, 0.0),
    ]


def test_unscored_candidates_stay_below_top(candidates) -> None:
    assert blended(candidates, [0.9, 0.8, 0.7, 0.6], [0.0, 0.0], 0.5) == [
        (0, 0.45),
        (1, 0.4),
        (2, 0.4),
        (3, 0.4),
    ]


def test_reranker_reads_top_with_headings_in_one_call(candidates) -> None:
    reranker = Recorder()
    ranked = candidates(
        memory_snapshot(
            [document("a.md", "# Title\n\n## Part\n\n**text**")]
            + [document(f"b{n}.md", "more") for n in range(20)]
        )
    )
    rerank(Search(Query("x"), "x", candidates=ranked), Tools(SNAPSHOT, reranker=reranker))
    assert [(len(passages), passages[0]) for passages in reranker.calls] == [
        (QuerySettings().rerank.top, "Title > Part\n\ntext")
    ]


def test_rerank_without_reranker_changes_nothing(candidates) -> None:
    search = Search(Query("x"), "x", candidates=candidates(SNAPSHOT))
    assert rerank(search, Tools(SNAPSHOT)) is search
