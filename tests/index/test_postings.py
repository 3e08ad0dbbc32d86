"""Postings come back from their bytes as the values that they were."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thumbindex.index.postings import columns_of, places_of, run_of, runs_of, slices, sorted_columns
from thumbindex.index.varints import packed, unpacked

LARGE = 2**32 - 1
PLACES = st.lists(st.integers(0, LARGE), min_size=1, max_size=5).map(sorted)
FIELD = st.lists(st.dictionaries(st.integers(0, LARGE), PLACES, min_size=1, max_size=8), max_size=8)
"""A document's places of a term, by document, for each term."""


def columns(field, with_places=True):
    """Gather a field's occurrences document by document, as a writer does, and sort them."""
    every = sorted((number, term, place) for term, documents in enumerate(field) for number, places in documents.items() for place in places)
    documents, terms, places = (np.array([each[n] for each in every], dtype=np.uint32) for n in range(3))
    return sorted_columns(terms, documents, places if with_places else None)


def values(found):
    """Return postings as plain values."""
    return [None if column is None else column.tolist() for column in (found.terms, found.documents, found.counts, found.places)]


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**40)))
def test_numbers_of_any_size_come_back(numbers):
    data, sizes = packed(np.array(numbers, dtype=np.int64))
    assert (unpacked(data).tolist(), sizes.tolist()) == (numbers, [max(1, -(-number.bit_length() // 7)) for number in numbers])


@settings(deadline=None)
@given(FIELD)
def test_a_field_comes_back_whole(field):
    expected = [(term, number, sorted(places)) for term, documents in enumerate(field) for number, places in sorted(documents.items())]
    gathered = columns(field)
    assert values(columns_of(runs_of(gathered))) == values(gathered)
    assert values(gathered)[:3] == [list(each) for each in zip(*((t, n, len(places)) for t, n, places in expected), strict=True)] or [[], [], []]
    assert values(gathered)[3] == [place for _, _, places in expected for place in places]


@settings(deadline=None)
@given(FIELD)
def test_a_term_is_read_alone_as_it_is_read_with_all(field):
    runs = runs_of(columns(field))
    ends, place_ends = np.cumsum(runs.lengths), np.cumsum(runs.place_lengths)
    for term, documents in enumerate(field):
        numbers, counts = run_of(runs.data[ends[term] - runs.lengths[term] : ends[term]], int(runs.sizes[term]))
        places = places_of(runs.places[place_ends[term] - runs.place_lengths[term] : place_ends[term]], counts)
        assert dict(zip(numbers.tolist(), np.split(places, np.cumsum(counts)[:-1]), strict=True)).keys() == documents.keys()
        assert places.tolist() == [place for _, each in sorted(documents.items()) for place in each]


@pytest.mark.parametrize("with_places", [True, False])
def test_thousands_of_postings_come_back(with_places):
    field = [{number: [number % 300] * (1 + (number % 7 == 0)) for number in range(0, 90_000, step)} for step in (1, 1, 2, 50_000)]
    gathered = columns(field, with_places)
    assert values(columns_of(runs_of(gathered))) == values(gathered)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**19)))
def test_slices_leave_out_no_item_and_hold_one_too_many_at_most(sizes):
    found = list(slices(np.array(sizes, dtype=np.int64)))
    assert [n for each in found for n in range(each.start, each.stop)] == list(range(len(sizes)))
    assert all(sum(sizes[each][1:]) < 2**18 for each in found)


def test_a_rare_term_takes_as_many_bytes_as_its_document_needs():
    runs = runs_of(columns([{5: [3]}, {900: [3]}, {5: [1, 2]}]))
    assert (runs.lengths.tolist(), runs.place_lengths.tolist()) == ([1, 2, 2], [1, 1, 2])
