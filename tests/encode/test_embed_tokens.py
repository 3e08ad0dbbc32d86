"""Tokens are those of the bundled model, and what it cannot see is counted by its length."""

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
    found = Tokenizer.from_file(str(TOKENIZER))
    found.no_padding()
    found.no_truncation()
    return found


ENGLISH = (
    'The server\'s "answers" are un-believable: see [[notes/sync]] (2,000 tokens) & '
    'C:\\path_to.\n\n\tx = {"a": [1, 2]};\n'
)


@pytest.mark.parametrize("text", [ENGLISH * 40, "naïve café – Ünïcode", "語とカナ。", "a\x00b c"])
def test_tokens_are_those_of_the_bundled_model(tokenizer: Any, text: str) -> None:
    assert COUNT(text) == max(
        len(tokenizer.encode(text, add_special_tokens=False).ids),
        -(-len(text.encode()) // MAX_BYTES_PER_TOKEN),
    )


@given(st.text(max_size=300))
def test_no_text_has_fewer_tokens_than_the_bundled_model_sees(tokenizer: Any, text: str) -> None:
    assert COUNT(text) >= len(tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("text", [" " * 6000, "x" * 6000, "สวัสดี" * 400])
def test_a_text_that_the_model_is_blind_to_is_counted_by_its_length(text: str) -> None:
    assert COUNT(text) >= 1000


def test_a_file_s_tokenizer_is_there_once_and_says_what_it_cut_off() -> None:
    found = open_tokenizer(TOKENIZER, 16).encode("vault " * 50, add_special_tokens=False)
    whole = open_tokenizer(TOKENIZER, 1000).encode("vault " * 50, add_special_tokens=False)
    assert open_tokenizer(TOKENIZER, 16) is open_tokenizer(TOKENIZER, 16)
    rest = [n for part in found.overflowing for n in part.ids]
    assert (len(found.ids) <= 16, found.ids + rest) == (True, whole.ids)


def test_parts_between_blanks_add_up() -> None:
    assert COUNT(ENGLISH * 7) == 7 * COUNT(ENGLISH)
