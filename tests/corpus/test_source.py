import pytest

from thumbindex.corpus.source import read_source


def shown(text: str, path: str = "a.md") -> str:
    source = read_source(text, path)
    return source.text_between(0, len(source.text))


@pytest.mark.parametrize(
    ("text", "left"),
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
def test_comments_are_left_out_outside_code(text: str, left: str) -> None:
    assert shown(text) == left


def test_comments_of_jsx_are_left_out_in_mdx() -> None:
    assert shown("a {/* x\ny */} b", "a.MDX") == "a  b"


def test_lines_after_a_comment_keep_their_number() -> None:
    source = read_source("one\n<!--\n\n-->\nfive")
    assert source.line_at(source.text.index("five")) == 5
