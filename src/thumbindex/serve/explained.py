"""How a passage came to its place, and why a note did not come to one: as sentences, and as JSON that `docs/schema` describes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from thumbindex.model import Edge, Evidence, Explanation, Reach, Standpoint, TermFields, Why

_FATES = {
    "shown": "is in the answer",
    "copy": "is named beside a copy",
    "dropped": "was found",
    "not_found": "was not found",
    "filtered": "was not searched",
    "not_indexed": "is not in the index",
}

_EDGES_SHOWN = 3
"""Of the links that led to a document: the first are of those that were found best."""


# ------------------------------------------------------------------ sentences


def explanation_lines(found: Explanation) -> list[str]:
    """Say in a few lines how a passage came to its place."""
    stages = " → ".join(f"{each.stage} {each.rank}" for each in found.effects)
    said = [
        "; ".join(map(_of_retriever, found.evidence)),
        f"rank after {stages}" if stages else "",
        *explanation_rest(found),
    ]
    return [each for each in said if each]


def explanation_rest(found: Explanation) -> list[str]:
    """Say what is no table: words, cosine, the reranker's score, links, and what was taken out as a copy."""
    cosine = f"cosine {found.cosine:.2f}" if found.cosine is not None else ""
    reranked = f"reranker {found.reranked:.2f}" if found.reranked is not None else ""
    copies = [f"{stage} took out {gone.path}:{gone.line}: {gone.reason}" for stage, gone in found.copies]
    known = [terms(found.terms), "; ".join(each for each in (cosine, reranked) if each), links(found.edges), *copies]
    return [each for each in known if each]


def _of_retriever(found: Evidence) -> str:
    return f"{found.retriever} rank {found.rank} ({found.score:.2f})"


def terms(found: Sequence[TermFields]) -> str:
    """Say in which fields the query's words stand, and which are missing; of `code`, words as they are written, only where it is alone."""
    held = [f"{each.term} ({', '.join([name for name in each.fields if name != 'code'] or ['as written'])})" for each in found if each.fields]
    missing = [each.term for each in found if not each.fields]
    return "; ".join([*(["words: " + ", ".join(held)] if held else []), *(["missing: " + ", ".join(missing)] if missing else [])])


def links(edges: Sequence[Edge]) -> str:
    """Say which documents' links led to a document; empty where none did."""
    named = [f"{'links to' if each.backwards else 'linked from'} {each.path} (found as {each.rank})" for each in edges[:_EDGES_SHOWN]]
    more = f" and {len(edges) - _EDGES_SHOWN} more" if len(edges) > _EDGES_SHOWN else ""
    return ", ".join(named) + more


def fate(found: Why, several: bool = False) -> str:
    """Say what became of a note, and why."""
    heading = f"#{found.heading}" if found.heading else ""
    folder = f"{found.folder}: " if several and found.folder else ""
    by = f", but {found.stage} left it out" if found.fate == "dropped" else ""
    return f"{folder}{found.path}{heading} {_FATES[found.fate]}{by}: {found.reason}"


def why_rest(found: Why) -> list[str]:
    """Say what else is known of a note: its words, its cosine, its vectors, and how it is on disk."""
    lacking = f"without a vector yet, found by words alone: {found.without_vector} of {found.chunks} chunks"
    cosine = f"best cosine {found.cosine:.2f}" if found.cosine is not None else ""
    said = [
        f"searched for: {found.corrected}" if found.corrected else "",
        "; ".join(each for each in (terms(found.terms), cosine) if each),
        lacking if found.without_vector else "",
        *found.notes,
    ]
    return [each for each in said if each]


def why_lines(found: Why, several: bool = False) -> list[str]:
    """Say in a few lines what became of a note."""
    stages = " → ".join(f"{each.stage} {each.rank if each.rank is not None else '-'}" for each in until_lost(found.standpoints))
    reached = "; ".join(filter(None, map(_of_reach, found.reaches))) if found.fate in {"shown", "copy", "dropped"} else ""
    said = [fate(found, several), f"rank after {stages}" if stages else "", f"without limits: {reached}" if reached else "", *why_rest(found)]
    return [each for each in said if each]


