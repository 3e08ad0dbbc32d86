"""The client of a server process: several ask at once, nothing is leaked, nothing is waited for without end. The server here is a script."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from thumbindex.errors import ThumbindexError
from thumbindex.study.client import ServerProcess
from thumbindex.study.freshness import await_start

GREETED = """
import json, sys, time
def say(**message): print(json.dumps(message), flush=True)
def take(): return json.loads(sys.stdin.readline())
def answer(asked, **result): say(id=asked["id"], result=result)
answer(take()); take(); answer(take())
"""


def server(then: str = "", greeted: str = GREETED) -> ServerProcess:
    return ServerProcess([greeted + then], program=(sys.executable, "-c"))


def test_a_slow_answer_keeps_no_other_question_waiting():
    turned = 'first, second = take(), take()\nfor each in (second, first): answer(each, of=each["method"])\nsys.stdin.read()'
    with server(turned) as asked, ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda method: asked.request(method, {}), ("a", "b")))
    assert answers == [{"of": "a"}, {"of": "b"}]


def test_what_the_server_says_unasked_is_no_answer():
    chatty = 'asked = take()\nsay(method="notifications/x")\nsay(id=asked["id"], method="ping")\nanswer(asked, right=True)\nsys.stdin.read()'
    with server(chatty) as asked:
        assert asked.request("a", {}) == {"right": True}


def test_an_error_is_raised_for_the_one_who_asked():
    with (
        server('say(id=take()["id"], error={"message": "no such thing"})\nsys.stdin.read()') as asked,
        pytest.raises(ThumbindexError, match="no such"),
    ):
        asked.request("a", {})


def test_whoever_waits_when_the_server_ends_is_told_and_so_is_who_asks_later():
    with server("take()") as asked:
        for _ in range(2):
            with pytest.raises(ThumbindexError, match="a: the server has ended"):
                asked.request("a", {})


def test_a_server_that_refuses_to_begin_is_not_left_running():
    refusing = server(greeted='import sys, time\nsys.stdin.readline()\nprint(\'{"id": 1, "error": {}}\', flush=True)\ntime.sleep(60)')
    with pytest.raises(ThumbindexError, match="initialize"):
        refusing.__enter__()
    assert refusing.process.returncode is not None


def test_a_server_that_never_finds_the_first_edit_is_not_waited_for_without_end(tmp_path):
    blind = 'while True: answer(take(), structuredContent={"results": []})'
    with server(blind) as asked, pytest.raises(ThumbindexError, match=r"started\.md was not found within 0\.3 s"):
        await_start(asked, tmp_path, seconds=0.3)


def test_a_server_that_never_has_all_vectors_is_not_waited_for_without_end(tmp_path):
    status = '{"results": [{"text": "markstarted"}], "folders": [{"index": {"pending": 1}}]}'
    with (
        server(f"while True: answer(take(), structuredContent={status})") as asked,
        pytest.raises(ThumbindexError, match="vectors were still missing"),
    ):
        await_start(asked, tmp_path, seconds=0.3)
