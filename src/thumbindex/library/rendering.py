"""Render a note for the page: safe HTML, backlinks, broken links, similar notes, link graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from html import escape
from itertools import chain, pairwise
from typing import Any
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

from thumbindex.corpus.front_matter import read_front_matter
from thumbindex.corpus.links import may_lead_elsewhere, parse_destination, parse_wikilink
from thumbindex.corpus.markdown import is_mdx, parser, split_inline, visible_heading, without_anchor
from thumbindex.corpus.payload import omit_payloads
from thumbindex.corpus.source import read_source
from thumbindex.errors import UnknownPathError
from thumbindex.library.note_lookup import FoundNote
from thumbindex.library.places import NotePlaces
from thumbindex.library.reader import Reader
from thumbindex.library.reading import current_text
from thumbindex.library.related import broken_in, related_to
from thumbindex.library.visibility import hidden_in, note_states
from thumbindex.model import (
    Backlink,
    DocumentId,
    Link,
    LinkKind,
    NotePage,
    RenderedNote,
)
from thumbindex.text import strip_invisible

MAX_BACKLINKS = 200
"""Maximum backlinks listed."""

_MAX_NOTES_READ = 50
"""Maximum notes read to quote the lines of backlinks."""

_MAX_SENTENCE = 400

_MAX_NEAR = 10
"""Maximum similar notes listed."""

MAX_NEIGHBORS = 40
"""Maximum notes that a page's link graph shows."""

NoteTarget = Callable[[str, str], str]
"""Returns the page address of a note, given its path and a heading or an empty string."""


def note_page(
    note: FoundNote,
    note_address: NoteTarget,
    tag_address: Callable[[str], str],
    lines: tuple[int, int] | None,
) -> NotePage:
    """Render a note's current text with its links and similar notes, without hidden notes."""
    reader, id_, document = note.reader, note.id, note.document
    folder, path = reader.folder.name, document.path
    text = current_text(reader, path)
    catalog, graph = reader.folder_snapshot().catalog, note.snapshot.graph
    documents = catalog.documents
    links = [link for _, _, link in reader.store.links([path])]
    sources = reader.store.links_to(path)
    nearby = _within_two_links(id_, lambda n: (*graph.outgoing(n), *graph.incoming(n)))
    states = note_states(
        {
            *((folder, link.resolved) for link in links if link.resolved),
            *((folder, source) for source, _ in sources),
            *((folder, documents[n].path) for n in nearby),
        },
        [reader],
    )
    hidden = {path for _, path in hidden_in(states)}
    resolved = {
        link.target: link.resolved
        for link in links
        if link.resolved and link.resolved not in hidden
    }

    in_order = sorted(links, key=lambda link: link.line)
    broken = tuple(broken_in(reader, [(path, link) for link in in_order]))
    broken_targets = {link.target for link in broken}

    def link_address(link: Link) -> str | None:
        target = resolved.get(link.target) if link.target else path
        if target is None:
            return None if link.target in broken_targets else ""
        return note_address(target, link.fragment)

    related = related_to(note, 2 * _MAX_NEAR)
    linked_paths = {*related.links, *related.backlinks}
    nodes = [n for n in nearby if n == id_ or documents[n].path not in hidden]
    neighbors = nodes[:MAX_NEIGHBORS]
    places = {n: at for at, n in enumerate(neighbors)}
    mentioned = map(
        catalog.document_at, (*linked_paths, *(similar.path for similar in related.similar))
    )
    titled = (*(n for n in mentioned if n is not None), *neighbors)
    titles = {documents[n].path: documents[n].title for n in titled}
    open_sources = [(source, link) for source, link in sources if source not in hidden]
    changed = {path for (_, path), state in states.items() if state == "changed"}
    return NotePage(
        folder=folder,
        path=path,
        document=document,
        rendered=render_note(
            path, text, link_address, tag_address, lines, document.title, note.in_vault
        ),
        related=replace(related, similar=related.similar[:_MAX_NEAR]),
        titles=titles,
        backlinks=tuple(_backlinks(open_sources, reader, changed, titles)),
        broken=broken,
        unlinked=tuple(s for s in related.similar if s.path not in linked_paths)[:_MAX_NEAR],
        neighbors=tuple(documents[n].path for n in neighbors),
        edges=tuple(
            (places[n], places[neighbor])
            for n in neighbors
            for neighbor in graph.outgoing(n)
            if neighbor in places
        ),
        neighbors_omitted=len(nodes) - len(neighbors),
    )


