"""A store that cannot be used as it is: put aside, never thrown away, and begun anew."""

from __future__ import annotations

from pathlib import Path

from thumbindex.errors import IndexDamagedError
from thumbindex.index.store import Store


def begin_anew(path: Path) -> Store:
    """Open a store that is to be rebuilt; a damaged one is put aside."""
    try:
        return Store(path)
    except IndexDamagedError:
        path.replace(path.with_name(f"{path.name}.damaged"))
        for companion in (f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(companion).unlink(missing_ok=True)
        return Store(path)
