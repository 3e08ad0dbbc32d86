"""What other processes are seen to do with a folder: who indexes it, how far that is, and that
nothing is done twice.
"""

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

OTHER = 4_194_305  # no process has this number


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    write(tmp_path / "vault/apples.md", "# Apples\n\nApples grow on trees.\n")
    with open_library(tmp_path / "vault") as opened:
        yield opened


def place(library: Library) -> Path:
    return library.opened[0].index_paths.folder


def pretend(folder: Path, work: RunProgress) -> None:
    """Have the run that goes on be another process's."""
    (folder / "run.json").write_text(
        json.dumps({name: getattr(work, name) for name in work.__slots__}), encoding="utf-8"
    )


def test_a_run_is_seen_with_its_process_and_how_far_it_is_and_gone_at_its_end(
    library: Library,
) -> None:
    seen = []
    library.index(progress=lambda _: seen.append(library.status()[0].progress))
    assert seen[0] == Progress("vault", "words", 1, 1, os.getpid())
    assert (library.status()[0].progress, library.status()[0].writing) == (None, False)


def test_what_a_killed_process_left_is_seen_through(library: Library) -> None:
    library.index()
    pretend(place(library), RunProgress(OTHER, 1, "vectors", 5, 9))
    assert library.status()[0].progress is None


def test_the_run_of_another_process_is_waited_for_and_its_progress_told(library: Library) -> None:
    library.index()
    told: list[Progress] = []
    with publish_run(place(library)):
        pretend(place(library), RunProgress(OTHER, 1, "vectors", 5, 9))
        waiting = threading.Timer(0.3, lambda: (place(library) / "run.json").unlink())
        waiting.start()
        report = library.index(progress=told.append, after_others=True)
    assert told[0] == Progress("vault", "waiting", 5, 9, OTHER)
    assert (report.unchanged, report.embedded) == (1, 0)


def test_a_question_about_the_disk_waits_for_words_of_another_process_not_for_its_vectors(
    library: Library,
) -> None:
    library.index()
    write(library.opened[0].root / "plums.md", "# Plums\n\nPlums have stones.\n")
    with publish_run(place(library)):
        pretend(place(library), RunProgress(OTHER, 1, "words", 5, 9))
        behind = library.query("plums", wait_fresh=0.3)
        pretend(place(library), RunProgress(OTHER, 1, "vectors", 5, 9))
        fresh = library.query("plums", wait_fresh=30)
    assert behind.freshness == Freshness(behind=("vault",))
    assert fresh.freshness == Freshness()
    assert [passage.path for passage in fresh.passages][:1] == ["plums.md"]


def test_a_question_about_the_disk_waits_no_longer_than_it_may_for_a_writer(
    library: Library,
) -> None:
    library.index()
    write(library.opened[0].root / "plums.md", "# Plums\n")
    with hold_lock(library.opened[0].index_paths.lock):
        answer = library.query("plums", wait_fresh=0.3)
    assert answer.freshness == Freshness(behind=("vault",))


@pytest.mark.parametrize(
    ("work", "words_only", "gone"),
    [
        (RunProgress(os.getpid(), 1), False, False),
        (RunProgress(OTHER, 1, "vectors", 5, 9), True, False),
        (RunProgress(OTHER, 1, "words", 5, 9), False, True),
    ],
    ids=["own", "vectors are not asked for", "interrupted"],
)
def test_what_does_not_do_the_same_work_is_not_waited_for(
    library: Library, work: RunProgress, words_only: bool, gone: bool
) -> None:
    library.index()
    with publish_run(place(library)):
        pretend(place(library), work)
        wait_for_other_run(
            library.opened[0],
            lambda told: pytest.fail(f"waits for {told}"),
            lambda: gone,
            words_only=words_only,
        )
