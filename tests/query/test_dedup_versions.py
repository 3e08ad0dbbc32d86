import pytest

from fakes import FakeEmbedder, document, memory_snapshot
from thumbindex.index.union import unite
from thumbindex.model import Query
from thumbindex.query.copies import dedup_versions, names_version
from thumbindex.query.stage import Search, Tools

PAGE = (
    "# Install\n\nDownload the archive from the release page and keep it for {} days before you "
    "delete it."
)


def merge_versions(
    candidates, *pages, query: str = "archive", embedder=None, **known
) -> list[tuple[str, tuple[str, ...]]]:
    snapshot = memory_snapshot(pages, embedder)
    search = dedup_versions(
        Search(Query(query), query, candidates=candidates(snapshot)), Tools(snapshot)
    )
    path = [document.path for document in snapshot.catalog.documents]
    return [
        (
            path[candidate.document],
            tuple(path[snapshot.catalog.document_of(n)] for n in candidate.also_in),
        )
        for candidate in search.candidates
    ]


def pages(*paths: str, **facts):
    return [document(path, PAGE.format(30 + n), **facts) for n, path in enumerate(paths)]


@pytest.mark.parametrize("embedder", [None, FakeEmbedder()])
def test_highest_version_is_shown(candidates, embedder) -> None:
    assert merge_versions(
        candidates, *pages("5.1/x.md", "7.6/x.md", "7.10/x.md"), embedder=embedder
    ) == [("7.10/x.md", ("5.1/x.md", "7.6/x.md"))]


def test_version_in_query_is_shown(candidates) -> None:
    assert merge_versions(candidates, *pages("5.1/x.md", "7.6/x.md"), query="archive in 5.1?") == [
        ("5.1/x.md", ("7.6/x.md",))
    ]


def test_versions_in_folder_names_are_merged(candidates) -> None:
    both = [document("x.md", PAGE.format(30), folder=folder) for folder in ("v5.1", "v7.6")]
    snapshot = unite([memory_snapshot([entry]) for entry in both])
    (merged,) = dedup_versions(
        Search(Query("archive"), "archive", candidates=candidates(snapshot)), Tools(snapshot)
    ).candidates
    assert (snapshot.catalog.documents[merged.document].folder, len(merged.also_in)) == ("v7.6", 1)


def test_nested_folders_list_each_place_once(ask) -> None:
    both = [
        document("home/x.md", PAGE.format(30), folder="work"),
        document("x.md", PAGE.format(30), folder="work/home"),
    ]
    (passage,) = ask(unite([memory_snapshot([entry]) for entry in both]), "archive")[0].passages
    assert [(place.folder, place.path) for place in passage.also_in] == [("work/home", "x.md")]


def test_different_headings_are_not_versions(candidates) -> None:
    both = [
        document("5.1/x.md", PAGE.format(30)),
        document("7.6/x.md", PAGE.format(90).replace("Install", "Remove")),
    ]
    assert len(merge_versions(candidates, *both)) == 2


def test_release_notes_are_not_versions(candidates) -> None:
    text = "# Release\n\nReleased {} on 2026-0{}-01, please update your apps soon."
    notes = [document(f"Release 1.{n}.md", text.format(f"1.{n}", n)) for n in (2, 3)]
    same = [
        document(
            f"guide {n}.md", f"# Guide\n\nIn {n} press the green button to begin, and then wait."
        )
        for n in ("1.2", "1.3")
    ]
    assert (len(merge_versions(candidates, *notes)), merge_versions(candidates, *same)) == (
        2,
        [("guide 1.3.md", ("guide 1.2.md",))],
    )


def test_versions_stay_apart_if_owner_decides(candidates, with_duplicates) -> None:
    snapshot = with_duplicates(
        memory_snapshot(pages("5.1/x.md", "7.6/x.md")), verdicts={(0, 1): "apart"}
    )
    assert (
        len(
            dedup_versions(
                Search(Query("x"), "x", candidates=candidates(snapshot)), Tools(snapshot)
            ).candidates
        )
        == 2
    )


@pytest.mark.parametrize(
    ("version", "query", "named"),
    [("7.6", "in v7.6?", True), ("", "is it here", False), ("5", "5.1", False)],
)
def test_version_in_query_must_be_a_whole_word(version: str, query: str, named: bool) -> None:
    assert names_version(version, query) is named


def test_translations_and_other_projects_are_not_versions(candidates) -> None:
    assert [
        len(merge_versions(candidates, *pages(*paths)))
        for paths in (("de/x.md", "en/x.md"), ("one/x.md", "two/x.md"))
    ] == [2, 2]


def test_equal_file_names_are_not_versions(candidates) -> None:
    both = [
        document("one/README.md", "# One\n\nA parser for tables."),
        document("two/README.md", "# Two\n\nServes pictures of cats."),
    ]
    assert len(merge_versions(candidates, *both)) == 2
