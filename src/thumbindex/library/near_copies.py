"""Find near-duplicates of new chunks across a folder's documents."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import chain
from statistics import fmean

import numpy as np

from thumbindex.compare.differences import judge_pair
from thumbindex.compare.tokens import tokenize
from thumbindex.errors import StorageError
from thumbindex.index.chunk_vectors import chunk_vectors, chunks_without_vector
from thumbindex.index.duplicate_tables import DuplicateFindings, DuplicatePair, DuplicateTables
from thumbindex.index.snapshot import load_vectors
from thumbindex.index.store import Store
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
from thumbindex.model import Chunk, IngestionCounts
from thumbindex.ports import Vector
from thumbindex.settings import IndexSettings
from thumbindex.text import text_key

_LOG = logging.getLogger(__name__)

_EXTRA_NEIGHBORS = 251
"""Extra neighbors per query: some are deleted chunks or chunks of the same document."""

_QUERY_BATCH = 128
"""Chunks per nearest-neighbor query."""

_CHUNK_BATCH = 256
"""Chunks loaded and looked up at once."""

_PAIR_BATCH, _COMMIT_BATCH = 64, 1000
"""Pairs judged between two yields, and pairs per commit."""

_ChunkDocuments = dict[int, int]
"""Document row ids by chunk row id."""


def _file_identity(store: Store) -> tuple[int, int]:
    stat = store.path.stat()
    return stat.st_dev, stat.st_ino


class _Comparison:
    """Compares new chunks within their document and with similar chunks in other documents."""

    def __init__(self, store: Store, settings: IndexSettings) -> None:
        self.store, self.settings, self.vectors = store, settings, load_vectors(store)

    def compare(self, rows: _ChunkDocuments, mark: str) -> Generator[None, None, DuplicateFindings]:
        """Compare new chunks with the store; yield between steps to let other work run.

        `mark` is the progress to store with the findings.
        """
        chunks = dict[int, Chunk]()
        for part in split_batches(list(rows), _CHUNK_BATCH):
            chunks.update(self.store.chunks(part))
            yield
        document_of = {row: document for row, document in rows.items() if row in chunks}
        plain = self.store.duplicates.words_of(list(document_of))
        repeats, boosts = list[Repeat](), list[Boost]()
        if self.settings.ingest.enabled:
            vectors = chunk_vectors(self.store, list(document_of))
            documents: dict[int, dict[int, Chunk]] = defaultdict(dict)
            for row, document in document_of.items():
                documents[document][row] = chunks[row]
            for document_chunks in documents.values():
                new_repeats, new_boosts = yield from find_repeats(
                    document_chunks, vectors, self.settings.ingest
                )
                repeats += new_repeats
                boosts += new_boosts
        pairs: list[DuplicatePair] = []
        if self.settings.duplicates.enabled:
            repeated = {row for row, *_ in repeats}
            searched = {row: document_of[row] for row in document_of if row not in repeated}
            pairs = yield from self._duplicates(searched, chunks, plain)
        digests = [(row, text_key(chunks[row].text)) for row in document_of]
        return DuplicateFindings(mark, digests, repeats, boosts, pairs)

    def _duplicates(
        self, document_of: _ChunkDocuments, chunks: Mapping[int, Chunk], plain: Mapping[int, bytes]
    ) -> Generator[None, None, list[DuplicatePair]]:
        """Return the duplicate and grey pairs between these chunks and other documents' chunks."""
        vectors, pairs = chunk_vectors(self.store, list(document_of)), set[tuple[int, int]]()
        rows_by_words = defaultdict[bytes, list[int]](list)
        rows = [row for row in document_of if row in vectors]
        parts = chain(
            (
                self._same_words(part, document_of, plain, rows_by_words)
                for part in split_batches(list(document_of), _CHUNK_BATCH)
            ),
            (
                self._nearest(part, document_of, vectors)
                for part in split_batches(rows, _QUERY_BATCH)
            ),
        )
        for part in parts:
            yield
            pairs.update((min(pair), max(pair)) for pair in part)
        texts, duplicates = dict(chunks), list[DuplicatePair]()
        for judged in split_batches(sorted(pairs), _PAIR_BATCH):
            yield
            unread = sorted({row for pair in judged for row in pair} - texts.keys())
            texts.update(self.store.chunks(unread))
            vectors.update(chunk_vectors(self.store, unread))
            duplicates += self._judge(judged, texts, vectors)
        return duplicates

    def _judge(
        self,
        pairs: Sequence[tuple[int, int]],
        texts: Mapping[int, Chunk],
        vectors: Mapping[int, Vector],
    ) -> Iterator[DuplicatePair]:
        for a, b in pairs:
            # a chunk that contains only link definitions has no tokens
            if a in texts and b in texts and tokenize(texts[a].text).tokens:
                # in double precision, the cosine does not depend on the batch size
                cosine = (
                    round(float(vectors[a].astype(np.float64) @ vectors[b].astype(np.float64)), 6)
                    if a in vectors and b in vectors
                    else None
                )
                verdict = judge_pair(texts[a], texts[b], cosine, self.settings.duplicates)
                if verdict.zone != "distinct":
                    yield a, b, cosine or 0.0, verdict.zone, verdict.rule, verdict.differs

    def _nearest(
        self, rows: Sequence[int], document_of: _ChunkDocuments, vectors: Mapping[int, Vector]
    ) -> Iterator[tuple[int, int]]:
        """Yield pairs of a chunk and a neighbor in another document, nearest first.

        The cosine of a pair is at least the minimum of the grey zone.
        """
        limit = self.settings.duplicates.nearest
        queries, neighbors, _ = self.vectors.range_search(
            np.stack([vectors[row] for row in rows]),
            self.settings.duplicates.review_similarity,
            limit + _EXTRA_NEIGHBORS,
        )
        unique_neighbors = np.unique(neighbors).tolist()
        documents = self.store.documents_of_chunks(unique_neighbors)
        repeated = self.store.duplicates.repeats_among(list(documents))
        counts: Counter[int] = Counter()
        for n, neighbor in zip(queries.tolist(), neighbors.tolist(), strict=True):
            row = rows[n]
            if (
                counts[row] < limit
                and neighbor in documents
                and neighbor not in repeated
                and documents[neighbor] != document_of[row]
            ):
                counts[row] += 1
                yield row, neighbor

    def _same_words(
        self,
        rows: Sequence[int],
        document_of: _ChunkDocuments,
        plain: Mapping[int, bytes],
        rows_by_words: defaultdict[bytes, list[int]],
    ) -> Iterator[tuple[int, int]]:
        """Yield pairs of chunks with the same words in different documents, newest first.

        `rows_by_words` collects the chunks of this batch by the digest of their words.
        """
        limit = self.settings.duplicates.nearest
        for row in rows:
            if plain[row]:
                document, earlier = document_of[row], rows_by_words[plain[row]]
                new_rows = [match for match in earlier if document_of[match] != document]
                stored_rows = self.store.duplicates.rows_with_words(plain[row], document, limit)
                matches = sorted({*new_rows, *stored_rows}, reverse=True)[:limit]
                yield from ((row, match) for match in matches)
                earlier.append(row)


