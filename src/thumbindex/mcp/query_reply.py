"""The answer of the tool `query`: compact Markdown and structured content within a token budget."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
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
from thumbindex.mcp.resources import resource_link
from thumbindex.model import Answer, Passage, Progress, Query
from thumbindex.present.as_json import (
    as_json,
    dedup_payload,
    deduplication_payload,
    freshness_payload,
    passage_payload,
)
from thumbindex.present.editor_links import passage_link
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
    passage_context_lines,
    passage_flag_lines,
    why_lines,
)
from thumbindex.text import format_address, line_range, one_line, plural

if TYPE_CHECKING:
    from thumbindex.library import Library


_MAX_DROPPED = 5
"""Maximum candidates dropped by a stage that are listed; `query --json` has all."""

_WHY_OVERHEAD = 100
"""Tokens reserved for the frame around an explanation."""

_EXPLAIN_FACTOR = 4
"""Factor by which the default budget grows for an explained answer."""

_QUERY_ARGUMENTS = ("also", "passage", "limit", "folder", "path", "tag", "since", "until")
"""Arguments of the tool `query` that make the search; the others format the answer."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A tool's answer as text and as structured content."""

    text: str
    structured: dict[str, Any]
    links: tuple[dict[str, Any], ...] = ()  # to the documents that it speaks of


@dataclass(frozen=True, slots=True)
class PassageFormat:
    """How the passages of one answer are written."""

    several: bool = False  # folders: then each is named
    explain: bool = False
    # about what each note costs to read, by folder and path
    note_tokens: Mapping[tuple[str, str], int] = field(default_factory=dict)
    link: Callable[[Passage], str] = lambda _: ""  # what opens it in a program

    def cost(self, shown: ShownPassage, size: CountTokens) -> int:
        """Return the tokens of a passage in the larger of its two forms, with its link."""
        passage = shown.passage
        link = (
            size(compact_json(resource_link(passage.folder, passage.path)))
            if shown.form == "text"
            else 0
        )
        return 1 + max(size(self.as_text(shown)) + link, size(compact_json(self.as_payload(shown))))

    def as_text(self, shown: ShownPassage) -> str:
        """Return a passage under its citation."""
        passage = shown.passage
        folder = f"{passage.folder}: " if self.several else ""
        head = f"## {passage.rank}. {one_line(folder + passage.citation)}"
        if shown.form == "seen":
            return f"{head}\n(you hold it: {shown.id})"
        first, last = shown.section
        if shown.form == "citation":
            said = [
                *passage_flag_lines(passage),
                *disagreement_lines(passage),
                f"no room for its text, {plural(shown.left_out, 'token')}: `read` it",
            ]
            return "\n".join([head, *(f"({one_line(line)})" for line in said)])
        cut = (
            f"cut out of {line_range(first, last)}, {shown.left_out:,} tokens more; "
            if shown.left_out
            else ""
        )
        link = f"; {written}" if (written := self.link(passage)) else ""
        cost = (
            f"id {shown.id}; {cut}the whole note: about {self._note_tokens(passage):,} tokens{link}"
        )
        explained = explanation_lines(passage.explanation) if passage.explanation else []
        lines = (*passage_flag_lines(passage), *passage_context_lines(passage), *explained, cost)
        return "\n".join([head, fenced(passage.text), *(f"({one_line(line)})" for line in lines)])

    def as_payload(self, shown: ShownPassage) -> dict[str, Any]:
        """Return a passage as structured content."""
        passage = shown.passage
        place: dict[str, Any] = {
            "citation": passage.citation,
            "id": shown.id,
            "address": format_address(passage.folder, passage.path, passage.heading, shown.digest),
            "folder": passage.folder,
            "path": passage.path,
        }
        lines = {"start_line": passage.start_line, "end_line": passage.end_line}
        if shown.form == "seen":
            return {**place, **lines, "seen": True}
        first, last = shown.section
        rest = {"start_line": first, "end_line": last, "tokens": shown.left_out}
        if shown.form == "citation":
            del place["address"]
            return {**place, "rest": rest} | self._warnings(passage)
        cost: dict[str, Any] = {"note_tokens": self._note_tokens(passage)}
        if link := self.link(passage):
            cost["link"] = link
        if shown.left_out:
            cost["rest"] = rest
        if self.explain:
            return {**place, **passage_payload(passage), **cost}
        found = {**place, **lines, "text": passage.text, **cost}
        if passage.cluster_size > 1:
            found["dedup"] = dedup_payload(passage)
        found |= self._warnings(passage)
        if passage.also_in:
            found["also_in"] = as_json(passage.also_in[:MAX_COPIES])
            if more := len(passage.also_in) - len(found["also_in"]):
                found["also_in_more"] = more
        if passage.also_in or passage.disagrees:
            found |= {name: value for name in PASSAGE_METADATA if (value := getattr(passage, name))}
        elif day := passage.updated or passage.created:
            found["date"] = day
        return found

    def _warnings(self, passage: Passage) -> dict[str, Any]:
        warnings = {
            "flagged": passage_flag_lines(passage),
            "disagrees": as_json(passage.disagrees),
        }
        return {name: value for name, value in warnings.items() if value}

    def _note_tokens(self, passage: Passage) -> int:
        return self.note_tokens.get((passage.folder, passage.path), 0)


