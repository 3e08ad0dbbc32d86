"""Fit an answer into its token budget: matches first, then as many lines around them as there is room for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.model import Answer, Passage, Progress
from thumbindex.serve.as_json import (
    dedup_payload,
    deduplication_payload,
    disagreement_payload,
    freshness_payload,
    passage_payload,
    place_payload,
    progress_payload,
    state_payload,
    step_payload,
)
from thumbindex.serve.resources import link
from thumbindex.serve.wording import beside, confidence, deduplication, explanation_lines, foot, one_line, passage_flags, quoted, stood_on

_WORTH_SHOWING = 50
"""Tokens below which a part of an overlong match says too little to stand in an answer."""

MOST_CHARACTERS = 6
"""A token stands for no more of them (`encode.tokens`), so that of a text without line ends no more than this is ever looked at."""

_ELLIPSIS = "…"

_HEADER_LINES = 2
"""Lines of a table's header, which chunks of its later rows repeat."""

_ID_BYTES = 4
"""Of an id: a caller names up to a hundred that it holds, and that two texts are taken for each other happens once in millions of answers."""

_COUNTED = 20_000
"""Characters of a section that are counted to say what the rest of it costs: beyond that it is estimated."""

Size = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Shown:
    """A passage as an answer shows it: whole, cut to some lines of its text, or as a pointer to what the caller holds."""

    passage: Passage
    id: str
    section: tuple[int, int]  # first and last line of the whole
    left_out: int = 0  # tokens of it that are not shown
    is_held: bool = False
    is_broken: bool = False  # inside its match

    @property
    def is_cut(self) -> bool:
        """Tell whether lines of the section are not shown."""
        return self.left_out > 0


Form = tuple[Callable[[Shown], str], Callable[[Shown], dict[str, Any]]]
"""How a passage is written as text, and as structured content."""


def fit_passages(passages: Sequence[Passage], tokens: int, form: Form, size: Size, held: Collection[str] = ()) -> tuple[Shown, ...]:
    """Return the passages, best first, whose text and whose JSON each stay within the budget; `size` counts a text's tokens.

    Each document's best match comes before any document's second one. What room is left goes to the lines around the matches, best first.
    A text is counted by its lines: where a token goes over the end of one, the whole may come out a little larger.
    """
    of = line_sizer(size)
    chosen: dict[int, Shown] = {}
    room = tokens
    for passage in by_value(passages):
        beside = _beside(_pointer(passage) if _holds(passage, held) else _empty(passage), form, size)
        shown = _least(passage, room - beside, of, size, held)
        if shown is None or beside + _body(shown, of) > room:
            break
        chosen[passage.rank] = shown
        room -= beside + _body(shown, of)
    for passage in passages:
        shown = chosen.get(passage.rank)
        if shown is not None and shown.is_cut and not shown.is_broken:
            own = _body(shown, of)
            wider = _cut(passage, own + room, of, size)
            room -= _body(wider, of) - own
            chosen[passage.rank] = wider
    return tuple(chosen[passage.rank] for passage in passages if passage.rank in chosen)


def by_value(passages: Sequence[Passage]) -> list[Passage]:
    """Return the best passage of each document first, in the order of ranks, then the others."""
    first: dict[tuple[str, str], Passage] = {}
    for passage in passages:
        first.setdefault((passage.folder, passage.path), passage)
    return [*first.values(), *(each for each in passages if first[each.folder, each.path] is not each)]


def passage_id(passage: Passage, first: int = 0, last: int | None = None, broken: bool = False) -> str:
    """Return the id of a passage's text, or of some lines of it, counted from 0: equal as long as the text is, wherever it stands in its note.

    What was cut inside a line is marked as `broken`: who holds that holds no whole match.
    """
    written = "\0".join((passage.folder, passage.path, passage.text))
    digest = blake2b(written.encode("utf-8", "replace"), digest_size=_ID_BYTES).hexdigest()
    return digest if last is None else f"{digest}:{first + 1}-{last + 1}{'~' if broken else ''}"


def match_lines(passage: Passage) -> tuple[int, int] | None:
    """Return which lines of a passage's text matched, from 0, the last one included; None where that cannot be told."""
    above = passage.match_start - passage.start_line
    left_out = _lines_left_out(passage)
    if not left_out:
        return above, passage.match_end - passage.start_line
    # Comments were left out above, inside or below: the match stands as far up as all of those lines at most.
    match = _match_within(passage)
    low, high = sorted((above - left_out, above))
    for found in re.finditer(re.escape(match), passage.text) if match else ():
        first = passage.text.count("\n", 0, found.start())
        if low <= first <= high:
            return first, first + match.count("\n")
    return None


