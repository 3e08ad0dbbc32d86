"""Find the citations and quotations in a text, and check them against the current notes."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby, islice
from typing import Literal, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from thumbindex.compare.quotations import (
    NoteWords,
    WordSpan,
    find_quotation,
    nearest_match,
    quotation_parts,
    tokenize_note,
    word_differences,
)
from thumbindex.corpus.payload import omit_payloads
from thumbindex.errors import UnknownPathError, UsageError
from thumbindex.library.note_lookup import (
    MAX_NAMESAKES,
    FoundNote,
    NoteLookup,
    read_sections,
)
from thumbindex.library.places import NotePlaces
from thumbindex.library.reader import Reader
from thumbindex.library.reading import current_text
from thumbindex.library.visibility import filter_visible
from thumbindex.model import CitationCheck, CitationState, NameKind, Section, Verification
from thumbindex.settings import MAX_DRAFT_CHARS
from thumbindex.text import (
    SCHEME,
    format_address,
    line_range,
    name_key,
    one_line,
    parse_address,
    text_digest,
)

_MAX_CITATIONS = 200
"""Maximum citations checked in one call."""

_READ_BUDGET = 5_000_000
"""Maximum characters of notes read in one call: a few seconds of work."""

_SEARCH_COST = 30_000
"""Characters that each keyword search deducts from `_READ_BUDGET`."""

_MAX_TRIED = 8
"""Maximum citations whose notes are searched for one quotation."""

_MAX_SEARCHED = 20
"""Maximum notes of a folder that are read for one phrase of a moved quotation."""

_PHRASE_WORDS = 6
"""Words per phrase when the notes are searched for a moved quotation.

A longer phrase may span several chunks, and a search matches only phrases inside one chunk.
"""

_MIN_WORDS = 3
"""Minimum words of a phrase to search for, and of a quotation without a citation beside it."""

_MIN_SIMILARITY, _HIGH_SIMILARITY = 0.6, 0.8
"""Minimum similarities at which a text in the cited note is reported as the changed quotation.

With at least the second similarity, other notes are not searched. Otherwise, the first similarity
is enough if no other note contains the quotation.
"""

_PATH_CHARACTERS, _PATH_WORDS, _HEADING_CHARACTERS = 260, 20, 300
"""Plain citations: maximum characters and words of a path, and maximum characters of a heading."""

_HEADING_WORDS = 20
"""Maximum words after `path#` that are tried as the heading, if nothing marks where it ends."""

_TEXT_SHOWN = 300
"""Maximum characters of the changed text in a CitationCheck."""


# --------------------------------------------------------------- citations and quotations in a text


@dataclass(frozen=True, slots=True)
class Citation:
    """A citation in a text: the offsets, and the cited note, heading, lines or digest."""

    start: int
    end: int
    written: str
    path: str  # or a name; may be empty
    folder: str = ""
    heading: str = ""
    lines: tuple[int, int] | None = None
    digest: str = ""
    has_open_heading: bool = False  # the heading may include text that follows the citation

    @property
    def is_whole_note(self) -> bool:
        """Whether the citation names no lines and no digest."""
        return not self.lines and not self.digest


@dataclass(frozen=True, slots=True)
class Quotation:
    """A quotation in a text, and its possible citations, most likely first."""

    text: str
    cited: tuple[Citation, ...]


_LINES = re.compile(
    r",?[ \u00a0]?\(?lines? ([1-9]\d{0,8})(?:[-–]([1-9]\d{0,8}))?\)?"
    r"|:([1-9]\d{0,8})(?::\d{1,9})?(?:[-–]([1-9]\d{0,8})(?::\d{1,9})?)?(?!\w|:\w)"
    r"|\(([1-9]\d{0,8})(?:,\d{1,9})?\)"
)
_ANCHOR = re.compile(
    r"(?P<address>(?:thumbindex|obsidian|vscode|file)://[^\s<>\"'`()\[\]|]+)"
    r"|\[\[(?P<wiki>[^\[\]\n]{1,300})\]\]"
    r"|\]\((?P<target><[^<>\n]{1,500}>|[^\s()<>]{1,500})[^\S\n]?\)"
    r"|(?P<file>\.(?:md|markdown|mdx)\b)"
    r"|(?P<lines>[ \u00a0]\(lines? [1-9])"
)
_PAIRS = "“” «» ‹› 「」 『』 ｢｣ ﹁﹂ 《》 〈〉 〝〞 ❝❞"
_MARKS = _PAIRS.replace(" ", "") + '"＂„‟'
"""Quotation marks, without those that are also apostrophes."""

_TERMINATORS = f"`{_MARKS}()[]<>*|（）【】\n"
"""Characters that end the heading of a citation without line numbers."""

_PLAIN = "?plain=1"
"""The query in GitHub's links to the lines of Markdown."""

