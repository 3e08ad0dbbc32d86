"""Segments preserve postings, phrases and lengths through encoding, merges and deletions."""

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
POSITIONS = st.lists(st.integers(0, LARGE), min_size=1, max_size=5).map(sorted)
FIELD = st.lists(
    st.dictionaries(st.integers(0, LARGE), POSITIONS, min_size=1, max_size=8), max_size=8
)
"""For each term, its positions by row."""

TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=8), min_size=1, max_size=6)


def columns(field, with_positions=True):
    """Collect a field's occurrences by row, as a writer does, and sort them."""
    occurrences = sorted(
        (number, term, position)
        for term, rows in enumerate(field)
        for number, positions in rows.items()
        for position in positions
    )
    rows, terms, positions = (
        np.array([occurrence[n] for occurrence in occurrences], dtype=np.uint32) for n in range(3)
    )
    return sort_postings(terms, rows, positions if with_positions else None)


def values(postings):
    """Return columns as lists."""
    return [
        None if column is None else column.tolist()
        for column in (postings.terms, postings.doc_ids, postings.counts, postings.positions)
    ]


@settings(max_examples=40)
@given(FIELD)
def test_decoding_inverts_encoding(field):
    expected = [
        (term, number, sorted(positions))
        for term, rows in enumerate(field)
        for number, positions in sorted(rows.items())
    ]
    postings = columns(field)
    assert values(decode_postings(encode_postings(postings))) == values(postings)
    assert values(postings)[:3] == [
        list(column)
        for column in zip(*((t, n, len(positions)) for t, n, positions in expected), strict=True)
    ] or [[], [], []]
    assert values(postings)[3] == [
        position for _, _, positions in expected for position in positions
    ]


def write(folder, *texts, merged=()):
    """Write texts and merged segments, given with their deleted rows, to a new segment."""
    writer = SegmentWriter()
    for row_id, text in enumerate(texts, 1):
        words = text.split()
        writer.add(
            row_id,
            AnalyzedFields(
                {"body": (words, range(len(words))), "code": (words, ())} if words else {},
                {"body": len(words)},
            ),
        )
    for segment, deleted in merged:
        writer.merge(segment, np.array(deleted, dtype=np.uint32))
    (segment,) = writer.write(folder)
    return Segment.open(folder, segment.name)


def postings(segment):
    """Return rows, frequencies and positions by field and term."""
    by_term = {}
    for name in ("body", "code"):
        for texts, batch in segment.field(name).posting_columns():
            positions = iter([] if batch.positions is None else batch.positions.tolist())
            for term, row, count in zip(
                batch.terms.tolist(), batch.doc_ids.tolist(), batch.counts.tolist(), strict=True
            ):
                by_term.setdefault((name, texts[term]), []).append(
                    (
                        row,
                        count,
                        [position for _, position in zip(range(count), positions, strict=False)],
                    )
                )
    return by_term


def phrase(segment, text):
    return segment.field("body").phrase_matches(text.split()).tolist()


def test_postings_contain_rows_frequencies_and_positions(tmp_path):
    by_term = postings(write(tmp_path, "red apple red", "green apple", "é"))
    assert by_term["body", "red"] == [(0, 2, [0, 2])]
    assert by_term["code", "apple"] == [(0, 1, []), (1, 1, [])]
    assert by_term["body", "apple"] == [(0, 1, [1]), (1, 1, [1])]
    assert [term for name, term in by_term if name == "body"] == ["apple", "green", "red", "é"]


@settings(max_examples=50)
@given(TEXTS, st.lists(st.sampled_from("abc"), min_size=1, max_size=4))
def test_any_phrase_is_found(tmp_path_factory, texts, words):
    segment = write(tmp_path_factory.mktemp("segment"), *map(" ".join, texts))
    expected = [
        n
        for n, text in enumerate(texts)
        if any(text[at : at + len(words)] == words for at in range(len(text)))
    ]
    assert phrase(segment, " ".join(words)) == expected


def test_merged_segment_equals_one_written_at_once(tmp_path):
    texts = ["red apple", "green apple green", "", "plum", "red plum red"]
    parts = [write(tmp_path, *texts[:2]), write(tmp_path, *texts[2:])]
    merged, at_once = (
        write(tmp_path, "first", merged=[(part, []) for part in parts]),
        write(tmp_path, "first", *texts),
    )
    assert postings(merged) == postings(at_once)
    assert merged.lengths("body").tolist() == at_once.lengths("body").tolist() == [1, 2, 3, 0, 1, 3]
    assert merged.row_ids.tolist() == [1, 1, 2, 1, 2, 3]


def test_merge_drops_deleted_rows_and_their_words(tmp_path):
    first, second = write(tmp_path, "red apple", "green plum"), write(tmp_path, "red pear")
    by_term = postings(write(tmp_path, merged=[(first, [1]), (second, [])]))
    assert {term for _, term in by_term} == {"red", "apple", "pear"}
    assert by_term["body", "red"] == [(0, 1, [0]), (1, 1, [0])]


def test_no_segment_is_written_if_all_rows_are_deleted(tmp_path):
    writer = SegmentWriter()
    writer.merge(write(tmp_path, "red"), np.array([0], dtype=np.uint32))
    assert writer.write(tmp_path) == []


def test_fields_larger_than_a_batch_are_complete(tmp_path):
    segment = write(
        tmp_path,
        *(" ".join(f"word{n % 997}" for n in range(start, start + 100_000)) for start in range(4)),
    )
    assert postings(segment)["body", "word5"][1] == (1, 101, list(range(4, 100_000, 997)))
    assert phrase(segment, "word996 word0") == [0, 1, 2, 3]
    assert postings(write(tmp_path, merged=[(segment, [])])) == postings(segment)
