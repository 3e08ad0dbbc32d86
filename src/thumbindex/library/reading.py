"""Read single documents: their lines, their headings, what stands near them, and how many tokens
they cost.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import date
from difflib import get_close_matches
from functools import partial
from itertools import islice
from unicodedata import normalize

import numpy as np

from thumbindex.corpus.parse import comments_of, headings_of, parse_document
from thumbindex.corpus.private import is_private_text
from thumbindex.corpus.read import decode, decode_seen, read_bytes, read_digest
from thumbindex.corpus.walk import Names, facts_of, state_of
from thumbindex.errors import StorageError, UnknownPathError, UsageError
from thumbindex.index.filters import FilterIndex, newest_first, passes
from thumbindex.index.store import Store, document_from_row
from thumbindex.library.folders import Folder
from thumbindex.library.indexing import cutting, holds_nothing, is_private_now, lies_private
from thumbindex.library.reader import Reader
from thumbindex.model import (
    BrokenLink,
    BrokenLinks,
    Chunk,
    ChunkId,
    Document,
    DocumentId,
    DuplicatesFound,
    Excerpt,
    FileState,
    Filters,
    Link,
    ListedNote,
    NoteList,
    OutlineEntry,
    Passage,
    Place,
    Problem,
    Related,
    Section,
    Unmet,
    day_of,
    iso_day,
)
from thumbindex.ports import Catalog, Snapshot, Vector
from thumbindex.query.filters import unmet_arguments
from thumbindex.query.names import documents_named
from thumbindex.text import Address, bare_name, one_line, read_address, split_citation, text_digest

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
    with closing(Store(folder.places.store, read_only=True)) as store, store.reading():
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
        headings = _headings_on([each.heading_path[1:] for each in texts[row]])
        found = document_from_row(path, title, times, rest, folder.name)
        yield Note(found, headings, tuple(each.text for each in texts[row]), tuple(links[path]))


def _headings_on(paths: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the headings of a document, in order, from those above each of its chunks."""
    found: list[str] = []
    before: Sequence[str] = ()
    for path in paths:
        same = next(
            (n for n, (was, now) in enumerate(zip(before, path, strict=False)) if was != now),
            min(len(before), len(path)),
        )
        found += path[same:]
        before = path
    return tuple(found)


_COMMENTS_FLAGGED = 5
"""Comments of an excerpt that are flagged one by one; the rest is counted."""

BELOW = " > "
"""What answers write between a heading and the one below it."""

_PARTS = 3
"""Of headings below each other, so many may be the name of the note: a title may hold the mark
itself.
"""

_NAMED, _LOOKED_AT = 3, 50
"""Names that are told of those that come near, and how many notes are looked at at once for
them.
"""


@dataclass(frozen=True, slots=True)
class Found:
    """A document in the snapshot in which it was found."""

    reader: Reader
    snapshot: Snapshot
    id: DocumentId
    document: Document
    fragment: str | None = None  # what stood behind "#" in the path that was asked for
    lines: tuple[int, int] | None = None  # that it was cited with


def find_document(path: str, readers: Sequence[Reader]) -> Found:
    """Return the indexed document at a path (`path#heading` too); nothing that is not in an index
    is ever looked for on disk.
    """
    found = _at_path(path, readers)
    if found is None:
        raise _unknown(path, readers)
    return found


def find_cited(path: str, readers: Sequence[Reader]) -> Found:
    """Return the document that a path or a name means, as answers write it or as one types it.

    `notes: Ideas/x.md`, `x.md#Heading (lines 11-14)`, `## 1. x.md` and `x.md:11` are paths as
    answers write them. A name is a file's (`x`, `Ideas/x`), a title, an alias or a link, each with
    headings behind it or not: `x#Heading`, `Title > Heading > Heading below`. An id and an address
    lead to the passage with their digest, wherever that stands now.
    """
    if address := read_address(path.strip(f"{_QUOTES} \t\n")):
        return _at_address(address, readers)
    for written in dict.fromkeys((path, _unadorned(path))):
        cited, lines = split_citation(written)
        # lines are no part of the heading before them
        if (found := _at_path(written, readers)) and not (lines and found.fragment):
            return found
        folder, _, rest = cited.partition(": ")
        own = [reader for reader in readers if reader.folder.name == folder]
        places = [(cited, readers), *([(rest, own)] if own and rest else [])]
        for look in (_at_path, _of_name, _called, _above_headings):
            for wanted, among in places:
                if found := look(wanted, among):
                    return replace(found, lines=lines)
    if own_id := _ID.fullmatch(_unadorned(path)):
        return _with_id(own_id[1], readers)
    raise _unknown(path, readers)


