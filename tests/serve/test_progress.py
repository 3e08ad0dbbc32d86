"""Progress where there is no terminal."""

import pytest

from thumbindex.model import Progress
from thumbindex.serve.terminal import ProgressDisplay


def test_without_a_terminal_a_phase_is_told_at_its_start_now_and_then_and_at_its_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 0.0
    with ProgressDisplay(clock=lambda: now) as show:
        for done in range(0, 3001, 100):
            show(Progress("notes", "vectors", done, 3000))
            now += 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        f"notes: embedded {done} of 3,000 texts" for done in ("0", "1,000", "2,000", "3,000")
    ]


def test_whoever_waits_for_another_process_is_told_so_now_and_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 0.0
    with ProgressDisplay(clock=lambda: now) as show:
        for _ in range(12):
            show(Progress("notes", "waiting", 0, 0))
            now += 1
    assert (
        capsys.readouterr().err.splitlines()
        == ["notes: waiting for another process that is writing"] * 2
    )


def test_whoever_waits_for_a_process_that_is_known_is_told_which_and_how_far_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ProgressDisplay() as show:
        show(Progress("notes", "waiting", 5, 9, 123))
    assert (
        "notes: waiting for another process (pid 123) that is indexing this folder, 5 of 9 so far"
        in capsys.readouterr().err
    )
