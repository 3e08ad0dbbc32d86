"""Visibility: hide notes whose files are gone or have become private since they were indexed.

Everything that is read from an index passes this filter before it is shown.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from thumbindex.config import with_folder_file
from thumbindex.corpus.ignore import PathCache, is_private_by_glob
from thumbindex.corpus.private import is_private
from thumbindex.corpus.read import content_digest, read_bytes
from thumbindex.corpus.walk import file_state, stat_signature
from thumbindex.errors import StorageError
from thumbindex.index.store import Store
from thumbindex.library.comparison import current_parser_key, is_empty_folder
from thumbindex.library.indexed_folders import Folder
from thumbindex.library.reader import DiskReader, Reader
from thumbindex.model import (
    Answer,
    Cluster,
    Document,
    FileState,
    Filters,
    Passage,
    Place,
    Problem,
    TypedFilter,
    UnmetFilter,
    WhyReport,
)
from thumbindex.ports import FolderSnapshot, Selection
from thumbindex.query.expansion import corrected_query
from thumbindex.query.operators import unmet_filters
from thumbindex.query.retrieve import KEYWORD_FIELDS
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import Config
from thumbindex.text import words

if TYPE_CHECKING:
    from thumbindex import postgres

SUGGESTED_NAMES = 3
"""Maximum similar names in an error or an unmet filter."""

_CHECKED_AT_ONCE = 50
"""Notes whose files are checked in one batch."""

NoteState = Literal["as indexed", "changed", "gone", "private"]
"""The current state of a note's file. A note that is gone or private is hidden."""

NotePlace = tuple[str, str]
"""Folder and path of a note."""

# ------------------------------------------------------------------ one note


def folder_note_states(
    folder: Folder, paths: Collection[str], store: Store | None
) -> dict[str, NoteState]:
    """Return the current state of a folder's notes, by path.

    A file is read only if its size, times or inode differ from those that were indexed.
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
        # (of a listing's every note)
        state = file_state(path, os.stat(f"{root}/{path}"))  # noqa: PTH116
        if (
            indexed is not None
            and is_same_parser
            and stat_signature(state) == stat_signature(indexed)
        ):
            return "as indexed"
    # it may be private where it lies now; of a folder that is away nothing has moved
    except (FileNotFoundError, NotADirectoryError):
        if not is_empty_folder(root):
            return "gone"
    except (OSError, ValueError):
        pass
    data = read_bytes(root, path, settings)
    is_unchanged = _is_unchanged(data, indexed)
    if _is_private_now(folder, path, data, is_unchanged, names):
        return "private"
    # what cannot be read is taken to be as it was
    return "as indexed" if is_unchanged or isinstance(data, Problem) else "changed"


def read_visible(
    folder: Folder, path: str, store: Store | postgres.PublishedStore | None
) -> bytes | Problem | None:
    """Read a note's file; return None if the note is private now."""
    indexed = None if store is None else store.manifest([path]).get(path)
    data = read_bytes(folder.root, path, folder.config.corpus)
    return None if _is_private_now(folder, path, data, _is_unchanged(data, indexed), {}) else data


def _is_private_now(
    folder: Folder, path: str, data: bytes | Problem, is_unchanged: bool, names: PathCache
) -> bool:
    """Return whether a file is private. In a closed folder, whose list of private notes cannot be
    read, every file that has changed since it was indexed is private.
    """
    return (folder.config.blocks_indexing and not is_unchanged) or is_private(
        folder.root, path, folder.config.corpus, data, names
    )


def _is_unchanged(data: bytes | Problem, indexed: FileState | None) -> bool:
    """Return whether a file has the digest that was indexed."""
    if indexed is None or isinstance(data, Problem):
        return False
    return indexed.digest == content_digest(data)


# ------------------------------------------------------------------ some notes


def note_states(
    places: Iterable[NotePlace], readers: Sequence[Reader]
) -> dict[NotePlace, NoteState]:
    """Return the current state of some notes; notes of published folders are left out."""
    paths: dict[str, set[str]] = defaultdict(set)
    for folder, path in places:
        paths[folder].add(path)
    found: dict[NotePlace, NoteState] = {}
    for reader in readers:
        if (asked := paths.get(reader.folder.name)) and isinstance(reader, DiskReader):
            try:
                store = reader.store
            except StorageError:  # it is just being put in the place of another: all are read
                store = None
            states = folder_note_states(reader.folder, asked, store)
            found |= {(reader.folder.name, path): state for path, state in states.items()}
    return found


def hidden_in(states: Mapping[NotePlace, NoteState]) -> frozenset[NotePlace]:
    """Return the notes that are hidden in these states."""
    return frozenset(place for place, state in states.items() if state in ("gone", "private"))


def hidden_notes(places: Iterable[NotePlace], readers: Sequence[Reader]) -> frozenset[NotePlace]:
    """Return which of some notes are hidden now."""
    return hidden_in(note_states(places, readers))


