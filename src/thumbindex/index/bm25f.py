"""BM25F over posting lists: score all chunks and documents at once. The term frequencies of all
fields are added up before saturation.

Robertson, Zaragoza & Taylor, "Simple BM25 extension to multiple weighted fields", CIKM 2004.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from thumbindex.ports import IntArray, KeywordWeights, Mask

Floats = npt.NDArray[np.float32]
MAX_DOCUMENTS = 1_000
"""Maximum number of documents that `Scorer.best_documents` returns."""


@dataclass(frozen=True, slots=True, eq=False)
class PostingList:
    """The chunks or documents that contain a term in a field, and the term's frequency in each."""

    # ascending; 32-bit numbers in cached lists
    ids: npt.NDArray[np.signedinteger[Any]]
    frequencies: Floats
    by_document: bool  # the ids are of documents, not of chunks


@dataclass(frozen=True, slots=True, eq=False)
class FieldLengths:
    """The number of words in a field, by chunk or document id, and the total of each document."""

    by_id: Floats
    mean: float
    documents: Floats
    documents_mean: float

    @classmethod
    def of_documents(cls, lengths: Floats) -> FieldLengths:
        """Return the lengths of a document field."""
        return cls(lengths, _mean(lengths), lengths, _mean(lengths))

    @classmethod
    def of_chunks(cls, lengths: Floats, document_ids: IntArray, documents: int) -> FieldLengths:
        """Return the lengths of a chunk field, and their sum for each document."""
        summed = np.bincount(document_ids, weights=lengths, minlength=documents).astype(np.float32)
        return cls(lengths, _mean(lengths), summed, _mean(summed))


def weighted_union(lists: Sequence[tuple[PostingList, float]]) -> PostingList:
    """Merge posting lists of one field by adding up the weighted frequencies of each id."""
    ids = np.concatenate([postings.ids for postings, _ in lists])
    frequencies = np.concatenate(
        [postings.frequencies * np.float32(weight) for postings, weight in lists]
    )
    unique, at = np.unique(ids, return_inverse=True)
    return PostingList(
        unique,
        np.bincount(at, weights=frequencies, minlength=len(unique)).astype(np.float32),
        lists[0][0].by_document,
    )


def max_union(lists: Sequence[PostingList]) -> PostingList:
    """Merge the posting lists of a word's stems.

    If several lists contain the same id, the highest frequency counts.
    """
    filled = [postings for postings in lists if len(postings.ids)]
    if len(filled) < 2:
        return filled[0] if filled else lists[0]
    ids, at = np.unique(np.concatenate([postings.ids for postings in filled]), return_inverse=True)
    frequencies = np.zeros(len(ids), dtype=np.float32)
    np.maximum.at(frequencies, at, np.concatenate([postings.frequencies for postings in filled]))
    return PostingList(ids, frequencies, lists[0].by_document)


