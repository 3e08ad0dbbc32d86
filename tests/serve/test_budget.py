"""An answer's budget holds for the whole of it, in both forms, whatever its passages are made of."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thumbindex.encode.embed import token_counter
from thumbindex.encode.models import cache_folder
from thumbindex.errors import UsageError
from thumbindex.model import Answer, IndexState, Passage, QueryKind
from thumbindex.serve.replies import Frame, PassageForm, count_reply, within

COUNT = token_counter(cache_folder(""))

LINE = st.sampled_from(
    ["", "words that a note is made of", '"quoted" \\ and `code`', "```", "| a | b |", "x" * 400, "ünïcödé", "語" * 50, "\t\x00\u2028", "n" * 3]
)


def answer(texts: list[str]) -> Answer:
    passages = tuple(Passage(n, "f", f"{n % 2}.md", "T", ("T", f"H{n}"), 1, 1 + text.count("\n"), 1, 1, 1.0, text) for n, text in enumerate(texts, 1))
    return Answer("q", None, QueryKind.FACTUAL, bool(passages), 0.9, "high", passages, (), IndexState(3, 3, 3, 0, "fake", 1))


@settings(deadline=None)
@given(st.lists(st.lists(LINE, min_size=1, max_size=60).map("\n".join), max_size=6), st.integers(100, 3000))
def test_text_and_structured_content_each_stay_within_the_budget(texts: list[str], tokens: int) -> None:
    frame = Frame(answer(texts), lacking="12 changed files on disk are not indexed yet.")
    assert count_reply(within(tokens, COUNT, (frame, frame.barely()), PassageForm()), COUNT) <= tokens


def test_what_stands_around_the_passages_gives_way_to_them() -> None:
    frame = Frame(answer(["The needle."]), lacking="Not indexed yet: " + "a/long/path.md, " * 20)
    reply = within(250, COUNT, (frame, frame.barely()), PassageForm())
    assert "The needle." in reply.text
    assert "a/long/path.md" not in reply.text


def test_a_budget_in_which_nothing_can_be_said_is_refused() -> None:
    with pytest.raises(UsageError, match="`max_tokens` is 10"):
        within(10, COUNT, (Frame(answer(["x"])).barely(),), PassageForm())
