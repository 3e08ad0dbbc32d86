"""The stages that merge copies of a chunk and versions of a document."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from thumbindex.compare.differences import chunk_difference, difference, text_difference
from thumbindex.compare.trigrams import SimilarityMatrix, trigram_similarities
from thumbindex.conflict_copies import conflict_original
from thumbindex.model import Candidate, Chunk, ChunkId, Document, DocumentId, DroppedChunk, day_of
from thumbindex.ports import Snapshot, inner_products
from thumbindex.query.in_force import Retirements, lowered_notes
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import COMPARED_FIELDS

_CACHED_PAIRS = 1024
"""Number of pairs of chunks whose difference is cached."""


@dataclass(frozen=True, slots=True)
class CopyOf:
    """The position of the candidate that a copy is merged into, and the reason."""

    survivor: int
    reason: str


def assign_survivors(
    alike: npt.NDArray[np.bool_], apart: Callable[[int, int], str | None]
) -> dict[int, int]:
    """Return the survivor of each copy: the first earlier item that is similar to the copy.

    A survivor is never a copy itself. `alike` is a mask of similar items, shape (items, items).
    `apart` returns why two similar items are not copies, or None if they are.
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


def _reason_apart(first: Candidate, second: Candidate, snapshot: Snapshot) -> str | None:
    """Return why two candidates are not copies, or None if they may be copies."""
    if snapshot.duplicates.verdict(first.id, second.id) == "apart":
        return "the user marked them as distinct"
    documents = snapshot.catalog.documents
    if any(conflict_original(documents[n].path) for n in (first.document, second.document)):
        return difference(first.chunk.text, second.chunk.text) or None
    return _difference(first.chunk, second.chunk)


@lru_cache(maxsize=_CACHED_PAIRS)
def _difference(first: Chunk, second: Chunk) -> str | None:
    return chunk_difference(first, second)


def merge_copies(
    search: Search,
    tools: Tools,
    copies: Mapping[int, CopyOf],
    shown: Mapping[int, Candidate] = MappingProxyType({}),
) -> Search:
    """Remove the copies, and add the removed chunks to `also_in` of the survivors.

    `copies` and `shown` are keyed by position. `shown` has replacements for survivors.
    """
    candidates = search.candidates
    # a candidate that the query names is removed only if `shown` replaces the survivor
    copies = {
        at: copy
        for at, copy in copies.items()
        if copy.survivor in shown or not candidates[at].name_kind
    }
    merged: dict[int, list[Candidate]] = defaultdict(list)
    for at, copy in sorted(copies.items()):
        merged[copy.survivor].append(candidates[at])
    survivors = {
        at: _add_places(shown.get(at, candidate), merged.get(at, ()))
        for at, candidate in enumerate(candidates)
        if at not in copies or at in shown
    }
    dropped = tuple(
        _dropped_copy(candidates[at], survivors[copy.survivor], copy.reason, tools)
        for at, copy in sorted(copies.items())
        if candidates[at].id != survivors[copy.survivor].id
    )
    return replace(
        search, candidates=tuple(survivors.values()), dropped=(*search.dropped, *dropped)
    )


def _add_places(survivor: Candidate, others: Sequence[Candidate]) -> Candidate:
    if not others:
        return survivor
    chunks = (n for other in others for n in (other.id, *other.also_in))
    also_in = dict.fromkeys((*survivor.also_in, *chunks))
    also_in.pop(survivor.id, None)
    return replace(survivor, also_in=tuple(also_in), cluster_size=1 + len(also_in))


def _dropped_copy(copy: Candidate, survivor: Candidate, why: str, tools: Tools) -> DroppedChunk:
    documents = tools.snapshot.catalog.documents
    reason = f"{why} of {documents[survivor.document].path}, line {survivor.chunk.start_line}"
    return DroppedChunk(documents[copy.document].path, copy.chunk.start_line, reason)


