"""Turn Markdown into safe HTML: a whole note with line numbers, or a few lines of a passage."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from itertools import pairwise
from typing import Any
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from thumbindex.corpus.front_matter import read_front_matter
from thumbindex.corpus.links import (
    is_attachment,
    may_lead_elsewhere,
    parse_destination,
    parse_wikilink,
)
from thumbindex.corpus.markdown import is_mdx, parser, split_inline, visible_heading, without_anchor
from thumbindex.corpus.payload import OMITTED, omit_payloads
from thumbindex.corpus.source import read_source
from thumbindex.library.highlighting import highlight
from thumbindex.library.places import NotePlaces
from thumbindex.model import Link, LinkKind, RenderedNote
from thumbindex.text import has_cjk, strip_invisible

MAX_RENDERED_LINES = 4_000
"""Maximum lines rendered at once; a longer note is rendered around the requested lines."""

_MAX_RENDERED_CHARACTERS = 400_000
"""Maximum characters rendered at once: a single line may be huge."""

_MAX_COLORED_CHARACTERS = 100_000
"""Maximum characters of code colored at once."""

_MAX_ADDRESS = 2_000

_ALIGNMENTS = {
    "text-align:left": "left",
    "text-align:center": "center",
    "text-align:right": "right",
}

_EXTERNAL_SCHEMES = {"http", "https", "mailto"}
"""Schemes of external links; a link with another scheme is shown as text."""

_LINK_ATTRIBUTE = 'rel="noopener noreferrer nofollow"'

LinkTarget = Callable[[Link], str | None]
"""Returns the page address of a link inside the folder.

