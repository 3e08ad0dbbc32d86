"""The page that shows a comparison: tables made of the figures, and every measure in which another
tool is better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from compare.driver import Tool
from compare.hostile import ALIVE, NOTES
from compare.measure import DEPTH, summary
from compare.tools import LEFT_OUT
from thumbindex.study.compare import Interval

OURS = "thumbindex"

Shown = dict[str, Any]

_BETTER: tuple[tuple[str, bool, Callable[[Shown], float | None], str], ...] = (
    ("nDCG@10 as typed", True, lambda each: each["typed"].mean, ".3f"),
    (
        "nDCG@10 with rewordings",
        True,
        lambda each: each["reworded"].mean if each["reworded"] else None,
        ".3f",
    ),
    ("names first", True, lambda each: each["names"].mean if each["names"] else None, ".2f"),
    ("questions without an answer", False, lambda each: each["nothing"], "d"),
    (
        "processor time of an index and a first answer (s)",
        False,
        lambda each: each["index"].get("processor", 0.0) + each["first"]["processor"],
        ".1f",
    ),
    ("size of what it keeps (MB)", False, lambda each: each["index"]["bytes"] / 1e6, ".1f"),
    ("first answer (s)", False, lambda each: each["first"]["seconds"], ".1f"),
    ("p50 of a call (ms)", False, lambda each: each["p50"], ".0f"),
    ("p95 of a call (ms)", False, lambda each: each["p95"], ".0f"),
    ("processor time of a call (ms)", False, lambda each: each["processor"], ".0f"),
    ("tokens an answer", False, lambda each: each["tokens"], ",.0f"),
    ("memory (MB)", False, lambda each: each["memory"], ".0f"),
)
"""What is compared: its name, whether more is better, where it is found, and how it is written.

