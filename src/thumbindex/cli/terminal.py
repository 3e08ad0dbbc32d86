"""Print to a terminal: reports, tables and progress; colors on a terminal, plain when piped.

`answers` prints answers.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath, PureWindowsPath
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.style import Style
from rich.table import Table
from rich.text import Text

from thumbindex import library, model
from thumbindex.config import NO_ROOT
from thumbindex.model import (
    FolderStatus,
    IndexReport,
    IngestionCounts,
    NoteList,
    StageRank,
    WhyReport,
)
from thumbindex.opening import is_local_path
from thumbindex.present.sentences import (
    NO_MARKDOWN,
    database_sentence,
    filter_lines,
    folder_state_sentence,
    folder_warning_lines,
    list_lines,
    outcome_sentence,
    phase_words,
    problem_lines,
    progress_sentence,
    why_details,
)
from thumbindex.process import current_folder, remote_command
from thumbindex.text import escape_breaks, one_line

if TYPE_CHECKING:
    from thumbindex.evaluation.report import ReportTable


_EVERY_SECONDS = 10.0
"""Between two plain lines about one phase: a log of an hour's indexing stays readable."""


class ProgressDisplay:
    """Shows how far a run is; call it with each Progress, inside a `with`."""

    def __init__(self) -> None:
        self._console = Console(**console_streams(stderr=True), soft_wrap=True, highlight=False)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self._bars = (
            Progress(*columns, console=self._console, transient=True)
            if self._console.is_terminal
            else None
        )
        self._tasks: dict[str, TaskID] = {}
        self._printed: dict[str, float] = {}

    def __enter__(self) -> ProgressDisplay:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bars and self._tasks:
            self._bars.stop()

    def __call__(self, progress: model.Progress) -> None:
        """Show one step."""
        folder = one_line(progress.folder)
        name = f"{folder}: {progress.phase}"
        if progress.phase == "waiting":
            if time.monotonic() - self._printed.get(name, -_EVERY_SECONDS) >= _EVERY_SECONDS:
                self._printed[name] = time.monotonic()
                whom = "another process that is writing"
                if progress.pid:
                    far = (
                        f", {progress.done:,} of {progress.total:,} so far"
                        if progress.total
                        else ""
                    )
                    whom = (
                        f"another process (pid {progress.pid}) that is indexing this folder{far}; "
                        "Ctrl-C ends the waiting and nothing else"
                    )
                self._console.print(f"{name} for {whom}", markup=False)
        elif self._bars:
            if not self._tasks:  # where nothing is to be shown, nothing moves the cursor
                self._bars.start()
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(
                    f"{folder}: {phase_words(progress.phase)}", total=progress.total
                )
            self._bars.update(self._tasks[name], completed=progress.done, total=progress.total)
        elif progress.total:
            now = time.monotonic()
            if (
                progress.done == progress.total
                or now - self._printed.get(name, now - _EVERY_SECONDS) >= _EVERY_SECONDS
            ):
                self._printed[name] = now
                self._console.print(f"{folder}: {progress_sentence(progress)}", markup=False)


_PIPED_WIDTH = 160
"""Columns of a table that no terminal limits."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters in notes could move the cursor or rename the window of whoever reads them."""

WARNING = "red"
"""The color of what is wrong or lacking: it is read on a light and on a dark background, as yellow
is not.
"""


def print_list(found: NoteList, limit: int | None, several: bool = False) -> None:
    """Print a line a note, the newest first."""
    for line in list_lines(found.notes[:limit], several):
        print_line(line)
    for line in filter_lines((), found.unmet, found.undated):
        print_line(line, "bold")
    if limit is not None and len(found.notes) > limit:
        print_line(f"{len(found.notes) - limit:,} more: a higher --limit shows them", "dim")


