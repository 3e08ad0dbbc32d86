"""Stage match_names: put the notes that the query names first.

A query names a note if the whole query is the note's path, file name, title, alias or link, or a
heading that few notes have. If a query names no note but contains a day or month, the notes named
after that date come first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import unquote

from thumbindex.dates import month_spellings, single_day, single_month
from thumbindex.model import Candidate, ChunkId, Document, DocumentId, NameKind, TypedFilter
from thumbindex.ports import Catalog, Selection
from thumbindex.query.retrieve import chunk_ids_of
from thumbindex.query.stage import ReferenceMatch, Search, Tools
from thumbindex.query.understand import stop_weights
from thumbindex.text import fold_line, name_key, words

_MAX_NOTES = 3
"""If more notes have a heading or date, the heading or date is too ambiguous to name them."""

_PREFIX_DISTANCE = 2
"""`ReferenceMatch.distance` of a note whose file name only begins with the date."""

_MAX_HEADING_CHUNKS = 2_000
"""If more chunks than this are under headings with the query's words, the words are too common to
name a note.
"""

_MAX_SAME_NAME = 2_000
"""If more notes have the same file name, such as `index.md`, only this many are compared with a
query, and those whose path begins with the query.
"""

_WIKILINK = re.compile(r"!?\[\[([^\[\]]+)\]\]")
_LINK = re.compile(r"!?\[[^\[\]]*\]\(([^\n]*)\)")
_LINK_TITLE = re.compile(r"""\s(?:"[^"]*"|'[^']*')$""")
_FILE = re.compile(r"[^\W_]\.[A-Za-z]\w+$")
_LEADING_DOTS = re.compile(r"^(?:\.{0,2}/)+")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[\W_]+(?=\d)")
_SYMBOLS = re.compile(
    r"(?<=[^\W_])[+#]+(?!\w)"  # C++
    r"|(?<!\S)(?:\.|[$%]|--?)(?=[^\W\d])"  # .NET, $HOME, --help
)
_PRIORITY = {
    NameKind.PATH: 0,
    NameKind.FILE: 1,
    NameKind.TITLE: 2,
    NameKind.ALIAS: 2,
    NameKind.HEADING: 3,
}


class _NameReference(NamedTuple):
    """The name or path of a note in a query, and a heading in that note. Either may be empty."""

    name: str
    heading: str = ""


def match_names(search: Search, tools: Tools) -> Search:
    """Move the notes that the query names to the front.

    If the query names no note, move the notes named after the query's day or month to the front.
    """
    named = {**_find_by_heading(search, tools), **search.reference_matches}
    matches = named or _unambiguous(search.date_matches)
    if not matches:
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
    shown = dict(
        list(shown.items())[: max(tools.settings.fuse.limit, 3 * tools.limit(search.query))]
    )
    by_id = {candidate.id: candidate for candidate in search.candidates}
    chunks = tools.snapshot.catalog.chunks([n for n in shown if n not in by_id])
    of = tools.snapshot.catalog.document_of
    by_id |= {n: Candidate(n, of(n), chunk, 1.0) for n, chunk in chunks.items()}
    first = [
        replace(by_id[n], score=1.0, name_kind=kind) for n, kind in shown.items() if n in by_id
    ]
    others = (candidate for candidate in search.candidates if candidate.id not in shown)
    return replace(search, candidates=(*first, *others))


def has_only_function_words(search: Search, tools: Tools) -> bool:
    """Return whether all words of a query are function words."""
    stops = stop_weights(search.text, tools.snapshot.keyword.languages)
    return bool(search.terms) and all(stops.get(term.text) == 0 for term in search.terms)


def _unambiguous(dated: Mapping[DocumentId, ReferenceMatch]) -> Mapping[DocumentId, ReferenceMatch]:
    """Return the notes of a date.

    If there are too many, return only the notes whose whole name is the date. If there are still
    too many, return none.
    """
    levels = (
        dated,
        {n: match for n, match in dated.items() if match.distance < _PREFIX_DISTANCE},
    )
    return next((group for group in levels if len(group) <= _MAX_NOTES), {})


