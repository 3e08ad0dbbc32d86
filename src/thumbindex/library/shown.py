"""Which notes may be shown as their files are now: none that became private or is gone.

Whatever is read from an index passes here on its way out.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Literal

from thumbindex.corpus.private import is_private
from thumbindex.corpus.read import content_digest, read_bytes
from thumbindex.corpus.walk import Names, facts_of, state_of
from thumbindex.errors import StorageError
from thumbindex.index.store import Store
from thumbindex.library.folders import Folder
from thumbindex.library.indexing import cutting, holds_nothing
from thumbindex.library.reader import DiskReader, OpenedIndex, Reader
from thumbindex.model import (
    Answer,
    Cluster,
    Condition,
    Document,
    FileState,
    Filters,
    Passage,
    Place,
    Problem,
    UnmetFilter,
    WhyReport,
)
from thumbindex.ports import Selection
from thumbindex.query.expansion import as_searched
from thumbindex.query.operators import unmet_arguments
from thumbindex.query.retrieve import KEYWORD_FIELDS
from thumbindex.query.stage import Search, Tools
from thumbindex.text import words

if TYPE_CHECKING:
    from thumbindex.postgres.published_store import PublishedStore

NAMES_TOLD = 3
"""Names that are told of those that come near."""

_LOOKED_AT = 50
"""Notes whose files are looked at at once."""

Look = Literal["as indexed", "changed", "gone", "private"]
"""What a note's file is now. A note that is gone or private is not shown."""

NotePlace = tuple[str, str]
"""Folder and path of a note."""

# ------------------------------------------------------------------ one note


def look_at(folder: Folder, paths: Collection[str], store: Store | None) -> dict[str, Look]:
    """Return what the files of a folder's notes are now, whatever the index still knows of them.

    A file is read only if its size, times or place on the disk are not those that were indexed.
    """
    indexed: Mapping[str, FileState] = {}
    is_read_so = False
    with suppress(StorageError):
        if store is not None:
            indexed, is_read_so = store.manifest(paths), store.meta("corpus") == cutting(folder)
    names: Names = {}
    return {path: _look(folder, path, indexed.get(path), is_read_so, names) for path in paths}


def _look(
    folder: Folder, path: str, indexed: FileState | None, is_read_so: bool, names: Names
) -> Look:
    root, settings = folder.root, folder.config.corpus
    if is_private(root, path, settings, b"", names):
        return "private"
    try:
        # (of a listing's every note)
        state = state_of(path, os.stat(f"{root}/{path}"))  # noqa: PTH116
        if indexed is not None and is_read_so and facts_of(state) == facts_of(indexed):
            return "as indexed"
    # it may be private where it lies now; of a folder that is away nothing has moved
    except (FileNotFoundError, NotADirectoryError):
        if not holds_nothing(root):
            return "gone"
    except (OSError, ValueError):
        pass
    data = read_bytes(root, path, settings)
    is_same = _is_same(data, indexed)
    if _is_kept(folder, path, data, is_same, names):
        return "private"
    # what cannot be read is taken to be as it was
    return "as indexed" if is_same or isinstance(data, Problem) else "changed"


def read_shown(
    folder: Folder, path: str, store: Store | PublishedStore | None
) -> bytes | Problem | None:
    """Return what a note's file holds now; None if it may not be shown."""
    indexed = None if store is None else store.manifest([path]).get(path)
    data = read_bytes(folder.root, path, folder.config.corpus)
    return None if _is_kept(folder, path, data, _is_same(data, indexed), {}) else data


def _is_kept(folder: Folder, path: str, data: bytes | Problem, is_same: bool, names: Names) -> bool:
    """Return whether a file is private. In a closed folder, every file is that has changed since it
    was indexed: the list of private notes cannot be read there.
    """
    return (folder.config.closed and not is_same) or is_private(
        folder.root, path, folder.config.corpus, data, names
    )


def _is_same(data: bytes | Problem, indexed: FileState | None) -> bool:
    """Return whether a file was read and is as it was indexed."""
    if indexed is None or isinstance(data, Problem):
        return False
    return indexed.digest == content_digest(data)


# ------------------------------------------------------------------ some notes


def looks_now(places: Iterable[NotePlace], readers: Sequence[Reader]) -> dict[NotePlace, Look]:
    """Return what the files of some notes are now; of published folders nothing is known."""
    paths: dict[str, set[str]] = defaultdict(set)
    for folder, path in places:
        paths[folder].add(path)
    found: dict[NotePlace, Look] = {}
    for reader in readers:
        if (asked := paths.get(reader.folder.name)) and isinstance(reader, DiskReader):
            try:
                store = reader.store
            except StorageError:  # it is just being put in the place of another: all are read
                store = None
            looks = look_at(reader.folder, asked, store)
            found |= {(reader.folder.name, path): look for path, look in looks.items()}
    return found