def dedup_hash(search: Search, tools: Tools) -> Search:
    """Keep the highest-scoring candidate of each group of identical texts.

    Texts that the user marked as distinct are not merged.
    """
    candidates, duplicates = search.candidates, tools.snapshot.duplicates
    copies = exact_copies(
        [candidate.chunk.text for candidate in candidates],
        [candidate.score for candidate in candidates],
    )
    copies = {
        at: of
        for at, of in copies.items()
        if duplicates.verdict(candidates[at].id, candidates[of].id) != "apart"
    }
    return merge_copies(
        search, tools, {at: CopyOf(of, "a byte-exact copy") for at, of in copies.items()}
    )


def exact_copies(texts: Sequence[str | None], scores: Sequence[float]) -> dict[int, int]:
    """Return the survivor of each copy: the item with an identical text and the highest score.

    If scores are equal, the first item survives. An item without a text (None) is never a copy.
    """
    best: dict[str, int] = {}
    for at, text in enumerate(texts):
        if text is not None and (text not in best or scores[at] > scores[best[text]]):
            best[text] = at
    return {
        at: best[text] for at, text in enumerate(texts) if text is not None and best[text] != at
    }


_MIN_NGRAM_SIMILARITY = 0.4
"""Minimum 3-gram similarity of semantic copies. It is needed because vectors include the headings,
so different texts under equal headings have similar vectors.
"""


def dedup_ngram(search: Search, tools: Tools) -> Search:
    """Merge candidates with similar 3-grams.

    Candidates with different numbers, identifiers or negations are not merged.
    """
    similarities = _ngram_similarities(search.candidates)
    alike = similarities >= tools.settings.dedup_ngram.similarity
    return _merge_similar(
        search,
        tools,
        alike,
        lambda at, of: f"3-gram similarity {similarities[at, of]:.2f}: a near copy",
    )


def dedup_semantic(search: Search, tools: Tools) -> Search:
    """Merge candidates with similar vectors.

    Candidates with different numbers, identifiers or negations are not merged.
    """
    cosines = _cosines(search.candidates, tools)
    alike = _are_semantic_copies(search.candidates, cosines, tools)
    return _merge_similar(
        search, tools, alike, lambda at, of: f"cosine {cosines[at, of]:.2f}: a near copy"
    )


def _merge_similar(
    search: Search,
    tools: Tools,
    alike: npt.NDArray[np.bool_],
    why: Callable[[int, int], str],
    order: Sequence[int] = (),
) -> Search:
    """Merge the pairs in `alike` that may be copies.

    The candidate of a pair that comes first in `order` survives.
    """
    candidates = search.candidates
    order = order or range(len(candidates))
    copies = assign_survivors(
        alike[np.ix_(order, order)],
        lambda a, b: _reason_apart(candidates[order[a]], candidates[order[b]], tools.snapshot),
    )
    pairs = ((order[at], order[of]) for at, of in copies.items())
    return merge_copies(search, tools, {at: CopyOf(of, why(at, of)) for at, of in pairs})


def near_copies(candidates: Sequence[Candidate], tools: Tools) -> list[tuple[int, int]]:
    """Return the positions of pairs of candidates with similar 3-grams or vectors.

    The better candidate of a pair comes first. Chunks with different block types or code languages
    are not paired.
    """
    by_letters = _ngram_similarities(candidates) >= tools.settings.dedup_ngram.similarity
    alike = by_letters | _are_semantic_copies(candidates, _cosines(candidates, tools), tools)
    pairs = np.argwhere(np.triu(alike, 1)).tolist()
    return [(a, b) for a, b in pairs if _have_same_kind(candidates[a], candidates[b])]


def _ngram_similarities(candidates: Sequence[Candidate]) -> SimilarityMatrix:
    return trigram_similarities(tuple(candidate.chunk.text for candidate in candidates))


def _cosines(candidates: Sequence[Candidate], tools: Tools) -> npt.NDArray[np.float32]:
    """Return the cosines of all pairs, shape (items, items). A missing vector results in NaN."""
    vectors = tools.snapshot.vector.exact_vectors([candidate.id for candidate in candidates])
    return inner_products(vectors, vectors)