Empty if the link may lead to something else than a note; None if the link is broken.
"""

TagTarget = Callable[[str], str]


def render_note(
    path: str,
    text: str,
    link_address: LinkTarget,
    tag_address: TagTarget,
    lines: tuple[int, int] | None = None,
    title: str = "",
    in_vault: bool = True,
) -> RenderedNote:
    """Render a note's text, or the part of a long note around the cited lines (from 1).

    Comments and front matter are left out, and marks replace data. If the note does not begin with
    `title`, the top headings become level 2, below the page's title.
    """
    # no-break spaces, because an address with spaces is no image
    text = omit_payloads(strip_invisible(text), lambda p: p.mark().replace(" ", "\u00a0"))
    front = read_front_matter(path, text)
    source = read_source("\n" * front.lines + text[front.size :], path, in_vault)
    rows = source.text.split("\n")
    total = len(rows) - (not rows[-1])
    first, last = _window(rows, lines, total)
    md = parser(is_mdx(path))
    env: dict[str, Any] = {}
    tokens = md.parse("\n".join(rows[first - 1 : last]) + "\n", env)
    headings = tuple(_headings(md, tokens, first - 1, env))
    begins = headings[0][:2] == (1, " ".join(title.split())) if headings and title else False
    shift = 0 if begins else 2 - min((heading[0] for heading in headings), default=2)
    tokens = _with_callouts(tokens)
    _lower_headings(tokens, shift)
    _parse_inline(md, tokens, env)
    places = NotePlaces(path, text, in_vault)

    def anchor_line(anchor: str) -> int | None:
        line = places.line_of_link(anchor)
        return line if line and first <= line <= last else None

    cited = range(lines[0], lines[1] + 1) if lines else range(0)
    renderer = _Renderer(link_address, tag_address, _Numbers(first - 1, cited, anchor_line))
    html = renderer.render(tokens)
    return RenderedNote(Markup(html), headings, first, last, total, begins)


def render_lines(
    text: str,
    start: int,
    stop: int,
    words: Sequence[str],
    link_address: LinkTarget,
    tag_address: TagTarget,
    mdx: bool = False,
) -> Markup:
    """Render the lines between two offsets of a passage, with `words` marked.

    The lists, tables, quotes and code around the first line stay. Headings become paragraphs.
    """
    first = text.count("\n", 0, start)
    last = first + text[start:stop].removesuffix("\n").count("\n") + 1
    md, blocks, env = _passage_blocks(text, mdx)
    tokens = _cut(blocks, first, last)
    _parse_inline(md, tokens, env)
    renderer = _Renderer(link_address, tag_address, None, _word_pattern(tuple(words)))
    return Markup(renderer.render(tokens))


def _window(rows: Sequence[str], lines: tuple[int, int] | None, total: int) -> tuple[int, int]:
    """Return the first and last line to render."""
    first = max(
        1, min((lines[0] if lines else 1) - MAX_RENDERED_LINES // 4, total - MAX_RENDERED_LINES + 1)
    )
    last = min(total, first + MAX_RENDERED_LINES - 1)
    start = (
        lines[0]
        if lines and sum(map(len, rows[first - 1 : lines[0]])) > _MAX_RENDERED_CHARACTERS // 2
        else first
    )
    size = 0
    for number in range(start, last + 1):
        size += len(rows[number - 1])
        if size > _MAX_RENDERED_CHARACTERS:
            return start, max(start, number - 1)
    return start, max(start, last)


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

_KINDS = {
    "note": "note",
    "abstract summary tldr": "abstract",
    "info": "info",
    "todo": "todo",
    "tip hint important": "tip",
    "success check done": "success",
    "question help faq": "question",
    "warning caution attention": "warning",
    "failure fail missing": "failure",
    "danger error": "danger",
    "bug": "bug",
    "example": "example",
    "quote cite": "quote",
}
_KIND_OF = {name: kind for names, kind in _KINDS.items() for name in names.split()}
"""Names of callouts, and the class of each. Others have the class `note`."""

_CALLOUT = re.compile(r"\[!([\w -]{1,40})(?:\|[^\]\n]{0,40})?\][+-]?[ \t]*+([^\n]*+)(?:\n|\Z)")


@lru_cache(maxsize=64)
def _passage_blocks(text: str, mdx: bool) -> tuple[MarkdownIt, Sequence[Token], dict[str, Any]]:
    """Parse the blocks of a passage: while a user types, the same passages are shown again."""
    md, env = parser(mdx), dict[str, Any]()
    marked = OMITTED.sub(lambda match: match[0].replace(" ", "\u00a0"), text)
    tokens = md.parse(_CODE_REFERENCE.sub(r"\1", marked) + "\n", env)
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.type, token.tag = token.type.replace("heading", "raised"), "p"
    return md, _with_callouts(tokens), env


def _with_callouts(tokens: Sequence[Token]) -> list[Token]:
    """Replace quotes that begin with `[!kind]` by boxes with a title."""
    result: list[Token] = []
    are_callouts: list[bool] = []  # of the open quotes
    index = 0
    while index < len(tokens):
        token = tokens[index]
        index += 1
        if token.type == "blockquote_open":
            is_text = tokens[index].type == "paragraph_open"
            match = _CALLOUT.match(tokens[index + 1].content) if is_text else None
            are_callouts.append(match is not None)
            if match:
                kind = _KIND_OF.get(match[1].strip().lower(), "note")
                result.append(_replaced(token, "box_open", "div", kind))
                opening, inline, closing = tokens[index : index + 3]
                index += 3
                title, rest = inline.copy(), inline.copy()
                title.content = match[2].strip() or match[1].strip().capitalize()
                start, end = inline.map or [0, 0]
                title.map, rest.map = [start, start + 1], [start + 1, end]
                titled = _replaced(opening, "box_title_open", "p", "title")
                titled.map = title.map
                result += [titled, title, closing]
                _, _, rest.content = inline.content.partition("\n")
                if rest.content:
                    following = opening.copy()
                    following.map = rest.map
                    result += [following, rest, closing]
                continue
        elif token.type == "blockquote_close" and are_callouts.pop():
            token = _replaced(token, "box_close", "div", "")
        result.append(token)
    return result


def _replaced(token: Token, name: str, tag: str, info: str) -> Token:
    copied = token.copy()
    copied.type, copied.tag, copied.info = name, tag, info
    return copied


_COPIED = frozenset({"ordered_list_open", "list_item_open"})
"""Types of opening tokens that a window of lines changes."""


def _cut(tokens: Sequence[Token], first: int, last: int) -> list[Token]:
    """Return the blocks in some lines, inside the blocks that contain them.

    A table keeps its head. Lines are numbered from 0, and `last` is exclusive.
    """
    result: list[Token] = []
    opened: list[int] = []  # positions in `result`
    index = 0
    while index < len(tokens):
        token = tokens[index]
        index += 1
        start, end = token.map or (0, 0)
        # the term of a definition list has an empty range of lines
        overlaps = start < last and first < max(end, start + bool(token.map))
        if token.type == "tr_open":
            is_head = bool(result) and result[-1].type == "thead_open"
            stop = _close_of(tokens, index)
            if overlaps or is_head:
                cells = tokens[index - 1 : stop]
                result += [t.copy() if t.type == "inline" else t for t in cells]
            index = stop
        elif token.type == "table_open" and not overlaps:
            index = _close_of(tokens, index)
        elif token.nesting == 1:
            is_first_item = bool(result) and result[-1].type == "ordered_list_open"
            if is_first_item and token.info.isdigit():
                result[-1].attrs = {"start": int(token.info)}
            opened.append(len(result))
            result.append(token.copy() if token.type in _COPIED else token)
        elif token.nesting == -1:
            position = opened.pop()
            if position == len(result) - 1:
                result.pop()
            else:
                result.append(token)
        elif overlaps and (token.type == "hr" or _cut_content(token := token.copy(), first, last)):
            result.append(token)
    return result


def _close_of(tokens: Sequence[Token], index: int) -> int:
    """Return the index after the token that closes `tokens[index - 1]`, which is not nested."""
    name = tokens[index - 1].type.replace("_open", "_close")
    return next(i for i in range(index, len(tokens)) if tokens[i].type == name) + 1


def _cut_content(token: Token, first: int, last: int) -> bool:
    """Cut a token's text to some lines. Return whether any is left."""
    start = (token.map or [0])[0] + (token.type == "fence")
    rows = token.content.removesuffix("\n").split("\n")
    rows = rows[max(0, first - start) : max(0, last - start)]
    token.content = "\n".join(rows)
    return bool(rows)