def hidden_paths(paths: Iterable[str], reader: Reader) -> set[str]:
    """Return which of some paths of a folder are hidden now."""
    return {
        path for _, path in hidden_notes(((reader.folder.name, path) for path in paths), [reader])
    }


def all_documents(readers: Sequence[Reader]) -> Iterator[Document]:
    """Yield all indexed documents by folder and path, hidden ones too."""
    return (
        document
        for reader in readers
        if reader.indexed
        for _, document in reader.folder_snapshot().catalog.every_document()
    )


def visible_documents(readers: Sequence[Reader]) -> list[Document]:
    """Return all visible documents by folder and path."""
    documents = list(all_documents(readers))
    hidden = hidden_notes(((document.folder, document.path) for document in documents), readers)
    return [document for document in documents if (document.folder, document.path) not in hidden]


def filter_visible(documents: Iterable[Document], readers: Sequence[Reader]) -> Iterator[Document]:
    """Yield the visible documents. Files are checked in batches, as documents are consumed."""
    rest = iter(documents)
    while some := list(islice(rest, _CHECKED_AT_ONCE)):
        hidden = hidden_notes(((each.folder, each.path) for each in some), readers)
        yield from (each for each in some if (each.folder, each.path) not in hidden)


def visible_clusters(clusters: Sequence[Cluster], readers: Sequence[Reader]) -> list[Cluster]:
    """Return clusters without the texts of hidden notes."""
    hidden = hidden_notes(
        ((text.folder, text.path) for cluster in clusters for text in cluster.texts), readers
    )
    return [
        replace(
            cluster,
            texts=tuple(text for text in cluster.texts if (text.folder, text.path) not in hidden),
        )
        for cluster in clusters
    ]


# ------------------------------------------------------------------ an answer

_SAMPLED_CHUNKS = 8
"""Chunks of a selection that are checked for one of a visible note."""