def _are_semantic_copies(
    candidates: Sequence[Candidate], cosines: npt.NDArray[np.float32], tools: Tools
) -> npt.NDArray[np.bool_]:
    """Return a mask of the pairs with similar vectors and similar 3-grams, shape (items, items)."""
    document = np.array([candidate.document for candidate in candidates])
    settings = tools.settings.dedup_semantic
    is_same = document[:, None] == document
    minimum = np.where(is_same, settings.within_document, settings.across_documents)
    return (cosines >= minimum) & (_ngram_similarities(candidates) >= _MIN_NGRAM_SIMILARITY)


def _have_same_kind(first: Candidate, second: Candidate) -> bool:
    return (
        first.chunk.kind is second.chunk.kind
        and first.chunk.language.casefold() == second.chunk.language.casefold()
    )


def deduplicate(search: Search, tools: Tools) -> Search:
    """Keep one candidate of each group of duplicates, as configured in `query.deduplicate`."""
    settings, candidates = tools.settings.deduplicate, search.candidates
    priorities: Sequence[float] = {
        "first": range(0, -len(candidates), -1),
        "last": range(len(candidates)),
        "highest_score": [candidate.score for candidate in candidates],
    }[settings.keep]
    if settings.method == "semantic":
        cosines = _cosines(candidates, tools)
        texts = np.array([candidate.chunk.text for candidate in candidates], dtype=object)
        same = np.isnan(cosines) & (texts[:, None] == texts)
        alike = same | (cosines >= settings.similarity_threshold)
        order = sorted(range(len(candidates)), key=lambda at: -priorities[at])
        return _merge_similar(search, tools, alike, lambda *_: "same meaning: a copy", order)
    documents = tools.snapshot.catalog.documents
    if settings.method == "exact_field":
        why = "same field: a copy"
        keys = [_field(documents[candidate.document], settings.field) for candidate in candidates]
    else:
        why = "same content: a copy"
        keys = [candidate.chunk.text or None for candidate in candidates]
    copies = exact_copies(keys, priorities)
    return merge_copies(search, tools, {at: CopyOf(of, why) for at, of in copies.items()})


def _field(document: Document, path: str) -> str | None:
    """Return a field of a document as JSON, or None.

    A path such as `properties.book.id` names a property.
    """
    value: Any = getattr(document, path) if path in COMPARED_FIELDS else None
    if path.startswith("properties."):
        value = document.properties.get(path.partition(".")[2].lower())
    return None if value is None else json.dumps(value, sort_keys=True, default=str)


# ------------------------------------------------------------------ versions of a document

_VERSION = re.compile(r"(?<![^\W_])[vV]?(?:\d+(?:\.(?:\d+|x))+|(?<=[vV])\d+)(?![^\W_])")
_DATE = re.compile(r"(?:19|20)\d\d([-._])\d{1,2}\1\d{1,2}")
_VERSION_ALIASES = frozenset(("latest", "stable", "current", "next"))
"""Names of version folders without a number."""

_VERSION_MARK = "\0"
"""Placeholder for a version in a name. No path contains it."""


@lru_cache(maxsize=4096)
def without_versions(path: str) -> str:
    """Return a path without versions: `5.1/x.md` and `latest/x.md` become `x.md`."""
    *folders, name = path.split("/")
    masked = [
        _mask_version(folder) for folder in folders if folder.casefold() not in _VERSION_ALIASES
    ]
    stem, dot, suffix = name.rpartition(".")
    bare = _mask_version(stem)
    # if a file name is only a version, the note is about that release
    bare = bare if re.search(r"[^\W\d_]", bare) else stem
    folders = [folder for folder in masked if folder != _VERSION_MARK]
    return "/".join([*folders, f"{bare}{dot}{suffix}"])


def _mask_version(part: str) -> str:
    return part if _DATE.search(part) else _VERSION.sub(_VERSION_MARK, part)


