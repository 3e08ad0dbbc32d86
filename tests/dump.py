"""The logical contents of an index, equal for all correct indexes of the same files.

Row ids, times and generations are not included.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thumbindex.index.files import IndexPaths
from thumbindex.index.segments import FIELDS, open_segments
from thumbindex.index.snapshot import load_vectors
from thumbindex.index.store import Store
from thumbindex.library import Library


def logical_dump(store: Store, places: IndexPaths) -> dict[str, list[Any]]:
    """Return the contents by table, sorted. Rows are named by path and position."""
    documents = {row: (path, title, facts) for row, path, title, _, facts in store.documents()}
    name = {row: (documents[document][0], ordinal) for row, document, ordinal in store.chunk_rows()}
    chunks, sections = store.chunks(list(name)), store.sections(list(name))
    view = load_vectors(store)
    rows = view.rows()
    return {
        "documents": sorted(documents.values()),
        "digests": sorted((path, state.digest) for path, state in store.manifest().items()),
        "chunks": sorted((name[row], chunk) for row, chunk in chunks.items()),
        "sections": sorted(
            {(name[row][0], section) for row, section in sections.items()},
            key=lambda pair: (pair[0], pair[1].ordinal),
        ),
        "links": store.links(),
        "problems": list(store.problems()),
        "repeats": sorted(
            (name[row], name[keeper], exact) for row, keeper, exact in store.duplicates.repeats()
        ),
        "decisions": list(store.decisions()),
        "postings": sorted(
            (_named(row, name, documents), field, term, weight)
            for row, field, term, weight in postings(store)
        ),
        "vectors": sorted(
            (name[row], vector.tobytes())
            for row, vector in zip(rows.tolist(), view.matrix_at(np.arange(len(rows))), strict=True)
        ),
    }


def dump(library: Library) -> dict[str, list[Any]]:
    """Return the dump of a library's only folder."""
    (reader,) = library._readers
    return logical_dump(reader.store, reader.folder.index_paths)


def _named(
    row: int, chunks: dict[int, tuple[str, int]], documents: dict[int, tuple[str, str, str]]
) -> tuple[str, int]:
    """Name a row of the keyword index: a chunk by path and ordinal, a document by path and -1."""
    return chunks[row] if row > 0 else (documents[-row][0], -1)


def postings(store: Store) -> list[tuple[int, str, str, float]]:
    """Return every posting of the keyword index: row id, field, term and frequency."""
    rows = []
    for segment, deleted in open_segments(store.segments_folder, store.segments()):
        deleted_rows = set(deleted.tolist())
        for name in FIELDS:
            field = segment.field(name)
            for term in field.terms():
                rows += [
                    (int(segment.row_ids[row]), name, term, float(count))
                    for row, count in zip(*(c.tolist() for c in field.postings(term)), strict=True)
                    if row not in deleted_rows
                ]
    return rows
