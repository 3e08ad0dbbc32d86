"""Print an answer: each passage in a few rows, or its whole section, or the paths of the notes
alone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from thumbindex.model import Answer, Explanation, Passage, Step
from thumbindex.serve.budget import best_line, is_idle, matched_lines, words_by_line
from thumbindex.serve.opening import say_error
from thumbindex.serve.terminal import (
    WARNING,
    output,
    path_here,
    place_text,
    plain,
    plain_line,
    print_line,
    print_row,
    table,
)
from thumbindex.serve.wording import (
    NO_MARKDOWN,
    ModelState,
    beside,
    confidence_words,
    copies_words,
    deduplication,
    disagreement_words,
    explanation_rest,
    filter_lines,
    foot,
    passage_flags,
    up_to_date,
    without_model,
    without_vectors,
)
from thumbindex.text import bare_name, escape_breaks, line_range

MARK, SURE, DOUBT = "bold red", "bold green", "bold red"
"""The color of `grep` for a match, and those of an answer's confidence: each is read on a light and
on a dark background.
"""

MOST_ROWS = 40
"""Of a screen that an answer takes, where it has five passages: whoever asked sees the first one
without scrolling back.
"""

_PROMPT_ROWS = 2
"""Of a screen that hold the command and the next prompt."""

_PASSAGE_ROWS = 3
"""Of its text that a passage has at most in a short answer."""

_PIPED_WIDTH, _WIDEST = 80, 120
"""Columns of a text in a pipe, and the most on a terminal: longer rows are hard to read."""

_INDENT = "   "

_DROPPED_SHOWN = 5

_BLOCK = re.compile(r"\s*(?:[-*+>|#<]|\d+[.)]\s|`{3}|~{3}|$)|\s{4}")
"""A line that begins a block of its own, as an item or a row, or an empty one."""

_ENDED = re.compile(r"^\s*(?:#|\||`{3}|~{3}|(?:[-*_]\s*){3,}$|$)|(?:\s\s|\\)$")
"""A line behind which a block of its own begins: a heading, a row, a fence, a rule, an empty one,
or one with a break at its end.
"""

_ELLIPSIS = "…"


def print_answer(
    answer: Answer,
    roots: Mapping[str, Path],
    full: bool = False,
    explain: bool = False,
    narrowed: Sequence[str] = (),
    has_model: bool = True,
    indexing: str = "thumbindex index",
) -> None:
    """Print the passages, best first: the lines that match, or with `full` the whole sections.

    `roots` has each folder's path by its name, `indexing` is the command that makes vectors of
    these folders.
    """
    console, several = output(), len(roots) > 1
    width = min(console.width, _WIDEST) if console.is_terminal else _PIPED_WIDTH
    _print_head(answer, narrowed)
    if full:
        for passage in answer.passages:
            _print_whole(console, passage, roots, width)
            _print_explanation(passage.explanation)
    else:
        found = [_lead(passage, roots, width, place_line(passage)) for passage in answer.passages]
        room = min(MOST_ROWS, console.height - _PROMPT_ROWS) if console.is_terminal else MOST_ROWS
        room -= _rows_around(answer) + sum(each.rows(width) for each in found)
        is_spaced = room >= 2 * len(found)  # a row of text and an empty one for each
        rows = _share_rows(len(found), room - len(found) * is_spaced)
        for passage, count in zip(answer.passages, rows, strict=True):
            first, texts = snippet(passage, width, count)
            lead = _lead(passage, roots, width, _line_in_note(passage, first))
            for row in (*lead.above, *texts, *lead.below):
                print_row(console, row)
            if is_spaced or passage is answer.passages[-1]:
                console.print()
            _print_explanation(passage.explanation)
    if explain:
        print_trace(answer.trace)
    _print_foot(answer, several, has_model, full or explain, indexing)


def first_of_notes(answer: Answer) -> Answer:
    """Return an answer with the best passage of each note alone."""
    best = {(each.folder, each.path): each for each in reversed(answer.passages)}
    return replace(
        answer,
        passages=tuple(each for each in answer.passages if best[each.folder, each.path] is each),
    )


def print_files(answer: Answer, roots: Mapping[str, Path]) -> None:
    """Print the path of each passage's note, best first, as a program takes it; how far to trust
    them goes to standard error.

    One line is one path: a line feed in a name, or what turns it around, is escaped, and a program
    finds no file then.
    """
    console = output()
    for each in answer.passages:
        console.print(
            Text(escape_breaks(path_here(roots[each.folder] / each.path))), soft_wrap=True
        )
    if answer.confidence_level == "low" or not answer.answerable:
        say_error(confidence_words(answer))


# ------------------------------------------------------------------ around the passages


def _print_head(answer: Answer, narrowed: Sequence[str]) -> None:
    if answer.corrected:
        print_line(f"Searched for: {answer.corrected}", "italic")
    print_line(
        confidence_words(answer, narrowed), SURE if answer.confidence_level == "high" else DOUBT
    )
    for line in filter_lines(answer.filters, answer.unmet, answer.undated):
        print_line(line, WARNING if answer.unmet or answer.undated else "")
    if not answer.index.documents:
        print_line(NO_MARKDOWN, WARNING)
    print_line("")


def _print_foot(answer: Answer, several: bool, has_model: bool, whole: bool, indexing: str) -> None:
    """Say what the answer stood on, where that was asked for; what it lacks in any case."""
    if whole and answer.answerable and answer.confidence_level == "low":
        print_line(
            "A score compares the passages of one answer with each other; how far to trust "
            "them is what confidence says."
        )
    if lacking := up_to_date(answer.freshness, several):
        print_line(lacking, WARNING)
    model: ModelState = "loaded" if has_model else "none"
    if whole or answer.freshness or without_model(answer, model):
        print_line(foot(answer, model=model), "dim")
    if lacking := without_vectors(answer.index, indexing):
        print_line(lacking, WARNING)


def _rows_around(answer: Answer) -> int:
    """Count the rows above and below the passages: confidence, an empty one at either end, and what
    may have to be said.
    """
    said = (answer.corrected, answer.index.pending, answer.freshness)
    return (
        3 + sum(map(bool, said)) + len(filter_lines(answer.filters, answer.unmet, answer.undated))
    )


def _share_rows(passages: int, room: int) -> list[int]:
    """Return how many rows each passage's text has: one at least, the best first."""
    shares = [1] * passages
    for at in [*range(passages)] * (_PASSAGE_ROWS - 1):
        if sum(shares) < room:
            shares[at] += 1
    return shares


