"""Replies of the `query` tool: compact Markdown and structured content in a token budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from thumbindex.background.host import LibraryHost, ignore_progress, never
from thumbindex.mcp.budget import (
    CountTokens,
    ShownPassage,
    compact_json,
    fit_line,
    fit_parts,
    fit_passages,
    fit_rows,
)
from thumbindex.model import Answer, Passage, Progress, Query
from thumbindex.present.as_json import (
    as_json,
    deduplication_payload,
    freshness_payload,
    passage_payload,
)
from thumbindex.present.sentences import (
    MAX_COPIES,
    PASSAGE_METADATA,
    ModelState,
    answer_footer,
    confidence_sentence,
    dedup_sentence,
    disagreement_lines,
    explanation_lines,
    fenced,
    filter_lines,
    freshness_sentence,
    missing_folders_sentence,
    missing_model_sentence,
    passage_context_lines,
    passage_flag_lines,
    place_name,
    retired_line,
    rounded_down,
    weaker_lines,
    why_lines,
)
from thumbindex.text import line_range, one_line, plural

if TYPE_CHECKING:
    from thumbindex.library import Library


_MAX_DROPPED = 5
"""Maximum dropped candidates listed per stage; `query --json` lists all."""

_WHY_OVERHEAD = 100
"""Tokens reserved for the text and fields around an explanation."""

_EXPLAIN_FACTOR = 4
"""By default, an explained answer has this many times the token budget of other answers."""

_QUERY_ARGUMENTS = (
    *("also", "passage", "limit", "verbatim", "retired"),
    *("folder", "path", "tag", "since", "until", "where"),
)
"""Optional arguments of the `query` tool that define the search."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A tool's answer as text and as structured content."""

    text: str
    structured: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PassageFormat:
    """How to format the passages of one answer."""

    several: bool = False  # name each passage's folder
    explain: bool = False

    def cost(self, shown: ShownPassage, size: CountTokens) -> int:
        """Count a passage's tokens as text and as JSON together."""
        return 1 + size(self.as_text(shown)) + size(compact_json(self.as_payload(shown)))

    def as_text(self, shown: ShownPassage) -> str:
        """Return a passage as Markdown; its citation is the heading."""
        passage = shown.passage
        head = f"## {passage.rank}. {self._citation(passage)}"
        if shown.is_citation:
            remarks = [
                *filter(None, [retired_line(passage)]),
                *passage_flag_lines(passage),
                *disagreement_lines(passage),
                f"text left out ({plural(shown.left_out, 'token')}): call `read` to see it",
            ]
            return "\n".join([head, *(f"({one_line(line)})" for line in remarks)])
        rest = ""
        if shown.left_out:
            rest = f"; excerpt of {line_range(*shown.section)}: {shown.left_out:,} tokens more"
        explanation = explanation_lines(passage.explanation) if passage.explanation else []
        context = passage_context_lines(passage, partial(place_name, several=self.several))
        flags = passage_flag_lines(passage)
        lines = (*flags, *context, *explanation, f"id {shown.id}{rest}")
        return "\n".join([head, fenced(passage.text), *(f"({one_line(line)})" for line in lines)])

    def as_payload(self, shown: ShownPassage) -> dict[str, Any]:
        """Return a passage as structured content."""
        passage = shown.passage
        payload: dict[str, Any] = {"id": shown.id, "citation": self._citation(passage)}
        first, last = shown.section
        if shown.left_out:
            payload["rest"] = {"start_line": first, "end_line": last, "tokens": shown.left_out}
        if shown.is_citation:
            return payload | self._warnings(passage)
        if self.explain:
            return {**passage_payload(passage), **payload}
        payload["text"] = passage.text
        payload |= self._warnings(passage)
        if passage.also_in:
            payload["also_in"] = as_json(passage.also_in[:MAX_COPIES])
            if more := len(passage.also_in) - len(payload["also_in"]):
                payload["also_in_more"] = more
        if passage.also_in or passage.disagrees:
            payload |= {
                name: value for name in PASSAGE_METADATA if (value := getattr(passage, name))
            }
        elif day := passage.updated or passage.created:
            payload["date"] = day
        return payload

    def _citation(self, passage: Passage) -> str:
        folder = f"{passage.folder}: " if self.several else ""
        return one_line(folder + passage.citation)

    def _warnings(self, passage: Passage) -> dict[str, Any]:
        warnings = {
            "flagged": passage_flag_lines(passage),
            "disagrees": as_json(passage.disagrees),
            "retired": passage.retired,
            "successor": passage.successor,
        }
        is_retired = {} if passage.in_force else {"in_force": False}
        return is_retired | {name: value for name, value in warnings.items() if value}


