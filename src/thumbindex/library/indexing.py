"""Index: from the files on disk to a committed generation; what changed is read, its words are
kept, then its vectors.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path

from thumbindex.config import with_folder_file
from thumbindex.corpus.git import (
    CommitDays,
    Repository,
    find_repository,
    find_work_tree,
    has_no_commit,
    read_commit_days,
    read_tracked_paths,
)
from thumbindex.corpus.ignore import PathCache, is_private_by_glob
from thumbindex.corpus.links import LinkResolver
from thumbindex.corpus.parse import parse_document
from thumbindex.corpus.read import MAX_WINDOWS_PATH, content_digest, read_bytes, read_digest
from thumbindex.corpus.walk import find_changes, walk
from thumbindex.errors import IndexBusyError, IndexMissingError, StorageError, UnknownFolderError
from thumbindex.index.builds import INCOMPLETE, begin_build, switch_build, words_generation
from thumbindex.index.files import IndexPaths
from thumbindex.index.locks import current_run, hold_lock
from thumbindex.index.segments import verify_segments
from thumbindex.index.store import Store, digests
from thumbindex.index.writer import (
    GIT_FAILURE,
    Batch,
    Writer,
    is_wiped,
)
from thumbindex.library.embedding import OpenEmbedder, embed_folder
from thumbindex.library.folders import Folder
from thumbindex.library.near_copies import find_duplicates
from thumbindex.model import (
    Changes,
    FileState,
    IndexReport,
    LinkCounts,
    ParsedDocument,
    Problem,
    Progress,
)
from thumbindex.settings import Config
from thumbindex.text import plural


@dataclass(frozen=True, slots=True)
class Known:
    """The manifest, and whether anything was left undone."""

    manifest: Mapping[str, FileState]
    corpus: str  # how the files were cut
    problems: frozenset[Problem]  # about files that are no documents
    # links are resolved, and nothing is left to be wiped
    is_settled: bool
    generation: int  # in which all this was so
    # files that were read and are private
    private: Mapping[str, FileState] = field(default_factory=dict)
    # when the newest of the files was modified, in seconds; 0 where there is none
    newest: float = 0.0

    def is_complete(self, problems: Sequence[Problem]) -> bool:
        """Return True if no run was cut off and the walk found the same problems."""
        return self.is_settled and self.problems == set(problems)


def read_known(places: IndexPaths, paths: Collection[str] = ()) -> Known:
    """Read it without the writer's lock, with those of some paths that are private.

    Raises StorageError where there is no index, or none that can be read.
    """
    with closing(Store(places.store, read_only=True)) as store:
        return known_of(store, paths)


def known_of(store: Store, paths: Collection[str]) -> Known:
    """Read it from an open store."""
    with store.read_transaction():
        verify_segments(store.keyword, store.segments())
        manifest = store.manifest()
        problems = frozenset(
            problem for problem in store.problems() if problem.path not in manifest
        )
        settled = (
            store.meta("links") == "resolved"
            and is_wiped(store)
            and store.meta("corpus") != ""
            and not store.meta(INCOMPLETE)
        )
        return Known(
            manifest,
            store.meta("corpus"),
            problems,
            settled,
            store.generation,
            store.private_files(paths),
            store.newest(),
        )


def open_directories(
    folders: Sequence[tuple[str, Path]], config: Config
) -> dict[Path, Callable[[str], bool]]:
    """Return for each folder what tells whether a directory of its first level may be named."""
    return {
        root: partial(_may_be_named, os.path.realpath(root), with_folder_file(config, root))
        for _, root in folders
    }


def _may_be_named(root: str, config: Config, name: str) -> bool:
    return not (config.blocks_indexing or is_private_by_glob(root, name, config.corpus, {}))


def _without_links(problems: Sequence[Problem], private: Iterable[str]) -> tuple[Problem, ...]:
    """Leave out what a walk says of symlinks to private notes."""
    paths = tuple(f" -> {path}" for path in private)
    return tuple(problem for problem in problems if not (paths and problem.path.endswith(paths)))


FIRST_BYTES, MOST_BYTES = 128 * 1024, 1024 * 1024
"""Text that is committed at once: little at first, so that a new vault answers early, then twice as
much each time, so that a commit's own cost does not count, up to what is parsed and written in
three seconds: servers open in a moment what came with it, and searches wait for that.
"""

LARGE_BYTES = 1024 * 1024
"""From this size on a file comes last and alone: ten of these take as long as a thousand notes."""

MOMENT_SECONDS = 0.01
"""Between two looks at files that cannot be read."""

FILE_BYTES = 512
"""What a file costs beside its text, in bytes of text."""

WAITING_SECONDS = 1.0
"""After this long without the writer's lock the user is told."""

