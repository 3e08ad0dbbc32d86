"""Ten folders on one server, one of them huge and changing all the time: what the other nine get,
against one of them on a server of its own.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np

from bench.results import Row
from bench.subject import Subject
from notes import Author, make_vault, note_path
from servers import Call, ServerProcess, await_start, has_all_vectors, is_found
from thumbindex.serve.opening import Opening
from waiting import until

HUGE, TIMES, FOLDERS, EDITS = 8000, 80, 10, 90
"""Notes of the huge folder, how many times as many as in each other one, folders, and notes that
are saved in the others.
"""

CHARACTERS = 1000

HUGE_EDITS_A_SECOND = 5

QUESTIONS = 5
"""Asked after each edit."""

GIVEN_UP_SECONDS = 60.0

BUSY = 0.8
"""The huge folder counts as busy if it had so much of its edits, and vectors were still missing at
the end.
"""

MOST = 2.0
"""So many times what it is alone may each figure be together."""


@dataclass
class Seen:
    """What was seen of the edits and questions of one server, in seconds."""

    answer: list[float] = field(default_factory=list)
    found: list[float] = field(default_factory=list)
    vectors: list[float] = field(default_factory=list)
    missed: int = 0


def measure(subject: Subject) -> Iterator[Row]:
    """Edit and ask in one small folder alone, then in nine beside the huge one."""
    huge, edits = subject.given.made or HUGE, subject.given.edits or EDITS
    small = max(5, huge // TIMES)
    place = subject.empty("vaults")
    folders = [place / f"small {n}" for n in range(1, FOLDERS)]
    authors = [make_vault(folder, small, CHARACTERS) for folder in folders]
    author = make_vault(place / "huge", huge, CHARACTERS)
    alone, together = (
        _opening(subject, folders[:1], "alone"),
        _opening(subject, [*folders, place / "huge"], "together"),
    )
    for opening, words_only in ((alone, []), (together, ["huge"])):
        with Subject(opening, subject.scratch, subject.given, subject.embedder).open() as library:
            library.index(words_only=True)
            library.embed([each.name for each in library.opened if each.name not in words_only])
    marks = count()
    with ServerProcess(alone.arguments()) as server:
        await_start(server.call, folders[0])
        before = _seen(server.call, folders[:1], authors, edits, marks, small)
    with ServerProcess(together.arguments()) as server:
        await_start(server.call, folders[0])
        with _Changing(place / "huge", author, huge) as changing:
            began = time.perf_counter()
            beside = _seen(server.call, folders, authors, edits, marks, small)
            planned = HUGE_EDITS_A_SECOND * (time.perf_counter() - began)
        pending = {
            each["folder"]: each["index"]["pending"] for each in server.call("status")["folders"]
        }
    beside_it = f"{FOLDERS - 2} of {small} notes, one of {huge:,} with {changing.edits:,} edits"
    note = (
        f"{edits} edits; beside them {beside_it} and {pending['huge']:,} vectors missing at the end"
    )
    yield Row(
        "vaults", "edits of the huge folder", "", [float(changing.edits)], least=BUSY * planned
    )
    yield Row(
        "vaults",
        "vectors missing in the huge folder at the end",
        "",
        [float(pending["huge"])],
        least=1,
    )
    is_busy = changing.edits >= BUSY * planned and pending["huge"] > 0
    compared = (
        ""
        if is_busy
        else "the huge folder was NOT busy all the time: this compares less than it says"
    )
    yield Row(
        "vaults",
        "never found, or never with all vectors",
        "",
        [float(before.missed + beside.missed)],
        most=0,
        note=note,
    )
    for name, ours, reference in (
        ("answer", beside.answer, before.answer),
        ("save to words", beside.found, before.found),
        ("save to vectors", beside.vectors, before.vectors),
    ):
        for share in (50, 95):
            pair = [float(np.percentile(each, share)) for each in (reference, ours)]
            yield Row("vaults", f"{name}, p{share}, alone", "s", pair[:1])
            yield Row("vaults", f"{name}, p{share}, beside a huge folder", "s", pair[1:])
            yield Row(
                "vaults",
                f"{name}, p{share}, so many times",
                "×",
                [pair[1] / pair[0]],
                MOST,
                note=compared,
            )


def _opening(subject: Subject, folders: Sequence[Path], index: str) -> Opening:
    return replace(subject.opening, folder=tuple(map(str, folders)), index=subject.empty(index))


class _Changing:
    """Edits a huge folder all the time, until the `with` ends."""

    def __init__(self, root: Path, author: Author, notes: int) -> None:
        self.edits, self._ended = 0, threading.Event()
        self._root, self._author, self._notes = root, author, notes
        self._thread = threading.Thread(target=self._edit)

    def __enter__(self) -> _Changing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _edit(self) -> None:
        chance = random.Random(1)
        while not self._ended.wait(1 / HUGE_EDITS_A_SECOND):
            number = chance.randrange(self._notes)
            note_path(self._root, number).write_text(
                self._author.write_note(number, self._notes, CHARACTERS), encoding="utf-8"
            )
            self.edits += 1


def _seen(
    call: Call,
    folders: Sequence[Path],
    authors: Sequence[Author],
    edits: int,
    marks: Iterator[int],
    small: int,
) -> Seen:
    """Save notes in folders by turns, and ask about them."""
    seen, chance = Seen(), random.Random(2)
    for number in range(edits):
        folder, author, mark = (
            folders[number % len(folders)],
            authors[number % len(folders)],
            f"vaultmark{next(marks)}",
        )
        path = note_path(folder, chance.randrange(small))
        path.write_text(
            f"{author.write_note(number, small, CHARACTERS)}\nHere stands {mark}.\n",
            encoding="utf-8",
        )
        saved = time.perf_counter()
        found, whole = (
            partial(is_found, call, mark, folder=[folder.name]),
            partial(has_all_vectors, call, folder.name),
        )
        for kept, is_so in ((seen.found, found), (seen.vectors, whole)):
            if until(is_so, GIVEN_UP_SECONDS):
                kept.append(time.perf_counter() - saved)
            else:
                seen.missed += 1
        for _ in range(QUESTIONS):
            words = " ".join(chance.sample(author.vocabulary[:500], 4))
            began = time.perf_counter()
            call("query", query=words, folder=[folder.name], limit=5)
            seen.answer.append(time.perf_counter() - began)
    return seen
