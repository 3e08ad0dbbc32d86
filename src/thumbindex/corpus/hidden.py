"""Text that a reader does not see, and text that speaks to a model: the first is taken out where it is no part of any writing, both are flagged."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from string import ascii_lowercase
from typing import NamedTuple

from thumbindex.corpus.markdown import find_comments, line_starts

MOST_FLAGS = 20
"""Flags of one note: more say nothing new."""

_SHOWN = 60
"""Characters of a text that a flag quotes."""


class Flag(NamedTuple):
    """A line, and what is suspicious there, in words."""

    line: int
    reason: str


# ------------------------------------------------------------------ characters that nobody sees

_SUSPECT = re.compile(
    "[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]"
)

_INVISIBLE = re.compile(
    "(?P<flag>\U0001f3f4[\U000e0030-\U000e007a]{2,8}\U000e007f)"  # England, Scotland, Wales
    "|(?P<tags>[\U000e0000-\U000e007f\U000e0080-\U000e00ff\U000e01f0-\U000e0fff]+)"  # letters that no font shows
    "|(?P<selectors>[\ufe00-\ufe0f\U000e0100-\U000e01ef]+)"
    "|(?P<turned>[\u202d\u202e]+)"  # what is shown in another order than it is read
    "|(?P<joined>[\u200b-\u200d\u2060-\u2064\ufeff]+)"
    "|(?P<rest>[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u00ad\u180e\u202a-\u202c\u2065-\u206f])"
)

_SHORT = 3
"""Selectors and joiners that follow each other in no writing: from here on they spell something."""

_UNSPACED = re.compile("[\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Thai, Lao, Tibetan, Burmese, Khmer and others: a space of no width is where their words end."""

_AROUND = 100
"""Characters before and behind a mark of direction in which there is writing that needs it."""

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")


def strip_invisible(text: str) -> str:
    """Return a text without characters that nobody sees and no writing needs; emoji, Persian, Arabic, Indic and Khmer texts stay as they are."""
    if text.isascii() and text.isprintable():
        return text
    return _INVISIBLE.sub(_seen, text) if _SUSPECT.search(text) else text


def _seen(match: re.Match[str]) -> str:
    found, kind, text = match[0], match.lastgroup, match.string
    if kind == "flag":
        return found
    if kind == "selectors":
        return found[0] if found[0] < "\U000e0100" or len(found) == 1 else ""
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    if kind == "joined":  # kept between letters that join, and a space of no width where words end so
        if len(found) > _SHORT or found[0] in "\u2060\u2061\u2062\u2063\u2064\ufeff":
            return ""
        if found[0] == "\u200b":
            return found[0] if _UNSPACED.match(before) or _UNSPACED.match(after) else ""
        return found[0] if before and not (before.isascii() or before.isspace()) else ""
    if kind == "rest" and found in "\u202a\u202b\u202c\u2066\u2067\u2068\u2069":
        return found if _RIGHT_TO_LEFT.search(text, max(0, match.start() - _AROUND), match.end() + _AROUND) else ""
    return ""


def _hidden_characters(text: str) -> Iterator[tuple[int, str]]:
    """Yield where characters that nobody sees spell something or turn what is shown around."""
    for match in _INVISIBLE.finditer(text) if _SUSPECT.search(text) else ():
        kind = match.lastgroup
        if kind == "tags":
            yield match.start(), f"hidden text, taken out: {_shown(''.join(chr(ord(c) - 0xE0000) for c in match[0] if 0xE0020 <= ord(c) < 0xE007F))}"
        elif kind in ("selectors", "joined") and len(match[0]) > _SHORT:
            yield match.start(), f"hidden text, taken out: {len(match[0])} characters that nobody sees, in a row"
        elif kind == "turned":
            yield match.start(), "characters that turn the order of what is shown, taken out"


# ------------------------------------------------------------------ HTML that nobody sees

