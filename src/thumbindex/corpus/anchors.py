"""Find the anchors of a note: `^id` of blocks as in Obsidian, and ids of headings and HTML tags."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from thumbindex.corpus.markdown import CODE_TYPES, block_tokens

_BLOCK_ID = re.compile(r"(?:^|[\s>])\^([\w-]+)\s*$")
_EXPLICIT_ID = re.compile(
    r"\{(?:[^{}\n]{0,200}?[\s:/*])?(?:#|id=[\"'])([^\s{}*/\"']{1,200})[^{}\n]{0,200}\}\s*$"
)
_HTML_ID = re.compile(r"<[a-z][^<>]{0,300}?\s(?:id|name)\s?=\s?[\"']?([^\s\"'<>]+)", re.I)
_TAGS = re.compile(r"<[^<>]{0,400}>")

_MAX_LINES_BELOW_TAG = 10
"""Maximum lines, blank or with tags alone, between a tag's id and the text that it names."""

# ------------------------------------------------------------------ blocks


@dataclass(slots=True)
class _Block:
    type: str  # as in markdown-it, without `_open`
    start: int
    end: int
    parent: _Block | None = None
    children: list[_Block] = field(default_factory=list)

    def at(self, line: int) -> _Block:
        """Return the innermost block that contains a line. A table has no inner blocks."""
        block = self
        while block.children and block.type != "table":
            n = bisect_right(block.children, line, key=lambda child: child.start) - 1
            if n < 0 or block.children[n].end <= line:
                break
            block = block.children[n]
        return block


def find_block_ids(text: str, mdx: bool = False) -> dict[str, tuple[int, int]]:
    """Map each block id to the first and last line (from 1) of its block, in order.

    An id ends a paragraph, list item, quote, table or heading, or stands alone below a block.
    """
    lines = text.split("\n")
    matches = ((n, _BLOCK_ID.search(line)) for n, line in enumerate(lines) if "^" in line)
    ids = [(n, match[1]) for n, match in matches if match]
    root = _block_tree(text, len(lines), mdx) if ids else None
    ranges: dict[str, tuple[int, int]] = {}
    for n, block_id in ids:
        if root and (block := _block_of_id(root, n, lines)):
            end = block.end
            while end > block.start + 1 and not lines[end - 1].strip():
                end -= 1
            ranges.setdefault(block_id, (block.start + 1, end))
    return ranges


def _block_tree(text: str, total: int, mdx: bool) -> _Block:
    root = block = _Block("root", 0, total)
    for token in block_tokens(text, mdx):
        if token.nesting < 0:
            block = block.parent or root
        elif token.nesting or token.type in {*CODE_TYPES, "html_block"}:
            start, end = token.map or (block.start, block.end)
            inner = _Block(token.type.removesuffix("_open"), start, end, block)
            block.children.append(inner)
            block = inner if token.nesting else block
    return root


def _block_of_id(root: _Block, n: int, lines: Sequence[str]) -> _Block | None:
    """Return the block that the id in line `n` (from 0) belongs to; None in code."""
    block = root.at(n)
    parent = block.parent
    if parent is None or block.type in CODE_TYPES:
        return None
    if block.type == "heading":
        return block
    if block.end - 1 > n:
        return None
    if block.start == n and lines[n].strip(" \t\r>").startswith("^"):  # only the id
        position = bisect_left(parent.children, n, key=lambda child: child.start)
        if not position:
            return None
        block = parent.children[position - 1]
    elif lines[n].startswith("^"):  # a line below the last paragraph of a list or quote
        while block.parent is not root:
            block = block.parent or root
        return block
    is_whole = block is parent.children[-1] or lines[n].strip(" \t\r>").startswith("^")
    if parent.type == "list_item" and (is_whole or block is parent.children[0]):
        return parent
    return parent if parent.type == "blockquote" and is_whole else block


# ------------------------------------------------------------------ headings and HTML


def heading_anchors(
    headings: Sequence[tuple[int, str, int]], lines: Sequence[str]
) -> dict[str, int]:
    """Map the anchors that differ from the heading's text to the heading's position.

    They are an id (`{#id}`), and the number of a repeated heading (`faq-1` is the second FAQ).
    `headings` are level, text and line.
    """
    anchors: dict[str, int] = {}
    slugs: dict[str, int] = {}  # with the number of repetitions so far
    for n, (_, name, line) in enumerate(headings):
        slug = base = slugify(name)
        while slug in slugs:
            slugs[base] += 1
            slug = f"{base}-{slugs[base]}"
        slugs[slug] = 0
        if slug != base:
            anchors.setdefault(slug, n)
        if "{" in lines[line - 1] and (match := _EXPLICIT_ID.search(lines[line - 1])):
            anchors[slugify(match[1])] = n
    return anchors


def slugify(text: str) -> str:
    """Return a heading's text as GitHub writes it in an anchor, with single hyphens."""
    letters = (
        "-" if letter.isspace() or letter == "-" else letter
        for letter in unicodedata.normalize("NFC", text.casefold())
        if letter in "-_" or letter.isspace() or unicodedata.category(letter)[0] in "LMN"
    )
    return re.sub("-{2,}", "-", "".join(letters)).strip("-")


def find_html_ids(text: str, mdx: bool = False) -> dict[str, tuple[int, int]]:
    """Map each `id` or `name` of an HTML tag to the first and last line (from 1) of its block.

    A tag alone on its line belongs to the next line with text.
    """
    lines = text.split("\n")
    matches = ((n, _HTML_ID.findall(line)) for n, line in enumerate(lines) if "<" in line)
    tags = [(n, html_ids) for n, html_ids in matches if html_ids]
    root = _block_tree(text, len(lines), mdx) if tags else _Block("root", 0, 0)
    ranges: dict[str, tuple[int, int]] = {}
    for n, html_ids in tags:
        if root.at(n).type in CODE_TYPES:
            continue
        following = range(n, min(n + _MAX_LINES_BELOW_TAG, len(lines)))
        line = next((k for k in following if _TAGS.sub("", lines[k]).strip()), n)
        block = root.at(line)
        lines_named = (block.start + 1, block.end) if block.parent else (line + 1, line + 1)
        for html_id in html_ids:
            ranges.setdefault(html_id, lines_named)
    return ranges
