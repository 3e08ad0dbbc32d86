"""New chunks are looked at once they have vectors: what repeats another one of its document, and what is alike in others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from thumbindex.compare.differences import judge
from thumbindex.index.store import Store
from thumbindex.index.stored_duplicates import Looked
from thumbindex.index.writer import Writer
from thumbindex.library.folders import Folder
from thumbindex.library.ingest import Ingested, counted, in_words, ingest, total, warnings
from thumbindex.library.neighbors import Comparison, keep_nearby, nearby, plain_digest
from thumbindex.model import Chunk, IngestionCounts
from thumbindex.ports import Matrix, Vector
from thumbindex.settings import IndexSettings
from thumbindex.text import text_key

_LOG = logging.getLogger(__name__)

LOOKING_VERSION = 3
"""Changes when the same chunks would be judged in another way: all are looked at again."""

CHUNKS_AT_ONCE = 1000
"""Chunks that are looked at between two commits, whole documents, about a second's work: an interruption waits for no more."""

Rows = dict[int, int]
"""Chunks' row ids with their documents'."""


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be looked at."""

    settings: str  # a digest of what decides
    anew: bool  # other settings or another model decided so far
    rows: Rows
    again: Rows  # that have lost one that was alike
    last: int  # up to here all have vectors
    mark: str  # how far others had looked: where that is another one meanwhile, they go on


def look_at_new(folder: Folder, interrupted: Callable[[], bool] = lambda: False) -> None:
    """Find what is known of duplicates among new chunks, a group of documents at a time; the writer's lock is taken for commits alone."""
    with closing(Store(folder.places.store, read_only=True)) as store:
        fingerprint = store.meta("fingerprint")
        due = _due(store, folder.config.index, fingerprint) if fingerprint else None
        if due is None or not (due.anew or due.rows or due.again):
            return
        near = nearby(store, folder.places, fingerprint, due.last)
        comparison = Comparison(store, fingerprint, folder.config.index.duplicates, judge, near)
        try:
            done = _look(folder, store, due, comparison, interrupted)
        finally:
            keep_nearby(folder.places, near)
    if folder.config.index.ingest.log:
        report(done)


def report(counts: IngestionCounts) -> None:
    """Log what was left out of the search, if anything, and what of it is more than is healthy."""
    if counts.repeats:
        _LOG.info("%s", in_words(counts))
    for sentence in warnings(counts):
        _LOG.warning("%s", sentence)


def _due(store: Store, settings: IndexSettings, fingerprint: str) -> Due:
    wanted = _decisive(settings, fingerprint)
    with store.reading():
        known, _, row = (mark := store.meta("looked")).partition(" ")
        anew = known != wanted
        last = max(0 if anew else int(row), store.embedded_to(fingerprint) if store.pending(fingerprint) else store.last_row)
        rows = dict(store.documents_between(0 if anew else int(row), last))
        again = {} if anew else store.documents_of(store.lonely())
    return Due(wanted, anew, rows, {row: document for row, document in again.items() if row not in rows}, last, mark)


def _decisive(settings: IndexSettings, fingerprint: str) -> str:
    """Return a digest of what decides: whether it is told makes no difference."""
    decisive = (LOOKING_VERSION, fingerprint, replace(settings.ingest, log=True, metrics=True), settings.duplicates)
    return text_key(repr(decisive)).hex()


def _look(folder: Folder, store: Store, due: Due, comparison: Comparison, interrupted: Callable[[], bool]) -> IngestionCounts:
    segments, found, again, anew, mark = 0, list[Looked](), due.again, due.anew, due.mark
    groups = list(_by_document(due.rows))
    for rows in groups or [{}]:
        last = due.last if not groups or rows is groups[-1] else max(rows)
        looked = _look_at(store, rows, again, comparison, folder.config.index, f"{due.settings} {last}")
        with Writer.open(folder.places.folder) as writer, writer.store.transaction():
            if writer.store.meta("looked") != mark:
                break
            if anew:
                writer.store.forget_looked()
            writer.store.keep_looked(looked)
        segments, again, anew, mark = segments + len(rows), {}, False, looked.mark
        found.append(looked)
        if interrupted():
            break
    boosts = [boost for looked in found for _, boost, _ in looked.boosts]
    return total(counted({"": segments}, {"": sum(len(looked.repeats) for looked in found)}, {"": boosts}))


def _by_document(rows: Rows) -> Iterator[Rows]:
    """Yield whole documents, as many as make up a group."""
    group: Rows = {}
    for row, document in rows.items():
        if len(group) >= CHUNKS_AT_ONCE and document != next(reversed(group.values())):
            yield group
            group = {}
        group[row] = document
    if group:
        yield group


def _look_at(store: Store, rows: Rows, again: Rows, comparison: Comparison, settings: IndexSettings, mark: str) -> Looked:
    chunks = store.chunks([*rows, *again])
    own = {row: document for row, document in rows.items() if row in chunks}
    repeats, boosts = _ingested(store, own, chunks, comparison.fingerprint, settings) if settings.ingest.enabled else ([], [])
    words = {row: digest for row in chunks for digest in (plain_digest(chunks[row]),) if digest is not None}
    left_out = {row for row, *_ in repeats}
    searched = {row: document for row, document in {**own, **again}.items() if row in chunks and row not in left_out}
    alike = comparison.alike(searched, chunks, words) if settings.duplicates.enabled else []
    digests = [(row, text_key(chunks[row].text), words.get(row, b"")) for row in own]
    return Looked(mark, digests, repeats, boosts, alike, list(again))


def _ingested(
    store: Store, rows: Rows, chunks: dict[int, Chunk], fingerprint: str, settings: IndexSettings
) -> tuple[list[tuple[int, int, int]], list[tuple[int, float, float]]]:
    """Return the repeats inside each document, and what they boost, by row ids."""
    repeats, boosts = [], []
    vectors = store.chunk_vectors(fingerprint, list(rows))
    for own in _documents(rows):
        matrix = _matrix(own, vectors)
        found = ingest([chunks[row] for row in own], matrix, settings.ingest) if matrix is not None else Ingested()
        repeats += [(own[each.segment], own[each.keeper], int(each.exact)) for each in found.repeats]
        boosts += [(own[each.segment], each.boost, each.salience) for each in found.boosts]
    return repeats, boosts


def _documents(rows: Rows) -> Iterator[list[int]]:
    by_document: dict[int, list[int]] = {}
    for row, document in rows.items():
        by_document.setdefault(document, []).append(row)
    yield from by_document.values()


def _matrix(rows: Sequence[int], vectors: Mapping[int, Vector]) -> Matrix | None:
    """Return the vectors of a document's chunks, rows of NaN where there is none; None where there are fewer than two."""
    held = [n for n, row in enumerate(rows) if row in vectors]
    if len(held) < 2:
        return None
    known = np.stack([vectors[rows[n]] for n in held])
    matrix = np.full((len(rows), known.shape[1]), np.nan, dtype=np.float32)
    matrix[held] = known
    return matrix


def ingestion_counts(store: Store) -> tuple[IngestionCounts, ...]:
    """Return what ingestion did, by type of document."""
    found = store.ingested_by_type()
    return counted({k: v[0] for k, v in found.items()}, {k: v[1] for k, v in found.items()}, {k: v[2] for k, v in found.items()})
