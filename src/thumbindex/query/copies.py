"""The stages that take out copies: known, exact, near by letters, near by meaning, and by a field of the caller's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from thumbindex.compare.differences import differing, kept_apart, word_overlap
from thumbindex.compare.likeness import BY_MEANING, by_letters, worth_reading
from thumbindex.compare.paths import kinship
from thumbindex.errors import UsageError
from thumbindex.model import Candidate, Chunk, ChunkId, Document, Dropped, day_of
from thumbindex.ports import Duplicates, Matrix
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import DeduplicateSettings, DedupSemanticSettings

PAIRS = 1024
"""Pairs of chunks of which it is remembered what keeps them apart: the next query finds the same ones."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Where a copy's survivor stands among the candidates, and what makes it a copy."""

    of: int
    why: str


@dataclass(frozen=True, slots=True)
class Group:
    """Candidates that become one: where they stand, which text is shown, in whose place, and what makes them one."""

    members: tuple[int, ...]  # positions, ascending: what is shown takes the place and the score of the first
    shown: Candidate  # one of them, or a chunk that was no candidate
    why: str
    beside: tuple[ChunkId, ...] = ()  # places that are named, too, though they are no candidates


def greedy(alike: npt.NDArray[np.bool_], apart: Callable[[int, int], str | None]) -> dict[int, int]:
    """Return each copy's survivor: in order, an item is a copy of the first kept one that is alike and not kept apart.

    `alike` has shape (items, items); no survivor is a copy of another, and the first item always survives.
    """
    near: dict[int, list[int]] = {}
    for item, other in np.argwhere(np.tril(alike, -1)).tolist():
        near.setdefault(item, []).append(other)
    copies: dict[int, int] = {}
    for item, others in near.items():
        survivor = next((other for other in others if other not in copies and apart(item, other) is None), None)
        if survivor is not None:
            copies[item] = survivor
    return copies


def told_apart(first: Candidate, second: Candidate, duplicates: Duplicates) -> str | None:
    """Say why two candidates are not copies of each other: their owner's word, else a guard's; None where nothing speaks against it."""
    if duplicates.verdict(first.id, second.id) == "apart":
        return "their owner keeps them apart"
    return _kept_apart(first.chunk, second.chunk)


@lru_cache(maxsize=PAIRS)
def _kept_apart(first: Chunk, second: Chunk) -> str | None:
    return kept_apart(first, second)


def newness(document: Document) -> tuple[int, float]:
    """Return what the newer of two documents has more of: its own date, else the time of its file."""
    return day_of(document).toordinal(), 0.0 if document.date else document.modified


def merge(search: Search, tools: Tools, copies: Mapping[int, Copy]) -> Search:
    """Take the copies out; each survivor keeps its place and score, and counts and names what it stands for."""
    candidates = search.candidates
    merged: dict[int, list[Candidate]] = {}
    for at, copy in sorted(copies.items()):
        merged.setdefault(copy.of, []).append(candidates[at])
    kept = tuple(_with_copies(each, merged[at]) if at in merged else each for at, each in enumerate(candidates) if at not in copies)
    gone = tuple(_dropped(candidates[at], candidates[copy.of], copy.why, tools) for at, copy in sorted(copies.items()))
    return replace(search, candidates=kept, dropped=(*search.dropped, *gone))


def gather(search: Search, tools: Tools, groups: Sequence[Group]) -> Search:
    """Make one candidate of each group: at its best member's place, with that one's score and all members' ranks."""
    candidates = search.candidates
    shown = {group.members[0]: _shown(group, candidates) for group in groups}
    members = {at: group for group in groups for at in group.members}
    kept = tuple(shown.get(at, each) for at, each in enumerate(candidates) if at in shown or at not in members)
    gone = (_dropped(candidates[at], group.shown, group.why, tools) for at, group in sorted(members.items()) if candidates[at].id != group.shown.id)
    return replace(search, candidates=kept, dropped=(*search.dropped, *gone))