def _lower_headings(tokens: Sequence[Token], shift: int) -> None:
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(6, int(token.tag[1]) + shift)}"


# ------------------------------------------------------------------ inside a block

_TASK = re.compile(r"\[([ xX])\](?:[ \t]+|\Z)")
_BLOCK_ID = re.compile(r"(?:^|[ \t])\^[\w-]+[ \t]*\Z", re.ASCII)
_OMITTED_TAGS = frozenset(
    "a abbr b big button center cite del div em font i kbd label mark p q s small span strike "
    "strong sub sup tt u".split()
)
"""Tags of HTML in a paragraph of which only the text is shown."""

_REFERENCE = re.compile(r"\[([^\]\[]++)\]\[[^\]\[]*+\]")
"""A link whose target stands elsewhere in the note."""

_CODE_REFERENCE = re.compile(r"\[(`[^`\n]++`)\]\[[^\]\[\n]*+\]")

_TAG_NAME = re.compile(r"</?([a-zA-Z]{1,6})(?:\s[^<>]*+)?/?>")


def _parse_inline(md: MarkdownIt, tokens: Sequence[Token], env: dict[str, Any]) -> None:
    """Parse the inline text of blocks."""
    for at, token in enumerate(tokens):
        if token.hidden:  # the paragraph of a tight list
            token.tag, token.hidden = "div", False
        elif token.type == "inline":
            before = tokens[at - 1]
            is_heading = before.type in {"heading_open", "raised_open"}
            content = without_anchor(token.content) if is_heading else token.content
            if "^" in content:
                content = _BLOCK_ID.sub("", content)
            task = None
            if content[:1] == "[" and at > 1 and tokens[at - 2].type == "list_item_open":
                task = _TASK.match(content)
            if task:
                content = content[task.end() :]
                tokens[at - 2].attrs = {"class": "task"}
            token.children = list(_children(md, content, env))
            if task:
                token.children.insert(0, Token("task", "", 0, content=task[1]))


def _children(md: MarkdownIt, content: str, env: dict[str, Any]) -> Iterator[Token]:
    for piece, is_plain in split_inline(content):
        if is_plain:
            yield Token("text", "", 0, content=piece)
        else:
            tokens: list[Token] = []
            md.inline.parse(piece, md, env, tokens)
            yield from _with_highlights(tokens) if "==" in piece else tokens


_HIGHLIGHT_SIGN = re.compile(r"(==)")


def _with_highlights(tokens: Sequence[Token]) -> list[Token]:
    """Replace pairs of `==` inside the same element by a highlight."""
    result: list[Token] = []
    opened: list[int | None] = [None]  # by nesting, the position of a sign that waits for another
    for token in tokens:
        if token.nesting == 1:
            opened.append(None)
        elif token.nesting == -1 and len(opened) > 1:
            opened.pop()
        parts = _HIGHLIGHT_SIGN.split(token.content) if token.type == "text" else []
        result += [Token("text", "", 0, content=part) for part in parts] or [token]
        for at, part in enumerate(parts):
            position = len(result) - len(parts) + at
            if part != "==":
                continue
            if opened[-1] is not None and not parts[at - 1][-1:].isspace():
                result[opened[-1]] = Token("highlight_open", "mark", 1)
                result[position] = Token("highlight_close", "mark", -1)
                opened[-1] = None
            elif not parts[at + 1][:1].isspace():
                opened[-1] = position
    return result


