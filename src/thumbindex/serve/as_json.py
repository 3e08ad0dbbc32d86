"""The JSON of `--json` and of structured tool answers; `docs/schema` describes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from thumbindex.model import Answer, Disagreement, FolderStatus, Freshness, IndexReport, IndexState, Passage, Place, Problem, Progress, Step, Tuned
from thumbindex.serve.wording import deduplicated, explanation_payload, is_much, passage_flags, ratio

_PATHS_SHOWN = 20
"""Files that are not indexed yet, as far as they are listed: all are counted."""


def answer_payload(answer: Answer) -> dict[str, Any]:
    """Return what `query --json` prints."""
    return {
        "query": answer.query,
        "corrected": answer.corrected,
        "kind": str(answer.kind),
        "answerable": answer.answerable,
        "confidence": round(answer.confidence, 4),
        "confidence_level": answer.confidence_level,
        "results": [passage_payload(each) for each in answer.passages],
        "trace": [step_payload(each) for each in answer.trace],
        "deduplication": deduplication_payload(answer.trace),
        "index": state_payload(answer.index) | freshness_payload(answer.freshness),
    }


def passage_payload(passage: Passage) -> dict[str, Any]:
    """Return one result."""
    return {
        "rank": passage.rank,
        "folder": passage.folder,
        "path": passage.path,
        "title": passage.title,
        "heading_path": list(passage.heading_path),
        "start_line": passage.start_line,
        "end_line": passage.end_line,
        "match_start": passage.match_start,
        "match_end": passage.match_end,
        "score": round(passage.score, 4),
        "text": passage.text,
        "flagged": passage_flags(passage),
        "sources": dict(passage.sources),
        "dedup": dedup_payload(passage),
        "also_in": [place_payload(each) for each in passage.also_in],
        "disagrees": [disagreement_payload(each) for each in passage.disagrees],
        "created": passage.created,
        "status": passage.status,
        "owner": passage.owner,
    } | ({"explanation": explanation_payload(passage.explanation)} if passage.explanation else {})


def dedup_payload(passage: Passage) -> dict[str, Any]:
    """Return what a result stands for: a survivor is never a duplicate itself."""
    return {"is_duplicate": False, "cluster_size": passage.cluster_size}


def disagreement_payload(other: Disagreement) -> dict[str, Any]:
    """Return a place that says otherwise, its date, and in which words."""
    return place_payload(other.place) | {"date": other.date, "differs": other.differs}


def deduplication_payload(trace: Sequence[Step]) -> dict[str, Any]:
    """Return how many candidates came to deduplication and were left, and whether it took out too many."""
    came, left = deduplicated(trace)
    return {"in": came, "out": left, "ratio": round(ratio(trace), 4), "warning": is_much(trace)}


def step_payload(step: Step) -> dict[str, Any]:
    """Return one stage of a trace."""
    return {
        "stage": step.stage,
        "in": step.size_in,
        "out": step.size_out,
        "seconds": round(step.seconds, 6),
        "dropped": [{"path": each.path, "line": each.line, "reason": each.reason} for each in step.dropped],
    }


def state_payload(state: IndexState) -> dict[str, Any]:
    """Return how far an index is."""
    return {
        "documents": state.documents,
        "chunks": state.chunks,
        "vectors": state.vectors,
        "pending": state.pending,
        "model": state.model,
        "generation": state.generation,
    }


def freshness_payload(found: Freshness | None) -> dict[str, Any]:
    """Return whether an answer knows what is on disk; nothing where that was not asked."""
    if found is None:
        return {}
    listed = [{"folder": folder, "path": path} for folder, path in found.unindexed[:_PATHS_SHOWN]]
    unindexed = {"unindexed": listed, "unindexed_count": len(found.unindexed)}
    return {"fresh": found.fresh, **unindexed, "behind": list(found.behind), "gone": list(found.gone), "untended": list(found.untended)}


def progress_payload(progress: Progress) -> dict[str, Any]:
    """Return how far a run of indexing is."""
    return {"folder": progress.folder, "phase": progress.phase, "done": progress.done, "total": progress.total}


def place_payload(place: Place) -> dict[str, Any]:
    """Return where a copy stands."""
    return {"folder": place.folder, "path": place.path, "start_line": place.start_line, "end_line": place.end_line}


def problem_payload(problem: Problem) -> dict[str, Any]:
    """Return what was skipped and why."""
    return {"path": problem.path, "line": problem.line, "reason": problem.reason}


def report_payload(report: IndexReport) -> dict[str, Any]:
    """Return what `index --json` prints."""
    return {
        "documents": {"added": report.added, "changed": report.changed, "removed": report.removed, "unchanged": report.unchanged},
        "skipped": [problem_payload(each) for each in report.skipped],
        "links": {"resolved": report.links_resolved, "dangling": report.links_dangling},
        "chunks": report.chunks,
        "embedded": report.embedded,
        "reused": report.reused,
        "seconds": round(report.seconds, 3),
        "generation": report.generation,
    }


def status_payload(folders: Sequence[FolderStatus]) -> dict[str, Any]:
    """Return what `status --json` and `forget --json` print."""
    return {"folders": [folder_payload(each) for each in folders]}


def tuned_payload(tuned: Tuned) -> dict[str, Any]:
    """Return what was decided for a folder; what was measured stands in the file beside its index."""
    return {"made": tuned.made, "model": tuned.model, "settings": dict(tuned.settings), "reason": tuned.reason}


def folder_payload(status: FolderStatus) -> dict[str, Any]:
    """Return one folder's index."""
    return {
        "folder": status.folder,
        "root": status.root,
        "location": status.location,
        "indexed": status.indexed,
        "size_bytes": status.size_bytes,
        "index": state_payload(status.state),
        "links": {"resolved": status.links_resolved, "dangling": status.links_dangling},
        "skipped": [problem_payload(each) for each in status.problems],
        "failure": status.failure,
        "writing": status.writing,
        "progress": progress_payload(status.progress) if status.progress else None,
        "updated": status.updated,
        "ingestion": [asdict(each) for each in status.ingestion],
        "tuned": tuned_payload(status.tuned) if status.tuned else None,
        "flagged": [problem_payload(each) for each in status.flagged],
        "flagged_count": status.flagged_count,
    }
