import pytest

from thumbindex.corpus.source import read_source


def visible(text: str, path: str = "a.md") -> str:
    source = read_source(text, path)
    return source.text_between(0, len(source.text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <!-- x --> b", "a  b"),
        ("a\n<!-- x\ny\n\nz -->\nb", "a\n\nb"),
        ("a <!-- x\ny --> b", "a  b"),
        ("a <!-- never closed", "a <!-- never closed"),
        ("a %%x%% b", "a  b"),
        ("%%\nx\n\ny\n%%\nb", "\nb"),
        ("a %% b\n\nc %% d", "a %% b\n\nc %% d"),
        ("a ` b <!-- x --> c", "a ` b  c"),
        ("```\n<!-- a -->\n%%b%%\n```", "```\n<!-- a -->\n%%b%%\n```"),
        ("text\n\n    <!-- code -->\n", "text\n\n    <!-- code -->\n"),
        ("<!-- `a -->b` <!-- c -->", "b` "),
        ("<!-- a\n```\nx\n```\n-->b", "b"),
    ],
)
def test_comments_outside_code_are_removed(text: str, expected: str) -> None:
    assert visible(text) == expected


def test_jsx_comments_are_removed_in_mdx() -> None:
    assert visible("a {/* x\ny */} b", "a.MDX") == "a  b"


def test_lines_after_a_comment_keep_their_numbers() -> None:
    source = read_source("one\n<!--\n\n-->\nfive")
    assert source.line_at(source.text.index("five")) == 5
