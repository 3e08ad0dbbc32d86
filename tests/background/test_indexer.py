"""The order of the indexer's jobs, with fake batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from thumbindex.background.indexer import MERGE_SECONDS, SLICE_SECONDS, IndexingLoop
from thumbindex.background.supervisor import Message
from thumbindex.background.watch import Debounce
from thumbindex.config import load_config
from thumbindex.errors import ModelError, StorageError
from thumbindex.index.refresh_requests import request_refresh
from thumbindex.library import Library
from thumbindex.model import IndexReport, LinkCounts

BATCH_SECONDS = 0.5


class Watched:
    """A fake watch; tests report saved notes through `debounce`."""

    def __init__(self, *_: object) -> None:
        self.debounce, self.folder_exists, self.failure = Debounce(0.0, 0.0), True, ""

    def check(self) -> None:
        pass

    def close(self) -> None:
        pass


class Work:
    """A library with fake batches, which are counted and advance a clock."""

    def __init__(self, library: Library) -> None:
        self.opened, self.config, self.now = library.opened, library.config, 0.0
        names = [folder.name for folder in library.opened]
        self.pending = {(job, name): 0 for job in ("words", "large", "vectors") for name in names}
        self.done = list[tuple[str, str]]()
        self.after = deque[Callable[[], object]]()  # callbacks, one after each batch
        self.failures: dict[tuple[str, str], Exception] = {}
        self.duplicate_steps = 0

    def index(self, *, folder: list[str], interrupted: Any, **_: object) -> IndexReport:
        changed = any(self.pending[job, folder[0]] for job in ("words", "large"))
        deferred = self._run_job(("words", "large"), folder[0], interrupted)
        return IndexReport(int(changed), 0, 0, 0, (), LinkCounts(), 0, 0, 0, 0.0, 0, deferred)

    def embed(self, folder: list[str], *, interrupted: Any, **_: object) -> tuple[str, ...]:
        self._run_job(("vectors",), folder[0], interrupted)
        return ()

    def find_duplicates(self, folder: list[str]) -> Generator[None]:
        for _ in range(self.duplicate_steps):
            self.now += BATCH_SECONDS
            yield
        self.done.append(("duplicates", folder[0]))

    def merge(self, folder: list[str], **_: object) -> None:
        self.done.append(("merge", folder[0]))

    def repair(self, folder: list[str]) -> tuple[str, ...]:
        self.done.append(("repair", folder[0]))
        return ()

    def _run_job(self, jobs: tuple[str, ...], name: str, interrupted: Callable[[], bool]) -> int:
        if failure := self.failures.get((jobs[0], name)):
            raise failure
        # later changes are for the next run
        batches = [(job, name) for job in jobs for _ in range(self.pending[job, name])]
        while batches:
            batch = batches.pop(0)
            self.pending[batch] -= 1
            self.now += BATCH_SECONDS
            self.done.append(batch)
            if self.after:
                self.after.popleft()()
            if batches and interrupted():
                break
        return len(batches)


class Loop:
    """An indexing loop over three folders with fake work, and its messages."""

    def __init__(self, library: Library) -> None:
        self.work, self.notes = Work(library), list[Message]()
        make_loop: Any = IndexingLoop
        self.loop = make_loop(self.work, self.notes.append, Watched, clock=lambda: self.work.now)
        self.folders = {folder.name: folder for folder in self.loop._folders}

    def run(self, seconds: float = 1.0) -> list[tuple[str, str]]:
        """Run until it has been idle for `seconds`; return the jobs done."""
        self.work.done.clear()
        idle = 0.0
        while idle < seconds:
            pause = self.loop.step()
            idle += min(pause, 0.1)
            self.work.now += min(pause, 0.1)
        return list(self.work.done)

    def save(self, name: str, job: str = "words", batches: int = 1) -> None:
        """Save notes in a folder."""
        self.work.pending[job, name] += batches
        self.folders[name].watch.debounce.record(self.work.now)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    roots = [tmp_path / name for name in ("one", "two", "three")]
    for root in roots:
        root.mkdir()
    config = load_config(
        user_file=tmp_path / "none", overrides=("serve.watch.reconcile_seconds=3600",)
    )
    with Library.open(roots, index=tmp_path / "index", config=config) as library:
        loop = Loop(library)
        loop.run(2 * MERGE_SECONDS)  # the jobs due at the start
        yield loop


def test_edit_is_indexed_after_at_most_one_less_urgent_batch(loop: Loop) -> None:
    loop.save("one")
    loop.work.pending["vectors", "one"] = 9
    loop.work.after.extend([lambda: None] * 3)
    loop.work.after.append(lambda: loop.save("two"))
    done = loop.run()
    assert done.index(("words", "two")) == 4
    assert done.count(("vectors", "one")) == 9


@pytest.mark.parametrize("name", ["one", "two"])
def test_edit_waits_at_most_one_time_slice_for_large_files(loop: Loop, name: str) -> None:
    loop.save("one", "large", 20)
    loop.work.after.append(lambda: loop.save(name))
    done = loop.run()
    wait = BATCH_SECONDS * (done.index(("words", name)) - 1)
    assert wait <= SLICE_SECONDS + BATCH_SECONDS
    assert done.count(("large", "one")) == 20


def test_jobs_run_in_order_of_urgency_with_large_files_last(loop: Loop) -> None:
    for name in ("one", "two"):
        loop.save(name)
        loop.save(name, "large")
        loop.work.pending["vectors", name] = 1
    done = [job for job, _ in loop.run(2 * MERGE_SECONDS)]
    words = ["words", "large", "words", "large"]
    assert [job for job, _ in groupby(done)] == [*words, "vectors", "duplicates", "merge"]


def test_search_for_duplicates_finishes_before_another_folder_starts(loop: Loop) -> None:
    loop.work.duplicate_steps = int(3 * SLICE_SECONDS / BATCH_SECONDS)
    for name in ("one", "two"):
        loop.work.pending["vectors", name] = 1
        loop.save(name)
    searches = [name for job, name in loop.run() if job == "duplicates"]
    assert sorted(searches) == ["one", "two"]


@pytest.mark.parametrize("job", ["words", "large", "vectors"])
def test_folders_take_turns_and_all_finish(loop: Loop, job: str) -> None:
    for name in ("one", "two", "three"):
        loop.save(name, "words")
        loop.work.pending[job, name] += 30
    turns = groupby(name for done, name in loop.run() if done == job)
    lengths = [len(list(turn)) * BATCH_SECONDS for _, turn in turns]
    assert sum(lengths) >= 3 * 30 * BATCH_SECONDS
    assert max(lengths[:-1]) <= SLICE_SECONDS + 2 * BATCH_SECONDS


def test_constant_edits_in_one_folder_do_not_starve_another(loop: Loop) -> None:
    loop.save("one", batches=50)
    loop.work.after.extend([lambda: loop.save("two")] * 50)
    done = loop.run()
    assert (done.count(("words", "one")), done.count(("words", "two"))) == (50, 50)


def test_new_edit_interrupts_indexing_of_the_same_folder(loop: Loop) -> None:
    comparisons = list[int]()
    index = loop.work.index
    loop.work.index = lambda **options: comparisons.append(0) or index(**options)  # type: ignore
    loop.save("one", batches=20)
    loop.work.after.append(lambda: loop.save("one"))
    assert loop.run().count(("words", "one")) == 21
    assert len(comparisons) == 2


def test_error_in_one_folder_stops_no_other_and_is_retried(loop: Loop) -> None:
    loop.work.failures["words", "one"] = StorageError("The disk is full.")
    loop.save("one")
    loop.save("two")
    assert ("words", "two") in loop.run()
    assert loop.notes == [Message("one", "words", "one: cannot index changes (The disk is full.)")]
    loop.work.failures.clear()
    assert ("words", "one") in loop.run(10)
    assert loop.notes[-1] == Message("one", "words", "")


@pytest.mark.slow
def test_missing_model_is_reported_and_tried_again(loop: Loop) -> None:
    loop.work.failures["vectors", "one"] = ModelError("There is no model.")
    loop.save("one")
    loop.run()
    sentence = "There is no model. Until then, queries search keywords only."
    assert loop.notes == [Message("one", "vectors", sentence)]
    loop.work.failures.clear()
    loop.work.pending["vectors", "one"] = 1
    assert ("vectors", "one") not in loop.run()
    assert ("vectors", "one") in loop.run(3700)
    assert loop.notes[-1] == Message("one", "vectors", "")


def test_requested_repair_runs_first_and_once(loop: Loop) -> None:
    loop.save("two", batches=9)
    repair = loop.folders["one"].folder.index_paths.repair
    repair.parent.mkdir(parents=True)
    loop.work.after.append(repair.touch)
    done = loop.run()
    assert done.index(("repair", "one")) == 1
    assert (done.count(("repair", "one")), repair.exists()) == (1, False)


def test_undeletable_repair_request_does_not_repeat_without_pause(loop: Loop) -> None:
    repair = loop.folders["one"].folder.index_paths.repair
    (repair / "kept").mkdir(parents=True)
    assert 1 <= loop.run(10).count(("repair", "one")) <= 3


def test_segments_are_merged_after_a_quiet_period(loop: Loop) -> None:
    loop.save("one")
    assert ("merge", "one") not in loop.run(MERGE_SECONDS - 1)
    loop.save("one")
    assert ("merge", "one") not in loop.run(MERGE_SECONDS - 1)
    assert ("merge", "one") in loop.run(2)


def test_reader_request_triggers_a_comparison_at_once(loop: Loop) -> None:
    index_folder = loop.folders["one"].folder.index_paths.folder
    request = request_refresh(index_folder)
    loop.work.after.append(request.unlink)  # as `Library.index` does
    loop.work.pending["words", "one"] = 1  # unknown to the watch
    assert ("words", "one") in loop.run(0.2)
    assert loop.run() == []


def test_failed_indexing_is_not_repeated_without_pause_for_a_reader(loop: Loop) -> None:
    request_refresh(loop.folders["one"].folder.index_paths.folder)
    tries, index = list[int](), loop.work.index
    loop.work.index = lambda **options: tries.append(0) or index(**options)  # type: ignore
    loop.work.failures["words", "one"] = StorageError("The disk is full.")
    loop.run(1)
    assert len(tries) == 1


def test_reader_request_does_not_interrupt_large_files(loop: Loop) -> None:
    index_folder = loop.folders["one"].folder.index_paths.folder
    requests, comparisons, index = list[Path](), list[int](), loop.work.index
    loop.work.index = lambda **options: comparisons.append(0) or index(**options)  # type: ignore
    loop.save("one")
    loop.save("one", "large", 9)
    loop.work.after.append(lambda: requests.append(request_refresh(index_folder)))
    loop.work.after.extend([lambda: None] * 8)
    loop.work.after.append(lambda: requests[0].unlink())
    assert [job for job, _ in loop.run(0.1)][:10] == ["words", *["large"] * 9]
    assert len(comparisons) == 1
