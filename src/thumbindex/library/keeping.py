"""What a library does to the indexes of its folders: brings them up to the disk, gives vectors, repairs, forgets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from thumbindex.errors import IndexDamagedError
from thumbindex.index.locking import is_held, locked
from thumbindex.index.repair import looks_whole, mend
from thumbindex.index.writer import Writer, delete_index
from thumbindex.library.embedding import embed_folder
from thumbindex.library.folders import Folder
from thumbindex.library.freshness import announced, await_others
from thumbindex.library.indexing import Run, Sizes, index_folders
from thumbindex.library.reader import Reader
from thumbindex.model import FolderStatus, IndexReport, Pause, Progress
from thumbindex.ports import Embedder

_LOG = logging.getLogger(__name__)


class Kept:
    """Some folders' indexes, kept up to the disk."""

    _readers: tuple[Reader, ...]
    _open_embedder: Callable[[str], Embedder]
    _known: Callable[[Sequence[str]], Sequence[str]]
    status: Callable[[], tuple[FolderStatus, ...]]

    def index(
        self,
        *,
        words_only: bool = False,
        rebuild: bool = False,
        verify: bool = False,
        progress: Callable[[Progress], None] | None = None,
        folder: Sequence[str] = (),
        interrupted: Callable[[], bool] = lambda: False,
        sizes: Sizes = "all",
        after_others: bool = False,
    ) -> IndexReport:
        """Bring the indexes up to the disk; another process that writes is waited for, and what is damaged or of an earlier schema is repaired.

        `interrupted` is asked between two batches: where it says so, the rest is left for the next call. `sizes` leaves large files
        to another call, or takes only those. With `after_others` a run of another process is waited for, and only what it leaves is done.
        `verify` compares every file's digest, and reads the index whole. Raises ModelError where no model can be had: the words are kept by then.
        """
        folders = self._chosen(folder)
        show = progress or (lambda _: None)
        for each in folders if after_others else ():
            await_others(each, show, interrupted, words_only=words_only)
        with announced(folders, show) as tell:
            run = Run(words_only, rebuild, verify, tell, interrupted, sizes)
            mended = self.repair(folder, progress=tell) if verify else ()
            try:
                report = index_folders(folders, run, self._open_embedder)
            except IndexDamagedError:
                mended += (done := self.repair(folder, progress=tell))
                if not done:
                    raise
                report = self._index_repaired(folders, run)
        return replace(report, mended=mended)

    def _index_repaired(self, folders: Sequence[Folder], run: Run) -> IndexReport:
        try:
            return index_folders(folders, run, self._open_embedder)
        except IndexDamagedError as error:
            raise IndexDamagedError(f"{error} It was rebuilt a moment ago: the disk may be failing, choose another one with --index.") from error

    def embed(
        self, folder: Sequence[str] = (), *, progress: Callable[[Progress], None] = lambda _: None, interrupted: Callable[[], bool] = lambda: False
    ) -> tuple[str, ...]:
        """Give vectors to what has none, comparing nothing with the disk; return what had to be repaired, in words: its notes are to be read anew."""
        folders = self._chosen(folder)
        try:
            with announced(folders, progress) as tell:
                for each in folders:
                    embed_folder(each, self._open_embedder, tell, interrupted)
        except IndexDamagedError:
            if not (mended := self.repair(folder, progress=progress)):
                raise
            return mended
        return ()

    def merge(self, folder: Sequence[str] = (), *, pause: Pause = "leisure") -> None:
        """Make fewer segments of the keyword indexes, to which each edit adds one, as far as the pause allows in which that is done."""
        for each in self._chosen(folder):
            with Writer.open(each.places.folder) as writer:
                writer.merge_keyword(pause)

    def _chosen(self, folder: Sequence[str]) -> list[Folder]:
        return [each.folder for each in self._readers if not self._known(folder) or each.folder.name in folder]

    def repair(self, folder: Sequence[str] = (), *, progress: Callable[[Progress], None] | None = None) -> tuple[str, ...]:
        """Read the indexes whole; put aside what is damaged or of an earlier schema, and begin it anew with what can be salvaged.

        Return what was done, in words. The next `index` reads the notes; it asks the model for nothing whose vector could be salvaged.
        """
        self._known(folder)
        done = []
        for reader in self._readers:
            places = reader.folder.places
            if (not folder or reader.folder.name in folder) and not looks_whole(places):
                reader.close()
                with locked(places.lock):
                    done.append(mend(places, _teller(reader.folder.name, progress or (lambda _: None))))
        for sentence in filter(None, done):
            _LOG.warning(sentence)
        return tuple(filter(None, done))

    def watched(self) -> tuple[str, ...]:
        """Return the names of the folders that a server watches, and whose indexes it keeps."""
        return tuple(reader.folder.name for reader in self._readers if is_held(reader.folder.places.watch))

    def forget(self) -> tuple[FolderStatus, ...]:
        """Delete these folders' indexes; the notes are not touched. Raises IndexBusyError where another process is writing."""
        gone = tuple(status for status in self.status() if Path(status.location).is_dir())
        for reader in self._readers:
            reader.close()
            delete_index(reader.folder.places)
        return gone


def _teller(folder: str, progress: Callable[[Progress], None]) -> Callable[[str, int, int], None]:
    return lambda phase, done, total: progress(Progress(folder, phase, done, total))