ROUNDS = 3
"""Comparisons of one run, where another process writes the same files: what is left then is its
work.
"""

REBUILD_ROUNDS = 10
"""Comparisons while an index is built anew; after the first they find only what changed
meanwhile.
"""

PARSE_VERSION = 10
"""Changes when the same file would be cut or read another way: every file is read again."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one call of `index_folders` was asked to do."""

    words_only: bool = False
    rebuild: bool = False
    verify: bool = False
    tell: Callable[[Progress], None] = lambda progress: None
    # asked between two batches: what is left is left for the next run
    interrupted: Callable[[], bool] = lambda: False
    finish: bool = True  # merge segments and keep the dates of commits
    first_bytes: int = FIRST_BYTES


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of the files that were to be read."""

    failed: tuple[Problem, ...] = ()
    # paths that another process has written meanwhile, or taken away with the index
    passed_over: int = 0
    left: frozenset[str] = frozenset()  # paths of the files that are left for another run
    # of the files that were read those that turned out to be private
    private: tuple[FileState, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between a folder and its index."""

    changes: Changes
    states: Sequence[FileState]  # of all files there are
    touched: Collection[str]  # paths of the same text with other facts
    problems: Sequence[Problem]  # of the walk
    modified: Mapping[str, float]  # by path, seconds
    known: Known

    @property
    def is_nothing(self) -> bool:
        """Return True if nothing is to be read, and nothing was left undone."""
        changes = self.changes
        is_same = not (changes.added or changes.changed or changes.removed or self.touched)
        return is_same and self.known.is_complete(self.problems)


_NOTHING = IndexReport(0, 0, 0, 0, (), LinkCounts(), 0, 0, 0, 0, 0.0, 0)


def index_folders(folders: Sequence[Folder], run: Run, open_embedder: OpenEmbedder) -> IndexReport:
    """Bring folders' indexes up to the disk: the words of all of them first, then vectors.

    Raises ModelError with the words kept, and IndexMissingError if another process forgets an index
    meanwhile.
    """
    reports = [index_words(folder, run) for folder in folders]
    if run.finish:
        for folder, report in zip(folders, reports, strict=True):
            _finish_words(folder, run, report)
    if not run.words_only:
        reports = [
            index_vectors(folder, report, run=run, open_embedder=open_embedder)
            for folder, report in zip(folders, reports, strict=True)
        ]
    total = _NOTHING  # where all folders are published from elsewhere, there is nothing to do
    for report in reports:
        total = replace(
            total,
            **{
                f.name: getattr(total, f.name) + getattr(report, f.name)
                for f in fields(IndexReport)
            },
        )
    return total


def _finish_words(folder: Folder, run: Run, report: IndexReport) -> None:
    """Merge what a run wrote, and keep the dates of commits."""
    if (report.added or report.changed or report.removed) and not run.interrupted():
        with open_writer(folder, run) as writer:
            writer.merge_keyword()
    index_dates(folder, run)


def index_dates(folder: Folder, run: Run) -> None:
    """Keep the days on which git has each note, read again when another commit is checked out or
    somebody's note was not looked for.
    """
    repository, own = find_repository(folder.root), folder.places.build_folder / "git"
    commit = repository.commit if repository else ""
    is_known, undated, failure = _known_dates(folder, repository)
    if is_known and not undated:
        return
    days: CommitDays | None = {}
    try:
        if repository and is_known:  # what is in no commit needs no history
            tracked = (
                frozenset() if failure else read_tracked_paths(repository, own, run.interrupted)
            )
            if tracked is None:
                return
            days = None if undated.isdisjoint(tracked) else days
        if repository and days is not None:
            failure, days = "", read_commit_days(repository, own, run.interrupted)
            if days is None:
                return
    except OSError as error:  # what is known stays; the next commit is tried again
        days, failure = None, str(error)
    with open_writer(folder, run) as writer:
        writer.keep_commits(days, commit, failure if repository else "")


