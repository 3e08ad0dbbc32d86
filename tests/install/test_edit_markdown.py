"""Our block in a user's Markdown file."""

import pytest

from thumbindex.install.edit import BEGIN, put_block, read_block, take_block


@pytest.mark.parametrize(
    "text",
    [
        "# Mine\n\nKeep this.\n",
        "# Mine\r\n",
        "a\n\n\n",
        "<!-- another: begin -->\nx\n<!-- another: end -->\n",
    ],
)
def test_block_is_added_and_removed_without_a_trace(text: str) -> None:
    put = put_block(text, (), "Ask first.")
    assert put.startswith(text)
    assert read_block(put) == "Ask first."
    assert put_block(put, (), "Ask first.") == put
    assert take_block(put) == text


def test_outdated_block_is_replaced_in_place() -> None:
    before = put_block("# Mine\n", (), "Old.") + "\nMore of mine.\n"
    assert put_block(before, (), "New <b>words</b>.") == before.replace("Old.", "New <b>words</b>.")


def test_begin_marker_without_an_end_is_no_block() -> None:
    torn = f"{BEGIN}\nmine\n"
    assert read_block(torn) is None
    assert take_block(torn) == torn
    assert take_block(put_block(torn, (), "Ask.")) == torn
