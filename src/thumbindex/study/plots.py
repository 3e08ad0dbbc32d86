"""The door to matplotlib: runs of `eval` as pictures. An extra brings it (`thumbindex[plots]`); all else goes on without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.study.compare import Ablation, interval_of
from thumbindex.study.evaluate import Evaluation, pooled
from thumbindex.study.measures import MAIN
from thumbindex.study.report import Findings, cost_of

_DPI = 120

_WIDTH = 8.0  # inches, like what follows
_HEIGHT = 4.5
_ROW = 0.26

BLUE, ORANGE, GREEN, GRAY = "#0072b2", "#d55e00", "#009e73", "#999999"
"""Told apart by people who see colors in any way (Okabe & Ito 2008)."""

Point = tuple[str, float, float]
"""A name, milliseconds, and the main measure."""


def draw(folder: Path, findings: Findings) -> tuple[tuple[str, Path], ...]:
    """Draw what there is to draw into an existing folder; return titles and files. Raises UsageError where matplotlib is not installed."""
    drawings: list[tuple[str, str, Callable[[Any, Findings], None]]] = [("Quality by kind", "by-kind.png", _by_kind)]
    if _shown(findings):
        drawings.append(("What each setting does", "ablation.png", _waterfall))
    drawings.append(("Quality against latency", "latency.png", _against_latency))
    return tuple((title, _drawn(folder / name, title, findings, drawing)) for title, name, drawing in drawings)


def _drawn(path: Path, title: str, findings: Findings, drawing: Callable[[Any, Findings], None]) -> Path:
    try:
        from matplotlib.figure import Figure  # not pyplot: it keeps a state for the whole process and looks for a screen
    except ImportError as error:
        raise UsageError("The plots are left out, since matplotlib is not installed: `pip install 'thumbindex[plots]'` brings it.") from error
    rows = len(_shown(findings)) if drawing is _waterfall else 0
    figure = Figure(figsize=(_WIDTH, max(_HEIGHT, _ROW * rows)), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    drawing(axes, findings)
    try:
        figure.savefig(path, dpi=_DPI)
    except OSError as error:
        raise UsageError(f"{path}: the plot cannot be written ({error.strerror}): name another folder with --report.") from error
    return path


def _by_kind(axes: Any, findings: Findings) -> None:
    """Draw a bar a kind, with the interval of its mean: few queries say little."""
    groups: dict[str, list[float]] = {}
    for each in findings.evaluations:
        for query in each.queries:
            groups.setdefault(query.kind, []).append(each.measured[query.id][MAIN])
    names = sorted(groups)
    intervals = [interval_of(groups[name]) for name in names]
    spans = [[each.mean - each.low for each in intervals], [each.high - each.mean for each in intervals]]
    axes.bar(range(len(names)), [each.mean for each in intervals], yerr=spans, color=BLUE, ecolor=GRAY, capsize=3)
    axes.set_xticks(range(len(names)), [f"{name}\nn = {len(groups[name])}" for name in names], rotation=30, ha="right")
    axes.set_ylim(0, 1.05)
    axes.set_ylabel(f"{MAIN}, with its 95 % interval")


def _waterfall(axes: Any, findings: Findings) -> None:
    """Draw a bar a variant, from the configuration as it is to where the variant gets, largest loss first; colored where it is no noise."""
    effects = sorted(_shown(findings), key=_change, reverse=True)
    intervals = [each.difference.interval for each in effects if each.difference]
    start = pooled(findings.evaluations)[0]["ALL"][MAIN]
    colors = [GRAY if not each.certain else GREEN if each.mean > 0 else ORANGE for each in intervals]
    spans = [[each.mean - each.low for each in intervals], [each.high - each.mean for each in intervals]]
    axes.barh(range(len(effects)), [each.mean for each in intervals], left=start, xerr=spans, color=colors, ecolor="#555555", capsize=2)
    axes.axvline(start, color="black", linewidth=0.8)
    axes.set_yticks(range(len(effects)), [each.variant.name for each in effects], fontsize=8)
    axes.set_ylim(-0.7, len(effects) - 0.3)
    axes.set_xlabel(f"{MAIN}; the line is the configuration as it is, gray what lies within the noise")


def _against_latency(axes: Any, findings: Findings) -> None:
    """Draw a point a configuration, a point a set where there is one configuration; named where nothing is both better and faster."""
    here = "as configured" if len(findings.evaluations) > 1 or findings.effects else findings.evaluations[0].name
    points = [_point(here, findings.evaluations)]
    points += [_point(each.variant.name, each.evaluations) for each in _shown(findings)]
    if not findings.effects and len(findings.evaluations) > 1:
        points += [_point(each.name, [each]) for each in findings.evaluations]
    named = list(dict.fromkeys([points[0], *(undominated(points) if findings.effects else points)]))
    axes.scatter([ms for _, ms, _ in points], [value for *_, value in points], color=[BLUE if each in named else GRAY for each in points], s=18)
    axes.scatter(*points[0][1:], color=ORANGE, s=36)
    for number, (name, ms, value) in enumerate(named):  # by turns above and below: neighbors on the front are often close
        axes.annotate(name, (ms, value), xytext=(4, 5 if number % 2 else -11), textcoords="offset points", fontsize=8)
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
    """Return the variants that found anything: one that found nothing would squeeze all others into a corner."""
    return [each for each in findings.effects if each.difference and each.difference.after > 0]


def _change(effect: Ablation) -> float:
    return effect.difference.interval.mean if effect.difference else 0.0
