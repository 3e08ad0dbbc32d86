"""List notes, and read the lines, headings and estimated tokens of notes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter

import numpy as np

from thumbindex.corpus.parse import parse_headings
from thumbindex.corpus.payload import OMITTED, omit_payloads
from thumbindex.corpus.read import decode_visible
from thumbindex.corpus.source import comment_lines, find_comments
from thumbindex.errors import UnknownPathError, UsageError
from thumbindex.index.filters import FilterIndex, newest_first
from thumbindex.index.property_column import Value
from thumbindex.index.row_codec import document_from_row
from thumbindex.index.store import Store
from thumbindex.library.indexed_folders import Folder
from thumbindex.library.note_lookup import FoundNote, unknown_path_error
from thumbindex.library.places import NotePlaces
from thumbindex.library.reader import Reader
from thumbindex.library.visibility import (
    SUGGESTED_NAMES,
    read_visible,
    visible_documents,
)
from thumbindex.model import (
    Chunk,
    Document,
    DocumentId,
    Excerpt,
    Filters,
    Link,
    ListedNote,
    NoteList,
    OutlineEntry,
    Problem,
    PropertyCount,
    TypedFilter,
    ValueCount,
    day_of,
    iso_day,
    property_texts,
)
from thumbindex.query.operators import unmet_filters
from thumbindex.text import Lines, fold_line

_LONG_LINE = 2_000
"""Characters of a line above which a citation with a column shows the line from there."""


@dataclass(frozen=True, slots=True)
class NoteText:
    """An indexed document with its headings, chunk texts and links."""

    document: Document
    headings: tuple[str, ...]  # in document order, repeated headings included
    texts: tuple[str, ...]  # of chunks, in document order
    links: tuple[Link, ...]


def read_notes(folders: Sequence[Folder]) -> tuple[NoteText, ...]:
    """Read every document from the folders' indexes, folder by folder, sorted by path."""
    return tuple(
        note
        for folder in folders
        if folder.index_paths.store.exists()
        for note in _notes_of(folder)
    )


def _notes_of(folder: Folder) -> Iterator[NoteText]:
    with (
        closing(Store(folder.index_paths.store, read_only=True)) as store,
        store.read_transaction(),
    ):
        rows, facts = store.chunk_rows(), store.documents()
        chunks = store.chunks([row for row, *_ in rows])
        links: dict[str, list[Link]] = defaultdict(list)
        for source, _, link in store.links():
            links[source].append(link)
    texts: dict[int, list[Chunk]] = defaultdict(list)
    for row, document, _ in sorted(rows, key=itemgetter(2)):
        if row in chunks:
            texts[document].append(chunks[row])
    for row, path, title, times, columns in facts:
        note = document_from_row(path, title, times, columns, folder.name)
        headings, above = list[str](), tuple[str, ...]()
        for chunk in texts[row]:
            current = chunk.heading_path[1:]
            shared = [*(a == b for a, b in zip(above, current, strict=False)), False].index(False)
            headings += current[shared:]
            above = current
        yield NoteText(
            note, tuple(headings), tuple(chunk.text for chunk in texts[row]), tuple(links[path])
        )


_COMMENTS_FLAGGED = 5
"""Maximum comments flagged one by one; further comments are only counted."""


_FACTS = ("title", "date")
"""What every note can be sorted by, besides its properties."""