def _known_dates(folder: Folder, repository: Repository | None) -> tuple[bool, frozenset[str], str]:
    """Return whether the days of the present commit are known, the notes that nobody has looked
    for, and what went wrong the last time.
    """
    with closing(Store(folder.places.store, read_only=True)) as store, store.read_transaction():
        is_known = store.meta("commit") == (repository.commit if repository else "")
        return is_known, store.undated() if repository else frozenset(), store.meta(GIT_FAILURE)


def is_up_to_date(folder: Folder) -> bool:
    """Tell whether a run over a folder would find nothing to do for its words and dates; nothing is
    written.

    Raises StorageError where the index cannot be read, UnknownFolderError where the folder is gone.
    """
    comparison = compare(folder, Run(), mends=False)
    if comparison.known.corpus != cutting(folder) or not comparison.is_nothing:
        return False
    is_known, undated, _ = _known_dates(folder, find_repository(folder.root))
    return is_known and not undated


def problem_of_dates(folder: Folder, store: Store) -> str:
    """Say why the days of commits are unknown, where the folder lies in a work tree; empty where
    they are read, or will be.
    """
    tree, repository = find_work_tree(folder.root), find_repository(folder.root)
    if tree and not repository and not has_no_commit(tree):
        return (
            "the days of the commits are unknown: the repository is not laid out as git does it, "
            "and is not read"
        )
    failure = (
        store.meta(GIT_FAILURE) if repository and store.meta("commit") == repository.commit else ""
    )
    if not failure:
        return ""
    return f"the days of the commits are unknown: {failure}; the next commit is tried again"


def index_words(folder: Folder, run: Run) -> IndexReport:
    """Compare, read what differs, and keep its words; again where another process was faster."""
    began = time.perf_counter()
    # what is not taken in now must not be lost
    run = replace(run, rebuild=run.rebuild and not folder.config.blocks_indexing)
    comparison = compare(folder, run)
    if run.rebuild or _is_cut_otherwise(folder, comparison.known):
        with hold_lock(folder.places.rebuild, _waiting(folder, run)):
            if run.rebuild or _is_cut_otherwise(folder, _known(folder, run)):
                return _rebuild(folder, run, comparison, began)
        comparison = compare(folder, run)  # another process was faster
    kept = keep_words(folder, run, comparison)
    for _ in range(ROUNDS - 1):
        if kept.passed_over:
            kept = keep_words(folder, run, compare(folder, replace(run, verify=False)))
    return _report(folder, comparison.changes, kept, time.perf_counter() - began)


def _rebuild(folder: Folder, run: Run, comparison: Comparison, began: float) -> IndexReport:
    """Read every file anew into the next build of the index, and switch to it when it is
    complete: until then the present one answers.

    A run that is interrupted is gone on with by the next one, unless that is to rebuild all in any
    case.
    """
    build = begin_build(
        folder.places.folder,
        lambda store: not run.rebuild and store.meta("corpus") == cutting(folder),
    )
    beside = replace(folder, places=folder.places.at(build))
    run_beside = replace(run, rebuild=False, verify=False)
    for _ in range(REBUILD_ROUNDS):  # until the current build took nothing in meanwhile
        words = words_generation(folder.places.folder)
        kept = keep_words(beside, run_beside, compare(beside, run_beside))
        is_complete = not (kept.left or kept.passed_over) and switch_build(
            folder.places.folder, build, words
        )
        if is_complete or kept.left or run.interrupted():
            break
    if not (is_complete or kept.left or run.interrupted()):
        if folder.places.current_build + 1 != build or not beside.places.store.exists():
            raise _forgotten(folder.places)
        raise IndexBusyError(
            f"The index in {folder.places.folder} changes faster than it is built anew: run "
            "it again when the notes rest."
        )
    if is_complete:
        with open_writer(folder, run) as writer:
            writer.wipe()
    changes = comparison.changes
    again = tuple(sorted(comparison.known.manifest.keys() - set(changes.removed)))
    report = _report(
        beside, replace(changes, changed=again, unchanged=0), kept, time.perf_counter() - began
    )
    if run.rebuild or not is_complete:
        return report
    repaired = (
        f"The index in {folder.places.folder} was made with other settings: it was built "
        "anew from the notes."
    )
    return replace(report, repaired=(repaired,))


