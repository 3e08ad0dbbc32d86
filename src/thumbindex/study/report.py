"""Report an evaluation: as JSON, as tables, as a Markdown page, and as plots; the door to
matplotlib.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from thumbindex.errors import UsageError, install_with
from thumbindex.study.compare import Ablation, Difference, compare_runs, interval_of
from thumbindex.study.evaluate import Abstention, Evaluation, pooled, typed_name
from thumbindex.study.measures import MAIN, MEASURES
from thumbindex.study.queries import set_digest
from thumbindex.text import plural


@dataclass(frozen=True, slots=True)
class Findings:
    """The sets that were asked, what changed since a baseline, and what each setting does."""

    evaluations: tuple[Evaluation, ...]
    # by set: those that are not at their defaults
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
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
    if findings.effects:
        found["ablation"] = [_effect(each) for each in findings.effects]
    if findings.abstention:
        found["abstention"] = [
            {"name": name, **asdict(each)} for name, each in findings.abstention.items()
        ]
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


def _effect(each: Ablation) -> dict[str, Any]:
    effect = {
        "name": each.variant.name,
        "settings": {f"query.{key}": value for key, value in each.variant.changes.items()},
    }
    if each.difference is None:
        return {**effect, "refusal": each.refusal}
    sets = {one.name: round(one.scores["ALL"][MAIN], 4) for one in each.evaluations}
    scores = {name: round(value, 4) for name, value in pooled(each.evaluations)[0]["ALL"].items()}
    return {
        **effect,
        "scores": scores,
        "sets": sets,
        **_cost(each.evaluations),
        "difference": _difference(each.difference),
    }


_COST = ("p50 ms", "p95 ms", "tokens")
_CHANGE = ("difference", "95 % interval", "verdict")

_BESIDE = ("S@1", "sec@1", "sec@3")
"""Measures of a changed setting beside the main one: nothing else is looked at while a setting is
chosen.
"""

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
    for title, path in plots:
        parts += ["", f"![{title}]({path.name})"]
    return "\n".join(parts) + "\n"


def write_report(
    folder: Path, findings: Findings, plots: Sequence[tuple[str, Path]] = ()
) -> tuple[Path, Path]:
    """Write `report.md` and `report.json` into an existing folder and return their paths.

    Raises UsageError where that cannot be.
    """
    page, data = folder / "report.md", folder / "report.json"
    try:
        page.write_text(render_markdown(findings, plots), encoding="utf-8")
        data.write_text(
            json.dumps(record(findings), ensure_ascii=False, indent=2) + "\n", encoding="utf-8"
        )
    except OSError as error:
        raise UsageError(
            f"{folder}: the report cannot be written ({error.strerror}): name another folder "
            "with --report."
        ) from error
    return page, data


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
    if findings.effects:
        yield _by_setting(findings)
        if len(findings.evaluations) > 1:
            yield _by_setting_and_set(findings)
    for name, measured in findings.abstention.items():
        yield _by_threshold(name, measured)
        yield _by_bin(name, measured)


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


def _by_setting(findings: Findings) -> ReportTable:
    default = ("as configured", *_effect_cells(findings.evaluations, ("", "", "")))
    rows = [
        (each.variant.name, *_effect_cells(each.evaluations, _change(each.difference)))
        for each in findings.effects
        if each.difference
    ]
    notes = [
        f"{each.variant.name} was not asked: {each.refusal}"
        for each in findings.effects
        if each.refusal
    ]
    columns = ("configuration", MAIN, *_CHANGE, *_BESIDE, *_COST)
    return ReportTable("Each setting alone", columns, (default, *rows), tuple(notes))


def _by_setting_and_set(findings: Findings) -> ReportTable:
    asked = [
        ("as configured", findings.evaluations),
        *((each.variant.name, each.evaluations) for each in findings.effects if each.difference),
    ]
    rows = tuple(
        (name, *(f"{each.scores['ALL'][MAIN]:.3f}" for each in evaluations))
        for name, evaluations in asked
    )
    return ReportTable(
        f"Each setting alone, {MAIN} by set",
        ("configuration", *(each.name for each in findings.evaluations)),
        rows,
    )


def _by_threshold(name: str, measured: Abstention) -> ReportTable:
    rows = [
        (
            f"below {each.confidence:.2f}",
            f"{each.lost:.3f}",
            *(f"{each.refused[kind]:.3f}" for kind in measured.auc),
        )
        for each in measured.thresholds
    ]
    notes = [
        (
            f"AUC of confidence, {measured.counts['answerable']} answerable against "
            f"{measured.counts[k]} {k}: {a:.4f}"
        )
        for k, a in measured.auc.items()
    ]
    columns = ("confidence", "right", *measured.auc)
    return ReportTable(f"{name}: what is below a confidence", columns, tuple(rows), tuple(notes))


def _by_bin(name: str, measured: Abstention) -> ReportTable:
    """Return how often the first passage is right where an answer is so sure: the reliability
    curve.
    """
    share = [
        f"{each.right / each.answerable:.3f}" if each.answerable else _MISSING
        for each in measured.reliability
    ]
    rows = [
        (f"{each.least:.1f} and more", f"{each.answerable:,}", one, f"{each.unanswerable:,}")
        for each, one in zip(measured.reliability, share, strict=True)
    ]
    return ReportTable(
        f"{name}: reliability",
        ("confidence", "answerable", "first passage right", "without an answer"),
        tuple(rows),
    )


def _effect_cells(evaluations: Sequence[Evaluation], change: Sequence[str]) -> tuple[str, ...]:
    means = pooled(evaluations)[0]["ALL"]
    return (
        _cell(means, MAIN),
        *change,
        *(_cell(means, name) for name in _BESIDE),
        *_cost_cells(evaluations),
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


# ------------------------------------------------------------------ plots

_DPI = 120

_PLOT_WIDTH = 8.0  # inches, like what follows
_PLOT_HEIGHT = 4.5
_PLOT_ROW = 0.26

BLUE, ORANGE, GREEN, GRAY = "#0072b2", "#d55e00", "#009e73", "#999999"
"""Told apart by people who see colors in any way (Okabe & Ito 2008)."""

Point = tuple[str, float, float]
"""A name, milliseconds, and the main measure."""


def draw(folder: Path, findings: Findings) -> tuple[tuple[str, Path], ...]:
    """Draw what there is to draw into an existing folder; return titles and files.

    Raises UsageError where matplotlib is not installed.
    """
    drawings: list[tuple[str, str, Callable[[Any, Findings], None]]] = [
        ("Quality by kind", "by-kind.png", _plot_by_kind)
    ]
    if _shown(findings):
        drawings.append(("What each setting does", "ablation.png", _waterfall))
    drawings.append(("Quality against latency", "latency.png", _against_latency))
    return tuple(
        (title, _drawn(folder / name, title, findings, drawing))
        for title, name, drawing in drawings
    )


def _drawn(
    path: Path, title: str, findings: Findings, drawing: Callable[[Any, Findings], None]
) -> Path:
    try:
        # an extra; not pyplot: it keeps a state for the whole process and looks for a screen
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            f"The plots are left out, since matplotlib is not installed: {install_with('plots')}."
        ) from error
    rows = len(_shown(findings)) if drawing is _waterfall else 0
    figure = Figure(
        figsize=(_PLOT_WIDTH, max(_PLOT_HEIGHT, _PLOT_ROW * rows)), layout="constrained"
    )
    axes = figure.add_subplot()
    axes.set_title(title)
    drawing(axes, findings)
    try:
        figure.savefig(path, dpi=_DPI)
    except OSError as error:
        raise UsageError(
            f"{path}: the plot cannot be written ({error.strerror}): name another folder with "
            "--report."
        ) from error
    return path


def _plot_by_kind(axes: Any, findings: Findings) -> None:
    """Draw a bar a kind, with the interval of its mean: few queries say little."""
    groups: dict[str, list[float]] = {}
    for each in findings.evaluations:
        for query in each.queries:
            groups.setdefault(query.kind, []).append(each.measured[query.id][MAIN])
    names = sorted(groups)
    intervals = [interval_of(groups[name]) for name in names]
    spans = [
        [each.mean - each.low for each in intervals],
        [each.high - each.mean for each in intervals],
    ]
    axes.bar(
        range(len(names)),
        [each.mean for each in intervals],
        yerr=spans,
        color=BLUE,
        ecolor=GRAY,
        capsize=3,
    )
    axes.set_xticks(
        range(len(names)),
        [f"{name}\nn = {len(groups[name])}" for name in names],
        rotation=30,
        ha="right",
    )
    axes.set_ylim(0, 1.05)
    axes.set_ylabel(f"{MAIN}, with its 95 % interval")


def _waterfall(axes: Any, findings: Findings) -> None:
    """Draw a bar a variant, from the configuration as it is to where the variant gets, largest loss
    first; colored where it is no noise.
    """
    shown = [(each, each.difference.interval) for each in _shown(findings) if each.difference]
    shown.sort(key=lambda pair: pair[1].mean, reverse=True)
    effects, intervals = [effect for effect, _ in shown], [interval for _, interval in shown]
    start = pooled(findings.evaluations)[0]["ALL"][MAIN]
    colors = [
        GRAY if not each.certain else GREEN if each.mean > 0 else ORANGE for each in intervals
    ]
    spans = [
        [each.mean - each.low for each in intervals],
        [each.high - each.mean for each in intervals],
    ]
    axes.barh(
        range(len(effects)),
        [each.mean for each in intervals],
        left=start,
        xerr=spans,
        color=colors,
        ecolor="#555555",
        capsize=2,
    )
    axes.axvline(start, color="black", linewidth=0.8)
    axes.set_yticks(range(len(effects)), [each.variant.name for each in effects], fontsize=8)
    axes.set_ylim(-0.7, len(effects) - 0.3)
    axes.set_xlabel(
        f"{MAIN}; the line is the configuration as it is, gray what lies within the noise"
    )


def _against_latency(axes: Any, findings: Findings) -> None:
    """Draw a point a configuration, a point a set where there is one configuration; named where
    nothing is both better and faster.
    """
    here = "as configured"
    if len(findings.evaluations) <= 1 and not findings.effects:
        here = findings.evaluations[0].name
    points = [_point(here, findings.evaluations)]
    points += [_point(each.variant.name, each.evaluations) for each in _shown(findings)]
    if not findings.effects and len(findings.evaluations) > 1:
        points += [_point(each.name, [each]) for each in findings.evaluations]
    best = undominated(points) if findings.effects else points
    named = list(dict.fromkeys([points[0], *best]))
    axes.scatter(
        [ms for _, ms, _ in points],
        [value for *_, value in points],
        color=[BLUE if each in named else GRAY for each in points],
        s=18,
    )
    axes.scatter(*points[0][1:], color=ORANGE, s=36)
    # by turns above and below: neighbors on the front are often close
    for number, (name, ms, value) in enumerate(named):
        axes.annotate(
            name,
            (ms, value),
            xytext=(4, 5 if number % 2 else -11),
            textcoords="offset points",
            fontsize=8,
        )
    axes.margins(y=0.15)
    axes.set_xlabel("p50 of an answer as users get it, milliseconds")
    axes.set_ylabel(MAIN)


def undominated(points: Sequence[Point]) -> list[Point]:
    """Return the points than which none is both better and faster, the slowest of them first."""
    best: list[Point] = []
    for each in sorted(points, key=lambda point: (point[1], -point[2])):
        if not best or each[2] > best[-1][2]:
            best.append(each)
    return best[::-1]


def _point(name: str, evaluations: Sequence[Evaluation]) -> Point:
    return name, cost_of(evaluations).p50, pooled(evaluations)[0]["ALL"][MAIN]


def _shown(findings: Findings) -> list[Ablation]:
    """Return the variants that found anything: one that found nothing would squeeze all others into
    a corner.
    """
    return [each for each in findings.effects if each.difference and each.difference.after > 0]
