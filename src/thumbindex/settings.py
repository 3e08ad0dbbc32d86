"""Every setting with its one default, its meaning and its limits; `config.toml` and
`docs/configuration.md` are made from here.

A field that is no `setting` is a constant: no key of `config.toml`. `evaluation` replaces some to
measure them (docs/evaluate.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MIN_BUDGET_TOKENS = 500
"""Minimum budget of a useful answer, in tokens."""

MAX_QUERY_CHARS = 10_000
"""Maximum characters of a query: longer texts are documents."""

MAX_PHRASING_CHARS = 1_000
"""Maximum characters of a rewording or a hypothetical answer: a model embeds fewer."""

MAX_REWORDINGS = 4
"""Maximum rewordings of one query: each costs a run of the model."""

MAX_DRAFT_CHARS = 100_000
"""Maximum characters of a text whose citations are verified."""

STAGE_NAMES = tuple(
    "classify correct synonyms expand search_vector search_keyword search_code search_graph "
    "aggregate salience fuse headings recency normalize match_names confidence "
    "dedup_versions dedup_known dedup_hash deduplicate dedup_ngram dedup_semantic "
    "contradict diversify rerank parents".split()
)
"""The stages of the pipeline, in the order of the run: what `query.skip` may name."""


def setting(
    default: Any,
    meaning: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare a setting: its default, what it means, and what is allowed."""
    metadata = {"meaning": meaning, "minimum": minimum, "maximum": maximum, "choices": choices}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


# ------------------------------------------------------------------ corpus


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """How sections (parents) and chunks (children) are cut, in characters."""

    # a chunk shorter than this is joined to its neighbor where the maximum allows
    child_min: int = 200
    child_max: int = setting(500, "no chunk is longer", minimum=50, maximum=4000)
    # a section shorter than this is joined to its neighbor where the maximum allows
    parent_min: int = 1500
    parent_max: int = setting(2000, "no section is longer", minimum=200, maximum=20000)


@dataclass(frozen=True, slots=True)
class PrivateSettings:
    """Which notes are kept out of everything, beside those with `private: true` at their head."""

    globs: tuple[str, ...] = setting(
        (),
        "globs relative to the folder, upper and lower case alike; a folder's own file can "
        "add to them",
    )
    tags: tuple[str, ...] = setting(
        ("private",),
        "tags that make a note private, and so do the tags below them, as `private/journal`",
    )


@dataclass(frozen=True, slots=True)
class CorpusSettings:
    """Which files of a folder are read."""

    extensions: tuple[str, ...] = setting(
        (".md", ".markdown", ".mdx"), "suffixes of files that are read, in any case"
    )
    include: tuple[str, ...] = setting(
        (), "globs relative to the folder; when given, only files that match one are read"
    )
    exclude: tuple[str, ...] = setting(
        ("node_modules/",),
        "globs relative to the folder; files that match one are left out. What is given "
        "stands in place of the default",
    )
    # names of files with ignore rules
    ignore_files: tuple[str, ...] = (".gitignore", ".thumbindexignore")
    hidden: bool = setting(
        False, "read files and folders whose names begin with a dot, inside the folder"
    )
    max_file_bytes: int = setting(
        10_000_000, "larger files are reported and left out", minimum=1, maximum=1_000_000_000
    )
    max_links: int = 10_000  # links of one note that are followed; the rest is reported
    chunk: ChunkSettings = field(default_factory=ChunkSettings)
    private: PrivateSettings = field(default_factory=PrivateSettings)


# ------------------------------------------------------------------ encode


AUTO_MODEL = "auto"
"""The bundled model, or the one that an index was made with."""


