"""Recognize conflict copies, which programs that sync folders write beside a note."""

from __future__ import annotations

import re
from functools import lru_cache

_CONFLICT_MARK = re.compile(
    r"[ _]?[(（](?=[^()（）]{0,100}(?:confli|konflikt|冲突|衝突|競合))"
    r"(?=[^()（）]{0,100}(?:cop|kopi|c[oó]\u0301?pi|副本|複本|コピー|SF))"
    r"[^()（）]{0,100}\d{4}[^()（）]{0,100}[)）](?: \(\d{1,2}\))?"
    r"|[._-](?:sync-)?conflict-\d{8}-\d{6}(?:-\w{7})?(?![\w-])",
    re.IGNORECASE,
)
"""The mark in a name such as `x (conflicted copy 2024-05-01).md`."""


@lru_cache(maxsize=4096)
def conflict_original(path: str) -> str:
    """Return the path of the note that `path` is a conflict copy of, or an empty string."""
    original = _CONFLICT_MARK.sub("", path)
    return "" if original == path else original