_TAG = re.compile(r"<[A-Za-z][\w-]{0,40}\s[^<>]{1,1000}>")
_STYLE = re.compile(
    r"(?:display|visibility|opacity|font-size|clip|(?<![-\w])color|background(?:-color)?|text-indent|left)\s{0,9}:\s{0,9}[^;\"'<>]{1,60}", re.I
)
_FONT = re.compile(r"^<font\s[^<>]{0,500}?\bcolor\s{0,9}=\s{0,9}[\"']?\s{0,9}(?P<color>[#\w]{1,20})", re.I)
_UNSEEN = re.compile(
    r"^(?:display:none|visibility:hidden|opacity:(?:0?\.0\d*|0|\d(?:\.\d+)?%)|clip:rect\((?:0(?:px)?[,)]){4}|font-size:0(?:\.\d+)?(?:px|pt|em|rem|%)?|(?:text-indent|left):-\d{4,}px)$"
)
_WHITE = re.compile(  # or so near to it that nobody sees it on a page: each channel is at least 0xf0
    r":(?:white|whitesmoke|snow|ivory|ghostwhite|floralwhite|mintcream|azure|aliceblue|honeydew|lavenderblush|transparent|#f{3}f?|#(?:f[0-9a-f]){3}(?:[0-9a-f]{2})?"
    r"|rgba?\((?:(?:24\d|25[0-5]),){2}(?:24\d|25[0-5])(?:,[\d.]+)?\)|rgba\(\d+,\d+,\d+,0(?:\.0\d*)?\))$"
)
_HIDDEN_ATTRIBUTE = re.compile(r"\shidden(?=[\s>/=])", re.I)
_VALUE = re.compile(r"=\s{0,9}(?:\"[^\"]*\"|'[^']*')")


def _hidden_html(text: str) -> Iterator[tuple[int, str]]:
    """Yield where HTML begins that a browser does not show, or shows white on white."""
    for match in _TAG.finditer(text) if "<" in text else ():
        styles = ["".join(each.lower().split()).removesuffix("!important") for each in _STYLE.findall(match[0])]
        ground = [each for each in styles if each.startswith("background")]
        if font := _FONT.match(match[0]):
            styles.append(f"color:{font['color'].lower()}")
        white = any(each.startswith("color") and _WHITE.search(each) for each in styles) and all(map(_WHITE.search, ground))
        if any(map(_UNSEEN.match, styles)) or white or _HIDDEN_ATTRIBUTE.search(_VALUE.sub("=", match[0])):
            yield match.start(), f"HTML that a browser does not show: {_shown(match[0])}"


# ------------------------------------------------------------------ what speaks to a model

