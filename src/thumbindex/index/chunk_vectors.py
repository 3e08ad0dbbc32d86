"""The vectors of a folder's chunks: which texts have one, and loading them by row id."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from thumbindex.index.sqlite import KEYS_PER_STATEMENT, SqlRow
from thumbindex.index.store import Store
from thumbindex.ports import Matrix, Vector
from thumbindex.text import text_key


def embedded_keys(store: Store) -> set[bytes]:
    """Return the keys of all texts that are embedded: of chunks, and of the words of `expand`."""
    terms = json.loads(store.meta("vocabulary", "[]"))
    keys = {key for (key,) in store.fetch("SELECT DISTINCT key FROM chunks")}
    return keys.union(map(text_key, terms))


def chunk_keys_among(store: Store, keys: Collection[bytes], rows: Sequence[int]) -> set[bytes]:
    """Return which keys are of a chunk's text; the chunks with these row ids are tried first."""
    found = set(keys).intersection(
        key for (key,) in store.fetch_in("SELECT key FROM chunks WHERE id IN ({})", rows)
    )
    if len(found) == len(keys):
        return found
    return set(keys).intersection(key for (key,) in store.fetch("SELECT key FROM chunks"))


def unique_keys(rows: Iterable[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
    """Return every key once, with its first row id."""
    first: dict[bytes, int] = {}
    for key, row in rows:
        first.setdefault(key, row)
    return list(first.items())


def chunks_without_vector(store: Store) -> list[tuple[bytes, int]]:
    """Return key and row id of the chunks without a vector, newest documents first."""
    held = vectors.keys() if (vectors := store.vectors) else set()
    chunks = store.fetch("SELECT key, id FROM chunks")
    found = store.fetch_in(
        "SELECT c.key, c.id, d.modified, d.path, c.ordinal FROM chunks c JOIN documents d "
        "ON d.id = c.document WHERE c.id IN ({})",
        [row for key, row in chunks if key not in held],
    )
    return [row[:2] for row in sorted(found, key=lambda row: (-row[2], row[3], row[4]))]


def chunk_vectors(store: Store, rows: Sequence[int]) -> dict[int, Vector]:
    """Load the vectors of chunks by row id; chunks without one are missing."""
    held, matrix = chunk_matrix(store, rows)
    return dict(zip(held, matrix, strict=True))


def chunk_matrix(store: Store, rows: Sequence[int]) -> tuple[list[int], Matrix]:
    """Load the vectors of chunks: the row ids that have one, and shape (row ids, dimensions)."""
    chunks = store.fetch_in("SELECT key, id FROM chunks WHERE id IN ({})", rows)
    parts = list(_matrices(store, chunks))
    held = [row for part, _ in parts for row in part]
    return held, np.concatenate(
        [matrix for _, matrix in parts] or [np.zeros((0, 0), dtype=np.float32)]
    )


def all_matrices(store: Store) -> tuple[int, Iterator[tuple[list[int], Matrix]]]:
    """Return the number of chunks, and load the vectors of all in parts."""
    chunks = store.fetch("SELECT key, id FROM chunks NOT INDEXED")
    return len(chunks), _matrices(store, chunks)


def _matrices(store: Store, chunks: Sequence[SqlRow]) -> Iterator[tuple[list[int], Matrix]]:
    """Load the vectors of chunks (key and row id) in parts: float32 takes four times the memory."""
    vectors = store.vectors
    for start in range(0, len(chunks) if vectors else 0, KEYS_PER_STATEMENT):
        part = chunks[start : start + KEYS_PER_STATEMENT]
        found = vectors.get([key for key, _ in part]) if vectors else {}
        if held := [(row, found[key]) for key, row in part if key in found]:
            yield [row for row, _ in held], np.stack([vector for _, vector in held])