def _of_reach(found: Reach) -> str:
    return "" if found.rank is None else f"{found.retriever} rank {found.rank} (of the {found.taken} taken the last has {found.last or 0:.2f})"


def until_lost(found: Sequence[Standpoint]) -> Sequence[Standpoint]:
    """Return the stages up to the one after which a note is there no more."""
    last = max((at for at, each in enumerate(found) if each.rank is not None), default=-1)
    retrievers = sum(each.stage.startswith("search_") for each in found)
    return found[: max(last + 2, retrievers)]


def of_effect(found: Sequence[Standpoint]) -> Sequence[Standpoint]:
    """Return the retrievers, the stages after which a note stood otherwise than before, and the last one."""
    moved = [
        each
        for before, each in pairwise(found)
        if each.stage.startswith("search_") or each == found[-1] or replace(each, stage=before.stage) != before
    ]
    return [*found[:1], *moved]


# ------------------------------------------------------------------ data


def explanation_payload(found: Explanation) -> dict[str, Any]:
    """Return an explanation as JSON has it."""
    return {
        "evidence": [_evidence(each) for each in found.evidence],
        "terms": _terms(found.terms),
        "cosine": found.cosine,
        "edges": [{"path": each.path, "rank": each.rank, "backwards": each.backwards} for each in found.edges],
        "effects": [{"stage": each.stage, "rank": each.rank, "of": each.size, "score": round(each.score, 4)} for each in found.effects],
        "copies": [{"stage": stage, "path": gone.path, "line": gone.line, "reason": gone.reason} for stage, gone in found.copies],
        "reranked": _rounded(found.reranked),
    }


def _evidence(found: Evidence) -> dict[str, Any]:
    return {
        "retriever": found.retriever,
        "rank": found.rank,
        "of": found.found,
        "score": round(found.score, 4),
        "line": found.line,
        "weight": round(found.weight, 4),
        "document_rank": found.document_rank,
        "document_score": _rounded(found.document_score),
        "coverage": round(found.coverage, 4),
    }


def why_payload(found: Why) -> dict[str, Any]:
    """Return what `why --json` prints."""
    return {
        "query": found.query,
        "corrected": found.corrected,
        "folder": found.folder,
        "path": found.path,
        "heading": found.heading,
        "fate": found.fate,
        "stage": found.stage,
        "reason": found.reason,
        "rank": found.rank,
        "chunks": found.chunks,
        "without_vector": found.without_vector,
        "cosine": found.cosine,
        "stages": list(map(_standpoint, found.standpoints)),
        "retrievers": [
            {
                "retriever": each.retriever,
                "rank": each.rank,
                "score": _rounded(each.score),
                "line": each.line,
                "taken": each.taken,
                "last": _rounded(each.last),
            }
            for each in found.reaches
        ],
        "terms": _terms(found.terms),
        "notes": list(found.notes),
        "answerable": found.answerable,
        "confidence": round(found.confidence, 4),
    }


def _standpoint(found: Standpoint) -> dict[str, Any]:
    return {"stage": found.stage, "rank": found.rank, "of": found.size, "score": _rounded(found.score), "line": found.line}


def _terms(found: Sequence[TermFields]) -> dict[str, list[str]]:
    return {each.term: list(each.fields) for each in found}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def as_rows(found: Explanation) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield what a table shows of each retriever: name, rank, score, share in fusion, and the document's rank and score."""
    for each in found.evidence:
        document = f"{each.document_rank} ({each.document_score:.2f})" if each.document_rank is not None else "-"
        yield each.retriever, f"{each.rank} of {each.found}", f"{each.score:.3f}", f"{each.weight:.2f}", document
