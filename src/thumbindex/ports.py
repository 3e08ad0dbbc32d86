"""Ports: the interfaces of models and indexes that the pipeline uses.

Fake and real pass one contract suite.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from thumbindex.model import (
    Abbreviation,
    Chunk,
    ChunkId,
    Document,
    DocumentId,
    FilterField,
    Filters,
    Hit,
    RankedList,
    Section,
    Term,
    TypedFilter,
    Verdict,
)

Vector = npt.NDArray[np.float32]
"""Shape (dimensions,), length 1."""

Cosines = npt.NDArray[np.float32]
"""Shape (chunks asked for,): -1 to 1; NaN for a chunk that has no vector yet."""

Matrix = npt.NDArray[np.float32]
"""Shape (rows, dimensions), each row of length 1; a row of NaN stands for a vector that is not
there yet.
"""


def inner_products(rows: Matrix, others: Matrix | Vector) -> Matrix:
    """Return each row's inner product with a vector, shape (rows,), or with each of other rows,
    shape (rows, others); of unit vectors the cosine.

    Computed on the calling thread, each by itself: of rows that lie one after the other (C order)
    the same bits, whatever stands beside them. A product of matrices (BLAS) is shared out among
    threads, which wait for the next one spinning for some 10 ms of processor time each.
    """
    found: Matrix = (
        np.vecdot(rows, others) if others.ndim == 1 else np.vecdot(rows[:, None], others)
    )
    return found


IntArray = npt.NDArray[np.int64]

Mask = npt.NDArray[np.bool_]
"""Shape (chunks asked for,): True for those of which it is true."""


class Selection:
    """A set of chunks of one snapshot.

    `mask` has them among all chunks, `document_ids` the document of each chunk, ascending.
    """

    def __init__(self, mask: Mask, document_ids: IntArray) -> None:
        self.mask, self._of = mask, document_ids

    def __len__(self) -> int:
        """Count the chunks."""
        return int(np.count_nonzero(self.mask))

    def among(self, chunks: Sequence[ChunkId]) -> Mask:
        """Return which of these chunks are selected."""
        if isinstance(chunks, range):
            return self.mask[chunks.start : chunks.stop]
        return self.mask[np.array(chunks, dtype=np.int64)]

    def first(self, most: int) -> Sequence[ChunkId]:
        """Return the first `most` chunks, ascending."""
        return [ChunkId(n) for n in np.flatnonzero(self.mask)[:most].tolist()]

    def of_documents(self) -> Selection:
        """Return all chunks of the documents with a selected chunk."""
        whole = np.zeros(int(self._of[-1]) + 1 if len(self._of) else 0, dtype=np.bool_)
        whole[self._of[self.mask]] = True
        return Selection(whole[self._of], self._of)

    def __and__(self, other: Selection) -> Selection:
        """Return the intersection with a selection of the same snapshot."""
        return Selection(self.mask & other.mask, self._of)

    def __or__(self, other: Selection) -> Selection:
        """Return the union."""
        return Selection(self.mask | other.mask, self._of)

    def __sub__(self, other: Selection) -> Selection:
        """Return the difference."""
        return Selection(self.mask & ~other.mask, self._of)


class Embedder(Protocol):
    """Turns texts into normalized vectors. A text's vector never depends on its neighbors."""

    @property
    def name(self) -> str:
        """The model's name, as a user would write it."""

    @property
    def fingerprint(self) -> str:
        """What must be equal for vectors to be comparable: model, pooling, prefixes, precision,
        window.
        """

    @property
    def dimensions(self) -> int:
        """The length of every vector."""

    @property
    def window(self) -> int:
        """The most tokens that the model reads of a text."""

    def embed_passages(self, texts: Sequence[str]) -> Matrix:
        """Embed texts that are searched: shape (len(texts), dimensions)."""

    def embed_query(self, text: str) -> Vector:
        """Embed a text that searches."""

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        """Embed texts that search, side by side: shape (len(texts), dimensions), each as
        `embed_query` does.
        """

    def knows(self, word: str) -> bool:
        """Return whether a word is one token of the model's vocabulary."""

    def count_truncated(self, texts: Sequence[str]) -> int:
        """Count the texts that are longer than the window, of which only the beginning is
        embedded.
        """


