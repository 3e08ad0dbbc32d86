"""A `git checkout` of ten thousand notes under a running server: answers go on, and the index ends
as one built anew.

`make storm` runs it (Linux, git): what a question takes when nothing happens, then from before the
checkout until its words are in answers.
"""

from __future__ import annotations

import argparse
import math
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# What several folders of tests share lies above.
sys.path.insert(0, str(Path(__file__).parents[1]))

from ending import compare_with_fresh, settle
from heard import count_queued, judge_queue
from judge import Verdict, conclude, distribution, judge_pace, judge_wrong, quantile
from load import NOTHING_DUE, Crew, Pace
from processes import Sample, judge_same_processes, take_sample

from notes import Author, note_path
from servers import ServerProcess, await_start, index_folder
from thumbindex.corpus.read import digest_of
from thumbindex.errors import ThumbindexError
from thumbindex.index.files import Places
from thumbindex.index.snapshot import shows_words
from thumbindex.index.store import Store
from thumbindex.serve.opening import Opening, open_library

QUESTIONS_A_SECOND, ASKERS = 8, 8

REST_SECONDS = 20.0
"""How long questions are asked before the storm, and after it."""

BEFORE_SECONDS = 1.0
"""Questions of the storm begin so long before the checkout: its first moments count."""

LONGEST_SECONDS = 600.0
"""A storm whose words are not in by then has failed."""

LARGEST = 3.0
"""So many times the size of an index built anew: all texts were replaced at once, and SQLite keeps
the room of both branches for what will come.
"""

SETTLE_SECONDS = 900.0

LOOK_SECONDS, SAMPLE_SECONDS = 1.0, 0.25
"""How often it is looked whether all is in, which costs some 50 ms for ten thousand notes, and what
the processes take.
"""

FACTOR = 3.0
"""What p95 in the storm may be over p95 at rest."""

MEMORY_TIMES = 1.7
"""What all processes may take in the storm: so many times what they take at rest."""


