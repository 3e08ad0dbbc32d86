"""Find the abbreviations that a text defines: `Single Sign-On (SSO)`, `SSO (single sign-on)`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from thumbindex.corpus.markdown import Block, ParsedMarkdown, SplitMode
from thumbindex.corpus.source import SourceText
from thumbindex.model import Abbreviation, BlockKind
from thumbindex.text import STOP_WORDS, words
from thumbindex.visible_text import strip_markup

_SPAN = re.compile(r"(?<!`)(`+)(?!`)[^`]*\1(?!`)")
_PARENTHESES = re.compile(r"\((?<=\S \()([^()\n]{2,100})\)")
_ENDS_PHRASE = re.compile(r"[.!?:;,]\s|[()`|]")
_SHORT_FORM = re.compile(r"[A-Za-z\d]{2,10}")
_PLURAL = re.compile(r"(?<=[A-Z]{2})s$")
_INITIAL = re.compile(r"(?<![^\W_])[^\W_]|[A-Z]")
"""An initial: a letter at the start of a word or after a hyphen, or a capital (`JavaScript`)."""

_MAX_CHARS_BEFORE = 200
"""Maximum characters before a parenthesis that are searched for the long form."""

_MAX_ABBREVIATIONS = 200
"""Maximum abbreviations stored per document. Later ones are ignored."""


def find_abbreviations(
    title: str, source: SourceText, markdown: ParsedMarkdown
) -> tuple[Abbreviation, ...]:
    """Return the abbreviations that a document defines outside code, in document order."""
    abbreviations: dict[Abbreviation, None] = {}
    for text in _texts(title, source, markdown):
        for short, long in find_definitions(text):
            abbreviations[Abbreviation(" ".join(words(short)), " ".join(words(long)))] = None
    return tuple(abbreviations)[:_MAX_ABBREVIATIONS]


def _texts(title: str, source: SourceText, markdown: ParsedMarkdown) -> Iterator[str]:
    yield title
    for region in markdown.regions:
        yield region.heading
        for block in _leaves(region.body):
            if part := source.trim(block.start, block.end):
                yield source.text_between(*part)


def _leaves(block: Block) -> Iterator[Block]:
    if block.split_mode in (SplitMode.CONTAINER, SplitMode.ITEM):
        for child in block.children:
            yield from _leaves(child)
    elif block.kind is not BlockKind.CODE:
        yield block


def find_definitions(markdown: str) -> Iterator[tuple[str, str]]:
    """Yield (short form, long form) for each abbreviation that a text defines."""
    if " (" not in markdown:
        return
    without_code = _SPAN.sub(" ` ", markdown) if "`" in markdown else markdown
    text = " ".join(without_code.split())
    for match in _PARENTHESES.finditer(text):
        before = strip_markup(text[max(0, match.start() - _MAX_CHARS_BEFORE) : match.start()])
        outer = _words(_ENDS_PHRASE.split(before)[-1])
        inner = _words(re.split("[,;]", strip_markup(match[1]))[0])
        if len(inner) == 1 and (long := _long_form(inner[0], outer)):
            yield _PLURAL.sub("", inner[0]), " ".join(long)
        elif outer and inner and _long_form(outer[-1], inner) == inner:
            yield _PLURAL.sub("", outer[-1]), " ".join(inner)


def _words(text: str) -> list[str]:
    return [bare for word in text.split() if (bare := word.strip("\"'“”‘’>"))]


def _long_form(short: str, before: Sequence[str]) -> Sequence[str]:
    """Return the last words of `before` whose initials spell `short`, or nothing if none do.

    `short` needs at least two capitals. The initials of function words may be skipped.
    """
    letters = _PLURAL.sub("", short).lower()
    if (
        not _SHORT_FORM.fullmatch(short)
        or sum(map(str.isupper, short)) < 2
        or letters in STOP_WORDS
    ):
        return ()
    for start in range(len(before) - 1, -1, -1):
        long = before[start:]
        content_words = [word for word in long if word.lower() not in STOP_WORDS]
        if content_words[:1] == long[:1] and letters in (_initials(long), _initials(content_words)):
            return long
    return ()


def _initials(long: Sequence[str]) -> str:
    return "".join(letter for word in long for letter in _INITIAL.findall(word)).lower()
