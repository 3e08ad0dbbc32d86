"""Review: what says the same, or almost, side by side, for the owner of the notes to decide; no
note is written.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.model import Cluster, ClusterMember, DuplicateReport, Verdict
from thumbindex.page.visit import (
    Done,
    Screen,
    Visit,
    address,
    note_address,
)
from thumbindex.present.as_json import as_json, duplicates_payload
from thumbindex.present.clusters import by_priority, diff_texts, exceeds_diff_limit, needs_decision
from thumbindex.text import line_range

KINDS = ("open", "contradictions", "grey", "merged", "decided", "all")
"""What can be gone through: what waits for a decision first."""

_PAGE = 100
"""Clusters that the twin has at once."""

_PLACES = 30

_LONGEST_TEXT = 20_000
"""Characters of a text that are shown: the note has the rest."""


def show(visit: Visit) -> Screen:
    """Show one cluster with what differs, and how many are left."""
    kind, wanted, folder = visit.choice("show", KINDS), visit.text("at"), visit.texts("folder")
    found = _found(visit, folder)
    every = by_priority(found.clusters)
    listed = [each for each in every if _is_of(each, kind)]
    at = next((n for n, each in enumerate(listed) if each.id == wanted), 0)
    cluster = next((each for each in every if each.id == wanted), listed[at] if listed else None)
    before = [each for each in listed[:at] if each is not cluster]
    after = [each for each in listed[at + 1 :] if each is not cluster] or before
    counts = {each: sum(_is_of(one, each) for one in every) for each in KINDS}
    last = next((each for each in every if each.id == visit.text("last")), None)
    texts = list({each.digest: each for each in cluster.texts}.values()) if cluster else []
    against = visit.number("against", 2, 2, 10_000)
    here = {"show": "" if kind == "open" else kind, "folder": folder}
    others: list[tuple[int, bool, str]] = []
    if cluster and len(texts) > 2:
        for n in range(2, min(len(texts), _PLACES) + 1):
            href = address("review", **here | {"at": cluster.id, "against": n})
            others.append((n, n == against, href))
    values: dict[str, Any] = {
        "kinds": [
            (each, counts[each], address("review", **here | {"show": each})) for each in KINDS
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
        "left_out": max(0, len(cluster.texts) - _PLACES) if cluster else 0,
        "following": address("review", **here | {"at": after[0].id}) if after else "",
        "following_id": after[0].id if after else "",
        "last": last,
        "lapsed": found.lapsed[:_PLACES] if visit.may_write else (),
        "several": len(visit.library.folders) > 1,
        "narrowed": folder,
        "indexed": visit.library.indexed,
        "command": shlex.join(["thumbindex", "duplicates", "--grey", *visit.options(folder)]),
    }

    page = visit.number("page", at // _PAGE + 1, 1, 100_000)

    def twin() -> dict[str, Any]:
        part = replace(
            found,
            clusters=tuple(listed[(page - 1) * _PAGE : page * _PAGE]),
            lapsed=found.lapsed if visit.may_write else (),
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
            "pages": -(-len(listed) // _PAGE),
        }

    return Screen("Review", values, twin)


def _found(visit: Visit, folder: Sequence[str]) -> DuplicateReport:
    if not visit.library.indexed:
        return DuplicateReport((), (), 0, 0, 0)
    return visit.library.duplicates(folder, grey=True)


def _is_of(cluster: Cluster, kind: str) -> bool:
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
    """Return the two texts that are compared, each with the places where it stands."""
    chosen = [texts[0], texts[against - 1]] if len(texts) > 1 else [texts[0]]
    shown = [each.text.strip("\n")[:_LONGEST_TEXT] for each in chosen]
    days = [max(one.date for one in cluster.texts if one.digest == each.digest) for each in chosen]
    pieces = diff_texts(*shown) if len(shown) > 1 else ([(shown[0], False)],)
    sides = []
    for n, each in enumerate(chosen):
        places = [_place(one) for one in cluster.texts if one.digest == each.digest]
        side = {
            "number": 1 if n == 0 else against,
            "pieces": pieces[n],
            "is_cut": len(each.text) > _LONGEST_TEXT,
            "is_marked_in_part": len(shown) > 1 and exceeds_diff_limit(shown[n]),
            "places": places[:_PLACES],
            "is_newest": n == 0 and len(days) > 1 and all(days) and days[0] > max(days[1:]),
        }
        sides.append(side)
    return sides


def _place(standing: ClusterMember) -> dict[str, str]:
    span = (standing.start_line, standing.end_line)
    return {
        "href": note_address(standing.folder, standing.path, span),
        "words": f"{standing.path} ({line_range(*span)})",
        "headings": " › ".join(standing.heading_path),
        "date": standing.date,
        "owner": standing.owner,
        "folder": standing.folder,
    }


# ------------------------------------------------------------------ what is decided


def decide(visit: Visit) -> Done:
    """Decide of a cluster, and go on to the next one that is open."""
    verdict: Verdict = "same" if visit.choice("verdict", ("same", "apart")) == "same" else "apart"
    decided = visit.library.decisions().decide(_id(visit), verdict, visit.text("note"))
    return Done(_going_on(visit, decided), as_json(decided))


def undo(visit: Visit) -> Done:
    """Take back what was decided of a cluster, and show it."""
    cluster = visit.library.decisions().decide(_id(visit), None)
    return Done(
        address("review", show=_kind(visit), at=cluster.id, folder=visit.texts("folder")),
        as_json(cluster),
    )


def _id(visit: Visit) -> str:
    if id_ := visit.text("id"):
        return id_
    raise UsageError("Of which cluster? Its id is missing.")


def _kind(visit: Visit) -> str:
    kind = visit.choice("show", KINDS)
    return "" if kind == "open" else kind


def _going_on(visit: Visit, decided: Cluster) -> str:
    return address(
        "review",
        show=_kind(visit),
        folder=visit.texts("folder"),
        at=visit.text("next"),
        last=decided.id,
    )