@dataclass(frozen=True, slots=True)
class EmbedSettings:
    """The model that turns texts into vectors."""

    model: str = setting(
        AUTO_MODEL,
        "`auto`: the bundled `all-MiniLM-L6-v2`; or a hub model, or its folder (extra "
        "`models` where it has no ONNX)",
    )
    runtime: str = setting(
        "auto",
        "`auto` takes the model's ONNX file; torch if it has none, or if there is a GPU (but for "
        "the bundled model)",
        choices=("auto", "onnx", "torch"),
    )
    workers: int = setting(
        0,
        "texts embedded at once, one thread each; 0 is one a processor core, at most 4",
        minimum=0,
        maximum=64,
    )
    batch: int = 128  # texts embedded between two commits


@dataclass(frozen=True, slots=True)
class RerankModelSettings:
    """The model that reads a query and a passage together."""

    model: str = setting(
        "", "a CrossEncoder for the stage `rerank`, by name or folder (extra `models`)"
    )


@dataclass(frozen=True, slots=True)
class EncodeSettings:
    """Models."""

    embed: EmbedSettings = field(default_factory=EmbedSettings)
    rerank: RerankModelSettings = field(default_factory=RerankModelSettings)


# ------------------------------------------------------------------ index


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """Repeats inside one document: no search units of their own, but what they repeat matters
    more.
    """

    enabled: bool = setting(True, "leave repeats inside a document out of the search")
    similarity: float = setting(0.90, "least cosine of a repeat", minimum=0, maximum=1)
    min_salience: float = 0.05  # segments that matter less are not compared
    boost: str = setting(
        "logarithmic",
        "how repeats raise salience, n of them: base · log2(1 + n), base · n, or not",
        choices=("logarithmic", "linear", "off"),
    )
    base: float = setting(0.15, "the base of the boost", minimum=0, maximum=1)
    max_salience: float = setting(
        1.0, "salience is capped here, boosts included", minimum=0, maximum=1
    )
    log: bool = setting(True, "log counts and ratios of each run that left something out")
    metrics: bool = setting(True, "count by document type, for `status`")


@dataclass(frozen=True, slots=True)
class DuplicatesSettings:
    """Copies across documents: merged where that is safe, else listed for the owner to decide."""

    enabled: bool = setting(
        True, "compare new and changed chunks with their nearest ones in other documents"
    )
    nearest: int = 5  # chunks of other documents that each one is compared with
    merge_similarity: float = setting(
        0.94, "least cosine of copies that are merged without being asked", minimum=0, maximum=1
    )
    review_similarity: float = setting(
        0.82, "least cosine of those that are listed for the owner to decide", minimum=0, maximum=1
    )


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """Where indexes live, and what is found out about duplicates when they are written."""

    directory: str = setting(
        "",
        "folder that holds the indexes; empty is the platform's data folder; never inside a vault",
    )
    ingest: IngestSettings = field(default_factory=IngestSettings)
    duplicates: DuplicatesSettings = field(default_factory=DuplicatesSettings)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """A PostgreSQL database for several servers ([how to set it up](postgresql.md)); it needs the
    extra `postgres`.
    """

    url: str = setting(
        "",
        "the database that folders are published to and servers read from, as "
        "postgresql://user@host/name; "
        "a password is better kept in PGPASSFILE or a service file",
    )


# ------------------------------------------------------------------ query


@dataclass(frozen=True, slots=True)
class ExpandSettings:
    """Neighbors of the query's words in the corpus's own vocabulary."""

    nearest: int = 3  # terms added for each word
    similarity: float = 0.5  # least cosine of a term that is added
    weight: float = 0.1  # of an added term against a word of the query
    vocabulary: int = 10_000  # terms that are embedded, most frequent first


@dataclass(frozen=True, slots=True)
class SearchVectorSettings:
    """Meaning: exact cosine over normalized vectors."""

    limit: int = 50  # chunks that are kept
    weight: float = setting(0.65, "weight in fusion", minimum=0, maximum=100)


