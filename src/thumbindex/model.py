"""The data model: documents, queries, answers and reports, as frozen records.

Indexing parses a file into a `ParsedDocument`: its sections, chunks and links. A query ranks chunks
(`Hit`, `Candidate`) and returns their sections (`Passage`) in an `Answer`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import Literal, NamedTuple, NewType, TypedDict, Unpack, cast

from thumbindex.dates import day_period
from thumbindex.errors import UsageError
from thumbindex.settings import MAX_PHRASING_CHARS, MAX_QUERY_CHARS, MAX_REWORDINGS
from thumbindex.text import (
    Lines,
    fold_line,
    format_address,
    line_range,
    one_line,
    replace_surrogates,
    text_digest,
)

DocumentId = NewType("DocumentId", int)
"""The position of a document in one snapshot, in the order of folders and paths.

An id is not valid in another snapshot.
"""

ChunkId = NewType("ChunkId", int)
"""The position of a chunk in one snapshot, in the order of documents and lines.

Ties in rankings are sorted by this id.
"""


class BlockKind(StrEnum):
    """The block type of a chunk. Chunks of different types are never duplicates."""

    HEADING = "heading"
    PROSE = "prose"
    CODE = "code"
    TABLE = "table"
    LIST = "list"


class LinkKind(StrEnum):
    """The syntax of a link. RELATED is the front matter field `related`.

    A statement that a note supersedes another is a SUCCESSOR or PREDECESSOR. If it is written as a
    link, there is also a link of that syntax.
    """

    WIKILINK = "wikilink"
    EMBED = "embed"
    MARKDOWN = "markdown"
    RELATED = "related"
    SUCCESSOR = "successor"
    PREDECESSOR = "predecessor"


SUCCESSION = (LinkKind.SUCCESSOR, LinkKind.PREDECESSOR)
"""The kinds of statements about versions of a note. Such a link is never broken."""


class QueryKind(StrEnum):
    """The kind of a query, which decides the weight of each retriever."""

    FACTUAL = "factual"
    NAVIGATIONAL = "navigational"
    EXPLORATORY = "exploratory"


class NameKind(StrEnum):
    """The kind of name or heading that the whole query matches. The best kind comes first."""

    PATH = "path"
    FILE = "file name"
    TITLE = "title"
    ALIAS = "alias"
    HEADING = "heading"


# ------------------------------------------------------------------ documents


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in a file. Indexing reports the problem and continues."""

    path: str
    line: int | None
    reason: str


class Abbreviation(NamedTuple):
    """The folded short and long form of an abbreviation that a document defines."""

    short: str
    long: str


@dataclass(frozen=True, slots=True)
class Document:
    """The metadata of one Markdown file."""

    path: str  # relative to the folder, POSIX, with suffix
    title: str
    folder: str = ""  # the configured folder's name; empty until a library opens it
    # values as written, by key in lower case; nested keys are joined by dots
    properties: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tags: tuple[str, ...] = ()  # without "#", front matter and inline, in order of appearance
    aliases: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    description: str = ""
    author: str = ""
    category: str = ""
    type: str = ""
    status: str = ""  # in lower case, such as "draft" or "superseded"
    valid_until: str = ""  # ISO date of its last valid day
    date: str = ""  # ISO date of the last update in front matter, else of creation
    created: str = ""  # ISO date of creation in front matter
    modified: float = 0.0  # seconds since the epoch, from the file system
    edited: float = 0.0  # the last edit that indexing saw, seconds since the epoch; 0 if none
    first_commit: str | None = None  # ISO date; empty if unknown, None if git was not read yet
    last_commit: str | None = None  # ISO date, as above
    abbreviations: tuple[Abbreviation, ...] = ()  # defined in its text
    flags: tuple[str, ...] = ()  # hidden text and instructions to a model, as `line: reason`
    language: str = ""  # code of its prose, such as "en"; empty if unknown


def property_texts(document: Document, key: str) -> tuple[str, ...]:
    """Return the values of a property as written. The key's case and accents are ignored."""
    form = fold_line(key)
    return tuple(
        text
        for name, texts in document.properties.items()
        if fold_line(name) == form
        for text in texts
    )


class DocumentTimes(NamedTuple):
    """Times from the file system, indexing and git. The fields are described in `Document`."""

    modified: float
    edited: float = 0.0
    first_commit: str | None = None
    last_commit: str | None = None


_EPOCH = date(1970, 1, 1).toordinal()


def flags_of(documents: Iterable[Document]) -> tuple[Problem, ...]:
    """Return the flags of documents as problems."""
    parts = (
        (document.path, flag.partition(": ")) for document in documents for flag in document.flags
    )
    return tuple(Problem(path, int(line), reason) for path, (line, _, reason) in parts)


def day_of(document: Document) -> date | None:
    """Return the day of a document's last update, or None if unknown.

    The date in front matter takes precedence, then the last commit or edit, then the creation. The
    file's modification time does not count.
    """
    edited = _day_at(document.edited) if document.edited else None
    return (
        _parse_day(document.date)
        or max(filter(None, (_parse_day(document.last_commit), edited)), default=None)
        or created_on(document)
    )


