"""Ask: the passages that answer a question, and notes by name while one types."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from datetime import date
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from thumbindex.model import (
    Disagreement,
    Document,
    FilterArguments,
    Filters,
    ListedNote,
    OutlineEntry,
    Passage,
    Query,
    day_of,
    iso_day,
)
from thumbindex.page.judge import grades_of, judgments_of
from thumbindex.page.visit import Screen, Visit, note_address, screen_address
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

_MAX_NAMES = 8
"""Maximum notes that are offered by name."""

_MAX_LINES = 12
"""Lines of a passage that are shown; the others are one click away."""

_MAX_RECENT = 8
"""Maximum dated notes that are shown before a question."""

_MAX_COPIES = 10


def read_question(visit: Visit, path: str = "path") -> Query:
    """Return the query of an address, in which `path` names the globs; its text may be empty.
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
    """Return the values of an address that make a whole query."""
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


def _hidden_fields(asked: Query) -> list[tuple[str, str]]:
    """Return the values for which the form has no visible field."""
    values = address_values(asked)
    several = [(name, each) for name in ("tag", "path") for each in values[name][1:]]
    several += [("also", each) for each in asked.also]
    return several + [
        (name, str(value)) for name in ("passage", "limit") if (value := values[name])
    ]


def query_command(visit: Visit, asked: Query) -> str:
    """Return the command that prints the same answer."""
    return shlex.join(
        ["thumbindex", "query", asked.text or "QUESTION", *query_options(visit, asked)]
    )


def query_options(visit: Visit, asked: Query) -> list[str]:
    """Return all but the question as options of the command line."""
    named = [(name, value) for name, value in asked.filters.as_pairs() if name != "folder"]
    named += [("also", each) for each in asked.also]
    named += [("passage", asked.passage)] if asked.passage else []
    named += [("limit", str(asked.limit))] if asked.limit else []
    words = [part for name, value in named for part in (f"--{name}", value)]
    return words + visit.options(asked.filters.folder)


def ask_screen(visit: Visit) -> Screen:
    """Answer a question, or show recent notes if there is none."""
    asked, library = read_question(visit), visit.library
    values = {
        "q": asked.text,
        "given": asked.filters,
        "carried": _hidden_fields(asked),
        "folders": [name for name, _ in library.folders],
        "several": len(library.folders) > 1,
        "command": query_command(visit, asked),
        "indexing": indexing_sentence(visit.library_host.progress()),
        "problems": visit.warnings(),
    }
    if not asked.text:
        recent = _newest(library) if library.indexed else ()
        notes = sum(each.documents for each in library.index_states().values())
        empty = {
            "answer": None,
            "names": (),
            "recent": recent,
            "notes": notes,
            "holds_none": library.indexed and not notes,
        }
        return Screen("Ask", values | empty, lambda: _empty_payload(values | empty))
    answer, busy = library.with_marks(library.query(asked)), visit.library_host.progress()
    judged, damage = judgments_of(visit, asked.text)
    places = grades_of(judged)
    lines = [*filter_lines(answer.filters, answer.unmet, answer.undated)]
    if not busy and (without := missing_vectors_sentence(answer.index)):
        lines.append(without)
    said = {
        "problems": [*visit.warnings(), *damage],
        "answer": answer,
        "recent": (),
        "notes": answer.index.documents,
        "names": () if visit.part == "answer" else notes_named_like(library, asked.text),
        "sure": confidence_sentence(
            answer, [f"{name} {value}" for name, value in asked.filters.as_pairs()]
        ),
        "lines": lines,
        "chips": _filter_chips(asked),
        "cards": [_card(passage, visit, places) for passage in answer.passages],
        "here": screen_address("ask", **address_values(asked)),
        "foot": answer_footer(answer, busy),
        # The screen Why calls a note `path`, and what narrows a question by paths `glob`.
        "why": screen_address(
            "why", **address_values(asked) | {"path": "", "glob": asked.filters.path}
        ),
    }
    return Screen(asked.text, values | said, lambda: answer_payload(answer))


def _empty_payload(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON of the screen before a question."""
    return {
        "query": "",
        "results": [],
        "notes": values["notes"],
        "recent": as_json(values["recent"]),
        "indexing": values["indexing"],
        "problems": values["problems"],
    }


def _note_payload(note: OutlineEntry) -> dict[str, Any]:
    """Return a note as JSON, with its address."""
    return {**as_json(note), "address": note_address(note.folder, note.path)}


def _newest(library: Library) -> tuple[ListedNote, ...]:
    """Return the newest dated notes, reading only as many files as are shown."""
    days: dict[tuple[str, str], date] = {}

    def newest_first(documents: Iterable[Document]) -> list[Document]:
        dated = [(day, document) for document in documents if (day := day_of(document))]
        days.update(((document.folder, document.path), day) for day, document in dated)
        return [document for _, document in sorted(dated, key=itemgetter(0), reverse=True)]

    return tuple(
        ListedNote(note.folder, note.path, note.heading, iso_day(days[note.folder, note.path]), ())
        for note in library.browse(newest_first, _MAX_RECENT)
    )


def names_screen(visit: Visit) -> Screen:
    """List the notes whose names begin with the typed text."""
    text = visit.text("q", MAX_QUERY_CHARS)
    found = notes_named_like(visit.library, text)
    return Screen(
        "Notes by name",
        {"q": text, "names": found, "several": len(visit.library.folders) > 1},
        lambda: {"query": text, "entries": [_note_payload(each) for each in found]},
    )


def notes_named_like(library: Library, text: str) -> tuple[OutlineEntry, ...]:
    """Return the first notes whose names begin with a text."""
    if not text.strip() or not library.indexed:
        return ()
    return library.suggest_notes(text, _MAX_NAMES)


# ------------------------------------------------------------------ a passage


def _card(
    passage: Passage, visit: Visit, grades: Mapping[tuple[str, str, str], int]
) -> Mapping[str, Any]:
    """Return the values of a passage's card."""
    lines = all_lines(passage).lines
    shown = best_lines(passage, lambda each: each.last - each.first < _MAX_LINES)
    root = dict(visit.library.folders)[passage.folder]
    span = (passage.match_start_line, passage.match_end_line)
    file = root / passage.path
    copies = [
        _place(each.folder, each.path, each.start_line, each.end_line)
        for each in passage.also_in[:_MAX_COPIES]
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
        "copies_left": max(0, len(passage.also_in) - _MAX_COPIES),
        "disagrees": [_disagreement(pair) for pair in passage.disagrees],
        "opens": available_links(file, passage.heading, passage.match_start_line)
        if visit.is_local
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


def _filter_chips(asked: Query) -> list[tuple[str, str]]:
    """Return each filter in words, and the address of the same question without it."""
    chips = []
    values = address_values(asked)
    for name, value in asked.filters.as_pairs():
        given = values[name]
        rest = tuple(each for each in given if each != value) if isinstance(given, tuple) else ""
        chips.append((f"{name}: {value}", screen_address("ask", **values | {name: rest})))
    return chips
