"""Find what a note says about its validity: status, last day, successors and predecessors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from thumbindex.corpus.front_matter import FrontMatter
from thumbindex.corpus.links import parse_destination, parse_wikilink
from thumbindex.corpus.markdown import Block, ParsedMarkdown
from thumbindex.corpus.source import SourceText
from thumbindex.dates import leading_date
from thumbindex.model import BlockKind, Link, LinkKind

_KINDS = {
    **dict.fromkeys(
        "supersededby replacedby obsoletedby deprecatedby movedto successor".split(),
        LinkKind.SUCCESSOR,
    ),
    **dict.fromkeys("supersedes replaces obsoletes".split(), LinkKind.PREDECESSOR),
}
_FLAGS = frozenset("deprecated superseded obsolete outdated archived".split())
_LAST_DAYS = frozenset(
    "validuntil validto validthrough expires expireson expiresat expiry expirydate expiration "
    "expirationdate".split()
)
"""Keys of front matter, in lower case without punctuation."""

_NOTHING = frozenset("false no none null nil n/a tbd 0 -".split())

_STATUS = re.compile(
    r"[^\w\[]*+(?P<word>(?P<retired>super[sc]eded|deprecated|obsoleted?|outdated|archived|replaced"
    r"|withdrawn|rejected)|draft|wip|proposed|pending|in review|accepted|approved"
    r"|final|active)\b",
    re.I,
)
_SYNONYMS = {"superceded": "superseded", "replaced": "superseded", "obsoleted": "obsolete"}
_OVER = re.compile(r"\b(?:super[sc]edes|replaces|obsoletes)\b", re.I)
_BY = re.compile(r"\b(?:(?:super[sc]eded|replaced|obsoleted)\s+by|moved\s+to)\b", re.I)
_CUE = re.compile(r"\b(?:by|use|using|see|to|with|into|read|in\s+favou?r\s+of)\b|[:→]|->", re.I)
_REFERENCE = re.compile(
    r"\[\[(?P<wiki>[^\[\]\n]++)\]\]"
    r"|\[(?P<text>[^\[\]\n]*+)\]\((?P<address><[^<>\n]++>|[^()\s]++(?:\([^()\s]*+\)[^()\s]*+)*+)"
    r"(?:\s++\"[^\"\n]*+\")?\)"
    r"|(?P<number>(?!\d{4}-\d\d)(?:[A-Za-z]{2,8}[ -]?#?)?\d{1,6}(?:-[\w-]++)?+(?:\.md)?+)(?![\w/])"
)
_FILLER = re.compile(
    r"[^\w\[]{0,5}+(?:(?:the|our|this|new|page|note|document|decision|adr|rfc)\s++){0,3}+"
    r"[^\w\[]{0,3}+",
    re.I,
)
_SEPARATOR = re.compile(r"\s*+(?:[,;&+]|and\b)\s*+", re.I)
_CODE_SPAN = re.compile(r"`[^`\n]++`")

_FIELD = re.compile(
    r"[\s>*+|-]*+[*_]{0,3}"
    r"(status|(?:superseded|replaced|obsoleted|deprecated)[ _-]?by|moved[ _-]?to|successor"
    r"|supersedes|replaces|obsoletes)[*_]{0,3}\s*+(:|\|)[:*_ \t]*+([^|\n]*)",
    re.I,
)
_NO_CONTENT = re.compile(  # a field, tag, image or badge
    r"[\s>*+|-]*+[*_]{0,3}(?!deprecated|obsolete|superseded|outdated|archived|moved|note|warning"
    r"|caution|important|notice|attention|danger|info)[^\W\d][\w -]{0,30}[*_]{0,3}:"
    r"|\s*+(?:#\w|!\[|\[!?\[)",
    re.I,
)
_SUBJECT = (
    r"th(?:is|e)\s+(?:page|note|document|doc|file|article|guide|tutorial|section|specification"
    r"|spec|policy|proposal|decision|adr|rfc|runbook|post|repository|project)\s+"
)
_NOTICE = re.compile(
    rf"(?P<subject>{_SUBJECT}(?:is|was|has\s+been)\s+(?:now\s+)?)?"
    r"(?P<word>deprecated|obsolete|superseded|outdated|archived|replaced)"
    r"(?:(?=[*_~\]\")]{0,4}[ \t]*+(?:[.!:;—–(]|$|-\s|[,\s]+(?:use|see)\b))"
    r"|(?=\s+(?:since|in\s+favou?r\s+of|as\s+of)\b)"
    r"|(?<!archived)(?<!outdated)(?=\s+by\b)|(?(subject)(?=,|\s+(?:and|but|please)\b)|(?!)))",
    re.I | re.M,
)
_MOVED = re.compile(
    rf"(?:{_SUBJECT}(?:has\s+|was\s+)?(?:been\s+)?)?moved\s+to[:*_\s]*+(?=\[)", re.I
)
_SENTENCE_END = re.compile(r"[*_\s]*+(?:[.,;:!)]|$)", re.M)
_CALLOUT = re.compile(
    r"\[!(?P<obsidian>[\w-]++)\][+-]?[ \t]*+(?P<a>[^\n]*)"
    r"|(?:!!!|\?\?\?\+?)[ \t]*+(?P<mkdocs>[\w-]++)[^\n\"]*+(?P<b>\"[^\"\n]*\")?"
    r"|:{3,}[ \t]*+(?P<fence>[\w-]++)[ \t\[]*+(?P<c>[^\n\]]*)\]?"
)
_BEFORE_NOTICE = re.compile(
    r"(?:<[^<>\n]{1,80}+>|\{\{[^{}\n]++\}\}|[^\w\[<{]){0,20}+"
    r"(?:(?:note|warning|caution|important|notice|attention|danger|info)\b[^\w\[]{1,10}+)?",
    re.I,
)
_LINE_MARK = re.compile(r"^[ \t>]++", re.M)

_MAX_NOTICE = 600
"""Maximum characters of the first block that are searched for a notice."""

_MAX_LINES = 40
"""Maximum lines at the beginning of a note that are searched for fields such as `Status: x`."""

_MAX_LINKS = 50
"""Maximum successors and predecessors of a note."""

_MAX_HEADINGS = 5
"""A heading `Status` counts among this many first headings."""


class Standing(NamedTuple):
    """What a note says about its validity."""

    status: str
    valid_until: str  # ISO day, inclusive; empty if there is none
    links: tuple[Link, ...]  # to successors and predecessors


def read_standing(front: FrontMatter, source: SourceText, markdown: ParsedMarkdown) -> Standing:
    """Read a note's front matter, first lines, first block and section `Status`."""
    reader = _Reader()
    for key, text, line in front.texts:
        reader.read_property(key, " ".join(text.split()), line)
    blocks = [block for region in markdown.regions[:2] for block in region.body.children]
    for line, text in islice(_text_lines(source, blocks), _MAX_LINES):
        if match := _FIELD.match(text):
            reader.read_field(match[1], match[3].strip(" *_"), line, in_table=match[2] == "|")
    for region in markdown.regions[: _MAX_HEADINGS + 1]:
        if region.heading.casefold() == "status" and region.level <= 2:
            for line, text in islice(_text_lines(source, region.body.children), _MAX_LINES):
                reader.read_status(text, line)
            break
    first = next((block for block in blocks if _is_content(source, block)), None)
    if first is not None:
        start = source.starts[first.start]
        reader.read_notice(source.text[start : start + _MAX_NOTICE], first)
    links = {(link.kind, link.target): link for link in reversed(reader.links) if link.target}
    links = dict(reversed(links.items()))
    return Standing(
        reader.flag or reader.status, reader.valid_until, tuple(links.values())[:_MAX_LINKS]
    )


