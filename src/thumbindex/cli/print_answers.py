"""Print an answer: each passage in a few rows, its whole section, or only its path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from thumbindex.cli.terminal import (
    WARNING,
    location_text,
    print_line,
    printable_line,
    rank_text,
    relative_path,
    score_text,
    shown_path,
    stdout_console,
    strip_controls,
    table,
)
from thumbindex.model import Answer, Explanation, Passage, Place, TraceStep
from thumbindex.present.excerpts import (
    Line,
    ShownLines,
    all_lines,
    answer_line,
    choose_all,
)
from thumbindex.present.exit_codes import print_error
from thumbindex.present.sentences import (
    NO_MARKDOWN,
    ModelState,
    answer_footer,
    confidence_sentence,
    copy_lines,
    dedup_sentence,
    disagreement_lines,
    explanation_details,
    filter_lines,
    freshness_sentence,
    missing_model_sentence,
    missing_vectors_sentence,
    passage_context_lines,
    passage_flag_lines,
    retired_line,
    weaker_lines,
)
from thumbindex.text import escape_breaks, line_range

MARK, SURE, DOUBT = "bold red", "bold green", "bold red"
"""Colors of matches, high confidence and low confidence: readable on any background."""

MAX_ROWS = 45
"""Maximum rows of an answer with up to five passages, so that it fits on the screen."""

_ROWS_AROUND, _LEAD_ROWS = 6, 3
"""Rows around all passages, and around the text of each passage."""

_LEAST_ROWS = 3
"""Rows of text that each passage may have."""

_PIPED_WIDTH, _MAX_WIDTH = 80, 120
"""Columns of text in a pipe, and maximum columns on a terminal: longer rows are hard to read."""

_INDENT = "   "

_MAX_DROPPED = 5


def print_answer(
    answer: Answer,
    roots: Mapping[str, Path],
    full: bool = False,
    explain: bool = False,
    narrowed: Sequence[str] = (),
    has_model: bool = True,
    indexing: str = "thumbindex index",
) -> None:
    """Print the passages, best first: the lines that answer, or with `full` the whole sections.

    `roots` maps folder names to paths; `indexing` is the command that computes missing vectors,
    empty if a server does.
    """
    console = stdout_console()
    width = min(console.width, _MAX_WIDTH) if console.is_terminal else _PIPED_WIDTH
    _print_header(answer, narrowed, len(roots) > 1)
    is_low = answer.confidence_level == "low"
    if full:
        for passage in answer.passages:
            _print_section(console, passage, roots, width)
            _print_explanation(passage.explanation)
    else:
        room = min(MAX_ROWS, console.height) if console.is_terminal else MAX_ROWS
        count = len(answer.passages)
        room -= _ROWS_AROUND + _LEAD_ROWS * count
        least = max(1, min(_LEAST_ROWS, room // max(1, count)))

        def rows(shown: ShownLines) -> list[Text]:
            return _rows(shown, console, width - len(_INDENT))

        chosen = choose_all(answer, room, least, lambda shown: len(rows(shown)))
        for at, shown in enumerate(chosen, 1):
            above, below = _surrounding_rows(shown, roots, width)
            for row in (*above, *(Text(_INDENT) + text for text in rows(shown)), *below):
                console.print(row, soft_wrap=True, style="dim" if is_low else None)
            if least > 1 or at == count:
                console.print()
            _print_explanation(shown.passage.explanation)
    if explain:
        print_trace(answer.trace)
    _print_footer(answer, has_model, full or explain, indexing)


def best_of_each_note(answer: Answer) -> Answer:
    """Return the answer with only the best passage of each note."""
    best = {(passage.folder, passage.path): passage for passage in reversed(answer.passages)}
    return replace(
        answer,
        passages=tuple(
            passage for passage in answer.passages if best[passage.folder, passage.path] is passage
        ),
    )


def print_files(answer: Answer, roots: Mapping[str, Path]) -> None:
    """Print the path of each passage's note, best first. A low confidence is reported on stderr.

    Line breaks and direction marks in names are escaped, so that each line is one path. An escaped
    path does not open the file.
    """
    console = stdout_console()
    for passage in answer.passages:
        console.print(
            Text(escape_breaks(relative_path(roots[passage.folder] / passage.path))), soft_wrap=True
        )
    if answer.confidence_level == "low" or not answer.found:
        print_error(confidence_sentence(answer))


# ------------------------------------------------------------------ before and after the passages


def _print_header(answer: Answer, narrowed: Sequence[str], several: bool) -> None:
    if answer.corrected:
        print_line(f"Searched for: {answer.corrected} (as typed: --verbatim)", "italic")
    sure = confidence_sentence(answer, narrowed, several)
    print_line(sure, SURE if answer.confidence_level == "high" else DOUBT)
    for line in filter_lines(answer.filters, answer.unmet, answer.undated):
        print_line(line, WARNING if answer.unmet or answer.undated else "")
    if not answer.index.documents:
        print_line(NO_MARKDOWN, WARNING)
    print_line("")


def _print_footer(answer: Answer, has_model: bool, is_detailed: bool, indexing: str) -> None:
    """Print what the answer may lack, and if `is_detailed`, how much was searched."""
    for line in weaker_lines(answer, "--limit"):
        print_line(line, "dim")
    if is_detailed and answer.found and answer.confidence_level == "low":
        print_line(
            "Scores only compare the passages of this answer. The confidence rates the answer."
        )
    if lacking := freshness_sentence(answer.freshness):
        print_line(lacking, WARNING)
    model: ModelState = "loaded" if has_model else "none"
    if is_detailed or answer.freshness or missing_model_sentence(answer, model):
        print_line(answer_footer(answer, model=model), "dim")
    if lacking := missing_vectors_sentence(answer.index, indexing):
        print_line(lacking, "dim" if answer.index.is_refining else WARNING)


# ------------------------------------------------------------------ passages in a few rows


def _surrounding_rows(
    shown: ShownLines, roots: Mapping[str, Path], width: int
) -> tuple[Sequence[Text], Sequence[Text]]:
    """Return the rows above a passage's text (headings, location, day) and below it (copies,
    warnings).
    """
    passage, line = shown.passage, answer_line(shown)
    day = passage.updated or passage.created
    warnings = [*passage_flag_lines(passage)[:1], *disagreement_lines(passage)]
    warnings += filter(None, [retired_line(passage)])
    room, name = width - len(_INDENT), partial(_place_name, roots)
    copies = copy_lines(passage, name, lambda line: cell_len(printable_line(line)) <= room)
    below = [
        *(Text(printable_line(line)) for line in copies),
        *(Text(printable_line(warning), WARNING) for warning in warnings),
    ]
    below = [Text(_INDENT) + row for row in below]
    titled = replace(passage, heading_path=shown.heading_path)
    return _location_rows(titled, roots, width, line, f"({day})" if day else ""), below


def _location_rows(
    passage: Passage, roots: Mapping[str, Path], width: int, line: int, more: str
) -> tuple[Text, ...]:
    """Return a passage's headings, and below them its location and `more`.

    If the headings are too long for a row, only the last one is kept. On a terminal, a location
    that is too long is shortened in the middle.
    """
    room, names = width - len(_INDENT), _headings(passage)
    headings = " > ".join(names)
    heading = Text(headings if cell_len(headings) <= room else names[-1], "bold")
    heading.truncate(room, overflow="ellipsis")
    more = f"  {more}" if more else ""
    location = location_text(
        roots,
        passage.folder,
        passage.path,
        line,
        room - cell_len(more) if stdout_console().is_terminal else None,
    )
    return Text(f"{passage.rank}. ") + heading, Text.assemble(_INDENT, location, more, style="dim")


def _rows(shown: ShownLines, console: Console, width: int) -> list[Text]:
    """Wrap lines into rows. The lines of a paragraph are joined if they are long."""
    blocks, goes_on = list[Text](), False
    for line in shown.lines:
        text = _line_text(line)
        if line.is_decoration or not text.plain.strip():
            continue
        if goes_on:
            blocks[-1] = blocks[-1] + Text(" ") + text[len(text.plain) - len(text.plain.lstrip()) :]
        else:
            blocks.append(text)
        goes_on = line.goes_on
    rows = [row for block in blocks for row in block.wrap(console, width)]
    for row in rows:
        row.rstrip()
    return rows


def _line_text(line: Line) -> Text:
    """Return a line with the query's words marked, without control characters."""
    text = Text(tab_size=1)
    for piece, is_mark in line.pieces:
        text.append(strip_controls(piece), style=MARK if is_mark else "")
    text.expand_tabs(4)
    return text


