"""Write a file that only its owner may read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_owner_file(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Write a file atomically, with access only for the owner.

    With `durable`, waits until the data is on disk. Raises OSError.
    """
    handle, new = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # has mode 0600
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - an open descriptor has no path
            file.write(content)
            file.flush()
            if durable:
                os.fsync(handle)
        Path(new).replace(path)
    except OSError:
        Path(new).unlink()
        raise
