"""Flags text that a reader does not see, and text that speaks to a model."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from html import unescape
from string import ascii_lowercase
from typing import NamedTuple

from thumbindex.corpus.markdown import find_comments, line_starts
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
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.S)
_ESCAPE = re.compile(r"\\(?:([0-9A-Fa-f]{1,6})\s?|(.))", re.S)
_NUMBER = re.compile(r"(?<![\w.#-])([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(%|[a-z]*)")
_FONT_SIZE = re.compile(r"(?:^|\s)(\+?[\d.]+(?:%|[a-z]+)|[+-]?0?\.?0+)(?=[\s/]|$)")
_PIXELS = {"": 1.0, "px": 1.0, "pt": 4 / 3, "%": 0.16}  # any other unit has 16
_PALE = (
    "white whitesmoke snow ivory ghostwhite floralwhite mintcream azure aliceblue honeydew "
    "lavenderblush transparent"
).split()
_NO_GROUND = ("none", "inherit", "initial", "unset", "revert")


def _hidden_html(text: str) -> Iterator[tuple[int, str]]:
    """Yield where HTML begins that a browser does not show, or shows white on white."""
    for match in _TAG.finditer(text) if "<" in text else ():
        css_of = {"style": "", "bgcolor": "background:", "hidden": "display:none;"}
        if match[0][:5].lower() == "<font":
            css_of["color"] = "color:"
        written = ((name.lower(), value) for name, value in _ATTRIBUTE.findall(match[0]))
        css = [
            css_of[name] + unescape(value.strip("\"'")) for name, value in written if name in css_of
        ]
        if css and _is_unseen(";".join(css)):
            yield match.start(), f"HTML that a browser does not show: {_shown(match[0])}"


def _plain_css(written: str) -> str:
    """Return a name or value as a browser reads it: escapes, case and spaces do not matter."""
    plain = _ESCAPE.sub(
        lambda each: chr(min(int(each[1], 16), 0x10FFFF)) if each[1] else each[2], written
    )
    text = " ".join(plain.lower().split())
    value, mark, flag = text.rpartition("!")
    return value.rstrip() if mark and flag.strip() == "important" else text


def _is_unseen(css: str) -> bool:
    parts = (each.partition(":") for each in _COMMENT.sub(" ", css).split(";"))
    style = [(_plain_css(name), _plain_css(value)) for name, _, value in parts]
    clips = any(name.startswith("overflow") and value != "visible" for name, value in style)
    grounds = [value for name, value in style if name in ("background", "background-color")]
    on_white = all(_is_pale(each) or each in _NO_GROUND for each in grounds)
    return any(
        _shows_nothing(*each, clips) or (each[0] == "color" and on_white and _is_pale(each[1]))
        for each in style
    )


def _shows_nothing(name: str, value: str, clips: bool) -> bool:
    numbers = _NUMBER.findall(value)
    pixels = [float(number) * _PIXELS.get(unit, 16.0) for number, unit in numbers]
    match name:
        case "display" | "visibility" | "content-visibility":
            return value in ("none", "hidden", "collapse")
        case "opacity":
            return any(_share(*each) < 0.1 for each in numbers)
        case "font":
            size = _FONT_SIZE.search(value)
            return size is not None and _shows_nothing("font-size", size[1], clips)
        case "font-size":
            return max(pixels, default=2) <= 1
        case "width" | "height" | "max-width" | "max-height":
            return clips and max(pixels, default=2) <= 1
        case "left" | "margin-left" | "text-indent":
            return min(pixels, default=0) <= -1000
        case "clip" if len(pixels) == 4:  # top, right, bottom, left
            return pixels[1] - pixels[3] <= 1 or pixels[2] - pixels[0] <= 1
        case "clip-path" | "-webkit-clip-path":
            is_point = value.startswith(("circle", "ellipse")) and pixels[:1] == [0]
            cut = value.startswith("inset") and any(
                unit == "%" and float(n) >= 50 for n, unit in numbers
            )
            return cut or is_point or (value.startswith("polygon") and len(set(pixels)) == 1)
    return False


def _is_pale(color: str) -> bool:
    """Tell whether a color is nearly white, each channel at least 0xf0, or transparent."""
    digits = color.removeprefix("#")
    if re.fullmatch("[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8}", digits):
        digits = digits if len(digits) > 4 else "".join(2 * each for each in digits)
        color = (
            f"rgb({' '.join(map(str, bytes.fromhex(digits)[:3]))} "
            f"{int(digits[6:] or 'ff', 16) / 255})"
        )
    kind, _, inside = color.partition("(")
    whole = {"rgb": 255, "rgba": 255, "hsl": 100, "hsla": 100, "hwb": 100}.get(kind)
    parts = _NUMBER.findall(inside)
    if whole is None or len(parts) < 3:
        return color in _PALE
    first, second, third = (_share(number, unit, whole) for number, unit in parts[:3])
    darkest = {
        "rgb": min(first, second, third),
        "hsl": third - second * min(third, 1 - third),
        "hwb": second,
    }[kind[:3]]
    return 255 * darkest >= 0xF0 - 0.5 or any(_share(*each) < 0.1 for each in parts[3:])


def _share(number: str, unit: str, whole: float = 1) -> float:
    return float(number) / (100 if unit == "%" else whole)


# ------------------------------------------------------------------ what speaks to a model

_GAP = r"[\s\"'*_>,]{1,6}"
_END = r"(?![^\W_])"
_OLD = (
    r"(?:previous|prior|above|earlier|preceding|former|foregoing|existing|original|system|safety"
    r"|all|any|every|other)"
)
_ORDERS = (
    r"(?:instructions?|prompts?|rules|guidelines|directives?|commands|orders|constraints|context)"
)
_SPEAKS = tuple(
    map(
        re.compile,
        (
            rf"(?:ignore|disregard|forget|override|bypass|do{_GAP}not{_GAP}follow)"
            rf"(?:{_GAP}(?:all|any|the|your|my|these|those|of|everything|every|each|other)){{0,4}}"
            rf"{_GAP}{_OLD}(?:{_GAP}{_OLD}){{0,2}}{_GAP}(?:{_ORDERS}|messages){_END}",
            rf"(?:ignore|disregard|forget|override){_GAP}(?:all{_GAP})?(?:of{_GAP})?"
            rf"(?:your|the{_GAP}system){_GAP}(?:{_ORDERS}|training){_END}",
            rf"(?:new|updated|revised|real|hidden|secret){_GAP}(?:system{_GAP})?"
            rf"(?:instructions?|prompt){_GAP}(?:for|to){_GAP}(?:the{_GAP})?"
            rf"(?:assistant|model|ai|llm|agent){_END}",
            rf"you{_GAP}are{_GAP}now{_GAP}"
            rf"(?:dan{_END}|in{_GAP}(?:developer|debug|god|admin){_GAP}mode"
            rf"|(?:an?{_GAP})?(?:unrestricted|unfiltered|jailbroken|evil))",
            rf"(?:reveal|print|show|repeat|output|leak|disclose|display|send|tell)"
            rf"(?:{_GAP}(?:me|us|them|back|out|verbatim)){{0,2}}{_GAP}(?:your|the){_GAP}"
            rf"(?:(?:full|entire|exact|initial|original|hidden|secret){_GAP})?"
            rf"system{_GAP}(?:prompt|message|instructions){_END}",
            rf"(?:do{_GAP}not|don['’]t|never|without){_GAP}"
            rf"(?:tell|inform|telling|informing|alert|notify){_GAP}"
            rf"(?:this{_GAP}to{_GAP})?the{_GAP}user{_END}"
            rf"(?={_GAP}(?:about|of|that{_GAP}you|anything|what{_GAP}you))",
            rf"(?:attention|note|important|instructions?|warning){_GAP}(?:to|for)"
            rf"(?:{_GAP}(?:all|any|the|every)){{0,2}}{_GAP}"
            rf"(?:ai|llm|language{_GAP}model|large{_GAP}language{_GAP}model"
            rf"|chatgpt|claude|copilot|gemini)s?"
            rf"(?:{_GAP}(?:assistants?|agents?|models?|systems?|readers?|crawlers?))?{_END}",
            rf"if{_GAP}you{_GAP}are{_GAP}(?:an?{_GAP}|the{_GAP})"
            rf"(?:ai|llm|language{_GAP}model|large{_GAP}language{_GAP}model){_END}",
            rf"(?:send|post|upload|exfiltrate|forward|e-?mail){_GAP}(?:all{_GAP})?(?:of{_GAP})?"
            rf"(?:this|the|your|their|these|user['’]?s){_GAP}"
            rf"(?:conversation|chat(?:{_GAP}history)?|notes|vault|system{_GAP}prompt)"
            rf"{_GAP}to{_END}",
            r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|eot_id)\|>"
            r"|\[/?inst\]|<</?sys>>",
            r"</?(?:system_prompt|system-reminder|tool_call|tool_result|function_calls"
            r"|function_results|antml:[a-z_]{2,20})>",
            rf"ignorier\w{{0,3}}(?:{_GAP}alle)?(?:{_GAP}deine)?"
            rf"{_GAP}(?:vorherigen|bisherigen|obigen|vorigen)"
            rf"{_GAP}(?:anweisungen|instruktionen|regeln)",
            rf"ignore[zr]?(?:{_GAP}toutes)?{_GAP}(?:les|tes|vos)"
            rf"{_GAP}(?:instructions|consignes){_GAP}(?:précédentes|ci-dessus)",
            rf"ignor[ae](?:{_GAP}(?:todas|tutte))?{_GAP}(?:las|le|as)"
            rf"{_GAP}(?:instrucciones|istruzioni|instruções)"
            rf"{_GAP}(?:anteriores|previas|precedenti)",
            rf"игнорируй(?:те)?(?:{_GAP}все)?{_GAP}(?:предыдущие|прежние)"
            rf"{_GAP}(?:инструкции|указания)",
            r"(?:忽略|无视|忽視|無視)(?:之前|以上|上述|先前|所有|前面)"
            r"(?:的|所有|之前|先前|上述|一切){0,3}(?:指令|指示|提示|命令|规则)",
        ),
    )
)
"""Kinds of phrases, in small letters, which begin a word where they begin with a Latin letter."""

_SAME_SMALL = (("\u0130", "i"), ("\u0131", "i"), ("\u017f", "s"))
"""Letters that look like others, and that `str.lower` leaves or makes two of."""


def _find_speech(text: str) -> Iterator[tuple[int, str]]:
    """Yield where a text speaks to a model, and what it says.

    Each kind is looked for alone, in small letters: a pattern whose first letters are known skips
    what begins with none of them, and takes a fifth of the time of one that ignores case.
    """
    small = text
    for letter, other in _SAME_SMALL:
        small = small.replace(letter, other)
    small, end = small.lower(), 0
    found = (match.span() for pattern in _SPEAKS for match in pattern.finditer(small))
    for start, stop in sorted(found):
        within_word = small[start] in ascii_lowercase and small[start - 1 : start].isalnum()
        if start >= end and not within_word:
            yield start, text[start:stop]
            end = stop


# ------------------------------------------------------------------ all of it


def find_flags(
    raw: str, clean: str, code: Callable[[], Sequence[tuple[int, int]]]
) -> tuple[Flag, ...]:
    """Return what is suspicious in a note's text as it is in the file, by line; `clean` is what
    `strip_invisible` left of it.

    `code` finds the lines of its code, from 0, half open; it is asked only where something is
    found, since it reads the whole note.
    """
    starts = line_starts(raw) if clean != raw else ()
    found = [Flag(bisect_right(starts, at), reason) for at, reason in _hidden_characters(raw)]
    html = list(_hidden_html(clean))
    speech = [(at, _shown(said)) for at, said in _find_speech(clean)]
    if html or speech:
        own, blocks = line_starts(clean), code()
        coded = {line for first, last in blocks for line in range(first + 1, last + 1)}
        flags = [Flag(bisect_right(own, at), reason) for at, reason in html]
        found += [each for each in flags if each.line not in coded]
        comments = find_comments(clean, blocks, mdx=True) if speech else ()
        begins = [start for start, _ in comments]
        for at, quoted in speech:
            before = bisect_right(begins, at)  # comments that begin before it
            hidden = ", in a comment" if before and at < comments[before - 1][1] else ""
            found.append(
                Flag(
                    bisect_right(own, at), f"reads like an instruction to a model: {quoted}{hidden}"
                )
            )
    return tuple(sorted(dict.fromkeys(found)))[:MOST_FLAGS]


def _shown(text: str) -> str:
    """Quote the beginning of a text."""
    line = " ".join(text.split())
    return f"“{line[:_SHOWN]}{'…' if len(line) > _SHOWN else ''}”"