@dataclass(frozen=True, slots=True)
class SearchKeywordSettings:
    """Words: BM25F over stemmed fields, terms ORed."""

    limit: int = 50  # chunks that are kept
    weight: float = setting(0.35, "weight in fusion", minimum=0, maximum=100)
    k1: float = 1.2  # how soon a repeated word stops counting
    b: float = 0.75  # how much length counts, 0 to 1
    # how much matching more of the query's words counts beyond their sum, 0 to 1
    coverage: float = 1.0
    title: float = setting(3.0, "boost of the title", minimum=0, maximum=100)
    headings: float = setting(2.5, "boost of the headings above a chunk", minimum=0, maximum=100)
    keywords: float = setting(2.5, "boost of front matter `keywords`", minimum=0, maximum=100)
    description: float = setting(2.0, "boost of front matter `description`", minimum=0, maximum=100)
    tags: float = setting(2.0, "boost of tags", minimum=0, maximum=100)
    aliases: float = setting(1.5, "boost of aliases", minimum=0, maximum=100)
    author: float = setting(
        1.0, "boost of front matter `author`, `category` and `type`", minimum=0, maximum=100
    )
    path: float = setting(1.0, "boost of the folders in a file's path", minimum=0, maximum=100)
    body: float = setting(1.0, "boost of the text", minimum=0, maximum=100)


@dataclass(frozen=True, slots=True)
class SearchCodeSettings:
    """Identifiers: whole forms and their parts, unstemmed."""

    limit: int = 50  # chunks that are kept
    weight: float = setting(0.1, "weight in fusion", minimum=0, maximum=100)
    k1: float = 1.2  # how soon a repeated identifier stops counting
    b: float = 0.75  # how much length counts, 0 to 1
    whole: float = 4.0  # weight of a whole identifier against all of its parts together


@dataclass(frozen=True, slots=True)
class SearchGraphSettings:
    """Links: documents one hop from those found so far."""

    limit: int = 50  # chunks that are kept, one a document
    weight: float = setting(0.05, "weight in fusion", minimum=0, maximum=100)
    from_documents: int = 5  # documents whose links are followed, best first
    neighbors: int = 20  # most neighbors of one document


@dataclass(frozen=True, slots=True)
class SalienceSettings:
    """How much what was found matters in its documents, as a ranking of its own."""

    weight: float = setting(0.01, "weight in fusion", minimum=0, maximum=100)


@dataclass(frozen=True, slots=True)
class FuseSettings:
    """Retrievers' documents into one ranking."""

    method: str = setting(
        "convex",
        "`convex` adds calibrated scores, `rrf` adds 1 / (k + rank)",
        choices=("convex", "rrf"),
    )
    k: int = setting(10, "RRF's constant", minimum=0, maximum=10_000)
    limit: int = 50  # candidates that go on, best first; at least three a passage that is wanted
    chunks: int = 10  # candidates of one document
    spread: float = 0.5  # how fast a document's further chunks fall behind its best one


@dataclass(frozen=True, slots=True)
class RecencySettings:
    """Newer documents gain a little."""

    bias: float = setting(0.02, "gain of a document of today", minimum=0, maximum=1)
    half_life_days: float = setting(
        180.0, "days after which the gain is half", minimum=0.1, maximum=1_000_000
    )


@dataclass(frozen=True, slots=True)
class ConfidenceSettings:
    """How sure an answer is, and when there is none."""

    abstain: float = setting(
        0.1, "below this confidence the answer is `not answerable`", minimum=0, maximum=1
    )
    doubt: float = setting(0.55, "below this confidence the level is `low`", minimum=0, maximum=1)
    minimum_relevance: float = setting(
        0.25, "candidates with a normalized score below this are left out", minimum=0, maximum=1
    )


@dataclass(frozen=True, slots=True)
class DeduplicateSettings:
    """The general stage: by field, hash or meaning."""

    method: str = setting(
        "content_hash",
        "what makes two items the same",
        choices=("exact_field", "content_hash", "semantic"),
    )
    keep: str = setting(
        "first", "which of the same is kept", choices=("first", "last", "highest_score")
    )
    field: str = setting("", "`exact_field`: dotted path of the field, as in `front_matter.id`")
    similarity_threshold: float = setting(
        0.95, "`semantic`: least cosine of the same", minimum=0, maximum=1
    )


