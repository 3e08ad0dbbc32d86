"""Pairs of notes that are near by meaning and not linked."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence

import numpy as np

from thumbindex.library.decisions import all_duplicates
from thumbindex.library.reader import Reader
from thumbindex.library.reading import mean_vector
from thumbindex.library.visibility import visible_documents
from thumbindex.model import Document, DocumentId, UnlinkedPair, day_of, iso_day
from thumbindex.ports import Matrix

MOST_NOTES = 20_000
"""Notes of a folder that are compared: of a larger one the newest."""

NEAREST = 5
"""Nearest notes that each note is compared with."""

LEAST_COSINE = 0.55
"""Minimum cosine of a pair: below it most pairs have only their subject in common."""

SAME_COSINE = 0.98
"""From here on two notes are copies: a link between them would say nothing."""

_ROWS_AT_ONCE = 250

_MOST_PLACES = 1_000
"""Places of one duplicated text that are compared with each other."""

_one_at_a_time = threading.Lock()
"""A large folder takes seconds and a core."""


def unlinked_pairs(reader: Reader) -> tuple[UnlinkedPair, ...]:
    """Return pairs of notes that are near and not linked either way, the nearest first.

    Left out are pairs that a link would say nothing about: copies, translations, and pages that
    differ in a number, as releases do.
    """
    if not reader.indexed:
        return ()
    with _one_at_a_time:
        opened = reader.opened()
        snapshot, ids = opened.snapshot, {path: n for n, path in opened.catalog.every_path()}
        documents: list[Document] = []
        means = []
        for each in _newest(visible_documents([reader])):
            mean = mean_vector(snapshot, ids[each.path]) if each.path in ids else None
            if mean is not None:
                documents.append(each)
                means.append(mean)
        nearest = _nearest(np.stack(means)) if means else {}
        copies = _copies(reader)

    def is_linked(first: DocumentId, second: DocumentId) -> bool:
        graph = snapshot.graph
        return second in graph.linked(first) or first in graph.linked(second)

    found = []
    for (a, b), cosine in sorted(nearest.items(), key=lambda item: (-item[1], item[0])):
        first, second = documents[a], documents[b]
        if (
            LEAST_COSINE <= cosine < SAME_COSINE
            and _is_worth_a_link(first, second)
            and frozenset((first.path, second.path)) not in copies
            and not is_linked(ids[first.path], ids[second.path])
        ):
            found.append(
                UnlinkedPair(reader.folder.name, first.path, second.path, round(cosine, 4))
            )
    return tuple(found)


def _newest(documents: Sequence[Document]) -> list[Document]:
    """Return all documents, or the newest of too many."""
    if len(documents) <= MOST_NOTES:
        return list(documents)
    return sorted(documents, key=lambda each: iso_day(day_of(each)), reverse=True)[:MOST_NOTES]


def _nearest(means: Matrix) -> dict[tuple[int, int], float]:
    """Return the cosine of each row with its nearest ones, by both rows, the lower first."""
    found: dict[tuple[int, int], float] = {}
    count = min(NEAREST + 1, len(means))  # a row is its own nearest
    for start in range(0, len(means), _ROWS_AT_ONCE):
        cosines = means[start : start + _ROWS_AT_ONCE] @ means.T
        best = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
        for own, others in enumerate(best.tolist(), start):
            for other in others:
                if own != other:
                    found[min(own, other), max(own, other)] = float(cosines[own - start, other])
    return found


_NUMBERS = re.compile(r"\d+(?:[._-]\d+)*")
"""Versions and dates are one number."""


def _is_worth_a_link(first: Document, second: Document) -> bool:
    if first.language and second.language and first.language != second.language:
        return False
    files = [_NUMBERS.sub("0", each.path.rpartition("/")[2].casefold()) for each in (first, second)]
    titles = [_NUMBERS.sub("0", each.title.casefold()) for each in (first, second)]
    return files[0] != files[1] and titles[0] != titles[1]


def _copies(reader: Reader) -> set[frozenset[str]]:
    """Return the pairs of notes that have a text in common."""
    clusters = all_duplicates([reader], grey=False).clusters
    return {
        frozenset((a.path, b.path))
        for cluster in clusters
        for a in cluster.texts[:_MOST_PLACES]
        for b in cluster.texts[:NEAREST]
    }
