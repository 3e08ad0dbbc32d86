"""The general stage (spec/dedup.md, section 2)."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes import FakeEmbedder, MemoryVectorIndex, document, memory_snapshot
from thumbindex.model import ParsedDocument, Query
from thumbindex.query.copies import deduplicate
from thumbindex.query.stage import Search, Tools

NAMES = "abcdefgh"


@pytest.fixture
def survivors(candidates, settings_of):
    """Return a function that gives each survivor's note, and the size of its cluster."""

    def kept(
        notes: list[ParsedDocument],
        scores: list[float] | None = None,
        vectors: list[Any] | None = None,
        **keys: Any,
    ) -> list[tuple[str, int]]:
        snapshot = memory_snapshot(notes, FakeEmbedder())
        if vectors is not None:
            matrix = np.array(vectors, dtype=np.float32)
            snapshot = replace(snapshot, vector=MemoryVectorIndex(snapshot.catalog, matrix))
        found = sorted(candidates(snapshot), key=lambda each: each.id)
        if scores:
            found = [each.with_score(score) for each, score in zip(found, scores, strict=True)]
        tools = Tools(snapshot, settings_of(deduplicate=keys))
        search = deduplicate(Search(Query("x"), "x", candidates=tuple(found)), tools)
        return [
            (NAMES[candidate.document], candidate.cluster_size) for candidate in search.candidates
        ]

    return kept


def notes(*texts: str) -> list[ParsedDocument]:
    return [
        document(f"{name}.md", text, title="T") for name, text in zip(NAMES, texts, strict=False)
    ]


def test_the_same_content_is_kept_once_with_the_size_of_its_cluster(survivors) -> None:
    assert survivors(notes("x", "y", "x")) == [("a", 2), ("b", 1)]


@pytest.mark.parametrize("method", ["content_hash", "semantic"])
@pytest.mark.parametrize(("keep", "kept"), [("first", "a"), ("last", "c"), ("highest_score", "b")])
def test_keep_says_which_survives(survivors, method: str, keep: str, kept: str) -> None:
    found = survivors(notes("x", "x", "x"), [0.1, 0.9, 0.9], method=method, keep=keep)
    assert found == [(kept, 3)]


def test_a_dotted_field_reaches_into_front_matter_and_a_note_without_it_is_unique(
    survivors,
) -> None:
    values: list[dict[str, Any]] = [
        {"doc": {"id": 7}}, {"doc": {"id": 7}}, {"doc": {"id": "7"}}, {}, {"doc": None},
    ]  # fmt: skip
    found = [document(f"{NAMES[n]}.md", "x", front_matter=each) for n, each in enumerate(values)]
    assert survivors(found, method="exact_field", field="front_matter.doc.id") == [
        ("a", 2),
        ("c", 1),
        ("d", 1),
        ("e", 1),
    ]
    assert len(survivors(found, method="exact_field", field="path")) == 5


def test_the_same_meaning_is_kept_once(survivors) -> None:
    vectors = [[1, 0], [0.995, 0.0998], [0, 1]]
    assert survivors(notes("x", "x", "z"), vectors=vectors, method="semantic") == [
        ("a", 2),
        ("c", 1),
    ]


def test_without_a_vector_content_decides(survivors) -> None:
    none = [np.nan, np.nan]
    vectors = [[1, 0], none, none, none]
    assert survivors(notes("x", "x", "y", "z"), vectors=vectors, method="semantic") == [
        ("a", 2),
        ("c", 1),
        ("d", 1),
    ]


def test_a_differing_number_keeps_both_meanings(survivors) -> None:
    vectors = [[1, 0], [1, 0]]
    assert survivors(notes("30 days", "90 days"), vectors=vectors, method="semantic") == [
        ("a", 1),
        ("b", 1),
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(["a", "b", "c c"]), min_size=1, max_size=8),
    st.sampled_from(["content_hash", "semantic"]),
    st.sampled_from(["first", "last", "highest_score"]),
)
def test_survivors_keep_their_order_and_stand_for_all(
    survivors, texts: list[str], method: str, keep: str
) -> None:
    kept = survivors(notes(*texts), method=method, keep=keep)
    assert kept == sorted(kept)
    assert sum(size for _, size in kept) == len(texts)
