"""All settings with their defaults, meanings and limits: the source of `config.toml` and
`docs/reference/settings.md`.

A field without `setting` is a constant. It is not in `config.toml`, but evaluation may vary it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MIN_BUDGET_TOKENS = 500
"""Minimum value of `max_tokens` and `read_tokens`. Shorter answers are not useful."""

MAX_QUERY_CHARS = 10_000
"""Maximum characters of a query. Longer texts are documents rather than questions."""

MAX_PHRASING_CHARS = 1_000
"""Maximum characters of a rewording or a hypothetical answer. Models embed even fewer of them."""

COMPARED_FIELDS = ("path", "folder", "title", "author", "category", "type", "date")
"""Fields of a document that deduplication can compare."""

MAX_REWORDINGS = 4
"""Maximum rewordings of one query. The model has to embed every rewording."""

MAX_DRAFT_CHARS = 100_000
"""Maximum characters of a text whose citations are verified in one call."""

STAGE_NAMES = tuple(
    "classify correct synonyms expand search_vector search_keyword search_code search_graph "
    "aggregate salience fuse headings all_words recency normalize shared in_force match_names "
    "confidence dedup_versions dedup_known dedup_hash deduplicate dedup_ngram dedup_semantic "
    "contradict diversify rerank parents".split()
)
"""The stages of the pipeline, in order. `query.skip` may contain any of them."""


def setting(
    default: Any,
    meaning: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare a setting with a default, a meaning and the allowed values."""
    metadata = {"meaning": meaning, "minimum": minimum, "maximum": maximum, "choices": choices}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


# ------------------------------------------------------------------ corpus


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """The sizes of sections (parents) and chunks (children), in characters."""

    child_min: int = 200  # a shorter chunk is joined with its neighbor, up to `child_max`
    child_max: int = setting(500, "maximum length of a chunk", minimum=50, maximum=4000)
    parent_min: int = 1500  # a shorter section is joined with its neighbor, up to `parent_max`
    parent_max: int = setting(2000, "maximum length of a section", minimum=200, maximum=20000)


@dataclass(frozen=True, slots=True)
class PrivateSettings:
    """Private notes, in addition to those with `private: true` in front matter."""

    globs: tuple[str, ...] = setting(
        (),
        "notes whose path matches any of these globs are private. Paths are relative to the "
        "folder, and case is ignored. A folder's own file can add globs",
    )
    tags: tuple[str, ...] = setting(
        ("private",),
        "notes with any of these tags, or with a nested tag such as `private/journal`, are private",
    )


@dataclass(frozen=True, slots=True)
class CorpusSettings:
    """The files to read in a folder."""

    extensions: tuple[str, ...] = setting(
        (".md", ".markdown", ".mdx"), "file name extensions to read, ignoring case"
    )
    include: tuple[str, ...] = setting(
        (), "if set, read only files that match any of these globs, relative to the folder"
    )
    exclude: tuple[str, ...] = setting(
        ("node_modules/",),
        "exclude files that match any of these globs, relative to the folder. Your list replaces "
        "the default list",
    )
    # names of files with ignore rules
    ignore_files: tuple[str, ...] = (".gitignore", ".thumbindexignore")
    hidden: bool = setting(
        False, "read files and folders inside the folder whose names begin with a dot"
    )
    max_file_bytes: int = setting(
        10_000_000,
        "maximum bytes of a file; larger files are reported and skipped",
        minimum=1,
        maximum=1_000_000_000,
    )
    max_links: int = 10_000  # maximum links in one note; further links are reported and ignored
    chunk: ChunkSettings = field(default_factory=ChunkSettings)
    private: PrivateSettings = field(default_factory=PrivateSettings)


# ------------------------------------------------------------------ encode


AUTO_MODEL = "auto"
"""Stands for the bundled model, or for the model that the index was built with."""


