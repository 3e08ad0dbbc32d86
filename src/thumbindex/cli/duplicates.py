"""The command `duplicates`: what says the same, side by side, for the owner of the notes, who
decides; no note is written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer
from rich.table import Table
from rich.text import Text

from thumbindex.cli.options import JsonOption, open_for, opening_options, opening_or_engine_options
from thumbindex.cli.program import Program
from thumbindex.cli.terminal import (
    ProgressDisplay,
    print_json,
    print_line,
    print_text,
    stdout_console,
    strip_controls,
)
from thumbindex.errors import ModelError, UsageError
from thumbindex.model import Cluster, DuplicateReport, Verdict
from thumbindex.opening import OpenOptions
from thumbindex.present.as_json import as_json, duplicates_payload
from thumbindex.present.clusters import diff_texts
from thumbindex.present.exit_codes import FOUND, NOT_FOUND, exits_with_code, print_error
from thumbindex.text import plural

if TYPE_CHECKING:
    from thumbindex.library import Library


_LINES_SHOWN = 24
"""Lines of a text in a list: `--json` has all of it."""

_MARKS = ("[", "]")
"""What stands around differing words where there are no colors."""


def print_duplicates(found: DuplicateReport, grey: bool) -> None:
    """Print all clusters, outdated decisions, and how much it is of all."""
    for cluster in found.clusters:
        print_cluster(cluster)
    for each in found.outdated_decisions:
        print_line(
            f"outdated in {each.folder}: `{each.verdict}` of {' and '.join(each.places)}: a text "
            "is not there any more",
            "yellow",
        )
    share = f"{(found.merged + found.flagged) / found.chunks:.0%}" if found.chunks else "none"
    more = "" if grey or not found.flagged else " (--grey lists them)"
    merged, flagged = f"{found.merged:,} merged", f"{found.flagged:,} for you to decide{more}"
    clusters = plural(len(found.clusters), "cluster")
    print_line(f"{clusters}; of {plural(found.chunks, 'chunk')} {merged}, {flagged}: {share}")


def print_cluster(cluster: Cluster) -> None:
    """Print one cluster: its texts side by side, differing words marked, and where each stands."""
    print_summary(cluster)
    texts = list({text.digest: text for text in cluster.texts}.values())
    if len(texts) == 1:
        print_text(_shortened(texts[0].text))
    for other in texts[1:]:
        table = Table(show_header=False, expand=True, padding=(0, 1))
        table.add_column(ratio=1)
        table.add_column(ratio=1)
        table.add_row(
            *highlight_differences(
                _shortened(texts[0].text),
                _shortened(other.text),
                color=stdout_console().is_terminal,
            )
        )
        stdout_console().print(table)
    print_line("")


def print_summary(cluster: Cluster) -> None:
    """Print a cluster's id, the rule that decided, what was decided, and where its texts stand."""
    decided = (
        f"; decided: {cluster.verdict}{f' ({cluster.note})' if cluster.note else ''}"
        if cluster.verdict
        else ""
    )
    print_line(f"{cluster.id}  {cluster.zone}: {cluster.rule}{decided}", "bold")
    if cluster.differs:
        print_line(f"  these disagree: {cluster.differs}", "yellow")
    for text in cluster.texts:
        print_line(
            f"  {text.date or 'no date':10}  "
            f"{text.path}:{text.start_line}-{text.end_line}  "
            f"{' > '.join(text.heading_path)}",
            "dim",
        )


def highlight_differences(first: str, second: str, *, color: bool) -> tuple[Text, Text]:
    """Return two texts with the words marked that the other one has not: in color, or in brackets
    where there is none.
    """
    texts = (Text(), Text())
    for text, pieces in zip(texts, diff_texts(first, second), strict=True):
        for piece, is_different in pieces:
            if not is_different:
                text.append(piece)
            elif color:
                text.append(piece, "bold red")
            else:
                text.append(piece.join(_MARKS))
    return texts


def _shortened(text: str) -> str:
    lines = strip_controls(text.strip("\n")).split("\n")
    shown = "\n".join(lines[:_LINES_SHOWN])
    more = len(lines) - _LINES_SHOWN
    return f"{shown}\n… and {plural(more, 'line')} more" if more > 0 else shown


duplicates = Program(help="List what says the same, and decide what is to come once.")

ClusterArgument = Annotated[
    str, typer.Argument(metavar="CLUSTER", help="A cluster's id, or its first digits.")
]
GreyOption = Annotated[
    bool, typer.Option("--grey", help="Also what is alike and not merged: for you to decide.")
]

KEYS: dict[str, Verdict | None] = {"s": "same", "a": "apart", "k": None}
"""What a key of the review means; k keeps a cluster for later."""

