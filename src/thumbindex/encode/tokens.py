"""Counts tokens as the bundled model's tokenizer does: it is always there, and no vocabulary has to be fetched to keep a budget."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from thumbindex.encode.models import BUNDLED_HASHES, bundled_folder
from thumbindex.encode.tokenizer import open_tokenizer

BYTES_A_TOKEN = 6
"""The most that one token may stand for: WordPiece sees no blanks, and one token in any word of a script that it does not know."""

BUNDLED_WINDOW = 256
"""Tokens at which the bundled model's texts are cut: with the same the tokenizer is the one that it is embedded with."""

_LONGEST_WORD = 100
"""Characters: of a longer word WordPiece makes one token, however long it is."""

_LONG = re.compile(rf"(\S{{{_LONGEST_WORD}}})(?=\S)")

_PLAIN = re.compile(r"[\t\n\r -~]*")
"""Texts that WordPiece takes apart in a way that is known without asking it: at blanks, and around each mark."""

_WORDS = re.compile(r"[0-9A-Za-z]+")
_MARKS = re.compile(r"[!-/:-@\[-`{-~]")

_WORDS_KEPT = 1 << 16


@lru_cache(maxsize=1)
def token_counter(cache: Path) -> Callable[[str], int]:
    """Return what counts a text's tokens: never less than the tokenizer of all-MiniLM-L6-v2. Raises ModelError where that is not installed."""
    name = "tokenizer.json"
    tokenizer = open_tokenizer(bundled_folder(cache, {name: BUNDLED_HASHES[name]}) / name, BUNDLED_WINDOW)

    def encoded(text: str) -> int:
        found = tokenizer.encode(text, add_special_tokens=False)
        return len(found.ids) + sum(len(rest.ids) for rest in found.overflowing)

    of_word = lru_cache(maxsize=_WORDS_KEPT)(encoded)

    def pieces(text: str) -> int:
        if not _PLAIN.fullmatch(text):
            return encoded(text)
        # An answer is counted several times while it is packed, and its words are nearly always known: six times as fast.
        words = Counter(_WORDS.findall(text.lower()))
        return sum(of_word(word) * count for word, count in words.items()) + len(_MARKS.findall(text))

    def count(text: str) -> int:
        least = -(-len(text.encode("utf-8", "replace")) // BYTES_A_TOKEN)
        split = _LONG.sub(r"\1 ", text)
        return max(least, pieces(text), pieces(split) if split != text else 0)

    return count
