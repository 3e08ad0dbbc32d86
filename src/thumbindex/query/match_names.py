"""Stage match_names: if the whole query is a note's path, file name, title, alias or link, or a
heading of few notes, put these notes first.

If a query holds a day or a month and names no note, the notes called by that date come first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple
from urllib.parse import unquote

from thumbindex.dates import month_spellings, single_day, single_month, without_dates
from thumbindex.model import Candidate, ChunkId, Document, DocumentId, NameKind, TypedFilter
from thumbindex.ports import Catalog, Selection
from thumbindex.query.retrieve import KEYWORD_FIELDS, chunk_ids_of
from thumbindex.query.stage import ReferenceMatch, Search, Tools
from thumbindex.query.understand import stop_weights
from thumbindex.text import fold_line, name_key, words

_MAX_NOTES = 3
"""Maximum notes of one heading or date: a more common one is ambiguous."""

_DATE_MARGIN = 2
"""Maximum words of the query by which another note may beat the note of the day."""

_PREFIX_DISTANCE = 2
"""Distance of a name that only begins with the query."""

_MAX_WORDS_CHECKED = 12
"""Maximum words of a query that are looked up."""

_MAX_HEADING_CHUNKS = 2_000
"""Maximum chunks under headings with the query's words; more mean that the words are common."""

_MAX_SYMBOLS = 6
"""Maximum symbols that may be omitted from a short name."""

_MIN_OPEN_NAME = 3
"""Minimum letters before a final `#`: in a shorter name it is a part of it (C#)."""

_MAX_SAME_NAME = 2_000
"""Maximum notes of one file name, as `index.md`, that are compared."""

_WIKILINK = re.compile(r"!?\[\[([^\[\]]+)\]\]")
_LINK = re.compile(r"!?\[[^\[\]]*\]\(([^\n]*)\)")
_LINK_TITLE = re.compile(r"""\s(?:"[^"]*"|'[^']*')$""")
_FILE = re.compile(r"[^\W_]\.[A-Za-z]\w+$")
_LEADING_DOTS = re.compile(r"^(?:\.{0,2}/)+")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[\W_]+(?=\d)")
_SYMBOLS = re.compile(r"(?<=[^\W_])[+#]+(?!\w)")
_LANGUAGE = re.compile(r"(?<!\w)\w#$")  # C#
_HEADING_LINE = re.compile(r"^[ \t>]*#{1,6}[ \t]+(\S.*)$", re.M)
_PRIORITY = {
    NameKind.PATH: 0,
    NameKind.FILE: 1,
    NameKind.TITLE: 2,
    NameKind.ALIAS: 2,
    NameKind.HEADING: 3,
}


class _NameReference(NamedTuple):
    """A note's name or path in a query, and a heading in it; either may be empty."""

    name: str
    heading: str = ""


def match_names(search: Search, tools: Tools) -> Search:
    """Put the notes that the query names first, by their best chunk or their beginning.

    A note of the day or month in the query comes first, too, but its confidence is weighed.
    """
    named = {**_find_by_heading(search, tools), **search.reference_matches}
    matches = named or _unambiguous(search.date_matches)
    if not matches or (not named and not _asks_about_date(search, tools)):
        return search
    best: dict[DocumentId, Candidate] = {}
    for candidate in search.candidates:
        best.setdefault(candidate.document, candidate)
    ordered = sorted(
        matches,
        key=lambda n: (matches[n][:3] if named else (), -best[n].score if n in best else 0.0, n),
    )
    shown = {
        chunk: matches[n].kind if named else None
        for n in ordered
        if (chunk := _shown_chunk(n, matches[n], best.get(n), search, tools)) is not None
    }
    shown = dict(list(shown.items())[: max(tools.settings.fuse.limit, 3 * search.query.limit)])
    by_id = {each.id: each for each in search.candidates}
    chunks = tools.snapshot.catalog.chunks([n for n in shown if n not in by_id])
    of = tools.snapshot.catalog.document_of
    by_id |= {n: Candidate(n, of(n), chunk, 1.0) for n, chunk in chunks.items()}
    first = [
        replace(by_id[n], score=1.0, name_kind=kind) for n, kind in shown.items() if n in by_id
    ]
    return replace(
        search, candidates=(*first, *(each for each in search.candidates if each.id not in shown))
    )


def _unambiguous(dated: Mapping[DocumentId, ReferenceMatch]) -> Mapping[DocumentId, ReferenceMatch]:
    """Return the notes of a date, else those with exactly its name, else none if they are many."""
    levels = (
        dated,
        {n: match for n, match in dated.items() if match.distance < _PREFIX_DISTANCE},
    )
    return next((group for group in levels if len(group) <= _MAX_NOTES), {})


