"""Ports: the interfaces through which the query pipeline uses models and indexes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    Filters,
    Hit,
    RankedList,
    Section,
    Term,
    TypedFilter,
    Verdict,
)

Vector = npt.NDArray[np.float32]
"""A unit vector, shape (dimensions,)."""

Cosines = npt.NDArray[np.float32]
"""One cosine per chunk, shape (chunks,), from -1 to 1. A chunk without a vector has NaN."""

Matrix = npt.NDArray[np.float32]
"""Unit vectors, shape (rows, dimensions). A missing vector is a row of NaN."""


def inner_products(rows: Matrix, others: Matrix | Vector) -> Matrix:
    """Return the inner products of `rows` with a vector, or with each row of a matrix.

    The shape is (rows,) for a vector, and (rows, others) for a matrix. If `rows` is C-contiguous,
    the result of a row does not depend on other rows.
    """
    # no BLAS, because its threads spin for 10 ms after each product
    products: Matrix = (
        np.vecdot(rows, others) if others.ndim == 1 else np.vecdot(rows[:, None], others)
    )
    return products


IntArray = npt.NDArray[np.int64]

Mask = npt.NDArray[np.bool_]
"""One value per chunk, shape (chunks,): True if the chunk is selected."""


class Selection:
    """A set of chunks of one snapshot.

    `mask` has a value for each chunk of the snapshot. `document_ids` has the id of each chunk's
    document, in ascending order.
    """

    def __init__(self, mask: Mask, document_ids: IntArray) -> None:
        self.mask, self._document_ids = mask, document_ids

    def __len__(self) -> int:
        """Count the selected chunks."""
        return int(np.count_nonzero(self.mask))

    def among(self, chunks: Sequence[ChunkId]) -> Mask:
        """Return a mask of the given chunks: True if the chunk is selected."""
        if isinstance(chunks, range):
            return self.mask[chunks.start : chunks.stop]
        return self.mask[np.array(chunks, dtype=np.int64)]

    def first(self, count: int) -> Sequence[ChunkId]:
        """Return the first `count` selected chunks, in the order of ids."""
        return [ChunkId(n) for n in np.flatnonzero(self.mask)[:count].tolist()]

    def of_documents(self) -> Selection:
        """Return all chunks of the documents that have a selected chunk."""
        count = int(self._document_ids[-1]) + 1 if len(self._document_ids) else 0
        documents = np.zeros(count, dtype=np.bool_)
        documents[self._document_ids[self.mask]] = True
        return Selection(documents[self._document_ids], self._document_ids)

    def __and__(self, other: Selection) -> Selection:
        """Return the intersection with another selection of the same snapshot."""
        return Selection(self.mask & other.mask, self._document_ids)

    def __or__(self, other: Selection) -> Selection:
        """Return the union with another selection of the same snapshot."""
        return Selection(self.mask | other.mask, self._document_ids)

    def __sub__(self, other: Selection) -> Selection:
        """Return the selected chunks that are not in another selection of the same snapshot."""
        return Selection(self.mask & ~other.mask, self._document_ids)


class Embedder(Protocol):
    """Embeds texts as normalized vectors. A text's vector does not depend on other texts."""

    @property
    def name(self) -> str:
        """The model's name in the configuration."""

    @property
    def fingerprint(self) -> str:
        """A key made of the model, pooling, prefixes, precision and window.

        Only vectors with the same key are comparable.
        """

    @property
    def dimensions(self) -> int:
        """The length of every vector."""

    @property
    def window(self) -> int:
        """The maximum tokens of a text. The model ignores further tokens."""

    def embed_passages(self, texts: Sequence[str]) -> Matrix:
        """Embed the texts that are searched; the result has shape (len(texts), dimensions)."""

    def embed_query(self, text: str) -> Vector:
        """Embed a query."""

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        """Embed each query as `embed_query` does; the result has shape (len(texts), dimensions)."""

    def knows(self, word: str) -> bool:
        """Return whether a word is one token of the model's vocabulary."""


