"""`thumbindex bench`: measure on this machine, by a folder's own notes or in one that is made up; nobody's files are touched."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from thumbindex.config import load_config
from thumbindex.errors import UsageError
from thumbindex.serve.opening import Opening, open_library
from thumbindex.serve.options import SetOption, takes_opening
from thumbindex.serve.outcome import FOUND, reported
from thumbindex.serve.payload import delays_payload
from thumbindex.serve.progress import ProgressDisplay
from thumbindex.serve.render import print_copies, print_delays, print_json, print_looks, print_tables
from thumbindex.study.freshness import Load, measure_freshness
from thumbindex.study.queries import load_queries
from thumbindex.study.vault import make_vault

if TYPE_CHECKING:
    from thumbindex.library import Library
    from thumbindex.model import Progress
    from thumbindex.ports import Embedder
    from thumbindex.study.bench.subject import Subject, Where

NAMES = ("start", "words", "vectors", "unchanged", "query", "memory", "disk", "growth", "together", "counts")
"""What `cost` measures; a test compares them with the study's."""


MADE_CHARACTERS = 5000
"""Of a note that is made up."""


class _CostUnlessNamed(TyperGroup):
    """Takes a first word that names no command of its own for one of the things that `cost` measures."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command's name in where it is left out."""
        is_named = bool(args) and (args[0] in self.commands or args[0] == "--help")
        return super().parse_args(ctx, args if is_named else ["cost", *args])


bench = typer.Typer(help="Measure on this machine: a folder's cost, or what a made up one shows.", cls=_CostUnlessNamed, add_completion=False)


@bench.command()
@reported
def freshness(
    edits: Annotated[int, typer.Option("--edits", min=1, metavar="N", help="Notes that are saved, one after another.")] = 200,
    notes: Annotated[int, typer.Option("--notes", min=1, metavar="N", help="Notes of the vault.")] = 1000,
    characters: Annotated[int, typer.Option("--characters", min=100, metavar="N", help="Length of a note.")] = 5000,
    overrides: SetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: every edit's seconds too.")] = False,
) -> int:
    """Measure how long after a save its text is in an answer, through a server's own pipes: words, then vectors."""
    with ended_gently(), made_up(overrides or ()) as opening, ProgressDisplay() as show:
        vault = Path(*opening.folder)
        with open_library(opening) as library:
            measured = measure_freshness(vault, Load(notes, characters, edits), opening.arguments(), library, show)
    if as_json:
        print_json(delays_payload(measured))
    else:
        print_delays(measured)
    return FOUND


@bench.command()
@reported
@takes_opening
def cost(
    ctx: typer.Context,
    opening: Opening,
    what: Annotated[list[str] | None, typer.Argument(metavar="[WHAT]...", help=f"Any of: {', '.join(NAMES)}. Without one, all of them.")] = None,
    rounds: Annotated[int, typer.Option("--rounds", min=1, metavar="N", help="How often each clock is read.")] = 3,
    most: Annotated[int, typer.Option("--most", min=1, metavar="CHUNKS", help="The largest size that is grown to.")] = 10_000,
    keep: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write every value of every round here.")] = None,
    compare: Annotated[Path | None, typer.Option("--compare", metavar="FILE", help="Show beside each figure what an earlier --json has.")] = None,
    words_only: Annotated[bool, typer.Option("--words-only", help="Make no vectors for the folder: hours, where it is very large.")] = False,
    made: Annotated[int, typer.Option("--made", min=0, metavar="NOTES", help="Measure so many notes that are made up, instead of a folder.")] = 0,
    plots: Annotated[Path | None, typer.Option("--plots", metavar="DIR", help="Draw cost against size here (`growth`).")] = None,
) -> int:
    """Measure what a folder costs, ours and the reference by turns: the table of docs/performance.md. Its name may be left out."""
    # Imported here: `--help` must not pay for the rooms behind it.
    from thumbindex.study.bench.making import measure_index
    from thumbindex.study.bench.measures import check_names, measure
    from thumbindex.study.bench.pictures import draw_costs
    from thumbindex.study.bench.record import bench_tables, machine, read_record, write_record

    names = check_names(what or ())
    earlier = read_record(compare) if compare else {}
    about = machine()
    with ended_gently(), _place(opening, made) as (place, scratch), ProgressDisplay() as show:
        subject = _subject(place, scratch, rounds, most, show)
        rows = (*measure_index(subject, words_only), *measure(names, subject))
    print_tables(bench_tables(rows, about, earlier))
    if keep:
        write_record(keep, rows, about)
    if plots:
        for path in draw_costs(plots, rows):
            typer.echo(str(path))
    return FOUND


