"""Related notes: links, backlinks, similar notes, and missing or broken links."""

from __future__ import annotations

import os
import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import attrgetter

import numpy as np

from thumbindex.corpus.ignore import is_private_by_glob
from thumbindex.corpus.links import LinkResolver, may_lead_elsewhere, possible_paths
from thumbindex.corpus.read import path_inside
from thumbindex.errors import UnknownPathError
from thumbindex.library.decisions import once_per_content, read_clusters
from thumbindex.library.note_lookup import FoundNote
from thumbindex.library.places import NotePlaces
from thumbindex.library.reader import DiskReader, Reader
from thumbindex.library.reading import current_text, list_notes
from thumbindex.library.visibility import all_documents, hidden_paths, private_paths
from thumbindex.model import (
    SUCCESSION,
    BrokenLink,
    BrokenLinks,
    BrokenReason,
    ChunkId,
    Document,
    DocumentId,
    Filters,
    Link,
    LinkKind,
    NoteList,
    RelatedNotes,
    SimilarNote,
    UnlinkedPair,
    day_of,
    iso_day,
)
from thumbindex.ports import Matrix, Snapshot, Vector

_MAX_COMPARED_NOTES = 20_000
"""Maximum notes of a folder that are compared, newest first."""

_NEIGHBORS = 5
"""Nearest neighbors of each note that are considered for a link."""

_MIN_COSINE = 0.55
"""Links are suggested only between notes with at least this cosine.

With a lower cosine, most pairs share only a general subject.
"""

_COPY_COSINE = 0.98
"""Two notes with at least this cosine are copies. No links are suggested between copies."""

_ROW_BATCH = 250

_MAX_COPIES = 1_000
"""Only this many texts of each duplicate cluster are compared to find copied notes."""

_LOCK = threading.Lock()
"""Allows one search for unlinked pairs at a time: a search keeps a core busy for seconds."""


def related_to(note: FoundNote, limit: int) -> RelatedNotes:
    """Return a document's outgoing links, backlinks and most similar visible documents."""
    reader, snapshot, id_, document = note.reader, note.snapshot, note.id, note.document
    links = [(path, link) for path, _, link in reader.store.links([document.path])]
    dangling = {link.target for link in broken_in(reader, links) if link.reason == "missing note"}
    linked, linking = snapshot.graph.outgoing(id_), snapshot.graph.incoming(id_)
    similar = _nearest_documents(snapshot, id_, limit)
    around = (*linked, *linking, *(n for n, _ in similar))
    paths = {n: snapshot.catalog.documents[n].path for n in around}
    hidden = hidden_paths(paths.values(), reader)
    paths = {n: path for n, path in paths.items() if path not in hidden}
    return RelatedNotes(
        reader.folder.name,
        document.path,
        tuple(paths[n] for n in linked if n in paths),
        tuple(paths[n] for n in linking if n in paths),
        tuple(sorted(dangling)),
        tuple(SimilarNote(paths[n], round(cosine, 4)) for n, cosine in similar if n in paths),
    )


def _nearest_documents(
    snapshot: Snapshot, document: DocumentId, limit: int
) -> list[tuple[DocumentId, float]]:
    """Return the documents with the highest cosine between mean vectors, best first."""
    center = _mean_vector(snapshot, document)
    if center is None:
        return []
    candidates = {hit.document for hit in snapshot.vector.search(center, 20 * limit)} - {document}
    means = {n: _mean_vector(snapshot, n) for n in candidates}
    scored = [(n, float(center @ mean)) for n, mean in means.items() if mean is not None]
    return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:limit]


def _mean_vector(snapshot: Snapshot, document: DocumentId) -> Vector | None:
    """Return the unit-length mean of a document's vectors; None without vectors."""
    vectors = snapshot.vector.exact_vectors(
        [ChunkId(n) for n in snapshot.catalog.chunk_ids(document)]
    )
    vectors = vectors[~np.isnan(vectors).any(axis=1)]
    if not len(vectors):
        return None
    mean = vectors.mean(axis=0)
    length = float(np.linalg.norm(mean))
    return np.asarray(mean / length, dtype=np.float32) if length else None


# ------------------------------------------------------------------ links


def list_orphans(filters: Filters, readers: Sequence[Reader]) -> NoteList:
    """List the notes that pass the filters and that no other note links to."""
    linked = {
        (folder, link.resolved)
        for folder, path, link in _visible_links(readers)
        if link.resolved and link.resolved != path
    }
    return list_notes(filters, readers, linked)


