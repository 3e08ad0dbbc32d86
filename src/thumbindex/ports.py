"""The seams to the outside: what the pipeline asks of models and indexes. Fake and real pass one contract suite."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from thumbindex.model import Abbreviation, Chunk, ChunkId, Document, DocumentId, Filters, Hit, Place, RankedList, Section, Term, Verdict

Vector = npt.NDArray[np.float32]
"""Shape (dimensions,), length 1."""

Matrix = npt.NDArray[np.float32]
"""Shape (rows, dimensions), each row of length 1; a row of NaN stands for a vector that is not there yet."""

Mask = npt.NDArray[np.bool_]
"""Shape (chunks,): True where a chunk of the snapshot may be found."""


class Embedder(Protocol):
    """Turns texts into normalized vectors. A text's vector never depends on its neighbors."""

    @property
    def name(self) -> str:
        """The model's name, as a user would write it."""

    @property
    def fingerprint(self) -> str:
        """What must be equal for vectors to be comparable: model, pooling, prefixes, precision, window."""

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
        """Embed texts that search, side by side: shape (len(texts), dimensions), each as `embed_query` does."""

    def embed_tokens(self, text: str) -> Matrix:
        """Return one normalized vector a token, special tokens left out: shape (tokens, dimensions)."""

    def knows(self, word: str) -> bool:
        """Tell whether a word is one token of the model's vocabulary: then it is a word, whether any text holds it or not."""

    def count_truncated(self, texts: Sequence[str]) -> int:
        """Count the texts that are longer than the window, of which only the beginning is embedded."""


class Reranker(Protocol):
    """Reads a query and a passage together. Scores are in 0 to 1, higher is better."""

    @property
    def name(self) -> str:
        """The model's name, as a user would write it."""

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """Score each passage for the query, in the passages' order."""


@dataclass(frozen=True, slots=True)
class KeywordWeights:
    """How BM25F weighs its fields (Robertson, Zaragoza & Taylor 2004): boosts by field name, saturation, length."""

    fields: Mapping[str, float]
    k1: float = 1.2
    b: float = 0.75
    coverage: float = 0.0  # 0: sums only; 1: a chunk's score is multiplied by the share of the query's idf it holds


class KeywordIndex(Protocol):
    """Finds chunks and documents by their words."""

    @property
    def languages(self) -> frozenset[str]:
        """The languages beside English that some of the texts are in, of those whose endings are taken off."""

    def search(self, terms: Sequence[Term], weights: KeywordWeights, limit: int, mask: Mask | None = None) -> RankedList:
        """Return the best `limit` chunks for any of the terms (phrases must match), and every matching document's score."""

    def holding(self, text: str, fields: Collection[str]) -> Mask:
        """Tell which chunks hold all words of a text, themselves or by their document, in any of the fields, as `search` would find them."""

    def holding_phrase(self, text: str) -> Mask:
        """Tell which chunks hold the words of a text one after the other, or whose document does in its title or an alias."""

    def frequency(self, word: str) -> int:
        """Count the chunks that hold the word in its surface form (lower-cased)."""

    def adjacent(self, text: str) -> int:
        """Count the chunks in whose text words stand one after the other, endings aside."""

    def words(self) -> Mapping[str, int]:
        """Return every surface form (lower-cased) with the number of chunks that hold it, or held it not long ago; `frequency` is exact."""


class VectorIndex(Protocol):
    """Finds chunks by their vectors: cosine, exact."""

    def __len__(self) -> int:
        """Count the chunks that have a vector."""

    def search(self, query: Vector, limit: int, mask: Mask | None = None) -> tuple[Hit, ...]:
        """Return the best `limit` chunks by cosine."""

    def vectors(self, chunks: Sequence[ChunkId]) -> Matrix:
        """Return the stored vectors in the chunks' order; NaN rows for those that have none yet."""


class LinkGraph(Protocol):
    """Knows which document links to which."""

    def linked(self, document: DocumentId) -> tuple[DocumentId, ...]:
        """Return the documents that this one links to, each once, in ascending order."""

    def linking(self, document: DocumentId) -> tuple[DocumentId, ...]:
        """Return the documents that link to this one, each once, in ascending order."""


class Catalog(Protocol):
    """Knows each document and chunk of the snapshot by its id."""

    def __len__(self) -> int:
        """Count the chunks."""

    @property
    def folders(self) -> Sequence[Catalog]:
        """The catalogs of the folders that it is made of, in the order of its documents: itself where it is of one folder."""

    @property
    def documents(self) -> Sequence[Document]:
        """All documents; a DocumentId is a position in this sequence."""

    @property
    def abbreviations(self) -> Mapping[Abbreviation, int]:
        """How many documents define each abbreviation."""

    def document_of(self, chunk: ChunkId) -> DocumentId:
        """Return the document that a chunk is part of."""

    def chunk_ids(self, document: DocumentId) -> range:
        """Return the ids of a document's chunks, in the order of its lines."""

    def chunks(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Chunk]:
        """Load chunks; one that is gone meanwhile is missing from the result."""

    def headings(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, tuple[str, ...]]:
        """Load the title and the headings above each chunk, and no text; one that is gone meanwhile is missing from the result."""

    def sections(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Section]:
        """Load the parent of each chunk; one that is gone meanwhile is missing from the result."""

    def places(self, ids: Sequence[ChunkId]) -> Sequence[Place]:
        """Say where chunks stand."""

    def select(self, filters: Filters) -> Mask | None:
        """Return which chunks the filters let through; None when that is all of them."""


Salience = npt.NDArray[np.float64]
"""Shape (chunks asked for,): 0 to 1, boosts included."""


class Duplicates(Protocol):
    """Knows which chunks say the same, found when the index was written or decided by its owner."""

    def repeated(self) -> Mask | None:
        """Return which chunks repeat another one of their document and are no search units of their own; None where there are none."""

    def salience(self, chunks: Sequence[ChunkId]) -> Salience:
        """Return how much chunks matter in their documents, raised by what repeats them."""

    def copies(self, chunk: ChunkId) -> tuple[ChunkId, ...]:
        """Return the chunks that say what this one says: the repeats it stands for, and its copies in other documents; ascending, itself left out."""

    def verdict(self, first: ChunkId, second: ChunkId) -> Verdict | None:
        """Return what the owner decided of two chunks' texts, if anything."""


class NoDuplicates(Duplicates):
    """Knows of none."""

    def repeated(self) -> None:
        """Return None."""

    def salience(self, chunks: Sequence[ChunkId]) -> Salience:
        """Return the same for all."""
        return np.full(len(chunks), 0.5)

    def copies(self, chunk: ChunkId) -> tuple[()]:
        """Return nothing."""
        return ()

    def verdict(self, first: ChunkId, second: ChunkId) -> None:
        """Return None."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An index at one generation, as the pipeline sees it: immutable, made of ports."""

    generation: int
    catalog: Catalog
    keyword: KeywordIndex
    vector: VectorIndex
    graph: LinkGraph
    vocabulary: tuple[tuple[str, ...], Matrix] | None = None  # terms and their vectors, for `expand`
    duplicates: Duplicates = field(default_factory=NoDuplicates)
