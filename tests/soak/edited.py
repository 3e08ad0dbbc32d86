"""A vault with one who edits it, and questions about it whose right answers are known."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from notes import Author, make_vault, note_path
from servers import ServerProcess
from thumbindex.errors import ThumbindexError

CHARACTERS, ANCHORS = 5000, 50

SETTLED_SECONDS = 10.0
"""A text that was saved or replaced longer ago than this must, or must not, be in an answer:
changes are gathered for two, and forty notes read and written in another two or three; a machine
that is busy with two servers and their judge takes twice as long.
"""

MEANINGS = (
    (
        "Water for tea reaches a rolling boil in the kettle after four minutes.",
        "how long does it take to heat up a hot drink",
    ),
    (
        "The physician prescribed rest and plenty of fluids against the fever.",
        "what did the doctor advise for a high temperature",
    ),
    (
        "Our automobile was repaired at the garage because its brakes squealed.",
        "why was the car fixed by a mechanic",
    ),
    ("The infant slept soundly through the thunder last night.", "was the baby woken by the storm"),
    (
        "Repay the loan to the bank before the end of March.",
        "deadline for giving back borrowed money",
    ),
    (
        "Prune the roses in late winter, before new buds appear.",
        "when should I cut back flowers in the garden",
    ),
)
"""What a note says, and a question for it in other words: only its meaning finds it."""

KINDS = {"anchor": 2, "current": 3, "gone": 3, "meaning": 2, "listed": 1, "status": 1, "read": 1}
"""How often a kind of question is asked, of all together."""

Answer = Mapping[str, Any]


@dataclass(slots=True, eq=False)
class Note:
    """What stands on disk of one note: its path, the mark of its text, since when; and since when
    it stands at that path.
    """

    path: Path
    mark: str
    since: float
    there: float


@dataclass(frozen=True, slots=True)
class Question:
    """A call, what is wrong with an answer to it ("" where nothing is), and whether no edit has
    overtaken it.
    """

    kind: str
    tool: str
    arguments: Mapping[str, Any]
    fault: Callable[[Answer], str]
    stands: Callable[[], bool] = lambda: True


def is_first(path: str) -> Callable[[Answer], str]:
    """Return the judge of a question that one note alone answers."""
    return lambda answer: (
        "" if paths(answer)[:1] == [path] else f"{path} is not first: {paths(answer)}"
    )


def is_among(path: str) -> Callable[[Answer], str]:
    """Return the judge of a question that a note answers by its meaning, if not alone."""
    return lambda answer: "" if path in paths(answer) else f"{path} is not in {paths(answer)}"


def is_nowhere(mark: str) -> Callable[[Answer], str]:
    """Return the judge of a question for a text that is gone."""
    return lambda answer: next(
        (
            f"{mark} is still in {each['path']}"
            for each in answer["results"]
            if f" {mark}." in each["text"]
        ),
        "",
    )


def is_read(path: str, mark: str) -> Callable[[Answer], str]:
    """Return the judge of a note that is read whole."""
    return lambda answer: (
        ""
        if answer["path"] == path and f" {mark}." in answer["text"]
        else f"{mark} is not in what was read of {path}"
    )


def is_listed(
    standing: Collection[str], departed: Callable[[], Collection[str]]
) -> Callable[[Answer], str]:
    """Return the judge of a list of notes: these and no others, but that those which departed just
    before or meanwhile may be there or not.
    """

    def fault(answer: Answer) -> str:
        listed, either = {each["path"] for each in answer["entries"]}, set(departed())
        wrong = (set(standing) ^ listed) - either
        return (
            ""
            if not wrong
            else f"{sorted(wrong - listed)} are missing, {sorted(wrong & listed)} are still there"
        )

    return fault


def is_plausible(least: int, most: int, departed: Collection[str] = ()) -> Callable[[Answer], str]:
    """Return the judge of a status: so many documents, no complaint but of notes that went while
    they were read.
    """

    def fault(answer: Answer) -> str:
        folder = answer["folders"][0]
        index = folder["index"]
        if answer["notes"] or any(each["path"] not in departed for each in folder["skipped"]):
            return f"complains: {answer['notes']} {folder['skipped']}"
        if not least <= index["documents"] <= most:
            return f"{index['documents']} documents where {least} to {most} are on disk"
        whole = (
            folder["indexed"]
            and 0 <= index["pending"] <= index["chunks"]
            and index["vectors"] + index["pending"] == index["chunks"]
        )
        return "" if whole else f"does not add up: {folder}"

    return fault


def paths(answer: Answer) -> list[str]:
    """Return the paths of an answer's passages."""
    return [each["path"] for each in answer["results"]]


