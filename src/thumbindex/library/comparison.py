"""Compare a folder with its index: which files are new, changed, removed or private."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from thumbindex.corpus.read import read_digest
from thumbindex.corpus.walk import find_changes, walk
from thumbindex.encode.provisional import TABLE_VERSION
from thumbindex.errors import UnknownFolderError
from thumbindex.index.builds import INCOMPLETE
from thumbindex.index.document_dates import newest_time
from thumbindex.index.files import IndexPaths
from thumbindex.index.private_files import is_erased, private_states
from thumbindex.index.segments import verify_segments
from thumbindex.index.store import Store
from thumbindex.library.indexed_folders import Folder
from thumbindex.model import Changes, FileState, Problem
from thumbindex.text import plural

PARSE_VERSION = 13
"""Parser version. Increase it when parsing or chunking changes, to parse every file again."""


@dataclass(frozen=True, slots=True)
class IndexedFiles:
    """The files that an index contains, and whether the last indexing run was complete."""

    manifest: Mapping[str, FileState]
    parser_key: str  # of the parser that parsed the files
    problems: frozenset[Problem]  # of files that did not become documents
    is_settled: bool  # the last run was complete: links resolved, private text erased
    generation: int
    private: Mapping[str, FileState] = field(default_factory=dict)  # private files by path
    newest: float = 0.0  # latest modification time in seconds; 0 without files
    model: str = ""  # fingerprint of the model that makes the vectors; empty until one is chosen

    def is_complete(self, problems: Sequence[Problem]) -> bool:
        """Return whether the last run was complete and recorded exactly these problems."""
        return self.is_settled and self.problems == set(problems)


def read_indexed_files(index_paths: IndexPaths, paths: Collection[str] = ()) -> IndexedFiles:
    """Read the manifest, and the private files among `paths`, without the writer's lock.

    Raises StorageError if there is no readable index.
    """
    with closing(Store(index_paths.store, read_only=True)) as store:
        return indexed_files_of(store, paths)


def indexed_files_of(store: Store, paths: Collection[str]) -> IndexedFiles:
    """Read the manifest from an open store, and the private files among `paths`."""
    with store.read_transaction():
        verify_segments(store.segments_folder, store.segments())
        manifest = store.manifest()
        problems = frozenset(
            problem for problem in store.problems() if problem.path not in manifest
        )
        settled = (
            store.meta("links") == "resolved"
            and is_erased(store)
            and store.meta("corpus") != ""
            and not store.meta(INCOMPLETE)
        )
        return IndexedFiles(
            manifest,
            store.meta("corpus"),
            problems,
            settled,
            store.generation,
            private_states(store, paths),
            newest_time(store),
            store.meta("fingerprint"),
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of `compare_folder`, with the privacy rules applied."""

    changes: Changes
    states: Sequence[FileState]  # of all files on disk
    metadata_only: Collection[str]  # paths with unchanged content and a new size, time or inode
    problems: Sequence[Problem]  # of the walk
    modified: Mapping[str, float]  # modification time by path, in seconds
    indexed: IndexedFiles

    @property
    def is_empty(self) -> bool:
        """Whether the index needs no update."""
        changes = self.changes
        is_same = not (changes.added or changes.changed or changes.removed or self.metadata_only)
        return is_same and self.indexed.is_complete(self.problems)


def compare_folder(
    folder: Folder,
    read_index: Callable[[Collection[str]], IndexedFiles],
    *,
    verify: bool = False,
    may_be_empty: bool = False,
) -> Comparison:
    """Walk the folder and compare the files with the index.

    Reads only files whose size or times differ; with `verify`, reads all files. Without
    `may_be_empty`, raises UnknownFolderError for an empty folder with a non-empty index.
    """
    now = time.time_ns()
    states, problems = walk(folder.root, folder.config.corpus)
    paths = [state.path for state in states]
    indexed = read_index(paths)
    file_changes = find_changes(
        {**indexed.manifest, **indexed.private},
        states,
        lambda path: read_digest(folder.root, path, folder.config.corpus),
        now_ns=now,
        verify=verify,
    )
    if file_changes.changes.removed and not may_be_empty:
        _refuse_empty_folder(folder.root, len(indexed.manifest))
    problems = without_private_links(problems, indexed.private)
    return Comparison(
        effective_changes(
            file_changes.changes, problems, indexed.private, is_closed=folder.config.blocks_indexing
        ),
        file_changes.states,
        file_changes.metadata_only,
        problems,
        {state.path: state.mtime_ns / 1e9 for state in states},
        indexed,
    )


def effective_changes(
    changes: Changes, problems: Sequence[Problem], private: Collection[str], *, is_closed: bool
) -> Changes:
    """Return the changes to apply to the index.

    Changed files in `private` count as added. Files in an unreadable directory are not removed. If
    the privacy rules cannot be read (`is_closed`), nothing is added, and changed files are removed.
    """
    readded = tuple(path for path in changes.changed if path in private)
    changed = tuple(path for path in changes.changed if path not in private)
    unlisted = {problem.path for problem in problems}
    hidden = ("",) if "." in unlisted else tuple(f"{path.rstrip('/')}/" for path in unlisted)
    removed = tuple(
        path for path in changes.removed if path not in unlisted and not path.startswith(hidden)
    )
    unchanged = changes.unchanged - (len(private) - len(readded))
    if is_closed:
        return Changes((), (), (*removed, *changed), unchanged)
    return Changes((*changes.added, *readded), changed, removed, unchanged)


def _refuse_empty_folder(root: Path, documents: int) -> None:
    """Raise UnknownFolderError for an empty folder: its drive may not be mounted."""
    if is_empty_folder(root):
        raise UnknownFolderError(
            f"The folder {root} is empty, but its index has {plural(documents, 'document')}. "
            "Nothing was deleted: the drive may not be mounted. If you emptied the folder on "
            "purpose, run `thumbindex index --rebuild`."
        )


def is_empty_folder(root: Path) -> bool:
    """Return whether a folder is empty, missing or unreadable."""
    try:
        with os.scandir(root) as entries:  # one entry only: every query calls this
            return next(entries, None) is None
    except OSError:
        return True


def without_private_links(
    problems: Sequence[Problem], private: Iterable[str]
) -> tuple[Problem, ...]:
    """Drop problems with symlinks to private notes."""
    paths = tuple(f" -> {path}" for path in private)
    return tuple(problem for problem in problems if not (paths and problem.path.endswith(paths)))


def current_parser_key(folder: Folder) -> str:
    """Return the versions and settings that parsing depends on. A change reindexes every file."""
    tags, in_vault = folder.config.corpus.private.tags, folder.is_in_vault("note.md")
    return f"{PARSE_VERSION} {TABLE_VERSION} {folder.config.corpus.chunk!r} {tags!r} {in_vault}"
