"""The State screen: whether each folder is up to date, and the files that were left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from thumbindex.model import FolderStatus, PrivateNote, Problem
from thumbindex.page.visit import Screen, Visit, note_address
from thumbindex.present.sentences import folder_state_sentence, progress_sentence
from thumbindex.text import plural

_MAX_PROBLEMS = 50
"""Maximum problems and flags listed per folder."""


def state_screen(visit: Visit) -> Screen:
    """Show the state of each of the visitor's folders."""
    library = visit.library
    statuses = [
        status if visit.is_local else _without_local_paths(status) for status in library.status()
    ]
    folders = [_folder_values(status, visit) for status in statuses]
    # on request: this reads every file
    private = library.private_notes() if visit.is_owner and visit.is_on("private") else ()
    values = {
        "folders": folders,
        "lists_private": visit.is_owner,
        "private_requested": visit.is_on("private"),
        "private": [
            (href, place, f"{reason}, in {note.folder}" if len(folders) > 1 else reason)
            for note in private[:_MAX_PROBLEMS]
            for href, place, reason in [_problem_values(note)]
        ],
        "private_left": max(0, len(private) - _MAX_PROBLEMS),
        "notes": visit.warnings(),
    }
    return Screen("State", values)


def _without_local_paths(status: FolderStatus) -> FolderStatus:
    """Return a status without absolute paths, which may contain the name of a user."""
    safe = tuple(
        problem
        for problem in status.skipped
        if not _is_absolute(problem.path) and status.root not in problem.reason
    )
    masked = tuple(
        replace(
            problem,
            path="the index",
            reason="It cannot be read. The server's log has the details.",
        )
        for problem in status.skipped
        if problem not in safe
    )
    return replace(status, root="", location="", skipped=(*safe, *masked))


def _is_absolute(path: str) -> bool:
    """Return whether a path is absolute on any system."""
    return PurePosixPath(path).is_absolute() or bool(PureWindowsPath(path).anchor)


def _folder_values(status: FolderStatus, visit: Visit) -> Mapping[str, Any]:
    flagged = status.flagged[:_MAX_PROBLEMS]
    progress = [step for step in visit.library_host.progress() if step.folder == status.folder]
    condition, words = _condition(replace(status, progress=None), visit)
    return {
        "status": status,
        "condition": condition,
        "words": words,
        "progress": [(step, progress_sentence(step)) for step in progress if step.total],
        "facts": _facts(status, visit),
        "problems": _by_reason(status, visit),
        "problem_count": len(status.skipped),
        "flagged": [_problem_values(flag, status.folder) for flag in flagged],
        "flagged_left": max(0, status.flagged_count - len({flag.path for flag in flagged})),
    }


def _by_reason(
    status: FolderStatus, visit: Visit
) -> list[tuple[str, list[tuple[str, str, str]], int]]:
    """Return each reason, its places without the reason, and the number of further places.

    A place in a note has an address; a file that was left out has none.
    """
    groups = defaultdict[str, list[Problem]](list)
    for problem in status.skipped:
        groups[problem.reason].append(problem)
    shown = [problem.path for group in groups.values() for problem in group[:_MAX_PROBLEMS]]
    documents = visit.library.documents_at((status.folder, path) for path in shown)
    notes = {document.path for document in documents}
    return [
        (
            reason,
            [
                _problem_values(
                    replace(problem, reason=""), status.folder if problem.path in notes else ""
                )
                for problem in group[:_MAX_PROBLEMS]
            ],
            max(0, len(group) - _MAX_PROBLEMS),
        )
        for reason, group in groups.items()
    ]


def _facts(status: FolderStatus, visit: Visit) -> list[str]:
    facts = [plural(status.index.documents, "note")]
    if status.updated:
        # the server's time zone is that of visitors on the same machine only
        time = datetime.fromisoformat(status.updated).astimezone(None if visit.is_local else UTC)
        zone = "" if visit.is_local else " UTC"
        facts.append(f"last change on {time:%B} {time.day}, {time:%Y at %H:%M}{zone}")
    size = f"{status.size_bytes / 1e6:,.1f} MB on disk"
    return [*facts, *filter(None, [status.index.model and f"model {status.index.model}"]), size]


def _condition(status: FolderStatus, visit: Visit) -> tuple[str, str]:
    """Return a folder's state as a CSS class, and in words."""
    words = folder_state_sentence(status)
    if status.failure or status.is_missing:
        return "bad", words
    if words != "ready":
        return "doubt", f"{words[0].upper()}{words[1:]}"
    if visit.library.only([status.folder]).watched_folders():
        return "good", "Up to date. Edits appear within a second."
    return "doubt", (
        "No running process keeps this index up to date. Run `thumbindex index` to update it "
        "once, or start a server."
    )


def _problem_values(problem: Problem | PrivateNote, folder: str = "") -> tuple[str, str, str]:
    """Return the address, location and reason of a problem."""
    line = problem.line
    place = f"{problem.path}, line {line}" if line else problem.path
    href = note_address(folder, problem.path, (line, line) if line else None) if folder else ""
    return href, place, problem.reason
