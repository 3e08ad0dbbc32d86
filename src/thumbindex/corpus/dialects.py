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
    blocks: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    md.block.ruler.before("fence", "dialect", _dialect_block, blocks)
    md.block.ruler.at("paragraph", _paragraph)
    md.disable("lheading")
    md.inline.ruler.before("escape", "dialect", _dialect_inline)
    _add_inline_rules(md)


def _dialect_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Apply the rule for the first signs of a line. One rule is faster than one of each kind."""
    first = state.bMarks[start] + state.tShift[start]
    rule = _BLOCK_RULES.get(state.src[first : first + 2])
    if rule and rule(state, start, end, silent):
        return True
    has_formula = state.src.find("$$", first, state.eMarks[start]) >= 0
    return has_formula and _formula_block(state, start, end, silent)


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

FORMULA_MARK = "$$"
"""`markup` of a paragraph that is a formula of several lines, perhaps with text beside it."""

_CODE_SPAN = re.compile(r"`[^`]*+`")
_BLOCK_MARK = re.compile(r"(?:#{1,6}|[>|*+-]|\d{1,9}[.)])\s")


def _has_odd_mark(line: str) -> bool:
    """Return whether a line has an opening or closing `$$` whose counterpart is elsewhere."""
    return "$$" in line and bool(_CODE_SPAN.sub("", line).count("$$") % 2)


def _formula(state: StateInline, silent: bool) -> bool:
    match = _FORMULA.match(state.src, state.pos, state.posMax)
    # a formula does not end a link that began before it: `[5 $](a.md) or [6 $](b.md)`
    if match is None or "]" in match[0].partition("[")[0]:
        return False
    if not silent:
        state.push("formula", "", 0).content = match[0]
    state.pos = match.end()
    return True


def _formula_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse the lines from an opening `$$` to the closing one as a paragraph.

    Blank lines are allowed if both marks are on lines of their own. If there is text beside the
    marks, it contains no list or heading, because `$$` may also be a price range.
    """
    first, last = state.bMarks[start], state.eMarks[start]
    if state.is_code_block(start):
        return False
    opening = state.src[first:last].strip()
    if not _has_odd_mark(opening) or opening.startswith("$$$"):
        return False
    lines, has_blank, is_list = [opening], False, False
    for number in range(start + 1, end):
        line = state.src[state.bMarks[number] : state.eMarks[number]].strip()
        is_outside = state.sCount[number] < state.blkIndent
        if not line:
            if opening != "$$" or number == start + 1:
                return False
            has_blank = True
            continue
        if _BLOCK_MARK.match(line):
            is_list = True
        if (has_blank and (is_outside or line.startswith("#"))) or (is_list and is_outside):
            return False
        lines.append(line)
        if _has_odd_mark(line):
            break
    else:
        return False
    is_display = (opening.startswith("$$") and line.endswith("$$")) or (
        line.startswith("$$") and (opening.startswith("$$") or opening.endswith("$$"))
    )
    if (is_list and not is_display) or (has_blank and line != "$$"):
        return False
    if not silent:
        state.line = number + 1
        _push_text(state, "\n".join(lines), start, state.line, markup=FORMULA_MARK)
    return True


def _push_text(
    state: StateBlock,
    content: str,
    start: int,
    end: int,
    *,
    kind: str = "paragraph",
    tag: str = "p",
    markup: str = "",
) -> None:
    opening = state.push(f"{kind}_open", tag, 1)
    opening.map, opening.markup = [start, end], markup
    inline = state.push("inline", "", 0)
    inline.content, inline.map, inline.children = content, [start, end], []
    state.push(f"{kind}_close", tag, -1)


# ------------------------------------------------------------------ paragraphs

_UNDERLINE = re.compile(r"(?:-+|=+)[ \t]*")

_LAZY_INDENT = 3
"""A line of a paragraph that is indented by more than this begins no block."""


def _paragraph(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a paragraph, or the heading that its underline makes of it.

    In markdown-it, two rules search for the end one after the other, and try every block at every
    line.
    """
    from markdown_it.common.utils import mdTrim

    outer, state.parentType = state.parentType, "paragraph"
    rules = state.md.block.ruler.getRules("paragraph")
    is_code, underline, number = state.is_code_block(start), None, start + 1
    while number < end and not state.isEmpty(number):
        indent = state.sCount[number]
        if indent - state.blkIndent <= _LAZY_INDENT and not _begins_no_block(state, number):
            if indent >= state.blkIndent and not is_code:
                first = state.bMarks[number] + state.tShift[number]
                underline = _UNDERLINE.fullmatch(state.src, first, state.eMarks[number])
            if underline or (indent >= 0 and any(rule(state, number, end, True) for rule in rules)):
                break
        number += 1
    content = mdTrim(state.getLines(start, number, state.blkIndent, False))
    state.line = number + bool(underline)
    if underline:
        tag = "h1" if underline[0][0] == "=" else "h2"
        _push_text(state, content, start, state.line, kind="heading", tag=tag)
    else:
        _push_text(state, content, start, state.line)
    state.parentType = outer
    return True


def _begins_no_block(state: StateBlock, number: int) -> bool:
    """Return whether a line begins with a letter, and is no formula and no header of a table."""
    first = state.bMarks[number] + state.tShift[number]
    if not state.src[first].isalpha() or state.src.find("$$", first, state.eMarks[number]) >= 0:
        return False
    below = state.bMarks[number + 1] + state.tShift[number + 1]
    return state.src[below : below + 1] not in "-|:"


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
