"""Read Markdown: comments taken out, headings and blocks with their lines, links, tags and visible
words; the adapter to markdown-it.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import lru_cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from thumbindex.model import BlockKind, Link, LinkKind

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

    Rule = Callable[[StateInline, bool], bool]

MARKDOWN_SUFFIXES = (".md", ".markdown", ".mdx")

ATTACHMENT_SUFFIXES = frozenset(
    ".png .jpg .jpeg .gif .svg .webp .bmp .avif .ico .tif .tiff .heic .mp3 .wav .ogg .m4a .flac "
    ".3gp .mp4 .webm .mov .mkv .avi"
    " .ogv .pdf .canvas .base .zip .tar .gz .xz .bz2 .7z .dmg .exe .deb .rpm .doc .docx .xls .xlsx "
    ".ppt .pptx .odt .csv .tsv .txt"
    " .json .yaml .yml .toml .xml .js .mjs .cjs .ts .tsx .jsx .css .scss .py .rs .go .c .h .cc "
    ".cpp .hpp .java .rb .php .sh .bat"
    " .ps1 .ipynb .sql .log .lock .excalidraw .epub .ttf .woff .woff2".split()
)
"""A target that ends so is a file to show or fetch, never a document."""

# ----------------------------------------------------------- the text that is cut, without comments

_SIGN = re.compile(r"<!--|%%|\{/\*|`+|\n[ \t]*(?=\n)")
_FIRST_IN_LINE = re.compile(r"^[^\S\n]*+(?=%%)", re.M)


@dataclass(frozen=True, slots=True)
class Source:
    """A text whose line n is line n of the file, comments taken out; offsets count its
    characters.
    """

    text: str
    starts: Sequence[int]  # offset of each line's first character
    # offsets of line ends that stood inside a comment: kept for counting, never shown
    gone: tuple[int, ...]

    def line_at(self, offset: int) -> int:
        """Return the line of an offset, from 1."""
        return bisect_right(self.starts, offset)

    def trim(self, first: int, last: int) -> tuple[int, int] | None:
        """Return the offsets of the lines first to last (from 0, half open) without blank lines
        around; None where all are blank.
        """
        start = self.starts[first] if first < len(self.starts) else len(self.text)
        part = self.text[start : self.starts[last] if last < len(self.starts) else len(self.text)]
        end = len(part.rstrip())
        if not end:
            return None
        return start + part.rfind("\n", 0, len(part) - len(part.lstrip())) + 1, start + end

    def show(self, start: int, end: int) -> str:
        """Return the text between two offsets as it stands in the file, comments left out."""
        low, high = bisect_left(self.gone, start), bisect_left(self.gone, end)
        if low == high:
            return self.text[start:end]
        cuts = (start - 1, *self.gone[low:high], end)
        return "".join(self.text[a + 1 : b] for a, b in pairwise(cuts))


def line_starts(text: str) -> array[int]:
    """Return the offset of each line's first character, 8 bytes each; only a line feed ends a
    line.
    """
    starts = array("q", (0,))
    starts.extend(match.end() for match in re.finditer("\n", text))
    return starts


def read_source(text: str, path: str = "") -> Source:
    """Return a text as it is cut, without its comments; in `.mdx` files those of JSX are comments
    too.
    """
    kept: list[str] = []
    gone: list[int] = []
    position = size = 0
    for start, end in find_comments(text, mdx=is_mdx(path)):
        lines = text.count("\n", start, end)
        kept += (text[position:start], "\n" * lines)
        size += start - position
        gone.extend(range(size, size + lines))
        size += lines
        position = end
    clean = "".join((*kept, text[position:])) if kept else text
    return Source(clean, line_starts(clean), tuple(gone))


def is_mdx(path: str) -> bool:
    """Tell whether a file is Markdown with JSX."""
    return path.lower().endswith(".mdx")


def find_comments(text: str, *, mdx: bool) -> Sequence[tuple[int, int]]:
    """Return the offsets of each `<!-- -->`, Obsidian's `%% %%` and, in MDX, `{/* */}`; none that
    is code.
    """
    if not ("<!--" in text or "%%" in text or (mdx and "{/*" in text)):
        return ()
    return tuple(_comments(_without_code(text), mdx))


def _without_code(text: str) -> str:
    """Return the text with its lines of code as spaces, so that nothing in them is taken for a
    comment's sign.
    """
    lines = text.split("\n")
    for first, last in code_lines(text):
        lines[first:last] = [" " * len(line) for line in lines[first:last]]
    return "\n".join(lines)


def _comments(text: str, mdx: bool) -> Iterator[tuple[int, int]]:
    signs = list(_SIGN.finditer(text))
    twins = _twins(signs)
    first_in_line = {match.end() for match in _FIRST_IN_LINE.finditer(text)}
    # closing signs that do not come again: never searched for twice, so that time stays linear
    lost: set[str] = set()
    position = 0
    for index, sign in enumerate(signs):
        if sign.start() < position:
            continue
        end = -1
        if sign[0] == "<!--":
            end = _after("-->", text, sign.start() + 2, lost)
        elif sign[0] == "{/*" and mdx:
            end = _after("*/}", text, sign.end(), lost)
        elif index in twins:
            paragraph, anywhere = twins[index]
            end = anywhere if sign.start() in first_in_line else paragraph
            if sign[0] != "%%":  # a span of code: stepped over
                position, end = max(position, end), -1
        if end >= 0:
            yield sign.start(), end
            position = end


def _after(close: str, text: str, start: int, lost: set[str]) -> int:
    found = -1 if close in lost else text.find(close, start)
    if found < 0:
        lost.add(close)
        return -1
    return found + len(close)


def _twins(signs: Sequence[re.Match[str]]) -> dict[int, tuple[int, int]]:
    """Map each `%%` and run of backticks to the end of the next one like it: in the same paragraph,
    and anywhere; -1 for none.
    """
    twins: dict[int, tuple[int, int]] = {}
    near: dict[str, int] = {}
    far = -1
    for index in range(len(signs) - 1, -1, -1):
        sign = signs[index]
        if sign[0][0] == "\n":
            near.clear()
        elif sign[0][0] in "%`":
            twins[index] = near.get(sign[0], -1), far if sign[0] == "%%" else -1
            near[sign[0]] = sign.end()
            far = sign.end() if sign[0] == "%%" else far
    return twins


# ------------------------------------------------------------------ links and tags

_WIKILINK = re.compile(r"!?\[\[([^\[\]\n]+)\]\]")
_TAG = re.compile(r"#([\w/\-\u2600-\u27bf\U0001f300-\U0001faff\ufe0f\u200d]+)")
_TAG_AFTER = frozenset(" \t\n(\"'*_~=,;>|")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")
_HEADING_TAIL = re.compile(r"(?<!\s)\s*\{\s*(?:[:#.][^{}]*|/\*[^{}]*\*/\s*)\}\s*$|\s\^[\w-]+\s*$")
# characters parsed at once: the inline parser's worst cases grow with the square of a paragraph
_PIECE = 5_000
_BRACKETS = 800  # in one piece; more are no links, and nested ones cost that square

Environment = MutableMapping[str, Any]


def _add_inline_rules(md: MarkdownIt) -> None:
    """Teach a parser wikilinks and tags, and let every link's token say where it began
    (`meta["at"]`).
    """
    # Imported here, as the parser is.
    from markdown_it.rules_inline import image, link

    md.inline.ruler.before("link", "wikilink", _wikilink)
    md.inline.ruler.before("link", "tag", _tag)
    md.inline.ruler.at("link", _marked(link, "link_open"))
    md.inline.ruler.at("image", _marked(image, "image"))


def _marked(rule: Rule, kind: str) -> Rule:
    def marked(state: StateInline, silent: bool) -> bool:
        at, before = state.pos, len(state.tokens)
        found = rule(state, silent)
        if found and not silent:
            next(token for token in state.tokens[before:] if token.type == kind).meta["at"] = at
        return found

    return marked


def _wikilink(state: StateInline, silent: bool) -> bool:
    match = _WIKILINK.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent:
        token = state.push("wikilink", "", 0)
        token.content, token.markup, token.meta = match[1], match[0][0], {"at": state.pos}
    state.pos = match.end()
    return True


def _tag(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] != "#" or (state.pos and state.src[state.pos - 1] not in _TAG_AFTER):
        return False
    match = _TAG.match(state.src, state.pos, state.posMax)
    name = match[1].strip("/") if match else ""
    if match is None or not name.strip("0123456789/-_"):
        return False
    if not silent:
        state.push("tag", "", 0).content = name
    state.pos = match.end()
    return True


def read_inline(
    md: MarkdownIt, content: str, line: int, env: Environment
) -> tuple[list[Link], list[str]]:
    """Return the links and tags of a paragraph, cell or heading that begins at a line (from 1)."""
    links: list[Link] = []
    tags: list[str] = []
    for piece, first in _pieces(content, line):
        if _is_text(piece):
            continue
        ends = [match.start() for match in re.finditer("\n", piece)]
        tokens: list[Token] = []
        md.inline.parse(piece, md, env, tokens)
        tags += [token.content for token in tokens if token.type == "tag"]
        for index, token in enumerate(tokens):
            found = (
                _read_link(tokens, index, first + bisect_right(ends, token.meta["at"]))
                if "at" in token.meta
                else None
            )
            if found:
                links.append(found)
    return links, tags


def inline_pieces(content: str) -> Iterator[tuple[str, bool]]:
    """Yield a paragraph in pieces that the inline parser reads in bounded time, and whether one is
    text as it stands.
    """
    for piece, _ in _pieces(content, 0):
        yield piece, _is_text(piece)


def _is_text(piece: str) -> bool:
    return piece.count("[") > _BRACKETS


LONGEST_HEADING = _PIECE
"""Characters of a heading, or of a title, that are kept: each chunk below has them, too."""


def visible_heading(md: MarkdownIt, content: str, env: Environment) -> str:
    """Return a heading as a reader sees it: no marks, anchors or targets."""
    tokens: list[Token] = []
    piece = without_anchor(content)[:LONGEST_HEADING]
    if _is_text(piece):
        return " ".join(piece.split())
    md.inline.parse(piece, md, env, tokens)
    return " ".join(_seen(tokens).replace("==", "").split())


def without_anchor(heading: str) -> str:
    """Return a heading's Markdown without the `{#anchor}`, `{/*anchor*/}` or `^block` that only
    machines read.
    """
    return _HEADING_TAIL.sub("", heading)


def parse_wikilink(inner: str, kind: LinkKind, line: int) -> Link | None:
    """Read what stands between `[[` and `]]`; None where it leads to an attachment."""
    place, _, alias = inner.replace("\\|", "|").partition("|")
    target, _, fragment = (part.strip() for part in place.partition("#"))
    if is_attachment(target):
        return None
    return Link(
        kind, target, fragment, alias.strip() or " > ".join(filter(None, (target, fragment))), line
    )


def parse_destination(destination: str, kind: LinkKind, text: str, line: int) -> Link | None:
    """Read a Markdown link's destination; None where it leads out of the folder or to an
    attachment.
    """
    if not destination or _SCHEME.match(destination):
        return None
    place, _, fragment = destination.partition("#")
    target = unquote(place.partition("?")[0])
    if is_attachment(target) or not (target or fragment):
        return None
    return Link(kind, target, unquote(fragment), text, line)


def is_attachment(target: str) -> bool:
    """Tell whether a link's target is a file that is no document."""
    dot = target.rfind(".")
    return dot >= 0 and target[dot:].lower() in ATTACHMENT_SUFFIXES


