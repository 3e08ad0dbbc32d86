import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fakes import document, memory_snapshot
from thumbindex.model import DroppedChunk, Query
from thumbindex.query.copies import CopyOf, assign_survivors, merge_copies
from thumbindex.query.stage import Search, Tools

matrices = st.integers(0, 8).flatmap(
    lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=n, max_size=n)
)


def test_survivor_keeps_rank_and_lists_copies(candidates) -> None:
    snapshot = memory_snapshot([document("a.md", "one\n\ntwo\n\nthree")])
    search = Search(Query("x"), "x", candidates=candidates(snapshot))
    merged = merge_copies(search, Tools(snapshot), {0: CopyOf(1, "a copy"), 2: CopyOf(1, "a copy")})
    assert [
        (candidate.id, candidate.also_in, candidate.cluster_size) for candidate in merged.candidates
    ] == [(1, (0, 2), 3)]
    assert merged.dropped == (
        DroppedChunk("a.md", 1, "a copy of a.md, line 3"),
        DroppedChunk("a.md", 5, "a copy of a.md, line 3"),
    )


def test_survivor_inherits_copies_of_its_copy(candidates) -> None:
    snapshot = memory_snapshot([document("a.md", "one\n\ntwo\n\nthree")])
    search = Search(Query("x"), "x", candidates=candidates(snapshot))
    twice = merge_copies(
        merge_copies(search, Tools(snapshot), {2: CopyOf(1, "a copy")}),
        Tools(snapshot),
        {1: CopyOf(0, "a copy")},
    )
    assert [
        (candidate.id, candidate.also_in, candidate.cluster_size) for candidate in twice.candidates
    ] == [(0, (1, 2), 3)]


@given(matrices)
def test_survivors_are_never_copies(rows: list[list[bool]]) -> None:
    alike = np.array(rows, dtype=np.bool_).reshape(len(rows), len(rows))
    copies = assign_survivors(alike, lambda a, b: None)
    assert not set(copies) & set(copies.values())
    assert 0 not in copies
    assert all(alike[at, of] and of < at for at, of in copies.items())