def _is_cut_otherwise(folder: Folder, known: Known) -> bool:
    return (
        bool(known.corpus) and known.corpus != cutting(folder) and not folder.config.blocks_indexing
    )


def index_vectors(
    folder: Folder, report: IndexReport, *, run: Run, open_embedder: OpenEmbedder
) -> IndexReport:
    """Embed what has no vector yet, find what is there twice, and add that to a report."""
    began, build = time.perf_counter(), folder.places.current_build
    done = embed_folder(folder, open_embedder, run.tell, run.interrupted)
    for _ in find_duplicates(folder) if done.is_whole else ():
        if run.interrupted():
            break
    with open_writer(folder, run) as writer:
        # what an edit waits behind is short: large merges wait for a run that finds nothing to do
        writer.merge_keyword(
            "short" if report.added or report.changed or report.removed or done.asked else "long"
        )
        if report.chunks:
            _refuse_forgotten(writer)
        generation = writer.store.generation
    if build != writer.places.build:  # another process has rebuilt the index
        again = index_words(folder, replace(run, rebuild=False))
        return index_vectors(folder, again, run=run, open_embedder=open_embedder)
    return replace(
        report,
        embedded=done.asked,
        reused=done.reused,
        truncated=done.truncated,
        seconds=round(report.seconds + time.perf_counter() - began, 3),
        generation=generation,
    )


def compare(folder: Folder, run: Run, *, mends: bool = True) -> Comparison:
    """Walk the folder and find out what differs from the index; files are read only where their
    facts differ.

    An index that cannot be read is mended, or raises StorageError.
    """
    now = time.time_ns()
    states, problems = walk(folder.root, folder.config.corpus)
    paths = [state.path for state in states]
    known = _known(folder, run, paths) if mends else read_known(folder.places, paths)
    found = find_changes(
        {**known.manifest, **known.private},
        states,
        lambda path: read_digest(folder.root, path, folder.config.corpus),
        now_ns=now,
        verify=run.verify,
    )
    if found.changes.removed and not run.rebuild:
        refuse_empty(folder.root, len(known.manifest))
    problems = _without_links(problems, known.private)
    return Comparison(
        counted(found.changes, problems, known.private, is_closed=folder.config.blocks_indexing),
        found.states,
        found.touched,
        problems,
        {state.path: state.mtime_ns / 1e9 for state in states},
        known,
    )


def counted(
    changes: Changes, problems: Sequence[Problem], private: Collection[str], *, is_closed: bool
) -> Changes:
    """Return the changes that count.

    A private file that has changed is as good as new. What cannot be listed is not gone. In a
    closed folder, whose own file may keep more private than can be read, nothing new is taken in,
    and what was changed goes.
    """
    again = tuple(path for path in changes.changed if path in private)
    changed = tuple(path for path in changes.changed if path not in private)
    unseen = {problem.path for problem in problems}
    hidden = ("",) if "." in unseen else tuple(f"{path.rstrip('/')}/" for path in unseen)
    removed = tuple(
        path for path in changes.removed if path not in unseen and not path.startswith(hidden)
    )
    unchanged = changes.unchanged - (len(private) - len(again))
    if is_closed:
        return Changes((), (), (*removed, *changed), unchanged)
    return Changes((*changes.added, *again), changed, removed, unchanged)


def refuse_empty(root: Path, documents: int) -> None:
    """Raise UnknownFolderError where a folder holds nothing at all: so does the place of a drive
    that is not mounted, whose notes are not gone.
    """
    if holds_nothing(root):
        raise UnknownFolderError(
            f"The folder {root} is empty, but the index has {plural(documents, 'document')} of it: "
            "nothing is deleted, "
            "a drive that is not mounted looks so. Where it was emptied on purpose, `thumbindex "
            "index --rebuild` takes it as it is."
        )


