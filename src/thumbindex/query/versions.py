"""The stages that make one of several places: versions and languages of a page, told by paths and
outlines, and copies that the index knows.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import combinations, groupby
from typing import Literal

import numpy as np

from thumbindex.compare.differences import differing, disagreement
from thumbindex.compare.likeness import similarity
from thumbindex.compare.tokens import DATE, NUMBER, reading, without_code
from thumbindex.language import language_of
from thumbindex.model import BlockKind, Candidate, Chunk, ChunkId, Document, DocumentId, day_of
from thumbindex.ports import Catalog, Documents, inner_products
from thumbindex.query.copies import dropped_for, near_copies, told_apart, with_places
from thumbindex.query.stage import Search, Tools
from thumbindex.query.understand import QUOTED, is_identifier, tokens
from thumbindex.text import STOP_WORDS, looks_like_code, words

Kinship = Literal["version", "language", "name", "place"]
"""What parallel paths differ in: folders with a version on either side, two languages, versions in
the file's name, or any other folder.
"""

_VERSION = re.compile(r"(?<![^\W_])[vV]?(?:\d+(?:\.(?:\d+|x))+|(?<=[vV])\d+)(?![^\W_])")
_DATE = re.compile(r"(?:19|20)\d\d([-._])\d{1,2}\1\d{1,2}")
_LANGUAGE = re.compile(r"[a-z]{2}(?:[-_][A-Za-z]{2,4})?")
_ANY = "\0"
"""What stands for the part in which parallel paths differ: no path has it."""


@lru_cache(maxsize=4096)
def path_keys(path: str) -> frozenset[str]:
    """Return what a path has in common with each path that is parallel to it: two paths are when
    they share a key.
    """
    parts = path.split("/")
    replaced = {"/".join([*parts[:at], _ANY, *parts[at + 1 :]]) for at in range(len(parts) - 1)}
    named = _without_version(parts[-1])
    versions = {"/".join([*parts[:-1], named])} if named != parts[-1] else set()
    left_out = {
        "/".join([*parts[:at], *parts[at + 1 :]])
        for at in range(len(parts) - 1)
        if is_version(parts[at]) or _LANGUAGE.fullmatch(parts[at])
    }
    return frozenset({path, *replaced, *versions, *left_out})


def kinship(first: str, second: str) -> Kinship | None:
    """Return what two paths differ in; None where they are not parallel."""
    if first == second or not path_keys(first) & path_keys(second):
        return None
    mine, yours = difference(first, second)
    if first.endswith(f"/{mine}") or first == mine:
        return "name"
    if is_version(mine) or is_version(yours):
        return "version"
    if all(not part or _LANGUAGE.fullmatch(part) for part in (mine, yours)):
        return "language"
    return "place"


def difference(first: str, second: str) -> tuple[str, str]:
    """Return the part of each of two parallel paths in which they differ; empty for the one that
    lacks it.
    """
    mine, yours = first.split("/"), second.split("/")
    at = next(
        (n for n, (a, b) in enumerate(zip(mine, yours, strict=False)) if a != b),
        min(len(mine), len(yours)),
    )
    if len(mine) == len(yours):
        return mine[at], yours[at]
    return (mine[at], "") if len(mine) > len(yours) else ("", yours[at])


def is_version(part: str) -> bool:
    """Tell whether a part of a path holds a version, as 5.1, v2 and guide-7.x do; a date is
    none.
    """
    return bool(_VERSION.search(_DATE.sub("", part)))


def version_of(part: str) -> tuple[int, ...]:
    """Return the version in a part of a path as numbers that can be compared; empty where there is
    none.
    """
    found = _VERSION.search(_DATE.sub("", part))
    return tuple(int(number) for number in re.findall(r"\d+", found[0])) if found else ()


def _without_version(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    bare = _VERSION.sub(_ANY, stem)
    # what is but a version is its release's note
    if re.search(r"[^\W\d_]", bare) and not _DATE.search(name):
        return f"{bare}{dot}{suffix}"
    return name


@dataclass(frozen=True, slots=True)
class CandidateGroup:
    """Candidates that become one: where they stand, which text is shown, in whose place, and what
    makes them one.
    """

    # positions, ascending: what is shown takes the place and the score of the first
    members: tuple[int, ...]
    shown: Candidate  # one of them, or a chunk that was no candidate
    why: str
    beside: tuple[ChunkId, ...] = ()  # places that are named, too, though they are no candidates


def gather(search: Search, tools: Tools, groups: Sequence[CandidateGroup]) -> Search:
    """Make one candidate of each group: at its best member's place, with that one's score and all
    members' ranks.
    """
    candidates = search.candidates
    shown = {group.members[0]: _shown(group, candidates) for group in groups}
    members = {at: group for group in groups for at in group.members}
    kept = tuple(
        shown.get(at, each)
        for at, each in enumerate(candidates)
        if at in shown or at not in members
    )
    gone = (
        dropped_for(candidates[at], group.shown, group.why, tools)
        for at, group in sorted(members.items())
        if candidates[at].id != group.shown.id
    )
    return replace(search, candidates=kept, dropped=(*search.dropped, *gone))


def _shown(group: CandidateGroup, candidates: Sequence[Candidate]) -> Candidate:
    members = [candidates[at] for at in group.members]
    sources = {
        name: min(each.sources[name] for each in members if name in each.sources)
        for each in members
        for name in each.sources
    }
    first = replace(group.shown, score=members[0].score, sources=sources)
    return with_places(
        first, (n for each in members for n in (each.id, *each.also_in)), group.beside
    )


def newness(document: Document) -> tuple[int, float]:
    """Return what the newer of two documents has more of: its day, on one day the time of the last
    edit that was seen; least where none is known.
    """
    day = day_of(document)
    return day.toordinal() if day else 0, 0.0 if document.date else document.edited


MOST_COMPARED = 500
"""Copies of one text whose dates are compared: a footer that stands in thousands of notes is no
news in any of them.
"""


def dedup_known(search: Search, tools: Tools) -> Search:
    """Make one of known copies, in the best one's place; all their places are named, those that
    were not found, too.
    """
    known = {each.id: tools.snapshot.duplicates.copies(each.id) for each in search.candidates}
    if not any(known.values()):
        return search
    groups = []
    for same in copies_of_first([each.id for each in search.candidates], known):
        unnamed = (at for at in same[1:] if not search.candidates[at].name_kind)
        members = (same[0], *unnamed)
        others = _beside(members, known, search.candidates)
        if others or len(members) > 1:
            newest = _newest(members, others, search, tools)
            groups.append(CandidateGroup(members, newest, "a known copy", others))
    return gather(search, tools, groups)


def copies_of_first(
    ids: Sequence[ChunkId], known: Mapping[ChunkId, tuple[ChunkId, ...]]
) -> Iterator[tuple[int, ...]]:
    """Yield positions that are one: the first and what it is known to be a copy of; a copy of a
    copy may say something else.
    """
    taken: set[int] = set()
    for at, first in enumerate(ids):
        if at not in taken:
            copies = set(known[first])
            same = [
                n
                for n in range(at + 1, len(ids))
                if n not in taken and (ids[n] in copies or first in known[ids[n]])
            ]
            taken.update(same)
            yield at, *same


def _beside(
    members: Sequence[int],
    known: Mapping[ChunkId, tuple[ChunkId, ...]],
    candidates: Sequence[Candidate],
) -> tuple[ChunkId, ...]:
    """Return the first one's copies that are no candidates."""
    held = {candidates[at].id for at in members}
    return tuple(n for n in known[candidates[members[0]].id] if n not in held)