@dataclass(frozen=True, slots=True)
class EmbedSettings:
    """The model that embeds texts as vectors."""

    model: str = setting(
        AUTO_MODEL,
        "`auto` for the bundled `all-MiniLM-L6-v2`, or the name or folder of a Hugging Face model. "
        "A model without an ONNX file needs the extra `models`",
    )
    runtime: str = setting(
        "auto",
        "`auto` uses the model's ONNX file, or torch if there is no such file. On a machine with a "
        "GPU, `auto` uses torch for all models except the bundled one",
        choices=("auto", "onnx", "torch"),
    )
    workers: int = setting(
        0,
        "number of threads, each of which embeds one text at a time. 0 means one thread per "
        "processor core, but at most 4",
        minimum=0,
        maximum=64,
    )
    batch: int = 128  # texts embedded between two commits


@dataclass(frozen=True, slots=True)
class RerankModelSettings:
    """The model that scores a query and a passage together."""

    model: str = setting(
        "",
        "name or folder of a CrossEncoder for the stage `rerank`; it needs the extra `models`",
    )


@dataclass(frozen=True, slots=True)
class EncodeSettings:
    """The models."""

    embed: EmbedSettings = field(default_factory=EmbedSettings)
    rerank: RerankModelSettings = field(default_factory=RerankModelSettings)


# ------------------------------------------------------------------ index


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """Repeated text inside one document. Repeats are not searched, but raise the salience of the
    text that they repeat.
    """

    enabled: bool = setting(True, "exclude repeats inside a document from search")
    similarity: float = setting(0.90, "minimum cosine of a repeat", minimum=0, maximum=1)
    min_salience: float = 0.05  # chunks with less salience are not compared
    boost: str = setting(
        "logarithmic",
        "how much n repeats boost the salience: base · log2(1 + n), base · n, or not at all",
        choices=("logarithmic", "linear", "off"),
    )
    base: float = setting(0.15, "`base` in the formulas for `boost`", minimum=0, maximum=1)
    max_salience: float = setting(1.0, "maximum salience, boosts included", minimum=0, maximum=1)
    log: bool = setting(True, "log the counts and ratios of each run that excluded repeats")
    metrics: bool = setting(True, "count repeats by document type, for `status`")


@dataclass(frozen=True, slots=True)
class DuplicatesSettings:
    """Duplicates in different documents. Clear duplicates are merged. Others are listed for you to
    decide.
    """

    enabled: bool = setting(
        True, "compare new and changed chunks with the nearest chunks of other documents"
    )
    nearest: int = 5  # number of chunks of other documents that a chunk is compared with
    merge_similarity: float = setting(
        0.94, "minimum cosine of duplicates that are merged automatically", minimum=0, maximum=1
    )
    review_similarity: float = setting(
        0.82, "minimum cosine of texts that are listed for you to decide", minimum=0, maximum=1
    )


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The directory of the indexes, and the comparison of texts during indexing."""

    directory: str = setting(
        "",
        "directory of the indexes, outside any vault; empty means the platform's data directory",
    )
    ingest: IngestSettings = field(default_factory=IngestSettings)
    duplicates: DuplicatesSettings = field(default_factory=DuplicatesSettings)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """A PostgreSQL database for servers ([setup](../team.md)). It needs the extra `postgres`."""

    url: str = setting(
        "",
        "address of the database that folders are published to and that servers read, such as "
        "postgresql://user@host/name. Keep the password in PGPASSFILE or in a service file",
    )


# ------------------------------------------------------------------ query


@dataclass(frozen=True, slots=True)
class ExpandSettings:
    """Related terms from the notes' vocabulary."""

    nearest: int = 3  # added terms for each word
    similarity: float = 0.5  # minimum cosine of an added term
    weight: float = 0.1  # of an added term, relative to a word of the query
    vocabulary: int = 10_000  # number of embedded terms, most frequent first