class Reranker(Protocol):
    """Reads a query and a passage together. Scores are in 0 to 1, higher is better."""

    @property
    def name(self) -> str:
        """The model's name, as a user would write it."""

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """Score each passage for the query, in the passages' order."""


@dataclass(frozen=True, slots=True)
class KeywordWeights:
    """How BM25F weighs its fields (Robertson, Zaragoza & Taylor 2004): boosts by field name,
    saturation, length.
    """

    fields: Mapping[str, float]
    k1: float = 1.2
    b: float = 0.75
    # 0: sums only; 1: a chunk's score is multiplied by the share of the query's idf it holds
    coverage: float = 0.0


class KeywordIndex(Protocol):
    """Finds chunks and documents by their words."""

    @property
    def languages(self) -> frozenset[str]:
        """The languages of the texts with a stemmer, English left out."""

    def search(
        self,
        terms: Sequence[Term],
        weights: KeywordWeights,
        limit: int,
        within: Selection | None = None,
    ) -> RankedList:
        """Return the best `limit` chunks for any of the terms (phrases must match), and the best
        documents' own scores.
        """

    def chunks_with_all_words(self, text: str, fields: Collection[str]) -> Selection:
        """Return the chunks that have every word of a text in one of the fields, as stems.

        A field of the chunk's document counts, too. In the field "code" the whole text is one term.
        """

    def chunks_with_phrase(self, text: str) -> Selection:
        """Return the chunks with a phrase in their text or their document's title or aliases."""

    def chunk_frequency(self, word: str) -> int:
        """Return the number of chunks with a word in its surface form (lower-cased)."""

    def phrase_frequency(self, text: str) -> int:
        """Return the number of chunks with a phrase in their text, as stems."""

    def lexicon(self, lengths: range) -> Collection[str]:
        """Return the words of these lengths (lower-cased, letters only) in the index.

        Words of deleted chunks may be among them.
        """


class VectorIndex(Protocol):
    """Finds chunks by their vectors: cosine."""

    def __len__(self) -> int:
        """Count the chunks that have a vector."""

    def search(self, query: Vector, limit: int, within: Selection | None = None) -> tuple[Hit, ...]:
        """Return the best `limit` chunks by cosine."""

    def vectors(self, chunks: Sequence[ChunkId]) -> Matrix:
        """Return the stored vectors in the chunks' order; NaN rows for those that have none yet."""


class LinkGraph(Protocol):
    """The links between documents."""

    def outgoing(self, document: DocumentId) -> tuple[DocumentId, ...]:
        """Return the documents that this one links to, each once, in ascending order."""

    def incoming(self, document: DocumentId) -> tuple[DocumentId, ...]:
        """Return the documents that link to this one, each once, in ascending order."""


class Documents(Protocol):
    """The documents of a snapshot, each by its id."""

    def __getitem__(self, document: DocumentId, /) -> Document:
        """Return a document."""


