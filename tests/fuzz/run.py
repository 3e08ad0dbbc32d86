"""Feed hostile notes, queries and arguments for some seconds, then files that are made to hurt.

    python tests/fuzz/run.py [--seconds 600] [--seed N] [--target NAME]
    python tests/fuzz/run.py --bombs [NAME ...] [--size 9900000] [--model fake]

Without `--bombs` the bombs come after the seconds, of 1 MB each. A failure says by which seed it
comes again. Each bomb is read in a process of its own (Linux).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random

# The shared modules of the tests lie one folder up.
sys.path.insert(0, str(Path(__file__).parents[1]))

from fakes import FakeEmbedder
from folders import write_notes
from fuzz.bombs import BOMBS, WHOLE
from fuzz.targets import TARGETS, feed
from servers import peak
from thumbindex.config import load_config
from thumbindex.errors import ThumbindexError
from thumbindex.library import Library

NOTES = {
    "a.md": "---\ntags: [x]\n---\n# A\n\nApples. See [[b]].\n",
    "b.md": "# B\n\nPears `get_id()` and v1.2.3.\n",
    "c/d.md": "# D\n\n中文 가나.\n",
}

WORDS_WAIT_SECONDS, ANSWERS_SECONDS = 60.0, 20.0
"""Processor time for a bomb of 10 MB, to index it by words (and again by vectors), and for three
questions, the whole note and its outline. A smaller bomb may take its share, a quarter at least:
the limits on lines and headings do not shrink with the file.
"""

GIVEN_UP_SECONDS = 600.0

MEMORY_TIMES, LEAST_MEGABYTES = 40.0, 320.0
"""The most memory that a note may take, in times its size; and what a note of any size may take."""

HEADER = "| bomb | MB | words, s | vectors, s | answers, s | memory, MB more |\n" + "|---" * 6 + "|"


def open_library(place: Path, model: str = "") -> Library:
    """Index a few notes with a fake for the model, or with a model."""
    root = write_notes(place / "notes", NOTES)
    overrides = [f"encode.embed.model={model}"] if model else []
    config = load_config(user_file=place / "none", overrides=overrides)
    embedder = None if model else FakeEmbedder()
    library = Library.open([root], index=place / "index", config=config, embedder=embedder)
    library.index()
    return library


def set_off(name: str, bomb: Path, model: str) -> int:
    """Index a bomb beside a few notes, ask for it, read it; print a row of the table, and return 1
    if it took more than it may.
    """
    with open_library(bomb.parent, "" if model == "fake" else model) as library:
        placed = bomb.rename(bomb.parent / "notes" / "bomb.md")
        size = placed.stat().st_size
        with placed.open("rb") as file:
            beginning = file.read(200).decode("utf-8", "replace")
        rest, clock = peak(), [time.process_time()]
        report = library.index(words_only=True)
        clock.append(time.process_time())
        if model:
            library.index()
        clock.append(time.process_time())
        for question in ("apples", "bomb", beginning):
            with suppress(ThumbindexError):
                library.query(question)
        for ask in (library.read, library.outline):
            with suppress(ThumbindexError):
                ask("bomb.md")
        clock.append(time.process_time())
        more = peak() - rest
    words, vectors, answers = (end - start for start, end in pairwise(clock))
    share = max(size / WHOLE, 0.25)
    faults = {
        "not read": report.added != 1,
        "words": words > WORDS_WAIT_SECONDS * share,
        "vectors": model == "fake" and vectors > WORDS_WAIT_SECONDS * share,
        "answers": answers > ANSWERS_SECONDS * share,
        "memory": more > max(MEMORY_TIMES * size / 2**20, LEAST_MEGABYTES),
    }
    missed = ", ".join(fault for fault, is_so in faults.items() if is_so)
    row = (
        f"| {name} | {size / 1e6:.1f} | {words:.1f} | {vectors:.1f} | {answers:.1f} | {more:.0f} |"
    )
    print(f"{row} **{missed}** |" if missed else row)
    return int(bool(missed))


def run_bombs(names: list[str], given: argparse.Namespace) -> int:
    """Set off bombs, each in a process of its own; return how many took more than they may."""
    print(HEADER, flush=True)
    failed, seed = 0, 1 if given.seed is None else given.seed
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    for name in names:
        with tempfile.TemporaryDirectory() as made:
            # written here: memory that making it takes would hide as much of what reading it takes
            bomb = Path(made) / "bomb"
            bomb.write_bytes(BOMBS[name](Random(seed), given.size))
            options = [f"--own-process={bomb}", f"--model={given.model}", "--bombs", name]
            try:
                done = subprocess.run(
                    [sys.executable, __file__, *options], env=environment, timeout=GIVEN_UP_SECONDS
                )
                failed += done.returncode != 0
            except subprocess.TimeoutExpired:
                print(f"| {name} | **given up after {GIVEN_UP_SECONDS:g} s** |", flush=True)
                failed += 1
    print(f"{len(names)} bombs, {failed} took more than they may")
    return failed


def run_targets(seconds: float, given: argparse.Namespace) -> None:
    """Feed all targets until the time is up."""
    with tempfile.TemporaryDirectory() as made, open_library(Path(made)) as library:
        first = time.time_ns() % 10**12 if given.seed is None else given.seed
        if given.target:
            feed(TARGETS[given.target], first, library)
            return
        until, seed = time.monotonic() + seconds, first
        while time.monotonic() < until:
            for name, target in TARGETS.items():
                try:
                    feed(target, seed, library)
                except Exception:
                    again = f"--target {name} --seed {seed}"
                    print(f"failed: again by `python tests/fuzz/run.py {again}`", flush=True)
                    raise
            seed += 1
        print(f"{(seed - first) * len(TARGETS):,} inputs, no failure", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--target", choices=TARGETS, help="feed it alone, and only the first seed")
    parser.add_argument("--seed", type=int, help="the first one; else the time, or 1 for bombs")
    parser.add_argument("--bombs", nargs="*", metavar="NAME", help="these alone, else all")
    parser.add_argument("--size", type=int, default=1_000_000, help="bytes of a bomb")
    parser.add_argument("--model", default="", help="make vectors, too: a name, or `fake`")
    parser.add_argument("--own-process", type=Path, metavar="BOMB", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if unknown := set(given.bombs or ()) - BOMBS.keys():
        parser.error(f"no such bomb: {', '.join(sorted(unknown))}")
    if given.own_process:
        return set_off(given.bombs[0], given.own_process, given.model)
    if given.bombs is None:
        run_targets(given.seconds, given)
        if given.target:
            return 0
    return int(run_bombs(given.bombs or list(BOMBS), given) > 0)


if __name__ == "__main__":
    sys.exit(main())
