"""The Why screen: a chart of ranks by stage, and why a note is or is not in the answer."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from thumbindex.errors import UnknownFolderError, UnknownPathError
from thumbindex.model import Answer, Passage, Query, TraceStep, WhyReport
from thumbindex.page.ask import (
    address_values,
    notes_named_like,
    query_command,
    query_options,
    read_question,
)
from thumbindex.page.judge import grades_of, judgments_of
from thumbindex.page.visit import NotFoundError, Screen, Visit, note_address, screen_address
from thumbindex.present.as_json import answer_payload, as_json
from thumbindex.present.sentences import (
    confidence_sentence,
    explanation_details,
    linked_from_sentence,
    outcome_sentence,
    why_details,
)
from thumbindex.text import fold_line

if TYPE_CHECKING:
    from thumbindex.library import Library

_WIDTH, _HEIGHT = 960, 420

_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 250, 40, 96
"""Margins of the chart in pixels: ranks on the left, labels on the right, stages below."""

_LABEL_GAP = 15
"""Minimum vertical distance between labels in pixels."""

_MAX_LABEL_CHARS = 34
"""Maximum characters of a label."""

_RANK_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 20_000, 100_000)

_MAX_DROPPED = 20
"""Maximum dropped candidates listed per stage."""

_MAX_NAMES = 200

_NO_SUCH_NOTE = "The note “{}” does not exist, or you may not see it."

_MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class _RankCurve:
    """The ranks of a passage or of the explained note, by stage."""

    label: str
    href: str
    ranks: Mapping[str, int]  # by stage, without stages that did not rank the passage
    kind: str  # "passage", "note", or "lost" for a note that is not in the answer
    dropped_at: str = ""  # the stage that dropped the note


def why_screen(visit: Visit) -> Screen:
    """Explain an answer, or why a note is or is not in it."""
    # here, `path` is the note to explain, and `glob` the path filter
    name, query, library = visit.text("path"), read_question(visit, "glob"), visit.library
    offered = library.listing().notes[:_MAX_NAMES] if library.indexed else ()
    values: dict[str, Any] = {
        "q": query.text,
        "path": name,
        "hidden_fields": list(_hidden_fields(query)),
        "several": len(library.folders) > 1,
        "offered": [note.path for note in offered],
        "command": _command(visit, query, name),
        "answer": None,
        "report": None,
        "missing": "",
        "picture": None,
    }
    if not query.text:
        return Screen(
            "Why", values, lambda: {"query": "", "results": [], "offered": list(values["offered"])}
        )
    answer = library.query(query, explain=True)
    report = _explain_note(visit, query, name) if name else None
    is_missing = bool(name) and report is None
    shown = _shown_passage(answer, report)
    curves = [_passage_curve(passage, is_note=passage is shown) for passage in answer.passages]
    if report and not shown:
        curves.append(_dropped_curve(report))
    stages = _stages(answer.trace, curves)
    grades = grades_of(judgments_of(visit, answer.query)[0]) if report else {}
    explanation = shown.explanation if shown else None
    note_values: dict[str, Any] = {
        "grade": "",
        "outcome": "",
        "details": (),
    }
    if report:
        note_values = {
            "grade": str(grades.get((report.folder, report.path, report.heading), "")),
            "outcome": outcome_sentence(report, len(library.folders) > 1),
            "details": why_details(report),
        }
    values |= note_values | {
        "answer": answer,
        "sure": confidence_sentence(
            answer, [f"{field} {value}" for field, value in query.filters.as_pairs()]
        ),
        "report": report,
        "here": _why_address(query, name),
        "missing": _NO_SUCH_NOTE.format(fold_line(name)[:_MAX_NAME_CHARS]) if is_missing else "",
        "nearest": _nearest(library, query, name) if is_missing else (),
        "explained": shown,
        "passage_details": explanation_details(explanation) if explanation else (),
        "edges": linked_from_sentence(explanation.edges) if explanation else "",
        "stages": stages,
        "curves": curves,
        "picture": _picture(curves, stages),
        "funnel": _funnel(answer.trace),
        "ask": screen_address("ask", **address_values(query)),
        "cards": [(passage, _why_address(query, _place(passage))) for passage in answer.passages],
    }
    title = f"Why {name}" if name else f"Why: {query.text}"
    if is_missing:
        return Screen(title, values, lambda: {"error": values["missing"]}, 404)
    return Screen(
        title, values, lambda: as_json(report) if report else answer_payload(answer, explain=True)
    )


def _nearest(library: Library, query: Query, name: str) -> list[tuple[str, str]]:
    """Return notes that `name` may mean, each with the address of its Why screen."""
    notes = notes_named_like(library, PurePosixPath(name.partition("#")[0]).stem)
    return [(note.path, _why_address(query, f"{note.folder}/{note.path}")) for note in notes]


def _why_address(query: Query, name: str) -> str:
    return screen_address(
        "why", **address_values(query) | {"path": name, "glob": query.filters.path}
    )


def _explain_note(visit: Visit, query: Query, name: str) -> WhyReport | None:
    """Return the explanation of a note, or None if it is private or missing."""
    try:
        report = visit.library.why(name, query)
    except UnknownPathError:
        return None
    except UnknownFolderError as error:
        raise NotFoundError(str(error)) from error
    return report if report.folder else None


def _place(passage: Passage) -> str:
    return f"{passage.path}#{passage.heading}" if passage.heading else passage.path


def _shown_passage(answer: Answer, report: WhyReport | None) -> Passage | None:
    """Return the explained note's passage if it is in the answer."""
    if report is None or report.outcome != "shown":
        return None
    return next((passage for passage in answer.passages if passage.rank == report.rank), None)


