"""From the files on disk to a committed generation: what changed is read, its words are kept, then its vectors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from thumbindex.corpus.changes import Comparison, find_changes
from thumbindex.corpus.links import LinkResolver
from thumbindex.corpus.parse import parse_document
from thumbindex.corpus.read import digest_of, read_bytes, read_digest
from thumbindex.corpus.walk import walk
from thumbindex.index.writer import Batch, Resolve, Writer
from thumbindex.library.embedding import OpenEmbedder, embed_folder
from thumbindex.library.folders import Folder
from thumbindex.model import Changes, Document, FileState, IndexReport, ParsedDocument, Problem, Progress

DOCUMENTS_A_COMMIT = 1000
"""Few enough that a new vault answers early, many enough that a commit's own cost does not count."""

PARSE_VERSION = 1
"""Changes when the same file would be cut another way: every file is read again."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Run:
    """What one call of `index_folders` was asked to do."""

    words_only: bool = False
    rebuild: bool = False
    verify: bool = False
    tell: Callable[[Progress], None] = lambda progress: None
    interrupted: Callable[[], bool] = lambda: False  # asked between two batches of vectors: what is left is left for the next run
    documents_a_commit: int = DOCUMENTS_A_COMMIT


@dataclass(frozen=True, slots=True)
class Listing:
    """What a walk told beside the files' states."""

    problems: tuple[Problem, ...]
    modified: Mapping[str, float]  # by path, seconds


def index_folders(folders: Sequence[Folder], run: Run, open_embedder: OpenEmbedder) -> IndexReport:
    """Bring folders' indexes up to the disk: the words of all of them first, then vectors. Raises ModelError with the words kept."""
    reports = [index_words(folder, run) for folder in folders]
    if not run.words_only:
        reports = [index_vectors(folder, run, open_embedder, report) for folder, report in zip(folders, reports, strict=True)]
    first, *others = reports
    for other in others:
        first = replace(first, **{f.name: getattr(first, f.name) + getattr(other, f.name) for f in fields(IndexReport)})
    return first


def index_words(folder: Folder, run: Run) -> IndexReport:
    """Compare, read what differs, and keep its words."""
    began = time.perf_counter()
    with Writer.open(folder.places.folder) as writer:
        comparison, listing = compare(folder, writer, run)
        keep_words(folder, writer, comparison, listing, run)
        return _report(writer, comparison.changes, time.perf_counter() - began)


def index_vectors(folder: Folder, run: Run, open_embedder: OpenEmbedder, report: IndexReport) -> IndexReport:
    """Embed what has no vector yet, and add that to a report."""
    began = time.perf_counter()
    done = embed_folder(folder, open_embedder, run.tell, run.interrupted)
    with Writer.open(folder.places.folder) as writer:
        writer.merge_keyword()
        generation = writer.store.generation
    seconds = round(report.seconds + time.perf_counter() - began, 3)
    return replace(report, embedded=done.asked, reused=done.reused, truncated=done.truncated, seconds=seconds, generation=generation)


def compare(folder: Folder, writer: Writer, run: Run) -> tuple[Comparison, Listing]:
    """Walk the folder and find out what differs from the index; files are read only where their facts differ."""
    now = time.time_ns()
    states, problems = walk(folder.root, folder.config.corpus)
    known = writer.store.manifest()
    comparison = find_changes(known, states, lambda path: read_digest(folder.root, path, folder.config.corpus), now_ns=now, verify=run.verify)
    if run.rebuild or writer.store.meta("corpus") != _cutting(folder):
        again = tuple(sorted({state.path for state in states} & set(known)))
        comparison = replace(comparison, changes=replace(comparison.changes, changed=again, unchanged=0), touched=())
    listing = Listing(problems, {state.path: state.mtime_ns / 1e9 for state in states})
    return keep_unlisted(comparison, listing), listing


def keep_unlisted(comparison: Comparison, listing: Listing) -> Comparison:
    """Take back removals under folders that could not be listed: what cannot be seen is not gone."""
    problems = {problem.path for problem in listing.problems}
    hidden = ("",) if "." in problems else tuple(f"{path.rstrip('/')}/" for path in problems)
    removed = tuple(path for path in comparison.changes.removed if path not in problems and not path.startswith(hidden))
    return replace(comparison, changes=replace(comparison.changes, removed=removed))


def keep_words(folder: Folder, writer: Writer, comparison: Comparison, listing: Listing, run: Run) -> None:
    """Read what is new or changed and commit it, a batch at a time, newest files first; the removed go with the first batch."""
    changes, states = comparison.changes, {state.path: state for state in comparison.states}
    paths = sorted((*changes.added, *changes.changed), key=lambda path: (-listing.modified[path], path))
    if not (paths or changes.removed or comparison.touched) and writer.is_complete(listing.problems):
        return
    touched = [(states[path], listing.modified[path]) for path in comparison.touched]
    unread: list[Problem] = []
    for group, last in _parts(paths, run.documents_a_commit):
        documents, failed = _read(folder, [states[path] for path in group], listing)
        unread += failed
        removed = [*changes.removed, *(problem.path for problem in failed)]
        batch = Batch(documents, removed, touched, (*listing.problems, *unread)) if last else Batch(documents, removed, last=False)
        writer.apply(batch, _resolver)
        run.tell(Progress(folder.name, "words", paths.index(group[-1]) + 1 if group else 0, len(paths)))
    writer.note("corpus", _cutting(folder), root=str(folder.root))


def _read(folder: Folder, states: Sequence[FileState], listing: Listing) -> tuple[list[tuple[FileState, ParsedDocument]], list[Problem]]:
    documents: list[tuple[FileState, ParsedDocument]] = []
    failed: list[Problem] = []
    for state in states:
        data = read_bytes(folder.root, state.path, folder.config.corpus)
        if isinstance(data, Problem):
            failed.append(data)
        else:
            parsed = parse_document(state.path, data, folder.config.corpus, listing.modified[state.path])
            documents.append((replace(state, digest=digest_of(data)), parsed))
    return documents, failed


def _resolver(documents: Sequence[Document]) -> Resolve:
    return LinkResolver.of(documents).resolve


def _cutting(folder: Folder) -> str:
    """Return what decides how a file is cut: another value means that every file is read again."""
    return f"{PARSE_VERSION} {folder.config.corpus.chunk!r}"


def _parts(items: Sequence[Item], size: int) -> Iterator[tuple[Sequence[Item], bool]]:
    """Yield parts of at most `size` items, one empty part where there are none; True with the last."""
    for start in range(0, max(len(items), 1), size):
        yield items[start : start + size], start + size >= len(items)


def _report(writer: Writer, changes: Changes, seconds: float) -> IndexReport:
    store = writer.store
    problems, indexed = store.problems(), set(store.manifest())
    resolved, dangling = store.link_counts()
    return IndexReport(
        added=len(indexed.intersection(changes.added)),
        changed=len(changes.changed),
        removed=len(changes.removed),
        unchanged=changes.unchanged,
        skipped=problems,
        links_resolved=resolved,
        links_dangling=dangling,
        chunks=len(store.chunk_rows()),
        embedded=0,
        reused=0,
        truncated=0,
        seconds=round(seconds, 3),
        generation=store.generation,
    )
