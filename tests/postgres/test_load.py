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
from postgres.vault import QUESTIONS, Gardener, in_database, make_vault, on_disk, publishing, told
from thumbindex.errors import IndexBusyError, StorageError, UnknownFolderError
from thumbindex.index.postgres.database import Engine
from thumbindex.index.postgres.publish import TABLES, Load, index_folder, sweep_folders
from thumbindex.library import Library
from thumbindex.library.engine import Publishing
from thumbindex.model import Progress

DATELESS = tuple(
    (text, options) for text, options in QUESTIONS if not options.keys() & {"since", "until"}
)

PHASES = ("publishing texts", "publishing words", "publishing vectors")


class CutError(Exception):
    """Stands for whatever ends a load."""


@pytest.fixture
def url(postgres: TestServer, database: str) -> str:
    return postgres.address(database)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Library]:
    with on_disk(tmp_path, make_vault(tmp_path / "garden")) as library:
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


def equal(disk: Library, url: str, place: Path) -> bool:
    with in_database(url, place) as served:
        return all(
            told(served.query(text, **options)) == told(disk.query(text, **options))
            for text, options in DATELESS
        )


def test_a_load_tells_how_far_it_is(disk: Library, url: str) -> None:
    heard: list[Progress] = []
    load(disk, url, heard.append)
    assert tuple(dict.fromkeys(each.phase for each in heard)) == PHASES
    assert all(each.folder == "garden" and each.done < each.total for each in heard)


@pytest.mark.parametrize("phase", PHASES[1:])
def test_a_load_that_is_cut_off_is_not_seen_and_goes_on_where_it_was(
    disk: Library, url: str, tmp_path: Path, phase: str
) -> None:
    with pytest.raises(CutError):
        load(disk, url, cut_at(phase))
    before, heard = rows(url), list[Progress]()
    with (
        pytest.raises(UnknownFolderError, match="Nothing is published"),
        in_database(url, tmp_path),
    ):
        pass
    load(disk, url, heard.append)
    assert (before["documents"] > 0, tuple(dict.fromkeys(each.phase for each in heard))) == (
        True,
        PHASES[PHASES.index(phase) :],
    )
    assert equal(disk, url, tmp_path)


def test_a_load_that_is_cut_off_again_and_again_while_notes_are_edited_ends_in_what_there_is(
    disk: Library, url: str, tmp_path: Path
) -> None:
    gardener = Gardener(tmp_path / "garden", seed=5)
    for phase in (PHASES[1], PHASES[2], PHASES[1], PHASES[2], PHASES[0], PHASES[2]):
        for _ in range(4):
            gardener.edit()
        disk.index()
        with pytest.raises(CutError):
            load(disk, url, cut_at(phase))
    load(disk, url, lambda progress: None)
    assert equal(disk, url, tmp_path)


def test_a_load_that_is_cut_off_after_any_of_its_parts_goes_on(
    disk: Library, url: str, tmp_path: Path
) -> None:
    left = [0]

    def tell(progress: Progress) -> None:
        left[0] -= 1
        if not left[0]:
            raise CutError

    for parts in range(2, 5):
        left[0] = parts
        with pytest.raises(CutError):
            load(disk, url, tell, at_once=2)
    load(disk, url, lambda progress: None, at_once=2)
    assert equal(disk, url, tmp_path)


def test_another_builder_of_a_folder_that_is_loaded_is_told_to_wait(
    disk: Library, url: str, tmp_path: Path
) -> None:
    said: list[str] = []

    def tell(progress: Progress) -> None:
        with publishing(disk, url) as other, pytest.raises(IndexBusyError) as error:
            other.look()
        said.append(str(error.value))

    load(disk, url, tell)
    assert ("Another builder is publishing this folder" in said[0], len(said)) == (True, 3)
    assert equal(disk, url, tmp_path)


def test_who_has_lost_the_lock_writes_nothing_more_into_a_folder_that_another_has_published(
    postgres: TestServer, disk: Library, url: str, tmp_path: Path
) -> None:
    """The second builder knows that a note became private: no part of the first one may bring it
    back.
    """

    def tell(progress: Progress) -> None:
        if progress.phase == PHASES[0] and progress.done > 4:
            postgres.run(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
            )
            (tmp_path / "garden" / "terms.md").write_text("#private\n", encoding="utf-8")
            disk.index()
            with publishing(disk, url) as other:
                other.look()

    with pytest.raises(StorageError):
        load(disk, url, tell, at_once=1)
    assert equal(disk, url, tmp_path)
    with in_database(url, tmp_path) as served:
        assert "terms.md" not in {each.path for each in served.outline()}


def test_what_a_load_has_left_stays_for_a_day(disk: Library, url: str) -> None:
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


def test_an_index_of_vectors_is_there_when_a_large_folder_is_seen_first(
    disk: Library, url: str
) -> None:
    load(disk, url, lambda progress: None, exact=10)
    with closing(Engine(url)) as engine, engine.question() as session:
        assert session.fetch(
            "SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'vectors%%_hnsw'"
        ) == [(1,)]


def test_an_index_of_vectors_that_is_there_is_not_made_again(disk: Library, url: str) -> None:
    load(disk, url, lambda progress: None)
    with closing(Engine(url)) as engine:
        made = []
        for _ in range(2):
            index_folder(engine, 1, 100, 64)
            with engine.question() as session:
                made.append(
                    session.fetch(
                        "SELECT 'vectors_1_hnsw'::regclass::oid, "
                        "pg_relation_filenode('vectors_1_hnsw')"
                    )
                )
    assert made[0] == made[1]


def test_a_server_keeps_nothing_over_a_backup_that_was_put_back(
    disk: Library, url: str, tmp_path: Path
) -> None:
    """Rows are counted on from the backup: the same numbers are other texts than those that the
    server has read.
    """
    index, note = disk.opened[0].places.folder.parent, tmp_path / "garden" / "Guides" / "pears.md"
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
        for text, options in DATELESS:
            served.query(text, **options)
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
        for text, options in DATELESS:
            assert told(served.query(text, **options)) == told(disk.query(text, **options)), text