def _newest(
    members: Sequence[int], others: Sequence[ChunkId], search: Search, tools: Tools
) -> Candidate:
    """Return the newest text that may be shown, of equals the best; it may be one that was not
    found.

    What the query names is shown itself.
    """
    documents, mine = tools.snapshot.catalog.documents, [search.candidates[at] for at in members]
    if mine[0].name_kind:
        return mine[0]
    best = max(mine, key=lambda each: newness(documents[each.document]))  # of equals the first
    found, of = (
        {n for each in search.candidates for n in (each.id, *each.also_in)},
        tools.snapshot.catalog.document_of,
    )
    newer = [
        n
        for n in others[:MOST_COMPARED]
        if n not in found and newness(documents[of(n)]) > newness(documents[best.document])
    ]
    by_age = sorted(newer, key=lambda n: newness(documents[of(n)]), reverse=True)
    newest = next((n for n in by_age if _may_be_shown(n, best, search, tools)), None)
    if newest is None:
        return best
    chunk = tools.snapshot.catalog.chunks([newest]).get(newest)
    if chunk is None:
        return best
    return Candidate(newest, tools.snapshot.catalog.document_of(newest), chunk, best.score)


def _may_be_shown(chunk: ChunkId, best: Candidate, search: Search, tools: Tools) -> bool:
    """Tell whether a chunk that was not found may stand for one that was: let through by filters,
    and no other version of the page.
    """
    catalog = tools.snapshot.catalog
    if not search.findable([chunk]):
        return False
    mine, other = catalog.documents[best.document], catalog.documents[catalog.document_of(chunk)]
    return mine is not other and kinship(mine.path, other.path) not in {"version", "language"}


