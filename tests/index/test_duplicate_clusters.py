"""Clusters are what pairs connect, and never hold what the owner keeps apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from thumbindex.index.duplicate_clusters import clusters

PAIRS = st.lists(
    st.tuples(st.integers(0, 15), st.integers(0, 15)).filter(lambda pair: pair[0] != pair[1]),
    max_size=25,
)


def made(*pairs: tuple[int, int], apart: tuple[tuple[int, int], ...] = ()) -> dict[int, list[int]]:
    """Make clusters of members whose texts are all different, numbered as they are."""
    kept: dict[int, frozenset[int]] = {}
    for a, b in apart:
        kept[a], kept[b] = kept.get(a, frozenset()) | {b}, kept.get(b, frozenset()) | {a}
    return clusters(pairs, kept, {n: n for n in range(16)})


def connected(pairs: list[tuple[int, int]], start: int) -> list[int]:
    """Return who is reached from one member, step by step."""
    found = {start} if any(start in pair for pair in pairs) else set()
    while grown := {n for pair in pairs if found & set(pair) for n in pair} - found:
        found |= grown
    return sorted(found)


@given(PAIRS)
def test_a_cluster_is_what_pairs_connect(pairs):
    found = made(*pairs)
    assert [found.get(n, []) for n in range(17)] == [connected(pairs, n) for n in range(17)]


@given(PAIRS, PAIRS)
def test_no_cluster_holds_what_is_kept_apart_and_every_other_pair_may_stay(pairs, apart):
    found = made(*pairs, apart=tuple(apart))
    assert not [pair for pair in apart if set(pair) <= set(found.get(pair[0], []))]
    assert all(set(found.get(n, [])) <= set(connected(pairs, n)) for n in range(16))


def test_who_came_together_through_a_third_is_parted_at_the_weakest_pair():
    found = made((0, 1), (1, 2), (2, 3), apart=((0, 3),))
    assert [found[n] for n in range(4)] == [[0, 1, 2], [0, 1, 2], [0, 1, 2], [3]]
