"""The Ask screen: passages that answer a question, and notes whose names match the input."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from thumbindex.model import (
    Answer,
    Disagreement,
    Document,
    FilterArguments,
    Filters,
    ListedNote,
    OutlineEntry,
    Place,
    Query,
    TypedFilter,
    day_of,
    is_filter_key,
    iso_day,
)
from thumbindex.page.judge import grades_of, judgments_of
from thumbindex.page.visit import Screen, Visit, note_address, screen_address
from thumbindex.present.as_json import answer_payload, as_json
from thumbindex.present.editor_links import available_links
from thumbindex.present.excerpts import ShownLines, choose_all
from thumbindex.present.sentences import (
    answer_footer,
    confidence_sentence,
    disagreement_opening,
    filter_lines,
    indexing_sentence,
    missing_vectors_sentence,
    passage_flag_lines,
    passage_metadata,
    place_name,
    retired_line,
)
from thumbindex.settings import MAX_QUERY_CHARS
from thumbindex.text import line_range, plural

if TYPE_CHECKING:
    from thumbindex.library import Library

_MAX_NAMES = 8
"""Maximum notes suggested by name."""

_ROWS, _LEAST_ROWS, _ROW_CHARS = 36, 6, 100
"""Rows of text that an answer shows at first, the least of a passage, and characters of a row."""

_MAX_RECENT = 8
"""Maximum recent notes shown before a question is asked."""

_MAX_COPIES = 10

_MAX_NARROWING, _MAX_VALUE_CHARS = 8, 40
"""Maximum filters of each kind that an answer offers, and maximum characters of their values."""

_SHOWN_ELSEWHERE = frozenset(("title", "tags", "tag", "aliases", "alias"))


def read_question(visit: Visit, path: str = "path") -> Query:
    """Read the query from the address. The query's text may be empty. Raises UsageError.

    `path` is the name of the address parameter that holds the globs.
    """
    text, globs = visit.text("q", MAX_QUERY_CHARS), visit.texts(path)
    filters: FilterArguments = {
        "folder": visit.texts("folder"),
        "tag": visit.texts("tag"),
        "path": globs,
        "where": visit.texts("where"),
        "since": visit.text("since"),
        "until": visit.text("until"),
    }
    if not text:
        return Query("", None, Filters.of(**filters))
    return Query.of(
        text,
        also=visit.texts("also"),
        passage=visit.text("passage"),
        verbatim=visit.text("verbatim") == "1",
        retired=visit.text("retired") == "1",
        limit=visit.text("limit") or None,
        **filters,
    )


def address_values(query: Query) -> dict[str, Any]:
    """Return the address parameters of a query."""
    filters = query.filters
    return {
        "q": query.text,
        "also": query.also,
        "passage": query.passage,
        "folder": filters.folder,
        "tag": filters.tag,
        "path": filters.path,
        "where": tuple(condition.as_typed for condition in filters.where),
        "since": filters.since or "",
        "until": filters.until or "",
        "limit": query.limit or "",
        "verbatim": "1" if query.verbatim else "",
        "retired": "1" if query.retired else "",
    }


def _hidden_fields(query: Query) -> list[tuple[str, str]]:
    """Return the names and values of parameters that have no visible field in the form."""
    values = address_values(query)
    fields = [(name, value) for name in ("tag", "path") for value in values[name][1:]]
    fields += [(name, value) for name in ("where", "also") for value in values[name]]
    single = ("passage", "limit", "verbatim", "retired")
    return fields + [(name, str(value)) for name in single if (value := values[name])]


def query_command(visit: Visit, query: Query) -> str:
    """Return the command that prints the answer to a query."""
    return shlex.join(
        ["thumbindex", "query", query.text or "QUESTION", *query_options(visit, query)]
    )


def query_options(visit: Visit, query: Query) -> list[str]:
    """Return a query's command-line options, without its text."""
    values = [(name, value) for name, value in query.filters.as_pairs() if name != "folder"]
    values += [("also", rewording) for rewording in query.also]
    values += [("passage", query.passage)] if query.passage else []
    values += [("limit", str(query.limit))] if query.limit else []
    options = [part for name, value in values for part in (f"--{name}", value)]
    options += ["--verbatim"] if query.verbatim else []
    options += ["--retired"] if query.retired else []
    return options + visit.options(query.filters.folder)