class Reranker(Protocol):
    """Scores how well a passage answers a query, from 0 to 1. Higher is better."""

    @property
    def name(self) -> str:
        """The model's name in the configuration."""

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """Score each passage for a query, in order."""


@dataclass(frozen=True, slots=True)
class KeywordWeights:
    """The parameters of BM25F (Robertson, Zaragoza & Taylor 2004)."""

    fields: Mapping[str, float]  # boost by field name
    k1: float = 1.2  # saturation of repeated words
    b: float = 0.75  # length normalization
    # 0: no effect; 1: the score is multiplied by the idf-weighted fraction of terms in the chunk
    coverage: float = 0.0


PHRASE_FIELDS = ("body", "headings", "title", "aliases")
"""The fields that are searched for a quoted phrase."""


class KeywordIndex(Protocol):
    """Finds chunks and documents by their words."""

    @property
    def languages(self) -> frozenset[str]:
        """The languages of the indexed texts for which there is a stemmer, except English."""

    def search(
        self,
        terms: Sequence[Term],
        weights: KeywordWeights,
        limit: int,
        within: Selection | None = None,
    ) -> RankedList:
        """Return the best `limit` chunks, and the scores of the best documents.

        A document is scored by its best chunk, also beyond the limit, and as a whole.

        Each returned chunk contains at least one term, and all phrases as they are written.
        """

    def chunks_with_all_words(self, text: str, fields: Collection[str]) -> Selection:
        """Return the chunks that contain each word of a text in any of the fields, comparing stems.

        Fields of a chunk's document count as well. In the field "code", the whole text is one term.
        """

    def chunks_with_phrase(self, text: str, fields: Collection[str] = PHRASE_FIELDS) -> Selection:
        """Return the chunks that contain a word or phrase in any of the fields, as it is written.

        Case and accents are ignored, but words are not stemmed. Fields of a chunk's document count
        as well.
        """

    def chunk_frequency(self, word: str) -> int:
        """Return the number of chunks that contain a lower-cased word. Words are not stemmed."""

    def phrase_frequency(self, text: str) -> int:
        """Return the number of chunks that contain a word or phrase in any of `PHRASE_FIELDS`.

        Words are compared by stems.
        """

    def lexicon(self, lengths: range) -> Collection[str]:
        """Return the lower-cased words that have these lengths and contain only letters.

        The result may include words of deleted chunks.
        """


class VectorIndex(Protocol):
    """Finds chunks by the cosine of their vectors."""

    def __len__(self) -> int:
        """Count the chunks with a vector."""

    @property
    def coverage(self) -> float:
        """The share of chunks with a vector, without folders that have none."""
        return 1.0

    def search(self, query: Vector, limit: int, within: Selection | None = None) -> tuple[Hit, ...]:
        """Return the best `limit` chunks by cosine."""

    def vectors(self, chunks: Sequence[ChunkId]) -> Matrix:
        """Return the vectors of chunks, in order. A chunk without a vector has a row of NaN."""

    def count_provisional(self) -> int:
        """Count the vectors that are provisional: estimates until the model has computed them."""
        return 0

    def is_provisional(self, chunks: Sequence[ChunkId]) -> Mask:
        """Return whether the vector of each chunk is provisional, shape (chunks,)."""
        return np.zeros(len(chunks), dtype=np.bool_)

    def exact_vectors(self, chunks: Sequence[ChunkId]) -> Matrix:
        """Like `vectors`, but provisional vectors are NaN, too."""
        matrix = self.vectors(chunks)
        matrix[self.is_provisional(chunks)] = np.nan
        return matrix


class LinkGraph(Protocol):
    """The links between documents."""

    def outgoing(self, document: DocumentId) -> tuple[DocumentId, ...]:
        """Return the documents that a document links to, sorted by id, without repeats."""

    def incoming(self, document: DocumentId) -> tuple[DocumentId, ...]:
        """Return the documents that link to a document, sorted by id, without repeats."""