MOST_CHUNKS = 200
"""Chunks of a page: one with more is not read for this."""

LIKE_OUTLINES = 0.8
"""The least share of headings, with their depths and what stands below them, that two pages have in
common in order.
"""

LIKE_TOKENS = 0.5
"""The least share of numbers, identifiers and code that two pages have in common."""

BARE_HEADINGS = 3
"""Pages without any number or code are told by their outlines alone, by so many headings at
least.
"""

_READ = 4000
"""Characters by which a page's language is told."""

ChunkPair = tuple[ChunkId, ChunkId]

_Shape = tuple[int, tuple[BlockKind, ...]]


def translations(first: DocumentId, second: DocumentId, catalog: Catalog) -> frozenset[ChunkPair]:
    """Return the chunks that stand in the same place of two pages; none where they are in one
    language or one is no translation of the other.
    """
    ranges = [catalog.chunk_ids(each) for each in (first, second)]
    if max(map(len, ranges)) > MOST_CHUNKS:
        return frozenset()
    pages = [catalog.chunks([ChunkId(n) for n in own]) for own in ranges]
    mine, yours = ([each.text for each in page.values()] for page in pages)
    languages = {_language(mine), _language(yours)}
    if "" in languages or len(languages) == 1:
        return frozenset()
    runs = [
        [list(run) for _, run in groupby(page, key=lambda n: page[n].heading_path)]
        for page in pages
    ]
    outlines: list[list[_Shape]] = [
        [_shape([page[n] for n in run]) for run in own]
        for page, own in zip(pages, runs, strict=True)
    ]
    matcher = SequenceMatcher(None, outlines[0], outlines[1], autojunk=False)
    if matcher.ratio() < LIKE_OUTLINES or not _hold_the_same(mine, yours, min(map(len, outlines))):
        return frozenset()
    places = [_places(own, page) for page, own in zip(pages, runs, strict=True)]
    opposite = {
        block.b + n: block.a + n
        for block in matcher.get_matching_blocks()
        for n in range(block.size)
    }
    counterpart = {
        (opposite[at], *place): n for n, (at, *place) in places[1].items() if at in opposite
    }
    return frozenset(
        (n, counterpart[place]) for n, place in places[0].items() if place in counterpart
    )


def _language(texts: Sequence[str]) -> str:
    return language_of(without_code("\n\n".join(texts)[:_READ]))


def _shape(run: Sequence[Chunk]) -> _Shape:
    """Return how deep a heading is, and the kinds of what stands below it: a translation may be cut
    into more chunks.
    """
    return len(run[0].heading_path), tuple(kind for kind, _ in groupby(each.kind for each in run))


def _hold_the_same(mine: Sequence[str], yours: Sequence[str], headings: int) -> bool:
    """Tell whether two pages have the numbers, identifiers and code of a page and its
    translation.
    """
    left, right = (
        Counter(token for text in texts for token in _untranslated(text)) for texts in (mine, yours)
    )
    if not left and not right:
        return headings >= BARE_HEADINGS
    return (left & right).total() >= LIKE_TOKENS * (left | right).total()


def _untranslated(text: str) -> list[str]:
    bare = (token.strip(".,;:!?\"'`*_()[]{}<>|") for token in text.split())
    return [token for token in bare if looks_like_code(token) or any(c.isdigit() for c in token)]


def _places(
    runs: Sequence[Sequence[ChunkId]], page: Mapping[ChunkId, Chunk]
) -> dict[ChunkId, tuple[int, BlockKind, int]]:
    """Say where each chunk stands: below which heading, of which kind, and how many of that kind
    stand before it there.
    """
    found: dict[ChunkId, tuple[int, BlockKind, int]] = {}
    for at, run in enumerate(runs):
        before: Counter[BlockKind] = Counter()
        for n in run:
            kind = page[n].kind
            found[n] = (at, kind, before[kind])
            before[kind] += 1
    return found


LEAST_SHARE = 0.5
"""The least share of the shorter page's chunks that stand in the other, too."""

MOST_BY_LETTERS = 2500
"""Pairs of chunks that are compared by letters while vectors are missing: two pages of fifty
chunks.
"""

MOST_BY_VECTORS = 2_000_000
"""Pairs of chunks that are compared by vectors: two pages of 1,400 chunks, a quarter of a
second.
"""

_EQUAL = 1e-6
"""Similarities that differ by less are equal."""

