"""The Why screen: sentences that explain a note or an answer, and the ranks behind them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from textwrap import shorten
from typing import Any

from thumbindex.errors import UnknownFolderError, UnknownPathError
from thumbindex.model import Answer, Filters, Passage, Query, TraceStep, WhyReport
from thumbindex.page.ask import (
    address_values,
    cite,
    notes_named_like,
    read_question,
    shown_lines,
)
from thumbindex.page.judge import grades_of, judgments_of
from thumbindex.page.visit import NotFoundError, Screen, Visit, note_address, screen_address
from thumbindex.present.sentences import (
    confidence_sentence,
    matched_terms,
    why_details,
    why_summary,
)
from thumbindex.text import fold_line

_WIDTH, _HEIGHT = 960, 420

_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 250, 40, 96
"""Margins of the chart in pixels: ranks on the left, labels on the right, stages below."""

_LABEL_GAP, _MAX_LABEL_CHARS = 18, 34
"""Maximum vertical distance between labels in pixels, and characters of a label."""

_RANK_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 20_000, 100_000)

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
    values: dict[str, Any] = {
        "q": query.text,
        "path": name,
        "hidden_fields": list(_hidden_fields(query)),
        "answer": None,
        "report": None,
        "missing": "",
    }
    if not query.text:
        return Screen("Why", values)
    answer = library.query(query, explain=True)
    report = _explain_note(visit, query, name) if name else None
    shown = _shown_passage(answer, report)
    cited = {lines.passage.rank: cite(lines) for lines in shown_lines(answer)}
    curves = [
        _passage_curve(passage, cited[passage.rank][1], is_note=passage is shown)
        for passage in answer.passages
    ]
    filters = query.filters.as_pairs()
    values |= {
        "answer": answer,
        "sure": confidence_sentence(answer, [f"{field} {value}" for field, value in filters]),
        "report": report,
        "here": _why_address(query, name),
        "unfiltered": _why_address(replace(query, filters=Filters()), name),
        "ask": screen_address("ask", **address_values(query)),
        "passages": [
            (*cited[passage.rank], *_passage_values(passage, query)) for passage in answer.passages
        ],
    }
    if report:
        grades = grades_of(judgments_of(visit, answer.query)[0])
        curves += [] if shown else [_dropped_curve(report)]
        values |= {
            "note": cited[shown.rank] if shown else _note_link(report),
            "grade": str(grades.get((report.folder, report.path, report.heading), "")),
            "note_title": _title(visit, report),
            "summary": why_summary(replace(report, path="This note", heading="", stage="")),
            "details": why_details(report),
        }
    values |= {"curves": curves, "picture": _picture(curves, answer.trace)}
    title = f"Why {name}" if name else f"Why: {query.text}"
    if name and report is None:
        notes = notes_named_like(library, PurePosixPath(name.partition("#")[0]).stem)
        missing = _NO_SUCH_NOTE.format(fold_line(name)[:_MAX_NAME_CHARS])
        nearest = [(n.path, _why_address(query, f"{n.folder}/{n.path}")) for n in notes]
        values |= {"missing": missing, "nearest": nearest}
        return Screen(title, values, status=404)
    return Screen(title, values)


def _title(visit: Visit, report: WhyReport) -> str:
    documents = visit.library.documents_at([(report.folder, report.path)])
    return next((document.title for document in documents), "")


def _note_link(report: WhyReport) -> tuple[str, str]:
    """Return the path of a note that is not in the answer, and its address if it is indexed."""
    is_indexed = report.outcome != "not_indexed"
    return report.path, note_address(report.folder, report.path) if is_indexed else ""


def _passage_values(passage: Passage, query: Query) -> tuple[str, str]:
    """Return the terms that a passage has and lacks, and the address of its Why screen."""
    name = f"{passage.path}#{passage.heading}" if passage.heading else passage.path
    terms = matched_terms(passage.explanation.terms) if passage.explanation else ""
    return terms, _why_address(query, name)


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


def _shown_passage(answer: Answer, report: WhyReport | None) -> Passage | None:
    """Return the explained note's passage if it is in the answer."""
    rank = report.rank if report and report.outcome == "shown" else None
    return next((passage for passage in answer.passages if passage.rank == rank), None)


def _hidden_fields(query: Query) -> Iterable[tuple[str, str]]:
    """Yield the names and values of the form's hidden fields."""
    for name, value in address_values(query).items():
        if name != "q":
            for item in value if isinstance(value, tuple) else (value,):
                if item:
                    yield ("glob" if name == "path" else name), str(item)


# ------------------------------------------------------------------ the chart


def _passage_curve(passage: Passage, href: str, *, is_note: bool) -> _RankCurve:
    ranks = {"answer": passage.rank}
    if explained := passage.explanation:
        ranks |= {hit.retriever: hit.rank for hit in explained.evidence}
        ranks |= {step.stage: step.rank for step in explained.rank_by_stage if step.rank}
    label = f"{passage.rank}. {passage.heading or passage.title or passage.path}"
    return _RankCurve(label, href, ranks, "note" if is_note else "passage")


def _dropped_curve(report: WhyReport) -> _RankCurve:
    """Return the curve of a note that is not in the answer."""
    ranks = {stage.stage: stage.rank for stage in report.stages if stage.rank is not None}
    name = report.path.rpartition("/")[2] + (f"#{report.heading}" if report.heading else "")
    return _RankCurve(name, note_address(report.folder, report.path), ranks, "lost", report.stage)


def _picture(curves: Sequence[_RankCurve], trace: Sequence[TraceStep]) -> Mapping[str, Any] | None:
    """Lay out the chart: one column per stage, and ranks on a logarithmic scale, rank 1 on top."""
    used = {stage for curve in curves for stage in curve.ranks}
    stages = [*(step.stage for step in trace if step.stage in used), "answer"]
    if not curves or len(stages) < 2:
        return None
    deepest = max([2, *(rank for curve in curves for rank in curve.ranks.values())])
    step = (_WIDTH - _LEFT - _RIGHT) / (len(stages) - 1)
    columns = {stage: round(_LEFT + n * step, 1) for n, stage in enumerate(stages)}
    gap = min(_LABEL_GAP, (_HEIGHT - _TOP) / len(curves))

    def height(rank: int) -> float:
        share = math.log(rank) / math.log(deepest)
        return round(_TOP + share * (_HEIGHT - _TOP - _BOTTOM), 1)

    lines = []
    for n, curve in enumerate(curves):
        ranks = [(stage, curve.ranks[stage]) for stage in columns if stage in curve.ranks]
        dots = [(columns[stage], height(rank), stage, rank) for stage, rank in ranks]
        lines.append(
            {
                "curve": curve,
                "label": shorten(curve.label, _MAX_LABEL_CHARS, placeholder="…"),
                "dots": dots,
                "points": " ".join(f"{x},{y}" for x, y, *_ in dots),
                "last": dots[-1][:2] if dots else (_LEFT, _HEIGHT - _BOTTOM),
                "y": round(_TOP + n * gap, 1),
            }
        )
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "columns": columns,
        "bottom": _HEIGHT - _BOTTOM,
        "right": _WIDTH - _RIGHT,
        "ticks": [(rank, height(rank)) for rank in _RANK_TICKS if rank <= deepest],
        "lines": lines,
    }