Some tools make their index at each start: of all the index is added to the start.
"""


def page(record: dict[str, Any], tools: Sequence[Tool]) -> str:
    """Return the page as Markdown."""
    run, parts = (
        record["run"],
        [_METHOD.format(**record["run"], command=_command(record), depth=DEPTH)],
    )
    parts.append(_tools(record, tools))
    for name, folder in record.get("folders", {}).items():
        shown = {
            tool.name: summary(folder["tools"][tool.name])
            for tool in tools
            if tool.name in folder.get("tools", {})
        }
        asked = folder["questions"]
        parts.append(
            f"## {name}\n\n{folder['files']:,} files; {asked['typed']} questions, "
            f"{asked['source']}; {asked['reworded']} of them with rewordings;"
            f" {asked['names']} names.{_old(folder.get('old'))}\n\n{_quality(shown)}\n\n"
            f"{_cost(shown, run['began'])}\n\n{_better(shown)}"
        )
    parts.append(_hostile(record.get("hostile", {}), tools, _old(record.get("old hostile"))))
    return "\n\n".join(parts) + f"\n\n<!-- Written by `make compare` on {run['date']}. -->\n"


_METHOD = (Path(__file__).parent / "method.md").read_text(encoding="utf-8").rstrip()
"""What stands above the tables, with names for what a run knows."""


def _command(record: dict[str, Any]) -> str:
    return "make compare EVAL=DIR" if record["run"]["labeled"] else "make compare"


def _tools(record: dict[str, Any], tools: Sequence[Tool]) -> str:
    rows = []
    for tool in tools:
        installed = record["installed"].get(tool.name, {})
        packages = (
            ", ".join(
                f"`{name}` {version}" for name, version in installed.get("versions", {}).items()
            )
            or ", ".join(f"`{each}`" for each in tool.packages)
            or f"this checkout, {record['run']['thumbindex']}"
        )
        size = (
            f"not installed: {installed['failed']}"
            if "failed" in installed
            else f"{installed.get('bytes', 0) / 1e6:,.0f} MB"
            if tool.packages
            else ""
        )
        rows.append((tool.name, packages, tool.how, f"`{tool.call}`", size))
    left = "\n".join(f"- {name}: {why}." for name, why in LEFT_OUT.items())
    return (
        f"{_table(('tool', 'package', 'runs with', 'MCP tool', 'installed'), rows)}\n\n"
        f"Looked at and not asked:\n\n{left}"
    )


def _quality(shown: dict[str, Shown]) -> str:
    rows = []
    for name, each in shown.items():
        if "given up" in each:
            rows.append((name, f"given up: {each['given up']}", "", "", "", ""))
            continue
        reworded = f"{_interval(each['reworded'])} {each['way']}" if each["reworded"] else ""
        names = _interval(each["names"], 2) if each["names"] else ""
        rows.append(
            (
                name,
                _interval(each["typed"]),
                f"{each['default'].mean:.3f}",
                reworded,
                names,
                str(each["nothing"]),
            )
        )
    return _table(
        (
            "tool",
            "nDCG@10 as typed",
            "default answer",
            "with rewordings",
            "names first",
            "no result",
        ),
        rows,
    )


def _old(tools: Sequence[str] | None) -> str:
    return (
        f" Measured with earlier notes, questions or versions: {', '.join(tools)}." if tools else ""
    )


def _cost(shown: dict[str, Shown], began: str) -> str:
    rows = []
    for name, each in shown.items():
        if "given up" in each:
            continue
        index = each["index"]
        took = (
            f"{index['processor']:,.1f} / {index['seconds']:,.1f} s" if "seconds" in index else ""
        )
        made = (
            ("in this run" if index["made"] >= began else f"before, on {index['made'][:16]}")
            if took
            else "at each start"
        )
        first = f"{each['first']['seconds']:.1f} / {each['first']['processor']:.1f} s"
        calls = (f"{each['p50']:,.0f} / {each['p95']:,.0f} ms", f"{each['processor']:,.0f} ms")
        rows.append(
            (
                name,
                made,
                took,
                f"{index['bytes'] / 1e6:,.1f} MB",
                first,
                *calls,
                f"{each['tokens']:,.0f}",
                f"{each['memory']:,.0f} MB",
            )
        )
    return _table(
        (
            "tool",
            "index made",
            "index, processor / wall",
            "kept",
            "first answer, wall / processor",
            "p50 / p95",
            "processor a call",
            "tokens",
            "memory",
        ),
        rows,
    )


def _better(shown: dict[str, Shown]) -> str:
    """List each measure in which another tool is better than ours: no loss is left out."""
    ours = shown.get(OURS, {"given up": ""})
    if "given up" in ours:
        return ""
    lines = []
    for name, more, value, form in _BETTER:
        if (own := value(ours)) is None:
            continue
        others = {
            tool: value(each)
            for tool, each in shown.items()
            if not tool.startswith(OURS) and "given up" not in each
        }
        ahead = sorted(
            (
                (found, tool)
                for tool, found in others.items()
                if found is not None and (found > own if more else found < own)
            ),
            reverse=more,
        )
        if ahead:
            lines.append(
                f"- {name}: "
                + ", ".join(f"{tool} {found:{form}}" for found, tool in ahead)
                + f"; thumbindex {own:{form}}"
            )
    return "Where others are better than thumbindex here:\n\n" + (
        "\n".join(lines) or "- in none of these measures"
    )


def _hostile(found: dict[str, dict[str, str]], tools: Sequence[Tool], old: str) -> str:
    names = [tool.name for tool in tools if tool.name in found]
    rows = []
    for what in (*(each.name for each in NOTES), ALIVE):
        rows.append((what, *(found[name].get(what, "–") for name in names)))
    gave_up = "\n".join(
        f"- {name}: {found[name]['given up']}" for name in names if "given up" in found[name]
    )
    return (
        "## Ten hostile notes\n\nTen notes that a stranger could have sent, beside three ordinary "
        "ones, each asked for by a word of its own."
        " *Marked*: the answer says beside the text that it speaks to a model.\n\n"
        "That `private: true` hides a note is a promise of ours; other tools"
        " read no such mark, and some honor no `.gitignore` on purpose. A dash: it could not be "
        "asked, or it does not find all"
        " ordinary notes, so that what it leaves out need not be hidden."
        f"{old}\n\n{_table(('note', *names), rows)}" + (f"\n\n{gave_up}" if gave_up else "")
    )


def _interval(each: Interval, digits: int = 3) -> str:
    return f"{each.mean:.{digits}f} [{each.low:.{digits}f}, {each.high:.{digits}f}]"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )
