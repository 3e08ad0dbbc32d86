"""Edit a watched vault at random, query two servers, and compare them with a model.

    python tests/bench/soak.py [--minutes 10 | --steps N] [--seed 1] [--burst 1000]

Steps write, save, rename, recase, move and delete notes and folders, mark notes private, write
ignore files, and kill servers, indexers and commands. Private or deleted notes must never be found
(`expected.py` is the model). When the index has settled, all other notes must be found. At the end
the index must equal a fresh build. Halfway, many notes are added at once. Prints query times and
the memory of the first server. Linux only.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

# For the tests' shared modules.
sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.expected import IGNORE_FILES, Expected, Note
from dump import logical_dump
from servers import SERVE, ServerProcess, await_start, children_of, path_of
from thumbindex.errors import ThumbindexError
from thumbindex.library import Library
from thumbindex.opening import OpenOptions, open_library
from waiting import until

FOLDERS = ("", "a/", "b/", "a/b/", "c/D/", "c/ü/", "sealed/")
NAMES = ("one.md", "Two.md", "three.markdown", "vier füñf.md")
PATHS = tuple(f"{folder}{name}" for folder in FOLDERS for name in NAMES)
RULES = ("b/", "/a/", "/c/D/", "one.md", "*.md", "!Two.md", "!b/", "vier*")
PRIVATE_GLOB = "sealed/"

ANCHORS = 20
"""Number of notes that never change and match no ignore rule; the asker queries them."""

BEGINNINGS = {
    "": "",
    "key": "---\nprivate: true\n---\n",
    "tag": "---\ntags: [garden, private/diary]\n---\n",
    "in the text": "",
    "other": "---\ntags: [garden]\n---\n",
}
"""First lines of a note by kind of mark. "key", "tag" and "in the text" make it private."""

PARAGRAPHS = (
    "Apples keep in a cool cellar until spring, when the last of them taste best. " * 4,
    "The bees come out on the first warm day, and the hive hums in the shadow of the wall. " * 4,
    "A ladder, a basket and a dry morning are all that it takes; the press is in the barn. " * 4,
    "- stone\n- river\n- gate\n\n```sh\nmake juice --press=3\n```",
)

SETTLE_SECONDS = 120.0
"""Maximum time until everything is indexed."""

QUESTIONS_A_SECOND = 5

GROWTH_MINUTES, MAX_GROWTH = 5.0, 1.25
"""Minimum length of a run that checks memory, and the maximum ratio of its last quarter to the
second.
"""


class Asker(threading.Thread):
    """Queries the first server for anchors, and records seconds and errors."""

    def __init__(self, servers: Sequence[ServerProcess]) -> None:
        super().__init__(daemon=True)
        self.servers, self.phase, self.ended = servers, "at rest", threading.Event()
        self.seconds: dict[str, list[float]] = {"at rest": [], "in the burst": []}
        self.errors: list[str] = []

    def run(self) -> None:
        number = 0
        while not self.ended.wait(1 / QUESTIONS_A_SECOND):
            number, phase, started = (number + 1) % ANCHORS, self.phase, time.monotonic()
            try:
                answer = self.servers[0].call("query", query=f'"anchorword{number}"', limit=3)
                paths = [path_of(result) for result in answer["results"]]
                if paths[:1] != [anchor(number)]:
                    self.errors.append(f"{anchor(number)} is not first: {paths}")
            except Exception as error:
                self.errors.append(f"{type(error).__name__}: {error}")
            self.seconds[phase].append(time.monotonic() - started)


class Soak:
    """A vault, its model, two servers, and the steps."""

    def __init__(self, scratch: Path, seed: int, settings: Iterable[str]) -> None:
        self.scratch, self.root = scratch, scratch / "vault"
        self.random, self.expected = random.Random(seed), Expected(globs=(PRIVATE_GLOB,))
        self.step_counts, self.journal = Counter[str](), deque[str](maxlen=30)
        self.memory: list[int] = []
        self.checked = 0  # number of words that `settle` has compared
        glob = f"corpus.private.globs=['{PRIVATE_GLOB}']"
        self.opening = OpenOptions((str(self.root),), scratch / "index", None, (glob, *settings))
        for number in range(ANCHORS):
            self.put(anchor(number), word=f"anchorword{number}")
        self.library = open_library(self.opening)
        self.servers: list[ServerProcess] = []
        self.asker = Asker(self.servers)

    def start(self) -> None:
        """Index the notes, and start the servers and the asker."""
        self.library.index()
        for _ in range(2):
            self.servers.append(self.serve())
        await_start(self.servers[0].call, self.root)
        (self.root / "started.md").unlink()
        self.asker.start()

    # -------------------------------------------------------------- steps

    def step(self) -> None:
        """Run one random step, then check for private notes."""
        steps = {
            self.write: 10,
            self.save: 8,
            self.write_in_pieces: 3,
            self.delete: 3,
            self.rename: 6,
            self.recase: 2,
            self.move: 4,
            self.delete_folder: 1,
            self.ignore: 3,
            self.unignore: 3,
            self.kill_child: 2,
            self.kill_server: 2,
            self.kill_command: 2,
        }
        act = self.random.choices(list(steps), list(steps.values()))[0]
        description = act()
        if description is not None:
            self.step_counts[act.__name__] += 1
            self.journal.append(f"{act.__name__}: {description}")
        self.check_hidden()
        time.sleep(self.random.random() * 0.3)

    def write(self) -> str:
        """Write a new note, or overwrite one."""
        path, mark = self.random.choice(PATHS), self.random.choice(list(BEGINNINGS))
        self.put(path, mark)
        return f"{path} {mark}"

    def save(self) -> str | None:
        """Save a note as editors do, through a temporary file."""
        if not (path := self.some_note()):
            return None
        temporary = self.root / f"{path}.tmp"
        private = self.expected.notes[path].is_private
        text, word = self.text("key" if private else "")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self.root / path)
        self.expected.notes[path] = Note(word, private)
        return path

    def write_in_pieces(self) -> str | None:
        """Write a note slowly, so that it may be read when half written."""
        path = self.random.choice(PATHS)
        text, word = self.text("")
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        self.expected.notes[path] = Note(word)
        with (self.root / path).open("w", encoding="utf-8") as file:
            for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
                time.sleep(self.random.random() * 0.4)
                file.write(piece)
                file.flush()
        return path

    def delete(self) -> str | None:
        if path := self.some_note():
            (self.root / path).unlink()
            del self.expected.notes[path]
        return path

    def rename(self) -> str | None:
        path, free = self.some_note(), sorted(set(PATHS) - self.expected.notes.keys())
        if not path or not free:
            return None
        return self._rename(path, self.random.choice(free))

    def recase(self) -> str | None:
        """Rename a note by swapping upper and lower case."""
        if not (path := self.some_note()):
            return None
        folder, _, name = path.rpartition("/")
        target = f"{folder}/{name.swapcase()}".lstrip("/")
        return None if target in self.expected.notes else self._rename(path, target)

    def _rename(self, path: str, target: str) -> str:
        (self.root / target).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).rename(self.root / target)
        self.expected.notes[target] = self.expected.notes.pop(path)
        return f"{path} -> {target}"

    def move(self) -> str | None:
        """Move a folder with its notes and ignore files."""
        moves = [
            (folder, target)
            for folder in FOLDERS
            for target in (*FOLDERS, "e/")
            if folder
            and (self.root / folder).is_dir()
            and not (self.root / target).exists()
            and not target.startswith(folder)
        ]
        if not moves:
            return None
        folder, target = self.random.choice(moves)
        (self.root / target).parent.mkdir(parents=True, exist_ok=True)
        (self.root / folder).rename(self.root / target)
        self.expected.move(folder, target)
        return f"{folder} -> {target}"

    def delete_folder(self) -> str | None:
        if not (self.root / "a").is_dir():
            return None
        shutil.rmtree(self.root / "a")
        self.expected.forget("a/")
        return "a/"

    def ignore(self) -> str:
        folder, name = self.random.choice(("", "a/", "c/")), self.random.choice(IGNORE_FILES)
        rules = self.random.choices(RULES, k=self.random.randint(1, 3))
        (self.root / folder).mkdir(parents=True, exist_ok=True)
        (self.root / folder / name).write_text("# left out\n" + "\n".join(rules), encoding="utf-8")
        self.expected.rules[f"{folder}{name}"] = tuple(rules)
        return f"{folder}{name} {rules}"

    def unignore(self) -> str | None:
        if not self.expected.rules:
            return None
        path = self.random.choice(sorted(self.expected.rules))
        (self.root / path).unlink()
        del self.expected.rules[path]
        return path

    def kill_child(self) -> str | None:
        """Kill the indexer of a server."""
        server = self.random.choice(self.servers)
        for pid in children_of(server.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return str(pid)
        return None

    def kill_server(self) -> str:
        """Kill the second server, and start another."""
        pids = [self.servers[1].process.pid, *children_of(self.servers[1].process.pid)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.servers[1].end()
        self.servers[1] = self.serve()
        return str(pids)

    def kill_command(self) -> str:
        """Kill a command while it indexes."""
        options = self.random.choice(((), ("--verify",), ("--rebuild",)))
        command = [*SERVE[:-1], "index", *options, *self.opening.arguments()]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(self.random.random() * 4)
        process.kill()
        return f"{options} ended with {process.wait()}"

    def burst(self, count: int) -> None:
        """Write many notes at once, wait until they are indexed, and delete them."""
        self.asker.phase, started = "in the burst", time.monotonic()
        for number in range(count):
            self.put(f"burst/{number % 20}/{number}.markdown")
        self.settle(SETTLE_SECONDS + count / 5)
        self.asker.phase, seconds = "at rest", time.monotonic() - started
        print(f"burst: {count:,} new notes, all found with their vectors after {seconds:.1f} s")
        shutil.rmtree(self.root / "burst")
        self.expected.forget("burst/")
        self.check_hidden()
        self.settle(SETTLE_SECONDS + count / 5)

    # -------------------------------------------------------------- checks

    def check_hidden(self) -> None:
        """Check that no private or deleted note is listed or found, even before all is indexed."""
        public = {path for path in self.expected.notes if not self.expected.is_private(path)}
        listed = {entry.path for entry in self.library.outline()}
        assert listed <= public, f"listed, but private or deleted: {sorted(listed - public)}"
        question = f"apples bees ladder {self.expected.words[-1]}"
        answer = self.random.choice(self.servers).call("query", query=question, limit=20)
        results = {path_of(result) for result in answer["results"]}
        assert results <= public, f"found, but private or deleted: {sorted(results - public)}"

    def settle(self, seconds: float = SETTLE_SECONDS) -> None:
        """Wait until everything is indexed, then compare with the model."""

        def is_settled(server: ServerProcess) -> bool:
            fresh = server.call("query", query="settled", limit=1, wait_fresh=2)["index"]
            pending = server.call("status")["folders"][0]["index"]["pending"]
            return bool(fresh.get("fresh")) and pending == 0

        for server in self.servers:
            assert until(partial(is_settled, server), seconds), f"not settled within {seconds:g} s"
        self.library.query("settled", limit=1, wait_fresh=5)  # opens the latest generation
        visible = self.expected.visible()
        words = [
            *self.expected.words[self.checked :],
            *self.random.sample(list(visible.values()), 8),
        ]
        self.compare(words)
        self.checked = len(self.expected.words)
        self.memory.append(memory_of(self.servers[0].process.pid))

    def compare(self, words: Iterable[str]) -> None:
        """Compare lists, searches for words and readable notes with the model."""
        visible = self.expected.visible()
        listed = [entry.path for entry in self.library.outline()]
        assert listed == sorted(visible), f"listed: {listed}, expected: {sorted(visible)}"
        visible_path = {word: path for path, word in visible.items()}
        server = self.random.choice(self.servers)
        for word in dict.fromkeys(words):
            results = server.call("query", query=f'"{word}"')["results"]
            actual = {path_of(result) for result in results if word in result["text"]}
            expected = {visible_path[word]} if word in visible_path else set()
            assert actual == expected, f"{word} is found in {sorted(actual)}, not in {expected}"
        for path in self.expected.notes.keys() - visible.keys():
            with suppress(ThumbindexError):
                assert server.call("read", path=path)["path"] != path, f"{path} can be read"

    def finish(self) -> None:
        """Search for all words ever written, and compare the index with a fresh build."""
        self.settle()
        self.compare(self.expected.words)
        opening = self.opening
        fresh_opening = OpenOptions(opening.folder, self.scratch / "fresh", None, opening.overrides)
        with open_library(fresh_opening) as fresh:
            fresh.index()
            expected = dump(fresh)
        until(lambda: dump(self.library) == expected, SETTLE_SECONDS)
        actual = dump(self.library)
        differing = [name for name in expected if actual[name] != expected[name]]
        assert not differing, f"not equal to a fresh build: {differing}"
        assert self.asker.is_alive(), "the asker has ended"
        errors = self.asker.errors
        assert not errors, f"{len(errors)} wrong answers: {errors[:5]}"

    def report(self, minutes: float) -> None:
        """Print the figures; fail if memory grows in a long run."""
        for phase, seconds in self.asker.seconds.items():
            if len(seconds) > 1:
                cuts = quantiles(seconds, n=20, method="inclusive")
                print(
                    f"questions {phase}: {len(seconds):,}, p50 {cuts[9]:.3f} s, "
                    f"p95 {cuts[18]:.3f} s, longest {max(seconds):.3f} s"
                )
        quarter = max(1, len(self.memory) // 4)
        early = median(self.memory[quarter : 2 * quarter] or self.memory)
        late = median(self.memory[-quarter:])
        print(
            f"memory of server 1: {early:.0f} MB in the second quarter, {late:.0f} MB in the last"
        )
        if minutes >= GROWTH_MINUTES:
            assert late <= MAX_GROWTH * early, "the memory of a server grows"

    # -------------------------------------------------------------- building blocks

    def serve(self) -> ServerProcess:
        return ServerProcess(self.opening.arguments()).__enter__()

    def some_note(self) -> str | None:
        notes = sorted(path for path in self.expected.notes if not path.startswith("anchors/"))
        return self.random.choice(notes) if notes else None

    def put(self, path: str, mark: str = "", word: str = "") -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        text, word = self.text(mark, word)
        (self.root / path).write_text(text, encoding="utf-8")
        self.expected.notes[path] = Note(word, mark in ("key", "tag", "in the text"))

    def text(self, mark: str, word: str = "") -> tuple[str, str]:
        """Return a text and its unique word."""
        word = word or word_of(len(self.expected.words))
        self.expected.words.append(word)
        paragraphs = self.random.choices(PARAGRAPHS, k=self.random.randrange(5))
        link = self.random.choice(NAMES).rpartition(".")[0]
        parts = [
            f"{BEGINNINGS[mark]}# Note",
            *paragraphs[:2],
            f"The word is {word}, and [[{link}]] knows it.",
            "## Later",
            *paragraphs[2:],
            "#private/journal" if mark == "in the text" else "#open",
        ]
        return "\n\n".join(parts) + "\n", word

    def close(self) -> None:
        self.asker.ended.set()
        if self.asker.is_alive():
            self.asker.join()
        for server in self.servers:
            server.process.kill()
            server.end()
        self.library.close()


def anchor(number: int) -> str:
    return f"anchors/anchor {number}.markdown"


def word_of(number: int) -> str:
    """Return a unique word per number, of constant length, so that rewritten texts keep their
    size.
    """
    syllables = ("ba", "ke", "mi", "lo", "tu", "fa", "de", "ri", "no", "xu")
    return "zu" + "".join(syllables[int(digit)] for digit in f"{number:06d}")


def memory_of(pid: int) -> int:
    """Return the anonymous memory of a process in megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon:"))


