"""Several clients at once: each asks its own questions in turn until it is told to stop, and what goes wrong in one is told."""

import threading
import time
from typing import Any

import pytest

from thumbindex.errors import ThumbindexError
from thumbindex.study.bench.together import Heard, asked_without_pause


class Scripted:
    """Remembers what it was asked; refuses from a question on."""

    def __init__(self, refuses: str = "") -> None:
        self.asked: list[str] = []
        self.refuses = refuses
        self.often = threading.Event()

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        self.asked.append(arguments["query"])
        if len(self.asked) >= 3:
            self.often.set()
        if arguments["query"] == self.refuses:
            raise ThumbindexError("refused")
        time.sleep(0.001)
        return {}


def test_every_client_asks_its_own_questions_until_the_end() -> None:
    one, other, heard = Scripted(), Scripted(), Heard()
    with asked_without_pause([one, other], ["a", "b", "c", "d"], heard):
        assert one.often.wait(5)
        assert other.often.wait(5)
    assert (one.asked[:3], other.asked[:3]) == (["a", "c", "a"], ["b", "d", "b"])
    assert len(heard.milliseconds) == len(one.asked) + len(other.asked)
    assert heard.seconds * 1000 >= max(heard.milliseconds)


def test_a_client_that_is_refused_ends_the_measurement() -> None:
    good, bad = Scripted(), Scripted(refuses="b")

    def ask() -> None:
        with asked_without_pause([good, bad], ["a", "b"], Heard()):
            assert good.often.wait(5)

    with pytest.raises(ThumbindexError, match="refused"):
        ask()
