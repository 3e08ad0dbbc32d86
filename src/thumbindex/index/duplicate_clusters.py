"""The duplicates of a snapshot: repeats, clusters of copies, and the user's decisions."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from thumbindex.errors import StorageError
from thumbindex.index.catalog import StoreCatalog
from thumbindex.index.duplicate_tables import MIN_SHARING
from thumbindex.index.store import Store
from thumbindex.model import ChunkId, Decision, Verdict
from thumbindex.ports import Duplicates, IntArray, Mask, Salience, Selection

_LOG = logging.getLogger(__name__)

_Member = TypeVar("_Member", int, str)

_Apart = Mapping[int, frozenset[int]]
"""Maps a text's number to the numbers of all texts that the user marked as distinct from it."""


def clusters(
    pairs: Collection[Sequence[_Member]], apart: _Apart, texts: Mapping[_Member, int]
) -> dict[_Member, list[_Member]]:
    """Merge pairs into clusters, and return the sorted cluster of each member.

    `pairs` are merged in the given order. A pair is skipped if the merged cluster would contain two
    texts that the user marked as distinct. `texts` contains only members whose text has a decision,
    and maps each to the number of its text.
    """
    members = dict.fromkeys(chain.from_iterable(pairs))
    # each member's cluster, and the texts in this cluster that have a decision
    of = {n: ({n}, {texts[n]} if n in texts else set[int]()) for n in members}
    for first, second in pairs:
        (larger, larger_texts), (smaller, smaller_texts) = of[first], of[second]
        if larger is smaller or _is_apart(larger_texts | smaller_texts, apart):
            continue
        if len(larger) < len(smaller):
            larger, smaller = smaller, larger
            larger_texts, smaller_texts = smaller_texts, larger_texts
        larger |= smaller
        larger_texts |= smaller_texts
        of.update(dict.fromkeys(smaller, (larger, larger_texts)))
    groups = {id(group): group for group, _ in of.values()}
    ascending = map(sorted, groups.values())
    return {n: group for group in ascending for n in group}


def _is_apart(texts: set[int], apart: _Apart) -> bool:
    return any(apart[text] & texts for text in texts & apart.keys())


@dataclass(frozen=True, slots=True)
class DuplicateRecords:
    """The duplicates recorded in a store. Chunks are identified by row id."""

    generation: str  # of the last change
    words: str  # generation of the last change to texts
    repeats: IntArray  # shape (repeats, 2): row, keeper's row
    # shape (chunks, 2): row, and a number for the words that the row shares with many others
    shared: IntArray
    boosted: IntArray
    salience: Salience  # of the boosted rows, including their boosts
    same: IntArray  # shape (pairs, 2)
    cosines: npt.NDArray[np.float64]  # of the pairs in `same`
    decisions: tuple[Decision, ...]
    texts: Mapping[int, str]  # digests of the texts with a decision, by row


def read_duplicates(store: Store, last: DuplicateRecords | None) -> DuplicateRecords:
    """Read the duplicates of a store, or return `last` if they have not changed."""
    generation, words = store.meta("duplicates"), store.meta("words")
    if last is not None and last.generation == generation:
        if last.words == words:
            return last
        return replace(last, words=words, shared=_numbered(store.duplicates.shared()))
    boosts, pairs = store.duplicates.boosts(), store.duplicates.merged_pairs()
    decisions = _decisions(store)
    digests = {digest for decision in decisions for digest in (decision.first, decision.second)}
    return DuplicateRecords(
        generation,
        words,
        pairs_of_rows([pair[:2] for pair in store.duplicates.repeats()]),
        _numbered(store.duplicates.shared()),
        np.array(list(boosts), dtype=np.int64),
        np.array([with_boost for _, with_boost in boosts.values()], dtype=np.float64),
        pairs_of_rows([pair[:2] for pair in pairs]),
        np.array([cosine for _, _, cosine in pairs], dtype=np.float64),
        decisions,
        store.duplicates.rows_with_texts(sorted(digests)),
    )


def _numbered(shared: Sequence[tuple[int, bytes]]) -> IntArray:
    numbers = {digest: n for n, digest in enumerate(dict.fromkeys(d for _, d in shared))}
    return pairs_of_rows([(row, numbers[digest]) for row, digest in shared])


def pairs_of_rows(pairs: Sequence[tuple[int, int]]) -> IntArray:
    """Return pairs as an array of shape (pairs, 2)."""
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _decisions(store: Store) -> tuple[Decision, ...]:
    try:
        return store.decisions()
    except StorageError as error:  # an unreadable file must not block answers
        _LOG.warning("%s Until then, answers ignore your decisions.", error)
        return ()


