"""Which note is meant by what is typed: a path, a name, a citation, an address or an id.

Every command, tool and screen asks here, so that the same words mean the same note everywhere.
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
from thumbindex.library.reader import OpenedIndex, Reader
from thumbindex.library.visibility import (
    SUGGESTED_NAMES,
    all_documents,
    filter_visible,
    read_visible,
)
from thumbindex.model import Document, DocumentId, NameKind, Problem, Section, day_of
from thumbindex.ports import Snapshot
from thumbindex.query.match_names import documents_named
from thumbindex.text import (
    PassageAddress,
    fold_line,
    name_key,
    one_line,
    parse_address,
    parse_citation,
    text_digest,
)

BELOW = " > "
"""What answers write between a heading and the one below it."""

NAMESAKES = 5
"""Maximum notes of one name."""

_PARTS = 3
"""Marks before a heading that may be part of a note's name instead."""

_LOOKED_AT = 50
"""Names that come near, of which the first ones are told that may be shown."""

_QUOTES = "`\"'<>“”"

_ADORNED = re.compile(r"(?:#{1,6}[ \t]+)?(?:\d{1,4}\.[ \t]+)?(.*?)(?:[ \t]\(\d\.\d\d\))?", re.S)
"""What answers write around a path: a heading's mark, a rank, and behind it a similarity."""

_ID = re.compile(r"(?:id )?([0-9a-f]{8})(?::\d{1,9}-\d{1,9}~?)?")
"""A passage's id, as answers write it: the digest of its text, and the lines that were shown."""


@dataclass(frozen=True, slots=True)
class Found:
    """A note in the snapshot in which it was found, and how it was meant."""

    reader: Reader
    snapshot: Snapshot
    id: DocumentId
    document: Document
    fragment: str | None = None  # the heading that was asked for
    lines: tuple[int, int] | None = None  # that it was cited with
    kind: NameKind = NameKind.PATH