@dataclass(frozen=True, slots=True)
class AnswerFrame:
    """The text around an answer's passages."""

    answer: Answer
    progress: tuple[Progress, ...] = ()
    narrowed: Sequence[str] = ()  # the filters that were given
    lacking: str = ""  # of what is on disk, in words
    explain: bool = False
    has_model: bool = False

    def reply(
        self, shown: Sequence[ShownPassage], form: PassageFormat, room: int, size: CountTokens
    ) -> Reply:
        """Return the answer with as much of the frame as fits."""
        first, *rest = self._head()
        first = fit_line(first, room, size)
        head = [first, *fit_rows(rest, room - size(first), size)]
        foot = fit_rows(self._foot(), room - sum(map(size, head)), size)
        left_out = len(self.answer.passages) - len(shown)
        more = [f"{left_out} more left out: raise `max_tokens` to see them."] if left_out else []
        structured = self._structured(room, size)
        structured["results"] = [form.as_payload(each) for each in shown]
        if left_out:
            structured["left_out"] = left_out
        links = dict.fromkeys(
            (each.passage.folder, each.passage.path) for each in shown if each.form == "text"
        )
        return Reply(
            "\n\n".join(["\n".join(head), *map(form.as_text, shown), *more, *foot]),
            structured,
            tuple(resource_link(*place) for place in links),
        )

    def _head(self) -> list[str]:
        answer = self.answer
        corrected = f"Searched for: {answer.corrected}. " if answer.corrected else ""
        advice = "" if answer.answerable else " Say so, or try other words."
        filters = filter_lines(answer.filters, answer.unmet, answer.undated)
        sure = f"{corrected}{confidence_sentence(answer, self.narrowed)}{advice}"
        return [sure, *filter(None, [self.lacking]), *filters]

    def _foot(self) -> list[str]:
        trace = self.answer.trace
        steps = [
            f"{each.stage}: {each.size_in} -> {each.size_out}, {each.moved} moved" for each in trace
        ]
        explained = ["\n".join([*steps, dedup_sentence(trace)])] if self.explain else []
        model: ModelState = "loaded" if self.has_model else "loading"
        return [*explained, answer_footer(self.answer, self.progress, model)]

    def _structured(self, room: int, size: CountTokens) -> dict[str, Any]:
        """Return the structured content beside the results, the most important first."""
        answer = self.answer
        sure: dict[str, Any] = {
            "answerable": answer.answerable,
            "confidence": round(answer.confidence, 4),
            "confidence_level": answer.confidence_level,
            "kind": str(answer.kind),
            "results": [],
            "index": as_json(answer.index),
        }
        given = {
            "corrected": answer.corrected,
            "undated": answer.undated,
            "listed": answer.listed,
            "unmet": as_json(answer.unmet),
            "filters": as_json(answer.filters),
            "nearest": as_json(answer.nearest),
        }
        state = freshness_payload(answer.freshness)
        if self.progress:
            state["progress"] = as_json(self.progress)
        explained: dict[str, Any] = {}
        if self.explain:
            explained["deduplication"] = deduplication_payload(answer.trace)
            explained["trace"] = [
                as_json(replace(step, dropped=step.dropped[:_MAX_DROPPED])) for step in answer.trace
            ]
        given = {name: value for name, value in given.items() if value}
        parts = fit_parts({**state, **given, **explained}, room - size(compact_json(sure)), size)
        index = {name: parts.pop(name) for name in state if name in parts}
        return sure | {"index": sure["index"] | index} | parts


