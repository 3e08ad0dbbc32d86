"""The writer: commits changes to the store and keyword index in one transaction, stores vectors,
and erases private notes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from thumbindex.errors import IndexMissingError, StorageError
from thumbindex.index.builds import INCOMPLETE, build_in_progress, delete_unused_vectors, open_store
from thumbindex.index.chunk_vectors import chunk_keys_among, replaced_provisional
from thumbindex.index.document_dates import (
    document_versions,
    mark_dates_unknown,
    set_commit_days,
    with_history,
)
from thumbindex.index.duplicate_tables import write_decisions
from thumbindex.index.files import IndexPaths, as_storage_errors, fsync_files, make_folder
from thumbindex.index.keyword_index import KeywordWriter, word_counts
from thumbindex.index.locks import hold_lock
from thumbindex.index.private_files import (
    ERASURE_DUE,
    add_private_states,
    is_erased,
    private_states,
    remove_private_notes,
    remove_private_states,
)
from thumbindex.index.row_codec import text_keys
from thumbindex.index.segments import open_segments, verify_segments
from thumbindex.index.store import Store, file_identity
from thumbindex.model import (
    Decision,
    Document,
    DocumentTimes,
    FileState,
    IdleTime,
    Link,
    LinkKind,
    ParsedDocument,
    Problem,
)
from thumbindex.ports import Vector

_LOG = logging.getLogger(__name__)

GIT_FAILURE = "git_failure"
"""Meta key for the reason why a folder's Git commits could not be read."""

MAX_VECTOR_RATIO = 2
"""Unused vectors are deleted if the ratio of stored to used vectors exceeds this. Until then, they
are kept, because a checkout or sync may bring their texts back.
"""

MIN_VECTORS = 1000
"""For `MAX_VECTOR_RATIO`, at least this many vectors count as used."""


def mark_words_changed(store: Store) -> None:
    """Make readers reload documents and words once this transaction is committed."""
    store.set_meta("words", str(store.generation + 1))


Resolve = Callable[[Link, str], str | None]
"""Takes a link and the path of its document. Returns the value of `Link.resolved`."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The changes of one commit."""

    documents: Sequence[tuple[FileState, ParsedDocument]] = ()
    removed: Sequence[str] = ()
    metadata_only: Sequence[tuple[FileState, float]] = ()  # with modification times in seconds
    # all problems of files that are not documents; None keeps the stored ones
    problems: Sequence[Problem] | None = None
    last: bool = True  # the last batch of a run: links are resolved
    # stored states when files were compared. A path is skipped if its stored state has changed
    # since. None if no other process can have written
    expected_states: Mapping[str, FileState] | None = None
    failed: Sequence[Problem] = ()  # added if `problems` is None
    erase: frozenset[str] = frozenset()  # removed paths whose texts are erased from all files
    private: Sequence[FileState] = ()  # private files: only their states are stored
    listed: Collection[str] | None = None  # paths of all files, or None if some are unknown
    meta: Mapping[str, str] = field(default_factory=dict)  # meta values of the index
    # modification time of the newest indexed file, in seconds, or 0. New files count as edited if
    # they are newer
    newest_known_mtime: float = 0.0


_FileIdentity = tuple[Path, int, int] | None
_KEPT: ContextVar[dict[Path, tuple[Store, _FileIdentity]] | None] = ContextVar("kept", default=None)
"""The open stores of `keep_stores_open` by the index's folder, with their file's identity."""


@contextmanager
def keep_stores_open() -> Iterator[None]:
    """In this block, keep the store of each index open from one writer to the next.

    On a disk, opening and closing a store takes longer than a small commit.
    """
    stores: dict[Path, tuple[Store, _FileIdentity]] = {}
    token = _KEPT.set(stores)
    try:
        yield
    finally:
        _KEPT.reset(token)
        for store, _ in stores.values():
            store.close()


