"""Find the note that a path, a name, a citation, an address or an id refers to.

Every command, tool and page uses this module, so that a text means the same note everywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property, lru_cache
from itertools import chain, groupby, islice
from pathlib import Path
from urllib.parse import unquote

from thumbindex.corpus.parse import parse_document
from thumbindex.corpus.private import is_private
from thumbindex.errors import UnknownPathError, UsageError
from thumbindex.index.filters import by_form, nearest
from thumbindex.index.names import names_of
from thumbindex.index.snapshot import FolderSnapshot
from thumbindex.library.places import HEADING_SEPARATOR
from thumbindex.library.reader import Reader
from thumbindex.library.visibility import (
    SUGGESTED_NAMES,
    all_documents,
    filter_visible,
    read_visible,
)
from thumbindex.model import (
    Document,
    DocumentId,
    NameKind,
    Problem,
    Section,
    TypedFilter,
    day_of,
)
from thumbindex.ports import Snapshot
from thumbindex.query.match_names import find_by_reference
from thumbindex.query.spellings import words_begun_by
from thumbindex.text import (
    Lines,
    PassageAddress,
    fold_line,
    one_line,
    parse_address,
    parse_citation,
    text_digest,
)

MAX_NAMESAKES = 5
"""Maximum notes returned for one name."""

_MAX_TYPED_WORDS = 4
"""In a longer text, which is hardly a name, no typo is looked for."""

_MAX_NAME_MARKS = 3
"""Maximum `#` or ` > ` marks in a text that are tried as the end of a note's name."""
_QUOTES = "`\"'<>“”"

_DECORATED = re.compile(r"(?:#{1,6}[ \t]+)?(?:\d{1,4}\.[ \t]+)?(.*?)(?:[ \t]\(\d\.\d\d\))?", re.S)
"""A path in an answer, with the heading mark, rank and similarity, if any: `## 1. x.md (0.83)`."""

_ID = re.compile(r"(?:id )?([0-9a-f]{8})")
"""A passage's id in an answer: `id 0a1b2c3d`."""


@dataclass(frozen=True, slots=True)
class FoundNote:
    """A note in one snapshot, with the requested heading and lines."""

    reader: Reader
    snapshot: Snapshot
    id: DocumentId
    document: Document
    fragment: str | None = None  # the requested heading, block or anchor
    lines: Lines | None = None  # the cited lines
    kind: NameKind = NameKind.PATH
    passage_text: str = ""  # if an id or address was given

    @property
    def in_vault(self) -> bool:
        """Whether the note is in an Obsidian vault. A published note may be in one."""
        is_published = self.reader.database is not None
        return is_published or self.reader.folder.is_in_vault(self.document.path)


