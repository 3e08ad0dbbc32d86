"""The stages that make one candidate of several copies: versions of a page, copies that the index
knows, and exact and near copies by letters, meaning or a field.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from thumbindex.compare.differences import chunk_difference, contradiction, text_difference
from thumbindex.compare.trigrams import SimilarityMatrix, trigram_similarities
from thumbindex.model import Candidate, Chunk, ChunkId, Document, DroppedChunk, day_of
from thumbindex.ports import Catalog, Duplicates, inner_products
from thumbindex.query.stage import Search, Tools
from thumbindex.query.understand import QUOTED, is_identifier, tokens

_CACHED_PAIRS = 1024
"""Pairs of chunks whose guard verdict is cached."""


@dataclass(frozen=True, slots=True)
class CopyOf:
    """The position of a copy's survivor among the candidates, and the reason."""

    survivor: int
    reason: str


def assign_survivors(
    alike: npt.NDArray[np.bool_], apart: Callable[[int, int], str | None]
) -> dict[int, int]:
    """Return the survivor of each copy: the first earlier survivor that is alike and not apart.

    `alike` has shape (items, items). A survivor is never a copy.
    """
    near: dict[int, list[int]] = {}
    for item, other in np.argwhere(np.tril(alike, -1)).tolist():
        near.setdefault(item, []).append(other)
    copies: dict[int, int] = {}
    for item, others in near.items():
        survivor = next(
            (other for other in others if other not in copies and apart(item, other) is None), None
        )
        if survivor is not None:
            copies[item] = survivor
    return copies


def _reason_apart(first: Candidate, second: Candidate, duplicates: Duplicates) -> str | None:
    """Return why two candidates are no copies: the owner's decision, else a guard; None if they may
    be.
    """
    if duplicates.verdict(first.id, second.id) == "apart":
        return "their owner keeps them apart"
    return _guard_reason(first.chunk, second.chunk)


@lru_cache(maxsize=_CACHED_PAIRS)
def _guard_reason(first: Chunk, second: Chunk) -> str | None:
    return chunk_difference(first, second)


def merge_copies(
    search: Search,
    tools: Tools,
    copies: Mapping[int, CopyOf],
    shown: Mapping[int, Candidate] = MappingProxyType({}),
) -> Search:
    """Remove the copies; a survivor keeps its rank and score, and names their places.

    `shown` replaces survivors. Otherwise no name match is removed.
    """
    candidates = search.candidates
    copies = {
        at: copy
        for at, copy in copies.items()
        if copy.survivor in shown or not candidates[at].name_kind
    }
    merged: dict[int, list[Candidate]] = defaultdict(list)
    for at, copy in sorted(copies.items()):
        merged[copy.survivor].append(candidates[at])
    kept = {
        at: _add_places(shown.get(at, each), merged.get(at, ()))
        for at, each in enumerate(candidates)
        if at not in copies or at in shown
    }
    gone = tuple(
        _dropped_copy(candidates[at], kept[copy.survivor], copy.reason, tools)
        for at, copy in sorted(copies.items())
        if candidates[at].id != kept[copy.survivor].id
    )
    return replace(search, candidates=tuple(kept.values()), dropped=(*search.dropped, *gone))


def _add_places(survivor: Candidate, others: Iterable[Candidate]) -> Candidate:
    """Add the places of other candidates."""
    places = (n for each in others for n in (each.id, *each.also_in))
    named = dict.fromkeys((*survivor.also_in, *places))
    named.pop(survivor.id, None)
    return replace(survivor, also_in=tuple(named), cluster_size=1 + len(named))


def _dropped_copy(copy: Candidate, survivor: Candidate, why: str, tools: Tools) -> DroppedChunk:
    """Return the record of a removed copy."""
    documents = tools.snapshot.catalog.documents
    reason = f"{why} of {documents[survivor.document].path}, line {survivor.chunk.start_line}"
    return DroppedChunk(documents[copy.document].path, copy.chunk.start_line, reason)


