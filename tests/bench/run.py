"""A program: measures what a folder costs, ours and the reference by turns (docs/performance.md).

Nobody's files are touched.

python tests/bench/run.py [WHAT ...] [--folder DIR | --made NOTES] [--json FILE] [--compare FILE]
[--plots DIR]; --help lists all options.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

# The folder of a program is looked through first for what it imports: that must be the tests, not
# the benchmarks.
sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import (
    answers,
    copies,
    counts,
    disk,
    duplicates,
    engine,
    freshness,
    growth,
    memory,
    page,
    query,
    start,
    together,
    unchanged,
    vaults,
    vectors,
    words,
)
from bench.results import Row, draw_growth, machine, read_record, table, write_record
from bench.subject import Subject
from notes import make_vault
from thumbindex.ports import Embedder
from thumbindex.serve.opening import Opening
from thumbindex.serve.terminal import ProgressDisplay

ORDER = (
    *(start, words, vectors, unchanged, query, answers, memory, disk, growth, together, counts),
    *(freshness, vaults, duplicates, copies, page, engine),
)
MEASURES: dict[str, Callable[[Subject], Iterator[Row]]] = {
    each.__name__.removeprefix("bench."): each.measure for each in ORDER
}
"""What can be measured, in the order in which it is done."""

OWN_NOTES = ("freshness", "vaults", "duplicates", "copies")
"""They make notes of their own, and need no index of the folder."""

ON_REQUEST = (*OWN_NOTES, "engine")
"""Measured where they are named only: those, and what starts a database."""

MADE = 100
"""Notes that are made up where no folder is named."""


def main(arguments: Sequence[str], embedder: Embedder | None = None) -> None:
    """Measure what is named, else all but what is on request, and print a table."""
    given = options().parse_args(arguments)
    if given.as_it_is and not (given.folder and given.index):
        options().error("--as-it-is needs --folder and --index: the index that is there")
    names = [name for name in MEASURES if name in (given.what or MEASURES.keys() - ON_REQUEST)]
    earlier, about = read_record(given.compare) if given.compare else {}, machine()
    with tempfile.TemporaryDirectory(prefix="thumbindex-bench-") as made:
        root = Path(made).resolve()
        folder, index = given.folder, given.index
        if folder is None:
            folder, index = root / "vault", root / "index"
            make_vault(folder, given.made or MADE, given.characters)
        if given.as_it_is:
            index = Path(shutil.copytree(given.index, root / "index"))
        (root / "scratch").mkdir()
        opening = Opening((str(folder.resolve()),), index, given.config, tuple(given.overrides))
        subject, rows = Subject(opening, root / "scratch", given, embedder), list[Row]()
        if not set(names) <= set(OWN_NOTES) and not given.as_it_is:
            rows += index_rows(subject)
        for name in names:
            print(f"{name} …", file=sys.stderr, flush=True)
            for row in MEASURES[name](subject):
                rows.append(row)
                # an hour may end in an error
                print(f"  {row.name}: {row.median:,.4g} {row.unit}", file=sys.stderr, flush=True)
    print("\n".join(table(rows, about, earlier)))
    if given.json:
        write_record(given.json, rows, about)
    if given.plots:
        print("\n".join(map(str, draw_growth(given.plots, rows))))


def index_rows(subject: Subject) -> Iterator[Row]:
    """Bring the folder's index up to date; yield what that took, and the most memory that this
    process has held by then, where it did anything.
    """
    began = time.perf_counter()
    with subject.open() as library, ProgressDisplay() as show:
        report = library.index(words_only=subject.given.words_only, progress=show)
    seconds = time.perf_counter() - began
    if report.added or report.changed or report.embedded:
        note = (
            f"{report.chunks:,} chunks of {report.added + report.changed:,} files, "
            f"{report.embedded:,} texts embedded"
        )
        yield Row("index", "the folder, indexed once", "s", [seconds], note=note)
        if sys.platform == "linux":
            import resource  # Windows has none

            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            yield Row(
                "index",
                "resident, most",
                "MB",
                [1024 * most / 1e6],
                note="of the process that indexed",
            )


def options() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(
        description="Measure what a folder costs, each figure beside what it is held against."
    )
    add = parser.add_argument
    add(
        "what",
        nargs="*",
        type=_measure,
        metavar="WHAT",
        help=f"any of {', '.join(MEASURES)}; without one, all but {', '.join(ON_REQUEST)}",
    )
    add("--folder", type=Path, metavar="DIR", help="the notes; without it, some are made up")
    add(
        "--made",
        type=int,
        default=0,
        metavar="NOTES",
        help=f"how many are made up ({MADE}; freshness and duplicates take more)",
    )
    add("--characters", type=int, default=5000, metavar="N", help="length of a made up note")
    add("--index", type=Path, metavar="DIR", help="where the folder's index is, or is made")
    add(
        "--as-it-is",
        action="store_true",
        help="take a copy of the index, and leave it behind the notes where it is",
    )
    add("--config", type=Path, metavar="FILE", help="a configuration file")
    add(
        "--set",
        action="append",
        default=[],
        dest="overrides",
        metavar="KEY=VALUE",
        help="a setting; repeatable",
    )
    add(
        "--words-only",
        action="store_true",
        help="make no vectors for the folder: hours, where it is very large",
    )
    add("--rounds", type=int, default=3, metavar="N", help="how often each clock is read")
    add(
        "--most",
        type=int,
        default=10_000,
        metavar="CHUNKS",
        help="the largest size that growth goes up to",
    )
    add(
        "--edits", type=int, default=0, metavar="N", help="notes that freshness and duplicates edit"
    )
    add("--questions", type=int, default=100, metavar="N", help="that engine asks a round")
    add(
        "--clients",
        type=int,
        default=8,
        metavar="N",
        help="processes that ask engine at once, at most",
    )
    add(
        "--seconds",
        type=float,
        default=10.0,
        metavar="N",
        help="how long those ask, and agents six times as long",
    )
    add(
        "--queries",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="labeled queries that copies asks too; repeatable",
    )
    add(
        "--eval",
        type=Path,
        metavar="DIR",
        help="where answers looks for labeled queries that are named like the folder "
        "(FOLDER.KIND.jsonl)",
    )
    add("--seed", type=int, default=1, metavar="N", help="which sections copies plants")
    add("--json", type=Path, metavar="FILE", help="write every value of every round here")
    add(
        "--compare",
        type=Path,
        metavar="FILE",
        help="show beside each figure what an earlier --json has",
    )
    add("--plots", type=Path, metavar="DIR", help="draw cost against size here (growth)")
    return parser


def _measure(name: str) -> str:
    if name not in MEASURES:
        raise argparse.ArgumentTypeError(
            f"there is no {name!r} to measure: name any of {', '.join(MEASURES)}"
        )
    return name


if __name__ == "__main__":
    # leave as an exception does: what was made is deleted
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    main(sys.argv[1:])