def _pieces(content: str, line: int) -> Iterator[tuple[str, int]]:
    start = 0
    while len(content) - start > _PIECE:
        most = start + _PIECE
        cut = max(content.rfind("\n", start, most), content.rfind(" ", start, most)) + 1 or most
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
    if token.type == "image":
        found = parse_destination(str(token.attrs["src"]), LinkKind.EMBED, token.content, line)
        return found if found and found.target.lower().endswith(MARKDOWN_SUFFIXES) else None
    close = next(
        i
        for i in range(index, len(tokens))
        if tokens[i].type == "link_close" and tokens[i].level == token.level
    )
    return parse_destination(
        str(token.attrs["href"]), LinkKind.MARKDOWN, _seen(tokens[index + 1 : close]), line
    )


def _seen(tokens: Sequence[Token]) -> str:
    parts: list[str] = []
    for token in tokens:
        if token.type == "wikilink":
            found = parse_wikilink(token.content, LinkKind.WIKILINK, 0)
            parts.append(found.text if found else "")
        elif token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif token.type == "tag":
            parts.append(f"#{token.content}")
        elif token.type != "html_inline":
            parts.append(token.content)
    return "".join(parts)


# ------------------------------------------------------------------ headings and blocks

MOST_BRACKETS = 100_000
"""Opening square brackets of a note that are read as Markdown, fifty thousand wikilinks: pairs in
each other take 0.2 ms each, 400 s in 10 MB.
"""

