"""From saving a note to its text in an answer: measured through a server's own pipes, words first, then vectors."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from thumbindex.errors import ThumbindexError
from thumbindex.model import Progress
from thumbindex.study.client import Client, ServerProcess
from thumbindex.study.vault import Author, make_vault, note_path

if TYPE_CHECKING:
    from thumbindex.library import Library

QUANTILES = (0.5, 0.9, 0.95, 0.99, 1.0)

GIVEN_UP_SECONDS = 10.0
"""An edit that is not found by then counts as missed."""

WARM_SECONDS = 3.0
"""After its first answers a server still loads its model: what is measured is a server that has been up for a while."""

START_SECONDS = 300.0
"""The longest wait for a server's start: looking through ten thousand notes and giving all their words vectors takes less."""

PAUSE_SECONDS = 0.01
"""Between two questions for the same edit: finer than what is measured, and the server keeps time for its work."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is measured: a vault of so many notes of so many characters, edited so often."""

    notes: int = 1000
    characters: int = 5000
    edits: int = 200


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds from the save of each edit: to its words in an answer, and to no vector missing. Infinity where that was not seen."""

    load: Load
    chunks: int
    words: tuple[float, ...]
    vectors: tuple[float, ...]


def measure_freshness(folder: Path, load: Load, settings: Sequence[str], library: Library, tell: Callable[[Progress], None]) -> Delays:
    """Fill `folder` with a vault, index it by `library` (opened on it), and edit it under a server that is started with `settings`."""
    author = make_vault(folder, load.notes, load.characters)
    chunks = library.index(progress=tell).chunks
    words, vectors = [], []
    with ServerProcess(settings) as server:
        await_start(server, folder)
        for number in range(load.edits):
            saved = _edit(folder, author, number, load)
            words.append(_until(saved, partial(_is_found, server, f"mark{number}")))
            vectors.append(_until(saved, partial(_is_complete, server)))
            tell(Progress(folder.name, "edits", number + 1, load.edits))
    return Delays(load, chunks, tuple(words), tuple(vectors))


def await_start(server: Client, folder: Path, seconds: float = START_SECONDS) -> None:
    """Wait until edits are followed: the first one is seen when the server's child has started and looked the folder through.

    Raises ThumbindexError where that takes longer than `seconds`.
    """
    path = folder / "started.md"
    path.write_text("# Started\n\nmarkstarted\n", encoding="utf-8")
    until = time.monotonic() + seconds
    _await(partial(_is_found, server, "markstarted"), until, f"{path} was not found within {seconds:g} s: the server follows no edits")
    _await(partial(_is_complete, server), until, f"vectors were still missing after {seconds:g} s: the server does not fill them in")
    time.sleep(WARM_SECONDS)


def quantiles(seconds: Sequence[float]) -> tuple[float, ...]:
    """Return the values at QUANTILES (nearest rank)."""
    ordered = sorted(seconds)
    return tuple(ordered[max(0, math.ceil(q * len(ordered)) - 1)] for q in QUANTILES)


def _edit(folder: Path, author: Author, number: int, load: Load) -> float:
    """Save another text in place of a note's; return when that was."""
    text = f"{author.write_note(number % load.notes, load.notes, load.characters)}\nHere stands mark{number}.\n"
    path = note_path(folder, number % load.notes)
    # an editor's save: another file that takes the note's place
    beside = path.with_name(f".{path.name}.saving")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
    return time.perf_counter()


def _is_found(server: Client, mark: str) -> bool:
    return any(mark in result["text"] for result in server.call("query", query=f'"{mark}"', limit=1)["results"])


def _is_complete(server: Client) -> bool:
    return bool(server.call("status")["folders"][0]["index"]["pending"] == 0)


def _await(is_so: Callable[[], bool], until: float, complaint: str) -> None:
    while not is_so():
        if time.monotonic() >= until:
            raise ThumbindexError(f"{complaint}.")
        time.sleep(0.1)


def _until(saved: float, is_so: Callable[[], bool]) -> float:
    while not is_so():
        if time.perf_counter() - saved > GIVEN_UP_SECONDS:
            return math.inf
        time.sleep(PAUSE_SECONDS)
    return time.perf_counter() - saved
