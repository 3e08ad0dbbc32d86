"""Find near-duplicates of new chunks across the documents of a folder, after each commit."""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from statistics import fmean

import numpy as np

from thumbindex.compare.differences import judge_pair
from thumbindex.compare.tokens import tokenize
from thumbindex.errors import StorageError
from thumbindex.index.chunk_vectors import chunk_matrix, chunk_vectors, chunks_without_vector
from thumbindex.index.duplicate_tables import DuplicateFindings, DuplicatePair, DuplicateTables
from thumbindex.index.snapshot import load_vectors
from thumbindex.index.store import Store
from thumbindex.index.vectors import FaissVectors
from thumbindex.index.writer import Writer
from thumbindex.library.embedding import split_batches
from thumbindex.library.indexed_folders import Folder
from thumbindex.library.repeats import (
    Boost,
    Repeat,
    find_repeats,
    ingestion_warnings,
    ingestion_words,
)
from thumbindex.model import BlockKind, Chunk, IngestionCounts
from thumbindex.ports import Vector
from thumbindex.settings import IndexSettings
from thumbindex.text import strip_markup, text_key, words

_LOG = logging.getLogger(__name__)

_EXTRA_NEIGHBORS = 251
"""Extra nearest neighbors per query, since some are of the same document or deleted."""

_QUERY_BATCH = 128
"""Chunks per nearest-neighbor query: a tenth of a second over 100,000 vectors."""

_CHUNK_BATCH = 256
"""Chunks that are loaded and looked up at once."""

_PAIR_BATCH, _COMMIT_BATCH = 64, 1000
"""Pairs that are judged, and committed, at once: some hundredths of a second."""

_MAX_CACHED_VIEWS = 4
"""Maximum folders whose vectors stay in memory between two edits."""

_ChunkDocuments = dict[int, int]
"""Document row ids by chunk row id."""


@dataclass(slots=True)
class _CachedVectors:
    """The vectors of one folder's chunks, kept in memory between two edits."""

    identity: tuple[int, int, str]  # the store's file, and the model
    view: FaissVectors
    last: int  # up to here it holds all
    gone: set[int] = field(default_factory=set)  # rows that it should not hold any more


_views: dict[str, _CachedVectors] = {}
_guard = threading.Lock()


def _file_identity(store: Store) -> tuple[int, int]:
    """Return the device and inode of a store's file."""
    stat = store.path.stat()
    return stat.st_dev, stat.st_ino


@contextmanager
def _cached_vectors(store: Store, fingerprint: str, last: int) -> Iterator[_CachedVectors]:
    """Yield the vectors of a folder's chunks up to a row: cached ones plus new rows, else all."""
    identity = (*_file_identity(store), fingerprint)
    with _guard:
        near = _views.pop(str(store.path), None)  # nobody else has them meanwhile
    if near is None or near.identity != identity or near.last > store.last_row:
        near = _CachedVectors(identity, load_vectors(store), last)
    gone = np.array(sorted(near.gone), dtype=np.int64)
    near.gone.clear()
    new = np.array([row for row, _ in store.chunk_rows_between(near.last, last)], dtype=np.int64)
    lacking = np.setdiff1d(new, np.setdiff1d(near.view.rows(), gone)).tolist()
    near.view = near.view.with_changes(gone, *chunk_matrix(store, lacking))
    near.last = max(near.last, last)
    try:
        yield near
    finally:
        with _guard:
            _views[str(store.path)] = near
            while len(_views) > _MAX_CACHED_VIEWS:
                del _views[next(iter(_views))]