def _least(passage: Passage, room: int, of: Size, size: Size, held: Collection[str]) -> Shown | None:
    """Return the least worth showing of a passage: a pointer where the caller holds its match, else the match; None where there is no room."""
    if _holds(passage, held):
        return _pointer(passage)
    shown = _cut(passage, 0, of, size)
    if _body(shown, of) <= room:
        return shown
    return _cut(passage, room, of, size, broken=True) if room >= _WORTH_SHOWING else None


def _holds(passage: Passage, held: Collection[str]) -> bool:
    own = passage_id(passage)
    match = match_lines(passage)
    for each in held:
        digest, _, lines = each.partition(":")
        first, _, last = lines.partition("-")
        if digest != own:
            continue
        if not lines or (match and first.isdecimal() and last.isdecimal() and int(first) <= match[0] + 1 and match[1] + 1 <= int(last)):
            return True
    return False


def _pointer(passage: Passage) -> Shown:
    return Shown(replace(passage, text=""), passage_id(passage), (passage.start_line, passage.end_line), is_held=True)


def _empty(passage: Passage) -> Shown:
    """Return what stands beside a passage's text, of one that is cut."""
    last = passage.text.count("\n")
    return Shown(replace(passage, text=""), passage_id(passage, last, last), (passage.start_line, passage.end_line), 1 + len(passage.text))


def _cut(passage: Passage, room: int, of: Size, size: Size, broken: bool = False) -> Shown:
    """Return the lines around the match that fit, but for the match itself, which is cut only where it may be `broken`."""
    lines = passage.text.split("\n")
    first, last = match_lines(passage) or (0, 0)
    first, last = max(0, min(first, len(lines) - 1)), max(0, min(last, len(lines) - 1))
    used = sum(map(of, lines[first : last + 1]))
    if broken and used > room:
        text = _cut_inside("\n".join(lines[first : last + 1]), _match_within(passage), room, of)
        name = passage_id(passage, first, last, broken=True)
        return replace(_placed(passage, text, first, first + text.count("\n"), name, size), is_broken=True)
    first, last = _widen(lines, first, last, room - used, of)
    if (first, last) == (0, len(lines) - 1):
        return Shown(passage, passage_id(passage), (passage.start_line, passage.end_line))
    return _placed(passage, "\n".join(lines[first : last + 1]), first, last, passage_id(passage, first, last), size)


def _placed(passage: Passage, text: str, first: int, last: int, name: str, size: Size) -> Shown:
    section = (passage.start_line, passage.end_line)
    left_out = max(1, _estimated(passage.text, size) - _estimated(text, size))
    if _lines_left_out(passage):
        return Shown(replace(passage, text=text), name, section, left_out)  # which of the section's lines these are cannot be told
    cut = replace(passage, text=text, start_line=passage.start_line + first, end_line=passage.start_line + last)
    return Shown(cut, name, section, left_out)


def _estimated(text: str, size: Size) -> int:
    """Count a text's tokens; of a very long one, by its beginning."""
    if len(text) <= _COUNTED:
        return size(text)
    return size(text[:_COUNTED]) * len(text) // _COUNTED


def _lines_left_out(passage: Passage) -> int:
    return passage.end_line - passage.start_line - passage.text.count("\n")


def _match_within(passage: Passage) -> str:
    """Return the part of the matching chunk's text that stands in the passage as it is: a repeated table header does not."""
    rows = passage.match.split("\n", _HEADER_LINES)[-1]
    return next((each for each in (passage.match, rows) if each in passage.text), "")


def _cut_inside(text: str, match: str, room: int, size: Size) -> str:
    """Return as much of an overlong match as fits, from its beginning, which may stand far inside a line."""
    begin = max(0, text.find(match))
    shown = beginning(text[begin:], room - size(_ELLIPSIS * 2), size)
    return f"{_ELLIPSIS if begin else ''}{shown}{_ELLIPSIS if begin + len(shown) < len(text) else ''}"


