"""Verify citations: find them in a text with their quotations, and check them against the notes."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from typing import NamedTuple
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
from thumbindex.corpus.parse import parse_headings
from thumbindex.errors import UnknownPathError, UsageError
from thumbindex.library.note_lookup import (
    MOST_NAMESAKES,
    FoundNote,
    NoteLookup,
    heading_ranges,
    read_sections,
)
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

_MOST_CITATIONS = 200
"""Maximum citations of one call: an answer has some dozens."""

_READ_BUDGET = 5_000_000
"""Maximum characters of notes that one call reads: a few seconds."""

_SEARCH_COST = 30_000
"""Characters that one keyword search costs of the budget."""

_MOST_TRIED = 8
"""Maximum citations that are tried for one quotation."""

_MOST_SEARCHED = 20
"""Maximum notes that are read per search for a moved quotation."""

_PHRASE_WORDS = 6
"""Words of a phrase search for a moved quotation: a whole one may span several chunks."""

_LEAST_WORDS = 3
"""Minimum words of a quotation that has no citation right beside it."""

_LEAST_SIMILARITY, _HIGH_SIMILARITY = 0.6, 0.8
"""Share of a quotation's words from which on similar text is the changed quotation: at all, and
before the same words in another note.
"""

_PATH_CHARACTERS, _PATH_WORDS, _HEADING_CHARACTERS = 260, 20, 300
"""Limits of a path before a file suffix, and of a heading after it."""

_HEADING_WORDS = 20
"""Maximum words of a heading after a path."""

_TEXT_SHOWN = 300
"""Maximum characters of the text that replaced a quotation."""


# --------------------------------------------------------------- citations and quotations in a text


@dataclass(frozen=True, slots=True)
class Citation:
    """A citation in a text: its offsets there, and the note, heading, lines or digest it names."""

    start: int
    end: int
    written: str
    path: str  # or a name; empty for none
    folder: str = ""
    heading: str = ""
    lines: tuple[int, int] | None = None
    digest: str = ""
    has_open_heading: bool = False  # the heading may go on with words of the text

    @property
    def is_whole_note(self) -> bool:
        """Return whether it names no passage: inside a quotation it belongs to the quoted text."""
        return not self.lines and not self.digest


@dataclass(frozen=True, slots=True)
class Quotation:
    """A quotation in a text, and its possible citations, likeliest first."""

    text: str
    cited: tuple[Citation, ...]


_LINES = re.compile(
    r",?[ \u00a0]?\(?lines? ([1-9]\d{0,8})(?:[-–]([1-9]\d{0,8}))?\)?"
    r"|:([1-9]\d{0,8})(?:-([1-9]\d{0,8}))?(?![\w:])"
)
_ANCHOR = re.compile(
    r"(?P<address>(?:thumbindex|obsidian|vscode|file)://[^\s<>\"'`()\[\]|]+)"
    r"|\[\[(?P<wiki>[^\[\]\n]{1,300})\]\]"
    r"|\]\((?P<target><[^<>\n]{1,500}>|[^\s()<>]{1,500})[^\S\n]?\)"
    r"|(?P<file>\.(?:md|markdown|mdx)\b)"
    r"|(?P<lines>[ \u00a0]\(lines? [1-9])"
)
_TERMINATORS = '`"“”„«»()[]<>*|\n'
"""Characters that end a path in a text, or a heading without lines."""

_PATH_START = re.compile(r"\w|\.?\.?/|\.\w")
"""The start of a path in a text. Names are compared without punctuation."""

_OTHER_FILE = re.compile(r"\.(?!md\Z|markdown\Z|mdx\Z)[a-z][a-z0-9]{1,4}\Z", re.I)
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})", re.M)
_WORD_STARTS = re.compile(r"(?<=[\s`\"“”„«»()\[\]<>*|:,;—])(?=[^\s`\"“”„«»()\[\]<>*|:,;—])")
_BLOCK_START = re.compile(r"[ \t]*(?:[-*+][ \t]|\d{1,3}[.)][ \t]|#{1,6}[ \t]|\||$)")
_QUOTE_LINE = re.compile(r"[ \t]*>[ \t]?(?:\[![\w-]+\][+-]?[ \t]?)?")
_IN_QUOTES = re.compile(
    r"“([^“”]{1,5000})”|„([^„“”]{1,5000})[“”]|«([^«»]{1,5000})»"
    r"|(?<![^\W_])\"([^\"]{1,5000})\"(?![^\W_])"
)
_ADJACENT = re.compile(r"[\s()\[\]<>*_:;,.`—–-]{0,12}")


class CachedNoteLookup:
    """Looks up the notes that citations name; each name once."""

    def __init__(self, readers: Sequence[Reader], is_local: bool = True) -> None:
        self._found = dict[tuple[str, str], list[FoundNote]]()
        self.folders = {reader.folder.name: NoteLookup([reader], is_local) for reader in readers}
        self.notes = NoteLookup(readers, is_local)

    def find(self, name: str, folder: str = "") -> Sequence[FoundNote]:
        """Return the first notes with a name, best match first; an exact path matches one."""
        if (name, folder) not in self._found:
            notes = self.folders.get(folder) if folder else self.notes
            called = notes.notes_named(name) if notes else iter(())
            best = next(called, [])
            is_exact = any(each.document.path == name for each in best)
            found = best if is_exact else chain(best, *called)
            by_place = {(each.document.folder, each.document.path): each for each in found}
            self._found[name, folder] = list(by_place.values())[:MOST_NAMESAKES]
        return self._found[name, folder]

    def has_name(self, name: str, is_path: bool = False) -> bool:
        """Return whether a note has this name, or this path."""
        kinds = {each.kind for each in self.find(name)}
        return bool(kinds & {NameKind.PATH, NameKind.FILE} if is_path else kinds)


def find_citations(text: str, names: CachedNoteLookup) -> list[Citation]:
    """Return the citations in a text, in order: citations of answers, addresses, and links."""
    found, end = list[Citation](), 0
    fences = [match.start() for match in _FENCE.finditer(text)]
    for match in _ANCHOR.finditer(text):
        if match.start() < end:
            continue
        kind = str(match.lastgroup)
        if kind == "address":
            cited = _parse_address(match.start("address"), match["address"].rstrip(".,;:!?*"))
        elif kind == "wiki":
            cited = _parse_wikilink(match, fences, names)
        elif kind == "target":
            # its text is a citation already
            is_same = found and match.start() - found[-1].end <= 1 and end == found[-1].end
            cited = None if is_same else _parse_markdown_link(match, names)
        else:
            cited = _parse_plain_citation(text, match, end, names, is_file=kind == "file")
        if cited:
            cited = _with_lines(text, cited)
            found.append(cited)
            end = cited.end
    return found


def _parse_wikilink(
    match: re.Match[str], fences: Sequence[int], names: CachedNoteLookup
) -> Citation | None:
    """Read a wikilink; None for one that leads to no note and is shown as notes about links do: in
    code, as an embed, to a file of another kind.
    """
    text, at = match.string, match.start()
    path, _, heading = match["wiki"].partition("|")[0].rstrip("\\").partition("#")
    path = path.strip()
    is_code = (
        bisect_left(fences, at) % 2 == 1
        or text.count("`", text.rfind("\n", 0, at) + 1, at) % 2 == 1
    )
    is_shown = is_code or text.startswith("!", max(0, at - 1)) or _OTHER_FILE.search(path)
    if not path or (is_shown and not names.has_name(path)):
        return None
    return Citation(
        at,
        match.end(),
        match[0],
        path,
        heading="" if heading.startswith("^") else heading.rpartition("#")[2],
    )


def _parse_markdown_link(match: re.Match[str], names: CachedNoteLookup) -> Citation | None:
    """Parse a Markdown link; None if it leads to no note."""
    target = match["target"].strip("<>")
    if re.match(r"[a-z][a-z0-9+.-]*:", target, re.I):
        return _parse_address(match.start("target"), target, match.end())
    path, _, heading = (unquote(each) for each in target.partition("#"))
    if not path or (
        not names.has_name(path, is_path=True)
        and not re.search(r"\.(?:md|markdown|mdx)\Z", path, re.I)
    ):
        return None
    return Citation(
        match.start(), match.end(), path + (f"#{heading}" if heading else ""), path, heading=heading
    )


def _parse_address(start: int, link: str, end: int | None = None) -> Citation | None:
    """Parse a `thumbindex:` address, or a link that opens a note in an editor."""
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
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path, _, heading = (asked.get("path") or asked.get("file", "")).partition("#")
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
    """Parse the longest known path before a file suffix, or name (`name#heading`) before lines."""
    end = match.end() if is_file else match.start()
    low = max(done, end - _PATH_CHARACTERS, text.rfind("\n", 0, end) + 1)
    before = text[low:end]
    starts = [0, *(each.start() for each in _WORD_STARTS.finditer(before))][-_PATH_WORDS:]
    starts = [each for each in starts if _PATH_START.match(before, each)]
    forms = [
        (start, path, heading)
        for start in starts
        for path, heading in ((before[start:], ""), before[start:].partition("#")[::2])
    ]
    known = (
        each for is_path in (True, False) for each in forms if names.has_name(each[1], is_path)
    )
    if form := next(known, None):
        start, path, heading = form
    elif forms and (is_file or forms[-1][2]):
        enclosed = max(before.rfind(each) for each in '`("“[<') + 1
        start, path, heading = next(
            (each for each in forms[1::2] if each[0] == enclosed > 0), forms[-1]
        )
    else:
        return None
    begin = low + start
    folders = (each for each in names.folders if text.endswith(f"{each}: ", 0, begin))
    loose = False
    if is_file and text[end : end + 1] == "#":
        tail = text[end + 1 : end + 1 + _HEADING_CHARACTERS].partition("\n")[0]
        with_lines = re.match(r"(.*?),?[ \u00a0]\(?lines? [1-9]", tail)
        heading = with_lines[1] if with_lines else re.split(f"[{re.escape(_TERMINATORS)}]", tail)[0]
        loose = with_lines is None
        end += 1 + len(heading) * (not loose)
    written = text[begin:end] + (heading if loose else "")
    folder = next(folders, "")
    return Citation(begin, end, written, path, folder, heading.strip(), has_open_heading=loose)


def _with_lines(text: str, cited: Citation) -> Citation:
    """Return a citation with the lines that follow it in the text."""
    match = _LINES.match(text, cited.end)
    if match is None or (cited.lines and match[3]):
        return cited
    first, last = int(match[1] or match[3]), int(match[2] or match[4] or match[1] or match[3])
    if last < first:
        return cited
    opened = match[0].count("(") >= match[0].count(")")
    end = match.end() if opened else match.end() - 1
    return replace(
        cited,
        end=end,
        written=cited.written + text[cited.end : end],
        lines=(first, last),
        has_open_heading=False,
    )


class _QuoteSpan(NamedTuple):
    """The offsets of a quotation, and the range that may hold its citation."""

    first: int
    last: int
    is_block: bool
    low: int
    high: int


def _quote_spans(text: str) -> Iterator[_QuoteSpan]:
    """Yield quoted texts and block quotes, in order."""
    units = list(_text_blocks(text))
    for n, (start, end, is_block) in enumerate(units):
        if is_block:
            around = units[max(0, n - 1)][0], units[min(n + 1, len(units) - 1)][1]
            yield _QuoteSpan(start, end, True, *around)
        else:
            for match in _IN_QUOTES.finditer(text, start, end):
                yield _QuoteSpan(*match.span(), False, start, end)


def drop_quoted_links(text: str, cited: Sequence[Citation]) -> list[Citation]:
    """Drop links inside quotations; a link alone on a line of a block quote is its source."""
    quotes = list(_quote_spans(text))
    starts, kept = [quote.first for quote in quotes], list[Citation]()
    for each in cited:
        at = bisect_right(starts, each.start) - 1
        if each.is_whole_note and at >= 0 and each.end <= quotes[at].last:
            before, behind = text.rfind("\n", 0, each.start) + 1, text.find("\n", each.end)
            line = text[before : each.start], text[each.end : behind if behind >= 0 else len(text)]
            if not quotes[at].is_block or not all(map(_ADJACENT.fullmatch, line)):
                continue
        kept.append(each)
    return kept


def find_quotations(text: str, cited: Sequence[Citation]) -> list[Quotation]:
    """Return the quotations in a text, with the citations inside, before and after them.

    A source in brackets or after a dash ranks above a citation before the quotation.
    """
    found, starts = list[Quotation](), [each.start for each in cited]
    for first, last, is_block, low, high in _quote_spans(text):
        at, after = bisect_left(starts, first), bisect_left(starts, last)
        inside, ahead, behind = cited[at:after], cited[max(0, at - 1) : at], cited[after:][:1]
        if not is_block and (inside or (ahead and ahead[0].end > first)):
            continue
        is_led = bool(ahead and _ADJACENT.fullmatch(text[ahead[0].end : first]))
        between = text[last : behind[0].start] if behind else text[last:]
        is_beside = bool(behind and _ADJACENT.fullmatch(between))
        behind = [each for each in behind if each.start < high]
        ahead = [each for each in ahead if each.start >= low or (is_led and not behind)]
        quoted = _block_text(text, first, last, inside) if is_block else text[first + 1 : last - 1]
        is_source = is_beside and (
            is_block or between.rstrip(" *_`").endswith(("(", "[", "—", "–", "-"))
        )
        count = sum(map(len, quotation_parts(quoted)))
        if is_block or (count and (is_led or is_beside or count >= _LEAST_WORDS)):
            near = (*behind, *ahead) if is_source else (*ahead, *behind)
            found.append(Quotation(quoted, (*inside, *near)))
    return found


def _text_blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the offsets of paragraphs, list items and block quotes; True for a block quote."""
    start, at, kind = 0, 0, False
    for line in text.splitlines(keepends=True):
        is_block = line.lstrip(" \t").startswith(">")
        if at > start and (
            is_block != kind or (not is_block and _BLOCK_START.match(line.rstrip("\n")))
        ):
            if text[start:at].strip():
                yield start, at, kind
            start = at
        kind, at = is_block, at + len(line)
    if text[start:at].strip():
        yield start, at, kind