_SLASH = "\1"
"""Stands for a slash in a folder's name: the page `x.md` of `work/home` is not `home/x.md` of
`work`.
"""


def variants(search: Search, tools: Tools) -> Search:
    """Make one of variants, in the best one's place: what the query names comes first, else its
    language, the highest version, the newest.
    """
    documents, candidates = tools.snapshot.catalog.documents, search.candidates
    pairs = near_copies(candidates, tools)
    near = {tuple(sorted((candidates[a].document, candidates[b].document))) for a, b in pairs}
    same, translated = frozenset[ChunkPair](), frozenset[ChunkPair]()
    for pair in parallel_documents(
        {each.document: full_path(documents[each.document]) for each in candidates}
    ):
        own = counterparts(*pair, tools) if pair in near else frozenset()
        if not own and kinship(*(full_path(documents[each]) for each in pair)) == "language":
            own = translations(*pair, tools.snapshot.catalog)
            translated |= own
        same |= own
    groups = []
    for group in grouped(candidates, pairs, same, translated, tools):
        members = _with_namesakes(group, candidates, documents)
        if len(members) == 1:
            continue
        found = [candidates[at] for at in members]
        named = [each for each in found if each.name_kind is found[0].name_kind]
        shown = first_of(named, search.text, tools.snapshot.catalog) if len(named) > 1 else named[0]
        otherwise = tuple(
            (each.id, differs)
            for each in found
            if (differs := disagreement(shown.chunk.text, each.chunk.text))
        )
        groups.append(
            CandidateGroup(
                members, replace(shown, variants=(*shown.variants, *otherwise)), "a variant"
            )
        )
    return gather(search, tools, groups) if groups else search


def _with_namesakes(
    members: Sequence[int], candidates: Sequence[Candidate], documents: Documents
) -> tuple[int, ...]:
    """Return the positions of variants without those that the query names, too, unless they are a
    version or translation of the first.
    """
    first, *rest = members
    path = full_path(documents[candidates[first].document])
    pages = ((at, full_path(documents[candidates[at].document])) for at in rest)
    return (
        first,
        *(
            at
            for at, other in pages
            if not candidates[at].name_kind or kinship(path, other) in ("version", "language")
        ),
    )


def full_path(document: Document) -> str:
    """Return where a document is, by its folder's name, too: two folders have files of one path."""
    return f"{document.folder.replace('/', _SLASH)}/{document.path}"


def parallel_documents(paths: dict[DocumentId, str]) -> list[tuple[DocumentId, DocumentId]]:
    """Return each two documents whose paths are parallel, the lesser id first."""
    sharing: dict[str, list[DocumentId]] = defaultdict(list)
    for document, path in sorted(paths.items()):
        for key in path_keys(path):
            sharing[key].append(document)
    return sorted({pair for documents in sharing.values() for pair in combinations(documents, 2)})


def counterparts(first: DocumentId, second: DocumentId, tools: Tools) -> frozenset[ChunkPair]:
    """Return which chunks of two pages are nearest to each other; none where too little of the
    shorter page stands in the other, or they are huge.

    By stored vectors, by letters where one has none.
    """
    catalog, settings = tools.snapshot.catalog, tools.settings
    ids = [[ChunkId(n) for n in catalog.chunk_ids(each)] for each in (first, second)]
    if len(ids[0]) * len(ids[1]) > MOST_BY_VECTORS:
        return frozenset()
    vectors = [tools.snapshot.vector.vectors(own) for own in ids]
    similar, least = (
        np.asarray(inner_products(vectors[0], vectors[1]), dtype=np.float64),
        settings.dedup_semantic.across,
    )
    if np.isnan(similar).any() and similar.size > MOST_BY_LETTERS:
        return frozenset()
    if np.isnan(similar).any():
        chunks = catalog.chunks([n for own in ids for n in own])
        ids = [[n for n in own if n in chunks] for own in ids]
        rows = [[similarity(chunks[a].text, chunks[b].text) for b in ids[1]] for a in ids[0]]
        similar, least = (
            np.array(rows, dtype=np.float64).reshape(len(ids[0]), len(ids[1])),
            settings.dedup_ngram.similarity,
        )
    if (
        not similar.size
        or (similar >= least).any(axis=int(len(ids[0]) <= len(ids[1]))).mean() < LEAST_SHARE
    ):
        return frozenset()
    nearest = (similar >= similar.max(axis=0, keepdims=True) - _EQUAL) & (
        similar >= similar.max(axis=1, keepdims=True) - _EQUAL
    )
    return frozenset((ids[0][a], ids[1][b]) for a, b in np.argwhere(nearest))


