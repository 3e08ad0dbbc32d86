"""Stage variants: one page for several versions or languages, known by parallel paths and near-equal text, is one result."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from thumbindex.model import Candidate, ChunkId, Document, DocumentId
from thumbindex.ports import Catalog
from thumbindex.query.alike import near_copies
from thumbindex.query.contradict import disagreement
from thumbindex.query.dedup_ngram import similarity
from thumbindex.query.guards import differing
from thumbindex.query.merge import Group, gather, newness, told_apart
from thumbindex.query.parallel import difference, kinship, path_keys, version_of
from thumbindex.query.reading import DATE, NUMBER, reading
from thumbindex.query.stage import Search, Tools
from thumbindex.query.terms import QUOTED, is_identifier, tokens
from thumbindex.query.translations import Pair, translations
from thumbindex.text import STOP_WORDS, words

MOST_BY_LETTERS = 2500
"""Pairs of chunks that are compared by letters while vectors are missing: two pages of fifty chunks."""

_EQUAL = 1e-6
"""Similarities that differ by less are equal."""

_SLASH = "\1"
"""Stands for a slash in a folder's name: the page `x.md` of `work/home` is not `home/x.md` of `work`."""


def variants(search: Search, tools: Tools) -> Search:
    """Make one of variants, in the best one's place: what the query names comes first, else its language, the highest version, the newest."""
    documents, candidates = tools.snapshot.catalog.documents, search.candidates
    pairs = near_copies(candidates, tools)
    near = {tuple(sorted((candidates[a].document, candidates[b].document))) for a, b in pairs}
    same, translated = frozenset[Pair](), frozenset[Pair]()
    for pair in parallel_documents({each.document: place_of(documents[each.document]) for each in candidates}):
        own = counterparts(*pair, tools) if pair in near else frozenset()
        if not own and kinship(*(place_of(documents[each]) for each in pair)) == "language":
            own = translations(*pair, tools.snapshot.catalog)
            translated |= own
        same |= own
    groups = []
    for members in grouped(candidates, pairs, same, translated, tools):
        found = [candidates[at] for at in members]
        shown = first_of(found, search.text, tools.snapshot.catalog)
        otherwise = tuple((each.id, differs) for each in found if (differs := disagreement(shown.chunk.text, each.chunk.text)))
        groups.append(Group(members, replace(shown, variants=(*shown.variants, *otherwise)), "a variant"))
    return gather(search, tools, groups) if groups else search


def place_of(document: Document) -> str:
    """Return where a document is, by its folder's name, too: two folders have files of one path."""
    return f"{document.folder.replace('/', _SLASH)}/{document.path}"


def parallel_documents(paths: dict[DocumentId, str]) -> list[tuple[DocumentId, DocumentId]]:
    """Return each two documents whose paths are parallel, the lesser id first."""
    sharing: dict[str, list[DocumentId]] = defaultdict(list)
    for document, path in sorted(paths.items()):
        for key in path_keys(path):
            sharing[key].append(document)
    return sorted({pair for documents in sharing.values() for pair in combinations(documents, 2)})


def counterparts(first: DocumentId, second: DocumentId, tools: Tools) -> frozenset[Pair]:
    """Return which chunks of two pages are nearest to each other; none where too little of the shorter page stands in the other.

    By stored vectors, by letters where one has none.
    """
    catalog, settings = tools.snapshot.catalog, tools.settings
    ids = [[ChunkId(n) for n in catalog.chunk_ids(each)] for each in (first, second)]
    vectors = [tools.snapshot.vector.vectors(own) for own in ids]
    similar, least = np.asarray(vectors[0] @ vectors[1].T, dtype=np.float64), settings.dedup_semantic.across
    if np.isnan(similar).any() and similar.size > MOST_BY_LETTERS:
        return frozenset()
    if np.isnan(similar).any():
        chunks = catalog.chunks([n for own in ids for n in own])
        ids = [[n for n in own if n in chunks] for own in ids]
        rows = [[similarity(chunks[a].text, chunks[b].text) for b in ids[1]] for a in ids[0]]
        similar, least = np.array(rows, dtype=np.float64).reshape(len(ids[0]), len(ids[1])), settings.dedup_ngram.similarity
    if not similar.size or (similar >= least).any(axis=int(len(ids[0]) <= len(ids[1]))).mean() < settings.variants.share:
        return frozenset()
    nearest = (similar >= similar.max(axis=0, keepdims=True) - _EQUAL) & (similar >= similar.max(axis=1, keepdims=True) - _EQUAL)
    return frozenset((ids[0][a], ids[1][b]) for a, b in np.argwhere(nearest))


