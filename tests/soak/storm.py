"""A `git checkout` of ten thousand notes under a running server: answers go on, and the index ends as one built anew.

`make storm` runs it (Linux, git): what a question takes when nothing happens, then from the checkout until its words are in.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from soak import Sample, equals_fresh_build, paced, settle, take_sample
from thumbindex.serve.opening import Opening, open_library
from thumbindex.study.client import ServerProcess
from thumbindex.study.freshness import await_start
from thumbindex.study.vault import Author, note_path

QUESTIONS_A_SECOND = 8
IDLE_SECONDS = 20.0

FACTOR = 3.0
"""What p95 in the storm may be over p95 at rest."""


def make_branches(root: Path, notes: int, characters: int) -> None:
    """Make a repository with two branches in which every note has another text."""
    author = Author()
    git(root, "init", "--quiet", "--initial-branch=before")
    for branch in ("before", "after"):
        if branch == "after":
            git(root, "checkout", "--quiet", "-b", branch)
        for number in range(notes):
            path = note_path(root, number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{author.write_note(number, notes, characters)}\n{branch}mark{number}\n", encoding="utf-8")
        git(root, "add", "--all")
        git(root, "-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "--message", branch)
    git(root, "checkout", "--quiet", "before")


def git(root: Path, *arguments: str) -> None:
    """Run git in the vault."""
    subprocess.run(["git", "-C", str(root), *arguments], check=True)


class Questions:
    """Asks for words of the vault, a few a second, and keeps what each took."""

    def __init__(self, server: ServerProcess, root: Path, words: Sequence[str]) -> None:
        self.server, self.root, self.words, self.number = server, root, words, 0

    def ask_for(self, seconds: float, is_over: Callable[[], bool] = lambda: False) -> list[float]:
        """Ask until the time is up or it is over; return each question's seconds."""
        taken: list[float] = []
        end = time.monotonic() + seconds

        def ask() -> None:
            self.number += 1
            began = time.perf_counter()
            answer = self.server.call("query", query=" ".join(self.words[(self.number * 7 + n * 13) % len(self.words)] for n in range(3)))
            taken.append(time.perf_counter() - began)
            if not answer["results"]:
                raise SystemExit("a question was not answered")

        while time.monotonic() < end and not is_over():
            paced(ask, QUESTIONS_A_SECOND, min(end, time.monotonic() + 1))
        return taken


def run(notes: int, characters: int, settings: Sequence[str]) -> bool:
    """Run the storm and print what was seen; True where all held."""
    made = Path(tempfile.mkdtemp(prefix="thumbindex-storm-")).resolve()
    vault = made / "vault"
    vault.mkdir()
    make_branches(vault, notes, characters)
    opening = Opening((str(vault),), made / "index", None, tuple(settings))
    with open_library(opening) as library:
        library.index()
    with ServerProcess(opening.arguments()) as server:
        await_start(server, vault)
        questions = Questions(server, vault, Author().vocabulary[:500])
        idle = questions.ask_for(IDLE_SECONDS)
        before = take_sample(0, [server], made / "index")
        began = time.monotonic()
        git(vault, "checkout", "--quiet", "after")
        most = [before]
        storm = questions.ask_for(600, lambda: is_in(server, vault, notes, most, made / "index"))
        taken = time.monotonic() - began
        filling = questions.ask_for(IDLE_SECONDS)
        settled = settle(server, 900)
    same = settled and equals_fresh_build(opening, made / "fresh")
    report(notes, taken, {"at rest": idle, "storm": storm, "vectors filling in": filling}, most, same)
    shutil.rmtree(made)
    return same and p95(storm) <= FACTOR * p95(idle)


def is_in(server: ServerProcess, vault: Path, notes: int, most: list[Sample], index: Path) -> bool:
    """Tell whether the words of the other branch are all in; keep what the processes take meanwhile."""
    most.append(take_sample(0, [server], index))
    state = server.call("status")["folders"][0]
    found = server.call("query", query=f'"aftermark{notes - 1}"', wait_fresh=1)
    return bool(found["index"].get("fresh")) and state["index"]["documents"] == notes + 1


def p95(seconds: Sequence[float]) -> float:
    """Return the value that 95 in 100 do not exceed."""
    return sorted(seconds)[int(len(seconds) * 0.95)]


def report(notes: int, taken: float, questions: dict[str, list[float]], samples: Sequence[Sample], same: bool) -> None:
    """Print the run's figures."""
    print(f"\n{notes:,} notes changed by git checkout; all their words in after {taken:.1f} s")
    for name, seconds in questions.items():
        middle = sorted(seconds)[len(seconds) // 2]
        print(f"question, {name}: {len(seconds)} asked, p50 {middle:.3f} s, p95 {p95(seconds):.3f} s, longest {max(seconds):.3f} s")
    print(f"p95 in the storm / at rest: {p95(questions['storm']) / p95(questions['at rest']):.2f} (at most {FACTOR:g})")
    print(f"resident, all processes: before {samples[0].resident:,}, most {max(each.resident for each in samples):,} bytes")
    print(f"equal to a fresh build: {same}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--characters", type=int, default=400)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    asked = parser.parse_args()
    sys.exit(0 if run(asked.notes, asked.characters, asked.settings) else 1)
