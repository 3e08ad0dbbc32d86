"""Which of Whoosh's files count: a commit leaves those of the commit before in place until the stamp says that they no longer do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from whoosh.filedb.filestore import FileStorage
from whoosh.index import TOC

from thumbindex.index.stamp import damaged, read_contents, verify

Opened = TypeVar("Opened")

_NAME = "MAIN"


class KeepsFiles:
    """For Whoosh's writer: a commit writes its table of contents and deletes nothing, so that readers can open the commit before."""

    def _commit_toc(self: Any, segments: Any) -> None:
        TOC(self.schema, segments, self.generation).write(self.storage, self.indexname)


def stamped_contents(folder: Path) -> Any:
    """Return the table of contents that the stamp names, all files of the index verified; raise IndexDamagedError.

    A commit may come before its segments are opened: one that is not found any more is in another table of contents by then.
    """
    files = verify(folder).files
    (generation,) = (int(match[1]) for match in map(TOC._pattern(_NAME).match, files) if match)
    return TOC.read(FileStorage(str(folder)), _NAME, generation)


def at_last_commit(folder: Path, open_it: Callable[[FileStorage, Any], Opened]) -> Opened:
    """Open something of the index as its stamp names it; where the next commit takes the files away meanwhile, as that one left it."""
    storage = FileStorage(str(folder))
    while True:
        stamped = read_contents(folder)
        try:
            return open_it(storage, stamped_contents(folder))
        except OSError as error:
            if read_contents(folder) == stamped:
                raise damaged(folder, error) from error


def counted_files(folder: Path) -> list[str]:
    """Return the names of the files that the newest table of contents is about, its own too."""
    storage = FileStorage(str(folder))
    contents = TOC.read(storage, _NAME)
    segments = [name for segment in contents.segments for name in (*segment.list_files(storage), segment.make_filename(segment.COMPOUND_EXT))]
    return sorted({TOC._filename(_NAME, contents.generation), *(name for name in segments if storage.file_exists(name))})
