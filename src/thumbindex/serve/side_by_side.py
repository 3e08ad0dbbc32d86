"""Clusters of duplicates as people and programs read them: texts side by side, what differs marked."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Any

from rich.table import Table
from rich.text import Text

from thumbindex.model import Cluster, Decision, DuplicatesFound, Standing
from thumbindex.serve.render import output, plain

_LINES_SHOWN = 24
"""Lines of a text in a list: `--json` has all of it."""

_PIECES = re.compile(r"\s+|\w+|[^\w\s]+")

_MARKS = ("[", "]")
"""What stands around differing words where there are no colors."""


def duplicates_payload(found: DuplicatesFound) -> dict[str, Any]:
    """Return what `duplicates --json` prints."""
    return {
        "clusters": [cluster_payload(each) for each in found.clusters],
        "lapsed": [lapsed_payload(folder, each) for folder, each in found.lapsed],
        "chunks": found.chunks,
        "merged": found.merged,
        "flagged": found.flagged,
        "share": round((found.merged + found.flagged) / found.chunks, 4) if found.chunks else 0.0,
    }


def cluster_payload(cluster: Cluster) -> dict[str, Any]:
    """Return one cluster."""
    return {
        "id": cluster.id,
        "folder": cluster.folder,
        "zone": cluster.zone,
        "rule": cluster.rule,
        "differs": cluster.differs,
        "cosine": round(cluster.cosine, 4),
        "verdict": cluster.verdict,
        "note": cluster.note,
        "texts": [_standing_payload(each) for each in cluster.standings],
    }


def lapsed_payload(folder: str, decision: Decision) -> dict[str, Any]:
    """Return a decision of which a text is nowhere any more."""
    return {"folder": folder, "verdict": decision.verdict, "note": decision.note, "places": [decision.first_place, decision.second_place]}


def print_found(found: DuplicatesFound, grey: bool) -> None:
    """Print all clusters, what has lapsed, and how much it is of all."""
    for cluster in found.clusters:
        print_cluster(cluster)
    for folder, each in found.lapsed:
        print_line(f"lapsed in {folder}: `{each.verdict}` of {each.first_place} and {each.second_place}: a text is not there any more", "yellow")
    share = f"{(found.merged + found.flagged) / found.chunks:.0%}" if found.chunks else "none"
    more = "" if grey or not found.flagged else " (--grey lists them)"
    merged, flagged = f"{found.merged:,} merged", f"{found.flagged:,} for you to decide{more}"
    clusters = f"{len(found.clusters):,} cluster{'' if len(found.clusters) == 1 else 's'}"
    print_line(f"{clusters}; of {found.chunks:,} chunks {merged}, {flagged}: {share}")


def print_cluster(cluster: Cluster) -> None:
    """Print one cluster: its texts side by side, differing words marked, and where each stands."""
    print_summary(cluster)
    texts = list({each.digest: each for each in cluster.standings}.values())
    if len(texts) == 1:
        _say(Text(_shortened(texts[0].text)))
    for other in texts[1:]:
        table = Table(show_header=False, expand=True, padding=(0, 1))
        table.add_column(ratio=1)
        table.add_column(ratio=1)
        table.add_row(*differing_words(_shortened(texts[0].text), _shortened(other.text), color=output().is_terminal))
        output().print(table)
    print_line("")


def print_summary(cluster: Cluster) -> None:
    """Print a cluster's id, the rule that decided, what was decided, and where its texts stand."""
    decided = f"; decided: {cluster.verdict}{f' ({cluster.note})' if cluster.note else ''}" if cluster.verdict else ""
    print_line(f"{cluster.id}  {cluster.zone}: {cluster.rule}{decided}", "bold")
    if cluster.differs:
        print_line(f"  these disagree: {cluster.differs}", "yellow")
    for each in cluster.standings:
        place = each.place
        print_line(f"  {each.date}  {place.path}:{place.start_line}-{place.end_line}  {' > '.join(each.heading_path)}", "dim")


def differing_words(first: str, second: str, *, color: bool) -> tuple[Text, Text]:
    """Return two texts with the words marked that the other one has not: in color, or in brackets where there is none."""
    left, right = _PIECES.findall(first), _PIECES.findall(second)
    matcher = SequenceMatcher(None, [_key(each) for each in left], [_key(each) for each in right], autojunk=False)
    texts = (Text(), Text())
    for operation, a, b, c, d in matcher.get_opcodes():
        for text, piece in zip(texts, ("".join(left[a:b]), "".join(right[c:d])), strict=True):
            if operation == "equal" or not piece.strip():
                text.append(piece)
            elif color:
                text.append(piece, "bold red")
            else:
                text.append(piece.join(_MARKS))
    return texts


def print_line(text: str, style: str = "") -> None:
    """Print one line, without what could move a terminal's cursor."""
    _say(Text(plain(text), style=style))


def _say(text: Text) -> None:
    output().print(text, soft_wrap=True)


def _key(piece: str) -> str:
    """Return what a piece is compared by: all white space is one."""
    return " " if piece.isspace() else piece


def _shortened(text: str) -> str:
    lines = plain(text.strip("\n")).split("\n")
    return "\n".join(lines[:_LINES_SHOWN]) + (f"\n… {len(lines) - _LINES_SHOWN} more lines" if len(lines) > _LINES_SHOWN else "")


def _standing_payload(each: Standing) -> dict[str, Any]:
    place = each.place
    return {
        "path": place.path,
        "start_line": place.start_line,
        "end_line": place.end_line,
        "heading_path": list(each.heading_path),
        "date": each.date,
        "digest": each.digest,
        "text": each.text,
    }