@dataclass(frozen=True, slots=True)
class AnswerFrame:
    """The text and fields around an answer's passages."""

    answer: Answer
    progress: tuple[Progress, ...] = ()
    narrowed: Sequence[str] = ()  # names of the filter arguments in use
    index_warning: str = ""  # why files on disk may be missing from the index
    explain: bool = False
    has_model: bool = False
    several: bool = False  # name the folder of the best passage

    def reply(
        self, shown: Sequence[ShownPassage], form: PassageFormat, room: int, size: CountTokens
    ) -> Reply:
        """Return the shown passages with as much of the frame as fits into `room` tokens."""
        first, *rest = self._head()
        first = fit_line(first, room, size)
        head = [first, *fit_rows(rest, room - size(first), size)]
        foot = fit_rows(self._foot(), room - sum(map(size, head)), size)
        left_out = len(self.answer.passages) - len(shown)
        more = (
            [f"{plural(left_out, 'passage')} left out: raise `max_tokens` to see more."]
            if left_out
            else []
        )
        more += weaker_lines(self.answer, "`limit`")
        structured = self._structured(room, size)
        structured["results"] = [form.as_payload(item) for item in shown]
        if left_out:
            structured["left_out"] = left_out
        text = "\n\n".join(["\n".join(head), *map(form.as_text, shown), *more, *foot])
        return Reply(text, structured)

    def _head(self) -> list[str]:
        answer = self.answer
        corrected = f"Searched for: {answer.corrected}. " if answer.corrected else ""
        advice = "" if answer.found else " Tell the user so, or try other words."
        if any(run.phase == "words" for run in self.progress):
            advice = " But not all notes are indexed yet: ask again soon."
        filters = filter_lines(answer.filters, answer.unmet, answer.undated)
        first = f"{corrected}{confidence_sentence(answer, self.narrowed, self.several)}{advice}"
        return [first, *filter(None, [self.index_warning]), *filters]

    def _foot(self) -> list[str]:
        trace = self.answer.trace
        steps = [
            f"{step.stage}: {step.size_in} -> {step.size_out}, {step.moved} moved" for step in trace
        ]
        explanation = ["\n".join([*steps, dedup_sentence(trace)])] if self.explain else []
        model: ModelState = "loaded" if self.has_model else "loading"
        answer, progress = self.answer, self.progress
        is_limited = answer.index.pending or missing_model_sentence(answer, model)
        if self.explain or progress or answer.freshness or is_limited:
            return [*explanation, answer_footer(answer, progress, model)]
        return explanation

    def _structured(self, room: int, size: CountTokens) -> dict[str, Any]:
        """Return the structured content except the results, as much as fits in `room` tokens."""
        answer = self.answer
        required: dict[str, Any] = {
            "found": answer.found,
            "confidence": rounded_down(answer.confidence),
            "confidence_level": answer.confidence_level,
            "results": [],
        }
        index = freshness_payload(answer.freshness)
        if answer.index.pending or self.explain:
            index |= as_json(answer.index)
        if self.progress:
            index["progress"] = as_json(self.progress)
        optional: dict[str, Any] = {
            "index": index,
            "corrected": answer.corrected,
            "undated": answer.undated,
            "listed": answer.listed,
            "unmet": as_json(answer.unmet),
            "filters": [condition.as_typed for condition in answer.filters],
            "missing": as_json(answer.missing),
            "weaker": answer.weaker,
        }
        if self.explain:
            optional["kind"] = str(answer.kind)
            optional["deduplication"] = deduplication_payload(answer.trace)
            optional["trace"] = [
                as_json(replace(step, dropped=step.dropped[:_MAX_DROPPED])) for step in answer.trace
            ]
        optional = {name: value for name, value in optional.items() if value}
        return required | fit_parts(optional, room - size(compact_json(required)), size)