def created_on(document: Document) -> date | None:
    """Return the day of a document's creation: from front matter, or else of the first commit."""
    return _parse_day(document.created) or _parse_day(document.first_commit)


def iso_day(day: date | None) -> str:
    """Return a day as an ISO date, or an empty string for None."""
    return day.isoformat() if day else ""


@lru_cache(maxsize=4096)
def _parse_day(day: str | None) -> date | None:
    """Parse an ISO date, or return None. Cached, because each snapshot parses all notes' dates."""
    try:
        return date.fromisoformat(day[:10]) if day else None
    except ValueError:
        return None


def modified_on(document: Document) -> date:
    """Return the day (UTC) of a file's modification time. Copying a file resets the time."""
    return _day_at(document.modified)


def _day_at(seconds: float) -> date:
    return date.fromordinal(_EPOCH + int(seconds // 86_400))


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document, split at headings: the unit of results and the parent of chunks."""

    ordinal: int  # position in the document, from 0
    start_line: int  # from 1, inclusive
    end_line: int  # inclusive
    text: str  # source Markdown without comments


@dataclass(frozen=True, slots=True)
class Chunk:
    """The unit of search: a part of one section, under one heading."""

    ordinal: int  # position in the document, from 0
    section: int  # ordinal of its section
    kind: BlockKind
    heading_path: tuple[str, ...]  # the document's title, then the headings above the chunk
    start_line: int
    end_line: int
    text: str  # source Markdown
    salience: float = 0.5  # importance, 0 to 1, before boosts
    language: str = ""  # info string of a code fence, else empty


ADDRESS_KEYS = ("id", "slug", "permalink", "url")
"""Properties that decide a note's address in a published site."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link as written, and the path of its target document.

    The path is None if the link is broken, and empty if it may lead to an attachment or to a page
    that a generator makes.
    """

    kind: LinkKind
    target: str  # file part as written, URL-decoded; "" for a link inside the same document
    fragment: str  # heading or ^block, without "#"
    text: str  # visible text
    line: int
    resolved: str | None = None


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A document with its parsed content."""

    document: Document
    sections: tuple[Section, ...]
    chunks: tuple[Chunk, ...]
    links: tuple[Link, ...]
    problems: tuple[Problem, ...] = ()
    private: bool = False
    # each chunk's visible text, and digests of the embedded text and of the words; empty until
    # computed
    keys: tuple[tuple[str, bytes, bytes], ...] = ()
    # each chunk's provisional vector as it is stored; empty without a table
    provisional: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class FileState:
    """The identity of a file's version: its `stat`, and a digest if `stat` is not reliable."""

    path: str
    size: int
    mtime_ns: int
    inode: int
    digest: str = ""  # sha256 hex of the bytes; empty until read
    ctime_ns: int = 0  # last change of the file or its metadata; on Windows, its creation


@dataclass(frozen=True, slots=True)
class Changes:
    """The files that differ from the index, as sorted paths."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0


# ------------------------------------------------------------------ queries and answers


MAX_PASSAGES = 100
"""Maximum number of passages in an answer."""


def read_whole_number(name: str, value: int | str, minimum: int, maximum: int) -> int:
    """Parse a whole number from `minimum` to `maximum`. Raises UsageError."""
    text = str(value)
    if (
        not (text.isascii() and text.isdigit())
        or len(text) > len(str(maximum))
        or not minimum <= int(text) <= maximum
    ):
        raise UsageError(
            f"{name} is {value!r}: choose a whole number from {minimum:,} to {maximum:,}."
        )
    return int(text)


def read_limit(value: int | str) -> int:
    """Parse the maximum number of passages or notes. Raises UsageError."""
    return read_whole_number("limit", value, 1, MAX_PASSAGES)


def read_day(name: str, value: date | str | None) -> date | None:
    """Parse a day, month or year; None if it is empty. Raises UsageError.

    For "until", return the last day of a month or year, else the first.
    """
    if not value or isinstance(value, date):
        return value or None
    period = day_period(value)
    if period is None:
        raise UsageError(f"{name} is {value!r}: write a date such as 2026-01-31 or 2026-01.")
    return period[name == "until"]


class FilterArguments(TypedDict, total=False):
    """Filters as a caller passes them. A day may be a string (`2026-01-31`)."""

    folder: Sequence[str] | None
    path: Sequence[str] | None
    tag: Sequence[str] | None
    since: date | str | None
    until: date | str | None
    without: Sequence[str] | None
    where: Sequence[str] | None


class QueryArguments(FilterArguments, total=False):
    """The arguments of a query except its text."""

    also: Sequence[str] | None
    passage: str | None
    limit: int | str | None
    verbatim: bool
    retired: bool


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a search. Every retriever applies them. An empty filter excludes nothing."""

    folder: tuple[str, ...] = ()
    path: tuple[str, ...] = ()  # globs: a document matches any of them
    tag: tuple[str, ...] = ()  # a document has all of them; `a` matches `a/b` too
    since: date | None = None
    until: date | None = None  # inclusive
    without: tuple[str, ...] = ()  # paths of excluded documents
    where: tuple[TypedFilter, ...] = ()

    @classmethod
    def of(cls, **arguments: Unpack[FilterArguments]) -> Filters:
        """Build filters from a caller's arguments. Raises UsageError if nothing can match."""
        since = read_day("since", arguments.get("since"))
        until = read_day("until", arguments.get("until"))
        if since and until and since > until:
            raise UsageError(f"since {since} is later than until {until}: swap them.")
        globs = tuple(glob.removeprefix("./") for glob in arguments.get("path") or ())
        for glob in globs:
            if not glob.strip("/ ") or glob.startswith("!"):
                raise UsageError(
                    f"path {glob!r} matches no document: use a glob such as guides/** or *.md."
                )
        folder, tag = tuple(arguments.get("folder") or ()), tuple(arguments.get("tag") or ())
        without, where = tuple(arguments.get("without") or ()), arguments.get("where") or ()
        return cls(folder, globs, tag, since, until, without, tuple(map(TypedFilter.of, where)))

    def as_pairs(self) -> list[tuple[str, str]]:
        """Return all filters except `without` as pairs of name and value."""
        pairs = [
            (name, value) for name in ("folder", "tag", "path") for value in getattr(self, name)
        ]
        pairs += [("where", condition.as_typed) for condition in self.where]
        days = (("since", self.since), ("until", self.until))
        return pairs + [(name, day.isoformat()) for name, day in days if day]


FilterField = Literal["tag", "path", "file", "title", "words", "property"]
"""The part of a document that a typed filter tests."""

ConditionOperator = Literal["has", "is", ":", "<", "<=", ">", ">="]
"""The comparison of a condition: `is` requires the same text as written. It cannot be typed."""

_CONDITION = re.compile(
    r"([^:=<>]++)([<>]=?+(?![<>=])|:|(?<!!)=(?![=>]))\s*+(.++)",  # no operator such as != or >>
    re.DOTALL,
)
_FIELD_KEYS: Sequence[FilterField] = ("tag", "path", "file", "title")


def is_filter_key(key: str) -> bool:
    """Return whether a condition can name this property."""
    return key not in (*_FIELD_KEYS, "has") and not re.search(r"^-|[:=<>\"]", key)


@dataclass(frozen=True, slots=True)
class TypedFilter:
    """A filter typed in a query: `tag:x`, `-path:x`, `title:"two words"`, `"a phrase"`, `-word`.

    A condition on a property has a key and an operator: `status:doing`, `rating>=4`, `has:due`.
    """

    field: FilterField
    value: str
    excludes: bool = False
    key: str = ""
    operator: ConditionOperator = ":"

    @classmethod
    def of(cls, text: str) -> TypedFilter:
        """Parse `key:value`, `key>=4`, `has:key` or `tag:x`, also with `-`. Raises UsageError."""
        condition = replace_surrogates(text).strip()
        excludes = condition.startswith("-")
        match = _CONDITION.fullmatch(condition.removeprefix("-"))
        key, sign, value = match.groups() if match else ("", "", "")
        key, value = key.strip(), value.strip().strip('"“”„＂').strip()
        if not (key and value):
            raise UsageError(
                f"where {text!r} is not a condition: write status:doing, rating>=4, "
                "due<2026-12-01, has:due or -status:done."
            )
        for name in _FIELD_KEYS:
            if key == name and sign == ":":
                return cls(name, value.strip("#/ ") if name == "tag" else value, excludes)
        return cls.on_property(key, sign, value, excludes)

    @classmethod
    def on_property(cls, key: str, sign: str, value: str, excludes: bool = False) -> TypedFilter:
        """Build a condition from its parts as typed, such as `rating`, `>=` and `4`."""
        if key.lower() == "has" and sign == ":":
            return cls("property", "", excludes, value.lower(), "has")
        operator = cast("ConditionOperator", ":" if sign == "=" else sign)
        return cls("property", value, excludes, key.lower(), operator)

    def on_key(self) -> TypedFilter:
        """Return the condition `has:key` for the key of this condition."""
        return TypedFilter("property", "", key=self.key, operator="has")

    @property
    def condition(self) -> str:
        """The value, or a condition on a property such as `status:doing`."""
        if self.field != "property":
            return self.value
        if self.operator == "has":
            return f"has:{self.key}"
        value = f'"{self.value}"' if " " in self.value else self.value
        return f"{self.key}{self.operator}{value}"

    @property
    def as_typed(self) -> str:
        """The filter as it is typed in a query."""
        minus = "-" if self.excludes else ""
        if self.field == "property":
            return minus + self.condition
        mark = "" if self.field == "words" else f"{self.field}:"
        is_quoted = " " in self.value or (self.field == "words" and not self.excludes)
        return minus + mark + (f'"{self.value}"' if is_quoted else self.value)


@dataclass(frozen=True, slots=True)
class UnmetFilter:
    """A filter that no note matches, and the most similar tags or paths."""

    field: FilterField
    value: str
    nearest: tuple[str, ...] = ()
    as_words: bool = False  # typed in a query, and searched as plain words instead


@dataclass(frozen=True, slots=True)
class Query:
    """A query and its arguments."""

    text: str
    limit: int | None = None  # None: `query.limit` without weaker passages
    filters: Filters = field(default_factory=Filters)
    also: tuple[str, ...] = ()  # the caller's rewordings, searched too
    passage: str = ""  # a hypothetical answer, searched too; it never raises the confidence
    verbatim: bool = False  # search the words as typed, without corrections and other forms
    retired: bool = False  # rank retired notes like others

    @classmethod
    def of(
        cls,
        text: str,
        *,
        also: Sequence[str] | None = None,
        passage: str | None = None,
        limit: int | str | None = None,
        verbatim: bool = False,
        retired: bool = False,
        **filters: Unpack[FilterArguments],
    ) -> Query:
        """Build a query from a caller's arguments. Raises UsageError if they are not valid."""
        text, passage = replace_surrogates(text), replace_surrogates(passage or "")
        also = tuple(map(replace_surrogates, also or ()))
        if not text.strip():
            raise UsageError("The query is empty: enter the words to look for.")
        if len(text) > MAX_QUERY_CHARS:
            raise UsageError(
                f"The query has {len(text):,} characters, more than {MAX_QUERY_CHARS:,}: "
                "shorten it."
            )
        if len(also) > MAX_REWORDINGS:
            raise UsageError(
                f"`also` has {len(also)} rewordings, more than {MAX_REWORDINGS}: keep the best."
            )
        for name, phrasing in (
            *(("A rewording in `also`", rewording) for rewording in also),
            ("The passage", passage),
        ):
            if len(phrasing) > MAX_PHRASING_CHARS:
                raise UsageError(
                    f"{name} has {len(phrasing):,} characters, more than {MAX_PHRASING_CHARS:,}: "
                    "shorten it to a sentence or two."
                )
        maximum = None if limit is None else read_limit(limit)
        return cls(text, maximum, Filters.of(**filters), also, passage, verbatim, retired)


@dataclass(frozen=True, slots=True)
class Term:
    """One word, identifier or phrase to look up, with its weight in the query."""

    text: str  # lower-cased surface form; words of a phrase joined by one space
    weight: float = 1.0
    phrase: bool = False  # the words must occur side by side, in this order
    forms: tuple[Term, ...] = ()  # abbreviations, long forms and compounds, each with its weight


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk with its score and rank in one index. Higher scores are better. Ranks start at 1."""

    chunk: ChunkId
    document: DocumentId
    rank: int
    score: float
    coverage: float = 0.0  # idf-weighted fraction of the query's terms in the chunk, 0 to 1


@dataclass(frozen=True, slots=True)
class RankedList:
    """The result of one retriever: chunks, best first, and the scores of whole documents."""

    hits: tuple[Hit, ...] = ()
    documents: Mapping[DocumentId, float] = field(default_factory=dict)  # empty if not scored


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk after fusion, with its score and its rank in each retriever."""

    id: ChunkId
    document: DocumentId
    chunk: Chunk
    score: float
    sources: Mapping[str, int] = field(default_factory=dict)  # retriever -> rank from 1
    also_in: tuple[ChunkId, ...] = ()  # duplicates that it represents
    cluster_size: int = 1
    # near-duplicates that contradict it, with the words that differ: its own words come first
    disagrees: tuple[tuple[ChunkId, str], ...] = ()
    reranked: float | None = None  # the reranker's score
    # set if the query names its document: such a candidate ranks first and is not merged as a copy
    name_kind: NameKind | None = None

    def with_score(self, score: float) -> Candidate:
        """Return a copy with another score.

        This is three times as fast as `dataclasses.replace`.
        """
        return Candidate(
            self.id,
            self.document,
            self.chunk,
            score,
            self.sources,
            self.also_in,
            self.cluster_size,
            self.disagrees,
            self.reranked,
            self.name_kind,
        )


@dataclass(frozen=True, slots=True)
class DroppedChunk:
    """A chunk that a stage removed, and the reason."""

    path: str
    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class DroppedCopy(DroppedChunk):
    """A chunk that a stage removed as a copy."""

    stage: str


@dataclass(frozen=True, slots=True)
class Place:
    """A range of lines in a document."""

    folder: str
    path: str
    start_line: int
    end_line: int

    def contains(self, place: Place) -> bool:
        """Return whether all lines of `place` are in this range."""
        return (
            (place.folder, place.path) == (self.folder, self.path)
            and self.start_line <= place.start_line
            and place.end_line <= self.end_line
        )


@dataclass(frozen=True, slots=True)
class Disagreement(Place):
    """A near-duplicate that contradicts a passage."""

    date: str  # ISO day of its document; empty if unknown
    differs: str  # the words that differ: those of the passage come first


@dataclass(frozen=True, slots=True)
class MatchEvidence:
    """The best chunk of a passage in one retriever's list."""

    retriever: str
    rank: int  # of the chunk, from 1
    of: int  # number of chunks in the list
    score: float  # on the retriever's own scale
    line: int  # first line of the chunk
    weight: float  # the retriever's weight in fusion; all weights sum to 1


@dataclass(frozen=True, slots=True)
class Edge:
    """A link from a top document of a search to the document of a passage."""

    path: str  # of the top document
    rank: int  # its rank among the documents whose links were followed


@dataclass(frozen=True, slots=True)
class StageRank:
    """The rank of a passage's or note's best chunk after one stage."""

    stage: str
    rank: int | None  # from 1; None if the stage did not find or keep any of the chunks
    of: int  # number of ranked chunks or passages
    score: float | None = None
    line: int | None = None  # first line of that chunk


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a passage's rank."""

    evidence: tuple[MatchEvidence, ...]
    terms: Mapping[str, tuple[str, ...]]  # query term -> fields of the passage that contain it
    cosine: float | None  # of the matched chunk; None without vectors
    edges: tuple[Edge, ...]
    rank_by_stage: tuple[StageRank, ...]  # after fusion, and after each stage that changed the rank
    copies: tuple[DroppedCopy, ...]  # duplicates that were removed from the candidates
    reranked: float | None  # the reranker's score
    name_kind: NameKind | None = None  # as in `Candidate`


@dataclass(frozen=True, slots=True)
class Passage:
    """A result: a section with its citation, and the lines of the matched chunk."""

    rank: int
    folder: str
    path: str
    title: str
    heading_path: tuple[str, ...]
    start_line: int
    end_line: int
    match_start_line: int
    match_end_line: int
    score: float
    text: str
    sources: Mapping[str, int] = field(default_factory=dict)
    cluster_size: int = 1
    also_in: tuple[Place, ...] = ()
    match: str = ""  # text of the matched chunk
    disagrees: tuple[Disagreement, ...] = ()
    created: str = ""  # ISO day: the earliest of all notes that contain the text; empty if unknown
    updated: str = ""  # ISO day of the last update; empty if unknown or the day of creation
    file_time: str = ""  # ISO day of the file's modification time, only if no other day is known
    status: str = ""  # the most conservative of these notes
    in_force: bool = True
    retired: str = ""  # the reason if it is not in force: "superseded", "expired on 2026-01-31"
    successor: str = ""  # path, in the same folder, of the last note that supersedes it
    successor_date: str = ""  # ISO day of the successor; empty if unknown
    owner: str = ""  # from front matter: of the most recently updated of these notes
    explanation: Explanation | None = None  # on request
    flags: tuple[str, ...] = ()  # as in `Document`
    marks: tuple[tuple[int, int], ...] = ()  # character spans of the query's words

    @property
    def citation(self) -> str:
        """Return the citation: `path#heading (lines a-b)` or `(line a)`, on one line."""
        heading = f"#{self.heading}" if self.heading else ""
        return one_line(f"{self.path}{heading} ({line_range(self.start_line, self.end_line)})")

    @property
    def place(self) -> Place:
        """Return the location of the section."""
        return Place(self.folder, self.path, self.start_line, self.end_line)

    @property
    def heading(self) -> str:
        """Return the nearest heading; empty if only the title is above it."""
        return self.heading_path[-1] if len(self.heading_path) > 1 else ""

    @property
    def address(self) -> str:
        """Return the URI of the passage.

        The URI contains a digest of the text, so that the passage is found after edits and moves.
        """
        return format_address(self.folder, self.path, self.heading, text_digest(self.text))


@dataclass(frozen=True, slots=True)
class TraceStep:
    """The effect of one stage on a search."""

    stage: str
    size_in: int
    size_out: int
    moved: int  # chunks whose position changed
    seconds: float
    dropped: tuple[DroppedChunk, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexState:
    """The size and generation of an index."""

    documents: int
    chunks: int
    vectors: int  # chunks with an exact vector
    pending: int  # chunks without an exact vector
    model: str
    generation: int
    refining: int = 0  # chunks in `pending` that have a provisional vector

    @property
    def has_vectors(self) -> bool:
        """Whether a chunk has an exact or provisional vector."""
        return self.vectors + self.refining > 0

    @property
    def is_refining(self) -> bool:
        """Whether each chunk has a vector, but not each vector is exact yet."""
        return 0 < self.pending == self.refining


@dataclass(frozen=True, slots=True)
class Freshness:
    """Whether an answer covers all files that were on disk at the time of the query."""

    behind: tuple[str, ...] = ()  # folders with changes that may not be indexed yet
    missing: tuple[str, ...] = ()  # folders that do not exist now; their index is from the last run
    without_indexer: tuple[str, ...] = ()  # folders in `behind` that no process indexes now

    @property
    def fresh(self) -> bool:
        """Return whether no folder is behind or missing."""
        return not (self.behind or self.missing)


@dataclass(frozen=True, slots=True)
class Answer:
    """The passages for a query, with their confidence and trace."""

    query: str
    # the searched text, if spelling was corrected or another form of a word found a passage
    corrected: str | None
    kind: QueryKind
    found: bool  # there are passages, which may answer the query
    confidence: float
    confidence_level: str  # "high" or "low"
    passages: tuple[Passage, ...]
    trace: tuple[TraceStep, ...]
    index: IndexState
    freshness: Freshness | None = None  # on request
    filters: tuple[TypedFilter, ...] = ()  # typed in the query
    unmet: tuple[UnmetFilter, ...] = ()  # filters that no note matches
    undated: int = 0  # undated notes that `since` or `until` excludes, if there are few passages
    listed: int | None = None  # number of matching notes, if the query has only filters
    terms: tuple[Term, ...] = ()  # the words, phrases and identifiers that were looked up
    missing: tuple[str, ...] = ()  # words of a query without an answer that no note has
    weaker: int = 0  # number of passages left out as weaker, unless the query has a limit
    folders: int = 1  # number of the library's folders
    # folder and path of the notes that were ranked, best first, shown or not
    notes: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Return the answer as `query` prints it in a pipe, with paths from the folder."""
        # imported late: it imports this module, and only a printed answer needs it
        from thumbindex.present.answer_layout import answer_text

        return answer_text(self)


@dataclass(frozen=True, slots=True)
class LinkCounts:
    """Counts of links with and without a target note."""

    resolved: int = 0
    dangling: int = 0

    def __add__(self, other: LinkCounts) -> LinkCounts:
        return LinkCounts(self.resolved + other.resolved, self.dangling + other.dangling)


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The result of an indexing run."""

    added: int
    changed: int
    removed: int
    unchanged: int
    skipped: tuple[Problem, ...]
    links: LinkCounts
    chunks: int
    embedded: int  # texts embedded by this run
    reused: int  # vectors reused from earlier runs
    seconds: float
    generation: int
    deferred: int = 0  # files left for the next run: large ones, or after an interruption
    repaired: tuple[str, ...] = ()  # each damaged or outdated part of the index, and its repair


IdleTime = Literal["short", "long"]
"""The expected time until an index changes again.

short: less than the debounce time.
long: at least a few seconds.
"""


# ------------------------------------------------------------------ reports of `why`


NoteOutcome = Literal["shown", "copy", "dropped", "not_found", "filtered", "not_indexed"]
"""The outcome of a query for one note.

shown: in the answer.
copy: a passage in the answer lists the note in `also_in`.
dropped: found by a retriever, then removed by a later stage.
not_found: found by no retriever.
filtered: not searched, because of a filter, or because its text is also elsewhere.
not_indexed: not in the index.
"""


@dataclass(frozen=True, slots=True)
class WhyReport:
    """Why a note or heading is or is not in an answer."""

    query: str
    corrected: str | None
    folder: str
    path: str
    heading: str  # empty for the whole note
    outcome: NoteOutcome
    stage: str  # the stage that removed the note; empty if no stage did
    reason: str  # a sentence
    rank: int | None = None  # of the passage that contains the note's text or a copy of it
    chunks: int = 0  # number of the note's chunks
    without_vector: int = 0  # number of the note's chunks without a vector
    cosine: float | None = None  # the highest cosine of the note's chunks
    # ranks in each retriever's list, and after each stage that changed the rank
    stages: tuple[StageRank, ...] = ()
    terms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # as in `Explanation`
    found: bool = False
    confidence: float = 0.0


# ------------------------------------------------------------------ duplicates in an index


Zone = Literal["same", "grey", "distinct"]
"""The relation of two texts.

same: duplicates.
grey: similar texts; the user decides whether they are duplicates.
distinct: different texts.
"""

Verdict = Literal["same", "apart"]
"""The user's decision about two texts: duplicates, or not."""


@dataclass(frozen=True, slots=True)
class PairJudgment:
    """The zone of two texts, and a description of the rule that decided it."""

    zone: Zone
    rule: str
    differs: str = ""  # contradicting numbers, versions, dates or negations


@dataclass(frozen=True, slots=True)
class Decision:
    """The user's decision about two texts.

    The decision applies in all notes while both texts exist.
    """

    first: str  # hex digest of a text, the smaller of the two
    second: str
    verdict: Verdict
    note: str = ""
    made: float = 0.0  # seconds since the epoch
    first_place: str = ""  # `path:line` of the first text when the decision was made
    second_place: str = ""


@dataclass(frozen=True, slots=True)
class IngestionCounts:
    """Counts of chunks and repeats in all documents with the same front matter `type`."""

    type: str  # front matter `type`; empty if there is none
    chunks: int
    # chunks excluded from search: boilerplate, and near-duplicates inside one document
    repeats: int
    boosted: int  # chunks whose salience was boosted
    mean_boost: float
    most_boost: float


@dataclass(frozen=True, slots=True)
class PrivateNote:
    """A note that only the owner of a folder may know of."""

    folder: str
    path: str
    reason: str
    line: int  # of the key or tag; 0 if unknown


# ------------------------------------------------------------------ checks of citations

CitationState = Literal["there", "moved", "changed", "gone", "never_there", "not_compared"]
"""The state of a cited text.

there: found as cited.
moved: found at other lines or in another note.
changed: found in different words.
gone: not found, but the citation has a digest of the text, so the text once existed.
never_there: not found, and nothing shows that the text existed.
not_compared: the note, heading and lines exist, but there is no quotation to compare.
"""


@dataclass(frozen=True, slots=True)
class CitationCheck:
    """The result of verifying a citation with its quotation, if any."""

    citation: str  # as written
    quotation: str  # empty if nothing is quoted
    state: CitationState
    reason: str = ""  # details about `state`
    now: str = ""  # the citation of the current place; empty if there is none
    address: str = ""  # of the current passage; empty if the citation is correct
    folder: str = ""
    path: str = ""
    start_line: int = 0
    end_line: int = 0
    text: str = ""  # the current lines, if they differ from the quotation
    differs: str = ""  # the words that differ: those of the quotation come first


@dataclass(frozen=True, slots=True)
class Verification:
    """The checks of all citations in a text, in order."""

    citations: tuple[CitationCheck, ...]
    left_out: int = 0  # citations beyond the limit of one call, which were not checked
    uncited: int = 0  # quotations without a citation


# ------------------------------------------------------------------ notes, links and status


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an indexing run.

    `phase` is "words", "vectors", or "waiting" (for another process). While an index is first
    published to a database, `phase` is "publishing texts", "publishing words" or "publishing
    vectors". "words" counts files, and "publishing words" counts segments.
    """

    folder: str
    phase: str
    done: int
    total: int
    pid: int = 0  # the other process that indexes; 0 if unknown or this one


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Current lines of one document."""

    folder: str
    path: str
    title: str
    start_line: int
    end_line: int
    total_lines: int
    text: str
    flags: tuple[str, ...] = ()  # as in Document
    start_character: int = 1  # where the text begins in its first line
    rest: Lines | None = None  # the lines left to read after a cut

    def part(self, start: int, end: int) -> Excerpt:
        """Return the part between two offsets in the text."""
        if (start, end) == (0, len(self.text)):
            return self
        (first, start_character), (last, next_character) = self._place(start), self._place(end)
        rest = self.rest
        if self.text[end:].startswith("\n"):
            rest = Lines(last + 1, self.end_line)
        elif end < len(self.text):
            rest = Lines(last, self.end_line, next_character)
        return replace(
            self,
            start_line=first,
            end_line=last,
            text=self.text[start:end],
            start_character=start_character,
            rest=rest,
        )

    def _place(self, offset: int) -> tuple[int, int]:
        """Return the line and the character of an offset in the text."""
        above = self.text.count("\n", 0, offset)
        character = offset - self.text.rfind("\n", 0, offset)
        return self.start_line + above, character + (0 if above else self.start_character - 1)


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A document's title (level 0) or a heading (level 1 to 6)."""

    folder: str
    path: str
    level: int
    heading: str
    line: int


@dataclass(frozen=True, slots=True)
class ListedNote:
    """An entry of a list of notes."""

    folder: str
    path: str
    title: str
    date: str  # ISO day, empty if unknown
    tags: tuple[str, ...]
    # the values of the requested columns, by key
    properties: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ValueCount:
    """A value of a property, and how many notes have it."""

    value: str
    notes: int


@dataclass(frozen=True, slots=True)
class PropertyCount:
    """A property's key, how many notes have it, and its values, most frequent first."""

    key: str
    notes: int
    values: tuple[ValueCount, ...]
    left_out: int = 0  # further values


@dataclass(frozen=True, slots=True)
class NoteList:
    """The notes that pass filters, newest first, undated ones last."""

    notes: tuple[ListedNote, ...]
    unmet: tuple[UnmetFilter, ...] = ()
    undated: int = 0  # undated notes that `since` or `until` excludes


BrokenReason = Literal["missing note", "missing heading", "missing block", "private note"]
"""Why a link is broken. Only the notes' owner is told of a private note."""


@dataclass(frozen=True, slots=True)
class BrokenLink:
    """A link to a note, heading or block that does not exist."""

    folder: str
    path: str  # of the note that contains it
    line: int
    kind: LinkKind
    target: str  # as in `Link`
    fragment: str
    text: str
    reason: BrokenReason

    @property
    def written(self) -> str:
        """Return the link as Markdown."""
        target = f"{self.target}#{self.fragment}" if self.fragment else self.target
        if self.kind is LinkKind.RELATED:
            return target
        if self.kind is LinkKind.MARKDOWN:
            return f"[{self.text}]({target})"
        return f"{'!' if self.kind is LinkKind.EMBED else ''}[[{target}]]"


@dataclass(frozen=True, slots=True)
class BrokenLinks:
    """The broken links in the notes that pass filters, sorted by folder, path and line."""

    links: tuple[BrokenLink, ...]
    unmet: tuple[UnmetFilter, ...] = ()


@dataclass(frozen=True, slots=True)
class RetiredNote:
    """A note that is no longer in force. The fields are described in `Passage`."""

    folder: str
    path: str
    retired: str
    successor: str = ""
    successor_date: str = ""
    missing: tuple[str, ...] = ()  # successors, as written, that are not in the index


@dataclass(frozen=True, slots=True)
class RetiredNotes:
    """The retired notes that pass filters, newest first."""

    notes: tuple[RetiredNote, ...]
    unmet: tuple[UnmetFilter, ...] = ()


@dataclass(frozen=True, slots=True)
class SimilarNote:
    """A document whose mean vector is close to another document's."""

    path: str
    score: float  # cosine


@dataclass(frozen=True, slots=True)
class RelatedNotes:
    """The links, backlinks and similar notes of a document."""

    folder: str
    path: str
    links: tuple[str, ...]  # paths that it links to
    backlinks: tuple[str, ...]  # paths that link to it
    dangling: tuple[str, ...]  # targets that do not exist
    similar: tuple[SimilarNote, ...]  # best first; empty without vectors


@dataclass(frozen=True, slots=True)
class RenderedNote:
    """A note as HTML without scripts or other active content."""

    html: str  # safe to embed in a page
    headings: tuple[tuple[int, str, int], ...]  # level, visible text and line, in the rendered part
    first_line: int  # of the rendered part, from 1
    last_line: int
    total_lines: int
    begins_with_title: bool  # the first heading is the title


@dataclass(frozen=True, slots=True)
class Backlink:
    """A link to a note, with its line."""

    path: str  # of the note that contains it
    title: str
    line: int
    text: str  # the text of the line; empty if it cannot be read now


@dataclass(frozen=True, slots=True)
class NotePage:
    """A note with its links, similar notes and neighborhood."""

    folder: str
    path: str
    document: Document
    rendered: RenderedNote
    related: RelatedNotes
    titles: Mapping[str, str]  # of the notes in `related` and `neighbors`, by path
    backlinks: tuple[Backlink, ...]
    broken: tuple[BrokenLink, ...]
    unlinked: tuple[SimilarNote, ...]  # similar notes without a link either way, best first
    neighbors: tuple[str, ...]  # notes up to two links away; the note itself comes first
    edges: tuple[tuple[int, int], ...]  # links from one neighbor to another, as positions
    neighbors_omitted: int  # number of further neighbors


@dataclass(frozen=True, slots=True)
class FolderStatus:
    """The state of one folder's index."""

    folder: str
    root: str  # absolute path of the folder
    location: str  # absolute path of its index
    indexed: bool  # False if there is no index yet
    size_bytes: int
    index: IndexState
    skipped: tuple[Problem, ...]
    links: LinkCounts
    writing: bool  # a process is indexing it
    updated: str  # ISO time of the last commit, empty if there is none
    failure: str = ""  # a short reason why the index cannot be read; `skipped` has details
    progress: Progress | None = None  # of the process that is indexing it, if known
    ingestion: tuple[IngestionCounts, ...] = ()  # repeated chunks, by type of document
    flagged: tuple[Problem, ...] = ()  # the first notes with hidden text or instructions to a model
    flagged_count: int = 0  # number of all such notes
    is_missing: bool = False  # the folder does not exist now
    # the last indexing run ended before it read all files, and no process continues it
    unfinished: bool = False


@dataclass(frozen=True, slots=True)
class UnlinkedPair:
    """Two similar notes of a folder that do not link to each other."""

    folder: str
    path: str
    other: str
    score: float  # the cosine of their mean vectors


@dataclass(frozen=True, slots=True)
class RelevanceJudgment:
    """The grade of a passage for a query."""

    path: str
    heading: str  # empty for the whole note
    grade: int  # 2: answers the query; 1: helps; 0: does not help


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """The user's relevance judgments for one query."""

    query: str
    kind: str  # `QueryKind` of the query
    judgments: tuple[RelevanceJudgment, ...]
    made: str  # ISO time of the last judgment


# ------------------------------------------------------------------ reports of duplicates


@dataclass(frozen=True, slots=True)
class ClusterMember:
    """A text of a cluster and its location."""

    folder: str
    path: str
    start_line: int
    end_line: int
    heading_path: tuple[str, ...]
    text: str  # source Markdown of the lines
    digest: str  # hex, of the text
    date: str  # ISO day of the document; empty if unknown
    owner: str = ""  # the owner of the document, or else the author


@dataclass(frozen=True, slots=True)
class Cluster:
    """A group of duplicates, or two texts that the user has to decide about."""

    id: str  # eight hex digits, derived from the texts
    folder: str
    zone: Zone  # same or grey, as the index decided
    rule: str  # the rule that decided it, in words
    differs: str  # as in PairJudgment
    cosine: float  # the lowest cosine of any two texts; 0 if unknown
    texts: tuple[ClusterMember, ...]  # newest first
    pairs: tuple[tuple[str, str], ...] = ()  # digests of the similar pairs
    verdict: Verdict | None = None  # the user's decision
    note: str = ""


@dataclass(frozen=True, slots=True)
class OutdatedDecision:
    """A decision about a text that no longer exists."""

    folder: str
    verdict: Verdict
    note: str
    places: tuple[str, str]  # former `path:line` of each text


@dataclass(frozen=True, slots=True)
class DuplicateReport:
    """The duplicates in some folders."""

    clusters: tuple[Cluster, ...]
    outdated_decisions: tuple[OutdatedDecision, ...]
    chunks: int
    merged: int  # chunks in clusters of duplicates
    flagged: int  # chunks that await the user's decision
