"""Flag hidden text in a note, and text that addresses a model (prompt injection)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from html import unescape
from typing import NamedTuple

from thumbindex.corpus.source import line_starts
from thumbindex.text import INVISIBLE, MAX_JOINERS, MAY_BE_INVISIBLE

MAX_FLAGS = 20
"""Maximum flags that `find_flags` returns for a note."""

_MAX_QUOTE = 60
"""Maximum characters quoted in a flag."""


class Flag(NamedTuple):
    """A suspicious line and the reason."""

    line: int
    reason: str


# ------------------------------------------------------------------ invisible characters


def _hidden_characters(text: str) -> Iterator[tuple[int, str]]:
    """Yield (offset, reason) for invisible characters that encode text or reverse its display."""
    for match in INVISIBLE.finditer(text) if MAY_BE_INVISIBLE.search(text) else ():
        kind = match.lastgroup
        if kind == "tags":
            spelled = (chr(ord(c) - 0xE0000) for c in match[0] if 0xE0020 <= ord(c) < 0xE007F)
            yield match.start(), f"removed hidden text: {_quote(''.join(spelled))}"
        elif kind in ("selectors", "joined") and len(match[0]) > MAX_JOINERS:
            yield (
                match.start(),
                f"removed hidden text: {len(match[0])} invisible characters in a row",
            )
        elif kind == "turned":
            yield match.start(), "removed characters that reverse the displayed text"


# ------------------------------------------------------------------ hidden HTML

_TAG = re.compile(
    r"<[A-Za-z][\w-]{0,40}[\s/](?:(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*'){1,1000}|[^<>]{1,1000})>"
)
_ATTRIBUTE = re.compile(
    r"(?<![^\s\"'/])([^\s\"'<>/=]+)(?=[\s>/=])(?:\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s>]+))?"
)
_COMMENT_OR_SPACE = re.compile(r"/\*.*?(?:\*/|\Z)|\s+", re.S)
_HIDING_CSS = re.compile(
    r"(?:^|;)(?:display:none|visibility:hidden|opacity:0?(?:\.0\d*)?%?|font-size:[01]?(?:px|pt|%)?"
    r"|(?:left|margin-left|text-indent):-\d{4,}\w*)(?:!important)?(?=;|$)"
)
_WHITE_TEXT = re.compile(
    r"(?:^|;)color:(?:white|transparent|#fff|#ffffff|rgb\(255,255,255\))(?:!important)?(?=;|$)"
)
_BACKGROUND = re.compile(r"(?:^|;)background(?:-color)?:")


def _hidden_html(text: str) -> Iterator[tuple[int, str]]:
    """Yield (offset, reason) for HTML that a browser hides or shows white on white."""
    for match in _TAG.finditer(text) if "<" in text else ():
        css_of = {"style": "", "hidden": "display:none;", "bgcolor": "background:"}
        if match[0][:5].lower() == "<font":
            css_of["color"] = "color:"
        css = ";".join(
            css_of[name.lower()] + unescape(value.strip("\"'"))
            for name, value in _ATTRIBUTE.findall(match[0])
            if name.lower() in css_of
        )
        if css and _is_hidden_css(_COMMENT_OR_SPACE.sub("", css).lower()):
            yield match.start(), f"HTML that a browser does not show: {_quote(match[0])}"


def _is_hidden_css(css: str) -> bool:
    if _HIDING_CSS.search(css):
        return True
    return _WHITE_TEXT.search(css) is not None and _BACKGROUND.search(css) is None


# ------------------------------------------------------------------ instructions to a model

_GAP = r"[\s\"'*_>,]{1,6}"
_END = r"(?![^\W_])"
_ORDERS = r"(?:instructions?|prompts?|rules|guidelines|directives?|commands|orders|context)"
_MODEL = (
    r"(?:ai|llm|language[ -]model|chatgpt|claude|copilot|gemini)s?"
    rf"(?:{_GAP}(?:assistants?|agents?|models?))?"
)
_DROP_ORDERS = (
    rf"(?:ignore|disregard|forget|override)"
    rf"(?:{_GAP}(?:all|any|of|the|your|my|these|those|every|other)){{0,4}}"
    rf"{_GAP}(?:previous|prior|above|earlier|preceding|original|system|your){_GAP}{_ORDERS}"
)
_TELL_ORDERS = (
    rf"(?:reveal|print|show|repeat|output|leak|send|tell){_GAP}(?:me{_GAP})?(?:your|the){_GAP}"
    rf"(?:(?:full|entire|exact|hidden|secret){_GAP})?system{_GAP}(?:prompt|message|instructions)"
)
_KEEP_FROM_USER = (
    rf"(?:do{_GAP}not|don['’]t|never|without){_GAP}(?:tell|inform|telling|informing|alert)"
    rf"{_GAP}the{_GAP}user(?={_GAP}(?:about|of|that{_GAP}you|anything))"
)
_ADDRESS_MODEL = (
    rf"(?:(?:attention{_GAP}to|(?:note|important|instructions?){_GAP}(?:to|for))"
    rf"(?:{_GAP}(?:all|any|the|every)){{0,2}}|if{_GAP}you{_GAP}are{_GAP}an?){_GAP}{_MODEL}"
)
_CHAT_MARK = re.compile(
    r"<\|(?:im_start|im_end|system|user|assistant|endoftext)\|>|\[/?inst\]|<</?sys>>"
    r"|</?(?:system_prompt|system-reminder|tool_call|tool_result|function_calls"
    r"|function_results|antml:[a-z_]{2,20})>",
    re.I,
)
_INSTRUCTION_TO_MODEL = re.compile(
    # the character before and the possible first letters make the search twice as fast
    r"[\W_](?=[adfilnoprstw])"
    rf"({_DROP_ORDERS}|{_TELL_ORDERS}|{_KEEP_FROM_USER}|{_ADDRESS_MODEL}){_END}",
    re.I,
)


# ------------------------------------------------------------------ flags


def find_flags(
    raw: str, clean: str, code: Callable[[], Sequence[tuple[int, int]]]
) -> tuple[Flag, ...]:
    """Return the flags of a note, sorted by line.

    `raw` is the text of the note, and `clean` is that text without invisible characters. `code`
    returns the half-open line ranges of the note's code blocks, from 0. `code` is slow, so it is
    called only if hidden HTML was found.
    """
    starts = line_starts(raw) if clean != raw else ()
    flags = [
        Flag(bisect_right(starts, offset), reason) for offset, reason in _hidden_characters(raw)
    ]
    html = list(_hidden_html(clean))
    matches = [
        *((match.start(), match[1]) for match in _INSTRUCTION_TO_MODEL.finditer(f"\n{clean}")),
        *((match.start(), match[0]) for match in _CHAT_MARK.finditer(clean)),
    ]
    instructions = [
        (offset, f"reads like an instruction to a model: {_quote(text)}")
        for offset, text in matches
    ]
    if html or instructions:
        starts_of_clean = line_starts(clean)
        flags += [
            Flag(bisect_right(starts_of_clean, offset), reason) for offset, reason in instructions
        ]
        html_flags = [
            Flag(bisect_right(starts_of_clean, offset), reason) for offset, reason in html
        ]
        blocks = code() if html else ()
        lines_of_code = {line for first, last in blocks for line in range(first + 1, last + 1)}
        flags += [flag for flag in html_flags if flag.line not in lines_of_code]
    return tuple(sorted(dict.fromkeys(flags)))[:MAX_FLAGS]


def _quote(text: str) -> str:
    line = " ".join(text.split())
    return f"“{line[:_MAX_QUOTE]}{'…' if len(line) > _MAX_QUOTE else ''}”"
