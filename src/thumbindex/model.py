"""The nouns: frozen records that travel from room to room, and nothing that acts."""

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
    """What of a document a query is, whole: the best first."""

    PATH = "path"
    FILE = "file name"
    TITLE = "title"
    ALIAS = "alias"
    HEADING = "heading"


# ------------------------------------------------------------------ what is in the folder


IdleTime = Literal["short", "long"]
"""How long an index is expected to be idle: shorter than the quiet time after a save, or a few
seconds, until something changes.
"""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a file that could not be read as it stands; reported, never fatal."""

    path: str
    line: int | None
    reason: str


class Abbreviation(NamedTuple):
    """A short form and the long one that a document gives for it, as `form_key` writes them."""

    short: str
    long: str


@dataclass(frozen=True, slots=True)
class Document:
    """One Markdown file's own facts: all that is known of it except its text."""

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
    date: str = ""  # ISO date that the note states: of its last update, else of its writing
    created: str = ""  # ISO date of its writing that the note states
    modified: float = 0.0  # seconds since the epoch, from the file system
    edited: float = 0.0  # the same of the last edit that the index saw; 0 where it saw none
    # ISO date on which git has it first, empty where unknown; None where nobody has looked
    first_commit: str | None = None
    last_commit: str | None = None  # ISO date of the last commit that changed it
    abbreviations: tuple[Abbreviation, ...] = ()  # that its text defines
    flags: tuple[str, ...] = ()  # what is hidden in it or speaks to a model: `line: reason`
    language: str = ""  # of its prose, as in "en"; empty where it cannot be told


class DocumentTimes(NamedTuple):
    """What is known of a document's days beside its text; as in Document."""

    modified: float
    edited: float = 0.0
    first_commit: str | None = None
    last_commit: str | None = None


_EPOCH = date(1970, 1, 1).toordinal()


def flags_of(documents: Iterable[Document]) -> tuple[Problem, ...]:
    """Return what is flagged in documents, by path and line."""
    parts = ((each.path, flag.partition(": ")) for each in documents for flag in each.flags)
    return tuple(Problem(path, int(line), reason) for path, (line, _, reason) in parts)


def day_of(document: Document) -> date | None:
    """Return the day on which a document was last updated, as far as it is known: the time of its
    file is none.

    What the note states counts first; then the later of its last commit and of the last edit that
    the index saw; then the day of its writing.
    """
    edited = _day_at(document.edited) if document.edited else None
    return (
        _parse_day(document.date)
        or max(filter(None, (_parse_day(document.last_commit), edited)), default=None)
        or created_on(document)
    )


def created_on(document: Document) -> date | None:
    """Return the day on which a document was written, as the note states it, else its first
    commit.
    """
    return _parse_day(document.created) or _parse_day(document.first_commit)


def iso_day(day: date | None) -> str:
    """Return a day as an ISO date, empty where there is none."""
    return day.isoformat() if day else ""


@lru_cache(maxsize=4096)
def _parse_day(day: str | None) -> date | None:
    """Read an ISO date: all documents' are asked for with each generation, and most have none."""
    try:
        return date.fromisoformat(day[:10]) if day else None
    except ValueError:
        return None


def modified_on(document: Document) -> date:
    """Return the day (UTC) that the time of a document's file tells: a copy or a clone has the day
    on which it was made.
    """
    return _day_at(document.modified)


