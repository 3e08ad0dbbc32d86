"""Progress of other processes that index a folder, and waiting for them."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from folders import open_library, write
from thumbindex.index.locks import RunProgress, hold_lock, publish_run
from thumbindex.library import Library
from thumbindex.library.freshness import wait_for_other_run
from thumbindex.model import Freshness, Progress

OTHER = 4_194_305  # above the maximum process id


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    write(tmp_path / "vault/apples.md", "# Apples\n\nApples grow on trees.\n")
    with open_library(tmp_path / "vault") as opened:
        yield opened


def index_folder(library: Library) -> Path:
    return library.opened[0].index_paths.folder


def fake_run(folder: Path, work: RunProgress) -> None:
    """Make the current run look like another process's."""
    (folder / "run.json").write_text(
        json.dumps({name: getattr(work, name) for name in work.__slots__}), encoding="utf-8"
    )


def test_status_shows_the_progress_of_a_run(
    library: Library,
) -> None:
    progress = []
    library.index(progress=lambda _: progress.append(library.status()[0].progress))
    assert progress[0] == Progress("vault", "words", 1, 1, os.getpid())
    assert (library.status()[0].progress, library.status()[0].writing) == (None, False)


def test_progress_of_a_killed_process_is_ignored(library: Library) -> None:
    library.index()
    fake_run(index_folder(library), RunProgress(OTHER, 1, "vectors", 5, 9))
    assert library.status()[0].progress is None


def test_index_waits_for_another_process_and_shows_its_progress(library: Library) -> None:
    library.index()
    progress: list[Progress] = []
    with publish_run(index_folder(library)):
        fake_run(index_folder(library), RunProgress(OTHER, 1, "vectors", 5, 9))
        waiting = threading.Timer(0.3, lambda: (index_folder(library) / "run.json").unlink())
        waiting.start()
        report = library.index(progress=progress.append, after_others=True)
    assert progress[0] == Progress("vault", "waiting", 5, 9, OTHER)
    assert (report.unchanged, report.embedded) == (1, 0)


def test_fresh_query_waits_for_words_but_not_vectors(
    library: Library,
) -> None:
    library.index()
    write(library.opened[0].root / "plums.md", "# Plums\n\nPlums have stones.\n")
    with publish_run(index_folder(library)):
        fake_run(index_folder(library), RunProgress(OTHER, 1, "words", 5, 9))
        behind = library.query("plums", wait_fresh=0.3)
        fake_run(index_folder(library), RunProgress(OTHER, 1, "vectors", 5, 9))
        fresh = library.query("plums", wait_fresh=30)
    assert behind.freshness == Freshness(behind=("vault",))
    assert fresh.freshness == Freshness()
    assert [passage.path for passage in fresh.passages][:1] == ["plums.md"]


def test_fresh_query_waits_for_a_writer_only_until_its_deadline(
    library: Library,
) -> None:
    library.index()
    write(library.opened[0].root / "plums.md", "# Plums\n")
    with hold_lock(library.opened[0].index_paths.lock):
        answer = library.query("plums", wait_fresh=0.3)
    assert answer.freshness == Freshness(behind=("vault",))


@pytest.mark.parametrize(
    ("run", "complete", "interrupted"),
    [
        (RunProgress(os.getpid(), 1), True, False),
        (RunProgress(OTHER, 1, "vectors", 5, 9), False, False),
        (RunProgress(OTHER, 1, "words", 5, 9), True, True),
    ],
    ids=["same process", "only embedding", "interrupted"],
)
def test_unrelated_or_interrupted_run_is_not_waited_for(
    library: Library, run: RunProgress, complete: bool, interrupted: bool
) -> None:
    library.index()
    with publish_run(index_folder(library)):
        fake_run(index_folder(library), run)
        wait_for_other_run(
            library.opened[0],
            lambda progress: pytest.fail(f"waits for {progress}"),
            lambda: interrupted,
            complete=complete,
        )
