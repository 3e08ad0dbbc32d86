"""A vault in two versions, an undisturbed build of each, and a process that can be killed at any
moment of building one or updating to the other.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dump import dump
from fakes import FakeEmbedder
from servers import LineProcess
from stages import without_stages
from thumbindex.config import load_config
from thumbindex.errors import StorageError
from thumbindex.index.files import VECTORS_FOLDER
from thumbindex.index.vector_store import VectorStore
from thumbindex.library import Library
from thumbindex.model import Passage

WORDS = (
    "apple pear plum cherry cellar tree ladder basket juice press barrel frost bee hive garden "
    "wall gate river stone mill"
).split()
QUERIES = (
    "apple cellar",
    "juice press barrel",
    "frost in the garden",
    "note 7",
    "bees and hives near the mill",
    '"stone wall"',
    "zxqv",
)


def sizes(few: object, many: object) -> list[Any]:
    """Return how much a test does in `make test-slow` and in `make long`."""
    return [
        pytest.param(few, marks=pytest.mark.slow, id="few"),
        pytest.param(many, marks=pytest.mark.long, id="many"),
    ]


def old_notes() -> dict[str, str]:
    chance = random.Random(7)
    return {f"{'abc'[n % 3]}/note {n}.md": _note(chance, n) for n in range(24)}


def new_notes() -> dict[str, str]:
    """Edit every third note, rename every fifth, delete every seventh, add some."""
    chance, notes = random.Random(8), {}
    for n, (path, text) in enumerate(old_notes().items()):
        text = f"{text}\n\n## Later\n\n{_sentence(chance)}\n" if n % 3 == 0 else text
        path = path.replace("note", "renamed") if n % 5 == 0 else path
        if n % 7:
            notes[path] = text
    return {**notes, **{f"d/new {n}.md": _note(chance, n) for n in range(6)}}


def _note(chance: random.Random, n: int) -> str:
    links = " ".join(f"[[note {chance.randrange(24)}]]" for _ in range(3))
    parts = "\n\n".join(
        f"## {chance.choice(WORDS).title()} {k}\n\n{_sentence(chance)}" for k in range(3)
    )
    return f"# Note {n}\n\n{_sentence(chance)} {links}\n\n{parts}\n"


def _sentence(chance: random.Random) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(40)).capitalize() + "."


def write_notes(root: Path, notes: dict[str, str]) -> None:
    """Make a folder hold just these notes, as if they had been written long ago, long ones last:
    there is an order of newest first.
    """
    for path in [
        path for path in root.rglob("*.md") if path.relative_to(root).as_posix() not in notes
    ]:
        path.unlink()
    for name, text in notes.items():
        path = root / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            os.utime(path, (10**9 + len(text), 10**9 + len(text)))


# ------------------------------------------------------------------ indexes


def open_library(root: Path, index: Path, embedder: FakeEmbedder | None = None) -> Library:
    config = load_config(user_file=root / "none")
    config = replace(
        config,
        encode=replace(config.encode, embed=replace(config.encode.embed, batch=8)),
        query=without_stages(config.query, "recency"),
    )
    return Library.open([root], index=index, config=config, embedder=embedder or FakeEmbedder())


def answers(library: Library, queries: Sequence[str] = QUERIES) -> list[tuple[Passage, ...] | str]:
    """Ask queries; an index that cannot answer says so, never in another way.

    Which edits it has seen, and so the notes' days, is left out.
    """
    return [_asked(library, query) for query in queries]


def true_answers(library: Library, *versions: dict[str, str]) -> list[tuple[Passage, ...] | str]:
    """Ask queries and return what came; no passage may say what stands in no version of its
    note.
    """
    found = answers(library)
    passages = [passage for each in found if not isinstance(each, str) for passage in each]
    assert [
        passage
        for passage in passages
        if not any(passage.text in notes.get(passage.path, "") for notes in versions)
    ] == []
    return found


def _asked(library: Library, query: str) -> tuple[Passage, ...] | str:
    try:
        found = library.query(query)
    except StorageError as error:
        return _with_advice(str(error))
    if not found.index.documents:
        return "nothing is indexed"
    return tuple(
        replace(passage, created="", updated="", file_time="") for passage in found.passages
    )


def vectors_in(index: Path) -> dict[bytes, bytes]:
    """Return all vectors that can be read, by the digests of their texts."""
    found = dict[bytes, bytes]()
    for path in (index / VECTORS_FOLDER).glob("*.sqlite3"):
        with suppress(StorageError), closing(VectorStore(path, read_only=True)) as vectors:
            found |= {
                key: vector.tobytes() for key, vector in vectors.get(sorted(vectors.keys())).items()
            }
    return found


def _with_advice(sentence: str) -> str:
    """Return what an error says, which has to say what to do next."""
    advice = ("thumbindex index", "try again", "free space")
    assert any(each in sentence for each in advice), sentence
    return sentence


@dataclass(frozen=True)
class Built:
    """A vault with its finished index, what the index says, and what it answers."""

    root: Path
    index: Path
    dump: dict[str, list[Any]]
    answers: list[Any]


def build(root: Path, notes: dict[str, str], index: Path) -> Built:
    write_notes(root, notes)
    with open_library(root, index) as library:
        library.index()
        return Built(root, index, dump(library), answers(library))


# ------------------------------------------------------------------ the process


class Child:
    """Does jobs in processes of their own."""

    def __init__(
        self, scratch: Path, before: Sequence[str] = (), preload: Path | None = None
    ) -> None:
        command = [*before, sys.executable, str(Path(__file__).with_name("child.py"))]
        self._said = scratch / "said.json"
        environment = {**os.environ, **({"LD_PRELOAD": str(preload)} if preload else {})}
        self._program = LineProcess(command, environment)

    def do(self, kill_after: float | None = None, **job: Any) -> dict[str, Any]:
        """Do a job, or be killed at it; return what it said of itself, with the seconds that it
        took.
        """
        self._said.unlink(missing_ok=True)
        paths = {
            name: str(value) if isinstance(value, Path) else value for name, value in job.items()
        }
        pid, began = int(self._program.ask({**paths, "said": str(self._said)})), time.perf_counter()
        if kill_after is not None:
            time.sleep(kill_after)
            with suppress(ProcessLookupError):  # it was done before
                os.kill(pid, 9)
        killed = self._program.line() != "0"
        seconds = time.perf_counter() - began
        text = self._said.read_text(encoding="utf-8") if self._said.exists() else ""
        told: dict[str, Any] = json.loads(text) if text and not killed else {"outcome": "killed"}
        assert told["outcome"] != "broken", told["message"]
        return {**told, "seconds": seconds}

    def close(self) -> None:
        self._program.close()
