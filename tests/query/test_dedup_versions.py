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


def grouped(
    candidates, *pages, query: str = "archive", embedder=None, **known
) -> list[tuple[str, tuple[str, ...]]]:
    snapshot = memory_snapshot(pages, embedder)
    search = dedup_versions(
        Search(Query(query), query, candidates=candidates(snapshot)), Tools(snapshot)
    )
    path = [each.path for each in snapshot.catalog.documents]
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
def test_the_highest_version_is_shown_though_their_numbers_differ(candidates, embedder) -> None:
    assert grouped(candidates, *pages("5.1/x.md", "7.6/x.md", "7.10/x.md"), embedder=embedder) == [
        ("7.10/x.md", ("5.1/x.md", "7.6/x.md"))
    ]


def test_the_version_that_the_query_names_is_shown(candidates) -> None:
    assert grouped(candidates, *pages("5.1/x.md", "7.6/x.md"), query="archive in 5.1?") == [
        ("5.1/x.md", ("7.6/x.md",))
    ]


@pytest.mark.parametrize(
    ("query", "shown"),
    [("days to keep", "7.6/x.md"), ('"30 days"', "5.1/x.md"), ("keep it for 30 days", "5.1/x.md")],
)
def test_the_version_that_holds_what_is_asked_for_to_the_letter_is_shown(
    candidates, query: str, shown: str
) -> None:
    assert grouped(candidates, *pages("5.1/x.md", "7.6/x.md"), query=query)[0][0] == shown


def test_versions_that_say_otherwise_are_named_with_the_words(candidates) -> None:
    snapshot = memory_snapshot(pages("5.1/x.md", "7.6/x.md"))
    (found,) = dedup_versions(
        Search(Query("x"), "x", candidates=candidates(snapshot)), Tools(snapshot)
    ).candidates
    assert found.other_versions == ((0, "`31 day` against `30 day`"),)


def test_a_page_in_folders_that_are_named_after_versions_is_one_result(candidates) -> None:
    both = [document("x.md", PAGE.format(30), folder=folder) for folder in ("v5.1", "v7.6")]
    snapshot = unite([memory_snapshot([each]) for each in both])
    (found,) = dedup_versions(
        Search(Query("archive"), "archive", candidates=candidates(snapshot)), Tools(snapshot)
    ).candidates
    assert (snapshot.catalog.documents[found.document].folder, len(found.also_in)) == ("v7.6", 1)


def test_a_page_of_a_folder_inside_another_is_one_result_where_a_name_has_a_slash(ask) -> None:
    both = [
        document("home/x.md", PAGE.format(30), folder="work"),
        document("x.md", PAGE.format(30), folder="work/home"),
    ]
    (found,) = ask(unite([memory_snapshot([each]) for each in both]), "archive")[0].passages
    assert [(each.folder, each.path) for each in found.also_in] == [("work/home", "x.md")]


def test_a_paragraph_under_another_heading_is_no_version_of_it(candidates) -> None:
    both = [
        document("5.1/x.md", PAGE.format(30)),
        document("7.6/x.md", PAGE.format(90).replace("Install", "Remove")),
    ]
    assert len(grouped(candidates, *both)) == 2


def test_release_notes_are_not_pages_of_a_release(candidates) -> None:
    text = "# Release\n\nReleased {} on 2026-0{}-01, please update your apps soon."
    notes = [document(f"Release 1.{n}.md", text.format(f"1.{n}", n)) for n in (2, 3)]
    same = [
        document(
            f"guide {n}.md", f"# Guide\n\nIn {n} press the green button to begin, and then wait."
        )
        for n in ("1.2", "1.3")
    ]
    assert (len(grouped(candidates, *notes)), grouped(candidates, *same)) == (
        2,
        [("guide 1.3.md", ("guide 1.2.md",))],
    )


def test_what_the_owner_keeps_apart_stays_apart(candidates, knowing) -> None:
    snapshot = knowing(memory_snapshot(pages("5.1/x.md", "7.6/x.md")), verdicts={(0, 1): "apart"})
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
def test_a_query_names_a_version_as_a_word_of_its_own(
    version: str, query: str, named: bool
) -> None:
    assert names_version(version, query) is named


def test_pages_of_two_languages_or_projects_are_no_versions(candidates) -> None:
    assert [
        len(grouped(candidates, *pages(*paths)))
        for paths in (("de/x.md", "en/x.md"), ("one/x.md", "two/x.md"))
    ] == [2, 2]


def test_two_pages_that_share_a_name_are_two_pages(candidates) -> None:
    both = [
        document("one/README.md", "# One\n\nA parser for tables."),
        document("two/README.md", "# Two\n\nServes pictures of cats."),
    ]
    assert len(grouped(candidates, *both)) == 2
