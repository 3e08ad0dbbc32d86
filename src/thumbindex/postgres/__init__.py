"""Published folders: builders copy their indexes to PostgreSQL, and servers answer from there.

The public names are imported on first use, since the database driver is an optional extra and slow
to import.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thumbindex.postgres.database import Engine
    from thumbindex.postgres.publish import PublishJob, forget_folder, publish_folders
    from thumbindex.postgres.published_folders import (
        PublishedFolders,
        diagnose_database,
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
    "open_published_folders",
    "publish_folders",
]


def __getattr__(name: str) -> Any:
    """Import a public name of this package on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from thumbindex.postgres import database, publish, published_folders, published_store

    modules = (database, publish, published_folders, published_store)
    return next(getattr(module, name) for module in modules if hasattr(module, name))