def list_notes(
    filters: Filters,
    readers: Sequence[Reader],
    linked: Collection[tuple[str, str]] = (),
    columns: Sequence[str] = (),
    sort: str = "",
) -> NoteList:
    """List the notes that pass the filters and are not in `linked`, newest first, then by path.

    They have the properties in `columns`. With `sort`, they are sorted by `title`, `date` or this
    property, or in descending order by `-property`; notes without it come last.
    """
    documents = visible_documents(readers)
    index = FilterIndex(documents)
    passed = [
        DocumentId(n)
        for n in np.flatnonzero(index.documents_passing(filters)).tolist()
        if (documents[n].folder, documents[n].path) not in linked
    ]
    listed = [documents[n] for n in newest_first(documents, passed)]
    if sort:
        listed = _sorted_by(sort, listed)
    notes = tuple(
        ListedNote(
            note.folder,
            note.path,
            note.title,
            iso_day(day_of(note)),
            note.tags,
            {key: property_texts(note, key) for key in columns},
        )
        for note in listed
    )
    sorted_by = () if sort.lstrip("-") in _FACTS else (sort.lstrip("-"),)
    keys = [TypedFilter.of(f"has:{key}") for key in (*columns, *sorted_by) if key]
    unmet = unmet_filters(
        replace(filters, where=(*filters.where, *keys)),
        index.similar_values,
        lambda one: bool(index.documents_passing(one).any()),
    )
    unmet = tuple(replace(entry, nearest=entry.nearest[:SUGGESTED_NAMES]) for entry in unmet)
    without_dates = replace(filters, since=None, until=None)
    undated = 0
    if filters != without_dates:
        passing = np.flatnonzero(index.documents_passing(without_dates)).tolist()
        undated = sum(day_of(documents[n]) is None for n in passing)
    return NoteList(notes, unmet, undated)


def _sorted_by(sort: str, notes: Sequence[Document]) -> list[Document]:
    is_descending, key = sort.startswith("-"), sort.lstrip("-")
    values = [[Value.of(text).order() for text in _sort_texts(note, key)] for note in notes]
    best = max if is_descending else min
    with_key = [(best(orders), note) for orders, note in zip(values, notes, strict=True) if orders]
    with_key.sort(key=itemgetter(0), reverse=is_descending)
    return [note for _, note in with_key] + [
        note for orders, note in zip(values, notes, strict=True) if not orders
    ]


def _sort_texts(note: Document, key: str) -> Sequence[str]:
    if key not in _FACTS:
        return property_texts(note, key)
    fact = note.title if key == "title" else iso_day(day_of(note))
    return [fact] if fact else []


def count_properties(
    readers: Sequence[Reader], key: str | None, limit: int | None
) -> tuple[PropertyCount, ...]:
    """Return the properties of the visible notes, most frequent first, or only `key`.

    Each has its `limit` most frequent values; None means all. With 0, values are not counted.
    """
    keys, values = Counter[str](), defaultdict[str, Counter[str]](Counter)
    spellings: dict[str, str] = {}
    for document in visible_documents(readers):
        for name, texts in document.properties.items():
            if key is not None and fold_line(name) != fold_line(key):
                continue
            keys[name] += 1
            if limit != 0:
                forms = {fold_line(text): text for text in texts}
                values[name].update(forms.keys())
                spellings |= {f: text for f, text in forms.items() if f not in spellings}
    counts = []
    for name, count in _sorted_counts(keys):
        value_counts = _sorted_counts(values[name])
        shown = tuple(ValueCount(spellings[form], notes) for form, notes in value_counts[:limit])
        counts.append(PropertyCount(name, count, shown, len(value_counts) - len(shown)))
    return tuple(counts)


