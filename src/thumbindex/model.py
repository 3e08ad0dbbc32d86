"""Records that packages exchange: documents, queries, answers and reports, all frozen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, NamedTuple, NewType, TypedDict, Unpack

from thumbindex.errors import UsageError
from thumbindex.settings import MAX_PHRASING_CHARS, MAX_QUERY_CHARS, MAX_REWORDINGS
from thumbindex.text import format_address, line_range, one_line, replace_surrogates, text_digest

DocumentId = NewType("DocumentId", int)
"""A document's position in one snapshot (documents sorted by folder, then path): valid in that
snapshot only.
"""

ChunkId = NewType("ChunkId", int)
"""A chunk's position in one snapshot (sorted by document, then line): ascending ids are the
tie-break order.
"""


class BlockKind(StrEnum):
    """What a chunk is made of; chunks of different kinds are never duplicates of each other."""

    HEADING = "heading"
    PROSE = "prose"
    CODE = "code"
    TABLE = "table"
    LIST = "list"


class LinkKind(StrEnum):
    """How a link was written."""

    WIKILINK = "wikilink"
    EMBED = "embed"
    MARKDOWN = "markdown"
    RELATED = "related"


class QueryKind(StrEnum):
    """What kind of answer a query asks for; decides how much each retriever counts."""

    FACTUAL = "factual"
    NAVIGATIONAL = "navigational"
    EXPLORATORY = "exploratory"


class NameKind(StrEnum):
    """The name of a document that equals the whole query, best first."""

    PATH = "path"
    FILE = "file name"
    TITLE = "title"
    ALIAS = "alias"
    HEADING = "heading"


# ------------------------------------------------------------------ documents


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of a file that could not be read; reported, never fatal."""

    path: str
    line: int | None
    reason: str


class Abbreviation(NamedTuple):
    """A short form and the long one that a document gives for it, as `form_key` writes them."""

    short: str
    long: str


@dataclass(frozen=True, slots=True)
class Document:
    """The metadata of one Markdown file."""

    path: str  # relative to the folder, POSIX, with suffix
    title: str
    folder: str = ""  # the configured folder's name; empty until a library opens it
    front_matter: Mapping[str, Any] = field(default_factory=dict)  # JSON-safe values only
    tags: tuple[str, ...] = ()  # without "#", front matter and inline, in order of appearance
    aliases: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    description: str = ""
    author: str = ""
    category: str = ""
    type: str = ""
    date: str = ""  # ISO date in front matter: of the last update, else of the creation
    created: str = ""  # ISO date of its creation in front matter
    modified: float = 0.0  # seconds since the epoch, from the file system
    edited: float = 0.0  # seconds since the epoch of the last edit that indexing saw; 0 if none
    # ISO date of the first commit that has it: empty if unknown, None if git was not read yet
    first_commit: str | None = None
    last_commit: str | None = None  # ISO date of the last commit that changed it
    abbreviations: tuple[Abbreviation, ...] = ()  # that its text defines
    flags: tuple[str, ...] = ()  # hidden text and instructions to a model, as `line: reason`
    language: str = ""  # of its prose, as in "en"; empty if unknown


class DocumentTimes(NamedTuple):
    """The times of a document that are not in its text; as in Document."""

    modified: float
    edited: float = 0.0
    first_commit: str | None = None
    last_commit: str | None = None


_EPOCH = date(1970, 1, 1).toordinal()


def flags_of(documents: Iterable[Document]) -> tuple[Problem, ...]:
    """Return the flags of documents, by path and line."""
    parts = (
        (document.path, flag.partition(": ")) for document in documents for flag in document.flags
    )
    return tuple(Problem(path, int(line), reason) for path, (line, _, reason) in parts)


def day_of(document: Document) -> date | None:
    """Return the day of a document's last update, None if unknown.

    The date in front matter comes first, then the later one of its last commit and the last edit
    that indexing saw, then the day of its creation. The file's modification time does not count.
    """
    edited = _day_at(document.edited) if document.edited else None
    return (
        _parse_day(document.date)
        or max(filter(None, (_parse_day(document.last_commit), edited)), default=None)
        or created_on(document)
    )