class _Comparison:
    """Compares chunks with those of their document and with their nearest ones elsewhere."""

    def __init__(self, store: Store, settings: IndexSettings, near: _CachedVectors) -> None:
        self.store, self.settings, self.near = store, settings, near

    def compare(self, rows: _ChunkDocuments, mark: str) -> Generator[None, None, DuplicateFindings]:
        """Compare new chunks with the store; yield between steps so that other work may run."""
        chunks = dict[int, Chunk]()
        for part in split_batches(list(rows), _CHUNK_BATCH):
            chunks.update(self.store.chunks(part))
            yield
        own = {row: document for row, document in rows.items() if row in chunks}
        plain = {row: _plain_digest(chunks[row]) for row in own}
        repeats, boosts = list[Repeat](), list[Boost]()
        if self.settings.ingest.enabled:
            vectors = chunk_vectors(self.store, list(own))
            documents: dict[int, dict[int, Chunk]] = defaultdict(dict)
            for row, document in own.items():
                documents[document][row] = chunks[row]
            for segments in documents.values():
                found = yield from find_repeats(segments, vectors, self.settings.ingest)
                repeats += found[0]
                boosts += found[1]
        alike: list[DuplicatePair] = []
        if self.settings.duplicates.enabled:
            left_out = {row for row, *_ in repeats}
            searched = {row: own[row] for row in own if row not in left_out}
            alike = yield from self._alike(searched, chunks, plain)
        digests = [(row, text_key(chunks[row].text), plain[row]) for row in own]
        return DuplicateFindings(mark, digests, repeats, boosts, alike)

    def _alike(
        self, own: _ChunkDocuments, chunks: Mapping[int, Chunk], plain: Mapping[int, bytes]
    ) -> Generator[None, None, list[DuplicatePair]]:
        """Return pairs of these chunks with other documents' that are duplicates or grey."""
        vectors, pairs = chunk_vectors(self.store, list(own)), set[tuple[int, int]]()
        same = defaultdict[bytes, list[int]](list)
        rows = [row for row in own if row in vectors]
        parts = chain(
            (
                self._same_words(part, own, plain, same)
                for part in split_batches(list(own), _CHUNK_BATCH)
            ),
            (self._nearest(part, own, vectors) for part in split_batches(rows, _QUERY_BATCH)),
        )
        for part in parts:
            yield
            pairs.update((min(pair), max(pair)) for pair in part)
        texts, found = dict(chunks), list[DuplicatePair]()
        for judged in split_batches(sorted(pairs), _PAIR_BATCH):
            yield
            others = sorted({row for pair in judged for row in pair} - texts.keys())
            texts.update(self.store.chunks(others))
            vectors.update(chunk_vectors(self.store, others))
            found += self._judged(judged, texts, vectors)
        return found

    def _judged(
        self,
        pairs: Sequence[tuple[int, int]],
        texts: Mapping[int, Chunk],
        vectors: Mapping[int, Vector],
    ) -> Iterator[DuplicatePair]:
        for a, b in pairs:
            # a list of what reference links mean is no text
            if a in texts and b in texts and tokenize(texts[a].text).tokens:
                # in double precision it is the same whatever else was compared with them
                cosine = (
                    round(float(vectors[a].astype(np.float64) @ vectors[b].astype(np.float64)), 6)
                    if a in vectors and b in vectors
                    else None
                )
                verdict = judge_pair(texts[a], texts[b], cosine, self.settings.duplicates)
                if verdict.zone != "distinct":
                    yield a, b, cosine or 0.0, verdict.zone, verdict.rule, verdict.differs

    def _nearest(
        self, rows: Sequence[int], own: _ChunkDocuments, vectors: Mapping[int, Vector]
    ) -> Iterator[tuple[int, int]]:
        """Yield each chunk with its nearest neighbors in other documents above the grey cosine."""
        wanted = self.settings.duplicates.nearest
        at, found, _ = self.near.view.range_search(
            np.stack([vectors[row] for row in rows]),
            self.settings.duplicates.review_similarity,
            wanted + _EXTRA_NEIGHBORS,
        )
        near = np.unique(found).tolist()
        documents = self.store.documents_of_chunks(near)
        self.near.gone.update(row for row in near if row not in documents)
        repeated = self.store.duplicates.repeats_among(list(documents))
        taken: Counter[int] = Counter()
        for row, other in zip((rows[n] for n in at.tolist()), found.tolist(), strict=True):
            if (
                taken[row] < wanted
                and other in documents
                and other not in repeated
                and documents[other] != own[row]
            ):
                taken[row] += 1
                yield row, other

    def _same_words(
        self,
        rows: Sequence[int],
        own: _ChunkDocuments,
        plain: Mapping[int, bytes],
        same: defaultdict[bytes, list[int]],
    ) -> Iterator[tuple[int, int]]:
        """Yield each chunk with the newest chunks of other documents that have the same words.

        `same` has the earlier chunks of this batch by their words.
        """
        wanted = self.settings.duplicates.nearest
        for row in rows:
            if plain[row]:
                here = [other for other in same[plain[row]] if own[other] != own[row]]
                there = self.store.duplicates.rows_with_words(plain[row], own[row], wanted)
                yield from (
                    (row, other) for other in sorted({*here, *there}, reverse=True)[:wanted]
                )
                same[plain[row]].append(row)