def _hidden_fields(query: Query) -> Iterable[tuple[str, str]]:
    """Yield the names and values of the form's hidden fields."""
    for name, value in address_values(query).items():
        if name != "q":
            for item in value if isinstance(value, tuple) else (value,):
                if item:
                    yield ("glob" if name == "path" else name), str(item)


def _command(visit: Visit, query: Query, name: str) -> str:
    if not name:
        return f"{query_command(visit, query)} --explain"
    return shlex.join(
        ["thumbindex", "why", name, query.text or "QUESTION", *query_options(visit, query)]
    )


# ------------------------------------------------------------------ curves


def _passage_curve(passage: Passage, *, is_note: bool) -> _RankCurve:
    ranks: dict[str, int] = {}
    if passage.explanation:
        ranks |= {hit.retriever: hit.rank for hit in passage.explanation.evidence}
        ranks |= {step.stage: step.rank for step in passage.explanation.rank_by_stage if step.rank}
    ranks["answer"] = passage.rank
    href = note_address(
        passage.folder, passage.path, (passage.match_start_line, passage.match_end_line)
    )
    return _RankCurve(
        f"{passage.rank}. {passage.heading or passage.title or passage.path}",
        href,
        ranks,
        "note" if is_note else "passage",
    )


def _dropped_curve(report: WhyReport) -> _RankCurve:
    """Return the curve of a note that is not in the answer."""
    ranks = {stage.stage: stage.rank for stage in report.stages if stage.rank is not None}
    name = report.path.rpartition("/")[2]
    return _RankCurve(
        name + (f"#{report.heading}" if report.heading else ""),
        note_address(report.folder, report.path),
        ranks,
        "lost",
        report.stage,
    )


def _stages(trace: Sequence[TraceStep], curves: Sequence[_RankCurve]) -> list[str]:
    """Return the stages that rank or drop the passage of any of `curves`, in pipeline order."""
    ranked = {stage for curve in curves for stage in curve.ranks} | {
        curve.dropped_at for curve in curves if curve.dropped_at
    }
    return [
        *(step.stage for step in trace if step.stage in ranked),
        *(["answer"] if curves else []),
    ]


# ------------------------------------------------------------------ the chart


def _picture(curves: Sequence[_RankCurve], stages: Sequence[str]) -> Mapping[str, Any] | None:
    """Lay out the chart: one column per stage, and ranks on a logarithmic scale, rank 1 on top."""
    if not curves or len(stages) < 2:
        return None
    deepest = max((rank for curve in curves for rank in curve.ranks.values()), default=1)
    step = (_WIDTH - _LEFT - _RIGHT) / (len(stages) - 1)
    columns = {stage: round(_LEFT + n * step, 1) for n, stage in enumerate(stages)}
    drawn = [_drawn_curve(curve, columns, deepest) for curve in curves]
    _spread_labels(drawn)
    ticks = [(rank, _rank_height(rank, deepest)) for rank in _RANK_TICKS if rank <= max(deepest, 2)]
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "columns": columns,
        "bottom": _HEIGHT - _BOTTOM,
        "ticks": ticks,
        "lines": drawn,
        "right": _WIDTH - _RIGHT,
    }


def _rank_height(rank: int, deepest: int) -> float:
    """Return a rank's y position, on a logarithmic scale."""
    share = math.log(rank) / math.log(max(deepest, 2))
    return round(_TOP + share * (_HEIGHT - _TOP - _BOTTOM), 1)


def _drawn_curve(curve: _RankCurve, columns: Mapping[str, float], deepest: int) -> dict[str, Any]:
    points = [
        (columns[stage], _rank_height(rank, deepest), stage, rank)
        for stage in columns
        if (rank := curve.ranks.get(stage)) is not None
    ]
    end = None
    if curve.dropped_at in columns and points:
        end = (columns[curve.dropped_at], points[-1][1])
    last = end or (points[-1][:2] if points else (float(_LEFT), float(_HEIGHT - _BOTTOM)))
    label = (
        curve.label
        if len(curve.label) <= _MAX_LABEL_CHARS
        else f"{curve.label[: _MAX_LABEL_CHARS - 1]}…"
    )
    return {
        "kind": curve.kind,
        "label": label,
        "title": curve.label,
        "href": curve.href,
        "points": " ".join(f"{x},{y}" for x, y, *_ in points),
        "dots": points,
        "end": end,
        "dropped_at": curve.dropped_at,
        "last": last,
        "y": last[1],
    }


def _spread_labels(lines: Sequence[dict[str, Any]]) -> None:
    """Move overlapping labels apart: first down, then up from the bottom."""
    ordered = sorted(lines, key=lambda line: line["y"])
    for previous, line in pairwise(ordered):
        line["y"] = max(line["y"], previous["y"] + _LABEL_GAP)
    floor = float(_HEIGHT - 4)
    for line in reversed(ordered):
        line["y"] = min(line["y"], floor)
        floor = line["y"] - _LABEL_GAP


# ------------------------------------------------------------------ tables


def _funnel(trace: Sequence[TraceStep]) -> list[Mapping[str, Any]]:
    """Return the sizes, times and dropped candidates of each stage."""
    largest = max((step.size_out for step in trace), default=1) or 1
    slowest = max((step.seconds for step in trace), default=0.0) or 1.0
    return [
        {
            "stage": step.stage,
            "size_in": step.size_in,
            "size_out": step.size_out,
            "width": round(100 * step.size_out / largest, 1),
            "ms": f"{step.seconds * 1000:.1f}",
            "time": round(100 * step.seconds / slowest, 1),
            "dropped": step.dropped[:_MAX_DROPPED],
            "more": max(0, len(step.dropped) - _MAX_DROPPED),
        }
        for step in trace
    ]
