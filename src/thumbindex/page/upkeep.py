"""The screens for maintaining notes: Links and Review (duplicates)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.model import (
    BrokenLink,
    Cluster,
    ClusterMember,
    DuplicateReport,
    ListedNote,
    UnlinkedPair,
    Verdict,
)
from thumbindex.page.visit import FormResult, Screen, Visit, note_address, screen_address
from thumbindex.present.as_json import as_json, duplicates_payload
from thumbindex.present.clusters import by_priority, diff_texts, exceeds_diff_limit, needs_decision
from thumbindex.text import line_range

# ------------------------------------------------------------------ links

_LINK_LISTS: Mapping[str, str] = {
    "broken": "Broken links",
    "orphans": "Notes without links to them",
    "unlinked": "Similar, not linked",
}
"""Titles of the lists, by the command that prints the list."""

_MAX_ROWS = 500
"""Maximum rows shown of a list of links."""


def links_screen(visit: Visit) -> Screen:
    """Show a list of links in a folder or in all folders."""
    folder, listed = visit.text("folder"), visit.choice("show", tuple(_LINK_LISTS))
    names = [name for name, _ in visit.library.folders]
    if folder and folder not in names:
        raise UsageError(f"There is no folder {folder!r}.")
    library = visit.library.only([folder]) if folder else visit.library
    rows: tuple[BrokenLink | ListedNote | UnlinkedPair, ...]
    if listed == "broken":
        rows = library.broken(for_owner=visit.is_owner).links
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
"""Lists of clusters. The first one contains the clusters that need a decision."""

_PAGE_SIZE = 100
"""Clusters per page of the JSON."""

_MAX_PLACES = 30

_MAX_TEXT_CHARS = 20_000
"""Maximum characters shown of each of the two compared texts."""


def review_screen(visit: Visit) -> Screen:
    """Show a cluster with its differences, and the size of each list of clusters."""
    kind, cluster_id, folder = (
        visit.choice("show", _CLUSTER_LISTS),
        visit.text("at"),
        visit.texts("folder"),
    )
    report = _find_duplicates(visit, folder)
    clusters = by_priority(report.clusters)
    listed = [cluster for cluster in clusters if _is_in_list(cluster, kind)]
    index = next((n for n, cluster in enumerate(listed) if cluster.id == cluster_id), 0)
    shown = next(
        (cluster for cluster in clusters if cluster.id == cluster_id),
        listed[index] if listed else None,
    )
    before = [cluster for cluster in listed[:index] if cluster is not shown]
    after = [cluster for cluster in listed[index + 1 :] if cluster is not shown] or before
    counts = {
        name: sum(_is_in_list(cluster, name) for cluster in clusters) for name in _CLUSTER_LISTS
    }
    last = next((cluster for cluster in clusters if cluster.id == visit.text("last")), None)
    texts = list({text.digest: text for text in shown.texts}.values()) if shown else []
    against = visit.number("against", 2, 2, 10_000)
    address = {"show": "" if kind == "open" else kind, "folder": folder}
    others: list[tuple[int, bool, str]] = []
    if shown and len(texts) > 2:
        for n in range(2, min(len(texts), _MAX_PLACES) + 1):
            href = screen_address("review", **address | {"at": shown.id, "against": n})
            others.append((n, n == against, href))
    values: dict[str, Any] = {
        "kinds": [
            (name, counts[name], screen_address("review", **address | {"show": name}))
            for name in _CLUSTER_LISTS
        ],
        "kind": kind,
        "cluster": shown,
        "position": index + 1,
        "listed": len(listed),
        "decided": sum(
            cluster.verdict is not None
            for cluster in clusters
            if cluster.zone == "grey" or cluster.differs
        ),
        "to_decide": sum(
            cluster.zone == "grey" or bool(cluster.differs) or cluster.verdict is not None
            for cluster in clusters
        ),
        "total": len(clusters),
        "sides": _sides(shown, texts, min(against, max(2, len(texts)))) if shown else (),
        "others": others,
        "left_out": max(0, len(shown.texts) - _MAX_PLACES) if shown else 0,
        "following": screen_address("review", **address | {"at": after[0].id}) if after else "",
        "following_id": after[0].id if after else "",
        "last": last,
        "outdated_decisions": report.outdated_decisions[:_MAX_PLACES] if visit.may_write else (),
        "several": len(visit.library.folders) > 1,
        "folder_filter": folder,
        "indexed": visit.library.indexed,
        "command": shlex.join(["thumbindex", "duplicates", "--grey", *visit.options(folder)]),
    }

    page = visit.number("page", index // _PAGE_SIZE + 1, 1, 100_000)

    def payload() -> dict[str, Any]:
        part = replace(
            report,
            clusters=tuple(listed[(page - 1) * _PAGE_SIZE : page * _PAGE_SIZE]),
            outdated_decisions=report.outdated_decisions if visit.may_write else (),
        )
        return {
            "show": kind,
            "kinds": counts,
            "decided": values["decided"],
            "to_decide": values["to_decide"],
            "cluster": as_json(shown) if shown else None,
            "position": index + 1 if shown else 0,
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
    """Return the two compared texts and their locations."""
    chosen = [texts[0], texts[against - 1]] if len(texts) > 1 else [texts[0]]
    shown = [text.text.strip("\n")[:_MAX_TEXT_CHARS] for text in chosen]
    days = [
        max(member.date for member in cluster.texts if member.digest == text.digest)
        for text in chosen
    ]
    pieces = diff_texts(*shown) if len(shown) > 1 else ([(shown[0], False)],)
    sides = []
    for n, text in enumerate(chosen):
        places = [_place_values(member) for member in cluster.texts if member.digest == text.digest]
        side = {
            "number": 1 if n == 0 else against,
            "pieces": pieces[n],
            "is_cut": len(text.text) > _MAX_TEXT_CHARS,
            "is_marked_in_part": len(shown) > 1 and exceeds_diff_limit(shown[n]),
            "places": places[:_MAX_PLACES],
            "is_newest": n == 0 and len(days) > 1 and all(days) and days[0] > max(days[1:]),
        }
        sides.append(side)
    return sides


def _place_values(member: ClusterMember) -> dict[str, str]:
    span = (member.start_line, member.end_line)
    return {
        "href": note_address(member.folder, member.path, span),
        "words": f"{member.path} ({line_range(*span)})",
        "headings": " › ".join(member.heading_path),
        "date": member.date,
        "owner": member.owner,
        "folder": member.folder,
    }


def save_decision(visit: Visit) -> FormResult:
    """Store a decision about a cluster, and go to the next cluster of the list."""
    verdict: Verdict = "same" if visit.choice("verdict", ("same", "apart")) == "same" else "apart"
    decided = visit.library.decisions().decide(_cluster_id(visit), verdict, visit.text("note"))
    return FormResult(_next_address(visit, decided), as_json(decided))


def delete_decision(visit: Visit) -> FormResult:
    """Delete the decision about a cluster, and show the cluster."""
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
    raise UsageError("The `id` of the cluster is required.")


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