def holds_nothing(root: Path) -> bool:
    """Tell whether a folder is empty, gone or closed to us."""
    try:
        with os.scandir(root) as entries:  # looks at one entry: every answer of a server asks
            return next(entries, None) is None
    except OSError:
        return True


def _known(folder: Folder, run: Run, paths: Collection[str] = ()) -> Known:
    """Read what the index knows; where there is none that can be read, the writer makes or mends
    it.
    """
    try:
        return read_known(folder.places, paths)
    except StorageError:
        with open_writer(folder, run) as writer:
            return known_of(writer.store, paths)


def keep_words(folder: Folder, run: Run, comparison: Comparison) -> Kept:
    """Read what is new or changed and commit it, a group at a time: moved files first, then the
    newest; the removed go with the first group.

    The writer's lock is held for the commits alone, not while files are read and parsed.
    """
    if comparison.is_nothing:
        return Kept()
    known, modified = comparison.known, comparison.modified
    groups = _groups(comparison, run)
    paths = set(comparison.touched)
    touched = [state for state in comparison.states if state.path in paths]
    first = Batch(
        removed=comparison.changes.removed,
        touched=[(each, modified[each.path]) for each in touched if each.path in known.manifest],
        private=[each for each in touched if each.path in known.private],
    )
    names = PathCache()
    kept, done, total = Kept(), 0, sum(map(len, groups))
    for number, group in enumerate(groups or [[]], 1):
        documents, failed, gone, private = _read(folder, group, modified)
        kept = replace(kept, failed=(*kept.failed, *failed), private=(*kept.private, *private))
        done, last = done + len(group), number >= len(groups)
        hidden = frozenset(state.path for state in private).union(
            path
            for path in first.removed
            if is_private_by_glob(str(folder.root), path, folder.config.corpus, names)
        )
        removed = (*first.removed, *gone, *(problem.path for problem in failed), *hidden)
        facts: dict[str, str] = {}
        problems: tuple[Problem, ...] | None = None
        if last or not known.manifest:
            facts |= {"corpus": cutting(folder), "root": str(folder.root)}
        if last:
            facts |= {INCOMPLETE: ""}
            own = _without_links(comparison.problems, (state.path for state in kept.private))
            problems = (*own, *kept.failed)
        batch = Batch(
            documents,
            tuple(dict.fromkeys(removed)),
            first.touched,
            problems,
            last,
            {**known.manifest, **known.private},
            failed,
            forgotten=hidden,
            private=(*first.private, *private),
            listed=modified if last else None,
            facts=facts,
            # large ones may come in a later run: they may be older than the index
            newest=0.0 if _is_large(group) else known.newest,
        )
        with open_writer(folder, run) as writer:
            if known.corpus or number > 1:
                _refuse_forgotten(writer)
            passed_over = writer.apply(
                batch, lambda documents: LinkResolver.of(documents, folder.root.name).resolve
            )
            writer.wipe()
        first, kept = Batch(), replace(kept, passed_over=kept.passed_over + passed_over)
        run.tell(Progress(folder.name, "words", done, total))
        if not last and run.interrupted():
            return replace(
                kept, left=frozenset(state.path for group in groups[number:] for state in group)
            )
    return kept


def _refuse_forgotten(writer: Writer) -> None:
    """Raise IndexMissingError if another process has forgotten the index that a run has begun."""
    if not writer.store.meta("corpus"):
        raise _forgotten(writer.places)


def _forgotten(places: IndexPaths) -> IndexMissingError:
    return IndexMissingError(
        f"Another process has deleted the index in {places.folder} while it was written: run it "
        "again."
    )


def _groups(comparison: Comparison, run: Run) -> list[list[FileState]]:
    """Return the files that are to be read, newest first, in groups that grow, large ones last and
    alone.

    A file that was moved kept its time, and would come last; but its old place goes with the first
    group, and until it comes it is nowhere.
    """
    changes, indexed = comparison.changes, comparison.known.manifest
    wanted, added = {*changes.added, *changes.changed}, frozenset(changes.added)
    old = {indexed[path].inode for path in changes.removed if path in indexed}

    def order(state: FileState) -> tuple[bool, float, str]:
        return (
            not (state.path in added and state.inode in old),
            -comparison.modified[state.path],
            state.path,
        )

    states = sorted((state for state in comparison.states if state.path in wanted), key=order)
    large = [[state] for state in states if state.size >= LARGE_BYTES]
    small = [state for state in states if state.size < LARGE_BYTES]
    return [*growing(small, run.first_bytes), *large]


