"""Report an evaluation: as JSON, as tables, and as a Markdown page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.study.compare import Difference, compare_runs
from thumbindex.study.evaluate import Evaluation, pooled, typed_name
from thumbindex.study.measures import MAIN, MEASURES
from thumbindex.study.queries import set_digest
from thumbindex.text import plural


@dataclass(frozen=True, slots=True)
class Findings:
    """The sets that were asked, and what changed since a baseline."""

    evaluations: tuple[Evaluation, ...]
    # by set: those that are not at their defaults
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    baseline: tuple[Difference, ...] = ()  # `ALL` first where there are several sets


@dataclass(frozen=True, slots=True)
class Cost:
    """What answers as users get them cost: milliseconds, and tokens a query."""

    p50: float
    p95: float
    tokens: float


def cost_of(evaluations: Sequence[Evaluation]) -> Cost:
    """Return what the queries of some sets cost."""
    # Imported here: the command line is shown without numpy.
    import numpy as np

    asked = [each for evaluation in evaluations for each in evaluation.asked.values()]
    p50, p95 = np.percentile([each.seconds * 1000 for each in asked], (50, 95))
    return Cost(float(p50), float(p95), sum(each.tokens for each in asked) / len(asked))


@dataclass(frozen=True, slots=True)
class Rewording:
    """What the rewordings of one set, or of all together, do beside the same queries as typed."""

    name: str
    typed: tuple[Evaluation, ...]
    reworded: tuple[Evaluation, ...]

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The main measure as typed and with rewordings, `ALL` first, then by kind."""
        found: dict[str, tuple[list[float], list[float]]] = {"ALL": ([], [])}
        for before, after in zip(self.typed, self.reworded, strict=True):
            for query in after.queries:
                for kind in ("ALL", query.kind):
                    values = found.setdefault(kind, ([], []))
                    values[0].append(before.measured[query.id][MAIN])
                    values[1].append(after.measured[query.id][MAIN])
        return tuple(
            compare_runs(kind, *found[kind]) for kind in ("ALL", *sorted(found.keys() - {"ALL"}))
        )

    @property
    def times(self) -> float:
        """How many times as long as typed an answer takes, by the seconds of all."""
        seconds = [
            sum(each.seconds for one in way for each in one.asked.values())
            for way in (self.typed, self.reworded)
        ]
        return seconds[1] / seconds[0]


def rewordings(evaluations: Sequence[Evaluation]) -> tuple[Rewording, ...]:
    """Return what the rewordings of each set do that has some, all together first where there are
    several.
    """
    pairs = [(each.typed, each) for each in evaluations if each.typed]
    apart = tuple(Rewording(each.name, (typed,), (each,)) for typed, each in pairs)
    if len(apart) < 2:
        return apart
    typed, reworded = zip(*pairs, strict=True)
    return (Rewording("ALL", typed, reworded), *apart)


def record(findings: Findings) -> dict[str, Any]:
    """Return what `eval --json` prints (`docs/schema/eval.json`); the measures by kind are those of
    the scorer in `shared/eval`.
    """
    found: dict[str, Any] = _measured(findings.evaluations)
    found["sets"] = [
        _set(each, findings.settings.get(each.name, {})) for each in findings.evaluations
    ]
    if reworded := rewordings(findings.evaluations):
        found["rewordings"] = [_rewording(each) for each in reworded]
    if findings.baseline:
        found["baseline"] = [_difference(each) for each in findings.baseline]
    return found