def _shown(group: Group, candidates: Sequence[Candidate]) -> Candidate:
    members = [candidates[at] for at in group.members]
    sources = {name: min(each.sources[name] for each in members if name in each.sources) for each in members for name in each.sources}
    first = replace(group.shown, score=members[0].score, sources=sources)
    return _with_places(first, (n for each in members for n in (each.id, *each.also_in)), group.beside)


def _with_copies(survivor: Candidate, copies: Sequence[Candidate]) -> Candidate:
    return _with_places(survivor, (n for each in copies for n in (each.id, *each.also_in)))


def _with_places(survivor: Candidate, *places: Iterable[ChunkId]) -> Candidate:
    """Name further places, each once."""
    named = dict.fromkeys((*survivor.also_in, *(n for each in places for n in each)))
    named.pop(survivor.id, None)
    return replace(survivor, also_in=tuple(named), cluster_size=1 + len(named))


def _dropped(copy: Candidate, survivor: Candidate, why: str, tools: Tools) -> Dropped:
    documents = tools.snapshot.catalog.documents
    reason = f"{why} of {documents[survivor.document].path}, line {survivor.chunk.start_line}"
    return Dropped(documents[copy.document].path, copy.chunk.start_line, reason)


def dedup_hash(search: Search, tools: Tools) -> Search:
    """Keep the best of each group of equal texts, whatever their paths, tags and headings; what the owner keeps apart is no copy."""
    found, duplicates = search.candidates, tools.snapshot.duplicates
    copies = exact_copies([each.chunk.text for each in found], [each.score for each in found])
    copies = {at: of for at, of in copies.items() if duplicates.verdict(found[at].id, found[of].id) != "apart"}
    return merge(search, tools, {at: Copy(of, "a byte-exact copy") for at, of in copies.items()})


def exact_copies(texts: Sequence[str], scores: Sequence[float]) -> dict[int, int]:
    """Return each copy's survivor: of equal texts the highest score, then the earliest; nothing is folded or normalized."""
    best: dict[str, int] = {}
    for at, text in enumerate(texts):
        if text not in best or scores[at] > scores[best[text]]:
            best[text] = at
    return {at: best[text] for at, text in enumerate(texts) if best[text] != at}


MOST_COMPARED = 500
"""Copies of one text whose dates are compared: a footer that stands in thousands of notes is no news in any of them."""


def dedup_known(search: Search, tools: Tools) -> Search:
    """Make one of known copies, in the best one's place; all their places are named, those that were not found, too."""
    known = {each.id: tools.snapshot.duplicates.copies(each.id) for each in search.candidates}
    if not any(known.values()):
        return search
    groups = [
        Group(members, _newest(members, others, search, tools), "a known copy", others)
        for members in copies_of_first([each.id for each in search.candidates], known)
        if (others := _beside(members, known, search.candidates)) or len(members) > 1
    ]
    return gather(search, tools, groups)


def copies_of_first(ids: Sequence[ChunkId], known: Mapping[ChunkId, tuple[ChunkId, ...]]) -> Iterator[tuple[int, ...]]:
    """Yield positions that are one: the first and what it is known to be a copy of; a copy of a copy may say something else."""
    taken: set[int] = set()
    for at, first in enumerate(ids):
        if at not in taken:
            copies = set(known[first])
            same = [n for n in range(at + 1, len(ids)) if n not in taken and (ids[n] in copies or first in known[ids[n]])]
            taken.update(same)
            yield at, *same


def _beside(members: Sequence[int], known: Mapping[ChunkId, tuple[ChunkId, ...]], candidates: Sequence[Candidate]) -> tuple[ChunkId, ...]:
    """Return the first one's copies that are no candidates."""
    held = {candidates[at].id for at in members}
    return tuple(n for n in known[candidates[members[0]].id] if n not in held)