def growing(states: Iterable[FileState], first: int) -> Iterator[list[FileState]]:
    """Yield groups of files with at least `first` bytes of text, then with twice as many each
    time.
    """
    group: list[FileState] = []
    size = 0
    for state in states:
        group.append(state)
        size += state.size + FILE_BYTES
        if size >= first:
            yield group
            group, size, first = [], 0, min(2 * first, MOST_BYTES)
    if group:
        yield group


def _is_large(group: Sequence[FileState]) -> bool:
    return any(state.size >= LARGE_BYTES for state in group)


@contextmanager
def open_writer(folder: Folder, run: Run) -> Iterator[Writer]:
    """Take the writer's lock for one commit; tell when it is not had soon."""
    with Writer.open(folder.places.folder, _waiting(folder, run), folder.places.build) as writer:
        yield writer


def _waiting(folder: Folder, run: Run) -> Callable[[], None]:
    """Return what tells that a lock is not had soon."""
    began = time.monotonic()

    def waiting() -> None:
        if time.monotonic() - began >= WAITING_SECONDS:
            work = current_run(folder.places.folder)
            pid = work.pid if work and work.pid != os.getpid() else 0
            run.tell(Progress(folder.name, "waiting", 0, 0, pid))

    return waiting


def _read(
    folder: Folder, states: Sequence[FileState], modified: Mapping[str, float]
) -> tuple[list[tuple[FileState, ParsedDocument]], list[Problem], list[str], list[FileState]]:
    """Return the documents, what could not be read, what went since the folder was walked (no
    problem to anybody), and what is private.
    """
    documents: list[tuple[FileState, ParsedDocument]] = []
    private: list[FileState] = []
    failed: list[Problem] = []
    gone: list[str] = []
    for state, data in _read_all(folder, states):
        if isinstance(data, Problem) and not _is_listed(folder.root / state.path):
            gone.append(state.path)
        elif isinstance(data, Problem):
            failed.append(data)
        else:
            read = replace(state, digest=content_digest(data))
            parsed = parse_document(state.path, data, folder.config.corpus, modified[state.path])
            if parsed.private:
                private.append(read)
            else:
                documents.append((read, replace(parsed, keys=digests(parsed))))
    return documents, failed, gone, private


def _is_listed(path: Path) -> bool:
    """Tell whether a file is there still, or, where its path is too long to be looked up (Windows),
    among the names in its folder.
    """
    try:
        return os.path.lexists(path) or (
            len(str(path)) > MAX_WINDOWS_PATH and path in path.parent.iterdir()
        )
    except OSError:
        return False


def _read_all(
    folder: Folder, states: Sequence[FileState]
) -> Iterator[tuple[FileState, bytes | Problem]]:
    """Yield what is in each file; those that cannot be read are tried once more, after a moment,
    for the same reason.
    """
    again: list[FileState] = []
    for state in states:
        data = read_bytes(folder.root, state.path, folder.config.corpus)
        if isinstance(data, Problem):
            again.append(state)
        else:
            yield state, data
    time.sleep(MOMENT_SECONDS if again else 0.0)
    yield from (
        (state, read_bytes(folder.root, state.path, folder.config.corpus)) for state in again
    )


def cutting(folder: Folder) -> str:
    """Return what decides how a file is cut: another value means that every file is read again."""
    tags = folder.config.corpus.private.tags
    return f"{PARSE_VERSION} {folder.config.corpus.chunk!r} {tags!r}"


def _report(folder: Folder, changes: Changes, kept: Kept, seconds: float) -> IndexReport:
    with closing(Store(folder.places.store, read_only=True)) as store:
        private = {state.path for state in kept.private}
        not_kept = kept.left.union(problem.path for problem in kept.failed) | private
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
            truncated=0,
            seconds=round(seconds, 3),
            generation=store.generation,
            deferred=len(kept.left) + kept.passed_over,
        )