def _within_two_links(
    start: DocumentId, neighbors_of: Callable[[DocumentId], Sequence[DocumentId]]
) -> list[DocumentId]:
    """Return `start` and the documents at most two links away, nearest first."""
    distances = {start: 0}
    for distance in (1, 2):
        reached = [n for n, steps in distances.items() if steps == distance - 1]
        for neighbor in chain.from_iterable(sorted(neighbors_of(n)) for n in reached):
            distances.setdefault(neighbor, distance)
    return list(distances)


def _backlinks(
    sources: Sequence[tuple[str, Link]],
    reader: Reader,
    changed: Collection[str],
    titles: Mapping[str, str],
) -> Iterator[Backlink]:
    """Yield each link to a note, with the line of text that contains the link.

    The line is empty if the linking note has changed.
    """
    listed = sources[:MAX_BACKLINKS]
    rows: dict[str, list[str]] = {}
    for path in list(dict.fromkeys(path for path, _ in listed))[:_MAX_NOTES_READ]:
        with suppress(UnknownPathError):
            text = "" if path in changed else current_text(reader, path)
            rows[path] = omit_payloads(text).split("\n")
    for path, link in listed:
        line = rows.get(path, [])[link.line - 1 : link.line]
        yield Backlink(
            path,
            titles.get(path, path),
            link.line,
            line[0].strip()[:_MAX_SENTENCE] if line else "",
        )


# ------------------------------------------------------------------ a note as HTML

MAX_RENDERED_LINES = 4_000
"""Maximum lines rendered at once; a longer note is rendered around the requested lines."""

_MAX_RENDERED_CHARACTERS = 400_000
"""Maximum characters rendered at once: a single line may be huge."""

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
"""Returns the page address of a link inside the folder; None if the link is broken."""

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

    Comments and front matter are left out, and marks replace data; HTML is shown as source. If the
    note does not begin with `title`, the top headings become level 2, below the page's title.
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
    tokens = md.parse("\n".join(rows[first - 1 : last]), env)
    headings = tuple(_headings(md, tokens, first - 1, env))
    begins = headings[0][:2] == (1, " ".join(title.split())) if headings and title else False
    _parse_inline_and_shift_headings(
        md, tokens, env, 0 if begins else 2 - min((heading[0] for heading in headings), default=2)
    )
    places = NotePlaces(path, text, in_vault)

    def anchor_line(anchor: str) -> int | None:
        line = places.line_of_link(anchor)
        return line if line and first <= line <= last else None

    cited = range(lines[0], lines[1] + 1) if lines else range(0)
    renderer = _NoteRenderer(link_address, tag_address, first - 1, cited, anchor_line)
    html = renderer.render(tokens, md.options, env)
    return RenderedNote(Markup(html), headings, first, last, total, begins)


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


def _parse_inline_and_shift_headings(
    md: MarkdownIt, tokens: Sequence[Token], env: dict[str, Any], shift: int
) -> None:
    """Parse the inline text of blocks, and lower headings by `shift` levels."""
    for at, token in enumerate(tokens):
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(6, int(token.tag[1]) + shift)}"
        elif token.hidden:  # the paragraph of a tight list
            token.tag, token.hidden = "div", False
        elif token.type == "inline":
            is_heading = tokens[at - 1].type == "heading_open"
            content = without_anchor(token.content) if is_heading else token.content
            token.children = list(_children(md, content, env))


def _children(md: MarkdownIt, content: str, env: dict[str, Any]) -> Iterator[Token]:
    for piece, is_plain in split_inline(content):
        if is_plain:
            yield Token("text", "", 0, content=piece)
        else:
            tokens: list[Token] = []
            md.inline.parse(piece, md, env, tokens)
            yield from tokens


# ------------------------------------------------------------------ the renderer

_TAGS = frozenset(
    "h1 h2 h3 h4 h5 h6 p div blockquote ul ol li thead tbody tr th td hr em strong s br".split()
)
"""HTML tags that markdown-it may write; a token with another tag becomes text."""


