"""The command `duplicates`: list similar passages and decide which are the same.

No note is changed.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer
from rich.table import Table
from rich.text import Text

from thumbindex.cli.options import JsonOption, open_for, opening_options, opening_or_engine_options
from thumbindex.cli.program import Program
from thumbindex.cli.terminal import (
    ProgressDisplay,
    location_text,
    print_json,
    print_line,
    print_text,
    shown_path,
    stdout_console,
)
from thumbindex.errors import ModelError, UsageError
from thumbindex.model import Cluster, DuplicateReport, Verdict
from thumbindex.opening import OpenOptions
from thumbindex.present.as_json import duplicates_payload
from thumbindex.present.clusters import diff_texts
from thumbindex.present.exit_codes import FOUND, NOT_FOUND, exits_with_code, print_error
from thumbindex.text import plural, printable_line, strip_controls

if TYPE_CHECKING:
    from thumbindex.library import Library


_MAX_LINES = 24
"""Maximum lines printed of each text; `--json` prints all."""

_BRACKETS = ("[", "]")
"""Brackets around differing words when there are no colors."""


Roots = Mapping[str, Path]
"""The paths of the folders, by name."""


def print_duplicates(
    report: DuplicateReport, roots: Roots, grey: bool, limit: int, show_command: str
) -> None:
    """Print a line per cluster, outdated decisions, and the number of duplicates."""
    for cluster in report.clusters[:limit]:
        stdout_console().print(_cluster_line(cluster, roots), soft_wrap=True)
    if more := len(report.clusters[limit:]):
        print_line(f"and {plural(more, 'more cluster')} (--limit)", "dim")
    if report.clusters:
        print_line(f"To see all of a cluster, run `{show_command}`.", "dim")
    for decision in report.outdated_decisions:
        places = (shown_path(roots, decision.folder, place) for place in decision.places)
        print_line(
            f"Outdated decision: `{decision.verdict}` for {' and '.join(places)}. "
            "One of these passages no longer exists.",
            "yellow",
        )
    repeated = report.merged + report.flagged
    share = f" ({repeated / report.chunks:.0%})" if report.chunks else ""
    hint = "" if grey or not report.flagged else " (--grey lists them)"
    print_line(
        f"{plural(len(report.clusters), 'cluster')}. Duplicates: {repeated:,} of "
        f"{plural(report.chunks, 'passage')}{share}: {report.merged:,} merged, "
        f"{report.flagged:,} for you to decide{hint}"
    )


def _cluster_line(cluster: Cluster, roots: Roots) -> Text:
    """Return a cluster's id, state, number of passages and newest passage."""
    first = cluster.texts[0]
    state = cluster.verdict or ("disagree" if cluster.differs else cluster.zone)
    return Text.assemble(
        (f"{cluster.id}  {state:8}  {plural(len(cluster.texts), 'passage')}  ", "dim"),
        location_text(roots, first.folder, first.path, first.start_line),
        (f"  {printable_line(' > '.join(first.heading_path))}", "dim"),
    )


def print_cluster(cluster: Cluster, roots: Roots) -> None:
    """Print a cluster's summary, then its first text beside each other text, differences marked."""
    print_summary(cluster, roots)
    texts = list({text.digest: text for text in cluster.texts}.values())
    if len(texts) == 1:
        print_text(_shorten(texts[0].text))
    for other in texts[1:]:
        table = Table(show_header=False, expand=True, padding=(0, 1))
        table.add_column(ratio=1)
        table.add_column(ratio=1)
        table.add_row(
            *highlight_differences(
                _shorten(texts[0].text),
                _shorten(other.text),
                color=stdout_console().is_terminal,
            )
        )
        stdout_console().print(table)
    print_line("")


def print_summary(cluster: Cluster, roots: Roots) -> None:
    """Print a cluster's id, rule, decision, and the locations of its texts."""
    decided = (
        f"; decided: {cluster.verdict}{f' ({cluster.note})' if cluster.note else ''}"
        if cluster.verdict
        else ""
    )
    print_line(f"{cluster.id}  {cluster.zone}: {cluster.rule}{decided}", "bold")
    if cluster.differs:
        print_line(f"  these disagree: {cluster.differs}", "yellow")
    for text in cluster.texts:
        place = location_text(roots, text.folder, text.path, text.start_line)
        headings = printable_line(" > ".join(text.heading_path))
        day = f"  {text.date or 'no date':10}  "
        stdout_console().print(
            Text.assemble((day, "dim"), place, (f"  {headings}", "dim")), soft_wrap=True
        )


def highlight_differences(first: str, second: str, *, color: bool) -> tuple[Text, Text]:
    """Return two texts with their differing words marked, in color or in brackets."""
    texts = (Text(), Text())
    for text, pieces in zip(texts, diff_texts(first, second), strict=True):
        for piece, is_different in pieces:
            if not is_different:
                text.append(piece)
            elif color:
                text.append(piece, "bold red")
            else:
                text.append(piece.join(_BRACKETS))
    return texts


def _shorten(text: str) -> str:
    lines = strip_controls(text.strip("\n")).split("\n")
    text_shown = "\n".join(lines[:_MAX_LINES])
    hidden = len(lines) - _MAX_LINES
    return f"{text_shown}\n… and {plural(hidden, 'line')} more" if hidden > 0 else text_shown


class _Screen(io.StringIO):
    """What a terminal would show."""

    def isatty(self) -> bool:
        """Return True, so that colors stay."""
        return True