class Catalog(Protocol):
    """The documents and chunks of a snapshot by id, and their selection by filter or name."""

    def __len__(self) -> int:
        """Count the chunks."""

    @property
    def documents(self) -> Documents:
        """The documents by id; ids ascend by folder, then path."""

    @property
    def sizes(self) -> IntArray:
        """How many chunks each document has, shape (documents,): ids count from 0 on."""

    @property
    def ordinal_days(self) -> IntArray:
        """Each document's day as an ordinal, shape (documents,); 0 if none is known."""

    @property
    def languages(self) -> Mapping[str, int]:
        """How many documents are in each language."""

    def document_of(self, chunk: ChunkId) -> DocumentId:
        """Return the document that a chunk is part of."""

    def chunk_ids(self, document: DocumentId) -> range:
        """Return the ids of a document's chunks, in the order of its lines."""

    def chunks(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Chunk]:
        """Load chunks; one that is gone meanwhile is missing from the result."""

    def sections(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Section]:
        """Load the parent of each chunk; one that is gone meanwhile is missing from the result."""

    def select(self, filters: Filters) -> Selection | None:
        """Return the chunks that pass filters; None for all."""

    def everything(self) -> Selection:
        """Return all chunks."""

    def only(self, chunks: Sequence[ChunkId]) -> Selection:
        """Return some chunks as a selection."""

    def every_nth(self, step: int, within: Selection | None, start: int = 0) -> Sequence[ChunkId]:
        """Return every `step`-th chunk of a selection (None: of all), from position `start`."""

    def chunks_matching(self, condition: TypedFilter) -> Selection:
        """Return the chunks of documents that match a condition; `excludes` is ignored."""

    def has_match(self, condition: TypedFilter) -> bool:
        """Return whether any document matches a condition."""

    def similar_values(self, field: FilterField, value: str) -> tuple[str, ...]:
        """Return the tags, or directories and paths, most similar to a value, nearest first."""

    def documents_named(self, letters: str, longest: int) -> Sequence[DocumentId]:
        """Return the documents with a file name (without suffix), a title or an alias of these
        letters (`text.name_key`), ascending.

        A name in ASCII has no more than `longest` characters.
        """

    def abbreviations_with(self, forms: Collection[str]) -> Mapping[Abbreviation, int]:
        """Return the abbreviations with one of these short forms, or a long one with one of these
        keys (`text.form_key`).

        The number is that of the documents that define it.
        """

    def newest(self, within: Selection | None, limit: int) -> tuple[Sequence[ChunkId], int]:
        """Return the first selected chunk of each of the newest documents, undated ones last.

        The second value is the number of documents.
        """

    def undated(self, within: Selection | None) -> int:
        """Count the documents of a selection (None: of all) without a known day."""


class FolderCatalog(Catalog, Protocol):
    """Catalog over one folder: it knows each document by its path, too."""

    def document_at(self, path: str) -> DocumentId | None:
        """Return the document at a path of a folder; None where there is none."""

    def every_path(self) -> Iterator[tuple[DocumentId, str]]:
        """Yield the id and the path of every document, ascending: for lists and for names as people
        write them, never for a question.
        """

    def every_document(self) -> Iterator[tuple[DocumentId, Document]]:
        """Yield every document with its id, ascending: for lists, never for a question."""


Salience = npt.NDArray[np.float64]
"""Shape (chunks asked for,): 0 to 1, boosts included."""


class Duplicates(Protocol):
    """The duplicate chunks, found by indexing or decided by the owner."""

    def repeats(self) -> Selection | None:
        """Return the chunks that repeat another one of their document; None if there are none."""

    def salience(self, chunks: Sequence[ChunkId]) -> Salience:
        """Return the salience of chunks, raised by their repeats."""

    def copies(self, chunk: ChunkId) -> tuple[ChunkId, ...]:
        """Return the repeats of a chunk and its copies in other documents, ascending."""

    def verdict(self, first: ChunkId, second: ChunkId) -> Verdict | None:
        """Return the owner's decision about two chunks' texts, or None."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An index at one generation, as the pipeline sees it: immutable, made of ports."""

    generation: int
    catalog: Catalog
    keyword: KeywordIndex
    vector: VectorIndex
    graph: LinkGraph
    # terms and their vectors, for `expand`
    vocabulary: tuple[tuple[str, ...], Matrix] | None
    duplicates: Duplicates


class FolderSnapshot(Protocol):
    """The snapshot of a folder's index, with its model and counts."""

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that the pipeline searches."""

    @property
    def catalog(self) -> FolderCatalog:
        """The catalog of the snapshot."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the vectors' model; empty without vectors."""

    @property
    def model(self) -> str:
        """The name of that model."""

    @property
    def documents(self) -> int:
        """The number of documents."""
