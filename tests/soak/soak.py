"""Two servers on one vault that is edited all the time: nothing wrong, nothing lost, nothing that grows.

`make soak` runs it for ten minutes (Linux): 20 edits a second, 8 questions a second. Two hours of a busy vault's edits.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from thumbindex.errors import ThumbindexError
from thumbindex.index.dump import logical_dump
from thumbindex.library import Library
from thumbindex.serve.opening import Opening, open_library
from thumbindex.study.client import ServerProcess
from thumbindex.study.freshness import await_start
from thumbindex.study.vault import Author, make_vault, note_path

CHARACTERS, ANCHORS = 5000, 50
EDITS_A_SECOND, QUESTIONS_A_SECOND = 20, 8

SETTLED_SECONDS = 6.0
"""A text that was saved or replaced longer ago than this must, or must not, be in an answer: three times the longest gathering of changes."""

GROWTH = 1.15
"""Level is what in the last quarter of the run is at most so many times what it was in the second quarter."""


@dataclass(slots=True)
class Note:
    """What stands on disk of one note: its path, the mark of its text, since when; and the mark that it replaced."""

    path: Path
    mark: str
    since: float
    replaced: str = ""


@dataclass(slots=True)
class Scores:
    """What the questions came to."""

    asked: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


class Vault:
    """A vault with one who edits it. Anchors are never touched."""

    def __init__(self, root: Path, notes: int, seed: int) -> None:
        self.root, self.random, self.lock = root, random.Random(seed), threading.Lock()
        self.author: Author = make_vault(root, notes, CHARACTERS)
        self.edits, self.gone = 0, deque[tuple[str, float]](maxlen=2000)
        for n in range(ANCHORS):
            (root / f"anchor{n}.md").write_text(f"# Anchor {n}\n\nThis is anchormark{n}, which holds.\n", encoding="utf-8")
        self.notes = [Note(note_path(root, n), "", 0.0) for n in range(notes)]

    def edit(self) -> None:
        """Change, add, delete or rename one note."""
        with self.lock:
            self.edits += 1
            what = self.random.choices((self.change, self.add, self.delete, self.rename), (80, 7, 7, 6))[0]
            what(self.random.randrange(len(self.notes)))

    def change(self, at: int) -> None:
        """Save another text."""
        note = self.notes[at]
        replaced, note.mark = note.mark, f"mark{self.edits}"
        text = f"{self.author.write_note(at, len(self.notes), CHARACTERS)}\nHere stands {note.mark}.\n"
        beside = note.path.with_name(f".{note.path.name}.saving")
        beside.write_text(text, encoding="utf-8")
        beside.replace(note.path)
        note.since = time.monotonic()
        if replaced:
            self.gone.append((replaced, note.since))

    def add(self, at: int) -> None:
        """Save a new note."""
        self.notes.append(Note(self.root / f"new {self.edits}.md", "", 0.0))
        self.change(len(self.notes) - 1)

    def delete(self, at: int) -> None:
        """Delete a note."""
        note = self.notes.pop(at)
        note.path.unlink()
        if note.mark:
            self.gone.append((note.mark, time.monotonic()))

    def rename(self, at: int) -> None:
        """Move a note; its text stays."""
        note = self.notes[at]
        target = note.path.with_name(f"moved {self.edits}.md")
        note.path.rename(target)
        note.path, note.since = target, time.monotonic()

    def question(self) -> tuple[str, str, Callable[[Sequence[dict[str, str]]], bool], Callable[[], bool]]:
        """Return a kind, a mark to ask for, what a right answer is, and whether the question is still as it was."""
        now = time.monotonic()
        with self.lock:
            settled = [note for note in self.random.sample(self.notes, min(50, len(self.notes))) if note.mark and now - note.since > SETTLED_SECONDS]
            gone = [mark for mark, since in self.gone if now - since > SETTLED_SECONDS]
        kind = self.random.choice(("anchor", "current", "gone"))
        if kind == "current" and settled:
            note = settled[0]
            mark, path, since = note.mark, note.path.relative_to(self.root).as_posix(), note.since
            return kind, mark, lambda found: [each["path"] for each in found[:1]] == [path], lambda: note.since == since
        if kind == "gone" and gone:
            mark = self.random.choice(gone)
            return kind, mark, lambda found: not any(f" {mark}." in each["text"] for each in found), lambda: True
        n = self.random.randrange(ANCHORS)
        return "anchor", f"anchormark{n}", lambda found: [each["path"] for each in found[:1]] == [f"anchor{n}.md"], lambda: True


def ask(vault: Vault, server: ServerProcess, scores: Scores, lock: threading.Lock) -> None:
    """Ask one question and judge the answer; one that a deletion or an edit overtook is not judged."""
    kind, mark, is_right, stands = vault.question()
    began = time.perf_counter()
    try:
        found = server.call("query", query=f'"{mark}"', limit=3)["results"]
    except ThumbindexError as error:
        with lock:
            scores.wrong.append(f"failed: {error}")
        return
    seconds, right = time.perf_counter() - began, is_right(found)
    with lock:
        scores.asked[kind] += 1
        scores.seconds.append(seconds)
        with vault.lock:
            exists = any(note.mark == mark for note in vault.notes) if kind == "current" else True
        if not right and stands() and exists:
            scores.wrong.append(f"{kind} {mark}: {[each['path'] for each in found]}")


@dataclass(frozen=True, slots=True)
class Sample:
    """What the servers and their children take at one moment."""

    second: int
    resident: int  # bytes, of all processes
    threads: int
    handles: int
    index: int  # bytes on disk


def take_sample(second: float, servers: Sequence[ServerProcess], index: Path) -> Sample:
    """Add up the processes and the files."""
    processes = [pid for server in servers for pid in (server.process.pid, *children(server.process.pid))]
    resident = threads = handles = 0
    for pid in processes:
        facts = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        resident += int(facts["VmRSS"].split()[0]) * 1024
        threads += int(facts["Threads"])
        handles += len(list(Path(f"/proc/{pid}/fd").iterdir()))
    size = 0
    for path in index.rglob("*"):
        try:
            size += path.stat().st_size
        except OSError:
            continue  # merged away meanwhile
    return Sample(round(second), resident, threads, handles, size)


def children(parent: int) -> list[int]:
    """Return the process ids of a process's children."""
    return [int(pid) for task in Path(f"/proc/{parent}/task").iterdir() for pid in (task / "children").read_text().split()]


