"""Folders in PostgreSQL: builders publish their indexes, any number of servers answer from them.

This package is the door for all others: a name is imported on first use, since the driver is an
extra and slow to import.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thumbindex.postgres.database import Engine
    from thumbindex.postgres.publish import PublishJob, forget_folder, publish_folders
    from thumbindex.postgres.published_folders import (
        PublishedFolders,
        diagnose_database,
        list_published,
        open_published_folders,
    )
    from thumbindex.postgres.published_store import PublishedStore

__all__ = [
    "Engine",
    "PublishJob",
    "PublishedFolders",
    "PublishedStore",
    "diagnose_database",
    "forget_folder",
    "list_published",
    "open_published_folders",
    "publish_folders",
]


def __getattr__(name: str) -> Any:
    """Load the modules of this package, and return one of their names."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported here: the driver is an extra, and slow to import.
    from thumbindex.postgres import database, publish, published_folders, published_store

    modules = (database, publish, published_folders, published_store)
    return next(getattr(module, name) for module in modules if hasattr(module, name))
