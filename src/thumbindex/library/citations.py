"""Find the citations and quotations in a text, and check them against the current notes."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from typing import NamedTuple
from urllib.parse import unquote

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
    format_address,
    line_range,
    name_key,
    one_line,
    parse_address,
    parse_citation,
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

_MIN_SIMILARITY = 0.6
"""Minimum similarity at which a text in the cited note is reported as the changed quotation."""

_PATH_CHARACTERS, _PATH_WORDS, _HEADING_CHARACTERS = 260, 20, 300
"""Plain citations: maximum characters and words of a path, and maximum characters of a heading."""

_HEADING_WORDS = 20
"""Maximum words after `path#` that are tried as the heading, if nothing marks where it ends."""

_TEXT_SHOWN = 300
"""Maximum characters of the changed text in a CitationCheck."""


# --------------------------------------------------------------- citations in a text


@dataclass(frozen=True, slots=True)
class Citation:
    """A citation in a text: the offsets, and the cited note, heading, lines or digest."""

    start: int
    end: int
    written: str
    path: str  # or a name; a folder's name may stand before it, as in `notes: a.md`
    heading: str = ""
    lines: tuple[int, int] | None = None
    digest: str = ""
    has_open_heading: bool = False  # the heading may include text that follows the citation

    @property
    def is_whole_note(self) -> bool:
        """Whether the citation names no lines and no digest."""
        return not self.lines and not self.digest


_CITATION = re.compile(
    r"(?P<address>thumbindex://[^\s<>\"'`()\[\]|]+)"
    r"|\[\[(?P<wiki>[^\[\]\n]{1,300})\]\]"
    r"|\]\((?P<target><[^<>\n]{1,500}>|[^\s()<>]{1,500})\)"
    r"|(?P<file>\.(?:md|markdown|mdx)\b)"
)
_LINES = re.compile(
    r",? \(?lines? ([1-9]\d{0,8})(?:[-–]([1-9]\d{0,8}))?\)?"
    r"|:([1-9]\d{0,8})(?::\d{1,9})?(?:[-–]([1-9]\d{0,8})(?::\d{1,9})?)?(?!\w|:\w)"
)
_HEADING = re.compile(r"#([^\n]*?)(?=,? \(?lines? [1-9])|#[^`\"“”„«»()\[\]<>*|\n]*")
_MARKDOWN_FILE = re.compile(r"\.(?:md|markdown|mdx)\Z", re.I)
_OTHER_FILE = re.compile(r"\.(?!md\Z|markdown\Z|mdx\Z)[a-z][a-z0-9]{1,4}\Z", re.I)
_FENCE = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)", re.M)
_WORD_STARTS = re.compile(r"(?<![^\s`'\"‘’“”„«»「」『』()（）\[\]<>*_|:,;—])(?=\w|\.{0,2}/|\.\w)")


class CachedNoteLookup:
    """Finds the notes that citations name. Looks up each name only once."""

    def __init__(self, readers: Sequence[Reader], is_local: bool = True) -> None:
        self._found = dict[str, list[FoundNote]]()
        self.notes = NoteLookup(readers, is_local)

    def find(self, name: str) -> Sequence[FoundNote]:
        """Return at most `MAX_NAMESAKES` notes with a name, best matches first.

        If the name is an exact path, return only the notes at this path.
        """
        if name not in self._found:
            groups = self.notes.notes_named(name)
            best = next(groups, [])
            paths = {f"{note.document.folder}: {note.document.path}" for note in best}
            is_exact = name in paths or any(note.document.path == name for note in best)
            notes = best if is_exact else chain(best, *groups)
            by_place = {(note.document.folder, note.document.path): note for note in notes}
            self._found[name] = list(by_place.values())[:MAX_NAMESAKES]
        return self._found[name]

    def has_path(self, path: str) -> bool:
        """Return whether a note has this path or file name."""
        return any(note.kind in {NameKind.PATH, NameKind.FILE} for note in self.find(path))


def find_citations(text: str, names: CachedNoteLookup) -> list[Citation]:
    """Return the citations in a text in order: plain citations, addresses and links."""
    citations, end = list[Citation](), 0
    fences = [match.start() for match in _FENCE.finditer(text)]
    for match in _CITATION.finditer(text):
        if match.start() < end:
            continue
        if match["address"]:
            citation = _parse_address(match.start(), match["address"].rstrip(".,;:!?*"))
        elif match["wiki"]:
            citation = _parse_wikilink(match, fences, names)
        elif match["target"]:
            # the link's text may already be a citation
            is_same = bool(citations) and match.start() - end <= 1
            citation = None if is_same else _parse_markdown_link(match, names)
        else:
            citation = _parse_plain_citation(text, match.end(), end, names)
        if citation:
            citation = _with_lines(text, citation)
            citations.append(citation)
            end = citation.end
    return citations


def _parse_address(start: int, link: str, end: int | None = None) -> Citation | None:
    address = parse_address(link)
    if address is None:
        return None
    end = start + len(link) if end is None else end
    folder, path, heading, digest = address
    return Citation(start, end, link, f"{folder}: {path}", heading, None, digest)


def _parse_wikilink(
    match: re.Match[str], fences: Sequence[int], names: CachedNoteLookup
) -> Citation | None:
    """Parse a wikilink; None if the wikilink is not a citation."""
    text, at = match.string, match.start()
    path, _, heading = match["wiki"].partition("|")[0].rstrip("\\").partition("#")
    is_code = (
        bisect_left(fences, at) % 2 == 1
        or text.count("`", text.rfind("\n", 0, at) + 1, at) % 2 == 1
    )
    # an embed, a link in code or a link to another type of file cites only a note that exists
    is_shown = is_code or text.startswith("!", max(0, at - 1)) or _OTHER_FILE.search(path.strip())
    if not path.strip() or (is_shown and not names.find(path.strip())):
        return None
    heading = heading.rpartition("#")[2]
    return Citation(at, match.end(), match[0], path.strip(), heading=heading)


def _parse_markdown_link(match: re.Match[str], names: CachedNoteLookup) -> Citation | None:
    """Parse a link to a note, a Markdown file or an address; None for other links."""
    target = match["target"].strip("<>")
    note, lines = parse_citation(unquote(target))
    if re.match(r"[a-z][a-z0-9+.-]*:", note, re.I):
        return _parse_address(match.start(), target, match.end())
    path, _, heading = note.partition("#")
    if not path or not (_MARKDOWN_FILE.search(path) or names.has_path(path)):
        return None
    cited_lines = lines and lines[:2]
    return Citation(match.start(), match.end(), unquote(target), path, heading, cited_lines)


def _parse_plain_citation(
    text: str, end: int, done: int, names: CachedNoteLookup
) -> Citation | None:
    """Parse the citation whose file suffix ends at `end`. Return None if there is none."""
    low = max(done, end - _PATH_CHARACTERS, text.rfind("\n", 0, end) + 1)
    before = text[low:end]
    starts = [word.start() for word in _WORD_STARTS.finditer(before)][-_PATH_WORDS:]
    if not starts:
        return None
    # the longest path of a note, else the text after an opening mark, else the last word
    enclosed = max(map(before.rfind, '`("“[<')) + 1
    known = (start for start in starts if names.has_path(before[start:]))
    begin = low + next(known, enclosed if enclosed in starts else starts[-1])
    path = text[begin:end]
    match = _HEADING.match(text, end, end + _HEADING_CHARACTERS)
    if match is None:
        return Citation(begin, end, path, path)
    is_open = match[1] is None
    heading = match[0][1:].strip()
    end = end + 1 if is_open else match.end()
    written = text[begin : match.end()].rstrip() if is_open else text[begin:end]
    return Citation(begin, end, written, path, heading, has_open_heading=is_open)


def _with_lines(text: str, citation: Citation) -> Citation:
    """Add the line numbers that follow a citation in the text."""
    match = _LINES.match(text, citation.end)
    if match is None or (citation.lines and match[3]):
        return citation
    first = int(match[1] or match[3])
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


# --------------------------------------------------------------- quotations in a text


@dataclass(frozen=True, slots=True)
class Quotation:
    """A quotation in a text, and its possible citations, most likely first."""

    text: str
    cited: tuple[Citation, ...]


class _QuoteSpan(NamedTuple):
    """The offsets of a quotation, with and without its marks.

    Code and emphasis are weak: quotations only beside a citation that has no other.
    """

    first: int
    last: int
    begin: int
    end: int
    is_block: bool = False
    is_weak: bool = False


_BLOCK_START = r"[ \t]*+(?:\n|[>|#]|[-*+][ \t]|\d{1,3}[.)][ \t]|```|~~~)"
_BREAK = re.compile(rf"\n(?={_BLOCK_START})")
"""The end of a paragraph, list item or block quote."""


def _quoted(first: str, last: str, inside: str = "") -> str:
    """Return a pattern for a text between marks in one paragraph."""
    marks = re.escape(first + last)
    return rf"[{first}]((?:[^\n{marks}]|\n(?!{_BLOCK_START}){inside}){{1,5000}}+)[{last}]"


_MARKS = '"“”„«»「」『』'
"""Marks that emphasis around a quotation contains: the quotation is what they enclose."""

_QUOTED = re.compile(
    "|".join(
        (
            r"^[ \t]*+(?P<fence>```|~~~)(?:(?!\n[ \t]*+(?P=fence))[^\0])*+\n?[ \t`~]*+",
            r"(?P<block>(?:^[ \t]*+>[^\n]*+(?:\n|\Z))++)",
            r"`(?P<code>[^`\n]++)`",
            rf"(?<![\w*])\*{{1,3}}(?![\s*])(?P<stars>[^*\n{_MARKS}]++)\*{{1,3}}(?![\w*])",
            rf"(?<!\w)__?(?![\s_])(?P<underscores>(?:[^_\n{_MARKS}]|\b_\b)++)__?(?!\w)",
            *(
                _quoted(a, b, rf"|(?<!\w){a}[^{a}{b}\n]*+{b}")
                for a, b in ("“”", "«»", "「」", "『』")
            ),
            _quoted("„", '“”"'),
            _quoted("»", "«"),
            r"(?<![^\W_])" + _quoted('"', '"') + r"(?![^\W_])",
            # an apostrophe is inside a word, or as in `the users' notes`
            r"(?<![^\W_])(?=\S\S)"
            + _quoted("'‘", "'’", r"|(?<=\w)['’](?=\w)|(?<=[sxz\d])['’](?= \w)")
            + r"(?<!\s.)(?!\w)",
        )
    ),
    re.M,
)
"""A fence, a block quote, or in the last group a text in quotation marks, code or emphasis."""

_ADJACENT = re.compile(r"[\s()\[\]<>*_:;,.|`'\"“”‘’（）–—-]{0,12}")
_LINK_TEXT = re.compile(r"\[[^\[\]\n]{0,200}\Z")
_QUOTE_LINE = re.compile(r"^[ \t]*+>[ \t]?(?:\[![\w-]+\][+-]?[ \t]?)?")
_BEFORE_SOURCE = tuple("([—–-（")

_MAX_BETWEEN = 400
"""Maximum characters between a quotation and its citation."""


def _quote_spans(text: str) -> Iterator[_QuoteSpan]:
    """Yield the quotations of a text, in order."""
    for match in _QUOTED.finditer(text):
        if match["block"]:
            yield _QuoteSpan(*match.span(), *match.span(), is_block=True)
        elif match.lastindex and not match["fence"]:
            inner = match.span(match.lastindex)
            is_weak = match.lastgroup is not None
            if not is_weak or _is_phrase(match[match.lastindex], text[match.end() :][:1]):
                yield _QuoteSpan(*match.span(), *inner, is_weak=is_weak)


def _is_phrase(text: str, following: str) -> bool:
    """Return whether code or emphasis may quote: neither a name nor a label before a colon."""
    return " " in text.strip() and not text.endswith(":") and following != ":"


def drop_quoted_links(
    text: str, spans: Sequence[_QuoteSpan], citations: Sequence[Citation]
) -> list[Citation]:
    """Drop citations of whole notes inside quotations: they belong to the quoted text.

    A citation alone in quotation marks, or alone on a line of a block quote, is kept.
    """
    spans = [span for span in spans if not span.is_weak]
    starts, remaining = [span.first for span in spans], list[Citation]()
    for citation in citations:
        at = bisect_right(starts, citation.start) - 1
        if citation.is_whole_note and at >= 0 and citation.end <= spans[at].last:
            start, end = spans[at].begin, spans[at].end
            if spans[at].is_block:
                start = text.rfind("\n", 0, citation.start) + 1
                end = (text + "\n").find("\n", citation.end)
            around = text[start : citation.start], text[citation.end : end]
            if not all(map(_ADJACENT.fullmatch, around)):
                continue
        remaining.append(citation)
    return remaining


def find_quotations(
    text: str, spans: Sequence[_QuoteSpan], citations: Sequence[Citation]
) -> list[Quotation]:
    """Return the quotations in a text, each with the citations inside and beside the quotation."""
    quotations, weak = list[Quotation](), list[Quotation]()
    starts, taken = [citation.start for citation in citations], set[Citation]()
    for span in spans:
        at, end = bisect_left(starts, span.first), bisect_left(starts, span.last)
        before, inside, after = (
            citations[max(0, at - 1) : at],
            citations[at:end],
            citations[end:][:1],
        )
        quoted = text[span.begin : span.end]
        if span.is_block:
            quoted = _block_text(text, span, inside)
        elif before and before[0].end > span.first:
            continue
        elif inside:  # “the quotation (a.md:3)”
            quoted = text[span.begin : inside[0].start].rstrip()
            is_last = _ADJACENT.fullmatch(text[inside[-1].end : span.end])
            if not is_last or not quoted.endswith(_BEFORE_SOURCE):
                continue
        between_before = [
            text[c.end : span.first] for c in before if span.first - c.end <= _MAX_BETWEEN
        ]
        between_after = [
            _LINK_TEXT.sub("[", text[span.last : c.start])
            for c in after
            if c.start - span.last <= _MAX_BETWEEN
        ]
        before = before if any(map(_is_near, between_before)) else []
        after = after if any(map(_is_near, between_after)) else []
        is_beside = any(map(_ADJACENT.fullmatch, (*between_before, *between_after)))
        if span.is_weak and (inside or not is_beside):
            continue
        is_certain = not span.is_weak and (is_beside or inside or span.is_block)
        if sum(map(len, quotation_parts(quoted))) < (1 if is_certain else _MIN_WORDS):
            continue
        # in brackets, after a dash or directly after a block quote, the following citation ranks
        # above the preceding one
        is_source = any(
            _ADJACENT.fullmatch(between)
            and (span.is_block or between.rstrip(" *_`").endswith(_BEFORE_SOURCE))
            for between in between_after
        )
        is_after = is_source or not taken.isdisjoint(before)
        cited = (*inside, *((*after, *before) if is_after else (*before, *after)))
        taken.update(citation for citation in cited[:1] if citation.start >= span.last)
        (weak if span.is_weak else quotations).append(Quotation(quoted, cited))
    quoted_of = {quotation.cited[:1] for quotation in quotations}
    return quotations + [quotation for quotation in weak if quotation.cited[:1] not in quoted_of]


def _is_near(between: str) -> bool:
    """Return whether a quotation and a citation with this text between them belong together."""
    return not _BREAK.search(between) or bool(_ADJACENT.fullmatch(between))


def _block_text(text: str, span: _QuoteSpan, citations: Sequence[Citation]) -> str:
    """Return the text of a block quote without its citations."""
    text_before, at, end = "", span.first, span.last
    for citation in citations:
        text_before, at = text_before + text[at : citation.start].rstrip(" ([—–-"), citation.end
        at += len(text[at:end]) - len(text[at:end].lstrip(")]"))
    lines = (text_before + text[at:end]).splitlines()
    quoted = "\n".join(_QUOTE_LINE.sub("", line) for line in lines).strip()
    return quoted[1:-1] if len(quoted) > 2 and quoted[0] in '"“' and quoted[-1] in '"”' else quoted


# ------------------------------------------------------------------ checks against the notes


class _CurrentNote:
    def __init__(self, note: FoundNote, text: str) -> None:
        self.note, self.document, self.text = note, note.document, text
        self.places = NotePlaces(self.document.path, text, note.in_vault)
        self.total = self.places.total

    @cached_property
    def words(self) -> NoteWords:
        return tokenize_note(omit_payloads(self.text, lambda _: ""))

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
        headings = (heading for _, heading, _ in self.places.headings)
        names = {name_key(name) for name in (self.document.title, *headings)}
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
                for level, name, line in reversed(self.places.headings)
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
        return filter(None, map(self._read, self._names.find(cited.path)))

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
        if note and (spans := find_quotation(parts, note.words)):
            lines = [note.words.span_lines(span) for span in spans]
            return self._check_found_quotation(cited, note, lines)
        for other in self._other_notes(cited, parts):
            if spans := find_quotation(parts, other.words):
                return other.check_at("moved", other.words.span_lines(spans[0]), "to another note")
        nearest = nearest_match(parts, note.words) if note else None
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
        spans = list(_quote_spans(text))
        cited = drop_quoted_links(text, spans, find_citations(text, names))
        all_cited += [(number, citation) for citation in cited]
        quotations = find_quotations(text, spans, cited)
        jobs += [(number, quoted.cited, quoted.text) for quoted in quotations if quoted.cited]
        uncited += sum(not quotation.cited for quotation in quotations)
    digests = frozenset(citation.digest for _, citation in all_cited if citation.digest)
    checker, checks = _Checker(readers, names, digests), list[tuple[int, int, CitationCheck]]()
    quoted = set[tuple[int, Citation]]()

    def run(jobs: Sequence[tuple[int, tuple[Citation, ...], str]]) -> None:
        with suppress(_ReadBudgetError):
            for number, candidates, quotation in jobs[: _MAX_CITATIONS - len(checks)]:
                citation, check = checker.check(candidates, quotation)
                checks.append((number, citation.start, check))
                quoted.add((number, citation))

    run(jobs)
    quoted.update((number, candidates[0]) for number, candidates, _ in jobs[len(checks) :])
    unquoted = [
        (number, (cited,), "") for number, cited in all_cited if (number, cited) not in quoted
    ]
    run(unquoted)
    left_out = len(jobs) + len(unquoted) - len(checks)
    checks.sort(key=lambda item: item[:2])
    return Verification(tuple(check for *_, check in checks), left_out, uncited)
