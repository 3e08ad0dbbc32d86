"""The stages that compare the candidates' texts: exact and near copies go, by letters, meaning or a
field; texts that disagree stay as a pair.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from thumbindex.compare.differences import (
    differing,
    disagreement,
    kept_apart,
    leans,
    same_form,
    word_overlap,
)
from thumbindex.compare.likeness import BY_MEANING, by_letters, worth_reading
from thumbindex.errors import UsageError
from thumbindex.model import Candidate, Chunk, ChunkId, Document, Dropped
from thumbindex.ports import Catalog, Duplicates, Matrix, inner_products
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import DeduplicateSettings, DedupSemanticSettings

_PAIRS = 1024
"""Pairs of chunks of which it is remembered what keeps them apart: the next query finds the same
ones.
"""


@dataclass(frozen=True, slots=True)
class Copy:
    """Where a copy's survivor stands among the candidates, and what makes it a copy."""

    of: int
    why: str


def greedy(alike: npt.NDArray[np.bool_], apart: Callable[[int, int], str | None]) -> dict[int, int]:
    """Return each copy's survivor: in order, an item is a copy of the first kept one that is alike
    and not kept apart.

    `alike` has shape (items, items); no survivor is a copy of another, and the first item always
    survives.
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


def told_apart(first: Candidate, second: Candidate, duplicates: Duplicates) -> str | None:
    """Say why two candidates are not copies of each other: their owner's word, else a guard's; None
    where nothing speaks against it.
    """
    if duplicates.verdict(first.id, second.id) == "apart":
        return "their owner keeps them apart"
    return _kept_apart(first.chunk, second.chunk)


@lru_cache(maxsize=_PAIRS)
def _kept_apart(first: Chunk, second: Chunk) -> str | None:
    return kept_apart(first, second)


def merge(search: Search, tools: Tools, copies: Mapping[int, Copy]) -> Search:
    """Take the copies out, but none that is named by the query; each survivor keeps its place and
    score, and names what it stands for.
    """
    candidates = search.candidates
    copies = {at: copy for at, copy in copies.items() if not candidates[at].name_kind}
    merged: dict[int, list[Candidate]] = {}
    for at, copy in sorted(copies.items()):
        merged.setdefault(copy.of, []).append(candidates[at])
    places = {
        at: [n for each in own for n in (each.id, *each.also_in)] for at, own in merged.items()
    }
    kept = tuple(
        with_places(each, places[at]) if at in places else each
        for at, each in enumerate(candidates)
        if at not in copies
    )
    gone = tuple(
        dropped_for(candidates[at], candidates[copy.of], copy.why, tools)
        for at, copy in sorted(copies.items())
    )
    return replace(search, candidates=kept, dropped=(*search.dropped, *gone))


def with_places(survivor: Candidate, *places: Iterable[ChunkId]) -> Candidate:
    """Name further places, each once."""
    named = dict.fromkeys((*survivor.also_in, *(n for each in places for n in each)))
    named.pop(survivor.id, None)
    return replace(survivor, also_in=tuple(named), cluster_size=1 + len(named))


def dropped_for(copy: Candidate, survivor: Candidate, why: str, tools: Tools) -> Dropped:
    """Return what is said of a candidate that another one stands for."""
    documents = tools.snapshot.catalog.documents
    reason = f"{why} of {documents[survivor.document].path}, line {survivor.chunk.start_line}"
    return Dropped(documents[copy.document].path, copy.chunk.start_line, reason)


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
    return merge(search, tools, {at: Copy(of, "a byte-exact copy") for at, of in copies.items()})


def exact_copies(texts: Sequence[str], scores: Sequence[float]) -> dict[int, int]:
    """Return each copy's survivor: of equal texts the highest score, then the earliest; nothing is
    folded or normalized.
    """
    best: dict[str, int] = {}
    for at, text in enumerate(texts):
        if text not in best or scores[at] > scores[best[text]]:
            best[text] = at
    return {at: best[text] for at, text in enumerate(texts) if best[text] != at}


def dedup_ngram(search: Search, tools: Tools) -> Search:
    """Take out near copies of better candidates, unless a number, identifier or negation
    differs.
    """
    candidates, duplicates = search.candidates, tools.snapshot.duplicates
    similarities = by_letters([each.chunk.text for each in candidates])
    alike = similarities >= tools.settings.dedup_ngram.similarity
    copies = greedy(alike, lambda a, b: told_apart(candidates[a], candidates[b], duplicates))
    return merge(
        search,
        tools,
        {
            at: Copy(of, f"3-gram similarity {similarities[at, of]:.2f}: a near copy")
            for at, of in copies.items()
        },
    )


OVERLAPS = 1024
"""Pairs of texts whose overlap is remembered."""

LEAST_OVERLAP = 0.5
"""The least share of words that copies have in common: a vector stands for its text's beginning and
its headings as well.
"""


def dedup_semantic(search: Search, tools: Tools) -> Search:
    """Take out what says the same as a better candidate, unless a number, identifier or negation
    differs.
    """
    candidates = search.candidates
    alike, cosines = alike_by_meaning(candidates, tools)
    copies = greedy(alike, lambda a, b: kept_apart_by_words(candidates[a], candidates[b], tools))
    return merge(
        search,
        tools,
        {at: Copy(of, f"cosine {cosines[at, of]:.2f}: a near copy") for at, of in copies.items()},
    )


def alike_by_meaning(
    candidates: Sequence[Candidate], tools: Tools
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float32]]:
    """Return which two have vectors that are alike and texts that are worth reading, and all
    cosines, each of shape (items, items).
    """
    cosines = stored_cosines(tools.snapshot.vector.vectors([each.id for each in candidates]))
    least = thresholds([each.document for each in candidates], tools.settings.dedup_semantic)
    readable = worth_reading([each.chunk.text for each in candidates], BY_MEANING)
    return np.asarray((cosines >= least) & readable, dtype=np.bool_), cosines


def stored_cosines(vectors: Matrix) -> npt.NDArray[np.float32]:
    """Return cosines each with each, shape (rows, rows); a row that is not there yet is like no
    other.
    """
    cosines: npt.NDArray[np.float32] = np.nan_to_num(inner_products(vectors, vectors), nan=-1.0)
    return cosines


def thresholds(
    documents: Sequence[int], settings: DedupSemanticSettings
) -> npt.NDArray[np.float64]:
    """Return the least cosine of a copy for each two, shape (items, items): one inside a document,
    another across.
    """
    of = np.array(documents)
    return np.where(of[:, None] == of[None, :], settings.within, settings.across)


def kept_apart_by_words(first: Candidate, second: Candidate, tools: Tools) -> str | None:
    """Say why two candidates are not copies although their vectors are alike; None where nothing
    speaks against it.
    """
    overlap = overlap_of(first.chunk.text, second.chunk.text)
    if overlap < LEAST_OVERLAP:
        return f"only {overlap:.2f} of the words in common"
    return told_apart(first, second, tools.snapshot.duplicates)


@lru_cache(maxsize=OVERLAPS)
def overlap_of(first: str, second: str) -> float:
    """Return the share of words that two texts have in common, remembered for who asks again."""
    return word_overlap(first, second)


def near_copies(candidates: Sequence[Candidate], tools: Tools) -> list[tuple[int, int]]:
    """Return the positions of each two of one kind that `dedup_ngram` or `dedup_semantic` would
    compare further, the better one first.
    """
    pairs = np.argwhere(np.triu(_alike(candidates, tools), 1))
    return [(int(a), int(b)) for a, b in pairs if _of_one_kind(candidates[a], candidates[b])]


def _alike(candidates: Sequence[Candidate], tools: Tools) -> npt.NDArray[np.bool_]:
    texts = [each.chunk.text for each in candidates]
    alike = np.asarray(by_letters(texts) >= tools.settings.dedup_ngram.similarity, dtype=np.bool_)
    for a, b in np.argwhere(np.triu(alike_by_meaning(candidates, tools)[0] & ~alike, 1)):
        alike[a, b] = overlap_of(texts[a], texts[b]) >= LEAST_OVERLAP
    return alike


def _of_one_kind(first: Candidate, second: Candidate) -> bool:
    return (
        first.chunk.kind is second.chunk.kind
        and first.chunk.language.casefold() == second.chunk.language.casefold()
    )


MOST_SEMANTIC = 500
"""The most items that are compared each with each."""

_WHY = {
    "exact_field": "the same field",
    "content_hash": "the same content",
    "semantic": "the same meaning",
}


def deduplicate(search: Search, tools: Tools) -> Search:
    """Take out candidates that are the same by the configured method."""
    settings = tools.settings.deduplicate
    # each with each: what comes later is not compared
    items = [as_item(each, tools) for each in search.candidates[:MOST_SEMANTIC]]
    copies = find_copies(items, settings)
    return merge(
        search,
        tools,
        {at: Copy(of, f"{_WHY[settings.method]} as that") for at, of in copies.items()},
    )


def find_copies(
    items: Sequence[Mapping[str, Any]], settings: DeduplicateSettings
) -> dict[int, int]:
    """Return each copy's survivor, by position; UsageError for an unknown method or choice, no
    field, or too many items by meaning.
    """
    for each in fields(settings):
        if (choices := each.metadata["choices"]) and getattr(settings, each.name) not in choices:
            raise UsageError(
                f"`query.deduplicate.{each.name}` must be one of {', '.join(choices)}, not "
                f"{getattr(settings, each.name)!r}."
            )
    order = _order(items, settings.keep)
    ordered = [items[at] for at in order]
    if settings.method == "semantic":
        copies = by_embedding(ordered, settings.content_field, settings.similarity_threshold)
    elif settings.method == "exact_field":
        if not settings.field:
            raise UsageError(
                "deduplicate by `exact_field` needs `query.deduplicate.field`: name one, as "
                "in `front_matter.id`."
            )
        copies = by_key([field_key(item, settings.field) for item in ordered])
    else:
        copies = by_key([content_key(item, settings.content_field) for item in ordered])
    return {order[at]: order[of] for at, of in copies.items()}


def by_key(keys: Sequence[str | None]) -> dict[int, int]:
    """Return each copy's survivor: the first with an equal key; an item without a key is unique."""
    first: dict[str, int] = {}
    return {
        at: first[key]
        for at, key in enumerate(keys)
        if key is not None and first.setdefault(key, at) != at
    }