class Scorer:
    """Adds up the scores of a query's terms for every chunk and document.

    A match in a document field counts for every chunk of the document.
    """

    def __init__(
        self,
        document_ids: IntArray,
        documents: int,
        weights: KeywordWeights,
        lengths: Callable[[str], FieldLengths],
    ) -> None:
        self._of = document_ids
        self._weights = weights
        self._lengths = lengths
        self._chunk_scores = np.zeros(len(document_ids), dtype=np.float32)
        self._document_scores = np.zeros(documents, dtype=np.float32)
        self._matched_idf = np.zeros(len(document_ids), dtype=np.float32)
        self._total_idf = 0.0

    def add(self, weight: float, lists: Mapping[str, PostingList]) -> None:
        """Add the scores of a term, given its posting list in each field."""
        chunk, document = np.zeros_like(self._chunk_scores), np.zeros_like(self._document_scores)
        # document fields first: their sum is added to every chunk of the document
        for by_document in (True, False):
            for field, postings in lists.items():
                if postings.by_document is by_document and len(postings.ids):
                    self._add_field(
                        self._lengths(field), postings, self._weights.fields[field], chunk, document
                    )
            if by_document and document.any():
                chunk += document[self._of]
        rarity = idf(int(np.count_nonzero(chunk)), len(chunk))
        self._chunk_scores += weight * rarity * _saturated(chunk, self._weights.k1)
        document_rarity = idf(int(np.count_nonzero(document)), len(document))
        self._document_scores += weight * document_rarity * _saturated(document, self._weights.k1)
        self._matched_idf += weight * rarity * (chunk > 0)
        self._total_idf += weight * rarity

    def _add_field(
        self,
        lengths: FieldLengths,
        postings: PostingList,
        boost: float,
        chunk: Floats,
        document: Floats,
    ) -> None:
        """Add a field's normalized frequencies to `document` and, for a chunk field, to `chunk`."""
        b = self._weights.b
        if postings.by_document:
            document[postings.ids] += (
                boost
                * postings.frequencies
                / _length_norm(lengths.by_id[postings.ids], lengths.mean, b)
            )
            return
        chunk[postings.ids] += (
            boost
            * postings.frequencies
            / _length_norm(lengths.by_id[postings.ids], lengths.mean, b)
        )
        summed = np.bincount(
            self._of[postings.ids], weights=postings.frequencies, minlength=len(document)
        ).astype(np.float32)
        at = np.flatnonzero(summed)
        document[at] += (
            boost * summed[at] / _length_norm(lengths.documents[at], lengths.documents_mean, b)
        )

    def best_chunks(
        self, limit: int, mask: Mask | None
    ) -> tuple[list[int], list[float], list[float]]:
        """Return the ids, scores and matched fractions of the best chunks.

        A chunk's matched fraction is the total idf of the terms that the chunk matches, divided by
        the total idf of all terms in the query. Ties are broken by id.
        """
        scores, shares = self._scores(mask)
        best = _best(scores, limit)
        return best, scores[best].tolist(), shares[best].tolist()

    def best_documents(self, mask: Mask | None) -> list[tuple[int, float]]:
        """Return the ids and scores of the best documents.

        A document's score is that of its best chunk plus that of the document as a whole.
        """
        best = np.zeros_like(self._document_scores)
        np.maximum.at(best, self._of, self._scores(mask)[0])
        scores = np.where(best > 0, best + self._document_scores, 0)
        return [(n, float(scores[n])) for n in _best(scores, MAX_DOCUMENTS)]

    def _scores(self, mask: Mask | None) -> tuple[Floats, Floats]:
        """Return the scores and matched fractions of all chunks. Outside the mask, scores are 0."""
        shares = self._matched_idf / self._total_idf if self._total_idf else self._matched_idf
        coverage = self._weights.coverage
        scores = self._chunk_scores * (1 - coverage + coverage * shares)
        return scores if mask is None else np.where(mask, scores, 0), shares


def _best(scores: npt.NDArray[Any], limit: int) -> list[int]:
    """Return the ids of the `limit` highest scores above 0. Ties are broken by id."""
    ids = np.flatnonzero(scores > 0)
    if len(ids) > limit:
        cutoff = np.partition(scores[ids], -limit)[-limit]
        ids = ids[scores[ids] >= cutoff]
    return [int(n) for n in ids[np.lexsort((ids, -scores[ids]))][:limit]]


def idf(frequency: int, total: int) -> float:
    """Return the inverse document frequency of a term found in `frequency` of `total` texts."""
    return float(np.log(1 + (total - frequency + 0.5) / (frequency + 0.5)))


def _saturated(frequency: Floats, k1: float) -> Floats:
    if k1:
        return frequency * np.float32(k1 + 1) / (frequency + np.float32(k1))
    return (frequency > 0).astype(np.float32)


def _mean(lengths: Floats) -> float:
    nonzero = lengths[lengths > 0]
    return float(nonzero.mean(dtype=np.float64)) if len(nonzero) else 1.0


def _length_norm(lengths: Floats, mean: float, b: float) -> Floats:
    return (np.float32(1 - b) + np.float32(b / mean) * lengths).astype(np.float32)
