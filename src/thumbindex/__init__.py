"""Thumbindex: a retrieval server for folders of Markdown.

`from thumbindex import Library` is all of it.
"""

from __future__ import annotations

from thumbindex import library

TYPE_CHECKING = False
"""As `typing` has it, which takes longer to import than Python takes to start: a command that a
server answers does without.
"""

if TYPE_CHECKING:
    from typing import Any

    from thumbindex.library import Library as Library

__all__ = ["Library"]


def __getattr__(name: str) -> Any:
    """Import the library when it is first asked for: every part of the package passes here, the
    handshake too.
    """
    if name == "Library":
        return library.Library
    if name == "__version__":
        # Imported here: every part of the package passes here, and few ask.
        from importlib.metadata import version

        return version("thumbindex")
    raise AttributeError(f"module 'thumbindex' has no attribute {name!r}")
