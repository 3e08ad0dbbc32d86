"""A whole answer fits its budget in both forms, whatever its passages contain."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thumbindex.encode.embed import token_counter
from thumbindex.errors import UsageError
from thumbindex.mcp.query_reply import AnswerFrame, PassageFormat, fit_answer, reply_tokens
from thumbindex.mcp.tools import check_arguments
from thumbindex.model import (
    Answer,
    Freshness,
    IndexState,
    Passage,
    Progress,
    QueryKind,
    TypedFilter,
)

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
def test_text_and_structured_content_each_fit_the_budget(texts: list[str], tokens: int) -> None:
    frame = AnswerFrame(
        answer(texts), index_warning="12 changed files on disk are not indexed yet."
    )
    reply = fit_answer(tokens, COUNT, frame, PassageFormat())
    assert reply_tokens(reply, COUNT) <= tokens
    assert len(reply.structured["results"]) + reply.structured.get("left_out", 0) == len(texts)


def test_nothing_is_said_to_be_missing_while_notes_are_indexed() -> None:
    first_run = AnswerFrame(answer([]), (Progress("f", "words", 65, 311),))
    text = fit_answer(1000, COUNT, first_run, PassageFormat()).text
    assert "not all notes are indexed yet" in text
    assert "Tell the user so" not in text


def test_long_frame_fits_the_smallest_budget() -> None:
    lost = Freshness(behind=tuple(f"{'long ' * 100}{n}" for n in range(100)))
    long_answer = replace(
        answer(["x"]),
        corrected="word " * 2000,
        filters=(TypedFilter("path", "語" * 5000),),
        missing=("y" * 4000,),
        freshness=lost,
    )
    frame = AnswerFrame(long_answer, index_warning="missing " * 1000, explain=True)
    for variant in (long_answer, replace(long_answer, found=False, passages=())):
        reply = fit_answer(500, COUNT, replace(frame, answer=variant), PassageFormat())
        assert reply_tokens(reply, COUNT) <= 500
        assert reply.structured["found"] is variant.found
        assert len(reply.structured["results"]) == len(variant.passages)


def test_budget_below_the_minimum_is_refused() -> None:
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
def test_smallest_budget_shows_best_lines_of_the_first_passage(
    text: str,
) -> None:
    original = answer([text] * 5)
    spread = replace(
        original,
        passages=tuple(
            replace(passage, end_line=1 + text.count("\n"), match_end_line=1 + text.count("\n"))
            for passage in map(marked, original.passages)
        ),
    )
    frame = AnswerFrame(spread, index_warning="12 changed files on disk are not indexed yet.")
    reply = fit_answer(500, COUNT, frame, PassageFormat())
    first, *_ = reply.structured["results"]
    assert first["citation"].startswith("1.md#H1 (line")
    assert "Salt and pepper are" in first["text"]
    assert "Salt and pepper are" in reply.text
    assert reply_tokens(reply, COUNT) <= 500


def test_passage_shown_as_citation_names_the_lines_of_its_section() -> None:
    long_answer = answer([SPREAD] * 5)
    long_answer = replace(
        long_answer,
        passages=tuple(
            replace(passage, end_line=30, match_end_line=30) for passage in long_answer.passages
        ),
    )
    sizes = range(500, 1500, 50)
    replies = [fit_answer(size, COUNT, AnswerFrame(long_answer), PassageFormat()) for size in sizes]
    alone = [
        result
        for reply in replies
        for result in reply.structured["results"]
        if "text" not in result
    ]
    assert alone
    for result in alone:
        assert result["citation"].endswith(" (lines 1-30)")
        assert (result["rest"]["start_line"], result["rest"]["end_line"]) == (1, 30)


def test_matches_are_cut_to_lines_so_that_all_passages_fit() -> None:
    original = answer([SPREAD] * 5)
    spread = replace(
        original,
        passages=tuple(
            replace(marked(passage), match_end_line=30) for passage in original.passages
        ),
    )
    reply = fit_answer(1200, COUNT, AnswerFrame(spread), PassageFormat())
    assert (len(reply.structured["results"]), reply.structured.get("left_out")) == (5, None)
    assert all("Salt and pepper are" in result["text"] for result in reply.structured["results"])
    lines = SPREAD.split("\n")
    for result in reply.structured["results"]:
        first, last = (
            map(int, re.findall(r"\d+", result["citation"].partition("(")[2]))
            if "-" in result["citation"]
            else (21, 21)
        )
        assert result["text"] == "\n".join(lines[first - 1 : last])


def test_smallest_budget_keeps_flags_of_passages() -> None:
    original = answer(["The needle."] * 3)
    flagged = replace(
        original,
        passages=tuple(
            replace(passage, flags=("1: hidden text",)) for passage in original.passages
        ),
    )
    reply = fit_answer(500, COUNT, AnswerFrame(flagged), PassageFormat())
    assert [result["flagged"] for result in reply.structured["results"]] == [
        ["flagged, line 1: hidden text"]
    ] * len(reply.structured["results"])
    assert "hidden text" in reply.text
