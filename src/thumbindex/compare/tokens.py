"""Read a text for comparison: what is visible of it in one typography, cut into tokens that say what they are."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache
from html import unescape

from thumbindex.compare.words import (
    CASED,
    CONTRACTIONS,
    COUNTS,
    DAYS_AND_MONTHS,
    ENGLISH_POLARITY,
    FENCE_LANGUAGES,
    LAYOUT_LANGUAGES,
    MONTHS,
    NEGATING,
    PHRASES,
    POLARITY,
    TAGS,
    UNITS,
)
from thumbindex.text import STOP_WORDS, fold, looks_like_code, visible

READINGS = 512
"""How many texts stay read: more than a query compares with each other, and a few megabytes."""

NUMBER, UNIT, DATE, POLAR, CODE, NAME, STATE, WORD = "n", "u", "d", "p", "c", "m", "s", "w"
"""What a token is; a letter each, so that a reading is small."""

_WRITTEN = {"'": "‘’‚‛′", '"': "“”„‟″«»", "-": "‐‑‒–−", " ": "\u00a0\u202f\u2009", " - ": "—", "": "\u00ad\u200b\u2060\ufeff\r"}
_TYPOGRAPHY = {ord(sign): plain for plain, signs in _WRITTEN.items() for sign in signs}
_OWN = dict.fromkeys(range(0xE000, 0xE005))
"""Marks of our own, taken out of what others wrote."""

_AS_WRITTEN = _TYPOGRAPHY | _OWN

_ENTITY = re.compile(r"&#?\w+;")
_BROKEN_WORD = re.compile(r"(?<=[^\W\d])-[ \t]*\n[ \t>]*(?=[^\W\d_])")
_FENCE = re.compile(r"(?ms)^([ \t>]*)(`{3,}+|~{3,}+)([^\n]*+)\n(.*?)(?:^[ \t>]*\2[`~]*+[ \t]*+$|\Z)")
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
_HELD = re.compile("\ue000(\\d+)\ue001")
_CELL, _STRUCK, _DONE = "\ue002", "\ue003", "\ue004"
STATES = {_CELL: "another cell", _STRUCK: "struck out", _DONE: "[x]"}
"""How marks of our own are shown."""

_COMMENT = re.compile(r"<!--(?:(?!<!--).)*?-->|%%.*?%%", re.S)
_FOOTNOTE = re.compile(r"\[\^[^\]\[\s]+\]:?")
_AUTOLINK = re.compile(r"<((?:[a-z][a-z0-9+.-]+://|mailto:)[^\s<>]+|[^\s<>@/]+@[^\s<>@]+)>", re.I)
_PLACEHOLDER = re.compile(r"<(/?)([A-Za-z][\w-]*)([^<>]{0,300})>")
_TARGET = re.compile(r"(\]\()<([^<>\n]*)>")
_CHECKED = re.compile(r"(?m)^([ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]+)\[[xX]\][ \t]")
_STRIKE = re.compile(r"~~(?=\S)(.+?)(?<=\S)~~", re.S)
_UNDERLINED = re.compile(r"(?<![\w\\])_(?=[^\s_])([^_]+?)(?<=\S)_(?!\w)")
_NUMBERED = re.compile(r"^([ \t>]*)(\d{1,9})([.)])(?=[ \t])")
_ITEM = re.compile(r"^[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]")
_ESCAPE = re.compile(r"\\(?=[_\W])")
_BLOCK_ID = re.compile(r"(?m)(?:^|[ \t])\^[\w-]+$")
_DELIMITER = re.compile(r"^[ \t>]*+(?:\|[ \t]*+)?:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+$")
_BAR = re.compile(r"(?<!\\)\|")

_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_DAY_MONTH = re.compile(rf"(?i)\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTH})\.?,?\s+(\d{{4}})\b")
_MONTH_DAY = re.compile(rf"(?i)\b({_MONTH})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+(\d{{4}})\b")
_YEAR_FIRST = re.compile(r"(?<![\d./-])(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?![\d/.-]*\d)")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")

_TOKEN = re.compile(
    r"(?P<state>[✓✔✗✘✅❌☑☒☐⚠👍👎\ue002-\ue004])"
    r"|(?P<sign>(?<!\S)(?:[<>]=?(?!\s*[$€£¥]?\d)|[=!]==?|<?->|<-)(?!\S)|[≤≥≠→←↔⇒⇐])"
    r"|(?P<date>\d{4}-\d\d-\d\d)(?!\d)"
    r"|(?P<version>\bv\d+(?:\.\w+)*(?:[-+]\w+(?:\.\w+)*)?)"
    r"|(?P<number>(?:(?:<=|>=|!=|[<>≤≥≠≈~±])[ ]?)?(?:(?<![\w)\]])[-+])?[$€£¥]?\d+(?:[.,:/]\d+)*\+?)(?P<unit>[ -]?(?:%|°[CF]?|[^\W\d_]+(?!\w)))?"
    r"|(?P<flag>(?<![\w-])--?[A-Za-z][\w-]*)"
    r"|(?P<word>(?:(?<![\w.)\]])\.(?=[a-z]))?[^\W\d][\w$]*(?:\+\+|\#(?!\w))?(?:(?:\.|::|->|-|/|'|’)[^\W\d_][\w$]*)*(?:\(\))?)"
)
_PHRASE = re.compile(rf"(?i)\b(?:{'|'.join(sorted((re.escape(each) for each in PHRASES), key=len, reverse=True))})(?!\w)")
_NAME_BEFORE = re.compile(r"[a-z,;] \Z")


@dataclass(frozen=True)  # no slots: what is worked out of a text is kept with it, since a question compares each with many others
class Reading:
    """A text as guards see it; tokens and sorts go together."""

    tokens: tuple[str, ...]  # folded, but for code
    sorts: str  # a letter a token
    spans: tuple[str, ...]  # inline code, white space folded
    blocks: tuple[str, ...]  # code blocks, laid out as far as that matters
    languages: tuple[str, ...]  # of the code blocks
    tables: tuple[tuple[int, int], ...]  # rows and columns of each

    @cached_property
    def folded(self) -> tuple[str, ...]:
        """The tokens with code folded too: what stands in backticks in one text may stand in none in the other."""
        return tuple(fold(token) for token in self.tokens)

    @cached_property
    def opposites(self) -> frozenset[str]:
        """What words would be without what makes them the opposite."""
        negated = (token for token in self.tokens if token.startswith(NEGATING))
        return frozenset(token.removeprefix(prefix) for token in negated for prefix in NEGATING if token.startswith(prefix))

    @cached_property
    def content(self) -> Counter[str]:
        """The words that carry a subject, counted."""
        return Counter(t for t, sort in zip(self.tokens, self.sorts, strict=True) if sort in (WORD, NAME) and t not in STOP_WORDS)


@lru_cache(maxsize=READINGS)
def reading(markdown: str) -> Reading:
    """Read a text: what is visible of it, code as it stands, quotes and broken words mended."""
    text, spans, blocks = _normalized(markdown)
    held = (*spans, *(code for _, code in blocks))
    found: list[tuple[str, str]] = []
    for at, piece in enumerate(_HELD.split(text)):
        found += _tokens(held[int(piece)], True) if at % 2 else _tokens(piece, False)
    return Reading(
        tuple(sys.intern(token) for _, token in found),
        "".join(sort for sort, _ in found),
        tuple(_bare(span) for span in spans),
        tuple(_laid_out(language, code) for language, code in blocks),
        tuple(language for language, _ in blocks),
        tables_in(markdown),
    )


@lru_cache(maxsize=READINGS)
def comparable(markdown: str) -> tuple[str, tuple[str, ...]]:
    """Return the visible text with code verbatim in it, and the pieces of code."""
    text, spans, blocks = _normalized(markdown)
    code = (*spans, *(each for _, each in blocks))
    return _HELD.sub(lambda match: code[int(match[1])], re.sub(f"[{_CELL}{_STRUCK}{_DONE}]", " ", text)), code


def without_code(markdown: str) -> str:
    """Return a text without its code blocks and spans, whose words are of no natural language."""
    return _SPAN.sub(" ", _FENCE.sub("", markdown))


def tables_in(markdown: str) -> tuple[tuple[int, int], ...]:
    """Return rows and columns of each table in a text; a table has a row of dashes."""
    lines = markdown.splitlines()
    found = []
    for at, line in enumerate(lines):
        if at and "|" in line and _DELIMITER.match(line):
            rows = next((n for n, each in enumerate(lines[at + 1 :]) if "|" not in each), len(lines) - at - 1)
            found.append((rows + 1, len(cells(line))))
    return tuple(found)


def cells(row: str) -> list[str]:
    """Return the cells of a table's row."""
    return _BAR.split(row.strip(" \t>").removeprefix("|").removesuffix("|"))


