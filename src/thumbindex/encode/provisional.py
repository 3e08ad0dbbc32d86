"""Provisional vectors: weighted sums of token vectors, near the bundled model's vector of a text.

A vector takes a hundredth of the model's time. It is used until the exact vector exists.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from thumbindex.encode.embed import bundled_fingerprint, open_tokenizer
from thumbindex.encode.models import BUNDLED, BUNDLED_FILES, BUNDLED_NAMES, bundled_folder
from thumbindex.errors import ModelError
from thumbindex.ports import IntArray, Matrix, Vector
from thumbindex.settings import EmbedSettings

TABLE = "token_table.npy"
"""The bundled table, in the folder of the bundled model. Built by `scripts/build_table.py`."""

TABLE_VERSION = f"static-1-{BUNDLED_FILES[TABLE][1][:8]}"
"""Identifies the bundled table in an index: with another table, all notes are indexed again."""

TABLE_ROW = np.dtype([("scale", "<f4"), ("vector", "i1", (384,))])
"""One row for each token. The token's vector is `vector * scale`."""

_MAX_TOKENS = 254
"""Tokens of a text that the model reads. Its window also has two special ones."""

_PAD = 0
"""The token of a text that has none."""

_WORD = re.compile(r"[^\s!-/:-@\[-`{-~]+|[!-/:-@\[-`{-~]")
"""The parts of a text that can be tokenized separately."""

_MAX_CACHED_WORD = 30
"""Maximum characters of a word whose tokens are cached."""

_WORD_CACHE_SIZE = 1 << 15


class TokenCounter:
    """Counts the tokens of texts with the bundled model's tokenizer."""

    def __init__(self) -> None:
        self._tokenizer = open_tokenizer(bundled_folder() / "tokenizer.json", _MAX_TOKENS + 2)
        self._cached_ids = lru_cache(maxsize=_WORD_CACHE_SIZE)(self._ids_of_word)

    def vocabulary(self) -> list[str]:
        """Return a text for each token, in the order of ids."""
        size = self._tokenizer.get_vocab_size()
        return [self._tokenizer.id_to_token(token).removeprefix("##") for token in range(size)]

    def ids(self, text: str) -> list[int]:
        """Return the first tokens of a text, without special ones.

        The tokens of words are cached, which takes a quarter of the tokenizer's time.
        """
        ids: list[int] = []
        for word in _WORD.findall(text):
            short = len(word) <= _MAX_CACHED_WORD
            ids += self._cached_ids(word) if short else self._ids_of_word(word)
            if len(ids) >= _MAX_TOKENS:
                break
        return ids[:_MAX_TOKENS]

    def weights(self, text: str) -> tuple[IntArray, Vector]:
        """Return the distinct tokens of a text, and `log(1 + occurrences)` of each.

        Occurrences in the heading, which a blank line follows, count twice.
        """
        heading, blank_line, _ = text.partition("\n\n")
        ids = self.ids(text) + (self.ids(heading) if blank_line else [])
        tokens, counts = np.unique(np.array(ids or [_PAD]), return_counts=True)
        return tokens, np.log1p(counts, dtype=np.float32)

    def _ids_of_word(self, word: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(word, add_special_tokens=False).ids)


class TokenTable:
    """Embeds texts with a table of token vectors."""

    def __init__(self, path: Path | None = None) -> None:
        path = path or bundled_folder() / TABLE
        try:  # `asarray`, because indexing a `memmap` is slower
            self._rows: npt.NDArray[np.void] = np.asarray(np.load(path, mmap_mode="r"))
        except (OSError, ValueError) as error:
            raise ModelError(f"{path} is damaged ({error}): reinstall thumbindex.") from error
        self._counter = TokenCounter()
        self.dimensions = TABLE_ROW["vector"].shape[0]
        self.name, self.fingerprint = BUNDLED, bundled_fingerprint()  # of the model

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Embed texts: shape (len(texts), dimensions). A row does not depend on other texts."""
        sums = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(sums, texts, strict=True):
            tokens, weights = self._counter.weights(text)
            entries = self._rows[tokens]
            np.dot(weights * entries["scale"], entries["vector"].astype(np.float32), out=row)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        units: Matrix = sums / np.maximum(lengths, np.finfo(np.float32).tiny)
        return units


@lru_cache(maxsize=1)
def bundled_table() -> TokenTable:
    """Open the table of the bundled model. Raises ModelError."""
    return TokenTable()


def table_for(settings: EmbedSettings, fingerprint: str) -> TokenTable | None:
    """Return the table if an index's vectors are, or will be, those of the bundled model.

    `fingerprint` is that of the index's model; empty if none is chosen yet. Raises ModelError.
    """
    if settings.model not in BUNDLED_NAMES or settings.runtime == "torch":
        return None
    return bundled_table() if fingerprint in ("", bundled_fingerprint()) else None