def grouped(
    candidates: Sequence[Candidate], near: Sequence[tuple[int, int]], same: frozenset[Pair], translated: frozenset[Pair], tools: Tools
) -> list[tuple[int, ...]]:
    """Return the positions of chunks that are variants of the first of them, near copies or translations; of one document only its best."""
    position = {each.id: at for at, each in enumerate(candidates)}
    across = {tuple(sorted((position[a], position[b]))) for a, b in translated if a in position and b in position}
    groups: dict[int, list[int]] = {}
    taken: set[int] = set()
    for a, b in sorted({*near, *across}):
        first, second = candidates[a], candidates[b]
        if not taken & {a, b} and b not in groups and {(first.id, second.id), (second.id, first.id)} & same and are_variants(first, second, tools):
            members = groups.setdefault(a, [a])
            if second.document not in {candidates[at].document for at in members}:
                members.append(b)
                taken.add(b)
    return [tuple(members) for members in groups.values() if len(members) > 1]


def are_variants(first: Candidate, second: Candidate, tools: Tools) -> bool:
    """Tell whether what differs between near-equal chunks of parallel pages is what differs between variants.

    Between versions that is anything, between languages no number, in names the version itself, and elsewhere nothing that a guard would
    name: folders of two projects have pages of one name, and what they say may differ for a reason.
    """
    documents, duplicates = tools.snapshot.catalog.documents, tools.snapshot.duplicates
    if duplicates.verdict(first.id, second.id) == "apart":
        return False
    kind = kinship(place_of(documents[first.document]), place_of(documents[second.document]))
    texts = first.chunk.text, second.chunk.text
    if kind == "language":
        return numbers(texts[0]) == numbers(texts[1]) and not disagreement(*texts)
    if kind == "name":  # notes on a release are not the release's pages: what stands in them besides its name is to be the same
        return differing(*(without(text, documents[each.document].path) for text, each in zip(texts, (first, second), strict=True))) is None
    return kind == "version" or told_apart(first, second, duplicates) is None


def numbers(markdown: str) -> Counter[str]:
    """Count the numbers, versions and dates of a text."""
    read = reading(markdown)
    return Counter(token for token, sort in zip(read.tokens, read.sorts, strict=True) if sort in (NUMBER, DATE))


def without(text: str, path: str) -> str:
    """Return a text without the version in its file's name."""
    return text.replace(".".join(map(str, version_of(path.rpartition("/")[2]))), "")


def first_of(candidates: Sequence[Candidate], query: str, catalog: Catalog) -> Candidate:
    """Return which of several variants, best first, is shown.

    The one that the query names, that holds what it asks for to the letter, that is in its words, the highest version, the newest.
    """
    documents = [catalog.documents[each.document] for each in candidates]
    places = [place_of(each) for each in documents]
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
    """Return what a query asks for to the letter: quoted phrases, numbers and identifiers; only some versions of a page may hold it."""
    quoted = QUOTED.findall(query)
    return frozenset(each.casefold() for each in (*quoted, *(token for token in tokens(query) if is_identifier(token) or token.isdecimal())))


def parts_of(paths: Sequence[str]) -> list[str]:
    """Return the part in which each of several parallel paths differs from the others."""
    return [difference(path, next(other for other in paths if other != path))[0] for path in paths]


def is_named(part: str, query: str) -> bool:
    """Tell whether a query names a version, language or folder of a path; a word such as `is` or `no` names no language."""
    asked = query.casefold().split()
    bare = part.casefold().removeprefix("v")
    return bool(bare) and bare not in STOP_WORDS and any(token.strip("\"'`,;:!?()[].").removeprefix("v") == bare for token in asked)
