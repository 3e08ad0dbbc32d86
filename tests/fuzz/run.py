"""Feed hostile notes, queries and arguments for some seconds, then bombs.

    python tests/fuzz/run.py [--seconds 600] [--seed N] [--target NAME]
    python tests/fuzz/run.py --bombs [NAME ...] [--size 9900000] [--model fake]

Without `--bombs`, bombs of 1 MB each follow the inputs. A failure prints the command to reproduce
it. Each bomb runs in its own process (Linux).
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

# The tests' shared modules are one folder up.
sys.path.insert(0, str(Path(__file__).parents[1]))

from fakes import FakeEmbedder
from folders import write_notes
from fuzz.bombs import BOMBS, FULL_SIZE
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

MAX_INDEXING_SECONDS, MAX_ANSWERING_SECONDS = 60.0, 20.0
"""Maximum processor time of a 10 MB bomb: to index words (and again vectors), and to answer.

Answering covers three queries, the full note and its outline. A smaller bomb gets a proportional
share, at least a quarter, because the limits on lines and headings do not shrink with the file.
"""

TIMEOUT_SECONDS = 600.0

MAX_MEMORY_FACTOR, MIN_MEGABYTES = 40.0, 320.0
"""Maximum memory of a note, as a multiple of its size, or this minimum."""

HEADER = "| bomb | MB | words, s | vectors, s | answers, s | memory, MB more |\n" + "|---" * 6 + "|"


def open_library(folder: Path, model: str = "") -> Library:
    """Index a few notes with the model, or with a fake one."""
    root = write_notes(folder / "notes", NOTES)
    overrides = [f"encode.embed.model={model}"] if model else []
    config = load_config(user_file=folder / "none", overrides=overrides)
    embedder = None if model else FakeEmbedder()
    library = Library.open([root], index=folder / "index", config=config, embedder=embedder)
    library.index()
    return library


def set_off(name: str, bomb: Path, model: str) -> int:
    """Index, query and read a bomb beside a few notes, and print a row of the table.

    Returns 1 if the bomb exceeds a limit.
    """
    with open_library(bomb.parent, "" if model == "fake" else model) as library:
        note = bomb.rename(bomb.parent / "notes" / "bomb.md")
        size = note.stat().st_size
        with note.open("rb") as file:
            beginning = file.read(200).decode("utf-8", "replace")
        initial_peak, clock = peak(), [time.process_time()]
        report = library.index(complete=False)
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
        memory = peak() - initial_peak
    words, vectors, answers = (end - start for start, end in pairwise(clock))
    share = max(size / FULL_SIZE, 0.25)
    faults = {
        "not read": report.added != 1,
        "words": words > MAX_INDEXING_SECONDS * share,
        "vectors": model == "fake" and vectors > MAX_INDEXING_SECONDS * share,
        "answers": answers > MAX_ANSWERING_SECONDS * share,
        "memory": memory > max(MAX_MEMORY_FACTOR * size / 2**20, MIN_MEGABYTES),
    }
    exceeded = ", ".join(fault for fault, is_exceeded in faults.items() if is_exceeded)
    times = f"{words:.1f} | {vectors:.1f} | {answers:.1f}"
    row = f"| {name} | {size / 1e6:.1f} | {times} | {memory:.0f} |"
    print(f"{row} **{exceeded}** |" if exceeded else row)
    return int(bool(exceeded))


def run_bombs(names: list[str], options: argparse.Namespace) -> int:
    """Run bombs in separate processes; return the number of failures."""
    print(HEADER, flush=True)
    failed, seed = 0, 1 if options.seed is None else options.seed
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            # written by the parent: the memory of making it would distort the measurement
            bomb = Path(folder) / "bomb"
            bomb.write_bytes(BOMBS[name](Random(seed), options.size))
            child_options = [f"--own-process={bomb}", f"--model={options.model}", "--bombs", name]
            try:
                result = subprocess.run(
                    [sys.executable, __file__, *child_options],
                    env=environment,
                    timeout=TIMEOUT_SECONDS,
                )
                failed += result.returncode != 0
            except subprocess.TimeoutExpired:
                print(f"| {name} | **timeout after {TIMEOUT_SECONDS:g} s** |", flush=True)
                failed += 1
    print(f"{len(names)} bombs, {failed} over their limits")
    return failed


def run_targets(seconds: float, options: argparse.Namespace) -> None:
    """Feed all targets until the time is up."""
    with tempfile.TemporaryDirectory() as folder, open_library(Path(folder)) as library:
        first = time.time_ns() % 10**12 if options.seed is None else options.seed
        if options.target:
            feed(TARGETS[options.target], first, library)
            return
        deadline, seed = time.monotonic() + seconds, first
        while time.monotonic() < deadline:
            for name, target in TARGETS.items():
                try:
                    feed(target, seed, library)
                except Exception:
                    arguments = f"--target {name} --seed {seed}"
                    print(
                        f"failed; reproduce with `python tests/fuzz/run.py {arguments}`", flush=True
                    )
                    raise
            seed += 1
        print(f"{(seed - first) * len(TARGETS):,} inputs, no failure", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--target", choices=TARGETS, help="feed only this target, with one seed")
    parser.add_argument("--seed", type=int, help="first seed; default: the time, or 1 for bombs")
    parser.add_argument(
        "--bombs", nargs="*", metavar="NAME", help="run only these bombs; default: all"
    )
    parser.add_argument("--size", type=int, default=1_000_000, help="bytes of a bomb")
    parser.add_argument("--model", default="", help="also make vectors with this model, or `fake`")
    parser.add_argument("--own-process", type=Path, metavar="BOMB", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.bombs or ()) - BOMBS.keys():
        parser.error(f"no such bomb: {', '.join(sorted(unknown))}")
    if options.own_process:
        return set_off(options.bombs[0], options.own_process, options.model)
    if options.bombs is None:
        run_targets(options.seconds, options)
        if options.target:
            return 0
    return int(run_bombs(options.bombs or list(BOMBS), options) > 0)


if __name__ == "__main__":
    sys.exit(main())