def _sorted_counts(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def read_named(note: FoundNote) -> Excerpt:
    """Return the passage, lines or heading that `note` names, or else the whole document."""
    lines = note.lines
    excerpt = read_excerpt(note, None if lines else note.fragment, lines and lines[:2])
    if note.passage_text:
        return _passage_inside(excerpt, note.passage_text, note.in_vault)
    length = len(excerpt.text.partition("\n")[0])
    if lines and length > _LONG_LINE and length >= lines.character:
        return excerpt.part(lines.character - 1, len(excerpt.text))
    return excerpt


def read_excerpt(
    note: FoundNote,
    heading: str | None,
    lines: tuple[int, int] | tuple[int, int, int] | None,
) -> Excerpt:
    """Return a document's current lines: all, the lines of a heading or block, or a range.

    Marks replace images and other data in the text.
    """
    reader, document = note.reader, note.document
    text = current_text(reader, document.path)
    rows = omit_payloads(text).split("\n")
    if rows and not rows[-1]:
        rows.pop()
    first, last, character = 1, len(rows), 1
    if heading is not None:
        places = NotePlaces(document.path, text, note.in_vault)
        if not (ranges := places.ranges(heading)):
            raise places.unknown_error(heading)
        first, last = ranges[0]
    elif lines is not None:
        first, last, character = Lines(*lines)
        if not 1 <= first <= last or first > max(len(rows), 1):
            raise UsageError(
                f"{document.path} has {len(rows)} lines: {first} to {last} is not a valid range."
            )
        last = min(last, len(rows))
        if character > max(1, length := len("".join(rows[first - 1 : first]))):
            raise UsageError(f"Line {first} of {document.path} has {length:,} characters.")
    shown = "\n".join(rows[first - 1 : last])
    comments = comment_lines(document.path, text, note.in_vault)
    flags = (*document.flags, *_comment_flags(comments, first, last))
    excerpt = Excerpt(
        reader.folder.name, document.path, document.title, first, last, len(rows), shown, flags
    )
    return excerpt.part(character - 1, len(shown))


def _passage_inside(excerpt: Excerpt, passage: str, in_vault: bool) -> Excerpt:
    """Return the passage alone if it begins or ends inside a line, else the whole lines."""
    text = excerpt.text
    for spans in (_spans_without_words(excerpt, in_vault), []):
        bounds = [0, *chain.from_iterable(spans), len(text)]
        words = "".join(text[a:b] for a, b in zip(bounds[::2], bounds[1::2], strict=True))
        before, found, behind = words.partition(passage)
        if not found:
            continue
        start, end = len(before), len(before) + len(passage)
        for first, stop in spans:
            start += stop - first if first <= start else 0
            end += stop - first if first < end else 0
        begins_inside = before.rpartition("\n")[2].strip()
        ends_inside = behind.partition("\n")[0].strip()
        return excerpt.part(start if begins_inside else 0, end if ends_inside else len(text))
    return excerpt


def _spans_without_words(excerpt: Excerpt, in_vault: bool) -> list[tuple[int, int]]:
    """Return the spans of comments, and of marks of omitted data: passages have neither."""
    comments = find_comments(excerpt.text, excerpt.path, in_vault)
    marks = (match.span() for match in OMITTED.finditer(excerpt.text))
    spans = list[tuple[int, int]]()
    for span in sorted((*comments, *marks)):
        if not spans or span[0] >= spans[-1][1]:
            spans.append(span)
    return spans


def _comment_flags(comments: Sequence[tuple[int, int]], first: int, last: int) -> Iterator[str]:
    """Yield a flag for each comment in a range of lines: a rendered note does not show comments."""
    lines = [
        (max(start, first), min(end, last))
        for start, end in comments
        if start <= last and end >= first
    ]
    for start, end in lines[:_COMMENTS_FLAGGED]:
        to = f" up to line {end}" if end > start else ""
        yield f"{start}: a comment{to}, invisible in the rendered note"
    if len(lines) > _COMMENTS_FLAGGED:
        more = len(lines) - _COMMENTS_FLAGGED
        yield f"{lines[_COMMENTS_FLAGGED][0]}: {more} more comments on this line and below"


def outline_entry(document: Document) -> OutlineEntry:
    """Return a document as an outline entry."""
    return OutlineEntry(document.folder, document.path, 0, document.title, 1)


def outline_headings(note: FoundNote) -> tuple[OutlineEntry, ...]:
    """List a document's title and headings."""
    reader, document = note.reader, note.document
    headings = parse_headings(document.path, current_text(reader, document.path), note.in_vault)
    entries = (
        OutlineEntry(reader.folder.name, document.path, level, text, line)
        for level, text, line in headings
    )
    return (outline_entry(document), *entries)


def current_text(reader: Reader, path: str) -> str:
    """Return a note's current text. Raises UnknownPathError for a hidden or unreadable note."""
    if reader.database:
        published = reader.database.store(reader.folder.name).source(path)
        if published is None:
            raise unknown_path_error(path)
        return published
    data = read_visible(reader.folder, path, reader.store)
    if data is None:  # the note became private since it was found
        raise unknown_path_error(path)
    if isinstance(data, Problem) and not reader.folder.root.is_dir():
        raise UnknownPathError(
            f"Cannot read {path}: the folder {reader.folder.root} is missing. "
            "`query` still answers from the index."
        )
    if isinstance(data, Problem):
        raise UnknownPathError(
            f"{path}: {data.reason}. Run `thumbindex index` to update the index."
        )
    return decode_visible(path, data)
