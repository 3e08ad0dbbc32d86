"""Parser rules for Markdown beyond CommonMark: wikilinks, tags, formulas, admonitions.

A rule decides where text begins or ends that other rules may read. The text and its line numbers
stay those of the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from thumbindex.text import tag_name

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.ruler import RuleOptionsType
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

    Rule = Callable[[StateInline, bool], bool]


def add_dialects(md: MarkdownIt) -> None:
    """Let a parser recognize wikilinks, tags, formulas, admonitions and shortcodes."""
    from mdit_py_plugins.dollarmath.index import math_block_dollar

    blocks: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    md.block.ruler.before("fence", "dialect", _dialect_block, blocks)
    md.block.ruler.before("fence", "formula", math_block_dollar(allow_labels=False))
    md.inline.ruler.before("escape", "dialect", _dialect_inline)
    _add_inline_rules(md)


def _dialect_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Apply the rule for the first signs of a line. One rule is faster than one of each kind."""
    first = state.bMarks[start] + state.tShift[start]
    rule = _BLOCK_RULES.get(state.src[first : first + 2])
    return rule is not None and rule(state, start, end, silent)


def _dialect_inline(state: StateInline, silent: bool) -> bool:
    sign = state.src[state.pos]
    if sign == "$":
        return _formula(state, silent)
    return sign == "{" and _template_tag(state, silent)


# ------------------------------------------------------------------ formulas

_IN_FORMULA = r"(?:[^$`\\\n]|\\.|\n(?![^\S\n]*\n))"
_FORMULA = re.compile(
    rf"(?<![$\\])\$\$(?!\$)(?:{_IN_FORMULA}|\$(?!\$))++\$\$(?!\$)"
    # not after a letter (`US$`), and no price (`$5 and`)
    r"|(?<![A-Za-z0-9$\\])\$(?![\s$]|\d[^$\n]*?\s[^\W\d_]{2})"
    rf"{_IN_FORMULA}++(?<!\s)\$(?![0-9A-Z_$])",  # not before a price or variable (`$a/$B`)
    re.S,
)
"""A formula of LaTeX in a paragraph: `$x$`, `$$x$$`."""


def _formula(state: StateInline, silent: bool) -> bool:
    match = _FORMULA.match(state.src, state.pos, state.posMax)
    # a formula does not end a link that began before it: `[5 $](a.md) or [6 $](b.md)`
    if match is None or "]" in match[0].partition("[")[0]:
        return False
    if not silent:
        state.push("formula", "", 0).content = match[0]
    state.pos = match.end()
    return True


def _push_text(
    state: StateBlock,
    content: str,
    start: int,
    end: int,
    *,
    kind: str = "paragraph",
    tag: str = "p",
) -> None:
    opening = state.push(f"{kind}_open", tag, 1)
    opening.map = [start, end]
    inline = state.push("inline", "", 0)
    inline.content, inline.map, inline.children = content, [start, end], []
    state.push(f"{kind}_close", tag, -1)


# ------------------------------------------------------------------ admonitions and tabs

_ADMONITION = re.compile(
    r"(?:(?:!!!|\?\?\?\+?) ?(?:[\w-][\w -]*+|(?=\"))|===[+!]{0,2} +(?=\"))(?:\"[^\n]*\")?\s*$"
)
"""The first line of a block of MkDocs: `!!! tip "Title"`, `??? note`, `=== "Tab"`."""

_BODY_INDENT = 4
_MAX_INDENT = 160


