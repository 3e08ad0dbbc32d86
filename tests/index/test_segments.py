"""Segments preserve postings, phrases and lengths through encoding, merges and deletions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from thumbindex.index.analysis import AnalyzedFields
from thumbindex.index.segments import Segment, SegmentWriter

TEXTS = st.lists(st.lists(st.sampled_from("abc"), max_size=8), min_size=1, max_size=6)


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
        field = segment.field(name)
        numbers, rows, positions = field.columns()
        for number, term in enumerate(field.terms()):
            by_term[name, term] = [
                (row, count, positions[(numbers == number) & (rows == row)].tolist())
                if name == "body"
                else (row, count, [])
                for row, count in zip(*(c.tolist() for c in field.postings(term)), strict=True)
            ]
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


def test_segment_with_many_rows_is_merged_completely(tmp_path):
    """Row numbers above 65,535 take four bytes."""
    segment = write(tmp_path, *(f"word{n % 997} common" for n in range(70_000)))
    rows, counts = segment.field("body").postings("word5")
    assert rows.tolist() == list(range(5, 70_000, 997))
    assert set(counts.tolist()) == {1}
    merged = write(tmp_path, "new", merged=[(segment, [5])])
    assert merged.field("body").postings("word5")[0].tolist() == list(range(1002, 70_000, 997))
    assert len(phrase(merged, "word996 common")) == 70