def by_embedding(
    items: Sequence[Mapping[str, Any]], content_field: str, threshold: float
) -> dict[int, int]:
    """Return each copy's survivor, greedily in order by cosine; by content where one of two has no
    embedding, guards always.
    """
    if len(items) > MOST_SEMANTIC:
        raise UsageError(
            "deduplicate by `semantic` compares each item with each and takes at most "
            f"{MOST_SEMANTIC}, not {len(items)}:"
            " give fewer, or set `query.deduplicate.method` to `content_hash`."
        )
    contents = [value_at(item, content_field) for item in items]
    keys = [content_key(item, content_field) for item in items]
    same = np.array(
        [[a is not None and a == b for b in keys] for a in keys], dtype=np.bool_
    ).reshape(len(items), len(items))
    cosines = _cosines([item.get("embedding") for item in items])
    alike = np.where(np.isnan(cosines), same, cosines >= threshold)
    return greedy(alike, lambda a, b: differing(str(contents[a] or ""), str(contents[b] or "")))


def field_key(item: Mapping[str, Any], path: str) -> str | None:
    """Return a field's value as a key; None where the field is missing."""
    value = value_at(item, path)
    if value is None:
        return None
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def content_key(item: Mapping[str, Any], path: str) -> str | None:
    """Return a digest of the content; None where it is missing or empty."""
    value = value_at(item, path)
    if not value:
        return None
    return hashlib.sha256(str(value).encode("utf-8", "surrogatepass")).hexdigest()


