"""Two folders under one loop: one that has much to do keeps the other one waiting for a batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
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
    """Each look at it takes a millisecond, however busy the machine is."""

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
        self.done, self.after = list[tuple[str, str]](), deque[Callable[[], object]]()

    def index(
        self, *, folder: list[str], interrupted: Callable[[], bool], **_: object
    ) -> IndexReport:
        left = self._do("words", self.words, folder[0], interrupted)
        return IndexReport(1, 0, 0, 0, (), 0, 0, 0, 0, 0, 0, 0.0, 0, left)

    def embed(
        self, folder: list[str], *, interrupted: Callable[[], bool], **_: object
    ) -> tuple[str, ...]:
        self._do("vectors", self.vectors, folder[0], interrupted)
        return ()

    def find_duplicates(self, folder: list[str]) -> Iterator[None]:
        yield from ()

    def _do(
        self, what: str, batches: dict[str, int], name: str, interrupted: Callable[[], bool]
    ) -> int:
        seen = batches[name]  # what is saved from now on is for the next run
        while seen:
            seen, batches[name] = seen - 1, batches[name] - 1
            self.done.append((what, name))
            if name == "huge" and self.after:
                self.after.popleft()()
            if seen and interrupted():
                break
        return seen

    def merge(self, *_: object, **__: object) -> None:
        pass

    def repair(self, *_: object) -> tuple[str, ...]:
        return ()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[IndexingLoop, Work]]:
    """Return a loop over a folder with fifty batches to do and one with none."""
    batches = {"huge": 50, "small": 0}
    for name in batches:
        (tmp_path / name).mkdir()
    config = load_config(
        user_file=tmp_path / "none",
        overrides=("serve.watch.reconcile_seconds=3600", "serve.watch.share=1"),
    )
    roots = [tmp_path / name for name in batches]
    with Library.open(roots, index=tmp_path / "index", config=config) as library:
        work = Work(library, batches)
        loop: Any = IndexingLoop(work, lambda line: None, Watched, clock=work.clock)  # type: ignore[arg-type]
        yield loop, work


def run(loop: IndexingLoop, work: Work) -> list[tuple[str, str]]:
    """Step until nothing is left; return what was done, in order."""
    for _ in range(10_000):
        loop.step()
        if not any(work.words.values()) and not any(work.vectors.values()):
            return work.done
    raise AssertionError(f"never at rest: {work.words} {work.vectors}")


def save(loop: IndexingLoop, work: Work, name: str) -> None:
    """Save a note of one batch in a folder."""
    work.words[name] += 1
    work.vectors[name] += 1
    next(each for each in loop._folders if each.folder.name == name).watch.quiet.note(loop._clock())


def test_a_note_that_is_saved_elsewhere_waits_for_one_batch_of_words(
    two: tuple[IndexingLoop, Work],
) -> None:
    loop, work = two
    work.after.extend([lambda: None] * 9 + [lambda: save(loop, work, "small")])
    assert run(loop, work).index(("words", "small")) == 10


def test_a_folder_that_others_cut_short_again_and_again_goes_on_all_the_same(
    two: tuple[IndexingLoop, Work],
) -> None:
    loop, work = two
    work.after.extend([lambda: save(loop, work, "small")] * 60)
    done = " ".join(name for what, name in run(loop, work) if what == "words")
    assert (done.count("huge"), done.count("huge small")) == (50, 50)