# ------------------------------------------------------------------ the renderer

_TAGS = frozenset(
    "h1 h2 h3 h4 h5 h6 p div blockquote ul ol li dl dt dd "
    "thead tbody tr th td hr em strong s br".split()
)
"""HTML tags that markdown-it may write; a token with another tag becomes text."""


_Attributes = dict[str, str]


def _opening(tag: str, attributes: _Attributes) -> str:
    values = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
    return f"<{tag}{values}>"


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The line numbers of a note, from 1 in the file."""

    offset: int  # lines before the first parsed one
    cited: range
    anchor_line: Callable[[str], int | None]  # the line that a link in the note leads to


class _Renderer:
    """Renders tokens as plain tags, without any attribute from the note.

    Custom writers render line numbers, links and images. A passage has no line numbers.
    """

    def __init__(
        self,
        link_address: LinkTarget,
        tag_address: TagTarget,
        numbers: _Numbers | None,
        marked: re.Pattern[str] | None = None,
    ) -> None:
        self._link_address, self._tag_address = link_address, tag_address
        self._numbers, self._marked = numbers, marked
        self._cited = numbers.cited if numbers else range(0)
        self._is_anchored = False  # the first cited block has been written
        self._colored = 0  # characters of code so far
        self._closing: list[str] = []  # closing tags of open links
        self._writers: dict[str, Callable[[Token], str]] = {
            "heading_open": self._numbered,
            "paragraph_open": self._numbered,
            "raised_open": lambda _: '<p class="heading">',
            "box_open": lambda token: f'<div class="box kind-{token.info}">\n',
            "box_title_open": self._numbered,
            "html_inline": self._html_tag,
            "text": lambda token: self._text(token.content),
            # an instruction to a site generator: in a passage, it says nothing to the reader
            "template_tag": lambda token: escape(token.content) if numbers else "",
            "highlight_open": lambda _: "<mark>",
            "highlight_close": lambda _: "</mark>",
            "task": self._task,
            "fence": self._code,
            "code_block": self._code,
            "html_block": self._code,
            "code_shortcode": self._code,
            "softbreak": lambda _: "\n",
            "code_inline": lambda token: f"<code>{self._mark(token.content)}</code>",
            "table_open": lambda _: '<div class="scroll" tabindex="0"><table class="table">\n',
            "table_close": lambda _: "</table></div>\n",
            "footnote_reference_open": lambda token: (
                f'<div class="footnote"><span class="quiet">{_label(token)}</span> '
            ),
            "footnote_reference_close": lambda _: "</div>\n",
            "footnote_ref": lambda token: f"<sup>[{_label(token)}]</sup>",
            "link_open": self._link_open,
            "link_close": lambda _: self._closing.pop(),
            "image": self._image,
            "wikilink": self._wikilink,
            "tag": self._tag,
        }

    def render(self, tokens: Sequence[Token]) -> str:
        """Return the HTML of tokens. The tokens stay as they are: others may render them, too."""
        return "".join(map(self._render, tokens))

    def _render(self, token: Token) -> str:
        """Render a token with the writer for its type, else as a tag or as text."""
        if token.type == "inline":
            return self.render(token.children or ())
        if write := self._writers.get(token.type):
            return write(token)
        if token.tag not in _TAGS:
            return escape(token.content)
        if token.nesting < 0:
            return f"</{token.tag}>\n" if token.block else f"</{token.tag}>"
        return _opening(token.tag, self._attributes(token))

    def _attributes(self, token: Token) -> _Attributes:
        if token.type == "ordered_list_open" and "start" in token.attrs:
            return {"start": str(int(token.attrs["start"]))}
        if token.type in {"td_open", "th_open"}:
            side = _ALIGNMENTS.get(str(token.attrs.get("style", "")), "")
            return {"class": side} if side else {}
        if token.type == "list_item_open" and "class" in token.attrs:
            return {"class": "task"}
        return self._block_attributes(token) if token.type == "tr_open" else {}

    def _lines(self, token: Token) -> range:
        if self._numbers is None or token.map is None:
            return range(0)
        start, end = token.map
        return range(start + self._numbers.offset + 1, end + self._numbers.offset + 1)

    def _block_attributes(self, token: Token) -> _Attributes:
        lines = self._lines(token)
        if not lines:
            return {}
        return {
            "id": f"L{lines.start}",
            "class": "block cited" if self._overlaps(lines) else "block",
            "data-lines": f"{lines.start}-{lines.stop - 1}",
        }

    def _overlaps(self, lines: range) -> bool:
        cited = self._cited
        return bool(cited) and lines.start < cited.stop and cited.start < lines.stop

    def _numbered(self, token: Token) -> str:
        """Return a block's opening tag and its line number."""
        attributes = self._block_attributes(token)
        if token.type == "box_title_open":
            attributes["class"] = f"{attributes.get('class', '')} box-title".strip()
        return f"{_opening(token.tag, attributes)}{self._anchor(token)}"

    def _anchor(self, token: Token) -> str:
        """Return the block's line number as a link, and an anchor for the first cited line."""
        lines = self._lines(token)
        if not lines:
            return ""
        number = (
            f'<a class="number" href="#L{lines.start}" tabindex="-1" aria-hidden="true">'
            f"{lines.start}</a>"
        )
        if self._cited and self._cited.start in lines and not self._is_anchored:
            self._is_anchored = True
            if self._cited.start != lines.start:
                return f'{number}<span id="L{self._cited.start}"></span>'
        return number

    def _code(self, token: Token) -> str:
        first = self._lines(token).start + (token.type == "fence")
        text = token.content.removesuffix("\n")
        language = _LANGUAGE.match(token.info) if token.type == "fence" else None
        self._colored += len(text)
        colored = None
        if language and self._colored <= _MAX_COLORED_CHARACTERS:
            colored = highlight(text, language[1].lower(), self._mark)
        rows = (self._mark(text) if colored is None else colored).split("\n")
        # cited lines are marked one by one; the first one is where the note opens
        attributes = self._block_attributes(token) | {"class": "block", "tabindex": "0"}
        cited = self._cited if self._numbers else range(0)
        opens_here = bool(cited) and cited.start in range(first, first + len(rows))
        anchor = f' id="L{cited.start}"' if opens_here and not self._is_anchored else ""
        self._is_anchored |= bool(anchor)
        marked_rows = [
            f'<span class="cited"{anchor if number == cited.start else ""}>{row}</span>'
            if number in cited
            else row
            for number, row in enumerate(rows, start=first)
        ]
        code = "\n".join(marked_rows)
        return f"{_opening('pre', attributes)}{self._anchor(token)}<code>{code}</code></pre>\n"

    # -------------------------------------------------------------- inside a block

    def _mark(self, text: str) -> str:
        """Return text as HTML, with the marked words in `<mark>`."""
        if self._marked is None:
            return escape(text)
        pieces = self._marked.split(text)
        return "".join(
            f"<mark>{escape(piece)}</mark>" if at % 2 else escape(piece)
            for at, piece in enumerate(pieces)
        )

    def _text(self, text: str) -> str:
        """Return text as HTML, with bare URLs as links."""
        if self._numbers is None and "][" in text:
            text = _REFERENCE.sub(r"\1", text)
        if "://" not in text:
            return self._mark(text)
        if self._closing:
            return escape(text)
        parts: list[str] = []
        position = 0
        for match in _URL.finditer(text):
            url = _without_punctuation(match[0])
            if address := external_address(url):
                parts.append(self._mark(text[position : match.start()]))
                parts.append(f'<a class="foreign" href="{escape(address)}" {_LINK_ATTRIBUTE}>')
                parts.append(f"{escape(url)}</a>")
                position = match.start() + len(url)
        return "".join((*parts, self._mark(text[position:])))

    def _html_tag(self, token: Token) -> str:
        """Return a line break as HTML, nothing for a harmless tag, and the source of others."""
        match = _TAG_NAME.fullmatch(token.content)
        name = match[1].lower() if match else ""
        if name == "br":
            return "<br>"
        return "" if name in _OMITTED_TAGS else escape(token.content)

    def _task(self, token: Token) -> str:
        is_done = token.content != " "
        label = "done" if is_done else "to do"
        state = " checked" if is_done else ""
        return f'<input type="checkbox" disabled aria-label="{label}"{state}> '

    def _link_open(self, token: Token) -> str:
        opened, closed = "", ""
        if not self._closing:
            opened, closed = self._link(str(token.attrs.get("href", "")))
            if token.markup == "autolink" and closed.startswith("</a>"):
                closed = "</a>"  # the text shows the host
        self._closing.append(closed)
        return opened

    def _link(self, target: str) -> tuple[str, str]:
        """Return a link's opening and closing tags."""
        if link := parse_destination(target, LinkKind.MARKDOWN, "", 0):
            return self._inner(link)
        if address := external_address(target):
            host = urlsplit(address).hostname or ""
            host_label = f' <span class="quiet host">({escape(host)})</span>' if host else ""
            opened = f'<a class="foreign" href="{escape(address)}" {_LINK_ATTRIBUTE}>'
            return opened, f"</a>{host_label}"
        return f'<span class="dead" title="{escape(target[:_MAX_ADDRESS])}">', "</span>"

    def _inner(self, link: Link) -> tuple[str, str]:
        numbers = self._numbers
        if numbers and not link.target and (line := numbers.anchor_line(link.fragment)):
            return f'<a href="#L{line}">', "</a>"
        address = self._link_address(link) if link.target or not numbers else None
        if address:
            return f'<a href="{escape(address)}">', "</a>"
        if address is not None or may_lead_elsewhere(link.target):
            title = f"{link.target[:_MAX_ADDRESS]} is a file, or a page that a site generator makes"
            return f'<span class="attachment" title="{escape(title)}">', "</span>"
        return '<span class="broken">', '</span><span class="hidden-label"> (broken link)</span>'

    def _wikilink(self, token: Token) -> str:
        kind = LinkKind.EMBED if token.markup == "!" else LinkKind.WIKILINK
        link = parse_wikilink(token.content, kind, 0)
        opened, closed = ("", "") if self._closing else self._inner(link)
        text, kind_label = link.text, ""
        if kind is LinkKind.EMBED:
            is_file = is_attachment(link.target)
            kind_label = "image: " if is_file else "embedded: "
            if _SIZE.fullmatch(text):
                text = link.target
        return f"{opened}{kind_label}{self._mark(text)}{closed}"

    def _image(self, token: Token) -> str:
        """Return an image as text.

        Local images are not served, and an external image would reveal the reader to its host.
        """
        source = str(token.attrs.get("src", ""))
        name = unquote(source)
        name = name if name.startswith("[omitted:") else name.rpartition("/")[2]
        label = escape(token.content or name)
        if address := external_address(source):
            opened, closed = ("", "") if self._closing else self._link(address)
            return f"{opened}image: {label}{closed}"
        return f'<span class="attachment">image: {label}</span>'

    def _tag(self, token: Token) -> str:
        name = escape(token.content)
        if self._closing:
            return f"#{name}"
        return f'<a class="tag" href="{escape(self._tag_address(token.content))}">#{name}</a>'


