"""What is published answers as the index on the disk does: every question, every list, after every
edit, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from postgres.server import TestServer
from postgres.vault import QUESTIONS, Gardener, in_database, make_vault, on_disk, publishing, told
from thumbindex.errors import ThumbindexError, UsageError
from thumbindex.index.postgres.publish import index_vectors, sweep_folders
from thumbindex.library import Library
from thumbindex.library.engine import Publishing
from thumbindex.llama_index import ThumbindexRetriever


@pytest.fixture
def url(postgres: TestServer, database: str) -> str:
    return postgres.address(database)


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    return make_vault(tmp_path / "garden")


@pytest.fixture
def disk(tmp_path: Path, vault: Path) -> Iterator[Library]:
    with on_disk(tmp_path, vault) as library:
        library.index()
        yield library


@pytest.fixture
def builder(disk: Library, url: str) -> Iterator[Publishing]:
    with publishing(disk, url) as builder:
        builder.look()
        yield builder


@pytest.fixture
def served(builder: Publishing, url: str, tmp_path: Path) -> Iterator[Library]:
    with in_database(url, tmp_path) as library:
        yield library


def asked(library: Library, text: str, options: dict[str, Any], *, explain: bool = False) -> Any:
    options = {
        key: date.fromisoformat(value) if key in ("since", "until") else value
        for key, value in options.items()
    }
    return outcome(lambda: told(library.query(text, explain=explain, **options)))


def outcome(ask: Callable[[], Any]) -> Any:
    """Return what is said, or the words of the error."""
    try:
        return ask()
    except ThumbindexError as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("explain", [False, True])
def test_every_question_has_the_answer_that_the_disk_gives(
    disk: Library, served: Library, explain: bool
) -> None:
    for text, options in QUESTIONS:
        assert asked(served, text, options, explain=explain) == asked(
            disk, text, options, explain=explain
        ), text


def test_words_alone_answer_the_same(disk: Library, served: Library) -> None:
    for library in (disk, served):
        library.config = replace(
            library.config, query=library.config.query.without_stages("search_vector")
        )
    for text, options in QUESTIONS:
        assert asked(served, text, options) == asked(disk, text, options), text


PATHS = (
    "Guides/pears.md",
    "pears",
    "Overview",
    "Guides/apples.md#Storage",
    "Guides/apples > Storage",
    "ja/猫.md",
    "nothing.md",
    "Guides",
    "hostile",
)


ASKS: dict[str, Callable[[Library, str], Any]] = {
    "read": lambda library, path: library.read(path),
    "outline": lambda library, path: library.outline(path),
    "related": lambda library, path: library.related(path),
    "why": lambda library, path: library.why(path, "cellar"),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("ask", sorted(ASKS))
def test_a_note_reads_and_stands_as_on_the_disk(
    disk: Library, served: Library, ask: str, path: str
) -> None:
    """`why` looks at the disk for what is no note there: of a directory it says more."""
    said = [outcome(lambda: ASKS[ask](served, path)), outcome(lambda: ASKS[ask](disk, path))]
    assert said[0] == said[1] or (ask, path) == ("why", "Guides")


def test_lists_are_those_of_the_disk(disk: Library, served: Library) -> None:
    assert served.outline() == disk.outline()
    assert served.listing(tag=["fruit"]) == disk.listing(tag=["fruit"])
    assert served.listing(since=date(2025, 6, 1)) == disk.listing(since=date(2025, 6, 1))
    assert (served.orphans(), served.broken()) == (disk.orphans(), disk.broken())
    assert list(served.browse(sorted_by_title)) == list(disk.browse(sorted_by_title))


def sorted_by_title(documents: Any) -> Any:
    return sorted(documents, key=lambda each: each.title)


def test_llama_index_retrieves_the_same_from_both(disk: Library, served: Library) -> None:
    mine, yours = (
        [
            (node.text, node.score)
            for node in ThumbindexRetriever(each).retrieve("pears in the cellar")
        ]
        for each in (served, disk)
    )
    assert mine == yours != []


def test_citations_are_verified_as_on_the_disk(disk: Library, served: Library) -> None:
    draft = (
        'Pears keep long: "Keep pears in a cool cellar for 20 days" (Guides/pears.md:10), "a hot '
        'cellar" (Guides/apples.md),'
        ' "Met Ada about the cellar" (Daily/2026-02-06.md), and [[nowhere]].'
    )
    assert served.verify(draft) == disk.verify(draft)


def test_duplicates_and_what_the_owner_decided_are_those_of_the_disk(
    disk: Library, served: Library, builder: Publishing
) -> None:
    assert told_clusters(served) == told_clusters(disk) != []
    first = disk.duplicates(grey=True).clusters[0]
    disk.decide(first.id, "apart", "two notes")
    builder.look()
    assert told_clusters(served) == told_clusters(disk)
    for text, options in QUESTIONS[:4]:
        assert asked(served, text, options) == asked(disk, text, options)
    with pytest.raises(ThumbindexError, match="decide there"):
        served.decide(first.id, "same")


def told_clusters(library: Library) -> list[Any]:
    return list(library.duplicates(grey=True).clusters)


def test_status_tells_what_is_published(disk: Library, served: Library) -> None:
    (mine,), (yours,) = served.status(), disk.status()
    assert (mine.state, mine.problems, mine.links_resolved, mine.links_dangling) == (
        yours.state,
        yours.problems,
        yours.links_resolved,
        yours.links_dangling,
    )
    assert (mine.folder, mine.indexed, mine.writing, mine.flagged) == (
        yours.folder,
        True,
        False,
        yours.flagged,
    )
    assert "password" not in mine.root


def test_folders_of_both_kinds_are_asked_together(
    disk: Library, builder: Publishing, url: str, tmp_path: Path
) -> None:
    shed = tmp_path / "shed"
    shed.mkdir()
    (shed / "tools.md").write_text(
        "# Tools\n\nA spade for the garden, and apples in the cellar.\n", encoding="utf-8"
    )
    with (
        on_disk(tmp_path, disk.opened[0].root, shed) as both,
        in_database(url, tmp_path, "garden", shed) as mixed,
    ):
        both.index()
        builder.look()
        assert sorted(name for name, _ in mixed.folders) == ["garden", "shed"]
        for text, options in QUESTIONS:
            mine, yours = (
                asked(each, text, {**options, "folder": ["garden", "shed"]})
                for each in (mixed, both)
            )
            places = [
                [(each["folder"], each["path"], each["score"]) for each in found["passages"]]
                for found in (mine, yours)
                if isinstance(found, dict)
            ]
            assert places[:1] == places[1:], text


def edits(
    disk: Library, served: Library, builder: Publishing, vault: Path, count: int, seed: int
) -> None:
    gardener = Gardener(vault, seed)
    for number in range(count):
        what = gardener.edit()
        disk.index()
        builder.look()
        for text, options in QUESTIONS[number % 5 :: 5]:
            assert asked(served, text, options) == asked(disk, text, options), (number, what, text)
        assert served.outline() == disk.outline(), (number, what)


def test_answers_stay_equal_after_each_of_a_dozen_edits(
    disk: Library, served: Library, builder: Publishing, vault: Path
) -> None:
    edits(disk, served, builder, vault, 12, seed=7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_answers_stay_equal_after_each_of_a_hundred_edits(
    disk: Library, served: Library, builder: Publishing, vault: Path, seed: int
) -> None:
    edits(disk, served, builder, vault, 100, seed)


def test_an_index_that_is_built_anew_takes_the_place_of_the_one_before(
    disk: Library, served: Library, builder: Publishing, vault: Path
) -> None:
    before = asked(served, "cellar", {})
    (vault / "new.md").write_text("# New\n\nA new cellar.\n", encoding="utf-8")
    disk.index(rebuild=True)
    builder.look()
    builder.tidy()
    sweep_folders(builder.engine, after=0)
    assert before != asked(served, "cellar", {}) == asked(disk, "cellar", {})
    with builder.engine.question() as session:
        assert session.fetch("SELECT count(*) FROM folders") == [(1,)]
        tables = {
            name
            for (name,) in session.fetch(
                "SELECT relname FROM pg_class WHERE relname ~ '^documents_[0-9]+$'"
            )
        }
    assert len(tables) == 1


def test_another_builder_goes_on_where_the_first_one_ended(
    disk: Library, served: Library, builder: Publishing, vault: Path, url: str
) -> None:
    builder.close()
    (vault / "Guides/pears.md").write_text(
        "# Pears\n\nPears keep in the attic now.\n", encoding="utf-8"
    )
    (vault / "index.md").unlink()
    disk.index()
    with publishing(disk, url) as other:
        (published,) = other.look()
        assert (published.added, published.removed) == (1, 2)
        assert other.look() == ()
    for text, options in QUESTIONS:
        assert asked(served, text, options) == asked(disk, text, options), text


def test_another_model_may_embed_a_folder_whose_vectors_have_an_index(
    disk: Library, builder: Publishing, vault: Path, url: str, tmp_path: Path
) -> None:
    assert len(index_vectors(builder.engine, above=0)) == 1
    disk.close()
    with on_disk(tmp_path, vault, dimensions=32) as other, publishing(other, url) as again:
        other.index(rebuild=True)
        again.look()
        assert len(index_vectors(again.engine, above=0)) == 1
        with in_database(url, tmp_path, dimensions=32) as served:
            assert [each.path for each in served.query("cellar").passages] == [
                each.path for each in other.query("cellar").passages
            ]


def test_a_name_that_is_of_a_folder_here_and_of_a_published_one_is_refused(
    builder: Publishing, url: str, tmp_path: Path
) -> None:
    own = tmp_path / "mine" / "garden"
    own.mkdir(parents=True)
    with pytest.raises(UsageError, match="garden"), in_database(url, tmp_path, "garden", own):
        pass
