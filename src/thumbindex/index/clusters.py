"""Chunks that are one text, grouped by what was found in pairs, and by what the owner decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from thumbindex.index.catalog import Positions

Apart = Mapping[int, frozenset[int]]
"""From which texts each text is kept, by number."""


class Clusters:
    """Groups of what is joined by pairs, of the shape (pairs, 2), the strongest first.

    No group holds two texts that the owner keeps apart: `texts` numbers the texts that decisions are about, by member.
    """

    def __init__(self, pairs: Positions, apart: Apart, texts: Mapping[int, int]) -> None:
        self._members: Positions = np.unique(pairs)
        ends = np.searchsorted(self._members, pairs)
        labels = _least_connected(ends, len(self._members))
        own = {int(n): texts[member] for n, member in enumerate(self._members.tolist()) if member in texts} if apart else {}
        if own:
            _split(ends, labels, apart, own)
        self._labels = labels
        self._order = np.argsort(labels, kind="stable")
        self._sorted = labels[self._order]

    def of(self, member: int) -> list[int]:
        """Return who is in a member's group, itself included, ascending; nobody where it is in none."""
        at = int(np.searchsorted(self._members, member))
        if at >= len(self._members) or self._members[at] != member:
            return []
        first, last = np.searchsorted(self._sorted, [self._labels[at], self._labels[at] + 1])
        found: list[int] = self._members[self._order[first:last]].tolist()
        return found


def _least_connected(ends: Positions, count: int) -> Positions:
    """Return the least node that each of so many is connected with, itself where it is alone: labels fall along the pairs, and jump."""
    least: Positions = np.arange(count)
    while len(ends):
        before = least
        lower = np.minimum(before[ends[:, 0]], before[ends[:, 1]])
        least = before.copy()
        for end in (0, 1):
            np.minimum.at(least, before[ends[:, end]], lower)
            np.minimum.at(least, ends[:, end], lower)
        least = least[least]
        if np.array_equal(least, before):
            break
    return least


def _split(ends: Positions, labels: Positions, apart: Apart, texts: Mapping[int, int]) -> None:
    """Group those anew, in place, who came together with what they are kept from: pair by pair, in their order."""
    groups: dict[int, set[int]] = {}
    for n, text in texts.items():
        groups.setdefault(int(labels[n]), set()).add(text)
    for label in [label for label, found in groups.items() if _is_apart(found, apart)]:
        for group in _one_by_one(ends[labels[ends[:, 0]] == label].tolist(), apart, texts):
            labels[list(group)] = min(group)


def _is_apart(texts: set[int], apart: Apart) -> bool:
    return any(apart[text] & texts for text in texts & apart.keys())


def _one_by_one(pairs: Iterable[Sequence[int]], apart: Apart, texts: Mapping[int, int]) -> list[set[int]]:
    """Join pairs in their order, and leave out those that would bring together what is kept apart."""
    of: dict[int, tuple[set[int], set[int]]] = {}  # each node's group, with the texts in it that decisions are about
    for first, second in pairs:
        (mine, own), (yours, others) = (of.setdefault(node, ({node}, {texts[node]} if node in texts else set())) for node in (first, second))
        if mine is yours or _is_apart(own | others, apart):
            continue
        mine |= yours
        own |= others
        of.update(dict.fromkeys(yours, (mine, own)))
    return list({id(group): group for group, _ in of.values()}.values())
