"""The writer: applies what changed to the store in one transaction, brings the views up to it, and
takes private notes out of every file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from thumbindex.errors import IndexMissingError, StorageError
from thumbindex.index.builds import INCOMPLETE, build_in_progress, open_store, sweep_vectors
from thumbindex.index.chunk_vectors import chunk_keys_among
from thumbindex.index.document_dates import (
    document_versions,
    mark_dates_unknown,
    set_commit_days,
    with_history,
)
from thumbindex.index.duplicate_tables import write_decisions
from thumbindex.index.files import IndexPaths, as_storage_errors, fsync_files, make_folder
from thumbindex.index.keyword_index import (
    KeywordWriter,
    word_counts,
)
from thumbindex.index.locks import hold_lock
from thumbindex.index.private_files import (
    WIPE_DUE,
    add_private,
    forget_notes,
    is_wiped,
    private_states,
    remove_private,
)
from thumbindex.index.row_codec import document_from_row
from thumbindex.index.segments import open_segments, verify_segments
from thumbindex.index.store import Store
from thumbindex.model import (
    Chunk,
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
"""The fact that says why commits could not be read."""

ORPHAN_FACTOR, MIN_VECTORS = 2, 1000
"""Vectors without a text are kept for what may come back (a checkout, a sync), up to as many as
there are with one, and a few in any case.
"""


def record_words_change(store: Store) -> None:
    """Record in a transaction that rows or their words change."""
    store.set_meta("words", str(store.generation + 1))


Resolve = Callable[[Link, str], str | None]
"""Says to which path a link of the document at a path leads, or None."""

CHUNK_BATCH = 500
"""Chunks in memory while a keyword view is written."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one commit changes."""

    documents: Sequence[tuple[FileState, ParsedDocument]] = ()
    removed: Sequence[str] = ()
    metadata_only: Sequence[tuple[FileState, float]] = ()  # with the modified time in seconds
    # all there are about files that are no documents; None leaves them
    problems: Sequence[Problem] | None = None
    last: bool = True  # links are resolved with the last batch of a run
    # state of each path when it was compared; None if no one else can have written
    seen: Mapping[str, FileState] | None = None
    # about files of this batch, kept where `problems` does not say all
    failed: Sequence[Problem] = ()
    forgotten: frozenset[str] = frozenset()  # of those removed: not a trace of them is to stay
    private: Sequence[FileState] = ()  # files of which nothing but their states is kept
    listed: Collection[str] | None = None  # paths of all files there are; None where not all
    facts: Mapping[str, str] = field(default_factory=dict)  # about the index, kept with it
    # when the newest file that was known before was modified: what is later and new was written
    # since; 0 where none was
    newest: float = 0.0