@contextmanager
def _pager() -> Iterator[None]:
    """Show the output in $PAGER if it is longer than the terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        yield
        return
    with redirect_stdout(_Screen()) as screen:
        yield
    text = screen.getvalue()
    if text.count("\n") < stdout_console().height:
        sys.stdout.write(text)
    else:
        click.echo_via_pager(text, color=True)


duplicates = Program(help="List duplicate passages and decide which are the same.")

ClusterArgument = Annotated[
    str, typer.Argument(metavar="CLUSTER", help="A cluster's id, or its first characters.")
]
GreyOption = Annotated[
    bool, typer.Option("--grey", help="Also list similar passages that you have to decide about.")
]

KEYS: dict[str, Verdict | None] = {"s": "same", "a": "apart", "k": None}
"""The verdict for each key in a review; `k` leaves the cluster undecided."""

_QUIT = ("q", "", "\x03", "\x04")


@duplicates.callback(invoke_without_command=True)
@opening_or_engine_options
def list_clusters(
    ctx: typer.Context,
    opening: OpenOptions,
    grey: GreyOption = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, metavar="N", help="Maximum clusters to print.")
    ] = 20,
    as_json: JsonOption = False,
) -> None:
    """List clusters of duplicate passages, one per line.

    Contradictions and large clusters come first. Exact vectors are computed first.
    """
    if ctx.invoked_subcommand is None:
        _list(ctx, opening, grey, limit, as_json)


@exits_with_code
def _list(ctx: typer.Context, opening: OpenOptions, grey: bool, limit: int, as_json: bool) -> int:
    with open_for(ctx, opening) as library:
        _bring_up_to_date(library)
        report = library.duplicates(grey=grey)
        roots = dict(library.folders)
    if as_json:
        print_json(duplicates_payload(report))
    else:
        show_command = opening.command("duplicates show CLUSTER")
        print_duplicates(report, roots, grey, limit, show_command)
    return FOUND if report.clusters else NOT_FOUND


@duplicates.command("show", examples=("duplicates show 3f2a --folder notes",))
@exits_with_code
@opening_or_engine_options
def show_cluster(ctx: typer.Context, opening: OpenOptions, cluster: ClusterArgument) -> int:
    """Show the passages of a cluster side by side.

    Marks differing words. Long output is shown in $PAGER; set PAGER=cat for none.
    """
    with open_for(ctx, opening) as library, _pager():
        print_cluster(library.decisions().find(cluster), dict(library.folders))
    return FOUND


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
        str,
        typer.Argument(
            metavar="same|apart", help="Show them once in an answer, or show each of them."
        ),
    ],
    note: Annotated[
        str, typer.Option("--note", metavar="TEXT", help="The reason, shown in the list.")
    ] = "",
) -> int:
    """Decide whether the passages of a cluster are the same.

    The decision holds until one of the passages changes.
    """
    if verdict not in ("same", "apart"):
        raise UsageError(f"Unknown decision {verdict!r}: use `same` or `apart`.")
    chosen: Verdict = "same" if verdict == "same" else "apart"
    with open_for(ctx, opening) as library:
        decided = library.decisions().decide(cluster, chosen, note)
        done = "Shown once." if chosen == "same" else "Kept apart."
        _print_decision(library, decided, done)
    return FOUND


@duplicates.command("undo", examples=("duplicates undo 3f2a --folder notes",))
@exits_with_code
@opening_options
def undo_decision(
    ctx: typer.Context,
    opening: OpenOptions,
    cluster: ClusterArgument,
) -> int:
    """Undo the decision about a cluster."""
    with open_for(ctx, opening) as library:
        undone = library.decisions().decide(cluster, None)
        _print_decision(library, undone, "Decision undone.")
    return FOUND


@duplicates.command(examples=("duplicates review --folder notes",))
@exits_with_code
@opening_options
def review(
    ctx: typer.Context,
    opening: OpenOptions,
) -> int:
    """Review undecided clusters one by one.

    Keys: s same, a apart, k keep for later, q quit.
    """
    with open_for(ctx, opening) as library:
        _bring_up_to_date(library)
        report = library.duplicates(grey=True)
        undecided = list(filter(_is_undecided, report.clusters))
        decided = review_clusters(library, undecided, _keys())
        print_line(
            f"{decided} of {len(undecided)} decided. To undo one, run "
            f"`{opening.command('duplicates undo CLUSTER')}`."
        )
    return FOUND


def _is_undecided(cluster: Cluster) -> bool:
    return cluster.zone == "grey" and cluster.verdict is None


def _bring_up_to_date(library: Library) -> None:
    pending = sum(state.pending for state in library.index_states().values())
    if pending:
        print_error(f"First, {pending:,} missing exact vectors are computed.", color=None)
    try:
        with ProgressDisplay() as show:
            library.index(progress=show, after_others=True)
    except ModelError as error:
        print_error(f"{error} Listing the duplicates that were found earlier.")


def _print_decision(library: Library, cluster: Cluster, done: str) -> None:
    print_line(done)
    print_summary(cluster, dict(library.folders))


def review_clusters(library: Library, undecided: list[Cluster], keys: Iterator[str]) -> int:
    """Ask about each cluster and return the number of decisions.

    Each decision is saved immediately, so an interruption loses none.
    """
    decided = 0
    for number, cluster in enumerate(undecided, 1):
        print_cluster(cluster, dict(library.folders))
        print_line(f"[{number} of {len(undecided)}] s same, a apart, k keep for later, q quit:")
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
    """Yield pressed keys. Without a terminal, yield the first letter of each line of stdin."""
    if sys.stdin.isatty():
        read_key: Callable[[], Any] = click.getchar
        while True:
            yield str(read_key()).casefold()
    for line in sys.stdin:
        yield line.strip()[:1].casefold() or "k"
