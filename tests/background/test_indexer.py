"""The order in which a server's child does what is due in its folders, with batches that are
counted and not done.
"""

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
    """A watch on a folder; whoever saves a note says so by `debounce`."""

    def __init__(self, *_: object) -> None:
        self.debounce, self.folder_exists, self.failure = Debounce(0.0, 0.0), True, ""

    def check(self) -> None:
        pass

    def close(self) -> None:
        pass


class Work:
    """A library whose batches are counted and not done, with a clock that they move."""

    def __init__(self, library: Library) -> None:
        self.opened, self.config, self.now = library.opened, library.config, 0.0
        names = [each.name for each in library.opened]
        self.left = {(job, name): 0 for job in ("words", "large", "vectors") for name in names}
        self.done = list[tuple[str, str]]()
        self.after = deque[Callable[[], object]]()  # what happens after a batch
        self.failures: dict[tuple[str, str], Exception] = {}
        self.duplicate_steps = 0

    def index(self, *, folder: list[str], interrupted: Any, **_: object) -> IndexReport:
        changed = any(self.left[job, folder[0]] for job in ("words", "large"))
        left = self._run_job(("words", "large"), folder[0], interrupted)
        return IndexReport(int(changed), 0, 0, 0, (), LinkCounts(), 0, 0, 0, 0, 0.0, 0, left)

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
        # what is saved from now on is for the next run
        batches = [(job, name) for job in jobs for _ in range(self.left[job, name])]
        while batches:
            batch = batches.pop(0)
            self.left[batch] -= 1
            self.now += BATCH_SECONDS
            self.done.append(batch)
            if self.after:
                self.after.popleft()()
            if batches and interrupted():
                break
        return len(batches)


class Loop:
    """A loop over three folders that does such work, and what it said."""

    def __init__(self, library: Library) -> None:
        self.work, self.notes = Work(library), list[Message]()
        made: Any = IndexingLoop
        self.loop = made(self.work, self.notes.append, Watched, clock=lambda: self.work.now)
        self.folders = {folder.name: folder for folder in self.loop._folders}

    def run(self, seconds: float = 1.0) -> list[tuple[str, str]]:
        """Do what comes due in so many idle seconds; return what was done since the last time."""
        self.work.done.clear()
        idle = 0.0
        while idle < seconds:
            pause = self.loop.step()
            idle += min(pause, 0.1)
            self.work.now += min(pause, 0.1)
        return list(self.work.done)

    def save(self, name: str, job: str = "words", batches: int = 1) -> None:
        """Save notes in a folder."""
        self.work.left[job, name] += batches
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
        loop.run(2 * MERGE_SECONDS)  # what comes with the start
        yield loop


def test_words_of_an_edit_come_after_one_batch_of_anything_less_urgent(loop: Loop) -> None:
    loop.save("one")
    loop.work.left["vectors", "one"] = 9
    loop.work.after.extend([lambda: None] * 3)
    loop.work.after.append(lambda: loop.save("two"))
    done = loop.run()
    assert done.index(("words", "two")) == 4
    assert done.count(("vectors", "one")) == 9


@pytest.mark.parametrize("name", ["one", "two"])
def test_an_edit_comes_between_large_files_within_a_turn(loop: Loop, name: str) -> None:
    loop.save("one", "large", 20)
    loop.work.after.append(lambda: loop.save(name))
    done = loop.run()
    waited = BATCH_SECONDS * (done.index(("words", name)) - 1)
    assert waited <= SLICE_SECONDS + BATCH_SECONDS
    assert done.count(("large", "one")) == 20


def test_words_come_before_vectors_before_duplicates_and_large_files_last(loop: Loop) -> None:
    for name in ("one", "two"):
        loop.save(name)
        loop.save(name, "large")
        loop.work.left["vectors", name] = 1
    done = [job for job, _ in loop.run(2 * MERGE_SECONDS)]
    words = ["words", "large", "words", "large"]
    assert [job for job, _ in groupby(done)] == [*words, "vectors", "duplicates", "merge"]


def test_a_search_for_duplicates_of_one_folder_ends_before_that_of_another(loop: Loop) -> None:
    loop.work.duplicate_steps = int(3 * SLICE_SECONDS / BATCH_SECONDS)
    for name in ("one", "two"):
        loop.work.left["vectors", name] = 1
        loop.save(name)
    searches = [name for job, name in loop.run() if job == "duplicates"]
    assert sorted(searches) == ["one", "two"]


@pytest.mark.parametrize("job", ["words", "large", "vectors"])
def test_folders_take_turns_of_two_seconds_and_all_is_done(loop: Loop, job: str) -> None:
    for name in ("one", "two", "three"):
        loop.save(name, "words")
        loop.work.left[job, name] += 30
    turns = groupby(name for done, name in loop.run() if done == job)
    lengths = [len(list(turn)) * BATCH_SECONDS for _, turn in turns]
    assert sum(lengths) >= 3 * 30 * BATCH_SECONDS
    assert max(lengths[:-1]) <= SLICE_SECONDS + 2 * BATCH_SECONDS


