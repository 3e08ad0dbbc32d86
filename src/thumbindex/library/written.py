"""What the notes themselves say of each other: titles, headings, descriptions and links, as they were indexed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from thumbindex.index.store import Store, document_from_row
from thumbindex.library.folders import Folder
from thumbindex.model import Document, Link


@dataclass(frozen=True, slots=True)
class Note:
    """One document as its author wrote it."""

    document: Document
    headings: tuple[str, ...]  # in order, as a reader sees them; one that stands in two places comes twice
    texts: tuple[str, ...]  # of its chunks, in order
    links: tuple[Link, ...]


def read_notes(folders: Sequence[Folder]) -> tuple[Note, ...]:
    """Return every document of the folders' indexes, by folder and path; the notes themselves are not read."""
    return tuple(note for folder in folders if folder.places.store.exists() for note in _read_folder(folder))


def _read_folder(folder: Folder) -> list[Note]:
    with closing(Store(folder.places.store, read_only=True)) as store, store.reading():
        rows, facts = store.chunk_rows(), store.documents()
        chunks = store.chunks([row for row, *_ in rows])
        links: dict[str, list[Link]] = defaultdict(list)
        for source, _, link in store.links():
            links[source].append(link)
    of: dict[int, list[int]] = defaultdict(list)
    for row, document, _ in sorted(rows, key=lambda each: each[2]):
        of[document].append(row)
    notes = []
    for row, path, title, modified, rest in facts:
        own = [chunks[chunk] for chunk in of[row] if chunk in chunks]
        headings = headings_on([each.heading_path[1:] for each in own])
        known = document_from_row(path, title, modified, rest, folder.name)
        notes.append(Note(known, headings, tuple(each.text for each in own), tuple(links[path])))
    return notes


def headings_on(paths: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the headings of a document, in order, from those above each of its chunks."""
    found: list[str] = []
    before: Sequence[str] = ()
    for path in paths:
        same = next((n for n, (was, now) in enumerate(zip(before, path, strict=False)) if was != now), min(len(before), len(path)))
        found += path[same:]
        before = path
    return tuple(found)
