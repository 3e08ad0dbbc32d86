"""Several folders under one loop: one that has much to do, and changes all the time, keeps no other
one waiting for more than a batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import groupby, pairwise
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from thumbindex.config import load_config
from thumbindex.library import Library
from thumbindex.model import IndexReport
from thumbindex.serve.child import IndexingLoop
from thumbindex.serve.watch import Quiet


class Watched:
    """A watch on a folder that is there; whoever saves a note says so by `quiet`."""

    def __init__(self, *_: object) -> None:
        self.quiet, self.is_there, self.failure = Quiet(0.0, 0.0), True, ""

    def look(self) -> None:
        pass

    def close(self) -> None:
        pass


class Clock:
    """Each look at it takes a millisecond: how long a batch takes is no matter of what else the
    machine does.
    """

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


class Work:
    """A library whose batches are counted and not done.

    What happens after a batch of the huge folder may save a note elsewhere.
    """

    def __init__(self, library: Library, batches: dict[str, int]) -> None:
        self.opened, self.config, self.clock = library.opened, library.config, Clock()
        self.words, self.vectors = dict(batches), dict(batches)
        # batches of large files, each of which takes its time, and whose are read
        self.large = dict.fromkeys(batches, 0)
        self.reading = set[str]()
        # batches of chunks that are to be compared, which each search begins anew
        self.compared = dict.fromkeys(batches, 0)
        self.done, self.after = list[tuple[str, str]](), deque[Callable[[], object]]()

    def index(
        self, *, folder: list[str], interrupted: Callable[[], bool], sizes: str, **_: object
    ) -> IndexReport:
        if sizes == "large":
            assert not self.reading
            self.reading.add(folder[0])
            left = self._do(
                "large", self.large, folder[0], lambda: self._take_long() or interrupted()
            )
            self.reading = set[str]()
        else:
            left = self._do("words", self.words, folder[0], interrupted) or self.large[folder[0]]
        return IndexReport(1, 0, 0, 0, (), 0, 0, 0, 0, 0, 0, 0.0, 0, left)

    def _happen(self, name: str) -> None:
        if name == "huge" and self.after:
            self.after.popleft()()

    def _take_long(self) -> None:
        self.clock.now += 1
        sleep(0.001)  # the loop does meanwhile what it may

    def embed(
        self, folder: list[str], *, interrupted: Callable[[], bool], **_: object
    ) -> tuple[str, ...]:
        assert folder[0] not in self.reading
        self._do("vectors", self.vectors, folder[0], interrupted)
        return ()

    def find_duplicates(self, folder: list[str]) -> Iterator[None]:
        for _ in range(self.compared[folder[0]]):
            self.done.append(("duplicates", folder[0]))
            self._happen(folder[0])
            yield
        self.compared[folder[0]] = 0

    def _do(
        self, what: str, batches: dict[str, int], name: str, interrupted: Callable[[], bool]
    ) -> int:
        seen = batches[name]  # what is saved from now on is for the next run
        while seen:
            seen, batches[name] = seen - 1, batches[name] - 1
            self.done.append((what, name))
            self._happen(name)
            if seen and interrupted():
                break
        return seen

    def merge(self, *_: object, **__: object) -> None:
        pass

    keep_growth = lay_out = merge

    def repair(self, *_: object) -> tuple[str, ...]:
        return ()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Callable[..., tuple[IndexingLoop, Work]]]:
    """Return what makes a loop over a huge and a small folder with so many batches to do."""
    with ExitStack() as opened:

        def make(**batches: int) -> tuple[IndexingLoop, Work]:
            for name in batches:
                (tmp_path / name).mkdir()
            config = load_config(
                user_file=tmp_path / "none",
                overrides=("serve.watch.reconcile_seconds=3600", "serve.watch.share=1"),
            )
            library = opened.enter_context(
                Library.open(
                    [tmp_path / name for name in batches], index=tmp_path / "index", config=config
                )
            )
            work = Work(library, batches)
            loop: Any = IndexingLoop(work, lambda line: None, Watched, clock=work.clock)  # type: ignore[arg-type]
            return loop, work

        yield make


def run(loop: IndexingLoop, work: Work) -> list[tuple[str, str]]:
    """Step until nothing is left; return what was done, in order."""
    for _ in range(10_000):
        loop.step()
        if not any(work.words.values()) and not any(work.vectors.values()):
            return work.done
    raise AssertionError(f"never at rest: {work.words} {work.vectors}")


def step_until(loop: IndexingLoop, is_so: Callable[[], bool]) -> None:
    """Step until something is so, not without end."""
    for _ in range(1_000_000):
        if is_so():
            return
        loop.step()
    raise AssertionError("never")


def save(loop: IndexingLoop, work: Work, name: str) -> None:
    """Save a note of one batch in a folder."""
    work.words[name] += 1
    work.vectors[name] += 1
    next(each for each in loop._folders if each.folder.name == name).watch.quiet.note(loop._clock())


def test_a_note_that_is_saved_elsewhere_waits_for_one_batch_of_words(two):
    loop, work = two(huge=50, small=0)
    work.after.extend([lambda: None] * 9 + [lambda: save(loop, work, "small")])
    done = run(loop, work)
    assert done.index(("words", "small")) == 10


def test_its_vectors_wait_for_no_folder_with_much_to_do(two):
    loop, work = two(huge=3, small=1)
    run(loop, work)
    work.done.clear()
    save(loop, work, "huge")
    work.vectors["huge"] = 10**5
    work.after.extend([lambda: None] * 9 + [lambda: save(loop, work, "small")])
    while ("vectors", "small") not in work.done and work.vectors["huge"]:
        loop.step()
    assert work.vectors["huge"] > 0


def test_words_rest_for_as_long_as_a_run_took_and_vectors_come_meanwhile(two):
    loop, work = two(huge=1)

    def take_long() -> None:
        work.clock.now += 0.5
        save(loop, work, "huge")

    work.after.append(take_long)
    assert [what for what, _ in run(loop, work)] == ["words", "vectors", "vectors", "words"]


def test_a_folder_that_others_cut_short_again_and_again_goes_on_all_the_same(two):
    loop, work = two(huge=50, small=0)
    work.after.extend([lambda: save(loop, work, "small")] * 60)
    done = " ".join(name for what, name in run(loop, work) if what == "words")
    assert done.count("huge") == 50
    assert done.count("huge small") == 50


def test_folders_that_are_new_at_once_get_a_batch_each_first_and_then_longer_turns(two):
    loop, work = two(huge=50, other=50, third=50)
    words = [name for what, name in run(loop, work) if what == "words"]
    changes = sum(before != after for before, after in pairwise(words))
    assert (len(set(words[:3])), changes <= 6) == (3, True)


def test_a_search_for_duplicates_is_left_for_words_and_vectors_and_goes_on_where_it_was(two):
    loop, work = two(huge=1, small=1)
    run(loop, work)
    work.compared["huge"] = 500
    work.after.extend(
        [*[lambda: None] * 9, lambda: save(loop, work, "small"), lambda: save(loop, work, "huge")]
    )
    step_until(loop, lambda: not any(work.compared.values()))
    after = work.done[work.done.index(("duplicates", "huge")) + 10 :]
    assert after[0] == ("words", "small")
    assert ("words", "huge") in after[:3]
    assert all(after.index(("vectors", name)) < len(after) - 1 for name in ("huge", "small"))
    assert work.done.count(("duplicates", "huge")) == 500


def test_a_search_for_duplicates_waits_for_no_other_folders_vectors(two):
    loop, work = two(huge=1, small=1)
    work.vectors["huge"], work.compared["small"] = 10**5, 5_000
    step_until(loop, lambda: work.done.count(("duplicates", "small")) == 5_000)
    assert work.vectors["huge"] > 10**4
    vectors = [what for what, _ in groupby(work.done) if what == ("vectors", "huge")]
    assert 1 < len(vectors) < 50  # both in turns of seconds


def test_vectors_wait_for_large_files_and_these_for_vectors_each_for_a_while(two):
    loop, work = two(huge=1)
    work.large["huge"], work.vectors["huge"] = 100, 20_000
    step_until(loop, lambda: not work.large["huge"] and not work.reading)
    turns = [what for what, _ in groupby(what for what, _ in work.done)]
    assert turns[0] == "words"
    assert turns.count("large") > 1
    assert set(turns[1::2]) == {"large"}
    assert set(turns[2::2]) == {"vectors"}
    step_until(loop, lambda: not work.vectors["huge"])
    assert not loop._folders[0].more_large


def test_large_files_of_two_folders_take_turns_of_the_same_length(two):
    loop, work = two(huge=1, other=1)
    work.large.update(huge=100, other=100)
    step_until(loop, lambda: not any(work.large.values()) and not work.reading)
    turns = [
        (name, len([*batches]))
        for name, batches in groupby(name for what, name in work.done if what == "large")
    ]
    assert [name for name, _ in turns[:4]] in (["huge", "other"] * 2, ["other", "huge"] * 2)
    assert {count > 20 for _, count in turns[:4]} == {True}
