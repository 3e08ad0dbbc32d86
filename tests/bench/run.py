"""Measure speed, memory and disk use for a folder, or for generated notes (`--made 1000`).

    make bench FOLDER=DIR
    python tests/bench/run.py [WHAT ...] [--folder DIR | --made NOTES] [--json FILE]
                              [--compare FILE]

Your notes are not changed, and the index is temporary. `--json` saves all values; `--compare` shows
the change since a saved file. Compare figures only on the same machine.
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

# For the tests' shared modules.
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
from thumbindex.visible_text import strip_markup
from waiting import until

MADE, CHARACTERS = 100, 5000
"""Default number and length of generated notes."""

QUESTIONS, WARM = 100, 10
"""Number of different questions per round, and of warm-up questions."""

EDITS = 20

REST_SECONDS = 5.0
"""Pause between the last answer and the measurement of memory."""

TraceStep = Callable[[ServerProcess, str], object]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure, with a value per round."""

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
    options: argparse.Namespace
    questions: list[str] = field(default_factory=list)

    def opening(self) -> OpenOptions:
        overrides = tuple(self.options.overrides)
        return OpenOptions((str(self.folder),), self.scratch / "index", None, overrides)

    @property
    def size(self) -> int:
        """Bytes of Markdown in the index."""
        with open_library(self.opening()) as library:
            return sum((self.folder / entry.path).stat().st_size for entry in library.outline())


def measure_index(subject: Subject) -> Iterator[Row]:
    """Index with the command line, keywords first, then vectors; then index again."""
    runs = {"words": [], "vectors": ["--complete"]}
    if subject.options.words_only:
        del runs["vectors"]
    for name, options in runs.items():
        seconds, processor, megabytes = run_command("index", *options, subject=subject)
        yield Row("index", f"{name}, time", "s", [seconds])
        yield Row("index", f"{name}, processor time", "s", [processor])
        yield Row("index", f"{name}, peak memory", "MB", [megabytes])
    with open_library(subject.opening()) as library:
        words_only = subject.options.words_only
        library.index(complete=not words_only)
        again = [timed(partial(library.index, complete=not words_only)) for _ in rounds(subject)]
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
    """Start a server and query it at once."""
    steps: dict[str, TraceStep] = {
        "initialize": lambda server, _: server.initialize(),
        "list of tools": lambda server, _: server.request("tools/list", {}),
        "first answer": lambda server, question: server.call("query", query=question),
    }
    if not subject.options.words_only:
        steps["first answer by meaning"] = lambda server, text: await_meaning(server.call, text)
    measured: dict[str, list[float]] = {name: [] for name in steps}
    for _ in rounds(subject):
        started = time.perf_counter()
        server = ServerProcess(subject.opening().arguments())
        try:
            for name, step in steps.items():
                step(server, subject.questions[0])
                measured[name].append(time.perf_counter() - started)
        finally:
            server.end()
    for name, seconds in measured.items():
        yield Row("start", name, "s", seconds)