def hidden_among(looks: Mapping[NotePlace, Look]) -> frozenset[NotePlace]:
    """Return the notes that may not be shown."""
    return frozenset(place for place, look in looks.items() if look in ("gone", "private"))


def hidden_now(places: Iterable[NotePlace], readers: Sequence[Reader]) -> frozenset[NotePlace]:
    """Return which notes may not be shown as their files are now."""
    return hidden_among(looks_now(places, readers))


def hidden_paths_now(paths: Iterable[str], reader: Reader) -> set[str]:
    """Return which paths of a folder may not be shown now."""
    return {
        path for _, path in hidden_now(((reader.folder.name, each) for each in paths), [reader])
    }


def every_document(readers: Sequence[Reader]) -> Iterator[Document]:
    """Yield all documents, by folder and path, whatever may be shown of them."""
    return (
        document
        for reader in readers
        if reader.indexed
        for _, document in reader.opened().catalog.every_document()
    )


def open_documents(readers: Sequence[Reader]) -> list[Document]:
    """Return all documents that may be shown now, by folder and path."""
    documents = list(every_document(readers))
    hidden = hidden_now(((each.folder, each.path) for each in documents), readers)
    return [each for each in documents if (each.folder, each.path) not in hidden]


def shown(documents: Iterable[Document], readers: Sequence[Reader]) -> Iterator[Document]:
    """Yield the documents that may be shown now; the files of few more are looked at than are
    taken.
    """
    rest = iter(documents)
    while some := list(islice(rest, _LOOKED_AT)):
        hidden = hidden_now(((each.folder, each.path) for each in some), readers)
        yield from (each for each in some if (each.folder, each.path) not in hidden)


def shown_clusters(clusters: Sequence[Cluster], readers: Sequence[Reader]) -> list[Cluster]:
    """Return clusters without the texts of notes that may not be shown now."""
    hidden = hidden_now(
        ((each.folder, each.path) for cluster in clusters for each in cluster.texts), readers
    )
    return [
        replace(
            cluster,
            texts=tuple(each for each in cluster.texts if (each.folder, each.path) not in hidden),
        )
        for cluster in clusters
    ]


# ------------------------------------------------------------------ an answer

_FIRST = 8
"""Chunks with a word, or that pass a filter, of which one has to be of a note that may be shown."""


