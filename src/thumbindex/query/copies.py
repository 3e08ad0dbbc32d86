"""The stages that compare the candidates' texts: exact and near copies go, by letters, meaning or a
field; texts that disagree stay as a pair.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from thumbindex.compare.differences import contradiction, kept_apart, leans
from thumbindex.compare.likeness import Similarities, similarities
from thumbindex.model import Candidate, Chunk, Document, Dropped
from thumbindex.ports import Documents, Duplicates, inner_products
from thumbindex.query.stage import Search, Tools

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


def merge(
    search: Search,
    tools: Tools,
    copies: Mapping[int, Copy],
    shown: Mapping[int, Candidate] = MappingProxyType({}),
) -> Search:
    """Take the copies out; each survivor keeps its place and score, and names what it stands for.

    `shown` are candidates in the place of survivors. Elsewhere none goes that the query names.
    """
    candidates = search.candidates
    copies = {
        at: copy for at, copy in copies.items() if copy.of in shown or not candidates[at].name_kind
    }
    merged: dict[int, list[Candidate]] = defaultdict(list)
    for at, copy in sorted(copies.items()):
        merged[copy.of].append(candidates[at])
    kept = {
        at: with_places(shown.get(at, each), merged.get(at, ()))
        for at, each in enumerate(candidates)
        if at not in copies or at in shown
    }
    gone = tuple(
        dropped_for(candidates[at], kept[copy.of], copy.why, tools)
        for at, copy in sorted(copies.items())
        if candidates[at].id != kept[copy.of].id
    )
    return replace(search, candidates=tuple(kept.values()), dropped=(*search.dropped, *gone))


def with_places(survivor: Candidate, others: Iterable[Candidate]) -> Candidate:
    """Name the places of others, each once."""
    places = (n for each in others for n in (each.id, *each.also_in))
    named = dict.fromkeys((*survivor.also_in, *places))
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


def exact_copies(texts: Sequence[str | None], scores: Sequence[float]) -> dict[int, int]:
    """Return each copy's survivor: of equal texts the highest score, then the earliest; nothing is
    folded or normalized, and None is no copy.
    """
    best: dict[str, int] = {}
    for at, text in enumerate(texts):
        if text is not None and (text not in best or scores[at] > scores[best[text]]):
            best[text] = at
    return {
        at: best[text] for at, text in enumerate(texts) if text is not None and best[text] != at
    }


LEAST_BY_LETTERS = 0.4
"""The least 3-gram similarity of copies with like vectors: a vector stands for its text's beginning
and its headings as well.
"""


def dedup_ngram(search: Search, tools: Tools) -> Search:
    """Take out near copies of better candidates, unless a number, identifier or negation
    differs.
    """
    likeness = _by_letters(search.candidates)
    alike = likeness >= tools.settings.dedup_ngram.similarity
    return _without_alike(
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
    alike = _by_meaning(search.candidates, cosines, tools)
    return _without_alike(
        search, tools, alike, lambda at, of: f"cosine {cosines[at, of]:.2f}: a near copy"
    )


def _without_alike(
    search: Search,
    tools: Tools,
    alike: npt.NDArray[np.bool_],
    why: Callable[[int, int], str],
    order: Sequence[int] = (),
) -> Search:
    """Take out what is alike and not told apart; the first in an order survives, else the best."""
    candidates, duplicates = search.candidates, tools.snapshot.duplicates
    order = order or range(len(candidates))
    copies = greedy(
        alike[np.ix_(order, order)],
        lambda a, b: told_apart(candidates[order[a]], candidates[order[b]], duplicates),
    )
    pairs = ((order[at], order[of]) for at, of in copies.items())
    return merge(search, tools, {at: Copy(of, why(at, of)) for at, of in pairs})


def near_copies(candidates: Sequence[Candidate], tools: Tools) -> list[tuple[int, int]]:
    """Return the positions of each two of one kind that `dedup_ngram` or `dedup_semantic` would
    compare further, the better one first.
    """
    by_letters = _by_letters(candidates) >= tools.settings.dedup_ngram.similarity
    alike = by_letters | _by_meaning(candidates, _cosines(candidates, tools), tools)
    pairs = np.argwhere(np.triu(alike, 1)).tolist()
    return [(a, b) for a, b in pairs if _are_of_one_kind(candidates[a], candidates[b])]


def _by_letters(candidates: Sequence[Candidate]) -> Similarities:
    return similarities(tuple(each.chunk.text for each in candidates))


def _cosines(candidates: Sequence[Candidate], tools: Tools) -> npt.NDArray[np.float32]:
    """Return the cosine of each two, NaN where one has no vector."""
    vectors = tools.snapshot.vector.vectors([each.id for each in candidates])
    return inner_products(vectors, vectors)


def _by_meaning(
    candidates: Sequence[Candidate], cosines: npt.NDArray[np.float32], tools: Tools
) -> npt.NDArray[np.bool_]:
    """Return which two have like vectors and share letters: shape (items, items)."""
    document = np.array([each.document for each in candidates])
    settings = tools.settings.dedup_semantic
    least = np.where(document[:, None] == document, settings.within, settings.across)
    return (cosines >= least) & (_by_letters(candidates) >= LEAST_BY_LETTERS)


def _are_of_one_kind(first: Candidate, second: Candidate) -> bool:
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
        return _without_alike(search, tools, alike, lambda *_: "the same meaning as that", order)
    documents = tools.snapshot.catalog.documents
    if settings.method == "exact_field":
        why = "the same field as that"
        keys = [_field(documents[each.document], settings.field) for each in found]
    else:
        why = "the same content as that"
        keys = [each.chunk.text or None for each in found]
    copies = exact_copies(keys, claims)
    return merge(search, tools, {at: Copy(of, why) for at, of in copies.items()})


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
    candidates, documents = search.candidates, tools.snapshot.catalog.documents
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for a, b in near_copies(candidates, tools):
        first, second = candidates[a], candidates[b]
        if _may_disagree(first, second, documents):
            for mine, other in ((a, b), (b, a)):
                differs = contradiction(candidates[mine].chunk.text, candidates[other].chunk.text)
                if differs:
                    found[mine][other] = differs
    series = {at for at, others in found.items() if len(others) >= SERIES}
    if not found.keys() - series:
        return search
    named = []
    for at, each in enumerate(candidates):
        others = () if at in series else sorted(found.get(at, {}).items())
        disagrees = tuple((candidates[n].id, differs) for n, differs in others if n not in series)
        named.append(replace(each, disagrees=disagrees))
    return replace(search, candidates=in_pairs(named))


def _may_disagree(first: Candidate, second: Candidate, documents: Documents) -> bool:
    """Tell whether two chunks speak of one thing.

    Passages of one document under headings of their own do not, nor do notes of a series. Short
    lines ("Desk: 12") lean on their note: in notes of two titles they speak of two
    things.
    """
    mine, other = documents[first.document], documents[second.document]
    if mine is other:
        return first.chunk.heading_path == second.chunk.heading_path
    if are_of_a_series(mine.path, other.path):
        return False
    return mine.title == other.title or not (leans(first.chunk.text) or leans(second.chunk.text))


_NUMBER = re.compile(r"\d+")


def are_of_a_series(path: str, other: str) -> bool:
    """Tell by their paths whether two notes are of a series, as days, releases and chapters are,
    and differ by nature: their names have numbers, and their paths not the same ones.
    """
    names = (each.rpartition("/")[2].rpartition(".")[0] for each in (path, other))
    return all(map(_NUMBER.search, names)) and _NUMBER.findall(path) != _NUMBER.findall(other)


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
