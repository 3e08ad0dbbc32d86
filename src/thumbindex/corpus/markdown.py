"""Parse Markdown into headings, blocks, links and tags; adapter for markdown-it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import lru_cache
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from thumbindex.corpus.dialects import TAG_AFTER, add_dialects
from thumbindex.corpus.html_blocks import (
    HTML_LINK,
    add_html_headings,
    html_attribute,
    without_raw_text,
)
from thumbindex.corpus.links import (
    MARKDOWN_SUFFIXES,
    is_attachment,
    parse_destination,
    parse_wikilink,
)
from thumbindex.model import BlockKind, Link, LinkKind

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

    BlockRule = Callable[[StateBlock, int, int, bool], bool]

# ------------------------------------------------------------------ links and tags

_HEADING_TAIL = re.compile(
    r"(?<!\s)\s*\{\s*(?:(?:[:#.]|[\w-]{1,40}+=[\"']|data-)[^{}]*|/\*[^{}]*\*/\s*)\}\s*$"
    r"|\s\^[\w-]+\s*$"
)
# maximum characters parsed at once: in the worst case, the inline parser takes quadratic time
_MAX_INLINE_CHARS = 5_000
_MAX_LINK_TOKENS = 100  # of the text of `<a>`
_MAX_INLINE_BRACKETS = 800  # per piece; nested brackets take quadratic time

Environment = MutableMapping[str, Any]


def read_inline(
    md: MarkdownIt, content: str, line: int, env: Environment, *, only_html: bool = False
) -> tuple[list[Link], list[str]]:
    """Return the links and tags of a paragraph, cell or heading that begins at `line` (from 1).

    In a block of HTML, only `<a>` is a link.
    """
    links: list[Link] = []
    tags: list[str] = []
    for piece, first in _inline_pieces(content, line):
        if _has_too_many_brackets(piece):
            continue
        ends = [match.start() for match in re.finditer("\n", piece)]
        tokens: list[Token] = []
        md.inline.parse(piece, md, env, tokens)
        tags += [token.content for token in tokens if token.type == "tag"]
        for index, token in enumerate(tokens):
            parsed_link = (
                _read_link(tokens, index, first + bisect_right(ends, token.meta["offset"]))
                if "offset" in token.meta and (token.type == "html_inline" or not only_html)
                else None
            )
            if parsed_link:
                links.append(parsed_link)
                if token.type == "wikilink" and _is_tagged(piece, token.meta["offset"]):
                    tags += [parsed_link.target] if parsed_link.target else []
    return links, tags


def _is_tagged(text: str, offset: int) -> bool:
    """Return whether the wikilink at an offset is also a tag, as in Logseq: `#[[two words]]`."""
    before = text[max(0, offset - 2) : offset]
    return before == "#" or (before[1:] == "#" and before[0] in TAG_AFTER)


def split_inline(content: str) -> Iterator[tuple[str, bool]]:
    """Split a paragraph into pieces that are short enough for the inline parser.

    Each piece has a flag, which is True if the piece has too many brackets to be parsed.
    """
    for piece, _ in _inline_pieces(content, 0):
        yield piece, _has_too_many_brackets(piece)


def _has_too_many_brackets(piece: str) -> bool:
    return piece.count("[") > _MAX_INLINE_BRACKETS


MAX_HEADING_CHARS = _MAX_INLINE_CHARS
"""Maximum characters kept of a heading or title. Every chunk below a heading repeats it."""


def visible_heading(md: MarkdownIt, content: str, env: Environment) -> str:
    """Return a heading's visible text, without markup, anchors and link targets."""
    tokens: list[Token] = []
    piece = without_anchor(content)[:MAX_HEADING_CHARS]
    if _has_too_many_brackets(piece):
        return " ".join(piece.split())
    md.inline.parse(piece, md, env, tokens)
    images = (t.content for t in tokens if t.type == "html_inline" and "<img" in t.content.lower())
    text = _visible_text(tokens).strip() or " ".join(
        html_attribute(image, "alt") for image in images
    )
    return " ".join(text.replace("==", "").split())


def without_anchor(heading: str) -> str:
    """Return a heading's Markdown without its `{attributes}`, `{/*anchor*/}` or `^block`."""
    return _HEADING_TAIL.sub("", heading)


def _inline_pieces(content: str, line: int) -> Iterator[tuple[str, int]]:
    start = 0
    while len(content) - start > _MAX_INLINE_CHARS:
        limit = start + _MAX_INLINE_CHARS
        cut = max(content.rfind("\n", start, limit), content.rfind(" ", start, limit)) + 1 or limit
        yield content[start:cut], line
        line += content.count("\n", start, cut)
        start = cut
    yield content[start:], line