_ID = re.compile(r"(?:id )?([0-9a-f]{8})(?::\d{1,9}-\d{1,9}~?)?")
"""A passage's id, as answers write it: the digest of its text, and which of its lines were
shown.
"""


def _with_id(digest: str, readers: Sequence[Reader]) -> Found:
    """Return the section whose text has a digest, all of it; of several notes the newest, as
    answers do.
    """
    found = [
        replace(note, lines=(section.start_line, section.end_line))
        for note, section in with_digests({digest}, readers)
    ]
    if not found:
        raise UnknownPathError(
            f"No passage has the id {digest} now: its text has changed, or there is none. Ask "
            "`query` again, or give its path."
        )
    return max(found, key=lambda each: (day_of(each.document) or date.min, each.document.edited))


_ADORNED = re.compile(r"(?:#{1,6}[ \t]+)?(?:\d{1,4}\.[ \t]+)?(.*?)(?:[ \t]\(\d\.\d\d\))?", re.S)
"""What answers write around a path: a heading's mark and the rank before it, the similarity behind
it.
"""

_QUOTES = "`\"'<>“”"


def _unadorned(path: str) -> str:
    """Return a path without what answers write around it, and without quotes."""
    found = _ADORNED.fullmatch(path.strip())
    return (found[1] if found else path).strip(f"{_QUOTES} \t\n")


def _at_address(address: Address, readers: Sequence[Reader]) -> Found:
    """Return what an address names: its passage where that stands now, in its note or another one,
    else its note.
    """
    own = [reader for reader in readers if reader.folder.name == address.folder]
    notes = _matching(address.path, address.heading, own)
    if notes and (section := section_with(address.digest, notes[0])):
        return replace(notes[0], lines=(section.start_line, section.end_line))
    moved = next(with_digests({address.digest}, readers), None) if address.digest else None
    if moved is None and not notes:
        raise _unknown(address.path, readers)
    if moved:
        return replace(
            moved[0],
            fragment=address.heading or None,
            lines=(moved[1].start_line, moved[1].end_line),
        )
    return notes[0]


def section_with(digest: str, found: Found) -> Section | None:
    """Return the section of a note, as it is on disk now, whose text has a digest."""
    if not digest:
        return None
    return next((each for each in sections_now(found) if text_digest(each.text) == digest), None)


def sections_now(found: Found) -> tuple[Section, ...]:
    """Return a note's sections as it is on disk now; none of one that cannot be read, or may not
    be.
    """
    if found.reader.is_published:
        return found.reader.published_sections(found.document.path)
    settings = found.reader.folder.config.corpus
    data = read_bytes(found.reader.folder.root, found.document.path, settings)
    if isinstance(data, Problem):
        return ()
    parsed = parse_document(found.document.path, data, settings)
    return () if parsed.private else parsed.sections


def with_digests(
    digests: Collection[str], readers: Sequence[Reader]
) -> Iterator[tuple[Found, Section]]:
    """Yield the passages whose texts have some digests, and that still have them: every section of
    the indexes is looked at once.
    """
    for reader in readers:
        if reader.indexed:
            paths = reader.store.paths_with_digests(digests)
            for found in _matching(paths.__contains__, None, [reader]) if paths else ():
                yield from (
                    (found, each)
                    for each in sections_now(found)
                    if text_digest(each.text) in digests
                )


def _at_path(path: str, readers: Sequence[Reader]) -> Found | None:
    for wanted, fragment, form in _wanted(path):
        found = _matching(
            wanted if form is str else partial(_is_path, wanted, form), fragment, readers
        )
        if len(found) > 1:
            names = ", ".join(each.reader.folder.name for each in found)
            raise UsageError(
                f"{wanted!r} is in several folders ({names}): say which one with `folder`."
            )
        if found:
            return found[0]
    return None