class Notes:
    """The notes of some folders, in the snapshots of one moment, by what is typed for them.

    Absolute paths count for a caller who `is_near`: on this machine. A note that may not be shown
    now is never found.
    """

    def __init__(self, readers: Sequence[Reader], is_near: bool = True) -> None:
        self.readers, self._is_near = readers, is_near

    @cached_property
    def opened(self) -> Mapping[Reader, OpenedIndex]:
        """The index of each folder that has one."""
        return {each: each.opened() for each in self.readers if each.indexed}

    # -------------------------------------------------------------- one note

    def find(self, written: str) -> Found:
        """Return the note that is meant by a path or a name, as answers write it or as one types
        it.

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
        for name, heading, lines in _readings(written):
            if alike := next(self.called(name), []):
                one = self._only(alike, name)
                return replace(one, fragment=heading or one.fragment, lines=lines)
        if own_id := _ID.fullmatch(_unadorned(written)):
            return self._with_id(own_id[1])
        raise self._unknown(written)

    def find_path(self, written: str) -> Found | None:
        """Return the note whose path is written, as `find` does; no name counts."""
        for path, heading, lines in ((written, None, None), *_readings(written)):
            if alike := next(self._at_path(path), None):
                return replace(self._only(alike, path), fragment=heading, lines=lines)
        return None

    def find_exact(self, path: str) -> Found:
        """Return the note at a path (`path#heading` too) that has to be exact.

        Raises UnknownPathError for no note, UsageError for several.
        """
        for exact, fragment in ((path, None), *split_headings(path)):
            if alike := self._at([(each, exact) for each in self.readers]):
                return replace(self._only(alike, exact), fragment=fragment)
        raise self._unknown(path)

    def _only(self, alike: Sequence[Found], name: str) -> Found:
        """Return the one note that is meant. Raises UsageError for several, and names them."""
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

    def called(self, name: str) -> Iterator[list[Found]]:
        """Yield the notes at a path or with a name, the best first, those together that bear it
        equally well.
        """
        yield from self._at_path(name)
        for reader, path in chain.from_iterable(self.places(name)):
            yield from self._bearing(path, [reader])
        yield from self._bearing(name, self.readers)

    def _at_path(self, path: str) -> Iterator[list[Found]]:
        """Yield the notes at a path of a folder, or one that leads into folders."""
        places = ([(each, path) for each in self.readers], *self.places(path))
        yield from filter(None, map(self._at, places))

    def places(self, path: str) -> Iterator[list[tuple[Reader, str]]]:
        """Yield the folders that a path leads into, each with the rest of the path, the likeliest
        first: one that names a folder (`notes: a.md`), is absolute, or begins above a folder as a
        terminal shows it.
        """
        folder, _, rest = path.partition(": ")
        yield [(each, rest) for each in self.readers if rest and each.folder.name == folder]
        if not self._is_near or "\0" in path:
            return
        if not Path(path).is_absolute():
            yield [place for each in self.readers for place in _below_its_end(path, each)]
            return
        there = Path(os.path.normpath(path))
        for each in dict.fromkeys((there, Path(os.path.realpath(there.parent)) / there.name)):
            inside = [
                (reader, each.relative_to(reader.folder.root).as_posix())
                for reader in self.readers
                if each.is_relative_to(reader.folder.root)
            ]
            # of a folder within another one, that
            yield sorted(inside, key=lambda place: len(place[1]))[:1]

    def _at(self, places: Iterable[tuple[Reader, str]]) -> list[Found]:
        """Return the notes at some paths."""
        found = []
        for reader, path in places:
            opened = self.opened.get(reader)
            n = opened.catalog.at(path) if opened else None
            if opened and n is not None:
                found.append(Found(reader, opened.snapshot, n, opened.catalog.documents[n]))
        return _shown_now(found)

    def _bearing(self, name: str, readers: Sequence[Reader]) -> Iterator[list[Found]]:
        """Yield the notes that bear a name, those together that bear it equally well."""
        claims = [
            (claim, reader, n)
            for reader in readers
            if reader in self.opened and name.strip()
            for n, claim in documents_named(name, self.opened[reader].catalog).items()
        ]
        claims.sort(key=lambda each: each[0][:3])
        for _, alike in groupby(claims, key=lambda each: each[0][:3]):
            found = []
            for claim, reader, n in alike:
                snapshot = self.opened[reader].snapshot
                document = snapshot.catalog.documents[n]
                heading = claim.heading or None
                found.append(Found(reader, snapshot, n, document, heading, kind=claim.kind))
            if found := _shown_now(found):
                yield found

    # -------------------------------------------------------------- by a digest

    def _with_id(self, digest: str) -> Found:
        """Return the section whose text has a digest; of several notes the newest, as answers
        do.
        """
        found = [passage for _, passage in self.with_digests({digest})]
        if not found:
            raise UnknownPathError(
                f"No passage has the id {digest} now: its text has changed, or there is none. Ask "
                "`query` again, or give its path."
            )
        return max(
            found, key=lambda each: (day_of(each.document) or date.min, each.document.edited)
        )

    def _at_address(self, address: PassageAddress) -> Found:
        """Return what an address names: its passage where that stands now, in its note or another
        one, else its note.
        """
        own = [(each, address.path) for each in self.readers if each.folder.name == address.folder]
        found = note = next(iter(self._at(own)), None)
        if address.digest:
            here = _passages_now(note) if note else ()
            passages = chain(here, self.with_digests({address.digest}))
            found = next((each for digest, each in passages if digest == address.digest), note)
        if found is None:
            raise self._unknown(address.path)
        return replace(found, fragment=address.heading or None)

    def with_digests(self, digests: Collection[str]) -> Iterator[tuple[str, Found]]:
        """Yield the passages whose texts have some digests, and that still have them, each with its
        digest: every section of the indexes is looked at once.
        """
        for reader in self.opened:
            for path in sorted(reader.store.paths_with_digests(digests)):
                for note in self._at([(reader, path)]):
                    yield from (each for each in _passages_now(note) if each[0] in digests)

    # -------------------------------------------------------------- several notes

    def documents_in(self, directory: str) -> Iterator[Document]:
        """Yield the documents in a directory, and below it, that may be shown now."""
        places = [(each, directory) for each in self.readers]
        places += chain.from_iterable(self.places(directory))
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
        """Return the error for a text that means no note, with the nearest names."""
        if next(Notes(self.readers, is_near=False).documents_in(written), None):
            return UnknownPathError(
                f"{written!r} is a directory: `outline` lists the documents in it."
            )
        file = parse_citation(_unadorned(written))[0].partition("#")[0] or written
        if left_out := next(self._left_out(file), None):
            return UnknownPathError(
                one_line(f"{left_out.path} is not in the index: {left_out.reason}.")
            )
        return not_in_index(written, self._nearest(file))

    def _left_out(self, name: str) -> Iterator[Problem]:
        """Yield what was reported about files of a name that are no documents, and not private: too
        large, or not to be read.
        """
        end = f"/{one_line(name)}".casefold()
        for reader, opened in self.opened.items():
            for each in reader.store.problems():
                path = f"/{each.path}".casefold()
                is_meant = path.endswith(end) or path.rpartition(".")[0].endswith(end)
                if not is_meant or opened.catalog.at(each.path) is not None:
                    continue
                folder = reader.folder
                if reader.is_published or not is_private(
                    folder.root, each.path, folder.config.corpus
                ):
                    yield each

    def _nearest(self, path: str) -> list[str]:
        """Return the first paths whose file names look most like that of a path."""
        by_stem: dict[str, list[Document]] = defaultdict(list)
        for each in all_documents(self.readers):
            by_stem[_stem(each.path)].append(each)
        close = get_close_matches(_stem(path), by_stem, n=_LOOKED_AT)
        near = filter_visible((each for stem in close for each in by_stem[stem]), self.readers)
        return list(islice(dict.fromkeys(each.path for each in near), SUGGESTED_NAMES))


def not_in_index(written: str, nearest: Sequence[str] = ()) -> UnknownPathError:
    """Return the error for a note that is not in the index, or may not be shown."""
    hint = (
        f"Nearest: {', '.join(map(one_line, nearest))}."
        if nearest
        else "`outline` without a path lists all documents."
    )
    return UnknownPathError(f"No document {written!r} in the index. {hint}")


# ------------------------------------------------------------------ what is typed


def _readings(written: str) -> Iterator[tuple[str, str | None, tuple[int, int] | None]]:
    """Yield the name, heading and lines that a text may be made of, the likeliest first."""
    for text in dict.fromkeys((written, _unadorned(written))):
        cited, lines = parse_citation(text)
        yield cited, None, lines
        for file, heading in split_headings(cited):
            yield file, heading, lines
        parts = cited.split(BELOW)
        for count in range(min(len(parts) - 1, _PARTS), 0, -1):
            file, _, heading = BELOW.join(parts[:count]).partition("#")
            yield file, BELOW.join(filter(None, (heading, *parts[count:]))), lines


def split_headings(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield what stands before and behind each `#`, from the last one: names may have one, too."""
    marks = [at for at, letter in enumerate(text) if letter == "#"]
    for at in dict.fromkeys((*reversed(marks[-_PARTS:]), *marks[:1])):
        yield text[:at], text[at + 1 :] or None


