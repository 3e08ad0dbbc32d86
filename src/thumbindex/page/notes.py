"""The Notes screen: all notes, those without links to them, and similar notes without a link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thumbindex.model import Filters, ListedNote, NoteList, TypedFilter, UnlinkedPair
from thumbindex.page.filters import filter_chips
from thumbindex.page.visit import Screen, Visit, screen_address
from thumbindex.present.sentences import filter_lines
from thumbindex.text import plural

_VIEWS: Mapping[str, tuple[str, Sequence[str]]] = {
    "list": ("All", ("folder", "tag", "path", "where", "since", "until")),
    "orphans": ("Without links to them", ("folder", "tag", "path", "where")),
    "unlinked": ("Similar, not linked", ("folder",)),
}
"""Titles of the lists and their filters, by the command that prints the list."""

_ORDERS: Mapping[str, tuple[str, str]] = {"Note": ("title", "-title"), "Date": ("date", "")}
"""The ascending and the descending order of a column. The empty one is the default."""

_PAGE_SIZE = 50
"""Rows per page."""

_MAX_PAIRS = 200
"""Maximum pairs of similar notes, most similar first."""


def notes_screen(visit: Visit) -> Screen:
    """List the notes that pass the filters of the address, in the order of the address."""
    view = visit.choice("show", tuple(_VIEWS))
    sort = visit.text("sort").lower() if view == "list" else ""
    filters, listing = _filters(visit, _VIEWS[view][1]), NoteList(())
    rows: Sequence[ListedNote | UnlinkedPair]
    if view == "unlinked":
        rows = visit.library.unlinked(filters.folder)[:_MAX_PAIRS]
    else:
        listing = _listing(visit, view, filters, sort)
        rows = listing.notes
    pairs = filters.as_pairs()
    kept = {name: tuple(v for n, v in pairs if n == name) for name in _VIEWS[view][1]}
    parameters = {"show": "" if view == "list" else view, "sort": sort, **kept}
    page, pages = visit.number("page", 1, 1, 1_000_000), max(1, -(-len(rows) // _PAGE_SIZE))
    part = tuple(rows[(page - 1) * _PAGE_SIZE : page * _PAGE_SIZE])

    def address(**changes: Any) -> str:
        return screen_address("notes", **parameters | changes)

    values = {
        "view": view,
        "views": [
            (name, title, screen_address("notes", show=name, folder=filters.folder))
            for name, (title, _) in _VIEWS.items()
        ],
        "fields": _VIEWS[view][1],
        "filters": filters,
        "folders": [name for name, _ in visit.library.folders],
        # the form adds filters to these; it shows the days
        "hidden_fields": [
            (name, value)
            for name in ("show", "sort", "folder", "tag", "path", "where")
            for value in (kept[name] if name in kept else (parameters.get(name),))
            if value
        ],
        "chips": filter_chips("notes", filters, parameters),
        "lines": filter_lines((), listing.unmet, listing.undated),
        "heads": [
            (
                title,
                address(sort=down if sort == up else up),
                {up: "ascending", down: "descending"}.get(sort, ""),
            )
            for title, (up, down) in _ORDERS.items()
        ],
        "tag_addresses": {
            tag: address(tag=(*filters.tag, tag))
            for note in part
            if isinstance(note, ListedNote)
            for tag in note.tags
        },
        "rows": part,
        "titles": _titles(visit, [row for row in part if isinstance(row, UnlinkedPair)]),
        "count": f"The {len(rows)} most similar pairs"
        if len(rows) == _MAX_PAIRS and view == "unlinked"
        else plural(len(rows), "pair" if view == "unlinked" else "note"),
        "previous": address(page=page - 1) if page > 1 else "",
        "following": address(page=page + 1) if page < pages else "",
        "page": page,
        "pages": pages,
    }

    return Screen("Notes", values)


def _filters(visit: Visit, names: Sequence[str]) -> Filters:
    """Read the filters of the address that a list has; `title` is a part of a note's title."""
    given: dict[str, Any] = {name: visit.texts(name) for name in names}
    given |= {name: visit.text(name) for name in ("since", "until") if name in names}
    if "where" in names and (title := visit.text("title").replace('"', " ").strip()):
        given["where"] = (*given["where"], TypedFilter("title", title).as_typed)
    return Filters.of(**given)


def _listing(visit: Visit, view: str, filters: Filters, sort: str) -> NoteList:
    if not visit.library.indexed:
        return NoteList(())
    if view == "list":
        return visit.library.listing(filters, sort=sort)
    return visit.library.orphans(
        folder=filters.folder,
        tag=filters.tag,
        path=filters.path,
        where=[condition.as_typed for condition in filters.where],
    )


def _titles(visit: Visit, pairs: Sequence[UnlinkedPair]) -> Mapping[tuple[str, str], str]:
    places = {(pair.folder, path) for pair in pairs for path in (pair.path, pair.other)}
    documents = visit.library.documents_at(places)
    return {(document.folder, document.path): document.title for document in documents}