def _asks_about_date(search: Search, tools: Tools) -> bool:
    """Return whether a query asks about its day or month, as no other note holds clearly more of
    its other words.
    """
    keyword = tools.snapshot.keyword
    stops = stop_weights(search.text, keyword.languages)
    other_words = dict.fromkeys(words(without_dates(fold_line(search.text))))
    asked = [word for word in other_words if stops.get(word, 1.0)]
    holding = [
        keyword.chunks_with_all_words(word, KEYWORD_FIELDS) for word in asked[:_MAX_WORDS_CHECKED]
    ]

    def held(document: DocumentId) -> int:
        chunks = chunk_ids_of(document, tools)
        return sum(bool(each.among(chunks).any()) for each in holding if each)

    others = dict.fromkeys(
        candidate.document
        for candidate in search.candidates
        if candidate.document not in search.date_matches
    )
    held_by_others = max(map(held, islice(others, _MAX_NOTES)), default=0)
    return held_by_others <= _DATE_MARGIN + max(map(held, search.date_matches), default=0)


def split_name_matches(
    candidates: Sequence[Candidate],
) -> tuple[tuple[Candidate, ...], tuple[Candidate, ...]]:
    """Split candidates into the name matches, which come first, and the others."""
    count = next(
        (at for at, each in enumerate(candidates) if each.name_kind is None), len(candidates)
    )
    return tuple(candidates[:count]), tuple(candidates[count:])


def _shown_chunk(
    document: DocumentId,
    match: ReferenceMatch,
    best: Candidate | None,
    search: Search,
    tools: Tools,
) -> ChunkId | None:
    """Return the chunk that represents a note; None if the filters exclude all."""
    if match.chunk is not None:
        return match.chunk
    catalog = tools.snapshot.catalog
    ids = search.keep_searchable(chunk_ids_of(document, tools))
    if match.heading:
        under = (
            n
            for n, chunk in catalog.chunks(ids).items()
            if any(
                name_distance(match.heading, each) is not None for each in chunk.heading_path[1:]
            )
        )
        if (found := next(under, None)) is not None:
            return found
    return best.id if best else next(iter(ids), None)


# ------------------------------------------------------------------ which notes


