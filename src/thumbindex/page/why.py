"""Why: a chart of ranks by stage, and the reason why a note is not in the answer."""

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
"""Pixels around the picture: ranks at the left, what each line is at the right, stages beneath."""

_LABEL_GAP = 15
"""Minimum pixels between two labels."""

_MAX_LABEL_CHARS = 34
"""Maximum characters of a label."""

_RANK_TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 20_000, 100_000)

_MAX_DROPPED = 20
"""Maximum candidates dropped by a stage that are listed."""

_MAX_NAMES = 200

_NO_SUCH_NOTE = "There is no note “{}” that is yours to see."

_MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class _RankCurve:
    """The ranks of a passage, or of the explained note, by stage; a stage is missing if it has
    no rank.
    """

    label: str
    href: str
    ranks: Mapping[str, int]
    kind: str  # "passage", "note", or "lost" where the note is not in the answer
    dropped_at: str = ""  # the stage that dropped it


def why_screen(visit: Visit) -> Screen:
    """Explain an answer, or why a note is or is not in it."""
    # A note is called `path` here: what narrows the question by paths is `glob`.
    named, asked, library = visit.text("path"), read_question(visit, "glob"), visit.library
    offered = library.listing().notes[:_MAX_NAMES] if library.indexed else ()
    values: dict[str, Any] = {
        "q": asked.text,
        "path": named,
        "kept": [(name, value) for name, value in _hidden_fields(asked)],
        "several": len(library.folders) > 1,
        "offered": [each.path for each in offered],
        "command": _command(visit, asked, named),
        "answer": None,
        "found": None,
        "missing": "",
        "picture": None,
    }
    if not asked.text:
        return Screen(
            "Why", values, lambda: {"query": "", "results": [], "offered": list(values["offered"])}
        )
    answer = library.query(asked, explain=True)
    found = _explain_note(visit, asked, named) if named else None
    is_missing = bool(named) and found is None
    shown = _shown(answer, found)
    curves = [_passage_curve(passage, is_asked=passage is shown) for passage in answer.passages]
    if found and not shown:
        curves.append(_dropped_curve(found))
    stages = _stages(answer.trace, curves)
    grades = grades_of(judgments_of(visit, answer.query)[0]) if found else {}
    explanation = shown.explanation if shown else None
    about_note: dict[str, Any] = {
        "grade": "",
        "outcome": "",
        "rest": (),
    }
    if found:
        about_note = {
            "grade": str(grades.get((found.folder, found.path, found.heading), "")),
            "outcome": outcome_sentence(found, len(library.folders) > 1),
            "rest": why_details(found),
        }
    values |= about_note | {
        "answer": answer,
        "sure": confidence_sentence(
            answer, [f"{name} {value}" for name, value in asked.filters.as_pairs()]
        ),
        "found": found,
        "here": _why_address(asked, named),
        "missing": _NO_SUCH_NOTE.format(fold_line(named)[:_MAX_NAME_CHARS]) if is_missing else "",
        "nearest": _nearest(library, asked, named) if is_missing else (),
        "explained": shown,
        "said": explanation_details(explanation) if explanation else (),
        "edges": linked_from_sentence(explanation.edges) if explanation else "",
        "stages": stages,
        "curves": curves,
        "picture": _picture(curves, stages),
        "funnel": _funnel(answer.trace),
        "ask": screen_address("ask", **address_values(asked)),
        "cards": [(passage, _why_address(asked, _place(passage))) for passage in answer.passages],
    }
    title = f"Why {named}" if named else f"Why: {asked.text}"
    if is_missing:
        return Screen(title, values, lambda: {"error": values["missing"]}, 404)
    return Screen(
        title, values, lambda: as_json(found) if found else answer_payload(answer, explain=True)
    )


def _nearest(library: Library, asked: Query, named: str) -> list[tuple[str, str]]:
    """Return notes whose names begin with the typed name, with the addresses that explain them."""
    found = notes_named_like(library, PurePosixPath(named.partition("#")[0]).stem)
    return [(each.path, _why_address(asked, f"{each.folder}/{each.path}")) for each in found]


def _why_address(asked: Query, named: str) -> str:
    """Return the address that explains a note."""
    return screen_address(
        "why", **address_values(asked) | {"path": named, "glob": asked.filters.path}
    )


def _explain_note(visit: Visit, asked: Query, named: str) -> WhyReport | None:
    """Return the explanation of a note; None if it is private or missing."""
    try:
        found = visit.library.why(named, asked)
    except UnknownPathError:
        return None
    except UnknownFolderError as error:
        raise NotFoundError(str(error)) from error
    return found if found.folder else None