@dataclass(frozen=True, slots=True)
class DedupNgramSettings:
    """Near copies by character 3-grams."""

    similarity: float = setting(0.7, "least Jaccard similarity of a copy", minimum=0, maximum=1)


@dataclass(frozen=True, slots=True)
class DedupSemanticSettings:
    """Near copies by stored vectors."""

    within: float = setting(
        0.85, "least cosine of a copy inside one document", minimum=0, maximum=1
    )
    across: float = setting(0.90, "least cosine of a copy across documents", minimum=0, maximum=1)


@dataclass(frozen=True, slots=True)
class DiversifySettings:
    """Not everything from one page."""

    method: str = setting(
        "discount",
        "`discount`: by document; `mmr`: maximal marginal relevance",
        choices=("discount", "mmr"),
    )
    discount: float = setting(
        0.8,
        "what each further chunk of a document counts for beside the one before",
        minimum=0,
        maximum=1,
    )
    relevance: float = setting(
        0.7, "`mmr`: weight of relevance against novelty (lambda)", minimum=0, maximum=1
    )


@dataclass(frozen=True, slots=True)
class RerankSettings:
    """A second look at the first few."""

    top: int = setting(10, "candidates that are scored again", minimum=1, maximum=50)
    weight: float = setting(0.2, "share of the reranker's score in the blend", minimum=0, maximum=1)


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """Answering; a table for each stage that has settings, in the order of the pipeline."""

    limit: int = setting(5, "passages returned", minimum=1, maximum=100)
    skip: tuple[str, ...] = setting(
        ("expand", "deduplicate", "rerank"),
        "stages that are left out; what is given stands in place of the default",
        choices=STAGE_NAMES,
    )
    expand: ExpandSettings = field(default_factory=ExpandSettings)
    search_vector: SearchVectorSettings = field(default_factory=SearchVectorSettings)
    search_keyword: SearchKeywordSettings = field(default_factory=SearchKeywordSettings)
    search_code: SearchCodeSettings = field(default_factory=SearchCodeSettings)
    search_graph: SearchGraphSettings = field(default_factory=SearchGraphSettings)
    salience: SalienceSettings = field(default_factory=SalienceSettings)
    fuse: FuseSettings = field(default_factory=FuseSettings)
    recency: RecencySettings = field(default_factory=RecencySettings)
    confidence: ConfidenceSettings = field(default_factory=ConfidenceSettings)
    deduplicate: DeduplicateSettings = field(default_factory=DeduplicateSettings)
    dedup_ngram: DedupNgramSettings = field(default_factory=DedupNgramSettings)
    dedup_semantic: DedupSemanticSettings = field(default_factory=DedupSemanticSettings)
    diversify: DiversifySettings = field(default_factory=DiversifySettings)
    rerank: RerankSettings = field(default_factory=RerankSettings)

    def runs(self, stage: str) -> bool:
        """Return whether a stage is enabled."""
        return stage not in self.skip