class NoteLookup:
    """Finds visible notes in one snapshot of each folder.

    Absolute paths are accepted only from callers on this machine (`is_local`).
    """

    def __init__(self, readers: Sequence[Reader], is_local: bool = True) -> None:
        self.readers, self._is_local = readers, is_local

    @cached_property
    def snapshots(self) -> Mapping[Reader, FolderSnapshot]:
        """The snapshots of the indexed folders."""
        return {reader: reader.folder_snapshot() for reader in self.readers if reader.indexed}

    # -------------------------------------------------------------- one note

    def find(self, text: str) -> FoundNote:
        """Return the note for a path, name, id or address, as printed in answers or as typed.

        Answers print paths as `notes: Ideas/x.md`, `x.md#Heading (lines 11-14)`, `## 1. x.md` or
        `x.md:11`. A name is a file name (`x`, `Ideas/x`), a title, an alias or a link, optionally
        with headings: `x#Heading`, `Title > Heading > Subheading`. An id or an address finds a
        passage by digest, even if the passage has moved.

        Raises UnknownPathError if no note matches. Raises UsageError if several notes match.
        """
        if address := parse_address(text.strip(f"{_QUOTES} \t\n")):
            return self._at_address(address)
        if by_path := self.find_path(text):
            return by_path
        for name, heading, lines in _parse_reference(text):
            if namesakes := next(self.notes_named(name), []):
                note = self._require_one(namesakes, name)
                return replace(note, fragment=heading or note.fragment, lines=lines)
        if passage_id := _ID.fullmatch(_strip_decoration(text)):
            return self._passage_with_id(passage_id[1])
        raise self._unknown(text)

    def find_path(self, text: str) -> FoundNote | None:
        """Like `find`, but try only paths, not names. Return None if there is no note."""
        for path, heading, lines in ((text, None, None), *_parse_reference(text)):
            if namesakes := next(self._at_path(path), None):
                return replace(self._require_one(namesakes, path), fragment=heading, lines=lines)
        return None

    def find_exact(self, path: str) -> FoundNote:
        """Return the note at an exact path (or `path#heading`).

        Raises UnknownPathError if no note matches. Raises UsageError if several notes match.
        """
        for exact, fragment in ((path, None), *split_headings(path)):
            if namesakes := self._notes_at([(reader, exact) for reader in self.readers]):
                return replace(self._require_one(namesakes, exact), fragment=fragment)
        raise self._unknown(path)

    def _require_one(self, namesakes: Sequence[FoundNote], name: str) -> FoundNote:
        """Return the only note. Raises UsageError if there are several."""
        if len(namesakes) > 1:
            paths = [note.document.path for note in namesakes]
            if len(self.readers) > 1:
                paths = [f"{note.document.folder}: {note.document.path}" for note in namesakes]
            more = " and more" if len(namesakes) > SUGGESTED_NAMES else ""
            raise UsageError(
                f"{name!r} is the name of several documents: "
                f"{', '.join(map(one_line, paths[:SUGGESTED_NAMES]))}{more}. Give the path of one."
            )
        return namesakes[0]

    # -------------------------------------------------------------- notes by name

    def notes_named(self, name: str) -> Iterator[list[FoundNote]]:
        """Yield groups of notes, best first: notes at the path `name`, then notes called `name`."""
        yield from self._at_path(name)
        for reader, path in chain.from_iterable(self.resolve_path(name)):
            yield from self._notes_titled(path, [reader])
        yield from self._notes_titled(name, self.readers)

    def _at_path(self, path: str) -> Iterator[list[FoundNote]]:
        """Yield the notes at `path` in any folder, then those at each result of `resolve_path`."""
        places = ([(reader, path) for reader in self.readers], *self.resolve_path(path))
        yield from filter(None, map(self._notes_at, places))

    def resolve_path(self, path: str) -> Iterator[list[tuple[Reader, str]]]:
        """Yield the ways to split a path into a folder and a path inside it, most likely first.

        The path may be absolute, or begin with a folder's name (`notes: a.md`) or with the last
        parts of a folder's path.
        """
        folder, _, inner_path = path.partition(": ")
        yield [
            (reader, inner_path)
            for reader in self.readers
            if inner_path and reader.folder.name == folder
        ]
        if not self._is_local or "\0" in path:
            return
        if not Path(path).is_absolute():
            yield [place for reader in self.readers for place in _relative_to_suffix(path, reader)]
            return
        absolute = Path(os.path.normpath(path))
        for candidate in dict.fromkeys(
            (absolute, Path(os.path.realpath(absolute.parent)) / absolute.name)
        ):
            inside = [
                (reader, candidate.relative_to(reader.folder.root).as_posix())
                for reader in self.readers
                if candidate.is_relative_to(reader.folder.root)
            ]
            # prefer the innermost of nested folders
            yield sorted(inside, key=lambda place: len(place[1]))[:1]

    def _notes_at(self, places: Iterable[tuple[Reader, str]]) -> list[FoundNote]:
        """Return the visible notes at the given paths."""
        notes = []
        for reader, path in places:
            folder_snapshot = self.snapshots.get(reader)
            n = folder_snapshot.catalog.document_at(path) if folder_snapshot else None
            if folder_snapshot and n is not None:
                document = folder_snapshot.catalog.documents[n]
                notes.append(FoundNote(reader, folder_snapshot.snapshot, n, document))
        return _visible(notes)

    def _notes_titled(self, name: str, readers: Sequence[Reader]) -> Iterator[list[FoundNote]]:
        """Yield groups of notes that match a name equally well, best first."""
        claims = [
            (claim, reader, n)
            for reader in readers
            if reader in self.snapshots and name.strip()
            for n, claim in find_by_reference(name, self.snapshots[reader].catalog).items()
        ]
        claims.sort(key=lambda claim: claim[0][:3])
        for _, group in groupby(claims, key=lambda claim: claim[0][:3]):
            notes = []
            for claim, reader, n in group:
                snapshot = self.snapshots[reader].snapshot
                document = snapshot.catalog.documents[n]
                heading = claim.heading or None
                notes.append(FoundNote(reader, snapshot, n, document, heading, kind=claim.kind))
            if notes := _visible(notes):
                yield notes

    # -------------------------------------------------------------- by a digest

    def _passage_with_id(self, digest: str) -> FoundNote:
        """Return the section whose text has this digest, from the newest note that contains it."""
        passages = [passage for _, passage in self.passages_with_digests({digest})]
        if not passages:
            raise UnknownPathError(
                f"No passage has the id {digest}: its text may have changed. Query again, or give "
                "the note's path."
            )
        return max(
            passages, key=lambda note: (day_of(note.document) or date.min, note.document.edited)
        )

    def _at_address(self, address: PassageAddress) -> FoundNote:
        """Return the passage at an address, even if the passage has moved to another note.

        If the passage no longer exists, return the note.
        """
        places = [
            (reader, address.path)
            for reader in self.readers
            if reader.folder.name == address.folder
        ]
        passage = note = next(iter(self._notes_at(places)), None)
        if address.digest:
            current = _current_passages(note) if note else ()
            pairs = chain(current, self.passages_with_digests({address.digest}))
            passage = next((match for digest, match in pairs if digest == address.digest), note)
        if passage is None:
            raise self._unknown(address.path)
        return replace(passage, fragment=address.heading or None)

    def passages_with_digests(self, digests: Collection[str]) -> Iterator[tuple[str, FoundNote]]:
        """Yield the digest and passage of each current section whose digest is in `digests`."""
        for reader in self.snapshots:
            for path in sorted(reader.store.paths_with_digests(digests)):
                for note in self._notes_at([(reader, path)]):
                    yield from (
                        passage for passage in _current_passages(note) if passage[0] in digests
                    )

    # -------------------------------------------------------------- several notes

    def documents_in(self, directory: str) -> Iterator[Document]:
        """Yield the visible documents in a directory and below it."""
        places = [(reader, directory) for reader in self.readers]
        places += chain.from_iterable(self.resolve_path(directory))
        within = [
            (reader.folder.name, path.strip("/").removeprefix("./")) for reader, path in places
        ]
        return filter_visible(
            (
                document
                for document in all_documents(self.readers)
                if any(
                    document.folder == folder
                    and (path in {"", "."} or document.path.startswith(f"{path}/"))
                    for folder, path in within
                )
            ),
            self.readers,
        )

    # -------------------------------------------------------------- no note

    def _unknown(self, text: str) -> UnknownPathError:
        """Return the error for a text that matches no note, with similar paths."""
        if next(NoteLookup(self.readers, is_local=False).documents_in(text), None):
            return UnknownPathError(
                f"{text!r} is a directory: `outline` lists the documents in it."
            )
        file = parse_citation(_strip_decoration(text))[0].partition("#")[0] or text
        if left_out := next(self._skipped_files(file), None):
            return UnknownPathError(
                one_line(f"{left_out.path} is not in the index: {left_out.reason}.")
            )
        return unknown_path_error(text, self.similar_paths(file))

    def _skipped_files(self, name: str) -> Iterator[Problem]:
        """Yield the problems of unindexed files with this name. Leaves out private files."""
        end = f"/{one_line(name)}".casefold()
        for reader, snapshot in self.snapshots.items():
            for problem in reader.store.problems():
                path = f"/{problem.path}".casefold()
                matches = path.endswith(end) or path.rpartition(".")[0].endswith(end)
                if not matches or snapshot.catalog.document_at(problem.path) is not None:
                    continue
                folder = reader.folder
                if reader.is_published or not is_private(
                    folder.root, problem.path, folder.config.corpus
                ):
                    yield problem

    def similar_paths(self, path: str) -> tuple[str, ...]:
        """Return the visible notes with the most similar paths or file names, best first."""
        condition = TypedFilter("path", path if path.endswith(".md") else f"{path}.md")
        names = [
            note.document.path
            for reader, snapshot in self.snapshots.items()
            for note in self._notes_at(
                [(reader, name) for name in snapshot.catalog.similar_values(condition)]
            )
        ]
        return nearest(condition, by_form("path", names))[:SUGGESTED_NAMES]


