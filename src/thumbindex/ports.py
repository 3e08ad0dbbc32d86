"""The seams to the outside: what the pipeline asks of models and indexes.

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
    Condition,
    Document,
    DocumentId,
    FilterField,
    Filters,
    Hit,
    RankedList,
    Section,
    Term,
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
    """Some of the chunks of one snapshot: what filters let through, or what holds a word.

    `mask` has them among all chunks, `document_ids` the document of each chunk, ascending.
    """

    def __init__(self, mask: Mask, document_ids: IntArray) -> None:
        self.mask, self._of = mask, document_ids

    def __len__(self) -> int:
        """Count the chunks."""
        return int(np.count_nonzero(self.mask))

    def among(self, chunks: Sequence[ChunkId]) -> Mask:
        """Tell which of these chunks it has."""
        if isinstance(chunks, range):
            return self.mask[chunks.start : chunks.stop]
        return self.mask[np.array(chunks, dtype=np.int64)]

    def first(self, most: int) -> Sequence[ChunkId]:
        """Return the first chunks, ascending, at most so many."""
        return [ChunkId(n) for n in np.flatnonzero(self.mask)[:most].tolist()]

    def of_documents(self) -> Selection:
        """Return all chunks of each document of which it has one."""
        whole = np.zeros(int(self._of[-1]) + 1 if len(self._of) else 0, dtype=np.bool_)
        whole[self._of[self.mask]] = True
        return Selection(whole[self._of], self._of)

    def __and__(self, other: Selection) -> Selection:
        """Return what both have; the other is of the same snapshot, as below."""
        return Selection(self.mask & other.mask, self._of)

    def __or__(self, other: Selection) -> Selection:
        """Return what either has."""
        return Selection(self.mask | other.mask, self._of)

    def __sub__(self, other: Selection) -> Selection:
        """Return what the other has not."""
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
        """Tell whether a word is one token of the model's vocabulary: then it is a word, whether
        any text holds it or not.
        """

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
        """The languages beside English that some of the texts are in, of those whose endings are
        taken off.
        """

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

    def holding(self, text: str, fields: Collection[str]) -> Selection:
        """Return the chunks that hold all words of a text, themselves or by their document, in any
        of the fields, as `search` would find them.
        """

    def holding_phrase(self, text: str) -> Selection:
        """Return the chunks that hold the words of a text one after the other, or whose document
        does in its title or an alias.
        """

    def frequency(self, word: str) -> int:
        """Count the chunks that hold the word in its surface form (lower-cased)."""

    def adjacent(self, text: str) -> int:
        """Count the chunks in whose text words stand one after the other, endings aside."""

    def words(self, lengths: range) -> Collection[str]:
        """Return the surface forms (lower-cased, letters alone) of these lengths that some chunk
        holds, or held not long ago.
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
    """Knows which document links to which."""

    def linked(self, document: DocumentId) -> tuple[DocumentId, ...]:
        """Return the documents that this one links to, each once, in ascending order."""

    def linking(self, document: DocumentId) -> tuple[DocumentId, ...]:
        """Return the documents that link to this one, each once, in ascending order."""


class Documents(Protocol):
    """The documents of a snapshot, each by its id."""

    def __getitem__(self, document: DocumentId, /) -> Document:
        """Return a document."""


class Catalog(Protocol):
    """Knows each document and chunk of the snapshot by its id, and which ones filters, names and
    days mean.
    """

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
        """Return the chunks that filters let through; None when that is all of them."""

    def everything(self) -> Selection:
        """Return all chunks."""

    def only(self, chunks: Sequence[ChunkId]) -> Selection:
        """Return some chunks as a selection."""

    def every(self, step: int, within: Selection | None, start: int = 0) -> Sequence[ChunkId]:
        """Return every so manieth chunk of a selection (of all where None) in the order of ids,
        from the one at position `start` on.
        """

    def meeting(self, condition: Condition) -> Selection:
        """Return the chunks of the documents that meet what is asked of their tags, path, file or
        title; whether it excludes them is not asked.
        """

    def is_met(self, condition: Condition) -> bool:
        """Tell whether a document meets that, with chunks or without."""

    def near(self, field: FilterField, value: str) -> tuple[str, ...]:
        """Return the tags, or the directories and paths, that are most like a value, the nearest
        first.
        """

    def named(self, letters: str, longest: int) -> Sequence[DocumentId]:
        """Return the documents with a file name (without suffix), a title or an alias of these
        letters (`text.name_key`), ascending.

        A name in ASCII has no more than `longest` characters.
        """

    def defined(self, forms: Collection[str]) -> Mapping[Abbreviation, int]:
        """Return the abbreviations with one of these short forms, or a long one with one of these
        keys (`text.form_key`).

        The number is that of the documents that define it.
        """

    def newest(self, within: Selection | None, limit: int) -> tuple[Sequence[ChunkId], int]:
        """Return the first chunk in a selection of each of its newest documents, those without a
        day last, and how many documents it has.
        """

    def undated(self, within: Selection | None) -> int:
        """Count the documents of a selection (of all where None) of which no day is known."""


class FolderCatalog(Catalog, Protocol):
    """Catalog over one folder: it knows each document by its path, too."""

    def at(self, path: str) -> DocumentId | None:
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
    """Knows which chunks say the same, found when the index was written or decided by its owner."""

    def repeated(self) -> Selection | None:
        """Return the chunks that repeat another one of their document and are no search units of
        their own; None where there are none.
        """

    def salience(self, chunks: Sequence[ChunkId]) -> Salience:
        """Return how much chunks matter in their documents, raised by what repeats them."""

    def copies(self, chunk: ChunkId) -> tuple[ChunkId, ...]:
        """Return the chunks that say what this one says: the repeats it stands for, and its copies
        in other documents; ascending, itself left out.
        """

    def verdict(self, first: ChunkId, second: ChunkId) -> Verdict | None:
        """Return what the owner decided of two chunks' texts, if anything."""


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