def print_report(report: IndexReport, broken: str) -> None:
    """Print what a run of indexing did; `broken` is the command that lists the links that lead
    nowhere.
    """
    print_line(
        f"documents: {report.added:,} added, {report.changed:,} changed, {report.removed:,} "
        f"removed, {report.unchanged:,} unchanged"
    )
    named = f": `{broken}` names them" if report.links.dangling else ""
    print_line(
        f"links: {report.links.resolved:,} resolved, {report.links.dangling:,} broken{named}"
    )
    made = ""
    if report.embedded or report.reused:
        made = (
            f"; vectors, to find them by meaning: {report.embedded:,} new, {report.reused:,} "
            "known from before"
        )
    print_line(f"chunks: {report.chunks:,} in all{made}")
    if report.truncated:
        are = "chunk is" if report.truncated == 1 else "chunks are"
        print_line(
            f"{report.truncated:,} {are} longer than the model reads: by meaning, only the "
            "beginning is found"
        )
    if not report.chunks and not report.skipped:
        print_line(NO_MARKDOWN, WARNING)
    for line in problem_lines(report.skipped):
        print_line(f"  {line}", WARNING)
    print_line(f"{report.seconds:.1f} s", "dim")


def print_status(folders: Sequence[FolderStatus]) -> None:
    """Print a table of indexes, and below it what could not be read."""
    if not folders:
        print_line("no index yet: `thumbindex index --folder DIR` makes one")
        return
    rows = table(
        "folder",
        "documents",
        "chunks",
        "vectors",
        "model",
        "size",
        "state",
        right=("documents", "chunks", "vectors", "size"),
    )
    for folder in folders:
        state = folder.index
        size = f"{folder.size_bytes / 1e6:,.1f} MB"
        rows.add_row(
            folder.folder,
            f"{state.documents:,}",
            f"{state.chunks:,}",
            f"{state.vectors:,}",
            state.model or "-",
            size,
            folder_state_sentence(folder),
        )
    stdout_console().print(rows)
    for each in folders:
        print_line(f"{each.folder}: notes in {each.root}, index in {each.location}", "dim")
        _print_ingestion(each.ingestion)
        for warning in folder_warning_lines(each):
            print_line(f"  {warning}", WARNING)
    for said in dict.fromkeys(
        database_sentence(each.database) for each in folders if each.database
    ):
        print_line(said, "dim")


def _print_ingestion(counts: Sequence[IngestionCounts]) -> None:
    """Say what was left out of the search as repeats, by type of document where there are several,
    and what of it is more than is healthy.
    """

    if any(count.repeats for count in counts):
        print_line(library.ingestion_words(counts), "dim")
    for each in counts if len(counts) > 1 else ():
        if each.repeats:
            print_line(f"  {each.type or 'no type'}: {library.ingestion_words([each])}", "dim")
    for sentence in (
        sentence for count in counts for sentence in library.ingestion_warnings(count)
    ):
        print_line(f"  {sentence}", WARNING)


def print_forgotten(folders: Sequence[FolderStatus]) -> None:
    """Say which indexes are gone."""
    for folder in folders:
        print_line(f"forgotten: {folder.folder} ({folder.root}), {folder.size_bytes / 1e6:,.1f} MB")
    if not folders:
        print_line("nothing to forget: there is no index of this folder")


def print_tables(tables: Sequence[ReportTable]) -> None:
    """Print what an evaluation found, each table below its title."""
    for each in tables:
        print_line(each.title, "bold")
        rows = table(*each.columns)
        for row in each.rows:
            rows.add_row(*row)
        stdout_console().print(rows)
        for note in each.notes:
            print_line(note, "dim")
        print_line("")


def print_json(payload: Mapping[str, Any]) -> None:
    """Print JSON: UTF-8 as it is, any other encoding as ASCII.

    Escaped is what would turn or break a line where it is read, and a file name that is not UTF-8.
    """
    asked = remote_command()
    stdout = asked.stdout if asked else sys.stdout
    text = json.dumps(
        payload, ensure_ascii=stdout.encoding.lower() not in {"utf-8", "utf8"}, indent=2
    )
    for line in text.split("\n"):
        stdout.write(escape_breaks(line).encode("utf-8", "backslashreplace").decode("utf-8") + "\n")