def _unadorned(written: str) -> str:
    """Return a text without what answers write around a path, and without quotes."""
    found = _ADORNED.fullmatch(written.strip())
    return (found[1] if found else written).strip(f"{_QUOTES} \t\n")


def _below_its_end(path: str, reader: Reader) -> Iterator[tuple[Reader, str]]:
    """Yield the rest of a path that begins with the end of a folder's own."""
    written, root = path.replace("\\", "/"), f"/{reader.folder.root.as_posix()}".casefold()
    for at in (n for n, letter in enumerate(written) if letter == "/"):
        if at and root.endswith(f"/{written[:at]}".casefold()):
            yield reader, written[at + 1 :]


def _stem(path: str) -> str:
    file = path.rpartition("/")[2].casefold()
    return file.rpartition(".")[0] or file


# ------------------------------------------------------------------ notes as they are now


def _shown_now(found: Sequence[Found]) -> list[Found]:
    """Return the first few of some notes that may be shown now."""
    readers = list(dict.fromkeys(each.reader for each in found))
    documents = islice(filter_visible((each.document for each in found), readers), NAMESAKES)
    open_ones = {(each.folder, each.path) for each in documents}
    return [each for each in found if (each.document.folder, each.document.path) in open_ones]


def sections_now(found: Found) -> tuple[Section, ...]:
    """Return a note's sections as it is on disk now; none of one that cannot be read, or may not
    be.
    """
    if database := found.reader.database:
        return database.store(found.document.folder).sections_at(found.document.path)
    folder, path = found.reader.folder, found.document.path
    data = read_visible(folder, path, found.reader.store)
    if data is None or isinstance(data, Problem):
        return ()
    return parse_document(path, data, folder.config.corpus).sections