class Door:
    """What may be told of a search: nothing of notes that may not be shown now."""

    def __init__(self, search: Search, tools: Tools, opened: Mapping[Reader, OpenedIndex]) -> None:
        self._search, self._tools, self._opened = search, tools, opened
        # whatever is published may be shown
        self._readers = [reader for reader in opened if not reader.is_published]

    def let_out(self, found: Answer) -> Answer:
        """Return an answer without what it says of notes that may not be shown.

        One that has no passage left is an answer that found nothing.
        """
        looks = looks_now(self._named_in(found), self._readers) if self._readers else {}
        hidden = hidden_among(looks)
        open_ones = (each for each in found.passages if (each.folder, each.path) not in hidden)
        passages = tuple(
            _with_shown_places(replace(each, rank=rank), looks)
            for rank, each in enumerate(open_ones, 1)
        )
        taken_out = len(found.passages) - len(passages)
        found = replace(
            found,
            corrected=as_searched(self._search, passages),
            passages=passages,
            unmet=self._unmet(found.unmet),
            nearest=tuple(each for each in found.nearest if (each.folder, each.path) not in hidden),
            listed=None if found.listed is None else found.listed - taken_out,
        )
        if hidden or not self._has_open_words():
            # stages and explanations name notes and words
            found = replace(
                found,
                corrected=None,
                terms=(),
                trace=tuple(replace(step, dropped=()) for step in found.trace),
                passages=tuple(replace(each, explanation=None) for each in passages),
            )
        if passages or not taken_out:
            return found
        return replace(
            found,
            answerable=False,
            confidence=0.0,
            confidence_level="low",
            listed=None if found.listed is None else 0,
        )

    def let_out_why(self, found: WhyReport) -> WhyReport:
        """Return what became of a note without the names and words of notes that may not be
        shown.
        """
        hidden = hidden_now(self._took_part(), self._readers) if self._readers else frozenset()
        if hidden or not self._has_open_words():
            found = replace(found, corrected=None, terms={}, stages=())
        if any(path in found.reason for _, path in hidden):
            found = replace(found, reason="taken out", rank=None)
        return found

    def _named_in(self, found: Answer) -> Iterator[NotePlace]:
        """Yield the notes that an answer names, or that took part in it."""
        yield from self._took_part()
        yield from ((each.folder, each.path) for each in found.nearest)
        for passage in found.passages:
            yield passage.folder, passage.path
            for place in (*passage.also_in, *passage.disagrees):
                yield place.folder, place.path
            if passage.explanation:
                yield from self._at(edge.path for edge in passage.explanation.edges)

    def _took_part(self) -> Iterator[NotePlace]:
        """Yield the notes that were candidates."""
        documents = self._tools.snapshot.catalog.documents
        for n in {each.document for each in self._search.candidates}:
            yield documents[n].folder, documents[n].path
        yield from self._at(each.path for each in self._search.dropped)

    def _at(self, paths: Iterable[str]) -> Iterator[NotePlace]:
        """Yield the notes at some paths, in whatever folder."""
        for path in set(paths):
            for reader in self._readers:
                if self._opened[reader].catalog.at(path) is not None:
                    yield reader.folder.name, path

    def _has_open_words(self) -> bool:
        """Return whether each word that was looked up was asked for, or is held by a note that may
        be shown.
        """
        search, keyword = self._search, self._tools.snapshot.keyword
        asked = set(words(" ".join((search.query.text, *(each.text for each in search.phrasings)))))
        terms = [term for way in search.ways for term in (*way.terms, *way.identifiers)]
        texts = {text for term in terms for text in (term.text, *(o.text for o in term.others))}
        held = (
            keyword.holding(text, (*KEYWORD_FIELDS, "code"))
            for text in (texts if self._readers else ())
            if not asked.issuperset(words(text))
        )
        return all(self._is_open(each) for each in held if each)

    def _unmet(self, unmet: Sequence[UnmetFilter]) -> tuple[UnmetFilter, ...]:
        """Return the filters that no note meets which may be shown, with names of such notes.

        `unmet` are those of the query that no note meets at all.
        """
        catalog = self._tools.snapshot.catalog

        def is_met(one: Filters) -> bool:
            within = catalog.select(one)
            return within is None or self._is_open(within)

        filters = unmet_arguments(self._search.query.filters, catalog.near, is_met)
        typed = (
            UnmetFilter(each.field, each.value, catalog.near(each.field, each.value))
            for each in self._search.conditions
            if each.field != "words" and (held := catalog.meeting(each)) and not self._is_open(held)
        )
        by_filter = {(each.field, each.value): each for each in (*filters, *typed, *unmet)}
        return tuple(map(self._with_open_names, by_filter.values()))

    def _with_open_names(self, unmet: UnmetFilter) -> UnmetFilter:
        meeting = self._tools.snapshot.catalog.meeting
        names = (
            name for name in unmet.nearest if self._is_open(meeting(Condition(unmet.field, name)))
        )
        return replace(unmet, nearest=tuple(islice(names, NAMES_TOLD)))

    def _is_open(self, held: Selection) -> bool:
        """Return whether some note of a selection may be shown."""
        if not self._readers:
            return bool(held)
        catalog = self._tools.snapshot.catalog
        documents = (catalog.documents[catalog.document_of(n)] for n in held.first(_FIRST))
        places = {(each.folder, each.path) for each in documents}
        return not places <= hidden_now(places, self._readers)


def _with_shown_places(passage: Passage, looks: Mapping[NotePlace, Look]) -> Passage:
    """Return a passage that names no note which may not be shown, as copies none that has changed
    since, no place twice, and none that it shows itself.
    """
    hidden = hidden_among(looks)
    others: tuple[Place, ...] = (*passage.also_in, *passage.disagrees)
    if any((each.folder, each.path) in hidden for each in others):
        disagrees = tuple(
            each for each in passage.disagrees if (each.folder, each.path) not in hidden
        )
        # what is known of all places together may be of the hidden one
        passage = replace(passage, disagrees=disagrees, created="", status="", owner="")
    if not passage.also_in:
        return passage
    own = (passage.folder, passage.path)
    by_note: dict[NotePlace, list[Place]] = defaultdict(list)
    for place in passage.also_in:
        if looks.get((place.folder, place.path), "as indexed") == "as indexed":
            by_note[place.folder, place.path].append(place)
    also_in = tuple(
        each
        for places in by_note.values()
        for each in _joined(places)
        if (each.folder, each.path) != own
        or each.end_line < passage.start_line
        or each.start_line > passage.end_line
    )
    return replace(passage, also_in=also_in, cluster_size=1 + len(also_in))


def _joined(places: Sequence[Place]) -> list[Place]:
    """Return places of one note, those that overlap or stand next to each other, but for an empty
    line, as one.
    """
    found = list[Place]()
    for each in sorted(places, key=lambda place: (place.start_line, place.end_line)):
        if found and each.start_line <= found[-1].end_line + 2:
            found[-1] = replace(found[-1], end_line=max(found[-1].end_line, each.end_line))
        else:
            found.append(each)
    return found
