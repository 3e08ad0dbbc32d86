"""Hide notes whose files were deleted or became private since they were indexed.

Everything read from an index passes this filter before it is shown.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from thumbindex.corpus.ignore import PathCache
from thumbindex.corpus.private import is_private
from thumbindex.corpus.read import content_digest, read_bytes
from thumbindex.corpus.walk import file_state, stat_signature, walk_with_private
from thumbindex.errors import StorageError
from thumbindex.index.snapshot import FolderSnapshot
from thumbindex.index.store import Store
from thumbindex.language import FUNCTION_WORDS
from thumbindex.library.comparison import current_parser_key, is_empty_folder
from thumbindex.library.indexed_folders import Folder
from thumbindex.library.reader import DiskReader, Reader
from thumbindex.model import (
    Answer,
    Cluster,
    Document,
    DocumentId,
    FileState,
    FilterField,
    Filters,
    Passage,
    Place,
    Problem,
    Term,
    TypedFilter,
    UnmetFilter,
    WhyReport,
)
from thumbindex.ports import Selection
from thumbindex.query.expansion import corrected_query
from thumbindex.query.in_force import mark_retired, reached_successors
from thumbindex.query.operators import unmet_filters
from thumbindex.query.retrieve import KEYWORD_FIELDS
from thumbindex.query.stage import Search, Tools
from thumbindex.query.understand import parse_terms, tokens
from thumbindex.text import fold, has_cjk, words

if TYPE_CHECKING:
    from thumbindex import postgres

SUGGESTED_NAMES = 3
"""Maximum notes or values that an error or an unmet filter suggests."""

_CHECKED_AT_ONCE = 50
"""Notes whose files are checked in one batch."""

NoteState = Literal["as indexed", "changed", "gone", "private"]
"""The current state of a note's file. Gone and private notes are hidden."""

NotePlace = tuple[str, str]
"""Folder and path of a note."""

# ------------------------------------------------------------------ one note


def folder_note_states(
    folder: Folder, paths: Collection[str], store: Store | None
) -> dict[str, NoteState]:
    """Return the current states of a folder's notes by path.

    Reads a file only if its size, times or inode have changed since indexing.
    """
    indexed: Mapping[str, FileState] = {}
    is_same_parser = False
    with suppress(StorageError):
        if store is not None:
            indexed, is_same_parser = (
                store.manifest(paths),
                store.meta("corpus") == current_parser_key(folder),
            )
    names: PathCache = {}
    return {
        path: _note_state(folder, path, indexed.get(path), is_same_parser, names) for path in paths
    }


def _note_state(
    folder: Folder, path: str, indexed: FileState | None, is_same_parser: bool, names: PathCache
) -> NoteState:
    root, settings = folder.root, folder.config.corpus
    if is_private(root, path, settings, b"", names):
        return "private"
    try:
        state = file_state(path, os.stat(f"{root}/{path}"))  # noqa: PTH116 - faster
        if (
            indexed is not None
            and is_same_parser
            and stat_signature(state) == stat_signature(indexed)
        ):
            return "as indexed"
    # a moved note may be private at its new path; in a missing folder, no note has moved
    except (FileNotFoundError, NotADirectoryError):
        if not is_empty_folder(root):
            return "gone"
    except (OSError, ValueError):
        pass
    data = read_bytes(root, path, settings)
    is_unchanged = _is_unchanged(data, indexed)
    if _is_private_now(folder, path, data, is_unchanged, names):
        return "private"
    # an unreadable file counts as unchanged
    return "as indexed" if is_unchanged or isinstance(data, Problem) else "changed"


def read_visible(
    folder: Folder, path: str, store: Store | postgres.PublishedStore | None
) -> bytes | Problem | None:
    """Read a note's file. Return None for a note that is private now, a Problem on failure."""
    indexed = None if store is None else store.manifest([path]).get(path)
    data = read_bytes(folder.root, path, folder.config.corpus)
    return None if _is_private_now(folder, path, data, _is_unchanged(data, indexed), {}) else data


def _is_private_now(
    folder: Folder, path: str, data: bytes | Problem, is_unchanged: bool, names: PathCache
) -> bool:
    """Return whether a file is private now.

    If the folder's privacy rules cannot be read (`blocks_indexing`), every changed file is private.
    """
    return (folder.config.blocks_indexing and not is_unchanged) or is_private(
        folder.root, path, folder.config.corpus, data, names
    )


def _is_unchanged(data: bytes | Problem, indexed: FileState | None) -> bool:
    if indexed is None or isinstance(data, Problem):
        return False
    return indexed.digest == content_digest(data)


# ------------------------------------------------------------------ some notes


_checked = ContextVar[dict[NotePlace, NoteState] | None]("_checked", default=None)


