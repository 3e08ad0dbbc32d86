"""Stage deduplicate: the general one, by a field, by content or by meaning; usable alone on a caller's own items."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from thumbindex.errors import UsageError
from thumbindex.model import Candidate
from thumbindex.query.guards import differing
from thumbindex.query.merge import Copy, greedy, merge
from thumbindex.query.stage import Search, Tools
from thumbindex.settings import DeduplicateSettings

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
        copies = by_meaning(ordered, settings.content_field, settings.similarity_threshold)
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


def by_meaning(items: Sequence[Mapping[str, Any]], content_field: str, threshold: float) -> dict[int, int]:
    """Return each copy's survivor, greedily in order by cosine; by content where one of two has no embedding, guards always."""
    if len(items) > MOST_SEMANTIC:
        raise UsageError(
            f"deduplicate by `semantic` compares each item with each and takes at most {MOST_SEMANTIC}, not {len(items)}:"
            " lower the searches' `limit`, or set `query.deduplicate.method` to `content_hash`."
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