def test_a_folder_goes_on_though_others_are_saved_all_the_time(loop: Loop) -> None:
    loop.save("one", batches=50)
    loop.work.after.extend([lambda: loop.save("two")] * 50)
    done = loop.run()
    assert (done.count(("words", "one")), done.count(("words", "two"))) == (50, 50)


def test_the_newest_edits_of_a_folder_cut_its_own_words_short(loop: Loop) -> None:
    comparisons = list[int]()
    index = loop.work.index
    loop.work.index = lambda **asked: comparisons.append(0) or index(**asked)  # type: ignore
    loop.save("one", batches=20)
    loop.work.after.append(lambda: loop.save("one"))
    assert loop.run().count(("words", "one")) == 21
    assert len(comparisons) == 2


def test_trouble_with_one_folder_stops_no_other_and_is_tried_again(loop: Loop) -> None:
    loop.work.failures["words", "one"] = StorageError("The disk is full.")
    loop.save("one")
    loop.save("two")
    assert ("words", "two") in loop.run()
    assert loop.notes == [Message("one", "words", "one: changes wait (The disk is full.)")]
    loop.work.failures.clear()
    assert ("words", "one") in loop.run(10)
    assert loop.notes[-1] == Message("one", "words", "")


def test_without_a_model_words_go_on_and_it_is_looked_for_again(loop: Loop) -> None:
    loop.work.failures["vectors", "one"] = ModelError("There is no model.")
    loop.save("one")
    loop.run()
    said = "There is no model. Until then keywords alone are searched."
    assert loop.notes == [Message("one", "vectors", said)]
    loop.work.failures.clear()
    loop.work.left["vectors", "one"] = 1
    assert ("vectors", "one") not in loop.run()
    assert ("vectors", "one") in loop.run(3700)
    assert loop.notes[-1] == Message("one", "vectors", "")


def test_a_repair_that_is_asked_for_comes_first_and_once(loop: Loop) -> None:
    loop.save("two", batches=9)
    repair = loop.folders["one"].folder.index_paths.repair
    repair.parent.mkdir(parents=True)
    loop.work.after.append(repair.touch)
    done = loop.run()
    assert done.index(("repair", "one")) == 1
    assert (done.count(("repair", "one")), repair.exists()) == (1, False)


def test_a_request_for_a_repair_that_cannot_be_deleted_does_not_keep_the_child_busy(
    loop: Loop,
) -> None:
    repair = loop.folders["one"].folder.index_paths.repair
    (repair / "kept").mkdir(parents=True)
    assert 1 <= loop.run(10).count(("repair", "one")) <= 3


def test_segments_are_merged_when_a_folder_has_been_quiet(loop: Loop) -> None:
    loop.save("one")
    assert ("merge", "one") not in loop.run(MERGE_SECONDS - 1)
    loop.save("one")
    assert ("merge", "one") not in loop.run(MERGE_SECONDS - 1)
    assert ("merge", "one") in loop.run(2)


def test_a_reader_that_asks_is_heard_at_once(loop: Loop) -> None:
    place = loop.folders["one"].folder.index_paths.folder
    asked = request_refresh(place)
    loop.work.after.append(asked.unlink)  # as `Library.index` does
    loop.work.left["words", "one"] = 1  # which the watch has not heard of
    assert ("words", "one") in loop.run(0.2)
    assert loop.run() == []


def test_what_cannot_be_indexed_is_not_tried_without_pause_for_a_reader(loop: Loop) -> None:
    request_refresh(loop.folders["one"].folder.index_paths.folder)
    tries, index = list[int](), loop.work.index
    loop.work.index = lambda **asked: tries.append(0) or index(**asked)  # type: ignore
    loop.work.failures["words", "one"] = StorageError("The disk is full.")
    loop.run(1)
    assert len(tries) == 1


def test_a_reader_waits_for_large_files_without_a_comparison_after_each(loop: Loop) -> None:
    place = loop.folders["one"].folder.index_paths.folder
    asked, comparisons, index = list[Path](), list[int](), loop.work.index
    loop.work.index = lambda **asked: comparisons.append(0) or index(**asked)  # type: ignore
    loop.save("one")
    loop.save("one", "large", 9)
    loop.work.after.append(lambda: asked.append(request_refresh(place)))
    loop.work.after.extend([lambda: None] * 8)
    loop.work.after.append(lambda: asked[0].unlink())
    assert [job for job, _ in loop.run(0.1)][:10] == ["words", *["large"] * 9]
    assert len(comparisons) == 1
