"""The first load of a folder: in parts, gone on with where it was cut off; and what servers keep
when another builder goes on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from postgres.server import TestServer
from postgres.vault import QUESTIONS, Gardener, answers, in_database, on_disk, publishing
from thumbindex.errors import StorageError, UnknownFolderError
from thumbindex.index.postgres.database import Engine
from thumbindex.index.postgres.publish import TABLES, Load, sweep_folders
from thumbindex.library import Library
from thumbindex.library.engine import Publishing
from thumbindex.model import Progress

PHASES = ("publishing texts", "publishing words", "publishing vectors")

SOME = QUESTIONS[::4]


class CutError(Exception):
    """Stands for whatever ends a load."""


@pytest.fixture
def disk(tmp_path: Path, garden: Path) -> Iterator[Library]:
    with on_disk(tmp_path, garden) as library:
        library.index()
        yield library


def cut_at(phase: str) -> Callable[[Progress], None]:
    def tell(progress: Progress) -> None:
        if progress.phase == phase:
            raise CutError

    return tell


def load(disk: Library, url: str, tell: Callable[[Progress], None], **options: int) -> None:
    with closing(Publishing(disk.opened, url, load=Load(tell, **options))) as builder:
        builder.look()


def rows(url: str) -> dict[str, int]:
    with closing(Engine(url)) as engine, engine.question() as session:
        return {table: session.fetch(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}


def assert_equal(disk: Library, url: str, place: Path) -> None:
    with in_database(url, place) as served:
        assert answers(served, SOME) == answers(disk, SOME)


def test_a_load_that_is_cut_off_is_not_seen_and_goes_on_where_it_was(
    disk: Library, url: str, tmp_path: Path
) -> None:
    with pytest.raises(CutError):
        load(disk, url, cut_at(PHASES[1]))
    before, heard = rows(url), list[Progress]()
    with (
        pytest.raises(UnknownFolderError, match="Nothing is published"),
        in_database(url, tmp_path),
    ):
        pass
    load(disk, url, heard.append)
    assert before["documents"] > 0
    assert tuple(dict.fromkeys(each.phase for each in heard)) == PHASES[1:]
    assert all(each.folder == "garden" and each.done < each.total for each in heard)
    assert_equal(disk, url, tmp_path)


def test_a_load_that_is_cut_off_again_and_again_while_notes_are_edited_ends_in_what_there_is(
    disk: Library, garden: Path, url: str, tmp_path: Path
) -> None:
    gardener = Gardener(garden, seed=5)
    for phase in (PHASES[1], PHASES[2], PHASES[0]):
        for _ in range(4):
            gardener.edit()
        disk.index()
        with pytest.raises(CutError):
            load(disk, url, cut_at(phase), at_once=2)
    load(disk, url, lambda progress: None)
    assert_equal(disk, url, tmp_path)


def test_who_has_lost_the_lock_writes_nothing_more_into_a_folder_that_another_has_published(
    postgres: TestServer, disk: Library, garden: Path, url: str, tmp_path: Path
) -> None:
    """The second builder knows that a note became private: no part of the first one may bring it
    back.
    """

    def tell(progress: Progress) -> None:
        if progress.phase == PHASES[0] and progress.done > 4:
            postgres.run(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
            )
            (garden / "terms.md").write_text("#private\n", encoding="utf-8")
            disk.index()
            with publishing(disk, url) as other:
                other.look()

    with pytest.raises(StorageError):
        load(disk, url, tell, at_once=1)
    assert_equal(disk, url, tmp_path)
    with in_database(url, tmp_path) as served:
        assert "terms.md" not in {each.path for each in served.outline()}


def test_the_rest_of_a_load_that_was_cut_off_stays_for_a_day_and_goes_then(
    disk: Library, url: str
) -> None:
    with pytest.raises(CutError):
        load(disk, url, cut_at(PHASES[1]))
    before = rows(url)
    with closing(Engine(url, writes=True)) as engine:
        sweep_folders(engine, after=0)
        assert rows(url) == before
        with engine.change() as session:
            session.execute("UPDATE folders SET published = now() - interval '2 days'")
            session.execute(
                "INSERT INTO folders (name, incarnation, is_current, generation, published, facts)"
                " SELECT name, 'another', true, 1, now(), '{}' FROM folders"
            )
        sweep_folders(engine, after=0)
    assert not any(rows(url).values())


def test_a_server_keeps_nothing_over_a_backup_that_was_put_back(
    disk: Library, garden: Path, url: str, tmp_path: Path
) -> None:
    """Rows are counted on from the backup: the same numbers are other texts than those that the
    server has read.
    """
    index, note = disk.opened[0].places.folder.parent, garden / "Guides" / "pears.md"
    with publishing(disk, url) as builder:
        builder.look()
        shutil.copytree(index, tmp_path / "backup")
        note.write_text(
            "# Pears\n\nPears keep in the attic now.\n\n## Attic\n\nThe attic is dry.\n",
            encoding="utf-8",
        )
        disk.index()
        builder.look()
    with in_database(url, tmp_path) as served:
        answers(served)
        disk.close()
        shutil.rmtree(index)
        shutil.copytree(tmp_path / "backup", index)
        note.write_text(
            "# Wine\n\nThe cellar holds wine.\n\n## Cellar\n\nApples and wine, in the cellar.\n",
            encoding="utf-8",
        )
        disk.index()
        with publishing(disk, url) as builder:
            builder.look()
        assert answers(served) == answers(disk)