def version_of(path: str) -> tuple[int, ...]:
    """Return the first version in a path as numbers; empty if there is none. Dates are ignored."""
    match = _VERSION.search(_DATE.sub("", path))
    return tuple(int(number) for number in re.findall(r"\d+", match[0])) if match else ()


def _merge_groups(
    search: Search,
    tools: Tools,
    groups: Sequence[tuple[Sequence[int], Candidate]],
    why: str,
) -> Search:
    """For each group, replace the candidates at the given positions by the given candidate."""
    candidates = search.candidates
    copies = {at: CopyOf(group[0], why) for group, _ in groups for at in group}
    shown = {
        group[0]: _representative(candidate, [candidates[at] for at in group])
        for group, candidate in groups
    }
    return merge_copies(search, tools, copies, shown)


def _representative(shown: Candidate, members: Sequence[Candidate]) -> Candidate:
    """Return `shown` with the score of the first member.

    For each retriever, `shown` gets the best rank of any member.
    """
    sources = {
        name: min(member.sources[name] for member in members if name in member.sources)
        for version in members
        for name in version.sources
    }
    return replace(shown, score=members[0].score, sources=sources)


_AgeKey = tuple[int, float]


def _age_key(document: Document) -> _AgeKey:
    """Return a key that sorts documents from oldest to newest, by day and then by last edit.

    Documents without a day come first.
    """
    day = day_of(document)
    return day.toordinal() if day else 0, 0.0 if document.date else document.edited


_MAX_DATED_COPIES = 500
"""Only this many further copies of a candidate are compared by date to find the newest copy."""


def dedup_known(search: Search, tools: Tools) -> Search:
    """Merge copies that indexing found. The merged candidate gets the rank of the best copy.

    It lists the places of all copies, including copies that no retriever found. Only direct copies
    are merged, because a copy of a copy may differ in meaning.
    """
    candidates = search.candidates
    copies = {
        candidate.id: tools.snapshot.duplicates.copies(candidate.id) for candidate in candidates
    }
    lowered = lowered_notes(search, tools, (n for known in copies.values() for n in known))
    groups: list[tuple[Sequence[int], Candidate]] = []
    merged: set[int] = set()
    for at, first in enumerate(candidates):
        if at in merged:
            continue
        same = [
            n
            for n, other in enumerate(candidates[at + 1 :], at + 1)
            if n not in merged
            and not other.name_kind
            and (other.id in copies[first.id] or first.id in copies[other.id])
        ]
        members = [first, *(candidates[n] for n in same)]
        ids = {member.id for member in members}
        others = tuple(n for n in copies[first.id] if n not in ids)
        if others or same:
            merged.update(same)
            shown = first
            if not first.name_kind:
                shown = _newest_copy(members, others, lowered, search, tools)
            also_in = dict.fromkeys(n for member in members for n in (member.id, *member.also_in))
            also_in |= dict.fromkeys(others)
            groups.append(((at, *same), replace(shown, also_in=tuple(also_in))))
    return _merge_groups(search, tools, groups, "found during indexing: a copy")


def _newest_copy(
    candidates: Sequence[Candidate],
    others: Sequence[ChunkId],
    lowered: Retirements,
    search: Search,
    tools: Tools,
) -> Candidate:
    """Return the newest candidate, or a newer copy in `others` that no retriever found.

    A copy in force is preferred to a newer one that is retired.
    """
    catalog = tools.snapshot.catalog

    def priority(document: DocumentId) -> tuple[bool, _AgeKey]:
        return document not in lowered, _age_key(catalog.documents[document])

    best = max(candidates, key=lambda each: priority(each.document))
    best_path = without_versions(catalog.documents[best.document].path)
    found = {n for candidate in search.candidates for n in (candidate.id, *candidate.also_in)}
    ranks = {n: priority(catalog.document_of(n)) for n in others[:_MAX_DATED_COPIES]}
    for n in sorted(ranks, key=lambda n: ranks[n], reverse=True):
        if ranks[n] <= priority(best.document):
            break
        is_version = without_versions(catalog.documents[catalog.document_of(n)].path) == best_path
        # other versions of the document, and copies outside the filters, are not shown
        if n not in found and not is_version and search.keep_searchable([n]):
            for chunk in catalog.chunks([n]).values():
                return Candidate(n, catalog.document_of(n), chunk, best.score)
    return best


