"""What an index says, without row ids, times and generations: two indexes of the same files are equal here or one of them is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thumbindex.index.keyword import live_rows, open_reader
from thumbindex.index.snapshot import Places, stored_vectors
from thumbindex.index.store import Store


def logical_dump(store: Store, places: Places) -> dict[str, list[Any]]:
    """Return documents, sections, chunks, links, problems, postings and vectors, each in one order, rows named by path and position."""
    documents = {row: (path, title, facts) for row, path, title, _, facts in store.documents()}
    name = {row: (documents[document][0], ordinal) for row, document, ordinal in store.chunk_rows()}
    chunks, sections = store.chunks(list(name)), store.sections(list(name))
    view = stored_vectors(store)
    return {
        "documents": sorted(documents.values()),
        "digests": sorted((path, state.digest) for path, state in store.manifest().items()),
        "chunks": sorted((name[row], chunk) for row, chunk in chunks.items()),
        "sections": sorted({(name[row][0], section) for row, section in sections.items()}, key=lambda pair: (pair[0], pair[1].ordinal)),
        "links": store.links(),
        "problems": list(store.problems()),
        "repeats": sorted((name[row], name[keeper], exact) for row, keeper, exact in store.repeats()),
        "decisions": list(store.decisions()),
        "postings": sorted((_named(row, name, documents), field, term, weight) for row, field, term, weight in postings(places.keyword)),
        "vectors": sorted((name[row], vector.tobytes()) for row, vector in zip(view.rows().tolist(), view.matrix(), strict=True)),
    }


def _named(row: int, chunks: dict[int, tuple[str, int]], documents: dict[int, tuple[str, str, str]]) -> tuple[str, int]:
    """Name a row of the keyword view: a chunk by its place, a document by its path and -1."""
    return chunks[row] if row > 0 else (documents[-row][0], -1)


def postings(folder: Path) -> list[tuple[int, str, str, float]]:
    """Return every posting as row id, field, term and frequency, in any order."""
    found = []
    with open_reader(folder) as reader:
        row_of = dict(zip(*(column.tolist() for column in live_rows(reader)), strict=True))
        for name, term in reader.all_terms():
            matcher = reader.postings(name, term)
            while matcher.is_active():
                found.append((row_of[matcher.id()], name, term.decode("utf-8"), matcher.weight()))
                matcher.next()
    return found
