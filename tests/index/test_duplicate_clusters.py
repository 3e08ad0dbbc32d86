"""Clusters connect pairs, and never contain texts that the user keeps apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from thumbindex.index.duplicate_clusters import clusters

PAIRS = st.lists(
    st.tuples(st.integers(0, 15), st.integers(0, 15)).filter(lambda pair: pair[0] != pair[1]),
    max_size=25,
)


def clustered(
    *pairs: tuple[int, int], apart: tuple[tuple[int, int], ...] = ()
) -> dict[int, list[int]]:
    """Return the clusters of members that each have another text with the same number."""
    separated: dict[int, frozenset[int]] = {}
    for a, b in apart:
        separated[a] = separated.get(a, frozenset()) | {b}
        separated[b] = separated.get(b, frozenset()) | {a}
    return clusters(pairs, separated, {n: n for n in range(16)})


def connected(pairs: list[tuple[int, int]], start: int) -> list[int]:
    """Return the members that are reachable from one member."""
    reached = {start} if any(start in pair for pair in pairs) else set()
    while new := {n for pair in pairs if reached & set(pair) for n in pair} - reached:
        reached |= new
    return sorted(reached)


@given(PAIRS)
def test_clusters_are_connected_components(pairs):
    groups = clustered(*pairs)
    assert [groups.get(n, []) for n in range(17)] == [connected(pairs, n) for n in range(17)]


@given(PAIRS, PAIRS)
def test_no_cluster_contains_texts_kept_apart(pairs, apart):
    groups = clustered(*pairs, apart=tuple(apart))
    assert not [pair for pair in apart if set(pair) <= set(groups.get(pair[0], []))]
    assert all(set(groups.get(n, [])) <= set(connected(pairs, n)) for n in range(16))


def test_indirect_cluster_is_split_at_its_weakest_pair():
    groups = clustered((0, 1), (1, 2), (2, 3), apart=((0, 3),))
    assert [groups[n] for n in range(4)] == [[0, 1, 2], [0, 1, 2], [0, 1, 2], [3]]