def dedup_versions(search: Search, tools: Tools) -> Search:
    """Merge near copies of a chunk from several versions of a document.

    `_choose_version` selects the copy that is shown.
    """
    candidates = search.candidates
    lowered = lowered_notes(search, tools)
    groups: list[tuple[Sequence[int], Candidate]] = []
    for positions in _version_groups(candidates, tools):
        versions = [candidates[at] for at in positions]
        # if the query names the first version, only versions that it names are shown
        named = [version for version in versions if version.name_kind is versions[0].name_kind]
        groups.append((positions, _choose_version(named, lowered, search, tools)))
    return _merge_groups(search, tools, groups, "another version")


def _version_groups(candidates: Sequence[Candidate], tools: Tools) -> list[tuple[int, ...]]:
    """Group the positions of candidates that are versions of the same chunk.

    A group has at most one chunk of each document.
    """
    similarities = trigram_similarities(tuple(candidate.chunk.text for candidate in candidates))
    document = np.array([candidate.document for candidate in candidates])

    def are_nearest(a: int, b: int) -> bool:
        in_first, in_second = document == document[a], document == document[b]
        nearest = max(similarities[a, in_second].max(), similarities[in_first, b].max())
        return bool(similarities[a, b] >= nearest)

    groups: dict[int, list[int]] = {}
    grouped: set[int] = set()
    for a, b in near_copies(candidates, tools):
        first, second = candidates[a], candidates[b]
        is_free = not grouped & {a, b} and b not in groups
        if is_free and are_nearest(a, b) and _are_versions(first, second, tools):
            members = groups.setdefault(a, [a])
            if second.document not in {candidates[at].document for at in members}:
                members.append(b)
                grouped.add(b)
    return [tuple(members) for members in groups.values() if len(members) > 1]


def _are_versions(first: Candidate, second: Candidate, tools: Tools) -> bool:
    """Return whether two near copies are from versions of a document: `5.1/x.md`, `5.2/x.md`."""
    documents = tools.snapshot.catalog.documents
    paths = [_full_path(documents[candidate.document]) for candidate in (first, second)]
    headings = [
        _mask_version(" > ".join(candidate.chunk.heading_path)) for candidate in (first, second)
    ]
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
    # the file names differ: each document may be about one release, so the texts must agree
    texts = (
        _without_version(candidate.chunk.text, name)
        for candidate, name in zip((first, second), names, strict=True)
    )
    return not second.name_kind and text_difference(*texts) is None


def _without_version(text: str, path: str) -> str:
    version = re.escape(".".join(map(str, version_of(path))))
    return re.sub(rf"(?<![\w.])[vV]?{version}(?!\w|\.\d)", "", text) if version else text


def _full_path(document: Document) -> str:
    return f"{document.folder}/{document.path}"


def _choose_version(
    candidates: Sequence[Candidate], lowered: Retirements, search: Search, tools: Tools
) -> Candidate:
    """Return the version that the query names, or else one in force.

    Ties go to the highest version, then to the newest document.
    """
    documents = [tools.snapshot.catalog.documents[candidate.document] for candidate in candidates]
    versions = [version_of(_full_path(document)) for document in documents]

    def priority(at: int) -> tuple[bool, bool, tuple[int, ...], _AgeKey, int]:
        is_named = names_version(".".join(map(str, versions[at])), search.text)
        in_force = candidates[at].document not in lowered
        return is_named, in_force, versions[at], _age_key(documents[at]), -at

    return candidates[max(range(len(candidates)), key=priority)]


def names_version(version: str, query: str) -> bool:
    """Return whether a query contains a version."""
    parts = (token.strip("\"'`,;:!?()[].").removeprefix("v") for token in query.casefold().split())
    return bool(version) and version in parts
