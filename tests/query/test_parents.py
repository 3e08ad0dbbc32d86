from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from thumbindex.model import Candidate, ChunkId, DocumentId, Place
from thumbindex.query.parents import as_passages
from thumbindex.testing import document, memory_snapshot

SNAPSHOT = memory_snapshot([document("a.md", "# A\n\none\n\ntwo\n\n## B\n\nthree"), document("b.md", "# C\n\none")])
CATALOG = SNAPSHOT.catalog
ALL = [ChunkId(n) for n in range(len(CATALOG))]


def candidate(n: int, score: float = 0.5, **facts: object) -> Candidate:
    return Candidate(ChunkId(n), CATALOG.document_of(ChunkId(n)), CATALOG.chunks(ALL)[ChunkId(n)], score, **facts)  # type: ignore[arg-type]


def test_each_parent_comes_once_at_its_best_child_s_place() -> None:
    passages = as_passages([candidate(1, 0.9), candidate(2, 0.8), candidate(0, 0.7)], CATALOG.sections(ALL), CATALOG)
    assert [(p.rank, p.score, p.start_line, p.end_line, p.match_start, p.match_end) for p in passages] == [(1, 0.9, 1, 6, 5, 5), (2, 0.8, 7, 9, 9, 9)]


def test_a_passage_is_its_section_s_text_and_its_best_child_s_headings() -> None:
    passage = as_passages([candidate(2)], CATALOG.sections(ALL), CATALOG)[0]
    assert (passage.path, passage.text, passage.match, passage.citation) == ("a.md", "## B\n\nthree", "three", "a.md#B (lines 7-9)")


def test_a_child_without_its_parent_stays_with_its_own_lines() -> None:
    sections = {n: section for n, section in CATALOG.sections(ALL).items() if n != 1}
    passages = as_passages([candidate(0), candidate(1)], sections, CATALOG)
    assert [(p.start_line, p.end_line, p.text.splitlines()[0]) for p in passages] == [(1, 6, "# A"), (5, 5, "two")]


def test_siblings_add_their_ranks_and_copies() -> None:
    family = [candidate(0, sources={"search_vector": 3}), candidate(1, sources={"search_vector": 1, "search_code": 2}, also_in=(3,), cluster_size=2)]
    passage = as_passages(family, CATALOG.sections(ALL), CATALOG)[0]
    assert (passage.sources, passage.cluster_size, passage.also_in) == ({"search_vector": 1, "search_code": 2}, 2, (Place("", "b.md", 3, 3),))


def test_a_copy_inside_the_passage_is_no_other_place() -> None:
    passage = as_passages([candidate(0, also_in=(1,), cluster_size=2)], CATALOG.sections(ALL), CATALOG)[0]
    assert (passage.also_in, passage.cluster_size) == ((), 2)


def test_a_passage_that_stands_for_several_places_says_the_careful_thing_of_all() -> None:
    old = document("old.md", "same", front_matter={"created": "2020-02-02", "status": "draft", "owner": "Ada"}, date="2021-01-01")
    new = document("new.md", "same", front_matter={"created": "2026-01-01", "status": "approved", "owner": "Bo"}, date="2026-01-01")
    catalog = memory_snapshot([old, new]).catalog
    found = Candidate(ChunkId(0), DocumentId(0), catalog.chunks([ChunkId(0)])[ChunkId(0)], 0.5, also_in=(ChunkId(1),))
    passage = as_passages([found], {}, catalog)[0]
    assert (passage.path, passage.created, passage.status, passage.owner) == ("new.md", "2020-02-02", "draft", "Bo")


def test_passages_that_disagree_stand_together_where_a_sibling_came_first() -> None:
    children = [candidate(0, 0.9), candidate(2, 0.8), candidate(1, 0.7, disagrees=((3, "x"),)), candidate(3, 0.7, disagrees=((1, "y"),))]
    passages = as_passages(children, CATALOG.sections(ALL), CATALOG)
    assert [(p.rank, p.path, p.start_line, [d.place.path for d in p.disagrees]) for p in passages] == [
        (1, "a.md", 1, ["b.md"]),
        (2, "b.md", 1, ["a.md"]),
        (3, "a.md", 7, []),
    ]


@given(st.permutations(range(4)), st.sets(st.integers(0, 3)))
def test_every_child_is_in_exactly_one_passage_and_ranks_count_from_one(order: list[int], gone: set[int]) -> None:
    sections = {n: section for n, section in CATALOG.sections(ALL).items() if n not in gone}
    passages = as_passages([replace(candidate(n), sources={str(n): 1}) for n in order], sections, CATALOG)
    assert sorted(name for p in passages for name in p.sources) == ["0", "1", "2", "3"]
    assert [p.rank for p in passages] == list(range(1, len(passages) + 1))
    best = [min(order.index(int(name)) for name in p.sources) for p in passages]
    assert best == sorted(best)