@contextmanager
def files_checked_once() -> Iterator[None]:
    """Check the file of each note at most once in this context, which must be short."""
    token = _checked.set({})
    try:
        yield
    finally:
        _checked.reset(token)


def note_states(
    places: Iterable[NotePlace], readers: Sequence[Reader]
) -> dict[NotePlace, NoteState]:
    """Return the current states of the given notes, except those in published folders."""
    if (checked := _checked.get()) is None:
        return _read_states(places, readers)
    places = set(places)
    checked |= _read_states(places - checked.keys(), readers)
    return {place: checked[place] for place in places & checked.keys()}


def _read_states(
    places: Iterable[NotePlace], readers: Sequence[Reader]
) -> dict[NotePlace, NoteState]:
    paths: dict[str, set[str]] = defaultdict(set)
    for folder, path in places:
        paths[folder].add(path)
    states_by_place: dict[NotePlace, NoteState] = {}
    for reader in readers:
        if (folder_paths := paths.get(reader.folder.name)) and isinstance(reader, DiskReader):
            try:
                store = reader.store
            except StorageError:  # the index is being replaced: check every file
                store = None
            states = folder_note_states(reader.folder, folder_paths, store)
            states_by_place |= {(reader.folder.name, path): state for path, state in states.items()}
    return states_by_place


def hidden_in(states: Mapping[NotePlace, NoteState]) -> frozenset[NotePlace]:
    """Return the notes that are gone or private."""
    return frozenset(place for place, state in states.items() if state in ("gone", "private"))


def hidden_notes(places: Iterable[NotePlace], readers: Sequence[Reader]) -> frozenset[NotePlace]:
    """Return the given notes that are hidden now."""
    return hidden_in(note_states(places, readers))


def private_paths(reader: DiskReader) -> list[str]:
    """Return the paths of a folder's private notes, sorted. Only their owner may see them."""
    folder = reader.folder
    paths = [file.path for file in walk_with_private(folder.root, folder.config.corpus)]
    states = folder_note_states(folder, paths, reader.store)
    return [path for path, state in states.items() if state == "private"]


def hidden_paths(paths: Iterable[str], reader: Reader) -> set[str]:
    """Return the given paths in a folder that are hidden now."""
    return {
        path for _, path in hidden_notes(((reader.folder.name, path) for path in paths), [reader])
    }


def all_documents(readers: Sequence[Reader]) -> Iterator[Document]:
    """Yield all indexed documents, sorted by folder and path, including hidden ones."""
    return (
        document
        for reader in readers
        if reader.indexed
        for document in reader.folder_snapshot().catalog.documents
    )


def visible_documents(readers: Sequence[Reader]) -> list[Document]:
    """Return all visible documents, sorted by folder and path."""
    documents = list(all_documents(readers))
    hidden = hidden_notes(((document.folder, document.path) for document in documents), readers)
    return [document for document in documents if (document.folder, document.path) not in hidden]


def filter_visible(documents: Iterable[Document], readers: Sequence[Reader]) -> Iterator[Document]:
    """Yield the visible documents; check files in batches as documents are consumed."""
    iterator = iter(documents)
    while batch := list(islice(iterator, _CHECKED_AT_ONCE)):
        hidden = hidden_notes(((document.folder, document.path) for document in batch), readers)
        for document in batch:
            if (document.folder, document.path) not in hidden:
                yield document


def visible_clusters(clusters: Sequence[Cluster], readers: Sequence[Reader]) -> list[Cluster]:
    """Remove the texts of hidden notes from the clusters."""
    hidden = hidden_notes(
        ((text.folder, text.path) for cluster in clusters for text in cluster.texts), readers
    )
    if not hidden:
        return list(clusters)
    return [
        replace(
            cluster,
            texts=tuple(text for text in cluster.texts if (text.folder, text.path) not in hidden),
        )
        for cluster in clusters
    ]


# ------------------------------------------------------------------ an answer

_SAMPLED_CHUNKS = 8
"""To find a visible note in a selection, the notes of at most this many chunks are checked."""