def value_at(item: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path, or None; a key that itself holds the dots comes first."""
    if path in item:
        return item[path]
    head, _, rest = path.partition(".")
    inner = item.get(head)
    return value_at(inner, rest) if rest and isinstance(inner, Mapping) else None


def as_item(candidate: Candidate, tools: Tools) -> dict[str, Any]:
    """Return a candidate as the general stage sees it; its stored embedding only where meaning is
    compared.
    """
    document = tools.snapshot.catalog.documents[candidate.document]
    item = {
        "content": candidate.chunk.text,
        "score": candidate.score,
        "front_matter": document.front_matter,
    }
    facts = {
        name: getattr(document, name)
        for name in ("path", "folder", "title", "author", "category", "type", "date")
    }
    if tools.settings.deduplicate.method == "semantic":
        row = tools.snapshot.vector.vectors([candidate.id])[0]
        item["embedding"] = None if np.isnan(row).any() else row
    return {**facts, **item}


def _order(items: Sequence[Mapping[str, Any]], keep: str) -> list[int]:
    """Return positions so that the one to keep of any group comes first; equal scores keep the
    earlier one.
    """
    if keep == "last":
        return list(reversed(range(len(items))))
    if keep == "highest_score":
        return sorted(range(len(items)), key=lambda at: -float(items[at].get("score") or 0.0))
    return list(range(len(items)))


def _cosines(embeddings: Sequence[Any]) -> Any:
    """Return cosines each with each, shape (items, items); NaN where one has no embedding or not
    the same dimensions.
    """
    found = np.full((len(embeddings), len(embeddings)), np.nan)
    by_size: dict[int, list[int]] = {}
    for at, embedding in enumerate(embeddings):
        if embedding is not None and len(embedding):
            by_size.setdefault(len(embedding), []).append(at)
    for rows in by_size.values():
        matrix = np.array([embeddings[at] for at in rows], dtype=np.float64)
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        unit = np.divide(matrix, lengths, out=np.full_like(matrix, np.nan), where=lengths > 0)
        found[np.ix_(rows, rows)] = inner_products(unit, unit)
    return found


_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


SERIES = 4
"""Texts that disagree with so many others are a series, as release notes are, and no
contradiction.
"""


def contradict(search: Search, tools: Tools) -> Search:
    """Put near copies that disagree next to each other, each naming the other and the words; the
    pair has the better one's score.
    """
    candidates = search.candidates
    found: dict[int, dict[int, str]] = defaultdict(dict)
    rows: dict[ChunkId, bool] = {}  # is this one of a row of pages that are one form filled in?
    for a, b in near_copies(candidates, tools):
        first, second = candidates[a], candidates[b]
        if are_parallel(first, second):
            continue
        differs = (
            disagreement(first.chunk.text, second.chunk.text),
            disagreement(second.chunk.text, first.chunk.text),
        )
        if any(differs) and not are_of_one_template(first, second, tools.snapshot.catalog, rows):
            for mine, other, words in ((a, b, differs[0]), (b, a, differs[1])):
                if words:
                    found[mine][other] = words
    if not found:
        return search
    few = without_series(found, SERIES)
    named = []
    for at, each in enumerate(candidates):
        others = sorted(few.get(at, {}).items())
        disagrees = tuple((candidates[other].id, differs) for other, differs in others)
        named.append(replace(each, disagrees=disagrees))
    return replace(search, candidates=in_pairs(named))


def are_parallel(first: Candidate, second: Candidate) -> bool:
    """Tell whether two chunks are parallel passages of one document, under headings of their own:
    an author who says otherwise of something else.
    """
    return (
        first.document == second.document and first.chunk.heading_path != second.chunk.heading_path
    )


_DAY = re.compile(r"(?<!\d)(?:19|20)\d\d(?:([-._/]?)\d\d?\1\d\d?|[-._ ]?[wW]\d\d?)(?!\d)(?=[^/]*$)")
_RELEASE = re.compile(r"[vV]?\d+\.\d+(?:[-+.]\w+)*")

BESIDE = 8
"""Notes before and behind one, by path, among which others of its template are looked for."""


def are_of_one_template(
    first: Candidate, second: Candidate, catalog: Catalog, rows: dict[ChunkId, bool]
) -> bool:
    """Tell whether two chunks are the same place of two pages that differ by nature: of two days or
    releases, or filled in from one form.

    A form is known by three notes of a folder that fill it in, each in another way, and by short
    lines: they lean on the page for what they speak of. `rows` remembers which chunks are of one.
    """
    mine, other = (catalog.documents[each.document] for each in (first, second))
    if mine is other:
        return False
    if are_of_two_days(mine.path, other.path):
        return True
    if (
        _folder_of(mine) != _folder_of(other)
        or not leans(first.chunk.text)
        or not leans(second.chunk.text)
    ):
        return False
    if first.id not in rows:
        rows[first.id] = _is_one_of_a_row(first, catalog)
    return rows[first.id]


def are_of_two_days(path: str, other: str) -> bool:
    """Tell by their paths whether two notes are of two days or releases, and differ by nature."""
    (name, mark), (other_name, other_mark) = day_or_release(path), day_or_release(other)
    return bool(mark) and name == other_name and mark != other_mark


def day_or_release(path: str) -> tuple[str, str]:
    """Return a note's name without the day that it is of, or the release that it is called by, and
    that; two empty texts where it has neither.
    """
    stem = path.rpartition(".")[0]
    name = stem.rpartition("/")[2]
    if day := _DAY.search(stem):
        return f"{stem[: day.start()].rpartition('/')[2]}\0{stem[day.end() :]}", day[0]
    return ("\0", name) if _RELEASE.fullmatch(name) else ("", "")


def _folder_of(document: Document) -> tuple[str, str]:
    return document.folder, document.path.rpartition("/")[0]


def _is_one_of_a_row(own: Candidate, catalog: Catalog) -> bool:
    """Tell whether two other notes of the folder have another text of the same form in the same
    place.
    """
    documents, at = catalog.documents, own.id - catalog.chunk_ids(own.document).start
    near = catalog.beside(own.document, BESIDE)
    beside = [
        catalog.chunk_ids(n)
        for n in near
        if _folder_of(documents[n]) == _folder_of(documents[own.document])
    ]
    texts = {
        each.text
        for each in catalog.chunks([ChunkId(ids[at]) for ids in beside if len(ids) > at]).values()
    }
    return sum(same_form(own.chunk.text, text) for text in texts - {own.chunk.text}) > 1


def without_series(
    found: Mapping[int, Mapping[int, str]], most: int
) -> dict[int, Mapping[int, str]]:
    """Leave out texts that disagree with so many others that they are a series, as release notes
    are; and what disagrees with those only.
    """
    series = {at for at, others in found.items() if len(others) >= most}
    kept = {
        at: {other: differs for other, differs in others.items() if other not in series}
        for at, others in found.items()
        if at not in series
    }
    return {at: others for at, others in kept.items() if others}


def in_pairs(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return candidates with each partner right behind the first of a pair, with the first one's
    score; the others keep their order.
    """
    if not any(each.disagrees for each in candidates):
        return tuple(candidates)
    ordered = with_partners(
        candidates, lambda each: each.id, lambda each: {n for n, _ in each.disagrees}
    )
    raised: list[Candidate] = []
    for each in ordered:
        least = each.score
        if raised and any(n == raised[-1].id for n, _ in each.disagrees):
            least = max(least, raised[-1].score)
        raised.append(each.scored(least))
    return tuple(raised)


def with_partners(
    items: Sequence[_Item],
    key: Callable[[_Item], _Key],
    partners: Callable[[_Item], AbstractSet[_Key]],
) -> list[_Item]:
    """Return the items in order, but each followed directly by those of its partners that have not
    come yet.
    """
    by_key = {key(item): item for item in items}
    ordered: dict[_Key, _Item] = {}
    for own, item in by_key.items():
        if own not in ordered:
            wanted = partners(item)
            ordered[own] = item
            ordered |= {
                other: each
                for other, each in by_key.items()
                if other in wanted and other not in ordered
            }
    return list(ordered.values())