_LANGUAGE = re.compile(r"[\s{.]*+([\w+#-]++)")
_URL = re.compile(r"https?://[^\s<>\"`|]{1,2000}+", re.I)
_SIZE = re.compile(r"\d{1,5}(?:x\d{1,5})?")


def _without_punctuation(url: str) -> str:
    """Return a bare URL without the punctuation of the sentence after it."""
    end, surplus = len(url), url.count(")") - url.count("(")
    while url[end - 1] in ".,;:!?'*_~" or (url[end - 1] == ")" and surplus > 0):
        surplus -= url[end - 1] == ")"
        end -= 1
    return url[:end]


@lru_cache(maxsize=64)
def _word_pattern(words: tuple[str, ...]) -> re.Pattern[str] | None:
    """Return a pattern with one group that matches any of the words as whole words."""
    parts = sorted(map(_word_part, set(words)), key=len, reverse=True)
    return re.compile(f"({'|'.join(parts)})", re.I) if parts else None


def _word_part(word: str) -> str:
    text = r"\s+".join(map(re.escape, word.split()))
    if has_cjk(word):  # written without spaces
        return text
    before = r"(?<!\w)" if word[0].isalnum() else ""
    return f"{before}{text}" + (r"(?!\w)" if word[-1].isalnum() else "")


def _label(token: Token) -> str:
    return escape(str(token.meta.get("label", "")))


def external_address(target: str) -> str:
    """Return a link's address if it is a safe web or mail address, else an empty string."""
    address = f"https:{target}" if target.startswith("//") else target
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        return ""
    if (
        parts.scheme.lower() not in _EXTERNAL_SCHEMES
        or len(address) > _MAX_ADDRESS
        or not address.isprintable()
    ):
        return ""
    return address if parts.scheme.lower() == "mailto" or host else ""