def split_name_matches(
    candidates: Sequence[Candidate],
) -> tuple[tuple[Candidate, ...], tuple[Candidate, ...]]:
    """Return the leading candidates that the query names, and the remaining candidates."""
    count = next(
        (at for at, candidate in enumerate(candidates) if candidate.name_kind is None),
        len(candidates),
    )
    return tuple(candidates[:count]), tuple(candidates[count:])


def _shown_chunk(
    document: DocumentId,
    match: ReferenceMatch,
    best: Candidate | None,
    search: Search,
    tools: Tools,
) -> ChunkId | None:
    """Return the chunk to show for a note; None if the filters exclude all its chunks."""
    if match.chunk is not None:
        return match.chunk
    catalog = tools.snapshot.catalog
    ids = search.keep_searchable(chunk_ids_of(document, tools))
    if match.heading:
        under = (
            n
            for n, chunk in catalog.chunks(ids).items()
            if any(
                name_distance(match.heading, heading) is not None
                for heading in chunk.heading_path[1:]
            )
        )
        if (first := next(under, None)) is not None:
            return first
    return best.id if best else next(iter(ids), None)


# ------------------------------------------------------------------ names and paths


def find_by_name(name: str, catalog: Catalog) -> dict[DocumentId, ReferenceMatch]:
    """Return the documents that have a given name or path, each with its best match."""
    parts = [part for part in _LEADING_DOTS.sub("", name.replace("\\", "/")).split("/") if part]
    last = parts[-1] if parts else ""
    letters = {name_key(form) for form in (name, last, last.rpartition(".")[0] or last)}
    ids = sorted({n for key in letters for n in catalog.documents_named(key)})
    if len(ids) > _MAX_SAME_NAME:
        path = "/".join(parts).casefold()
        same_path = [n for n in ids if catalog.documents[n].path.casefold().startswith(path)]
        ids = same_path + ids[:_MAX_SAME_NAME]
    matches = (
        (n, min(_name_matches(catalog.documents[n], name, parts), default=None)) for n in ids
    )
    return {n: match for n, match in matches if match}


def _stem(file: str) -> str:
    return file.rpartition(".")[0] or file


def _name_matches(document: Document, name: str, parts: Sequence[str]) -> Iterator[ReferenceMatch]:
    """Yield the matches of a typed name, split into `parts`, with a document's path and names."""
    path = document.path.split("/")
    full_path = (*document.folder.split("/"), *path)
    files = full_path[-1], _stem(full_path[-1])
    if 0 < len(parts) <= len(full_path) and (len(parts) > 1 or len(path) == 1):
        above = [
            name_distance(typed, part)
            for typed, part in zip(parts[:-1], full_path[-len(parts) : -1], strict=True)
        ]
        for last in (name_distance(parts[-1], file) for file in files):
            if last is not None and None not in above:
                yield ReferenceMatch(
                    max((last, *(distance or 0 for distance in above))),
                    0,
                    max(0, len(path) - len(parts)),
                    NameKind.PATH,
                )
    names = [(NameKind.FILE, file) for file in files if len(parts) == 1]
    names += [
        (NameKind.TITLE, document.title),
        *((NameKind.ALIAS, alias) for alias in document.aliases),
    ]
    for kind, known in names:
        distance = name_distance(parts[0] if kind is NameKind.FILE else name, known)
        if distance is not None:
            yield ReferenceMatch(distance, _PRIORITY[kind], 0, kind)


def name_distance(typed: str, name: str) -> int | None:
    """Return 0 for equal names, 1 if accents or punctuation differ, or None for different names.

    Case is ignored. Names that separate digits differently (1.11, 1.1.1), or have different symbols
    (C and C#, net and .NET), are different.
    """
    if _fold_case(typed) == _fold_case(name):
        return 0
    key = name_key(typed)
    if not key or key != name_key(name) or _SYMBOLS.findall(typed) != _SYMBOLS.findall(name):
        return None
    first, second = (" ".join(map(name_key, _BETWEEN_DIGITS.split(text))) for text in (typed, name))
    return 1 if first == second or " " not in first or " " not in second else None


def _fold_case(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().replace("\ufe0f", "").split())