_COMPARISON_VERSION = 9
"""Version of the rules for duplicates. Increase it to compare all chunks again."""

_DOCUMENT_BATCH = 1000
"""Minimum chunks per commit. A batch contains whole documents."""


def duplicate_steps(folder: Folder) -> Iterator[None]:
    """Compare new chunks with all others, one batch of documents per commit.

    Yields several times a second to let other work run. Stopping loses the findings of the current
    batch. The writer's lock is held only for commits.
    """
    settings = folder.config.index
    with closing(Store(folder.index_paths.store, read_only=True)) as store:
        if not (fingerprint := store.meta("fingerprint")):
            return
        rules = (
            _COMPARISON_VERSION,
            fingerprint,
            replace(settings.ingest, log=True, metrics=True),
            settings.duplicates,
        )
        version = text_key(repr(rules)).hex()
        with store.read_transaction():
            indexed_version, _, row = (mark := store.meta("duplicates_progress")).partition(" ")
            from_scratch = indexed_version != version  # the settings or the model changed
            first = 0 if from_scratch else int(row)
            # stop before the first document without vectors
            without_vector = store.documents_of_chunks(
                [row for _, row in chunks_without_vector(store)]
            ).values()
            last = max(first, min(without_vector, default=store.last_row))
            rows = dict(store.chunk_rows_between(first, last))
        if not (from_scratch or rows):
            return
        chunks, repeats, boosts = 0, 0, list[float]()
        try:
            decided = {
                digest
                for decision in store.decisions()
                for digest in (decision.first, decision.second)
            }
        except StorageError as error:  # an unreadable decisions file does not stop the search
            _LOG.warning("%s", error)
            decided = set()
        identity = _file_identity(store)

        def commit(change: Callable[[DuplicateTables], None]) -> bool:
            """Apply a change unless another process has stored findings in the meantime.

            Return whether it was applied.
            """
            with Writer.open(folder.index_paths.folder) as writer, writer.store.transaction():
                is_current = (
                    writer.store.meta("duplicates_progress") == mark
                    and _file_identity(writer.store) == identity
                )
                if is_current:
                    change(writer.store.duplicates)
                return is_current

        parts = list(_document_batches(rows)) or [{}]
        comparison = _Comparison(store, settings)
        for n, part in enumerate(parts, 1):
            findings = yield from comparison.compare(
                part, f"{version} {last if n == len(parts) else max(part)}"
            )
            if from_scratch:  # the new mark stops other processes that began at the same point
                if not commit(partial(DuplicateTables.clear_findings, progress=f"{version} 0")):
                    break
                from_scratch, mark = False, f"{version} 0"
            for pairs in split_batches(findings.pairs, _COMMIT_BATCH):
                commit(partial(DuplicateTables.add_pairs, rows=pairs))
                yield
            if not commit(
                partial(DuplicateTables.save_findings, findings=findings, decided=decided)
            ):
                break
            chunks, repeats = chunks + len(part), repeats + len(findings.repeats)
            boosts += [boost for _, boost, _ in findings.boosts]
            mark = findings.progress
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
