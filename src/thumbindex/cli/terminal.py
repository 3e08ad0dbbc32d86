"""Print reports, tables and progress, with colors on a terminal. `print_answers` prints answers."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath, PureWindowsPath
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from rich.cells import cell_len, set_cell_size
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
    PropertyCount,
    WhyReport,
)
from thumbindex.opening import OpenOptions, is_local_path
from thumbindex.present.sentences import (
    FEW_PROBLEMS,
    NO_MARKDOWN,
    filter_lines,
    folder_state_sentence,
    folder_warning_lines,
    list_lines,
    phase_words,
    problem_lines,
    problems_hint,
    progress_sentence,
    why_details,
    why_summary,
)
from thumbindex.process import console_streams, current_folder, remote_command
from thumbindex.text import (
    escape_breaks,
    one_line,
    plural,
    printable_line,
    strip_controls,
    wrap_words,
)

if TYPE_CHECKING:
    from thumbindex.evaluation.report import ReportTable


_LINE_INTERVAL_SECONDS = 10.0
"""Minimum interval between two lines about the same phase, to keep logs short."""


class ProgressDisplay:
    """Shows the progress of indexing. Use it in a `with` block, and call it with each Progress."""

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
        self._next: dict[str, float] = {}  # when the next line about a phase may be printed
        self._saves_work = False

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
        if isinstance(error, KeyboardInterrupt) and self._saves_work:
            error.add_note("Notes indexed so far are kept; the next run continues from there.")

    def __call__(self, progress: model.Progress) -> None:
        """Show one step."""
        folder = one_line(progress.folder)
        name = f"{folder}: {progress.phase}"
        self._saves_work |= progress.phase not in ("waiting", "asking")
        if progress.phase == "waiting":
            writer = "another process that is writing"
            if progress.pid:
                writer = f"another process (pid {progress.pid}) that is indexing this folder"
                if progress.total:
                    writer += f", {progress.done:,} of {progress.total:,} so far"
                writer += "; Ctrl-C only stops waiting"
            self._print(name, f"{name} for {writer}")
        elif self._bars:
            if not self._tasks:  # starting moves the cursor
                self._bars.start()
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(
                    f"{folder}: {phase_words(progress.phase)}", total=progress.total
                )
            self._bars.update(self._tasks[name], completed=progress.done, total=progress.total)
        elif progress.total:
            is_last = progress.done == progress.total
            self._print(name, f"{folder}: {progress_sentence(progress)}", is_last)

    def _print(self, name: str, line: str, is_last: bool = False) -> None:
        """Print a line about a phase, unless the last one is recent."""
        now = time.monotonic()
        if is_last or now >= self._next.get(name, 0.0):
            self._next[name] = now + _LINE_INTERVAL_SECONDS
            self._console.print(line, markup=False)


_PIPED_WIDTH = 160
"""Columns of a table without a terminal."""

WARNING = "red"
"""Color of warnings. Unlike yellow, red is readable on light and dark backgrounds."""


def print_list(listing: NoteList, limit: int | None, roots: Mapping[str, Path]) -> None:
    """Print one line per note, or a table if the notes have columns.

    `roots` maps folder names to paths.
    """
    lacking = [unmet for unmet in listing.unmet if unmet.value.startswith("has:")]
    for line in filter_lines((), lacking, 0):
        print_line(line, "bold")
    notes = [
        replace(note, path=shown_path(roots, note.folder, note.path))
        for note in listing.notes[:limit]
    ]
    if notes and (keys := notes[0].properties):
        rows = [["path", *keys]]
        for note in notes:
            rows.append([note.path, *(", ".join(note.properties[key]) for key in keys)])
        print_table(rows)
    else:
        for line in list_lines(notes):
            print_row(line)
    others = [unmet for unmet in listing.unmet if unmet not in lacking]
    for line in filter_lines((), others, listing.undated):
        print_line(line, "bold")
    if limit is not None and len(listing.notes) > limit:
        print_line(f"{len(listing.notes) - limit:,} more: use a higher --limit", "dim")


def print_properties(counts: Sequence[PropertyCount], *, of_key: bool) -> None:
    """Print one line per property, or per value of the asked one."""
    if not counts:
        print_line("No note has this property." if of_key else "No note has properties.", "dim")
    elif of_key:
        pairs = [(count.key, value) for count in counts for value in count.values]
        print_table([[f"{key}:{value.value}", f"{value.notes:,}"] for key, value in pairs])
    else:
        rows = []
        for count in counts:
            values = ", ".join(f"{value.value} ({value.notes:,})" for value in count.values)
            more = f" and {count.left_out:,} more" if count.left_out else ""
            rows.append([count.key, plural(count.notes, "note"), values + more])
        print_table(rows)


_MAX_COLUMN = 60
"""Maximum padded width of a column. A longer text moves the rest of its line."""


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows with aligned columns, and never break a line."""
    widths = [min(max(map(cell_len, column)), _MAX_COLUMN) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        print_row(
            "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in cells).rstrip()
        )


def print_report(report: IndexReport, opening: OpenOptions) -> None:
    """Print what an indexing run did."""
    print_line(
        f"notes: {report.added:,} added, {report.changed:,} changed, {report.removed:,} "
        f"removed, {report.unchanged:,} unchanged"
    )
    broken = f": `{opening.command('broken')}` lists the broken ones"
    hint = broken if report.links.dangling else ""
    print_line(
        f"links: {report.links.resolved:,} to notes, {report.links.dangling:,} to files or "
        f"broken{hint}"
    )
    vectors = ""
    if report.embedded or report.reused:
        vectors = (
            f"; vectors for search by meaning: {report.embedded:,} new, {report.reused:,} reused"
        )
    print_line(f"passages: {report.chunks:,} in all{vectors}")
    if not report.chunks and not report.skipped:
        print_line(NO_MARKDOWN, WARNING)
    problems = problem_lines(report.skipped)
    for line in problems[:FEW_PROBLEMS]:
        print_row(f"  {line}", WARNING)
    if more := len(problems[FEW_PROBLEMS:]):
        print_line(f"  … and {more:,} more: {problems_hint(opening)}", WARNING)
    print_line(f"{report.seconds:.1f} s", "dim")


def print_status(
    folders: Sequence[FolderStatus], opening: OpenOptions, *, problems: bool = False
) -> None:
    """Print a table of indexes, then their locations and warnings, with all `problems` if asked."""
    if not folders:
        named = opening.folder or ("DIR",)
        print_line(f"There is no index yet: run `{opening.command('index', *named)}`.")
        return
    rows = table(
        "folder",
        "notes",
        "passages",
        "vectors",
        "model",
        "size",
        "state",
        right=("notes", "passages", "vectors", "size"),
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
    for status in folders:
        print_row(f"{status.folder}: notes in {status.root}, index in {status.location}", "dim")
        _print_ingestion(status.ingestion)
        for warning in folder_warning_lines(status, opening, None if problems else FEW_PROBLEMS):
            print_line(f"  {warning}", WARNING)


def _print_ingestion(counts: Sequence[IngestionCounts]) -> None:
    """Print how many repeated passages are not searched, and warnings if there are too many.

    If notes have several types, also print the number for each type.
    """
    if any(count.repeats for count in counts):
        print_line(library.ingestion_words(counts), "dim")
    for by_type in counts if len(counts) > 1 else ():
        if by_type.repeats:
            print_line(
                f"  {by_type.type or 'no type'}: {library.ingestion_words([by_type])}", "dim"
            )
    for sentence in (
        sentence for count in counts for sentence in library.ingestion_warnings(count)
    ):
        print_line(f"  {sentence}", WARNING)


def print_forgotten(folders: Sequence[FolderStatus]) -> None:
    """Print which indexes were deleted."""
    for folder in folders:
        print_line(
            f"Deleted the index of {folder.folder} ({folder.root}), "
            f"{folder.size_bytes / 1e6:,.1f} MB."
        )
    if not folders:
        print_line("Nothing to delete: this folder has no index.")


def print_tables(tables: Sequence[ReportTable]) -> None:
    """Print the tables of an evaluation, each below its title."""
    for part in tables:
        print_line(part.title, "bold")
        rows = table(*part.columns)
        for row in part.rows:
            rows.add_row(*row)
        stdout_console().print(rows)
        for note in part.notes:
            print_line(note, "dim")
        print_line("")


def print_json(payload: Mapping[str, Any]) -> None:
    """Print JSON as UTF-8, or as ASCII if stdout has another encoding.

    Escapes direction marks, line breaks, and the bytes of file names that are not UTF-8.
    """
    command = remote_command()
    stdout = command.stdout if command else sys.stdout
    text = json.dumps(
        payload, ensure_ascii=stdout.encoding.lower() not in {"utf-8", "utf8"}, indent=2
    )
    for line in text.split("\n"):
        stdout.write(escape_breaks(line).encode("utf-8", "backslashreplace").decode("utf-8") + "\n")


def print_why(report: WhyReport) -> None:
    """Print a note's outcome, and its rank after each stage."""
    outcome, *sentences = why_summary(report)
    print_line(outcome, "bold")
    for sentence in sentences:
        print_line(sentence)
    if report.stages:
        print_line("")
        rows = table("stage", "rank", "score", "line")
        for stage in report.stages:
            rank = "-" if stage.rank is None else stage.rank
            score = "-" if stage.score is None else f"{stage.score:.3f}"
            line = "-" if stage.line is None else str(stage.line)
            rows.add_row(stage.stage, f"{rank} of {stage.of}", score, line)
        stdout_console().print(rows)
        print_line("")
    for line in why_details(report):
        print_line(line)


class _OneLineTable(Table):
    """A table with one line per cell."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        """Add a row."""
        super().add_row(
            *(printable_line(cell) if isinstance(cell, str) else cell for cell in cells), **options
        )


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """Return a table. Columns in `right` are right-aligned; by default, all but the first."""
    rows = _OneLineTable(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        rows.add_column(
            column,
            justify="right" if column in right or (not right and number) else "left",
            overflow="fold",
        )
    return rows


class _Output(Console):
    """Standard output. Unlike rich's console, it raises BrokenPipeError."""

    def on_broken_pipe(self) -> None:
        """Raise the error instead of exiting."""
        raise BrokenPipeError


def stdout_console() -> Console:
    """Return the console of stdout. In a pipe, it is wide enough for tables."""
    console = _Output(**console_streams(), highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        return console
    return _Output(
        **console_streams(), highlight=False, markup=False, emoji=False, width=_PIPED_WIDTH
    )


def print_line(text: str, style: str = "") -> None:
    """Print one line; a terminal gets more if it is too long.

    Line breaks and control characters in `text` have no effect.
    """
    console, line = stdout_console(), printable_line(text)
    if console.is_terminal:
        line = wrap_words(line, console.width)
    console.print(Text(line, style=style), soft_wrap=True)


def print_row(text: str, style: str = "") -> None:
    """Print one row of a list. It is never broken, so that paths can be copied."""
    stdout_console().print(Text(printable_line(text), style=style), soft_wrap=True)


def print_text(text: str) -> None:
    """Print lines of a note, without control characters."""
    stdout_console().print(Text(strip_controls(text)), soft_wrap=True)


# ------------------------------------------------------------------ links to lines

PATH, LINE = "magenta", "green"
"""Colors of a path and a line number, as in `grep`: readable on light and dark backgrounds."""


def location_text(
    roots: Mapping[str, Path], folder: str, path: str, line: int, width: int | None = None
) -> Text:
    """Return `path:line`, or only the path for line 0, shortened in the middle to a width.

    On a terminal, the path is a link if the file is on this machine. For `roots`, see `shown_path`.
    """
    file, number = roots[folder] / path, f":{line}" if line else ""
    link = file_url(file) if is_local_path(file) else None
    name = printable_line(shown_path(roots, folder, path))
    if width is not None:
        name = _shorten(name, width - len(number))
    return Text.assemble((name, Style.parse(PATH) + Style(link=link)), (number, LINE))


def _shorten(name: str, width: int) -> str:
    """Shorten a path in the middle, with most of its end."""
    if cell_len(name) <= width:
        return name
    start = set_cell_size(name, width // 4)
    end = name[-width:]
    while cell_len(f"{start}…{end}") > max(width, 3):
        end = end[1:]
    return f"{start}…{end}"


def shown_path(roots: Mapping[str, Path], folder: str, path: str) -> str:
    """Return a note's path as commands print it and `read` understands it.

    It is relative to the current directory. If that is neither in the note's folder nor above it,
    it is the path in the folder; with several folders, after the folder's name. `roots` maps the
    names of all folders to paths.
    """
    root, current = roots[folder], Path(current_folder())
    if is_local_path(root) and (current == root or root in current.parents):
        return _with_dot(os.path.relpath(root / path, current))
    if is_local_path(root) and current not in root.parents:
        return f"{folder}: {path}" if len(roots) > 1 else path
    return relative_path(root / path)


def relative_path(path: Path) -> str:
    """Return a path relative to the current directory; a path outside of it stays absolute.

    A note in a database has the path `folder/note`.
    """
    if not is_local_path(path):
        return path.relative_to(NO_ROOT).as_posix()
    current = Path(current_folder())
    return _with_dot(str(path.relative_to(current)) if current in path.parents else str(path))


def _with_dot(path: str) -> str:
    """Prefix a path that begins with a dash, so that no program reads it as an option."""
    return f".{os.sep}{path}" if path.startswith("-") else path


def file_url(path: PurePath) -> str:
    """Return a file's URL with the name of this machine.

    Without the name, a terminal over ssh would open a file of its own machine.
    """
    if isinstance(path, PureWindowsPath):  # a host name would mean a network share
        return path.as_uri()
    return f"file://{quote(platform.node())}{quote(os.fsencode(path))}"