def _of_name(path: str, readers: Sequence[Reader]) -> Found | None:
    """Return the one document whose path ends so, with its suffix or without.

    Raises UsageError where several do.
    """
    file, _, heading = path.partition("#")
    for name, fragment in ((path, None), (file, heading)):
        if name:
            is_meant = partial(_is_name, f"/{_typed(name).casefold()}")
            if found := _matching(is_meant, fragment, readers):
                return _only(found, name, readers)
    return None


def _called(path: str, readers: Sequence[Reader]) -> Found | None:
    """Return the one document that bears a name best: its file's, its title, an alias or a link,
    with a heading behind it or not.
    """
    file, _, heading = path.partition("#")
    for name, fragment in ((path, ""), (file, heading)):
        claims = [
            (claim, reader, n)
            for reader in readers
            if reader.indexed
            for n, claim in documents_named(name, reader.snapshot().catalog).items()
        ]
        for best in sorted({claim[:3] for claim, *_ in claims}):
            bearing = [
                (reader, n, claim.heading) for claim, reader, n in claims if claim[:3] == best
            ]
            heading_meant = fragment or bearing[0][2]
            found: list[Found] = []
            for reader in dict.fromkeys(reader for reader, *_ in bearing):
                catalog = reader.snapshot().catalog
                paths = {catalog.documents[n].path for own, n, _ in bearing if own is reader}
                found += _matching(paths.__contains__, heading_meant, [reader])
            if found:
                return _only(found, path, readers)
    return None


def _above_headings(path: str, readers: Sequence[Reader]) -> Found | None:
    """Return the document before the headings of `Title > Heading > Heading below`: its path or its
    name.
    """
    parts = path.split(BELOW)
    for count in range(min(len(parts) - 1, _PARTS), 0, -1):
        name, headings = BELOW.join(parts[:count]), BELOW.join(parts[count:])
        if found := _at_path(name, readers) or _of_name(name, readers) or _called(name, readers):
            return replace(found, fragment=BELOW.join(filter(None, (found.fragment, headings))))
    return None


def _only(found: Sequence[Found], name: str, readers: Sequence[Reader]) -> Found:
    """Return the one document that bears a name. Raises UsageError where several do."""
    if len(found) > 1:
        paths = [each.document.path for each in found]
        if len(readers) > 1:
            paths = [f"{each.document.folder}: {each.document.path}" for each in found]
        more = " and more" if len(found) > _NAMED else ""
        raise UsageError(
            f"{name!r} is the name of several documents: "
            f"{', '.join(map(one_line, paths[:_NAMED]))}{more}. Give the path of one."
        )
    return found[0]


def _is_path(wanted: str, form: Callable[[str], str], path: str) -> bool:
    return wanted == form(path)


def _is_name(end: str, path: str) -> bool:
    whole = f"/{_typed(path).casefold()}"
    return whole.endswith(end) or whole.rpartition(".")[0].endswith(end)


def _matching(
    is_meant: str | Callable[[str], bool], fragment: str | None, readers: Sequence[Reader]
) -> list[Found]:
    """Return the first documents at paths that are meant, without those that may not be shown
    now.
    """
    found: list[Found] = []
    for reader in readers:
        if reader.indexed:
            snapshot = reader.snapshot()
            found += (
                Found(reader, snapshot, n, snapshot.catalog.documents[n], fragment or None)
                for n in _meant(is_meant, snapshot.catalog)
            )
    open_ones = {
        (each.folder, each.path)
        for each in islice(shown((each.document for each in found), readers), _NAMED + 1)
    }
    return [each for each in found if (each.document.folder, each.document.path) in open_ones]


def _meant(is_meant: str | Callable[[str], bool], catalog: Catalog) -> Iterator[DocumentId]:
    """Yield the documents at one path, or at those that are meant."""
    if isinstance(is_meant, str):
        at = catalog.at(is_meant)
        yield from () if at is None else (at,)
    else:
        yield from (n for n, path in catalog.every_path() if is_meant(path))