@dataclass(frozen=True, slots=True)
class SearchVectorSettings:
    """Search by meaning: exact cosine of normalized vectors."""

    limit: int = 50  # maximum chunks
    weight: float = setting(0.65, "weight in fusion", minimum=0, maximum=100)


@dataclass(frozen=True, slots=True)
class SearchKeywordSettings:
    """Search by words: BM25F over stemmed fields. One matching word is enough."""

    limit: int = 50  # maximum chunks
    weight: float = setting(0.35, "weight in fusion", minimum=0, maximum=100)
    k1: float = 1.2  # saturation of repeated words
    b: float = 0.75  # length normalization, 0 to 1
    coverage: float = 1.0  # effect of the fraction of the query's words in a chunk, 0 to 1
    title: float = setting(3.0, "boost for the title", minimum=0, maximum=100)
    headings: float = setting(2.5, "boost for headings", minimum=0, maximum=100)
    keywords: float = setting(2.5, "boost for front matter `keywords`", minimum=0, maximum=100)
    description: float = setting(
        2.0, "boost for front matter `description`", minimum=0, maximum=100
    )
    tags: float = setting(2.0, "boost for tags", minimum=0, maximum=100)
    aliases: float = setting(1.5, "boost for aliases", minimum=0, maximum=100)
    author: float = setting(
        1.0, "boost for front matter `author`, `category` and `type`", minimum=0, maximum=100
    )
    path: float = setting(1.0, "boost for the folder names in the path", minimum=0, maximum=100)
    body: float = setting(1.0, "boost for the text", minimum=0, maximum=100)


@dataclass(frozen=True, slots=True)
class SearchCodeSettings:
    """Search by identifiers: whole identifiers and their parts, without stemming."""

    limit: int = 50  # maximum chunks
    weight: float = setting(0.1, "weight in fusion", minimum=0, maximum=100)
    k1: float = 1.2  # saturation of repeated identifiers
    b: float = 0.75  # length normalization, 0 to 1
    whole: float = 4.0  # weight of a whole identifier, relative to all its parts


@dataclass(frozen=True, slots=True)
class SearchGraphSettings:
    """Search by links: documents that the best documents link to."""

    limit: int = 50  # maximum chunks, one per document
    weight: float = setting(0.05, "weight in fusion", minimum=0, maximum=100)
    from_documents: int = 5  # number of documents whose links are followed, best first
    neighbors: int = 20  # maximum followed links per document


@dataclass(frozen=True, slots=True)
class SalienceSettings:
    """A ranking of the found chunks by their importance in their documents."""

    weight: float = setting(0.01, "weight in fusion", minimum=0, maximum=100)


@dataclass(frozen=True, slots=True)
class FuseSettings:
    """Fusion of all retrievers' lists into one ranking."""

    method: str = setting(
        "convex",
        "`convex` adds normalized scores; `rrf` adds 1 / (k + rank)",
        choices=("convex", "rrf"),
    )
    k: int = setting(10, "constant k of `rrf`", minimum=0, maximum=10_000)
    limit: int = 50  # maximum candidates; raised to three per requested passage if that is more
    chunks: int = 10  # maximum candidates per document
    spread: float = 0.5  # how much lower than the document's best chunk the others score


@dataclass(frozen=True, slots=True)
class RecencySettings:
    """A boost for recent documents."""

    bias: float = setting(0.02, "boost for the newest document", minimum=0, maximum=1)
    half_life_days: float = setting(
        180.0, "age in days at which the boost is halved", minimum=0.1, maximum=1_000_000
    )


@dataclass(frozen=True, slots=True)
class InForceSettings:
    """Notes that are superseded, expired or retired by their status rank lower."""

    factor: float = setting(0.7, "factor for the score of a retired note", minimum=0, maximum=1)
    statuses: tuple[str, ...] = setting(
        (
            "superseded",
            "deprecated",
            "obsolete",
            "outdated",
            "archived",
            "rejected",
            "withdrawn",
        ),
        "values of `status`, in lower case, that retire a note",
    )
    folders: tuple[str, ...] = setting(
        (), "globs of paths whose notes are retired, such as archive/**"
    )


