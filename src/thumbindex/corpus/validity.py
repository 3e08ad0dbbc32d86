"""Find what a note says about its validity: status, last day, successors and predecessors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice, takewhile
from typing import NamedTuple

from thumbindex.corpus.front_matter import FrontMatter, Property
from thumbindex.corpus.links import NUMBER_PREFIXES, parse_destination, parse_wikilink
from thumbindex.corpus.markdown import Block, ParsedMarkdown
from thumbindex.corpus.source import SourceText
from thumbindex.dates import day_period
from thumbindex.model import BlockKind, Link, LinkKind

# keys of front matter, in lower case without punctuation
_KINDS = {
    **dict.fromkeys("supersededby replacedby obsoletedby deprecatedby".split(), LinkKind.SUCCESSOR),
    **dict.fromkeys("supersedes replaces obsoletes".split(), LinkKind.PREDECESSOR),
}
_LAST_DAYS = frozenset(
    "validuntil validto validthrough expires expireson expiresat expiry expirydate expiration "
    "expirationdate".split()
)
_NOTHING = frozenset(
    "false no none not nothing nobody never unknown null nil n/a n off tbd todo 0".split()
)
_TRUE_OR_VERSION = re.compile(r"true|yes|(?:since )?(?:v\d|\d+\.)[\w.-]*", re.I)

_NOTICE_WORDS = "deprecated|obsolete|superseded|outdated|archived"
_FLAGS = frozenset(_NOTICE_WORDS.split("|"))
_FAVOR = r"in\s+favou?r\s+of"
_STATUS = re.compile(
    rf"[^\w\[]*+(?:(?P<retired>{_NOTICE_WORDS}|superceded|obsoleted|replaced|withdrawn|rejected)"
    rf"[*_\"')]*+(?=\s*+(?:$|[.;:(—–-]|,?\s*+(?:by|{_FAVOR}|since|as\s+of|use|see|replaced\s+by)\b))"
    r"|(?P<other>draft|wip|proposed|pending|in review|accepted|approved|final|active)\b)",
    re.I,
)
_SYNONYMS = {"superceded": "superseded", "replaced": "superseded", "obsoleted": "obsolete"}
_OVER = re.compile(
    r"(?:^|[.,;:(—–-])[\s>*+_]{0,8}+(?:and\s++)?(?:supersedes|replaces|obsoletes)\b", re.I
)
_BY = re.compile(
    r"\b(?:super[sc]eded|deprecated|obsoleted?|replaced)[*_\"')]*+\s+(?P<by>by|with)\b", re.I
)
_CUE = re.compile(
    rf"{_BY.pattern}|\b(?:use|using|see|into|read|(?:mov|migrat|switch|upgrad)(?:e|ed)?\s+to"
    rf"|{_FAVOR})\b|\b(?:{_NOTICE_WORDS})[*_~\"')\]]*+:|→|->",
    re.I,
)
_LINK = (
    r"(?P<link>\[\[(?P<wiki>[^\[\]]++)\]\]|\[[^\[\]]*+\]"
    r"\((?P<address><[^<>]++>|[^()\s]++(?:\([^()\s]*+\)[^()\s]*+)*+)(?:\s++\"[^\"]*+\")?\))"
)
_REFERENCE = re.compile(
    r"[^\w\[]{0,5}+(?:(?:(?:the|our|this|new|page|note|document|decision|adr|rfc)\s++){0,3}+"
    rf"[^\w\[]{{0,3}}+{_LINK}|(?P<number>(?:{'|'.join(NUMBER_PREFIXES)})[ -]?#?\d{{1,6}}+"
    r"|(?!\d{4}-\d\d)\d{1,6}+(?:-[\w-]++)?+(?:\.md)?+(?!\s++(?!and\b)\w))(?!\.?[\w/]))",
    re.I,
)
_SEPARATOR = re.compile(r"\s*+(?:[,;&+]|and\b)", re.I)
_CODE_SPAN = re.compile(r"`[^`\n]++`")

_FIELD = re.compile(
    r"[\s>*+|-]*+[*_]{0,3}(status|(?:superseded|replaced|obsoleted|deprecated)[ _-]?by"
    r"|supersedes|replaces|obsoletes)[*_]{0,3}\s*+(:|\|)[:*_ \t]*+([^|]*)",
    re.I,
)
_NO_CONTENT = re.compile(  # a field, tag, image or badge
    rf"[\s>*+|-]*+[*_]{{0,3}}(?!{_NOTICE_WORDS}|moved|note|warning|caution|important|notice"
    r"|attention|danger|info)[^\W\d][\w -]{0,30}[*_]{0,3}:|\s*+(?:#\w|!\[|\[!?\[)",
    re.I,
)
_SUBJECT = (
    r"th(?:is|e)\s+(?:page|note|document|doc|file|article|guide|tutorial|section|specification"
    r"|spec|policy|proposal|decision|adr|rfc|runbook|post|repository|project)\s+"
)
_NOTICE = re.compile(
    r"(?:[^\w\[]{0,20}+(?:note|warning|caution|important|notice|attention|danger|info)\b)?"
    r"[^\w\[]{0,20}+(?:"
    rf"{_SUBJECT}(?:is|was|has\s+been)\s+(?:now\s+)?(?P<stated>{_NOTICE_WORDS}|replaced)"
    rf"(?=[*_]*+(?:\s*+(?:[.,;:!(—–]|$)|\s+(?:by|since|as\s+of|{_FAVOR}|and|but|please|use|see)\b))"
    rf"|(?P<word>{_NOTICE_WORDS})[*_~\]\")]*+(?!::|:\s*+(?:false|no|none|off)\b)(?=\s*+(?:[.;:!—–]|$)|\s+-\s|,?\s+(?:use|see)\b"
    rf"|\s+(?:since|as\s+of|{_FAVOR})\b|(?<!archived)(?<!outdated)\s+by\b))",
    re.I | re.M,
)
_MOVED = re.compile(
    rf"[^\w\[]*+(?:{_SUBJECT}(?:has\s+|was\s+)?(?:been\s+)?)?moved\s+to\b[:*_\s]*+{_LINK}[.*_]*+",
    re.I,
)
_CALLOUT = re.compile(
    r"(?:\[!|(?:!!!|\?\?\?\+?|:{3,})[ \t]*+)(?P<kind>[\w-]++)(?:\][+-]?)?(?P<title>[^\n]*)"
)
_LINE_MARK = re.compile(r"^[ \t>]++", re.M)

_MAX_CHARS = 500
"""Maximum characters of a property, line or first block that are read."""

_MAX_REFERENCES = 10
"""Maximum notes that one statement names."""

_MAX_LINES = 40
"""Maximum lines, and first blocks, that are searched for fields such as `Status: x`."""

_MAX_LINKS = 50
"""Maximum successors and predecessors of a note."""

_MAX_HEADINGS = 5
"""A heading `Status` counts among this many first headings."""


class Validity(NamedTuple):
    """What a note says about its validity."""

    status: str
    valid_until: str  # ISO day, inclusive; empty if there is none
    links: tuple[Link, ...]  # to successors and predecessors


def read_validity(
    front: FrontMatter, inline: Iterable[Property], source: SourceText, markdown: ParsedMarkdown
) -> Validity:
    """Read a note's front matter, first lines, first block and section `Status`.

    Of the properties in its text, `inline`, those at its head count.
    """
    reader = _Reader()
    head = max((region.body.end for region in markdown.regions[:2]), default=0)
    at_head = takewhile(lambda each: each.line <= head, inline)
    for key, text, line in chain(front.texts, at_head):
        reader.read_property(key, " ".join(text[:_MAX_CHARS].split()), line)
    blocks = [block for region in markdown.regions[:2] for block in region.body.children]
    for line, text in islice(_lines(source, blocks), _MAX_LINES):
        if match := _FIELD.match(text):
            reader.read_field(match[1], match[3].strip(" *_"), line, in_table=match[2] == "|")
    for region in markdown.regions[: _MAX_HEADINGS + 1]:
        if region.heading.casefold() == "status" and region.level <= 2:
            for line, text in islice(_lines(source, region.body.children), _MAX_LINES):
                reader.read_status(text, line)
            break
    first = next((block for block in blocks[:_MAX_LINES] if _is_content(source, block)), None)
    if first:
        is_whole = len(blocks) == 1 and len(markdown.regions) <= 2
        reader.read_notice(source, first, is_whole=is_whole)
    links = {(link.kind, link.target): link for link in reversed(reader.links) if link.target}
    kept = tuple(reversed(links.values()))[:_MAX_LINKS]
    return Validity(reader.flag or reader.status, reader.valid_until, kept)


class _Reader:
    """Collects statements. A statement that retires the note wins over other ones."""

    def __init__(self) -> None:
        self.flag = self.status = self.valid_until = ""
        self.links: list[Link] = []

    def read_property(self, key: str, text: str, line: int) -> None:
        key, value = re.sub(r"[\W_]", "", key.casefold()), text.casefold()
        first = value.partition(" ")[0].strip(",.;-?<{!")
        is_stated = bool(first) and first not in _NOTHING
        if key == "status":
            self.status = self.status or value
            self.read_status(text, line)
        elif key == "draft" and value == "true":
            self.status = "draft"
        elif key in _LAST_DAYS and (period := day_period(text.strip("[]"))):
            self.valid_until = period[1].isoformat()
        elif key in _KINDS and is_stated:
            self._add(_KINDS[key], _references(text) or [_name(text)], line)
        elif key in _FLAGS and is_stated:
            links = _references(text, numbers=False) or _recommended(text, numbers=False)
            if links or day_period(text) or _TRUE_OR_VERSION.fullmatch(text):
                self.flag = self.flag or key
            self._add(LinkKind.SUCCESSOR, links, line)

    def read_field(self, key: str, text: str, line: int, *, in_table: bool) -> None:
        """Read a line such as `Status: accepted` or `Obsoletes: 12`."""
        key = re.sub(r"[\W_]", "", key.casefold())
        if key != "status":
            self._add(_KINDS[key], _references(text), line)
        elif not in_table or _recommended(text, _BY):
            self.read_status(text, line)

    def read_status(self, text: str, line: int) -> None:
        """Read the value of a status: `Accepted`, `superseded by ADR-12`, `Supersedes [[x]]`."""
        text = _CODE_SPAN.sub(" ", text)
        status = _STATUS.match(text)
        if status and status["retired"]:
            word = _word(status["retired"])
            self.flag = self.flag or word
            if word not in ("rejected", "withdrawn"):  # a link says why or by whom
                self._add(LinkKind.SUCCESSOR, _recommended(text), line)
        elif status:
            self.status = self.status or _word(status["other"])
        if over := _OVER.search(text):
            self._add(LinkKind.PREDECESSOR, _references(text, over.end()), line)

    def read_notice(self, source: SourceText, block: Block, *, is_whole: bool) -> None:
        """Read the first block: `> **Deprecated**: use [[x]]`, or all of it: `Moved to [[x]]`."""
        start, line = source.starts[block.start], block.start + 1
        text = _LINE_MARK.sub("", source.text[start : start + _MAX_CHARS])
        text = _CODE_SPAN.sub(" ", text)
        if callout := _CALLOUT.match(text):
            title, body = callout["title"].strip(' "[]'), text[callout.end() :].strip()
            kind = f"{callout['kind']}: " if callout["kind"].casefold() in _FLAGS else ""
            text = f"{kind}{title}\n{body}".lstrip()
        elif block.kind is not BlockKind.PROSE:
            return
        text = text.partition("\n\n")[0].rstrip()
        if is_whole and (moved := _MOVED.fullmatch(text)):
            self._add(LinkKind.SUCCESSOR, _references(moved["link"]), line)
        elif notice := _NOTICE.match(text):
            self.flag = self.flag or _word(notice["stated"] or notice["word"])
            links = _recommended(text, numbers=False)
            self._add(LinkKind.SUCCESSOR, links[:1], line)

    def _add(self, kind: LinkKind, links: Iterable[Link], line: int) -> None:
        added = [replace(link, kind=kind, line=line) for link in links]
        if added and kind is LinkKind.SUCCESSOR:
            self.flag = self.flag or "superseded"
        self.links += added


def _lines(source: SourceText, blocks: Iterable[Block]) -> Iterator[tuple[int, str]]:
    """Yield number, from 1, and text of the lines outside code."""
    for block in blocks:
        if block.children:
            yield from _lines(source, block.children)
        elif block.kind is not BlockKind.CODE:
            for n in range(block.start, block.end):
                yield n + 1, _line(source, n)


def _line(source: SourceText, n: int) -> str:
    start = source.starts[n]
    return source.text[start : start + _MAX_CHARS].partition("\n")[0]


def _is_content(source: SourceText, block: Block) -> bool:
    """Return whether a block does not begin with a field such as `Date: …`, a tag or an image."""
    line = _line(source, block.start)
    return bool(line.strip()) and not _NO_CONTENT.match(line)


def _word(text: str) -> str:
    word = text.casefold()
    return _SYNONYMS.get(word, word)


def _references(text: str, position: int = 0, *, numbers: bool = True) -> list[Link]:
    """Return the notes named at a position of a text, by links or numbers."""
    links = list[Link]()
    while len(links) < _MAX_REFERENCES and (match := _REFERENCE.match(text, position)):
        link: Link | None
        if match["number"] and not numbers:
            break
        if match["number"]:
            link = _name(match["number"])
        elif match["wiki"]:
            link = parse_wikilink(match["wiki"], LinkKind.WIKILINK, 0)
        else:
            address = match["address"].strip("<>")
            link = parse_destination(address, LinkKind.MARKDOWN, "", 0) or _name(address)
        links.append(replace(link, text=match["link"] or match["number"]))
        separator = _SEPARATOR.match(text, match.end())
        if not separator:
            break
        position = separator.end()
    return links


def _recommended(text: str, cues: re.Pattern[str] = _CUE, *, numbers: bool = True) -> list[Link]:
    """Return the notes that a text recommends: `use [[x]]`, `in favor of [x](x.md)`, `by ADR-12`.

    A number counts only after `by`.
    """
    for cue in cues.finditer(text):
        if links := _references(text, cue.end(), numbers=numbers and bool(cue["by"])):
            return links
    return []


def _name(text: str) -> Link:
    return Link(LinkKind.SUCCESSOR, text, "", text, 0)