def created_on(document: Document) -> date | None:
    """Return the day of a document's creation: from front matter, else its first commit."""
    return _parse_day(document.created) or _parse_day(document.first_commit)


def iso_day(day: date | None) -> str:
    """Return a day as an ISO date, empty for None."""
    return day.isoformat() if day else ""


@lru_cache(maxsize=4096)
def _parse_day(day: str | None) -> date | None:
    """Parse an ISO date, None if it has none. Each generation reads the dates of all documents."""
    try:
        return date.fromisoformat(day[:10]) if day else None
    except ValueError:
        return None


def modified_on(document: Document) -> date:
    """Return the day (UTC) of a file's modification time, which a copy or a clone resets."""
    return _day_at(document.modified)


def _day_at(seconds: float) -> date:
    return date.fromordinal(_EPOCH + int(seconds // 86_400))


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with its text: the parent of chunks, and the unit that is returned.

    Its text is the lines of the file without comments.
    """

    ordinal: int  # position in the document, from 0
    start_line: int  # from 1, inclusive
    end_line: int  # inclusive
    text: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """The unit that is searched: a child of one section, never across a heading."""

    ordinal: int  # position in the document, from 0
    section: int  # ordinal of its parent
    kind: BlockKind
    heading_path: tuple[str, ...]  # title first, then the headings down to it; the title once
    start_line: int
    end_line: int
    text: str  # source Markdown at those lines
    salience: float = 0.5  # 0 to 1, before boosts
    language: str = ""  # info string of a code fence, else empty


@dataclass(frozen=True, slots=True)
class Link:
    """A link as written; `resolved` is the path of its target document, None if there is none."""

    kind: LinkKind
    target: str  # file part as written, URL-decoded; "" for a link inside the same document
    fragment: str  # heading or ^block, without "#"
    text: str  # what a reader sees
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
    private: bool = False  # it is marked private
    # digest of the embedded text of each chunk, the key of its vector; empty until computed
    keys: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class FileState:
    """A version of a file, by stat; the digest decides if stat is not reliable."""

    path: str
    size: int
    mtime_ns: int
    inode: int
    digest: str = ""  # sha256 hex of the bytes; empty until read
    # time of the last change of the file or its metadata, which no program can set back; on
    # Windows, of its creation
    ctime_ns: int = 0


@dataclass(frozen=True, slots=True)
class Changes:
    """The sorted paths of files that are new, changed or removed since they were indexed."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0


# ------------------------------------------------------------------ queries and answers


MAX_PASSAGES = 100
"""Maximum passages of an answer."""


def read_whole_number(name: str, value: int | str, least: int, most: int) -> int:
    """Parse a whole number, or a text of one, between two bounds. Raises UsageError."""
    written = str(value)
    if (
        not (written.isascii() and written.isdigit())
        or len(written) > len(str(most))
        or not least <= int(written) <= most
    ):
        raise UsageError(f"{name} is {value!r}: give a whole number from {least:,} to {most:,}.")
    return int(written)


def read_limit(value: int | str) -> int:
    """Parse a limit of passages or notes. Raises UsageError."""
    return read_whole_number("limit", value, 1, MAX_PASSAGES)


def read_day(name: str, value: date | str | None) -> date | None:
    """Parse a day, None if it is empty. Raises UsageError."""
    if not value or isinstance(value, date):
        return value or None
    try:
        return date.fromisoformat(value)
    except ValueError as error:
        raise UsageError(f"{name} is {value!r}: write a date as 2026-01-31.") from error


class FilterArguments(TypedDict, total=False):
    """The filters of a search or a list as callers pass them; days may be typed (`2026-01-31`)."""

    folder: Sequence[str] | None
    path: Sequence[str] | None
    tag: Sequence[str] | None
    since: date | str | None
    until: date | str | None
    without: Sequence[str] | None


class QueryArguments(FilterArguments, total=False):
    """The arguments of a query beside its text."""

    also: Sequence[str] | None
    passage: str | None
    limit: int | str | None


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a search; every retriever applies them. Empty means everything."""

    folder: tuple[str, ...] = ()
    path: tuple[str, ...] = ()  # globs, any of them
    tag: tuple[str, ...] = ()  # all of them; `a` matches `a/b` too
    since: date | None = None
    until: date | None = None  # that day too
    without: tuple[str, ...] = ()  # paths of documents that are left out

    @classmethod
    def of(cls, **given: Unpack[FilterArguments]) -> Filters:
        """Check filters. Raises UsageError if no document can pass them."""
        since, until = read_day("since", given.get("since")), read_day("until", given.get("until"))
        if since and until and since > until:
            raise UsageError(
                f"since {since} is later than until {until}: no day lies between them."
            )
        globs = tuple(glob.removeprefix("./") for glob in given.get("path") or ())
        for glob in globs:
            if not glob.strip("/ ") or glob.startswith("!"):
                raise UsageError(
                    f"path {glob!r} matches no document: give a glob such as guides/** or *.md."
                )
        folder, tag = tuple(given.get("folder") or ()), tuple(given.get("tag") or ())
        return cls(folder, globs, tag, since, until, tuple(given.get("without") or ()))

    def as_pairs(self) -> list[tuple[str, str]]:
        """Return the filters as pairs of name and value, without paths that are left out."""
        pairs = [
            (name, value) for name in ("folder", "tag", "path") for value in getattr(self, name)
        ]
        days = (("since", self.since), ("until", self.until))
        return pairs + [(name, day.isoformat()) for name, day in days if day]


FilterField = Literal["tag", "path", "file", "title", "words"]
"""The part of a document that a typed filter tests."""


@dataclass(frozen=True, slots=True)
class TypedFilter:
    """A filter typed in a query: `tag:x`, `-path:x`, `title:"two words"`, `"a phrase"`, `-word`."""

    field: FilterField
    value: str
    excludes: bool = False


@dataclass(frozen=True, slots=True)
class UnmetFilter:
    """A filter that no note meets, and the nearest tags or paths."""

    field: FilterField
    value: str
    nearest: tuple[str, ...] = ()
    as_words: bool = False  # typed in a query, and searched as plain words instead


@dataclass(frozen=True, slots=True)
class Query:
    """A query and its arguments."""

    text: str
    limit: int = 5  # 0 for the setting `query.limit`
    filters: Filters = field(default_factory=Filters)
    also: tuple[str, ...] = ()  # the caller's rewordings, searched too
    # a hypothetical answer, searched too; it is no evidence that there is an answer
    passage: str = ""

    @classmethod
    def of(
        cls,
        text: str,
        *,
        also: Sequence[str] | None = None,
        passage: str | None = None,
        limit: int | str | None = None,
        **narrowing: Unpack[FilterArguments],
    ) -> Query:
        """Check the arguments of a query. Raises UsageError if one is not valid."""
        text, passage = replace_surrogates(text), replace_surrogates(passage or "")
        also = tuple(map(replace_surrogates, also or ()))
        if not text.strip():
            raise UsageError("The query is empty: say what to look for.")
        if len(text) > MAX_QUERY_CHARS:
            raise UsageError(
                f"The query has {len(text):,} characters, more than {MAX_QUERY_CHARS:,} "
                "characters: ask for less."
            )
        if len(also) > MAX_REWORDINGS:
            raise UsageError(
                f"also has {len(also)} rewordings, more than {MAX_REWORDINGS}: give the best of "
                "them."
            )
        for name, other in (
            *(("A rewording in also", each) for each in also),
            ("The passage", passage),
        ):
            if len(other) > MAX_PHRASING_CHARS:
                raise UsageError(
                    f"{name} has {len(other):,} characters, more than {MAX_PHRASING_CHARS:,}: a "
                    "sentence or two will do."
                )
        most = 0 if limit is None else read_limit(limit)
        return cls(text, most, Filters.of(**narrowing), also, passage)


@dataclass(frozen=True, slots=True)
class Term:
    """One word, identifier or phrase to look up, with its weight in the query."""

    text: str  # lower-cased surface form; words of a phrase joined by one space
    weight: float = 1.0
    phrase: bool = False  # must occur as written, word after word
    # abbreviations, spelled-out forms and compounds; a match of one counts with its own weight
    forms: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """One chunk as one index scored it. A higher score is always better; a rank starts at 1."""

    chunk: ChunkId
    document: DocumentId
    rank: int
    score: float
    coverage: float = 0.0  # share of the query's idf in the terms of this chunk, 0 to 1


@dataclass(frozen=True, slots=True)
class RankedList:
    """The result of one retriever: chunks, best first, and scores of whole documents if any."""

    hits: tuple[Hit, ...] = ()
    documents: Mapping[DocumentId, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk after fusion, with its score and its ranks."""

    id: ChunkId
    document: DocumentId
    chunk: Chunk
    score: float
    sources: Mapping[str, int] = field(default_factory=dict)  # retriever -> rank from 1
    also_in: tuple[ChunkId, ...] = ()  # its duplicates, which it represents
    cluster_size: int = 1
    # near-duplicates that contradict it, each with the words that differ, its own words first
    disagrees: tuple[tuple[ChunkId, str], ...] = ()
    # chunks in `also_in` that are other versions with different words, in the same form
    other_versions: tuple[tuple[ChunkId, str], ...] = ()
    reranked: float | None = None  # the reranker's own score, if it scored this one
    # the name that the query equals: no other candidate ranks before it or represents it
    name_kind: NameKind | None = None

    def with_score(self, score: float) -> Candidate:
        """Return a copy with another score. Stages call this for every candidate, and
        `dataclasses.replace` takes three times as long.
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
            self.other_versions,
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
    """The lines of a text in a document."""

    folder: str
    path: str
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class Disagreement(Place):
    """A near-duplicate passage that differs: its date, and the words that differ."""

    date: str  # ISO day of the other document; empty if unknown
    differs: str  # this passage's words against the other's


@dataclass(frozen=True, slots=True)
class MatchEvidence:
    """The best chunk of a text in one retriever's list."""

    retriever: str
    rank: int  # of the chunk, from 1
    of: int  # number of chunks in the list
    score: float  # on the retriever's own scale
    line: int  # first line of the chunk
    weight: float  # the retriever's share in fusion


@dataclass(frozen=True, slots=True)
class Edge:
    """A link from a top document to the document of a passage."""

    path: str  # of the top document
    rank: int  # its rank among the documents whose links were followed


@dataclass(frozen=True, slots=True)
class StageRank:
    """The rank of a text after one stage, by its best chunk; None if the stage removed it."""

    stage: str
    rank: int | None  # from 1
    of: int  # number of chunks or passages
    score: float | None = None
    line: int | None = None  # first line of that chunk


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a passage's rank."""

    evidence: tuple[MatchEvidence, ...]
    # query term -> fields of the passage that contain it
    terms: Mapping[str, tuple[str, ...]]
    cosine: float | None  # of the chunk that matched; None without its vector or the query's
    edges: tuple[Edge, ...]
    # after fusion and after the later stages that changed something
    rank_by_stage: tuple[StageRank, ...]
    copies: tuple[DroppedCopy, ...]  # chunks that were removed as its duplicates
    reranked: float | None  # the reranker's score
    name_kind: NameKind | None = None  # the name of its document that the query equals


@dataclass(frozen=True, slots=True)
class Passage:
    """A result: a section with its citation, and the lines of the chunk that matched."""

    rank: int
    folder: str
    path: str
    title: str
    heading_path: tuple[str, ...]
    start_line: int
    end_line: int
    match_start: int
    match_end: int
    score: float
    text: str
    sources: Mapping[str, int] = field(default_factory=dict)
    cluster_size: int = 1
    also_in: tuple[Place, ...] = ()
    match: str = ""  # text of the chunk that matched
    disagrees: tuple[Disagreement, ...] = ()
    created: str = ""  # ISO day, the earliest of all places; empty if unknown
    updated: str = ""  # ISO day of the last update, if known and not the day of creation
    # ISO day of the file's modification time, only if no other day is known
    file_time: str = ""
    status: str = ""  # from front matter: of all places' the most conservative
    owner: str = ""  # from front matter: of the place that was active last
    explanation: Explanation | None = None  # on request
    flags: tuple[str, ...] = ()  # as in Document
    # spans of the query's words in its text, in characters; on request
    marks: tuple[tuple[int, int], ...] = ()

    @property
    def citation(self) -> str:
        """Return the citation, `path#heading (lines a-b)` or `(line a)`, on one line."""
        heading = f"#{self.heading}" if self.heading else ""
        return one_line(f"{self.path}{heading} ({line_range(self.start_line, self.end_line)})")

    @property
    def heading(self) -> str:
        """Return its own heading, empty if that is the title."""
        return self.heading_path[-1] if len(self.heading_path) > 1 else ""

    @property
    def address(self) -> str:
        """Return the address, whose digest of the text finds the passage after edits and moves."""
        return format_address(self.folder, self.path, self.heading, text_digest(self.text))


@dataclass(frozen=True, slots=True)
class TraceStep:
    """What one stage did to a search."""

    stage: str
    size_in: int
    size_out: int
    moved: int  # chunks that are at another position than before
    seconds: float
    dropped: tuple[DroppedChunk, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexState:
    """The size and generation of the index that an answer is from."""

    documents: int
    chunks: int
    vectors: int
    pending: int
    model: str
    generation: int


@dataclass(frozen=True, slots=True)
class Freshness:
    """Whether an answer covers all files that were on disk at the time of the query."""

    # folders with added, changed or removed files that may not be indexed yet
    behind: tuple[str, ...] = ()
    # folders that do not exist now; their index is from the last run
    missing: tuple[str, ...] = ()
    # folders in `behind` that no process indexes
    without_indexer: tuple[str, ...] = ()
    # replication lag of the database server that answered; 0 if it is small
    lag_seconds: float = 0.0

    @property
    def fresh(self) -> bool:
        """Return whether nothing is behind or missing."""
        return not (self.behind or self.missing)


@dataclass(frozen=True, slots=True)
class Answer:
    """The passages for a query, with their confidence and trace."""

    query: str
    # the searched text, if spelling was corrected or another form of a word found a passage
    corrected: str | None
    kind: QueryKind
    answerable: bool
    confidence: float
    confidence_level: str  # "high" or "low"
    passages: tuple[Passage, ...]
    trace: tuple[TraceStep, ...]
    index: IndexState
    freshness: Freshness | None = None  # on request
    filters: tuple[TypedFilter, ...] = ()  # typed in the query
    unmet: tuple[UnmetFilter, ...] = ()  # filters that no note meets
    # if the answer is short: undated notes that `since` or `until` excludes
    undated: int = 0
    listed: int | None = None  # number of matching notes, if the query is filters alone
    terms: tuple[Term, ...] = ()  # the words, phrases and identifiers that were looked up
    nearest: tuple[Place, ...] = ()  # the closest passages, if none is close enough


@dataclass(frozen=True, slots=True)
class LinkCounts:
    """The numbers of links in a folder with and without a target note."""

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
    embedded: int  # texts that the model embedded
    reused: int  # vectors of earlier runs that these texts have
    truncated: int  # texts longer than the model's window
    seconds: float
    generation: int
    deferred: int = 0  # files left for the next run: large ones, or after an interruption
    # each damaged or outdated part of the index, and its repair
    repaired: tuple[str, ...] = ()


IdleTime = Literal["short", "long"]
"""How long an index is expected to be idle before the next change.

short: less than the quiet time after a save.
long: at least a few seconds.
"""


# ------------------------------------------------------------------ reports of `why`


NoteOutcome = Literal["shown", "copy", "dropped", "not_found", "filtered", "not_indexed"]
"""The outcome of a query for one note.

shown: in the answer.
copy: listed with a copy of it.
dropped: found, then removed by a stage.
not_found: found by no retriever.
filtered: not searched.
not_indexed: not in the index.
"""


@dataclass(frozen=True, slots=True)
class WhyReport:
    """Why a note, or the text under one of its headings, is or is not among the answers."""

    query: str
    corrected: str | None
    folder: str
    path: str
    heading: str  # empty for the whole note
    outcome: NoteOutcome
    stage: str  # the one that removed it; empty if none did
    reason: str  # a sentence
    rank: int | None = None  # of the passage that shows it or its copy
    chunks: int = 0  # number of its chunks
    without_vector: int = 0  # of them
    cosine: float | None = None  # the highest of its chunks
    stages: tuple[StageRank, ...] = ()  # in each retriever, and after each stage that changed it
    terms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # as in `Explanation`
    notes: tuple[str, ...] = ()  # more sentences
    answerable: bool = False
    confidence: float = 0.0


# ------------------------------------------------------------------ duplicates in an index


Zone = Literal["same", "grey", "distinct"]
"""The relation of two texts: duplicates, left to the owner to decide, or different texts."""

Verdict = Literal["same", "apart"]
"""The owner's decision on two texts."""


@dataclass(frozen=True, slots=True)
class PairJudgment:
    """The zone of two texts, and the rule that decided it, in words."""

    zone: Zone
    rule: str
    # the numbers, versions, dates or negations that contradict each other; empty if none do
    differs: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """The owner's decision on two texts, by their digests.

    It holds in any note, and is outdated if one of the texts no longer exists.
    """

    first: str  # hex digest of the text, the lesser of the two
    second: str
    verdict: Verdict
    note: str = ""
    made: float = 0.0  # seconds since the epoch
    # `path:line` of each at that time, to report an outdated decision
    first_place: str = ""
    second_place: str = ""


@dataclass(frozen=True, slots=True)
class IngestionCounts:
    """What ingestion did to the chunks of one type of document."""

    type: str  # front matter `type`; empty if there is none
    chunks: int
    repeats: int  # left out of the search: boilerplate and near-duplicates inside one document
    boosted: int
    mean_boost: float
    most_boost: float


# ------------------------------------------------------------------ checks of citations

CitationState = Literal["there", "moved", "changed", "gone", "never_there"]
"""The state of a cited text.

there: as cited.
moved: at other lines or in another note.
changed: in other words.
gone: not found, but its address has a digest of it.
never_there: not found, and nothing shows that it existed.
"""


@dataclass(frozen=True, slots=True)
class CitationCheck:
    """The check of one citation and one quotation."""

    citation: str  # as written
    quotation: str  # empty if nothing is quoted
    state: CitationState
    reason: str = ""  # more than the state says
    now: str = ""  # the citation of its current place; empty if there is none
    address: str = ""  # of the current passage; empty if the citation holds
    folder: str = ""
    path: str = ""
    start_line: int = 0
    end_line: int = 0
    text: str = ""  # the current lines, if they differ
    differs: str = ""  # the quotation's words against the note's


@dataclass(frozen=True, slots=True)
class Verification:
    """The checks of the citations in a text, in order."""

    citations: tuple[CitationCheck, ...]
    left_out: int = 0  # citations over the limit of one call
    uncited: int = 0  # quotations without a citation


# ------------------------------------------------------------------ notes, links and status


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run of indexing is.

    `phase` is "words" (files), "vectors", or "waiting" while another process writes. Where a
    folder is published to a database for the first time, "publishing texts", "publishing words"
    (segments) and "publishing vectors".
    """

    folder: str
    phase: str
    done: int
    total: int
    # the other process that indexes, or that this one waits for; 0 if unknown or this one
    pid: int = 0


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of one document, as they stand in the index's folder now."""

    folder: str
    path: str
    title: str
    start_line: int
    end_line: int
    total_lines: int
    text: str
    flags: tuple[str, ...] = ()  # as in Document


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A document (level 0, its title) or one of its headings (level 1 to 6)."""

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


@dataclass(frozen=True, slots=True)
class NoteList:
    """The notes that pass filters, newest first, undated ones last."""

    notes: tuple[ListedNote, ...]
    unmet: tuple[UnmetFilter, ...] = ()
    undated: int = 0  # undated notes that `since` or `until` excludes


@dataclass(frozen=True, slots=True)
class BrokenLink:
    """A link to a note that does not exist."""

    folder: str
    path: str  # of the note that contains it
    line: int
    kind: LinkKind
    target: str  # as in `Link`
    fragment: str
    text: str

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
    """The broken links in the notes that pass filters, by folder, path and line."""

    links: tuple[BrokenLink, ...]
    unmet: tuple[UnmetFilter, ...] = ()


@dataclass(frozen=True, slots=True)
class SimilarNote:
    """A document with a mean vector close to another's."""

    path: str
    score: float  # cosine


@dataclass(frozen=True, slots=True)
class RelatedNotes:
    """The notes related to a document: by links both ways, and by meaning."""

    folder: str
    path: str
    links: tuple[str, ...]  # paths that it links to
    backlinks: tuple[str, ...]  # paths that link to it
    dangling: tuple[str, ...]  # targets that do not exist
    similar: tuple[SimilarNote, ...]  # best first; empty without vectors


@dataclass(frozen=True, slots=True)
class RenderedNote:
    """A note as HTML without scripts or other active content."""

    html: str  # safe to be put into a page as it is
    # level, visible text and line, of the part that is rendered
    headings: tuple[tuple[int, str, int], ...]
    first_line: int  # of that part, from 1
    last_line: int
    total_lines: int
    begins_with_title: bool  # its first heading is its title


@dataclass(frozen=True, slots=True)
class Backlink:
    """A link to a note, with its line."""

    path: str  # of the note that contains it
    title: str
    line: int
    text: str  # that line; empty if it cannot be read now


@dataclass(frozen=True, slots=True)
class NotePage:
    """A note with its links, similar notes and neighborhood."""

    folder: str
    path: str
    document: Document
    rendered: RenderedNote
    related: RelatedNotes
    titles: Mapping[str, str]  # of the notes that `related` and the neighborhood name, by path
    backlinks: tuple[Backlink, ...]
    broken: tuple[BrokenLink, ...]
    # similar notes without a link either way, best first
    unlinked: tuple[SimilarNote, ...]
    neighbors: tuple[str, ...]  # up to two links away, the note itself first
    edges: tuple[tuple[int, int], ...]  # between them, as positions, in the direction of the link
    neighbors_omitted: int  # number of further neighbors


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    """A database of published folders, and this process's connections to it."""

    place: str  # its address, without user and password
    server: str  # host and port of the connected server; empty if none
    standby: bool
    # its maximum replication lag; None without a connected server
    lag_seconds: float | None
    used: int  # connections in use
    idle: int  # free connections
    waiting: int  # queries that wait for a connection


@dataclass(frozen=True, slots=True)
class FolderStatus:
    """One folder's index."""

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
    failure: str = ""  # a short reason why the index cannot be read; a problem has details
    # of the process that is indexing it, if known
    progress: Progress | None = None
    # repeats that the search leaves out, by type of document
    ingestion: tuple[IngestionCounts, ...] = ()
    # the first notes with hidden text or instructions to a model
    flagged: tuple[Problem, ...] = ()
    flagged_count: int = 0  # number of all such notes
    is_missing: bool = False  # the folder does not exist now
    database: DatabaseStatus | None = None  # of a published index; None for one on disk
    # the last indexing run ended before it read all files, and no process continues it
    unfinished: bool = False


@dataclass(frozen=True, slots=True)
class UnlinkedPair:
    """Two similar notes of a folder without a link either way."""

    folder: str
    path: str
    other: str
    score: float  # the cosine of their mean vectors


@dataclass(frozen=True, slots=True)
class RelevanceJudgment:
    """The grade of a passage for a query."""

    path: str
    heading: str  # empty for the whole note
    grade: int  # 2 answers it, 1 helps, 0 does not


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """The owner's relevance judgments for one query."""

    query: str
    kind: str  # of query, as it was classified
    judgments: tuple[RelevanceJudgment, ...]
    made: str  # ISO time of the last judgment


# ------------------------------------------------------------------ reports of duplicates


@dataclass(frozen=True, slots=True)
class ClusterMember:
    """A text of a cluster and its place."""

    folder: str
    path: str
    start_line: int
    end_line: int
    heading_path: tuple[str, ...]
    text: str  # source Markdown at those lines
    digest: str  # hex, of the text
    date: str  # ISO, the document's day; empty if unknown
    owner: str = ""  # the document's, else its author


@dataclass(frozen=True, slots=True)
class Cluster:
    """Duplicates, or two texts that may be: the owner decides."""

    id: str  # eight hex digits, the same as long as its texts are
    folder: str
    zone: Zone  # same or grey, as the index decided
    rule: str  # the rule that decided it, in words
    differs: str  # as in PairJudgment
    cosine: float  # the lowest of any two; 0 if unknown
    texts: tuple[ClusterMember, ...]  # newest first
    pairs: tuple[tuple[str, str], ...] = ()  # digests of each two texts that were found to be alike
    verdict: Verdict | None = None  # the owner's decision
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
    merged: int  # chunks in clusters of one text
    flagged: int  # chunks that wait for the owner's decision