def _unknown(path: str, readers: Sequence[Reader]) -> UnknownPathError:
    """Return what says that there is no document at a path, and what comes near."""
    if next(_below(path, readers), None):
        return UnknownPathError(f"{path!r} is a directory: `outline` lists the documents in it.")
    file = split_citation(_unadorned(path))[0].partition("#")[0] or path
    if left_out := next(_left_out(file, readers), None):
        return UnknownPathError(
            one_line(f"{left_out.path} is not in the index: {left_out.reason}.")
        )
    close = _nearest(file, list(_every_document(readers)), readers)
    hint = (
        f"Nearest: {', '.join(map(one_line, close))}."
        if close
        else "`outline` without a path lists all documents."
    )
    return UnknownPathError(f"No document {path!r} in the index. {hint}")


def _left_out(path: str, readers: Sequence[Reader]) -> Iterator[Problem]:
    """Yield what was reported about files of a name that are no documents, and not private: too
    large, or not to be read.
    """
    end = f"/{_typed(path).casefold()}"
    for reader in readers:
        for each in reader.store.problems() if reader.indexed else ():
            if not _is_name(end, each.path) or reader.snapshot().catalog.at(each.path) is not None:
                continue
            if reader.is_published or not is_private_now(reader.folder, each.path):
                yield each


def _below(path: str, readers: Sequence[Reader]) -> Iterator[Document]:
    """Yield the documents in a directory, and below it, that may be shown now."""
    directory = path.strip("/").removeprefix("./")
    return shown(
        (
            each
            for each in _every_document(readers)
            if directory in {"", "."} or each.path.startswith(f"{directory}/")
        ),
        readers,
    )


def _wanted(path: str) -> Iterator[tuple[str, str | None, Callable[[str], str]]]:
    """Yield what a path may mean, the likeliest first, with the form of paths that it is compared
    with: a path, or one with a heading.

    Each is as it stands, as citations write it (on one line), or as one types it on Windows or
    macOS.
    """
    file, _, heading = path.partition("#")
    for form in (str, one_line):
        yield path, None, form
        yield file, heading, form
    yield _typed(path), None, _typed
    yield _typed(file), heading, _typed


def _typed(path: str) -> str:
    """Return a path with slashes, and with letters and accents together."""
    return normalize("NFC", one_line(path)).replace("\\", "/")


def _nearest(path: str, documents: Sequence[Document], readers: Sequence[Reader]) -> list[str]:
    """Return which names come nearest; that of a note which has become private since it was indexed
    is none of them.
    """
    name = path.rpartition("/")[2].casefold()
    same_name = [
        each
        for each in documents
        if each.path.rpartition("/")[2].casefold().removesuffix(".md") == name.removesuffix(".md")
    ]
    if named := list(islice((each.path for each in shown(same_name, readers)), _NAMED)):
        return named
    # of whole paths, else of the files' names alone
    for form, cutoff in ((str, 0.5), (_stem, 0.7)):
        close = islice(shown(_alike(form, path, documents, cutoff), readers), _LOOKED_AT)
        if named := list(dict.fromkeys(each.path for each in close))[:_NAMED]:
            return named
    return []


def _alike(
    form: Callable[[str], str], path: str, documents: Sequence[Document], cutoff: float
) -> Iterator[Document]:
    """Yield the documents whose paths look most like one in some form."""
    folded: dict[str, list[Document]] = defaultdict(list)
    for each in documents:
        folded[form(each.path).casefold()].append(each)
    return (
        each
        for name in get_close_matches(form(path).casefold(), folded, n=_LOOKED_AT, cutoff=cutoff)
        for each in folded[name]
    )