def list_broken(
    notes: NoteList, readers: Sequence[Reader], *, for_owner: bool = False
) -> BrokenLinks:
    """List broken links in some visible notes.

    A link to a hidden note looks as if the note were missing, unless `for_owner` is set.
    """
    sources = {(note.folder, note.path) for note in notes.notes}
    broken = list[BrokenLink]()
    for reader in readers:
        if reader.indexed:
            links = [
                (path, link)
                for path, _, link in reader.store.links()
                if (reader.folder.name, path) in sources
            ]
            broken += broken_in(reader, links, for_owner=for_owner)
            broken += _missing_places(reader, links)
    return BrokenLinks(tuple(sorted(broken, key=attrgetter("folder", "path", "line"))), notes.unmet)


def broken_in(
    reader: Reader, links: Sequence[tuple[str, Link]], *, for_owner: bool = False
) -> Iterator[BrokenLink]:
    """Yield the broken links of a folder. `links` are pairs of a note's path and a link."""
    folder = reader.folder
    hidden = hidden_paths({link.resolved for _, link in links if link.resolved}, reader)
    private: LinkResolver | None = None
    for path, link in links:
        is_hidden = link.resolved in hidden
        if link.kind in SUCCESSION:
            continue
        if (link.resolved is not None and not is_hidden) or may_lead_elsewhere(link.target):
            continue
        reason: BrokenReason = "missing note"
        if for_owner and isinstance(reader, DiskReader):
            private = private or LinkResolver.of(
                (Document(note, "") for note in private_paths(reader)), folder.root.name
            )
            if private.resolve(link, path):
                reason = "private note"
        if reason != "missing note" or is_hidden or not _leads_to_file(reader, link, path):
            yield _broken_link(reader, path, link, reason)


def _missing_places(reader: Reader, links: Sequence[tuple[str, Link]]) -> Iterator[BrokenLink]:
    """Yield the links to a heading or block that the note does not have.

    An address on a site may end with a name that only its generator knows: it is not checked.
    """
    by_note = defaultdict[str, list[tuple[str, Link]]](list)
    for path, link in links:
        names_file = link.target.lower().endswith((".md", ".markdown"))
        if (
            link.resolved
            and link.fragment
            and (names_file or link.kind in (LinkKind.WIKILINK, LinkKind.EMBED))
        ):
            by_note[link.resolved].append((path, link))
    hidden = hidden_paths(by_note, reader)
    for target in (note for note in by_note if note not in hidden):
        with suppress(UnknownPathError):  # it became private or unreadable
            text = current_text(reader, target)
            is_in_vault = reader.is_published or reader.folder.is_in_vault(target)
            fragments = frozenset(link.fragment for _, link in by_note[target])
            missing = _missing_fragments(target, text, is_in_vault, fragments)
            for path, link in by_note[target]:
                if link.fragment in missing:
                    is_block = link.fragment.startswith("^")
                    reason: BrokenReason = "missing block" if is_block else "missing heading"
                    yield _broken_link(reader, path, link, reason)


@lru_cache(maxsize=2_000)
def _missing_fragments(
    path: str, text: str, is_in_vault: bool, fragments: frozenset[str]
) -> frozenset[str]:
    places = NotePlaces(path, text, is_in_vault)
    return frozenset(fragment for fragment in fragments if not places.ranges(fragment))


def _broken_link(reader: Reader, path: str, link: Link, reason: BrokenReason) -> BrokenLink:
    place = (reader.folder.name, path, link.line, link.kind, link.target, link.fragment)
    return BrokenLink(*place, link.text, reason)


def _leads_to_file(reader: Reader, link: Link, source: str) -> bool:
    """Return whether a link leads to a file of the folder that is no note, or to a directory.

    A private one does not count, so that it looks as if it were missing.
    """
    folder = reader.folder
    is_address = link.kind in (LinkKind.MARKDOWN, LinkKind.RELATED)
    if reader.is_published or folder.config.blocks_indexing or not is_address:
        return False
    root, settings = str(folder.root), folder.config.corpus
    for path in possible_paths(link.target.replace("\\", "/"), source, link.kind, folder.root.name):
        with suppress(OSError, ValueError):  # no valid path
            if not os.path.exists(f"{root}/{path}"):  # noqa: PTH110 - faster
                continue
            real = path_inside(root, os.path.realpath(f"{root}/{path}"))
            if (
                real is not None
                and not real.lower().endswith(settings.extensions)
                and not (path and is_private_by_glob(root, path, settings, {}))
            ):
                return True
    return False