def grouped(
    candidates: Sequence[Candidate],
    near: Sequence[tuple[int, int]],
    same: frozenset[ChunkPair],
    translated: frozenset[ChunkPair],
    tools: Tools,
) -> list[tuple[int, ...]]:
    """Return the positions of chunks that are variants of the first of them, near copies or
    translations; of one document only its best.
    """
    position = {each.id: at for at, each in enumerate(candidates)}
    across = {
        tuple(sorted((position[a], position[b])))
        for a, b in translated
        if a in position and b in position
    }
    groups: dict[int, list[int]] = {}
    taken: set[int] = set()
    for a, b in sorted({*near, *across}):
        first, second = candidates[a], candidates[b]
        if (
            not taken & {a, b}
            and b not in groups
            and {(first.id, second.id), (second.id, first.id)} & same
            and are_variants(first, second, tools)
        ):
            members = groups.setdefault(a, [a])
            if second.document not in {candidates[at].document for at in members}:
                members.append(b)
                taken.add(b)
    return [tuple(members) for members in groups.values() if len(members) > 1]


def are_variants(first: Candidate, second: Candidate, tools: Tools) -> bool:
    """Tell whether what differs between near-equal chunks of parallel pages is what differs between
    variants.

    Between versions that is anything, between languages no number, in names the version itself, and
    elsewhere nothing that a guard would name: folders of two projects have pages of one name, and
    what they say may differ for a reason.
    """
    documents, duplicates = tools.snapshot.catalog.documents, tools.snapshot.duplicates
    if duplicates.verdict(first.id, second.id) == "apart":
        return False
    kind = kinship(full_path(documents[first.document]), full_path(documents[second.document]))
    texts = first.chunk.text, second.chunk.text
    if kind == "language":
        return numbers(texts[0]) == numbers(texts[1]) and not disagreement(*texts)
    # notes on a release are not the release's pages: what stands in them besides its name is to be
    # the same
    if kind == "name":
        mine = without(texts[0], documents[first.document].path)
        yours = without(texts[1], documents[second.document].path)
        return differing(mine, yours) is None
    return kind == "version" or told_apart(first, second, duplicates) is None


def numbers(markdown: str) -> Counter[str]:
    """Count the numbers, versions and dates of a text."""
    read = reading(markdown)
    return Counter(
        token for token, sort in zip(read.tokens, read.sorts, strict=True) if sort in (NUMBER, DATE)
    )


def without(text: str, path: str) -> str:
    """Return a text without the version in its file's name."""
    return text.replace(".".join(map(str, version_of(path.rpartition("/")[2]))), "")


def first_of(candidates: Sequence[Candidate], query: str, catalog: Catalog) -> Candidate:
    """Return which of several variants, best first, is shown.

    The one that the query names, that holds what it asks for to the letter, that is in its words,
    the highest version, the newest.
    """
    documents = [catalog.documents[each.document] for each in candidates]
    places = [full_path(each) for each in documents]
    parts = parts_of(places)
    asked, exact = set(words(query)), exact_in(query)
    in_languages = any(kinship(a, b) == "language" for a, b in combinations(places, 2))

    def claim(at: int) -> tuple[bool, int, int, tuple[int, ...], tuple[int, float], int]:
        held = sum(each in candidates[at].chunk.text.casefold() for each in exact)
        spoken = len(asked & set(words(candidates[at].chunk.text))) if in_languages else 0
        newer = (0, 0.0) if in_languages else newness(documents[at])
        return is_named(parts[at], query), held, spoken, version_of(parts[at]), newer, -at

    return candidates[max(range(len(candidates)), key=claim)]


def exact_in(query: str) -> frozenset[str]:
    """Return what a query asks for to the letter: quoted phrases, numbers and identifiers; only
    some versions of a page may hold it.
    """
    quoted = QUOTED.findall(query)
    codes = [token for token in tokens(query) if is_identifier(token) or token.isdecimal()]
    return frozenset(each.casefold() for each in (*quoted, *codes))


def parts_of(paths: Sequence[str]) -> list[str]:
    """Return the part in which each of several parallel paths differs from the others."""
    return [difference(path, next(other for other in paths if other != path))[0] for path in paths]


def is_named(part: str, query: str) -> bool:
    """Tell whether a query names a version, language or folder of a path; a word such as `is` or
    `no` names no language.
    """
    asked = query.casefold().split()
    bare = part.casefold().removeprefix("v")
    return (
        bool(bare)
        and bare not in STOP_WORDS
        and any(token.strip("\"'`,;:!?()[].").removeprefix("v") == bare for token in asked)
    )
