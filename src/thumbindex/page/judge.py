"""The Judge screen: grades of passages, which become a query set for `thumbindex eval`."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from thumbindex.config import absolute_path
from thumbindex.errors import StorageError, UsageError
from thumbindex.model import JudgedQuery, RelevanceJudgment
from thumbindex.page.visit import (
    SEE_SERVER_LOG,
    FormResult,
    NotFoundError,
    Screen,
    Visit,
    note_address,
    same_site_address,
    screen_address,
)
from thumbindex.present.as_json import as_json
from thumbindex.settings import MAX_QUERY_CHARS

_LOG = logging.getLogger(__name__)

_GRADE_LABELS = {"2": "answers", "1": "helps", "0": "does not"}

_PAGE_SIZE = 100
"""Judged queries per page."""


def judge_screen(visit: Visit) -> Screen:
    """List the judgments of a folder, and the command that evaluates search with them."""
    judged = {
        folder: queries for folder, queries in visit.library.judgments().all().items() if queries
    }
    names = [name for name, _ in visit.library.folders]
    folder = visit.text("folder") or next(iter(judged), names[0] if names else "")
    if folder and folder not in names:
        raise NotFoundError(folder)
    queries = judged.get(folder, ())
    page = visit.number("page", 1, 1, 10_000)
    part = list(reversed(queries))[(page - 1) * _PAGE_SIZE : page * _PAGE_SIZE]
    pages = max(1, -(-len(queries) // _PAGE_SIZE))
    numbers = range(1, pages + 1) if pages > 1 else ()
    counts = {name: len(judged.get(name, ())) for name in names}
    values = {
        "folder": folder,
        "page": page,
        "questions": sum(any(judgment.grade for judgment in query.judgments) for query in queries),
        "command": _command(visit, folder),
        "folders": [
            (name, count, screen_address("judge", folder=name)) for name, count in counts.items()
        ],
        "entries": [_entry(folder, query) for query in part],
        "pages": [(n, screen_address("judge", folder=folder, page=n)) for n in numbers],
        "grades": _GRADE_LABELS,
    }
    return Screen("Judge", values)


def _entry(folder: str, judged: JudgedQuery) -> Mapping[str, Any]:
    return {
        "query": judged.query,
        "ask": screen_address("ask", q=judged.query),
        "kind": judged.kind,
        "made": judged.made[:16].replace("T", " "),
        "places": [_judged_place(folder, judgment) for judgment in judged.judgments],
    }


def _judged_place(folder: str, place: RelevanceJudgment) -> Mapping[str, str]:
    anchor = screen_address("", heading=place.heading)[1:] if place.heading else ""
    return {
        "href": note_address(folder, place.path) + anchor,
        "words": f"{place.path}#{place.heading}" if place.heading else place.path,
        "path": place.path,
        "heading": place.heading,
        "grade": str(place.grade),
    }


def _command(visit: Visit, folder: str) -> str:
    """Return the command that evaluates search with the judgments of a folder.

    The command contains file paths only for local visitors.
    """
    opened = next((one for one in visit.library.opened if one.name == folder), None)
    if opened is None or not visit.is_local:
        return "thumbindex eval judged.jsonl"
    opening = visit.library_host.opening
    index, config = (path and absolute_path(path) for path in (opening.index, opening.config))
    options = replace(opening, folder=(str(opened.root),), index=index, config=config).arguments()
    return shlex.join(["thumbindex", "eval", str(opened.index_paths.judged_set), *options])


# ------------------------------------------------------------------ forms


def grade_passage(visit: Visit) -> FormResult:
    """Store or delete the grade of a passage for a query."""
    query, folder, path = (
        visit.text("query", MAX_QUERY_CHARS),
        visit.text("folder"),
        visit.text("path"),
    )
    choice = visit.choice("grade", ("2", "1", "0", "take_back"))
    grade = None if choice == "take_back" else int(choice)
    if not path or not folder:
        raise UsageError("The `folder` and `path` of the passage are required.")
    judged = visit.library.judgments().judge(
        query, path, visit.text("heading"), grade, folder=folder, kind=_kind(visit)
    )
    return FormResult(
        _return_address(visit, folder),
        {
            "query": judged.query,
            "judgments": as_json(judged.judgments),
            "grade": grade,
        },
    )


def delete_judgment(visit: Visit) -> FormResult:
    """Delete a query with all its grades."""
    folder = visit.text("folder")
    visit.library.judgments().remove(visit.text("query", MAX_QUERY_CHARS), folder=folder)
    return FormResult(_return_address(visit, folder), {})


def _kind(visit: Visit) -> str:
    return visit.text("kind")[:40]


def _return_address(visit: Visit, folder: str) -> str:
    target = same_site_address(visit.text("back", 2 * MAX_QUERY_CHARS))
    return target if target != "/" else screen_address("judge", folder=folder)


# ------------------------------------------------------------------ judgments of one question


def judgments_of(visit: Visit, text: str) -> tuple[Mapping[str, JudgedQuery], list[str]]:
    """Return a query's judgments by folder, and a warning if they cannot be read."""
    try:
        return visit.library.judgments().of(text) if visit.may_write else {}, []
    except StorageError as error:
        _LOG.warning("%s", error)
        return {}, [str(error) if visit.is_local else SEE_SERVER_LOG]


def grades_of(judged: Mapping[str, JudgedQuery]) -> Mapping[tuple[str, str, str], int]:
    """Return a query's grades by folder, path and heading."""
    return {
        (folder, judgment.path, judgment.heading): judgment.grade
        for folder, query in judged.items()
        for judgment in query.judgments
    }