class Catalog(Protocol):
    """The documents and chunks of a snapshot by id, and their selection by filter or name."""

    def __len__(self) -> int:
        """Count the chunks."""

    @property
    def documents(self) -> Sequence[Document]:
        """The documents by id. Ids are in the order of folders, then of paths."""

    @property
    def sizes(self) -> IntArray:
        """The number of chunks of each document, shape (documents,)."""

    @property
    def ordinal_days(self) -> IntArray:
        """The day of each document as an ordinal, shape (documents,); 0 if unknown."""

    @property
    def languages(self) -> Mapping[str, int]:
        """The number of documents in each language."""

    @property
    def successors(self) -> Mapping[DocumentId, Mapping[DocumentId, bool]]:
        """The successors of each document: True if the document names the successor itself."""

    def document_of(self, chunk: ChunkId) -> DocumentId:
        """Return the document of a chunk."""

    def chunk_ids(self, document: DocumentId) -> range:
        """Return the ids of a document's chunks, in order."""

    def chunks(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Chunk]:
        """Load chunks. A chunk that no longer exists is missing from the result."""

    def sections(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Section]:
        """Load each chunk's section. A chunk that no longer exists is missing from the result."""

    def select(self, filters: Filters) -> Selection | None:
        """Return the chunks that pass filters, or None if no filter is set."""

    def everything(self) -> Selection:
        """Return all chunks."""

    def only(self, chunks: Sequence[ChunkId]) -> Selection:
        """Return the given chunks as a selection."""

    def every_nth(self, step: int, within: Selection | None, start: int = 0) -> Sequence[ChunkId]:
        """Return every `step`-th chunk of `within` (all chunks if None), from position `start`."""

    def chunks_matching(self, condition: TypedFilter) -> Selection:
        """Return the chunks of the documents that match a condition, ignoring its `excludes`."""

    def has_match(self, condition: TypedFilter) -> bool:
        """Return whether any document matches a condition."""

    def similar_values(self, condition: TypedFilter) -> tuple[str, ...]:
        """Return the values of the condition's field that are most similar to its value."""

    def documents_named(self, letters: str) -> Sequence[DocumentId]:
        """Return the documents with a file name, title or alias whose key is `letters`.

        They are sorted by id. `text.name_key` makes the key.
        """

    def abbreviations_with(self, forms: Collection[str]) -> Mapping[Abbreviation, int]:
        """Return the abbreviations with a form in `forms`, and how many documents define each.

        `forms` may contain short forms, and keys of long forms (`text.form_key`).
        """

    def newest(self, within: Selection | None, limit: int) -> tuple[Sequence[ChunkId], int]:
        """Return the first selected chunk of each of the newest documents, undated ones last.

        The second value is the number of all documents with a selected chunk.
        """

    def undated(self, within: Selection | None) -> int:
        """Count the undated documents with a chunk in `within`, or in the catalog if None."""


Salience = npt.NDArray[np.float64]
"""One value per chunk, shape (chunks,), from 0 to 1. Includes the boost for repeats."""


class Duplicates(Protocol):
    """The duplicate chunks that indexing found, and the user's decisions about them."""

    def repeats(self, within: Selection | None = None) -> Selection | None:
        """Return the chunks that are not searched, because they repeat another one; None if none.

        They repeat a chunk of their document, or the first chunk in `shared` and `within` with
        their text.
        """

    def shared(self) -> Selection | None:
        """Return the chunks whose whole text stands in many documents; None if there are none."""

    def salience(self, chunks: Sequence[ChunkId]) -> Salience:
        """Return the salience of chunks, including the boost of a kept chunk for its repeats."""

    def copies(self, chunk: ChunkId) -> tuple[ChunkId, ...]:
        """Return copies of the chunk in other documents, and its repeats in the same one.

        The result is sorted by id.
        """

    def verdict(self, first: ChunkId, second: ChunkId) -> Verdict | None:
        """Return the user's decision about the texts of two chunks, or None."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An immutable view of an index at one generation."""

    generation: int
    catalog: Catalog
    keyword: KeywordIndex
    vector: VectorIndex
    graph: LinkGraph
    vocabulary: tuple[tuple[str, ...], Matrix] | None  # terms and their vectors, for `expand`
    duplicates: Duplicates
