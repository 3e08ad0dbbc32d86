"""Ask: notes by name as one types, and the passages that answer, with the lines that match
first.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable, Mapping
from datetime import date
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from thumbindex.errors import StorageError
from thumbindex.model import (
    Disagreement,
    Document,
    FilterArguments,
    Filters,
    JudgedQuery,
    ListedNote,
    OutlineEntry,
    Passage,
    Query,
    day_of,
    iso_day,
)
from thumbindex.page.visit import NOT_FROM_AFAR, Screen, Visit, address, note_address
from thumbindex.present.as_json import answer_payload, as_json
from thumbindex.present.best_lines import all_lines, best_lines
from thumbindex.present.editor_links import available_links
from thumbindex.present.sentences import (
    answer_footer,
    confidence_sentence,
    filter_lines,
    indexing_sentence,
    missing_vectors_sentence,
    passage_flag_lines,
    passage_metadata,
)
from thumbindex.settings import MAX_QUERY_CHARS
from thumbindex.text import line_range

if TYPE_CHECKING:
    from thumbindex.library import Library

_LOG = logging.getLogger(__name__)

_NAMES_SHOWN = 8
"""Notes that are offered by name: a list that is longer is searched, not read."""

_LINES_SHOWN = 12
"""Lines of a passage that are seen at once: the others are one click away."""

_RECENT = 8
"""Dated notes that are shown where nothing is asked yet, the newest."""

_COPIES_LINKED = 10


def read_question(visit: Visit, path: str = "path") -> Query:
    """Read the question of an address, of which `path` names the globs; its text may be empty.

    Raises UsageError.
    """
    text, globs = visit.text("q", MAX_QUERY_CHARS), visit.texts(path)
    narrowing: FilterArguments = {
        "folder": visit.texts("folder"),
        "tag": visit.texts("tag"),
        "path": globs,
        "since": visit.text("since"),
        "until": visit.text("until"),
    }
    if not text:
        return Query("", 0, Filters.of(**narrowing))
    return Query.of(
        text,
        also=visit.texts("also"),
        passage=visit.text("passage"),
        limit=visit.text("limit") or None,
        **narrowing,
    )


def address_values(asked: Query) -> dict[str, Any]:
    """Return the values of an address that says a whole question."""
    filters = asked.filters
    return {
        "q": asked.text,
        "also": asked.also,
        "passage": asked.passage,
        "folder": filters.folder,
        "tag": filters.tag,
        "path": filters.path,
        "since": filters.since or "",
        "until": filters.until or "",
        "limit": asked.limit or "",
    }


def _carried(asked: Query) -> list[tuple[str, str]]:
    """Return what the form has no field for, so that it is said again with each word that is
    typed.
    """
    values = address_values(asked)
    several = [(name, each) for name in ("tag", "path") for each in values[name][1:]]
    several += [("also", each) for each in asked.also]
    return several + [
        (name, str(value)) for name in ("passage", "limit") if (value := values[name])
    ]


def command(visit: Visit, asked: Query) -> str:
    """Return the command that prints the same."""
    return shlex.join(["thumbindex", "query", asked.text or "QUESTION", *options(visit, asked)])


def options(visit: Visit, asked: Query) -> list[str]:
    """Return all but the question as options of the command line."""
    named = [(name, value) for name, value in asked.filters.given() if name != "folder"]
    named += [("also", each) for each in asked.also]
    named += [("passage", asked.passage)] if asked.passage else []
    named += [("limit", str(asked.limit))] if asked.limit else []
    words = [part for name, value in named for part in (f"--{name}", value)]
    return words + visit.options(asked.filters.folder)


def show(visit: Visit) -> Screen:
    """Answer a question, or say what can be asked."""
    asked, library = read_question(visit), visit.library
    values = {
        "q": asked.text,
        "given": asked.filters,
        "carried": _carried(asked),
        "folders": [name for name, _ in library.folders],
        "several": len(library.folders) > 1,
        "command": command(visit, asked),
        "indexing": indexing_sentence(visit.background.progress()),
        "problems": visit.warnings(),
    }
    if not asked.text:
        recent = _newest(library) if library.indexed else ()
        notes = sum(each.documents for each in library.states().values())
        empty = {
            "answer": None,
            "names": (),
            "recent": recent,
            "notes": notes,
            "holds_none": library.indexed and not notes,
        }
        return Screen("Ask", values | empty, lambda: _unasked(values | empty))
    answer, busy = library.marked(library.query(asked)), visit.background.progress()
    judged, damage = judged_of(visit, asked.text)
    places = grades_of(judged)
    lines = [*filter_lines(answer.filters, answer.unmet, answer.undated)]
    if not busy and (without := missing_vectors_sentence(answer.index)):
        lines.append(without)
    said = {
        "problems": [*visit.warnings(), *damage],
        "answer": answer,
        "recent": (),
        "notes": answer.index.documents,
        "names": () if visit.part == "answer" else names_like(library, asked.text),
        "sure": confidence_sentence(
            answer, [f"{name} {value}" for name, value in asked.filters.given()]
        ),
        "lines": lines,
        "chips": _chips(asked),
        "cards": [_card(each, visit, places) for each in answer.passages],
        "here": address("ask", **address_values(asked)),
        "foot": answer_footer(answer, busy),
        # The screen Why calls a note `path`, and what narrows a question by paths `glob`.
        "why": address("why", **address_values(asked) | {"path": "", "glob": asked.filters.path}),
    }
    return Screen(asked.text, values | said, lambda: answer_payload(answer))


def _unasked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the screen says before a question: what can be asked, and what is new."""
    return {
        "query": "",
        "results": [],
        "notes": values["notes"],
        "recent": as_json(values["recent"]),
        "indexing": values["indexing"],
        "problems": values["problems"],
    }