# ------------------------------------------------------------------ serve


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Following changes while a server runs."""

    enabled: bool = setting(True, "follow changes; false indexes once, when the server starts")
    debounce_ms: int = setting(
        150,
        "changes are taken in after this long without another one, in milliseconds",
        minimum=0,
        maximum=60_000,
    )
    # and at the latest this long after the first one, unless `debounce_ms` is longer
    max_delay_ms: int = 2000
    # how often a folder is looked for that is gone, or looked through where it cannot be watched
    poll_seconds: float = 5.0
    reconcile_seconds: float = setting(
        60.0,
        "how often all files are compared, whatever was watched: network drives report nothing",
        minimum=0.1,
        maximum=86_400,
    )


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """`thumbindex serve --http`: one server for several clients ([how a team runs it](http.md))."""

    host: str = setting(
        "127.0.0.1",
        "address to listen at; one that others can reach needs `token_file` or `issuer`",
    )
    port: int = setting(8377, "port to listen at; 0 takes a free one", minimum=0, maximum=65_535)
    token_file: str = setting(
        "",
        "file of tokens' hashes, written by `thumbindex token`; with it nobody is answered "
        "without a token",
    )
    url: str = setting(
        "",
        "address of `/mcp` as clients write it, as https://notes.example.org/mcp; needed with "
        "`issuer`",
    )
    hosts: tuple[str, ...] = setting(
        (), "names by which clients call the server beside its address, as notes.example.org"
    )
    origins: tuple[str, ...] = setting(
        (), "web pages that may call the server from a browser, as https://app.example.org"
    )
    proxies: tuple[str, ...] = setting(
        (), "addresses of proxies that are believed when they say for whom they ask"
    )
    issuer: str = setting(
        "",
        "address of an OAuth issuer whose access tokens (JWT) are taken, as "
        "https://login.example.org",
    )
    audience: str = setting("", "`aud` that such a token must have; empty is `url`")
    jwks: str = setting(
        "", "address of the issuer's keys; empty is the one that the issuer publishes"
    )
    scopes: tuple[str, ...] = setting((), "scopes that such a token must all have")
    metrics: tuple[str, ...] = setting(
        (),
        "who may read `/metrics` where tokens are asked for: token names, as in `tokens` of "
        "`[[folders]]`",
    )
    page: bool = setting(False, "serve [the page](page.md), too, to whoever may ask the server")
    writers: tuple[str, ...] = setting(
        (),
        "who decides of copies and judges answers on the page where tokens are asked for: "
        "token names",
    )
    max_body_bytes: int = 1_000_000  # larger requests are refused
    concurrent: int = 64  # requests of one token that are worked on at once
    connections: int = 1_000  # of all clients; sessions of one set of folders, too
    # how long a request and its answer may take; `wait_fresh` may wait for 60
    request_seconds: float = 90.0
    # how long requests that are under way may go on when the server is told to end
    drain_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """The MCP server."""

    max_tokens: int = setting(
        2000,
        "budget of an answer's text, and of its structured content, in tokens of all-MiniLM-L6-v2",
        minimum=MIN_BUDGET_TOKENS,
    )
    read_tokens: int = setting(
        6000, "budget of `read` and `outline`, in the same tokens", minimum=MIN_BUDGET_TOKENS
    )
    editor_links: str = setting(
        "none",
        "what `link` of a passage opens the note in: Obsidian where it lies in a vault, VS "
        "Code, or the program for its file; none over HTTP",
        choices=("none", "obsidian", "vscode", "file"),
    )
    answer_commands: bool = setting(
        True,
        "answer the same user's commands that only read, over a socket, where folders and "
        "settings are the same; false opens none",
    )
    http: HttpSettings = field(default_factory=HttpSettings)
    watch: WatchSettings = field(default_factory=WatchSettings)


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration."""

    folders: Mapping[str, str] = setting(
        {}, "folders that are indexed when none is named: name = path"
    )
    corpus: CorpusSettings = field(default_factory=CorpusSettings)
    encode: EncodeSettings = field(default_factory=EncodeSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    query: QuerySettings = field(default_factory=QuerySettings)
    serve: ServeSettings = field(default_factory=ServeSettings)
    about: Mapping[str, str] = field(default_factory=dict)  # folder -> the owner's description
    # folder -> the names of the tokens that may see it
    folder_tokens: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # keys given with --config or --set: a folder's own file does not change them
    pinned: frozenset[str] = frozenset()
    # what is wrong with the folder's own file, in a sentence
    folder_file_error: str = field(default="", compare=False)
    # that file may exclude notes in a way that cannot be read: no new notes are indexed
    blocks_indexing: bool = field(default=False, compare=False)
    # keys that a file or an option sets
    explicit_keys: frozenset[str] = field(default=frozenset(), compare=False)