class PrivacyFilter:
    """Removes all traces of hidden notes from the result of a search."""

    def __init__(
        self, search: Search, tools: Tools, snapshots: Mapping[Reader, FolderSnapshot]
    ) -> None:
        self._search, self._tools, self._snapshots = search, tools, snapshots
        # published notes are always visible
        self._readers = [reader for reader in snapshots if not reader.is_published]

    def filter_answer(self, answer: Answer) -> Answer:
        """Remove hidden notes. If none is left, nothing is found."""
        states = note_states(self._mentioned_notes(answer), self._readers) if self._readers else {}
        hidden = hidden_in(states)
        visible = (
            passage for passage in answer.passages if (passage.folder, passage.path) not in hidden
        )
        passages = tuple(
            _with_visible_places(replace(passage, rank=rank), states)
            for rank, passage in enumerate(self._mark_retired(visible, hidden), 1)
        )
        removed = len(answer.passages) - len(passages)
        is_found = self._search.found and (bool(passages) or not removed)
        has_visible_terms = self._has_visible_terms()
        answer = replace(
            answer,
            corrected=corrected_query(self._search, passages),
            passages=passages,
            unmet=self._unmet(answer.unmet),
            missing=() if is_found else self._missing_words(has_visible_terms),
            listed=None if answer.listed is None else answer.listed - removed,
            weaker=sum((weak.folder, weak.path) not in hidden for weak in self._search.weaker),
            notes=tuple(n for n in self._ranked_notes() if n not in hidden),
        )
        if hidden or not has_visible_terms:
            # the trace and explanations contain paths and terms
            answer = replace(
                answer,
                corrected=None,
                terms=(),
                trace=tuple(replace(step, dropped=()) for step in answer.trace),
                passages=tuple(replace(passage, explanation=None) for passage in passages),
            )
        if passages or not removed:
            return answer
        return replace(
            answer,
            found=False,
            confidence=0.0,
            confidence_level="low",
            listed=None if answer.listed is None else 0,
            weaker=0,
            notes=(),
        )

    def filter_why_report(self, report: WhyReport) -> WhyReport:
        """Remove the names and terms of hidden notes from a report."""
        hidden = (
            hidden_notes(self._candidate_notes(), self._readers) if self._readers else frozenset()
        )
        if hidden or not self._has_visible_terms():
            report = replace(report, corrected=None, terms={}, stages=())
        if any(path in report.reason for _, path in hidden):
            report = replace(report, reason="removed", rank=None)
        return report

    def _mentioned_notes(self, answer: Answer) -> Iterator[NotePlace]:
        """Yield the notes of all candidates, and every note that an answer names."""
        yield from self._candidate_notes()
        documents = self._tools.snapshot.catalog.documents
        shown = self._documents_of(answer.passages)
        for n in reached_successors(shown, self._tools):
            yield documents[n].folder, documents[n].path
        for passage in answer.passages:
            yield passage.folder, passage.path
            for place in (*passage.also_in, *passage.disagrees):
                yield place.folder, place.path
            if passage.explanation:
                yield from self._notes_at(edge.path for edge in passage.explanation.edges)

    def _mark_retired(
        self, passages: Iterable[Passage], hidden: Collection[NotePlace]
    ) -> Sequence[Passage]:
        """Judge again which notes are retired, without the statements of hidden notes."""
        visible = tuple(passages)
        shown = self._documents_of(visible)
        return (
            mark_retired(visible, shown, self._search, self._tools, hidden) if hidden else visible
        )

    def _documents_of(self, passages: Iterable[Passage]) -> list[DocumentId]:
        documents = self._tools.snapshot.catalog.documents
        ids = {candidate.document for candidate in self._search.candidates}
        places = {(documents[n].folder, documents[n].path): n for n in ids}
        return [places[passage.folder, passage.path] for passage in passages]

    def _ranked_notes(self) -> Iterator[NotePlace]:
        """Yield the notes of the candidates, best first."""
        documents = self._tools.snapshot.catalog.documents
        for n in dict.fromkeys(candidate.document for candidate in self._search.candidates):
            yield documents[n].folder, documents[n].path

    def _candidate_notes(self) -> Iterator[NotePlace]:
        """Yield the notes of all candidates, including dropped ones."""
        yield from self._ranked_notes()
        yield from self._notes_at(dropped.path for dropped in self._search.dropped)

    def _notes_at(self, paths: Iterable[str]) -> Iterator[NotePlace]:
        """Yield the notes at the given paths in any folder."""
        for path in set(paths):
            for reader in self._readers:
                if self._snapshots[reader].catalog.document_at(path) is not None:
                    yield reader.folder.name, path

    def _has_visible_terms(self) -> bool:
        """Return whether each search term is in the query or in a visible note."""
        search, keyword = self._search, self._tools.snapshot.keyword
        query_words = set(
            words(
                " ".join(
                    (
                        search.query.text,
                        *(phrasing.text for phrasing in search.other_phrasings),
                    )
                )
            )
        )
        phrasings = search.all_phrasings
        terms = [
            term for phrasing in phrasings for term in (*phrasing.terms, *phrasing.identifiers)
        ]
        texts = {text for term in terms for text in (term.text, *(o.text for o in term.forms))}
        selections = (
            keyword.chunks_with_all_words(text, (*KEYWORD_FIELDS, "code"))
            for text in (texts if self._readers else ())
            if not query_words.issuperset(words(text))
        )
        return all(self._has_visible_note(chunks) for chunks in selections if chunks)

    def _missing_words(self, has_visible_terms: bool) -> tuple[str, ...]:
        """Return the content words of the query, as typed, that no visible note has."""
        keyword, text, terms = self._tools.snapshot.keyword, self._search.text, self._search.terms
        if not has_visible_terms:  # corrections and added terms may come from a hidden note
            text = self._search.query.text
            terms, _ = parse_terms(text, self._tools)
        typed = {fold(token): token for token in tokens(text)}

        def is_missing(term: Term) -> bool:
            return not any(
                self._has_visible_note(
                    keyword.chunks_with_all_words(form.text, KEYWORD_FIELDS)
                    | keyword.chunks_with_all_words(form.text, ("code",))
                )
                for form in (term, *term.forms)
            )

        return tuple(
            typed.get(term.text, term.text)
            for term in terms
            if not (term.phrase or has_cjk(term.text) or term.text in FUNCTION_WORDS)
            and is_missing(term)
        )

    def _unmet(self, unmet: Sequence[UnmetFilter]) -> tuple[UnmetFilter, ...]:
        """Return the filters that match no visible note, with suggestions from visible notes only.

        `unmet` are the filters that match no indexed note.
        """
        catalog = self._tools.snapshot.catalog

        def has_match(filters: Filters) -> bool:
            within = catalog.select(filters)
            return within is None or self._has_visible_note(within)

        filters = unmet_filters(self._search.query.filters, catalog.similar_values, has_match)
        typed = (
            UnmetFilter(
                typed_filter.field,
                typed_filter.condition,
                catalog.similar_values(typed_filter),
            )
            for typed_filter in self._search.typed_filters
            if typed_filter.field != "words"
            and (chunks := catalog.chunks_matching(typed_filter))
            and not self._has_visible_note(chunks)
        )
        by_filter = {(entry.field, entry.value): entry for entry in (*filters, *typed, *unmet)}
        return tuple(map(self._with_visible_names, by_filter.values()))

    def _with_visible_names(self, unmet: UnmetFilter) -> UnmetFilter:
        chunks_matching = self._tools.snapshot.catalog.chunks_matching
        names = (
            name
            for name in unmet.nearest
            if self._has_visible_note(chunks_matching(_having(unmet.field, name)))
        )
        return replace(unmet, nearest=tuple(islice(names, SUGGESTED_NAMES)))

    def _has_visible_note(self, selection: Selection) -> bool:
        """Return whether any of a selection's first chunks is in a visible note."""
        if not self._readers:
            return bool(selection)
        catalog = self._tools.snapshot.catalog
        chunks = selection.first(_SAMPLED_CHUNKS)
        documents = (catalog.documents[catalog.document_of(chunk)] for chunk in chunks)
        places = {(document.folder, document.path) for document in documents}
        return not places <= hidden_notes(places, self._readers)


