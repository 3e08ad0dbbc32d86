"""The Health screen: duplicates to decide, broken links, and retired notes without a successor.

Its address is /checkup, because /health tells load balancers whether the server runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import PurePosixPath
from textwrap import shorten
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.model import (
    BrokenLink,
    BrokenReason,
    Cluster,
    ClusterMember,
    DuplicateReport,
    RetiredNote,
    Verdict,
)
from thumbindex.page.visit import FormResult, Screen, Visit, note_address, screen_address
from thumbindex.present.as_json import as_json, duplicates_payload
from thumbindex.present.clusters import diff_texts, exceeds_diff_limit, needs_decision
from thumbindex.present.sentences import retired_note_sentence
from thumbindex.text import line_range, plural
from thumbindex.visible_text import strip_markup

_CLUSTER_LISTS: Mapping[str, str] = {
    "open": "To decide",
    "contradictions": "Contradictions",
    "grey": "Similar",
    "merged": "Shown once",
    "decided": "Decided",
    "all": "All",
}
"""Titles of the lists of clusters. The first one contains the clusters that need a decision."""

_STEP = 10
"""Entries shown of each section at first, and added by each link to more."""

_MAX_PLACES, _FEW_PLACES = 30, 3
"""Maximum places of a text or link, in a comparison and in a list."""

_MAX_TEXT_CHARS = 20_000
"""Maximum characters shown of each of the two compared texts."""

_MAX_QUOTED_CHARS = 160

_MIN_SIMILARITY = 0.8
"""Minimum similarity of a broken link and the name of the note that is suggested for it."""

_LINK_EFFECTS: Mapping[BrokenReason, str] = {
    "missing note": "it opens nothing, and search cannot follow it",
    "missing heading": "it opens the note, but not at the heading",
    "missing block": "it opens the note, but not at the block",
    "private note": "others see a link to a missing note",
}
"""What happens if a broken link is left as it is."""


def checkup_screen(visit: Visit) -> Screen:
    """Show what makes answers worse, most harmful first, and take decisions about duplicates."""
    kind, folder = visit.choice("show", tuple(_CLUSTER_LISTS)), visit.texts("folder")
    limits = {name: visit.number(name, _STEP, 1, 100_000) for name in ("copies", "links", "old")}
    address: dict[str, Any] = {"show": "" if kind == "open" else kind, "folder": folder}
    address |= {name: limit if limit != _STEP else "" for name, limit in limits.items()}
    report, links, retired = _findings(visit, folder)
    groups = _by_target(links)
    listed = [cluster for cluster in report.clusters if _is_in_list(cluster, kind)]
    lengths = {"copies": len(listed), "links": len(groups), "old": len(retired)}
    counts = {
        name: sum(_is_in_list(cluster, name) for cluster in report.clusters)
        for name in _CLUSTER_LISTS
    }
    values: dict[str, Any] = {
        "kinds": [
            (title, counts[name], screen_address("checkup", **address | {"show": name}), name)
            for name, title in _CLUSTER_LISTS.items()
        ],
        "kind": kind,
        "counts": counts,
        **_copies(visit, report, listed[: limits["copies"]], listed, address),
        "links": [_link_item(visit, group) for group in groups[: limits["links"]]],
        "retired": [
            (note, note_address(note.folder, note.path), retired_note_sentence(note))
            for note in retired[: limits["old"]]
        ],
        "lengths": lengths,
        "more_href": {
            name: screen_address("checkup", **address | {name: limit + _STEP})
            if lengths[name] > limit
            else ""
            for name, limit in limits.items()
        },
        "several": len(visit.library.folders) > 1,
        "kept": [
            (name, item)
            for name, value in address.items()
            for item in (value if isinstance(value, tuple) else (value,))
            if item
        ],
        "indexed": visit.library.indexed,
        "pending": sum(state.pending for state in visit.library.index_states().values()),
        "export": screen_address("checkup.json", show="all", folder=folder),
    }
    return Screen(
        "Health",
        values,
        lambda: {
            "show": kind,
            "kinds": counts,
            **duplicates_payload(replace(report, clusters=tuple(listed))),
            "broken": as_json(tuple(link for group in groups for link in group)),
            "retired": as_json(tuple(retired)),
        },
    )


def _findings(
    visit: Visit, folder: Sequence[str]
) -> tuple[DuplicateReport, Sequence[BrokenLink], list[RetiredNote]]:
    """Return duplicates, broken links, and retired notes without a successor."""
    if not visit.library.indexed:
        return DuplicateReport((), (), 0, 0, 0), (), []
    report, broken, retired = visit.library.checkup(folder, for_owner=visit.is_owner)
    if not visit.may_write:
        report = replace(report, outdated_decisions=())
    # a written successor that is missing is a typing error, or a note that was renamed
    not_replaced = sorted(
        (note for note in retired.notes if not note.successor), key=lambda note: not note.missing
    )
    return report, broken.links, not_replaced


# ------------------------------------------------------------------ duplicates


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


def _copies(
    visit: Visit,
    report: DuplicateReport,
    shown: Sequence[Cluster],
    listed: Sequence[Cluster],
    address: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the shown clusters, the opened one, and the one decided last."""
    by_id = {cluster.id: cluster for cluster in report.clusters}
    opened, last = by_id.get(visit.text("at")), by_id.get(visit.text("last"))
    if opened and opened not in shown:
        shown = [opened, *shown]
    return {
        "items": [_item(cluster, address) for cluster in shown],
        "opened": opened,
        **(_comparison(visit, opened, listed, address) if opened else {}),
        "last": last and (last, _decision_sentence(last)),
        "outdated_decisions": report.outdated_decisions[:_MAX_PLACES],
    }