def reply_query(
    library: Library,
    arguments: Mapping[str, Any],
    progress: Callable[[], Sequence[Progress]] = tuple,
    tell: Callable[[Progress], None] | None = None,
    interrupted: Callable[[], bool] = never,
    has_indexer: Callable[[], bool] = never,
    index_failures: Sequence[str] = (),
) -> Reply:
    """Answer a query; `progress` returns what is being indexed, `tell` receives the progress of a
    wait, `interrupted` ends it.

    `has_indexer` returns whether a process indexes, `index_failures` why folders have no
    index. Links that open notes are for callers on this machine.
    """
    given: Any = {name: arguments.get(name) for name in _QUERY_ARGUMENTS}
    asked = Query.of(arguments["query"], **given)
    if "why" in arguments:
        return _reply_why(library, asked, arguments)
    explain, has_model = bool(arguments.get("explain")), library.has_model
    answer = library.query(
        asked,
        wait_fresh=arguments.get("wait_fresh", 0.0),
        explain=explain,
        progress=tell,
        interrupted=interrupted,
        indexer_starting=has_indexer,
    )
    several = len(library.folders) > 1
    narrowed = [f"`{name}`" for name in dict(asked.filters.as_pairs()) if name != "folder"]
    lacking = (
        freshness_sentence(answer.freshness)
        if answer.freshness
        else missing_folders_sentence(library.missing_folders())
    )
    lacking = " ".join(filter(None, (lacking, *index_failures)))
    roots, links = (
        dict(library.folders),
        library.config.serve.editor_links if library.is_local else "none",
    )
    form = PassageFormat(
        several,
        explain,
        library.note_tokens(answer.passages),
        lambda each: passage_link(each, roots[each.folder], links),
    )
    tokens = arguments.get("max_tokens") or library.config.serve.max_tokens * (
        _EXPLAIN_FACTOR if explain else 1
    )
    frame = AnswerFrame(answer, tuple(progress()), narrowed, lacking, explain, has_model)
    with_marks = cache(lambda: {each.rank: each for each in library.with_marks(answer).passages})
    return fit_answer(
        tokens,
        library.count_tokens,
        frame,
        form,
        arguments.get("seen", ()),
        lambda passage: with_marks()[passage.rank],
    )


def fit_answer(
    tokens: int,
    size: CountTokens,
    frame: AnswerFrame,
    form: PassageFormat,
    seen: Collection[str] = (),
    marked: Callable[[Passage], Passage] = lambda passage: passage,
) -> Reply:
    """Return an answer of at most this many tokens."""
    size, passages = cache(size), frame.answer.passages
    around = tokens // 2
    room = tokens - reply_tokens(frame.reply((), form, around, size), size)
    while room > 0:
        shown = fit_passages(passages, room, lambda each: form.cost(each, size), size, seen, marked)
        reply = frame.reply(shown, form, around, size)
        over = reply_tokens(reply, size) - tokens
        if over <= 0:
            return reply
        room -= over  # a token may go over a seam: the whole is counted
    return frame.reply((), form, around, size)


def reply_tokens(reply: Reply, size: CountTokens) -> int:
    """Return the tokens of a reply in the larger of its two forms."""
    return max(
        size(reply.text) + sum(size(compact_json(link)) for link in reply.links),
        size(compact_json(reply.structured)),
    )


def _reply_why(library: Library, asked: Query, arguments: Mapping[str, Any]) -> Reply:
    """Explain why a note is, or is not, among the passages of an answer."""
    found = library.why(arguments["why"], asked)
    tokens = arguments.get("max_tokens") or library.config.serve.max_tokens * _EXPLAIN_FACTOR
    size = library.count_tokens
    lines = [*map(one_line, why_lines(found, len(library.folders) > 1))]
    if not library.has_model:
        lines.append("keywords only this time: the model is still being loaded")
    room = tokens - _WHY_OVERHEAD
    first = fit_line(lines[0], room, size)
    shown = [first, *fit_rows(lines[1:], room - size(first), size)]
    if left_out := len(lines) - len(shown):
        shown.append(f"(lines left out: {left_out}; raise `max_tokens` to see them)")
    parts = as_json(found)
    why = fit_parts(parts, room, size)
    if gone := [name for name in parts if name not in why]:
        why["left_out"] = gone
    return Reply(
        "\n".join(shown),
        {"answerable": found.answerable, "results": [], "index": {}, "why": why},
    )


def reply_when_ready(
    library_host: LibraryHost,
    arguments: Mapping[str, Any],
    tell: Callable[[Progress], None] = ignore_progress,
    interrupted: Callable[[], bool] = never,
    is_local: bool = True,
) -> Reply:
    """Answer a query once the index can be searched and the model is loaded, if that is in time."""
    library_host.await_words(tell=tell, interrupted=interrupted)
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
