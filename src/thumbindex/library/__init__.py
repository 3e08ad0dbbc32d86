"""The composition root: opens the rooms over some folders and hands out what they can do."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from thumbindex.config import load_config, offline, resolve_folders, with_folder_file
from thumbindex.encode.embed import open_embedder
from thumbindex.encode.rerank import open_reranker
from thumbindex.errors import UnknownFolderError
from thumbindex.index.writer import Writer, is_writing
from thumbindex.library.answering import Reader, answer, folder_state
from thumbindex.library.folders import Folder, place_of
from thumbindex.library.indexing import Run, index_folders
from thumbindex.library.reading import find_document, outline_documents, outline_headings, read_excerpt, related_to
from thumbindex.model import Answer, Excerpt, Filters, FolderStatus, IndexReport, OutlineEntry, Progress, Query, Related
from thumbindex.ports import Embedder, Reranker
from thumbindex.settings import Config


class Library:
    """Some folders of Markdown, indexed and asked as one. Cheap to open; safe to ask from several threads."""

    def __init__(self, folders: Sequence[Folder], config: Config, embedder: Embedder | None = None, reranker: Reranker | None = None) -> None:
        self.config = config
        self._readers = tuple(Reader(folder) for folder in folders)
        self._embedder, self._reranker = embedder, reranker
        self._for_indexing: dict[str, Embedder] = {}  # by the name that was asked for, and its own
        self._loading = threading.Lock()

    @classmethod
    def open(
        cls,
        folders: Sequence[str | Path] = (),
        *,
        index: str | Path | None = None,
        config: Config | None = None,
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
    ) -> Library:
        """Open folders by path or configured name; with none, the configured ones, else the current folder."""
        config = config or load_config()
        directory = str(index) if index is not None else config.index.directory
        found = [Folder(name, root, place_of(directory, root), with_folder_file(config, root)) for name, root in resolve_folders(config, folders)]
        return cls(found, found[0].config if len(found) == 1 else config, embedder, reranker)

    @property
    def folders(self) -> tuple[tuple[str, Path], ...]:
        """Name and absolute path of each folder."""
        return tuple((reader.folder.name, reader.folder.root) for reader in self._readers)

    @property
    def opened(self) -> tuple[Folder, ...]:
        """Each folder with the place of its index and the configuration that holds for it."""
        return tuple(reader.folder for reader in self._readers)

    # -------------------------------------------------------------- indexing

    def index(
        self,
        *,
        words_only: bool = False,
        rebuild: bool = False,
        verify: bool = False,
        progress: Callable[[Progress], None] | None = None,
        folder: Sequence[str] = (),
        interrupted: Callable[[], bool] = lambda: False,
    ) -> IndexReport:
        """Bring the indexes up to the disk; another process that writes is waited for.

        `interrupted` is asked between two batches of vectors: where it says so, the rest is left for the next call.
        Raises ModelError where no model can be had: the words are kept by then.
        """
        self._known(folder)
        run = Run(words_only, rebuild, verify, progress or (lambda _: None), interrupted)
        return index_folders([each for each in self.opened if not folder or each.name in folder], run, self._open_embedder)

    def forget(self) -> tuple[FolderStatus, ...]:
        """Delete these folders' indexes; the notes are not touched."""
        gone = tuple(status for status in self.status() if status.indexed)
        for reader in self._readers:
            reader.close()
            if reader.folder.places.folder.is_dir():
                with Writer.open(reader.folder.places.folder):
                    pass
                shutil.rmtree(reader.folder.places.folder)
        return gone

    # -------------------------------------------------------------- models

    @property
    def models_ready(self) -> bool:
        """Tell whether queries can be embedded."""
        return self._embedder is not None

    def load_models(self) -> None:
        """Load what queries need: the model that the indexes were made with. Without one, words alone are searched."""
        with self._loading:
            name = next((state.model for reader in self._readers if (state := folder_state(reader)).model), "")
            if self._embedder is None and name:
                self._embedder = self._open_embedder(name)
            if self._reranker is None and self._embedder is not None and self.config.query.rerank.enabled:
                self._reranker = open_reranker(self.config.encode.rerank, self._embedder, offline=offline())

    def _open_embedder(self, known: str) -> Embedder:
        if self._embedder is not None:
            return self._embedder
        settings = self.config.encode.embed
        if known and settings.model == "auto":
            settings = replace(settings, model=known)
        if settings.model not in self._for_indexing:
            embedder = open_embedder(settings, offline=offline())
            self._for_indexing.update({settings.model: embedder, embedder.name: embedder})
        return self._for_indexing[settings.model]

    # -------------------------------------------------------------- answering

    def query(
        self,
        text: str,
        *,
        limit: int | None = None,
        folder: Sequence[str] = (),
        path: Sequence[str] = (),
        tag: Sequence[str] = (),
        since: date | None = None,
    ) -> Answer:
        """Answer from what is indexed now; indexes nothing and waits for no model."""
        self._known(folder)
        filters = Filters(tuple(folder), tuple(path), tuple(tag), since)
        query = Query(text, limit or self.config.query.limit, filters)
        return answer(query, self._readers, self.config.query, self._embedder, self._reranker)

    def read(self, path: str, *, folder: str | None = None, heading: str | None = None, lines: tuple[int, int] | None = None) -> Excerpt:
        """Return a document's lines: all of them, those under a heading, or a range."""
        reader, _, document = find_document(path, self._within(folder))
        return read_excerpt(reader, document, heading, lines)

    def outline(self, path: str | None = None, *, folder: str | None = None) -> tuple[OutlineEntry, ...]:
        """Return a document's headings, or every document."""
        if path is None:
            return outline_documents(self._within(folder))
        reader, _, document = find_document(path, self._within(folder))
        return outline_headings(reader, document)

    def related(self, path: str, *, folder: str | None = None, limit: int = 10) -> Related:
        """Return what links to a document, what it links to, and what is most like it."""
        reader, own, document = find_document(path, self._within(folder))
        return related_to(reader, own, document, limit)

    def status(self) -> tuple[FolderStatus, ...]:
        """Return the state of each folder's index."""
        return tuple(_status(reader) for reader in self._readers)

    def _within(self, folder: str | None) -> tuple[Reader, ...]:
        return self._readers if folder is None else tuple(r for r in self._readers if r.folder.name in self._known([folder]))

    def _known(self, folders: Sequence[str]) -> Sequence[str]:
        names = [reader.folder.name for reader in self._readers]
        for folder in folders:
            if folder not in names:
                raise UnknownFolderError(f"No folder {folder!r} here: there is {', '.join(names)}.")
        return folders

    # -------------------------------------------------------------- closing

    def close(self) -> None:
        """Close the files."""
        for reader in self._readers:
            reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _status(reader: Reader) -> FolderStatus:
    folder, places = reader.folder, reader.folder.places
    base = (folder.name, str(folder.root), str(places.folder), reader.indexed)
    if not reader.indexed:
        return FolderStatus(*base, 0, folder_state(reader), (), 0, 0, is_writing(places), "")
    size = sum(path.stat().st_size for path in places.folder.rglob("*") if path.is_file())
    updated = datetime.fromtimestamp(places.store.stat().st_mtime).astimezone().isoformat(timespec="seconds")
    resolved, dangling = reader.store.link_counts()
    return FolderStatus(*base, size, folder_state(reader), reader.store.problems(), resolved, dangling, is_writing(places), updated)
