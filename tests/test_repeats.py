"""Ingestion leaves out what a document says twice, and only that (spec/dedup.md, section 3)."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import FakeEmbedder
from thumbindex.library.repeats import (
    Boost,
    Repeat,
    boost_for,
    find_repeats,
    ingestion_warnings,
    ingestion_words,
)
from thumbindex.model import BlockKind, Chunk, IngestionCounts
from thumbindex.ports import Vector
from thumbindex.settings import IngestSettings
from thumbindex.text import embedded_text

Found = TypeVar("Found")
SETTINGS = IngestSettings()
SENTENCES = (
    "The backup of all notes runs every night at home.",
    "The backups of all notes runs every night at home.",
    "The backup of all notes runs every single night at home.",
    "The backup of all notes runs every 30 minutes at home.",
    "The backup of all notes runs every 90 minutes at home.",
    "The backup of all notes never runs every night at home.",
    "Moss grows in the shade of old trees.",
    "",
)


def segment(
    n: int,
    text: str,
    salience: float = 0.5,
    kind: BlockKind = BlockKind.PROSE,
    language: str = "",
    heading: str = "",
) -> Chunk:
    path = ("Title", heading) if heading else ("Title",)
    return Chunk(n, 0, kind, path, n + 1, n + 1, text, salience, language)


def embedded(chunks: list[Chunk]) -> dict[int, Vector]:
    return dict(
        enumerate(
            FakeEmbedder().embed_passages(
                [embedded_text(chunk.heading_path, chunk.text) for chunk in chunks]
            )
        )
    )


def finished(steps: Generator[None, None, Found]) -> Found:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Found = end.value
            return found


def ingested(
    *chunks: Chunk, settings: IngestSettings = SETTINGS
) -> tuple[list[Repeat], list[Boost]]:
    return finished(find_repeats(dict(enumerate(chunks)), embedded(list(chunks)), settings))


def left_out(*chunks: Chunk, settings: IngestSettings = SETTINGS) -> list[tuple[int, int]]:
    return [(segment, keeper) for segment, keeper, _ in ingested(*chunks, settings=settings)[0]]


@st.composite
def documents(draw: st.DrawFn) -> list[Chunk]:
    """Draw a document of segments of which many say the same."""
    kinds, languages, headings = (
        st.sampled_from((BlockKind.PROSE, BlockKind.LIST)),
        st.sampled_from(("", "de")),
        st.sampled_from(("", "5.1", "7.6")),
    )
    drawn = draw(
        st.lists(
            st.tuples(st.sampled_from(SENTENCES), st.floats(0, 1), kinds, languages, headings),
            max_size=12,
        )
    )
    return [segment(n, *each) for n, each in enumerate(drawn)]


MODES = st.sampled_from(("logarithmic", "linear", "off"))
CHOSEN = st.builds(
    IngestSettings,
    similarity=st.floats(0.5, 1),
    boost=MODES,
    base=st.floats(0, 1),
    max_salience=st.floats(0, 1),
)


@given(documents(), CHOSEN)
def test_not_all_instances_of_a_thing_are_ever_removed(
    chunks: list[Chunk], settings: IngestSettings
) -> None:
    repeats = left_out(*chunks, settings=settings)
    gone = {segment for segment, _ in repeats}
    assert len(gone) == len(repeats)
    assert not gone & {keeper for _, keeper in repeats}


@given(documents(), CHOSEN, st.randoms())
def test_the_order_in_which_segments_are_given_does_not_matter_and_no_text_or_vector_is_altered(
    chunks: list[Chunk], settings: IngestSettings, random
) -> None:
    given, vectors = dict(enumerate(chunks)), embedded(chunks)
    copies = {n: vector.tobytes() for n, vector in vectors.items()}
    repeats, _ = finished(find_repeats(given, vectors, settings))
    order = list(range(len(chunks)))
    random.shuffle(order)
    found = left_out(*(chunks[n] for n in order), settings=settings)
    assert {(order[n], order[keeper]) for n, keeper in found} == {repeat[:2] for repeat in repeats}
    assert given == dict(enumerate(chunks))
    assert {n: vector.tobytes() for n, vector in vectors.items()} == copies


@given(documents(), CHOSEN)
def test_a_type_language_number_version_or_negation_that_differs_keeps_both(
    chunks: list[Chunk], settings: IngestSettings
) -> None:
    for n, keeper in left_out(*chunks, settings=settings):
        one, other = chunks[n], chunks[keeper]
        assert (one.kind, one.language) == (other.kind, other.language)
        for mark in ("30", "90", "never"):
            assert (mark in one.text) == (mark in other.text)
        versions = {"5.1", "7.6"} & set(one.heading_path)
        assert one.heading_path == other.heading_path or not versions


def test_the_most_salient_one_is_kept():
    assert left_out(
        segment(0, SENTENCES[0], 0.3), segment(1, SENTENCES[0], 0.9), segment(2, SENTENCES[0], 0.6)
    ) == [(0, 1), (2, 1)]


def test_of_equally_salient_ones_the_first_is_kept():
    assert left_out(segment(0, SENTENCES[0]), segment(1, SENTENCES[0])) == [(1, 0)]


def test_the_same_text_is_dropped_silently_and_other_words_boost():
    found = ingested(
        segment(0, SENTENCES[2], 0.5), segment(1, SENTENCES[2], 0.4), segment(2, SENTENCES[0], 0.3)
    )
    assert found == ([(1, 0, True), (2, 0, False)], [(0, 0.15, 0.65)])


def test_a_segment_with_a_word_of_its_own_is_kept_since_nobody_would_find_that_word_any_more():
    assert left_out(segment(0, SENTENCES[0], 0.9), segment(1, SENTENCES[2], 0.3)) == []


def test_exact_copies_never_boost_even_those_of_a_near_duplicate():
    chunks = [segment(0, SENTENCES[2], 0.9), *(segment(n, SENTENCES[0], 0.3) for n in range(1, 6))]
    assert ingested(*chunks)[1] == [(0, 0.15, 1.0)]


def test_segments_that_matter_least_are_not_compared():
    assert left_out(segment(0, SENTENCES[0], 0.9), segment(1, SENTENCES[0], 0.04)) == []
    assert left_out(segment(0, SENTENCES[0], 0.9), segment(1, SENTENCES[0], 0.05)) == [(1, 0)]


def test_a_segment_without_a_vector_is_kept():
    chunks = [segment(0, SENTENCES[0]), segment(1, SENTENCES[0])]
    assert finished(find_repeats(dict(enumerate(chunks)), {0: embedded(chunks)[0]}, SETTINGS)) == (
        [],
        [],
    )


def test_three_near_duplicates_boost_by_three_tenths():
    assert [boost_for(n, SETTINGS) for n in (0, 1, 3)] == pytest.approx([0, 0.15, 0.30])
    linear = replace(SETTINGS, boost="linear")
    assert [boost_for(n, linear) for n in (0, 1, 3)] == pytest.approx([0, 0.15, 0.45])
    assert boost_for(9, replace(SETTINGS, boost="off")) == 0
    assert boost_for(7, replace(SETTINGS, base=0.1)) == pytest.approx(0.1 * math.log2(8))


def test_counts_are_told_in_one_line():
    counts = [IngestionCounts("", 100, 2, 2, 0.2, 0.25), IngestionCounts("a", 50, 50, 0, 0.0, 0.0)]
    assert ingestion_words(counts) == (
        "52 of 150 chunks only repeat other chunks of their notes and are not searched"
    )


def test_what_is_more_than_healthy_is_told():
    assert [
        len(ingestion_warnings(IngestionCounts("", 100, repeats, 1, most, most)))
        for repeats, most in ((50, 0.6), (51, 0.6), (50, 0.61), (51, 0.61))
    ] == [0, 1, 1, 2]