def _newest(members: Sequence[int], others: Sequence[ChunkId], search: Search, tools: Tools) -> Candidate:
    """Return the newest text that may be shown, of equals the best; it may be one that was not found."""
    documents, mine = tools.snapshot.catalog.documents, [search.candidates[at] for at in members]
    best = max(mine, key=lambda each: newness(documents[each.document]))  # of equals the first
    found, of = {n for each in search.candidates for n in (each.id, *each.also_in)}, tools.snapshot.catalog.document_of
    newer = [n for n in others[:MOST_COMPARED] if n not in found and newness(documents[of(n)]) > newness(documents[best.document])]
    by_age = sorted(newer, key=lambda n: newness(documents[of(n)]), reverse=True)
    newest = next((n for n in by_age if _may_be_shown(n, best, search, tools)), None)
    if newest is None:
        return best
    chunk = tools.snapshot.catalog.chunks([newest]).get(newest)
    return best if chunk is None else Candidate(newest, tools.snapshot.catalog.document_of(newest), chunk, best.score)


def _may_be_shown(chunk: ChunkId, best: Candidate, search: Search, tools: Tools) -> bool:
    """Tell whether a chunk that was not found may stand for one that was: let through by filters, and no other version of the page."""
    catalog = tools.snapshot.catalog
    if search.mask is not None and not search.mask[chunk]:
        return False
    mine, other = catalog.documents[best.document], catalog.documents[catalog.document_of(chunk)]
    return mine is not other and kinship(mine.path, other.path) not in {"version", "language"}


def dedup_ngram(search: Search, tools: Tools) -> Search:
    """Take out near copies of better candidates, unless a number, identifier or negation differs."""
    candidates, duplicates = search.candidates, tools.snapshot.duplicates
    similarities = by_letters([each.chunk.text for each in candidates])
    alike = similarities >= tools.settings.dedup_ngram.similarity
    copies = greedy(alike, lambda a, b: told_apart(candidates[a], candidates[b], duplicates))
    return merge(search, tools, {at: Copy(of, f"3-gram similarity {similarities[at, of]:.2f}: a near copy") for at, of in copies.items()})


OVERLAPS = 1024
"""Pairs of texts whose overlap is remembered."""

LEAST_OVERLAP = 0.5
"""The least share of words that copies have in common: a vector stands for its text's beginning and its headings as well."""


def dedup_semantic(search: Search, tools: Tools) -> Search:
    """Take out what says the same as a better candidate, unless a number, identifier or negation differs."""
    candidates = search.candidates
    alike, cosines = by_meaning(candidates, tools)
    copies = greedy(alike, lambda a, b: kept_apart_by_words(candidates[a], candidates[b], tools))
    return merge(search, tools, {at: Copy(of, f"cosine {cosines[at, of]:.2f}: a near copy") for at, of in copies.items()})


def by_meaning(candidates: Sequence[Candidate], tools: Tools) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float32]]:
    """Return which two have vectors that are alike and texts that are worth reading, and all cosines, each of shape (items, items)."""
    cosines = stored_cosines(tools.snapshot.vector.vectors([each.id for each in candidates]))
    alike = cosines >= thresholds([each.document for each in candidates], tools.settings.dedup_semantic)
    return np.asarray(alike & worth_reading([each.chunk.text for each in candidates], BY_MEANING), dtype=np.bool_), cosines


def stored_cosines(vectors: Matrix) -> npt.NDArray[np.float32]:
    """Return cosines each with each, shape (rows, rows); a row that is not there yet is like no other."""
    cosines: npt.NDArray[np.float32] = np.nan_to_num(vectors @ vectors.T, nan=-1.0)
    return cosines


def thresholds(documents: Sequence[int], settings: DedupSemanticSettings) -> npt.NDArray[np.float64]:
    """Return the least cosine of a copy for each two, shape (items, items): one inside a document, another across."""
    of = np.array(documents)
    return np.where(of[:, None] == of[None, :], settings.within, settings.across)


