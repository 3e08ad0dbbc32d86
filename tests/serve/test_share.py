"""Vectors take their share of the processor and no more."""

from __future__ import annotations

from thumbindex.serve.child import Share, Turn


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