def ask_screen(visit: Visit) -> Screen:
    """Answer a question. If there is no question, show recent notes."""
    query, library = read_question(visit), visit.library
    values = {
        "q": query.text,
        "filters": query.filters,
        "hidden_fields": _hidden_fields(query),
        "folders": [name for name, _ in library.folders],
        "several": len(library.folders) > 1,
        "command": query_command(visit, query),
        "indexing": indexing_sentence(visit.library_host.progress()),
        "problems": visit.warnings(),
    }
    if not query.text:
        recent = _newest(library) if library.indexed else ()
        notes = sum(state.documents for state in library.index_states().values())
        empty = {
            "answer": None,
            "names": (),
            "recent": recent,
            "notes": notes,
            "is_empty": library.indexed and not notes,
        }
        return Screen("Ask", values | empty, lambda: _empty_payload(values | empty))
    answer, progress = library.query(query), visit.library_host.progress()
    judged, warnings = judgments_of(visit, query.text)
    grades = grades_of(judged)
    lines = [*filter_lines(answer.filters, answer.unmet, answer.undated)]
    if not (progress or answer.index.is_refining):  # the server refines by itself
        lines += filter(None, [missing_vectors_sentence(answer.index)])
    answered = {
        "problems": [*visit.warnings(), *warnings],
        "answer": answer,
        "recent": (),
        "notes": answer.index.documents,
        "names": () if visit.part == "answer" else notes_named_like(library, query.text),
        "sure": confidence_sentence(
            answer,
            [f"{name} {value}" for name, value in query.filters.as_pairs()],
            len(library.folders) > 1,
        ),
        "weaker": _weaker_link(answer, query),
        "lines": lines,
        "chips": _filter_chips(query),
        "narrowing": _narrowing_chips(library, answer, query),
        "cards": [
            _card(shown, visit, grades)
            for shown in choose_all(answer, _ROWS, _LEAST_ROWS, _count_rows)
        ],
        "here": screen_address("ask", **address_values(query)),
        "as_typed": screen_address("ask", **address_values(replace(query, verbatim=True))),
        "foot": answer_footer(answer, progress),
        # on the Why screen, `path` is the note to explain, and `glob` the path filter
        "why": screen_address(
            "why", **address_values(query) | {"path": "", "glob": query.filters.path}
        ),
    }
    return Screen(query.text, values | answered, lambda: answer_payload(answer))


