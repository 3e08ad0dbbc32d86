"""BM25F over columns: term frequencies of all fields merged before saturation, for every chunk and
document at once.

Robertson, Zaragoza & Taylor, "Simple BM25 extension to multiple weighted fields", CIKM 2004.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thumbindex.ports import KeywordWeights, Mask, Positions

Floats = npt.NDArray[np.float32]
MOST_DOCUMENTS = 1_000
"""Documents whose own scores a question gets."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One term's postings in one field: ascending positions, and how often the term stands
    there.
    """

    # of 32 bits where thousands of columns are kept: no folder has two thousand million chunks
    rows: npt.NDArray[np.signedinteger[Any]]
    frequencies: Floats
    whole: bool  # positions are documents', not chunks'


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """A field's lengths in words by row, and of a chunks' field those of whole documents: the same
    for every question of a snapshot.
    """

    rows: Floats
    mean: float
    documents: Floats
    documents_mean: float

    @classmethod
    def of_documents(cls, rows: Floats) -> Lengths:
        """Take a field that is a document's."""
        return cls(rows, _mean(rows), rows, _mean(rows))

    @classmethod
    def of_chunks(cls, rows: Floats, document_ids: Positions, documents: int) -> Lengths:
        """Take a field that is a chunk's, and add it up by document."""
        summed = np.bincount(document_ids, weights=rows, minlength=documents).astype(np.float32)
        return cls(rows, _mean(rows), summed, _mean(summed))


def merged(columns: Sequence[tuple[Column, float]]) -> Column:
    """Return one column of several of one field, the frequencies of each weighted: forms of one
    word are one word.
    """
    rows = np.concatenate([column.rows for column, _ in columns])
    frequencies = np.concatenate(
        [column.frequencies * np.float32(weight) for column, weight in columns]
    )
    held, at = np.unique(rows, return_inverse=True)
    return Column(
        held,
        np.bincount(at, weights=frequencies, minlength=len(held)).astype(np.float32),
        columns[0][0].whole,
    )


def either(columns: Sequence[Column]) -> Column:
    """Return one column of several that hold the same places under several stems of a word: how
    often the most frequent one stands there.
    """
    filled = [column for column in columns if len(column.rows)]
    if len(filled) < 2:
        return filled[0] if filled else columns[0]
    held, at = np.unique(np.concatenate([column.rows for column in filled]), return_inverse=True)
    frequencies = np.zeros(len(held), dtype=np.float32)
    np.maximum.at(frequencies, at, np.concatenate([column.frequencies for column in filled]))
    return Column(held, frequencies, columns[0].whole)


class Scorer:
    """Adds up one query's terms. Each document field stands on every chunk of its document."""

    def __init__(
        self,
        document_ids: Positions,
        documents: int,
        weights: KeywordWeights,
        lengths: Callable[[str], Lengths],
    ) -> None:
        self._of = document_ids
        self._weights = weights
        self._lengths = lengths
        self._chunk_scores = np.zeros(len(document_ids), dtype=np.float32)
        self._document_scores = np.zeros(documents, dtype=np.float32)
        self._covered = np.zeros(len(document_ids), dtype=np.float32)
        self._asked = 0.0

    def add(self, weight: float, columns: Mapping[str, Column]) -> None:
        """Add a term with its columns by field."""
        chunk, document = np.zeros_like(self._chunk_scores), np.zeros_like(self._document_scores)
        # documents' fields first: what they add up to stands on each of the chunks
        for whole in (True, False):
            for field, column in columns.items():
                if column.whole is whole and len(column.rows):
                    self._merge(
                        self._lengths(field), column, self._weights.fields[field], chunk, document
                    )
            if whole and document.any():
                chunk += document[self._of]
        rarity = idf(int(np.count_nonzero(chunk)), len(chunk))
        self._chunk_scores += weight * rarity * _saturated(chunk, self._weights.k1)
        document_rarity = idf(int(np.count_nonzero(document)), len(document))
        self._document_scores += weight * document_rarity * _saturated(document, self._weights.k1)
        self._covered += weight * rarity * (chunk > 0)
        self._asked += weight * rarity

    def _merge(
        self, lengths: Lengths, column: Column, boost: float, chunk: Floats, document: Floats
    ) -> None:
        """Add one field's length-normalized frequencies to a document's, and where the field is a
        chunk's own, to a chunk's.
        """
        b = self._weights.b
        if column.whole:
            document[column.rows] += (
                boost
                * column.frequencies
                / _length_norm(lengths.rows[column.rows], lengths.mean, b)
            )
            return
        chunk[column.rows] += (
            boost * column.frequencies / _length_norm(lengths.rows[column.rows], lengths.mean, b)
        )
        summed = np.bincount(
            self._of[column.rows], weights=column.frequencies, minlength=len(document)
        ).astype(np.float32)
        held = np.flatnonzero(summed)
        document[held] += (
            boost * summed[held] / _length_norm(lengths.documents[held], lengths.documents_mean, b)
        )

    def best_chunks(
        self, limit: int, mask: Mask | None
    ) -> tuple[list[int], list[float], list[float]]:
        """Return positions and scores of the best chunks (ties by position), and the idf share that
        each covers.
        """
        shares = self._covered / self._asked if self._asked else self._covered
        coverage = self._weights.coverage
        scores = self._chunk_scores * (1 - coverage + coverage * shares)
        best = _best(scores if mask is None else np.where(mask, scores, 0), limit)
        return best, scores[best].tolist(), shares[best].tolist()

    def documents(self, mask: Mask | None) -> list[tuple[int, float]]:
        """Return the best documents with their scores."""
        scores = self._document_scores
        if mask is not None:
            allowed = np.zeros(len(scores), dtype=np.bool_)
            allowed[self._of[mask]] = True
            scores = np.where(allowed, scores, 0)
        return [(n, float(scores[n])) for n in _best(scores, MOST_DOCUMENTS)]


def _best(scores: npt.NDArray[Any], limit: int) -> list[int]:
    """Return the positions of the best scores above 0, ties by position."""
    found = np.flatnonzero(scores > 0)
    if len(found) > limit:
        bar = np.partition(scores[found], -limit)[-limit]
        found = found[scores[found] >= bar]
    return [int(n) for n in found[np.lexsort((found, -scores[found]))][:limit]]


def idf(frequency: int, total: int) -> float:
    """Return how much a term says that so many of a number of texts hold: the fewer, the more."""
    return float(np.log(1 + (total - frequency + 0.5) / (frequency + 0.5)))


def _saturated(frequency: Floats, k1: float) -> Floats:
    if k1:
        return frequency * np.float32(k1 + 1) / (frequency + np.float32(k1))
    return (frequency > 0).astype(np.float32)


def _mean(lengths: Floats) -> float:
    held = lengths[lengths > 0]
    return float(held.mean(dtype=np.float64)) if len(held) else 1.0


def _length_norm(lengths: Floats, mean: float, b: float) -> Floats:
    return (np.float32(1 - b) + np.float32(b / mean) * lengths).astype(np.float32)
