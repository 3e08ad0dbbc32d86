"""Figures as they were measured: as a table, as JSON (`bench.json` describes it), beside an earlier
run, and as pictures.
"""

import json
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from thumbindex.process import cores

BUSY = 0.5
"""Others' load a core from which on a table says that the machine was busy."""

Earlier = Mapping[tuple[str, str], Sequence[float]]
"""An earlier run's values by what and name."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: a value a round, and what the median is to come to, at most or at least; else it
    is there to be read.
    """

    what: str  # its name on the command line
    name: str
    unit: str
    values: Sequence[float]
    most: float | None = None
    least: float | None = None
    note: str = ""  # what is to be known to read it
    size: int | None = None  # chunks, where it is one of several sizes

    @property
    def median(self) -> float:
        """Return the middle of the values."""
        return median(self.values)

    @property
    def target(self) -> str:
        """Return what the median is to come to; empty where that is nothing."""
        return (
            f"≤ {self.most:g}"
            if self.most is not None
            else f"≥ {self.least:g}"
            if self.least is not None
            else ""
        )

    @property
    def met(self) -> bool | None:
        """Tell whether the median meets the target; None where there is none."""
        return (
            (self.most is None or self.median <= self.most)
            and (self.least is None or self.median >= self.least)
            if self.target
            else None
        )


def ratios(ours: Sequence[float], reference: Sequence[float]) -> list[float]:
    """Divide round by round: both were measured one after the other, and met the same machine."""
    return [a / b for a, b in zip(ours, reference, strict=True)]


def quantile_rows(
    what: str,
    name: str,
    rounds: Sequence[Sequence[float]],
    targets: tuple[float | None, float | None] = (None, None),
    **about: Any,
) -> Iterator[Row]:
    """Yield p50 and p95 of some rounds' milliseconds; `{}` in the name stands for which it is."""
    for quantile, most in zip((50, 95), targets, strict=True):
        yield Row(
            what,
            name.format(f"p{quantile}"),
            "ms",
            [float(np.percentile(each, quantile)) for each in rounds],
            most,
            **about,
        )


def machine() -> dict[str, Any]:
    """Return where and when it was measured: figures of two machines or moments must not be
    compared without.
    """
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    about = {
        "python": platform.python_version(),
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": cores(),
        "load": load,
    }
    return {
        "version": version("thumbindex"),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        **about,
    }


def write_record(path: Path, rows: Sequence[Row], about: Mapping[str, Any]) -> None:
    """Write a run for `--compare`."""
    path.write_text(
        json.dumps({**about, "rows": [_payload(row) for row in rows]}, ensure_ascii=False, indent=2)
        + "\n",
        encoding="utf-8",
    )


def read_record(path: Path) -> Earlier:
    """Read the values of an earlier run."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {(row["what"], row["name"]): tuple(map(float, row["values"])) for row in rows}


def _payload(row: Row) -> dict[str, Any]:
    target = {"most": row.most, "least": row.least} if row.target else None
    figure = {
        "what": row.what,
        "name": row.name,
        "unit": row.unit,
        "values": list(row.values),
        "median": row.median,
    }
    return {**figure, "target": target, "met": row.met, "note": row.note, "size": row.size}


def table(rows: Sequence[Row], about: Mapping[str, Any], earlier: Earlier) -> Iterator[str]:
    """Yield the lines of a table of all rows, beside an earlier run where there is one, and of what
    is to be known to read it.
    """
    head = [
        "what",
        "figure",
        "median",
        "from",
        "to",
        "unit",
        "target",
        "",
        *(("before", "change") if earlier else ()),
    ]
    cells = [head, *([*_cells(row), *(_beside(row, earlier) if earlier else ())] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        yield "  ".join(
            cell.ljust(width) for cell, width in zip(line, widths, strict=True)
        ).rstrip()
    targets = [row.met for row in rows if row.target]
    yield (
        f"{sum(met is True for met in targets)} of {len(targets)} targets met; {about['cores']} "
        f"cores, Python {about['python']}."
    )
    yield from (f"{row.what}: {row.name}: {row.note}" for row in rows if row.note)
    if about["load"] is not None and about["load"] / about["cores"] > BUSY:
        yield (
            f"The machine was busy before it began (load {about['load']:.1f}): trust ratios and "
            "counts, and measure times again."
        )


def _cells(row: Row) -> list[str]:
    spread = (
        [_figure(min(row.values)), _figure(max(row.values))] if len(row.values) > 1 else ["", ""]
    )
    return [
        row.what,
        row.name,
        _figure(row.median),
        *spread,
        row.unit,
        row.target,
        {True: "met", False: "missed", None: ""}[row.met],
    ]


def _beside(row: Row, earlier: Earlier) -> tuple[str, str]:
    before = earlier.get((row.what, row.name))
    if not before:
        return "", ""
    was = median(before)
    overlap = (
        len(row.values) > 1 and min(row.values) <= max(before) and min(before) <= max(row.values)
    )
    return _figure(was), (f"{row.median / was - 1:+.0%}" if was else "") + (
        " (ranges overlap)" if overlap else ""
    )


def _figure(value: float) -> str:
    """Write a number with three digits that count."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.4f}"


def draw_growth(folder: Path, rows: Sequence[Row]) -> list[Path]:
    """Draw what was measured at several sizes into a folder, which is made."""
    # not pyplot: it keeps a state for the whole process and looks for a screen
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for unit, title, label in (
        ("ms", "Time of an answer against size", "milliseconds"),
        ("MB", "Memory against size", "MB resident"),
    ):
        lines: dict[str, list[tuple[int, float]]] = {}
        for row in rows:
            if row.size and row.unit == unit:
                lines.setdefault(re.sub(r", [\d,]+ chunks$", "", row.name), []).append(
                    (row.size, row.median)
                )
        picture = Figure(figsize=(8.0, 4.5), layout="constrained")
        axes = picture.add_subplot(
            xscale="log", yscale="log", xlabel="chunks", ylabel=label, title=title
        )
        for name, points in lines.items():
            axes.plot(*zip(*points, strict=True), marker="o", label=name)
        axes.legend()
        drawn.append(folder / f"growth-{title.split()[0].lower()}.svg")
        # the same figures give the same file, which can be checked in; letters stay letters, at a
        # third of the size
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
            picture.savefig(drawn[-1], metadata={"Date": None})
    return drawn