def _parse_references(text: str) -> tuple[_NameReference, ...]:
    """Parse a query as a link or a name.

    If a heading may follow `#`, return both the whole text as a name, and a name with a heading.
    """
    text = text.strip()
    wikilink, link = _WIKILINK.fullmatch(text), _LINK.fullmatch(text)
    if wikilink is not None:
        text = wikilink[1].replace("\\|", "|").partition("|")[0].strip()
    elif link is not None:
        text = unquote(_LINK_TITLE.sub("", link[1].strip()).strip().strip("<>").strip())
    name, _, heading = (part.strip() for part in text.partition("#"))
    # "C# basics" is not a heading of C
    if heading and (wikilink or link or _FILE.search(name)):
        return (_NameReference(text), _NameReference(name, heading.rpartition("#")[2].strip()))
    return (_NameReference(text),)


def is_path_or_link(text: str) -> bool:
    """Return whether a text is a path, a file name with its suffix, or a link."""
    text = text.strip()
    return "/" in text or any(
        matches(text) for matches in (_FILE.search, _WIKILINK.fullmatch, _LINK.fullmatch)
    )


def find_by_reference(text: str, catalog: Catalog) -> dict[DocumentId, ReferenceMatch]:
    """Return the documents whose path, file name, title, alias or link is the whole text."""
    matches: dict[DocumentId, ReferenceMatch] = {}
    for name, heading in _parse_references(text):
        for document, match in find_by_name(name, catalog).items():
            matches[document] = min(
                match._replace(heading=heading),
                matches.get(document, match._replace(heading=heading)),
            )
    return matches


def find_by_date(text: str, catalog: Catalog) -> dict[DocumentId, ReferenceMatch]:
    """Return the documents named after the only day or month in a text.

    For a day, documents whose file name begins with the day (`2026-01-31`) match, too.
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


# ------------------------------------------------------------------ headings


def _find_by_heading(search: Search, tools: Tools) -> dict[DocumentId, ReferenceMatch]:
    """Return the notes with the query as a heading, each with the first chunk under the heading.

    A heading of function words alone, such as "Why", names nothing.
    """
    if has_only_function_words(search, tools):
        return {}
    catalog = tools.snapshot.catalog
    texts = [
        reference.heading if not reference.name else reference.name
        for reference in _parse_references(search.query.text)
        if not (reference.name and reference.heading)
    ]
    under: dict[int, dict[DocumentId, list[ChunkId]]] = {0: {}, 1: {}}
    for text in texts:
        chunks = catalog.chunks(_chunks_under_heading(text, search.searchable, tools))
        paths = {n: chunk.heading_path[1:] for n, chunk in chunks.items()}
        headings = {heading for path in paths.values() for heading in path}
        distances = {
            heading: distance
            for heading in headings
            if (distance := name_distance(text, heading)) is not None
        }
        for n, path in paths.items():
            if levels := [distances[heading] for heading in path if heading in distances]:
                under[min(levels)].setdefault(catalog.document_of(n), []).append(n)
    by_document = under[0] or under[1]
    if len(by_document) > _MAX_NOTES:
        return {}
    distance = 0 if under[0] else 1
    return {
        document: ReferenceMatch(
            distance, _PRIORITY[NameKind.HEADING], 0, NameKind.HEADING, chunk=ids[0]
        )
        for document, ids in by_document.items()
    }


def _chunks_under_heading(text: str, within: Selection | None, tools: Tools) -> Sequence[ChunkId]:
    """Return the searchable chunks whose headings contain all words of a text.

    Words that no heading contains are ignored. If there are too many chunks, return none.
    """
    selection: Selection | None = None
    all_words = set(words(text))
    long_words = {word for word in all_words if len(word) > 1} or all_words  # "team s" is "team's"
    # long words come first, because they are rare and exclude the most chunks
    for word in sorted(long_words, key=lambda each: (-len(each), each)):
        if chunks := tools.snapshot.keyword.chunks_with_all_words(word, ("headings",)):
            before = within if selection is None else selection
            selection = chunks if before is None else before & chunks
            if not selection:
                return []
    return (
        selection.first(_MAX_HEADING_CHUNKS)
        if selection is not None and len(selection) <= _MAX_HEADING_CHUNKS
        else []
    )