@dataclass(slots=True)
class Phase:
    """A stretch of the run: which branches' texts are right answers in it, and what its questions
    came to.
    """

    name: str
    branches: frozenset[str]
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    newest: int = 0  # the generation that answers stood on
    lock: threading.Lock = field(default_factory=threading.Lock)
    pace: Pace = NOTHING_DUE

    def take(self, taken: float, fault: str, generation: int) -> None:
        """Take in an answer."""
        with self.lock:
            self.seconds.append(taken)
            self.wrong += [f"{self.name}: {fault}"] if fault else []
            self.newest = max(self.newest, generation)
        if fault:
            print(f"WRONG {self.name}: {fault}", flush=True)

    @property
    def waits(self) -> list[float]:
        """Return what questions took; for one that was due and never asked, at least what it
        waited.
        """
        return [*self.seconds, *self.pace.undone]


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks one server for notes by their marks, and for words of the vault, by turns."""

    server: ServerProcess
    root: Path
    notes: int
    words: Sequence[str]
    random: random.Random = field(default_factory=lambda: random.Random(1))

    def ask(self, phase: Phase, due: float) -> None:
        """Ask one question and judge the answer; what it took counts from when it was due."""
        question, fault = self._by_mark(phase) if self.random.random() < 0.5 else self._by_words()
        try:
            answer = self.server.call("query", query=question, limit=3)
        except ThumbindexError as error:
            phase.take(time.monotonic() - due, f"failed: {error}", 0)
            return
        phase.take(time.monotonic() - due, fault(answer), answer["index"]["generation"])

    def _by_mark(self, phase: Phase) -> tuple[str, Callable[[Mapping[str, Any]], str]]:
        number = self.random.randrange(self.notes)
        path = note_path(self.root, number).relative_to(self.root).as_posix()
        return f'"notemark{number}"', lambda answer: find_fault(
            answer, path, {f"notemark{number} {branch}." for branch in phase.branches}
        )

    def _by_words(self) -> tuple[str, Callable[[Mapping[str, Any]], str]]:
        question = " ".join(self.random.sample(self.words, 3))
        return (
            question,
            lambda answer: "" if answer["results"] else f"nothing was found for {question}",
        )


def find_fault(answer: Mapping[str, Any], path: str, marks: set[str]) -> str:
    """Tell what is wrong with an answer where one of these marks should stand first, in this note;
    "" where nothing is.

    git removes a note before it writes it anew: one that is looked for in the very moment may be
    missing for a second or two, and counts as wrong.
    """
    first = answer["results"][:1]
    right = any(
        each["path"] == path and any(mark in each["text"] for mark in marks) for each in first
    )
    return (
        ""
        if right
        else (
            f"{path} with one of {sorted(marks)} is not first: "
            f"{[(each['path'], each['text'][-30:]) for each in first]}"
        )
    )


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
            path.write_text(
                f"{author.write_note(number, notes, characters)}\n"
                f"Here stands notemark{number} {branch}.\n",
                encoding="utf-8",
            )
        git(root, "add", "--all")
        git(
            root,
            "-c",
            "user.name=n",
            "-c",
            "user.email=e",
            "commit",
            "--quiet",
            "--message",
            branch,
        )
    git(root, "checkout", "--quiet", "before")


def git(root: Path, *arguments: str) -> None:
    """Run git in the vault."""
    subprocess.run(["git", "-C", str(root), *arguments], check=True)


@contextmanager
def asking(asker: Asker, phase: Phase) -> Iterator[Crew]:
    """Ask at a steady pace meanwhile."""
    with Crew() as crew:
        crew.start("questions", lambda due: asker.ask(phase, due), QUESTIONS_A_SECOND, ASKERS)
        yield crew
        phase.pace = crew.stop()["questions"]


class Arrival:
    """Looks into the index itself, without a word to the server, whether all that is on disk is in;
    and whether answers stand on that.
    """

    def __init__(self, root: Path, index: Path) -> None:
        self._wanted = {
            path.relative_to(root).as_posix(): digest_of(path.read_bytes())
            for path in root.rglob("*.md")
        }
        folder = index_folder(index)
        assert folder is not None
        self._places = Places(folder)
        self._generation = math.inf

    def is_answered(self, newest: int) -> bool:
        """Tell whether answers of this generation know all words."""
        if self._generation == math.inf:
            self._generation = self._complete()
        return newest >= self._generation

    def _complete(self) -> float:
        """Return the generation in which all words are in; infinity where some are missing."""
        store = Store(self._places.store, read_only=True)
        try:
            generation = store.generation
            known = {path: state.digest for path, state in store.manifest().items()}
            return (
                generation
                if known == self._wanted and shows_words(store, self._places)
                else math.inf
            )
        finally:
            store.close()


def run(
    made: Path, notes: int, characters: int, rest_seconds: float, settings: Sequence[str]
) -> int:
    """Run the storm and print what was seen."""
    vault = made / "vault"
    vault.mkdir()
    make_branches(vault, notes, characters)
    opening = Opening((str(vault),), made / "index", None, tuple(settings))
    with open_library(opening) as library:
        library.index()
    phases = [
        Phase(name, frozenset(right))
        for name, right in (
            ("rest", ["before"]),
            ("storm", ["before", "after"]),
            ("filling in", ["after"]),
        )
    ]
    samples: dict[str, list[Sample]] = {phase.name: [] for phase in phases}
    with ServerProcess(opening.arguments()) as server:
        await_start(server.call, vault)
        asker = Asker(server, vault, notes, Author().vocabulary[:500])

        def look(phase: Phase) -> None:
            samples[phase.name].append(take_sample(0, [server], made / "index"))

        rest, storm, filling = phases
        with asking(asker, rest) as crew:
            crew.watch(rest_seconds, lambda: look(rest), SAMPLE_SECONDS)
        taken = check_out(asker, storm, made / "index", lambda: look(storm))
        with asking(asker, filling) as crew:
            crew.watch(rest_seconds, lambda: look(filling), SAMPLE_SECONDS)
        settled, is_settled = settle(server, SETTLE_SECONDS)
        look(filling)
    compared = compare_with_fresh(opening, made / "fresh", LARGEST) if is_settled else []
    print(
        f"\n{notes:,} notes changed by git checkout; figures count from the moment that a "
        "question was due"
    )
    for phase in phases:
        print(distribution(phase.name, phase.waits))
    judged = [
        judge_arrival(taken),
        *judge_phases(phases),
        *judge_memory(samples),
        settled,
        *compared,
        judge_queue(count_queued(made)),
    ]
    return conclude(judged)


def check_out(asker: Asker, storm: Phase, index: Path, look: Callable[[], None]) -> float:
    """Check the other branch out while questions go on; return after how many seconds answers knew
    all of it, infinity where they never did.
    """
    with asking(asker, storm) as crew:
        crew.watch(BEFORE_SECONDS, look, SAMPLE_SECONDS)
        began = time.monotonic()
        git(asker.root, "checkout", "--quiet", "after")
        look()
        arrival = Arrival(asker.root, index)
        while time.monotonic() < began + LONGEST_SECONDS:
            if arrival.is_answered(storm.newest):
                return time.monotonic() - began
            crew.watch(LOOK_SECONDS, look, SAMPLE_SECONDS)
    return math.inf


def judge_arrival(taken: float) -> Verdict:
    """Judge whether the storm ended."""
    return Verdict(
        "all words in answers",
        taken < LONGEST_SECONDS,
        f"{taken:.1f} s after the checkout began (at most {LONGEST_SECONDS:g})",
    )


def judge_phases(phases: Sequence[Phase]) -> list[Verdict]:
    """Judge the answers, the pace of the questions, and what they took in the storm against what
    they take at rest.
    """
    rest, storm = (quantile(phase.waits, 0.95) for phase in phases[:2])
    wrong = [fault for phase in phases for fault in phase.wrong]
    paces = [
        judge_pace(f"questions, {phase.name}", QUESTIONS_A_SECOND, phase.pace) for phase in phases
    ]
    held = storm <= FACTOR * rest < math.inf
    slow = Verdict(
        "p95 in the storm",
        held,
        f"{storm:.3f} s, {storm / rest:.2f} times the {rest:.3f} s at rest (at most {FACTOR:g})",
    )
    return [judge_wrong(sum(len(phase.seconds) for phase in phases), wrong), *paces, slow]


def judge_memory(samples: Mapping[str, Sequence[Sample]]) -> list[Verdict]:
    """Judge what all processes took at most against the most at rest; a queue of events would be in
    the child's part.
    """
    every = [sample for phase in samples.values() for sample in phase]
    before, most = (max(sample.resident for sample in each) for each in (samples["rest"], every))
    allowed = before * MEMORY_TIMES
    peaks = ", ".join(
        f"{name} {peak(samples['rest'], name):,} to {peak(every, name):,}"
        for name in samples["rest"][0].taken
    )
    seen = (
        f"{before:,} bytes at rest, {most:,} at most, {most / before:.2f} times (at most "
        f"{allowed:,.0f}); {peaks}"
    )
    return [judge_same_processes(every), Verdict("resident memory", most <= allowed, seen)]


def peak(samples: Sequence[Sample], name: str) -> int:
    """Return the most bytes of one process."""
    return max(sample.taken[name].resident for sample in samples if name in sample.taken)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--characters", type=int, default=400)
    parser.add_argument("--rest", type=float, default=REST_SECONDS)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(
        prefix="thumbindex-storm-", ignore_cleanup_errors=True
    ) as folder:
        code = run(
            Path(folder).resolve(), asked.notes, asked.characters, asked.rest, asked.settings
        )
    sys.exit(code)
