"""A note beyond a limit is read as Markdown up to it, then as text: nothing is lost, and it is
reported.
"""

import pytest

from thumbindex.corpus.markdown import MAX_BARS, MAX_BRACKETS, MAX_HEADINGS, MAX_LINES
from thumbindex.corpus.parse import MAX_TAGS, parse_document
from thumbindex.model import BlockKind, ParsedDocument
from thumbindex.settings import CorpusSettings


def parsed(text: str) -> ParsedDocument:
    return parse_document("a.md", text.encode(), CorpusSettings())


def test_lines_beyond_the_limit_are_indexed_as_text() -> None:
    result = parsed("\n" * MAX_LINES + "# No heading, [[link]]\n\n" + "plums\n" * 1_000)
    assert [(problem.line, problem.reason.split(":")[0]) for problem in result.problems] == [
        (MAX_LINES + 1, f"more than {MAX_LINES:,} lines")
    ]
    assert (
        result.links,
        {chunk.heading_path for chunk in result.chunks},
        result.chunks[0].start_line,
    ) == ((), {("a",)}, MAX_LINES + 1)
    assert sum(chunk.text.count("plums") for chunk in result.chunks) == 1_000


@pytest.mark.slow
def test_table_rows_beyond_the_limit_are_indexed_as_text() -> None:
    rows = MAX_BARS // 4
    result = parsed(
        "| a | b | c | d |\n|---|---|---|---|\n"
        + "| 1 | 2 | 3 | 4 |\n" * rows
        + "# No heading\n\n| plums |\n"
    )
    (problem,) = result.problems
    assert (problem.line, problem.reason.split(":")[0]) == (
        MAX_BARS // 5 + 1,
        f"more than {MAX_BARS:,} vertical bars",
    )
    assert ({chunk.heading_path for chunk in result.chunks}, "plums" in result.chunks[-1].text) == (
        {("a",)},
        True,
    )


def test_headings_beyond_the_limit_are_text_of_the_last_section() -> None:
    result = parsed("".join(f"## h{n}\n" for n in range(MAX_HEADINGS + 500)))
    assert [problem.line for problem in result.problems] == [MAX_HEADINGS + 1]
    assert result.chunks[-1].heading_path == ("a", f"h{MAX_HEADINGS - 1}")
    assert f"## h{MAX_HEADINGS + 499}" in result.chunks[-1].text
    assert len(result.chunks) < MAX_HEADINGS + 20


def test_text_below_too_many_brackets_is_indexed_as_text() -> None:
    many = "\n\n".join(["[a " * 1_000] * (MAX_BRACKETS // 1_000 - 1))
    result = parsed(f"[[plum]] #fruit\n\n{many}\n\n{'[' * 999}\n\n# [[quince]] #late\n")
    (problem,) = result.problems
    assert problem.reason.split(":")[0] == f"more than {MAX_BRACKETS:,} square brackets"
    assert ([link.target for link in result.links], result.document.tags) == (["plum"], ("fruit",))
    assert (result.chunks[-1].heading_path, "quince" in result.chunks[-1].text) == (("a",), True)


@pytest.mark.slow
def test_padded_tables_are_limited_by_their_cells() -> None:
    wide = "|a" * 181 + "|\n" + "|-" * 181 + "|\n" + "x\n" * 360
    result = parsed("\n".join([wide] * 8))
    tables = [chunk for chunk in result.chunks if chunk.kind is BlockKind.TABLE]
    assert (
        {chunk.start_line // 363 for chunk in tables},
        sum(chunk.text.count("x\n") > 0 for chunk in result.chunks) > 8,
    ) == ({0, 1, 2, 3}, True)


def test_property_values_beyond_the_limit_are_a_problem() -> None:
    result = parsed("\n".join(f"- a [key:: {n}]" for n in range(1, 1_003)))
    assert len(result.document.properties["key"]) == 1_000
    assert [(problem.line, problem.reason) for problem in result.problems] == [
        (1_001, "more than 1,000 property values: ignored from here")
    ]


def test_tags_beyond_the_limit_are_only_words() -> None:
    result = parsed("\n\n".join(f"#tag{n} plum" for n in range(MAX_TAGS + 2)))
    assert [problem.reason.split(":")[0] for problem in result.problems] == [
        f"{MAX_TAGS + 2:,} tags, more than {MAX_TAGS:,}"
    ]
    assert (result.document.tags[-1], f"#tag{MAX_TAGS + 1} plum" in result.chunks[-1].text) == (
        f"tag{MAX_TAGS - 1}",
        True,
    )