def dedup_hash(search: Search, tools: Tools) -> Search:
    """Keep the best of each group of equal texts, whatever their paths, tags and headings; what the
    owner keeps apart is no copy.
    """
    found, duplicates = search.candidates, tools.snapshot.duplicates
    copies = exact_copies([each.chunk.text for each in found], [each.score for each in found])
    copies = {
        at: of
        for at, of in copies.items()
        if duplicates.verdict(found[at].id, found[of].id) != "apart"
    }
    return merge_copies(
        search, tools, {at: CopyOf(of, "a byte-exact copy") for at, of in copies.items()}
    )


def exact_copies(texts: Sequence[str | None], scores: Sequence[float]) -> dict[int, int]:
    """Return the survivor of each copy: of equal texts the highest score, then the first. None
    equals nothing.
    """
    best: dict[str, int] = {}
    for at, text in enumerate(texts):
        if text is not None and (text not in best or scores[at] > scores[best[text]]):
            best[text] = at
    return {
        at: best[text] for at, text in enumerate(texts) if text is not None and best[text] != at
    }


_MIN_NGRAM_SIMILARITY = 0.4
"""Minimum 3-gram similarity of copies with similar vectors: a vector includes the headings."""


def dedup_ngram(search: Search, tools: Tools) -> Search:
    """Take out near copies of better candidates, unless a number, identifier or negation
    differs.
    """
    likeness = _ngram_similarities(search.candidates)
    alike = likeness >= tools.settings.dedup_ngram.similarity
    return _drop_similar(
        search,
        tools,
        alike,
        lambda at, of: f"3-gram similarity {likeness[at, of]:.2f}: a near copy",
    )


def dedup_semantic(search: Search, tools: Tools) -> Search:
    """Take out what says the same as a better candidate, unless a number, identifier or negation
    differs.
    """
    cosines = _cosines(search.candidates, tools)
    alike = _are_semantic_copies(search.candidates, cosines, tools)
    return _drop_similar(
        search, tools, alike, lambda at, of: f"cosine {cosines[at, of]:.2f}: a near copy"
    )


def _drop_similar(
    search: Search,
    tools: Tools,
    alike: npt.NDArray[np.bool_],
    why: Callable[[int, int], str],
    order: Sequence[int] = (),
) -> Search:
    """Remove similar candidates that are not apart; the first in `order` survives."""
    candidates, duplicates = search.candidates, tools.snapshot.duplicates
    order = order or range(len(candidates))
    copies = assign_survivors(
        alike[np.ix_(order, order)],
        lambda a, b: _reason_apart(candidates[order[a]], candidates[order[b]], duplicates),
    )
    pairs = ((order[at], order[of]) for at, of in copies.items())
    return merge_copies(search, tools, {at: CopyOf(of, why(at, of)) for at, of in pairs})


def near_copies(candidates: Sequence[Candidate], tools: Tools) -> list[tuple[int, int]]:
    """Return pairs of positions of one kind that are similar by letters or vectors, the better
    first.
    """
    by_letters = _ngram_similarities(candidates) >= tools.settings.dedup_ngram.similarity
    alike = by_letters | _are_semantic_copies(candidates, _cosines(candidates, tools), tools)
    pairs = np.argwhere(np.triu(alike, 1)).tolist()
    return [(a, b) for a, b in pairs if _have_same_kind(candidates[a], candidates[b])]


def _ngram_similarities(candidates: Sequence[Candidate]) -> SimilarityMatrix:
    return trigram_similarities(tuple(candidate.chunk.text for candidate in candidates))


def _cosines(candidates: Sequence[Candidate], tools: Tools) -> npt.NDArray[np.float32]:
    """Return all pairs' cosines, NaN without a vector."""
    vectors = tools.snapshot.vector.vectors([candidate.id for candidate in candidates])
    return inner_products(vectors, vectors)