class _Reader:
    """Collects statements. A statement that retires the note wins over other ones."""

    def __init__(self) -> None:
        self.flag = self.status = self.valid_until = ""
        self.links: list[Link] = []

    def read_property(self, key: str, text: str, line: int) -> None:
        """Read a property of the front matter."""
        key = re.sub(r"[\W_]", "", key.casefold())
        is_nothing = text.casefold() in _NOTHING
        if key == "status":
            self.status = self.status or text.casefold()
            self.read_status(text, line)
        elif key == "draft" and text.casefold() == "true":
            self.status = "draft"
        elif key in _LAST_DAYS and (day := leading_date(text)):
            self.valid_until = day.isoformat()
        elif key in _KINDS and not is_nothing:
            self._add(_KINDS[key], _references(text) or [_name(text)], line)
        elif key in _FLAGS and not is_nothing:
            self.flag = self.flag or key
            self._add(LinkKind.SUCCESSOR, _recommended(text), line)

    def read_field(self, key: str, text: str, line: int, *, in_table: bool) -> None:
        """Read a line such as `Status: accepted` or `Obsoletes: 12`."""
        key = re.sub(r"[\W_]", "", key.casefold())
        if key != "status":
            self._add(_KINDS[key], _references(text), line)
        elif not in_table or _BY.search(text) or _is_retired(text):
            self.read_status(text, line)

    def read_status(self, text: str, line: int) -> None:
        """Read the value of a status: `Accepted`, `superseded by ADR-12`, `Supersedes [[x]]`."""
        text = _CODE_SPAN.sub(" ", text)
        if match := _BY.search(text):
            self.flag = "superseded"
            self._add(LinkKind.SUCCESSOR, _references(text, match.end()), line)
        elif match := _OVER.search(text):
            self._add(LinkKind.PREDECESSOR, _references(text, match.end()), line)
        if not match and _is_retired(text):
            self.flag = _word(text)
            self._add(LinkKind.SUCCESSOR, _recommended(text), line)
        elif _STATUS.match(text):
            self.status = self.status or _word(text)

    def read_notice(self, text: str, block: Block) -> None:
        """Read the first block of a note: `> **Deprecated**: use [[x]]`, `Moved to [[x]]`."""
        text = _CODE_SPAN.sub(" ", _LINE_MARK.sub("", text))
        if callout := _CALLOUT.match(text):
            title = next(filter(None, callout.group("a", "b", "c")), "").strip(' "')
            kind = next(filter(None, callout.group("obsidian", "mkdocs", "fence")))
            is_kind = kind.casefold() in _FLAGS
            body = text[callout.end() :].strip()
            text = f"{kind}: {title} {body}" if is_kind else f"{title}\n{body}" if title else body
        elif block.kind is not BlockKind.PROSE:
            return
        text = text.partition("\n\n")[0]
        start = _BEFORE_NOTICE.match(text)
        at = start.end() if start else 0
        if moved := _MOVED.match(text, at):
            links = _references(text, moved.end())
            target = _REFERENCE.match(text, moved.end())
            if target and _SENTENCE_END.match(text, target.end()):
                self._add(LinkKind.SUCCESSOR, links[:1], block.start + 1)
        elif notice := _NOTICE.match(text, at):
            self.flag = self.flag or _word(notice["word"])
            self._add(LinkKind.SUCCESSOR, _recommended(text[notice.end() :])[:1], block.start + 1)

    def _add(self, kind: LinkKind, links: Iterable[Link], line: int) -> None:
        added = [replace(link, kind=kind, line=line) for link in links]
        if added and kind is LinkKind.SUCCESSOR:
            self.flag = self.flag or "superseded"
        self.links += added


