"""Two versions of a vault, their undisturbed indexes, and a child process that can be killed."""

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
    """Parametrize the size of a test for `make test-slow` and `make long`."""
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
    """Make a folder contain exactly these notes, with old times that grow with their length."""
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
    """Return the passages of each query without dates, or the error message."""
    return [_answer(library, query) for query in queries]


def true_answers(library: Library, *versions: dict[str, str]) -> list[tuple[Passage, ...] | str]:
    """Return `answers`, and check that each passage is in a version of its note."""
    results = answers(library)
    passages = [passage for result in results if not isinstance(result, str) for passage in result]
    assert [
        passage
        for passage in passages
        if not any(passage.text in notes.get(passage.path, "") for notes in versions)
    ] == []
    return results


def _answer(library: Library, query: str) -> tuple[Passage, ...] | str:
    try:
        answer = library.query(query)
    except StorageError as error:
        return _with_advice(str(error))
    if not answer.index.documents:
        return "nothing is indexed"
    return tuple(
        replace(passage, created="", updated="", file_time="") for passage in answer.passages
    )


def vectors_in(index: Path) -> dict[bytes, bytes]:
    """Return all readable vectors, by digests of texts."""
    by_key = dict[bytes, bytes]()
    for path in (index / VECTORS_FOLDER).glob("*.sqlite3"):
        with suppress(StorageError), closing(VectorStore(path, read_only=True)) as vectors:
            by_key |= {
                key: vector.tobytes() for key, vector in vectors.get(sorted(vectors.keys())).items()
            }
    return by_key


def _with_advice(message: str) -> str:
    """Return an error message after a check that it says what to do next."""
    hints = ("thumbindex index", "try again", "free space")
    assert any(hint in message for hint in hints), message
    return message


@dataclass(frozen=True)
class Built:
    """A vault with its finished index, the index's contents and its answers."""

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
    """Runs jobs in separate processes."""

    def __init__(
        self, scratch: Path, before: Sequence[str] = (), preload: Path | None = None
    ) -> None:
        command = [*before, sys.executable, str(Path(__file__).with_name("child.py"))]
        self._said = scratch / "said.json"
        environment = {**os.environ, **({"LD_PRELOAD": str(preload)} if preload else {})}
        self._program = LineProcess(command, environment)

    def do(self, kill_after: float | None = None, **job: Any) -> dict[str, Any]:
        """Run a job, and perhaps kill it; return its outcome, with the seconds it took."""
        self._said.unlink(missing_ok=True)
        paths = {
            name: str(value) if isinstance(value, Path) else value for name, value in job.items()
        }
        pid, started = (
            int(self._program.ask({**paths, "said": str(self._said)})),
            time.perf_counter(),
        )
        if kill_after is not None:
            time.sleep(kill_after)
            with suppress(ProcessLookupError):  # finished before
                os.kill(pid, 9)
        killed = self._program.line() != "0"
        seconds = time.perf_counter() - started
        text = self._said.read_text(encoding="utf-8") if self._said.exists() else ""
        result: dict[str, Any] = json.loads(text) if text and not killed else {"outcome": "killed"}
        assert result["outcome"] != "broken", result["message"]
        return {**result, "seconds": seconds}

    def close(self) -> None:
        self._program.close()
