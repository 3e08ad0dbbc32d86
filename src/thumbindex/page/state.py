"""State: how far each index is, what was left out and why, and how large it is."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from thumbindex.model import FolderStatus, Problem
from thumbindex.page.visit import Screen, Visit, note_address
from thumbindex.present.as_json import status_payload
from thumbindex.present.sentences import folder_state_sentence, progress_sentence

_LISTED = 50
"""Problems and flags of one folder that are listed: how many more there are is said."""


def show(visit: Visit) -> Screen:
    """Show the state of each folder that the visitor sees."""
    library = visit.library
    statuses = [each if visit.is_near else _from_afar(each) for each in library.status()]
    folders = [_folder(each, visit) for each in statuses]
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


def _folder(status: FolderStatus, visit: Visit) -> Mapping[str, Any]:
    state, flagged = status.index, status.flagged[:_LISTED]
    progress = [each for each in visit.background.progress() if each.folder == status.folder]
    condition, words = _condition(replace(status, progress=None), visit)
    return {
        "status": status,
        "condition": condition,
        "words": words,
        "progress": [(each, progress_sentence(each)) for each in progress if each.total],
        "size": f"{status.size_bytes / 1e6:,.1f} MB",
        "vectors_share": state.vectors / state.chunks if state.chunks else 0.0,
        "problems": [_problem(each) for each in status.skipped[:_LISTED]],
        "problems_left": max(0, len(status.skipped) - _LISTED),
        "flagged": [_problem(each, status.folder) for each in flagged],
        "flagged_left": max(0, status.flagged_count - len({each.path for each in flagged})),
    }


def _condition(status: FolderStatus, visit: Visit) -> tuple[str, str]:
    """Return how a folder is, as a word for its mark, and in words."""
    words = folder_state_sentence(status)
    if status.failure or status.away:
        return "bad", words
    if words == "ready" and not visit.library.only([status.folder]).watched():
        words = (
            "No process keeps it up to the disk: `thumbindex index` does it once, a server as "
            "long as it runs."
        )
    return "good" if words == "ready" else "doubt", words


def _problem(problem: Problem, folder: str = "") -> tuple[str, str, str]:
    """Return a problem's address, for a note that has a page in this folder, its place and its
    reason.
    """
    line = problem.line
    place = f"{problem.path}, line {line}" if line else problem.path
    href = note_address(folder, problem.path, (line, line) if line else None) if folder else ""
    return href, place, problem.reason
