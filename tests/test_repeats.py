"""Repeats inside a document are found and merged."""

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
from thumbindex.visible_text import embedded_text

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


def make_chunk(
    n: int,
    text: str,
    salience: float = 0.5,
    kind: BlockKind = BlockKind.PROSE,
    language: str = "",
    heading: str = "",
) -> Chunk:
    path = ("Title", heading) if heading else ("Title",)
    return Chunk(n, 0, kind, path, n + 1, n + 1, text, salience, language)


def embed(chunks: list[Chunk]) -> dict[int, Vector]:
    return dict(
        enumerate(
            FakeEmbedder().embed_passages(
                [embedded_text(chunk.heading_path, chunk.text) for chunk in chunks]
            )
        )
    )


def run_to_end(steps: Generator[None, None, Found]) -> Found:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Found = end.value
            return result


def ingest(*chunks: Chunk, settings: IngestSettings = SETTINGS) -> tuple[list[Repeat], list[Boost]]:
    return run_to_end(find_repeats(dict(enumerate(chunks)), embed(list(chunks)), settings))


def removed_by(*chunks: Chunk, settings: IngestSettings = SETTINGS) -> list[tuple[int, int]]:
    return [(repeat, keeper) for repeat, keeper, _ in ingest(*chunks, settings=settings)[0]]


@st.composite
def documents(draw: st.DrawFn) -> list[Chunk]:
    """Draw a document's chunks, many of them similar."""
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
    return [make_chunk(n, *arguments) for n, arguments in enumerate(drawn)]


MODES = st.sampled_from(("logarithmic", "linear", "off"))
CHOSEN = st.builds(
    IngestSettings,
    similarity=st.floats(0.5, 1),
    boost=MODES,
    base=st.floats(0, 1),
    max_salience=st.floats(0, 1),
)


@given(documents(), CHOSEN)
def test_kept_chunk_is_never_removed(chunks: list[Chunk], settings: IngestSettings) -> None:
    repeats = removed_by(*chunks, settings=settings)
    removed = {repeat for repeat, _ in repeats}
    assert len(removed) == len(repeats)
    assert not removed & {keeper for _, keeper in repeats}


@given(documents(), CHOSEN, st.randoms())
def test_repeats_do_not_depend_on_order_or_alter_input(
    chunks: list[Chunk], settings: IngestSettings, random
) -> None:
    by_id, vectors = dict(enumerate(chunks)), embed(chunks)
    copies = {n: vector.tobytes() for n, vector in vectors.items()}
    repeats, _ = run_to_end(find_repeats(by_id, vectors, settings))
    order = list(range(len(chunks)))
    random.shuffle(order)
    shuffled_repeats = removed_by(*(chunks[n] for n in order), settings=settings)
    assert {(order[n], order[keeper]) for n, keeper in shuffled_repeats} == {
        repeat[:2] for repeat in repeats
    }
    assert by_id == dict(enumerate(chunks))
    assert {n: vector.tobytes() for n, vector in vectors.items()} == copies


@given(documents(), CHOSEN)
def test_differing_type_language_number_version_or_negation_keeps_both(
    chunks: list[Chunk], settings: IngestSettings
) -> None:
    for n, keeper in removed_by(*chunks, settings=settings):
        repeat, kept = chunks[n], chunks[keeper]
        assert (repeat.kind, repeat.language) == (kept.kind, kept.language)
        for mark in ("30", "90", "never"):
            assert (mark in repeat.text) == (mark in kept.text)
        versions = {"5.1", "7.6"} & set(repeat.heading_path)
        assert repeat.heading_path == kept.heading_path or not versions


def test_most_salient_chunk_is_kept():
    assert removed_by(
        make_chunk(0, SENTENCES[0], 0.3),
        make_chunk(1, SENTENCES[0], 0.9),
        make_chunk(2, SENTENCES[0], 0.6),
    ) == [(0, 1), (2, 1)]


def test_first_of_equally_salient_chunks_is_kept():
    assert removed_by(make_chunk(0, SENTENCES[0]), make_chunk(1, SENTENCES[0])) == [(1, 0)]


def test_only_reworded_repeats_boost_salience():
    result = ingest(
        make_chunk(0, SENTENCES[2], 0.5),
        make_chunk(1, SENTENCES[2], 0.4),
        make_chunk(2, SENTENCES[0], 0.3),
    )
    assert result == ([(1, 0, True), (2, 0, False)], [(0, 0.15, 0.65)])


def test_chunk_with_an_extra_word_is_kept():
    assert removed_by(make_chunk(0, SENTENCES[0], 0.9), make_chunk(1, SENTENCES[2], 0.3)) == []


def test_exact_copies_of_a_near_duplicate_boost_once():
    chunks = [
        make_chunk(0, SENTENCES[2], 0.9),
        *(make_chunk(n, SENTENCES[0], 0.3) for n in range(1, 6)),
    ]
    assert ingest(*chunks)[1] == [(0, 0.15, 1.0)]


def test_chunks_below_minimum_salience_are_not_compared():
    assert removed_by(make_chunk(0, SENTENCES[0], 0.9), make_chunk(1, SENTENCES[0], 0.04)) == []
    assert removed_by(make_chunk(0, SENTENCES[0], 0.9), make_chunk(1, SENTENCES[0], 0.05)) == [
        (1, 0)
    ]


def test_chunk_without_a_vector_is_kept():
    chunks = [make_chunk(0, SENTENCES[0]), make_chunk(1, SENTENCES[0])]
    assert run_to_end(find_repeats(dict(enumerate(chunks)), {0: embed(chunks)[0]}, SETTINGS)) == (
        [],
        [],
    )


def test_boost_grows_with_repeats_by_mode():
    assert [boost_for(n, SETTINGS) for n in (0, 1, 3)] == pytest.approx([0, 0.15, 0.30])
    linear = replace(SETTINGS, boost="linear")
    assert [boost_for(n, linear) for n in (0, 1, 3)] == pytest.approx([0, 0.15, 0.45])
    assert boost_for(9, replace(SETTINGS, boost="off")) == 0
    assert boost_for(7, replace(SETTINGS, base=0.1)) == pytest.approx(0.1 * math.log2(8))


def test_repeat_counts_are_summed_in_one_sentence():
    counts = [IngestionCounts("", 100, 2, 2, 0.2, 0.25), IngestionCounts("a", 50, 50, 0, 0.0, 0.0)]
    assert ingestion_words(counts) == (
        "52 of 150 chunks only repeat other chunks of their notes and are not searched"
    )


def test_high_ratios_are_warned_about():
    assert [
        len(ingestion_warnings(IngestionCounts("", 100, repeats, 1, most, most)))
        for repeats, most in ((50, 0.6), (51, 0.6), (50, 0.61), (51, 0.61))
    ] == [0, 1, 1, 2]