def _having(field: FilterField, name: str) -> TypedFilter:
    """Return the condition that a note has a suggested name as written."""
    if field != "property":
        return TypedFilter(field, name, operator="is")
    key, _, text = name.partition(":")
    if key == "has":
        return TypedFilter(field, "", key=text, operator="has")
    return TypedFilter(field, text.strip('"'), key=key, operator="is")


def _with_visible_places(passage: Passage, states: Mapping[NotePlace, NoteState]) -> Passage:
    """Remove from a passage the places in hidden notes, and the copies in changed notes.

    Merges adjacent copies.
    """
    hidden = hidden_in(states)
    mentioned: tuple[Place, ...] = (*passage.also_in, *passage.disagrees)
    if any((place.folder, place.path) in hidden for place in mentioned):
        disagrees = tuple(
            pair for pair in passage.disagrees if (pair.folder, pair.path) not in hidden
        )
        # these fields may come from the hidden note
        passage = replace(passage, disagrees=disagrees, created="", status="", owner="")
    if not passage.also_in:
        return passage
    note = (passage.folder, passage.path)
    by_note: dict[NotePlace, list[Place]] = defaultdict(list)
    for place in passage.also_in:
        if states.get((place.folder, place.path), "as indexed") == "as indexed":
            by_note[place.folder, place.path].append(place)
    also_in = tuple(
        place
        for places in by_note.values()
        for place in _merge_adjacent(places)
        if (place.folder, place.path) != note
        or place.end_line < passage.start_line
        or place.start_line > passage.end_line
    )
    return replace(passage, also_in=also_in, cluster_size=1 + len(also_in))


def _merge_adjacent(places: Sequence[Place]) -> list[Place]:
    """Merge places in one note that overlap or are at most one line apart."""
    merged = list[Place]()
    for place in sorted(places, key=attrgetter("start_line", "end_line")):
        if merged and place.start_line <= merged[-1].end_line + 2:
            merged[-1] = replace(merged[-1], end_line=max(merged[-1].end_line, place.end_line))
        else:
            merged.append(place)
    return merged