@dataclass(frozen=True, slots=True)
class ConfidenceSettings:
    """The confidence of an answer, and the limits for "nothing found" and for low confidence."""

    abstain_below: float = setting(
        0.18, "below this confidence, nothing is found", minimum=0, maximum=1
    )
    low_below: float = setting(
        0.55, "below this confidence, the confidence level is `low`", minimum=0, maximum=1
    )
    minimum_relevance: float = setting(
        0.25,
        "minimum normalized score of a candidate, for a query without `limit`",
        minimum=0,
        maximum=1,
    )


@dataclass(frozen=True, slots=True)
class DeduplicateSettings:
    """A general stage that removes duplicates by field, content or meaning."""

    method: str = setting(
        "content_hash",
        "how two candidates are compared",
        choices=("exact_field", "content_hash", "semantic"),
    )
    keep: str = setting(
        "first", "which duplicate to keep", choices=("first", "last", "highest_score")
    )
    field: str = setting("", "for `exact_field`: dotted path, such as `properties.id`")
    similarity_threshold: float = setting(
        0.95, "for `semantic`: minimum cosine of duplicates", minimum=0, maximum=1
    )


@dataclass(frozen=True, slots=True)
class DedupNgramSettings:
    """Near copies, compared by character 3-grams."""

    similarity: float = setting(0.7, "minimum Jaccard similarity of copies", minimum=0, maximum=1)


@dataclass(frozen=True, slots=True)
class DedupSemanticSettings:
    """Near copies, compared by vectors."""

    within_document: float = setting(
        0.85, "minimum cosine of copies in one document", minimum=0, maximum=1
    )
    across_documents: float = setting(
        0.90, "minimum cosine of copies in two documents", minimum=0, maximum=1
    )


@dataclass(frozen=True, slots=True)
class DiversifySettings:
    """Results from different documents."""

    method: str = setting(
        "discount",
        "`discount` lowers the scores of further chunks of a document; `mmr` is maximal marginal "
        "relevance",
        choices=("discount", "mmr"),
    )
    discount: float = setting(
        0.8, "for `discount`: factor for each further chunk of a document", minimum=0, maximum=1
    )
    relevance: float = setting(
        0.7, "for `mmr`: weight of relevance against novelty (lambda)", minimum=0, maximum=1
    )


@dataclass(frozen=True, slots=True)
class RerankSettings:
    """New scores for the best candidates, from a model that scores query and passage together."""

    top: int = setting(10, "number of candidates to score again", minimum=1, maximum=50)
    weight: float = setting(0.2, "share of the reranker's score in the blend", minimum=0, maximum=1)


