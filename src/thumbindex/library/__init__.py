"""Export `Library`, and the names that callers need before they open a library.

A module is loaded when a name from it is first used. Therefore, `--help` and a server's handshake
load no numpy, FAISS or model runtime.

Callers write `from thumbindex import library`, then `library.Library.open(...)`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` would take longer than everything else here

if TYPE_CHECKING:
    from typing import Any

    from thumbindex.index.locks import WatchLock as WatchLock
    from thumbindex.library.indexed_folders import Folder as Folder
    from thumbindex.library.indexed_folders import find_folders as find_folders
    from thumbindex.library.indexed_folders import index_paths_of as index_paths_of
    from thumbindex.library.library import Library as Library
    from thumbindex.library.reading import NoteText as NoteText
    from thumbindex.library.repeats import ingestion_warnings as ingestion_warnings
    from thumbindex.library.repeats import ingestion_words as ingestion_words
    from thumbindex.library.status import ModelHealth as ModelHealth
    from thumbindex.library.status import examine_model as examine_model
    from thumbindex.library.status import is_intact as is_intact

__all__ = [
    "Folder",
    "Library",
    "ModelHealth",
    "NoteText",
    "WatchLock",
    "examine_model",
    "find_folders",
    "index_paths_of",
    "ingestion_warnings",
    "ingestion_words",
    "is_intact",
]


def __getattr__(name: str) -> Any:
    """Load the modules of the library, and return the object with this name."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # imported late to keep the handshake and `--help` fast
    from thumbindex.index import locks
    from thumbindex.library import indexed_folders, library, reading, repeats, status, visibility

    modules = (library, indexed_folders, reading, repeats, status, visibility, locks)
    return next(getattr(module, name) for module in modules if hasattr(module, name))