def _stem(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[0] or path.rpartition("/")[2]


def hidden_now(
    places: Iterable[tuple[str, str]], readers: Sequence[Reader]
) -> frozenset[tuple[str, str]]:
    """Return which notes, by folder and path, may not be shown as their files are now, whatever the
    index still knows of them.

    They have become private since, are gone from their places, or have changed where nobody can
    read what the folder's own file keeps private. A file is read only where its size, its times or
    its place on the disk are not those that were indexed.
    """
    paths: dict[str, set[str]] = defaultdict(set)
    for folder, path in places:
        paths[folder].add(path)
    found: set[tuple[str, str]] = set()
    for reader in readers:
        if (asked := paths.get(reader.folder.name)) and not reader.is_published:
            try:
                store = reader.store
            except StorageError:  # it is just being put in the place of another: all are read
                store = None
            found |= {
                (reader.folder.name, path) for path in hidden_paths(reader.folder, asked, store)
            }
    return frozenset(found)


def hidden_paths(folder: Folder, paths: Collection[str], store: Store | None) -> set[str]:
    """Return which notes of a folder may not be shown as their files are now; see `hidden_now`."""
    indexed: Mapping[str, FileState] = {}
    is_read_so = False
    with suppress(StorageError):
        if store is not None:
            indexed, is_read_so = store.manifest(paths), store.meta("corpus") == cutting(folder)
    names: Names = {}
    return {
        path for path in paths if _is_hidden(folder, path, indexed.get(path), is_read_so, names)
    }


def _is_hidden(
    folder: Folder, path: str, indexed: FileState | None, is_read_so: bool, names: Names
) -> bool:
    if lies_private(folder, path, names):
        return True
    try:
        # (of a listing's every note)
        state = state_of(path, os.stat(f"{folder.root}/{path}"))  # noqa: PTH116
        if indexed is not None and is_read_so and facts_of(state) == facts_of(indexed):
            return False
    # it may be private where it lies now; of a folder that is away nothing has moved
    except (FileNotFoundError, NotADirectoryError):
        if not holds_nothing(folder.root):
            return True
    except (OSError, ValueError):
        pass
    if folder.config.closed and (
        indexed is None or indexed.digest != read_digest(folder.root, path, folder.config.corpus)
    ):
        return True
    return is_private_now(folder, path)


def hidden_paths_now(paths: Iterable[str], reader: Reader) -> set[str]:
    """Return which paths of a folder may not be shown now."""
    places = ((reader.folder.name, path) for path in paths)
    return {path for _, path in hidden_now(places, [reader])}


def changed_now(
    places: Iterable[tuple[str, str]], readers: Sequence[Reader]
) -> frozenset[tuple[str, str]]:
    """Return which notes, by folder and path, are gone or say something else than was indexed; of a
    folder that is away nothing has changed.

    A file is read only where its size, its times or its place on the disk are not those that were
    indexed.
    """
    asked = frozenset(places)
    found = set[tuple[str, str]]()
    for reader in readers:
        if (
            own := {path for folder, path in asked if folder == reader.folder.name}
        ) and not reader.is_published:
            indexed = reader.store.manifest(own)
            found |= {
                (reader.folder.name, path)
                for path in own
                if _has_changed(reader.folder, path, indexed.get(path))
            }
    return frozenset(found)


def _has_changed(folder: Folder, path: str, indexed: FileState | None) -> bool:
    try:
        if indexed is not None:
            now = state_of(path, (folder.root / path).stat())
            if facts_of(now) == facts_of(indexed):
                return False
    except (FileNotFoundError, NotADirectoryError):
        return not holds_nothing(folder.root)
    except (OSError, ValueError):
        return False
    return indexed is None or indexed.digest != read_digest(folder.root, path, folder.config.corpus)


def with_true_places(passages: Sequence[Passage], readers: Sequence[Reader]) -> tuple[Passage, ...]:
    """Return passages that name as copies no place twice, none that they show themselves, and no
    note that has changed since it was indexed.
    """
    changed = changed_now(
        ((each.folder, each.path) for passage in passages for each in passage.also_in), readers
    )
    return tuple(
        _with_places(passage, changed) if passage.also_in else passage for passage in passages
    )


def _with_places(passage: Passage, changed: Collection[tuple[str, str]]) -> Passage:
    by_note: dict[tuple[str, str], list[Place]] = {}
    for place in passage.also_in:
        if (place.folder, place.path) not in changed:
            by_note.setdefault((place.folder, place.path), []).append(place)
    joined = [place for places in by_note.values() for place in _joined(places)]
    own = (passage.folder, passage.path)
    others = tuple(
        each
        for each in joined
        if (each.folder, each.path) != own
        or each.end_line < passage.start_line
        or each.start_line > passage.end_line
    )
    return replace(passage, also_in=others, cluster_size=1 + len(others))


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


def _every_document(readers: Sequence[Reader]) -> Iterator[Document]:
    return (
        document
        for reader in readers
        if reader.indexed
        for _, document in reader.snapshot().catalog.every_document()
    )


def open_documents(readers: Sequence[Reader]) -> list[Document]:
    """Return all documents that may be shown now, by folder and path."""
    documents = list(_every_document(readers))
    hidden = hidden_now(((each.folder, each.path) for each in documents), readers)
    if hidden:
        return [each for each in documents if (each.folder, each.path) not in hidden]
    return documents


def shown(documents: Iterable[Document], readers: Sequence[Reader]) -> Iterator[Document]:
    """Yield the documents that may be shown now; the files of few more are looked at than are
    taken.
    """
    rest = iter(documents)
    while some := list(islice(rest, _LOOKED_AT)):
        hidden = hidden_now(((each.folder, each.path) for each in some), readers)
        yield from (each for each in some if (each.folder, each.path) not in hidden)


def with_shown_names(
    unmet: Sequence[Unmet], catalog: Catalog, readers: Sequence[Reader]
) -> tuple[Unmet, ...]:
    """Keep of the names that come near a filter the first ones that some note still gives which may
    be shown now.
    """

    def open_names(each: Unmet) -> Iterator[str]:
        return (
            name
            for name in each.nearest
            if next(shown(catalog.bearing(each.field, name), readers), None)
        )

    return tuple(replace(each, nearest=tuple(islice(open_names(each), _NAMED))) for each in unmet)


def without_hidden_texts(found: DuplicatesFound, readers: Sequence[Reader]) -> DuplicatesFound:
    """Return clusters without the texts of notes that may not be shown now; one of which a single
    place is left is none.
    """
    hidden = hidden_now(
        (
            (each.place.folder, each.place.path)
            for cluster in found.clusters
            for each in cluster.standings
        ),
        readers,
    )
    if not hidden:
        return found
    left = []
    for cluster in found.clusters:
        texts = tuple(
            text for text in cluster.standings if (text.place.folder, text.place.path) not in hidden
        )
        if len(texts) > 1:
            left.append(replace(cluster, standings=texts))
    return replace(found, clusters=tuple(left))


def list_notes(
    filters: Filters, readers: Sequence[Reader], linked: Collection[tuple[str, str]] = ()
) -> NoteList:
    """List the notes that filters let through, without a question: the newest first, then by path;
    those that are `linked` are left out.
    """
    documents = open_documents(readers)
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
    unmet = tuple(replace(each, nearest=each.nearest[:_NAMED]) for each in unmet)
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
            hidden = hidden_paths_now(paths, reader)
            yield from (
                (name, path, link, link.resolved in hidden)
                for path, _, link in links
                if path not in hidden
            )


def read_excerpt(found: Found, heading: str | None, lines: tuple[int, int] | None) -> Excerpt:
    """Return a document's lines as they stand on disk: all, those under a heading, or a range."""
    reader, document = found.reader, found.document
    text = text_now(reader, document.path)
    rows = text.split("\n")
    if rows and not rows[-1]:
        rows.pop()
    first, last = 1, len(rows)
    if heading is not None:
        first, last = _lines_under(heading, document.path, text, len(rows))
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


def outline_documents(readers: Sequence[Reader], directory: str = "") -> tuple[OutlineEntry, ...]:
    """List every document, or those in a directory and below it, with its title, by folder and
    path.
    """
    return tuple(
        map(_entry_of, _below(directory, readers) if directory else open_documents(readers))
    )


def browse_documents(
    arrange: Callable[[Iterable[Document]], Iterable[Document]], readers: Sequence[Reader]
) -> Iterator[OutlineEntry]:
    """Yield documents as they are arranged; the files of few more are looked at than are taken."""
    return map(_entry_of, shown(arrange(_every_document(readers)), readers))


def _entry_of(document: Document) -> OutlineEntry:
    return OutlineEntry(document.folder, document.path, 0, document.title, 1)


def outline_headings(found: Found) -> tuple[OutlineEntry, ...]:
    """List a document's title and headings."""
    reader, document = found.reader, found.document
    headings = headings_of(document.path, text_now(reader, document.path))
    title = OutlineEntry(reader.folder.name, document.path, 0, document.title, 1)
    entries = (
        OutlineEntry(reader.folder.name, document.path, level, text, line)
        for level, text, line in headings
    )
    return (title, *entries)


def related_to(found: Found, limit: int) -> Related:
    """Return a document's links both ways and the documents whose mean vectors are nearest to its
    own.
    """
    reader, snapshot, own, document = found.reader, found.snapshot, found.id, found.document
    dangling = sorted(
        {link.target for _, _, link in reader.store.links([document.path]) if not link.resolved}
    )
    linked, linking = snapshot.graph.linked(own), snapshot.graph.linking(own)
    similar = nearest_documents(snapshot, own, limit)
    around = (*linked, *linking, *(n for n, _ in similar))
    paths = {n: snapshot.catalog.documents[n].path for n in around}
    hidden = hidden_paths_now(paths.values(), reader)
    paths = {n: path for n, path in paths.items() if path not in hidden}
    return Related(
        reader.folder.name,
        document.path,
        tuple(paths[n] for n in linked if n in paths),
        tuple(paths[n] for n in linking if n in paths),
        tuple(dangling),
        tuple((paths[n], round(cosine, 4)) for n, cosine in similar if n in paths),
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
    if reader.is_published:
        if (published := reader.published_text(path)) is None:
            raise UnknownPathError(
                f"No document {path!r} in the index. `outline` without a path lists all documents."
            )
        return published
    data = read_bytes(reader.folder.root, path, reader.folder.config.corpus)
    if isinstance(data, Problem) and not reader.folder.root.is_dir():
        raise UnknownPathError(
            f"{path} cannot be read: the folder {reader.folder.root} is not there now; "
            "`query` answers from what was read last."
        )
    if isinstance(data, Problem):
        raise UnknownPathError(
            f"{path} {data.reason}; `thumbindex index` brings the index up to the disk."
        )
    # it was rewritten since it was found
    if is_private_text(path, decode(path, data)[0], reader.folder.config.corpus):
        raise UnknownPathError(
            f"No document {path!r} in the index. `outline` without a path lists all documents."
        )
    return decode_seen(path, data)


def mean_vector(snapshot: Snapshot, document: DocumentId) -> Vector | None:
    """Return the mean of a document's vectors at unit length; None if it has no vector."""
    vectors = snapshot.vector.vectors([ChunkId(n) for n in snapshot.catalog.chunk_ids(document)])
    vectors = vectors[~np.isnan(vectors).any(axis=1)]
    if not len(vectors):
        return None
    mean = vectors.mean(axis=0)
    length = float(np.linalg.norm(mean))
    return np.asarray(mean / length, dtype=np.float32) if length else None


def _lines_under(heading: str, path: str, text: str, total: int) -> tuple[int, int]:
    """Return the lines from a heading to the next one that is not below it.

    It may stand below others, as in `Above > Heading`, and as an anchor writes it, without its
    signs (`set-up`).
    """
    headings = headings_of(path, text)
    above = _headings_above(headings)
    wanted = one_line(heading).lstrip("#").strip()
    for form in (str.casefold, bare_name):
        for parts in ([wanted], *(wanted.split(mark) for mark in (BELOW, "#") if mark in wanted)):
            *higher, own = (form(part.strip()) for part in parts)
            for n, (level, name, line) in enumerate(headings):
                # The first part may be the note's title, which need not be a heading of it.
                if (
                    form(one_line(name)) == own
                    and own
                    and (_is_below(higher, above[n], form) or _is_below(higher[1:], above[n], form))
                ):
                    end = next(
                        (other - 1 for depth, _, other in headings[n + 1 :] if depth <= level),
                        total,
                    )
                    return line, end
    close = get_close_matches(heading, [name for _, name, _ in headings], n=3, cutoff=0.4)
    hint = (
        f" Nearest: {', '.join(close)}."
        if close
        else f" `outline` with path {path!r} lists its headings."
    )
    raise UsageError(f"{path} has no heading {heading!r}.{hint}")


def _headings_above(headings: Sequence[tuple[int, str, int]]) -> list[list[str]]:
    """Return the headings above each heading, the highest first."""
    found, open_ones = list[list[str]](), list[tuple[int, str]]()
    for level, name, _ in headings:
        open_ones = [each for each in open_ones if each[0] < level]
        found.append([name for _, name in open_ones])
        open_ones.append((level, name))
    return found


def _is_below(higher: Sequence[str], above: Sequence[str], form: Callable[[str], str]) -> bool:
    """Tell whether some headings stand above a heading, in this order."""
    rest = iter([form(one_line(each)) for each in above])
    return all(part in rest for part in higher)