class PrivacyFilter:
    """Removes everything about hidden notes from the result of a search."""

    def __init__(
        self, search: Search, tools: Tools, snapshots: Mapping[Reader, FolderSnapshot]
    ) -> None:
        self._search, self._tools, self._snapshots = search, tools, snapshots
        # published notes are always visible
        self._readers = [reader for reader in snapshots if not reader.is_published]

    def filter_answer(self, found: Answer) -> Answer:
        """Return an answer without hidden notes; one without passages found nothing."""
        states = note_states(self._mentioned_notes(found), self._readers) if self._readers else {}
        hidden = hidden_in(states)
        visible = (
            passage for passage in found.passages if (passage.folder, passage.path) not in hidden
        )
        passages = tuple(
            _with_visible_places(replace(each, rank=rank), states)
            for rank, each in enumerate(visible, 1)
        )
        taken_out = len(found.passages) - len(passages)
        found = replace(
            found,
            corrected=corrected_query(self._search, passages),
            passages=passages,
            unmet=self._unmet(found.unmet),
            nearest=tuple(each for each in found.nearest if (each.folder, each.path) not in hidden),
            listed=None if found.listed is None else found.listed - taken_out,
        )
        if hidden or not self._has_visible_terms():
            # stages and explanations name notes and words
            found = replace(
                found,
                corrected=None,
                terms=(),
                trace=tuple(replace(step, dropped=()) for step in found.trace),
                passages=tuple(replace(passage, explanation=None) for passage in passages),
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

    def filter_why_report(self, found: WhyReport) -> WhyReport:
        """Return a report without the names and terms of hidden notes."""
        hidden = (
            hidden_notes(self._candidate_notes(), self._readers) if self._readers else frozenset()
        )
        if hidden or not self._has_visible_terms():
            found = replace(found, corrected=None, terms={}, stages=())
        if any(path in found.reason for _, path in hidden):
            found = replace(found, reason="taken out", rank=None)
        return found

    def _mentioned_notes(self, found: Answer) -> Iterator[NotePlace]:
        """Yield the notes that an answer names, and the candidates."""
        yield from self._candidate_notes()
        yield from ((each.folder, each.path) for each in found.nearest)
        for passage in found.passages:
            yield passage.folder, passage.path
            for place in (*passage.also_in, *passage.disagrees):
                yield place.folder, place.path
            if passage.explanation:
                yield from self._notes_at(edge.path for edge in passage.explanation.edges)

    def _candidate_notes(self) -> Iterator[NotePlace]:
        """Yield the notes of all candidates, dropped ones too."""
        documents = self._tools.snapshot.catalog.documents
        for n in {candidate.document for candidate in self._search.candidates}:
            yield documents[n].folder, documents[n].path
        yield from self._notes_at(each.path for each in self._search.dropped)

    def _notes_at(self, paths: Iterable[str]) -> Iterator[NotePlace]:
        """Yield the notes at some paths in any folder."""
        for path in set(paths):
            for reader in self._readers:
                if self._snapshots[reader].catalog.document_at(path) is not None:
                    yield reader.folder.name, path

    def _has_visible_terms(self) -> bool:
        """Return whether each search term is from the query, or in a visible note."""
        search, keyword = self._search, self._tools.snapshot.keyword
        asked = set(
            words(
                " ".join(
                    (
                        search.query.text,
                        *(other_phrasing.text for other_phrasing in search.other_phrasings),
                    )
                )
            )
        )
        phrasings = search.all_phrasings
        terms = [
            term for phrasing in phrasings for term in (*phrasing.terms, *phrasing.identifiers)
        ]
        texts = {text for term in terms for text in (term.text, *(o.text for o in term.forms))}
        held = (
            keyword.chunks_with_all_words(text, (*KEYWORD_FIELDS, "code"))
            for text in (texts if self._readers else ())
            if not asked.issuperset(words(text))
        )
        return all(self._has_visible_note(each) for each in held if each)

    def _unmet(self, unmet: Sequence[UnmetFilter]) -> tuple[UnmetFilter, ...]:
        """Return the filters that no visible note meets, with names from visible notes.

        `unmet` are the filters that no note meets at all.
        """
        catalog = self._tools.snapshot.catalog

        def has_match(one: Filters) -> bool:
            within = catalog.select(one)
            return within is None or self._has_visible_note(within)

        filters = unmet_filters(self._search.query.filters, catalog.similar_values, has_match)
        typed = (
            UnmetFilter(
                typed_filter.field,
                typed_filter.value,
                catalog.similar_values(typed_filter.field, typed_filter.value),
            )
            for typed_filter in self._search.typed_filters
            if typed_filter.field != "words"
            and (held := catalog.chunks_matching(typed_filter))
            and not self._has_visible_note(held)
        )
        by_filter = {(each.field, each.value): each for each in (*filters, *typed, *unmet)}
        return tuple(map(self._with_visible_names, by_filter.values()))

    def _with_visible_names(self, unmet: UnmetFilter) -> UnmetFilter:
        meeting = self._tools.snapshot.catalog.chunks_matching
        names = (
            name
            for name in unmet.nearest
            if self._has_visible_note(meeting(TypedFilter(unmet.field, name)))
        )
        return replace(unmet, nearest=tuple(islice(names, SUGGESTED_NAMES)))

    def _has_visible_note(self, held: Selection) -> bool:
        """Return whether a selection has a chunk of a visible note."""
        if not self._readers:
            return bool(held)
        catalog = self._tools.snapshot.catalog
        documents = (catalog.documents[catalog.document_of(n)] for n in held.first(_SAMPLED_CHUNKS))
        places = {(document.folder, document.path) for document in documents}
        return not places <= hidden_notes(places, self._readers)


def _with_visible_places(passage: Passage, states: Mapping[NotePlace, NoteState]) -> Passage:
    """Return a passage without hidden notes, without copies in notes that have changed since, and
    with each place once, its own left out.
    """
    hidden = hidden_in(states)
    others: tuple[Place, ...] = (*passage.also_in, *passage.disagrees)
    if any((each.folder, each.path) in hidden for each in others):
        disagrees = tuple(
            pair for pair in passage.disagrees if (pair.folder, pair.path) not in hidden
        )
        # what is known of all places together may be of the hidden one
        passage = replace(passage, disagrees=disagrees, created="", status="", owner="")
    if not passage.also_in:
        return passage
    own = (passage.folder, passage.path)
    by_note: dict[NotePlace, list[Place]] = defaultdict(list)
    for place in passage.also_in:
        if states.get((place.folder, place.path), "as indexed") == "as indexed":
            by_note[place.folder, place.path].append(place)
    also_in = tuple(
        each
        for places in by_note.values()
        for each in _merge_adjacent(places)
        if (each.folder, each.path) != own
        or each.end_line < passage.start_line
        or each.start_line > passage.end_line
    )
    return replace(passage, also_in=also_in, cluster_size=1 + len(also_in))


def _merge_adjacent(places: Sequence[Place]) -> list[Place]:
    """Merge places of one note that overlap or are at most one line apart."""
    found = list[Place]()
    for each in sorted(places, key=lambda place: (place.start_line, place.end_line)):
        if found and each.start_line <= found[-1].end_line + 2:
            found[-1] = replace(found[-1], end_line=max(found[-1].end_line, each.end_line))
        else:
            found.append(each)
    return found


# ------------------------------------------------------------------ directories


def directory_filters(
    folders: Sequence[tuple[str, Path]], config: Config
) -> dict[Path, Callable[[str], bool]]:
    """Return by folder a function that returns whether a top-level directory may be named."""
    return {
        root: partial(_is_public_directory, os.path.realpath(root), with_folder_file(config, root))
        for _, root in folders
    }


def _is_public_directory(root: str, config: Config, name: str) -> bool:
    return not (config.blocks_indexing or is_private_by_glob(root, name, config.corpus, {}))
