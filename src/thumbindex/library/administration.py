"""Looking after a database of published folders, by its address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from thumbindex.index.postgres import doctor
from thumbindex.index.postgres.database import Engine
from thumbindex.index.postgres.doctor import Check, PublishedFolder


def migrate(url: str) -> tuple[int, int]:
    """Make the tables, anew where they are of an earlier version; return that which was there, 0
    for none, and that which is.

    Raises EngineError.
    """
    with closing(Engine(url, writes=True)) as engine:
        return engine.migrate(), engine.version()


def published_folders(url: str) -> tuple[PublishedFolder, ...]:
    """Return what servers read from a database, by name. Raises EngineError."""
    with closing(Engine(url)) as engine:
        return doctor.published_folders(engine)


def examine_engine(url: str) -> Iterator[Check]:
    """Yield what is well and what is not of a database, one thing after another.

    Raises EngineError for an address that is none.
    """
    with closing(Engine(url)) as engine:
        yield from doctor.examine(engine)
