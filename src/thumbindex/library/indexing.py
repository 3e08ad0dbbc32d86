"""Index folders: commit words and provisional vectors in batches, then exact vectors."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import NamedTuple

from thumbindex.corpus.ignore import PathCache, is_private_by_glob
from thumbindex.corpus.links import LinkResolver
from thumbindex.corpus.parse import parse_document
from thumbindex.corpus.read import content_digest, read_bytes
from thumbindex.encode.provisional import TokenTable
from thumbindex.errors import IndexBusyError, IndexMissingError, StorageError
from thumbindex.index.builds import INCOMPLETE, begin_build, switch_build, words_generation
from thumbindex.index.files import IndexPaths
from thumbindex.index.locks import current_run, hold_lock
from thumbindex.index.row_codec import text_keys
from thumbindex.index.store import Store
from thumbindex.index.writer import Batch, Writer, keep_stores_open
from thumbindex.library.commit_dates import store_commit_dates
from thumbindex.library.comparison import (
    Comparison,
    IndexedFiles,
    compare_folder,
    current_parser_key,
    indexed_files_of,
    read_indexed_files,
    without_private_links,
)
from thumbindex.library.embedding import (
    OpenEmbedder,
    OpenTable,
    embed_folder,
    estimate_missing,
    model_meta,
    provisional_vectors,
)
from thumbindex.library.indexed_folders import Folder
from thumbindex.library.near_copies import duplicate_steps
from thumbindex.model import (
    Changes,
    FileState,
    IndexReport,
    LinkCounts,
    ParsedDocument,
    Problem,
    Progress,
)

FIRST_BATCH_BYTES, _MAX_BATCH_BYTES = 128 * 1024, 1024 * 1024
"""Bytes of text in the first and the largest batch.

The size doubles with each batch, so that a new vault is searchable early but needs few commits.
"""

_LARGE_FILE_BYTES = 1024 * 1024
"""Files of at least this size are indexed last, one per batch."""

_FILE_OVERHEAD_BYTES = 512
"""Bytes added to each file's size, to limit the number of small files in a batch."""

_LOCK_NOTICE_SECONDS = 1.0
"""Seconds to wait for a lock before the wait is reported as progress."""

_MAX_PASSES = 3
"""Maximum passes of a run if another process keeps indexing the same files."""

_MAX_REBUILD_PASSES = 10
"""Maximum passes of a rebuild; every pass after the first indexes only recent edits."""


