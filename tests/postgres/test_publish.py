"""An interrupted publication changes nothing; a restored or rebuilt index replaces everything."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from postgres.server import TestServer
from postgres.vault import QUESTIONS, answers, configured, in_database, on_disk, publishing
from thumbindex.errors import EngineConnectionError, UnknownFolderError
from thumbindex.library import Library
from thumbindex.model import Progress
from thumbindex.postgres import PublishJob

PHASES = ("publishing texts", "publishing words", "publishing vectors")

SOME = QUESTIONS[::4]


class InterruptionError(Exception):
    """Interrupts a publication."""


@pytest.fixture
def disk(tmp_path: Path, garden: Path) -> Iterator[Library]:
    with on_disk(tmp_path, garden) as library:
        library.index()
        yield library


def publish(
    disk: Library, url: str, on_progress: Callable[[Progress], None] = lambda progress: None
) -> None:
    with closing(PublishJob(disk.opened, url, on_progress)) as builder:
        builder.publish_changes()


def interrupt_at(phase: str) -> Callable[[Progress], None]:
    def on_progress(progress: Progress) -> None:
        if progress.phase == phase:
            raise InterruptionError

    return on_progress


def assert_equal(disk: Library, url: str, folder: Path) -> None:
    with in_database(url, folder) as served:
        assert answers(served, SOME) == answers(disk, SOME)


@pytest.mark.parametrize("phase", PHASES)
def test_interrupted_first_publication_leaves_nothing(
    disk: Library, url: str, tmp_path: Path, phase: str
) -> None:
    with pytest.raises(InterruptionError):
        publish(disk, url, interrupt_at(phase))
    with (
        pytest.raises(UnknownFolderError, match="No folder is published"),
        in_database(url, tmp_path),
    ):
        pass
    reports = list[Progress]()
    publish(disk, url, reports.append)
    assert tuple(dict.fromkeys(report.phase for report in reports)) == PHASES
    assert all(report.folder == "garden" and report.done < report.total for report in reports)
    assert_equal(disk, url, tmp_path)


def test_rebuilt_index_replaces_the_old_one_completely_or_not_at_all(
    postgres: TestServer, disk: Library, garden: Path, url: str, tmp_path: Path
) -> None:
    publish(disk, url)
    with in_database(url, tmp_path) as served:
        before = answers(served, SOME)
        (garden / "terms.md").write_text("#private\n", encoding="utf-8")
        disk.index(rebuild=True)

        def break_connection(progress: Progress) -> None:
            if progress.phase == PHASES[2]:
                assert answers(served, SOME[:2]) == dict(list(before.items())[:2])
                postgres.run(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                )

        with pytest.raises(EngineConnectionError):
            publish(disk, url, break_connection)
        assert answers(served, SOME) == before
        publish(disk, url)
        assert answers(served, SOME) == answers(disk, SOME) != before
        assert "terms.md" not in {entry.path for entry in served.outline()}


def test_server_drops_its_caches_after_a_restored_backup(
    disk: Library, garden: Path, url: str, tmp_path: Path
) -> None:
    """After a restore, row ids are assigned again, to other texts."""
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


def test_estimated_vectors_are_published_and_replaced(
    garden: Path, url: str, tmp_path: Path
) -> None:
    config, index = configured(tmp_path), tmp_path / "index"
    with Library.open([garden], index=index, config=config) as disk:
        disk.index(complete=False)
        publish(disk, url)
        with Library.open([], index=index, config=config, engine=url) as served:
            (state,) = served.index_states().values()
            assert (state.vectors, state.refining) == (0, state.chunks)
            disk.index()
            publish(disk, url)
            assert served.query("apples").index.refining == 0
            assert answers(served, SOME) == answers(disk, SOME)
