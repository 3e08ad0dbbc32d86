"""Headings and blocks of a Markdown text with their lines, links and tags; the door to markdown-it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from thumbindex.corpus.inline import Environment, add_inline_rules, read_inline, visible_heading, without_anchor
from thumbindex.model import BlockKind, Link

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_NESTING = 40  # open blocks at once; what lies deeper is text of the block around it
_LANGUAGE = re.compile(r"[\s{.]*([\w+#-]+)")


class Shape(Enum):
    """How a block is cut where it is too long to stay whole."""

    PROSE = auto()  # at sentences
    LINES = auto()  # at lines
    TABLE = auto()  # at rows, the header repeated
    CONTAINER = auto()  # at the blocks in it
    RULE = auto()  # a line drawn between blocks: no text


@dataclass(frozen=True, slots=True)
class Block:
    """One block; lines count from 0, the end is exclusive."""

    shape: Shape
    kind: BlockKind
    start: int
    end: int
    language: str = ""
    children: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Region:
    """What stands from one heading to the next; level 0 and no lines of heading before the first one."""

    level: int
    heading: str  # as a reader sees it
    start: int  # first line of the heading, from 0
    body: Block


@dataclass(frozen=True, slots=True)
class Outline:
    """A text's regions in order, and the links and tags in it."""

    regions: tuple[Region, ...]
    links: tuple[Link, ...]
    tags: tuple[str, ...]


_KINDS = {
    "bullet_list_open": (Shape.CONTAINER, BlockKind.LIST),
    "ordered_list_open": (Shape.CONTAINER, BlockKind.LIST),
    "list_item_open": (Shape.CONTAINER, BlockKind.LIST),
    "blockquote_open": (Shape.CONTAINER, BlockKind.PROSE),
    "footnote_reference_open": (Shape.CONTAINER, BlockKind.PROSE),
    "table_open": (Shape.TABLE, BlockKind.TABLE),
    "paragraph_open": (Shape.PROSE, BlockKind.PROSE),
    "heading_open": (Shape.PROSE, BlockKind.PROSE),
    "html_block": (Shape.LINES, BlockKind.PROSE),
    "fence": (Shape.LINES, BlockKind.CODE),
    "code_block": (Shape.LINES, BlockKind.CODE),
    "hr": (Shape.RULE, BlockKind.PROSE),
}


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    # Imported here: neither a server that answers nor a child that finds nothing to index parses a text.
    from markdown_it import MarkdownIt
    from mdit_py_plugins.footnote import footnote_plugin

    md = MarkdownIt("commonmark", {"maxNesting": _NESTING}).enable(["table", "strikethrough"]).use(footnote_plugin, inline=False, move_to_end=False)
    add_inline_rules(md)
    md.core.ruler.enableOnly(["block"])  # inline text is parsed by read_inline, which needs positions
    return md


def code_lines(text: str, closed: bool = False) -> tuple[tuple[int, int], ...]:
    """Return the lines of all blocks of code, from 0, half open, in order; where asked so, without those whose fence is never closed."""
    tokens = [token for token in _parser().parse(text) if token.type in ("fence", "code_block") and token.map]
    lines = text.split("\n") if closed else ()
    return tuple(_lines(token) for token in tokens if not lines or token.type == "code_block" or _is_closed(token, lines))


def _is_closed(token: Token, lines: Sequence[str]) -> bool:
    first, last = _lines(token)
    return last - first > 1 and lines[last - 1].strip(" \t>").startswith(token.markup)


def read_outline(text: str) -> Outline:
    """Find the headings and blocks of a Markdown text (CommonMark, tables, footnotes) and the links and tags in them."""
    md = _parser()
    env: Environment = {}
    tokens = md.parse(text, env)
    links: list[Link] = []
    tags: list[str] = []
    for before, token in pairwise(tokens):
        if token.type == "inline" and token.map and ("[" in token.content or "#" in token.content):
            content = without_anchor(token.content) if before.type == "heading_open" else token.content
            found, named = read_inline(md, content, token.map[0] + 1, env)
            links += found
            tags += named
    return Outline(tuple(_regions(md, tokens, text.count("\n") + 1, env)), tuple(links), tuple(dict.fromkeys(tags)))


def _regions(md: MarkdownIt, tokens: Sequence[Token], total: int, env: Environment) -> Iterator[Region]:
    marks = [i for i, token in enumerate(tokens) if token.type == "heading_open" and token.level == 0]
    level, heading, start, first, begin = 0, "", 0, 0, 0
    for mark in (*marks, len(tokens)):
        end = _lines(tokens[mark])[0] if mark < len(tokens) else total
        yield Region(level, heading, start, Block(Shape.CONTAINER, BlockKind.PROSE, first, end, "", _tree(tokens[begin:mark])))
        if mark < len(tokens):
            start, first = _lines(tokens[mark])
            level, heading, begin = int(tokens[mark].tag[1]), visible_heading(md, tokens[mark + 1].content, env), mark + 3


def _tree(tokens: Sequence[Token], kind: BlockKind = BlockKind.PROSE) -> tuple[Block, ...]:
    blocks: list[Block] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        close = _close(tokens, index)
        if token.type in _KINDS and token.map:
            shape, own = _KINDS[token.type]
            own = kind if own is BlockKind.PROSE else own  # a paragraph in a list is part of the list
            children = _tree(tokens[index + 1 : close], own) if shape is Shape.CONTAINER else ()
            blocks.append(Block(shape, own, *_lines(token), _language(token), children))
        index = close + 1
    return tuple(blocks)


def _close(tokens: Sequence[Token], index: int) -> int:
    """Return the position of the token that closes this one; its own where it opens nothing."""
    if tokens[index].nesting != 1:
        return index
    level = tokens[index].level
    return next(i for i in range(index + 1, len(tokens)) if tokens[i].nesting == -1 and tokens[i].level == level)


def _lines(token: Token) -> tuple[int, int]:
    assert token.map is not None
    return token.map[0], token.map[1]


def _language(token: Token) -> str:
    match = _LANGUAGE.match(token.info) if token.type == "fence" else None
    return match[1].lower() if match else ""
