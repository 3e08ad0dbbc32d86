"""What deduplication at retrieval promises (spec/dedup.md, section 3), over random corpora, stage
by stage and together.
"""

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
"""They may show another text than the best one, in its place."""

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
    """What an index could know of a random corpus: equal texts are copies of each other."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def copies(self, chunk: ChunkId) -> tuple[ChunkId, ...]:  # type: ignore[override]
        return tuple(
            ChunkId(n)
            for n, text in enumerate(self._texts)
            if text == self._texts[chunk] and n != chunk
        )


def found(corpus: dict[str, list[str]]) -> tuple[Snapshot, Search]:
    """Return a corpus and all of its chunks as candidates, best first."""
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


def through(names: tuple[str, ...], corpus: dict[str, list[str]]) -> tuple[Search, Search]:
    """Return a corpus's candidates before and after some stages."""
    snapshot, before = found(corpus)
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
def test_the_order_after_ranking_never_changes(names, corpus) -> None:
    before, after = through(names, corpus)
    place = {n: at for at, each in enumerate(before.candidates) for n in [each.id]}
    # by the first that names it
    named = {
        n: at
        for at, each in reversed([*enumerate(after.candidates)])
        for n in (each.id, *each.also_in)
    }
    best = [
        min(place[n] for n in (each.id, *each.also_in) if named[n] == at)
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
def test_never_all_instances_of_a_thing_are_removed(names, corpus) -> None:
    before, after = through(names, corpus)
    named = {n for candidate in after.candidates for n in (candidate.id, *candidate.also_in)}
    assert named == {candidate.id for candidate in before.candidates}
    assert len(after.dropped) == len(before.candidates) - len(after.candidates)
    assert [candidate.cluster_size for candidate in after.candidates] == [
        1 + len(candidate.also_in) for candidate in after.candidates
    ]


@EACH
@given(corpora)
@settings(max_examples=30, deadline=None)
def test_texts_and_vectors_are_never_altered(names, corpus) -> None:
    snapshot, search = found(corpus)
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
def test_no_changed_number_or_negation_is_lost_but_between_versions(corpus) -> None:
    _, after = through(
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
def test_what_is_left_holds_no_copies(corpus) -> None:
    snapshot, search = found(corpus)
    for name in DEDUPLICATING * 2:
        left, search = search, dict(STAGES)[name](search, Tools(snapshot))
    assert left.candidates == search.candidates
    assert len({candidate.chunk.text for candidate in search.candidates}) == len(search.candidates)
