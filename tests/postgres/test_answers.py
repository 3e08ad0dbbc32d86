"""What is published answers as the index on the disk does: every question, every list, after every
edit, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from fakes import FakeEmbedder
from postgres.conftest import Shared
from postgres.vault import (
    QUESTIONS,
    Gardener,
    answers,
    configured,
    in_database,
    make_shed,
    on_disk,
    publishing,
)
from stages import without_stages
from thumbindex.config import NO_ROOT
from thumbindex.errors import ThumbindexError, UsageError
from thumbindex.library import Library
from thumbindex.postgres import PublishJob
from thumbindex.postgres.publish import create_vector_indexes


def outcome(ask: Callable[[Library, str], Any], library: Library, path: str) -> Any:
    """Return what is said, or the words of the error."""
    try:
        return ask(library, path)
    except ThumbindexError as error:
        return f"{type(error).__name__}: {error}"


def test_every_question_has_the_answer_that_the_disk_gives(shared: Shared) -> None:
    assert answers(shared.served, explain=True) == answers(shared.disk, explain=True)


def test_words_alone_answer_the_same(shared: Shared) -> None:
    found = []
    for library in (shared.served, shared.disk):
        with_vectors = library.config
        library.config = replace(
            with_vectors, query=without_stages(with_vectors.query, "search_vector")
        )
        found.append(answers(library, QUESTIONS[::2]))
        library.config = with_vectors
    assert found[0] == found[1]


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


@pytest.mark.parametrize("ask", ASKS)
def test_a_note_reads_and_stands_as_on_the_disk(shared: Shared, ask: str) -> None:
    """`why` looks at the disk for what is no note there: of a directory it says more."""
    said = [
        {path: outcome(ASKS[ask], library, path) for path in PATHS}
        for library in (shared.served, shared.disk)
    ]
    if ask == "why":
        assert said[0].pop("Guides") != said[1].pop("Guides")
    assert said[0] == said[1]


def test_lists_are_those_of_the_disk(shared: Shared) -> None:
    served, disk = shared.served, shared.disk
    assert served.outline() == disk.outline()
    assert served.listing(tag=["fruit"]) == disk.listing(tag=["fruit"])
    assert served.listing(since=date(2025, 6, 1)) == disk.listing(since=date(2025, 6, 1))
    assert (served.orphans(), served.broken()) == (disk.orphans(), disk.broken())
    assert served.unlinked() == disk.unlinked()
    assert served.browse(sorted_by_title, 999) == disk.browse(sorted_by_title, 999)


def sorted_by_title(documents: Any) -> Any:
    return sorted(documents, key=lambda each: each.title)


def test_citations_are_verified_as_on_the_disk(shared: Shared) -> None:
    draft = (
        'Pears keep long: "Keep pears in a cool cellar for 20 days" (Guides/pears.md:10), "a hot '
        'cellar" (Guides/apples.md),'
        ' "Met Ada about the cellar" (Daily/2026-02-06.md), and [[nowhere]].'
    )
    assert shared.served.verify(draft) == shared.disk.verify(draft)


def test_status_tells_what_is_published_and_no_password(shared: Shared) -> None:
    mine, yours = shared.served.status(), shared.disk.status()
    assert [(each.folder, each.index, each.skipped, each.flagged) for each in mine] == [
        (your.folder, your.index, your.skipped, your.flagged) for your in yours
    ]
    assert [(each.indexed, each.writing) for each in mine] == [(True, False)] * 2
    assert "password" not in mine[0].root


def test_published_vaults_lie_where_no_file_is_read() -> None:
    assert not (NO_ROOT / "x").exists()


def test_duplicates_and_what_the_owner_decided_are_those_of_the_disk(
    disk: Library, served: Library, builder: PublishJob
) -> None:
    assert told_clusters(served) == told_clusters(disk) != []
    first = disk.duplicates(grey=True).clusters[0]
    for verdict in ("apart", "same"):
        disk.decisions().decide(first.id, verdict, "two notes")
        builder.publish_changes()
        assert told_clusters(served) == told_clusters(disk)
        assert answers(served, QUESTIONS) == answers(disk, QUESTIONS)
    with pytest.raises(ThumbindexError, match="Decide there"):
        served.decisions().decide(first.id, "same")


def told_clusters(library: Library) -> list[Any]:
    return list(library.duplicates(grey=True).clusters)


def test_published_folders_and_own_ones_are_asked_together(shared: Shared, tmp_path: Path) -> None:
    shed = make_shed(tmp_path / "shed")
    with Library.open(
        ["garden", shed],
        index=tmp_path / "index",
        config=configured(tmp_path),
        embedder=FakeEmbedder(),
        engine=shared.url,
    ) as mixed:
        mixed.index()
        assert sorted(name for name, _ in mixed.folders) == ["garden", "shed"]
        assert [places(mixed, text) for text, _ in QUESTIONS[::4]] == [
            places(shared.disk, text) for text, _ in QUESTIONS[::4]
        ]


def places(library: Library, text: str) -> list[tuple[str, str, float]]:
    passages = library.query(text, folder=["garden", "shed"]).passages
    return [(passage.folder, passage.path, passage.score) for passage in passages]


def test_a_name_that_is_of_a_folder_here_and_of_a_published_one_is_refused(
    shared: Shared, tmp_path: Path
) -> None:
    own = tmp_path / "mine" / "garden"
    own.mkdir(parents=True)
    with (
        pytest.raises(UsageError, match="garden"),
        in_database(shared.url, tmp_path, "garden", own),
    ):
        pass


@pytest.mark.parametrize(("count", "seed"), [(12, 7), pytest.param(100, 1, marks=pytest.mark.long)])
def test_answers_stay_equal_after_each_edit(
    disk: Library, served: Library, builder: PublishJob, garden: Path, count: int, seed: int
) -> None:
    gardener = Gardener(garden, seed)
    for number in range(count):
        what = gardener.edit()
        disk.index()
        builder.publish_changes()
        some = QUESTIONS[number % 6 :: 6]
        assert answers(served, some) == answers(disk, some), (number, what)
        assert served.outline() == disk.outline(), (number, what)


def test_an_index_that_is_built_anew_takes_the_place_of_the_one_before(
    disk: Library, served: Library, builder: PublishJob, garden: Path
) -> None:
    before = answers(served, [("cellar", {})])
    (garden / "new.md").write_text("# New\n\nA new cellar.\n", encoding="utf-8")
    disk.index(rebuild=True)
    builder.publish_changes()
    after = answers(served, [("cellar", {})])
    assert before != after == answers(disk, [("cellar", {})])
    with builder.engine.read_transaction() as session:
        assert session.fetch("SELECT count(*) FROM folders") == [(2,)]
        tables = session.fetch("SELECT relname FROM pg_class WHERE relname ~ '^documents_[0-9]+$'")
    assert len(set(tables)) == 2


def test_another_builder_goes_on_where_the_first_one_ended(
    disk: Library, served: Library, builder: PublishJob, garden: Path, url: str
) -> None:
    builder.close()
    (garden / "Guides/pears.md").write_text(
        "# Pears\n\nPears keep in the attic now.\n", encoding="utf-8"
    )
    (garden / "index.md").unlink()
    disk.index()
    with publishing(disk, url) as other:
        (published,) = [change for change in other.publish_changes() if change.name == "garden"]
        assert (published.added, published.removed) == (1, 2)
        assert other.publish_changes() == ()
    assert answers(served, QUESTIONS[::4]) == answers(disk, QUESTIONS[::4])


def test_another_model_may_embed_a_folder_whose_vectors_have_an_index(
    disk: Library, builder: PublishJob, garden: Path, url: str, tmp_path: Path
) -> None:
    assert len(create_vector_indexes(builder.engine, above=1)) == 1
    disk.close()
    with on_disk(tmp_path, garden, dimensions=32) as other, publishing(other, url) as again:
        other.index(rebuild=True)
        again.publish_changes()
        assert len(create_vector_indexes(again.engine, above=1)) == 1
        with in_database(url, tmp_path, "garden", dimensions=32) as served:
            assert [passage.path for passage in served.query("cellar").passages] == [
                passage.path for passage in other.query("cellar").passages
            ]