def _are_semantic_copies(
    candidates: Sequence[Candidate], cosines: npt.NDArray[np.float32], tools: Tools
) -> npt.NDArray[np.bool_]:
    """Return which pairs have similar vectors and share letters, shape (items, items)."""
    document = np.array([candidate.document for candidate in candidates])
    settings = tools.settings.dedup_semantic
    least = np.where(document[:, None] == document, settings.within, settings.across)
    return (cosines >= least) & (_ngram_similarities(candidates) >= _MIN_NGRAM_SIMILARITY)


def _have_same_kind(first: Candidate, second: Candidate) -> bool:
    return (
        first.chunk.kind is second.chunk.kind
        and first.chunk.language.casefold() == second.chunk.language.casefold()
    )


def deduplicate(search: Search, tools: Tools) -> Search:
    """Keep one of the candidates that are the same by the configured method."""
    settings, found = tools.settings.deduplicate, search.candidates
    claims: Sequence[float] = {
        "first": range(0, -len(found), -1),
        "last": range(len(found)),
        "highest_score": [each.score for each in found],
    }[settings.keep]
    if settings.method == "semantic":
        cosines = _cosines(found, tools)
        texts = np.array([each.chunk.text for each in found], dtype=object)
        same = np.isnan(cosines) & (texts[:, None] == texts)
        alike = same | (cosines >= settings.similarity_threshold)
        order = sorted(range(len(found)), key=lambda at: -claims[at])
        return _drop_similar(search, tools, alike, lambda *_: "the same meaning as that", order)
    documents = tools.snapshot.catalog.documents
    if settings.method == "exact_field":
        why = "the same field as that"
        keys = [_field(documents[each.document], settings.field) for each in found]
    else:
        why = "the same content as that"
        keys = [each.chunk.text or None for each in found]
    copies = exact_copies(keys, claims)
    return merge_copies(search, tools, {at: CopyOf(of, why) for at, of in copies.items()})


_FIELDS = {"path", "folder", "title", "author", "category", "type", "date"}


def _field(document: Document, path: str) -> str | None:
    """Return a field of a document or the value at a dotted path in its front matter, as JSON;
    None where it is missing.
    """
    value: Any = getattr(document, path) if path in _FIELDS else None
    if path.startswith("front_matter."):
        value = _value_at(document.front_matter, path.partition(".")[2])
    return None if value is None else json.dumps(value, sort_keys=True, default=str)


