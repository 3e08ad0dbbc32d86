from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thumbindex.errors import UsageError
from thumbindex.query.copies import MOST_SEMANTIC, find_copies
from thumbindex.settings import DeduplicateSettings

items = st.lists(
    st.fixed_dictionaries(
        {"score": st.sampled_from([0.1, 0.5, 0.9])},
        optional={
            "content": st.sampled_from(["a", "b", "", "c c"]),
            "embedding": st.sampled_from([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], None]),
        },
    ),
    max_size=8,
)


def survivors(found: list[dict[str, Any]], **keys: Any) -> list[tuple[str, int]]:
    """Return each survivor's id, and the size of its cluster."""
    copies = find_copies(found, DeduplicateSettings(**keys))
    sizes = Counter(copies.values())
    return [(each["id"], 1 + sizes[at]) for at, each in enumerate(found) if at not in copies]


def test_the_same_content_is_kept_once_with_the_size_of_its_cluster() -> None:
    found = [{"id": "a", "content": "x"}, {"id": "b", "content": "y"}, {"id": "c", "content": "x"}]
    assert survivors(found) == [("a", 2), ("b", 1)]


@pytest.mark.parametrize(("keep", "kept"), [("first", "a"), ("last", "c"), ("highest_score", "b")])
def test_keep_says_which_survives(keep: str, kept: str) -> None:
    found = [
        {"id": "a", "content": "x", "score": 0.1},
        {"id": "b", "content": "x", "score": 0.9},
        {"id": "c", "content": "x", "score": 0.9},
    ]
    assert survivors(found, keep=keep) == [(kept, 3)]


def test_a_dotted_field_reaches_into_front_matter() -> None:
    found = [
        {"id": "a", "front_matter": {"doc": {"id": 7}}},
        {"id": "b", "front_matter": {"doc": {"id": 7}}},
        {"id": "c", "front_matter": {"doc": {"id": "7"}}},
    ]
    assert survivors(found, method="exact_field", field="front_matter.doc.id") == [
        ("a", 2),
        ("c", 1),
    ]


def test_empty_content_makes_an_item_unique() -> None:
    assert survivors([{"id": "a", "content": ""}, {"id": "b", "content": ""}, {"id": "c"}]) == [
        ("a", 1),
        ("b", 1),
        ("c", 1),
    ]


def test_the_same_meaning_is_kept_once() -> None:
    found = [
        {"id": "a", "content": "x", "embedding": [2.0, 0.0]},
        {"id": "b", "content": "x y", "embedding": [1.0, 0.1]},
        {"id": "c", "content": "z", "embedding": [0.0, 1.0]},
    ]
    assert survivors(found, method="semantic") == [("a", 2), ("c", 1)]


def test_without_an_embedding_content_decides() -> None:
    found = [
        {"id": "a", "content": "x", "embedding": [1.0]},
        {"id": "b", "content": "x"},
        {"id": "c", "content": "y"},
        {"id": "d", "content": ""},
    ]
    assert survivors(found, method="semantic") == [("a", 2), ("c", 1), ("d", 1)]


def test_a_differing_number_keeps_both_meanings() -> None:
    found = [
        {"id": "a", "content": "30 days", "embedding": [1.0]},
        {"id": "b", "content": "90 days", "embedding": [1.0]},
    ]
    assert survivors(found, method="semantic") == [("a", 1), ("b", 1)]


def test_rule_equal_highest_scores_keep_the_first_and_a_missing_score_is_the_lowest() -> None:
    found = [
        {"id": "a", "content": "x"},
        {"id": "b", "content": "x", "score": 0.5},
        {"id": "c", "content": "x", "score": 0.5},
    ]
    assert survivors(found, keep="highest_score") == [("b", 3)]


def test_rule_semantic_takes_five_hundred_items_and_refuses_one_more_by_no_other_method() -> None:
    many = [{"id": n, "content": "same"} for n in range(MOST_SEMANTIC + 1)]
    assert survivors(many[:MOST_SEMANTIC], method="semantic") == [(0, 500)]
    assert survivors(many) == [(0, 501)]
    with pytest.raises(UsageError, match="at most 500, not 501"):
        survivors(many, method="semantic")


@given(
    items,
    st.sampled_from(["content_hash", "semantic"]),
    st.sampled_from(["first", "last", "highest_score"]),
)
def test_survivors_keep_their_order_and_stand_for_all(
    found: list[dict[str, Any]], method: str, keep: str
) -> None:
    named = [{**each, "id": at} for at, each in enumerate(found)]
    kept = survivors(named, method=method, keep=keep)
    assert kept == sorted(kept)
    assert sum(size for _, size in kept) == len(found)
    again = survivors([named[at] for at, _ in kept], method=method, keep=keep)
    assert again == [(at, 1) for at, _ in kept]


def test_a_missing_field_makes_an_item_unique() -> None:
    found = [
        {"id": "a"},
        {"id": "b", "front_matter": None},
        {"id": "c", "front_matter": {"doc": None}},
    ]
    assert survivors(found, method="exact_field", field="front_matter.doc") == [
        ("a", 1),
        ("b", 1),
        ("c", 1),
    ]


def test_the_content_can_lie_in_another_field() -> None:
    assert survivors(
        [{"id": "a", "text": "x"}, {"id": "b", "text": "x"}], content_field="text"
    ) == [("a", 2)]
