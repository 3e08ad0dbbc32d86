"""A published index gives exactly the same answers and lists as the index on disk."""

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
    """Return the result, or the error as text."""
    try:
        return ask(library, path)
    except ThumbindexError as error:
        return f"{type(error).__name__}: {error}"


def test_every_answer_equals_that_from_disk(shared: Shared) -> None:
    assert answers(shared.served, explain=True) == answers(shared.disk, explain=True)


def test_keyword_only_answers_equal_those_from_disk(shared: Shared) -> None:
    results = []
    for library in (shared.served, shared.disk):
        with_vectors = library.config
        library.config = replace(
            with_vectors, query=without_stages(with_vectors.query, "search_vector")
        )
        results.append(answers(library, QUESTIONS[::2]))
        library.config = with_vectors
    assert results[0] == results[1]


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
def test_notes_read_as_on_disk(shared: Shared, ask: str) -> None:
    """`why` may differ: for a path that is not a note, it looks at the disk."""
    results = [
        {path: outcome(ASKS[ask], library, path) for path in PATHS}
        for library in (shared.served, shared.disk)
    ]
    if ask == "why":
        assert results[0].pop("Guides") != results[1].pop("Guides")
    assert results[0] == results[1]


def test_lists_equal_those_from_disk(shared: Shared) -> None:
    served, disk = shared.served, shared.disk
    assert served.outline() == disk.outline()
    assert served.listing(tag=["fruit"]) == disk.listing(tag=["fruit"])
    assert served.listing(since=date(2025, 6, 1)) == disk.listing(since=date(2025, 6, 1))
    assert (served.orphans(), served.broken()) == (disk.orphans(), disk.broken())
    assert [note.path for note in served.retired().notes] == ["terms.md"]
    assert served.retired() == disk.retired()
    assert served.unlinked() == disk.unlinked()
    assert served.browse(sorted_by_title, 999) == disk.browse(sorted_by_title, 999)


def sorted_by_title(documents: Any) -> Any:
    return sorted(documents, key=lambda document: document.title)


def test_citations_are_verified_as_on_disk(shared: Shared) -> None:
    draft = (
        'Pears keep long: "Keep pears in a cool cellar for 20 days" (Guides/pears.md:10), "a hot '
        'cellar" (Guides/apples.md),'
        ' "Met Ada about the cellar" (Daily/2026-02-06.md), and [[nowhere]].'
    )
    assert shared.served.verify(draft) == shared.disk.verify(draft)


def test_status_equals_that_from_disk_and_has_no_password(shared: Shared) -> None:
    served, disk = shared.served.status(), shared.disk.status()
    assert [(s.folder, s.index, s.skipped, s.flagged) for s in served] == [
        (s.folder, s.index, s.skipped, s.flagged) for s in disk
    ]
    assert [(status.indexed, status.writing) for status in served] == [(True, False)] * 2
    assert "password" not in served[0].root


def test_root_of_published_folders_does_not_exist_on_disk() -> None:
    assert not (NO_ROOT / "x").exists()


def test_duplicates_and_decisions_equal_those_on_disk(
    disk: Library, served: Library, builder: PublishJob
) -> None:
    assert clusters(served) == clusters(disk) != []
    first = disk.duplicates(grey=True).clusters[0]
    for verdict in ("apart", "same"):
        disk.decisions().decide(first.id, verdict, "two notes")
        builder.publish_changes()
        assert clusters(served) == clusters(disk)
        assert answers(served, QUESTIONS) == answers(disk, QUESTIONS)
    with pytest.raises(ThumbindexError, match="Decide there"):
        served.decisions().decide(first.id, "same")


def clusters(library: Library) -> list[Any]:
    return list(library.duplicates(grey=True).clusters)


def test_one_query_covers_published_and_local_folders(shared: Shared, tmp_path: Path) -> None:
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
        assert [ranking(mixed, text) for text, _ in QUESTIONS[::4]] == [
            ranking(shared.disk, text) for text, _ in QUESTIONS[::4]
        ]


def ranking(library: Library, text: str) -> list[tuple[str, str, float]]:
    passages = library.query(text, folder=["garden", "shed"]).passages
    return [(passage.folder, passage.path, passage.score) for passage in passages]


def test_local_and_published_folder_with_one_name_are_refused(
    shared: Shared, tmp_path: Path
) -> None:
    local = tmp_path / "local" / "garden"
    local.mkdir(parents=True)
    with (
        pytest.raises(UsageError, match="garden"),
        in_database(shared.url, tmp_path, "garden", local),
    ):
        pass


@pytest.mark.parametrize(("count", "seed"), [(12, 7), pytest.param(100, 1, marks=pytest.mark.long)])
def test_answers_stay_equal_after_each_edit(
    disk: Library, served: Library, builder: PublishJob, garden: Path, count: int, seed: int
) -> None:
    gardener = Gardener(garden, seed)
    for number in range(count):
        edit = gardener.edit()
        disk.index()
        builder.publish_changes()
        some = QUESTIONS[number % 6 :: 6]
        assert answers(served, some) == answers(disk, some), (number, edit)
        assert served.outline() == disk.outline(), (number, edit)


def test_rebuilt_index_replaces_the_published_one(
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


def test_second_builder_publishes_only_the_changes(
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


def test_folder_with_a_vector_index_can_change_its_model(
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
