"""Links: those that lead nowhere, notes that none leads to, and pairs that might be linked."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.model import BrokenLink, ListedNote, UnlinkedPair
from thumbindex.page.visit import Screen, Visit, address
from thumbindex.present.as_json import as_json

LISTS: Mapping[str, str] = {
    "broken": "Links that lead nowhere",
    "orphans": "Notes without a link to them",
    "unlinked": "Near and not linked",
}
"""The lists, by the name of their command."""

_LISTED = 500
"""Rows that are shown: how many more there are is said."""


def show(visit: Visit) -> Screen:
    """Show one list, of all folders or of one."""
    folder, listed = visit.text("folder"), visit.choice("show", tuple(LISTS))
    names = [name for name, _ in visit.library.folders]
    if folder and folder not in names:
        raise UsageError(f"There is no folder {folder!r}.")
    library = visit.library.only([folder]) if folder else visit.library
    rows: tuple[BrokenLink | ListedNote | UnlinkedPair, ...]
    if listed == "broken":
        rows = library.broken().links
    elif listed == "orphans":
        rows = library.orphans().notes
    else:
        rows = library.unlinked()
    part, left = rows[:_LISTED], max(0, len(rows) - _LISTED)
    command = ["thumbindex", listed, *visit.options([folder] if folder else ())]
    values = {
        "folder": folder,
        "several": len(names) > 1,
        "listed": listed,
        "lists": [
            (name, title, address("links", show=name, folder=folder))
            for name, title in LISTS.items()
        ],
        "rows": part,
        "left": left,
        "command": shlex.join(command),
    }

    def twin() -> dict[str, Any]:
        return {"show": listed, "folder": folder, "rows": as_json(part), "left": left}

    return Screen("Links", values, twin)
