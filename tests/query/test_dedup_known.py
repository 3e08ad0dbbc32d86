from fakes import document, memory_snapshot
from thumbindex.model import Filters, Query
from thumbindex.query.copies import dedup_known
from thumbindex.query.pipeline import start_search
from thumbindex.query.stage import Search, Tools

NOTES = [
    document(f"{name}.md", f"# N\n\ntext {name}", date=date)
    for name, date in (("a", "2024-01-01"), ("b", "2025-01-01"), ("c", "2026-01-01"))
]


def merged(snapshot, found, **facts) -> Search:
    return dedup_known(Search(Query("x"), "x", candidates=found, **facts), Tools(snapshot))


def shown(search: Search) -> list[tuple[int, tuple[int, ...], int]]:
    return [
        (candidate.id, candidate.also_in, candidate.cluster_size) for candidate in search.candidates
    ]


def test_the_newer_text_takes_the_better_one_s_place_and_score(candidates, knowing) -> None:
    snapshot = knowing(memory_snapshot(NOTES), copies={0: (1,), 1: (0,)})
    search = merged(snapshot, candidates(snapshot, 0.9, 0.3, 0.5))
    assert [
        (candidate.id, candidate.score, candidate.also_in) for candidate in search.candidates
    ] == [
        (1, 0.9, (0,)),
        (2, 0.5, ()),
    ]
    assert [(gone.path, gone.reason) for gone in search.dropped] == [
        ("a.md", "a known copy of b.md, line 3")
    ]


def test_places_that_were_not_found_are_named_too(candidates, knowing) -> None:
    snapshot = knowing(memory_snapshot(NOTES), copies={2: (0, 1)})
    assert shown(merged(snapshot, candidates(snapshot)[2:])) == [(2, (0, 1), 3)]


def test_the_newest_text_is_shown_even_where_only_an_older_one_was_found(
    candidates, knowing
) -> None:
    snapshot = knowing(memory_snapshot(NOTES), copies={0: (2,)})
    assert shown(merged(snapshot, candidates(snapshot)[:1])) == [(2, (0,), 2)]


def test_a_text_that_the_filters_leave_out_is_named_but_not_shown(candidates, knowing) -> None:
    snapshot = knowing(memory_snapshot(NOTES), copies={0: (2,)})
    searchable = start_search(
        Query("x", filters=Filters(path=("a.md",))), Tools(snapshot)
    ).searchable
    assert shown(merged(snapshot, candidates(snapshot)[:1], searchable=searchable)) == [
        (0, (2,), 2)
    ]


def test_another_version_of_the_page_is_no_newer_text(candidates, knowing) -> None:
    pages = [
        document("5.1/x.md", "same", date="2026-01-01"),
        document("7.6/x.md", "same", date="2024-01-01"),
    ]
    snapshot = knowing(memory_snapshot(pages), copies={1: (0,)})
    assert shown(merged(snapshot, candidates(snapshot)[1:])) == [(1, (0,), 2)]


def test_a_copy_of_a_copy_is_not_merged_unless_it_is_known_for_one(candidates, knowing) -> None:
    snapshot = knowing(memory_snapshot(NOTES), copies={0: (1,), 1: (0, 2), 2: (1,)})
    assert [candidate.id for candidate in merged(snapshot, candidates(snapshot)).candidates] == [
        1,
        2,
    ]


def test_a_repeat_inside_a_document_is_no_search_unit_and_is_named_by_the_kept_one(
    ask, knowing
) -> None:
    notes = [
        document(
            "a.md", "# A\n\nSync keeps vaults equal.\n\n## B\n\nSync keeps vaults equal, always."
        )
    ]
    snapshot = knowing(memory_snapshot(notes), repeats=[1], copies={0: (1,)})
    search, _ = ask(snapshot, "sync vaults")
    assert {hit.chunk for found in search.lists.values() for hit in found.hits} == {0}
    assert [
        (passage.match_start, [place.start_line for place in passage.also_in])
        for passage in search.passages
    ] == [(3, [7])]