def beginning(text: str, room: int, size: Size) -> str:
    """Return as much of a text's beginning as fits."""
    low, high = 0, min(len(text), MOST_CHARACTERS * max(room, 0))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(text[:middle]) <= room else (low, middle - 1)
    return text[:low]


def _widen(lines: Sequence[str], first: int, last: int, room: int, size: Size) -> tuple[int, int]:
    """Take in lines below and above by turns while they fit."""
    before = None
    while before != (first, last):
        before = (first, last)
        if last + 1 < len(lines) and (own := size(lines[last + 1])) <= room:
            last, room = last + 1, room - own
        if first > 0 and (own := size(lines[first - 1])) <= room:
            first, room = first - 1, room - own
    return first, last


def _beside(shown: Shown, form: Form, size: Size) -> int:
    """Return what a passage costs but for its text, in the larger of its two forms, with what stands between two of them."""
    as_text, as_payload = form
    return 1 + max(size(as_text(shown)), size(dump(as_payload(shown))))


def _body(shown: Shown, of: Size) -> int:
    return sum(map(of, shown.passage.text.split("\n"))) if shown.passage.text else 0


def line_sizer(size: Size) -> Size:
    """Return what a line costs with its end, in JSON, the larger of its two forms: quotes and line ends grow there."""
    known: dict[str, int] = {}

    def of(line: str) -> int:
        if line not in known:
            known[line] = size(dump(f"\n{line}")[1:-1])
        return known[line]

    return of


def dump(payload: Any) -> str:
    """Return structured content as it is sent."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))


_COPIES_LISTED = 20
"""Of the places of copies: an answer has a budget, and `dedup.cluster_size` counts all of them."""


@dataclass(frozen=True, slots=True)
class PassageForm:
    """How the passages of one answer are written."""

    several: bool = False  # folders: then each is named
    explain: bool = False
    note_tokens: Mapping[tuple[str, str], int] = field(default_factory=dict)  # about what each note costs to read, by folder and path

    def as_text(self, shown: Shown) -> str:
        """Return a passage under its citation; of one that the caller holds, where it stands."""
        passage = shown.passage
        folder = f"{passage.folder}: " if self.several else ""
        head = f"## {passage.rank}. {one_line(folder + passage.citation)}"
        if shown.is_held:
            return f"{head}\n(you hold it: {shown.id})"
        explained = explanation_lines(passage.explanation) if passage.explanation else []
        lines = (*passage_flags(passage), *beside(passage), *explained, self._cost(shown))
        return "\n".join([head, quoted(passage.text), *(f"({one_line(line)})" for line in lines)])

    def as_payload(self, shown: Shown) -> dict[str, Any]:
        """Return the same as structured content."""
        passage = shown.passage
        place = {"citation": passage.citation, "id": shown.id, "folder": passage.folder, "path": passage.path}
        lines = {name: getattr(passage, name) for name in ("start_line", "end_line", "match_start", "match_end")}
        if shown.is_held:
            return {**place, **lines, "seen": True}
        cost: dict[str, Any] = {"note_tokens": self._note_tokens(passage)}
        if shown.is_cut:
            cost["rest"] = {"start_line": shown.section[0], "end_line": shown.section[1], "tokens": shown.left_out}
        if self.explain:
            return {**place, **passage_payload(passage), **cost}
        return {**place, **lines, "text": passage.text, **cost, "dedup": dedup_payload(passage), **_known(passage)}

    def _cost(self, shown: Shown) -> str:
        first, last = shown.section
        cut = f"cut out of lines {first}-{last}, {shown.left_out:,} tokens more; " if shown.is_cut else ""
        return f"id {shown.id}; {cut}the whole note: about {self._note_tokens(shown.passage):,} tokens"

    def _note_tokens(self, passage: Passage) -> int:
        return self.note_tokens.get((passage.folder, passage.path), 0)


def _known(passage: Passage) -> dict[str, Any]:
    """Return what is known of a passage that is flagged, stands in several places or is disagreed with."""
    known: dict[str, Any] = {}
    if found := passage_flags(passage):
        known["flagged"] = found
    if passage.also_in:
        known["also_in"] = [place_payload(each) for each in passage.also_in[:_COPIES_LISTED]]
    if passage.disagrees:
        known["disagrees"] = [disagreement_payload(each) for each in passage.disagrees]
    if passage.also_in or passage.disagrees:
        known |= {name: value for name in ("created", "status", "owner") if (value := getattr(passage, name))}
    return known


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
