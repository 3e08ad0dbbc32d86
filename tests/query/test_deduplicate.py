"""The stage deduplicate, with each method."""

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
    """Return a function that returns each survivor's note and cluster size."""

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
        made = sorted(candidates(snapshot), key=lambda each: each.id)
        if scores:
            made = [each.with_score(score) for each, score in zip(made, scores, strict=True)]
        tools = Tools(snapshot, settings_of(deduplicate=keys))
        search = deduplicate(Search(Query("x"), "x", candidates=tuple(made)), tools)
        return [
            (NAMES[candidate.document], candidate.cluster_size) for candidate in search.candidates
        ]

    return kept


def notes(*texts: str) -> list[ParsedDocument]:
    return [
        document(f"{name}.md", text, title="T") for name, text in zip(NAMES, texts, strict=False)
    ]


def test_equal_content_is_kept_once_with_cluster_size(survivors) -> None:
    assert survivors(notes("x", "y", "x")) == [("a", 2), ("b", 1)]


@pytest.mark.parametrize("method", ["content_hash", "semantic"])
@pytest.mark.parametrize(
    ("keep", "survivor"), [("first", "a"), ("last", "c"), ("highest_score", "b")]
)
def test_keep_chooses_survivor(survivors, method: str, keep: str, survivor: str) -> None:
    clusters = survivors(notes("x", "x", "x"), [0.1, 0.9, 0.9], method=method, keep=keep)
    assert clusters == [(survivor, 3)]


def test_dotted_field_compares_properties(survivors) -> None:
    values: list[dict[str, Any]] = [
        {"doc.id": ("7",)}, {"doc.id": ("7",)}, {"doc.id": ("7", "8")}, {}, {},
    ]  # fmt: skip
    documents = [document(f"{NAMES[n]}.md", "x", properties=each) for n, each in enumerate(values)]
    assert survivors(documents, method="exact_field", field="properties.doc.id") == [
        ("a", 2),
        ("c", 1),
        ("d", 1),
        ("e", 1),
    ]
    assert len(survivors(documents, method="exact_field", field="path")) == 5


def test_equal_meaning_is_kept_once(survivors) -> None:
    vectors = [[1, 0], [0.995, 0.0998], [0, 1]]
    assert survivors(notes("x", "x", "z"), vectors=vectors, method="semantic") == [
        ("a", 2),
        ("c", 1),
    ]


def test_content_is_compared_without_vector(survivors) -> None:
    none = [np.nan, np.nan]
    vectors = [[1, 0], none, none, none]
    assert survivors(notes("x", "x", "y", "z"), vectors=vectors, method="semantic") == [
        ("a", 2),
        ("c", 1),
        ("d", 1),
    ]


def test_different_numbers_are_not_merged_by_meaning(survivors) -> None:
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
def test_survivors_keep_order_and_represent_all(
    survivors, texts: list[str], method: str, keep: str
) -> None:
    clusters = survivors(notes(*texts), method=method, keep=keep)
    assert clusters == sorted(clusters)
    assert sum(size for _, size in clusters) == len(texts)
