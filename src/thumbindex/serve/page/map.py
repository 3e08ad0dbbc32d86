"""Map: notes where their meaning puts them, links between them, and lists to work off beside it."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.model import BrokenLink, MapNote, NearPair, NoteMap
from thumbindex.serve.as_json import as_json, map_payload
from thumbindex.serve.page.visit import Screen, Visit, address, note_address
from thumbindex.settings import LONGEST_QUERY

COLORS = ("directory", "tag", "age")

LISTS = ("notes", "orphans", "broken", "near")

SORTS = ("title", "links", "day", "path")

_PAGE = 200

_GROUPS = 7
"""Colors that are told apart (Okabe & Ito 2008): what is in no group of these is gray."""

_NEAR_DRAWN = 300
"""Pairs that the map has lines for: with more of them it is a tangle."""

_VIEW = re.compile(r"-?\d{1,3}(\.\d{1,6})?,-?\d{1,3}(\.\d{1,6})?,\d{1,2}(\.\d{1,6})?", re.ASCII)

_AGES = (
    (31, "this month"),
    (183, "half a year"),
    (366, "a year"),
    (1100, "three years"),
    (10**9, "older"),
)


def show(visit: Visit) -> Screen:
    """Show the map of one folder with the list that is asked for."""
    names = [name for name, _ in visit.library.folders]
    folder = visit.text("folder") or (names[0] if names else "")
    if folder not in names:
        raise UsageError(f"There is no folder {folder!r}.")
    color, listed, sort = (
        visit.choice("color", COLORS),
        visit.choice("show", LISTS),
        visit.choice("sort", SORTS),
    )
    page, question = visit.number("page", 1, 1, 10_000), visit.text("q", LONGEST_QUERY)
    off, view = set(visit.texts("off")), _view(visit)
    found = visit.library.map(folder)
    groups, legend = _groups(found.notes, color)
    lit = _lit(visit, folder, question) if question else set()
    here = {
        "folder": folder if len(names) > 1 else "",
        "color": "" if color == "directory" else color,
        "q": question,
        "off": tuple(sorted(off)),
        "view": view,
    }
    counts = _counts(visit, found)
    rows, total = _listed(visit, found, listed, sort, page)
    values = {
        "folder": folder,
        "folders": [
            (name, address("map", **here | {"folder": name, "view": ""})) for name in names
        ],
        "map": found,
        "placed": sum(each.x is not None for each in found.notes),
        "color": color,
        "colors": COLORS,
        "layers": [(name, name not in off) for name in ("links", "near", "orphans", "labels")],
        "legend": legend,
        "grouped": sum(
            each.x is not None and group >= 0
            for each, group in zip(found.notes, groups, strict=True)
        ),
        "question": question,
        "lit": len(lit),
        "listed": listed,
        "lists": [
            (name, count, address("map", **here | {"show": name})) for name, count in counts.items()
        ],
        "sort": sort,
        "sorts": [
            (
                name,
                address(
                    "map", **here | {"show": "" if listed == "notes" else listed, "sort": name}
                ),
            )
            for name in SORTS
        ],
        "rows": rows,
        "pages": [
            (n, address("map", **here | {"show": listed, "sort": sort, "page": n}))
            for n in range(1, -(-total // _PAGE) + 1)
        ]
        if total > _PAGE
        else (),
        "page": page,
        "drawn": _NEAR_DRAWN,
        "data": address("map.json", **here | {"off": (), "view": ""}),
        "view": view,
        "command": shlex.join(
            ["thumbindex", "map", *visit.options([folder] if len(names) > 1 else ())]
        ),
    }

    def twin() -> dict[str, Any]:
        payload = map_payload(found)
        for note, each, group in zip(payload["notes"], found.notes, groups, strict=True):
            note |= {
                "address": note_address(folder, each.path),
                "group": group,
                "lit": each.path in lit,
            }
        return {
            "folders": [payload],
            "color": color,
            "legend": [{"group": n, "name": name, "notes": count} for n, name, count in legend],
            "query": question,
            "lists": counts,
            "list": {
                "show": listed,
                "sort": sort,
                "page": page,
                "pages": -(-total // _PAGE),
                "rows": [_row(each) for each in rows],
            },
        }

    return Screen("Map", values, twin)


def _view(visit: Visit) -> str:
    """Return what part of the map is seen, `x,y,scale` as the script wrote it.

    Raises UsageError.
    """
    written = visit.text("view")
    if written and not _VIEW.fullmatch(written):
        raise UsageError(
            f"`view` is three numbers as 0.25,-0.1,2 (the middle and the scale), not {written!r}."
        )
    return written


def _lit(visit: Visit, folder: str, question: str) -> set[str]:
    """Return the notes of the answer to a question."""
    return {
        each.path
        for each in visit.library.query(question, limit=20).passages
        if each.folder == folder
    }


def _groups(notes: Sequence[MapNote], color: str) -> tuple[list[int], list[tuple[int, str, int]]]:
    """Return the group of each note, from 0, -1 for none, and each group's number, name and
    size.
    """
    if color == "age":
        today = date.today()
        keys = [_age(each.date, today) for each in notes]
        order = [name for _, name in _AGES if name in keys]
    else:
        keys = [
            (each.tags[0] if each.tags else "")
            if color == "tag"
            else each.path.partition("/")[0]
            if "/" in each.path
            else ""
            for each in notes
        ]
        order = [
            name
            for name, _ in sorted(
                Counter(filter(None, keys)).items(), key=lambda each: (-each[1], each[0])
            )
        ][:_GROUPS]
    at, counts = {name: n for n, name in enumerate(order)}, Counter(keys)
    return [at.get(each, -1) for each in keys], [(n, name, counts[name]) for name, n in at.items()]


def _age(day: str, today: date) -> str:
    try:
        days = (today - date.fromisoformat(day)).days
    except ValueError:
        return ""
    return next(name for most, name in _AGES if days <= most)


def _counts(visit: Visit, found: NoteMap) -> dict[str, int]:
    status = next((each for each in visit.library.only([found.folder]).status()), None)
    orphans = sum(not each.backlinks for each in found.notes)
    broken = status.links_dangling if status else 0
    return {
        "notes": len(found.notes),
        "orphans": orphans,
        "broken": broken,
        "near": len(found.near) + found.near_left,
    }


def _listed(
    visit: Visit, found: NoteMap, listed: str, sort: str, page: int
) -> tuple[list[Mapping[str, Any]], int]:
    """Return a page of a list, and how long the whole list is."""
    part = slice((page - 1) * _PAGE, page * _PAGE)
    if listed == "broken":
        broken = visit.library.only([found.folder]).broken().links
        return [_broken(each) for each in broken[part]], len(broken)
    if listed == "near":
        return [_pair(found, pair) for pair in found.near[part]], len(found.near)
    notes = [
        (at, each) for at, each in enumerate(found.notes) if listed == "notes" or not each.backlinks
    ]
    orders: dict[str, Any] = {
        "title": lambda each: (each.title.casefold(), each.path),
        "path": lambda each: each.path,
        "links": lambda each: (-each.links - each.backlinks, each.path),
        "day": lambda each: (
            not each.date,
            [-ord(character) for character in each.date],
            each.path,
        ),
    }
    notes.sort(key=lambda both: orders[sort](both[1]))
    return [
        {"href": note_address(found.folder, each.path), "note": each, "at": at}
        for at, each in notes[part]
    ], len(notes)


def _broken(link: BrokenLink) -> Mapping[str, Any]:
    return {"href": note_address(link.folder, link.path, (link.line, link.line)), "link": link}


def _pair(found: NoteMap, pair: NearPair) -> Mapping[str, Any]:
    both = [found.notes[n] for n in (pair.first, pair.second)]
    return {
        "pair": pair,
        "both": [
            (note_address(found.folder, each.path), each.title or each.path, each.path)
            for each in both
        ],
    }


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a list as JSON has it: a link that is broken, a pair or a note, by their
    positions among the notes.
    """
    if "link" in row:
        return {**as_json(row["link"]), "address": row["href"]}
    if "pair" in row:
        return dict(as_json(row["pair"]))
    return {"note": row["at"]}