_PATH_START = re.compile(r"\w|\.?\.?/|\.\w")
_OTHER_FILE = re.compile(r"\.(?!md\Z|markdown\Z|mdx\Z)[a-z][a-z0-9]{1,4}\Z", re.I)
_FENCE = re.compile(r"^[ \t]*+(`{3,}+(?!.*`)|~{3,}+)", re.M)
_SEPARATORS = rf"\s`'‘’‚{_MARKS}()\[\]<>*_=|:,;—（）【】：，、；"
_WORD_STARTS = re.compile(rf"(?<=[{_SEPARATORS}])(?=[^{_SEPARATORS}])")
_BLOCK_START = re.compile(r"[ \t]*(?:[-*+][ \t]|\d{1,3}[.)][ \t]|#{1,6}[ \t]|\||$)")
_QUOTE_LINE = re.compile(r"[ \t]*>[ \t]?(?:\[![\w-]+\][+-]?[ \t]?)?")
_ELISION = r"(?i:n['’]|(?:tis|twas|em|til|\d0s)\b)"
_APOSTROPHE = rf"(?<=[^\W_])['’＇](?=\w)|(?<!\w)['’]{_ELISION}"
_SINGLE = "'‘’‚‛＇❛❜´′"
_SINGLE_QUOTED = (
    rf"(?<![^\W_])(?<!')['‘’‚‛＇❛´′](?!\s|{_ELISION})"
    rf"((?:[^{_SINGLE}]|{_APOSTROPHE}%s){{1,5000}}+)(?<!\s)['‘’＇❜´′](?!\w)"
)
_QUOTED = re.compile(
    "|".join(
        (
            *(
                rf"{first}((?:[^{first}{last}]|(?<!\w){first}[^{first}{last}]*+{last}){{1,5000}}+){last}"
                for first, last in map(tuple, _PAIRS.split())
            ),
            r"[„‟]([^„‟“”]{1,5000}+)[“”]",
            r"[“„‟]([^“”„‟\"]{1,5000}+)(?<!\s)[“\"](?!\w)",
            r"(?<![\w.,!?…])”(?!\s)([^“”]{1,5000}+)”",
            r"»([^«»]{1,5000}+)[«»]",
            r"›([^‹›]{1,5000}+)[‹›]",
            r"(?<![^\W_])\"([^\"]{1,5000}+)\"(?![^\W_])",
            r"＂([^＂]{1,5000}+)＂",
            r"<<([^<>]{1,5000}+)>>",
            r"<(?:q|blockquote)\b[^<>]*+>([^<>]{1,5000}+)</",
            r"(?<![\w'`])(?:``|''|,,)(?![\s'`])((?:[^'`,]|'(?!')|,(?!,)){1,5000}+)''(?!['\w])",
            # `users' notes`: an apostrophe, unless no other mark ends the quotation
            _SINGLE_QUOTED % r"|(?<=[sxz\d])['’](?=[ ]\w)",
            _SINGLE_QUOTED % "",
            r"(?P<code>(?<!`)(?:`[^`]{1,5000}+`|``(?:[^`]|`(?!`)){1,5000}+``)(?!`))",
            rf"(?P<emphasis>(?<![\w*])\*(?![\s*'‘])[^*{_MARKS}]{{1,5000}}+(?<!\s)\*(?![\w*])"
            rf"|(?<![\w*])\*{{2,3}}(?![\s*'‘])(?:[^*{_MARKS}]|\*(?!\*)){{1,5000}}+(?<!\s)\*{{2,3}}(?![\w*])"
            rf"|(?<![\w])__?(?![\s_'‘])(?:[^_{_MARKS}]|(?<=\w)_(?=\w)){{1,5000}}+(?<!\s)__?(?!\w)"
            rf"|(?<!=)==(?![\s='‘])(?:[^={_MARKS}]|=(?!=)){{1,5000}}+(?<!\s)==(?!=))",
        )
    )
)
"""A text in quotation marks, or a text in the group `code` or `emphasis`."""

_ADJACENT = re.compile(r"[\s()\[\]<>*_=:;,.|`'\"“”‘’（）【】：，。、；—–~-]{0,12}")
_NEARBY = re.compile(r"[^\w.!?]{0,12}(?:\w{1,20}[^\w.!?]{1,12}){0,3}")
"""At most three words of the same sentence."""

_BEFORE_SOURCE = tuple("([—–-（【")

_MAX_BETWEEN = 400
"""Enough characters between a quotation and a citation to see that they are not side by side."""

_LINK_TEXT = re.compile(r"\[[^\[\]\n]{0,200}\Z")
_CODE_NAME = re.compile(r"[`\w./~@:#-]+")
_TARGET_LINES = re.compile(r":([1-9]\d{0,8})(?::\d{1,9})?(?:-([1-9]\d{0,8}))?\Z")


