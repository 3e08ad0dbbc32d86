"""Vectors take their share of the processor and no more, and say how far they are without flooding
anyone.
"""

from __future__ import annotations

from thumbindex.model import Progress
from thumbindex.serve.child import ProgressLines, Share, Turn


class Clock:
    """A wall clock and the processor's time, moved by hand."""

    def __init__(self) -> None:
        self.now = self.used = 0.0

    def work(self, wall: float, used: float) -> None:
        self.now += wall
        self.used += used

    def share(self, share: float, cores: int) -> Share:
        return Share(share, cores, lambda: self.now, lambda: self.used)


def test_a_batch_is_followed_by_a_pause_that_makes_up_for_it():
    clock = Clock()
    share = clock.share(0.25, 4)
    # all four cores for a second: a quarter of them would have taken four
    clock.work(wall=1, used=4)
    assert share.owed() == 3
    clock.work(wall=3, used=0)
    assert share.owed() == 0


def test_a_pause_ends_when_words_are_due():
    clock = Clock()
    share, asked = clock.share(0.05, 1), iter([False, True, True, True])
    turn = Turn(lambda: next(asked), share)
    clock.work(wall=0, used=1_000_000)
    assert (turn(), turn.was_cut_short) == (True, True)


def test_progress_is_told_at_most_twice_a_second_and_its_end_where_its_middle_was():
    clock, said = Clock(), list[str]()
    told = ProgressLines(said.append, lambda: clock.now)
    for done in range(1, 101):
        told(Progress("notes", "words", done, 100))
        clock.work(wall=0.02, used=0)
    told(Progress("notes", "vectors", 1, 1))
    assert [line.split('"done": ')[1].split(",")[0] for line in said] == [
        "1",
        "26",
        "51",
        "76",
        "100",
    ]
