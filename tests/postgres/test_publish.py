"""A publication is one transaction: cut off, it leaves what was published before. A builder that
stands on another history replaces all of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from postgres.server import TestServer
from postgres.vault import QUESTIONS, answers, in_database, on_disk, publishing
from thumbindex.errors import EngineConnectionError, UnknownFolderError
from thumbindex.library import Library
from thumbindex.model import Progress
from thumbindex.postgres import PublishJob

PHASES = ("publishing texts", "publishing words", "publishing vectors")

SOME = QUESTIONS[::4]


class CutError(Exception):
    """Stands for whatever ends a publication."""


@pytest.fixture
def disk(tmp_path: Path, garden: Path) -> Iterator[Library]:
    with on_disk(tmp_path, garden) as library:
        library.index()
        yield library


def load(disk: Library, url: str, tell: Callable[[Progress], None] = lambda progress: None) -> None:
    with closing(PublishJob(disk.opened, url, tell)) as builder:
        builder.publish_changes()


def cut_at(phase: str) -> Callable[[Progress], None]:
    def tell(progress: Progress) -> None:
        if progress.phase == phase:
            raise CutError

    return tell


def assert_equal(disk: Library, url: str, place: Path) -> None:
    with in_database(url, place) as served:
        assert answers(served, SOME) == answers(disk, SOME)


@pytest.mark.parametrize("phase", PHASES)
def test_a_first_publication_that_is_cut_off_leaves_nothing(
    disk: Library, url: str, tmp_path: Path, phase: str
) -> None:
    with pytest.raises(CutError):
        load(disk, url, cut_at(phase))
    with (
        pytest.raises(UnknownFolderError, match="No folder is published"),
        in_database(url, tmp_path),
    ):
        pass
    heard = list[Progress]()
    load(disk, url, heard.append)
    assert tuple(dict.fromkeys(each.phase for each in heard)) == PHASES
    assert all(each.folder == "garden" and each.done < each.total for each in heard)
    assert_equal(disk, url, tmp_path)


def test_an_index_that_is_built_anew_replaces_the_one_before_whole_or_not_at_all(
    postgres: TestServer, disk: Library, garden: Path, url: str, tmp_path: Path
) -> None:
    load(disk, url)
    with in_database(url, tmp_path) as served:
        before = answers(served, SOME)
        (garden / "terms.md").write_text("#private\n", encoding="utf-8")
        disk.index(rebuild=True)

        def lose(progress: Progress) -> None:
            if progress.phase == PHASES[2]:
                assert answers(served, SOME[:2]) == dict(list(before.items())[:2])
                postgres.run(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                )

        with pytest.raises(EngineConnectionError):
            load(disk, url, lose)
        assert answers(served, SOME) == before
        load(disk, url)
        assert answers(served, SOME) == answers(disk, SOME) != before
        assert "terms.md" not in {each.path for each in served.outline()}


def test_a_server_keeps_nothing_over_a_backup_that_was_put_back(
    disk: Library, garden: Path, url: str, tmp_path: Path
) -> None:
    """Rows are counted on from the backup: the same numbers are other texts than those that the
    server has read.
    """
    index, note = disk.opened[0].index_paths.folder.parent, garden / "Guides" / "pears.md"
    with publishing(disk, url) as builder:
        builder.publish_changes()
        shutil.copytree(index, tmp_path / "backup")
        note.write_text(
            "# Pears\n\nPears keep in the attic now.\n\n## Attic\n\nThe attic is dry.\n",
            encoding="utf-8",
        )
        disk.index()
        builder.publish_changes()
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
            builder.publish_changes()
        assert answers(served) == answers(disk)