def _texts(cluster: Cluster) -> list[ClusterMember]:
    """Return one member for each different text."""
    return list({text.digest: text for text in cluster.texts}.values())


def _item(cluster: Cluster, address: Mapping[str, Any]) -> dict[str, Any]:
    places = plural(len(cluster.texts), "place")
    title = f"The same text in {places}"
    if cluster.differs:
        title = "They disagree: " + cluster.differs.replace("`", "")
    elif len(_texts(cluster)) > 1:
        title = f"Almost the same text in {places}"
    return {
        "cluster": cluster,
        "title": title,
        "effect": _decision_sentence(cluster) or _effect(cluster),
        "said": shorten(strip_markup(cluster.texts[0].text), _MAX_QUOTED_CHARS, placeholder=" …"),
        "places": [_place_values(text) for text in cluster.texts[:_FEW_PLACES]],
        "left": max(0, len(cluster.texts) - _FEW_PLACES),
        "href": screen_address("checkup", **address, at=cluster.id) + "#cluster",
    }


def _effect(cluster: Cluster) -> str:
    """Return what answers show if nothing is decided."""
    if cluster.differs:
        return "If you do nothing, both are shown, each with a note that they disagree."
    if cluster.zone == "same":
        return "If you do nothing, it is shown once, and the other places are listed below it."
    return "If you do nothing, they are shown as separate results."


def _decision_sentence(cluster: Cluster) -> str:
    if cluster.verdict is None:
        return ""
    verdict = "shown once" if cluster.verdict == "same" else "all are kept"
    return f"You decided: {verdict}{f' ({cluster.note})' if cluster.note else ''}."


