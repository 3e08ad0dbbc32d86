"""Abbreviations that a text defines: `Single Sign-On (SSO)`, `SSO (single sign-on)`, `Kubernetes
(k8s)`, `<abbr title>`, `*[SSO]: Single Sign-On`.

Which letters of the long form make the short one: Schwartz & Hearst, "A simple algorithm for
identifying abbreviation definitions in biomedical text", PSB 2003. Theirs is made for papers; what
it finds too much of in notes is told by the shape of the short form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thumbindex.corpus.markdown import Block, Outline, Shape, Source
from thumbindex.model import Abbreviation, BlockKind
from thumbindex.text import STOP_WORDS, visible, words

_SPAN = re.compile(r"(?<!`)(`+)(?!`)[^`]*\1(?!`)")
_PARENTHESES = re.compile(r"(?<=\S )\(([^()\n]{2,100})\)")
_MARKUP = re.compile(r"[*_~=<>\[\]|\n]")
_QUOTED_LINE = re.compile(r"\n[ \t>]*")
_AROUND = "*_\"'“”‘’ "
_TITLED = re.compile(
    r"<abbr\s{1,9}title=[\"']([^\"'<>]{3,100})[\"']\s{0,9}>([^<>]{2,20})</abbr>", re.I
)
_LISTED = re.compile(r"^[ \t]{0,3}\*\[([^\]\n]{2,20})\]:[ \t]{0,9}(\S[^\n]{2,100})", re.M)
_SHORT = re.compile(r"[^\W_][^\W_.&/-]{0,8}[^\W_]")
_PLURAL = re.compile(r"[A-Z\d]{2,}s")
_NUMERONYM = re.compile(r"([a-z])(\d{1,2})([a-z])")
_SAID = re.compile(
    r"^(?:also (?:known as|called)|abbreviated(?: as| to)?|a\.k\.a\.|aka|short(?: for)?:?|or"
    r"|i\.e\.,?)\s+"
)
_ENDS_PHRASE = re.compile(r"[.!?:;,]\s|[()\n|]")
_PART = re.compile(r"[^\W_]+")

_MARKS = (" (", "<abbr", "*[")
"""One of these stands in whatever defines something."""

_PIECE = 5_000
"""Characters that are looked at together: patterns for Markdown may take time with the square of a
text.
"""

_BEFORE = 200
"""Characters before a parenthesis in which a long form is looked for: ten words and their
markup.
"""

_MOST = 200
"""Definitions that are kept of one document: a glossary has as many, and a file that is made to
hold millions is none.
"""

_PREFIX = 3
"""The fewest letters of a short form that stands for one word, capitals inside that word aside:
`config`, `app`.
"""


def find_abbreviations(title: str, source: Source, outline: Outline) -> tuple[Abbreviation, ...]:
    """Return what a document defines, each once, in order; code is not looked at."""
    found: dict[Abbreviation, None] = {}
    for text in _texts(title, source, outline):
        for written, long in defined_in(text):
            short = written[:-1] if _PLURAL.fullmatch(written) else written
            each = Abbreviation(" ".join(words(short)), " ".join(words(long)))
            if _is_worth(each, sum(word not in STOP_WORDS for word in long.lower().split())):
                found[each] = None
        if len(found) >= _MOST:
            break
    return tuple(found)[:_MOST]


def _texts(title: str, source: Source, outline: Outline) -> Iterator[str]:
    """Yield the title, the headings and what is no code, in pieces; what a paragraph wraps stands
    in one line.
    """
    yield title[:_PIECE]
    for region in outline.regions:
        yield region.heading[:_PIECE]
        for block in _leaves(region.body):
            part = source.trim(block.start, block.end)
            text = source.show(*part) if part else ""
            if block.shape is Shape.PROSE and "*[" not in text:
                text = _QUOTED_LINE.sub(" ", text)
            yield from (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))


def _leaves(block: Block) -> Iterator[Block]:
    if block.shape is Shape.CONTAINER:
        for child in block.children:
            yield from _leaves(child)
    elif block.kind is not BlockKind.CODE:
        yield block


def defined_in(markdown: str) -> Iterator[tuple[str, str]]:
    """Yield each short form that a text defines, with its long form, as they are written; takes
    time in proportion to the text.
    """
    if not any(mark in markdown for mark in _MARKS):
        return
    text = _SPAN.sub(" ` ", markdown)
    yield from ((short.strip(), long.strip()) for long, short in _TITLED.findall(text))
    yield from _LISTED.findall(text)
    for match in _PARENTHESES.finditer(text):
        inside = re.split(r"[,;]", _SAID.sub("", match[1].strip(_AROUND)), maxsplit=1)[0].strip(
            _AROUND
        )
        before = text[max(0, match.start() - _BEFORE) : match.start()]
        if _is_short(inside) or _stands_out(before.split()[-1]):
            yield from _told_by(_ENDS_PHRASE.split(_shown(before))[-1], _shown(inside))


def _shown(markdown: str) -> str:
    """Return what a reader sees of a text that has no lines of its own; most have no markup at
    all.
    """
    return visible(markdown) if _MARKUP.search(markdown) else markdown


def _told_by(before: str, inside: str) -> Iterator[tuple[str, str]]:
    """Yield the definition, if any, that the words before a parenthesis make with what is in it,
    either way round.
    """
    outer, inner = before.split(), inside.split()
    long = long_form(inside, outer) if _is_short(inside) else ""
    if long:
        yield inside, long
    elif outer and _is_short(outer[-1]) and _stands_out(outer[-1]):
        short = outer[-1]
        if len(inner) <= _window(short) and long_form(short, inner) == " ".join(inner):
            yield short, inside


def long_form(short: str, before: list[str]) -> str:
    """Return the last words of a list that a short form stands for, joined; empty where they are
    none.
    """
    numeronym = _NUMERONYM.fullmatch(short.lower())
    if numeronym:
        last = before[-1] if before else ""
        if len(last) != int(numeronym[2]) + 2:
            return ""
        ends = (last[0].lower(), last[-1].lower())
        return last if ends == (numeronym[1], numeronym[3]) else ""
    near, letters = before[-_window(short) :], _letters(short)
    start = _spelled_by(letters, near)
    start = _first_word(letters, near) if start is None else start
    long = [] if start is None else near[start:]
    # JavaScript (JS), but not: the user (US)
    if len(long) == 1 and len(letters) < _PREFIX and not set(short) <= set(long[0]):
        return ""
    return " ".join(long) if _stands_out(short) or _is_of_beginnings(short.lower(), long) else ""


def _spelled_by(letters: str, near: list[str]) -> int | None:
    """Return from which word on the words' first letters are the short form's: Secure Sockets
    Layer, where Sockets Layer has them as well.
    """
    initials = ""
    for start in range(len(near) - 1, -1, -1):
        initials = "".join(part[0].lower() for part in _PART.findall(near[start])) + initials
        if initials == letters:
            return start
    return None


def _window(short: str) -> int:
    letters = len(_letters(short))
    return min(letters + 5, letters * 2)


def _letters(short: str) -> str:
    """Return what of a short form the long one must hold; the plural's ending is nobody's."""
    plain = short[:-1] if _PLURAL.fullmatch(short) else short
    return "".join(c for c in plain.lower() if c.isalnum())


def _first_word(letters: str, near: list[str]) -> int | None:
    """Return at which word a long form begins: each letter from the last one is looked for to the
    left, the first one begins a word.
    """
    text = " ".join(near).lower()
    at = len(text)
    for n, letter in reversed(list(enumerate(letters))):
        at = text.rfind(letter, 0, at)
        while n == 0 and at > 0 and text[at - 1].isalnum():
            at = text.rfind(letter, 0, at)
        # the last word has the last letter, or it is about something else
        if at < 0 or (n == len(letters) - 1 and " " in text[at:]):
            return None
    return text.count(" ", 0, at)


def _is_of_beginnings(short: str, long: list[str]) -> bool:
    """Tell whether a short form without capitals is made of how words begin, each in turn: `regex`;
    anything else is a remark in parentheses.
    """
    parts = [part.lower() for word in long for part in _PART.findall(word)]
    if len(parts) == 1:
        return (
            len(short) >= _PREFIX and parts[0].startswith(short) and len(parts[0]) > len(short) + 2
        )
    reached = {0}
    for part in parts:
        own = {
            at + n
            for at in reached
            for n in range(1, len(part) + 1)
            if short[at : at + n] == part[:n]
        }
        reached = own | reached if part in STOP_WORDS else own
    return len(short) in reached


def _is_short(text: str) -> bool:
    return bool(_SHORT.fullmatch(text)) and any(c.isalpha() for c in text)


def _stands_out(short: str) -> bool:
    """Tell whether a form looks like an abbreviation wherever it stands: two capitals, a numeronym,
    or a capital and a digit.
    """
    return bool(_NUMERONYM.fullmatch(short.lower())) or sum(c.isupper() for c in short) >= 2


def _is_worth(found: Abbreviation, said: int) -> bool:
    """Tell whether a definition says something: no stop word, single letter or number, and no more
    words are said than the short form has letters.
    """
    short, long = found
    parts = long.split()
    return (
        len(short) > 1
        and len(long) > len(short)
        and short not in STOP_WORDS
        and short not in parts
        and not short.isdecimal()
        and parts[0] not in STOP_WORDS
        and said <= sum(c.isalnum() for c in short)
    )
