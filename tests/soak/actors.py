"""Processes that index one folder, servers and command lines: forks of one process that has
everything imported, killed where that is asked for.

A line of JSON on standard input is a job, answered with the process id of its fork, or asks whether
a fork lives, or kills it: their parent alone knows that, since a number may be another process's as
soon as it was reaped. What a job came to is in the file that it names.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

# What several folders of tests share lies above.
sys.path.insert(0, str(Path(__file__).parents[1]))

from servers import LineProcess
from thumbindex.config import load_config
from thumbindex.errors import ThumbindexError
from thumbindex.library import Library
from thumbindex.serve.child import IndexingLoop
from thumbindex.testing import FakeEmbedder

QUICK = (
    "serve.watch.quiet_ms=20",
    "serve.watch.reconcile_seconds=5",
    "query.confidence.abstain=0",
    "query.confidence.minimum_relevance=0",
)
"""An edit is taken in soon.

What no event told is found in time, too: a watch that begins while a folder moves may miss it. And
every note that holds a word is an answer, however sure it is: what this model takes for near is a
matter of luck.
"""

BATCH = 8

CHANGES = frozenset(
    (
        "execute executemany commit open write replace rename unlink mkdir rmdir fsync truncate "
        "ftruncate"
    ).split()
)
"""Calls before which a process can be killed: those that change files, or lead to it."""

ENDED_SECONDS = 120.0
"""After so long a job that has not ended hangs; on a busy machine one takes a second."""


def open_library(root: Path, index: Path, overrides: Sequence[str] = ()) -> Library:
    """Open a folder with a model that costs nothing."""
    config = load_config(user_file=root.parent / "none", overrides=(*QUICK, *overrides))
    watch = replace(config.serve.watch, longest_ms=300, poll_seconds=0.1)
    embed = replace(config.encode.embed, batch=BATCH)
    config = replace(
        config, serve=replace(config.serve, watch=watch), encode=replace(config.encode, embed=embed)
    )
    return Library.open([root], index=index, config=config, embedder=FakeEmbedder())


class Actor:
    """One process, and what became of it."""

    def __init__(self, parent: LineProcess, pid: int, said: Path) -> None:
        self.pid, self._parent, self._said = pid, parent, said

    @property
    def is_alive(self) -> bool:
        """Tell whether it has not ended."""
        return self._parent.ask({"kind": "look", "pid": self.pid}) == "lives"

    def kill(self) -> None:
        """Kill it, whatever it does just now, and wait until it is gone."""
        self._parent.ask({"kind": "kill", "pid": self.pid})
        self.outcome()

    def outcome(self) -> str:
        """Wait for its end; return what it said of itself, "killed" where it could not."""
        end = time.monotonic() + ENDED_SECONDS
        while self.is_alive:
            assert time.monotonic() < end, f"process {self.pid} hangs"
            time.sleep(0.005)
        return (self._said.read_text(encoding="utf-8") if self._said.exists() else "") or "killed"


class Actors:
    """Starts them; all end with it."""

    def __init__(self, scratch: Path) -> None:
        command = [sys.executable, str(Path(__file__))]
        # threads of a pool would be missing in a fork
        single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._program = LineProcess(command, {**os.environ, **single})
        self._scratch, self._count = scratch, 0

    def start(
        self, kind: str, root: Path, index: Path, overrides: Sequence[str], dies_at: int = 0
    ) -> Actor:
        """Start a job: `serve`, or `index` with what stands behind it; it is killed just before its
        `dies_at`-th change, 0 is never.
        """
        self._count += 1
        said = self._scratch / f"said-{self._count}"
        job = {
            "kind": kind,
            "root": str(root),
            "index": str(index),
            "overrides": list(overrides),
            "dies_at": dies_at,
            "said": str(said),
        }
        return Actor(self._program, int(self._program.ask(job)), said)

    def close(self) -> None:
        """End all of them."""
        self._program.close()


# ------------------------------------------------------------------ in the process itself


def run(job: dict[str, Any]) -> str:
    """Do a job; return what it came to."""
    if job["dies_at"]:
        die_at(job["dies_at"])
    try:
        with open_library(Path(job["root"]), Path(job["index"]), job["overrides"]) as library:
            if job["kind"] == "serve":
                IndexingLoop(library, lambda line: None).run()
            else:
                library.index(
                    rebuild=job["kind"] == "index --rebuild", verify=job["kind"] == "index --verify"
                )
    except ThumbindexError as error:
        return f"{type(error).__name__}: {error}"
    except BaseException:
        return traceback.format_exc()
    return "done"


def die_at(count: int) -> None:
    """Have this process killed just before so many changes are made: at the same one whenever it
    does the same work.
    """
    left = [count]

    def look(frame: Any, event: str, called: Any) -> None:
        if (
            event == "c_call"
            and called.__name__ in CHANGES
            and not isinstance(called.__self__, (str, bytes))
        ):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(look)
    sys.setprofile(look)


def main() -> None:
    """Fork for each job, and take all forks along in the end."""
    for name in (
        "faiss",
        "markdown_it",
        "mdit_py_plugins.footnote",
        "networkx",
        "rapidfuzz.process",
        "yaml",
        "watchdog.observers",
    ):
        import_module(name)  # what is imported when it is first needed
    say("ready")
    alive = set[int]()
    for line in sys.stdin:
        asked = json.loads(line)
        alive = {pid for pid in alive if os.waitpid(pid, os.WNOHANG) == (0, 0)}
        if asked["kind"] in ("look", "kill"):
            pid, lives = asked["pid"], asked["pid"] in alive
            if lives and asked["kind"] == "kill":
                os.kill(pid, signal.SIGKILL)
            say("lives" if lives else "ended")
        elif pid := os.fork():
            alive.add(pid)
            say(pid)
        else:
            told = run(asked)
            sys.setprofile(None)
            Path(asked["said"]).write_text(told, encoding="utf-8")
            os._exit(0)
    for pid in alive:
        os.kill(pid, signal.SIGKILL)


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
