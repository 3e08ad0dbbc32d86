"""The rows of an answer in the terminal."""

import pytest
from rich.text import Text

from thumbindex.present.answer_layout import wrap_line


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("- one two three", ["- one", "  two", "  three"]),
        ("x https://example.org", ["x", "https://example.org"]),
        ("日本語のメモ", ["日本語の", "メモ"]),
        ("복원하려면 서버", ["복원하려면", "서버"]),
        ("", [""]),
    ],
)
def test_rows_break_between_words_and_wide_characters(line: str, rows: list[str]) -> None:
    assert [row.plain for row in wrap_line(Text(line), 8)] == rows
