"""Find the note that a path, a name, a citation, an address or an id refers to.

All commands, tools and screens use it, so that the same text means the same note everywhere.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from difflib import get_close_matches
from functools import cached_property, lru_cache
from itertools import chain, groupby, islice
from pathlib import Path

from thumbindex.corpus.parse import parse_document
from thumbindex.corpus.private import is_private
from thumbindex.errors import UnknownPathError, UsageError
from thumbindex.index.names import names_of
from thumbindex.library.reader import Reader
from thumbindex.library.visibility import (
    SUGGESTED_NAMES,
    all_documents,
    filter_visible,
    read_visible,
)
from thumbindex.model import Document, DocumentId, NameKind, Problem, Section, day_of
from thumbindex.ports import FolderSnapshot, Snapshot
from thumbindex.query.match_names import find_by_reference
from thumbindex.text import (
    PassageAddress,
    fold_line,
    name_key,
    one_line,
    parse_address,
    parse_citation,
    text_digest,
)

HEADING_SEPARATOR = " > "
"""Separates a heading from its subheading in answers."""

MOST_NAMESAKES = 5
"""Maximum notes of one name."""

_MOST_NAME_MARKS = 3
"""Maximum `#` or ` > ` that are tried as part of a note's name."""

_MOST_SIMILAR = 50
"""Similar names that are checked for visible notes."""

_QUOTES = "`\"'<>“”"

_DECORATED = re.compile(r"(?:#{1,6}[ \t]+)?(?:\d{1,4}\.[ \t]+)?(.*?)(?:[ \t]\(\d\.\d\d\))?", re.S)
"""A path in an answer: after a heading mark or a rank, before a similarity."""

_ID = re.compile(r"(?:id )?([0-9a-f]{8})(?::\d{1,9}-\d{1,9}~?)?")
"""A passage's id in an answer: the digest of its text, and the lines that were shown."""


@dataclass(frozen=True, slots=True)
class FoundNote:
    """A note in one snapshot, with the heading and lines that were asked for."""

    reader: Reader
    snapshot: Snapshot
    id: DocumentId
    document: Document
    fragment: str | None = None  # the heading that was asked for
    lines: tuple[int, int] | None = None  # that it was cited with
    kind: NameKind = NameKind.PATH