class CachedNoteLookup:
    """Finds the notes that citations name. Looks up each name only once."""

    def __init__(self, readers: Sequence[Reader], is_local: bool = True) -> None:
        self._found = dict[tuple[str, str], list[FoundNote]]()
        self.folders = {reader.folder.name: NoteLookup([reader], is_local) for reader in readers}
        self.notes = NoteLookup(readers, is_local)

    def find(self, name: str, folder: str = "") -> Sequence[FoundNote]:
        """Return at most `MAX_NAMESAKES` notes with a name, best matches first.

        If the name is an exact path, return only the notes at this path.
        """
        if (name, folder) not in self._found:
            lookup = self.folders.get(folder) if folder else self.notes
            groups = lookup.notes_named(name) if lookup else iter(())
            best = next(groups, [])
            is_exact = any(note.document.path == name for note in best)
            notes = best if is_exact else chain(best, *groups)
            by_place = {(note.document.folder, note.document.path): note for note in notes}
            self._found[name, folder] = list(by_place.values())[:MAX_NAMESAKES]
        return self._found[name, folder]

    def has_name(self, name: str, is_path: bool = False) -> bool:
        """Return whether a note has this name. With `is_path`, only paths and file names count."""
        kinds = {note.kind for note in self.find(name)}
        return bool(kinds & {NameKind.PATH, NameKind.FILE} if is_path else kinds)


def find_citations(text: str, names: CachedNoteLookup) -> list[Citation]:
    """Return the citations in a text in order: plain citations, addresses and links."""
    citations, end = list[Citation](), 0
    fences = [match.start() for match in _FENCE.finditer(text)]
    for match in _ANCHOR.finditer(text):
        if match.start() < end:
            continue
        kind = str(match.lastgroup)
        if kind == "address":
            citation = _parse_address(match.start("address"), match["address"].rstrip(".,;:!?*"))
        elif kind == "wiki":
            citation = _parse_wikilink(match, fences, names)
        elif kind == "target":
            # the link's text may already be a citation
            last = citations[-1].end if citations else -1
            is_same = match.start() - last <= 1 and end == last
            citation = None if is_same else _parse_markdown_link(match, names)
        else:
            citation = _parse_plain_citation(text, match, end, names, is_file=kind == "file")
        if citation:
            citation = _with_lines(text, citation)
            citations.append(citation)
            end = citation.end
    return citations


def _parse_wikilink(
    match: re.Match[str], fences: Sequence[int], names: CachedNoteLookup
) -> Citation | None:
    """Parse a wikilink; None if the wikilink is not a citation."""
    text, at = match.string, match.start()
    path, _, heading = match["wiki"].partition("|")[0].rstrip("\\").partition("#")
    path = path.strip()
    is_code = (
        bisect_left(fences, at) % 2 == 1
        or text.count("`", text.rfind("\n", 0, at) + 1, at) % 2 == 1
    )
    # an embed, a link in code or a link to another type of file cites only a note that exists
    is_shown = is_code or text.startswith("!", max(0, at - 1)) or _OTHER_FILE.search(path)
    if not path or (is_shown and not names.has_name(path)):
        return None
    return Citation(
        at,
        match.end(),
        match[0],
        path,
        heading=heading.rpartition("#")[2],
    )


def _parse_markdown_link(match: re.Match[str], names: CachedNoteLookup) -> Citation | None:
    """Parse a link to a note, a Markdown file or an address; None for other links."""
    target = match["target"].strip("<>").replace(_PLAIN, "")
    lines = _TARGET_LINES.search(target)
    note = target[: lines.start()] if lines else target
    if re.match(r"[a-z][a-z0-9+.-]*:", note, re.I):
        return _parse_address(match.start("target"), target, match.end())
    path, _, heading = map(unquote, note.partition("#"))
    if not path or (
        not names.has_name(path, is_path=True)
        and not re.search(r"\.(?:md|markdown|mdx)\Z", path, re.I)
    ):
        return None
    written = path + (f"#{heading}" if heading else "")
    citation = Citation(match.start(), match.end(), written, path, heading=heading)
    if lines is None:
        return citation
    first, last = int(lines[1]), int(lines[2] or lines[1])
    return replace(citation, written=written + lines[0], lines=(first, max(first, last)))


def _parse_address(start: int, link: str, end: int | None = None) -> Citation | None:
    """Parse a `thumbindex:` address, an editor's link or a `file:` URL; None for other links."""
    end = start + len(link) if end is None else end
    if link.startswith(SCHEME):
        address = parse_address(link)
        if not address:
            return None
        return Citation(
            start, end, link, address.path, address.folder, address.heading, None, address.digest
        )
    try:
        parts = urlsplit(link)
    except ValueError:
        return None
    if parts.scheme == "obsidian":
        parameters = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path, _, heading = (parameters.get("path") or parameters.get("file", "")).partition("#")
        return (
            Citation(start, end, link, path, heading=heading.rpartition("#")[2]) if path else None
        )
    if parts.scheme not in {"vscode", "file"} or (
        parts.scheme == "vscode" and parts.netloc != "file"
    ):
        return None
    path, line = unquote(parts.path), None
    if parts.scheme == "vscode" and (
        numbered := re.fullmatch(r"(.+):([1-9]\d{0,8})(?::\d+)?", path)
    ):
        path, line = numbered[1], (int(numbered[2]), int(numbered[2]))
    path = path[1:] if re.match(r"/[A-Za-z]:/", path) else path
    if not path.strip("/"):
        return None
    return Citation(start, end, link, path, "", unquote(parts.fragment), line)