class _NoteRenderer(RendererHTML):
    """Renders a note's tokens as plain tags, without any attribute from the note.

    Custom writers render line numbers, links and images. Lines are numbered from 1 in the file.
    """

    def __init__(
        self,
        link_address: LinkTarget,
        tag_address: TagTarget,
        offset: int,  # lines before the first parsed one
        cited: range,
        anchor_line: Callable[[str], int | None],  # the line that a link in the note leads to
    ) -> None:
        super().__init__()
        self._link_address, self._tag_address = link_address, tag_address
        self._offset, self._cited, self._anchor_line = offset, cited, anchor_line
        self._is_anchored = False  # the first cited block has been written
        self._closing: list[str] = []  # closing tags of open links
        self._writers: dict[str, Callable[[Token], str]] = {
            "heading_open": self._numbered,
            "paragraph_open": self._numbered,
            "fence": self._code,
            "code_block": self._code,
            "html_block": self._code,
            "code_shortcode": self._code,
            "softbreak": lambda _: "\n",
            "code_inline": lambda token: f"<code>{escape(token.content)}</code>",
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
        self.rules = {}  # no default rule may write attributes from the note

    def renderToken(  # noqa: N802
        self, tokens: Sequence[Token], idx: int, options: Any, env: Any
    ) -> str:
        """Render a token with the writer for the token's type, else as a tag or as text."""
        token = tokens[idx]
        if write := self._writers.get(token.type):
            return write(token)
        if token.tag not in _TAGS:
            return escape(token.content)
        token.attrs = self._attributes(token)
        return super().renderToken(tokens, idx, options, env)

    def _attributes(self, token: Token) -> dict[str, str | int | float]:
        if token.type == "ordered_list_open" and "start" in token.attrs:
            return {"start": int(token.attrs["start"])}
        if side := _ALIGNMENTS.get(str(token.attrs.get("style", ""))):
            return {"class": side}
        return self._block_attributes(token) if token.type == "tr_open" else {}

    def _lines(self, token: Token) -> range:
        start, end = token.map or (0, 0)
        return range(start + self._offset + 1, end + self._offset + 1)

    def _block_attributes(self, token: Token) -> dict[str, str | int | float]:
        lines = self._lines(token)
        if not lines:
            return {}
        cited = self._cited
        is_cited = bool(cited) and lines.start < cited.stop and cited.start < lines.stop
        return {
            "id": f"L{lines.start}",
            "class": "block cited" if is_cited else "block",
            "data-lines": f"{lines.start}-{lines.stop - 1}",
        }

    def _numbered(self, token: Token) -> str:
        """Return a block's opening tag and its line number."""
        token.attrs = self._block_attributes(token)
        return f"<{token.tag}{self.renderAttrs(token)}>{self._anchor(token)}"

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
        rows = token.content.removesuffix("\n").split("\n") if token.content else []
        marked_rows = [
            f'<span class="cited">{escape(row)}</span>' if number in self._cited else escape(row)
            for number, row in enumerate(rows, start=first)
        ]
        # cited lines are marked one by one
        token.attrs = self._block_attributes(token) | {"class": "block", "tabindex": "0"}
        text = "\n".join(marked_rows)
        return f"<pre{self.renderAttrs(token)}>{self._anchor(token)}<code>{text}</code></pre>\n"

    # -------------------------------------------------------------- inside a block

    def _link_open(self, token: Token) -> str:
        opened, closed = "", ""
        if not self._closing:
            opened, closed = self._link(str(token.attrs.get("href", "")))
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
        if not link.target and (line := self._anchor_line(link.fragment)):
            return f'<a href="#L{line}">', "</a>"
        address = self._link_address(link) if link.target else None
        if address:
            return f'<a href="{escape(address)}">', "</a>"
        if address is not None or may_lead_elsewhere(link.target):
            return (
                f'<span class="attachment" title="{escape(link.target[:_MAX_ADDRESS])}">',
                "</span>",
            )
        return '<span class="broken">', '</span><span class="hidden-label"> (broken link)</span>'

    def _wikilink(self, token: Token) -> str:
        kind = LinkKind.EMBED if token.markup == "!" else LinkKind.WIKILINK
        link = parse_wikilink(token.content, kind, 0)
        opened, closed = ("", "") if self._closing else self._inner(link)
        return f"{opened}{escape(link.text)}{closed}"

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