def measure_query(subject: Subject) -> Iterator[Row]:
    """Run each query over stdio, in Python, and in Python with keywords only."""
    with (
        open_library(subject.opening()) as words,
        open_library(subject.opening()) as hybrid,
        ServerProcess(subject.opening().arguments()) as server,
    ):
        ways: dict[str, Callable[[str], object]] = {
            "words, Library.query": words.query,
            "over stdio": lambda question: server.call("query", query=question),
        }
        if not subject.options.words_only:
            hybrid.load_models()
            await_meaning(server.call, subject.questions[0])
            ways["Library.query"] = hybrid.query
        ask_all(ways, subject.questions[:WARM], 0)
        size = max(1, (len(subject.questions) - WARM) // subject.options.rounds)
        measured = [
            ask_all(ways, subject.questions[WARM + n * size : WARM + (n + 1) * size], n)
            for n in rounds(subject)
        ]
    for name in sorted(ways):
        for quantile in (50, 95):
            values = [float(np.percentile(times[name], quantile)) for times in measured]
            yield Row("query", f"{name}, p{quantile}", "ms", values, f"{size} questions per round")


def ask_all(
    ways: Mapping[str, Callable[[str], object]], questions: Sequence[str], seed: int
) -> dict[str, list[float]]:
    """Run each question in each way, in random order; return milliseconds by way."""
    generator, times = random.Random(seed), {name: list[float]() for name in ways}
    for question in questions:
        for name in generator.sample(sorted(ways), len(ways)):
            times[name].append(1000 * timed(partial(ways[name], question)))
    return times


def measure_memory(subject: Subject) -> Iterator[Row]:
    """Measure two servers with their indexers after some queries."""
    if not Path("/proc/self/smaps_rollup").exists():
        print("memory: can be measured on Linux only.", file=sys.stderr)
        return
    with (
        ServerProcess(subject.opening().arguments()) as first,
        ServerProcess(subject.opening().arguments()) as second,
    ):
        sizes = []
        for server in (first, second):
            if not subject.options.words_only:
                await_meaning(server.call, subject.questions[0])
            for question in subject.questions[:20]:
                server.call("query", query=question)
            time.sleep(REST_SECONDS)
            sizes.append(memory_of(server.process.pid))
        both = memory_of(first.process.pid) + memory_of(second.process.pid)
    yield Row("memory", "two servers at rest", "MB", [both / 1e6], "shared pages are divided")
    yield Row("memory", "one of two servers", "MB", [sizes[-1] / 1e6])


def measure_freshness(subject: Subject) -> Iterator[Row]:
    """Measure the time from saving a note until it is found; generated notes only."""
    if subject.options.folder:
        print("freshness: skipped, since it would edit your notes.", file=sys.stderr)
        return
    count = len(list(subject.folder.rglob("note *.md")))
    words, vectors = list[float](), list[float]()
    has_vectors = not subject.options.words_only
    with ServerProcess(subject.opening().arguments()) as server:
        await_start(server.call, subject.folder, vectors=has_vectors)
        for number in range(EDITS):
            path, mark = note_path(subject.folder, number % count), f"edited{number}word"
            text, started = path.read_text(encoding="utf-8"), time.perf_counter()
            path.write_text(f"{text}\nHere stands {mark}.\n", encoding="utf-8")
            assert until(partial(is_found, server.call, mark), 60), f"{path} was not found"
            words.append(time.perf_counter() - started)
            if has_vectors:
                assert until(partial(has_all_vectors, server.call, subject.folder.name), 60)
                vectors.append(time.perf_counter() - started)
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
"""All measurements in order. `freshness` edits the notes, so it comes last."""

QUERYING = ("start", "query", "memory")
"""Measurements that need questions."""


# ------------------------------------------------------------------ building blocks


def rounds(subject: Subject) -> range:
    return range(subject.options.rounds)


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def run_command(verb: str, *options: str, subject: Subject) -> tuple[float, float, float]:
    """Run a command of thumbindex; return seconds, CPU seconds and peak memory in megabytes."""
    command = [*SERVE[:-1], verb, *options, *subject.opening().arguments()]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not hasattr(os, "wait4"):  # Windows
        code, usage = process.wait(), None
    else:
        _, code, usage = os.wait4(process.pid, 0)
        process.returncode = code
    if code:
        raise SystemExit(
            f"`thumbindex {verb}` failed: run it on {subject.folder} to see the error."
        )
    seconds = time.perf_counter() - started
    if usage is None:
        return seconds, 0.0, 0.0
    kilobytes = usage.ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    return seconds, usage.ru_utime + usage.ru_stime, kilobytes * 1024 / 1e6


def memory_of(process: int) -> int:
    """Return the proportional set size of a process and its descendants in bytes."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0  # it has ended
    size = next(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return size + sum(map(memory_of, children_of(process)))


def draw_questions(library: Library, count: int) -> list[str]:
    """Draw questions of three to eight words from the notes, reproducibly."""
    generator, drawn = random.Random(1), dict[str, None]()
    entries = library.outline()
    for _ in range(20 * count):
        excerpt = library.read(generator.choice(entries).path, exact=True)
        lines = [line for line in strip_markup(excerpt.text).splitlines() if len(line.split()) > 2]
        if not lines:
            continue
        words = generator.choice(lines).strip("#-* ").split()
        start = generator.randrange(max(1, len(words) - 3))
        drawn[" ".join(words[start : start + generator.randint(3, 8)])] = None
        if len(drawn) == count:
            break
    questions = list(drawn)
    if not questions:
        raise SystemExit("The notes have no lines of three words to draw questions from.")
    return [questions[number % len(questions)] for number in range(count)]


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
    record = {**about, "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(record, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def table(rows: Sequence[Row], earlier: Earlier) -> Iterator[str]:
    """Yield the lines of a table: median, range and change of each figure."""
    cells = [["what", "figure", "median", "from", "to", "unit"]]
    cells[0] += ["before", "change"] if earlier else []
    for row in rows:
        span = [min(row.values), max(row.values)] if len(row.values) > 1 else []
        line = [row.what, row.name, figure(median(row.values)), *map(figure, span)]
        line += [""] * (5 - len(line)) + [row.unit]
        if earlier:
            before = earlier.get((row.what, row.name))
            old = median(before) if before else 0.0
            change = f"{median(row.values) / old - 1:+.0%}" if old else ""
            line += [figure(old) if before else "", change]
        cells.append(line)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield "  ".join(padded).rstrip()
    yield from dict.fromkeys(f"{row.what}: {row.note}" for row in rows if row.note)


def figure(value: float) -> str:
    """Format a number with three significant digits."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("what", nargs="*", metavar="WHAT", help=f"any of {', '.join(MEASURES)}; default all")
    add("--folder", type=Path, metavar="DIR", help="folder of notes; default generated notes")
    add("--made", type=int, default=MADE, metavar="NOTES", help="number of generated notes")
    add("--characters", type=int, default=CHARACTERS, metavar="N", help="length of these notes")
    add("--set", action="append", default=[], dest="overrides", metavar="KEY=VALUE")
    add("--words-only", action="store_true", help="do not make vectors")
    add("--rounds", type=int, default=3, metavar="N", help="repetitions of each measurement")
    add("--queries", type=Path, metavar="FILE", help="use the questions of a labeled set")
    add("--json", type=Path, metavar="FILE", help="save all values to this file")
    add("--compare", type=Path, metavar="FILE", help="show the change since a saved file")
    return parser


def main(arguments: Sequence[str]) -> None:
    """Run the named or all measurements, and print a table of each."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if unknown := set(options.what) - MEASURES.keys():
        parser.error(f"{', '.join(sorted(unknown))}: name any of {', '.join(MEASURES)}")
    if options.words_only:
        options.overrides.append("encode.embed.model=./no-model")
    earlier, rows = read_record(options.compare) if options.compare else {}, list[Row]()
    about = machine()
    with tempfile.TemporaryDirectory(prefix="thumbindex-", ignore_cleanup_errors=True) as temporary:
        scratch = Path(temporary).resolve()
        # ignore the user's own settings
        os.environ["XDG_CONFIG_HOME"] = str(scratch / "config")
        folder = options.folder or scratch / "vault"
        if not options.folder:
            make_vault(folder, options.made, options.characters)
        subject = Subject(folder.resolve(), scratch, options)
        names = [name for name in MEASURES if name in (options.what or MEASURES)]
        if "index" not in names:
            complete = [] if options.words_only else ["--complete"]
            run_command("index", *complete, subject=subject)
        for name in names:
            print(f"{name} …", file=sys.stderr, flush=True)
            if name in QUERYING and not subject.questions:
                subject.questions = questions_of(subject)
            measured = list(MEASURES[name](subject))
            rows += measured
            if measured:
                print("\n".join(table(measured, earlier)), end="\n\n", flush=True)
            if options.json:
                write_record(options.json, about, rows)


def questions_of(subject: Subject) -> list[str]:
    if subject.options.queries:
        return [query.query for query in load_queries(subject.options.queries)]
    with open_library(subject.opening()) as library:
        return draw_questions(library, QUESTIONS * subject.options.rounds + WARM)


if __name__ == "__main__":
    main(sys.argv[1:])