_QUIT = ("q", "", "\x03", "\x04")


@duplicates.callback(invoke_without_command=True)
@opening_or_engine_options
def list_clusters(
    ctx: typer.Context, opening: OpenOptions, grey: GreyOption = False, as_json: JsonOption = False
) -> None:
    """List what says the same: side by side, with what differs marked, where each stands, and the
    rule that decided.
    """
    if ctx.invoked_subcommand is None:
        _list(ctx, opening, grey, as_json)


@exits_with_code
def _list(ctx: typer.Context, opening: OpenOptions, grey: bool, as_json: bool) -> int:
    with open_for(ctx, opening) as library:
        _bring_up_to_date(library)
        found = library.duplicates(grey=grey)
    if as_json:
        print_json(duplicates_payload(found))
    else:
        print_duplicates(found, grey)
    return FOUND if found.clusters else NOT_FOUND


@duplicates.command(
    "decide",
    examples=(
        "duplicates decide 3f2a same --folder notes",
        'duplicates decide 3f2a apart --note "two releases"',
    ),
)
@exits_with_code
@opening_options
def decide_cluster(
    ctx: typer.Context,
    opening: OpenOptions,
    cluster: ClusterArgument,
    verdict: Annotated[
        str, typer.Argument(metavar="same|apart", help="Come once in an answer, or each by itself.")
    ],
    note: Annotated[
        str, typer.Option("--note", metavar="TEXT", help="Why, for whoever reads the list later.")
    ] = "",
    as_json: JsonOption = False,
) -> int:
    """Decide that a cluster's texts are the same, or not.

    It holds until one of the texts changes.
    """
    if verdict not in ("same", "apart"):
        raise UsageError(f"{verdict!r} is no decision: say `same` or `apart`.")
    chosen: Verdict = "same" if verdict == "same" else "apart"
    with open_for(ctx, opening) as library:
        _show(library.decisions().decide(cluster, chosen, note), as_json)
    return FOUND


@duplicates.command("undo", examples=("duplicates undo 3f2a --folder notes",))
@exits_with_code
@opening_options
def undo_decision(
    ctx: typer.Context,
    opening: OpenOptions,
    cluster: ClusterArgument,
    as_json: JsonOption = False,
) -> int:
    """Take back what was decided of a cluster."""
    with open_for(ctx, opening) as library:
        _show(library.decisions().decide(cluster, None), as_json)
    return FOUND


@duplicates.command(examples=("duplicates review --folder notes",))
@exits_with_code
@opening_options
def review(
    ctx: typer.Context,
    opening: OpenOptions,
) -> int:
    """Go through what is not decided, a key for each.

    s same, a apart, k keep for later, q quit.
    """
    with open_for(ctx, opening) as library:
        _bring_up_to_date(library)
        found = library.duplicates(grey=True)
        waiting = [
            cluster
            for cluster in found.clusters
            if cluster.zone == "grey" and cluster.verdict is None
        ]
        decided = review_clusters(library, waiting, _keys())
        print_line(
            f"{decided} of {len(waiting)} decided; `thumbindex duplicates undo CLUSTER` takes "
            "one back."
        )
    return FOUND


def _bring_up_to_date(library: Library) -> None:
    try:
        with ProgressDisplay() as show:
            library.index(progress=show, after_others=True)
    except ModelError as error:
        print_error(f"{error} Listing what was found before.")


def _show(cluster: Cluster, in_json: bool) -> None:
    if in_json:
        print_json(as_json(cluster))
    else:
        print_summary(cluster)


def review_clusters(library: Library, waiting: list[Cluster], keys: Iterator[str]) -> int:
    """Ask of each cluster and keep each decision at once, so that an interruption loses none;
    return how many were made.
    """
    decided = 0
    for number, cluster in enumerate(waiting, 1):
        print_cluster(cluster)
        print_line(f"[{number} of {len(waiting)}] s same, a apart, k keep for later, q quit:")
        try:
            key = next((key for key in keys if key in KEYS or key in _QUIT), "")
        except (KeyboardInterrupt, click.Abort):
            return decided
        if key in _QUIT:
            return decided
        verdict = KEYS[key]
        if verdict:
            library.decisions([cluster.folder]).decide(cluster.id, verdict)
            decided += 1
    return decided


def _keys() -> Iterator[str]:
    """Yield keys as they are pressed; where nobody sits at a terminal, the first letter of each
    line.
    """
    if sys.stdin.isatty():
        read: Callable[[], Any] = click.getchar
        while True:
            yield str(read()).casefold()
    for line in sys.stdin:
        yield line.strip()[:1].casefold() or "k"