@dataclass(frozen=True, slots=True)
class QuerySettings:
    """Queries. Each stage with settings has its own table, in the order of the pipeline."""

    limit: int = setting(5, "maximum number of passages in an answer", minimum=1, maximum=100)
    skip: tuple[str, ...] = setting(
        ("expand", "deduplicate", "rerank"),
        "stages to skip. Your list replaces the default list",
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
    in_force: InForceSettings = field(default_factory=InForceSettings)
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
    """Watching for changes while a server runs."""

    enabled: bool = setting(
        True, "index changes while the server runs; if false, index only once, at the start"
    )
    debounce_ms: int = setting(
        150,
        "changes are indexed after this many milliseconds without another change",
        minimum=0,
        maximum=60_000,
    )
    max_delay_ms: int = 2000  # maximum delay after the first change, but at least `debounce_ms`
    # interval between checks for a missing folder, and between scans of an unwatchable folder
    poll_seconds: float = 5.0
    reconcile_seconds: float = setting(
        60.0,
        "seconds between scans of all files, which find changes that network drives do not report",
        minimum=0.1,
        maximum=86_400,
    )


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """`thumbindex serve --http`: one server for several clients ([setup](../team.md))."""

    host: str = setting(
        "127.0.0.1",
        "address to listen on; if other machines can reach it, set `token_file` or `issuer`",
    )
    port: int = setting(8377, "port to listen on; 0 means any free port", minimum=0, maximum=65_535)
    token_file: str = setting(
        "",
        "file with hashes of tokens, written by `thumbindex token`; if set, requests for notes "
        "need a token",
    )
    url: str = setting(
        "",
        "public address of `/mcp`, such as https://notes.example.org/mcp; required with `issuer`",
    )
    hosts: tuple[str, ...] = setting(
        (), "host names of the server in addition to its address, such as notes.example.org"
    )
    origins: tuple[str, ...] = setting(
        (), "websites that may call the server from a browser, such as https://app.example.org"
    )
    proxies: tuple[str, ...] = setting(
        (), "addresses of proxies whose forwarded client addresses are trusted"
    )
    issuer: str = setting(
        "",
        "address of an OAuth issuer whose access tokens (JWT) are accepted, such as "
        "https://login.example.org",
    )
    audience: str = setting("", "required `aud` of the issuer's tokens; empty means `url`")
    jwks: str = setting(
        "", "address of the issuer's keys; empty means the address that the issuer publishes"
    )
    scopes: tuple[str, ...] = setting((), "required scopes of the issuer's tokens")
    metrics: tuple[str, ...] = setting(
        (),
        "names of tokens that may read `/metrics`, if tokens are required; in the same form as "
        "`tokens` of `[[folders]]`",
    )
    page: bool = setting(False, "also serve the page to all clients of the server")
    writers: tuple[str, ...] = setting(
        (),
        "names of tokens that may decide on duplicates and judge answers on the page, if tokens "
        "are required",
    )
    max_body_bytes: int = 1_000_000  # maximum size of a request
    concurrent: int = 64  # maximum concurrent requests per token
    connections: int = 1_000  # maximum connections in total; also maximum sessions per folder set
    request_seconds: float = 90.0  # time limit for a request; `wait_fresh` may wait for 60
    drain_seconds: float = 5.0  # time limit for pending requests when the server stops


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """The MCP server."""

    max_tokens: int = setting(
        1400,
        "maximum tokens of an answer's text and structured content together, counted with the "
        "tokenizer of all-MiniLM-L6-v2",
        minimum=MIN_BUDGET_TOKENS,
    )
    read_tokens: int = setting(
        6000, "maximum tokens of `read` and `outline`", minimum=MIN_BUDGET_TOKENS
    )
    answer_commands: bool = setting(
        True,
        "answer your read-only commands over a socket, so that they start faster. Only commands "
        "with the same folders and settings are answered",
    )
    http: HttpSettings = field(default_factory=HttpSettings)
    watch: WatchSettings = field(default_factory=WatchSettings)


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration."""

    folders: Mapping[str, str] = setting(
        {}, "folders to use if a command specifies none, each as name = path"
    )
    corpus: CorpusSettings = field(default_factory=CorpusSettings)
    encode: EncodeSettings = field(default_factory=EncodeSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    query: QuerySettings = field(default_factory=QuerySettings)
    serve: ServeSettings = field(default_factory=ServeSettings)
    about: Mapping[str, str] = field(default_factory=dict)  # folder -> the user's description
    # folder -> the names of the tokens that may see it
    folder_tokens: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # keys from --config or --set, which a folder's own file cannot change
    pinned: frozenset[str] = frozenset()
    # the error in the folder's own file, as a sentence
    folder_file_error: str = field(default="", compare=False)
    # the folder's own file has an error and may exclude notes, so no new notes are indexed
    blocks_indexing: bool = field(default=False, compare=False)
    # keys that a file or an option sets
    explicit_keys: frozenset[str] = field(default=frozenset(), compare=False)
