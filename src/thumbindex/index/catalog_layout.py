"""Ids of documents and chunks: documents are sorted by path, and chunks by document."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thumbindex.model import ChunkId, DocumentId
from thumbindex.ports import IntArray, Mask, Selection


class CatalogLayout:
    """The part of a catalog that is computed from the sizes and dates of documents.

    `document_rows`, `sizes` and `ordinal_days` contain each document's row id, number of chunks and
    date (0 if undated). `document_ids` contains the document id of each chunk.
    """

    def __init__(self, document_rows: IntArray, sizes: IntArray, days: IntArray) -> None:
        self.document_rows, self.sizes, self.ordinal_days = document_rows, sizes, days
        # first chunk of each document, then the number of chunks
        self.first: IntArray = np.append(0, np.cumsum(sizes))
        self.document_ids: IntArray = np.repeat(np.arange(len(sizes)), sizes)

    def __len__(self) -> int:
        return len(self.document_ids)

    def document_of(self, chunk: ChunkId) -> DocumentId:
        return DocumentId(int(self.document_ids[chunk]))

    def chunk_ids(self, document: DocumentId) -> range:
        return range(int(self.first[document]), int(self.first[document + 1]))

    # -------------------------------------------------------------- selections

    def selection(self, mask: Mask) -> Selection:
        """Return a selection from a mask of shape (chunks,)."""
        return Selection(mask, self.document_ids)

    def of_documents(self, mask: Mask) -> Selection:
        """Return the chunks of the documents in a mask of shape (documents,)."""
        return self.selection(np.asarray(mask[self.document_ids], dtype=np.bool_))

    def everything(self) -> Selection:
        return self.selection(np.ones(len(self), dtype=np.bool_))

    def only(self, chunks: Sequence[ChunkId]) -> Selection:
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[np.array(chunks, dtype=np.int64)] = True
        return self.selection(mask)

    def every_nth(self, step: int, within: Selection | None, start: int = 0) -> Sequence[ChunkId]:
        if within is None:
            return [ChunkId(n) for n in range(start, len(self), step)]
        return [ChunkId(n) for n in np.flatnonzero(within.mask)[start::step].tolist()]

    # -------------------------------------------------------------- dates

    def newest(self, within: Selection | None, limit: int) -> tuple[Sequence[ChunkId], int]:
        chunks = np.arange(len(self)) if within is None else np.flatnonzero(within.mask)
        documents, first = np.unique(self.document_ids[chunks], return_index=True)
        order = np.argsort(-self.ordinal_days[documents], kind="stable")[:limit]
        return [ChunkId(n) for n in chunks[first[order]].tolist()], len(documents)

    def undated(self, within: Selection | None) -> int:
        of = self.document_ids if within is None else self.document_ids[within.mask]
        return int(np.count_nonzero(self.ordinal_days[np.unique(of)] == 0))