def _passages_now(note: Found) -> Iterator[tuple[str, Found]]:
    """Yield the passages of a note as it is on disk now, each with the digest of its text."""
    for each in sections_now(note):
        yield text_digest(each.text), replace(note, lines=(each.start_line, each.end_line))


# ------------------------------------------------------------------ one heading

Headings = Sequence[tuple[int, str, int]]
"""Level, text and line of each heading of a note, in order."""


def meant_headings(written: str, chains: Sequence[Sequence[str]]) -> list[int]:
    """Return which of some headings a text means, each of them given behind those above it.

    It may be written below others, as in `Above > Heading`, behind the note's title, and as an
    anchor writes it, without its signs (`set-up`).
    """
    wanted = one_line(written).lstrip("#").strip()
    for form in (str.casefold, name_key):
        folded = [[form(one_line(name)) for name in chain] for chain in chains]
        for parts in ([wanted], *(wanted.split(mark) for mark in (BELOW, "#") if mark in wanted)):
            *higher, own = (form(part.strip()) for part in parts)
            meant = [
                n
                for n, (*above, name) in enumerate(folded)
                if own
                and name == own
                and (_in_order(higher, above) or _in_order(higher[1:], above))
            ]
            if meant:
                return meant
    return []


def _in_order(some: Sequence[str], every: Sequence[str]) -> bool:
    """Tell whether some names are among all of them, in this order."""
    rest = iter(every)
    return all(each in rest for each in some)


def _chains_of(headings: Headings) -> list[list[str]]:
    """Return each heading behind those above it, the highest first."""
    found, open_ones = list[list[str]](), list[tuple[int, str]]()
    for level, name, _ in headings:
        open_ones = [*(each for each in open_ones if each[0] < level), (level, name)]
        found.append([name for _, name in open_ones])
    return found


def lines_under(written: str, headings: Headings, total: int) -> list[tuple[int, int]]:
    """Return the lines under each heading that a text means: to the next one that is not below
    it.
    """
    found = []
    for n in meant_headings(written, _chains_of(headings)):
        level, _, line = headings[n]
        following = (other for depth, _, other in headings[n + 1 :] if depth <= level)
        found.append((line, next(following, total + 1) - 1))
    return found


def no_heading(path: str, written: str, headings: Iterable[str]) -> UsageError:
    """Return the error for a text that means no heading of a note, with the nearest ones."""
    names = list(dict.fromkeys(headings))
    near = get_close_matches(written, names, n=3, cutoff=0.4) or names[:3]
    hint = f" Nearest: {', '.join(map(one_line, near))}." if near else ""
    return UsageError(f"{path} has no heading {written!r}.{hint}")


# ------------------------------------------------------------------ names typed so far


def begun_by(typed: str, documents: Iterable[Document]) -> list[Document]:
    """Return the documents with a name that is typed so far, then those with one that begins so,
    then those in whose names a word does.
    """
    wanted = _in_words(typed)

    def distance(document: Document) -> int:
        called = [_in_words(each) for each in (document.path, *names_of(document))]
        if wanted in called:
            return 0
        if any(each.startswith(wanted) for each in called):
            return 1
        return 2 if any(f" {wanted}" in each for each in called) else 3

    near = [(at, each) for each in documents if (at := distance(each)) < 3]
    near.sort(key=lambda pair: (pair[0], pair[1].path.count("/"), pair[1].folder, pair[1].path))
    return [document for _, document in near]


@lru_cache(maxsize=50_000)
def _in_words(name: str) -> str:
    """Fold a name, its words apart: all names are compared at each letter that is typed."""
    return re.sub(r"[-_/\s]+", " ", fold_line(name)).strip()