def _value_at(values: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path, or None; a key that itself holds the dots comes first."""
    if path in values:
        return values[path]
    head, _, rest = path.partition(".")
    inner = values.get(head)
    return _value_at(inner, rest) if rest and isinstance(inner, Mapping) else None


# ------------------------------------------------------------------ versions of a page

_VERSION = re.compile(r"(?<![^\W_])[vV]?(?:\d+(?:\.(?:\d+|x))+|(?<=[vV])\d+)(?![^\W_])")
_DATE = re.compile(r"(?:19|20)\d\d([-._])\d{1,2}\1\d{1,2}")
_VERSION_ALIASES = frozenset(("latest", "stable", "current", "next"))
"""Folder names that stand for a version."""

_VERSION_MARK = "\0"
"""Replaces a version in a name: no path contains it."""


@lru_cache(maxsize=4096)
def without_versions(path: str) -> str:
    """Return a path without versions: `5.1/x.md`, `latest/x.md` and `x.md` are one page."""
    *folders, name = path.split("/")
    kept = [
        _mask_version(folder) for folder in folders if folder.casefold() not in _VERSION_ALIASES
    ]
    stem, dot, suffix = name.rpartition(".")
    bare = _mask_version(stem)
    # a name that is but a version is its release's note
    bare = bare if re.search(r"[^\W\d_]", bare) else stem
    return "/".join([*(each for each in kept if each != _VERSION_MARK), f"{bare}{dot}{suffix}"])


def _mask_version(part: str) -> str:
    return part if _DATE.search(part) else _VERSION.sub(_VERSION_MARK, part)


def version_of(path: str) -> tuple[int, ...]:
    """Return the first version in a path as numbers; empty if there is none, or a date."""
    found = _VERSION.search(_DATE.sub("", path))
    return tuple(int(number) for number in re.findall(r"\d+", found[0])) if found else ()


def _merge_groups(
    search: Search,
    tools: Tools,
    groups: Sequence[tuple[Sequence[int], Candidate]],
    why: str,
) -> Search:
    """Merge each group of positions into one candidate, with the first one's rank and score and the
    best rank of each retriever.
    """
    candidates = search.candidates
    copies = {at: CopyOf(group[0], why) for group, _ in groups for at in group}
    shown = {
        group[0]: _representative(candidate, [candidates[at] for at in group])
        for group, candidate in groups
    }
    return merge_copies(search, tools, copies, shown)


def _representative(shown: Candidate, members: Sequence[Candidate]) -> Candidate:
    sources = {
        name: min(member.sources[name] for member in members if name in member.sources)
        for each in members
        for name in each.sources
    }
    return replace(shown, score=members[0].score, sources=sources)


def _age_key(document: Document) -> tuple[int, float]:
    """Return a sort key for a document's age: its day, then its last edit; 0 if unknown."""
    day = day_of(document)
    return day.toordinal() if day else 0, 0.0 if document.date else document.edited


_MAX_DATED_COPIES = 500
"""Maximum copies of one text whose dates are compared."""


def dedup_known(search: Search, tools: Tools) -> Search:
    """Make one of known copies, in the best one's place; all their places are named, those that
    were not found, too. A copy of a copy may say something else.
    """
    candidates = search.candidates
    known = {
        candidate.id: tools.snapshot.duplicates.copies(candidate.id) for candidate in candidates
    }
    groups: list[tuple[Sequence[int], Candidate]] = []
    taken: set[int] = set()
    for at, first in enumerate(candidates):
        if at in taken:
            continue
        same = [
            n
            for n, each in enumerate(candidates[at + 1 :], at + 1)
            if n not in taken
            and not each.name_kind
            and (each.id in known[first.id] or first.id in known[each.id])
        ]
        found = [first, *(candidates[n] for n in same)]
        held = {each.id for each in found}
        others = tuple(n for n in known[first.id] if n not in held)
        if others or same:
            taken.update(same)
            shown = first if first.name_kind else _newest_copy(found, others, search, tools)
            also_in = dict.fromkeys(n for each in found for n in (each.id, *each.also_in))
            also_in |= dict.fromkeys(others)
            groups.append(((at, *same), replace(shown, also_in=tuple(also_in))))
    return _merge_groups(search, tools, groups, "a known copy")


def _newest_copy(
    mine: Sequence[Candidate], others: Sequence[ChunkId], search: Search, tools: Tools
) -> Candidate:
    """Return the newest copy, then the best one.

    It may be a copy that no retriever found, if it passes the filters and is no other version.
    """
    catalog = tools.snapshot.catalog
    documents = {n: catalog.documents[catalog.document_of(n)] for n in others[:_MAX_DATED_COPIES]}
    best = max(mine, key=lambda each: _age_key(catalog.documents[each.document]))
    own = catalog.documents[best.document]
    found = {n for candidate in search.candidates for n in (candidate.id, *candidate.also_in)}
    for n in sorted(documents, key=lambda n: _age_key(documents[n]), reverse=True):
        if _age_key(documents[n]) <= _age_key(own):
            break
        is_version = without_versions(documents[n].path) == without_versions(own.path)
        if n not in found and not is_version and search.keep_searchable([n]):
            for chunk in catalog.chunks([n]).values():
                return Candidate(n, catalog.document_of(n), chunk, best.score)
    return best


_ESCAPED_SLASH = "\1"
"""Replaces a slash in a folder's name: `x.md` of `work/home` is not `home/x.md` of `work`."""


def dedup_versions(search: Search, tools: Tools) -> Search:
    """Merge the versions of a page: show the one that the query names, else the highest, the
    newest.
    """
    candidates = search.candidates
    groups: list[tuple[Sequence[int], Candidate]] = []
    for members in _version_groups(candidates, tools):
        found = [candidates[at] for at in members]
        named = [each for each in found if each.name_kind is found[0].name_kind]
        shown = _choose_version(named, search.text, tools.snapshot.catalog)
        otherwise = tuple(
            (each.id, differs)
            for each in found
            if (differs := contradiction(shown.chunk.text, each.chunk.text))
        )
        shown = replace(shown, other_versions=(*shown.other_versions, *otherwise))
        groups.append((members, shown))
    return _merge_groups(search, tools, groups, "a variant")


def _version_groups(candidates: Sequence[Candidate], tools: Tools) -> list[tuple[int, ...]]:
    """Return groups of positions that are versions of one passage, the nearest chunk of each
    document.
    """
    likeness = trigram_similarities(tuple(candidate.chunk.text for candidate in candidates))
    document = np.array([candidate.document for candidate in candidates])

    def are_nearest(a: int, b: int) -> bool:
        of_first, of_second = document == document[a], document == document[b]
        nearest = max(likeness[a, of_second].max(), likeness[of_first, b].max())
        return bool(likeness[a, b] >= nearest)

    groups: dict[int, list[int]] = {}
    taken: set[int] = set()
    for a, b in near_copies(candidates, tools):
        first, second = candidates[a], candidates[b]
        is_free = not taken & {a, b} and b not in groups
        if is_free and are_nearest(a, b) and _are_versions(first, second, tools):
            members = groups.setdefault(a, [a])
            if second.document not in {candidates[at].document for at in members}:
                members.append(b)
                taken.add(b)
    return [tuple(members) for members in groups.values() if len(members) > 1]


def _are_versions(first: Candidate, second: Candidate, tools: Tools) -> bool:
    """Return whether two near copies are one passage of two versions of a page: by their paths and
    headings.

    Two versions may differ in anything. Notes with a version in their names may be about releases:
    they may differ in that version alone.
    """
    documents = tools.snapshot.catalog.documents
    paths = [_full_path(documents[each.document]) for each in (first, second)]
    headings = [_mask_version(" > ".join(each.chunk.heading_path)) for each in (first, second)]
    if (
        paths[0] == paths[1]
        or without_versions(paths[0]) != without_versions(paths[1])
        or headings[0] != headings[1]
        or tools.snapshot.duplicates.verdict(first.id, second.id) == "apart"
    ):
        return False
    names = [path.rpartition("/")[2] for path in paths]
    if names[0] == names[1]:
        return True
    texts = (
        each.chunk.text.replace(".".join(map(str, version_of(name))), "")
        for each, name in zip((first, second), names, strict=True)
    )
    return not second.name_kind and text_difference(*texts) is None


def _full_path(document: Document) -> str:
    """Return a document's path with its folder's name: folders may share paths."""
    return f"{document.folder.replace('/', _ESCAPED_SLASH)}/{document.path}"


def _choose_version(candidates: Sequence[Candidate], query: str, catalog: Catalog) -> Candidate:
    """Return the version to show: named by the query, holding most of its exact terms, highest,
    newest, best.
    """
    documents = [catalog.documents[candidate.document] for candidate in candidates]
    versions = [version_of(_full_path(document)) for document in documents]
    exact = _exact_terms(query)

    def claim(at: int) -> tuple[bool, int, tuple[int, ...], tuple[int, float], int]:
        named = names_version(".".join(map(str, versions[at])), query)
        held = sum(each in candidates[at].chunk.text.casefold() for each in exact)
        return named, held, versions[at], _age_key(documents[at]), -at

    return candidates[max(range(len(candidates)), key=claim)]


def _exact_terms(query: str) -> frozenset[str]:
    """Return the quoted phrases, numbers and identifiers of a query."""
    quoted = QUOTED.findall(query)
    codes = [token for token in tokens(query) if is_identifier(token) or token.isdecimal()]
    return frozenset(each.casefold() for each in (*quoted, *codes))


def names_version(version: str, query: str) -> bool:
    """Return whether a query names a version."""
    asked = (token.strip("\"'`,;:!?()[].").removeprefix("v") for token in query.casefold().split())
    return bool(version) and version in asked