def _comparison(
    visit: Visit, cluster: Cluster, listed: Sequence[Cluster], address: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the two compared texts, the addresses that compare others, and the next cluster."""
    index = listed.index(cluster) if cluster in listed else -1
    following = next((n.id for n in (*listed[index + 1 :], *listed[: max(index, 0)])), "")
    texts = _texts(cluster)
    against = min(visit.number("against", 2, 2, 10_000), max(2, len(texts)))
    addresses = [
        (n, n == against, screen_address("checkup", **address, at=cluster.id, against=n))
        for n in range(2, min(len(texts), _MAX_PLACES) + 1)
    ]
    return {
        "sides": _sides(cluster, texts, against),
        "others": addresses if len(texts) > 2 else (),
        "left_out": max(0, len(cluster.texts) - _MAX_PLACES),
        "following": following,
        "later": following and screen_address("checkup", **address, at=following),
    }


def _sides(cluster: Cluster, texts: Sequence[ClusterMember], against: int) -> list[dict[str, Any]]:
    """Return the two compared texts and their locations."""
    chosen = [texts[0], texts[against - 1]] if len(texts) > 1 else [texts[0]]
    shown = [text.text.strip("\n")[:_MAX_TEXT_CHARS] for text in chosen]
    pieces = diff_texts(*shown) if len(shown) > 1 else ([(shown[0], False)],)
    return [
        {
            "number": 1 if n == 0 else against,
            "pieces": pieces[n],
            "is_compared_in_part": len(text.text) > _MAX_TEXT_CHARS
            or (len(shown) > 1 and exceeds_diff_limit(shown[n])),
            "places": [
                _place_values(member) for member in cluster.texts if member.digest == text.digest
            ][:_MAX_PLACES],
        }
        for n, text in enumerate(chosen)
    ]


def _place_values(member: ClusterMember) -> dict[str, str]:
    span = (member.start_line, member.end_line)
    return {
        "href": note_address(member.folder, member.path, span),
        "title": " › ".join(member.heading_path) or member.path,
        "words": f"{member.path} ({line_range(*span)})",
        "date": member.date,
        "owner": member.owner,
    }


def save_decision(visit: Visit) -> FormResult:
    """Store a decision about a cluster, and open the one that the form names as the next."""
    verdict: Verdict = "same" if visit.choice("verdict", ("same", "apart")) == "same" else "apart"
    decided = visit.library.decisions().decide(_cluster_id(visit), verdict, visit.text("note"))
    return FormResult(_return_address(visit, visit.text("next"), decided.id), as_json(decided))


def delete_decision(visit: Visit) -> FormResult:
    """Delete the decision about a cluster, and open the cluster."""
    cluster = visit.library.decisions().decide(_cluster_id(visit), None)
    return FormResult(_return_address(visit, cluster.id), as_json(cluster))


def _cluster_id(visit: Visit) -> str:
    if id_ := visit.text("id"):
        return id_
    raise UsageError("The `id` of the cluster is required.")


def _return_address(visit: Visit, at: str, last: str = "") -> str:
    kept = {name: visit.texts(name) for name in ("folder", "copies", "links", "old")}
    kind = visit.choice("show", tuple(_CLUSTER_LISTS))
    shown = "" if kind == "open" else kind
    return screen_address("checkup", show=shown, **kept, at=at, last=last) + "#copies"


# ------------------------------------------------------------------ links


def _by_target(links: Sequence[BrokenLink]) -> list[list[BrokenLink]]:
    """Group links by target, the most frequent first: one new or renamed note repairs them all."""
    groups = defaultdict[tuple[str, str, str], list[BrokenLink]](list)
    for link in links:
        groups[link.folder, link.target, link.fragment].append(link)
    return sorted(groups.values(), key=lambda group: -len(group))


def _link_item(visit: Visit, group: Sequence[BrokenLink]) -> dict[str, Any]:
    link, suggested = group[0], ""
    if link.reason == "missing note" and (name := PurePosixPath(link.target).stem):
        paths = visit.library.similar_paths(link.target, folder=link.folder)
        suggested = next((path for path in paths if _is_similar(name, path)), "")
    return {
        "link": link,
        "effect": _LINK_EFFECTS[link.reason],
        "places": [
            (f"{at.path}, line {at.line}", note_address(at.folder, at.path, (at.line, at.line)))
            for at in group[:_FEW_PLACES]
        ],
        "left": max(0, len(group) - _FEW_PLACES),
        "suggested": suggested,
        "suggested_href": suggested and note_address(link.folder, suggested),
    }


def _is_similar(name: str, path: str) -> bool:
    names = name.casefold(), PurePosixPath(path).stem.casefold()
    return SequenceMatcher(None, *names).ratio() >= _MIN_SIMILARITY