def reply_query(
    library: Library,
    arguments: Mapping[str, Any],
    progress: Callable[[], Sequence[Progress]] = tuple,
    tell: Callable[[Progress], None] | None = None,
    interrupted: Callable[[], bool] = never,
    has_indexer: Callable[[], bool] = never,
    index_failures: Sequence[str] = (),
) -> Reply:
    """Answer a query.

    `progress` returns the current indexing progress. If the query waits for the index, it reports
    the progress to `tell`, and stops waiting when `interrupted` returns true. `has_indexer` returns
    whether the server's indexer is running. `index_failures` are the reasons why folders have no
    index.
    """
    search: Any = {name: arguments[name] for name in _QUERY_ARGUMENTS if name in arguments}
    query = Query.of(arguments["query"], **search)
    if "why" in arguments:
        return _reply_why(library, query, arguments)
    explain, has_model = bool(arguments.get("explain")), library.has_model
    answer = library.query(
        query,
        wait_fresh=arguments.get("wait_fresh", 0.0),
        explain=explain,
        progress=tell,
        interrupted=interrupted,
        indexer_starting=has_indexer,
    )
    several = len(library.folders) > 1
    narrowed = [f"`{name}`" for name in dict(query.filters.as_pairs()) if name != "folder"]
    index_warning = (
        freshness_sentence(answer.freshness)
        if answer.freshness
        else missing_folders_sentence(library.missing_folders())
    )
    index_warning = " ".join(filter(None, (index_warning, *index_failures)))
    form = PassageFormat(several, explain)
    tokens = arguments.get("max_tokens") or library.config.serve.max_tokens * (
        _EXPLAIN_FACTOR if explain else 1
    )
    frame = AnswerFrame(
        answer, tuple(progress()), narrowed, index_warning, explain, has_model, several
    )
    return fit_answer(tokens, library.count_tokens, frame, form)


def fit_answer(tokens: int, size: CountTokens, frame: AnswerFrame, form: PassageFormat) -> Reply:
    """Return an answer of at most `tokens` tokens."""
    size, passages = cache(size), frame.answer.passages
    is_sure = frame.answer.confidence_level == "high"
    frame_room = tokens // 4
    room = tokens - reply_tokens(frame.reply((), form, frame_room, size), size)
    while room > 0:
        shown = fit_passages(passages, room, lambda item: form.cost(item, size), size, is_sure)
        reply = frame.reply(shown, form, frame_room, size)
        excess = reply_tokens(reply, size) - tokens
        if excess <= 0:
            return reply
        room -= excess  # the joined text may have more tokens than its parts
    return frame.reply((), form, frame_room, size)


def reply_tokens(reply: Reply, size: CountTokens) -> int:
    """Count a reply's tokens as text and as JSON together."""
    return size(reply.text) + size(compact_json(reply.structured))


def _reply_why(library: Library, query: Query, arguments: Mapping[str, Any]) -> Reply:
    report = library.why(arguments["why"], query)
    tokens = arguments.get("max_tokens") or library.config.serve.max_tokens * _EXPLAIN_FACTOR
    size = library.count_tokens
    lines = [*map(one_line, why_lines(report, len(library.folders) > 1))]
    if not library.has_model:
        lines.append("Only keywords were searched this time: the model is still loading.")
    room = tokens // 2 - _WHY_OVERHEAD
    first = fit_line(lines[0], room, size)
    shown = [first, *fit_rows(lines[1:], room - size(first), size)]
    if left_out := len(lines) - len(shown):
        shown.append(f"({plural(left_out, 'line')} left out: raise `max_tokens` to see more)")
    parts = as_json(report)
    why = fit_parts(parts, room, size)
    if missing := [name for name in parts if name not in why]:
        why["left_out"] = missing
    return Reply(
        "\n".join(shown),
        {"found": report.found, "results": [], "why": why},
    )


def reply_when_ready(
    library_host: LibraryHost,
    arguments: Mapping[str, Any],
    tell: Callable[[Progress], None] = ignore_progress,
    interrupted: Callable[[], bool] = never,
    is_local: bool = True,
) -> Reply:
    """Wait for the index and the model, up to their time limits, then answer a query."""
    library_host.await_words(on_progress=tell, interrupted=interrupted)
    library_host.await_model(interrupted)
    return reply_query(
        library_host.library() if is_local else library_host.library().without_local_paths(),
        arguments,
        library_host.progress,
        tell,
        interrupted,
        has_indexer=lambda: library_host.has_indexer,
        index_failures=library_host.index_failures(),
    )