def _visible_links(readers: Sequence[Reader]) -> Iterator[tuple[str, str, Link]]:
    """Yield (folder, path, link) for each link between two visible notes."""
    for reader in readers:
        if reader.indexed:
            links = [(path, link) for path, _, link in reader.store.links() if link.resolved]
            paths = {path for path, _ in links} | {str(link.resolved) for _, link in links}
            hidden = hidden_paths(paths, reader)
            yield from (
                (reader.folder.name, path, link)
                for path, link in links
                if not {path, link.resolved} & hidden
            )


# ------------------------------------------------------------------ missing links


def unlinked_pairs(reader: Reader) -> tuple[UnlinkedPair, ...]:
    """Return pairs of similar notes without a link between them, most similar first.

    Leaves out copies, translations, and notes whose names differ only in a number.
    """
    if not reader.indexed:
        return ()
    with _LOCK:
        pairs, copies = _similar_pairs(reader), _copies(reader)
    hidden = hidden_paths({path for pair in pairs for path in (pair.path, pair.other)}, reader)
    return tuple(
        pair
        for pair in pairs
        if not hidden & {pair.path, pair.other} and frozenset((pair.path, pair.other)) not in copies
    )


@once_per_content
def _similar_pairs(reader: Reader) -> tuple[UnlinkedPair, ...]:
    """Return the similar pairs without a link, with copies and hidden notes."""
    folder_snapshot = reader.folder_snapshot()
    snapshot = folder_snapshot.snapshot
    ids = {path: DocumentId(n) for n, path in enumerate(folder_snapshot.catalog.paths)}
    documents: list[Document] = []
    means = []
    for document in _newest(list(all_documents([reader]))):
        mean = _mean_vector(snapshot, ids[document.path]) if document.path in ids else None
        if mean is not None:
            documents.append(document)
            means.append(mean)
    nearest = _nearest_pairs(np.stack(means)) if means else {}

    def is_linked(first: DocumentId, second: DocumentId) -> bool:
        graph = snapshot.graph
        return second in graph.outgoing(first) or first in graph.outgoing(second)

    pairs = []
    for (a, b), cosine in sorted(nearest.items(), key=lambda item: (-item[1], item[0])):
        first, second = documents[a], documents[b]
        if (
            _MIN_COSINE <= cosine < _COPY_COSINE
            and _is_worth_a_link(first, second)
            and not is_linked(ids[first.path], ids[second.path])
        ):
            pairs.append(
                UnlinkedPair(reader.folder.name, first.path, second.path, round(cosine, 4))
            )
    return tuple(pairs)


def _newest(documents: Sequence[Document]) -> list[Document]:
    """Return the newest documents, at most `_MAX_COMPARED_NOTES`."""
    if len(documents) <= _MAX_COMPARED_NOTES:
        return list(documents)
    newest = sorted(documents, key=lambda document: iso_day(day_of(document)), reverse=True)
    return newest[:_MAX_COMPARED_NOTES]


def _nearest_pairs(means: Matrix) -> dict[tuple[int, int], float]:
    """Pair each row of `means` with its `_NEIGHBORS` nearest rows; return the pairs' cosines."""
    pairs: dict[tuple[int, int], float] = {}
    count = min(_NEIGHBORS + 1, len(means))  # each row is its own nearest neighbor
    for start in range(0, len(means), _ROW_BATCH):
        cosines = means[start : start + _ROW_BATCH] @ means.T
        best = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
        for row, neighbors in enumerate(best.tolist(), start):
            for neighbor in neighbors:
                if row != neighbor:
                    pairs[min(row, neighbor), max(row, neighbor)] = float(
                        cosines[row - start, neighbor]
                    )
    return pairs


_NUMBERS = re.compile(r"\d+(?:[._-]\d+)*")
"""A number, version or date, such as `2026-01-31`."""


def _is_worth_a_link(first: Document, second: Document) -> bool:
    if first.language and second.language and first.language != second.language:
        return False
    files = [
        _NUMBERS.sub("0", document.path.rpartition("/")[2].casefold())
        for document in (first, second)
    ]
    titles = [_NUMBERS.sub("0", document.title.casefold()) for document in (first, second)]
    return files[0] != files[1] and titles[0] != titles[1]


def _copies(reader: Reader) -> set[frozenset[str]]:
    """Return the pairs of notes that share a duplicated text."""
    return {
        frozenset((a.path, b.path))
        for cluster in read_clusters(reader)[0]
        if cluster.zone == "same" or cluster.verdict
        for a in cluster.texts[:_MAX_COPIES]
        for b in cluster.texts[:_NEIGHBORS]
    }
