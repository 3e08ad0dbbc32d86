"""Fit passages into a token budget: matches first, then as many lines around them as there is room for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from thumbindex.model import Passage
from thumbindex.text import text_digest

_WORTH_SHOWING = 50
"""Tokens below which a part of an overlong match says too little to stand in an answer."""

MOST_TOKEN_CHARACTERS = 6
"""A token stands for no more of them (`encode.embed`), so that of a text without line ends no more than this is ever looked at."""

_ELLIPSIS = "…"

_HEADER_LINES = 2
"""Lines of a table's header, which chunks of its later rows repeat."""

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
    def digest(self) -> str:
        """The digest of the whole text, also where this is cut."""
        return self.id.partition(":")[0]

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
    as_text, as_payload = form
    of = line_sizer(size)
    first: dict[tuple[str, str], Passage] = {}
    for passage in passages:
        first.setdefault((passage.folder, passage.path), passage)
    chosen: dict[int, Shown] = {}
    room = tokens
    for passage in sorted(passages, key=lambda each: first[each.folder, each.path] is not each):
        shown = _without_text(passage, _holds(held, passage))
        # With what stands between two passages; in the larger of its two forms, like the lines of the text.
        left = room - 1 - max(size(as_text(shown)), size(dump(as_payload(shown))))
        if not shown.is_held:
            shown = _cut(passage, 0, of, size)
            if _text_size(shown, of) > left >= _WORTH_SHOWING:
                shown = _cut(passage, left, of, size, broken=True)
        if _text_size(shown, of) > left:
            break
        chosen[passage.rank] = shown
        room = left - _text_size(shown, of)
    for passage in passages:
        narrow = chosen.get(passage.rank)
        if narrow is not None and narrow.is_cut and not narrow.is_broken:
            room += _text_size(narrow, of)
            chosen[passage.rank] = wide = _cut(passage, room, of, size)
            room -= _text_size(wide, of)
    return tuple(chosen[passage.rank] for passage in passages if passage.rank in chosen)


def passage_id(passage: Passage, first: int = 0, last: int | None = None, broken: bool = False) -> str:
    """Return the id of a passage's text, or of some lines of it, counted from 0: equal as long as the text is, wherever it stands.

    What was cut inside a line is marked as `broken`: who holds that holds no whole match.
    """
    digest = text_digest(passage.text)
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


def _holds(held: Collection[str], passage: Passage) -> bool:
    """Tell whether a caller that holds these ids has the passage's whole match."""
    own, match = passage_id(passage), match_lines(passage)
    for digest, _, lines in (each.partition(":") for each in held):
        first, _, last = lines.partition("-")
        if digest != own:
            continue
        if not lines or (match and first.isdecimal() and last.isdecimal() and int(first) <= match[0] + 1 and match[1] + 1 <= int(last)):
            return True
    return False


def _without_text(passage: Passage, is_held: bool) -> Shown:
    """Return a pointer to what the caller holds; else what stands beside the text of a passage that is cut."""
    bare, section = replace(passage, text=""), (passage.start_line, passage.end_line)
    if is_held:
        return Shown(bare, passage_id(passage), section, is_held=True)
    last = passage.text.count("\n")
    return Shown(bare, passage_id(passage, last, last), section, 1 + len(passage.text))


def _text_size(shown: Shown, of: Size) -> int:
    return sum(map(of, shown.passage.text.split("\n"))) if shown.passage.text else 0


def _cut(passage: Passage, room: int, of: Size, size: Size, broken: bool = False) -> Shown:
    """Return the lines around the match that fit, but for the match itself, which is cut only where it may be `broken`."""
    lines = passage.text.split("\n")
    first, last = (max(0, min(line, len(lines) - 1)) for line in match_lines(passage) or (0, 0))
    match = lines[first : last + 1]
    room -= sum(map(of, match))
    if broken and room < 0:
        text = _cut_inside("\n".join(match), _match_within(passage), room + sum(map(of, match)), of)
        own = passage_id(passage, first, last, broken=True)
        return replace(_placed(passage, text, first, first + text.count("\n"), own, size), is_broken=True)
    before = None
    while before != (first, last):  # below and above by turns
        before = (first, last)
        if last + 1 < len(lines) and (cost := of(lines[last + 1])) <= room:
            last, room = last + 1, room - cost
        if first > 0 and (cost := of(lines[first - 1])) <= room:
            first, room = first - 1, room - cost
    if (first, last) == (0, len(lines) - 1):
        return Shown(passage, passage_id(passage), (passage.start_line, passage.end_line))
    return _placed(passage, "\n".join(lines[first : last + 1]), first, last, passage_id(passage, first, last), size)


def _placed(passage: Passage, text: str, first: int, last: int, own: str, size: Size) -> Shown:
    """Return some lines of a passage, with what the others would cost."""

    def estimated(text: str) -> int:
        return size(text) if len(text) <= _COUNTED else size(text[:_COUNTED]) * len(text) // _COUNTED

    left_out = max(1, estimated(passage.text) - estimated(text))
    cut = replace(passage, text=text)
    if not _lines_left_out(passage):  # else it cannot be told which of the section's lines these are
        cut = replace(cut, start_line=passage.start_line + first, end_line=passage.start_line + last)
    return Shown(cut, own, (passage.start_line, passage.end_line), left_out)


def _lines_left_out(passage: Passage) -> int:
    return passage.end_line - passage.start_line - passage.text.count("\n")


def _match_within(passage: Passage) -> str:
    """Return the part of the matching chunk's text that stands in the passage as it is: a repeated table header does not."""
    rows = passage.match.split("\n", _HEADER_LINES)[-1]
    return next((each for each in (passage.match, rows) if each in passage.text), "")


def _cut_inside(text: str, match: str, room: int, size: Size) -> str:
    """Return as much of an overlong match as fits, from its beginning, which may stand far inside a line."""
    begin = max(0, text.find(match))
    shown = beginning_within(text[begin:], room - size(_ELLIPSIS * 2), size)
    return f"{_ELLIPSIS if begin else ''}{shown}{_ELLIPSIS if begin + len(shown) < len(text) else ''}"


def beginning_within(text: str, room: int, size: Size) -> str:
    """Return as much of a text's beginning as fits."""
    low, high = 0, min(len(text), MOST_TOKEN_CHARACTERS * max(room, 0))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(text[:middle]) <= room else (low, middle - 1)
    return text[:low]


def line_sizer(size: Size) -> Size:
    """Return what a line costs with its end, in JSON, the larger of its two forms: quotes and line ends grow there."""
    counted: dict[str, int] = {}

    def of(line: str) -> int:
        if line not in counted:
            counted[line] = size(dump(f"\n{line}")[1:-1])
        return counted[line]

    return of


def dump(payload: Any) -> str:
    """Return structured content as it is sent."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
