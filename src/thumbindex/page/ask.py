"""The Ask screen: passages that answer a question, and notes whose names match the input."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from thumbindex.model import (
    MAX_PASSAGES,
    Answer,
    Disagreement,
    FilterArguments,
    Filters,
    OutlineEntry,
    Passage,
    Place,
    Query,
)
from thumbindex.page.filters import filter_chips, offered_chips, typed_chips
from thumbindex.page.judge import grades_of, judgments_of
from thumbindex.page.start import Start, newest_documents, start_of
from thumbindex.page.visit import Screen, Visit, heading_address, note_address, screen_address
from thumbindex.present.as_json import as_json
from thumbindex.present.editor_links import available_links
from thumbindex.present.excerpts import ShownLines, below_headings, choose_lines
from thumbindex.present.sentences import (
    answer_footer,
    confidence_sentence,
    filter_lines,
    indexing_sentence,
    missing_vectors_sentence,
    passage_flag_lines,
    place_name,
    retired_line,
)
from thumbindex.settings import MAX_QUERY_CHARS
from thumbindex.visible_text import code_blocks

if TYPE_CHECKING:
    from thumbindex.library import Library

_MAX_NAMES, _MAX_NAMES_BESIDE_AN_ANSWER = 8, 3
"""Maximum notes suggested by name."""

_ROW_CHARS = 90
"""Approximate characters of a row."""

_QUOTED_ROWS, _QUOTED_ROWS_IF_LOW = 24, 8
"""Maximum rows of the first passage, and with low confidence."""

_SNIPPET_ROWS, _OPENED_CHARS = 2, 1_200
"""Maximum rows of another passage, and its approximate characters after it is opened."""

_LIMITS = (20, 50, MAX_PASSAGES)
"""Passages of an answer after each click on "Show more"."""

_EMPHASIS = re.compile(r"(?<!\w)[*_]{1,3}(?=\w)|(?<=[\w.,!?)])[*_]{1,3}(?!\w)")

_MAX_BLOCK_LINES = 20
"""A code block with more lines may be cut."""

_MAX_COPIES = 10


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
    fields = [(name, value) for name in ("tag", "path", "where") for value in values[name][1:]]
    fields += [("also", value) for value in values["also"]]
    single = ("passage", "limit", "verbatim", "retired")
    return fields + [(name, str(value)) for name in single if (value := values[name])]


def ask_screen(visit: Visit) -> Screen:
    """Answer a question. If there is no question, show recent notes."""
    query, library = read_question(visit), visit.library
    values = {
        "q": query.text,
        "filters": query.filters,
        "hidden_fields": _hidden_fields(query),
        "folders": [name for name, _ in library.folders],
        "several": len(library.folders) > 1,
        "indexing": indexing_sentence(visit.library_host.progress()),
        "problems": visit.warnings(),
    }
    if not query.text:
        notes = sum(state.documents for state in library.index_states().values())
        empty = {
            "answer": None,
            "names": (),
            "chips": filter_chips("ask", query.filters, address_values(query)),
            "start": Start() if query.filters.as_pairs() else start_of(library),
            "notes": notes,
            "is_empty": library.indexed and not notes,
        }
        return Screen("Ask", values | empty)
    answer, progress = library.query(query), visit.library_host.progress()
    judged, warnings = judgments_of(visit, query.text)
    lines = filter_lines((), answer.unmet, answer.undated)
    if not (progress or answer.index.is_refining):  # the server refines by itself
        lines += filter(None, [missing_vectors_sentence(answer.index)])
    parameters = address_values(query)
    documents = library.documents_at(answer.notes if answer.found else ())
    groups = _by_note(_results(answer, visit, grades_of(judged)))
    answered = {
        "problems": [*visit.warnings(), *warnings],
        "answer": answer,
        "names": notes_named_like(library, query.text)[:_MAX_NAMES_BESIDE_AN_ANSWER],
        "sure": _sureness(answer, query),
        "time": _time(sum(step.seconds for step in answer.trace)),
        "lines": lines,
        "chips": [
            *filter_chips("ask", query.filters, parameters),
            *typed_chips(query.text, answer.filters, parameters),
        ],
        "ranked": len(documents),
        "offered": offered_chips(documents, answer, query, parameters),
        "groups": groups,
        "more": _more_address(answer, query) if len(documents) > len(groups) else "",
        "here": screen_address("ask", **parameters),
        "as_typed": screen_address("ask", **address_values(replace(query, verbatim=True))),
        "foot": answer_footer(answer, progress),
        # on the Why screen, `path` is the note to explain, and `glob` the path filter
        "why": screen_address("why", **parameters | {"path": "", "glob": query.filters.path}),
    }
    return Screen(query.text, values | answered)


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


def _sureness(answer: Answer, query: Query) -> str:
    """Return how well the passages answer, in a few words, or why there are none."""
    if not answer.found or answer.listed:
        narrowed = [f"{name} {value}" for name, value in query.filters.as_pairs()]
        return confidence_sentence(answer, narrowed).replace("`", "")
    if answer.confidence_level == "high":
        return "good match"
    return "weak match: your notes may not answer this"


def _note_payload(note: OutlineEntry) -> dict[str, Any]:
    return {**as_json(note), "address": note_address(note.folder, note.path)}


def names_screen(visit: Visit) -> Screen:
    """List the notes whose names complete the typed text. Without a text, the newest notes."""
    text, library = visit.text("q", MAX_QUERY_CHARS), visit.library
    notes = (
        notes_named_like(library, text) if text else library.browse(newest_documents, _MAX_NAMES)
    )
    return Screen(
        "Notes by name",
        {"q": text, "names": notes, "several": len(visit.library.folders) > 1},
        lambda: {"query": text, "entries": [_note_payload(note) for note in notes]},
    )


def notes_named_like(library: Library, text: str) -> tuple[OutlineEntry, ...]:
    """Return up to `_MAX_NAMES` notes whose names complete `text`."""
    if not text.strip() or not library.indexed:
        return ()
    return library.suggest_notes(text, _MAX_NAMES)


def _more_address(answer: Answer, query: Query) -> str:
    """Return the address of the answer with more passages, or "" if there are none."""
    shown = len(answer.passages)
    limit = next((limit for limit in _LIMITS if limit > shown >= (query.limit or 0)), 0)
    return screen_address("ask", **address_values(query) | {"limit": limit}) if limit else ""


# ------------------------------------------------------------------ passages


def _results(
    answer: Answer, visit: Visit, grades: Mapping[tuple[str, str, str], int]
) -> list[dict[str, Any]]:
    """Return the values of each passage. The first one is quoted, the others can be opened."""
    results = list[dict[str, Any]]()
    for shown in shown_lines(answer):
        passage = shown.passage
        content = _opened(shown, visit) if results else _quotation(shown, visit)
        grade = grades.get((passage.folder, passage.path, passage.heading), "")
        results.append(_result(shown, visit) | content | {"grade": str(grade)})
    return results


def shown_lines(answer: Answer) -> list[ShownLines]:
    """Choose the lines shown of each passage, most of the first one."""
    rows = _QUOTED_ROWS if answer.confidence_level == "high" else _QUOTED_ROWS_IF_LOW
    best, others = answer.passages[:1], answer.passages[1:]
    return [
        *(_whole_blocks(choose_lines(passage, rows, _count_rows)) for passage in best),
        *(choose_lines(passage, _SNIPPET_ROWS, _count_rows) for passage in others),
    ]


def cite(shown: ShownLines) -> tuple[str, str]:
    """Return the citation of the shown lines, and their address."""
    passage, first = shown.passage, shown.start_line
    span = (first, min(first + shown.last - shown.first, passage.end_line))
    citation = replace(passage, start_line=span[0], end_line=span[1]).citation
    return citation, note_address(passage.folder, passage.path, span)


def _by_note(results: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the results grouped by note, in the order of the best one of each note."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for result in results:
        place = result["passage"].folder, result["passage"].path
        groups.setdefault(place, []).append(result)
    return list(groups.values())


def _count_rows(shown: ShownLines) -> int:
    return sum(1 + len(line.text) // _ROW_CHARS for line in shown.lines)


def _quotation(shown: ShownLines, visit: Visit) -> dict[str, Any]:
    """Return the shown lines as HTML, and those before and after them."""
    passage, text = shown.passage, shown.passage.text
    start, stop = shown.header[0] if shown.header else shown.start, shown.stop
    top = below_headings(passage).start
    before, after = text[top:start].strip(), text[stop:].strip()
    return {
        "html": _render(passage, start, stop, visit),
        "before": _render(passage, top, start, visit) if before else "",
        "after": _render(passage, stop, len(text), visit) if after else "",
        "lines_before": before.count("\n") + 1,
        "lines_after": after.count("\n") + 1,
    }


def _whole_blocks(shown: ShownLines) -> ShownLines:
    """Extend the shown lines over the code blocks that they cut, unless these are long."""
    text, start, stop = shown.passage.text, shown.start, shown.stop
    for block_start, block_stop, _ in code_blocks(text):
        if text.count("\n", block_start, block_stop) <= _MAX_BLOCK_LINES:
            start = block_start if block_start < start < block_stop else start
            stop = block_stop if block_start < stop < block_stop else stop
    return replace(shown, start=start, stop=stop)


def _opened(shown: ShownLines, visit: Visit) -> dict[str, Any]:
    """Return the shown lines as one text, and as HTML with the lines that follow."""
    passage = shown.passage
    end = passage.text.find("\n", shown.start + _OPENED_CHARS)
    stop = len(passage.text) if end < 0 else end
    html = _render(passage, shown.start, stop, visit)
    return {"snippet": list(_snippet(shown)), "html": html}


def _snippet(shown: ShownLines) -> Iterator[tuple[str, bool, bool]]:
    """Yield parts of the shown text, and whether each is marked, and code."""
    for line in shown.lines:
        if line.is_decoration:
            continue
        is_code = False
        yield " ", False, False
        for text, is_mark in line.pieces:
            for at, part in enumerate(text.split("`")):
                is_code ^= at > 0
                yield part if is_code else _EMPHASIS.sub("", part), is_mark, is_code


def _render(passage: Passage, start: int, stop: int, visit: Visit) -> str:
    return visit.library.render_passage(
        passage,
        start,
        stop,
        note_address=partial(heading_address, passage.folder),
        tag_address=lambda name: screen_address("ask", q=f"tag:{name}"),
    )


def _result(shown: ShownLines, visit: Visit) -> dict[str, Any]:
    passage, several = shown.passage, len(visit.library.folders) > 1
    citation, href = cite(shown)
    root = dict(visit.library.folders)[passage.folder]
    return {
        "passage": passage,
        "day": passage.updated or passage.created,
        "href": href,
        "citation": citation,
        "headings": shown.heading_path[1:],
        "flags": passage_flag_lines(passage),
        "retired": retired_line(passage),
        "successor": passage.successor and note_address(passage.folder, passage.successor),
        "copies": [_place(copy, several) for copy in passage.also_in[:_MAX_COPIES]],
        "copies_left": max(0, len(passage.also_in) - _MAX_COPIES),
        "disagrees": [_disagreement(other, several) for other in passage.disagrees],
        "opens": available_links(root / passage.path, passage.heading, passage.match_start_line)
        if visit.is_local
        else (),
    }


def _place(place: Place, several: bool) -> tuple[str, str]:
    lines = (place.start_line, place.end_line)
    return note_address(place.folder, place.path, lines), place_name(place, several)


def _disagreement(other: Disagreement, several: bool) -> Mapping[str, str]:
    href, place = _place(other, several)
    return {
        "href": href,
        "place": place,
        "date": other.date,
        "differs": f"These two disagree: {other.differs}".replace("`", ""),
    }
