"""Measure what a folder costs: `make bench FOLDER=DIR`, or on made-up notes (`--made 1000`).

    python tests/bench/run.py [WHAT ...] [--folder DIR | --made NOTES] [--json FILE]
                              [--compare FILE]

Nobody's notes are touched, and the index is made in a temporary folder. `--json` keeps all values,
`--compare` shows the change since such a file. Compare figures of one machine only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

# The shared modules of the tests lie one folder up.
sys.path.insert(0, str(Path(__file__).parents[1]))

from notes import make_vault, note_path
from servers import (
    SERVE,
    ServerProcess,
    await_meaning,
    await_start,
    children_of,
    has_all_vectors,
    is_found,
)
from thumbindex.evaluation.queries import load_queries
from thumbindex.index.files import folder_size
from thumbindex.library import Library
from thumbindex.opening import OpenOptions, open_library
from thumbindex.text import strip_markup
from waiting import until

MADE, CHARACTERS = 100, 5000
"""Notes that are made up if no folder is named, and their length."""

QUESTIONS, WARM = 100, 10
"""Questions of a round, each a new one, and those asked before the first round."""

EDITS = 20

REST_SECONDS = 5.0
"""Between the last answer and a look at the memory of a server."""

TraceStep = Callable[[ServerProcess, str], object]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure: a value for each round."""

    what: str
    name: str
    unit: str
    values: Sequence[float]
    note: str = ""


@dataclass(slots=True)
class Subject:
    """A folder, its index, and the options."""

    folder: Path
    scratch: Path
    given: argparse.Namespace
    questions: list[str] = field(default_factory=list)

    def opening(self) -> OpenOptions:
        overrides = tuple(self.given.overrides)
        return OpenOptions((str(self.folder),), self.scratch / "index", None, overrides)

    @property
    def size(self) -> int:
        """Bytes of Markdown in the index."""
        with open_library(self.opening()) as library:
            return sum((self.folder / entry.path).stat().st_size for entry in library.outline())


def measure_index(subject: Subject) -> Iterator[Row]:
    """Make the index by the command line, its words and then its vectors; then index again."""
    runs = {"words": ["--words-only"], "vectors": []}
    if subject.given.words_only:
        del runs["vectors"]
    for name, options in runs.items():
        seconds, processor, megabytes = run_command("index", *options, subject=subject)
        yield Row("index", f"{name}, time", "s", [seconds])
        yield Row("index", f"{name}, processor time", "s", [processor])
        yield Row("index", f"{name}, most memory", "MB", [megabytes])
    with open_library(subject.opening()) as library:
        words_only = subject.given.words_only
        library.index(words_only=words_only)
        again = [timed(partial(library.index, words_only=words_only)) for _ in rounds(subject)]
        state = library.status()[0].index
        yield Row("index", "documents", "", [state.documents])
        yield Row("index", "chunks", "", [state.chunks])
    yield Row("index", "again, nothing changed", "ms", [1000 * seconds for seconds in again])


def measure_disk(subject: Subject) -> Iterator[Row]:
    size = subject.size
    index = folder_size(subject.scratch / "index")
    yield Row("disk", "Markdown", "MB", [size / 1e6])
    yield Row("disk", "index", "MB", [index / 1e6])
    yield Row("disk", "index / Markdown", "×", [index / max(size, 1)])


def measure_start(subject: Subject) -> Iterator[Row]:
    """Start a server and ask at once."""
    steps: dict[str, TraceStep] = {
        "initialize": lambda server, _: server.initialize(),
        "list of tools": lambda server, _: server.request("tools/list", {}),
        "first answer": lambda server, question: server.call("query", query=question),
    }
    if not subject.given.words_only:
        steps["first answer by meaning"] = lambda server, text: await_meaning(server.call, text)
    found: dict[str, list[float]] = {name: [] for name in steps}
    for _ in rounds(subject):
        began = time.perf_counter()
        server = ServerProcess(subject.opening().arguments())
        try:
            for name, step in steps.items():
                step(server, subject.questions[0])
                found[name].append(time.perf_counter() - began)
        finally:
            server.end()
    for name, seconds in found.items():
        yield Row("start", name, "s", seconds)


