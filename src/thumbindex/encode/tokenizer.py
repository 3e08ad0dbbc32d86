"""Opens tokenizers, each file once: what embeds texts and what counts their tokens mostly have the same, 7 MB of it."""

from __future__ import annotations

import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

_opening = threading.Lock()


def open_tokenizer(path: Path, window: int) -> Any:
    """Return a file's tokenizer, which cuts texts at so many tokens and says what it cut off; nobody may change it, for others have it too."""
    with _opening:
        return _opened(path, window)


@lru_cache(maxsize=2)
def _opened(path: Path, window: int) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()  # the file states what the model's makers padded to
    tokenizer.enable_truncation(window)
    return tokenizer