class NoteLookup:
    """Finds notes of some folders, in one snapshot of each. Hidden notes are never found.

    Absolute paths are accepted only from callers on this machine (`is_local`).
    """

    def __init__(self, readers: Sequence[Reader], is_local: bool = True) -> None:
        self.readers, self._is_local = readers, is_local

    @cached_property
    def snapshots(self) -> Mapping[Reader, FolderSnapshot]:
        """The snapshot of each indexed folder."""
        return {reader: reader.folder_snapshot() for reader in self.readers if reader.indexed}

    # -------------------------------------------------------------- one note

    def find(self, written: str) -> FoundNote:
        """Return the note for a path or a name, as answers write it or as a user types it.

        `notes: Ideas/x.md`, `x.md#Heading (lines 11-14)`, `## 1. x.md` and `x.md:11` are paths as
        answers write them. A name is a file's (`x`, `Ideas/x`), a title, an alias or a link, each
        with headings behind it or not: `x#Heading`, `Title > Heading > Heading below`. An id and an
        address lead to the passage with their digest, wherever that stands now.

        Raises UnknownPathError for no note, UsageError for several.
        """
        if address := parse_address(written.strip(f"{_QUOTES} \t\n")):
            return self._at_address(address)
        if found := self.find_path(written):
            return found
        for name, heading, lines in _parse_reference(written):
            if alike := next(self.notes_named(name), []):
                one = self._require_one(alike, name)
                return replace(one, fragment=heading or one.fragment, lines=lines)
        if own_id := _ID.fullmatch(_strip_decoration(written)):
            return self._passage_with_id(own_id[1])
        raise self._unknown(written)

    def find_path(self, written: str) -> FoundNote | None:
        """Return the note at a path, as `find` does; names are not tried."""
        for path, heading, lines in ((written, None, None), *_parse_reference(written)):
            if alike := next(self._at_path(path), None):
                return replace(self._require_one(alike, path), fragment=heading, lines=lines)
        return None

    def find_exact(self, path: str) -> FoundNote:
        """Return the note at an exact path (`path#heading` too).

        Raises UnknownPathError for no note, UsageError for several.
        """
        for exact, fragment in ((path, None), *split_headings(path)):
            if alike := self._notes_at([(reader, exact) for reader in self.readers]):
                return replace(self._require_one(alike, exact), fragment=fragment)
        raise self._unknown(path)

    def _require_one(self, alike: Sequence[FoundNote], name: str) -> FoundNote:
        """Return the only note. Raises UsageError that names several."""
        if len(alike) > 1:
            paths = [each.document.path for each in alike]
            if len(self.readers) > 1:
                paths = [f"{each.document.folder}: {each.document.path}" for each in alike]
            more = " and more" if len(alike) > SUGGESTED_NAMES else ""
            raise UsageError(
                f"{name!r} is the name of several documents: "
                f"{', '.join(map(one_line, paths[:SUGGESTED_NAMES]))}{more}. Give the path of one."
            )
        return alike[0]

    # -------------------------------------------------------------- the notes of a name

    def notes_named(self, name: str) -> Iterator[list[FoundNote]]:
        """Yield groups of notes at a path or with a name, best matches first."""
        yield from self._at_path(name)
        for reader, path in chain.from_iterable(self.resolve_path(name)):
            yield from self._notes_titled(path, [reader])
        yield from self._notes_titled(name, self.readers)

    def _at_path(self, path: str) -> Iterator[list[FoundNote]]:
        """Yield groups of notes at a path inside a folder, or a path that leads into one."""
        places = ([(reader, path) for reader in self.readers], *self.resolve_path(path))
        yield from filter(None, map(self._notes_at, places))

    def resolve_path(self, path: str) -> Iterator[list[tuple[Reader, str]]]:
        """Yield the folders that a path leads into, with the rest of the path, likeliest first.

        The path names a folder (`notes: a.md`), is absolute, or begins above a folder.
        """
        folder, _, rest = path.partition(": ")
        yield [(reader, rest) for reader in self.readers if rest and reader.folder.name == folder]
        if not self._is_local or "\0" in path:
            return
        if not Path(path).is_absolute():
            yield [place for reader in self.readers for place in _relative_to_suffix(path, reader)]
            return
        there = Path(os.path.normpath(path))
        for candidate in dict.fromkeys((there, Path(os.path.realpath(there.parent)) / there.name)):
            inside = [
                (reader, candidate.relative_to(reader.folder.root).as_posix())
                for reader in self.readers
                if candidate.is_relative_to(reader.folder.root)
            ]
            # of a folder within another one, that
            yield sorted(inside, key=lambda place: len(place[1]))[:1]

    def _notes_at(self, places: Iterable[tuple[Reader, str]]) -> list[FoundNote]:
        """Return the visible notes at some paths."""
        found = []
        for reader, path in places:
            folder_snapshot = self.snapshots.get(reader)
            n = folder_snapshot.catalog.document_at(path) if folder_snapshot else None
            if folder_snapshot and n is not None:
                document = folder_snapshot.catalog.documents[n]
                found.append(FoundNote(reader, folder_snapshot.snapshot, n, document))
        return _visible(found)

    def _notes_titled(self, name: str, readers: Sequence[Reader]) -> Iterator[list[FoundNote]]:
        """Yield groups of notes with a name, best matches first."""
        claims = [
            (claim, reader, n)
            for reader in readers
            if reader in self.snapshots and name.strip()
            for n, claim in find_by_reference(name, self.snapshots[reader].catalog).items()
        ]
        claims.sort(key=lambda each: each[0][:3])
        for _, alike in groupby(claims, key=lambda each: each[0][:3]):
            found = []
            for claim, reader, n in alike:
                snapshot = self.snapshots[reader].snapshot
                document = snapshot.catalog.documents[n]
                heading = claim.heading or None
                found.append(FoundNote(reader, snapshot, n, document, heading, kind=claim.kind))
            if found := _visible(found):
                yield found

    # -------------------------------------------------------------- by a digest

    def _passage_with_id(self, digest: str) -> FoundNote:
        """Return the section whose text has a digest, in the newest of several notes."""
        found = [passage for _, passage in self.passages_with_digests({digest})]
        if not found:
            raise UnknownPathError(
                f"No passage has the id {digest} now: its text has changed, or there is none. Ask "
                "`query` again, or give its path."
            )
        return max(
            found, key=lambda each: (day_of(each.document) or date.min, each.document.edited)
        )

    def _at_address(self, address: PassageAddress) -> FoundNote:
        """Return the passage of an address, in its note or another one, else the note."""
        own = [
            (reader, address.path)
            for reader in self.readers
            if reader.folder.name == address.folder
        ]
        found = note = next(iter(self._notes_at(own)), None)
        if address.digest:
            here = _current_passages(note) if note else ()
            passages = chain(here, self.passages_with_digests({address.digest}))
            found = next((each for digest, each in passages if digest == address.digest), note)
        if found is None:
            raise self._unknown(address.path)
        return replace(found, fragment=address.heading or None)

    def passages_with_digests(self, digests: Collection[str]) -> Iterator[tuple[str, FoundNote]]:
        """Yield the digest and passage of each section whose current text has one of the digests.

        The indexes are scanned once.
        """
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
        within = [(each.folder.name, path.strip("/").removeprefix("./")) for each, path in places]
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

    # -------------------------------------------------------------- none

    def _unknown(self, written: str) -> UnknownPathError:
        """Return the error for a text that matches no note, with similar names."""
        if next(NoteLookup(self.readers, is_local=False).documents_in(written), None):
            return UnknownPathError(
                f"{written!r} is a directory: `outline` lists the documents in it."
            )
        file = parse_citation(_strip_decoration(written))[0].partition("#")[0] or written
        if left_out := next(self._skipped_files(file), None):
            return UnknownPathError(
                one_line(f"{left_out.path} is not in the index: {left_out.reason}.")
            )
        return unknown_path_error(written, self._similar_paths(file))

    def _skipped_files(self, name: str) -> Iterator[Problem]:
        """Yield the problems of files of this name that were not indexed, private ones left out."""
        end = f"/{one_line(name)}".casefold()
        for reader, snapshot in self.snapshots.items():
            for problem in reader.store.problems():
                path = f"/{problem.path}".casefold()
                is_meant = path.endswith(end) or path.rpartition(".")[0].endswith(end)
                if not is_meant or snapshot.catalog.document_at(problem.path) is not None:
                    continue
                folder = reader.folder
                if reader.is_published or not is_private(
                    folder.root, problem.path, folder.config.corpus
                ):
                    yield problem

    def _similar_paths(self, path: str) -> list[str]:
        """Return the paths with the most similar file names."""
        by_stem: dict[str, list[Document]] = defaultdict(list)
        for document in all_documents(self.readers):
            by_stem[_stem(document.path)].append(document)
        close = get_close_matches(_stem(path), by_stem, n=_MOST_SIMILAR)
        near = filter_visible((each for stem in close for each in by_stem[stem]), self.readers)
        return list(islice(dict.fromkeys(each.path for each in near), SUGGESTED_NAMES))