def put(question: Question, server: ServerProcess) -> str:
    """Ask and judge; return what is wrong, "" where nothing is or an edit has overtaken the
    question.
    """
    try:
        answer = server.call(question.tool, **question.arguments)
    except ThumbindexError as error:
        # a note that was deleted or moved since cannot be read; nothing else may ever fail
        return (
            f"{question.kind} failed: {error}"
            if question.tool != "read" or question.stands()
            else ""
        )
    fault = question.fault(answer)
    return f"{question.kind}: {fault}" if fault and question.stands() else ""


class Vault:
    """A vault with one who edits it.

    Anchors, and notes that are asked for by meaning, are never touched.
    """

    def __init__(
        self, root: Path, notes: int, seed: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.root, self.now, self.random, self.lock = (
            root,
            now,
            random.Random(seed),
            threading.Lock(),
        )
        self.author: Author = make_vault(root, notes, CHARACTERS)
        self.edits, self.gone = 0, deque[tuple[str, float]](maxlen=2000)
        for n in range(ANCHORS):
            (root / f"anchor{n}.md").write_text(
                f"# Anchor {n}\n\nThis is anchormark{n}, which holds.\n", encoding="utf-8"
            )
        for n, (said, _) in enumerate(MEANINGS):
            (root / f"meaning{n}.md").write_text(f"# Remark {n}\n\n{said}\n", encoding="utf-8")
        self.notes = [Note(note_path(root, n), "", 0.0, 0.0) for n in range(notes)]
        # and the note that shows that edits are followed
        self.untouched = ANCHORS + len(MEANINGS) + 1
        # paths where there is no note any more, since when
        self.departed = deque[tuple[str, float]](maxlen=2000)
        self.hundreds = list[float]()  # when each hundred of edits was over

    def edit(self) -> None:
        """Change, add, delete or rename one note."""
        with self.lock:
            self.edits += 1
            what = self.random.choices(
                (self._change, self._add, self._delete, self._rename), (80, 7, 7, 6)
            )[0]
            what(self.random.randrange(len(self.notes)))
            if self.edits % 100 == 99:
                self.hundreds.append(self.now())

    def _change(self, at: int) -> None:
        """Save another text."""
        note = self.notes[at]
        replaced, note.mark = note.mark, f"mark{self.edits}"
        text = (
            f"{self.author.write_note(at, len(self.notes), CHARACTERS)}\nHere stands {note.mark}.\n"
        )
        beside = note.path.with_name(f".{note.path.name}.saving")
        beside.write_text(text, encoding="utf-8")
        beside.replace(note.path)
        note.since = self.now()
        if replaced:
            self.gone.append((replaced, note.since))

    def _add(self, at: int) -> None:
        """Save a new note."""
        self.notes.append(Note(self.root / f"new {self.edits}.md", "", 0.0, self.now()))
        self._change(len(self.notes) - 1)

    def _delete(self, at: int) -> None:
        """Delete a note."""
        note = self.notes.pop(at)
        note.path.unlink()
        note.since = self.now()
        self._depart(note.path)
        if note.mark:
            self.gone.append((note.mark, note.since))

    def _rename(self, at: int) -> None:
        """Move a note; its text stays."""
        note = self.notes[at]
        target = note.path.with_name(f"moved {self.edits}.md")
        note.path.rename(target)
        self._depart(note.path)
        note.path, note.since = target, self.now()
        note.there = note.since

    def _depart(self, path: Path) -> None:
        self.departed.append((path.relative_to(self.root).as_posix(), self.now()))

    def question(self, kind: str = "") -> Question:
        """Return a question of a kind, of any where none is given; an anchor's where nothing of
        that kind has settled yet.
        """
        with self.lock:
            now = self.now()
            kind = kind or self.random.choices(list(KINDS), list(KINDS.values()))[0]
            if kind in ("current", "read"):
                return self._of_note(kind, now) or self._of_anchor()
            if kind == "gone":
                return self._of_gone(now) or self._of_anchor()
            if kind == "meaning":
                n = self.random.randrange(len(MEANINGS))
                return Question(
                    kind, "query", {"query": MEANINGS[n][1], "limit": 3}, is_among(f"meaning{n}.md")
                )
            if kind == "listed":
                return self._of_list(now) or self._of_anchor()
            return self._of_status(now) if kind == "status" else self._of_anchor()

    def _of_anchor(self) -> Question:
        n = self.random.randrange(ANCHORS)
        return Question(
            "anchor", "query", {"query": f'"anchormark{n}"', "limit": 3}, is_first(f"anchor{n}.md")
        )

    def _of_note(self, kind: str, now: float) -> Question | None:
        sample = self.random.sample(self.notes, min(50, len(self.notes)))
        note = next(
            (each for each in sample if each.mark and now - each.since > SETTLED_SECONDS), None
        )
        if note is None:
            return None
        mark, path, since = note.mark, note.path.relative_to(self.root).as_posix(), note.since

        def stands() -> bool:
            with self.lock:
                return note.since == since

        if kind == "read":
            return Question(kind, "read", {"path": path}, is_read(path, mark), stands)
        return Question(kind, "query", {"query": f'"{mark}"', "limit": 3}, is_first(path), stands)

    def _of_gone(self, now: float) -> Question | None:
        settled = [mark for mark, since in self.gone if now - since > SETTLED_SECONDS]
        if not settled:
            return None
        mark = self.random.choice(settled)
        return Question("gone", "query", {"query": f'"{mark}"', "limit": 3}, is_nowhere(mark))

    def _of_list(self, now: float) -> Question | None:
        """Ask for the notes that the last settled hundred of edits named: an index that is some
        seconds behind lacks some, or shows what has gone.
        """
        since = now - SETTLED_SECONDS
        hundred = sum(over <= since for over in self.hundreds) - 1
        if hundred < 1:  # numbers below a hundred have fewer digits
            return None
        named = f"*[wd] {hundred}[0-9][0-9].md"  # `new` or `moved`
        paths = {
            note.path.relative_to(self.root).as_posix()
            for note in self.notes
            if fnmatchcase(note.path.name, named)
        }
        return Question(
            "listed",
            "outline",
            {"path": f"**/{named}"},
            is_listed(paths, lambda: self._departed(since)),
        )

    def _of_status(self, now: float) -> Question:
        since = now - SETTLED_SECONDS
        return Question(
            "status",
            "status",
            {},
            lambda answer: is_plausible(*self._counted(since), self._departed(since))(answer),
        )

    def _departed(self, since: float) -> set[str]:
        """Return the paths that were left since."""
        with self.lock:
            return {path for path, left in self.departed if left > since}

    def _counted(self, since: float) -> tuple[int, int]:
        """Return how many documents there are at least and at most, if the index knows all that
        happened before: what came since may be missing, what went since may still be there.
        """
        with self.lock:
            standing = sum(note.there <= since for note in self.notes)
            gone = sum(left > since for _, left in self.departed)
            return standing + self.untouched, len(self.notes) + gone + self.untouched