def unknown_path_error(text: str, nearest: Sequence[str] = ()) -> UnknownPathError:
    """Return the error for a hidden or unindexed note."""
    hint = (
        f"Nearest: {', '.join(map(one_line, nearest))}."
        if nearest
        else "`outline` without a path lists all notes."
    )
    return UnknownPathError(f"No note {text!r} in the index. {hint}")


# ------------------------------------------------------------------ typed references


def _parse_reference(typed: str) -> Iterator[tuple[str, str | None, Lines | None]]:
    """Yield the ways to split a text into name, heading and lines, most likely first."""
    plain = _strip_decoration(typed)
    # GitHub links to the lines of Markdown as `?plain=1#L5`
    for text in dict.fromkeys((typed, plain, unquote(plain).replace("?plain=1#", "#"))):
        cited, lines = parse_citation(text)
        yield cited, None, lines
        for file, heading in split_headings(cited):
            yield file, heading, lines
        parts = cited.split(HEADING_SEPARATOR)
        for count in range(min(len(parts) - 1, _MAX_NAME_MARKS), 0, -1):
            file, _, heading = HEADING_SEPARATOR.join(parts[:count]).partition("#")
            yield file, HEADING_SEPARATOR.join(filter(None, (heading, *parts[count:]))), lines


def split_headings(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the parts before and after each `#`.

    Begins with the last `#`, because a name may contain `#`, too.
    """
    marks = [at for at, letter in enumerate(text) if letter == "#"]
    for at in dict.fromkeys((*reversed(marks[-_MAX_NAME_MARKS:]), *marks[:1])):
        yield text[:at], text[at + 1 :] or None


def _strip_decoration(text: str) -> str:
    """Strip quotes and the marks that answers print around paths."""
    match = _DECORATED.fullmatch(text.strip())
    return (match[1] if match else text).strip(f"{_QUOTES} \t\n")


def _relative_to_suffix(path: str, reader: Reader) -> Iterator[tuple[Reader, str]]:
    """If a path begins with the last parts of the folder's path, yield the rest.

    There may be several ways to split the path.
    """
    slashed, root = path.replace("\\", "/"), f"/{reader.folder.root.as_posix()}".casefold()
    for at in (n for n, letter in enumerate(slashed) if letter == "/"):
        if at and root.endswith(f"/{slashed[:at]}".casefold()):
            yield reader, slashed[at + 1 :]


# ------------------------------------------------------------------ current notes


def _visible(notes: Sequence[FoundNote]) -> list[FoundNote]:
    """Return the first `MAX_NAMESAKES` visible notes."""
    readers = list(dict.fromkeys(note.reader for note in notes))
    documents = islice(filter_visible((note.document for note in notes), readers), MAX_NAMESAKES)
    visible = {(document.folder, document.path) for document in documents}
    return [note for note in notes if (note.document.folder, note.document.path) in visible]


def read_sections(note: FoundNote) -> tuple[Section, ...]:
    """Return a note's current sections; empty if the note cannot be read or is hidden."""
    if database := note.reader.database:
        return database.store(note.document.folder).sections_at(note.document.path)
    folder, path = note.reader.folder, note.document.path
    data = read_visible(folder, path, note.reader.store)
    if data is None or isinstance(data, Problem):
        return ()
    return parse_document(path, data, folder.config.corpus, in_vault=note.in_vault).sections


def _current_passages(note: FoundNote) -> Iterator[tuple[str, FoundNote]]:
    """Yield the digest and passage of each current section of a note."""
    for section in read_sections(note):
        lines = Lines(section.start_line, section.end_line)
        yield text_digest(section.text), replace(note, lines=lines, passage_text=section.text)


# ------------------------------------------------------------------ completion


def complete_names(typed: str, documents: Iterable[Document]) -> list[Document]:
    """Return the documents that complete a typed name.

    Exact matches come first, then names that begin with `typed`, then names with another word that
    begins with `typed`, then names with all its words, in any order. If there are none, each word
    may have a typo.
    """
    prefix = _fold_name(typed)
    listed = [(document, _folded_names(document)) for document in documents]

    def distance(names: Sequence[str]) -> int:
        if prefix in names:
            return 0
        if any(name.startswith(prefix) for name in names):
            return 1
        if any(f" {prefix}" in name for name in names):
            return 2
        name_words = " " + " ".join(names)
        return 3 if all(f" {word}" in name_words for word in prefix.split()) else 4

    completions = [(at, note) for note, names in listed if (at := distance(names)) < 4]
    if not completions and len(prefix.split()) <= _MAX_TYPED_WORDS:
        words_of = [(note, set(" ".join(names).split())) for note, names in listed]
        vocabulary = set[str]().union(*(name_words for _, name_words in words_of))
        meant = [words_begun_by(word, vocabulary) for word in prefix.split()]
        completions = [
            (4, note)
            for note, name_words in words_of
            if not any(name_words.isdisjoint(words) for words in meant)
        ]
    completions.sort(
        key=lambda pair: (pair[0], pair[1].path.count("/"), pair[1].folder, pair[1].path)
    )
    return [document for _, document in completions]


def _folded_names(document: Document) -> list[str]:
    return [_fold_name(name) for name in (document.path, *names_of(document))]


@lru_cache(maxsize=50_000)
def _fold_name(name: str) -> str:
    # cached: completion compares all names at each keystroke
    return re.sub(r"[-_/\s]+", " ", fold_line(name)).strip()