@contextmanager
def _open_kept(paths: IndexPaths) -> Iterator[Store]:
    """Open the store of a build, or use the kept one if it is still the build's file."""
    kept = _KEPT.get()
    store, identity = kept.pop(paths.folder, (None, None)) if kept is not None else (None, None)
    if store and identity != file_identity(paths.store):  # another build, or a deleted file
        store.close()
        store = None
    store = store or open_store(paths)
    try:
        yield store
    except BaseException:
        store.close()
        raise
    if kept is None:
        store.close()
    else:
        kept[paths.folder] = store, file_identity(paths.store)


class Writer:
    """Writes one folder's index. An open writer holds the folder's writer lock."""

    def __init__(self, paths: IndexPaths, store: Store) -> None:
        self.paths = paths
        self.store = store
        self.keyword_writer = KeywordWriter(store)

    @classmethod
    @contextmanager
    def open(
        cls, folder: Path, on_wait: Callable[[], None] | None = None, build: int = 0
    ) -> Iterator[Writer]:
        """Take the writer lock, and open the store of `build` or the current build.

        Calls `on_wait` twice a second while another process writes. Raises IndexDamagedError (see
        `builds.repair_index`).
        """
        paths = IndexPaths(folder)
        with as_storage_errors(folder):
            make_folder(folder)
        with hold_lock(paths.lock, on_wait):
            paths = paths.of_build(build)
            if build and not paths.store.exists():
                raise IndexMissingError(
                    f"Another process deleted the index in {folder} while it was being rebuilt. "
                    "Run `thumbindex index` again."
                )
            with _open_kept(paths) as store:
                paths.delete_other_builds(paths.build, build_in_progress(paths))
                writer = cls(paths, store)
                writer.keyword_writer.delete_unlisted_files()  # left by a killed writer
                yield writer
                writer.keyword_writer.delete_unlisted_files()

    def apply(self, batch: Batch, resolver: Callable[[Sequence[Document]], Resolve]) -> int:
        """Commit a batch, and return the number of skipped paths.

        A path is skipped if its stored state differs from `batch.expected_states`: another process
        has stored the file in the meantime, perhaps in a newer version.
        """
        count = _count_paths(batch)
        with self.store.transaction():
            batch = _drop_stale(batch, self.store)
            paths = [*batch.removed, *(state.path for state, _ in batch.documents)]
            before = _PriorState(
                _names(self.store, paths),
                self.store.signed_row_ids(paths),
                _link_targets(self.store, paths),
            )
            added = self._write_rows(batch)
            must_resolve_all = self.store.meta("links") == "stale" or before.names != _names(
                self.store, paths
            )
            if batch.last:
                changed = {state.path for state, _ in batch.documents}
                self._resolve_links(resolver, None if must_resolve_all else changed, before.targets)
            has_changed = must_resolve_all or bool(batch.documents or batch.removed)
            is_stale = has_changed and not batch.last
            self.store.set_meta("links", "stale" if is_stale else "resolved")
            for key, value in batch.meta.items():
                self.store.set_meta(key, value)
            verify_segments(self.store.segments_folder, self.store.segments())
            if before.rows or added:
                self.keyword_writer.apply(sorted(before.rows), added)
            mark_words_changed(self.store)
        return count - _count_paths(batch)

    def _write_rows(self, batch: Batch) -> Sequence[tuple[int, ParsedDocument]]:
        """Write a batch to the store. Return the documents with their row ids."""
        self.store.remove_documents([path for path in batch.removed if path not in batch.erase])
        already_private = private_states(self.store, [state.path for state in batch.private])
        remove_private_notes(
            self.store,
            [path for path in batch.removed if path in batch.erase],
            is_new=len(already_private) < len(batch.private),
        )
        paths = [state.path for state, _ in batch.documents]
        add_private_states(self.store, batch.private)
        remove_private_states(self.store, public=paths, listed=batch.listed)
        versions = self._prior_versions(paths)
        self.store.remove_documents(batch.removed)
        added: list[tuple[int, ParsedDocument]] = []
        for state, parsed in batch.documents:
            document = with_history(
                parsed.document, state.digest, versions.get(state.path), batch.newest_known_mtime
            )
            keys = parsed.keys or text_keys(parsed)
            parsed = replace(parsed, document=document, keys=keys)
            added.append((self.store.add_document(state, parsed), parsed))
        for state, modified in batch.metadata_only:
            self.store.update_file_state(state, modified)
        if batch.problems is None:
            self.store.add_problems(batch.failed)
        else:
            self.store.replace_walk_problems(batch.problems)
        return added

    def _prior_versions(self, paths: Sequence[str]) -> dict[str, tuple[str, DocumentTimes]]:
        """Return the stored digest and times of documents, keyed by path."""
        # an incomplete new build lacks documents: look them up in the current build
        current: dict[str, tuple[str, DocumentTimes]] = {}
        if self.store.meta(INCOMPLETE) and self.paths.build != self.paths.current_build:
            with (
                suppress(StorageError),
                closing(
                    Store(self.paths.of_build(self.paths.current_build).store, read_only=True)
                ) as store,
            ):
                current = document_versions(store, paths)
        return current | document_versions(self.store, paths)

    def store_commit_dates(
        self, days: Mapping[str, tuple[str, str]] | None, commit: str, failure: str = ""
    ) -> None:
        """Store the days of each document's first and last Git commit.

        `commit` is the Git commit at which `days` were read. If `days` is None, the stored days are
        kept. `failure` is the reason why Git could not be read, if any.
        """
        with self.store.transaction():
            if days is None:
                mark_dates_unknown(self.store)
            else:
                set_commit_days(self.store, days)
            self.store.set_meta("commit", commit)
            self.store.set_meta(GIT_FAILURE, failure)
            mark_words_changed(self.store)  # readers reload the days

    def _resolve_links(
        self,
        resolver: Callable[[Sequence[Document]], Resolve],
        only: set[str] | None,
        prior_targets: LinkTargets,
    ) -> None:
        """Resolve the links of the documents at the paths in `only`.

        If names have changed, `only` is None and the links of all documents are resolved. If
        neither names nor links have changed, `prior_targets` are used instead of `resolver`.
        """
        links = self.store.links(only)
        keys = {(path, link.kind, link.target) for path, _, link in links}
        targets_unchanged = only is not None and keys <= prior_targets.keys()
        resolve = (
            (lambda link, path: prior_targets[path, link.kind, link.target])
            if targets_unchanged
            else resolver(self.store.linkable_documents())
        )
        for path, ordinal, link in links:
            resolved = resolve(link, path)
            if resolved != link.resolved:
                self.store.resolve_link(path, ordinal, resolved)

    def set_meta(self, key: str, value: str, **more: str) -> None:
        """Commit meta values of the index if they have changed."""
        values = {key: value, **more}
        if any(self.store.meta(name) != new for name, new in values.items()):
            with self.store.transaction():
                for name, new in values.items():
                    self.store.set_meta(name, new)

    def word_counts(self) -> Mapping[str, int]:
        """Return the number of occurrences of each unstemmed word."""
        return word_counts(
            segment
            for segment, _ in open_segments(self.store.segments_folder, self.store.segments())
        )

    def erase_private(self) -> bool:
        """Erase the texts of removed private notes from all files.

        Returns False if texts may remain. Texts can remain until all open snapshots are closed.
        """
        if is_erased(self.store):
            return True
        if self.paths.build != self.paths.current_build:  # the old build still has the texts
            return False
        with self.store.transaction():
            verify_segments(self.store.segments_folder, self.store.segments())
            self.keyword_writer.erase_deleted_rows()
        self.keyword_writer.delete_unlisted_files()
        # fsync before the erasure is recorded as done: a power cut must not restore old files
        fsync_files(self.store.segments_folder)
        delete_unused_vectors(self.paths.folder.parent)
        is_erased_from = [
            self.paths.delete_other_builds(build_in_progress(self.paths)),
            self.store.truncate_log(),
        ]
        if all(is_erased_from):
            self.set_meta(ERASURE_DUE, "")
        return all(is_erased_from)

    def merge_keyword(self, idle: IdleTime = "long") -> None:
        """Merge small segments, because each edit adds one."""
        verify_segments(self.store.segments_folder, self.store.segments())
        self.keyword_writer.merge(idle)

    def store_vectors(
        self,
        vectors: Mapping[bytes, Vector],
        rows: Sequence[int] = (),
        *,
        words_generation: str = "",
    ) -> None:
        """Store vectors by the keys of their texts, and bump the generation.

        Skips texts that no longer belong to a chunk. To find their chunks, `rows` are searched
        first. If `words_generation` is given, the texts are the vocabulary of that generation. They
        are all skipped if the words of the index have changed since.
        """
        if not (vectors and self.store.vectors):
            return
        if not words_generation:
            present = chunk_keys_among(self.store, vectors.keys(), rows)
        elif words_generation == self.store.meta("words", "0"):
            present = set(vectors)
        else:
            present = set()
        if keys := [key for key in vectors if key in present]:
            self.store.vectors.add(keys, np.stack([vectors[key] for key in keys]))
        self.store.bump_generation()

    def set_model(self, meta: Mapping[str, str]) -> None:
        """Store the meta values of a model. Another model's provisional vectors are deleted."""
        if all(self.store.meta(name) == value for name, value in meta.items()):
            return
        with self.store.transaction():
            if self.store.meta("fingerprint") not in ("", meta["fingerprint"]):
                self.store.execute("DELETE FROM provisional")
            for name, value in meta.items():
                self.store.set_meta(name, value)

    def drop_provisional(self) -> None:
        """Delete the provisional vectors of chunks that have an exact vector."""
        if rows := replaced_provisional(self.store):
            with self.store.transaction():
                self.store.execute_many("DELETE FROM provisional WHERE chunk = ?", rows)

    def limit_unused_vectors(self) -> None:
        """Delete unused vectors if the ratio of stored to used ones exceeds `MAX_VECTOR_RATIO`."""
        vectors = self.store.vectors
        if not vectors:
            return
        count = vectors.count()
        in_use = max(int(vectors.meta("used_count", "0")), self.store.count_chunks(), MIN_VECTORS)
        if count > MAX_VECTOR_RATIO * in_use:
            delete_unused_vectors(self.paths.folder.parent)

    def store_decisions(
        self, decisions: Iterable[Decision] = (), undone: Iterable[tuple[str, str]] = ()
    ) -> int:
        """Store the user's decisions, and remove undone ones. Return the number removed."""
        removed = write_decisions(self.store.decisions_file, decisions, undone)
        with self.store.transaction():
            self.store.duplicates.record_decisions()
        return removed