def unknown_path_error(written: str, nearest: Sequence[str] = ()) -> UnknownPathError:
    """Return the error for a note that is not in the index, or hidden."""
    hint = (
        f"Nearest: {', '.join(map(one_line, nearest))}."
        if nearest
        else "`outline` without a path lists all documents."
    )
    return UnknownPathError(f"No document {written!r} in the index. {hint}")


# ------------------------------------------------------------------ what is typed


def _parse_reference(written: str) -> Iterator[tuple[str, str | None, tuple[int, int] | None]]:
    """Yield the ways to split a text into name, heading and lines, likeliest first."""
    for text in dict.fromkeys((written, _strip_decoration(written))):
        cited, lines = parse_citation(text)
        yield cited, None, lines
        for file, heading in split_headings(cited):
            yield file, heading, lines
        parts = cited.split(HEADING_SEPARATOR)
        for count in range(min(len(parts) - 1, _MOST_NAME_MARKS), 0, -1):
            file, _, heading = HEADING_SEPARATOR.join(parts[:count]).partition("#")
            yield file, HEADING_SEPARATOR.join(filter(None, (heading, *parts[count:]))), lines


def split_headings(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the parts before and after each `#`, last one first: names may contain one."""
    marks = [at for at, letter in enumerate(text) if letter == "#"]
    for at in dict.fromkeys((*reversed(marks[-_MOST_NAME_MARKS:]), *marks[:1])):
        yield text[:at], text[at + 1 :] or None


def _strip_decoration(written: str) -> str:
    """Return a text without quotes and without the decoration of paths in answers."""
    found = _DECORATED.fullmatch(written.strip())
    return (found[1] if found else written).strip(f"{_QUOTES} \t\n")


def _relative_to_suffix(path: str, reader: Reader) -> Iterator[tuple[Reader, str]]:
    """Yield the rest of a path that begins with the last parts of a folder's path."""
    written, root = path.replace("\\", "/"), f"/{reader.folder.root.as_posix()}".casefold()
    for at in (n for n, letter in enumerate(written) if letter == "/"):
        if at and root.endswith(f"/{written[:at]}".casefold()):
            yield reader, written[at + 1 :]


def _stem(path: str) -> str:
    file = path.rpartition("/")[2].casefold()
    return file.rpartition(".")[0] or file


# ------------------------------------------------------------------ notes as they are now


def _visible(found: Sequence[FoundNote]) -> list[FoundNote]:
    """Return the first few visible notes."""
    readers = list(dict.fromkeys(each.reader for each in found))
    documents = islice(filter_visible((each.document for each in found), readers), MOST_NAMESAKES)
    open_ones = {(document.folder, document.path) for document in documents}
    return [each for each in found if (each.document.folder, each.document.path) in open_ones]


def read_sections(found: FoundNote) -> tuple[Section, ...]:
    """Return the current sections of a note; none if it cannot be read or is hidden."""
    if database := found.reader.database:
        return database.store(found.document.folder).sections_at(found.document.path)
    folder, path = found.reader.folder, found.document.path
    data = read_visible(folder, path, found.reader.store)
    if data is None or isinstance(data, Problem):
        return ()
    return parse_document(path, data, folder.config.corpus).sections


def _current_passages(note: FoundNote) -> Iterator[tuple[str, FoundNote]]:
    """Yield the digest and passage of each current section of a note."""
    for section in read_sections(note):
        yield text_digest(section.text), replace(note, lines=(section.start_line, section.end_line))


# ------------------------------------------------------------------ one heading

Headings = Sequence[tuple[int, str, int]]
"""Level, text and line of each heading of a note, in order."""


def matching_headings(written: str, chains: Sequence[Sequence[str]]) -> list[int]:
    """Return the indexes of the headings that a text matches. A chain ends with its heading.

    It may be written below others, as in `Above > Heading`, behind the note's title, and as an
    anchor writes it, without its signs (`set-up`).
    """
    wanted = one_line(written).lstrip("#").strip()
    for form in (str.casefold, name_key):
        folded = [[form(one_line(name)) for name in chain] for chain in chains]
        for parts in (
            [wanted],
            *(wanted.split(mark) for mark in (HEADING_SEPARATOR, "#") if mark in wanted),
        ):
            *higher, own = (form(part.strip()) for part in parts)
            meant = [
                n
                for n, (*above, name) in enumerate(folded)
                if own
                and name == own
                and (_is_subsequence(higher, above) or _is_subsequence(higher[1:], above))
            ]
            if meant:
                return meant
    return []


def _is_subsequence(some: Sequence[str], every: Sequence[str]) -> bool:
    """Return whether `some` is a subsequence of `every`."""
    rest = iter(every)
    return all(each in rest for each in some)


def _heading_paths(headings: Headings) -> list[list[str]]:
    """Return the chain of each heading: its ancestors, then itself."""
    found, open_ones = list[list[str]](), list[tuple[int, str]]()
    for level, name, _ in headings:
        open_ones = [*(open_one for open_one in open_ones if open_one[0] < level), (level, name)]
        found.append([name for _, name in open_ones])
    return found


def heading_ranges(written: str, headings: Headings, total: int) -> list[tuple[int, int]]:
    """Return the line range of each matching heading, up to the next heading of its level."""
    found = []
    for n in matching_headings(written, _heading_paths(headings)):
        level, _, line = headings[n]
        following = (other for depth, _, other in headings[n + 1 :] if depth <= level)
        found.append((line, next(following, total + 1) - 1))
    return found


def unknown_heading_error(path: str, written: str, headings: Iterable[str]) -> UsageError:
    """Return the error for a text that matches no heading, with similar ones."""
    names = list(dict.fromkeys(headings))
    near = get_close_matches(written, names, n=3, cutoff=0.4) or names[:3]
    hint = f" Nearest: {', '.join(map(one_line, near))}." if near else ""
    return UsageError(f"{path} has no heading {written!r}.{hint}")


# ------------------------------------------------------------------ names typed so far


def complete_names(typed: str, documents: Iterable[Document]) -> list[Document]:
    """Return the documents that complete a typed name: exact names first, then names that begin
    with it, then names with a word that does.
    """
    wanted = _fold_name(typed)

    def distance(document: Document) -> int:
        called = [_fold_name(each) for each in (document.path, *names_of(document))]
        if wanted in called:
            return 0
        if any(each.startswith(wanted) for each in called):
            return 1
        return 2 if any(f" {wanted}" in each for each in called) else 3

    near = [(at, document) for document in documents if (at := distance(document)) < 3]
    near.sort(key=lambda pair: (pair[0], pair[1].path.count("/"), pair[1].folder, pair[1].path))
    return [document for _, document in near]


@lru_cache(maxsize=50_000)
def _fold_name(name: str) -> str:
    """Fold a name and separate its words. Cached: completion compares all names per keystroke."""
    return re.sub(r"[-_/\s]+", " ", fold_line(name)).strip()