def named(note: OutlineEntry) -> dict[str, Any]:
    """Return a note as JSON has it, with its address."""
    return {**as_json(note), "address": note_address(note.folder, note.path)}


def _newest(library: Library) -> tuple[ListedNote, ...]:
    """Return the newest dated notes; no more files are looked at than are shown."""
    days: dict[tuple[str, str], date] = {}

    def newest_first(documents: Iterable[Document]) -> list[Document]:
        dated = [(day, document) for document in documents if (day := day_of(document))]
        days.update(((document.folder, document.path), day) for day, document in dated)
        return [document for _, document in sorted(dated, key=itemgetter(0), reverse=True)]

    return tuple(
        ListedNote(note.folder, note.path, note.heading, iso_day(days[note.folder, note.path]), ())
        for note in library.browse(newest_first, _RECENT)
    )


def judged_of(visit: Visit, text: str) -> tuple[Mapping[str, JudgedQuery], list[str]]:
    """Return what was judged of a question, by folder, and what is wrong with it: an answer does
    not wait until that is mended.
    """
    try:
        return visit.library.judgments().of(text) if visit.may_write else {}, []
    except StorageError as error:
        _LOG.warning("%s", error)
        return {}, [str(error) if visit.is_near else NOT_FROM_AFAR]


def grades_of(judged: Mapping[str, JudgedQuery]) -> Mapping[tuple[str, str, str], int]:
    """Return what was judged of a question by folder, path and heading."""
    return {
        (folder, each.path, each.heading): each.grade
        for folder, one in judged.items()
        for each in one.places
    }


def names(visit: Visit) -> Screen:
    """List the notes whose name begins so: quick enough for each letter."""
    text = visit.text("q", MAX_QUERY_CHARS)
    found = names_like(visit.library, text)
    return Screen(
        "Notes by name",
        {"q": text, "names": found, "several": len(visit.library.folders) > 1},
        lambda: {"query": text, "entries": [named(each) for each in found]},
    )


def names_like(library: Library, text: str) -> tuple[OutlineEntry, ...]:
    """Return the first notes whose names begin as what is typed."""
    if not text.strip() or not library.indexed:
        return ()
    return library.named_like(text, _NAMES_SHOWN)


# ------------------------------------------------------------------ a passage


def _card(
    passage: Passage, visit: Visit, grades: Mapping[tuple[str, str, str], int]
) -> Mapping[str, Any]:
    """Return what a card shows of a passage."""
    lines = all_lines(passage).lines
    shown = best_lines(passage, lambda each: each.last - each.first < _LINES_SHOWN)
    root = dict(visit.library.folders)[passage.folder]
    span = (passage.match_start, passage.match_end)
    file = root / passage.path
    copies = [
        _place(each.folder, each.path, each.start_line, each.end_line)
        for each in passage.also_in[:_COPIES_LINKED]
    ]
    return {
        "passage": passage,
        "href": note_address(passage.folder, passage.path, span),
        "headings": passage.heading_path[1:],
        "before": lines[: shown.first],
        "lines": shown.lines,
        "after": lines[shown.last + 1 :],
        "range": line_range(*span),
        "flags": passage_flag_lines(passage),
        "facts": passage_metadata(passage),
        "copies": copies,
        "copies_left": max(0, len(passage.also_in) - _COPIES_LINKED),
        "disagrees": [_disagreement(each) for each in passage.disagrees],
        "opens": available_links(file, passage.heading, passage.match_start)
        if visit.is_near
        else (),
        "heading": passage.heading,
        "grade": str(grades.get((passage.folder, passage.path, passage.heading), "")),
    }


def _place(folder: str, path: str, first: int, last: int) -> tuple[str, str]:
    return note_address(folder, path, (first, last)), f"{path} ({line_range(first, last)})"


def _disagreement(other: Disagreement) -> Mapping[str, str]:
    link, words = _place(other.folder, other.path, other.start_line, other.end_line)
    return {"href": link, "place": words, "date": other.date, "differs": other.differs}


# ------------------------------------------------------------------ around the passages


def _chips(asked: Query) -> list[tuple[str, str]]:
    """Return each filter in words, with the address of the same question without it."""
    chips = []
    values = address_values(asked)
    for name, value in asked.filters.given():
        given = values[name]
        rest = tuple(each for each in given if each != value) if isinstance(given, tuple) else ""
        chips.append((f"{name}: {value}", address("ask", **values | {name: rest})))
    return chips
