"""An answer's budget holds for the whole of it, in both forms, whatever its passages are made
of.
"""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thumbindex.encode.embed import token_counter
from thumbindex.errors import UsageError
from thumbindex.mcp.query_reply import AnswerFrame, PassageFormat, fit_answer, reply_tokens
from thumbindex.mcp.tools import check_arguments
from thumbindex.model import Answer, Freshness, IndexState, Passage, Place, QueryKind, TypedFilter

COUNT = token_counter()

LINE = st.sampled_from(
    [
        "",
        "words that a note is made of",
        '"quoted" \\ and `code`',
        "```",
        "| a | b |",
        "x" * 400,
        "ünïcödé",
        "語" * 50,
        "\t\x00\u2028",
        "n" * 3,
    ]
)


def answer(texts: list[str]) -> Answer:
    passages = tuple(
        Passage(
            n, "f", f"{n % 2}.md", "T", ("T", f"H{n}"), 1, 1 + text.count("\n"), 1, 1, 1.0, text
        )
        for n, text in enumerate(texts, 1)
    )
    return Answer(
        "q",
        None,
        QueryKind.FACTUAL,
        bool(passages),
        0.9,
        "high",
        passages,
        (),
        IndexState(3, 3, 3, 0, "fake", 1),
    )


@given(
    st.lists(st.lists(LINE, min_size=1, max_size=60).map("\n".join), max_size=6),
    st.integers(500, 3000),
)
def test_text_and_structured_content_each_stay_within_the_budget(
    texts: list[str], tokens: int
) -> None:
    frame = AnswerFrame(
        answer(texts), index_warning="12 changed files on disk are not indexed yet."
    )
    reply = fit_answer(tokens, COUNT, frame, PassageFormat())
    assert reply_tokens(reply, COUNT) <= tokens
    assert len(reply.structured["results"]) + reply.structured.get("left_out", 0) == len(texts)


def test_a_frame_of_any_length_stays_within_the_smallest_budget() -> None:
    lost = Freshness(behind=tuple(f"{'long ' * 100}{n}" for n in range(100)))
    found = replace(
        answer(["x"]),
        corrected="word " * 2000,
        filters=(TypedFilter("path", "語" * 5000),),
        nearest=(Place("f", "y" * 4000, 1, 2),),
        freshness=lost,
    )
    frame = AnswerFrame(found, index_warning="missing " * 1000, explain=True)
    for each in (found, replace(found, answerable=False, passages=())):
        reply = fit_answer(500, COUNT, replace(frame, answer=each), PassageFormat())
        assert reply_tokens(reply, COUNT) <= 500
        assert reply.structured["answerable"] is each.answerable
        assert len(reply.structured["results"]) == len(each.passages)


def test_a_budget_too_small_to_say_anything_useful_is_refused() -> None:
    with pytest.raises(UsageError, match="`max_tokens` must be at least 500"):
        check_arguments("query", {"query": "x", "max_tokens": 499})


WORDS = ("salt", "pepper")

SPREAD = "\n".join(
    f"Line {n} is about something else that fills its row with words." for n in range(30)
).replace("Line 20 is", "Salt and pepper are")


def marked(passage: Passage) -> Passage:
    spans = [match.span() for word in WORDS for match in re.finditer(word, passage.text, re.I)]
    return replace(passage, marks=tuple(spans))


@pytest.mark.parametrize("text", [SPREAD, SPREAD.replace("\n", " ")])
def test_the_smallest_budget_shows_the_best_lines_of_the_first_passage_with_their_citation(
    text: str,
) -> None:
    found = answer([text] * 5)
    whole = replace(
        found,
        passages=tuple(
            replace(passage, end_line=1 + text.count("\n"), match_end_line=1 + text.count("\n"))
            for passage in found.passages
        ),
    )
    frame = AnswerFrame(whole, index_warning="12 changed files on disk are not indexed yet.")
    reply = fit_answer(500, COUNT, frame, PassageFormat(), (), marked)
    first, *_ = reply.structured["results"]
    assert first["citation"].startswith("1.md#H1 (line")
    assert "Salt and pepper are" in first["text"]
    assert "Salt and pepper are" in reply.text
    assert reply_tokens(reply, COUNT) <= 500


def test_a_passage_without_room_for_its_text_comes_as_its_citation_and_is_not_held() -> None:
    found = answer([SPREAD] * 5)
    found = replace(
        found,
        passages=tuple(
            replace(passage, end_line=30, match_end_line=30) for passage in found.passages
        ),
    )
    sizes = range(500, 1500, 50)
    replies = [fit_answer(size, COUNT, AnswerFrame(found), PassageFormat()) for size in sizes]
    alone = [
        each for reply in replies for each in reply.structured["results"] if "text" not in each
    ]
    assert alone
    for each in alone:
        assert each["citation"].endswith(" (lines 1-30)")
        assert (each["rest"]["start_line"], each["rest"]["end_line"]) == (1, 30)
    again = fit_answer(
        3000, COUNT, AnswerFrame(found), PassageFormat(), [each["id"] for each in alone]
    )
    assert all(each["text"] for each in again.structured["results"])


def test_as_many_passages_come_as_were_asked_for_their_matches_cut_to_lines() -> None:
    found = answer([SPREAD] * 5)
    whole = replace(
        found, passages=tuple(replace(passage, match_end_line=30) for passage in found.passages)
    )
    reply = fit_answer(1200, COUNT, AnswerFrame(whole), PassageFormat(), (), marked)
    assert (len(reply.structured["results"]), reply.structured.get("left_out")) == (5, None)
    assert all("Salt and pepper are" in each["text"] for each in reply.structured["results"])
    lines = SPREAD.split("\n")
    for each in reply.structured["results"]:
        first, last = (
            map(int, re.findall(r"\d+", each["citation"].partition("(")[2]))
            if "-" in each["citation"]
            else (21, 21)
        )
        assert each["text"] == "\n".join(lines[first - 1 : last])


def test_what_warns_of_a_passage_is_said_in_the_smallest_budget_too() -> None:
    found = answer(["The needle."] * 3)
    flagged = replace(
        found,
        passages=tuple(replace(passage, flags=("1: hidden text",)) for passage in found.passages),
    )
    reply = fit_answer(500, COUNT, AnswerFrame(flagged), PassageFormat())
    assert [each["flagged"] for each in reply.structured["results"]] == [
        ["flagged, line 1: hidden text"]
    ] * len(reply.structured["results"])
    assert "hidden text" in reply.text
