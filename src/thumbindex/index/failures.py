"""What a disk that is full, read-only or failing means for who uses the index."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from thumbindex.errors import StorageError

_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Tell an OSError that comes up while a file of the index is written as a StorageError: what happened, and what to do next."""
    try:
        yield
    except OSError as error:
        raise told(place, error) from error


def told(place: Path, error: OSError) -> StorageError:
    """Return what an error of the system means."""
    what = error.strerror or str(error)
    if error.errno in _FULL:
        return StorageError(f"The disk of {place} is full ({what}): free some space and run it again; what was indexed is as it was.")
    if error.errno in _REFUSED:
        return StorageError(f"{place} cannot be written ({what}): check its permissions, or choose another place with --index.")
    return StorageError(f"{place} cannot be written ({what}): check the disk and run it again; what was indexed is as it was.")
