"""Questions take turns: a few at once, in the order in which they came, and a turn is never
lost.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from folders import open_library, write
from thumbindex.library.answering import Turns
from waiting import until


def wait_for(turns: Turns, waiting: int) -> None:
    assert until(lambda: sum(map(len, turns._waiting.values())) >= waiting)


def test_no_more_are_let_in_than_may_be_and_all_of_them_at_last() -> None:
    turns, inside, most = Turns(2), 0, 0
    counting = threading.Lock()

    def ask(_: int) -> None:
        nonlocal inside, most
        with turns:
            with counting:
                inside += 1
                most = max(most, inside)
            threading.Event().wait(0.001)
            with counting:
                inside -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(40)))
    assert (inside, most) == (0, 2)


def test_a_question_that_fails_gives_its_turn_back() -> None:
    turns = Turns(1)
    with pytest.raises(ZeroDivisionError), turns:
        _ = 1 / 0
    with turns:
        assert turns._free == 0
    assert turns._free == 1


def test_a_question_whose_asker_has_gone_while_it_waited_is_not_searched_for(
    tmp_path: Path,
) -> None:
    gone = threading.Event()
    write(tmp_path / "vault/apples.md", "# Apples\n\nApples grow on trees.\n")
    with open_library(tmp_path / "vault") as library, ThreadPoolExecutor(1) as pool:
        library.index()
        with library._turns, library._turns:
            asked = pool.submit(library.query, "apples", interrupted=gone.is_set)
            wait_for(library._turns, 1)
            gone.set()
        assert (asked.result(10).passages, asked.result().trace) == ((), ())
        # it ends the wait, not the question
        assert len(library.query("apples", wait_fresh=1, interrupted=gone.is_set).passages) == 1
