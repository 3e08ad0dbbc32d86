from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import document, memory_snapshot
from thumbindex.model import Candidate, ChunkId, DocumentId, Passage, Place, Section
from thumbindex.ports import Catalog
from thumbindex.query.parents import group_by_section, make_passages, order_passages

SNAPSHOT = memory_snapshot(
    [document("a.md", "# A\n\none\n\ntwo\n\n## B\n\nthree"), document("b.md", "# C\n\none")]
)
CATALOG = SNAPSHOT.catalog
ALL = [ChunkId(n) for n in range(len(CATALOG))]


def candidate(n: int, score: float = 0.5, **facts: object) -> Candidate:
    return Candidate(
        ChunkId(n), CATALOG.document_of(ChunkId(n)), CATALOG.chunks(ALL)[ChunkId(n)], score, **facts
    )  # type: ignore[arg-type]


def passages_of(
    candidates: Sequence[Candidate], sections: Mapping[ChunkId, Section], catalog: Catalog = CATALOG
) -> tuple[Passage, ...]:
    groups = group_by_section(candidates, sections, catalog)
    ordered = order_passages(groups, sections)
    return make_passages(ordered, sections, catalog)


def test_each_section_comes_once_at_rank_of_best_chunk() -> None:
    passages = passages_of(
        [candidate(1, 0.9), candidate(2, 0.8), candidate(0, 0.7)], CATALOG.sections(ALL)
    )
    assert [
        (p.rank, p.score, p.start_line, p.end_line, p.match_start_line, p.match_end_line)
        for p in passages
    ] == [(1, 0.9, 1, 6, 5, 5), (2, 0.8, 7, 9, 9, 9)]


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("# C", "b.md"),
        ("", "b.md"),
        ("# C\n\n## D\n", "b.md"),
        ("```\n# C\n```", "a.md"),
        ("#C", "a.md"),
    ],
)
def test_sections_of_headings_alone_come_last(text: str, last: str) -> None:
    sections = {**CATALOG.sections(ALL), ALL[3]: Section(0, 1, 3, text)}
    passages = passages_of([candidate(3, 0.9), candidate(0, 0.8)], sections)
    assert (passages[1].path, passages[1].score, len(passages)) == (last, 0.8, 2)


def test_passage_has_section_text_and_headings_of_best_chunk() -> None:
    passage = passages_of([candidate(2)], CATALOG.sections(ALL))[0]
    assert (passage.path, passage.text, passage.match, passage.citation) == (
        "a.md",
        "## B\n\nthree",
        "three",
        "a.md#B (lines 7-9)",
    )


def test_passage_merges_ranks_of_its_chunks_and_names_copies_of_the_best() -> None:
    group = [
        candidate(0, sources={"search_vector": 3}, also_in=(3,), cluster_size=2),
        candidate(1, sources={"search_vector": 1, "search_code": 2}, also_in=(2,), cluster_size=2),
    ]
    passage = passages_of(group, CATALOG.sections(ALL))[0]
    assert (passage.sources, passage.cluster_size, passage.also_in) == (
        {"search_vector": 1, "search_code": 2},
        2,
        (Place("", "b.md", 3, 3),),
    )


def test_chunk_with_copy_in_passage_joins_it() -> None:
    passages = passages_of(
        [candidate(1, 0.9), candidate(3, 0.8, also_in=(0,), cluster_size=2)], CATALOG.sections(ALL)
    )
    assert [(p.path, p.start_line, p.cluster_size, p.also_in) for p in passages] == [
        ("a.md", 1, 1, ())
    ]


def test_passage_has_most_conservative_provenance_of_all_places() -> None:
    old = document(
        "old.md",
        "same",
        status="draft",
        properties={"owner": ("Ada",)},
        created="2020-02-02",
        date="2021-01-01",
    )
    new = document(
        "new.md",
        "same",
        status="approved",
        properties={"owner": ("Bo",)},
        created="2026-01-01",
        date="2026-02-01",
    )
    catalog = memory_snapshot([old, new]).catalog
    merged = Candidate(
        ChunkId(0),
        DocumentId(0),
        catalog.chunks([ChunkId(0)])[ChunkId(0)],
        0.5,
        also_in=(ChunkId(1),),
    )
    passage = passages_of([merged], {}, catalog)[0]
    assert (passage.path, passage.created, passage.status, passage.owner) == (
        "new.md",
        "2020-02-02",
        "draft",
        "Bo",
    )
    assert (passage.updated, passage.file_time) == ("2026-02-01", "")


def test_contradicting_passages_are_neighbors() -> None:
    children = [
        candidate(0, 0.9),
        candidate(2, 0.8),
        candidate(1, 0.7, disagrees=((3, "x"),)),
        candidate(3, 0.7, disagrees=((1, "y"),)),
    ]
    passages = passages_of(children, CATALOG.sections(ALL))
    assert [(p.rank, p.path, p.start_line, [d.path for d in p.disagrees]) for p in passages] == [
        (1, "a.md", 1, ["b.md"]),
        (2, "b.md", 1, ["a.md"]),
        (3, "a.md", 7, []),
    ]


@given(st.permutations(range(4)), st.sets(st.integers(0, 3)))
def test_every_chunk_is_in_exactly_one_passage(order: list[int], without_section: set[int]) -> None:
    sections = {
        n: section for n, section in CATALOG.sections(ALL).items() if n not in without_section
    }
    passages = passages_of([replace(candidate(n), sources={str(n): 1}) for n in order], sections)
    assert sorted(name for p in passages for name in p.sources) == ["0", "1", "2", "3"]
    assert [p.rank for p in passages] == list(range(1, len(passages) + 1))
    best = [min(order.index(int(name)) for name in p.sources) for p in passages]
    assert best == sorted(best)
