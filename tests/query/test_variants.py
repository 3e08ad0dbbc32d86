import pytest

from fakes import FakeEmbedder, document, memory_snapshot
from thumbindex.index.union import unite
from thumbindex.model import Query
from thumbindex.query.stage import Search, Tools
from thumbindex.query.versions import is_named, variants

PAGE = (
    "# Install\n\nDownload the archive from the release page and keep it for {} days before you "
    "delete it."
)


def grouped(
    candidates, *pages, query: str = "archive", embedder=None, **known
) -> list[tuple[str, tuple[str, ...]]]:
    snapshot = memory_snapshot(pages, embedder)
    search = variants(Search(Query(query), query, candidates=candidates(snapshot)), Tools(snapshot))
    path = [each.path for each in snapshot.catalog.documents]
    return [
        (path[each.document], tuple(path[snapshot.catalog.document_of(n)] for n in each.also_in))
        for each in search.candidates
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
    (found,) = variants(
        Search(Query("x"), "x", candidates=candidates(snapshot)), Tools(snapshot)
    ).candidates
    assert found.variants == ((0, "`31 day` against `30 day`"),)


def test_without_versions_the_newest_is_shown(candidates) -> None:
    text = PAGE.format(30)
    both = [
        document("old/x.md", text, date="2026-01-01"),
        document("new/x.md", text, date="2020-01-01"),
    ]
    assert grouped(candidates, *both) == [("old/x.md", ("new/x.md",))]


@pytest.mark.parametrize(
    ("folders", "shown"), [(("work", "backup"), "work/x.md"), (("v7.6", "v5.1"), "v7.6/x.md")]
)
def test_a_page_that_stands_at_one_path_in_two_folders_is_one_result(
    candidates, folders: tuple[str, str], shown: str
) -> None:
    both = [
        document("x.md", PAGE.format(30), folder=folder, date=f"202{n}-01-01")
        for n, folder in enumerate(reversed(folders))
    ]
    snapshot = unite([memory_snapshot([each]) for each in both])
    (found,) = variants(
        Search(Query("archive"), "archive", candidates=candidates(snapshot)), Tools(snapshot)
    ).candidates
    kept = snapshot.catalog.documents[found.document]
    assert (f"{kept.folder}/{kept.path}", len(found.also_in)) == (shown, 1)


def test_a_page_of_a_folder_inside_another_is_one_result_where_a_name_has_a_slash(ask) -> None:
    both = [
        document("home/x.md", PAGE.format(30), folder="work"),
        document("x.md", PAGE.format(30), folder="work/home"),
    ]
    (found,) = ask(unite([memory_snapshot([each]) for each in both]), "archive")[0].passages
    assert [(each.folder, each.path) for each in found.also_in] == [("work/home", "x.md")]


def test_two_pages_that_share_only_a_paragraph_are_two_pages(candidates) -> None:
    one, other = (
        "Cats sleep.\n\nDogs bark at night.\n\nBirds sing.",
        "Oak is hard.\n\nElm grows by rivers.\n\nAsh burns well.",
    )
    both = [
        document("5.1/x.md", f"{PAGE.format(30)}\n\n{one}"),
        document("7.6/x.md", f"{PAGE.format(90)}\n\n{other}"),
    ]
    assert len(grouped(candidates, *both)) == 8


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
            variants(
                Search(Query("x"), "x", candidates=candidates(snapshot)), Tools(snapshot)
            ).candidates
        )
        == 2
    )


@pytest.mark.parametrize(
    ("part", "query", "named"),
    [("v7.6", "in 7.6?", True), ("is", "is it here", False), ("5", "5.1", False)],
)
def test_a_query_names_a_version_as_a_word_of_its_own(part: str, query: str, named: bool) -> None:
    assert is_named(part, query) is named


def test_a_number_that_differs_between_languages_or_projects_keeps_both(candidates) -> None:
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
