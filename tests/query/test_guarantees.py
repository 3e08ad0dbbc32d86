"""The guarantees of the deduplicating stages on random notes, one by one and together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes import FakeEmbedder, NoDuplicates, document, memory_snapshot
from thumbindex.model import Candidate, ChunkId, Query
from thumbindex.ports import Snapshot
from thumbindex.query.pipeline import STAGES
from thumbindex.query.stage import Search, Tools

DEDUPLICATING = (
    "dedup_versions",
    "dedup_known",
    "dedup_hash",
    "deduplicate",
    "dedup_ngram",
    "dedup_semantic",
)
CHOOSING = ("dedup_versions", "dedup_known")
"""Stages that may show another text at the rank of the best one."""

BLOCKS = (
    "Files are kept on every device that you own, for {} days.",
    "Files are *kept* on every\ndevice that you own, for {} days.",
    "On every device that you own files are kept, for {} days.",
    "Files are not kept on every device that you own, for {} days.",
    "- Files are kept on every device that you own, for {} days.",
    "Oak and elm grow by the river {}.",
)
FOLDERS = ("5.1/x.md", "7.6/x.md", "de/x.md", "notes/a.md", "notes/b.md")
blocks = st.builds(str.format, st.sampled_from(BLOCKS), st.sampled_from([30, 90]))
corpora = st.dictionaries(
    st.sampled_from(FOLDERS), st.lists(blocks, min_size=1, max_size=3), min_size=1, max_size=4
)


class Copies(NoDuplicates):
    """All equal texts are copies of each other."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def copies(self, chunk: ChunkId) -> tuple[ChunkId, ...]:  # type: ignore[override]
        return tuple(
            ChunkId(n)
            for n, text in enumerate(self._texts)
            if text == self._texts[chunk] and n != chunk
        )


def search_with_all_chunks(corpus: dict[str, list[str]]) -> tuple[Snapshot, Search]:
    """Return a snapshot, and a search with all of its chunks as candidates."""
    snapshot = memory_snapshot(
        [document(path, "\n\n".join(texts)) for path, texts in corpus.items()], FakeEmbedder()
    )
    chunks = snapshot.catalog.chunks([ChunkId(n) for n in range(len(snapshot.catalog))])
    snapshot = replace(snapshot, duplicates=Copies([chunk.text for chunk in chunks.values()]))
    candidates = tuple(
        Candidate(n, snapshot.catalog.document_of(n), chunk, 1 - n / 100)
        for n, chunk in chunks.items()
    )
    return snapshot, Search(Query("files"), "files", candidates=candidates)


def run_stages(names: tuple[str, ...], corpus: dict[str, list[str]]) -> tuple[Search, Search]:
    """Return the search before and after some stages."""
    snapshot, before = search_with_all_chunks(corpus)
    after = before
    for name in names:
        after = dict(STAGES)[name](after, Tools(snapshot))
    return before, after


EACH = pytest.mark.parametrize(
    "names",
    [*((name,) for name in DEDUPLICATING), DEDUPLICATING],
    ids=lambda names: "+".join(names),
)


@EACH
@given(corpora)
@settings(max_examples=30, deadline=None)
def test_dedup_keeps_order(names, corpus) -> None:
    before, after = run_stages(names, corpus)
    place = {n: at for at, each in enumerate(before.candidates) for n in [each.id]}
    # chunk -> position of the first candidate that lists it
    first_listed = {
        n: at
        for at, each in reversed([*enumerate(after.candidates)])
        for n in (each.id, *each.also_in)
    }
    best = [
        min(place[n] for n in (each.id, *each.also_in) if first_listed[n] == at)
        if set(names) & set(CHOOSING)
        else place[each.id]
        for at, each in enumerate(after.candidates)
    ]
    assert best == sorted(best)
    assert [candidate.score for candidate in after.candidates] == sorted(
        (candidate.score for candidate in after.candidates), reverse=True
    )


@EACH
@given(corpora)
@settings(max_examples=30, deadline=None)
def test_dedup_keeps_one_of_each_text(names, corpus) -> None:
    before, after = run_stages(names, corpus)
    listed = {n for candidate in after.candidates for n in (candidate.id, *candidate.also_in)}
    assert listed == {candidate.id for candidate in before.candidates}
    assert len(after.dropped) == len(before.candidates) - len(after.candidates)
    assert [candidate.cluster_size for candidate in after.candidates] == [
        1 + len(candidate.also_in) for candidate in after.candidates
    ]


@EACH
@given(corpora)
@settings(max_examples=30, deadline=None)
def test_dedup_does_not_change_texts_or_vectors(names, corpus) -> None:
    snapshot, search = search_with_all_chunks(corpus)
    before = {
        candidate.id: (candidate.chunk, snapshot.vector.vectors([candidate.id]).tobytes())
        for candidate in search.candidates
    }
    for name in names:
        search = dict(STAGES)[name](search, Tools(snapshot))
    assert all(
        before[candidate.id] == (candidate.chunk, snapshot.vector.vectors([candidate.id]).tobytes())
        for candidate in search.candidates
    )


@given(corpora)
@settings(max_examples=60, deadline=None)
def test_dedup_keeps_different_numbers_and_negations(corpus) -> None:
    _, after = run_stages(
        DEDUPLICATING, {path: texts for path, texts in corpus.items() if path.startswith("notes")}
    )
    before = {
        (("30" in text), ("not" in text))
        for path, texts in corpus.items()
        if path.startswith("notes")
        for text in texts
    }
    assert {
        ("30" in candidate.chunk.text, "not" in candidate.chunk.text)
        for candidate in after.candidates
    } == before


@given(corpora)
@settings(max_examples=30, deadline=None)
def test_dedup_leaves_no_copies(corpus) -> None:
    snapshot, search = search_with_all_chunks(corpus)
    for name in DEDUPLICATING * 2:
        before, search = search, dict(STAGES)[name](search, Tools(snapshot))
    assert before.candidates == search.candidates
    assert len({candidate.chunk.text for candidate in search.candidates}) == len(search.candidates)