def dump(library: Library) -> dict[str, list[Any]]:
    (reader,) = library._readers
    return logical_dump(reader.store, reader.folder.index_paths)


def main() -> int:
    """Run for the given time or number of steps; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--steps", type=int, default=0, help="number of steps, instead of minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--burst", type=int, default=1000, help="number of notes added at once")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    options = parser.parse_args()
    started, number, has_burst = time.monotonic(), 0, False
    with tempfile.TemporaryDirectory(prefix="thumbindex-", ignore_cleanup_errors=True) as scratch:
        # ignore the user's own settings
        os.environ["XDG_CONFIG_HOME"] = f"{scratch}/config"
        soak = Soak(Path(scratch).resolve(), options.seed, options.settings)

        def progress() -> float:
            elapsed = (time.monotonic() - started) / (60 * options.minutes)
            return number / options.steps if options.steps else elapsed

        try:
            soak.start()
            while progress() < 1:
                for _ in range(soak.random.randint(1, 12)):
                    soak.step()
                    number += 1
                soak.settle()
                if progress() >= 0.5 and not has_burst:
                    has_burst = True
                    soak.burst(options.burst)
            soak.finish()
            minutes = (time.monotonic() - started) / 60
            counts = dict(soak.step_counts.most_common())
            print(f"{number:,} steps in {minutes:.1f} minutes: {counts}")
            soak.report(minutes)
        except Exception as error:
            print("the last steps:", *soak.journal, sep="\n  ")
            message = f"{type(error).__name__}: {error}"
            print(f"FAILED after {number:,} steps, seed {options.seed}: {message}")
            return 1
        finally:
            soak.close()
    print(f"PASSED: equal to a fresh build, seed {options.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