def _read_link(tokens: Sequence[Token], index: int, line: int) -> Link | None:
    token = tokens[index]
    if token.type == "wikilink":
        return parse_wikilink(
            token.content, LinkKind.EMBED if token.markup == "!" else LinkKind.WIKILINK, line
        )
    if token.type == "html_inline":
        return _read_html_link(tokens, index, line)
    if token.type == "image":
        embed = parse_destination(str(token.attrs["src"]), LinkKind.EMBED, token.content, line)
        return embed if embed and embed.target.lower().endswith(MARKDOWN_SUFFIXES) else None
    close = next(
        i
        for i in range(index, len(tokens))
        if tokens[i].type == "link_close" and tokens[i].level == token.level
    )
    return parse_destination(
        str(token.attrs["href"]), LinkKind.MARKDOWN, _visible_text(tokens[index + 1 : close]), line
    )


def _read_html_link(tokens: Sequence[Token], index: int, line: int) -> Link | None:
    tag = tokens[index].content
    href = html_attribute(tag, "href") if HTML_LINK.match(tag) else ""
    if href.startswith("{") and not href.startswith(("{{", "{%")):  # an expression of JSX
        return None
    following = islice(tokens, index + 1, index + _MAX_LINK_TOKENS)
    content = [*takewhile(lambda token: token.content[:3].lower() != "</a", following)]
    return parse_destination(
        href, LinkKind.MARKDOWN, " ".join(_visible_text(content).split()), line
    )


def _visible_text(tokens: Sequence[Token]) -> str:
    parts: list[str] = []
    for token in tokens:
        if token.type == "wikilink":
            wikilink = parse_wikilink(token.content, LinkKind.WIKILINK, 0)
            is_image = token.markup == "!" and is_attachment(wikilink.target)
            parts.append("" if is_image else wikilink.text)
        elif token.type in ("softbreak", "hardbreak") or token.content[:3].lower() == "<br":
            parts.append(" ")
        elif token.type == "tag":
            parts.append(f"#{token.content}")
        elif token.type != "html_inline":
            parts.append(token.content)
    return "".join(parts)


# ------------------------------------------------------------------ headings and blocks

MAX_BRACKETS = 100_000
"""Maximum opening square brackets parsed in a note, because a nested pair takes 0.2 ms."""

_MAX_NESTING = 40  # open blocks; deeper ones are text of the block around them

MAX_LINES = 200_000
"""Maximum lines parsed in a note."""

MAX_BARS = 200_000
"""Maximum vertical bars parsed in a note, because a table cell takes a kilobyte of memory."""

_LIMITS = (
    ("\n", MAX_LINES, "lines"),
    ("|", MAX_BARS, "vertical bars"),
    ("[", MAX_BRACKETS, "square brackets"),
)
"""(character, maximum, name). A note is plain text from the first line that exceeds a maximum."""

_MAX_TABLE_TOKENS = 3 * MAX_BARS
"""Maximum tokens of a note's tables: three per cell. Further tables stay text.

A limit on bars is not enough, because the parser pads short rows to the width of the header.
"""

_TABLE_TOKENS, _FIRST_TABLE_OVER_LIMIT = "table_tokens", "first_table_over_limit"
"""Keys of the parser's `env`: table tokens so far, and the first line (from 0) over the limit."""

MAX_HEADINGS = 20_000
"""Maximum headings of a note, because each begins a chunk. Further headings are plain text."""

_LANGUAGE = re.compile(r"[\s{.]*([\w+#-]+)")


class SplitMode(Enum):
    """How to split a block that is longer than a chunk."""

    PROSE = auto()  # at sentences
    LINES = auto()  # at lines
    UNPARSED = auto()  # at words: lines beyond the limits of parsing
    TABLE = auto()  # between rows, with the header repeated
    CONTAINER = auto()  # between its child blocks
    ITEM = auto()  # an item of a list or a definition, like a container
    TERM = auto()  # the line before its definitions
    RULE = auto()  # a horizontal rule, without text


@dataclass(frozen=True, slots=True)
class Block:
    """A block of Markdown. Lines are numbered from 0, and `end` is exclusive."""

    split_mode: SplitMode
    kind: BlockKind
    start: int
    end: int
    language: str = ""
    children: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Region:
    """A heading and its text up to the next heading.

    The text before the first heading is a region of level 0.
    """

    level: int
    heading: str  # without markup
    start: int  # first line of the heading, from 0
    body: Block


@dataclass(frozen=True, slots=True)
class ParsedMarkdown:
    """A text's regions in order, with its links and tags."""

    regions: tuple[Region, ...]
    links: tuple[Link, ...]
    tags: tuple[str, ...]
    # exceeded limits: the first line (from 1) treated as plain text, and the reason
    limits: tuple[tuple[int, str], ...] = ()


def is_mdx(path: str) -> bool:
    """Return whether a file is Markdown with JSX."""
    return path.lower().endswith(".mdx")