LinkTargets = Mapping[tuple[str, LinkKind, str], str | None]
"""The target path of each link, keyed by document path, kind of link and target as written."""


@dataclass(frozen=True, slots=True)
class _PriorState:
    """The stored names, rows and link targets of a batch's paths before the batch is written."""

    names: set[tuple[Any, ...]]
    rows: set[int]
    targets: LinkTargets


def _drop_stale(batch: Batch, store: Store) -> Batch:
    """Return a batch without the paths whose stored states differ from `expected_states`."""
    if batch.expected_states is None:
        return batch
    expected = batch.expected_states
    paths = {
        *batch.removed,
        *(state.path for state, _ in (*batch.documents, *batch.metadata_only)),
        *(state.path for state in batch.private),
    }
    current = store.manifest(list(paths)) | private_states(store, paths)
    unchanged = {path for path in paths if current.get(path) == expected.get(path)}
    return replace(
        batch,
        documents=[(state, parsed) for state, parsed in batch.documents if state.path in unchanged],
        removed=[path for path in batch.removed if path in unchanged],
        metadata_only=[
            (state, modified) for state, modified in batch.metadata_only if state.path in unchanged
        ],
        private=[state for state in batch.private if state.path in unchanged],
    )


def _count_paths(batch: Batch) -> int:
    return len(batch.documents) + len(batch.removed) + len(batch.metadata_only) + len(batch.private)


def _link_targets(store: Store, paths: Sequence[str]) -> LinkTargets:
    return {(path, link.kind, link.target): link.resolved for path, _, link in store.links(paths)}


def _names(store: Store, paths: Sequence[str]) -> set[tuple[Any, ...]]:
    return {
        (document.path, document.title, document.aliases, *document.properties.items())
        for document in store.linkable_documents(paths)
    }