class Writer:
    """Holds the writer's lock of one folder's index while it is open."""

    def __init__(self, places: IndexPaths, store: Store) -> None:
        self.places = places
        self.store = store
        self.keyword = KeywordWriter(store)

    @classmethod
    @contextmanager
    def open(
        cls, folder: Path, waiting: Callable[[], None] | None = None, build: int = 0
    ) -> Iterator[Writer]:
        """Take the lock (waiting for another writer, calling `waiting` now and then) and open the
        store of the current build, or of `build`.

        Raises IndexDamagedError; `builds.repair_index` repairs a damaged index.
        """
        places = IndexPaths(folder)
        with as_storage_errors(folder):
            make_folder(folder)
        with hold_lock(places.lock, waiting):
            places = places.at(build)
            if build and not places.store.exists():
                raise IndexMissingError(
                    f"The index in {folder} was forgotten by another process while it was "
                    "built anew: run it again."
                )
            places.sweep(places.build, build_in_progress(places))
            with closing(open_store(places)) as store:
                writer = cls(places, store)
                writer.keyword.delete_unlisted_files()  # what a writer that died had begun
                yield writer
                writer.keyword.delete_unlisted_files()

    def apply(self, batch: Batch, resolver: Callable[[Sequence[Document]], Resolve]) -> int:
        """Commit a batch: rows, links resolved, and words.

        Return how many paths were passed over, since another process has written them meanwhile:
        what it read may be newer.
        """
        given = _size(batch)
        with self.store.transaction():
            batch = _drop_stale(batch, self.store)
            paths = [*batch.removed, *(state.path for state, _ in batch.documents)]
            before = _PriorState(
                _names(self.store, paths),
                self.store.signed_row_ids(paths),
                _link_targets(self.store, paths),
            )
            self._write(batch)
            stale = self.store.meta("links") == "stale" or before.names != _names(self.store, paths)
            if batch.last:
                self._resolve_links(
                    resolver,
                    None if stale else {state.path for state, _ in batch.documents},
                    before.leads,
                )
            unresolved = not batch.last and bool(stale or batch.documents or batch.removed)
            self.store.set_meta("links", "stale" if unresolved else "resolved")
            for key, value in batch.facts.items():
                self.store.set_meta(key, value)
            now = self.store.signed_row_ids(paths)
            self._write_words(sorted(before.rows - now), sorted(now - before.rows))
        return given - _size(batch)

    def _write_words(self, gone: Sequence[int], new: Sequence[int]) -> None:
        """Take rows out of the index of words and add rows."""
        verify_segments(self.store.segments_folder, self.store.segments())
        known = self.store.documents([-row for row in new if row < 0])
        documents = [
            (-row, document_from_row(path, title, times, facts, folder=""))
            for row, path, title, times, facts in known
        ]
        chunks = [row for row in new if row > 0]
        if gone or documents or chunks:
            self.keyword.apply(gone, documents, self._read_chunks(chunks))
        record_words_change(self.store)

    def _write(self, batch: Batch) -> None:
        self.store.remove_documents([path for path in batch.removed if path not in batch.forgotten])
        known = private_states(self.store, [state.path for state in batch.private])
        forget_notes(
            self.store,
            [path for path in batch.removed if path in batch.forgotten],
            is_new=len(known) < len(batch.private),
        )
        paths = [state.path for state, _ in batch.documents]
        add_private(self.store, batch.private)
        remove_private(self.store, public=paths, listed=batch.listed)
        versions = self._versions(paths)
        self.store.remove_documents(batch.removed)
        for state, parsed in batch.documents:
            document = with_history(
                parsed.document, state.digest, versions.get(state.path), batch.newest
            )
            self.store.add_document(state, replace(parsed, document=document))
        for state, modified in batch.metadata_only:
            self.store.update_file_state(state, modified)
        if batch.problems is None:
            self.store.add_problems(batch.failed)
        else:
            self.store.replace_walk_problems(batch.problems)

    def _versions(self, paths: Sequence[str]) -> dict[str, tuple[str, DocumentTimes]]:
        """Return what was known of documents: an index that is built anew takes that from the
        present one.
        """
        known: dict[str, tuple[str, DocumentTimes]] = {}
        if self.store.meta(INCOMPLETE) and self.places.build != self.places.current_build:
            with (
                suppress(StorageError),
                closing(
                    Store(self.places.at(self.places.current_build).store, read_only=True)
                ) as present,
            ):
                known = document_versions(present, paths)
        return known | document_versions(self.store, paths)

    def keep_commits(
        self, days: Mapping[str, tuple[str, str]] | None, commit: str, failure: str = ""
    ) -> None:
        """Keep the days of the documents' commits, read at a commit; None where they were not read,
        perhaps for a `failure`: known ones stay.
        """
        with self.store.transaction():
            if days is None:
                mark_dates_unknown(self.store)
            else:
                set_commit_days(self.store, days)
            self.store.set_meta("commit", commit)
            self.store.set_meta(GIT_FAILURE, failure)
            record_words_change(self.store)  # readers open the days

    def _resolve_links(
        self,
        resolver: Callable[[Sequence[Document]], Resolve],
        only: set[str] | None,
        leads: LinkTargets,
    ) -> None:
        """Resolve the links of some documents; of all (None) where names came or went, else one
        that stood there before leads where it led.
        """
        links = self.store.links(only)
        wanted = {(path, link.kind, link.target) for path, _, link in links}
        known = only is not None and wanted <= leads.keys()
        resolve = (
            (lambda link, path: leads[path, link.kind, link.target])
            if known
            else resolver(self.store.linkable_documents())
        )
        for path, ordinal, link in links:
            resolved = resolve(link, path)
            if resolved != link.resolved:
                self.store.resolve_link(path, ordinal, resolved)

    def note(self, key: str, value: str, **more: str) -> None:
        """Commit facts about the index, where they differ."""
        facts = {key: value, **more}
        if any(self.store.meta(name) != fact for name, fact in facts.items()):
            with self.store.transaction():
                for name, fact in facts.items():
                    self.store.set_meta(name, fact)

    def words(self) -> Mapping[str, int]:
        """Return every word form with the number of chunks that hold it."""
        return word_counts(
            segment
            for segment, _ in open_segments(self.store.segments_folder, self.store.segments())
        )

    def wipe(self) -> bool:
        """Take what was forgotten as private out of the index's files, which a reader's open
        snapshot can put off; tell whether it is out.

        Its vectors go where no other folder holds the text; what cannot be told of that now is
        owed. A build that is not current yet waits until it is: the current one still holds
        what is to go.
        """
        if is_wiped(self.store):
            return True
        if self.places.build != self.places.current_build:
            return False
        with self.store.transaction():
            verify_segments(self.store.segments_folder, self.store.segments())
            self.keyword.purge_deleted()
        self.keyword.delete_unlisted_files()
        # before that is taken note of: nobody would wipe again what a power cut brings back
        fsync_files(self.store.segments_folder)
        sweep_vectors(self.places.folder.parent)
        is_out = [self.places.sweep(build_in_progress(self.places)), self.store.truncate_log()]
        if all(is_out):
            self.note(WIPE_DUE, "")
        return all(is_out)

    def merge_keyword(self, idle: IdleTime = "long") -> None:
        """Make one of the many small segments, which each edit adds to."""
        verify_segments(self.store.segments_folder, self.store.segments())
        self.keyword.merge(idle)

    def _read_chunks(self, rows: Sequence[int]) -> Iterator[tuple[int, Chunk, str]]:
        for start in range(0, len(rows), CHUNK_BATCH):
            part = rows[start : start + CHUNK_BATCH]
            languages = self.store.chunk_languages(part)
            yield from (
                (row, chunk, languages.get(row, ""))
                for row, chunk in self.store.chunks(part).items()
            )

    def keep_vectors(
        self, vectors: Mapping[bytes, Vector], rows: Sequence[int] = (), *, words: str = ""
    ) -> None:
        """Keep vectors of chunks' texts, and commit that they are there.

        A text that went while it was embedded, as a private one does, gets none; `rows` are where
        the texts stood. Other texts than chunks' are kept if the index's words are still those of
        `words`.
        """
        if not (vectors and self.store.vectors):
            return
        if not words:
            there = chunk_keys_among(self.store, vectors.keys(), rows)
        else:
            there = set(vectors) if words == self.store.meta("words", "0") else set()
        if kept := [key for key in vectors if key in there]:
            self.store.vectors.add(kept, np.stack([vectors[key] for key in kept]))
        with self.store.transaction():
            pass  # another generation: readers look again

    def sweep_unused(self) -> None:
        """Delete vectors that nobody needs, when they may have become more than those that somebody
        does.
        """
        vectors = self.store.vectors
        if not vectors:
            return
        count = vectors.count()
        needed = max(int(vectors.meta("swept", "0")), self.store.count_chunks(), MIN_VECTORS)
        if count > ORPHAN_FACTOR * needed:
            sweep_vectors(self.places.folder.parent)

    def decide(self, made: Iterable[Decision] = (), dropped: Iterable[tuple[str, str]] = ()) -> int:
        """Keep what the owner decided, and forget what he takes back; return how much of that there
        was.
        """
        gone = write_decisions(self.store.decisions_file, made, dropped)
        with self.store.transaction():
            self.store.duplicates.record_change()
        return gone


