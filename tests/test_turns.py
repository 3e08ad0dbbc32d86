"""Questions take turns: a few at once, in the order in which they came, and a turn is never lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from thumbindex.library.turns import Turns


def wait_for(turns: Turns, waiting: int) -> None:
    while len(turns._waiting) < waiting:
        threading.Event().wait(0.001)


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


def test_who_came_first_is_let_in_first() -> None:
    turns, order = Turns(1), []

    def ask(number: int) -> None:
        with turns:
            order.append(number)

    with ThreadPoolExecutor(4) as pool:
        with turns:
            for number in range(4):
                pool.submit(ask, number)
                wait_for(turns, number + 1)
        pool.shutdown()
    assert order == [0, 1, 2, 3]


def test_a_question_that_fails_gives_its_turn_back() -> None:
    turns = Turns(1)
    with pytest.raises(ZeroDivisionError), turns:
        _ = 1 / 0
    with turns:
        assert turns._free == 0
    assert turns._free == 1
