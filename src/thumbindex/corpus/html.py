"""A note as HTML that can do nothing: a few tags with a few attributes, each block with its lines,
links that were looked up or lead away openly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from markupsafe import Markup

from thumbindex.corpus.front_matter import read_front_matter
from thumbindex.corpus.markdown import (
    add_inline_rules,
    inline_pieces,
    is_attachment,
    parse_destination,
    parse_wikilink,
    read_source,
    visible_heading,
    without_anchor,
)
from thumbindex.model import Link, LinkKind, RenderedNote
from thumbindex.text import bare_name, strip_invisible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MOST_LINES = 4_000
"""Of a note that are rendered at once: a longer one is shown around the lines that are asked
for.
"""

MOST_CHARACTERS = 400_000
"""Of those lines: one line may be a whole file."""

_LONGEST_ADDRESS = 2_000

_NESTING = 40

_ALIGNMENTS = {
    "text-align:left": "left",
    "text-align:center": "center",
    "text-align:right": "right",
}

_LIVE = {"http", "https", "mailto"}
"""Schemes of addresses that a reader may follow; any other one is shown as text."""

_REL = 'rel="noopener noreferrer nofollow"'

LinkAddress = Callable[[Link], str | None]
"""Tells where a link inside the folder leads on the page; None where it leads to no note."""

TagAddress = Callable[[str], str]


@dataclass(slots=True)
class _Writing:
    """What is known while blocks are written: line numbers count from 1 in the file."""

    link_address: LinkAddress
    tag_address: TagAddress
    offset: int  # lines before the first one that is parsed
    cited: range
    anchors: dict[str, int]  # by a heading's bare name, its line
    is_anchored: bool = False  # the first cited block has been written


def render_note(
    path: str,
    text: str,
    link_address: LinkAddress,
    tag_address: TagAddress,
    lines: tuple[int, int] | None = None,
    title: str = "",
) -> RenderedNote:
    """Render a decoded file, or the part of a long one around some lines (from 1), which are marked
    as cited.

    Comments and front matter are left out, HTML in the note is shown as it is written. Unless a
    note begins with its own title, its highest headings are of the second level, below the title
    that the page has.
    """
    text = strip_invisible(text)
    front = read_front_matter(path, text)
    rows = read_source("\n" * front.lines + text[front.size :], path).text.split("\n")
    total = len(rows) - (not rows[-1])
    first, last = _window(rows, lines, total)
    md = _parser()
    env: dict[str, Any] = {}
    tokens = md.parse("\n".join(rows[first - 1 : last]), env)
    headings = tuple(_headings(md, tokens, first - 1, env))
    begins = headings[0][:2] == (1, " ".join(title.split())) if headings and title else False
    anchors = {bare_name(name): line for _, name, line in reversed(headings)}
    writing = _Writing(
        link_address,
        tag_address,
        first - 1,
        range(lines[0], lines[1] + 1) if lines else range(0),
        anchors,
    )
    shift = 0 if begins else 2 - min((level for level, *_ in headings), default=2)
    html = "".join(_blocks(md, tokens, env, writing, shift))
    return RenderedNote(Markup(html), headings, first, last, total, begins)


def _window(rows: Sequence[str], lines: tuple[int, int] | None, total: int) -> tuple[int, int]:
    """Return the first and last line that are rendered."""
    first = max(1, min((lines[0] if lines else 1) - MOST_LINES // 4, total - MOST_LINES + 1))
    last = min(total, first + MOST_LINES - 1)
    start = (
        lines[0]
        if lines and sum(map(len, rows[first - 1 : lines[0]])) > MOST_CHARACTERS // 2
        else first
    )
    size = 0
    for number in range(start, last + 1):
        size += len(rows[number - 1])
        if size > MOST_CHARACTERS:
            return start, max(start, number - 1)
    return start, max(start, last)


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    # Imported here, as `corpus.markdown` does: a server without the page renders nothing.
    from markdown_it import MarkdownIt
    from mdit_py_plugins.footnote import footnote_plugin

    md = MarkdownIt("commonmark", {"maxNesting": _NESTING, "html": False}).enable(
        ["table", "strikethrough"]
    )
    md.use(footnote_plugin, inline=False, move_to_end=False)
    add_inline_rules(md)
    md.core.ruler.enableOnly(["block"])
    return md


def _headings(
    md: MarkdownIt, tokens: Sequence[Token], offset: int, env: dict[str, Any]
) -> Iterator[tuple[int, str, int]]:
    for before, token in pairwise(tokens):
        if before.type == "heading_open" and before.map:
            yield (
                int(before.tag[1]),
                visible_heading(md, token.content, env),
                before.map[0] + offset + 1,
            )


# ------------------------------------------------------------------ blocks

_PLAIN = {
    "blockquote": "blockquote",
    "bullet_list": "ul",
    "list_item": "li",
    "thead": "thead",
    "tbody": "tbody",
}


def _blocks(
    md: MarkdownIt, tokens: Sequence[Token], env: dict[str, Any], writing: _Writing, shift: int
) -> Iterator[str]:
    for at, token in enumerate(tokens):
        kind = token.type.removesuffix("_open").removesuffix("_close")
        opens = token.nesting == 1
        if token.type == "inline":
            before = tokens[at - 1]
            content = (
                without_anchor(token.content) if before.type == "heading_open" else token.content
            )
            yield _inline(md, content, env, writing)
        elif token.type in {"fence", "code_block"}:
            yield _code(token, writing)
        elif token.type == "hr":
            yield "<hr>\n"
        elif kind == "heading":
            tag = f"h{min(6, int(token.tag[1]) + shift)}"
            yield _opening_tag(tag, token, writing) if opens else f"</{tag}>\n"
        elif kind == "paragraph":
            tag = "div" if token.hidden else "p"
            yield _opening_tag(tag, token, writing) if opens else f"</{tag}>\n"
        elif kind == "tr":
            yield f"<tr{_place(token, writing)}>" if opens else "</tr>\n"
        elif kind in {"th", "td"}:
            side = _ALIGNMENTS.get(str(token.attrs.get("style", "")))
            aligned = f' class="{side}"' if side else ""
            yield f"<{kind}{aligned}>" if opens else f"</{kind}>"
        elif kind == "ordered_list":
            start = token.attrs.get("start", 1)
            first = f' start="{int(start)}"' if opens and start != 1 else ""
            yield f"<ol{first}>\n" if opens else "</ol>\n"
        elif kind == "table" and opens:
            yield '<div class="scroll" tabindex="0"><table class="table">\n'
        elif kind == "table":
            yield "</table></div>\n"
        elif kind == "footnote_reference" and opens:
            label = escape(str(token.meta.get("label", "")))
            yield f'<div class="footnote"><span class="quiet">{label}</span> '
        elif kind == "footnote_reference":
            yield "</div>\n"
        elif kind in _PLAIN:
            yield f"<{_PLAIN[kind]}>\n" if opens else f"</{_PLAIN[kind]}>\n"
        elif token.content:
            yield f"<p>{escape(token.content)}</p>\n"


def _opening_tag(tag: str, token: Token, writing: _Writing) -> str:
    return f"<{tag}{_place(token, writing)}>{_anchor(token, writing)}"


def _lines(token: Token, writing: _Writing) -> range:
    start, end = token.map or (0, 0)
    return range(start + writing.offset + 1, end + writing.offset + 1)


def _place(token: Token, writing: _Writing) -> str:
    """Return the attributes that say on which lines a block stands, and whether it is cited."""
    own = _lines(token, writing)
    if not own:
        return ""
    is_cited = (
        bool(writing.cited) and own.start < writing.cited.stop and writing.cited.start < own.stop
    )
    return (
        f' id="L{own.start}" class="block{" cited" if is_cited else ""}" '
        f'data-lines="{own.start}-{own.stop - 1}"'
    )


def _anchor(token: Token, writing: _Writing) -> str:
    """Return the line's number as a link, and where the first cited line stands inside this block a
    place to go to.
    """
    own = _lines(token, writing)
    if not own:
        return ""
    number = (
        f'<a class="number" href="#L{own.start}" tabindex="-1" aria-hidden="true">{own.start}</a>'
    )
    if writing.cited and writing.cited.start in own and not writing.is_anchored:
        writing.is_anchored = True
        if writing.cited.start == own.start:
            return number
        return f'{number}<span id="L{writing.cited.start}"></span>'
    return number


def _code(token: Token, writing: _Writing) -> str:
    own, rows = _lines(token, writing), token.content.split("\n")
    first = own.start + (token.type == "fence")
    shown = []
    for number, row in enumerate(rows[:-1] if rows and not rows[-1] else rows, start=first):
        shown.append(
            f'<span class="cited">{escape(row)}</span>' if number in writing.cited else escape(row)
        )
    place = _place(token, writing).replace(" cited", "")  # its lines are marked one by one
    text = "\n".join(shown)
    return f'<pre{place} tabindex="0">{_anchor(token, writing)}<code>{text}</code></pre>\n'


# ------------------------------------------------------------------ inside a block


def _inline(md: MarkdownIt, content: str, env: dict[str, Any], writing: _Writing) -> str:
    parts = []
    for piece, is_plain in inline_pieces(content):
        if is_plain:
            parts.append(escape(piece))
            continue
        tokens: list[Token] = []
        md.inline.parse(piece, md, env, tokens)
        parts += _inline_tokens(tokens, writing)
    return "".join(parts)


_MARKS = {
    "em_open": "<em>",
    "em_close": "</em>",
    "strong_open": "<strong>",
    "strong_close": "</strong>",
    "s_open": "<s>",
    "s_close": "</s>",
}


def _inline_tokens(tokens: Sequence[Token], writing: _Writing) -> Iterator[str]:
    closing: list[str] = []  # of links that are open
    for token in tokens:
        if token.type in _MARKS:
            yield _MARKS[token.type]
        elif token.type == "softbreak":
            yield "\n"
        elif token.type == "hardbreak":
            yield "<br>\n"
        elif token.type == "code_inline":
            yield f"<code>{escape(token.content)}</code>"
        elif token.type == "link_open":
            opened, close = (
                ("", "") if closing else _link(str(token.attrs.get("href", "")), writing)
            )
            closing.append(close)
            yield opened
        elif token.type == "link_close":
            yield closing.pop() if closing else ""
        elif token.type == "image":
            yield _image(
                str(token.attrs.get("src", "")), token.content, writing, is_inside=bool(closing)
            )
        elif token.type == "wikilink":
            yield _wikilink(token, writing, is_inside=bool(closing))
        elif token.type == "tag":
            name = escape(token.content)
            if closing:
                yield f"#{name}"
            else:
                href = escape(writing.tag_address(token.content))
                yield f'<a class="tag" href="{href}">#{name}</a>'
        elif token.type == "footnote_ref":
            yield f"<sup>[{escape(str(token.meta.get('label', '')))}]</sup>"
        else:
            yield escape(token.content)
    yield from reversed(closing)


def _link(target: str, writing: _Writing) -> tuple[str, str]:
    """Return what opens and closes a link."""
    if found := parse_destination(target, LinkKind.MARKDOWN, "", 0):
        return _inner(found, writing)
    if address := live(target):
        host = urlsplit(address).hostname or ""
        said = f' <span class="quiet host">({escape(host)})</span>' if host else ""
        return f'<a class="foreign" href="{escape(address)}" {_REL}>', f"</a>{said}"
    kind = "attachment" if is_attachment(target) else "dead"
    return f'<span class="{kind}" title="{escape(target[:_LONGEST_ADDRESS])}">', "</span>"


def _inner(link: Link, writing: _Writing) -> tuple[str, str]:
    if not link.target and (line := writing.anchors.get(bare_name(link.fragment))):
        return f'<a href="#L{line}">', "</a>"
    if link.target and (address := writing.link_address(link)):
        return f'<a href="{escape(address)}">', "</a>"
    return '<span class="broken">', '</span><span class="hidden-label"> (leads nowhere)</span>'


def _wikilink(token: Token, writing: _Writing, *, is_inside: bool) -> str:
    kind = LinkKind.EMBED if token.markup == "!" else LinkKind.WIKILINK
    found = parse_wikilink(token.content, kind, 0)
    if found is None:
        return f'<span class="attachment">{escape(token.content)}</span>'
    opened, closed = ("", "") if is_inside else _inner(found, writing)
    return f"{opened}{escape(found.text)}{closed}"


def _image(source: str, words: str, writing: _Writing, *, is_inside: bool) -> str:
    """Return an image as words: one of the folder is not served, one from elsewhere would tell its
    host who reads what.
    """
    said = escape(words or source.rpartition("/")[2])
    if address := live(source):
        opened, closed = ("", "") if is_inside else _link(address, writing)
        return f"{opened}image: {said}{closed}"
    return f'<span class="attachment">image: {said}</span>'


def live(target: str) -> str:
    """Return an address that a reader may follow as it was written; empty for one that leads
    elsewhere than it looks, or does something.
    """
    address = f"https:{target}" if target.startswith("//") else target
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        return ""
    if (
        parts.scheme.lower() not in _LIVE
        or len(address) > _LONGEST_ADDRESS
        or not address.isprintable()
    ):
        return ""
    return address if parts.scheme.lower() == "mailto" or host else ""
