"""Questions take turns: a few at once, in the order in which they came, and a turn is never lost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from thumbindex.config import load_config
from thumbindex.library import Library
from thumbindex.library.answering import Turns
from thumbindex.process import CLIENT
from thumbindex.testing import FakeEmbedder


def wait_for(turns: Turns, waiting: int) -> None:
    while sum(map(len, turns._waiting.values())) < waiting:
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


def test_clients_take_turns_and_leave_one_place_to_each_other() -> None:
    turns, order = Turns(2), []
    entered, may_leave = threading.Semaphore(0), threading.Semaphore(0)

    def ask(name: str) -> None:
        CLIENT.set(name[:-1])
        with turns:
            order.append(name)
            entered.release()
            may_leave.acquire()

    with ThreadPoolExecutor(8) as pool:
        pool.submit(ask, "bob1")
        entered.acquire()
        for waiting, name in enumerate(("bob2", "bob3"), 1):
            pool.submit(ask, name)
            wait_for(turns, waiting)
        pool.submit(ask, "alice1")  # finds the place that bob may not take
        entered.acquire()
        for waiting, name in enumerate(("carol1", "alice2"), 3):
            pool.submit(ask, name)
            wait_for(turns, waiting)
        for _ in range(4):
            may_leave.release()
            entered.acquire()
        may_leave.release(2)
    assert order[:2] == ["bob1", "alice1"]
    assert order.index("carol1") < order.index("bob3")
    assert turns._inside.total() == 0


def test_a_question_that_fails_gives_its_turn_back() -> None:
    turns = Turns(1)
    with pytest.raises(ZeroDivisionError), turns:
        _ = 1 / 0
    with turns:
        assert turns._inside.total() == 1
    assert turns._inside.total() == 0


def test_a_question_whose_asker_has_gone_while_it_waited_is_not_searched_for(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "apples.md").write_text("# Apples\n\nApples grow on trees.\n", encoding="utf-8")
    config, gone = load_config(user_file=tmp_path / "none"), threading.Event()
    with (
        Library.open([tmp_path / "vault"], index=tmp_path / "index", config=config, embedder=FakeEmbedder()) as library,
        ThreadPoolExecutor(1) as pool,
    ):
        library.index()
        with library._turns, library._turns:
            asked = pool.submit(library.query, "apples", interrupted=gone.is_set)
            wait_for(library._turns, 1)
            gone.set()
        assert (asked.result(10).passages, asked.result().trace) == ((), ())
        assert len(library.query("apples", wait_fresh=1, interrupted=gone.is_set).passages) == 1  # it ends the wait, not the question