def _parse_plain_citation(
    text: str, match: re.Match[str], done: int, names: CachedNoteLookup, is_file: bool
) -> Citation | None:
    """Parse the citation whose file suffix or line numbers are at `match`.

    Return None if there is no citation.
    """
    end = match.end() if is_file else match.start()
    low = max(done, end - _PATH_CHARACTERS, text.rfind("\n", 0, end) + 1)
    before = text[low:end]
    starts = [0, *(word.start() for word in _WORD_STARTS.finditer(before))][-_PATH_WORDS:]
    starts = [start for start in starts if _PATH_START.match(before, start)]
    forms = [
        (start, path, heading)
        for start in starts
        for path, heading in ((before[start:], ""), before[start:].partition("#")[::2])
    ]
    # the longest path of a note, else the longest name
    known_forms = (
        form for is_path in (True, False) for form in forms if names.has_name(form[1], is_path)
    )
    if form := next(known_forms, None):
        start, path, heading = form
    elif forms and (is_file or forms[-1][2]):  # a suffix or heading marks an unknown note
        # the text after an opening bracket or quotation mark, else the last word
        enclosed = max(map(before.rfind, '`("“[<')) + 1
        start, path, heading = next(
            (form for form in forms[1::2] if form[0] == enclosed > 0), forms[-1]
        )
    else:
        return None
    begin = low + start
    folders = (folder for folder in names.folders if text.endswith(f"{folder}: ", 0, begin))
    is_open = False
    if is_file and text.startswith(f"{_PLAIN}#", end):
        end += len(_PLAIN)
    if is_file and text[end : end + 1] == "#":
        tail = text[end + 1 : end + 1 + _HEADING_CHARACTERS].partition("\n")[0]
        with_lines = re.match(r"(.*?),?[ \u00a0]\(?lines? [1-9]", tail)
        heading = with_lines[1] if with_lines else re.split(f"[{re.escape(_TERMINATORS)}]", tail)[0]
        is_open = with_lines is None
        end += 1 + len(heading) * (not is_open)
    written = text[begin:end] + (heading if is_open else "")
    folder = next(folders, "")
    return Citation(begin, end, written, path, folder, heading.strip(), has_open_heading=is_open)


def _with_lines(text: str, citation: Citation) -> Citation:
    """Add the line numbers that follow a citation in the text."""
    match = _LINES.match(text, citation.end)
    if match is None or (citation.lines and match[3]):
        return citation
    first = int(match[1] or match[3] or match[5])
    last = int(match[2] or match[4] or first)
    if last < first:
        return citation
    is_balanced = match[0].count("(") >= match[0].count(")")
    end = match.end() if is_balanced else match.end() - 1
    return replace(
        citation,
        end=end,
        written=citation.written + text[citation.end : end],
        lines=(first, last),
        has_open_heading=False,
    )


class _QuoteSpan(NamedTuple):
    """A possible quotation: its offsets, those inside its marks, and those of its surroundings.

    The surroundings may contain its citation.
    """

    first: int
    last: int
    kind: Literal["marks", "block", "code", "emphasis"]
    begin: int
    end: int
    low: int
    high: int

    @property
    def is_certain(self) -> bool:
        """Whether the text is a quotation even if no citation is beside it."""
        return self.kind in {"marks", "block"}


def _quote_spans(text: str, citations: Sequence[Citation]) -> Iterator[_QuoteSpan]:
    """Yield texts in quotation marks, block quotes, code and emphasized texts, in order."""
    starts = [citation.start for citation in citations]
    runs = [list(run) for _, run in groupby(_text_blocks(text), lambda unit: unit[2] == "block")]
    for n, run in enumerate(runs):
        low = runs[n - 1][-1][0] if n else run[0][0]
        high = runs[n + 1][0][1] if n + 1 < len(runs) else run[-1][1]
        for start, end, kind in run:
            if kind == "block":
                yield _QuoteSpan(start, end, kind, start, end, low, high)
            elif kind == "code" and bisect_left(starts, start) == bisect_left(starts, end):
                begin = text.find("\n", start) + 1
                finish = begin + len(text[begin:end].rstrip().rstrip("`~").rstrip())
                yield _QuoteSpan(start, end, kind, begin, finish, 0, len(text))
            else:
                for match in _QUOTED.finditer(text, start, end):
                    yield _inline_span(match, start, end)


def _inline_span(match: re.Match[str], low: int, high: int) -> _QuoteSpan:
    first, last = match.span()
    if match["code"] or match["emphasis"]:
        mark = match[0][0]
        kind: Literal["code", "emphasis"] = "code" if match["code"] else "emphasis"
        begin, end = last - len(match[0].lstrip(mark)), first + len(match[0].rstrip(mark))
        return _QuoteSpan(first, last, kind, begin, end, low, high)
    begin, end = match.span(match.lastindex or 0)
    return _QuoteSpan(first, last, "marks", begin, end, low, high)