def _measured(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    means_by_kind, counts = pooled(evaluations)
    scores: dict[str, dict[str, float]] = {}
    for kind, means in means_by_kind.items():
        rounded = {name: round(value, 4) for name, value in means.items()}
        scores[kind] = {"n": counts[kind], **rounded}
    return {
        "queries": counts["ALL"],
        "unanswered": sum(each.unanswered for each in evaluations),
        "seconds": round(sum(each.seconds for each in evaluations), 3),
        **_cost(evaluations),
        "scores": scores,
    }


def _cost(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    cost = cost_of(evaluations)
    return {
        "latency_ms": {"p50": round(cost.p50, 2), "p95": round(cost.p95, 2)},
        "tokens": round(cost.tokens, 1),
    }


def _set(evaluation: Evaluation, settings: Mapping[str, Any]) -> dict[str, Any]:
    index = {
        name: value for name, value in asdict(evaluation.index).items() if name != "generation"
    }
    about = {"name": evaluation.name, "folders": list(evaluation.folders), "index": index}
    about["settings"] = {
        key: list(value) if isinstance(value, tuple) else value for key, value in settings.items()
    }
    return {**about, **_way(evaluation)} | (
        {"typed": _way(evaluation.typed)} if evaluation.typed else {}
    )


def _way(evaluation: Evaluation) -> dict[str, Any]:
    by_query = {query: measured[MAIN] for query, measured in evaluation.measured.items()}
    return {
        "digest": set_digest(evaluation.queries),
        **_measured([evaluation]),
        "by_query": by_query,
    }


def _rewording(each: Rewording) -> dict[str, Any]:
    return {
        "name": each.name,
        "kinds": [_difference(kind) for kind in each.differences],
        "times": round(each.times, 3),
    }


def _difference(each: Difference) -> dict[str, Any]:
    interval = {
        "difference": round(each.interval.mean, 4),
        "low": round(each.interval.low, 4),
        "high": round(each.interval.high, 4),
    }
    means = {"before": round(each.before, 4), "after": round(each.after, 4)}
    return {
        "name": each.name,
        "queries": each.queries,
        **means,
        **interval,
        "better": each.better,
        "worse": each.worse,
    }


_COST = ("p50 ms", "p95 ms", "tokens")
_CHANGE = ("difference", "95 % interval", "verdict")

_BESIDE = ("S@1", "sec@1", "sec@3")
"""Measures that are shown as typed and with rewordings, beside the main one."""

_MISSING = "-"


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table with what is to be known to read it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def tables(findings: Findings) -> tuple[ReportTable, ...]:
    """Return the tables of a run, in the order in which they are read."""
    return tuple(_tables(findings))


def render_markdown(findings: Findings) -> str:
    """Return the page."""
    parts = [
        "# Evaluation",
        "",
        *(
            f"- {_about(each, findings.settings.get(each.name, {}))}"
            for each in findings.evaluations
        ),
    ]
    for table in tables(findings):
        parts += ["", f"## {table.title}", "", *_lines(table)]
    return "\n".join(parts) + "\n"


def write_report(folder: Path, findings: Findings) -> None:
    """Write `report.md` and `report.json` into an existing folder.

    Raises UsageError where that cannot be.
    """
    page, data = folder / "report.md", folder / "report.json"
    try:
        page.write_text(render_markdown(findings), encoding="utf-8")
        data.write_text(
            json.dumps(record(findings), ensure_ascii=False, indent=2) + "\n", encoding="utf-8"
        )
    except OSError as error:
        raise UsageError(
            f"{folder}: the report cannot be written ({error.strerror}): name another folder "
            "with --report."
        ) from error


def verdict_of(difference: Difference) -> str:
    """Say whether a difference is more than noise."""
    if not difference.interval.certain:
        return "within the noise" if difference.better or difference.worse else "no change"
    return "better" if difference.interval.mean > 0 else "worse"


def _tables(findings: Findings) -> Iterator[ReportTable]:
    yield _by_set(findings.evaluations)
    yield _by_kind(findings.evaluations)
    for each in rewordings(findings.evaluations):
        yield _as_typed_and_with(each)
    if findings.baseline:
        yield _since(findings.baseline)


def _by_set(evaluations: Sequence[Evaluation]) -> ReportTable:
    groups = [(way.name, [way]) for each in evaluations for way in (each, each.typed) if way]
    if len(evaluations) > 1:
        groups.insert(0, ("ALL", list(evaluations)))
        if any(each.typed for each in evaluations):
            groups.insert(1, (typed_name("ALL"), [each.typed or each for each in evaluations]))
    rows = [
        (name, *_quality(group), *_cost_cells(group), f"{sum(each.unanswered for each in group):,}")
        for name, group in groups
    ]
    note = (
        "Latency and tokens are those of an answer as users get it (`query.limit` passages); "
        "quality is measured on a longer ranking."
    )
    return ReportTable(
        "By set", ("set", "n", *MEASURES, *_COST, "unanswered"), tuple(rows), (note,)
    )


def _by_kind(evaluations: Sequence[Evaluation]) -> ReportTable:
    scores, counts = pooled(evaluations)
    rows = [(kind, f"{counts[kind]:,}", *_cells(means)) for kind, means in scores.items()]
    return ReportTable("By kind of query", ("kind", "n", *MEASURES), tuple(rows))


def _as_typed_and_with(rewording: Rewording) -> ReportTable:
    (typed, _), (reworded, _) = pooled(rewording.typed), pooled(rewording.reworded)
    rows: list[tuple[str, ...]] = []
    for each in rewording.differences:
        before_and_after = (
            each.name,
            f"{each.queries:,}",
            f"{each.before:.3f}",
            f"{each.after:.3f}",
        )
        own, other = typed[each.name], reworded[each.name]
        measured = [f"{_cell(own, name)} {_cell(other, name)}" for name in _BESIDE]
        counts = (f"{each.better:,}", f"{each.worse:,}")
        rows.append((*before_and_after, *_change(each), *measured, *counts))
    before, after = cost_of(rewording.typed), cost_of(rewording.reworded)
    notes = (
        (
            "`also` and `passage` of the set are left out as typed. Two figures in a cell: as "
            "typed, and with them."
        ),
        f"An answer takes {before.p50:.1f} ms as typed and {after.p50:.1f} ms with them (p50; p95 "
        f"{before.p95:.1f} and {after.p95:.1f});"
        f" all together {rewording.times:.2f} times as long.",
    )
    columns = ("kind", "n", "as typed", "with", *_CHANGE, *_BESIDE, "queries better", "worse")
    return ReportTable(
        f"{rewording.name}: {MAIN} as typed, and with `also` and `passage`",
        columns,
        tuple(rows),
        notes,
    )


def _since(baseline: Sequence[Difference]) -> ReportTable:
    rows = [
        (
            d.name,
            f"{d.queries:,}",
            f"{d.before:.3f}",
            f"{d.after:.3f}",
            *_change(d),
            f"{d.better:,}",
            f"{d.worse:,}",
        )
        for d in baseline
    ]
    columns = ("set", "n", "before", "now", *_CHANGE, "queries better", "worse")
    return ReportTable(
        f"{MAIN} since the baseline",
        columns,
        tuple(rows),
        ("The interval is that of a paired bootstrap over queries.",),
    )


def _quality(evaluations: Sequence[Evaluation]) -> tuple[str, ...]:
    scores, counts = pooled(evaluations)
    return (f"{counts['ALL']:,}", *_cells(scores["ALL"]))


def _cells(means: dict[str, float]) -> tuple[str, ...]:
    return tuple(_cell(means, name) for name in MEASURES)


def _cell(means: dict[str, float], name: str) -> str:
    return f"{means[name]:.3f}" if name in means else _MISSING


def _cost_cells(evaluations: Sequence[Evaluation]) -> tuple[str, ...]:
    cost = cost_of(evaluations)
    return (f"{cost.p50:.0f}", f"{cost.p95:.0f}", f"{cost.tokens:,.0f}")


def _change(difference: Difference) -> tuple[str, ...]:
    interval = difference.interval
    return (
        f"{interval.mean:+.3f}",
        f"[{interval.low:+.3f}, {interval.high:+.3f}]",
        verdict_of(difference),
    )


def _about(each: Evaluation, settings: Mapping[str, Any]) -> str:
    index, folders = each.index, ", ".join(each.folders)
    vectors = f", {index.pending:,} of them without vectors" if index.pending else ""
    held = (
        f"{plural(index.documents, 'document')}, {plural(index.chunks, 'chunk')}{vectors}; model "
        f"{index.model or 'none'}"
    )
    changed = ", ".join(
        f"`{key} = {json.dumps(value, ensure_ascii=False)}`" for key, value in settings.items()
    )
    given = (
        f"settings that are not at their defaults: {changed}"
        if changed
        else "all settings at their defaults"
    )
    return f"{each.name} asked of {folders}: {held}; {given}"


def _lines(table: ReportTable) -> Iterator[str]:
    yield _row(table.columns)
    yield _row(("---", *("---:" for _ in table.columns[1:])))
    yield from map(_row, table.rows)
    for note in table.notes:
        yield f"\n{note}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
