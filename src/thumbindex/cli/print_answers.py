"""Print an answer: each passage in a few rows, its whole section, or only its path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.text import Text

from thumbindex.cli.terminal import (
    location_text,
    print_line,
    relative_path,
    stdout_console,
    table,
)
from thumbindex.model import Answer, Explanation, Passage, Place, TraceStep
from thumbindex.present.answer_layout import (
    INDENT,
    MAX_ROWS,
    PIPED_WIDTH,
    WARNING,
    Page,
    footer_rows,
    header_rows,
    line_text,
    location_rows,
    rows_by_passage,
    wrap_line,
)
from thumbindex.present.excerpts import all_lines, from_answer
from thumbindex.present.exit_codes import print_error
from thumbindex.present.sentences import (
    ModelState,
    confidence_sentence,
    dedup_sentence,
    disagreement_lines,
    explanation_lines,
    filter_lines,
    passage_context_lines,
    passage_flag_lines,
)
from thumbindex.text import escape_breaks, line_range, printable_line

_MAX_WIDTH = 120
"""Maximum columns on a terminal: longer rows are hard to read."""

_MAX_DROPPED = 5


def print_answer(
    answer: Answer,
    roots: Mapping[str, Path],
    full: bool = False,
    explain: bool = False,
    narrowed: Sequence[str] = (),
    has_model: bool = True,
    indexing: str = "thumbindex index --complete",
) -> None:
    """Print the passages, best first: the lines that answer, or with `full` the whole sections.

    `roots` maps folder names to paths. For `indexing`, see `footer_rows`.
    """
    page = _page(roots)
    _print_rows(header_rows(answer, narrowed))
    if full:
        for passage in answer.passages:
            _print_section(passage, page)
            _print_explanation(passage.explanation)
    else:
        for passage, rows in rows_by_passage(answer, page):
            _print_rows(rows, "dim" if answer.confidence_level == "low" else None)
            _print_explanation(passage.explanation)
    if explain:
        print_trace(answer.trace)
    model: ModelState = "loaded" if has_model else "none"
    _print_rows(footer_rows(answer, model, full or explain, indexing=indexing))


def _page(roots: Mapping[str, Path]) -> Page:
    """Return the page of stdout. On a terminal, a location too long is cut in the middle."""
    console = stdout_console()
    is_terminal = console.is_terminal

    def location(place: Place, room: int | None) -> Text:
        room = room if is_terminal else None
        return location_text(roots, place.folder, place.path, place.start_line, room)

    if is_terminal:
        width, rows = min(console.width, _MAX_WIDTH), min(console.height, MAX_ROWS)
        return Page(True, width, rows, location)
    return Page(False, PIPED_WIDTH, MAX_ROWS, location)


def _print_rows(rows: Sequence[Text], style: str | None = None) -> None:
    console = stdout_console()
    for row in rows:
        console.print(row, soft_wrap=True, style=style)


def best_of_each_note(answer: Answer) -> Answer:
    """Return the answer with only the best passage of each note."""
    best = {(passage.folder, passage.path): passage for passage in reversed(answer.passages)}
    return replace(
        answer,
        passages=tuple(
            passage for passage in answer.passages if best[passage.folder, passage.path] is passage
        ),
    )


def print_files(answer: Answer, roots: Mapping[str, Path], narrowed: Sequence[str] = ()) -> None:
    """Print the path of each passage's note, best first.

    A low confidence and filters that match nothing are reported on stderr.

    Line breaks and direction marks in names are escaped, so that each line is one path. An escaped
    path does not open the file.
    """
    console = stdout_console()
    for passage in answer.passages:
        console.print(
            Text(escape_breaks(relative_path(roots[passage.folder] / passage.path))), soft_wrap=True
        )
    if answer.confidence_level == "low" or not answer.found:
        print_error(confidence_sentence(answer, narrowed))
    for line in filter_lines((), answer.unmet, answer.undated):
        print_error(line)


# ------------------------------------------------------------------ whole sections


def _print_section(passage: Passage, page: Page) -> None:
    """Print a passage's section as written; on a terminal, wrap lines between words."""
    more = f"({line_range(passage.start_line, passage.end_line)}, score {passage.score:.2f})"
    _print_rows(location_rows(from_answer(all_lines(passage)), page, more))
    warnings = (*passage_flag_lines(passage), *disagreement_lines(passage))
    remarks = [
        Text(printable_line(text), style=WARNING if text in warnings else "")
        for text in (
            *passage_flag_lines(passage),
            *passage_context_lines(passage, page.place_name),
        )
    ]
    for indent, line in (
        *(("", line_text(line)) for line in all_lines(passage).source_lines),
        *((INDENT, remark) for remark in remarks),
    ):
        rows = wrap_line(line, page.width - len(indent)) if page.is_terminal else [line]
        _print_rows([Text(indent) + row for row in rows])
    _print_rows([Text()])


# ------------------------------------------------------------------ explanations


def print_trace(trace: Sequence[TraceStep]) -> None:
    """Print the work of each stage, and the candidates that it dropped, with the reason."""
    stages = table("stage", "in", "out", "moved", "ms")
    for step in trace:
        stages.add_row(
            step.stage,
            f"{step.size_in:,}",
            f"{step.size_out:,}",
            f"{step.moved:,}",
            f"{step.seconds * 1000:.1f}",
        )
    stdout_console().print(stages)
    for step in trace:
        for candidate in step.dropped[:_MAX_DROPPED]:
            print_line(
                f"  {step.stage} dropped {candidate.path}:{candidate.line}: {candidate.reason}",
                "dim",
            )
        if len(step.dropped) > _MAX_DROPPED:
            print_line(
                f"  {step.stage} dropped {len(step.dropped) - _MAX_DROPPED:,} more (--json "
                "with --explain lists all)",
                "dim",
            )
    print_line(f"{dedup_sentence(trace)}\n")


def _print_explanation(explanation: Explanation | None) -> None:
    """Print a passage's rank in each retriever and after each stage, and details."""
    if explanation:
        for line in explanation_lines(explanation):
            print_line(f"  {line}", "dim")
        print_line("")