def drop_quoted_links(text: str, citations: Sequence[Citation]) -> list[Citation]:
    """Drop citations of whole notes inside quotations: they belong to the quoted text.

    A citation alone in quotation marks, or alone on a line of a block quote, is kept.
    """
    quotes = [quote for quote in _quote_spans(text, citations) if quote.is_certain]
    starts, remaining = [quote.first for quote in quotes], list[Citation]()
    for citation in citations:
        at = bisect_right(starts, citation.start) - 1
        if citation.is_whole_note and at >= 0 and citation.end <= quotes[at].last:
            start, end = quotes[at].begin, quotes[at].end
            if quotes[at].kind == "block":
                start, end = text.rfind("\n", 0, citation.start) + 1, text.find("\n", citation.end)
                end = end if end >= 0 else len(text)
            around = text[start : citation.start], text[citation.end : end]
            if not all(map(_ADJACENT.fullmatch, around)):
                continue
        remaining.append(citation)
    return remaining


def find_quotations(text: str, citations: Sequence[Citation]) -> list[Quotation]:
    """Return the quotations in a text, each with the citations inside and beside the quotation.

    Code and emphasized texts are quotations of a citation beside them that has no other quotation.
    """
    quotations, taken = list[tuple[Quotation, bool]](), set[Citation]()
    starts = [citation.start for citation in citations]
    for span in _quote_spans(text, citations):
        quotation = _quotation(text, span, citations, starts, taken)
        if quotation and (span.is_certain or quotation.cited):
            quotations.append((quotation, span.is_certain))
            taken.update(cited for cited in quotation.cited[:1] if cited.start >= span.last)
    quoted = {quotation.cited[:1] for quotation, is_certain in quotations if is_certain}
    return [
        quotation
        for quotation, is_certain in quotations
        if is_certain or quotation.cited[:1] not in quoted
    ]


def _quotation(
    text: str,
    span: _QuoteSpan,
    citations: Sequence[Citation],
    starts: Sequence[int],
    taken: Set[Citation],
) -> Quotation | None:
    """Return a span with its citations. `taken` are the citations behind earlier quotations."""
    first, last = span.first, span.last
    at, end = bisect_left(starts, first), bisect_left(starts, last)
    inside, before, after = citations[at:end], citations[max(0, at - 1) : at], citations[end:][:1]
    quoted, is_block = text[span.begin : span.end], span.kind == "block"
    if is_block:
        quoted = _block_text(text, first, last, inside)
    elif before and before[0].end > first:
        return None
    elif inside:  # “the quotation (a.md:3)”
        quoted = text[span.begin : inside[0].start].rstrip()
        is_last = _ADJACENT.fullmatch(text[inside[-1].end : span.end])
        if not is_last or not quoted.endswith(_BEFORE_SOURCE):
            return None
    between_before = text[max(before[0].end, first - _MAX_BETWEEN) : first] if before else ""
    between_after = text[last : min(after[0].start, last + _MAX_BETWEEN)] if after else ""
    between_after = _LINK_TEXT.sub("[", between_after)
    is_preceded = bool(before and _ADJACENT.fullmatch(between_before))
    is_followed = bool(after and _ADJACENT.fullmatch(between_after))
    # in brackets, after a dash or directly after a block quote, the following citation ranks
    # above the preceding one
    is_source = is_followed and (is_block or between_after.rstrip(" *_`").endswith(_BEFORE_SOURCE))
    after = [citation for citation in after if citation.start < span.high or is_source]
    before = [
        citation for citation in before if citation.start >= span.low or (is_preceded and not after)
    ]
    count, minimum = sum(map(len, quotation_parts(quoted))), 1
    if span.kind == "marks":
        minimum = 1 if inside or is_preceded or is_followed else _MIN_WORDS
    elif not is_block:
        minimum = 2 if span.kind == "code" else _MIN_WORDS
        after = after if _NEARBY.fullmatch(between_after) else []
        is_near = _NEARBY.fullmatch(between_before) and (
            ":" in between_before or (before and before[0].start >= span.low)
        )
        before = before if is_near else []
        is_bold = span.begin > first + 1
        is_label = is_bold and ":" in (quoted[-1:], text[last : last + 1])
        if is_label or (span.kind == "code" and _CODE_NAME.fullmatch(quoted)):
            return None
    is_after = is_source or not taken.isdisjoint(before)
    around = (*after, *before) if is_after else (*before, *after)
    return Quotation(quoted, (*inside, *around)) if count >= minimum else None


def _text_blocks(text: str) -> Iterator[tuple[int, int, Literal["text", "block", "code"]]]:
    """Yield (start, end, kind) of each paragraph, list item, block quote and fenced code block."""
    start, at, fence = 0, 0, ""
    kind: Literal["text", "block", "code"] = "text"
    for line in text.splitlines(keepends=True):
        last_kind, mark = kind, _FENCE.match(line)
        kind = "code" if fence or mark else "text"
        if kind == "text" and line.lstrip(" \t").startswith(">"):
            kind = "block"
        is_start = (kind == "text" and _BLOCK_START.match(line.rstrip("\n"))) or (
            kind == "code" and not fence
        )
        if at > start and (kind != last_kind or is_start):
            if text[start:at].strip():
                yield start, at, last_kind
            start = at
        if fence and mark and mark[1].startswith(fence):
            fence = ""
        elif mark and not fence:
            fence = mark[1]
        at += len(line)
    if text[start:at].strip():
        yield start, at, kind