@dataclass(frozen=True, slots=True)
class IndexingOptions:
    """The options of one run."""

    complete: bool = True  # compute exact vectors, too
    rebuild: bool = False
    verify: bool = False
    on_progress: Callable[[Progress], None] = lambda progress: None
    # called between two batches; True leaves the remaining batches to the next run
    interrupted: Callable[[], bool] = lambda: False
    finish: bool = True  # merge segments and store commit dates after the last batch
    first_bytes: int = FIRST_BATCH_BYTES
    open_table: OpenTable = lambda settings, model: None


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The files of one run that did not become documents."""

    failed: tuple[Problem, ...] = ()
    conflicts: int = 0  # paths that another process indexed during this run
    deferred: frozenset[str] = frozenset()  # paths left for the next run
    private: tuple[FileState, ...] = ()  # files that turned out to be private


_EMPTY_REPORT = IndexReport(0, 0, 0, 0, (), LinkCounts(), 0, 0, 0, 0.0, 0)


@keep_stores_open()
def index_folders(
    folders: Sequence[Folder], options: IndexingOptions, open_embedder: OpenEmbedder
) -> IndexReport:
    """Update the folders' indexes: words and provisional vectors first, then exact vectors.

    Raises ModelError after the words are committed, and IndexMissingError if another process
    deletes an index during the run.
    """
    reports = [update_words(folder, options) for folder in folders]
    if options.finish:
        for folder, report in zip(folders, reports, strict=True):
            _finish_words(folder, options, report)
    if options.complete:
        reports = [
            update_vectors(folder, report, options=options, open_embedder=open_embedder)
            for folder, report in zip(folders, reports, strict=True)
        ]
    total = _EMPTY_REPORT  # the result if all folders are published
    for report in reports:
        total = replace(
            total,
            **{
                f.name: getattr(total, f.name) + getattr(report, f.name)
                for f in fields(IndexReport)
            },
        )
    return total


def _finish_words(folder: Folder, options: IndexingOptions, report: IndexReport) -> None:
    if (report.added or report.changed or report.removed) and not options.interrupted():
        with _open_writer(folder, options) as writer:
            writer.merge_keyword()
    update_commit_dates(folder, options)
    if not options.complete:
        estimate_missing(folder)


def update_commit_dates(folder: Folder, options: IndexingOptions) -> None:
    """Store the days of new Git commits."""
    store_commit_dates(folder, partial(_open_writer, folder, options), options.interrupted)


def update_words(folder: Folder, options: IndexingOptions) -> IndexReport:
    """Commit the words of new and changed files.

    If another process indexed some of the files during the run, compare and commit again.
    """
    started = time.perf_counter()
    # while indexing is blocked, a rebuild would lose the folder's notes
    options = replace(options, rebuild=options.rebuild and not folder.config.blocks_indexing)
    comparison = _compare(folder, options)
    if options.rebuild or _needs_rebuild(folder, comparison.indexed):
        with hold_lock(folder.index_paths.rebuild, _on_lock_wait(folder, options)):
            if options.rebuild or _needs_rebuild(folder, _read_index(folder, options)):
                return _rebuild(folder, options, comparison, started)
        comparison = _compare(folder, options)  # another process has rebuilt the index
    result = commit_words(folder, options, comparison)
    for _ in range(_MAX_PASSES - 1):
        if result.conflicts:
            result = commit_words(folder, options, _compare(folder, replace(options, verify=False)))
    return _report(folder, comparison.changes, result, time.perf_counter() - started)


def _rebuild(
    folder: Folder, options: IndexingOptions, comparison: Comparison, started: float
) -> IndexReport:
    """Index all files into a new build, and switch to the build once it is complete."""
    number = begin_build(
        folder.index_paths.folder,
        # whether to continue an interrupted build
        lambda store: not options.rebuild and store.meta("corpus") == current_parser_key(folder),
    )
    new_build = replace(folder, index_paths=folder.index_paths.of_build(number))
    build_options = replace(options, rebuild=False, verify=False)
    for _ in range(_MAX_REBUILD_PASSES):  # until the current build has no new commit
        generation = words_generation(folder.index_paths.folder)
        result = commit_words(new_build, build_options, _compare(new_build, build_options))
        is_complete = not (result.deferred or result.conflicts) and switch_build(
            folder.index_paths.folder, number, generation
        )
        if is_complete or result.deferred or options.interrupted():
            break
    if not (is_complete or result.deferred or options.interrupted()):
        if (
            folder.index_paths.current_build + 1 != number
            or not new_build.index_paths.store.exists()
        ):
            raise _deleted_error(folder.index_paths)
        raise IndexBusyError(
            f"The index in {folder.index_paths.folder} changes faster than it can be rebuilt. "
            "Try again when fewer notes change."
        )
    if is_complete:
        with _open_writer(folder, options) as writer:
            writer.erase_private()
    reindexed = sorted(comparison.indexed.manifest.keys() - set(comparison.changes.removed))
    changes = replace(comparison.changes, changed=tuple(reindexed), unchanged=0)
    report = _report(new_build, changes, result, time.perf_counter() - started)
    if options.rebuild or not is_complete:
        return report
    repaired = (
        f"The index in {folder.index_paths.folder} was made with other settings or by an earlier "
        "version: it was rebuilt from the notes."
    )
    return replace(report, repaired=(repaired,))


def _needs_rebuild(folder: Folder, indexed: IndexedFiles) -> bool:
    return (
        bool(indexed.parser_key)
        and indexed.parser_key != current_parser_key(folder)
        and not folder.config.blocks_indexing
    )


def update_vectors(
    folder: Folder, report: IndexReport, *, options: IndexingOptions, open_embedder: OpenEmbedder
) -> IndexReport:
    """Embed new chunks, find duplicates, and add the counts to the report."""
    started, build = time.perf_counter(), folder.index_paths.current_build
    done = embed_folder(folder, open_embedder, options.on_progress, options.interrupted)
    for _ in duplicate_steps(folder) if done.is_complete else ():
        if options.interrupted():
            break
    with _open_writer(folder, options) as writer:
        # large merges block edits, so only a run without changes does them
        writer.merge_keyword(
            "short" if report.added or report.changed or report.removed or done.embedded else "long"
        )
        if report.chunks:
            _check_not_deleted(writer)
        generation = writer.store.generation
    if build != writer.paths.build:  # another process has rebuilt the index
        again = update_words(folder, replace(options, rebuild=False))
        return update_vectors(folder, again, options=options, open_embedder=open_embedder)
    return replace(
        report,
        embedded=done.embedded,
        reused=done.reused,
        seconds=round(report.seconds + time.perf_counter() - started, 3),
        generation=generation,
    )


def _compare(folder: Folder, options: IndexingOptions) -> Comparison:
    read_index = partial(_read_index, folder, options)
    return compare_folder(folder, read_index, verify=options.verify, may_be_empty=options.rebuild)


def _read_index(
    folder: Folder, options: IndexingOptions, paths: Collection[str] = ()
) -> IndexedFiles:
    """Read the indexed files; if that fails, create or repair the index, and read again."""
    try:
        return read_indexed_files(folder.index_paths, paths)
    except StorageError:
        with _open_writer(folder, options) as writer:
            return indexed_files_of(writer.store, paths)


def commit_words(folder: Folder, options: IndexingOptions, comparison: Comparison) -> CommitResult:
    """Commit new and changed files in batches; the first batch also removes deleted files.

    The writer's lock is held only for commits, not while files are read and parsed.
    """
    if comparison.is_empty:
        return CommitResult()
    indexed, modified = comparison.indexed, comparison.modified
    embed_settings = folder.config.encode.embed
    table = options.open_table(embed_settings, indexed.model)
    batches = _batches(comparison, options)
    paths = set(comparison.metadata_only)
    metadata_only = [state for state in comparison.states if state.path in paths]
    pending = Batch(  # changes that need no reading
        removed=comparison.changes.removed,
        metadata_only=[
            (file, modified[file.path]) for file in metadata_only if file.path in indexed.manifest
        ],
        private=[file for file in metadata_only if file.path in indexed.private],
    )
    exact: set[bytes] = set()
    if table and indexed.model and not indexed.manifest:  # a rebuild: most texts are the same
        with closing(Store(folder.index_paths.store, read_only=True)) as store:
            exact = store.vectors.keys() if store.vectors else exact
    path_cache = PathCache()
    result, done, total = CommitResult(), 0, sum(map(len, batches))
    for number, files in enumerate(batches or [[]], 1):
        parsed = _parse_files(folder, files, modified, table, exact)
        result = replace(
            result,
            failed=(*result.failed, *parsed.failed),
            private=(*result.private, *parsed.private),
        )
        done, last = done + len(files), number >= len(batches)
        now_private = frozenset(state.path for state in parsed.private).union(
            path
            for path in pending.removed
            if is_private_by_glob(str(folder.root), path, folder.config.corpus, path_cache)
        )
        failed = [problem.path for problem in parsed.failed]
        removed = (*pending.removed, *parsed.gone, *failed, *now_private)
        meta: dict[str, str] = {}
        if table and not indexed.model and number == 1:
            meta |= model_meta(table, embed_settings)
        problems: tuple[Problem, ...] | None = None
        if last or not indexed.manifest:
            meta |= {"corpus": current_parser_key(folder), "root": str(folder.root)}
        if last:
            meta |= {INCOMPLETE: ""}
            problems_on_disk = without_private_links(
                comparison.problems, (state.path for state in result.private)
            )
            problems = (*problems_on_disk, *result.failed)
        batch = Batch(
            documents=parsed.documents,
            removed=tuple(dict.fromkeys(removed)),
            metadata_only=pending.metadata_only,
            problems=problems,
            last=last,
            expected_states={**indexed.manifest, **indexed.private},
            failed=parsed.failed,
            erase=now_private,
            private=(*pending.private, *parsed.private),
            listed=modified.keys() if last else None,
            meta=meta,
            # a large file that an earlier run left out is not an edit, even if it is newest
            newest_known_mtime=0.0 if _is_large(files) else indexed.newest,
        )
        with _open_writer(folder, options) as writer:
            if indexed.parser_key or number > 1:
                _check_not_deleted(writer)
            conflicts = writer.apply(
                batch, lambda documents: LinkResolver.of(documents, folder.root.name).resolve
            )
            writer.erase_private()
        pending, result = Batch(), replace(result, conflicts=result.conflicts + conflicts)
        options.on_progress(Progress(folder.name, "words", done, total))
        if not last and options.interrupted():
            return replace(
                result,
                deferred=frozenset(state.path for later in batches[number:] for state in later),
            )
    return result


def _check_not_deleted(writer: Writer) -> None:
    """Raise IndexMissingError if another process has deleted the index of this run."""
    if not writer.store.meta("corpus"):
        raise _deleted_error(writer.paths)


def _deleted_error(index_paths: IndexPaths) -> IndexMissingError:
    return IndexMissingError(
        f"Another process deleted the index in {index_paths.folder} while it was being written. "
        "Run `thumbindex index` again."
    )


def _batches(comparison: Comparison, options: IndexingOptions) -> list[list[FileState]]:
    """Return growing batches of the files to read.

    Moved files come first and large files last; otherwise, newer files come first.
    """
    changes, indexed = comparison.changes, comparison.indexed.manifest
    to_read, added = {*changes.added, *changes.changed}, frozenset(changes.added)
    old_inodes = {indexed[path].inode for path in changes.removed if path in indexed}

    def sort_key(state: FileState) -> tuple[bool, float, str]:
        return (  # moved files come first: the first batch removes their old paths
            not (state.path in added and state.inode in old_inodes),
            -comparison.modified[state.path],
            state.path,
        )

    states = sorted((state for state in comparison.states if state.path in to_read), key=sort_key)
    large = [[state] for state in states if state.size >= _LARGE_FILE_BYTES]
    small = [state for state in states if state.size < _LARGE_FILE_BYTES]
    return [*growing_batches(small, options.first_bytes), *large]


def growing_batches(states: Iterable[FileState], first_bytes: int) -> Iterator[list[FileState]]:
    """Yield batches of files.

    The first batch has at least `first_bytes`. This minimum doubles with each batch, up to
    `_MAX_BATCH_BYTES`.
    """
    batch: list[FileState] = []
    batch_bytes = 0
    for state in states:
        batch.append(state)
        batch_bytes += state.size + _FILE_OVERHEAD_BYTES
        if batch_bytes >= first_bytes:
            yield batch
            batch, batch_bytes, first_bytes = [], 0, min(2 * first_bytes, _MAX_BATCH_BYTES)
    if batch:
        yield batch


def _is_large(batch: Sequence[FileState]) -> bool:
    return any(state.size >= _LARGE_FILE_BYTES for state in batch)


@contextmanager
def _open_writer(folder: Folder, options: IndexingOptions) -> Iterator[Writer]:
    """Open the writer for one commit; report a long wait for the lock as progress."""
    with Writer.open(
        folder.index_paths.folder, _on_lock_wait(folder, options), folder.index_paths.build
    ) as writer:
        yield writer


def _on_lock_wait(folder: Folder, options: IndexingOptions) -> Callable[[], None]:
    """Return a callback that reports a long wait for a lock as progress."""
    started = time.monotonic()

    def waiting() -> None:
        if time.monotonic() - started >= _LOCK_NOTICE_SECONDS:
            work = current_run(folder.index_paths.folder)
            pid = work.pid if work and work.pid != os.getpid() else 0
            options.on_progress(Progress(folder.name, "waiting", 0, 0, pid))

    return waiting


class _ParsedFiles(NamedTuple):
    """The parsed files of one batch."""

    documents: list[tuple[FileState, ParsedDocument]]
    failed: list[Problem]  # unreadable files
    gone: list[str]  # paths deleted since the walk
    private: list[FileState]


def _parse_files(
    folder: Folder,
    states: Sequence[FileState],
    modified: Mapping[str, float],
    table: TokenTable | None,
    exact: set[bytes],  # keys of texts that need no provisional vector
) -> _ParsedFiles:
    files, settings = _ParsedFiles([], [], [], []), folder.config.corpus
    for state in states:
        data = read_bytes(folder.root, state.path, settings)
        if isinstance(data, Problem) and not os.path.lexists(folder.root / state.path):
            files.gone.append(state.path)
        elif isinstance(data, Problem):
            files.failed.append(data)
        else:
            file_state = replace(state, digest=content_digest(data))
            has_marks = b"%%" in data.replace(b"\0", b"")  # in UTF-16, too
            in_vault = not has_marks or folder.is_in_vault(state.path)
            parsed = parse_document(state.path, data, settings, modified[state.path], in_vault)
            if parsed.private:
                files.private.append(file_state)
            else:
                parsed = replace(parsed, keys=text_keys(parsed))
                if table and not exact.issuperset(key for _, key, _ in parsed.keys):
                    parsed = replace(parsed, provisional=provisional_vectors(parsed, table))
                files.documents.append((file_state, parsed))
    return files


def _report(folder: Folder, changes: Changes, result: CommitResult, seconds: float) -> IndexReport:
    with closing(Store(folder.index_paths.store, read_only=True)) as store:
        private = {state.path for state in result.private}
        not_kept = result.deferred.union(problem.path for problem in result.failed) | private
        return IndexReport(
            added=len(set(changes.added) - not_kept),
            changed=len(set(changes.changed) - not_kept),
            removed=len(changes.removed) + len(private.intersection(changes.changed)),
            unchanged=changes.unchanged,
            skipped=(*folder.problems, *store.problems()),
            links=store.link_counts(),
            chunks=store.count_chunks(),
            embedded=0,
            reused=0,
            seconds=round(seconds, 3),
            generation=store.generation,
            deferred=len(result.deferred) + result.conflicts,
        )
