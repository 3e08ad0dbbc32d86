"""Looking after notes: the screens of links, duplicates, and the state of the indexes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.model import (
    BrokenLink,
    Cluster,
    ClusterMember,
    DuplicateReport,
    FolderStatus,
    ListedNote,
    Problem,
    UnlinkedPair,
    Verdict,
)
from thumbindex.page.visit import FormResult, Screen, Visit, note_address, screen_address
from thumbindex.present.as_json import as_json, duplicates_payload, status_payload
from thumbindex.present.clusters import by_priority, diff_texts, exceeds_diff_limit, needs_decision
from thumbindex.present.sentences import folder_state_sentence, progress_sentence
from thumbindex.text import line_range

# ------------------------------------------------------------------ links

_LINK_LISTS: Mapping[str, str] = {
    "broken": "Links that lead nowhere",
    "orphans": "Notes without a link to them",
    "unlinked": "Near and not linked",
}
"""Lists of links, by the name of their command."""

_MAX_ROWS = 500
"""Maximum rows that are shown."""


def links_screen(visit: Visit) -> Screen:
    """Show one list of links, of all folders or of one."""
    folder, listed = visit.text("folder"), visit.choice("show", tuple(_LINK_LISTS))
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
    part, left = rows[:_MAX_ROWS], max(0, len(rows) - _MAX_ROWS)
    command = ["thumbindex", listed, *visit.options([folder] if folder else ())]
    values = {
        "folder": folder,
        "several": len(names) > 1,
        "listed": listed,
        "lists": [
            (name, title, screen_address("links", show=name, folder=folder))
            for name, title in _LINK_LISTS.items()
        ],
        "rows": part,
        "left": left,
        "command": shlex.join(command),
    }

    def payload() -> dict[str, Any]:
        return {"show": listed, "folder": folder, "rows": as_json(part), "left": left}

    return Screen("Links", values, payload)


# ------------------------------------------------------------------ duplicates

_CLUSTER_LISTS = ("open", "contradictions", "grey", "merged", "decided", "all")
"""Lists of clusters; the first has those that wait for a decision."""

_PAGE_SIZE = 100
"""Clusters in one page of the JSON."""

_MAX_PLACES = 30

_MAX_TEXT_CHARS = 20_000
"""Maximum characters of a text that are shown."""


def review_screen(visit: Visit) -> Screen:
    """Show one cluster and its differences, and how many are left."""
    kind, wanted, folder = (
        visit.choice("show", _CLUSTER_LISTS),
        visit.text("at"),
        visit.texts("folder"),
    )
    found = _find_duplicates(visit, folder)
    every = by_priority(found.clusters)
    listed = [each for each in every if _is_in_list(each, kind)]
    at = next((n for n, each in enumerate(listed) if each.id == wanted), 0)
    cluster = next((each for each in every if each.id == wanted), listed[at] if listed else None)
    before = [each for each in listed[:at] if each is not cluster]
    after = [each for each in listed[at + 1 :] if each is not cluster] or before
    counts = {each: sum(_is_in_list(one, each) for one in every) for each in _CLUSTER_LISTS}
    last = next((each for each in every if each.id == visit.text("last")), None)
    texts = list({text.digest: text for text in cluster.texts}.values()) if cluster else []
    against = visit.number("against", 2, 2, 10_000)
    here = {"show": "" if kind == "open" else kind, "folder": folder}
    others: list[tuple[int, bool, str]] = []
    if cluster and len(texts) > 2:
        for n in range(2, min(len(texts), _MAX_PLACES) + 1):
            href = screen_address("review", **here | {"at": cluster.id, "against": n})
            others.append((n, n == against, href))
    values: dict[str, Any] = {
        "kinds": [
            (each, counts[each], screen_address("review", **here | {"show": each}))
            for each in _CLUSTER_LISTS
        ],
        "kind": kind,
        "cluster": cluster,
        "position": at + 1,
        "listed": len(listed),
        "decided": sum(
            each.verdict is not None for each in every if each.zone == "grey" or each.differs
        ),
        "to_decide": sum(
            each.zone == "grey" or bool(each.differs) or each.verdict is not None for each in every
        ),
        "total": len(every),
        "sides": _sides(cluster, texts, min(against, max(2, len(texts)))) if cluster else (),
        "others": others,
        "left_out": max(0, len(cluster.texts) - _MAX_PLACES) if cluster else 0,
        "following": screen_address("review", **here | {"at": after[0].id}) if after else "",
        "following_id": after[0].id if after else "",
        "last": last,
        "outdated_decisions": found.outdated_decisions[:_MAX_PLACES] if visit.may_write else (),
        "several": len(visit.library.folders) > 1,
        "narrowed": folder,
        "indexed": visit.library.indexed,
        "command": shlex.join(["thumbindex", "duplicates", "--grey", *visit.options(folder)]),
    }

    page = visit.number("page", at // _PAGE_SIZE + 1, 1, 100_000)

    def payload() -> dict[str, Any]:
        part = replace(
            found,
            clusters=tuple(listed[(page - 1) * _PAGE_SIZE : page * _PAGE_SIZE]),
            outdated_decisions=found.outdated_decisions if visit.may_write else (),
        )
        return {
            "show": kind,
            "kinds": counts,
            "decided": values["decided"],
            "to_decide": values["to_decide"],
            "cluster": as_json(cluster) if cluster else None,
            "position": at + 1 if cluster else 0,
            "following": values["following_id"],
            **duplicates_payload(part),
            "page": page,
            "pages": -(-len(listed) // _PAGE_SIZE),
        }

    return Screen("Review", values, payload)


def _find_duplicates(visit: Visit, folder: Sequence[str]) -> DuplicateReport:
    if not visit.library.indexed:
        return DuplicateReport((), (), 0, 0, 0)
    return visit.library.duplicates(folder, grey=True)


def _is_in_list(cluster: Cluster, kind: str) -> bool:
    if kind == "open":
        return needs_decision(cluster)
    if kind == "contradictions":
        return bool(cluster.differs)
    if kind == "decided":
        return cluster.verdict is not None
    if kind == "merged":
        return cluster.zone == "same" and cluster.verdict != "apart"
    return kind == "all" or cluster.zone == "grey"


def _sides(cluster: Cluster, texts: Sequence[ClusterMember], against: int) -> list[dict[str, Any]]:
    """Return the two texts that are compared, with the places of each."""
    chosen = [texts[0], texts[against - 1]] if len(texts) > 1 else [texts[0]]
    shown = [each.text.strip("\n")[:_MAX_TEXT_CHARS] for each in chosen]
    days = [max(one.date for one in cluster.texts if one.digest == each.digest) for each in chosen]
    pieces = diff_texts(*shown) if len(shown) > 1 else ([(shown[0], False)],)
    sides = []
    for n, each in enumerate(chosen):
        places = [_place_values(one) for one in cluster.texts if one.digest == each.digest]
        side = {
            "number": 1 if n == 0 else against,
            "pieces": pieces[n],
            "is_cut": len(each.text) > _MAX_TEXT_CHARS,
            "is_marked_in_part": len(shown) > 1 and exceeds_diff_limit(shown[n]),
            "places": places[:_MAX_PLACES],
            "is_newest": n == 0 and len(days) > 1 and all(days) and days[0] > max(days[1:]),
        }
        sides.append(side)
    return sides


def _place_values(standing: ClusterMember) -> dict[str, str]:
    span = (standing.start_line, standing.end_line)
    return {
        "href": note_address(standing.folder, standing.path, span),
        "words": f"{standing.path} ({line_range(*span)})",
        "headings": " › ".join(standing.heading_path),
        "date": standing.date,
        "owner": standing.owner,
        "folder": standing.folder,
    }


def save_decision(visit: Visit) -> FormResult:
    """Store a decision about a cluster, and go to the next open one."""
    verdict: Verdict = "same" if visit.choice("verdict", ("same", "apart")) == "same" else "apart"
    decided = visit.library.decisions().decide(_cluster_id(visit), verdict, visit.text("note"))
    return FormResult(_next_address(visit, decided), as_json(decided))


def delete_decision(visit: Visit) -> FormResult:
    """Delete the decision about a cluster, and show it."""
    cluster = visit.library.decisions().decide(_cluster_id(visit), None)
    return FormResult(
        screen_address(
            "review", show=_list_name(visit), at=cluster.id, folder=visit.texts("folder")
        ),
        as_json(cluster),
    )


def _cluster_id(visit: Visit) -> str:
    if id_ := visit.text("id"):
        return id_
    raise UsageError("Of which cluster? Its id is missing.")


def _list_name(visit: Visit) -> str:
    kind = visit.choice("show", _CLUSTER_LISTS)
    return "" if kind == "open" else kind


def _next_address(visit: Visit, decided: Cluster) -> str:
    return screen_address(
        "review",
        show=_list_name(visit),
        folder=visit.texts("folder"),
        at=visit.text("next"),
        last=decided.id,
    )


# ------------------------------------------------------------------ state of the indexes

_MAX_PROBLEMS = 50
"""Maximum problems and flags of a folder that are listed."""


def state_screen(visit: Visit) -> Screen:
    """Show the state of each folder that the visitor sees."""
    library = visit.library
    statuses = [each if visit.is_local else _without_local_paths(each) for each in library.status()]
    folders = [_folder_values(status, visit) for status in statuses]
    values = {
        "folders": folders,
        "notes": visit.warnings(),
        "command": shlex.join(["thumbindex", "status", *visit.options()]),
    }
    return Screen("State", values, lambda: status_payload(statuses))


def _without_local_paths(status: FolderStatus) -> FolderStatus:
    """Return a status without paths of the disk, which may name the machine's owner."""
    own = tuple(
        each
        for each in status.skipped
        if not _is_absolute(each.path) and status.root not in each.reason
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


def _is_absolute(path: str) -> bool:
    """Return whether a path is absolute on any system."""
    return PurePosixPath(path).is_absolute() or bool(PureWindowsPath(path).anchor)


def _folder_values(status: FolderStatus, visit: Visit) -> Mapping[str, Any]:
    state, flagged = status.index, status.flagged[:_MAX_PROBLEMS]
    progress = [each for each in visit.library_host.progress() if each.folder == status.folder]
    condition, words = _condition(replace(status, progress=None), visit)
    return {
        "status": status,
        "condition": condition,
        "words": words,
        "progress": [(each, progress_sentence(each)) for each in progress if each.total],
        "size": f"{status.size_bytes / 1e6:,.1f} MB",
        "vectors_share": state.vectors / state.chunks if state.chunks else 0.0,
        "problems": [_problem_values(each) for each in status.skipped[:_MAX_PROBLEMS]],
        "problems_left": max(0, len(status.skipped) - _MAX_PROBLEMS),
        "flagged": [_problem_values(each, status.folder) for each in flagged],
        "flagged_left": max(0, status.flagged_count - len({each.path for each in flagged})),
    }


def _condition(status: FolderStatus, visit: Visit) -> tuple[str, str]:
    """Return the state of a folder as a word for its mark, and in a sentence."""
    words = folder_state_sentence(status)
    if status.failure or status.is_missing:
        return "bad", words
    if words == "ready" and not visit.library.only([status.folder]).watched_folders():
        words = (
            "No process keeps it up to the disk: `thumbindex index` does it once, a server as "
            "long as it runs."
        )
    return "good" if words == "ready" else "doubt", words


def _problem_values(problem: Problem, folder: str = "") -> tuple[str, str, str]:
    """Return a problem's address if its note has a page, its place and its reason."""
    line = problem.line
    place = f"{problem.path}, line {line}" if line else problem.path
    href = note_address(folder, problem.path, (line, line) if line else None) if folder else ""
    return href, place, problem.reason
