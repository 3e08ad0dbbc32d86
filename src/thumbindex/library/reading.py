"""Read single documents: their lines, their headings, what stands near them, and how many tokens
they cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from thumbindex.corpus.parse import comments_of, headings_of
from thumbindex.corpus.read import decode_visible
from thumbindex.errors import UnknownPathError, UsageError
from thumbindex.index.filters import FilterIndex, newest_first, passes
from thumbindex.index.store import Store, document_from_row
from thumbindex.library.folders import Folder
from thumbindex.library.note_lookup import (
    FoundNote,
    heading_ranges,
    unknown_heading_error,
    unknown_path_error,
)
from thumbindex.library.reader import Reader
from thumbindex.library.visibility import (
    SUGGESTED_NAMES,
    hidden_paths,
    read_visible,
    visible_documents,
)
from thumbindex.model import (
    BrokenLink,
    BrokenLinks,
    Chunk,
    ChunkId,
    Document,
    DocumentId,
    Excerpt,
    Filters,
    Link,
    ListedNote,
    NoteList,
    OutlineEntry,
    Passage,
    Problem,
    RelatedNotes,
    SimilarNote,
    day_of,
    iso_day,
)
from thumbindex.ports import Snapshot, Vector
from thumbindex.query.operators import unmet_arguments

_SAMPLE = 4_000
"""Characters of a passage that tell how many bytes of its note a token stands for."""

_DIGITS = 2
"""Digits of an estimate that are more than noise."""


def note_tokens(
    passages: Sequence[Passage], readers: Sequence[Reader], count: Callable[[str], int]
) -> dict[tuple[str, str], int]:
    """Return about how many tokens whole notes have, by folder and path: from their files' sizes,
    and what a token is in the passages.
    """
    sizes: dict[tuple[str, str], int] = {}
    for reader in readers:
        if reader.indexed:
            name = reader.folder.name
            paths = {each.path for each in passages if each.folder == name}
            sizes |= {(name, path): size for path, size in reader.store.sizes(paths).items()}
    # the best one's last
    samples = {(each.folder, each.path): each.text[:_SAMPLE] for each in reversed(passages)}
    found = {}
    for place, size in sizes.items():
        sample = len(samples[place].encode("utf-8", "replace"))
        tokens = round(size * (count(samples[place]) / sample)) if sample else 0
        found[place] = round(tokens, min(0, _DIGITS - len(str(tokens))))
    return found


@dataclass(frozen=True, slots=True)
class Note:
    """One document as its author wrote it."""

    document: Document
    # in order, as a reader sees them; one that stands in two places comes twice
    headings: tuple[str, ...]
    texts: tuple[str, ...]  # of its chunks, in order
    links: tuple[Link, ...]


def read_notes(folders: Sequence[Folder]) -> tuple[Note, ...]:
    """Return every document of the folders' indexes, by folder and path; the notes themselves are
    not read.
    """
    return tuple(
        note for folder in folders if folder.places.store.exists() for note in _notes_of(folder)
    )


def _notes_of(folder: Folder) -> Iterator[Note]:
    with closing(Store(folder.places.store, read_only=True)) as store, store.read_transaction():
        rows, facts = store.chunk_rows(), store.documents()
        chunks = store.chunks([row for row, *_ in rows])
        links: dict[str, list[Link]] = defaultdict(list)
        for source, _, link in store.links():
            links[source].append(link)
    texts: dict[int, list[Chunk]] = defaultdict(list)
    for row, document, _ in sorted(rows, key=lambda each: each[2]):
        if row in chunks:
            texts[document].append(chunks[row])
    for row, path, title, times, rest in facts:
        found = document_from_row(path, title, times, rest, folder.name)
        headings, above = list[str](), tuple[str, ...]()
        for chunk in texts[row]:
            own = chunk.heading_path[1:]
            same = [*(a == b for a, b in zip(above, own, strict=False)), False].index(False)
            headings += own[same:]
            above = own
        yield Note(
            found, tuple(headings), tuple(each.text for each in texts[row]), tuple(links[path])
        )


_COMMENTS_FLAGGED = 5
"""Comments of an excerpt that are flagged one by one; the rest is counted."""


def list_notes(
    filters: Filters, readers: Sequence[Reader], linked: Collection[tuple[str, str]] = ()
) -> NoteList:
    """List the notes that filters let through, without a question: the newest first, then by path;
    those that are `linked` are left out.
    """
    documents = visible_documents(readers)
    passed = [
        DocumentId(n)
        for n, each in enumerate(documents)
        if passes(each, filters) and (each.folder, each.path) not in linked
    ]
    notes = tuple(
        ListedNote(each.folder, each.path, each.title, iso_day(day_of(each)), each.tags)
        for each in (documents[n] for n in newest_first(documents, passed))
    )
    unmet = unmet_arguments(
        filters,
        FilterIndex(documents).near,
        lambda one: any(passes(each, one) for each in documents),
    )
    unmet = tuple(replace(each, nearest=each.nearest[:SUGGESTED_NAMES]) for each in unmet)
    lacking = replace(filters, since=None, until=None)
    undated = 0
    if filters != lacking:
        undated = sum(day_of(each) is None and passes(each, lacking) for each in documents)
    return NoteList(notes, unmet, undated)


def list_orphans(filters: Filters, readers: Sequence[Reader]) -> NoteList:
    """List the notes that no other note links to, of those that filters let through."""
    linked = {
        (folder, link.resolved)
        for folder, path, link, _ in _open_links(readers)
        if link.resolved and link.resolved != path
    }
    return list_notes(filters, readers, linked)


def list_broken(filters: Filters, readers: Sequence[Reader]) -> BrokenLinks:
    """List the links to no note, in the notes that filters let through; a note that may not be
    shown now is none.
    """
    notes = list_notes(filters, readers)
    sources = {(each.folder, each.path) for each in notes.notes}
    found = (
        BrokenLink(folder, path, link.line, link.kind, link.target, link.fragment, link.text)
        for folder, path, link, hidden in _open_links(readers)
        if (folder, path) in sources and (hidden or not link.resolved)
    )
    return BrokenLinks(
        tuple(sorted(found, key=lambda each: (each.folder, each.path, each.line))), notes.unmet
    )


def _open_links(readers: Sequence[Reader]) -> Iterator[tuple[str, str, Link, bool]]:
    """Yield the links of notes that may be shown now, by folder and path, and whether each leads to
    a note that may not.
    """
    for reader in readers:
        if reader.indexed:
            name, links = reader.folder.name, reader.store.links()
            paths = {path for path, _, _ in links} | {
                link.resolved for _, _, link in links if link.resolved
            }
            hidden = hidden_paths(paths, reader)
            yield from (
                (name, path, link, link.resolved in hidden)
                for path, _, link in links
                if path not in hidden
            )


def read_excerpt(found: FoundNote, heading: str | None, lines: tuple[int, int] | None) -> Excerpt:
    """Return a document's lines as they stand on disk: all, those under a heading, or a range."""
    reader, document = found.reader, found.document
    text = text_now(reader, document.path)
    rows = text.split("\n")
    if rows and not rows[-1]:
        rows.pop()
    first, last = 1, len(rows)
    if heading is not None:
        headings = headings_of(document.path, text)
        if not (meant := heading_ranges(heading, headings, len(rows))):
            raise unknown_heading_error(document.path, heading, [name for _, name, _ in headings])
        first, last = meant[0]
    elif lines is not None:
        first, last = lines
        if not 1 <= first <= last or first > max(len(rows), 1):
            raise UsageError(
                f"{document.path} has lines 1 to {len(rows)}: {first} to {last} is no range "
                "of them."
            )
        last = min(last, len(rows))
    shown = "\n".join(rows[first - 1 : last])
    flags = (*document.flags, *_unseen(comments_of(document.path, text), first, last))
    return Excerpt(
        reader.folder.name, document.path, document.title, first, last, len(rows), shown, flags
    )


