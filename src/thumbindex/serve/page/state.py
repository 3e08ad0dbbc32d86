"""State: how far each index is, what was left out and why, and how large it is."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from thumbindex.model import FolderStatus, Problem, Progress
from thumbindex.serve.as_json import status_payload
from thumbindex.serve.page.visit import Screen, Visit, note_address
from thumbindex.serve.wording import how_far

_LISTED = 50
"""Problems and flags of one folder that are listed: how many more there are is said."""


def show(visit: Visit) -> Screen:
    """Show the state of each folder that the visitor sees."""
    library = visit.library
    statuses = [each if visit.is_near else _from_afar(each) for each in library.status()]
    progress = visit.background.progress()
    has_problems = any(status.skipped or status.flagged for status in statuses)
    entries = library.outline() if has_problems else ()
    flagged = {(each.folder, each.path) for each in entries}
    folders = []
    for status in statuses:
        name = status.folder
        own = [each for each in progress if each.folder == name]
        folders.append(_folder(status, own, flagged, visit))
    values = {
        "folders": folders,
        "notes": visit.warnings(),
        "command": shlex.join(["thumbindex", "status", *visit.options()]),
    }
    return Screen("State", values, lambda: status_payload(statuses))


def _from_afar(status: FolderStatus) -> FolderStatus:
    """Return a status without paths of the disk: whoever asks from afar has no use for them, and
    they say who owns the machine.
    """
    own = tuple(
        each
        for each in status.skipped
        if not is_absolute(each.path) and status.root not in each.reason
    )
    hidden = tuple(
        replace(
            each,
            path="the index",
            reason="It cannot be read: whoever runs this server finds the reason in its log.",
        )
        for each in status.skipped
        if each not in own
    )
    return replace(status, root="", location="", skipped=(*own, *hidden), database=None)


def is_absolute(path: str) -> bool:
    """Tell whether a path is one of a disk, whatever system wrote it."""
    return PurePosixPath(path).is_absolute() or bool(PureWindowsPath(path).anchor)


def _folder(
    status: FolderStatus,
    progress: Sequence[Progress],
    known: set[tuple[str, str]],
    visit: Visit,
) -> Mapping[str, Any]:
    state = status.index
    condition, words = _condition(status, progress, visit)
    flagged = status.flagged[:_LISTED]
    return {
        "status": status,
        "condition": condition,
        "words": words,
        "progress": [(each, how_far(each), _left(each)) for each in progress if each.total],
        "age": _age(status.updated),
        "size": f"{status.size_bytes / 1e6:,.1f} MB",
        "vectors_share": state.vectors / state.chunks if state.chunks else 0.0,
        "problems": [_problem(status.folder, each, known) for each in status.skipped[:_LISTED]],
        "problems_left": max(0, len(status.skipped) - _LISTED),
        "flagged": [_problem(status.folder, each, known) for each in flagged],
        "flagged_left": max(0, status.flagged_count - len({each.path for each in flagged})),
    }


def _condition(status: FolderStatus, progress: Sequence[Progress], visit: Visit) -> tuple[str, str]:
    """Return how a folder is, as a word for its mark, and in words."""
    if status.failure:
        return "bad", f"The index is {status.failure}: it is built anew by whoever indexes next."
    if status.away:
        return (
            "bad",
            (
                "The folder is not there now. Nothing is deleted: answers come from what was read "
                "last."
            ),
        )
    if not status.indexed:
        return (
            "doubt",
            (
                "Not indexed yet. It begins by itself where a server runs; `thumbindex index` "
                "does it once."
            ),
        )
    if progress:
        return "doubt", "Being brought up to the disk now."
    if not visit.library.only([status.folder]).watched():
        words = (
            "No process keeps it up to the disk: `thumbindex index` does it once, a server as "
            "long as it runs."
        )
        return "doubt", words
    if status.index.pending:
        words = f"All words can be found; {status.index.pending:,} passages have no vector yet."
        return "doubt", words
    return "good", "A server keeps it up to the disk; nothing waits."


def _left(progress: Progress) -> str:
    seconds = progress.seconds_left
    if seconds is None:
        return ""
    return f"about {seconds} s left" if seconds < 100 else f"about {-(-seconds // 60)} min left"


def _age(updated: str) -> str:
    """Say how long ago an index was last written."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(updated)).total_seconds()
    except (ValueError, TypeError):
        return ""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count:,} {unit}{'s' if count > 1 else ''} ago"
    return "a moment ago"


def _problem(folder: str, problem: Problem, known: set[tuple[str, str]]) -> tuple[str, str, str]:
    """Return where a problem is seen, its place and its reason; a file that is not in the index has
    no page.
    """
    line = problem.line
    href = (
        note_address(folder, problem.path, (line, line) if line else None)
        if (folder, problem.path) in known
        else ""
    )
    return href, f"{problem.path}{f', line {line}' if line else ''}", problem.reason
