"""Thumbindex: a retrieval server for folders of Markdown.

The public API is `from thumbindex import Library`.
"""

from __future__ import annotations

from thumbindex import library

TYPE_CHECKING = False
"""Replaces `typing.TYPE_CHECKING`. Importing `typing` would double a command's startup time."""

if TYPE_CHECKING:
    from typing import Any

    from thumbindex.library import Library as Library

__all__ = ["Library"]


def __getattr__(name: str) -> Any:
    """Import `Library` only on first use, since importing any submodule runs this module."""
    if name == "Library":
        return library.Library
    if name == "__version__":
        # Imported here, since it is rarely used.
        from importlib.metadata import version

        return version("thumbindex")
    raise AttributeError(f"module 'thumbindex' has no attribute {name!r}")