# ------------------------------------------------------------------ a passage in a few rows


@dataclass(frozen=True, slots=True)
class Lead:
    """What stands above and below a passage's text."""

    above: tuple[Text, ...]
    below: tuple[Text, ...]

    def rows(self, width: int) -> int:
        """Count its rows on a screen: a long path goes over the end of one."""
        return sum(-(-each.cell_len // width) for each in (*self.above, *self.below))


def _lead(passage: Passage, roots: Mapping[str, Path], width: int, line: int) -> Lead:
    """Return a passage's place, the line that is shown first, its heading and day, and in few words
    what else is to be known of it.
    """
    day = passage.updated or passage.created
    warnings = [*passage_flags(passage)[:1], *disagreement_words(passage)]
    said = [
        *((each, "") for each in copies_words(passage)),
        *((each, WARNING) for each in warnings),
    ]
    below = tuple(
        Text(_INDENT) + _cut(Text(plain_line(each), style), width - len(_INDENT))
        for each, style in said
    )
    return Lead(_above(passage, roots, width, line, f"({day})" if day else ""), below)


def _above(
    passage: Passage, roots: Mapping[str, Path], width: int, line: int, more: str
) -> tuple[Text, ...]:
    """Return a passage's place with its headings and something more: where they do not fit the last
    heading, else on a row of their own.
    """
    place, names = _place(passage, roots, line), _headings(passage)
    forms = [
        Text.assemble((each, "bold"), f" {more}" if each and more else more)
        for each in (" > ".join(names), *names[-1:])
    ]
    room = width - place.cell_len - 2
    if not forms[0].plain:
        return (place,)
    fitting = next((each for each in forms if each.cell_len <= room), None)
    if fitting:
        return (place + Text("  ") + fitting,)
    return (place, Text(_INDENT) + _cut(forms[0], width - len(_INDENT)))


def place_line(passage: Passage) -> int:
    """Return the line of the note in which most of the query's words stand, of those that matched;
    the first of them where none does.
    """
    return _line_in_note(
        passage, best_line(passage.text.split("\n"), matched_lines(passage), words_by_line(passage))
    )


def _line_in_note(passage: Passage, at: int) -> int:
    """Return the number of a passage's line in its note; where comments were left out it cannot be
    told, and is that of the match.
    """
    if passage.end_line - passage.start_line == passage.text.count("\n"):
        return passage.start_line + at
    return passage.match_start


def snippet(passage: Passage, width: int, rows: int) -> tuple[int, list[Text]]:
    """Return the rows of a passage that show its best line, with as many of the query's words as
    they can, and the line with which they begin.
    """
    lines = _lines_of(passage)
    matched = matched_lines(passage)
    best = best_line(passage.text.split("\n"), matched, words_by_line(passage))
    room = width - len(_INDENT) - 2 * len(_ELLIPSIS)
    found = []
    for block in _blocks(lines, matched):
        has_best = best in block.numbers
        if has_best or not is_idle(block.text.plain):
            wrapped = block.rows(room)
            last = len(wrapped) - 1
            for at, (line, row) in enumerate(wrapped):
                found.append((has_best, row, at > 0, at < last, line))
    windows = [found[at : at + rows] for at in range(max(1, len(found) - rows + 1))]
    windows = [each for each in windows if any(has_best for has_best, *_ in each)]
    marked = [
        len(frozenset[str]().union(*(_marks_in(row) for _, row, *_ in each))) for each in windows
    ]
    most = [each for each, count in zip(windows, marked, strict=True) if count == max(marked)]
    # with text before and behind the words
    shown = most[(len(most) - 1) // 2 if max(marked) else 0]
    texts = [row.copy() for _, row, *_ in shown]
    for each in texts:
        each.rstrip()
    if shown[0][2]:  # it begins inside a line
        texts[0] = Text(_ELLIPSIS) + texts[0]
    if shown[-1][3]:
        texts[-1] = texts[-1] + Text(_ELLIPSIS)
    return shown[0][-1], [Text(_INDENT) + each for each in texts]


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines that a reader sees as one: those of a paragraph."""

    numbers: range
    text: Text
    starts: tuple[int, ...]  # where each of the lines begins in the text

    def joined(self, line: Text) -> _Block:
        """Return the block with another line behind it."""
        indent = len(line.plain) - len(line.plain.lstrip())
        return _Block(
            range(self.numbers.start, self.numbers.stop + 1),
            self.text + Text(" ") + line[indent:],
            (*self.starts, len(self.text) + 1),
        )

    def rows(self, width: int) -> list[tuple[int, Text]]:
        """Return the rows that it takes, each with the number of the line in which it begins."""
        found, end = list[tuple[int, Text]](), 0
        for row in _wrap(self.text, width):
            shown = row.plain.strip()
            # not found: a row of a table that was cut at its front
            start = max(end, self.text.plain.find(shown, end))
            found.append((self.numbers.start + bisect_right(self.starts, start) - 1, row))
            end = start + len(shown)
        return found


def _blocks(lines: Sequence[Text], matched: range) -> list[_Block]:
    """Return the blocks of some lines, in order."""
    found, is_code = list[_Block](), False
    for n, line in enumerate(lines):
        is_fence = line.plain.lstrip().startswith(("```", "~~~"))
        joins = (
            not is_code
            and not is_fence
            and n > matched.start
            and not _BLOCK.match(line.plain)
            and not _ENDED.search(lines[n - 1].plain)
        )
        if n in matched:
            if joins and found:
                found.append(found.pop().joined(line))
            else:
                found.append(_Block(range(n, n + 1), line, (0,)))
        is_code ^= is_fence
    return found


def _marks_in(text: Text) -> frozenset[str]:
    """Return the words that are marked in a text, each once."""
    return frozenset(
        text.plain[each.start : each.end].casefold() for each in text.spans if each.style == MARK
    )


def _lines_of(passage: Passage) -> list[Text]:
    """Return the lines of a passage with the query's words marked, without what could move a
    terminal's cursor; tabs as spaces.
    """
    text, end = Text(tab_size=1), 0
    for start, stop in passage.marks:
        text.append(plain(passage.text[end:start])).append(
            plain(passage.text[start:stop]), style=MARK
        )
        end = stop
    text.append(plain(passage.text[end:]))
    text.expand_tabs(4)
    return list(text.split("\n", allow_blank=True))


def _wrap(line: Text, width: int) -> list[Text]:
    """Break a line between words; a row of a table is cut, at its front where its first mark would
    not be seen.
    """
    if not line.plain.lstrip().startswith("|"):
        return list(line.wrap(output(), width)) or [line]
    first = min(
        (each for each in line.spans if each.style == MARK),
        key=lambda each: each.start,
        default=None,
    )
    if first and first.end >= width:
        line = Text(_ELLIPSIS) + line[first.start - width // 4 :]
    return [_cut(line, width)]


def _cut(text: Text, width: int) -> Text:
    """Return a text on one row, what does not fit behind an ellipsis."""
    cut = text.copy()
    cut.truncate(max(width, 1), overflow="ellipsis")
    return cut


# ------------------------------------------------------------------ a whole section


def _print_whole(console: Console, passage: Passage, roots: Mapping[str, Path], width: int) -> None:
    """Print a passage's section as it is written; on a terminal its lines end between words, and
    rows of tables are cut.
    """
    for head in _above(
        passage,
        roots,
        width,
        place_line(passage),
        f"({line_range(passage.start_line, passage.end_line)}, score {passage.score:.2f})",
    ):
        print_row(console, head)
    warnings = (*passage_flags(passage), *disagreement_words(passage))
    said = [
        Text(plain_line(each), style=WARNING if each in warnings else "")
        for each in (*passage_flags(passage), *beside(passage))
    ]
    for indent, line in (
        *(("", each) for each in _lines_of(passage)),
        *((_INDENT, each) for each in said),
    ):
        for row in _wrap(line, width - len(indent)) if console.is_terminal else [line]:
            print_row(console, Text(indent) + row)
    console.print()


# ------------------------------------------------------------------ where a passage stands


def _place(passage: Passage, roots: Mapping[str, Path], line: int) -> Text:
    """Return a passage's rank and its place as `path:line`."""
    return Text(f"{passage.rank}. ") + place_text(roots[passage.folder] / passage.path, line)


def _headings(passage: Passage) -> list[str]:
    """Return the headings above a passage; of a note's own title nothing where its path says it."""
    title, *headings = passage.heading_path or ("",)
    is_told = bare_name(title) == bare_name(Path(passage.path).stem)
    return [plain_line(each) for each in headings or ([] if is_told else [title]) if each]


# ------------------------------------------------------------------ how it came about


def print_trace(trace: Sequence[Step]) -> None:
    """Print what each stage did, and what it dropped and why."""
    stages = table("stage", "in", "out", "moved", "ms")
    for step in trace:
        stages.add_row(
            step.stage,
            f"{step.size_in:,}",
            f"{step.size_out:,}",
            f"{step.moved:,}",
            f"{step.seconds * 1000:.1f}",
        )
    output().print(stages)
    for step in trace:
        for each in step.dropped[:_DROPPED_SHOWN]:
            print_line(f"  {step.stage} dropped {each.path}:{each.line}: {each.reason}", "dim")
        if len(step.dropped) > _DROPPED_SHOWN:
            print_line(
                f"  {step.stage} dropped {len(step.dropped) - _DROPPED_SHOWN:,} more (--json "
                "with --explain lists all)",
                "dim",
            )
    print_line(f"{deduplication(trace)}\n")


def _print_explanation(found: Explanation | None) -> None:
    """Print what each retriever said of a passage, where each stage left it, and the rest in
    words.
    """
    if found is None:
        return
    retrievers = table("  retriever", "rank", "score", "weight", "document")
    for evidence in found.evidence:
        document = (
            "-"
            if evidence.document_rank is None
            else f"{evidence.document_rank} ({evidence.document_score:.2f})"
        )
        retrievers.add_row(
            f"  {evidence.retriever}",
            f"{evidence.rank} of {evidence.found}",
            f"{evidence.score:.3f}",
            f"{evidence.weight:.2f}",
            document,
        )
    output().print(retrievers)
    stages = table("  stage", "rank", "score")
    for each in found.effects:
        stages.add_row(f"  {each.stage}", f"{each.rank} of {each.size}", f"{each.score:.3f}")
    output().print(stages)
    for line in explanation_rest(found):
        print_line(f"  {line}", "dim")
    print_line("")
