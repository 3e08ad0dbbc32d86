"""An answer within its token budget: what stands around the passages, and as much of them as fits beside it, counted whole in both forms."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.model import Answer, Progress
from thumbindex.serve.pack import Shown, Size, dump, fit_passages
from thumbindex.serve.passages import PassageForm
from thumbindex.serve.payload import deduplication_payload, freshness_payload, progress_payload, state_payload, step_payload
from thumbindex.serve.resources import link
from thumbindex.serve.sentences import confidence, deduplication, foot, stood_on

_DROPPED_SHOWN = 5
"""Of what a stage dropped: an explanation is for reading, `query --json` has all of it."""

_GIVES_WAY = ("query", "corrected", "terms", "stages", "retrievers", "notes")
"""What is left out of why a note is no answer where it is too long, in this order: the caller knows what it asked."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A tool's answer in both forms."""

    text: str
    structured: dict[str, Any]
    links: tuple[dict[str, Any], ...] = ()  # to the documents that it speaks of


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around an answer's passages."""

    answer: Answer
    doing: tuple[Progress, ...] = ()
    narrowed: Sequence[str] = ()  # the filters that were given
    lacking: str = ""  # of what is on disk, in words
    explain: bool = False
    is_bare: bool = False

    def barely(self) -> Frame:
        """Return no more than has to be said, for the smallest budgets."""
        return replace(self, doing=(), explain=False, is_bare=True)

    def reply(self, shown: Sequence[Shown], form: PassageForm) -> Reply:
        """Write the answer."""
        left_out = len(self.answer.passages) - len(shown)
        structured = self._structured() | {"results": [form.as_payload(each) for each in shown]} | ({"left_out": left_out} if left_out else {})
        rest = [f"{left_out} more left out: raise `max_tokens` to see them."] if left_out else []
        text = "\n\n".join([self._head(), *map(form.as_text, shown), *rest, *self._steps(), self._foot()])
        return Reply(text, structured, tuple(link(*place) for place in dict.fromkeys((each.passage.folder, each.passage.path) for each in shown)))

    def _head(self) -> str:
        answer = self.answer
        corrected = f"Searched for: {answer.corrected}. " if answer.corrected and not self.is_bare else ""
        advice = "" if answer.answerable else " Say so, or try other words."
        lacking = f" {self.lacking}" if self.lacking and not self.is_bare else ""
        return f"{corrected}{confidence(answer, self.narrowed)}{advice}{lacking}"

    def _foot(self) -> str:
        return stood_on(self.answer.index) if self.is_bare else foot(self.answer, self.doing)

    def _steps(self) -> list[str]:
        if not self.explain:
            return []
        steps = [f"{each.stage}: {each.size_in} -> {each.size_out}, {each.moved} moved" for each in self.answer.trace]
        return ["\n".join([*steps, deduplication(self.answer.trace)])]

    def _structured(self) -> dict[str, Any]:
        answer = self.answer
        sure = {"answerable": answer.answerable, "confidence": round(answer.confidence, 4), "confidence_level": answer.confidence_level}
        if self.is_bare:
            return sure | {"index": {"documents": answer.index.documents}}
        frame: dict[str, Any] = {**sure, "kind": str(answer.kind), "results": [], "index": state_payload(answer.index)}
        frame["index"] |= freshness_payload(answer.freshness)
        if self.doing:
            frame["index"]["progress"] = [progress_payload(each) for each in self.doing]
        if self.explain:
            frame["trace"] = [step | {"dropped": step["dropped"][:_DROPPED_SHOWN]} for step in map(step_payload, answer.trace)]
            frame["deduplication"] = deduplication_payload(answer.trace)
        return frame | ({"corrected": answer.corrected} if answer.corrected else {})


def within(tokens: int, size: Size, frames: Sequence[Frame], form: PassageForm, held: Collection[str] = ()) -> Reply:
    """Write an answer of at most so many tokens, in the first of the frames beside which a passage fits. Raises UsageError where none does."""
    fitting = None
    for frame in frames:
        reply = _fitted(frame, tokens, size, form, held)
        if reply is not None and (reply.structured["results"] or not frame.answer.passages):
            return reply
        fitting = fitting or reply
    if fitting is None:
        raise _too_few(tokens, "how sure the answer is")
    return fitting


def why_within(tokens: int, size: Size, lines: Sequence[str], why: Mapping[str, Any]) -> Reply:
    """Write why a note is no answer in at most so many tokens: whole lines, the first ones. Raises UsageError where not even one fits."""
    for left_out in range(len(_GIVES_WAY) + 1):
        gone = [name for name in _GIVES_WAY[:left_out] if name in why]
        kept = {name: value for name, value in why.items() if name not in gone} | ({"left_out": gone} if gone else {})
        structured = {"answerable": why["answerable"], "results": [], "index": {}, "why": kept}
        if size(dump(structured)) <= tokens:
            break
    else:
        raise _too_few(tokens, "why the note is no answer")
    for shown in range(len(lines), 0, -1):
        rest = [f"(lines left out: {len(lines) - shown}; raise `max_tokens` to see them)"] if shown < len(lines) else []
        text = "\n".join([*lines[:shown], *rest])
        if size(text) <= tokens:
            return Reply(text, structured)
    raise _too_few(tokens, "why the note is no answer")


def _too_few(tokens: int, what: str) -> UsageError:
    return UsageError(f"`max_tokens` is {tokens}: not even {what} can be said in that. Give 2000, or leave it out.")


def _fitted(frame: Frame, tokens: int, size: Size, form: PassageForm, held: Collection[str]) -> Reply | None:
    """Fill a frame; None where it is too large alone. A token may go over a seam: the whole is counted, and made smaller until it fits."""
    empty = frame.reply((), form)
    room = tokens - count_reply(empty, size)
    if room < 0:
        return None
    while True:
        shown = fit_passages(frame.answer.passages, room, (form.as_text, form.as_payload), size, held)
        reply = frame.reply(shown, form)
        over = count_reply(reply, size) - tokens
        if over <= 0:
            return reply
        room -= over


def count_reply(reply: Reply, size: Size) -> int:
    """Return the tokens of a reply in the larger of its two forms: its text with the links, and its structured content."""
    return max(size(reply.text) + sum(size(dump(each)) for each in reply.links), size(dump(reply.structured)))
