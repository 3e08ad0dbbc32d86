"""Judgements of answers: by question, which notes answer it, help or do not; or that none does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from thumbindex.errors import UsageError
from thumbindex.index.judged import change_judged, key_of, read_judged
from thumbindex.library.reader import Reader
from thumbindex.library.reading import find_document, hidden_now
from thumbindex.model import Judged, JudgedPlace

GRADES = (0, 1, 2)
"""Does not answer, helps, answers."""


def judge(reader: Reader, query: str, kind: str, path: str, heading: str, grade: int | None) -> Judged:
    """Keep what a passage is to a question, or with None take that back; return all that is judged of the question.

    Raises UnknownPathError for a note that is not there, or may not be shown.
    """
    if grade is not None and grade not in GRADES:
        raise UsageError(f"A grade is 0, 1 or 2, not {grade}.")
    if grade is not None:
        find_document(path, [reader])
    place = JudgedPlace(path, heading, grade or 0)

    def change(judged: list[Judged]) -> list[Judged]:
        before = next((each for each in judged if key_of(each.query) == key_of(query)), Judged(_checked(query), kind, (), False, ""))
        others = tuple(each for each in before.places if (each.path, each.heading) != (path, heading))
        now = replace(before, places=others if grade is None else (*others, place), nothing=False, made=_now())
        return [*(each for each in judged if each != before), now]

    return _of(change_judged(reader.folder.places, change), query, kind)


def judge_nothing(reader: Reader, query: str, kind: str, *, holds_nothing: bool) -> Judged:
    """Keep that no note answers a question, in place of what was judged of it before, or take that back."""

    def change(judged: list[Judged]) -> list[Judged]:
        others = [each for each in judged if key_of(each.query) != key_of(query)]
        return [*others, Judged(_checked(query), kind, (), True, _now())] if holds_nothing else others

    return _of(change_judged(reader.folder.places, change), query, kind)


def take_out(reader: Reader, query: str) -> None:
    """Take a question out, with all that was judged of it."""
    change_judged(reader.folder.places, lambda judged: [each for each in judged if key_of(each.query) != key_of(query)])


def judged_in(reader: Reader) -> tuple[Judged, ...]:
    """Return what was judged in a folder, without notes that are gone or may not be shown now."""
    found = read_judged(reader.folder.places)
    paths = {place.path for each in found for place in each.places}
    known = set(reader.store.manifest(paths)) if paths and reader.indexed else set()
    hidden = {path for _, path in hidden_now(((reader.folder.name, path) for path in known), [reader])}
    shown = (replace(each, places=tuple(one for one in each.places if one.path in known - hidden)) for each in found)
    return tuple(each for each in shown if each.places or each.nothing)


def judged_of(readers: Sequence[Reader], query: str) -> dict[tuple[str, str, str], int]:
    """Return the grades of a question by folder, path and heading; empty where nobody has judged it."""
    return {
        (reader.folder.name, place.path, place.heading): place.grade
        for reader in readers
        for each in read_judged(reader.folder.places)
        if key_of(each.query) == key_of(query)
        for place in each.places
    }


def _checked(query: str) -> str:
    if not query.strip():
        raise UsageError("The question is empty: there is nothing to judge.")
    return query.strip()


def _of(judged: Sequence[Judged], query: str, kind: str) -> Judged:
    return next((each for each in judged if key_of(each.query) == key_of(query)), Judged(query, kind, (), False, ""))


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
