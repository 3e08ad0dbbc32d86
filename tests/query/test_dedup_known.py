from fakes import document, memory_snapshot
from thumbindex.model import Filters, Query
from thumbindex.query.copies import dedup_known
from thumbindex.query.pipeline import start_search
from thumbindex.query.stage import Search, Tools

NOTES = [
    document(f"{name}.md", f"# N\n\ntext {name}", date=date)
    for name, date in (("a", "2024-01-01"), ("b", "2025-01-01"), ("c", "2026-01-01"))
]


def merge_known(snapshot, candidates, **facts) -> Search:
    return dedup_known(Search(Query("x"), "x", candidates=candidates, **facts), Tools(snapshot))


def summaries(search: Search) -> list[tuple[int, tuple[int, ...], int]]:
    return [
        (candidate.id, candidate.also_in, candidate.cluster_size) for candidate in search.candidates
    ]


def test_newer_copy_takes_rank_and_score_of_better_copy(candidates, with_duplicates) -> None:
    snapshot = with_duplicates(memory_snapshot(NOTES), copies={0: (1,), 1: (0,)})
    search = merge_known(snapshot, candidates(snapshot, 0.9, 0.3, 0.5))
    assert [
        (candidate.id, candidate.score, candidate.also_in) for candidate in search.candidates
    ] == [
        (1, 0.9, (0,)),
        (2, 0.5, ()),
    ]
    assert [(dropped.path, dropped.reason) for dropped in search.dropped] == [
        ("a.md", "found during indexing: a copy of b.md, line 3")
    ]


def test_copies_that_were_not_found_are_listed(candidates, with_duplicates) -> None:
    snapshot = with_duplicates(memory_snapshot(NOTES), copies={2: (0, 1)})
    assert summaries(merge_known(snapshot, candidates(snapshot)[2:])) == [(2, (0, 1), 3)]


def test_newest_copy_is_shown_if_only_an_older_one_was_found(candidates, with_duplicates) -> None:
    snapshot = with_duplicates(memory_snapshot(NOTES), copies={0: (2,)})
    assert summaries(merge_known(snapshot, candidates(snapshot)[:1])) == [(2, (0,), 2)]


def test_copy_outside_filters_is_listed_but_not_shown(candidates, with_duplicates) -> None:
    snapshot = with_duplicates(memory_snapshot(NOTES), copies={0: (2,)})
    searchable = start_search(
        Query("x", filters=Filters(path=("a.md",))), Tools(snapshot)
    ).searchable
    assert summaries(merge_known(snapshot, candidates(snapshot)[:1], searchable=searchable)) == [
        (0, (2,), 2)
    ]


def test_other_version_is_not_a_newer_copy(candidates, with_duplicates) -> None:
    pages = [
        document("5.1/x.md", "same", date="2026-01-01"),
        document("7.6/x.md", "same", date="2024-01-01"),
    ]
    snapshot = with_duplicates(memory_snapshot(pages), copies={1: (0,)})
    assert summaries(merge_known(snapshot, candidates(snapshot)[1:])) == [(1, (0,), 2)]


def test_copy_of_a_copy_is_not_merged(candidates, with_duplicates) -> None:
    snapshot = with_duplicates(memory_snapshot(NOTES), copies={0: (1,), 1: (0, 2), 2: (1,)})
    assert [
        candidate.id for candidate in merge_known(snapshot, candidates(snapshot)).candidates
    ] == [
        1,
        2,
    ]


def test_repeat_inside_document_is_listed_but_not_searched(ask, with_duplicates) -> None:
    notes = [
        document(
            "a.md", "# A\n\nSync keeps vaults equal.\n\n## B\n\nSync keeps vaults equal, always."
        )
    ]
    snapshot = with_duplicates(memory_snapshot(notes), repeats=[1], copies={0: (1,)})
    search, _ = ask(snapshot, "sync vaults")
    assert {hit.chunk for ranked in search.lists.values() for hit in ranked.hits} == {0}
    assert [
        (passage.match_start_line, [place.start_line for place in passage.also_in])
        for passage in search.passages
    ] == [(3, [7])]