def paced(work: Callable[[], None], a_second: float, until: float) -> None:
    """Do something so many times a second; what falls behind is not made up for."""
    due = time.monotonic()
    while (now := time.monotonic()) < until:
        if now < due:
            time.sleep(min(due, until) - now)
            continue
        due = max(due + 1 / a_second, now - 1)
        work()


def growth(samples: Sequence[Sample], name: str) -> float:
    """Return the last quarter's median over the second quarter's."""
    values = [getattr(sample, name) for sample in samples]
    quarter = max(1, len(values) // 4)
    return float(statistics.median(values[-quarter:])) / statistics.median(values[quarter : 2 * quarter] or values)


def run(minutes: float, notes: int, seed: int, settings: Sequence[str]) -> bool:
    """Run the soak and print what was seen; True where all held."""
    made = Path(tempfile.mkdtemp(prefix="thumbindex-soak-")).resolve()
    vault, opening = Vault(made / "vault", notes, seed), Opening((str(made / "vault"),), made / "index", None, tuple(settings))
    with open_library(opening) as library:
        library.index()
    scores, lock, samples = Scores(), threading.Lock(), list[Sample]()
    with ServerProcess(opening.arguments()) as first, ServerProcess(opening.arguments()) as second:
        servers = (first, second)
        await_start(first, vault.root)
        await_start(second, vault.root)
        began = time.monotonic()
        end = began + minutes * 60
        threads = [threading.Thread(target=paced, args=(vault.edit, EDITS_A_SECOND, end))]
        threads += [
            threading.Thread(target=paced, args=(lambda server=server: ask(vault, server, scores, lock), QUESTIONS_A_SECOND / 4, end))
            for server in servers
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        while time.monotonic() < end:
            time.sleep(min(minutes * 60 / 40, max(0.0, end - time.monotonic())))
            samples.append(take_sample(time.monotonic() - began, servers, made / "index"))
            print(samples[-1], f"edits {vault.edits}, asked {sum(scores.asked.values())}, wrong {len(scores.wrong)}", flush=True)
        for thread in threads:
            thread.join()
        settled = settle(first)
    same = settled and equals_fresh_build(opening, made / "fresh")
    report(samples, scores, vault.edits, settled, same)
    shutil.rmtree(made)
    return same and not scores.wrong and all(growth(samples, name) <= GROWTH for name in ("resident", "threads", "handles", "index"))


def settle(server: ServerProcess, seconds: float = 300) -> bool:
    """Wait until no change and no vector is missing."""
    end = time.monotonic() + seconds
    quiet = 0
    while time.monotonic() < end and quiet < 10:
        time.sleep(0.5)
        folder = server.call("status")["folders"][0]
        quiet = 0 if folder["index"]["pending"] or folder["writing"] else quiet + 1
    return quiet >= 10


def equals_fresh_build(opening: Opening, index: Path) -> bool:
    """Tell whether the index says what one built anew from the same files says."""
    fresh = Opening(opening.folder, index, opening.config, opening.overrides)
    with open_library(opening) as grown, open_library(fresh) as built:
        built.index()
        return dump(grown) == dump(built)


def dump(library: Library) -> dict[str, list[object]]:
    """Return a library's index as comparable rows."""
    (reader,) = library._readers
    return logical_dump(reader.store, reader.folder.places)


def report(samples: Sequence[Sample], scores: Scores, edits: int, settled: bool, same: bool) -> None:
    """Print the run's figures."""
    print(f"\n{edits:,} edits; {sum(scores.asked.values()):,} questions {dict(scores.asked)}; {len(scores.wrong)} wrong or failed")
    for each in scores.wrong[:20]:
        print(f"  {each}")
    ordered = sorted(scores.seconds)
    print(f"question: p50 {ordered[len(ordered) // 2]:.3f} s, p95 {ordered[int(len(ordered) * 0.95)]:.3f} s, longest {ordered[-1]:.3f} s")
    for name in ("resident", "threads", "handles", "index"):
        values = [getattr(sample, name) for sample in samples]
        print(f"{name}: first {values[0]:,}, most {max(values):,}, last {values[-1]:,}; last quarter / second quarter {growth(samples, name):.3f}")
    print(f"settled: {settled}; equal to a fresh build: {same}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--notes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    asked = parser.parse_args()
    sys.exit(0 if run(asked.minutes, asked.notes, asked.seed, asked.settings) else 1)