def kept_apart_by_words(first: Candidate, second: Candidate, tools: Tools) -> str | None:
    """Say why two candidates are not copies although their vectors are alike; None where nothing speaks against it."""
    overlap = overlap_of(first.chunk.text, second.chunk.text)
    return f"only {overlap:.2f} of the words in common" if overlap < LEAST_OVERLAP else told_apart(first, second, tools.snapshot.duplicates)


@lru_cache(maxsize=OVERLAPS)
def overlap_of(first: str, second: str) -> float:
    """Return the share of words that two texts have in common, remembered for who asks again."""
    return word_overlap(first, second)


def near_copies(candidates: Sequence[Candidate], tools: Tools) -> list[tuple[int, int]]:
    """Return the positions of each two of one kind that `dedup_ngram` or `dedup_semantic` would compare further, the better one first."""
    pairs = np.argwhere(np.triu(_alike(candidates, tools), 1))
    return [(int(a), int(b)) for a, b in pairs if _of_one_kind(candidates[a], candidates[b])]


def _alike(candidates: Sequence[Candidate], tools: Tools) -> npt.NDArray[np.bool_]:
    texts = [each.chunk.text for each in candidates]
    alike = np.asarray(by_letters(texts) >= tools.settings.dedup_ngram.similarity, dtype=np.bool_)
    for a, b in np.argwhere(np.triu(by_meaning(candidates, tools)[0] & ~alike, 1)):
        alike[a, b] = overlap_of(texts[a], texts[b]) >= LEAST_OVERLAP
    return alike


def _of_one_kind(first: Candidate, second: Candidate) -> bool:
    return first.chunk.kind is second.chunk.kind and first.chunk.language.casefold() == second.chunk.language.casefold()


MOST_SEMANTIC = 500
"""The most items that are compared each with each."""

_WHY = {"exact_field": "the same field", "content_hash": "the same content", "semantic": "the same meaning"}


def deduplicate(search: Search, tools: Tools) -> Search:
    """Take out candidates that are the same by the configured method."""
    settings = tools.settings.deduplicate
    items = [as_item(each, tools) for each in search.candidates[:MOST_SEMANTIC]]  # each with each: what comes later is not compared
    copies = find_copies(items, settings)
    return merge(search, tools, {at: Copy(of, f"{_WHY[settings.method]} as that") for at, of in copies.items()})


def remove_duplicates(items: Sequence[Mapping[str, Any]], settings: DeduplicateSettings | None = None) -> list[dict[str, Any]]:
    """Return the survivors in their order, each with `dedup = {is_duplicate: false, cluster_size: n}`; UsageError as `find_copies`."""
    copies = find_copies(items, settings or DeduplicateSettings())
    sizes = {at: 1 + sum(of == at for of in copies.values()) for at in set(copies.values())}
    return [
        {**item, "dedup": {"is_duplicate": False, "cluster_size": sizes.get(at, 1)}}  # the caller's item stays as it is
        for at, item in enumerate(items)
        if at not in copies
    ]


def find_copies(items: Sequence[Mapping[str, Any]], settings: DeduplicateSettings) -> dict[int, int]:
    """Return each copy's survivor, by position; UsageError for an unknown method or choice, no field, or too many items by meaning."""
    for each in fields(settings):
        if (choices := each.metadata["choices"]) and getattr(settings, each.name) not in choices:
            raise UsageError(f"`query.deduplicate.{each.name}` must be one of {', '.join(choices)}, not {getattr(settings, each.name)!r}.")
    order = _order(items, settings.keep)
    ordered = [items[at] for at in order]
    if settings.method == "semantic":
        copies = by_embedding(ordered, settings.content_field, settings.similarity_threshold)
    elif settings.method == "exact_field":
        if not settings.field:
            raise UsageError("deduplicate by `exact_field` needs `query.deduplicate.field`: name one, as in `front_matter.id`.")
        copies = by_key([field_key(item, settings.field) for item in ordered])
    else:
        copies = by_key([content_key(item, settings.content_field) for item in ordered])
    return {order[at]: order[of] for at, of in copies.items()}