def _day_at(seconds: float) -> date:
    return date.fromordinal(_EPOCH + int(seconds // 86_400))


@dataclass(frozen=True, slots=True)
class Section:
    """A parent: the passage that is returned.

    Its text is a contiguous part of the file, comments left out.
    """

    ordinal: int  # position in the document, from 0
    start_line: int  # from 1, inclusive
    end_line: int  # inclusive
    text: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """A child: the unit that is searched, inside one section, never across a heading."""

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
    """A link as written; `resolved` is the path of the document it leads to, or None when it
    dangles.
    """

    kind: LinkKind
    target: str  # file part as written, URL-decoded; "" for a link inside the same document
    fragment: str  # heading or ^block, without "#"
    text: str  # what a reader sees
    line: int
    resolved: str | None = None


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A document with everything that was read from its file."""

    document: Document
    sections: tuple[Section, ...]
    chunks: tuple[Chunk, ...]
    links: tuple[Link, ...]
    problems: tuple[Problem, ...] = ()
    private: bool = False  # it says so
    # digests of the texts that are embedded, a chunk; empty where nobody has computed them yet
    keys: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class FileState:
    """What tells a file's versions apart: cheap facts first, the digest where those are not to be
    trusted.
    """

    path: str
    size: int
    mtime_ns: int
    inode: int
    digest: str = ""  # sha256 hex of the bytes; empty until read
    # of the last change of the file or its facts, which no program can set back; on Windows, of its
    # creation
    ctime_ns: int = 0


@dataclass(frozen=True, slots=True)
class Changes:
    """The sorted paths of files that are new, changed or removed since they were indexed."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0


# ------------------------------------------------------------------ what is asked and found


MAX_PASSAGES = 100
"""The most passages of an answer: more is a listing."""


def read_whole_number(name: str, given: int | str, least: int, most: int) -> int:
    """Return a whole number as it is given or typed. Raises UsageError."""
    written = str(given)
    if (
        not (written.isascii() and written.isdigit())
        or len(written) > len(str(most))
        or not least <= int(written) <= most
    ):
        raise UsageError(f"{name} is {given!r}: give a whole number from {least:,} to {most:,}.")
    return int(written)


def read_limit(given: int | str) -> int:
    """Return how many passages or notes are asked for. Raises UsageError."""
    return read_whole_number("limit", given, 1, MAX_PASSAGES)


def read_day(name: str, given: date | str | None) -> date | None:
    """Return a day as it is given or typed, None for nothing. Raises UsageError."""
    if not given or isinstance(given, date):
        return given or None
    try:
        return date.fromisoformat(given)
    except ValueError as error:
        raise UsageError(f"{name} is {given!r}: write a date as 2026-01-31.") from error


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
    """What narrows a search; applied inside every retriever. Empty means everything."""

    folder: tuple[str, ...] = ()
    path: tuple[str, ...] = ()  # globs, any of them
    tag: tuple[str, ...] = ()  # all of them; `a` matches `a/b` too
    since: date | None = None
    until: date | None = None  # that day too
    without: tuple[str, ...] = ()  # paths of documents that are left out

    @classmethod
    def of(cls, **given: Unpack[FilterArguments]) -> Filters:
        """Read and check filters. Raises UsageError for those that nothing can meet."""
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
"""Of what a filter that is typed in a query asks."""


@dataclass(frozen=True, slots=True)
class TypedFilter:
    """A filter as it is typed in a query: `tag:x`, `-path:x`, `title:"two words"`, `"a phrase"`,
    `-word`.
    """

    field: FilterField
    value: str
    excludes: bool = False


@dataclass(frozen=True, slots=True)
class UnmetFilter:
    """A filter that no note meets, and the nearest tags or paths."""

    field: FilterField
    value: str
    nearest: tuple[str, ...] = ()
    as_words: bool = False  # it was typed in a query and is searched for like any other word


@dataclass(frozen=True, slots=True)
class Query:
    """A question as it was asked."""

    text: str
    limit: int = 5  # 0 for the setting `query.limit`
    filters: Filters = field(default_factory=Filters)
    also: tuple[str, ...] = ()  # rewordings by the one who asks: searched beside it
    # how an answer might read: searched beside it, and no evidence that there is one
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
        """Read and check a query. Raises UsageError for one that cannot be asked."""
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
    # other forms of the same, each of which counts as this one, by its own weight
    forms: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """One chunk as one index scored it. A higher score is always better; a rank starts at 1."""

    chunk: ChunkId
    document: DocumentId
    rank: int
    score: float
    coverage: float = 0.0  # share of the query's idf that the terms in it carry, 0 to 1


@dataclass(frozen=True, slots=True)
class RankedList:
    """What one retriever found, best first: chunks, and the whole documents' own scores where it
    has them.
    """

    hits: tuple[Hit, ...] = ()
    documents: Mapping[DocumentId, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One chunk in the running, with the scores that brought it there."""

    id: ChunkId
    document: DocumentId
    chunk: Chunk
    score: float
    sources: Mapping[str, int] = field(default_factory=dict)  # retriever -> rank from 1
    also_in: tuple[ChunkId, ...] = ()  # duplicates that it stands for
    cluster_size: int = 1
    # near copies that say otherwise, and in which words, its own first
    disagrees: tuple[tuple[ChunkId, str], ...] = ()
    # of those in `also_in`: other versions that say otherwise, in the same form
    other_versions: tuple[tuple[ChunkId, str], ...] = ()
    reranked: float | None = None  # the reranker's own score, where it has read this one
    # what of its document the query is, whole: no other text comes before it or stands for it
    name_kind: NameKind | None = None

    def with_score(self, score: float) -> Candidate:
        """Return it with another score: `replace` takes three times as long, and stages do this to
        every candidate.
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
    """Where a text stands."""

    folder: str
    path: str
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class Disagreement(Place):
    """A near-duplicate passage that differs: its date, and the words that differ."""

    date: str  # ISO day of the other document; empty where unknown
    differs: str  # this passage's words against the other's


@dataclass(frozen=True, slots=True)
class MatchEvidence:
    """The best chunk of a text in one retriever's list."""

    retriever: str
    rank: int  # of the chunk, from 1
    of: int  # how many chunks it found
    score: float  # on the retriever's own scale
    line: int  # where the chunk begins
    weight: float  # the retriever's share in fusion


@dataclass(frozen=True, slots=True)
class Edge:
    """A link over which a document was reached."""

    path: str  # of the document that had been found
    rank: int  # that one's place among those whose links were followed


@dataclass(frozen=True, slots=True)
class StageRank:
    """The rank of a text after one stage, by its best chunk; None where it is not there."""

    stage: str
    rank: int | None  # from 1
    of: int  # how many chunks or passages there were
    score: float | None = None
    line: int | None = None  # where that chunk begins


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a passage came to its place."""

    evidence: tuple[MatchEvidence, ...]
    # the fields in which each of the query's stands, none where it is missing
    terms: Mapping[str, tuple[str, ...]]
    cosine: float | None  # of the chunk that matched; None without its vector or the query's
    edges: tuple[Edge, ...]
    # after fusion and after the later stages that changed something
    rank_by_stage: tuple[StageRank, ...]
    copies: tuple[DroppedCopy, ...]  # what was taken out for it
    reranked: float | None  # the reranker's score
    name_kind: NameKind | None = None  # what of its document the query is, whole


@dataclass(frozen=True, slots=True)
class Passage:
    """What is returned: a section, cited to the line, with the chunk that matched marked in it."""

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
    created: str = ""  # ISO day, the earliest of all places; empty where unknown
    updated: str = ""  # ISO day of the last update, where that is known and another one
    # ISO day of the file, where no other is known: a copy or a clone has the day on which it was
    # made
    file_time: str = ""
    status: str = ""  # from front matter: of all places' the most conservative
    owner: str = ""  # from front matter: of the place that was active last
    explanation: Explanation | None = None  # where it was asked for
    flags: tuple[str, ...] = ()  # what is hidden in the note, or speaks to a model: `line: reason`
    # where the query's words stand in its text, in characters; where that was asked for
    marks: tuple[tuple[int, int], ...] = ()

    @property
    def citation(self) -> str:
        """Name the place as `path#heading (lines a-b)`, or `(line a)`, on one line."""
        heading = f"#{self.heading}" if self.heading else ""
        return one_line(f"{self.path}{heading} ({line_range(self.start_line, self.end_line)})")

    @property
    def heading(self) -> str:
        """The heading under which it stands; empty where that is the title alone."""
        return self.heading_path[-1] if len(self.heading_path) > 1 else ""

    @property
    def address(self) -> str:
        """Name the place with a digest of the text, by which it is found again after edits and
        moves.
        """
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
    """How far the index is that an answer stands on."""

    documents: int
    chunks: int
    vectors: int
    pending: int
    model: str
    generation: int


@dataclass(frozen=True, slots=True)
class Freshness:
    """Whether an answer covers all that was on disk when the query came."""

    # folders with files that came, changed or went and may not be indexed so yet
    behind: tuple[str, ...] = ()
    # folders that are not there: what the index holds of them is what was read last
    missing: tuple[str, ...] = ()
    # those of the folders that are behind which no process indexes
    without_indexer: tuple[str, ...] = ()
    # how far the server of a database that answered is behind what was published; 0 where that is
    # little
    lag_seconds: float = 0.0

    @property
    def fresh(self) -> bool:
        """Return whether nothing is behind or missing."""
        return not (self.behind or self.missing)


@dataclass(frozen=True, slots=True)
class Answer:
    """The passages for a query, how sure they are, and how they came about."""

    query: str
    # the query as it was searched, where spelling was corrected or another form of a word brought a
    # passage
    corrected: str | None
    kind: QueryKind
    answerable: bool
    confidence: float
    confidence_level: str  # "high" or "low"
    passages: tuple[Passage, ...]
    trace: tuple[TraceStep, ...]
    index: IndexState
    freshness: Freshness | None = None  # None where it was not asked for
    filters: tuple[TypedFilter, ...] = ()  # that were read in the query
    unmet: tuple[UnmetFilter, ...] = ()  # filters, read or given, that no note meets
    # notes that `since` and `until` leave out of a short answer because no day of theirs is known
    undated: int = 0
    listed: int | None = None  # where the query is filters alone, how many notes they let through
    terms: tuple[Term, ...] = ()  # the words, phrases and identifiers that were looked up
    nearest: tuple[Place, ...] = ()  # where no passage is close enough, what comes nearest


@dataclass(frozen=True, slots=True)
class LinkCounts:
    """How many links of a folder lead to a note, and how many lead nowhere."""

    resolved: int = 0
    dangling: int = 0

    def __add__(self, other: LinkCounts) -> LinkCounts:
        return LinkCounts(self.resolved + other.resolved, self.dangling + other.dangling)


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What a run of indexing did."""

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
    # what was damaged or of an earlier schema, and what was done about it
    repaired: tuple[str, ...] = ()


# -------------------------------------------------------------- why a note is not among the answers


NoteOutcome = Literal["shown", "copy", "dropped", "not_found", "filtered", "not_indexed"]
"""What a query did with one note: shown; named beside a copy of it; found and removed; found by no
retriever; not searched; not in the index.
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
    stage: str  # that took it out; empty where none did
    reason: str  # in words, a sentence
    rank: int | None = None  # of the passage that shows it, or names it beside a copy
    chunks: int = 0  # that were looked for
    without_vector: int = 0  # of those
    cosine: float | None = None  # the best of its chunks'
    stages: tuple[StageRank, ...] = ()  # in the retrievers, and after what changed it
    terms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # as in `Explanation`
    notes: tuple[str, ...] = ()  # what else is to be known, in words
    answerable: bool = False
    confidence: float = 0.0


# ------------------------------------------------------------------ what says the same


Zone = Literal["same", "grey", "distinct"]
"""What two texts are to each other: one text twice, for the owner to decide, or two texts."""

Verdict = Literal["same", "apart"]
"""What the owner decided."""


@dataclass(frozen=True, slots=True)
class PairJudgment:
    """The zone of two texts, and the rule that decided it, in words."""

    zone: Zone
    rule: str
    # the numbers, versions, dates or negations in which they contradict each other, in words; empty
    # where they do not
    differs: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What the owner decided of two texts, known by their digests: it holds wherever they stand,
    and lapses when one is nowhere any more.
    """

    first: str  # hex digest of the text, the lesser of the two
    second: str
    verdict: Verdict
    note: str = ""
    made: float = 0.0  # seconds since the epoch
    # `path:line` where each stood then, to be named when the decision has lapsed
    first_place: str = ""
    second_place: str = ""


@dataclass(frozen=True, slots=True)
class IngestionCounts:
    """What ingestion did to the chunks of one type of document."""

    type: str  # front matter `type`; empty where there is none
    chunks: int
    repeats: int  # left out of the search: boilerplate and near-duplicates inside one document
    boosted: int
    mean_boost: float
    most_boost: float


# ------------------------------------------------------------------ whether a citation holds

CitationState = Literal["there", "moved", "changed", "gone", "never_there"]
"""What became of what was cited: as it was; elsewhere; in other words; nowhere, though its address
has a digest of it; and nothing says that it ever was.
"""


@dataclass(frozen=True, slots=True)
class CitationCheck:
    """One citation, with one of the texts that it is given for, and what became of that."""

    citation: str  # as it is written
    quotation: str  # empty where nothing is quoted
    state: CitationState
    reason: str = ""  # in words, where the state does not say it all
    now: str = ""  # the citation of where it is now; empty where that is nowhere
    address: str = ""  # of the passage there; empty where the citation holds
    folder: str = ""
    path: str = ""
    start_line: int = 0
    end_line: int = 0
    text: str = ""  # the lines there, where they say something else
    differs: str = ""  # in which words: the quotation's against the note's


@dataclass(frozen=True, slots=True)
class Verification:
    """What became of the citations of a text, in their order."""

    citations: tuple[CitationCheck, ...]
    left_out: int = 0  # citations beyond those that one call checks
    uncited: int = 0  # quotations beside which no citation stands


# ------------------------------------------------------------------ what a library tells of itself


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
    # the process that does it, or that is waited for, where that is known and another one
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
    flags: tuple[str, ...] = ()  # what is hidden in the note, or speaks to a model: `line: reason`


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
    """A note in a list that nobody asked a question for."""

    folder: str
    path: str
    title: str
    date: str  # ISO day, empty where none is known
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoteList:
    """The notes that filters let through, the newest first; those of which no day is known last."""

    notes: tuple[ListedNote, ...]
    unmet: tuple[UnmetFilter, ...] = ()
    undated: int = 0  # notes that `since` and `until` leave out because no day of theirs is known


@dataclass(frozen=True, slots=True)
class BrokenLink:
    """A link to a note that is not there."""

    folder: str
    path: str  # of the note that it stands in
    line: int
    kind: LinkKind
    target: str  # as in `Link`
    fragment: str
    text: str

    @property
    def written(self) -> str:
        """Return the link as a note has it."""
        target = f"{self.target}#{self.fragment}" if self.fragment else self.target
        if self.kind is LinkKind.RELATED:
            return target
        if self.kind is LinkKind.MARKDOWN:
            return f"[{self.text}]({target})"
        return f"{'!' if self.kind is LinkKind.EMBED else ''}[[{target}]]"


@dataclass(frozen=True, slots=True)
class BrokenLinks:
    """The broken links in the notes that filters let through, by folder, path and line."""

    links: tuple[BrokenLink, ...]
    unmet: tuple[UnmetFilter, ...] = ()


@dataclass(frozen=True, slots=True)
class SimilarNote:
    """A document whose mean vector is near another one's."""

    path: str
    score: float  # cosine


@dataclass(frozen=True, slots=True)
class RelatedNotes:
    """The notes related to a document: by links both ways, and by meaning."""

    folder: str
    path: str
    links: tuple[str, ...]  # paths that it links to
    backlinks: tuple[str, ...]  # paths that link to it
    dangling: tuple[str, ...]  # targets that lead nowhere
    similar: tuple[SimilarNote, ...]  # best first; empty without vectors


@dataclass(frozen=True, slots=True)
class RenderedNote:
    """A note as HTML in which nothing is live but links."""

    html: str  # safe to be put into a page as it is
    # level, visible text and line, of the part that is rendered
    headings: tuple[tuple[int, str, int], ...]
    first_line: int  # of that part, from 1
    last_line: int
    total_lines: int
    begins_with_title: bool  # its first heading is its title


@dataclass(frozen=True, slots=True)
class Backlink:
    """A link to a note, as the line says it in which it stands."""

    path: str  # of the note that it stands in
    title: str
    line: int
    text: str  # that line; empty where it cannot be read now


@dataclass(frozen=True, slots=True)
class NotePage:
    """A note with all that stands around it."""

    folder: str
    path: str
    document: Document
    rendered: RenderedNote
    related: RelatedNotes
    titles: Mapping[str, str]  # of the notes that `related` and the neighborhood name, by path
    backlinks: tuple[Backlink, ...]
    broken: tuple[BrokenLink, ...]
    # notes that are near by meaning and not linked either way, best first
    unlinked: tuple[SimilarNote, ...]
    neighbors: tuple[str, ...]  # up to two links away, the note itself first
    edges: tuple[tuple[int, int], ...]  # between them, as positions, in the direction of the link
    neighbors_omitted: int  # that are not listed


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    """A database that folders are published to, as this process finds it."""

    place: str  # its address, without user and password
    server: str  # the one that answers now, by host and port; empty where none does
    standby: bool
    # how far that one is behind the primary, at most; None where none answers
    lag_seconds: float | None
    used: int  # connections that answer somebody
    idle: int  # and those that are free
    waiting: int  # questions that wait for one


@dataclass(frozen=True, slots=True)
class FolderStatus:
    """One folder's index."""

    folder: str
    root: str  # absolute path of the folder
    location: str  # absolute path of its index
    indexed: bool  # False where there is no index yet
    size_bytes: int
    index: IndexState
    skipped: tuple[Problem, ...]
    links: LinkCounts
    writing: bool  # a process brings it up to the disk
    updated: str  # ISO time of the last commit, empty where there is none
    failure: str = ""  # in a word or two why it cannot be read; a problem says more
    # how far the process is that brings it up to the disk, where that is known
    progress: Progress | None = None
    # what was left out of the search as repeats, by type of document
    ingestion: tuple[IngestionCounts, ...] = ()
    # notes with text that is hidden or speaks to a model: the first ones
    flagged: tuple[Problem, ...] = ()
    flagged_count: int = 0  # of all of these notes
    is_missing: bool = False  # the folder does not exist now
    database: DatabaseStatus | None = None  # that it lies in; None where its index lies on a disk
    # the last run of indexing was cut off before it had read all files, and none goes on from there
    # now
    unfinished: bool = False


@dataclass(frozen=True, slots=True)
class UnlinkedPair:
    """Two notes of a folder that are near by meaning and not linked either way."""

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


# ---------------------------------------------------- what the owner of a folder sees of duplicates


@dataclass(frozen=True, slots=True)
class ClusterMember:
    """One text of a cluster, and its place."""

    folder: str
    path: str
    start_line: int
    end_line: int
    heading_path: tuple[str, ...]
    text: str  # source Markdown at those lines
    digest: str  # hex, of the text
    date: str  # ISO, the document's day; empty where unknown
    owner: str = ""  # the document's, else its author


@dataclass(frozen=True, slots=True)
class Cluster:
    """Texts that are one text several times, or two that may be: for the owner to decide."""

    id: str  # eight hex digits, the same as long as its texts are
    folder: str
    zone: Zone  # what the index says: same or grey
    rule: str  # why
    differs: str  # in what they contradict each other
    cosine: float  # the least of any two, 0 where it is not known
    texts: tuple[ClusterMember, ...]  # newest first
    pairs: tuple[tuple[str, str], ...] = ()  # digests of each two texts that were found to be alike
    verdict: Verdict | None = None  # what the owner says
    note: str = ""


@dataclass(frozen=True, slots=True)
class LapsedDecision:
    """A decision about a text that no longer exists."""

    folder: str
    verdict: Verdict
    note: str
    places: tuple[str, str]  # `path:line` where each text stood


@dataclass(frozen=True, slots=True)
class DuplicateReport:
    """The duplicates in some folders."""

    clusters: tuple[Cluster, ...]
    lapsed: tuple[LapsedDecision, ...]
    chunks: int
    merged: int  # chunks in clusters of one text
    flagged: int  # chunks of which the owner has to decide
