"""Thumbindex: a retrieval server for folders of Markdown.

The public API is `from thumbindex import Library`.
"""

from __future__ import annotations

from thumbindex import library

TYPE_CHECKING = False
"""Replaces `typing.TYPE_CHECKING`: importing `typing` would double the start of a quick command."""

if TYPE_CHECKING:
    from typing import Any

    from thumbindex.library import Library as Library

__all__ = ["Library"]


def __getattr__(name: str) -> Any:
    """Import the library on first use, since every import of a submodule runs this module."""
    if name == "Library":
        return library.Library
    if name == "__version__":
        # Imported here: rarely used.
        from importlib.metadata import version

        return version("thumbindex")
    raise AttributeError(f"module 'thumbindex' has no attribute {name!r}")