def fence_language(info: str) -> str:
    """Return the language of a code fence by one of its names: `js` and `javascript` are one."""
    name = re.split(r"[\s{},:]+", info.strip(" \t`~{.").casefold())[0]
    return FENCE_LANGUAGES.get(name, name)


def _normalized(markdown: str) -> tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return the visible text with a mark for each piece of code, the spans, and the blocks with their languages; spans count first."""
    blocks: list[tuple[str, str]] = []
    spans: list[str] = []

    def hold_block(match: re.Match[str]) -> str:
        blocks.append((fence_language(match[3]), match[4]))
        return f"{match[1]}\ue000b{len(blocks) - 1}\ue001\n"

    def hold_span(match: re.Match[str]) -> str:
        spans.append(" ".join(match[2].replace("\\|", "|").split()))
        return f"\ue000{len(spans) - 1}\ue001"

    text = unicodedata.normalize("NFC", _BROKEN_WORD.sub("-", markdown.translate(_AS_WRITTEN)))
    text = _SPAN.sub(hold_span, _FENCE.sub(hold_block, text))
    text = re.sub("\ue000b(\\d+)\ue001", lambda match: f"\ue000{len(spans) + int(match[1])}\ue001", text)
    seen = visible(_marked_up(text))
    return (
        _ESCAPE.sub("", _ENTITY.sub(_unescaped, _UNDERLINED.sub(r"\1", _BLOCK_ID.sub("", seen)))).translate(_TYPOGRAPHY),
        tuple(spans),
        tuple(blocks),
    )


def _unescaped(entity: re.Match[str]) -> str:
    return unescape(entity[0]).translate(_OWN)


def _marked_up(text: str) -> str:
    """Keep what the visible text loses and a reader does not: cells, ticks, strikes, placeholders, numbers that begin a line of prose."""
    if "<" in text or "%%" in text:
        text = _AUTOLINK.sub(r"\1", _TARGET.sub(r"\1\2", _COMMENT.sub("", text)))
        text = _PLACEHOLDER.sub(lambda match: match[0] if match[2].casefold() in TAGS else f" {match[2]}{match[3]} ", text)
    text = _STRIKE.sub(f"{_STRUCK} \\1 {_STRUCK}", _CHECKED.sub(f"\\1{_DONE} ", _FOOTNOTE.sub("", text)))
    lines = text.split("\n")
    tables = any("|" in line and _DELIMITER.match(line) for line in lines)
    return "\n".join(_line(line, lines[at - 1] if at else "", tables) for at, line in enumerate(lines))


def _line(line: str, before: str, tables: bool) -> str:
    number = _NUMBERED.match(line)
    # a paragraph's line may begin with a number by chance: only 1 begins a list there (CommonMark 5.2)
    if number and number[2] != "1" and before.strip(" \t>") and not _ITEM.match(before) and not before.startswith((" ", "\t")):
        return f"{number[1]}{number[2]}\\{line[number.end(2) :]}"
    if tables and "|" in line and "[[" not in line:
        return line if _DELIMITER.match(line) else f" {_CELL} ".join(cells(line))
    if tables and "|" in line:
        return f" {_CELL} ".join(cells(re.sub(r"(\[\[[^\]\[|]*?)\\?\|([^\]\[]*\]\])", r"\1\\|\2", line)))
    return line


def _tokens(text: str, in_code: bool) -> list[tuple[str, str]]:
    text = " ".join(text.split())
    text = text if in_code else _PHRASE.sub(lambda match: PHRASES[match[0].casefold()], text)
    if any(c.isdigit() for c in text):
        text = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text) if in_code else _dated(text)
    found: list[tuple[str, str]] = []
    for match in _TOKEN.finditer(text):
        found += _sorted(match, in_code)
    return found


def _dated(text: str) -> str:
    """Write dates in one way; days before months and months before days stay as they are: nobody knows which is which."""
    text = _MONTH_DAY.sub(lambda m: f"{m[3]}-{MONTHS[m[1].casefold()]:02}-{int(m[2]):02}", text)
    text = _DAY_MONTH.sub(lambda m: f"{m[3]}-{MONTHS[m[2].casefold()]:02}-{int(m[1]):02}", text)
    text = _YEAR_FIRST.sub(lambda m: f"{m[1]}-{int(m[2]):02}-{int(m[3]):02}", text)
    return _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text)


def _sorted(match: re.Match[str], in_code: bool) -> list[tuple[str, str]]:
    """Return a token, or a number and its unit, with what each is."""
    token = match[0]
    if match["state"] or match["sign"]:
        return [(STATE, token)]
    if match["date"]:
        return [(DATE, token)]
    if match["version"]:
        return [(NUMBER, token.removeprefix("v") if "." in token else token)]
    if match["number"]:
        number, rest = match["number"].replace(" ", ""), (match["unit"] or "").lstrip(" -")
        attached = match["unit"] is not None and match["unit"][0] not in " -"
        if not rest:
            return [(NUMBER, number)]
        if attached or fold(rest) in UNITS:
            return [(NUMBER, number), (UNIT, _unit(rest))]
        return [(NUMBER, number), *_word(rest, in_code, False)]
    if match["flag"]:
        return [(CODE, token)]
    return list(_word(token, in_code, bool(_NAME_BEFORE.match(match.string, max(0, match.start() - 2), match.start()))))


def _unit(written: str) -> str:
    """Return a unit as it is compared: short ones with their case (Mb, MB), long ones in the singular."""
    folded = fold(written)
    if len(folded) > 3:
        return folded.removesuffix("s")
    return written[:-1] if folded in ("mins", "hrs", "lbs") else written


@lru_cache(maxsize=8192)
def _word(token: str, in_code: bool, inside: bool) -> tuple[tuple[str, str], ...]:
    bare = token.removesuffix("()").removesuffix("'s").removesuffix("’s")
    folded = fold(bare)
    if folded in CONTRACTIONS:
        return tuple((POLAR if part in POLARITY else WORD, part) for part in CONTRACTIONS[folded])
    if folded.endswith("n't"):
        return ((WORD, folded[:-3]), (POLAR, "not"))
    if bare in CASED:
        return ((POLAR, bare),)
    if folded in COUNTS:
        return ((NUMBER, COUNTS[folded]),)
    turning = next((form for form in (bare.casefold(), folded) if form in (ENGLISH_POLARITY if in_code else POLARITY)), None)
    if turning:
        return ((POLAR, turning),)
    if folded in DAYS_AND_MONTHS:
        return ((DATE, folded),)
    if in_code or looks_like_code(token) or not (token[0].isalnum() and token[-1].isalnum()):
        return ((CODE, bare),)
    # accents stay: schon is not schön
    plain = unicodedata.normalize("NFKC", bare).casefold().replace("-", "").replace("’", "'")
    sort, pieces = NAME if token[0].isupper() and inside else WORD, plain.split("'")
    if len(pieces) > 1 and pieces[0] == "n":  # elided: n'est is ne and est
        pieces[0] = "ne"
    return tuple((POLAR if len(pieces) > 1 and piece in POLARITY else sort, piece) for piece in pieces)


def _bare(span: str) -> str:
    """Return inline code without the brackets around a key's name or a placeholder, and without a call's."""
    inner = re.fullmatch(r"<([\w -]+)>", span)
    return (inner[1] if inner else span).removesuffix("()")


def _laid_out(language: str, code: str) -> str:
    """Return a code block with its lines where they mean something, else its tokens alone."""
    lines = [line.expandtabs(4).rstrip() for line in code.splitlines() if line.strip(" \t>")]
    margin = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    if language in LAYOUT_LANGUAGES or any(line.endswith(":") or re.search(r"(?:^|\s)(?:#|//)", line) for line in lines):
        return "\n".join(line[margin:] for line in lines)
    return " ".join(" ".join(lines).split())