# ------------------------------------------------------------------ whole sections


def _print_section(
    console: Console, passage: Passage, roots: Mapping[str, Path], width: int
) -> None:
    """Print a passage's section as written; on a terminal, wrap lines between words."""
    for head in _location_rows(
        passage,
        roots,
        width,
        answer_line(all_lines(passage)),
        f"({line_range(passage.start_line, passage.end_line)}, score {passage.score:.2f})",
    ):
        console.print(head, soft_wrap=True)
    warnings = (*passage_flag_lines(passage), *disagreement_lines(passage))
    remarks = [
        Text(printable_line(text), style=WARNING if text in warnings else "")
        for text in (
            *passage_flag_lines(passage),
            *passage_context_lines(passage, partial(_place_name, roots)),
        )
    ]
    for indent, line in (
        *(("", _line_text(line)) for line in all_lines(passage).source_lines),
        *((_INDENT, remark) for remark in remarks),
    ):
        rows = list(line.wrap(console, width - len(indent))) if console.is_terminal else []
        for row in rows or [line]:
            console.print(Text(indent) + row, soft_wrap=True)
    console.print()


# ------------------------------------------------------------------ locations


def _place_name(roots: Mapping[str, Path], place: Place) -> str:
    """Return `path:line` as for passages."""
    return f"{shown_path(roots, place.folder, place.path)}:{place.start_line}"


def _headings(passage: Passage) -> list[str]:
    """Return the headings below the note's title, or the title if there are none."""
    headings = [printable_line(heading) for heading in passage.heading_path[1:] if heading]
    return headings or [printable_line(passage.title)]


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
    """Print a passage's evidence by retriever, its rank after each stage, and details."""
    if explanation is None:
        return
    retrievers = table("  retriever", "rank", "score", "weight")
    for evidence in explanation.evidence:
        retrievers.add_row(
            f"  {evidence.retriever}",
            f"{evidence.rank} of {evidence.of}",
            f"{evidence.score:.3f}",
            f"{evidence.weight:.2f}",
        )
    stdout_console().print(retrievers)
    stages = table("  stage", "rank", "score")
    for stage_rank in explanation.rank_by_stage:
        stages.add_row(f"  {stage_rank.stage}", rank_text(stage_rank), score_text(stage_rank.score))
    stdout_console().print(stages)
    for line in explanation_details(explanation):
        print_line(f"  {line}", "dim")
    print_line("")
