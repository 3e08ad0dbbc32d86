"""`thumbindex bench`: measure on this machine, in a folder that is made up for it; nobody's files are touched."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from thumbindex.config import load_config
from thumbindex.serve.opening import Opening, open_library
from thumbindex.serve.options import SetOption, takes_opening
from thumbindex.serve.outcome import FOUND, reported
from thumbindex.serve.payload import delays_payload
from thumbindex.serve.progress import ProgressDisplay
from thumbindex.serve.render import print_copies, print_delays, print_json, print_looks, print_starts
from thumbindex.study.freshness import Load, measure_freshness
from thumbindex.study.queries import load_queries
from thumbindex.study.start import measure_start

bench = typer.Typer(help="Measure on this machine, in a folder made up for it.", no_args_is_help=True, add_completion=False)


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
    with made_up(overrides or ()) as opening, ProgressDisplay() as show:
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
def start(
    ctx: typer.Context,
    opening: Opening,
    rounds: Annotated[int, typer.Option("--rounds", min=1, metavar="N", help="Starts that are measured.")] = 10,
    question: Annotated[str, typer.Option("--query", metavar="TEXT", help="What is asked first.")] = "how do I begin",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: every start's seconds.")] = False,
) -> int:
    """Measure a server's start with the index that a folder has: to the handshake, the list of tools, the first answers."""
    with ProgressDisplay() as show:
        with open_library(opening) as library:
            library.index(progress=show)
        measured = measure_start(opening.arguments(), question, rounds, show)
    if as_json:
        print_json({"starts": [asdict(each) for each in measured]})
    else:
        print_starts(measured)
    return FOUND


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

    with made_up() as opening, ProgressDisplay() as show:
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
    with made_up(overrides or ()) as opening, ProgressDisplay() as show:
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
