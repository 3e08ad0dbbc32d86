"""The JSON of `--json` and of structured tool answers; `docs/schema` describes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from thumbindex.model import (
    Answer,
    Cluster,
    ClusterMember,
    DuplicateReport,
    Excerpt,
    FolderStatus,
    Freshness,
    IndexReport,
    NoteList,
    Passage,
    Progress,
    RelatedNotes,
    TraceStep,
    UnlinkedPair,
)
from thumbindex.present.sentences import (
    dedup_counts,
    dedup_share,
    flag_lines,
    is_dedup_share_high,
    passage_flag_lines,
)

_JSON_NAMES: Mapping[type, Mapping[str, str]] = {TraceStep: {"size_in": "in", "size_out": "out"}}
"""JSON names of the fields that have another name in Python, where `in` is a keyword."""

_OMITTED_FIELDS: Mapping[type, Collection[str]] = {
    Progress: ("pid",),
    TraceStep: ("moved",),
    FolderStatus: ("is_missing",),
    Cluster: ("pairs",),
    Passage: ("match", "flags", "marks", "cluster_size"),
    ClusterMember: ("folder", "owner"),
}

_DIGITS = 4
"""Decimal places of numbers in JSON."""


def as_json(value: Any) -> Any:
    """Convert a dataclass from `thumbindex.model` to JSON-serializable values.

    Tuples become lists, and numbers are rounded.
    """
    if is_dataclass(value):
        names, left_out = _JSON_NAMES.get(type(value), {}), _OMITTED_FIELDS.get(type(value), ())
        shown = [field.name for field in fields(value) if field.name not in left_out]
        return {names.get(name, name): as_json(getattr(value, name)) for name in shown}
    if isinstance(value, Mapping):
        return {name: as_json(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    return round(value, _DIGITS) if isinstance(value, float) else value


def answer_payload(answer: Answer, explain: bool = False) -> dict[str, Any]:
    """Return the JSON of `query`; with `explain`, including the trace."""
    return {
        "query": answer.query,
        "corrected": answer.corrected,
        "filters": [condition.as_typed for condition in answer.filters],
        "unmet": as_json(answer.unmet),
        "undated": answer.undated,
        "listed": answer.listed,
        "missing": as_json(answer.missing),
        "kind": str(answer.kind),
        "found": answer.found,
        "confidence": round(answer.confidence, _DIGITS),
        "confidence_level": answer.confidence_level,
        "results": [passage_payload(passage) for passage in answer.passages],
        "weaker": answer.weaker,
        **({"trace": as_json(answer.trace)} if explain else {}),
        "deduplication": deduplication_payload(answer.trace),
        "index": as_json(answer.index),
    }


def list_payload(notes: NoteList, limit: int | None) -> dict[str, Any]:
    """Return the JSON of `list`."""
    limited = replace(notes, notes=notes.notes[:limit])
    return {**as_json(limited), "left_out": len(notes.notes) - len(limited.notes)}


def excerpt_payload(excerpt: Excerpt) -> dict[str, Any]:
    """Return the JSON of the command and the tool `read`."""
    place = ["folder", "path", "start_line", "end_line", "total_lines", "text"]
    place += ["start_character"] if excerpt.start_character > 1 else []
    warnings = flag_lines(excerpt.flags, (excerpt.start_line, excerpt.end_line))
    rest = excerpt.rest
    return {
        **{name: getattr(excerpt, name) for name in place},
        **({"rest": {"start_line": rest.first_place, "end_line": rest.last}} if rest else {}),
        **({"flagged": warnings} if warnings else {}),
    }


def related_payload(related: RelatedNotes, limit: int) -> dict[str, Any]:
    """Return the JSON of the command and the tool `related`."""
    links = {name: getattr(related, name)[:limit] for name in ("links", "backlinks", "dangling")}
    return dict(as_json(replace(related, **links)))


def unlinked_payload(pairs: Sequence[UnlinkedPair], limit: int) -> dict[str, Any]:
    """Return the JSON of `unlinked`."""
    return {"pairs": as_json(tuple(pairs[:limit])), "left_out": len(pairs[limit:])}


def passage_payload(passage: Passage) -> dict[str, Any]:
    """Return the JSON of one result."""
    payload = {
        **as_json(passage),
        "address": passage.address,
        "flagged": passage_flag_lines(passage),
        "dedup": dedup_payload(passage),
    }
    if not passage.explanation:
        del payload["explanation"]
    return payload


def _fields(record: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: as_json(getattr(record, name)) for name in names}


def dedup_payload(passage: Passage) -> dict[str, Any]:
    """Return the JSON about the duplicates of a result, which is never a duplicate itself."""
    return {"is_duplicate": False, "cluster_size": passage.cluster_size}


def deduplication_payload(trace: Sequence[TraceStep]) -> dict[str, Any]:
    """Return the number of candidates before and after deduplication, and whether to warn."""
    before, after = dedup_counts(trace)
    return {
        "in": before,
        "out": after,
        "ratio": round(dedup_share(trace), _DIGITS),
        "warning": is_dedup_share_high(trace),
    }


def freshness_payload(freshness: Freshness | None) -> dict[str, Any]:
    """Return whether an answer is up to date; empty if the caller did not ask for it."""
    if freshness is None:
        return {}
    return {"fresh": freshness.fresh, **as_json(freshness)}


def report_payload(report: IndexReport) -> dict[str, Any]:
    """Return the JSON of `index`."""
    documents = _fields(report, ("added", "changed", "removed", "unchanged"))
    names = ("skipped", "links", "chunks", "embedded", "reused", "seconds", "generation")
    return {"documents": documents, **_fields(report, names)}


def duplicates_payload(report: DuplicateReport) -> dict[str, Any]:
    """Return the JSON of `duplicates`."""
    share = (report.merged + report.flagged) / report.chunks if report.chunks else 0.0
    return {**as_json(report), "share": round(share, _DIGITS)}


def status_payload(folders: Sequence[FolderStatus]) -> dict[str, Any]:
    """Return the JSON of `status` and `forget`."""
    return {"folders": [as_json(folder) for folder in folders]}
