"""Token counts are those of the bundled model; text unknown to it is counted by its length."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from thumbindex.encode.embed import MAX_BYTES_PER_TOKEN, open_tokenizer, token_counter
from thumbindex.encode.models import BUNDLED_FOLDER

COUNT = token_counter()
TOKENIZER = BUNDLED_FOLDER / "tokenizer.json"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    loaded = Tokenizer.from_file(str(TOKENIZER))
    loaded.no_padding()
    loaded.no_truncation()
    return loaded


ENGLISH = (
    'The server\'s "answers" are un-believable: see [[notes/sync]] (2,000 tokens) & '
    'C:\\path_to.\n\n\tx = {"a": [1, 2]};\n'
)


@pytest.mark.parametrize("text", [ENGLISH * 40, "naïve café – Ünïcode", "語とカナ。", "a\x00b c"])
def test_token_count_equals_that_of_the_bundled_model(tokenizer: Any, text: str) -> None:
    assert COUNT(text) == max(
        len(tokenizer.encode(text, add_special_tokens=False).ids),
        -(-len(text.encode()) // MAX_BYTES_PER_TOKEN),
    )


@given(st.text(max_size=300))
def test_token_count_is_never_lower_than_the_bundled_model_s(tokenizer: Any, text: str) -> None:
    assert COUNT(text) >= len(tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("text", [" " * 6000, "x" * 6000, "สวัสดี" * 400])
def test_unknown_text_is_counted_by_its_length(text: str) -> None:
    assert COUNT(text) >= 1000


def test_tokenizer_is_shared_and_reports_overflow() -> None:
    truncated = open_tokenizer(TOKENIZER, 16).encode("vault " * 50, add_special_tokens=False)
    full = open_tokenizer(TOKENIZER, 1000).encode("vault " * 50, add_special_tokens=False)
    assert open_tokenizer(TOKENIZER, 16) is open_tokenizer(TOKENIZER, 16)
    overflow = [n for part in truncated.overflowing for n in part.ids]
    assert (len(truncated.ids) <= 16, truncated.ids + overflow) == (True, full.ids)


def test_token_counts_of_parts_add_up() -> None:
    assert COUNT(ENGLISH * 7) == 7 * COUNT(ENGLISH)