def by_key(keys: Sequence[str | None]) -> dict[int, int]:
    """Return each copy's survivor: the first with an equal key; an item without a key is unique."""
    first: dict[str, int] = {}
    return {at: first[key] for at, key in enumerate(keys) if key is not None and first.setdefault(key, at) != at}


def by_embedding(items: Sequence[Mapping[str, Any]], content_field: str, threshold: float) -> dict[int, int]:
    """Return each copy's survivor, greedily in order by cosine; by content where one of two has no embedding, guards always."""
    if len(items) > MOST_SEMANTIC:
        raise UsageError(
            f"deduplicate by `semantic` compares each item with each and takes at most {MOST_SEMANTIC}, not {len(items)}:"
            " give fewer, or set `query.deduplicate.method` to `content_hash`."
        )
    contents = [value_at(item, content_field) for item in items]
    keys = [content_key(item, content_field) for item in items]
    same = np.array([[a is not None and a == b for b in keys] for a in keys], dtype=np.bool_).reshape(len(items), len(items))
    cosines = _cosines([item.get("embedding") for item in items])
    alike = np.where(np.isnan(cosines), same, cosines >= threshold)
    return greedy(alike, lambda a, b: differing(str(contents[a] or ""), str(contents[b] or "")))


def field_key(item: Mapping[str, Any], path: str) -> str | None:
    """Return a field's value as a key; None where the field is missing."""
    value = value_at(item, path)
    return None if value is None else json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def content_key(item: Mapping[str, Any], path: str) -> str | None:
    """Return a digest of the content; None where it is missing or empty."""
    value = value_at(item, path)
    return hashlib.sha256(str(value).encode("utf-8", "surrogatepass")).hexdigest() if value else None


def value_at(item: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path, or None; a key that itself holds the dots comes first."""
    if path in item:
        return item[path]
    head, _, rest = path.partition(".")
    inner = item.get(head)
    return value_at(inner, rest) if rest and isinstance(inner, Mapping) else None


def as_item(candidate: Candidate, tools: Tools) -> dict[str, Any]:
    """Return a candidate as the general stage sees it; its stored embedding only where meaning is compared."""
    document = tools.snapshot.catalog.documents[candidate.document]
    item = {"content": candidate.chunk.text, "score": candidate.score, "front_matter": document.front_matter}
    facts = {name: getattr(document, name) for name in ("path", "folder", "title", "author", "category", "type", "date")}
    if tools.settings.deduplicate.method == "semantic":
        row = tools.snapshot.vector.vectors([candidate.id])[0]
        item["embedding"] = None if np.isnan(row).any() else row
    return {**facts, **item}


def _order(items: Sequence[Mapping[str, Any]], keep: str) -> list[int]:
    """Return positions so that the one to keep of any group comes first; equal scores keep the earlier one."""
    if keep == "last":
        return list(reversed(range(len(items))))
    if keep == "highest_score":
        return sorted(range(len(items)), key=lambda at: -float(items[at].get("score") or 0.0))
    return list(range(len(items)))


def _cosines(embeddings: Sequence[Any]) -> Any:
    """Return cosines each with each, shape (items, items); NaN where one has no embedding or not the same dimensions."""
    found = np.full((len(embeddings), len(embeddings)), np.nan)
    by_size: dict[int, list[int]] = {}
    for at, embedding in enumerate(embeddings):
        if embedding is not None and len(embedding):
            by_size.setdefault(len(embedding), []).append(at)
    for rows in by_size.values():
        matrix = np.array([embeddings[at] for at in rows], dtype=np.float64)
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        unit = np.divide(matrix, lengths, out=np.full_like(matrix, np.nan), where=lengths > 0)
        found[np.ix_(rows, rows)] = unit @ unit.T
    return found