_GAP = r"[\s\"'*_>,]{1,6}"
_END = r"(?![^\W_])"
_OLD = r"(?:previous|prior|above|earlier|preceding|former|foregoing|existing|original|system|safety|all|any|every|other)"
_ORDERS = r"(?:instructions?|prompts?|rules|guidelines|directives?|commands|orders|constraints|context)"
_SPEAKS = tuple(
    map(
        re.compile,
        (
            rf"(?:ignore|disregard|forget|override|bypass|do{_GAP}not{_GAP}follow)(?:{_GAP}(?:all|any|the|your|my|these|those|of|everything|every|each|other)){{0,4}}"
            rf"{_GAP}{_OLD}(?:{_GAP}{_OLD}){{0,2}}{_GAP}(?:{_ORDERS}|messages){_END}",
            rf"(?:ignore|disregard|forget|override){_GAP}(?:all{_GAP})?(?:of{_GAP})?(?:your|the{_GAP}system){_GAP}(?:{_ORDERS}|training){_END}",
            rf"(?:new|updated|revised|real|hidden|secret){_GAP}(?:system{_GAP})?(?:instructions?|prompt)"
            rf"{_GAP}(?:for|to){_GAP}(?:the{_GAP})?(?:assistant|model|ai|llm|agent){_END}",
            rf"you{_GAP}are{_GAP}now{_GAP}(?:dan{_END}|in{_GAP}(?:developer|debug|god|admin){_GAP}mode|(?:an?{_GAP})?(?:unrestricted|unfiltered|jailbroken|evil))",
            rf"(?:reveal|print|show|repeat|output|leak|disclose|display|send|tell)(?:{_GAP}(?:me|us|them|back|out|verbatim)){{0,2}}{_GAP}"
            rf"(?:your|the){_GAP}(?:(?:full|entire|exact|initial|original|hidden|secret){_GAP})?system{_GAP}(?:prompt|message|instructions){_END}",
            rf"(?:do{_GAP}not|don['’]t|never|without){_GAP}(?:tell|inform|telling|informing|alert|notify){_GAP}(?:this{_GAP}to{_GAP})?the{_GAP}user{_END}"
            rf"(?={_GAP}(?:about|of|that{_GAP}you|anything|what{_GAP}you))",
            rf"(?:attention|note|important|instructions?|warning){_GAP}(?:to|for)(?:{_GAP}(?:all|any|the|every)){{0,2}}{_GAP}"
            rf"(?:ai|llm|language{_GAP}model|large{_GAP}language{_GAP}model|chatgpt|claude|copilot|gemini)s?"
            rf"(?:{_GAP}(?:assistants?|agents?|models?|systems?|readers?|crawlers?))?{_END}",
            rf"if{_GAP}you{_GAP}are{_GAP}(?:an?{_GAP}|the{_GAP})(?:ai|llm|language{_GAP}model|large{_GAP}language{_GAP}model){_END}",
            rf"(?:send|post|upload|exfiltrate|forward|e-?mail){_GAP}(?:all{_GAP})?(?:of{_GAP})?(?:this|the|your|their|these|user['’]?s){_GAP}"
            rf"(?:conversation|chat(?:{_GAP}history)?|notes|vault|system{_GAP}prompt){_GAP}to{_END}",
            r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|eot_id)\|>|\[/?inst\]|<</?sys>>",
            r"</?(?:system_prompt|system-reminder|tool_call|tool_result|function_calls|function_results|antml:[a-z_]{2,20})>",
            rf"ignorier\w{{0,3}}(?:{_GAP}alle)?(?:{_GAP}deine)?{_GAP}(?:vorherigen|bisherigen|obigen|vorigen){_GAP}(?:anweisungen|instruktionen|regeln)",
            rf"ignore[zr]?(?:{_GAP}toutes)?{_GAP}(?:les|tes|vos){_GAP}(?:instructions|consignes){_GAP}(?:précédentes|ci-dessus)",
            rf"ignor[ae](?:{_GAP}(?:todas|tutte))?{_GAP}(?:las|le|as){_GAP}(?:instrucciones|istruzioni|instruções){_GAP}(?:anteriores|previas|precedenti)",
            rf"игнорируй(?:те)?(?:{_GAP}все)?{_GAP}(?:предыдущие|прежние){_GAP}(?:инструкции|указания)",
            r"(?:忽略|无视|忽視|無視)(?:之前|以上|上述|先前|所有|前面)(?:的|所有|之前|先前|上述|一切){0,3}(?:指令|指示|提示|命令|规则)",
        ),
    )
)
"""Kinds of phrases, in small letters, which begin a word where they begin with a Latin letter."""

_SAME_SMALL = (("\u0130", "i"), ("\u0131", "i"), ("\u017f", "s"))
"""Letters that look like others, and that `str.lower` leaves or makes two of."""


def _find_speech(text: str) -> Iterator[tuple[int, str]]:
    """Yield where a text speaks to a model, and what it says.

    Each kind is looked for alone, in small letters: a pattern whose first letters are known skips what begins with none of them, and takes a
    fifth of the time of one that ignores case.
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


def find_flags(raw: str, clean: str, code: Callable[[], Sequence[tuple[int, int]]]) -> tuple[Flag, ...]:
    """Return what is suspicious in a note's text as it is in the file, by line; `clean` is what `strip_invisible` left of it.

    `code` finds the lines of its code, from 0, half open; it is asked only where something is found, since it reads the whole note.
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
            found.append(Flag(bisect_right(own, at), f"reads like an instruction to a model: {quoted}{hidden}"))
    return tuple(sorted(dict.fromkeys(found)))[:MOST_FLAGS]


def _shown(text: str) -> str:
    """Quote the beginning of a text."""
    line = " ".join(text.split())
    return f"“{line[:_SHOWN]}{'…' if len(line) > _SHOWN else ''}”"
