"""What other processes are seen to do with a folder: who indexes it, how far that is, and that
nothing is done twice.
"""

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from thumbindex.config import load_config
from thumbindex.index.locks import Work, at_work, work_in
from thumbindex.library import Library
from thumbindex.library.freshness import await_others
from thumbindex.model import Progress
from thumbindex.testing import FakeEmbedder

OTHER = 4_194_305  # no process has this number


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "apples.md").write_text(
        "# Apples\n\nApples grow on trees.\n", encoding="utf-8"
    )
    config = load_config(user_file=tmp_path / "none")
    with Library.open(
        [tmp_path / "vault"], index=tmp_path / "index", config=config, embedder=FakeEmbedder()
    ) as opened:
        yield opened


def place(library: Library) -> Path:
    return library.opened[0].places.folder


def pretend(folder: Path, work: Work) -> None:
    """Have the run that goes on be another process's."""
    (folder / "work.json").write_text(
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
    pretend(place(library), Work(OTHER, 1, "vectors", 5, 9))
    assert library.status()[0].progress is None


def test_a_file_that_is_half_written_is_no_run(library: Library) -> None:
    library.index()
    with at_work(place(library)):
        (place(library) / "work.json").write_text('{"pid": 12', encoding="utf-8")
        assert work_in(place(library)) is None


def test_who_looks_at_the_lock_for_a_moment_hides_no_run(tmp_path: Path) -> None:
    looker = FileLock(tmp_path / "work.lock", thread_local=False)
    looker.acquire()
    threading.Timer(0.05, looker.release).start()
    with at_work(tmp_path):
        assert (tmp_path / "work.json").exists()


def test_an_entry_takes_the_place_of_the_last_one_whole(tmp_path: Path) -> None:
    with at_work(tmp_path) as tell, (tmp_path / "work.json").open(encoding="utf-8") as before:
        time.sleep(0.6)
        tell("words", 1, 2)
        # who was reading the last entry reads it to its end
        assert Work(**json.load(before)).phase == ""
        assert work_in(tmp_path) == Work(os.getpid(), work_in(tmp_path).run, "words", 1, 2)


def test_a_run_goes_on_where_nobody_can_be_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with at_work(tmp_path / "file" / "index") as tell:
        tell("words", 1, 2)


def test_the_run_of_another_process_is_waited_for_and_its_progress_told(library: Library) -> None:
    library.index()
    told: list[Progress] = []
    with at_work(place(library)):
        pretend(place(library), Work(OTHER, 1, "vectors", 5, 9))
        waiting = threading.Timer(0.3, lambda: (place(library) / "work.json").unlink())
        waiting.start()
        report = library.index(progress=told.append, after_others=True)
    assert told[0] == Progress("vault", "waiting", 5, 9, OTHER)
    assert (report.unchanged, report.embedded) == (1, 0)


@pytest.mark.parametrize(
    ("work", "words_only", "gone"),
    [
        (Work(os.getpid(), 1), False, False),
        (Work(OTHER, 1, "vectors", 5, 9), True, False),
        (Work(OTHER, 1, "words", 5, 9), False, True),
    ],
    ids=["own", "vectors are not asked for", "interrupted"],
)
def test_what_does_not_do_the_same_work_is_not_waited_for(
    library: Library, work: Work, words_only: bool, gone: bool
) -> None:
    library.index()
    with at_work(place(library)):
        pretend(place(library), work)
        await_others(
            library.opened[0],
            lambda told: pytest.fail(f"waits for {told}"),
            lambda: gone,
            words_only=words_only,
        )