def _place(passage: Passage) -> str:
    return f"{passage.path}#{passage.heading}" if passage.heading else passage.path


def _shown(answer: Answer, found: WhyReport | None) -> Passage | None:
    """Return the passage of an answer that is the note."""
    if found is None or found.outcome != "shown":
        return None
    return next((passage for passage in answer.passages if passage.rank == found.rank), None)


def _hidden_fields(asked: Query) -> Iterable[tuple[str, str]]:
    """Yield the values that a form repeats to keep the query."""
    for name, value in address_values(asked).items():
        if name != "q":
            for each in value if isinstance(value, tuple) else (value,):
                if each:
                    yield ("glob" if name == "path" else name), str(each)


def _command(visit: Visit, asked: Query, named: str) -> str:
    if not named:
        return f"{query_command(visit, asked)} --explain"
    return shlex.join(
        ["thumbindex", "why", named, asked.text or "QUESTION", *query_options(visit, asked)]
    )


# ------------------------------------------------------------------ curves


def _passage_curve(passage: Passage, *, is_asked: bool) -> _RankCurve:
    ranks: dict[str, int] = {}
    if passage.explanation:
        ranks |= {each.retriever: each.rank for each in passage.explanation.evidence}
        ranks |= {each.stage: each.rank for each in passage.explanation.rank_by_stage if each.rank}
    ranks["answer"] = passage.rank
    href = note_address(
        passage.folder, passage.path, (passage.match_start_line, passage.match_end_line)
    )
    return _RankCurve(
        f"{passage.rank}. {passage.heading or passage.title or passage.path}",
        href,
        ranks,
        "note" if is_asked else "passage",
    )


def _dropped_curve(found: WhyReport) -> _RankCurve:
    """Return the curve of a note that is not in the answer."""
    ranks = {stage.stage: stage.rank for stage in found.stages if stage.rank is not None}
    name = found.path.rpartition("/")[2]
    return _RankCurve(
        name + (f"#{found.heading}" if found.heading else ""),
        note_address(found.folder, found.path),
        ranks,
        "lost",
        found.stage,
    )


def _stages(trace: Sequence[TraceStep], curves: Sequence[_RankCurve]) -> list[str]:
    """Return the stages in which a passage has a rank, in the order of the pipeline."""
    ranked = {stage for curve in curves for stage in curve.ranks} | {
        curve.dropped_at for curve in curves if curve.dropped_at
    }
    return [
        *(each.stage for each in trace if each.stage in ranked),
        *(["answer"] if curves else []),
    ]


# ------------------------------------------------------------------ the picture


def _picture(curves: Sequence[_RankCurve], stages: Sequence[str]) -> Mapping[str, Any] | None:
    """Return the chart: a column per stage, rank 1 on top, on a logarithmic scale."""
    if not curves or len(stages) < 2:
        return None
    deepest = max((rank for curve in curves for rank in curve.ranks.values()), default=1)
    step = (_WIDTH - _LEFT - _RIGHT) / (len(stages) - 1)
    columns = {stage: round(_LEFT + at * step, 1) for at, stage in enumerate(stages)}
    drawn = [_drawn_curve(curve, columns, deepest) for curve in curves]
    _spread_labels(drawn)
    ticks = [
        (rank_tick, _rank_height(rank_tick, deepest))
        for rank_tick in _RANK_TICKS
        if rank_tick <= max(deepest, 2)
    ]
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
    """Return the height of a rank in the chart, by its logarithm."""
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
    """Move overlapping labels apart in their order: down first, then up from the bottom."""
    ordered = sorted(lines, key=lambda each: each["y"])
    for before, each in pairwise(ordered):
        each["y"] = max(each["y"], before["y"] + _LABEL_GAP)
    floor = float(_HEIGHT - 4)
    for each in reversed(ordered):
        each["y"] = min(each["y"], floor)
        floor = each["y"] - _LABEL_GAP


# ------------------------------------------------------------------ tables


def _funnel(trace: Sequence[TraceStep]) -> list[Mapping[str, Any]]:
    """Return the sizes, times and dropped candidates of each stage."""
    most = max((each.size_out for each in trace), default=1) or 1
    slowest = max((each.seconds for each in trace), default=0.0) or 1.0
    return [
        {
            "stage": each.stage,
            "came": each.size_in,
            "left": each.size_out,
            "width": round(100 * each.size_out / most, 1),
            "ms": f"{each.seconds * 1000:.1f}",
            "time": round(100 * each.seconds / slowest, 1),
            "dropped": each.dropped[:_MAX_DROPPED],
            "more": max(0, len(each.dropped) - _MAX_DROPPED),
        }
        for each in trace
    ]
