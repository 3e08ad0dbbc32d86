"""A folder, its index and all who work at it, against a model (`expected.py`): whatever steps are
taken, in whatever order, the model holds.

`make soak-model` takes ten thousand steps: edits, renames, moves of folders, ignore files, private
marks, settings, two servers and command lines at once, and kills. `--seed` and `--steps` choose
others. Steps that fail are shrunk by hypothesis to the fewest that still fail, and written to
`build/steps-failed.py`: a plain script, which `python build/steps-failed.py` runs again without
hypothesis. The same lines stand in what hypothesis prints (`state = VaultMachine()`,
`state.write(path='one.md', …)` …, `state.teardown()`), in CI too: put `from steps import
VaultMachine` above them, and run them with `PYTHONPATH=tests/soak`. What depends on the moment
cannot be shrunk: the steps of the first failure stand, as they came, in
`build/steps-first-failed.py`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar

# What several folders of tests share lies above.
sys.path.insert(0, str(Path(__file__).parents[1]))

from actors import Actor, Actors, open_library
from ending import differences, dump
from expected import IGNORE_FILES, Expected, Note
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from thumbindex.errors import UsageError
from thumbindex.process import compute_on_one_thread
from waiting import until

compute_on_one_thread()  # FAISS is imported with the first question

FOLDERS = ("", "a/", "b/", "a/b/", "c/D/", "c/ü/")
NAMES = ("one.md", "Two.md", "three.markdown", "vier füñf.md")
PATHS = tuple(f"{folder}{name}" for folder in FOLDERS for name in NAMES)
RULES = ("b/", "/a/", "/c/D/", "one.md", "*.md", "!Two.md", "!b/", "vier*")
GLOBS = ("b/", "/A/", "two.md", "*.markdown", "/c/ü/")

MARKS = {
    "": "",
    "key": "---\nprivate: true\n---\n",
    "tag": "---\ntags: [garden, private/diary]\n---\n",
    "in the text": "",
    "other": "---\ntags: [garden]\n---\n",
}
"""What a text begins with, by how it is marked."""

PARAGRAPHS = (
    (
        "Apples keep in a cool cellar until spring, when the first of them begin to wrinkle and "
        "the last of them taste best. "
    )
    * 3,
    (
        "The bees come out on the first warm day, and the hive hums while the frost still lies in "
        "the shadow of the wall. "
    )
    * 3,
    (
        "A ladder, a basket and a dry morning are all that it takes; the press stands ready in "
        "the barn behind the mill. "
    )
    * 3,
    "- stone\n- river\n- gate\n\n```sh\nmake juice --press=3\n```",
)

EXAMPLE = 50
"""Steps on one folder, which begins empty."""

WORK = 4
"""Steps from one settlement to the next: where nothing was done, nothing is to be seen."""

OTHER_SETTINGS = 2
"""Steps from a settlement to other settings, which would be too seldom after more: half of all
steps settle.
"""

SETTLED_SECONDS = 90.0
"""So long servers may take until all is indexed: a second on a quiet machine."""

FEWEST, FIRST = Path("build/steps-failed.py"), Path("build/steps-first-failed.py")
"""The scripts of a failure: shrunk, and as it came."""

ANCHOR = "anchor.md"
"""Is never touched: a folder that becomes empty is taken for a drive that is not there."""


def word_of(number: int) -> str:
    """Return a word that is no other number's, all of the same length: a text that is written anew
    has the size that it had.
    """
    return "zu" + "".join(
        ("ba", "ke", "mi", "lo", "tu", "fa", "de", "ri", "no", "xu")[int(digit)]
        for digit in f"{number:04d}"
    )


def step(**drawn: Any) -> Callable[[Callable[..., None]], Any]:
    """Make a rule of a method, after which is looked whether anything is found that must not be; a
    plain call of it looks, too.
    """

    def made(act: Callable[..., None]) -> Any:
        @wraps(act)
        def act_and_look(self: VaultMachine, **given: Any) -> None:
            VaultMachine.taken[act.__name__] += 1
            self.since += 1
            arguments = ", ".join(f"{name}={value!r}" for name, value in given.items())
            self.journal.append(f"state.{act.__name__}({arguments})")
            try:
                act(self, **given)
                self.look()
            except BaseException as error:
                self.keep(error)
                raise

        return rule(**drawn)(act_and_look)

    return made


def of_the(choose: Callable[[VaultMachine], Iterable[Any]]) -> st.SearchStrategy[Any]:
    """Draw one of what there is in the machine just now."""
    return st.runner().flatmap(lambda machine: st.sampled_from(sorted(choose(machine))))


THERE = of_the(lambda machine: machine.expected.notes.keys() - {ANCHOR})
FREE = of_the(lambda machine: set(PATHS) - machine.expected.notes.keys())
MOVES = of_the(lambda machine: machine.moves())
has_note = precondition(lambda machine: len(machine.expected.notes) > 1)
has_two_hands = precondition(lambda machine: len(machine.commands) < 2)
MOMENTS = st.integers(1, 250)
"""Before which of its changes a process is killed: a command line makes a hundred or two."""


class VaultMachine(RuleBasedStateMachine):
    """What can be done to a folder and to those who index it."""

    taken: ClassVar = Counter[str]()
    failed: ClassVar = ""
    """What the first failure said."""
    actors: ClassVar[Actors | None] = None
    """One for all machines: importing everything takes a second."""

    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")
        self.made = Path(
            tempfile.mkdtemp(
                prefix="thumbindex-steps-", dir=memory if os.access(memory, os.W_OK) else None
            )
        ).resolve()
        self.root, self.index, self.count = self.made / "vault", self.made / "index", 0
        self.expected, self.overrides = Expected(), tuple[str, ...]()
        self.servers, self.commands = list[Actor](), list[Actor]()
        self.journal = ["state = VaultMachine()"]
        # words that were looked for when all was settled, and steps since then
        self.checked = self.since = 0
        if VaultMachine.actors is None:
            VaultMachine.actors = Actors(Path(tempfile.mkdtemp(prefix="thumbindex-said-")))
        self.root.mkdir()
        self.put(ANCHOR, self.text("", 0))
        self.reader = open_library(self.root, self.index)

    # -------------------------------------------------------------- notes

    @step(
        path=st.sampled_from(PATHS), mark=st.sampled_from(sorted(MARKS)), shape=st.integers(0, 40)
    )
    def write(self, path: str, mark: str, shape: int) -> None:
        """Write a note, a new one or over the one that is there."""
        self.put(path, self.text(mark, shape), is_private=mark in ("key", "tag", "in the text"))

    @has_note
    @step(path=THERE, shape=st.integers(0, 40))
    def save(self, path: str, shape: int) -> None:
        """Save a note as editors do: written beside it and put in its place; what is private stays
        so.
        """
        beside, text = (
            self.root / f"{path}.tmp",
            self.text("key" if self.expected.notes[path].is_private else "", shape),
        )
        beside.write_text(text, encoding="utf-8")
        beside.replace(self.root / path)
        self.expected.notes[path] = Note(
            self.expected.words[-1], self.expected.notes[path].is_private
        )

    @has_note
    @step(path=THERE)
    def delete(self, path: str) -> None:
        (self.root / path).unlink()
        del self.expected.notes[path]

    @has_note
    @step(path=THERE, to=FREE)
    def rename(self, path: str, to: str) -> None:
        (self.root / to).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).rename(self.root / to)
        self.expected.notes[to] = self.expected.notes.pop(path)

    @has_note
    @step(path=THERE)
    def recase(self, path: str) -> None:
        """Rename a note so that only upper and lower case differ."""
        folder, _, name = path.rpartition("/")
        to = f"{folder}/{name.swapcase()}".lstrip("/")
        if to not in self.expected.notes:
            (self.root / path).rename(self.root / to)
            self.expected.notes[to] = self.expected.notes.pop(path)

    # -------------------------------------------------------------- folders

    def moves(self) -> set[tuple[str, str]]:
        """Return which folder can be moved where: from one that is there to one that is not."""
        there = [folder for folder in FOLDERS if folder and (self.root / folder).is_dir()]
        return {
            (folder, to)
            for folder in there
            for to in (*FOLDERS, "e/")
            if not (self.root / to).exists() and not to.startswith(folder)
        }

    @precondition(lambda machine: bool(machine.moves()))
    @step(move=MOVES)
    def move(self, move: tuple[str, str]) -> None:
        """Move a folder with all that is in it, ignore files too."""
        (self.root / move[1]).parent.mkdir(parents=True, exist_ok=True)
        (self.root / move[0]).rename(self.root / move[1])
        self.expected.notes = {
            _moved(path, *move): note for path, note in self.expected.notes.items()
        }
        self.expected.rules = {
            _moved(path, *move): rules for path, rules in self.expected.rules.items()
        }

    @precondition(lambda machine: (machine.root / "a").is_dir())
    @step()
    def delete_folder(self) -> None:
        shutil.rmtree(self.root / "a")
        self.expected.notes = {
            path: note for path, note in self.expected.notes.items() if not path.startswith("a/")
        }
        self.expected.rules = {
            path: rules for path, rules in self.expected.rules.items() if not path.startswith("a/")
        }

    @step(
        folder=st.sampled_from(("", "a/", "c/")),
        name=st.sampled_from(IGNORE_FILES),
        rules=st.lists(st.sampled_from(RULES), min_size=1, max_size=3),
    )
    def ignore(self, folder: str, name: str, rules: list[str]) -> None:
        """Write an ignore file."""
        (self.root / folder).mkdir(parents=True, exist_ok=True)
        (self.root / folder / name).write_text(
            "# what is left out\n" + "\n".join(rules), encoding="utf-8"
        )
        self.expected.rules[f"{folder}{name}"] = tuple(rules)

    @precondition(lambda machine: bool(machine.expected.rules))
    @step(path=of_the(lambda machine: machine.expected.rules))
    def unignore(self, path: str) -> None:
        (self.root / path).unlink()
        del self.expected.rules[path]

    # -------------------------------------------------------------- settings

    @precondition(lambda machine: machine.since >= OTHER_SETTINGS)
    @step(
        chunk=st.sampled_from((500, 500, 150)),
        duplicates=st.booleans(),
        ingest=st.booleans(),
        globs=st.lists(st.sampled_from(GLOBS), max_size=2, unique=True),
        own=st.lists(st.sampled_from(GLOBS), max_size=1),
    )
    def configure(
        self, chunk: int, duplicates: bool, ingest: bool, globs: list[str], own: list[str]
    ) -> None:
        """Change settings and the folder's own file, and begin again with them: nobody goes on with
        the old ones.
        """
        self.end_all()
        (self.root / "thumbindex.toml").write_text(
            f"[corpus.private]\nglobs = {own}\n", encoding="utf-8"
        )
        said = {
            "corpus.chunk.child_max": chunk,
            "index.duplicates.enabled": str(duplicates).lower(),
            "index.ingest.enabled": str(ingest).lower(),
        }
        self.overrides = (
            *(f"{key}={value}" for key, value in said.items()),
            f"corpus.private.globs={globs}",
        )
        self.expected.globs = (*own, *globs)
        self.reader.close()
        self.reader = open_library(self.root, self.index, self.overrides)

    # -------------------------------------------------------------- those who index

    @precondition(lambda machine: len(machine.servers) < 2)
    @step(dies_at=st.one_of(st.just(0), MOMENTS))
    def serve(self, dies_at: int) -> None:
        """Start a server, which dies just before so many changes where that is not 0."""
        self.servers.append(self.start("serve", dies_at))

    @precondition(lambda machine: bool(machine.servers))
    @step()
    def kill_server(self) -> None:
        """Kill the server that was started first, whatever it does just now."""
        self.servers.pop(0).kill()

    @has_two_hands
    @step(
        path=st.sampled_from(PATHS),
        shape=st.integers(0, 40),
        kind=st.sampled_from(("index", "index", "index --verify", "index --rebuild")),
    )
    def begin(self, path: str, shape: int, kind: str) -> None:
        """Write a note, start a command line, and wait for nothing."""
        self.put(path, self.text("", shape))
        self.commands.append(self.start(kind))

    @step(
        path=st.sampled_from(PATHS),
        shape=st.integers(0, 40),
        kind=st.sampled_from(("index", "index", "index --rebuild")),
        dies_at=MOMENTS,
    )
    def die(self, path: str, shape: int, kind: str, dies_at: int) -> None:
        """Write a note, and have a command line die while it takes it in."""
        self.put(path, self.text("", shape))
        told = self.start(kind, dies_at).outcome()
        assert told in ("done", "killed"), told

    @precondition(lambda machine: bool(machine.commands))
    @step()
    def kill_command(self) -> None:
        self.commands.pop(0).kill()

    # -------------------------------------------------------------- what must hold

    def look(self) -> None:
        """Look, in the middle of all this, that nothing is found that is private or gone: that
        holds at once.
        """
        if self.reader.indexed:
            there = {path for path in self.expected.notes if not self.expected.is_private(path)}
            listed = {entry.path for entry in self.reader.outline()}
            asked = self.reader.query(f"apples bees ladder {self.expected.words[-1]}", limit=20)
            for what, found in (
                ("listed", listed),
                ("found", {passage.path for passage in asked.passages}),
            ):
                assert found <= there, f"{what} though private or gone: {sorted(found - there)}"

    @precondition(lambda machine: machine.since >= WORK)
    @step()
    def settle(self) -> None:
        """Let all be indexed, by servers where there are any, else by a command line; then the
        model holds.
        """
        self.join()
        if not self.await_servers():
            told = self.start("index").outcome()
            assert told == "done", told
        self.compare(self.expected.words[self.checked :])
        self.checked, self.since = len(self.expected.words), 0

    def compare(self, words: Iterable[str]) -> None:
        """Compare what is found with the model: lists, each note by its word, and of these words
        those that are in no text.
        """
        visible = self.expected.visible()
        listed = [entry.path for entry in self.reader.outline()]
        assert listed == sorted(visible), f"listed: {listed}, to be listed: {sorted(visible)}"
        where = {word: path for path, word in visible.items()}
        for word in dict.fromkeys((*where, *words)):
            found = {
                passage.path
                for passage in self.reader.query(f'"{word}"').passages
                if word in passage.text
            }
            assert found == ({where[word]} if word in where else set()), (
                f"{word} is found in {sorted(found)}, and stands in {where.get(word)}"
            )
        for path in self.expected.notes.keys() - visible.keys():
            with suppress(UsageError):
                self.reader.read(path, exact=True)
                raise AssertionError(f"{path} can be read")

    def await_servers(self) -> bool:
        """Wait until servers have indexed all that is there; tell whether there are any that
        live.
        """
        end = time.monotonic() + SETTLED_SECONDS
        while any(server.is_alive for server in self.servers):
            assert time.monotonic() < end, f"not settled: {self.reader.status()[0]}"
            answer = self.reader.query("settled", wait_fresh=2)
            if (
                answer.freshness
                and answer.freshness.fresh
                and self.reader.indexed
                and not self.reader.status()[0].state.pending
            ):
                return True
        return False

    def teardown(self) -> None:
        """Let all be indexed once more, look for every word that there ever was, and compare the
        index with one built anew of the same files.
        """
        try:
            self.settle()
            self.compare(self.expected.words)
            with open_library(self.root, self.made / "fresh", self.overrides) as fresh:
                fresh.index()
                wanted = dump(fresh)
            held, visible = (
                [path for path, *_ in wanted["documents"]],
                sorted(self.expected.visible()),
            )
            # what is private is not only kept back
            assert held == visible, f"the index holds {held}, to be found: {visible}"
            seconds = SETTLED_SECONDS if any(server.is_alive for server in self.servers) else 0.0
            if not until(lambda: dump(self.reader) == wanted, seconds):
                raise AssertionError("; ".join(differences(dump(self.reader), wanted)))
        finally:
            self.end_all()
            self.reader.close()
            shutil.rmtree(self.made, ignore_errors=True)
            print(f"{VaultMachine.taken.total():,} steps", flush=True)

    # -------------------------------------------------------------- how

    def text(self, mark: str, shape: int) -> str:
        """Return a text with a word of its own: some of the same paragraphs as others, links to
        some notes, and a mark.
        """
        self.count += 1
        word = word_of(self.count)
        self.expected.words.append(word)
        paragraphs = [PARAGRAPHS[(shape + n) % len(PARAGRAPHS)] for n in range(shape % 7)]
        own = (
            f"The word is {word}, and [[{NAMES[shape % len(NAMES)].rpartition('.')[0]}]] knows it."
        )
        parts = [
            *paragraphs[: shape % 3],
            own,
            "## Later",
            *paragraphs[shape % 3 :],
            "#private/journal" if mark == "in the text" else "#open",
        ]
        return MARKS[mark] + "# Note\n\n" + "\n\n".join(parts) + "\n"

    def put(self, path: str, text: str, *, is_private: bool = False) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")
        self.expected.notes[path] = Note(self.expected.words[-1], is_private)

    def start(self, kind: str, dies_at: int = 0) -> Actor:
        assert VaultMachine.actors
        return VaultMachine.actors.start(kind, self.root, self.index, self.overrides, dies_at)

    def keep(self, error: BaseException) -> None:
        """Write down the steps that came to the first failure, as a script: one that a moment
        decides hypothesis cannot shrink.
        """
        if isinstance(error, Exception) and not VaultMachine.failed:
            VaultMachine.failed = f"{error}"
            write_script(FIRST, self.journal)

    def join(self) -> None:
        """Wait for the command lines that are under way."""
        while self.commands:
            told = self.commands.pop().outcome()
            assert told in ("done", "killed"), told

    def end_all(self) -> None:
        """Kill all who are at work."""
        for each in (*self.servers, *self.commands):
            each.kill()
        self.servers, self.commands = [], []


def _moved(path: str, folder: str, to: str) -> str:
    return f"{to}{path.removeprefix(folder)}" if path.startswith(folder) else path


def take_steps(count: int, seeded: int | None = None) -> None:
    """Take about so many steps, by a seed or always the same ones; raise what fails, shrunk to the
    fewest steps.
    """
    machine = seed(seeded)(VaultMachine) if seeded is not None else VaultMachine
    chosen = settings(
        max_examples=max(4, count // EXAMPLE),
        stateful_step_count=EXAMPLE,
        derandomize=seeded is None,
        phases=(Phase.generate, Phase.shrink),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    try:
        run_state_machine_as_test(machine, settings=chosen)
    finally:
        end_actors()


def end_actors() -> None:
    """End the processes of all machines; the next machine starts them anew."""
    if VaultMachine.actors:
        VaultMachine.actors.close()
        VaultMachine.actors = None


def write_script(path: Path, lines: Iterable[str]) -> None:
    """Write steps down as a plain script."""
    head = (
        f"import sys\n\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from steps import VaultMachine\n\n"
    )
    path.parent.mkdir(exist_ok=True)
    path.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


def steps_in(error: BaseException) -> list[str]:
    """Return the steps that failed, as hypothesis tells them."""
    return [
        line.strip()
        for note in getattr(error, "__notes__", [])
        for line in note.splitlines()
        if line.strip().startswith("state")
    ]


def main(steps: int, seeded: int) -> int:
    """Take steps, and write those down that failed; return the exit code."""
    began, number = time.monotonic(), 0
    try:
        # the first of an example, and those that cannot be drawn, are fewer
        while (taken := VaultMachine.taken.total()) < steps:
            take_steps(steps - taken, seeded + number)
            number += 1
    except Exception as error:
        fewest = steps_in(error)
        write_script(FEWEST, fewest)
        print("\n".join(fewest), f"{error}\nat first: {VaultMachine.failed}", sep="\n")
        print(f"The fewest that fail are in {FEWEST}, those of the first failure in {FIRST}.")
        print(f"FAILED: {VaultMachine.taken.total():,} steps, seed {seeded}")
        return 1
    print(
        f"HELD: {VaultMachine.taken.total():,} steps, seed {seeded}, "
        f"{time.monotonic() - began:,.0f} s: {dict(VaultMachine.taken.most_common())}"
    )
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    sys.exit(main(asked.steps, asked.seed))
