"""A note of very many lines or headings is read as Markdown up to a limit, and as text from there
on: nothing of it is lost, and it says so.
"""

from thumbindex.corpus.markdown import MAX_BARS, MAX_BRACKETS, MAX_HEADINGS, MAX_LINES
from thumbindex.corpus.parse import MAX_TAGS, parse_document
from thumbindex.model import BlockKind, ParsedDocument
from thumbindex.settings import CorpusSettings


def parsed(text: str) -> ParsedDocument:
    return parse_document("a.md", text.encode(), CorpusSettings())


def test_lines_beyond_the_limit_are_text_that_is_found() -> None:
    found = parsed("\n" * MAX_LINES + "# No heading, [[link]]\n\n" + "plums\n" * 1_000)
    assert [(problem.line, problem.reason.split(":")[0]) for problem in found.problems] == [
        (MAX_LINES + 1, f"more than {MAX_LINES:,} lines")
    ]
    assert (
        found.links,
        {chunk.heading_path for chunk in found.chunks},
        found.chunks[0].start_line,
    ) == ((), {("a",)}, MAX_LINES + 1)
    assert sum(chunk.text.count("plums") for chunk in found.chunks) == 1_000


def test_rows_of_tables_beyond_the_limit_are_text_that_is_found() -> None:
    rows = MAX_BARS // 4
    found = parsed(
        "| a | b | c | d |\n|---|---|---|---|\n"
        + "| 1 | 2 | 3 | 4 |\n" * rows
        + "# No heading\n\n| plums |\n"
    )
    (problem,) = found.problems
    assert (problem.line, problem.reason.split(":")[0]) == (
        MAX_BARS // 5 + 1,
        f"more than {MAX_BARS:,} vertical bars",
    )
    assert ({chunk.heading_path for chunk in found.chunks}, "plums" in found.chunks[-1].text) == (
        {("a",)},
        True,
    )


def test_headings_beyond_the_limit_are_text_below_the_last_one_of_it() -> None:
    found = parsed("".join(f"## h{n}\n" for n in range(MAX_HEADINGS + 500)))
    assert [problem.line for problem in found.problems] == [MAX_HEADINGS + 1]
    assert found.chunks[-1].heading_path == ("a", f"h{MAX_HEADINGS - 1}")
    assert f"## h{MAX_HEADINGS + 499}" in found.chunks[-1].text
    assert len(found.chunks) < MAX_HEADINGS + 20


def test_what_stands_below_too_many_brackets_is_text_that_is_found() -> None:
    many = "\n\n".join(["[a " * 1_000] * (MAX_BRACKETS // 1_000 - 1))
    found = parsed(f"[[plum]] #fruit\n\n{many}\n\n{'[' * 999}\n\n# [[quince]] #late\n")
    (problem,) = found.problems
    assert problem.reason.split(":")[0] == f"more than {MAX_BRACKETS:,} square brackets"
    assert ([link.target for link in found.links], found.document.tags) == (["plum"], ("fruit",))
    assert (found.chunks[-1].heading_path, "quince" in found.chunks[-1].text) == (("a",), True)


def test_tables_whose_rows_are_filled_up_end_with_the_cells_that_they_may_take() -> None:
    wide = "|a" * 181 + "|\n" + "|-" * 181 + "|\n" + "x\n" * 360
    found = parsed("\n".join([wide] * 8))
    tables = [chunk for chunk in found.chunks if chunk.kind is BlockKind.TABLE]
    assert (
        {chunk.start_line // 363 for chunk in tables},
        sum(chunk.text.count("x\n") > 0 for chunk in found.chunks) > 8,
    ) == ({0, 1, 2, 3}, True)


def test_tags_beyond_the_limit_are_words() -> None:
    found = parsed("\n\n".join(f"#tag{n} plum" for n in range(MAX_TAGS + 2)))
    assert [problem.reason.split(":")[0] for problem in found.problems] == [
        f"{MAX_TAGS + 2:,} tags, more than {MAX_TAGS:,}"
    ]
    assert (found.document.tags[-1], f"#tag{MAX_TAGS + 1} plum" in found.chunks[-1].text) == (
        f"tag{MAX_TAGS - 1}",
        True,
    )