def print_why(found: WhyReport, several: bool = False) -> None:
    """Print what became of a note, and where it stood after each stage."""
    print_line(outcome_sentence(found, several), "bold")
    if found.stages:
        print_line("")
        rows = table("stage", "rank", "score", "line")
        for stage in found.stages:
            line = "-" if stage.line is None else str(stage.line)
            rows.add_row(stage.stage, rank_text(stage), score_text(stage.score), line)
        stdout_console().print(rows)
        print_line("")
    for line in why_details(found):
        print_line(line)


def rank_text(found: StageRank) -> str:
    """Return a rank and among how many it is."""
    return f"{'-' if found.rank is None else found.rank} of {found.of}"


def score_text(value: float | None) -> str:
    """Return a score as it is printed."""
    return "-" if value is None else f"{value:.3f}"


class _OneLineTable(Table):
    """A table whose cells are one line each."""

    def add_row(self, *cells: Any, **how: Any) -> None:
        """Add a row."""
        super().add_row(
            *(printable_line(cell) if isinstance(cell, str) else cell for cell in cells), **how
        )


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """Return a table with these columns, all but the first one on the right unless some are
    named.
    """
    made = _OneLineTable(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        made.add_column(
            column,
            justify="right" if column in right or (not right and number) else "left",
            overflow="fold",
        )
    return made


class _Output(Console):
    """Standard output; a reader that leaves is the command's to handle, not rich's."""

    def on_broken_pipe(self) -> None:
        """Pass the error on."""
        raise BrokenPipeError


def stdout_console() -> Console:
    """Return where everything is printed: as wide as the terminal, or as no terminal limits."""
    console = _Output(**console_streams(), highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        return console
    return _Output(
        **console_streams(), highlight=False, markup=False, emoji=False, width=_PIPED_WIDTH
    )


def console_streams(stderr: bool = False) -> dict[str, Any]:
    """Return for a console where it prints: on this process's streams, or on those of a command
    that this one answers.
    """
    asked = remote_command()
    if asked:
        return {"file": asked.stderr if stderr else asked.stdout, "_environ": asked.terminal}
    return {"stderr": stderr}


def print_line(text: str, style: str = "") -> None:
    """Print one line, whatever names are in it."""
    stdout_console().print(Text(printable_line(text), style=style), soft_wrap=True)


def print_text(text: str) -> None:
    """Print lines of a note, without what could move a terminal's cursor."""
    stdout_console().print(Text(strip_controls(text)), soft_wrap=True)


def printable_line(text: str) -> str:
    """Return a text as part of one line, as a terminal may show it."""
    return strip_controls(one_line(text))


def strip_controls(text: str) -> str:
    """Return a text without what could move a terminal's cursor."""
    return _CONTROL.sub("", text.encode("utf-8", "backslashreplace").decode("utf-8"))


# ------------------------------------------------------------------ a place, which is a link

PATH, LINE = "magenta", "green"
"""The colors of `grep` for a path and a line number: both are read on a light and on a dark
background.
"""


def location_text(path: Path, line: int) -> Text:
    """Return a place as `path:line`, on a terminal a link to a file of this machine."""
    link = file_url(path) if is_local_path(path) else None
    return Text.assemble(
        (printable_line(relative_path(path)), Style.parse(PATH) + Style(link=link)),
        (f":{line}", LINE),
    )


def relative_path(path: Path) -> str:
    """Return a path as it is opened from the current directory: whole where it lies outside of
    that, behind its folder's name in a database.
    """
    if not is_local_path(path):
        return path.relative_to(NO_ROOT).as_posix()
    here = Path(current_folder())
    near = str(path.relative_to(here)) if here in path.parents else str(path)
    return f".{os.sep}{near}" if near.startswith("-") else near


def file_url(path: PurePath) -> str:
    """Return a file's address with the name of its machine: a terminal that shows another machine's
    screen must not open a file of its own.
    """
    if isinstance(path, PureWindowsPath):  # a name there would mean a share
        return path.as_uri()
    return f"file://{quote(platform.node())}{quote(os.fsencode(path))}"