def _block_text(text: str, start: int, end: int, own: Sequence[Citation]) -> str:
    """Return the text of a block quote without its citations."""
    kept, at = "", start
    for each in own:
        kept, at = kept + text[at : each.start].rstrip(" ([—–-"), each.end
        at += len(text[at:end]) - len(text[at:end].lstrip(")]"))
    lines = [
        line[mark.end() :] if (mark := _QUOTE_LINE.match(line)) else line
        for line in (kept + text[at:end]).splitlines()
    ]
    quoted = "\n".join(lines).strip()
    return quoted[1:-1] if len(quoted) > 2 and quoted[0] in '"“' and quoted[-1] in '"”' else quoted


# ------------------------------------------------------------------ what became of each


class _CurrentNote:
    """The current text of one note."""

    def __init__(self, note: FoundNote, text: str) -> None:
        self.note, self.document, self.text = note, note.document, text
        self.place = note.document.folder, note.document.path
        self.total = text.count("\n") + (not text.endswith("\n"))

    @cached_property
    def words(self) -> NoteWords:
        return tokenize_note(self.text)

    @cached_property
    def headings(self) -> tuple[tuple[int, str, int], ...]:
        return parse_headings(self.document.path, self.text)

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        return read_sections(self.note)

    def section(self, line: int) -> Section | None:
        """Return the section with a line."""
        return next((s for s in self.sections if s.start_line <= line <= s.end_line), None)

    def under(self, cited: Citation) -> tuple[int, int] | None:
        """Return the lines under the cited heading; of several, the nearest to the cited lines."""
        first = cited.lines[0] if cited.lines else 0
        found = heading_ranges(cited.heading, self.headings, self.total)
        title = name_key(self.document.title)
        if not found and title and title == name_key(cited.heading):
            return (1, self.total)
        return min(
            found, key=lambda lines: max(lines[0] - first, first - lines[1], 0), default=None
        )

    def with_heading(self, cited: Citation) -> Citation:
        """Cut off the text after a heading: keep the longest known heading, else one word."""
        words = cited.heading.split()[:_HEADING_WORDS]
        known = {name_key(name) for name in (self.document.title, *(h[1] for h in self.headings))}
        counts = [n for n in range(len(words), 0, -1) if name_key(" ".join(words[:n])) in known]
        heading = " ".join(words[: counts[0] if counts else 1]).rstrip(".,;:!?")
        return replace(
            cited,
            heading=heading,
            written=f"{cited.written.partition('#')[0]}#{heading}",
            has_open_heading=False,
        )

    def found(
        self, state: CitationState, lines: tuple[int, int], reason: str = ""
    ) -> CitationCheck:
        """Return a check for some lines: their citation and, if it is new, their address."""
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
        if state != "there":
            within = self.section(lines[0])
            digest = text_digest(within.text) if within else ""
            address = format_address(document.folder, document.path, heading, digest)
        cited = f"{document.path}#{heading}" if heading else document.path
        now = one_line(f"{cited} ({line_range(*lines)})")
        place = document.folder, document.path, *lines
        return CitationCheck("", "", state, reason, now, address, *place)

    def changed(self, parts: Sequence[Sequence[str]], span: WordSpan) -> CitationCheck:
        """Return a check of changed text: the words that differ from the quotation."""
        lines = self.words.span_lines(span)
        text = "\n".join(self.text.split("\n")[lines[0] - 1 : lines[1]])
        text = text if len(text) <= _TEXT_SHOWN else f"{text[:_TEXT_SHOWN]}…"
        differs = word_differences(parts, self.words, span)
        return replace(self.found("changed", lines), text=text, differs=differs)


