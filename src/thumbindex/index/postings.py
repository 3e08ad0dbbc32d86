"""A field's postings as columns, and as the bytes that a segment keeps of them: a run of small numbers a term.

A term's run holds for each of its documents how far it is from the one before, doubled, plus one where the term stands there more than
once; then, for those, how often less two. Its places stand apart, for only phrases ask for them: each counted from the one before in its document.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from thumbindex.index.varints import Narrow, Numbers, last_bytes, packed, unpacked

_AT_ONCE = 1 << 18
"""Occurrences that are sorted and packed, or postings that are read at once: each takes a hundred bytes meanwhile."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Postings in the order of terms, then of documents: a term's number, a document's, how often; and all of the places one after the other."""

    terms: Numbers | Narrow
    documents: Numbers | Narrow
    counts: Numbers
    places: Numbers | Narrow | None  # None where a field keeps none


@dataclass(frozen=True, slots=True)
class Runs:
    """Postings in bytes: a term's documents, bytes of its run, bytes of its places."""

    sizes: Numbers
    lengths: Numbers
    place_lengths: Numbers | None
    data: bytes
    places: bytes


def sorted_columns(terms: Narrow, documents: Narrow, places: Narrow | None) -> Columns:
    """Make postings of a value an occurrence, in the order of documents for each term."""
    order = np.argsort(terms.astype(np.uint16) if len(terms) and terms.max() < 1 << 16 else terms, kind="stable")  # 16 bits are sorted by counting
    terms, documents = terms[order], documents[order]
    first = np.flatnonzero(_differs(terms) | _differs(documents))
    counts = np.diff(first, append=len(terms))
    return Columns(terms[first], documents[first], counts, None if places is None else places[order])


def runs_of(columns: Columns) -> Runs:
    """Write postings of terms 0, 1, 2 and so on, none of them without a document."""
    starts = np.flatnonzero(_differs(columns.terms))
    sizes = np.diff(starts, append=len(columns.terms))
    often = columns.counts > 1
    tails = _sums(often.astype(np.int64), starts)
    numbers = np.zeros(len(columns.terms) + int(tails.sum()), dtype=np.int64)
    ends = np.cumsum(sizes + tails)
    heads = _heads(ends, tails)
    numbers[heads] = _steps(columns.documents, starts) << 1 | often
    numbers[~heads] = columns.counts[often] - 2
    data, lengths = packed(numbers)
    run_lengths = _sums(lengths, ends - sizes - tails)
    if columns.places is None:
        return Runs(sizes, run_lengths, None, data, b"")
    firsts = np.cumsum(columns.counts) - columns.counts
    places, lengths = packed(_steps(columns.places, firsts))
    return Runs(sizes, run_lengths, _sums(lengths, firsts[starts]), data, places)


def joined(parts: Sequence[Runs]) -> Runs:
    """Return the runs of some terms and of others as one."""
    place_lengths = [each.place_lengths for each in parts if each.place_lengths is not None]
    return Runs(
        np.concatenate([each.sizes for each in parts]),
        np.concatenate([each.lengths for each in parts]),
        np.concatenate(place_lengths) if place_lengths else None,
        b"".join(each.data for each in parts),
        b"".join(each.places for each in parts),
    )


def slices(sizes: Numbers) -> Iterator[slice]:
    """Yield ranges of items that come to about as much as is worked on at once."""
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // _AT_ONCE)) + 1
    bounds = [0, *cuts.tolist(), len(sizes)] if len(sizes) else []
    yield from (slice(*bounds[n : n + 2]) for n in range(len(bounds) - 1))


def columns_of(runs: Runs) -> Columns:
    """Read the postings of all terms."""
    starts = np.cumsum(runs.sizes) - runs.sizes
    ends = np.searchsorted(last_bytes(runs.data), np.cumsum(runs.lengths))
    tails = np.diff(ends, prepend=0) - runs.sizes
    numbers = unpacked(runs.data)
    heads = _heads(ends, tails)
    counts = _counts(numbers[heads], numbers[~heads])
    places = None
    if runs.place_lengths is not None:
        places = _walked(unpacked(runs.places), np.cumsum(counts) - counts, counts)
    return Columns(np.repeat(np.arange(len(starts)), runs.sizes), _walked(numbers[heads] >> 1, starts, runs.sizes), counts, places)


def run_of(data: bytes, size: int) -> tuple[Numbers, Numbers]:
    """Read one term's documents and how often it stands in each."""
    numbers = unpacked(data)
    heads = numbers[:size]
    return np.cumsum(heads >> 1), _counts(heads, numbers[size:])


def places_of(data: bytes, counts: Numbers) -> Numbers:
    """Read one term's places, those of a document after those of another."""
    return _walked(unpacked(data), np.cumsum(counts) - counts, counts)


def _counts(heads: Numbers, tails: Numbers) -> Numbers:
    counts = np.ones(len(heads), dtype=np.int64)
    if len(tails):
        counts[np.flatnonzero(heads & 1)] = tails + 2
    return counts


def _heads(ends: Numbers, tails: Numbers) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Tell which numbers of runs are documents: of each run, the first ones."""
    found = np.ones(int(ends[-1]) if len(ends) else 0, dtype=np.bool_)
    found[_ranges(ends - tails, tails)] = False
    return found


def _ranges(starts: Numbers, lengths: Numbers) -> Numbers:
    """Return the numbers of many ranges, one after the other."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def _steps(values: Numbers | Narrow, starts: Numbers) -> Numbers:
    """Return how far each number is from the one before it, and the first of each group as it is."""
    numbers = values.astype(np.int64)
    steps = np.diff(numbers, prepend=0)
    steps[starts] = numbers[starts]
    return steps


def _walked(steps: Numbers, starts: Numbers, lengths: Numbers) -> Numbers:
    """Return the numbers of groups that are given as steps."""
    sums = np.cumsum(steps)
    return sums - np.repeat(sums[starts] - steps[starts], lengths)


def _differs(numbers: Numbers | Narrow) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Tell which numbers are not the one before; the first is not."""
    found = np.ones(len(numbers), dtype=np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=found[1:])
    return found


def _sums(numbers: Numbers, starts: Numbers) -> Numbers:
    return np.add.reduceat(numbers, starts) if len(starts) else starts