def _admonition(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse the body of an admonition or tab as Markdown, although it is indented like code.

    The body is not nested in the first line, so that its headings begin sections.
    """
    first, indent = state.bMarks[start] + state.tShift[start], state.blkIndent + _BODY_INDENT
    if state.src[first : first + 3] not in ("!!!", "???", "===") or state.is_code_block(start):
        return False
    body = state.skipEmptyLines(start + 1)
    if body >= end or not indent <= min(state.sCount[body], _MAX_INDENT):
        return False
    if not _ADMONITION.match(state.src[first : state.eMarks[start]]):
        return False
    if silent:
        return True
    last = body
    for number in range(body, end):
        if not state.isEmpty(number):
            if state.sCount[number] < indent:
                break
            last = number + 1
    _push_text(state, state.src[first : state.eMarks[start]].strip(), start, start + 1)
    state.tokens[-3].meta["admonition_end"] = last
    outer = state.blkIndent, state.lineMax
    state.blkIndent, state.lineMax = indent, last
    state.md.block.tokenize(state, body, last)
    state.blkIndent, state.lineMax = outer
    state.line = last
    return True


# ------------------------------------------------------------------ wikilinks and tags

_WIKILINK = re.compile(r"!?\[\[([^\[\]\n]+)\]\]")
TAG_AFTER = frozenset(" \t\n(\"'*_~=,;>|")


def _add_inline_rules(md: MarkdownIt) -> None:
    """Let a parser recognize wikilinks and tags, and record each link's offset in `token.meta`."""
    from markdown_it.rules_inline import html_inline, image, link

    md.inline.ruler.before("link", "wikilink", _wikilink_rule)
    md.inline.ruler.before("link", "tag", _tag_rule)
    md.inline.ruler.at("link", _record_offset(link, "link_open"))
    md.inline.ruler.at("image", _record_offset(image, "image"))
    md.inline.ruler.at("html_inline", _record_offset(html_inline, "html_inline"))
    helpers: Any = SimpleNamespace(**vars(md.helpers))
    helpers.parseLinkDestination = _parse_link_destination
    md.helpers = helpers


def _record_offset(rule: Rule, kind: str) -> Rule:
    def with_offset(state: StateInline, silent: bool) -> bool:
        offset, before = state.pos, len(state.tokens)
        matched = rule(state, silent)
        if matched and not silent:
            added = next(token for token in state.tokens[before:] if token.type == kind)
            added.meta["offset"] = offset
        return matched

    return with_offset


def _wikilink_rule(state: StateInline, silent: bool) -> bool:
    match = _WIKILINK.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        token = state.push("wikilink", "", 0)
        token.content, token.markup, token.meta = match[1], match[0][0], {"offset": state.pos}
    state.pos = match.end()
    return True


@lru_cache(maxsize=1)
def _tag() -> re.Pattern[str]:
    return re.compile(f"#({tag_name()})")


def _tag_rule(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] != "#" or (state.pos and state.src[state.pos - 1] not in TAG_AFTER):
        return False
    match = _tag().match(state.src, state.pos, state.posMax)
    name = match[1].strip("/") if match else ""
    if match is None or not name.strip("0123456789/-_"):
        return False
    if not silent:
        state.push("tag", "", 0).content = name
    state.pos = match.end()
    return True


# ------------------------------------------------------------------ tags of generators

_TAG_ENDS = {"{{<": ">}}", "{{%": "%}}", "{%": "%}"}
_MAX_TEMPLATE_TAG = 1_000
_CODE_TAG = re.compile(
    r"^[ \t>]*+\{(?:\{[<%]|%)-?[ \t]*+(?P<close>/|end)?+[ \t]*+(?P<name>[\w./-]++)[^{}\n]*+\}",
    re.M,
)
_CODE_RANGES = "code_ranges"
"""Key of the parser's `env`: lines of opening tags for code, mapped to those of closing tags."""


def _template_tag(state: StateInline, silent: bool) -> bool:
    begin = state.src[state.pos : state.pos + 3]
    close = _TAG_ENDS.get(begin) or _TAG_ENDS.get(begin[:2])
    limit = min(state.posMax, state.pos + _MAX_TEMPLATE_TAG)
    offset = state.src.find(close, state.pos + 2, limit) if close else -1
    if close is None or offset < 0:
        return False
    if not silent:
        state.push("template_tag", "", 0).content = state.src[state.pos : offset + len(close)]
    state.pos = offset + len(close)
    return True


def _code_shortcode(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a shortcode for code, such as `{{< highlight >}}`, up to its closing tag."""
    first = state.bMarks[start] + state.tShift[start]
    if not state.src.startswith(("{{<", "{{%", "{%"), first) or state.is_code_block(start):
        return False
    if _CODE_RANGES not in state.env:
        state.env[_CODE_RANGES] = _find_code_ranges(state.src)
    last = state.env[_CODE_RANGES].get(start, end)
    if last >= end or state.sCount[last] < state.blkIndent:
        return False
    if not silent:
        state.line = last + 1
        block = state.push("code_shortcode", "", 0)
        block.content = state.getLines(start, last + 1, state.blkIndent, True)
        block.map = [start, last + 1]
    return True


def _find_code_ranges(text: str) -> dict[int, int]:
    ranges: dict[int, int] = {}
    opened: dict[str, int] = {}
    line = position = 0
    for tag in _CODE_TAG.finditer(text):
        name = tag["name"]
        if "code" not in name and "highlight" not in name:
            continue
        line += text.count("\n", position, tag.start())
        position = tag.start()
        if tag["close"]:
            if name in opened:
                ranges[opened.pop(name)] = line
        elif not tag[0].endswith(("/>}", "/%}")):  # closes itself
            # a fence in the tag protects its text itself, and has a language
            following = text[tag.end() : tag.end() + 300].partition("\n")[2].lstrip(" \t\n>")
            opened.pop(name, None)
            if not following.startswith(("```", "~~~")):
                opened[name] = line
    return ranges


_TAGGED_DESTINATION = re.compile(
    r"(?:\{\{[^{}\n]{0,300}+\}\}|\{%[^{}\n]{0,300}+\}|[^\s()<>{}\\])++"
)


def _parse_link_destination(text: str, start: int, end: int) -> Any:
    """Parse a link's destination as markdown-it does, or with the tags of a site's generator.

    Only inside a tag may a destination have spaces: `[x]({{< ref "y" >}})`.
    """
    from markdown_it.helpers import parseLinkDestination

    result = parseLinkDestination(text, start, end)
    if "{" in text[start : result.pos]:
        match = _TAGGED_DESTINATION.match(text, start, end)
        if match and match.end() > result.pos:
            result.str, result.pos, result.ok = match[0], match.end(), True
    return result


_BLOCK_RULES = {
    "!!": _admonition,
    "??": _admonition,
    "==": _admonition,
    "{{": _code_shortcode,
    "{%": _code_shortcode,
}