class StoreDuplicates(Duplicates):
    """The duplicates in one folder's store as of one generation."""

    def __init__(self, catalog: StoreCatalog, records: DuplicateRecords) -> None:
        self.records = records
        self.catalog = catalog
        at = catalog.chunks_of_rows(records.repeats.ravel()).reshape(-1, 2)
        self._repeats = at[(at >= 0).all(axis=1)]
        self._keeper: dict[int, int] = dict(self._repeats.tolist())
        self._repeating: dict[int, list[int]] = {}
        for repeat, keeper in self._keeper.items():
            self._repeating.setdefault(keeper, []).append(repeat)
        self._salience: Salience = catalog.salience.copy()
        boosted = catalog.chunks_of_rows(records.boosted)
        self._salience[boosted[boosted >= 0]] = records.salience[boosted >= 0]
        self._texts = self._positions(records.texts)
        self._decided: dict[tuple[str, str], Verdict] = {
            (decision.first, decision.second): decision.verdict for decision in records.decisions
        }
        self._clusters = self._merge_copies()

    def _positions(self, texts: Mapping[int, str]) -> dict[int, str]:
        at = self.catalog.chunks_of_rows(np.array(list(texts), dtype=np.int64)).tolist()
        return {n: digest for n, digest in zip(at, texts.values(), strict=True) if n >= 0}

    def _merge_copies(self) -> dict[int, list[int]]:
        at = self.catalog.chunks_of_rows(self.records.same.ravel()).reshape(-1, 2)
        # without repeats: the keeper of a repeat represents it
        valid = np.flatnonzero(
            (at >= 0).all(axis=1) & ~np.isin(at, self._repeats[:, 0]).any(axis=1)
        )
        pairs, cosines = np.sort(at[valid], axis=1), self.records.cosines[valid]
        # break ties in catalog order, so that clusters do not depend on the order of indexing
        pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0], -cosines))]
        digests = {digest for pair in self._decided for digest in pair}
        number = {digest: n for n, digest in enumerate(sorted(digests))}
        apart: dict[int, frozenset[int]] = {}
        for pair, verdict in self._decided.items():
            if verdict != "apart":
                continue
            for one, other in (pair, reversed(pair)):
                apart[number[one]] = apart.get(number[one], frozenset()) | {number[other]}
        texts = {n: number[digest] for n, digest in self._texts.items()}
        return clusters((*self._pairs_marked_same(), *pairs.tolist()), apart, texts)

    def _pairs_marked_same(self) -> Iterable[tuple[int, int]]:
        """Yield pairs that connect the chunks whose texts the user marked as the same."""
        chunks: dict[str, list[int]] = {}
        for n, digest in sorted(self._texts.items()):
            if n not in self._keeper:
                chunks.setdefault(digest, []).append(n)
        for (first, second), verdict in sorted(self._decided.items()):
            of_first, of_second = chunks.get(first, []), chunks.get(second, [])
            if verdict == "same" and of_first and of_second:
                start, *remaining = of_first
                yield from ((start, n) for n in (*remaining, *of_second) if n != start)

    def repeats(self, within: Selection | None = None) -> Selection | None:
        return self._all_repeats if within is None else self._repeats_in(within)

    def shared(self) -> Selection | None:
        chunks, _, _ = self._shared
        return self.catalog.only(chunks.tolist()) if len(chunks) else None

    @cached_property
    def _all_repeats(self) -> Selection | None:
        return self._repeats_in(self.catalog.everything())

    def _repeats_in(self, within: Selection) -> Selection | None:
        selected = within.among(self._shared[0].tolist())
        chunks, texts, is_copy = (column[selected] for column in self._shared)
        is_copy[np.unique(texts, return_index=True)[1]] = False
        repeats = [*self._repeats[:, 0].tolist(), *chunks[is_copy].tolist()]
        return self.catalog.only(repeats) if repeats else None

    @cached_property
    def _shared(self) -> tuple[IntArray, IntArray, Mask]:
        """The chunks whose words many documents have, their texts, and whether each is a copy.

        A document that has no other text holds no copy: it is searched.
        """
        at = self.catalog.chunks_of_rows(self.records.shared[:, 0])
        valid = (at >= 0) & ~np.isin(at, self._repeats[:, 0])
        order = np.argsort(at[valid])
        chunks, texts = at[valid][order], self.records.shared[valid, 1][order]
        documents, sizes = self.catalog.document_ids[chunks], self.catalog.sizes
        counts = np.bincount(np.unique(np.stack([texts, documents], axis=1), axis=0)[:, 0])
        is_shared = (counts >= max(MIN_SHARING, math.sqrt(len(sizes))))[texts]
        others = sizes - np.bincount(documents[is_shared], minlength=len(sizes))
        is_copy = others[documents] > 0
        return chunks[is_shared], texts[is_shared], is_copy[is_shared]

    def salience(self, chunks: Sequence[ChunkId]) -> Salience:
        return self._salience[np.array(chunks, dtype=np.int64)]

    def copies(self, chunk: ChunkId) -> tuple[ChunkId, ...]:
        keeper = self._keeper.get(chunk, int(chunk))
        group = {keeper, *self._repeating.get(keeper, ()), *self._clusters.get(keeper, ())}
        return tuple(ChunkId(n) for n in sorted(group - {int(chunk)}))

    def verdict(self, first: ChunkId, second: ChunkId) -> Verdict | None:
        digests = sorted(self._texts.get(n, "") for n in (first, second))
        return self._decided.get((digests[0], digests[1]))


def open_duplicates(
    store: Store, catalog: StoreCatalog, last: StoreDuplicates | None
) -> StoreDuplicates:
    """Open a store's duplicates, or return `last` if nothing has changed."""
    records = read_duplicates(store, None if last is None else last.records)
    if last is not None and last.catalog is catalog and last.records is records:
        return last
    return StoreDuplicates(catalog, records)