CODE_TYPES = frozenset({"fence", "code_block", "code_shortcode"})
"""Types of tokens that are code."""

_BLOCK_TYPES = {
    "bullet_list_open": (SplitMode.CONTAINER, BlockKind.LIST),
    "ordered_list_open": (SplitMode.CONTAINER, BlockKind.LIST),
    "list_item_open": (SplitMode.ITEM, BlockKind.LIST),
    "dl_open": (SplitMode.CONTAINER, BlockKind.LIST),
    "dt_open": (SplitMode.TERM, BlockKind.LIST),
    "dd_open": (SplitMode.ITEM, BlockKind.LIST),
    "blockquote_open": (SplitMode.CONTAINER, BlockKind.PROSE),
    "footnote_reference_open": (SplitMode.CONTAINER, BlockKind.PROSE),
    "table_open": (SplitMode.TABLE, BlockKind.TABLE),
    "paragraph_open": (SplitMode.PROSE, BlockKind.PROSE),
    "heading_open": (SplitMode.PROSE, BlockKind.PROSE),
    "html_block": (SplitMode.LINES, BlockKind.PROSE),
    "math_block": (SplitMode.LINES, BlockKind.PROSE),
    "fence": (SplitMode.LINES, BlockKind.CODE),
    "code_block": (SplitMode.LINES, BlockKind.CODE),
    "code_shortcode": (SplitMode.LINES, BlockKind.CODE),
    "hr": (SplitMode.RULE, BlockKind.PROSE),
}


@lru_cache
def parser(mdx: bool = False, with_dialects: bool = True) -> MarkdownIt:
    """Return a shared parser. It parses only blocks; callers parse the inline text.

    Without dialects, it parses CommonMark, tables and footnotes. Privacy rules need this: a dialect
    must never hide a `#private`. MDX has no indented code.
    """
    # Imported here, because queries and index runs without changes parse no Markdown.
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import table
    from mdit_py_plugins.deflist import deflist_plugin
    from mdit_py_plugins.footnote import footnote_plugin

    md = (
        MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING, "xhtmlOut": False})
        .enable(["table", "strikethrough"])
        .use(footnote_plugin, inline=False, move_to_end=False)
    )
    if with_dialects:
        add_dialects(md)
        md.use(deflist_plugin)
        add_html_headings(md)
    if mdx:
        md.disable("code")
    md.block.ruler.at("table", _limited(table), {"alt": ["paragraph", "reference"]})
    md.core.ruler.enableOnly(["block"])
    return md


def _limited(table: BlockRule) -> BlockRule:
    """Return the rule for tables, within the token limit for a note's tables."""

    def limited_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        if state.env.get(_TABLE_TOKENS, 0) > _MAX_TABLE_TOKENS:
            if "|" in state.src[state.bMarks[start] : state.eMarks[start]]:
                state.env.setdefault(_FIRST_TABLE_OVER_LIMIT, start)
            return False
        before = len(state.tokens)
        matched = table(state, start, end, silent)
        if matched and not silent:
            state.env[_TABLE_TOKENS] = state.env.get(_TABLE_TOKENS, 0) + len(state.tokens) - before
        return matched

    return limited_table


def code_lines(text: str, mdx: bool = False) -> tuple[tuple[int, int], ...]:
    """Return the half-open line ranges of code blocks, from 0."""
    tokens = block_tokens(text, mdx)
    return tuple(_lines(token) for token in tokens if token.type in CODE_TYPES)


def closed_fence_lines(text: str) -> tuple[tuple[int, int], ...]:
    """Return the half-open line ranges of closed fenced code blocks of CommonMark, from 0."""
    tokens = block_tokens(text, with_dialects=False)
    return tuple(_lines(token) for token in tokens if token.type == "fence" and _is_closed(token))


def block_tokens(text: str, mdx: bool = False, with_dialects: bool = True) -> list[Token]:
    """Parse the blocks of a text, up to the first line that exceeds a limit."""
    beginning, _ = _split_at_limits(f"{text}\n")  # every line ends with a line feed
    return parser(mdx, with_dialects).parse(beginning)


def _split_at_limits(text: str) -> tuple[str, str]:
    """Return the part of a text to parse as Markdown, and which limit the text exceeds, if any."""
    lines = f"{text}\n"
    end, too_many = len(text), ""
    for character, maximum, name in _LIMITS:
        match = next(islice(re.finditer(re.escape(character), lines), maximum, None), None)
        cut = lines.rfind("\n", 0, match.start()) + 1 if match else end
        if cut < end:
            end, too_many = cut, f"more than {maximum:,} {name}"
    return text[:end], too_many


def _is_closed(token: Token) -> bool:
    """Return whether a fenced block has a closing fence."""
    first, last = _lines(token)
    # the opening and the closing fence are not in the content
    return last - first == token.content.count("\n") + 2


