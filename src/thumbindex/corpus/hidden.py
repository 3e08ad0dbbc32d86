"""Flags text that a reader does not see, and text that speaks to a model."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from html import unescape
from typing import NamedTuple

from thumbindex.corpus.source import line_starts
from thumbindex.text import INVISIBLE, SHORT_RUN, SUSPECT

MOST_FLAGS = 20
"""Flags of one note: more say nothing new."""

_SHOWN = 60
"""Characters of a text that a flag quotes."""


class Flag(NamedTuple):
    """A line, and what is suspicious there, in words."""

    line: int
    reason: str


# ------------------------------------------------------------------ characters that nobody sees


def _hidden_characters(text: str) -> Iterator[tuple[int, str]]:
    """Yield where characters that nobody sees spell something or turn what is shown around."""
    for match in INVISIBLE.finditer(text) if SUSPECT.search(text) else ():
        kind = match.lastgroup
        if kind == "tags":
            spelled = (chr(ord(c) - 0xE0000) for c in match[0] if 0xE0020 <= ord(c) < 0xE007F)
            yield match.start(), f"hidden text, taken out: {_shown(''.join(spelled))}"
        elif kind in ("selectors", "joined") and len(match[0]) > SHORT_RUN:
            yield (
                match.start(),
                f"hidden text, taken out: {len(match[0])} characters that nobody sees, in a row",
            )
        elif kind == "turned":
            yield match.start(), "characters that turn the order of what is shown, taken out"


# ------------------------------------------------------------------ HTML that nobody sees

_TAG = re.compile(
    r"<[A-Za-z][\w-]{0,40}[\s/](?:(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*'){1,1000}|[^<>]{1,1000})>"
)
_ATTRIBUTE = re.compile(
    r"(?<![^\s\"'/])([^\s\"'<>/=]+)(?=[\s>/=])(?:\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s>]+))?"
)
_COMMENT_OR_SPACE = re.compile(r"/\*.*?(?:\*/|\Z)|\s+", re.S)
_HIDES = re.compile(
    r"(?:^|;)(?:display:none|visibility:hidden|opacity:0?(?:\.0\d*)?%?|font-size:[01]?(?:px|pt|%)?"
    r"|(?:left|margin-left|text-indent):-\d{4,}\w*)(?:!important)?(?=;|$)"
)
_WHITE = re.compile(
    r"(?:^|;)color:(?:white|transparent|#fff|#ffffff|rgb\(255,255,255\))(?:!important)?(?=;|$)"
)
_GROUND = re.compile(r"(?:^|;)background(?:-color)?:")


def _hidden_html(text: str) -> Iterator[tuple[int, str]]:
    """Yield where HTML begins that a browser does not show, or shows white on white."""
    for match in _TAG.finditer(text) if "<" in text else ():
        css_of = {"style": "", "hidden": "display:none;", "bgcolor": "background:"}
        if match[0][:5].lower() == "<font":
            css_of["color"] = "color:"
        css = ";".join(
            css_of[name.lower()] + unescape(value.strip("\"'"))
            for name, value in _ATTRIBUTE.findall(match[0])
            if name.lower() in css_of
        )
        if css and _is_unseen(_COMMENT_OR_SPACE.sub("", css).lower()):
            yield match.start(), f"HTML that a browser does not show: {_shown(match[0])}"


def _is_unseen(css: str) -> bool:
    if _HIDES.search(css):
        return True
    return _WHITE.search(css) is not None and _GROUND.search(css) is None


# ------------------------------------------------------------------ what speaks to a model

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
    rf"(?:(?:attention|note|important|instructions?){_GAP}(?:to|for)"
    rf"(?:{_GAP}(?:all|any|the|every)){{0,2}}|if{_GAP}you{_GAP}are{_GAP}an?){_GAP}{_MODEL}"
)
_CHAT_MARK = (
    r"<\|(?:im_start|im_end|system|user|assistant|endoftext)\|>|\[/?inst\]|<</?sys>>"
    r"|</?(?:system_prompt|system-reminder|tool_call|tool_result|function_calls"
    r"|function_results|antml:[a-z_]{2,20})>"
)
_SPEECH = re.compile(
    rf"(?<![^\W_])(?:{_DROP_ORDERS}|{_TELL_ORDERS}|{_KEEP_FROM_USER}|{_ADDRESS_MODEL}){_END}"
    rf"|{_CHAT_MARK}",
    re.I,
)


# ------------------------------------------------------------------ all of it


def find_flags(
    raw: str, clean: str, code: Callable[[], Sequence[tuple[int, int]]]
) -> tuple[Flag, ...]:
    """Return what is suspicious in a note's text as it is in the file, by line; `clean` is what
    `strip_invisible` left of it.

    `code` finds the lines of its code, from 0, half open; it is asked only where HTML is hidden,
    since it reads the whole note.
    """
    starts = line_starts(raw) if clean != raw else ()
    found = [Flag(bisect_right(starts, at), reason) for at, reason in _hidden_characters(raw)]
    html = list(_hidden_html(clean))
    speech = [
        (match.start(), f"reads like an instruction to a model: {_shown(match[0])}")
        for match in _SPEECH.finditer(clean)
    ]
    if html or speech:
        own = line_starts(clean)
        found += [Flag(bisect_right(own, at), reason) for at, reason in speech]
        flags = [Flag(bisect_right(own, at), reason) for at, reason in html]
        blocks = code() if html else ()
        coded = {line for first, last in blocks for line in range(first + 1, last + 1)}
        found += [each for each in flags if each.line not in coded]
    return tuple(sorted(dict.fromkeys(found)))[:MOST_FLAGS]


def _shown(text: str) -> str:
    """Quote the beginning of a text."""
    line = " ".join(text.split())
    return f"“{line[:_SHOWN]}{'…' if len(line) > _SHOWN else ''}”"