_COMPARISON_VERSION = 7
"""Increased when the rules for duplicates change: all chunks are compared again."""

_DOCUMENT_BATCH = 1000
"""Minimum chunks of a batch of whole documents between two commits."""


def duplicate_steps(folder: Folder) -> Iterator[None]:
    """Compare new chunks with all others, one batch of documents at a time.

    Yields several times a second, so that other work may run; stopping loses the current batch.
    The writer's lock is held only for commits.
    """
    settings = folder.config.index
    with closing(Store(folder.index_paths.store, read_only=True)) as store:
        if not (fingerprint := store.meta("fingerprint")):
            return
        decisive = (
            _COMPARISON_VERSION,
            fingerprint,
            replace(settings.ingest, log=True, metrics=True),
            settings.duplicates,
        )
        version = text_key(repr(decisive)).hex()
        with store.read_transaction():
            before, _, row = (mark := store.meta("duplicates_progress")).partition(" ")
            anew = before != version  # other settings or another model decided so far
            first = 0 if anew else int(row)
            # up to the first document that lacks a vector
            lacking = store.documents_of_chunks(
                [row for _, row in chunks_without_vector(store)]
            ).values()
            last = max(first, min(lacking, default=store.last_row))
            rows = dict(store.chunk_rows_between(first, last))
        if not (anew or rows):
            return
        chunks, repeats, boosts = 0, 0, list[float]()
        try:
            decided = {
                digest
                for decision in store.decisions()
                for digest in (decision.first, decision.second)
            }
        except StorageError as error:  # the owner's own file keeps nobody from looking
            _LOG.warning("%s", error)
            decided = set()
        own = _file_identity(store)

        def keep(change: Callable[[DuplicateTables], None]) -> bool:
            """Apply a change and return True, unless another process got further meanwhile."""
            with Writer.open(folder.index_paths.folder) as writer, writer.store.transaction():
                is_ours = (
                    writer.store.meta("duplicates_progress") == mark
                    and _file_identity(writer.store) == own
                )
                if is_ours:
                    change(writer.store.duplicates)
                return is_ours

        parts = list(_document_batches(rows)) or [{}]
        with _cached_vectors(store, fingerprint, last) as near:
            comparison = _Comparison(store, settings, near)
            for n, part in enumerate(parts, 1):
                found = yield from comparison.compare(
                    part, f"{version} {last if n == len(parts) else max(part)}"
                )
                if anew:  # with a mark of its own: who began as we did meets another one
                    if not keep(partial(DuplicateTables.clear_findings, progress=f"{version} 0")):
                        break
                    anew, mark = False, f"{version} 0"
                for pairs in split_batches(found.pairs, _COMMIT_BATCH):
                    keep(partial(DuplicateTables.add_pairs, rows=pairs))
                    yield
                if not keep(
                    partial(DuplicateTables.save_findings, findings=found, decided=decided)
                ):
                    break
                chunks, repeats = chunks + len(part), repeats + len(found.repeats)
                boosts += [boost for _, boost, _ in found.boosts]
                mark = found.progress
                yield
    mean = fmean(boosts) if boosts else 0.0
    counts = IngestionCounts("", chunks, repeats, len(boosts), mean, max(boosts, default=0.0))
    if settings.ingest.log:
        if counts.repeats:
            _LOG.info("%s", ingestion_words([counts]))
        for sentence in ingestion_warnings(counts):
            _LOG.warning("%s", sentence)


def _document_batches(rows: _ChunkDocuments) -> Iterator[_ChunkDocuments]:
    """Yield batches of whole documents."""
    group: _ChunkDocuments = {}
    for row, document in rows.items():
        if len(group) >= _DOCUMENT_BATCH and document != next(reversed(group.values())):
            yield group
            group = {}
        group[row] = document
    if group:
        yield group


def _plain_digest(chunk: Chunk) -> bytes:
    """Return a digest of a chunk's kind, language and words, equal for copies under other headings;
    empty without words.
    """
    found = chunk.text.split() if chunk.kind is BlockKind.CODE else words(strip_markup(chunk.text))
    return text_key("\0".join((chunk.kind, chunk.language, *found))) if found else b""
