"""The exact and provisional vectors of chunks, by row id, and the keys of embedded texts."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from thumbindex.index.files import VECTORS_FOLDER
from thumbindex.index.sqlite import KEYS_PER_STATEMENT, SqlRow
from thumbindex.index.store import Store
from thumbindex.index.vector_store import VectorStore, unpacked, vector_file
from thumbindex.index.vectors import Part
from thumbindex.ports import IntArray, Matrix, Vector
from thumbindex.text import text_key


def embedded_keys(store: Store) -> set[bytes]:
    """Return the vector keys of an index's texts: chunks, and the vocabulary of stage `expand`."""
    terms = json.loads(store.meta("vocabulary", "[]"))
    keys = {key for (key,) in store.fetch("SELECT DISTINCT key FROM chunks")}
    return keys.union(map(text_key, terms))


def chunk_keys_among(store: Store, keys: Collection[bytes], rows: Sequence[int]) -> set[bytes]:
    """Return the keys in `keys` that belong to a chunk.

    Checks the chunks in `rows` first, and all other chunks only if these lack some of the keys.
    """
    matches = set(keys).intersection(
        key for (key,) in store.fetch_in("SELECT key FROM chunks WHERE id IN ({})", rows)
    )
    if len(matches) == len(keys):
        return matches
    return set(keys).intersection(key for (key,) in store.fetch("SELECT key FROM chunks"))


_KEEP_SECONDS = 0.2
"""Seconds that a query waits to store vectors; then it uses them without storing them."""


def keep_vectors(
    index: Path, fingerprint: str, paths: Sequence[str], vectors: Mapping[bytes, Vector]
) -> None:
    """Store a model's vectors of chunks of the documents at `paths`, without the writer's lock.

    Skips texts that are no longer indexed. Raises StorageError.
    """

    def indexed_keys() -> set[bytes]:
        # A private note leaves the index before its vectors are deleted. So in the transaction
        # that stores a vector, either its text is not found, or the vector is deleted later.
        with closing(Store(index, read_only=True)) as store:
            if store.meta("fingerprint") != fingerprint:
                return set()
            sql = "SELECT id FROM documents WHERE path IN ({})"
            documents = [row for (row,) in store.fetch_in(sql, paths)]
            sql = "SELECT key FROM chunks WHERE document IN ({})"
            return {key for (key,) in store.fetch_in(sql, documents)}

    path = vector_file(index.parent.parent.with_name(VECTORS_FOLDER), fingerprint)
    with closing(VectorStore.open(path, fingerprint, busy_seconds=_KEEP_SECONDS)) as file:
        file.add(list(vectors), np.stack(list(vectors.values())), indexed_keys)


def unique_keys(rows: Iterable[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
    """Return the distinct keys, each with its first row id."""
    first: dict[bytes, int] = {}
    for key, row in rows:
        first.setdefault(key, row)
    return list(first.items())


def chunks_without_vector(store: Store) -> list[tuple[bytes, int]]:
    """Return key and row id of each chunk without a vector. The newest documents come first."""
    embedded = vectors.keys() if (vectors := store.vectors) else set()
    chunks = store.fetch("SELECT key, id FROM chunks")
    missing = store.fetch_in(
        "SELECT c.key, c.id, d.modified, d.path, c.ordinal FROM chunks c JOIN documents d "
        "ON d.id = c.document WHERE c.id IN ({})",
        [row for key, row in chunks if key not in embedded],
    )
    return [row[:2] for row in sorted(missing, key=lambda row: (-row[2], row[3], row[4]))]


_SAMPLE = 20
"""Chunks that are looked at first: a lost file of vectors has none of them."""


def rows_without_any(store: Store) -> list[int]:
    """Return the rows of chunks that have neither an exact nor a provisional vector.

    Empty if the first chunks have one, because this is asked before each query on the command line.
    """
    sql = "SELECT id, key FROM chunks WHERE id NOT IN (SELECT chunk FROM provisional)"
    first = {key for _, key in store.fetch(f"{sql} LIMIT {_SAMPLE}")}
    if not first or (store.vectors and len(store.vectors.get(list(first))) == len(first)):
        return []
    exact = store.vectors.keys() if store.vectors else set()
    return [row for row, key in store.fetch(sql) if key not in exact]


def replaced_provisional(store: Store) -> list[tuple[int]]:
    """Return the rows with a provisional vector whose chunk also has an exact one."""
    rows = store.fetch("SELECT chunk, key FROM provisional JOIN chunks ON id = chunk")
    exact = store.vectors.keys() if rows and store.vectors else set()
    return [(row,) for row, key in rows if key in exact]


def chunk_vectors(store: Store, rows: Sequence[int]) -> dict[int, Vector]:
    """Load the vectors of chunks, keyed by row id. Chunks without a vector are omitted."""
    found_rows, matrix = chunk_matrix(store, rows)
    return dict(zip(found_rows, matrix, strict=True))


def chunk_matrix(store: Store, rows: Sequence[int]) -> tuple[list[int], Matrix]:
    """Load the vectors of chunks. Return their row ids, and a matrix with one vector per row id.

    Chunks without a vector are omitted.
    """
    chunks = store.fetch_in("SELECT key, id FROM chunks WHERE id IN ({})", rows)
    parts = list(_matrices(store, chunks))
    found_rows = [row for part, _ in parts for row in part]
    return found_rows, np.concatenate(
        [matrix for _, matrix in parts] or [np.zeros((0, 0), dtype=np.float32)]
    )


def exact_parts(store: Store) -> tuple[int, Iterator[Part]]:
    """Return the number of chunks, and an iterator that loads their exact vectors in parts."""
    chunks = store.fetch("SELECT key, id FROM chunks NOT INDEXED")
    return len(chunks), (Part(*loaded) for loaded in _matrices(store, chunks))


def provisional_parts(store: Store, rows: IntArray) -> Iterator[Part]:
    """Load the provisional vectors of the chunks in `rows`, in parts."""
    sql = "SELECT chunk, vector FROM provisional WHERE length(vector) = {} AND chunk IN ({{}})"
    sql = sql.format(int(store.meta("dimensions", "0")))  # a damaged row may have another length
    for start in range(0, len(rows), KEYS_PER_STATEMENT):
        found = store.fetch_in(sql, rows[start : start + KEYS_PER_STATEMENT].tolist())
        if found:
            yield Part([row for row, _ in found], unpacked([vector for _, vector in found]), True)


def _matrices(store: Store, chunks: Sequence[SqlRow]) -> Iterator[tuple[list[int], Matrix]]:
    vectors = store.vectors
    # in parts: as float32, vectors take four times as much space as on disk
    for start in range(0, len(chunks) if vectors else 0, KEYS_PER_STATEMENT):
        part = chunks[start : start + KEYS_PER_STATEMENT]
        by_key = vectors.get([key for key, _ in part]) if vectors else {}
        if pairs := [(row, by_key[key]) for key, row in part if key in by_key]:
            yield [row for row, _ in pairs], np.stack([vector for _, vector in pairs])
