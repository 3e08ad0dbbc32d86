"""Find the headings in blocks of HTML, and read the attributes of a tag."""

from __future__ import annotations

import re
from bisect import bisect_right
from html.parser import HTMLParser
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.ruler import RuleOptionsType
    from markdown_it.rules_block import StateBlock

HTML_LINK = re.compile(r"<a\s", re.I)
"""The beginning of an `<a>` tag with attributes."""

_HEADING = re.compile(r"<h([1-6])(?=[\s>])(?:[^<>\"']|\"[^<\"]*+\"|'[^<']*+'){0,500}+>", re.I)
_HEADING_TAG = re.compile(r"<(/?)h([1-6])(?=[\s>])[^<>]*+>", re.I)
_RAW = re.compile(r"<(pre|script|style|textarea)\b.*?(?:</\1\s*>|\Z)", re.I | re.S)
_ANY_TAG = re.compile(r"<[^<>]*+>")
_SIGN = re.compile(r"<[^<>]++>|&#?\w{1,40};|[!-/:-@\[-`{-~]", re.ASCII)
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_ALT = re.compile(r"\balt\s*=\s*[\"']?[^\"'\s>]", re.I)
_MAX_HEADING_LINES = 20
_MAX_TAG_CHARS = 2_000


class _TagReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.attributes: dict[str, str | None] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes = dict(reversed(attrs))  # of equal names, the first one counts


def html_attribute(tag: str, name: str) -> str:
    """Return the value of an attribute of a tag, or an empty string."""
    reader = _TagReader()
    reader.feed(tag[:_MAX_TAG_CHARS])
    return (reader.attributes.get(name) or "").strip()


def without_raw_text(html: str) -> str:
    """Replace code and scripts with spaces."""
    return _RAW.sub(lambda match: _blank(match[0]), html)


def add_html_headings(md: MarkdownIt) -> None:
    """Let a parser make headings of `<h1>` to `<h6>` in blocks of HTML."""
    from markdown_it.rules_block import html_block

    def with_headings(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        if not html_block(state, start, end, silent):
            return False
        if not (silent or state.level) and _HEADING.search(state.tokens[-1].content):
            _split_at_headings(state, end)
        return True

    alternatives: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote"]}
    md.block.ruler.at("html_block", with_headings, alternatives)


def _split_at_headings(state: StateBlock, end: int) -> None:
    """Replace the last token, a block of HTML, with its headings and the blocks between them."""
    block = state.tokens.pop()
    start, stop = block.map or (state.line, state.line)
    html = without_raw_text(block.content)
    line_starts = [0, *(match.end() for match in re.finditer("\n", html))]
    position, unclosed = start, -1  # lines
    for opening in _HEADING.finditer(html):
        row = bisect_right(line_starts, opening.start()) - 1
        line, column = start + row, opening.start() - line_starts[row]
        if line < position or line == unclosed:
            continue
        # a blank line may end the block, but not the heading
        last = min(line + _MAX_HEADING_LINES, end)
        text = state.getLines(line, last, state.blkIndent, False)
        inner_start = column + len(opening[0])
        closing = _HEADING_TAG.search(text, inner_start)
        if closing is None or not closing[1] or closing[2] != opening[1]:
            unclosed = line
            continue
        inner = text[inner_start : closing.start()]
        if not (_ANY_TAG.sub("", inner).strip() or _ALT.search(inner)):
            continue
        _push_html(state, position, line)
        position = line + text.count("\n", 0, closing.start()) + 1
        line_end = text.find("\n", closing.end())
        rest = text[closing.end() : line_end if line_end >= 0 else len(text)]
        beside = f"{text[:column]}{_blank(text[column : closing.end()])}{rest}"
        has_text_beside = bool(_ANY_TAG.sub("", beside).strip())
        # text in the same lines is also below the heading
        heading = state.push("heading_open", f"h{opening[1]}", 1)
        heading.map = [line, line if has_text_beside else position]
        inline = state.push("inline", "", 0)
        if not _BLANK_LINE.search(inner):  # below a blank line, the text is Markdown
            inner = _SIGN.sub(lambda m: m[0] if len(m[0]) > 1 else f"\\{m[0]}", inner)
        inline.content, inline.children = inner, []
        inline.map = [line + opening[0].count("\n"), position]
        state.push("heading_close", f"h{opening[1]}", -1)
        if has_text_beside:
            _push_html(state, line, position, beside)
    _push_html(state, position, stop)
    state.line = max(position, stop)


def _push_html(state: StateBlock, start: int, end: int, content: str = "") -> None:
    if start < end:
        block = state.push("html_block", "", 0)
        block.map = [start, end]
        block.content = content or state.getLines(start, end, state.blkIndent, True)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