def _empty_payload(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON of the screen before a question is asked."""
    return {
        "query": "",
        "results": [],
        "notes": values["notes"],
        "recent": as_json(values["recent"]),
        "indexing": values["indexing"],
        "problems": values["problems"],
    }


def _note_payload(note: OutlineEntry) -> dict[str, Any]:
    return {**as_json(note), "address": note_address(note.folder, note.path)}


def _newest(library: Library) -> tuple[ListedNote, ...]:
    """Return the newest of the notes that have a date.

    Only the files of the returned notes are read.
    """
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
    """List the notes whose path, or any word of the name, starts with the typed text."""
    text = visit.text("q", MAX_QUERY_CHARS)
    notes = notes_named_like(visit.library, text)
    return Screen(
        "Notes by name",
        {"q": text, "names": notes, "several": len(visit.library.folders) > 1},
        lambda: {"query": text, "entries": [_note_payload(note) for note in notes]},
    )


def notes_named_like(library: Library, text: str) -> tuple[OutlineEntry, ...]:
    """Return up to `_MAX_NAMES` notes whose path, or any word of the name, starts with `text`."""
    if not text.strip() or not library.indexed:
        return ()
    return library.suggest_notes(text, _MAX_NAMES)


def _weaker_link(answer: Answer, query: Query) -> tuple[str, str]:
    """Return the address of the answer with its weaker passages, and how many there are."""
    limit = len(answer.passages) + answer.weaker
    return (
        screen_address("ask", **address_values(query) | {"limit": limit}),
        plural(answer.weaker, "weaker passage") if answer.weaker else "",
    )


# ------------------------------------------------------------------ a passage


def _count_rows(shown: ShownLines) -> int:
    return sum(1 + len(line.text) // _ROW_CHARS for line in shown.lines)


def _card(
    shown: ShownLines, visit: Visit, grades: Mapping[tuple[str, str, str], int]
) -> Mapping[str, Any]:
    passage = shown.passage
    text = passage.text
    before = ShownLines(passage, 0, shown.start - (text[: shown.start].endswith("\n")))
    after = ShownLines(passage, shown.stop + (text[shown.stop :][:1] == "\n"), len(text))
    root = dict(visit.library.folders)[passage.folder]
    span = (passage.match_start_line, passage.match_end_line)
    file = root / passage.path
    several = len(visit.library.folders) > 1
    copies = [_place(copy, several) for copy in passage.also_in[:_MAX_COPIES]]
    return {
        "passage": passage,
        "href": note_address(passage.folder, passage.path, span),
        "headings": shown.heading_path[1:],
        "before": before.lines if shown.start else (),
        "lines": shown.lines,
        "after": after.lines if shown.stop < len(text) else (),
        "range": line_range(*span),
        "flags": passage_flag_lines(passage),
        "retired": retired_line(passage),
        "successor": passage.successor and note_address(passage.folder, passage.successor),
        "facts": passage_metadata(passage),
        "copies": copies,
        "copies_left": max(0, len(passage.also_in) - _MAX_COPIES),
        "disagrees": [_disagreement(passage.path, other, several) for other in passage.disagrees],
        "opens": available_links(file, passage.heading, passage.match_start_line)
        if visit.is_local
        else (),
        "heading": passage.heading,
        "grade": str(grades.get((passage.folder, passage.path, passage.heading), "")),
    }


def _place(place: Place, several: bool) -> tuple[str, str]:
    lines = (place.start_line, place.end_line)
    return note_address(place.folder, place.path, lines), place_name(place, several)


def _disagreement(path: str, other: Disagreement, several: bool) -> Mapping[str, str]:
    href, place = _place(other, several)
    opening = disagreement_opening(path, other.path)
    return {
        "href": href,
        "place": place,
        "date": other.date,
        "differs": f"{opening[0].upper()}{opening[1:]}: {other.differs}",
    }


# ------------------------------------------------------------------ filters


def _filter_chips(query: Query) -> list[tuple[str, str]]:
    """For each filter, return its text and the address of the question without the filter."""
    chips = []
    parameters = address_values(query)
    for name, value in query.filters.as_pairs():
        current = parameters[name]
        others: Any = ""
        if isinstance(current, tuple):
            others = tuple(item for item in current if item != value)
        words = value if name == "where" else f"{name}: {value}"
        chips.append((words, screen_address("ask", **parameters | {name: others})))
    return chips


def _narrowing_chips(library: Library, answer: Answer, query: Query) -> list[tuple[str, int, str]]:
    """Return filters that match the notes in an answer: the text, how many notes, and the address.

    A property is listed if several of the notes have the same value.
    """
    places = {(passage.folder, passage.path) for passage in answer.passages}
    found = library.documents_at(places)
    counts = {
        "folder": Counter(document.folder for document in found),
        "tag": Counter(tag for document in found for tag in document.tags),
        "where": Counter(text for document in found for text in _conditions_of(document)),
    }
    chips, used, parameters = [], query.filters.as_pairs(), address_values(query)
    for name, counter in counts.items():
        least = 2 if name == "where" else 1
        values = [value for value in counter if counter[value] >= least]
        if name == "folder" and len(library.folders) == 1:
            continue
        for value in sorted(values, key=lambda value: (-counter[value], value))[:_MAX_NARROWING]:
            if (name, value) not in used:
                narrowed = (value,) if name == "folder" else (*parameters[name], value)
                address = screen_address("ask", **parameters | {name: narrowed})
                chips.append((f"#{value}" if name == "tag" else value, counter[value], address))
    return chips


def _conditions_of(document: Document) -> Iterable[str]:
    """Yield a condition for each property of a document, without names, tags and long values."""
    for key, texts in document.properties.items():
        if key not in _SHOWN_ELSEWHERE and is_filter_key(key):
            for text in texts:
                if len(text) <= _MAX_VALUE_CHARS and '"' not in text:
                    yield TypedFilter.on_property(key, ":", text).condition