def _unseen(comments: Sequence[tuple[int, int]], first: int, last: int) -> Iterator[str]:
    """Flag the comments that reach into some lines: they are read as they stand in the file, where
    a reader of the note does not see them.
    """
    lines = [
        (max(start, first), min(end, last))
        for start, end in comments
        if start <= last and end >= first
    ]
    for start, end in lines[:_COMMENTS_FLAGGED]:
        to = f", to line {end}" if end > start else ""
        yield f"{start}: a comment, which a reader of the note does not see{to}"
    if len(lines) > _COMMENTS_FLAGGED:
        yield (
            f"{lines[_COMMENTS_FLAGGED][0]}: and {len(lines) - _COMMENTS_FLAGGED} more comments "
            "from here on"
        )


def entry_of(document: Document) -> OutlineEntry:
    """Return a document as an entry of an outline."""
    return OutlineEntry(document.folder, document.path, 0, document.title, 1)


def outline_headings(found: FoundNote) -> tuple[OutlineEntry, ...]:
    """List a document's title and headings."""
    reader, document = found.reader, found.document
    headings = headings_of(document.path, text_now(reader, document.path))
    entries = (
        OutlineEntry(reader.folder.name, document.path, level, text, line)
        for level, text, line in headings
    )
    return (entry_of(document), *entries)


