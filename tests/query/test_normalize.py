from dataclasses import fields, replace

import pytest

from thumbindex.model import Query
from thumbindex.query.rank import attainable, normalize
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import QuerySettings, RecencySettings
from thumbindex.testing import document, memory_snapshot


def test_a_weak_best_hit_stays_weak(candidates) -> None:
    snapshot = memory_snapshot([document("a.md", "one\n\ntwo")])
    search = Search(Query("x"), "x", candidates=candidates(snapshot, 0.21, 0.105))
    ceiling = attainable(QuerySettings())
    assert [each.score for each in normalize(search, Tools(snapshot)).candidates] == pytest.approx(
        [0.21 / ceiling, 0.105 / ceiling]
    )


def test_scores_lie_between_0_and_1(candidates) -> None:
    snapshot = memory_snapshot([document("a.md", "one\n\ntwo")])
    search = Search(Query("x"), "x", candidates=candidates(snapshot, 7.0, -1.0))
    assert [each.score for each in normalize(search, Tools(snapshot)).candidates] == [1.0, 0.0]


def test_with_another_score_a_candidate_is_otherwise_as_it_was(candidates) -> None:
    (first, second) = candidates(memory_snapshot([document("a.md", "one\n\ntwo")]))
    pair = ((second.id, "other words"),)
    given = replace(
        first,
        sources={"search_code": 3},
        also_in=(second.id,),
        cluster_size=2,
        disagrees=pair,
        variants=pair,
        reranked=0.7,
        name_kind="title",
    )
    assert all(getattr(given, each.name) != each.default for each in fields(given))
    assert given.scored(0.25) == replace(given, score=0.25)


def test_the_ceiling_counts_recency_s_gain_only_where_it_is_on() -> None:
    on, off = (
        QuerySettings(recency=RecencySettings(bias=0.05), skip=skip) for skip in ((), ("recency",))
    )
    assert (attainable(on), attainable(off)) == (1.05, 1.0)