def _text_lines(source: SourceText, blocks: Iterable[Block]) -> Iterator[tuple[int, str]]:
    """Yield number, from 1, and text of the lines outside code."""
    for block in blocks:
        if block.children:
            yield from _text_lines(source, block.children)
        elif block.kind is not BlockKind.CODE:
            start = source.starts[block.start]
            end = source.starts[block.end] if block.end < len(source.starts) else None
            lines = source.text[start:end].split("\n", _MAX_LINES)
            yield from enumerate(lines[:_MAX_LINES], block.start + 1)


def _is_content(source: SourceText, block: Block) -> bool:
    """Return whether a block does not begin with a field such as `Date: …`, a tag or an image."""
    start = source.starts[block.start]
    line = source.text[start:].partition("\n")[0]
    return bool(line.strip()) and not _NO_CONTENT.match(line)


def _is_retired(text: str) -> bool:
    match = _STATUS.match(text)
    return bool(match and match["retired"])


def _word(text: str) -> str:
    """Return the status at the beginning of a text."""
    match = _STATUS.match(text)
    word = (match["word"] if match else text).casefold()
    return _SYNONYMS.get(word, word)


def _references(text: str, position: int = 0) -> list[Link]:
    """Return the notes named at a position of a text, by links or numbers."""
    links = list[Link]()
    while match := _reference_at(text, position):
        link: Link | None
        if match["wiki"]:
            link = parse_wikilink(match["wiki"], LinkKind.WIKILINK, 0)
        elif match["number"]:
            link = _name(match["number"])
        else:
            address = match["address"].strip("<>")
            link = parse_destination(address, LinkKind.MARKDOWN, "", 0) or _name(address)
        links.append(replace(link, text=match[0]))
        separator = _SEPARATOR.match(text, match.end())
        if not separator:
            break
        position = separator.end()
    return links


def _reference_at(text: str, position: int) -> re.Match[str] | None:
    filler = _FILLER.match(text, position)
    after = filler.end() if filler else position
    return _REFERENCE.match(text, position) or _REFERENCE.match(text, after)


def _recommended(text: str) -> list[Link]:
    """Return the notes that a text recommends: `use [[x]]`, `in favor of [x](x.md)`."""
    for cue in _CUE.finditer(text):
        if links := [link for link in _references(text, cue.end()) if link.text.startswith("[")]:
            return links
    return []


def _name(text: str) -> Link:
    return Link(LinkKind.SUCCESSOR, text, "", text, 0)