def related_to(found: FoundNote, limit: int) -> RelatedNotes:
    """Return a document's links both ways and the documents whose mean vectors are nearest to its
    own; a link to a note that may not be shown now is left out.
    """
    reader, snapshot, own, document = found.reader, found.snapshot, found.id, found.document
    links = (link for _, _, link in reader.store.links([document.path]))
    dangling = {link.target for link in links if not link.resolved}
    linked, linking = snapshot.graph.linked(own), snapshot.graph.linking(own)
    similar = nearest_documents(snapshot, own, limit)
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


def nearest_documents(
    snapshot: Snapshot, own: DocumentId, limit: int
) -> list[tuple[DocumentId, float]]:
    """Return the documents with the highest cosine between mean vectors, best first."""
    center = mean_vector(snapshot, own)
    if center is None:
        return []
    found = {hit.document for hit in snapshot.vector.search(center, 20 * limit)} - {own}
    means = {n: mean_vector(snapshot, n) for n in found}
    scored = [(n, float(center @ mean)) for n, mean in means.items() if mean is not None]
    return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:limit]


def text_now(reader: Reader, path: str) -> str:
    """Return a note's text as it is on disk.

    Raises UnknownPathError where it cannot be read, or may not be.
    """
    if reader.database:
        published = reader.database.store(reader.folder.name).source(path)
        if published is None:
            raise unknown_path_error(path)
        return published
    data = read_visible(reader.folder, path, reader.store)
    if data is None:  # it was rewritten since it was found
        raise unknown_path_error(path)
    if isinstance(data, Problem) and not reader.folder.root.is_dir():
        raise UnknownPathError(
            f"{path} cannot be read: the folder {reader.folder.root} is not there now; "
            "`query` answers from what was read last."
        )
    if isinstance(data, Problem):
        raise UnknownPathError(
            f"{path} {data.reason}; `thumbindex index` brings the index up to the disk."
        )
    return decode_visible(path, data)


def mean_vector(snapshot: Snapshot, document: DocumentId) -> Vector | None:
    """Return the mean of a document's vectors at unit length; None if it has no vector."""
    vectors = snapshot.vector.vectors([ChunkId(n) for n in snapshot.catalog.chunk_ids(document)])
    vectors = vectors[~np.isnan(vectors).any(axis=1)]
    if not len(vectors):
        return None
    mean = vectors.mean(axis=0)
    length = float(np.linalg.norm(mean))
    return np.asarray(mean / length, dtype=np.float32) if length else None