@contextmanager
def ended_gently() -> Iterator[None]:
    """Leave as an exception does when the process is told to end: servers are stopped, and what was made is deleted."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _place(opening: Opening, notes: int) -> Iterator[tuple[Opening, Path]]:
    """Make an empty folder to work in, and where it is asked for a vault, in place of the folder that is named."""
    if not notes:
        with tempfile.TemporaryDirectory(prefix="thumbindex-bench-") as made:
            yield opening, Path(made).resolve()
        return
    with made_up(opening.overrides) as place:
        root = Path(*place.folder)
        make_vault(root, notes, MADE_CHARACTERS)
        (root.parent / "scratch").mkdir()
        yield Opening(place.folder, place.index, opening.config, place.overrides), root.parent / "scratch"


def _subject(opening: Opening, scratch: Path, rounds: int, most: int, show: Callable[[Progress], None]) -> Subject:
    """Return what is measured of the one folder that is named."""
    from thumbindex.study.bench.subject import Subject, Where

    def named(where: Where) -> Opening:
        return Opening((str(where.folder),), where.index, None, where.overrides).over(opening)

    def open_at(where: Where, embedder: Embedder | None = None) -> Library:
        from thumbindex.library import Library

        given = named(where)
        return Library.open(given.folder, index=given.index, config=given.load(), embedder=embedder, wait_for_models=False)

    with open_library(opening) as library:
        if len(library.folders) != 1:
            raise UsageError("The cost of one folder is measured: name it with --folder.")
        ((_, root),) = library.folders
    return Subject(Where(root), rounds, scratch, open_at, lambda where: named(where).arguments(), show, most)


@bench.command()
@reported
def duplicates(
    notes: Annotated[int, typer.Option("--notes", min=2, metavar="N", help="Notes of the vault.")] = 650,
    characters: Annotated[int, typer.Option("--characters", min=100, metavar="N", help="Length of a note.")] = 5000,
    edits: Annotated[int, typer.Option("--edits", min=1, metavar="N", help="Notes that are written anew, one after another.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: every edit's seconds too.")] = False,
) -> int:
    """Measure what looking for duplicates costs: every chunk against all others, then after an edit; random vectors stand for a model's."""
    # Imported here: `--help` must not pay for the rooms behind it.
    from thumbindex.library import Library
    from thumbindex.study.duplicates import RandomEmbedder, measure_looks

    with ended_gently(), made_up() as opening, ProgressDisplay() as show:
        vault = Path(*opening.folder)

        def open_with(embedder: RandomEmbedder, overrides: Sequence[str]) -> Library:
            return Library.open([vault], index=opening.index, config=load_config(overrides=overrides), embedder=embedder)

        measured = measure_looks(vault, notes, characters, edits, open_with, show)
    if as_json:
        print_json(asdict(measured))
    else:
        print_looks(measured)
    return FOUND


@bench.command()
@reported
def copies(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Notes that are read, and written nowhere but among the copies.")],
    queries: Annotated[list[Path] | None, typer.Option("--queries", metavar="FILE", help="Labeled queries to be asked too; repeatable.")] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Which sections are planted.")] = 1,
    overrides: SetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Plant copies of a fifth of the sections of some notes, as they are, reworded and with another number, and count them in answers."""
    # Imported here: `--help` must not pay for the rooms behind it.
    from thumbindex.study.copies import measure_copies, plant

    questions = [each.query for path in queries or () for each in load_queries(path)]
    with ended_gently(), made_up(overrides or ()) as opening, ProgressDisplay() as show:
        planted = plant(folder, Path(*opening.folder), seed=seed)
        found = measure_copies(planted, questions, lambda more: open_library(Opening(overrides=tuple(more)).over(opening)), show)
    if as_json:
        print_json({name: asdict(copies) for name, copies in found.items()})
    else:
        print_copies(planted, found)
    return FOUND


@contextmanager
def made_up(overrides: Sequence[str] = ()) -> Iterator[Opening]:
    """Make an empty vault, and a place for its index; both are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="thumbindex-bench-") as made:
        root = Path(made).resolve()
        (root / "vault").mkdir()
        yield Opening((str(root / "vault"),), root / "index", None, tuple(overrides))