LinkTargets = Mapping[tuple[str, LinkKind, str], str | None]
"""Where the links of a document at a path led, by their kind and target."""


@dataclass(frozen=True, slots=True)
class _PriorState:
    """What the store knew of a batch's paths before it was written."""

    names: set[tuple[str, str, tuple[str, ...]]]
    rows: set[int]
    leads: LinkTargets


def _drop_stale(batch: Batch, store: Store) -> Batch:
    """Leave out paths whose entry has changed since they were compared: another process was faster,
    and may have read a newer text.
    """
    if batch.seen is None:
        return batch
    seen = batch.seen
    paths = {
        *batch.removed,
        *(state.path for state, _ in (*batch.documents, *batch.metadata_only)),
        *(state.path for state in batch.private),
    }
    now = store.manifest(list(paths)) | private_states(store, paths)
    same = {path for path in paths if now.get(path) == seen.get(path)}
    return replace(
        batch,
        documents=[(state, parsed) for state, parsed in batch.documents if state.path in same],
        removed=[path for path in batch.removed if path in same],
        metadata_only=[
            (state, modified) for state, modified in batch.metadata_only if state.path in same
        ],
        private=[state for state in batch.private if state.path in same],
    )


def _size(batch: Batch) -> int:
    return len(batch.documents) + len(batch.removed) + len(batch.metadata_only) + len(batch.private)


def _link_targets(store: Store, paths: Sequence[str]) -> LinkTargets:
    return {(path, link.kind, link.target): link.resolved for path, _, link in store.links(paths)}


def _names(store: Store, paths: Sequence[str]) -> set[tuple[str, str, tuple[str, ...]]]:
    return {
        (document.path, document.title, document.aliases)
        for document in store.linkable_documents(paths)
    }
