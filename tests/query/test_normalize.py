import pytest

from fakes import document, memory_snapshot
from thumbindex.model import Query
from thumbindex.query.rank import max_score, normalize
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import QuerySettings


def test_a_weak_best_hit_stays_weak(candidates) -> None:
    snapshot = memory_snapshot([document("a.md", "one\n\ntwo")])
    search = Search(Query("x"), "x", candidates=candidates(snapshot, 0.21, 0.105))
    ceiling = max_score(QuerySettings())
    assert [
        candidate.score for candidate in normalize(search, Tools(snapshot)).candidates
    ] == pytest.approx([0.21 / ceiling, 0.105 / ceiling])


def test_scores_are_limited_to_0_and_1(candidates) -> None:
    snapshot = memory_snapshot([document("a.md", "one\n\ntwo")])
    search = Search(Query("x"), "x", candidates=candidates(snapshot, 7.0, -1.0))
    assert [candidate.score for candidate in normalize(search, Tools(snapshot)).candidates] == [
        1.0,
        0.0,
    ]
