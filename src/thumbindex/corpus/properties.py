"""Collect a note's properties: front matter, lines `key:: value`, and `[key:: value]` in prose."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from thumbindex.corpus.front_matter import FrontMatter, Property
from thumbindex.corpus.markdown import Block, ParsedMarkdown, SplitMode
from thumbindex.corpus.source import SourceText
from thumbindex.model import BlockKind

MAX_VALUES, _MAX_CHARS = 1_000, 500
"""Maximum values of a note, and maximum characters of a key or value."""

_KEY = r"([^\W_][\w .-]{0,80}+)"
_LINE = re.compile(
    r"(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t]|\[.\][ \t])*+"  # quotation, bullet, task
    rf"[*_]{{0,3}}+{_KEY}[*]{{0,3}}+::[*_]{{0,3}}+(?:[ \t]++(.*))?"
)
_IN_PROSE = re.compile(
    rf"(?<!\[)\[{_KEY}::[ \t]++((?:\[\[[^\[\]]++\]\]|[^\[\]])*+)\]"
    rf"|\({_KEY}::[ \t]++((?:\[\[[^\[\]]++\]\]|[^\[\]()])*+)\)"
)
_CODE_SPAN = re.compile(r"(?<!`)`++[^`]*+`++")
_WIKILINK = re.compile(r"\[\[[^\[\]]++\]\]")
_LISTS = frozenset(("tags", "tag", "alias", "aliases"))
_OF_BLOCKS = frozenset(("id", "collapsed"))  # Logseq's own, which say nothing about the note


def note_properties(
    front: FrontMatter, inline: Iterable[Property]
) -> tuple[Mapping[str, tuple[str, ...]], int | None]:
    """Return the distinct values of each property of a note, and the first line that is left out.

    Keys are in lower case.
    """
    values: dict[str, dict[str, None]] = {}
    properties = chain(front.texts, inline)
    for key, text, _ in islice(properties, MAX_VALUES):
        name, value = " ".join(key.split())[:_MAX_CHARS], " ".join(text.split())[:_MAX_CHARS]
        if name and value:
            values.setdefault(name, {})[value] = None
    left_out = next(properties, None)
    return {key: tuple(texts) for key, texts in values.items()}, left_out and left_out.line


def inline_properties(source: SourceText, markdown: ParsedMarkdown) -> Iterator[Property]:
    """Yield the properties of Dataview and Logseq in a text, outside code and comments.

    A value with wikilinks is a list of them.
    """
    if "::" not in source.text:
        return
    code = set(chain.from_iterable(_code_lines([region.body for region in markdown.regions])))
    for number, line in enumerate(source.text.split("\n")):
        if "::" not in line or number in code:
            continue
        if match := _LINE.fullmatch(line.rstrip()):
            found = [(match[1], match[2] or "")]
        else:
            masked = _CODE_SPAN.sub(lambda span: " " * len(span[0]), line)
            found = [
                (match[group], line[slice(*match.span(group + 1))])
                for match in _IN_PROSE.finditer(masked)
                for group in (1 if match[1] else 3,)
            ]
        for key, value in found:
            name = key.strip(" _.-").lower()
            if name not in _OF_BLOCKS:
                yield from (Property(name, text, number + 1) for text in _values(name, value))


def _values(key: str, text: str) -> Sequence[str]:
    if links := _WIKILINK.findall(text):
        return [str(link) for link in links]
    if key in _LISTS:
        return [tag.strip() for tag in text.split(",")]
    return [text.strip(" \"'")]


def _code_lines(blocks: Iterable[Block]) -> Iterator[range]:
    for block in blocks:
        if block.kind is BlockKind.CODE or block.split_mode is SplitMode.UNPARSED:
            yield range(block.start, block.end)
        yield from _code_lines(block.children)