def measure_query(subject: Subject) -> Iterator[Row]:
    """Ask each question over stdio, in Python, and in Python by words alone, one after another."""
    with (
        open_library(subject.opening()) as words,
        open_library(subject.opening()) as hybrid,
        ServerProcess(subject.opening().arguments()) as server,
    ):
        ways: dict[str, Callable[[str], object]] = {
            "words, Library.query": words.query,
            "over stdio": lambda question: server.call("query", query=question),
        }
        if not subject.given.words_only:
            hybrid.load_models()
            await_meaning(server.call, subject.questions[0])
            ways["Library.query"] = hybrid.query
        ask_all(ways, subject.questions[:WARM], 0)
        size = max(1, (len(subject.questions) - WARM) // subject.given.rounds)
        asked = [
            ask_all(ways, subject.questions[WARM + n * size : WARM + (n + 1) * size], n)
            for n in rounds(subject)
        ]
    for name in sorted(ways):
        for quantile in (50, 95):
            values = [float(np.percentile(each[name], quantile)) for each in asked]
            yield Row("query", f"{name}, p{quantile}", "ms", values, f"{size} questions a round")


def ask_all(
    ways: Mapping[str, Callable[[str], object]], questions: Sequence[str], seed: int
) -> dict[str, list[float]]:
    """Ask each question in each way, in random order; return milliseconds by way."""
    chance, found = random.Random(seed), {name: list[float]() for name in ways}
    for question in questions:
        for name in chance.sample(sorted(ways), len(ways)):
            found[name].append(1000 * timed(partial(ways[name], question)))
    return found


def measure_memory(subject: Subject) -> Iterator[Row]:
    """Look at a server and its child after some questions, and at a second one beside it."""
    if not Path("/proc/self/smaps_rollup").exists():
        print("memory: only Linux tells what a process holds.", file=sys.stderr)
        return
    with (
        ServerProcess(subject.opening().arguments()) as first,
        ServerProcess(subject.opening().arguments()) as second,
    ):
        held = []
        for server in (first, second):
            if not subject.given.words_only:
                await_meaning(server.call, subject.questions[0])
            for question in subject.questions[:20]:
                server.call("query", query=question)
            time.sleep(REST_SECONDS)
            held.append(memory_of(server.process.pid))
        both = memory_of(first.process.pid) + memory_of(second.process.pid)
    yield Row("memory", "two servers at rest", "MB", [both / 1e6], "shared pages are divided")
    yield Row("memory", "one of two servers", "MB", [held[-1] / 1e6])


def measure_freshness(subject: Subject) -> Iterator[Row]:
    """Save notes under a server, one after another, until each is found. Made-up notes only."""
    if subject.given.folder:
        print("freshness: your notes are not edited; only made-up notes are.", file=sys.stderr)
        return
    count = len(list(subject.folder.rglob("note *.md")))
    words, vectors = list[float](), list[float]()
    has_vectors = not subject.given.words_only
    with ServerProcess(subject.opening().arguments()) as server:
        await_start(server.call, subject.folder, vectors=has_vectors)
        for number in range(EDITS):
            path, mark = note_path(subject.folder, number % count), f"edited{number}word"
            text, began = path.read_text(encoding="utf-8"), time.perf_counter()
            path.write_text(f"{text}\nHere stands {mark}.\n", encoding="utf-8")
            assert until(partial(is_found, server.call, mark), 60), f"{path} was not found"
            words.append(time.perf_counter() - began)
            if has_vectors:
                assert until(partial(has_all_vectors, server.call, subject.folder.name), 60)
                vectors.append(time.perf_counter() - began)
    saved = {"words": words, "vectors": vectors} if has_vectors else {"words": words}
    for name, seconds in saved.items():
        for quantile in (50, 95):
            value = float(np.percentile(seconds, quantile))
            yield Row("freshness", f"from a save to its {name}, p{quantile}", "s", [value])


MEASURES: dict[str, Callable[[Subject], Iterator[Row]]] = {
    "index": measure_index,
    "disk": measure_disk,
    "start": measure_start,
    "query": measure_query,
    "memory": measure_memory,
    "freshness": measure_freshness,
}
"""All that can be measured, in this order. `freshness` edits the notes, so it comes last."""

ASKING = ("start", "query", "memory")
"""Measures that need questions."""


# ------------------------------------------------------------------ how


def rounds(subject: Subject) -> range:
    return range(subject.given.rounds)


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def run_command(verb: str, *options: str, subject: Subject) -> tuple[float, float, float]:
    """Run a command of thumbindex; return its seconds, its processor time and its most memory, in
    megabytes.
    """
    command = [*SERVE[:-1], verb, *options, *subject.opening().arguments()]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not hasattr(os, "wait4"):  # Windows
        code, usage = process.wait(), None
    else:
        _, code, usage = os.wait4(process.pid, 0)
        process.returncode = code
    if code:
        raise SystemExit(f"`thumbindex {verb}` failed: run it on {subject.folder} to see why.")
    seconds = time.perf_counter() - began
    if usage is None:
        return seconds, 0.0, 0.0
    kilobytes = usage.ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    return seconds, usage.ru_utime + usage.ru_stime, kilobytes * 1024 / 1e6


def memory_of(process: int) -> int:
    """Return the bytes that a process and its descendants hold; a page that several processes map
    is divided among them.
    """
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0  # it has ended
    own = next(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return own + sum(map(memory_of, children_of(process)))


def draw_questions(library: Library, wanted: int) -> list[str]:
    """Draw questions from the notes, always the same: a heading, or three to eight words of a
    paragraph.
    """
    chance, found = random.Random(1), dict[str, None]()
    entries = library.outline()
    for _ in range(20 * wanted):
        excerpt = library.read(chance.choice(entries).path, exact=True)
        lines = [line for line in strip_markup(excerpt.text).splitlines() if len(line.split()) > 2]
        if not lines:
            continue
        words = chance.choice(lines).strip("#-* ").split()
        start = chance.randrange(max(1, len(words) - 3))
        found[" ".join(words[start : start + chance.randint(3, 8)])] = None
        if len(found) == wanted:
            break
    drawn = list(found)
    if not drawn:
        raise SystemExit("The notes have no lines of three words to draw questions from.")
    return [drawn[number % len(drawn)] for number in range(wanted)]


def machine() -> dict[str, Any]:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "version": version("thumbindex"),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "load": load,
    }


Earlier = Mapping[tuple[str, str], Sequence[float]]


def read_record(path: Path) -> Earlier:
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {(row["what"], row["name"]): row["values"] for row in rows}


def write_record(path: Path, about: Mapping[str, Any], rows: Sequence[Row]) -> None:
    report_json = {**about, "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(report_json, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def table(rows: Sequence[Row], earlier: Earlier) -> Iterator[str]:
    """Yield the lines of a table: the median of each figure, its range, and its change."""
    cells = [["what", "figure", "median", "from", "to", "unit"]]
    cells[0] += ["before", "change"] if earlier else []
    for row in rows:
        span = [min(row.values), max(row.values)] if len(row.values) > 1 else []
        line = [row.what, row.name, figure(median(row.values)), *map(figure, span)]
        line += [""] * (5 - len(line)) + [row.unit]
        if earlier:
            before = earlier.get((row.what, row.name))
            was = median(before) if before else 0.0
            change = f"{median(row.values) / was - 1:+.0%}" if was else ""
            line += [figure(was) if before else "", change]
        cells.append(line)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield "  ".join(padded).rstrip()
    yield from dict.fromkeys(f"{row.what}: {row.note}" for row in rows if row.note)


def figure(value: float) -> str:
    """Write a number with three digits that count."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("what", nargs="*", metavar="WHAT", help=f"any of {', '.join(MEASURES)}; else all")
    add("--folder", type=Path, metavar="DIR", help="the notes; else some are made up")
    add("--made", type=int, default=MADE, metavar="NOTES", help="how many are made up")
    add("--characters", type=int, default=CHARACTERS, metavar="N", help="length of such a note")
    add("--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE")
    add("--words-only", action="store_true", help="make no vectors")
    add("--rounds", type=int, default=3, metavar="N", help="how often each clock is read")
    add("--queries", type=Path, metavar="FILE", help="ask the questions of a labeled set")
    add("--json", type=Path, metavar="FILE", help="write every value here")
    add("--compare", type=Path, metavar="FILE", help="show the change since such a file")
    return parser


def main(arguments: Sequence[str]) -> None:
    """Measure what is named, else everything, and print a table of each."""
    parser = options()
    given = parser.parse_args(arguments)
    if unknown := set(given.what) - MEASURES.keys():
        parser.error(f"{', '.join(sorted(unknown))}: name any of {', '.join(MEASURES)}")
    if given.words_only:
        given.overrides.append("encode.embed.model=./no-model")
    earlier, rows = read_record(given.compare) if given.compare else {}, list[Row]()
    about = machine()
    with tempfile.TemporaryDirectory(prefix="thumbindex-", ignore_cleanup_errors=True) as made:
        scratch = Path(made).resolve()
        # the settings of whoever runs this are not read
        os.environ["XDG_CONFIG_HOME"] = str(scratch / "config")
        folder = given.folder or scratch / "vault"
        if not given.folder:
            make_vault(folder, given.made, given.characters)
        subject = Subject(folder.resolve(), scratch, given)
        names = [name for name in MEASURES if name in (given.what or MEASURES)]
        if "index" not in names:
            words_only = ["--words-only"] if given.words_only else []
            run_command("index", *words_only, subject=subject)
        for name in names:
            print(f"{name} …", file=sys.stderr, flush=True)
            if name in ASKING and not subject.questions:
                subject.questions = questions_of(subject)
            measured = list(MEASURES[name](subject))
            rows += measured
            if measured:
                print("\n".join(table(measured, earlier)), end="\n\n", flush=True)
            if given.json:
                write_record(given.json, about, rows)


def questions_of(subject: Subject) -> list[str]:
    if subject.given.queries:
        return [query.query for query in load_queries(subject.given.queries)]
    with open_library(subject.opening()) as library:
        return draw_questions(library, QUESTIONS * subject.given.rounds + WARM)


if __name__ == "__main__":
    main(sys.argv[1:])