def _block_text(text: str, start: int, end: int, citations: Sequence[Citation]) -> str:
    """Return the text of a block quote without its citations."""
    text_before, at = "", start
    for citation in citations:
        text_before, at = text_before + text[at : citation.start].rstrip(" ([—–-"), citation.end
        at += len(text[at:end]) - len(text[at:end].lstrip(")]"))
    lines = [
        line[mark.end() :] if (mark := _QUOTE_LINE.match(line)) else line
        for line in (text_before + text[at:end]).splitlines()
    ]
    quoted = "\n".join(lines).strip()
    return quoted[1:-1] if len(quoted) > 2 and quoted[0] in '"“' and quoted[-1] in '"”' else quoted


# ------------------------------------------------------------------ checks against the notes


class _CurrentNote:
    def __init__(self, note: FoundNote, text: str) -> None:
        self.note, self.document, self.text = note, note.document, text
        self.place = note.document.folder, note.document.path
        self.places = NotePlaces(self.document.path, text, note.in_vault)
        self.total = self.places.total

    @cached_property
    def words(self) -> NoteWords:
        return tokenize_note(omit_payloads(self.text, lambda _: ""))

    @property
    def headings(self) -> tuple[tuple[int, str, int], ...]:
        return self.places.headings

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        return read_sections(self.note)

    def section(self, line: int) -> Section | None:
        return next((s for s in self.sections if s.start_line <= line <= s.end_line), None)

    def lines_under_heading(self, cited: Citation) -> tuple[int, int] | None:
        """Return the lines under the cited heading.

        If several headings match, choose the one whose lines are nearest to the cited lines.
        """
        first = cited.lines[0] if cited.lines else 0
        ranges = self.places.ranges(cited.heading)
        title = name_key(self.document.title)
        if not ranges and title and title == name_key(cited.heading):
            return (1, self.total)
        return min(
            ranges, key=lambda lines: max(lines[0] - first, first - lines[1], 0), default=None
        )

    def close_heading(self, cited: Citation) -> Citation:
        """Cut off the text that follows the heading of a citation.

        Keep the longest heading that the note contains. If the note contains none, keep the first
        word.
        """
        words = cited.heading.split()[:_HEADING_WORDS]
        names = {name_key(name) for name in (self.document.title, *(h[1] for h in self.headings))}
        counts = [n for n in range(len(words), 0, -1) if name_key(" ".join(words[:n])) in names]
        heading = " ".join(words[: counts[0] if counts else 1]).rstrip(".,;:!?")
        return replace(
            cited,
            heading=heading,
            written=f"{cited.written.partition('#')[0]}#{heading}",
            has_open_heading=False,
        )

    def check_at(
        self, state: CitationState, lines: tuple[int, int], reason: str = ""
    ) -> CitationCheck:
        """Return a CitationCheck that says how to cite `lines` in the note as it is now."""
        document = self.document
        heading = next(
            (
                name
                for level, name, line in reversed(self.headings)
                if line <= lines[0] and (level > 1 or name != document.title)
            ),
            "",
        )
        address = ""
        if state not in {"there", "not_compared"}:
            within = self.section(lines[0])
            digest = text_digest(within.text) if within else ""
            address = format_address(document.folder, document.path, heading, digest)
        cited = f"{document.path}#{heading}" if heading else document.path
        current_citation = one_line(f"{cited} ({line_range(*lines)})")
        place = document.folder, document.path, *lines
        return CitationCheck("", "", state, reason, current_citation, address, *place)

    def check_changed(self, parts: Sequence[Sequence[str]], span: WordSpan) -> CitationCheck:
        """Return a CitationCheck with the changed text and the words that differ."""
        lines = self.words.span_lines(span)
        text = "\n".join(omit_payloads(self.text).split("\n")[lines[0] - 1 : lines[1]])
        text = text if len(text) <= _TEXT_SHOWN else f"{text[:_TEXT_SHOWN]}…"
        differs = word_differences(parts, self.words, span)
        return replace(self.check_at("changed", lines), text=text, differs=differs)


class _ReadBudgetError(Exception):
    """The call has used up its read budget."""


