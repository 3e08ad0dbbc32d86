"""Every document and chunk of a snapshot by its position: the columns that the other views are aligned with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
from pathspec import GitIgnoreSpec

from thumbindex.index.store import Store, document_from_row
from thumbindex.model import Changes, Chunk, ChunkId, Document, DocumentId, Filters, Place, Section, day_of
from thumbindex.ports import Mask

Positions = npt.NDArray[np.int64]


class StoreCatalog:
    """Catalog over one folder's store, as it was when this was made."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._folder = folder
        documents = store.documents()
        self.document_rows: Positions = np.array([row[0] for row in documents], dtype=np.int64)
        self._facts = documents
        chunks = np.array(store.chunk_rows(), dtype=np.int64).reshape(-1, 3)
        of = positions_of(self.document_rows, chunks[:, 1])
        order = np.lexsort((chunks[:, 2], of))
        self.chunk_rows: Positions = chunks[order, 0]
        self.document_ids: Positions = of[order]
        self._first: Positions = np.searchsorted(self.document_ids, np.arange(len(documents) + 1))

    def __len__(self) -> int:
        """Count the chunks."""
        return len(self.chunk_rows)

    @cached_property
    def documents(self) -> Sequence[Document]:
        """All documents, by path."""
        return tuple(document_from_row(path, title, modified, facts, self._folder) for _, path, title, modified, facts in self._facts)

    @cached_property
    def positions(self) -> dict[str, DocumentId]:
        """Where each path stands among the documents."""
        return {row[1]: DocumentId(n) for n, row in enumerate(self._facts)}

    def rows_by_path(self) -> dict[str, int]:
        """Return each document's row id."""
        return {row[1]: row[0] for row in self._facts}

    def document_of(self, chunk: ChunkId) -> DocumentId:
        """Return the document that a chunk is part of."""
        return DocumentId(int(self.document_ids[chunk]))

    def chunk_ids(self, document: DocumentId) -> range:
        """Return the ids of a document's chunks."""
        return range(int(self._first[document]), int(self._first[document + 1]))

    def chunks(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Chunk]:
        """Load chunks; those that are gone are missing."""
        found = self._store.chunks([int(self.chunk_rows[n]) for n in ids])
        return {n: found[int(self.chunk_rows[n])] for n in ids if int(self.chunk_rows[n]) in found}

    def sections(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Section]:
        """Load the parent of each chunk; those that are gone are missing."""
        found = self._store.sections([int(self.chunk_rows[n]) for n in ids])
        return {n: found[int(self.chunk_rows[n])] for n in ids if int(self.chunk_rows[n]) in found}

    def places(self, ids: Sequence[ChunkId]) -> Sequence[Place]:
        """Say where chunks stand."""
        found = self.chunks(ids)
        paths = {n: self._facts[self.document_of(n)][1] for n in ids}
        return tuple(Place(self._folder, paths[n], found[n].start_line, found[n].end_line) for n in ids if n in found)

    def select(self, filters: Filters) -> Mask | None:
        """Return which chunks the filters let through; None when that is all of them."""
        if filters == Filters():
            return None
        if filters.folder and self._folder not in filters.folder:
            return np.zeros(len(self), dtype=np.bool_)
        kept = np.array([passes(document, filters) for document in self.documents], dtype=np.bool_)
        return np.asarray(kept[self.document_ids], dtype=np.bool_)


def difference(before: StoreCatalog, after: StoreCatalog) -> Changes:
    """Return the paths that came, went and hold another text: a document that is read again is another row."""
    old, new = before.rows_by_path(), after.rows_by_path()
    kept = old.keys() & new.keys()
    changed = tuple(sorted(path for path in kept if old[path] != new[path]))
    return Changes(tuple(sorted(new.keys() - kept)), changed, tuple(sorted(old.keys() - kept)), len(kept) - len(changed))


def positions_of(rows: Positions, wanted: Positions) -> Positions:
    """Return where each wanted row id stands in `rows` (any order), or -1."""
    if not len(rows):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(rows, kind="stable")
    at = np.minimum(np.searchsorted(rows, wanted, sorter=order), len(rows) - 1)
    return np.where(rows[order[at]] == wanted, order[at], -1)


def passes(document: Document, filters: Filters) -> bool:
    """Tell whether a document passes path globs (any), tags (all, nested ones too) and the date."""
    if filters.path and not _spec(filters.path).match_file(document.path):
        return False
    tags = {tag.casefold() for tag in document.tags}
    for wanted in (tag.lstrip("#").casefold() for tag in filters.tag):
        if not any(tag == wanted or tag.startswith(f"{wanted}/") for tag in tags):
            return False
    return filters.since is None or day_of(document) >= filters.since


@lru_cache(maxsize=64)
def _spec(globs: tuple[str, ...]) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines([glob if glob.startswith(("/", "*")) else f"/{glob}" for glob in globs])
