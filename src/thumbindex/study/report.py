"""Report an evaluation: as JSON, as tables, as a Markdown page, and as plots; the adapter to matplotlib."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from thumbindex.errors import UsageError
from thumbindex.study.compare import Ablation, Difference
from thumbindex.study.evaluate import Abstention, Evaluation, pooled
from thumbindex.study.measures import MAIN, MEASURES
from thumbindex.study.queries import digest_of


@dataclass(frozen=True, slots=True)
class Findings:
    """The sets that were asked, what changed since a baseline, and what each setting does."""

    evaluations: tuple[Evaluation, ...]
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by set: those that are not at their defaults
    baseline: tuple[Difference, ...] = ()  # `ALL` first where there are several sets
    effects: tuple[Ablation, ...] = ()
    abstention: Mapping[str, Abstention] = field(default_factory=dict)  # by set


@dataclass(frozen=True, slots=True)
class Cost:
    """What answers as users get them cost: milliseconds, and tokens a query."""

    p50: float
    p95: float
    tokens: float


def cost_of(evaluations: Sequence[Evaluation]) -> Cost:
    """Return what the queries of some sets cost."""
    asked = [each for evaluation in evaluations for each in evaluation.asked.values()]
    p50, p95 = np.percentile([each.seconds * 1000 for each in asked], (50, 95))
    return Cost(float(p50), float(p95), sum(each.tokens for each in asked) / len(asked))


def record(findings: Findings) -> dict[str, Any]:
    """Return what `eval --json` prints (`docs/schema/eval.json`); the measures by kind are those of the scorer in `shared/eval`."""
    told: dict[str, Any] = _measured(findings.evaluations)
    told["sets"] = [_set(each, findings.settings.get(each.name, {})) for each in findings.evaluations]
    if findings.baseline:
        told["baseline"] = [_difference(each) for each in findings.baseline]
    if findings.effects:
        told["ablation"] = [_effect(each) for each in findings.effects]
    if findings.abstention:
        told["abstention"] = [{"name": name, **asdict(each)} for name, each in findings.abstention.items()]
    return told


def _measured(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    scores, counts = pooled(evaluations)
    return {
        "queries": counts["ALL"],
        "unanswered": sum(each.unanswered for each in evaluations),
        "seconds": round(sum(each.seconds for each in evaluations), 3),
        **_cost(evaluations),
        "scores": {kind: {"n": counts[kind], **{name: round(value, 4) for name, value in means.items()}} for kind, means in scores.items()},
    }


def _cost(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    cost = cost_of(evaluations)
    return {"latency_ms": {"p50": round(cost.p50, 2), "p95": round(cost.p95, 2)}, "tokens": round(cost.tokens, 1)}


def _set(evaluation: Evaluation, settings: Mapping[str, Any]) -> dict[str, Any]:
    index = {name: value for name, value in asdict(evaluation.index).items() if name != "generation"}
    by_query = {query: measured[MAIN] for query, measured in evaluation.measured.items()}
    about = {"name": evaluation.name, "digest": digest_of(evaluation.queries), "folders": list(evaluation.folders), "index": index}
    about["settings"] = {key: list(value) if isinstance(value, tuple) else value for key, value in settings.items()}
    return {**about, **_measured([evaluation]), "by_query": by_query}


def _difference(each: Difference) -> dict[str, Any]:
    interval = {"difference": round(each.interval.mean, 4), "low": round(each.interval.low, 4), "high": round(each.interval.high, 4)}
    means = {"before": round(each.before, 4), "after": round(each.after, 4)}
    return {"name": each.name, "queries": each.queries, **means, **interval, "better": each.better, "worse": each.worse}


def _effect(each: Ablation) -> dict[str, Any]:
    told = {"name": each.variant.name, "settings": {f"query.{key}": value for key, value in each.variant.changes.items()}}
    if each.difference is None:
        return {**told, "refusal": each.refusal}
    sets = {one.name: round(one.scores["ALL"][MAIN], 4) for one in each.evaluations}
    scores = {name: round(value, 4) for name, value in pooled(each.evaluations)[0]["ALL"].items()}
    return {**told, "scores": scores, "sets": sets, **_cost(each.evaluations), "difference": _difference(each.difference)}


_COST = ("p50 ms", "p95 ms", "tokens")
_CHANGE = ("difference", "95 % interval", "verdict")

_BESIDE = ("S@1", "sec@1", "sec@3")
"""Measures of a changed setting beside the main one: nothing else is looked at while a setting is chosen."""

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


def render_markdown(findings: Findings, plots: Sequence[tuple[str, Path]] = ()) -> str:
    """Return the page; `plots` are titles and files that lie beside it."""
    parts = ["# Evaluation", "", *(f"- {_about(each, findings.settings.get(each.name, {}))}" for each in findings.evaluations)]
    for table in tables(findings):
        parts += ["", f"## {table.title}", "", *_lines(table)]
    for title, path in plots:
        parts += ["", f"![{title}]({path.name})"]
    return "\n".join(parts) + "\n"


def write_report(folder: Path, findings: Findings, plots: Sequence[tuple[str, Path]] = ()) -> tuple[Path, Path]:
    """Write `report.md` and `report.json` into an existing folder and return their paths. Raises UsageError where that cannot be."""
    page, data = folder / "report.md", folder / "report.json"
    try:
        page.write_text(render_markdown(findings, plots), encoding="utf-8")
        data.write_text(json.dumps(record(findings), ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder}: the report cannot be written ({error.strerror}): name another folder with --report.") from error
    return page, data


def verdict(difference: Difference) -> str:
    """Say whether a difference is more than noise."""
    if not difference.interval.certain:
        return "within the noise" if difference.better or difference.worse else "no change"
    return "better" if difference.interval.mean > 0 else "worse"


def _tables(findings: Findings) -> Iterator[ReportTable]:
    yield _by_set(findings.evaluations)
    yield _by_kind(findings.evaluations)
    if findings.baseline:
        yield _since(findings.baseline)
    if findings.effects:
        yield _by_setting(findings)
        if len(findings.evaluations) > 1:
            yield _by_setting_and_set(findings)
    for name, measured in findings.abstention.items():
        yield _by_threshold(name, measured)


def _by_set(evaluations: Sequence[Evaluation]) -> ReportTable:
    groups = [(each.name, [each]) for each in evaluations]
    if len(groups) > 1:
        groups.insert(0, ("ALL", list(evaluations)))
    rows = [(name, *_quality(group), *_cost_cells(group), f"{sum(each.unanswered for each in group):,}") for name, group in groups]
    note = "Latency and tokens are those of an answer as users get it (`query.limit` passages); quality is measured on a longer ranking."
    return ReportTable("By set", ("set", "n", *MEASURES, *_COST, "unanswered"), tuple(rows), (note,))


def _by_kind(evaluations: Sequence[Evaluation]) -> ReportTable:
    scores, counts = pooled(evaluations)
    rows = [(kind, f"{counts[kind]:,}", *_cells(means)) for kind, means in scores.items()]
    return ReportTable("By kind of query", ("kind", "n", *MEASURES), tuple(rows))


def _since(baseline: Sequence[Difference]) -> ReportTable:
    rows = [(d.name, f"{d.queries:,}", f"{d.before:.3f}", f"{d.after:.3f}", *_change(d), f"{d.better:,}", f"{d.worse:,}") for d in baseline]
    columns = ("set", "n", "before", "now", *_CHANGE, "queries better", "worse")
    return ReportTable(f"{MAIN} since the baseline", columns, tuple(rows), ("The interval is that of a paired bootstrap over queries.",))


def _by_setting(findings: Findings) -> ReportTable:
    default = ("as configured", *_effect_cells(findings.evaluations, ("", "", "")))
    rows = [(each.variant.name, *_effect_cells(each.evaluations, _change(each.difference))) for each in findings.effects if each.difference]
    notes = [f"{each.variant.name} was not asked: {each.refusal}" for each in findings.effects if each.refusal]
    columns = ("configuration", MAIN, *_CHANGE, *_BESIDE, *_COST)
    return ReportTable("Each setting alone", columns, (default, *rows), tuple(notes))


def _by_setting_and_set(findings: Findings) -> ReportTable:
    asked = [("as configured", findings.evaluations), *((each.variant.name, each.evaluations) for each in findings.effects if each.difference)]
    rows = tuple((name, *(f"{each.scores['ALL'][MAIN]:.3f}" for each in evaluations)) for name, evaluations in asked)
    return ReportTable(f"Each setting alone, {MAIN} by set", ("configuration", *(each.name for each in findings.evaluations)), rows)


def _by_threshold(name: str, measured: Abstention) -> ReportTable:
    rows = [
        (f"below {each.confidence:.2f}", f"{each.lost:.3f}", *(f"{each.refused[kind]:.3f}" for kind in measured.auc)) for each in measured.thresholds
    ]
    notes = [
        f"AUC of confidence, {measured.counts['answerable']} answerable against {measured.counts[k]} {k}: {a:.4f}" for k, a in measured.auc.items()
    ]
    return ReportTable(f"{name}: what a threshold of confidence refuses", ("confidence", "answerable", *measured.auc), tuple(rows), tuple(notes))


def _effect_cells(evaluations: Sequence[Evaluation], change: Sequence[str]) -> tuple[str, ...]:
    means = pooled(evaluations)[0]["ALL"]
    return (_cell(means, MAIN), *change, *(_cell(means, name) for name in _BESIDE), *_cost_cells(evaluations))


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
    return (f"{interval.mean:+.3f}", f"[{interval.low:+.3f}, {interval.high:+.3f}]", verdict(difference))


def _about(each: Evaluation, settings: Mapping[str, Any]) -> str:
    index, folders = each.index, ", ".join(each.folders)
    vectors = f", {index.pending:,} of them without vectors" if index.pending else ""
    held = f"{index.documents:,} documents, {index.chunks:,} chunks{vectors}; model {index.model or 'none'}"
    changed = ", ".join(f"`{key} = {json.dumps(value, ensure_ascii=False)}`" for key, value in settings.items())
    told = f"settings that are not at their defaults: {changed}" if changed else "all settings at their defaults"
    return f"{each.name} asked of {folders}: {held}; {told}"


def _lines(table: ReportTable) -> Iterator[str]:
    yield _row(table.columns)
    yield _row(("---", *("---:" for _ in table.columns[1:])))
    yield from map(_row, table.rows)
    for note in table.notes:
        yield f"\n{note}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
