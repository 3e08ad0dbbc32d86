"""What is written to a segment is what is read of it: postings, phrases, lengths, through merges
and deletions.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from thumbindex.index.analysis import AnalyzedFields
from thumbindex.index.segments import (
    Segment,
    SegmentWriter,
    decode_postings,
    encode_postings,
    sort_postings,
)

LARGE = 2**32 - 1
PLACES = st.lists(st.integers(0, LARGE), min_size=1, max_size=5).map(sorted)
FIELD = st.lists(st.dictionaries(st.integers(0, LARGE), PLACES, min_size=1, max_size=8), max_size=8)
"""A row's positions of a term, by row, for each term."""

TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=8), min_size=1, max_size=6)


def columns(field, with_positions=True):
    """Gather a field's occurrences row by row, as a writer does, and sort them."""
    every = sorted(
        (number, term, position)
        for term, rows in enumerate(field)
        for number, positions in rows.items()
        for position in positions
    )
    rows, terms, positions = (
        np.array([each[n] for each in every], dtype=np.uint32) for n in range(3)
    )
    return sort_postings(terms, rows, positions if with_positions else None)


def values(found):
    """Return postings as plain values."""
    return [
        None if column is None else column.tolist()
        for column in (found.terms, found.doc_ids, found.counts, found.positions)
    ]


@settings(max_examples=40)
@given(FIELD)
def test_a_field_comes_back_whole(field):
    expected = [
        (term, number, sorted(positions))
        for term, rows in enumerate(field)
        for number, positions in sorted(rows.items())
    ]
    gathered = columns(field)
    assert values(decode_postings(encode_postings(gathered))) == values(gathered)
    assert values(gathered)[:3] == [
        list(each)
        for each in zip(*((t, n, len(positions)) for t, n, positions in expected), strict=True)
    ] or [[], [], []]
    assert values(gathered)[3] == [
        position for _, _, positions in expected for position in positions
    ]


def write(folder, *texts, merged=()):
    """Write texts to a segment, and others that were written before, each with the numbers of the
    rows that are deleted in it.
    """
    writer = SegmentWriter()
    for row_id, text in enumerate(texts, 1):
        found = text.split()
        writer.add(
            row_id,
            AnalyzedFields(
                {"body": (found, range(len(found))), "code": (found, ())} if found else {},
                {"body": len(found)},
            ),
        )
    for segment, deleted in merged:
        writer.merge(segment, np.array(deleted, dtype=np.uint32))
    (segment,) = writer.write(folder)
    return Segment.open(folder, segment.name)


def postings(segment):
    """Return each term's rows, frequencies and positions, by field."""
    found = {}
    for name in ("body", "code"):
        for texts, each in segment.field(name).posting_columns():
            positions = iter([] if each.positions is None else each.positions.tolist())
            for term, row, count in zip(
                each.terms.tolist(), each.doc_ids.tolist(), each.counts.tolist(), strict=True
            ):
                found.setdefault((name, texts[term]), []).append(
                    (
                        row,
                        count,
                        [position for _, position in zip(range(count), positions, strict=False)],
                    )
                )
    return found


def phrase(segment, text):
    return segment.field("body").phrase_matches(text.split()).tolist()


def test_postings_hold_rows_frequencies_and_positions(tmp_path):
    found = postings(write(tmp_path, "red apple red", "green apple", "é"))
    assert found["body", "red"] == [(0, 2, [0, 2])]
    assert found["code", "apple"] == [(0, 1, []), (1, 1, [])]
    assert found["body", "apple"] == [(0, 1, [1]), (1, 1, [1])]
    assert [term for name, term in found if name == "body"] == ["apple", "green", "red", "é"]


@settings(max_examples=50)
@given(TEXTS, st.lists(st.sampled_from("abc"), min_size=1, max_size=4))
def test_a_phrase_of_any_words_is_found_where_it_stands(tmp_path_factory, texts, words):
    segment = write(tmp_path_factory.mktemp("segment"), *map(" ".join, texts))
    expected = [
        n
        for n, text in enumerate(texts)
        if any(text[at : at + len(words)] == words for at in range(len(text)))
    ]
    assert phrase(segment, " ".join(words)) == expected


def test_what_is_merged_reads_as_if_it_had_been_written_at_once(tmp_path):
    texts = ["red apple", "green apple green", "", "plum", "red plum red"]
    parts = [write(tmp_path, *texts[:2]), write(tmp_path, *texts[2:])]
    merged, at_once = (
        write(tmp_path, "first", merged=[(part, []) for part in parts]),
        write(tmp_path, "first", *texts),
    )
    assert postings(merged) == postings(at_once)
    assert merged.lengths("body").tolist() == at_once.lengths("body").tolist() == [1, 2, 3, 0, 1, 3]
    assert merged.row_ids.tolist() == [1, 1, 2, 1, 2, 3]


def test_a_merge_leaves_deleted_rows_and_words_of_theirs_behind(tmp_path):
    first, second = write(tmp_path, "red apple", "green plum"), write(tmp_path, "red pear")
    found = postings(write(tmp_path, merged=[(first, [1]), (second, [])]))
    assert {term for _, term in found} == {"red", "apple", "pear"}
    assert found["body", "red"] == [(0, 1, [0]), (1, 1, [0])]


def test_of_rows_that_are_all_deleted_no_segment_is_written(tmp_path):
    writer = SegmentWriter()
    writer.merge(write(tmp_path, "red"), np.array([0], dtype=np.uint32))
    assert writer.write(tmp_path) == []


def test_more_words_than_are_sorted_at_once_are_found_where_they_stand(tmp_path):
    segment = write(
        tmp_path,
        *(" ".join(f"word{n % 997}" for n in range(start, start + 100_000)) for start in range(4)),
    )
    assert postings(segment)["body", "word5"][1] == (1, 101, list(range(4, 100_000, 997)))
    assert phrase(segment, "word996 word0") == [0, 1, 2, 3]
    assert postings(write(tmp_path, merged=[(segment, [])])) == postings(segment)