def parse_markdown(text: str, mdx: bool = False) -> ParsedMarkdown:
    """Parse Markdown into headings, blocks, links and tags."""
    md = parser(mdx)
    env: Environment = {}
    beginning, too_many = _split_at_limits(text)
    tokens = md.parse(beginning, env)
    links: list[Link] = []
    tags: list[str] = []
    for index, token in enumerate(tokens):
        content, line = token.content, token.map[0] + 1 if token.map else 0
        has_html_link = "<" in content and bool(HTML_LINK.search(content))
        has_link = "](" in content or "[[" in content or ("references" in env and "[" in content)
        has_mark = has_html_link or has_link or "#" in content
        if token.type == "html_block" and has_html_link:
            html = without_raw_text(content)
            links += read_inline(md, html, line, env, only_html=True)[0]
        elif token.type == "inline" and line and has_mark:
            is_heading = tokens[index - 1].type == "heading_open"
            content = without_anchor(content) if is_heading else content
            new_links, new_tags = read_inline(md, content, line, env)
            links += new_links
            tags += new_tags
    heading_positions = [
        i for i, token in enumerate(tokens) if token.type == "heading_open" and token.level == 0
    ]
    total = text.count("\n") + 1
    limits: list[tuple[int, str]] = []
    if len(heading_positions) > MAX_HEADINGS:
        line = _lines(tokens[heading_positions[MAX_HEADINGS]])[0] + 1
        limits.append(
            (
                line,
                (
                    f"{len(heading_positions):,} headings, more than {MAX_HEADINGS:,}: headings "
                    "from this line on are treated as text"
                ),
            )
        )
    if _FIRST_TABLE_OVER_LIMIT in env:
        limits.append(
            (
                env[_FIRST_TABLE_OVER_LIMIT] + 1,
                f"more than {MAX_BARS:,} table cells: tables from this line on are treated as text",
            )
        )
    regions = [*_split_regions(md, tokens, heading_positions[:MAX_HEADINGS], total, env)]
    if too_many:
        parsed_lines = beginning.count("\n")
        limits.append((parsed_lines + 1, f"{too_many}: treated as plain text from this line on"))
        body = regions[-1].body
        unparsed = Block(SplitMode.UNPARSED, BlockKind.PROSE, parsed_lines, total)
        regions[-1] = replace(regions[-1], body=replace(body, children=(*body.children, unparsed)))
    return ParsedMarkdown(tuple(regions), tuple(links), tuple(dict.fromkeys(tags)), tuple(limits))


def _split_regions(
    md: MarkdownIt,
    tokens: Sequence[Token],
    heading_positions: Sequence[int],
    total: int,
    env: Environment,
) -> Iterator[Region]:
    level, heading, heading_line, body_line, body_token = 0, "", 0, 0, 0
    for position in (*heading_positions, len(tokens)):
        end = _lines(tokens[position])[0] if position < len(tokens) else total
        blocks = _blocks(tokens[body_token:position])
        body = Block(SplitMode.CONTAINER, BlockKind.PROSE, body_line, end, "", blocks)
        yield Region(level, heading, heading_line, body)
        if position < len(tokens):
            heading_line, body_line = _lines(tokens[position])
            level, body_token = int(tokens[position].tag[1]), position + 3
            heading = visible_heading(md, tokens[position + 1].content, env)


def _blocks(tokens: Sequence[Token], kind: BlockKind = BlockKind.PROSE) -> tuple[Block, ...]:
    blocks: list[Block] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        close = _close_index(tokens, index)
        if token.type in _BLOCK_TYPES and token.map:
            split_mode, block_kind = _BLOCK_TYPES[token.type]
            start, end = _lines(token)
            end = max(end, start + 1)  # the lines of a term are empty
            # a paragraph in a list is part of the list
            block_kind = kind if block_kind is BlockKind.PROSE else block_kind
            children = (
                _blocks(tokens[index + 1 : close], block_kind)
                if split_mode in (SplitMode.CONTAINER, SplitMode.ITEM)
                else ()
            )
            blocks.append(Block(split_mode, block_kind, start, end, _language(token), children))
        index = close + 1
    return tuple(blocks)


def _close_index(tokens: Sequence[Token], index: int) -> int:
    """Return the index of the token that closes `tokens[index]`.

    If `tokens[index]` opens nothing, return `index`.
    """
    if tokens[index].nesting != 1:
        return index
    level = tokens[index].level
    return next(
        i
        for i in range(index + 1, len(tokens))
        if tokens[i].nesting == -1 and tokens[i].level == level
    )


def _lines(token: Token) -> tuple[int, int]:
    assert token.map is not None
    return token.map[0], token.map[1]


def _language(token: Token) -> str:
    match = _LANGUAGE.match(token.info) if token.type == "fence" else None
    return match[1].lower() if match else ""