def find_by_name(name: str, catalog: Catalog) -> dict[DocumentId, ReferenceMatch]:
    """Return the documents with a name or path, by their best match."""
    parts = [part for part in _LEADING_DOTS.sub("", name.replace("\\", "/")).split("/") if part]
    last = parts[-1] if parts else ""
    forms = {name, last, last.rpartition(".")[0] or last}
    letters = {form: name_key(form) for form in forms}
    found = sorted(
        {
            n
            for form, key in letters.items()
            for n in catalog.documents_named(key, len(form) + len(key) // 3 + _MAX_SYMBOLS)
        }
    )
    if len(found) > _MAX_SAME_NAME:
        whole = "/".join(parts).casefold()
        found = [
            n for n in found if catalog.documents[n].path.casefold().startswith(whole)
        ] + found[:_MAX_SAME_NAME]
    matches = (
        (n, min(_name_matches(catalog.documents[n], name, parts), default=None)) for n in found
    )
    return {n: match for n, match in matches if match}


def _stem(file: str) -> str:
    return file.rpartition(".")[0] or file


def _name_matches(document: Document, name: str, parts: Sequence[str]) -> Iterator[ReferenceMatch]:
    path = document.path.split("/")
    own = (*document.folder.split("/"), *path)
    files = own[-1], _stem(own[-1])
    if 0 < len(parts) <= len(own) and (len(parts) > 1 or len(path) == 1):
        above = [
            name_distance(typed, part)
            for typed, part in zip(parts[:-1], own[-len(parts) : -1], strict=True)
        ]
        for last in (name_distance(parts[-1], file) for file in files):
            if last is not None and None not in above:
                yield ReferenceMatch(
                    max((last, *(each or 0 for each in above))),
                    0,
                    max(0, len(path) - len(parts)),
                    NameKind.PATH,
                )
    called = [(NameKind.FILE, file) for file in files if len(parts) == 1]
    called += [
        (NameKind.TITLE, document.title),
        *((NameKind.ALIAS, alias) for alias in document.aliases),
    ]
    for kind, each in called:
        if (same := name_distance(parts[0] if kind is NameKind.FILE else name, each)) is not None:
            yield ReferenceMatch(same, _PRIORITY[kind], 0, kind)


def name_distance(typed: str, name: str) -> int | None:
    """Return 0 if a text equals a name but for case, 1 but for accents and punctuation, else None.

    Names that differ between digits (1.11, 1.1.1) or in symbols (C, C++, C#) are different.
    """
    if _fold_case(typed) == _fold_case(name):
        return 0
    key = name_key(typed)
    if not key or key != name_key(name) or _SYMBOLS.findall(typed) != _SYMBOLS.findall(name):
        return None
    mine, yours = (" ".join(map(name_key, _BETWEEN_DIGITS.split(each))) for each in (typed, name))
    return 1 if mine == yours or " " not in mine or " " not in yours else None


def _fold_case(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().replace("\ufe0f", "").split())


def _parse_references(text: str) -> tuple[_NameReference, ...]:
    """Return the references that a query may be: a link with or without a heading, or a name."""
    text = text.strip()
    wikilink, link = _WIKILINK.fullmatch(text), _LINK.fullmatch(text)
    if wikilink is not None:
        text = wikilink[1].replace("\\|", "|").partition("|")[0].strip()
    elif link is not None:
        text = unquote(_LINK_TITLE.sub("", link[1].strip()).strip().strip("<>").strip())
    name, _, heading = (part.strip() for part in text.partition("#"))
    is_open = (
        name
        and not heading
        and text.endswith("#")
        and len(name) >= _MIN_OPEN_NAME
        and not _LANGUAGE.search(text)
    )
    # "C# basics" is no heading of C
    with_heading = is_open or (heading and (wikilink or link or _FILE.search(name)))
    if with_heading:
        return (_NameReference(text), _NameReference(name, heading.rpartition("#")[2].strip()))
    return (_NameReference(text),)


def find_by_reference(text: str, catalog: Catalog) -> dict[DocumentId, ReferenceMatch]:
    """Return the documents whose path, file name, title, alias or link is the whole text."""
    found: dict[DocumentId, ReferenceMatch] = {}
    for name, heading in _parse_references(text):
        for document, match in find_by_name(name, catalog).items():
            found[document] = min(
                match._replace(heading=heading),
                found.get(document, match._replace(heading=heading)),
            )
    return found


def find_by_date(text: str, catalog: Catalog) -> dict[DocumentId, ReferenceMatch]:
    """Return the documents named by the only day or month in a text, as `2026-01-31` or
    `2026 January`; for a day also file names that begin with it.
    """
    folded = fold_line(text)
    if (day := single_day(folded)) is not None:
        iso = day[0].isoformat()
        matches = _find_by_names(
            [iso, *(iso.replace("-", sign) for sign in ("_", ".", "")), day[1]], catalog
        )
        for n in {
            catalog.document_of(n)
            for n in catalog.every_nth(1, catalog.chunks_matching(TypedFilter("file", f"{iso}*")))
        }:
            if not catalog.documents[n].path.rpartition("/")[2][len(iso) :][:1].isdigit():
                matches.setdefault(
                    n, ReferenceMatch(_PREFIX_DISTANCE, _PRIORITY[NameKind.FILE], 0, NameKind.FILE)
                )
        return matches
    month = single_month(folded)
    return _find_by_names(month_spellings(*month), catalog) if month else {}


def _find_by_names(names: Iterable[str], catalog: Catalog) -> dict[DocumentId, ReferenceMatch]:
    return {
        n: match
        for name in dict.fromkeys(names)
        for n, match in find_by_name(name, catalog).items()
    }


# ------------------------------------------------------------------ which headings


def _find_by_heading(search: Search, tools: Tools) -> dict[DocumentId, ReferenceMatch]:
    """Return the notes with the query as a heading, if they are few, by the first chunk under it.

    If none has it, look for a heading in code examples (`# Login`) of the candidates.
    """
    catalog = tools.snapshot.catalog
    asked = [
        reference.heading if not reference.name else reference.name
        for reference in _parse_references(search.query.text)
        if not (reference.name and reference.heading)
    ]
    under: dict[int, dict[DocumentId, list[ChunkId]]] = {0: {}, 1: {}}
    for text in asked:
        chunks = catalog.chunks(_chunks_under_heading(text, search.searchable, tools))
        headed = {n: chunk.heading_path[1:] for n, chunk in chunks.items()}
        every = {heading for above in headed.values() for heading in above}
        meant = {
            heading: how for heading in every if (how := name_distance(text, heading)) is not None
        }
        for n, above in headed.items():
            if levels := [meant[each] for each in above if each in meant]:
                under[min(levels)].setdefault(catalog.document_of(n), []).append(n)
    if not (under[0] or under[1]):
        letters = set(map(name_key, asked))
        for candidate in search.candidates:
            body = candidate.chunk.text
            lines = _HEADING_LINE.findall(body) if "# " in body or "#\t" in body else ()
            if any(
                name_key(line) in letters
                and any(name_distance(text, line) is not None for text in asked)
                for line in lines
            ):
                under[1].setdefault(candidate.document, []).append(candidate.id)
    found = under[0] or under[1]
    if len(found) > _MAX_NOTES:
        return {}
    same = 0 if under[0] else 1
    return {
        document: ReferenceMatch(
            same, _PRIORITY[NameKind.HEADING], 0, NameKind.HEADING, chunk=ids[0]
        )
        for document, ids in found.items()
    }


def _chunks_under_heading(text: str, within: Selection | None, tools: Tools) -> Sequence[ChunkId]:
    """Return the searchable chunks under headings with all words of a text that headings hold;
    none if they are many.
    """
    held: Selection | None = None
    found = set(words(text))
    asked = {word for word in found if len(word) > 1} or found  # "team s" is "team's"
    # long ones are rare: mostly the first two leave nothing
    for word in sorted(asked, key=lambda each: (-len(each), each)):
        if holding := tools.snapshot.keyword.chunks_with_all_words(word, ("headings",)):
            before = within if held is None else held
            held = holding if before is None else before & holding
            if not held:
                return []
    return (
        held.first(_MAX_HEADING_CHUNKS)
        if held is not None and len(held) <= _MAX_HEADING_CHUNKS
        else []
    )