class _ReadBudgetError(Exception):
    """The read budget of this call is spent."""


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
        """The passages with the cited digests in all notes; the indexes are scanned once."""
        return dict(self._names.notes.passages_with_digests(self._digests))

    def check(self, some: Sequence[Citation], quotation: str) -> CitationCheck:
        """Check a quotation, or a citation without one.

        The first citation whose note has the words counts, else the first one.
        """
        parts = quotation_parts(quotation)
        cited, note = some[0], next(self._notes_of(some[0]), None)
        if parts:
            named = ((each, note) for each in some[:_MOST_TRIED] for note in self._notes_of(each))
            holding = (each for each in named if find_quotation(parts, each[1].words))
            cited, note = next(holding, (cited, note))
        cited = note.with_heading(cited) if note and cited.has_open_heading else cited
        found = (
            self._check_quotation(cited, note, parts)
            if parts
            else self._check_unquoted(cited, note)
        )
        return replace(found, citation=cited.written, quotation=quotation)

    def _notes_of(self, cited: Citation) -> Iterator[_CurrentNote]:
        return filter(None, map(self._note, self._names.find(cited.path, cited.folder)))

    def _note(self, found: FoundNote) -> _CurrentNote | None:
        place = found.document.folder, found.document.path
        if place not in self._notes:
            try:
                text = current_text(found.reader, found.document.path)
            except UnknownPathError:
                self._notes[place] = None
                return None
            self._spend(len(text) if self._notes else 0)
            self._notes[place] = _CurrentNote(found, text)
        return self._notes[place]

    def _spend(self, characters: int) -> None:
        self._budget -= characters
        if self._budget < 0:
            raise _ReadBudgetError

    # -------------------------------------------------------------- without a quotation

    def _check_unquoted(self, cited: Citation, note: _CurrentNote | None) -> CitationCheck:
        if cited.digest and (moved := self._by_digest(cited, note)):
            return moved
        if note is None:
            return _not_found(cited, "no note has this path")
        lines = note.under(cited) if cited.heading else None
        if cited.digest:
            reason = "its text is not what it was when it was cited"
            return note.found("changed", lines or (1, note.total), reason)
        if cited.heading and lines is None:
            return _not_found(cited, "the note has no such heading")
        if cited.lines and cited.lines[1] > note.total:
            reason = f"the note has {note.total} lines"
            if cited.lines[0] > note.total:
                return _not_found(cited, reason)
            return note.found("changed", (cited.lines[0], note.total), reason)
        if lines and cited.lines and not _overlap(lines, cited.lines):
            return note.found("moved", lines, "its heading stands on other lines")
        return note.found("there", cited.lines or lines or (1, max(1, note.total)))

    def _by_digest(self, cited: Citation, note: _CurrentNote | None) -> CitationCheck | None:
        """Find a passage by its digest: in the cited note, else in another one."""
        for each in note.sections if note else ():
            if note and text_digest(each.text) == cited.digest:
                lines = each.start_line, each.end_line
                if cited.lines and not _overlap(lines, cited.lines):
                    return note.found("moved", lines, "to other lines")
                return note.found("there", lines)
        moved = self._by_digests.get(cited.digest)
        there = self._note(moved) if moved else None
        if moved and moved.lines and there:
            return there.found("moved", moved.lines, "to another note")
        return None

    # -------------------------------------------------------------- with one

    def _check_quotation(
        self, cited: Citation, note: _CurrentNote | None, parts: Sequence[Sequence[str]]
    ) -> CitationCheck:
        near = None
        if note:
            if spans := find_quotation(parts, note.words):
                return self._in_note(cited, note, [note.words.span_lines(span) for span in spans])
            near = nearest_match(parts, note.words)
            if near and near[1] >= _HIGH_SIMILARITY:
                return note.changed(parts, near[0])
        for other in self._elsewhere(cited, parts):
            if spans := find_quotation(parts, other.words):
                return other.found("moved", other.words.span_lines(spans[0]), "to another note")
        if note and near and near[1] >= _LEAST_SIMILARITY:
            return note.changed(parts, near[0])
        return _not_found(
            cited,
            "the note says nothing like it" if note else "no note has this path, and none says it",
        )

    def _in_note(
        self, cited: Citation, note: _CurrentNote, lines: Sequence[tuple[int, int]]
    ) -> CitationCheck:
        """Check the place of a quotation in its note: as cited, other lines, or another heading.

        A passage of several short parts is cited with its lines and the heading of one of them.
        """
        under = self._meant_by_heading(cited, note) if cited.heading else [(1, note.total)]
        at_heading = [line for line in lines if any(_overlap(line, some) for some in under)]
        at_lines, there = lines, at_heading
        if meant := cited.lines:
            # of one line alone, as `query` prints it, the passage that it is part of
            if meant[0] == meant[1] and not cited.heading and (own := note.section(meant[0])):
                meant = own.start_line, own.end_line
            at_lines = [line for line in lines if _overlap(line, meant)]
            there = at_lines if any(_overlap(meant, some) for some in under) else []
        if there:
            return note.found("there", there[0])
        best = (at_heading or at_lines or lines)[0]
        return note.found("moved", best, "to other lines" if at_heading else "to another heading")

    def _meant_by_heading(self, cited: Citation, note: _CurrentNote) -> list[tuple[int, int]]:
        """Return the lines under a heading, and of an address those of its section."""
        own = note.under(cited)
        part = note.section(own[0]) if own and cited.digest and not cited.lines else None
        parts = [(part.start_line, part.end_line)] if part else []
        return [own, *parts] if own else []

    def _elsewhere(self, cited: Citation, parts: Sequence[Sequence[str]]) -> Iterator[_CurrentNote]:
        """Yield notes that may contain a quotation: by its digest, then by phrase search."""
        moved = self._by_digests.get(cited.digest) if cited.digest else None
        if moved and (there := self._note(moved)):
            yield there
        words = max(parts, key=len)
        if len(words) < _LEAST_WORDS:
            return
        end = max(0, len(words) - _PHRASE_WORDS)
        phrases = [
            " ".join(words[at : at + _PHRASE_WORDS]) for at in dict.fromkeys((0, end // 2, end))
        ]
        found = chain.from_iterable(map(self._holding, phrases))
        yield from filter(None, map(self._note, found))

    def _holding(self, phrase: str) -> Iterator[FoundNote]:
        """Yield the first visible notes that contain a phrase."""
        for reader in self._readers:
            if reader.indexed:
                self._spend(_SEARCH_COST)
                snapshot = reader.folder_snapshot().snapshot
                held = snapshot.keyword.chunks_with_phrase(phrase)
                ids = dict.fromkeys(map(snapshot.catalog.document_of, held.first(len(held))))
                documents = {snapshot.catalog.documents[n].path: n for n in ids}
                for each in islice(
                    filter_visible((snapshot.catalog.documents[n] for n in ids), [reader]),
                    _MOST_SEARCHED,
                ):
                    yield FoundNote(reader, snapshot, documents[each.path], each)


def _overlap(first: tuple[int, int], second: tuple[int, int]) -> bool:
    return first[0] <= second[1] and second[0] <= first[1]


def _not_found(cited: Citation, why: str) -> CitationCheck:
    """Return a check that found nothing; a digest proves that the text once existed."""
    return CitationCheck("", "", "gone" if cited.digest else "never_there", why)


def verify_citations(
    texts: Sequence[str], readers: Sequence[Reader], is_local: bool = True
) -> Verification:
    """Check the citations in some texts against the current notes.

    Local file paths are resolved only for callers on this machine (`is_local`). Raises UsageError
    for texts longer than an answer.
    """
    if (size := sum(map(len, texts))) > MAX_DRAFT_CHARS:
        raise UsageError(
            f"The text has {size:,} characters, more than {MAX_DRAFT_CHARS:,}: verify a part of "
            "it at a time."
        )
    names = CachedNoteLookup(readers, is_local)
    wanted, uncited = list[tuple[int, tuple[Citation, ...], str]](), 0
    for number, text in enumerate(texts):
        cited = drop_quoted_links(text, find_citations(text, names))
        quoted = find_quotations(text, cited)
        with_quotation = {each.cited[0] for each in quoted if each.cited}
        wanted += [(number, (each,), "") for each in cited if each not in with_quotation]
        wanted += [(number, each.cited, each.text) for each in quoted if each.cited]
        uncited += sum(not each.cited for each in quoted)
    wanted.sort(key=lambda each: (each[0], each[1][0].start))
    digests = frozenset(one.digest for _, some, _ in wanted for one in some if one.digest)
    checking, checks = _Checker(readers, names, digests), list[CitationCheck]()
    for _, some, quotation in wanted[:_MOST_CITATIONS]:
        try:
            checks.append(checking.check(some, quotation))
        except _ReadBudgetError:
            break
    return Verification(tuple(checks), len(wanted) - len(checks), uncited)