class _Checker:
    """Checks the citations of one call; each note is read once."""

    def __init__(
        self, readers: Sequence[Reader], names: CachedNoteLookup, digests: frozenset[str]
    ) -> None:
        self._readers, self._names, self._digests = readers, names, digests
        self._notes = dict[tuple[str, str], _CurrentNote | None]()
        self._budget = _READ_BUDGET

    @cached_property
    def _by_digests(self) -> dict[str, FoundNote]:
        """The passages with the cited digests, by digest. The search for them runs only once."""
        return dict(self._names.notes.passages_with_digests(self._digests))

    def check(
        self, candidates: Sequence[Citation], quotation: str = ""
    ) -> tuple[Citation, CitationCheck]:
        """Check the first candidate whose note contains `quotation`.

        If no note contains `quotation`, check the first candidate.
        """
        parts = quotation_parts(quotation)
        cited, note = candidates[0], next(self._notes_of(candidates[0]), None)
        if parts:
            pairs = (
                (citation, note)
                for citation in candidates[:_MAX_TRIED]
                for note in self._notes_of(citation)
            )
            matches = (pair for pair in pairs if find_quotation(parts, pair[1].words))
            cited, note = next(matches, (cited, note))
        candidate = cited
        cited = note.close_heading(cited) if note and cited.has_open_heading else cited
        result = (
            self._check_quotation(cited, note, parts)
            if parts
            else self._check_unquoted(cited, note)
        )
        return candidate, replace(result, citation=cited.written, quotation=quotation)

    def _notes_of(self, cited: Citation) -> Iterator[_CurrentNote]:
        return filter(None, map(self._read, self._names.find(cited.path, cited.folder)))

    def _read(self, found_note: FoundNote) -> _CurrentNote | None:
        place = found_note.document.folder, found_note.document.path
        if place not in self._notes:
            try:
                text = current_text(found_note.reader, found_note.document.path)
            except UnknownPathError:
                self._notes[place] = None
                return None
            self._spend(len(text) if self._notes else 0)
            self._notes[place] = _CurrentNote(found_note, text)
        return self._notes[place]

    def _spend(self, characters: int) -> None:
        self._budget -= characters
        if self._budget < 0:
            raise _ReadBudgetError

    # -------------------------------------------------------------- without a quotation

    def _check_unquoted(self, cited: Citation, note: _CurrentNote | None) -> CitationCheck:
        if cited.digest and (check := self._check_digest(cited, note)):
            return check
        if note is None:
            return _not_found(cited, "no note has this path")
        lines = note.lines_under_heading(cited) if cited.heading else None
        if cited.digest:
            return note.check_at("changed", lines or (1, note.total), "the cited text has changed")
        if cited.heading and lines is None:
            kind = "block" if cited.heading.startswith("^") else "heading"
            return _not_found(cited, f"the note has no such {kind}")
        if cited.lines and cited.lines[1] > note.total:
            reason = f"the note has {note.total} lines"
            if cited.lines[0] > note.total:
                return _not_found(cited, reason)
            return note.check_at("changed", (cited.lines[0], note.total), reason)
        if lines and cited.lines and not _overlap(lines, cited.lines):
            return note.check_at("moved", lines, "the heading is on other lines")
        return note.check_at(
            "not_compared", cited.lines or lines or (1, max(1, note.total)), "nothing is quoted"
        )

    def _check_digest(self, cited: Citation, note: _CurrentNote | None) -> CitationCheck | None:
        """Look for the passage with the cited digest in the cited note, then in all notes."""
        for section in note.sections if note else ():
            if note and text_digest(section.text) == cited.digest:
                lines = section.start_line, section.end_line
                if cited.lines and not _overlap(lines, cited.lines):
                    return note.check_at("moved", lines, "to other lines")
                reason = "nothing is quoted; the cited text is unchanged"
                return note.check_at("not_compared", lines, reason)
        moved = self._by_digests.get(cited.digest)
        other_note = self._read(moved) if moved else None
        if moved and moved.lines and other_note:
            return other_note.check_at("moved", moved.lines[:2], "to another note")
        return None

    # -------------------------------------------------------------- with a quotation

    def _check_quotation(
        self, cited: Citation, note: _CurrentNote | None, parts: Sequence[Sequence[str]]
    ) -> CitationCheck:
        nearest = None
        if note:
            if spans := find_quotation(parts, note.words):
                lines = [note.words.span_lines(span) for span in spans]
                return self._check_found_quotation(cited, note, lines)
            nearest = nearest_match(parts, note.words)
            if nearest and nearest[1] >= _HIGH_SIMILARITY:
                return note.check_changed(parts, nearest[0])
        for other in self._other_notes(cited, parts):
            if spans := find_quotation(parts, other.words):
                return other.check_at("moved", other.words.span_lines(spans[0]), "to another note")
        if note and nearest and nearest[1] >= _MIN_SIMILARITY:
            return note.check_changed(parts, nearest[0])
        return _not_found(
            cited,
            "the note contains nothing similar"
            if note
            else "no note has this path, and no note contains the quotation",
        )

    def _check_found_quotation(
        self, cited: Citation, note: _CurrentNote, lines: Sequence[tuple[int, int]]
    ) -> CitationCheck:
        """Return a CitationCheck for a quotation found at `lines`: "there" or "moved"."""
        under = self._heading_ranges(cited, note) if cited.heading else [(1, note.total)]
        at_heading = [line for line in lines if any(_overlap(line, range_) for range_ in under)]
        at_lines, as_cited = lines, at_heading
        if cited_lines := cited.lines:
            # `query` prints a single line for a passage: check its whole section
            is_single = cited_lines[0] == cited_lines[1] and not cited.heading
            if is_single and (section := note.section(cited_lines[0])):
                cited_lines = section.start_line, section.end_line
            at_lines = [line for line in lines if _overlap(line, cited_lines)]
            # cited lines may span several sections, but name the heading of only one
            as_cited = at_lines if any(_overlap(cited_lines, range_) for range_ in under) else []
        if as_cited:
            return note.check_at("there", as_cited[0])
        best = (at_heading or at_lines or lines)[0]
        return note.check_at(
            "moved", best, "to other lines" if at_heading else "to another heading"
        )

    def _heading_ranges(self, cited: Citation, note: _CurrentNote) -> list[tuple[int, int]]:
        """Return the lines under the cited heading.

        For an address, also return the lines of the section that contains the heading.
        """
        lines = note.lines_under_heading(cited)
        part = note.section(lines[0]) if lines and cited.digest and not cited.lines else None
        parts = [(part.start_line, part.end_line)] if part else []
        return [lines, *parts] if lines else []

    def _other_notes(
        self, cited: Citation, parts: Sequence[Sequence[str]]
    ) -> Iterator[_CurrentNote]:
        """Yield notes that may contain a moved quotation: those found by digest, then by phrase."""
        moved = self._by_digests.get(cited.digest) if cited.digest else None
        if moved and (note := self._read(moved)):
            yield note
        words = max(parts, key=len)
        if len(words) < _MIN_WORDS:
            return
        end = max(0, len(words) - _PHRASE_WORDS)
        phrases = [
            " ".join(words[at : at + _PHRASE_WORDS]) for at in dict.fromkeys((0, end // 2, end))
        ]
        notes = chain.from_iterable(map(self._notes_with_phrase, phrases))
        yield from filter(None, map(self._read, notes))

    def _notes_with_phrase(self, phrase: str) -> Iterator[FoundNote]:
        """Yield at most `_MAX_SEARCHED` visible notes of each folder that contain a phrase."""
        for reader in self._readers:
            if reader.indexed:
                self._spend(_SEARCH_COST)
                snapshot = reader.folder_snapshot().snapshot
                chunks = snapshot.keyword.chunks_with_phrase(phrase)
                ids = dict.fromkeys(map(snapshot.catalog.document_of, chunks.first(len(chunks))))
                documents = {snapshot.catalog.documents[n].path: n for n in ids}
                for document in islice(
                    filter_visible((snapshot.catalog.documents[n] for n in ids), [reader]),
                    _MAX_SEARCHED,
                ):
                    yield FoundNote(reader, snapshot, documents[document.path], document)


def _overlap(first: tuple[int, int], second: tuple[int, int]) -> bool:
    return first[0] <= second[1] and second[0] <= first[1]


def _not_found(cited: Citation, why: str) -> CitationCheck:
    """Return a CitationCheck with the state "gone" if a digest is cited, else "never_there"."""
    # a digest proves that the text once existed
    return CitationCheck("", "", "gone" if cited.digest else "never_there", why)


def verify_citations(
    texts: Sequence[str], readers: Sequence[Reader], is_local: bool = True
) -> Verification:
    """Check the citations in the texts against the current notes.

    Absolute paths are resolved only for callers on this machine (`is_local`). Raises UsageError if
    the texts are too long.
    """
    if (size := sum(map(len, texts))) > MAX_DRAFT_CHARS:
        raise UsageError(
            f"The text is too long: it has {size:,} characters, and the limit is "
            f"{MAX_DRAFT_CHARS:,}. Verify it in parts."
        )
    names = CachedNoteLookup(readers, is_local)
    jobs, all_cited = list[tuple[int, tuple[Citation, ...], str]](), list[tuple[int, Citation]]()
    uncited = 0
    for number, text in enumerate(texts):
        cited = drop_quoted_links(text, find_citations(text, names))
        all_cited += [(number, citation) for citation in cited]
        quotations = find_quotations(text, cited)
        jobs += [(number, quoted.cited, quoted.text) for quoted in quotations if quoted.cited]
        uncited += sum(not quotation.cited for quotation in quotations)
    digests = frozenset(citation.digest for _, citation in all_cited if citation.digest)
    checker, checks = _Checker(readers, names, digests), list[tuple[int, int, CitationCheck]]()
    quoted = set[tuple[int, Citation]]()
    with suppress(_ReadBudgetError):
        for number, candidates, quotation in jobs[:_MAX_CITATIONS]:
            citation, check = checker.check(candidates, quotation)
            checks.append((number, citation.start, check))
            quoted.add((number, citation))
    quoted.update((number, candidates[0]) for number, candidates, _ in jobs[len(checks) :])
    unquoted = [cited for cited in all_cited if cited not in quoted]
    left_out = len(jobs) + len(unquoted) - len(checks)
    with suppress(_ReadBudgetError):
        for number, citation in unquoted[: _MAX_CITATIONS - len(checks)]:
            _, check = checker.check([citation])
            checks.append((number, citation.start, check))
            left_out -= 1
    checks.sort(key=lambda item: item[:2])
    return Verification(tuple(check for *_, check in checks), left_out, uncited)