_NESTING = 40  # open blocks at once; what lies deeper is text of the block around it

MOST_LINES = 200_000
"""Of a note that are read as Markdown: a file of 10 MB has more only where they are shorter than 50
characters.
"""

MOST_BARS = 200_000
"""Vertical bars of a note that are read as Markdown: each may end a cell of a table, which takes a
kilobyte.
"""

_MOST = (
    ("\n", MOST_LINES, "lines"),
    ("|", MOST_BARS, "vertical bars"),
    ("[", MOST_BRACKETS, "square brackets"),
)
"""The first line with more of one of these, and all below it, is text."""

_MOST_OF_TABLES = 3 * MOST_BARS
"""Tokens of a note's tables, three a cell, after which none begins: rows shorter than their header
are filled up, with 65,536 at most.
"""

_TABLES, _REFUSED = "tables", "refused"
"""In a parser's environment: tokens of tables so far, and the line of the first table that was
none.
"""

MOST_HEADINGS = 20_000
"""Of a note: each begins a chunk, so that a note has at most twice as many as its length makes.

Those below are text.
"""

_LANGUAGE = re.compile(r"[\s{.]*([\w+#-]+)")


class Shape(Enum):
    """How a block is cut where it is too long to stay whole."""

    PROSE = auto()  # at sentences
    LINES = auto()  # at lines
    TEXT = auto()  # at words: below the lines that are read as Markdown
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
    """What stands from one heading to the next; level 0 and no lines of heading before the first
    one.
    """

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
    # from which line on (from 1) something is read as text, and why
    limits: tuple[tuple[int, str], ...] = ()


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
def parser() -> MarkdownIt:
    """Return the one parser: it finds blocks, and inline text is parsed by whoever needs it."""
    # Imported here: neither a server that answers nor a child that finds nothing to index parses a
    # text.
    from markdown_it import MarkdownIt
    from mdit_py_plugins.footnote import footnote_plugin

    md = (
        MarkdownIt("commonmark", {"maxNesting": _NESTING, "xhtmlOut": False})
        .enable(["table", "strikethrough"])
        .use(footnote_plugin, inline=False, move_to_end=False)
    )
    _add_inline_rules(md)
    md.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    md.core.ruler.enableOnly(["block"])
    return md


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Read a table, as markdown-it does, while those of the note have no more tokens than they
    may.
    """
    from markdown_it.rules_block import table

    if state.env.get(_TABLES, 0) > _MOST_OF_TABLES:
        if "|" in state.src[state.bMarks[start] : state.eMarks[start]]:
            state.env.setdefault(_REFUSED, start)
        return False
    before = len(state.tokens)
    found = table(state, start, end, silent)
    state.env[_TABLES] = state.env.get(_TABLES, 0) + len(state.tokens) - before
    return found


def code_lines(text: str, fenced: bool = False) -> tuple[tuple[int, int], ...]:
    """Return the lines of all blocks of code, from 0, half open, in order.

    With `fenced`, only of blocks between two fences.
    """
    found = []
    beginning, _ = _beginning(f"{text}\n")  # every line ends with a line feed
    for token in parser().parse(beginning):
        if token.type == "code_block" and not fenced:
            found.append(_lines(token))
        if token.type == "fence" and (_is_closed(token) or not fenced):
            found.append(_lines(token))
    return tuple(found)


def _beginning(text: str) -> tuple[str, str]:
    """Return the lines of a text that are read as Markdown, and what it has too many of."""
    lines = f"{text}\n"
    end, too_many = len(text), ""
    for sign, most, name in _MOST:
        at = next(islice(re.finditer(re.escape(sign), lines), most, None), None)
        cut = lines.rfind("\n", 0, at.start()) + 1 if at else end
        if cut < end:
            end, too_many = cut, f"more than {most:,} {name}"
    return text[:end], too_many


def _is_closed(token: Token) -> bool:
    """Tell whether a block of code has a closing fence: a line of it that is not in its content."""
    first, last = _lines(token)
    return last - first == token.content.count("\n") + 2


def read_outline(text: str) -> Outline:
    """Find the headings and blocks of a Markdown text (CommonMark, tables, footnotes) and the links
    and tags in them.
    """
    md = parser()
    env: Environment = {}
    beginning, too_many = _beginning(text)
    tokens = md.parse(beginning, env)
    links: list[Link] = []
    tags: list[str] = []
    for before, token in pairwise(tokens):
        if token.type == "inline" and token.map and ("[" in token.content or "#" in token.content):
            content = (
                without_anchor(token.content) if before.type == "heading_open" else token.content
            )
            found, named = read_inline(md, content, token.map[0] + 1, env)
            links += found
            tags += named
    marks = [
        i for i, token in enumerate(tokens) if token.type == "heading_open" and token.level == 0
    ]
    total = text.count("\n") + 1
    limits: list[tuple[int, str]] = []
    if len(marks) > MOST_HEADINGS:
        line = _lines(tokens[marks[MOST_HEADINGS]])[0] + 1
        limits.append(
            (
                line,
                (
                    f"{len(marks):,} headings, more than {MOST_HEADINGS:,}: those from here on "
                    "are read as text"
                ),
            )
        )
    if _REFUSED in env:
        limits.append(
            (
                env[_REFUSED] + 1,
                f"more than {MOST_BARS:,} cells of tables: those from here on are read as text",
            )
        )
    regions = [*_regions(md, tokens, marks[:MOST_HEADINGS], total, env)]
    if too_many:
        read = beginning.count("\n")
        limits.append((read + 1, f"{too_many}: what follows is read as text, not as Markdown"))
        body = regions[-1].body
        rest = Block(Shape.TEXT, BlockKind.PROSE, read, total)
        regions[-1] = replace(regions[-1], body=replace(body, children=(*body.children, rest)))
    return Outline(tuple(regions), tuple(links), tuple(dict.fromkeys(tags)), tuple(limits))


def _regions(
    md: MarkdownIt,
    tokens: Sequence[Token],
    marks: Sequence[int],
    total: int,
    env: Environment,
) -> Iterator[Region]:
    level, heading, start, first, begin = 0, "", 0, 0, 0
    for mark in (*marks, len(tokens)):
        end = _lines(tokens[mark])[0] if mark < len(tokens) else total
        yield Region(
            level,
            heading,
            start,
            Block(Shape.CONTAINER, BlockKind.PROSE, first, end, "", _tree(tokens[begin:mark])),
        )
        if mark < len(tokens):
            start, first = _lines(tokens[mark])
            level, content, begin = int(tokens[mark].tag[1]), tokens[mark + 1].content, mark + 3
            heading = visible_heading(md, content, env)


def _tree(tokens: Sequence[Token], kind: BlockKind = BlockKind.PROSE) -> tuple[Block, ...]:
    blocks: list[Block] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        close = _close(tokens, index)
        if token.type in _KINDS and token.map:
            shape, own = _KINDS[token.type]
            # a paragraph in a list is part of the list
            own = kind if own is BlockKind.PROSE else own
            children = _tree(tokens[index + 1 : close], own) if shape is Shape.CONTAINER else ()
            blocks.append(Block(shape, own, *_lines(token), _language(token), children))
        index = close + 1
    return tuple(blocks)


def _close(tokens: Sequence[Token], index: int) -> int:
    """Return the position of the token that closes this one; its own where it opens nothing."""
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
