"""In-memory models and indexes, so that tests run offline and in milliseconds."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase
from math import log
from typing import Any

import numpy as np
from pathspec import GitIgnoreSpec

from plain_conditions import meets
from thumbindex.index.filters import FilterIndex, newest_first
from thumbindex.index.names import names_of
from thumbindex.language import INFLECTED_LANGUAGES
from thumbindex.model import (
    Abbreviation,
    BlockKind,
    Chunk,
    ChunkId,
    Document,
    DocumentId,
    Filters,
    Hit,
    Link,
    LinkKind,
    ParsedDocument,
    RankedList,
    Section,
    Term,
    TypedFilter,
    day_of,
)
from thumbindex.ports import (
    PHRASE_FIELDS,
    Duplicates,
    Embedder,
    KeywordWeights,
    Matrix,
    Salience,
    Selection,
    Snapshot,
    Vector,
    VectorIndex,
    inner_products,
)
from thumbindex.text import (
    STOP_WORDS,
    fold,
    fold_line,
    form_key,
    has_cjk,
    identifiers,
    name_key,
    words,
    words_with_positions,
)
from thumbindex.visible_text import embedded_text, strip_markup


class FakeEmbedder:
    """Embeds a text as the sum of one pseudo-random vector per word.

    Texts with words in common are similar. A text has the same vector on every machine.
    """

    name = "fake"
    window = 256

    def __init__(self, dimensions: int = 64, known: Sequence[str] = ()) -> None:
        self.known = frozenset(known)
        self.fingerprint = f"fake-{dimensions}"
        self.dimensions = dimensions
        self.embedded = 0

    def embed_passages(self, texts: Sequence[str]) -> Matrix:
        self.embedded += len(texts)
        return np.array([self._embed(text) for text in texts], dtype=np.float32).reshape(
            len(texts), self.dimensions
        )

    def embed_query(self, text: str) -> Vector:
        self.embedded += 1
        return self._embed(text)

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        return np.array([self.embed_query(text) for text in texts], dtype=np.float32).reshape(
            len(texts), self.dimensions
        )

    def _tokens(self, text: str) -> Matrix:
        """Return one normalized vector per word: shape (words, dimensions)."""
        # unlike the value of hash(), a digest is the same in every process
        noise = [
            hashlib.shake_256(word.encode()).digest(self.dimensions)
            for word in words(text)[: self.window]
        ]
        rows = [
            _normalized(
                np.frombuffer(digest, dtype=np.uint8).astype(np.float32) - np.float32(127.5)
            )
            for digest in noise
        ]
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.dimensions)

    def knows(self, word: str) -> bool:
        return word.casefold() in self.known

    def _embed(self, text: str) -> Vector:
        tokens = self._tokens(text)
        if not len(tokens):
            unit: Vector = np.eye(1, self.dimensions, dtype=np.float32)[0]
            return unit
        return _normalized(tokens.sum(axis=0))


class FakeReranker:
    """Scores a passage by how many of the query's words it contains, from 0 to 1."""

    name = "fake"

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        query_words = set(words(query))
        return [
            len(query_words & set(words(passage))) / max(1, len(query_words))
            for passage in passages
        ]


def _normalized(vector: Vector) -> Vector:
    unit: Vector = vector / np.float32(np.linalg.norm(vector))
    return unit


# ------------------------------------------------------------------ indexes


class MemoryCatalog:
    """Catalog of parsed documents, sorted by folder and path."""

    def __init__(self, documents: Sequence[ParsedDocument]) -> None:
        self.parsed = sorted(
            documents, key=lambda parsed: (parsed.document.folder, parsed.document.path)
        )
        self.documents = tuple(parsed.document for parsed in self.parsed)
        self.successors: Mapping[DocumentId, Mapping[DocumentId, bool]] = {}
        self._all = [
            (DocumentId(n), chunk)
            for n, parsed in enumerate(self.parsed)
            for chunk in parsed.chunks
        ]

    def __len__(self) -> int:
        return len(self._all)

    @property
    def sizes(self) -> Any:
        return np.array([len(parsed.chunks) for parsed in self.parsed], dtype=np.int64)

    @property
    def ordinal_days(self) -> Any:
        days = map(day_of, self.documents)
        return np.array([day.toordinal() if day else 0 for day in days], dtype=np.int64)

    @property
    def languages(self) -> Mapping[str, int]:
        return Counter(document.language for document in self.documents)

    def document_at(self, path: str) -> DocumentId | None:
        paths = [document.path for document in self.documents]
        return DocumentId(paths.index(path)) if path in paths else None

    def document_of(self, chunk: ChunkId) -> DocumentId:
        return self._all[chunk][0]

    def chunk_ids(self, document: DocumentId) -> range:
        first = sum(len(parsed.chunks) for parsed in self.parsed[:document])
        return range(first, first + len(self.parsed[document].chunks))

    def chunks(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Chunk]:
        return {n: self._all[n][1] for n in ids if n < len(self)}

    def sections(self, ids: Sequence[ChunkId]) -> Mapping[ChunkId, Section]:
        chunks = self.chunks(ids).items()
        return {
            n: section
            for n, chunk in chunks
            for section in self.parsed[self.document_of(n)].sections
            if section.ordinal == chunk.section
        }

    def select(self, filters: Filters) -> Selection | None:
        if filters == Filters():
            return None
        return self._of(lambda document: _passes(document, filters))

    def _of(self, is_meant: Callable[[Document], bool]) -> Selection:
        return self.selection([is_meant(self.documents[document]) for document, _ in self._all])

    def selection(self, mask: Sequence[bool]) -> Selection:
        """Return the selection of the chunks whose value in `mask` is true."""
        return Selection(
            np.array(mask, dtype=np.bool_),
            np.array([document for document, _ in self._all], dtype=np.int64),
        )

    def everything(self) -> Selection:
        return self._of(lambda document: True)

    def only(self, chunks: Sequence[ChunkId]) -> Selection:
        return self.selection([n in set(chunks) for n in range(len(self))])

    def every_nth(self, step: int, within: Selection | None, start: int = 0) -> Sequence[ChunkId]:
        every = self.everything() if within is None else within
        return every.first(len(self))[start::step]

    def chunks_matching(self, condition: TypedFilter) -> Selection:
        return self._of(lambda document: _meets(document, condition))

    def has_match(self, condition: TypedFilter) -> bool:
        return any(_meets(document, condition) for document in self.documents)

    def similar_values(self, condition: TypedFilter) -> tuple[str, ...]:
        return FilterIndex(self.documents).similar_values(condition)

    def documents_named(self, letters: str) -> Sequence[DocumentId]:
        return [
            n
            for n, document in enumerate(self.documents)
            if letters in map(name_key, names_of(document))
        ]

    def abbreviations_with(self, forms: Collection[str]) -> Mapping[Abbreviation, int]:
        counts = Counter(
            abbreviation for document in self.documents for abbreviation in document.abbreviations
        )
        return {
            abbreviation: count
            for abbreviation, count in counts.items()
            if abbreviation.short in forms or form_key(abbreviation.long) in forms
        }

    def newest(self, within: Selection | None, limit: int) -> tuple[Sequence[ChunkId], int]:
        first: dict[DocumentId, ChunkId] = {}
        for n in self.every_nth(1, within):
            first.setdefault(self.document_of(n), n)
        return [first[n] for n in newest_first(self.documents, first)[:limit]], len(first)

    def undated(self, within: Selection | None) -> int:
        return sum(
            day_of(self.documents[n]) is None
            for n in set(map(self.document_of, self.every_nth(1, within)))
        )


class MemoryVectorIndex(VectorIndex):
    """VectorIndex that searches the rows of a matrix exactly."""

    def __init__(self, catalog: MemoryCatalog, matrix: Matrix) -> None:
        self._catalog = catalog
        self._matrix = matrix

    def __len__(self) -> int:
        return int((~np.isnan(self._matrix).any(axis=1)).sum())

    def search(self, query: Vector, limit: int, within: Selection | None = None) -> tuple[Hit, ...]:
        cosines = inner_products(self._matrix, query)
        candidates = [n for n in self._catalog.every_nth(1, within) if not np.isnan(cosines[n])]
        best = sorted(candidates, key=lambda n: (-cosines[n], n))[:limit]
        return tuple(
            Hit(ChunkId(n), self._catalog.document_of(ChunkId(n)), rank, float(cosines[n]))
            for rank, n in enumerate(best, 1)
        )

    def vectors(self, chunks: Sequence[ChunkId]) -> Matrix:
        return self._matrix[np.array(chunks, dtype=np.int64)]


class MemoryLinkGraph:
    """LinkGraph of the resolved links between documents."""

    def __init__(self, catalog: MemoryCatalog) -> None:
        at = {document.path: DocumentId(n) for n, document in enumerate(catalog.documents)}
        edges = {
            (DocumentId(n), at[link.resolved])
            for n, document in enumerate(catalog.parsed)
            for link in document.links
            if link.resolved in at
        }
        self._edges = sorted((a, b) for a, b in edges if a != b)

    def outgoing(self, document: DocumentId) -> tuple[DocumentId, ...]:
        return tuple(b for a, b in self._edges if a == document)

    def incoming(self, document: DocumentId) -> tuple[DocumentId, ...]:
        return tuple(a for a, b in self._edges if b == document)


class MemoryKeywordIndex:
    """KeywordIndex that scans every text for each query.

    Instead of stemming, it removes the plural "s". A score combines word counts, field weights and
    idf, without length normalization.
    """

    def __init__(self, catalog: MemoryCatalog) -> None:
        self._catalog = catalog
        self.languages = frozenset(
            {parsed.document.language for parsed in catalog.parsed} & INFLECTED_LANGUAGES
        )
        self._chunks = [
            _fields(parsed.document, (chunk,))
            for parsed in catalog.parsed
            for chunk in parsed.chunks
        ]
        self._documents = [_fields(parsed.document, parsed.chunks) for parsed in catalog.parsed]

    def search(
        self,
        terms: Sequence[Term],
        weights: KeywordWeights,
        limit: int,
        within: Selection | None = None,
    ) -> RankedList:
        phrases = [term.text for term in terms if term.phrase]
        allowed = [
            n
            for n in self._catalog.every_nth(1, within)
            if all(_holds_phrase(self._chunks[n], text, PHRASE_FIELDS) for text in phrases)
        ]
        hits = []
        for n, (score, share) in _scores(self._chunks, terms, weights).items():
            if n in allowed and score > 0:
                full = score * (1 - weights.coverage + weights.coverage * share)
                hits.append(Hit(ChunkId(n), self._catalog.document_of(ChunkId(n)), 0, full, share))
        hits.sort(key=lambda hit: (-hit.score, hit.chunk))
        best = {hit.document: hit.score for hit in reversed(hits)}
        whole = _scores(self._documents, terms, weights)
        scores = {n: score + whole[n][0] for n, score in best.items()}
        return RankedList(
            tuple(replace(hit, rank=rank) for rank, hit in enumerate(hits[:limit], 1)), scores
        )

    def chunks_with_all_words(self, text: str, fields: Collection[str]) -> Selection:
        text_words = [text] if "code" in fields else [_singular(word) for word in words(text)]
        holds = [
            bool(text_words)
            and all(any(word in fields_of_chunk[name] for name in fields) for word in text_words)
            for fields_of_chunk in self._chunks
        ]
        return self._catalog.selection(holds)

    def chunks_with_phrase(self, text: str, fields: Collection[str] = PHRASE_FIELDS) -> Selection:
        return self._catalog.selection(
            [_holds_phrase(in_chunk, text, fields) for in_chunk in self._chunks]
        )

    def chunk_frequency(self, word: str) -> int:
        return sum(word in fields["code"] for fields in self._chunks)

    def phrase_frequency(self, text: str) -> int:
        form = [_singular(word) for word in words(text)]
        return sum(
            any(_occurrences(form, fields[name]) for name in PHRASE_FIELDS)
            for fields in self._chunks
        )

    def lexicon(self, lengths: range) -> Collection[str]:
        return {
            word
            for fields in self._chunks
            for word in fields["code"]
            if word.isalpha() and len(word) in lengths
        }


class NoDuplicates(Duplicates):
    """The Duplicates of an index that has none."""

    def repeats(self, within: Selection | None = None) -> None:
        """Return None: no chunk repeats another."""

    def shared(self) -> None:
        """Return None: no text stands in many documents."""

    def salience(self, chunks: Sequence[ChunkId]) -> Salience:
        return np.full(len(chunks), 0.5)

    def copies(self, chunk: ChunkId) -> tuple[()]:
        return ()

    def verdict(self, first: ChunkId, second: ChunkId) -> None:
        """Return None: the two chunks are not duplicates."""


def memory_snapshot(
    documents: Sequence[ParsedDocument],
    embedder: Embedder | None = None,
    pending: Sequence[str] = (),
) -> Snapshot:
    """Return an in-memory snapshot.

    If there is an embedder, all chunks have vectors, except those of documents at `pending` paths.
    """
    catalog = MemoryCatalog(documents)
    texts = [
        embedded_text(chunk.heading_path, chunk.text)
        for parsed in catalog.parsed
        for chunk in parsed.chunks
    ]
    if embedder is None:
        matrix = np.full((len(texts), 1), np.nan, dtype=np.float32)
    else:
        matrix = embedder.embed_passages(texts)
    for n in range(len(texts)):
        if catalog.documents[catalog.document_of(ChunkId(n))].path in pending:
            matrix[n] = np.nan
    graph, keyword = MemoryLinkGraph(catalog), MemoryKeywordIndex(catalog)
    vectors = MemoryVectorIndex(catalog, matrix)
    return Snapshot(1, catalog, keyword, vectors, graph, None, NoDuplicates())


_KINDS = {"```": BlockKind.CODE, "|": BlockKind.TABLE, "- ": BlockKind.LIST}


def document(
    path: str, markdown: str, *, links: Sequence[str] = (), **facts: Any
) -> ParsedDocument:
    """Parse simple Markdown: one section per heading, one chunk per block.

    `links` are the paths that the document links to, and `facts` other fields of `Document`.
    """
    lines = markdown.splitlines()
    title = facts.pop("title", "") or next(
        (line[2:] for line in lines if line.startswith("# ")),
        path.rpartition("/")[2].partition(".")[0],
    )
    sections: list[Section] = []
    chunks: list[Chunk] = []
    heading: tuple[str, ...] = (title,)
    starts = [n for n, line in enumerate(lines, 1) if line.startswith("#") or n == 1]
    for ordinal, (start, after) in enumerate(
        zip(starts, [*starts[1:], len(lines) + 1], strict=True)
    ):
        level = len(lines[start - 1]) - len(lines[start - 1].lstrip("#"))
        heading = (
            (*heading[: max(level - 1, 1)], lines[start - 1].lstrip("# "))
            if level > 1
            else (title,)
        )
        sections.append(Section(ordinal, start, after - 1, "\n".join(lines[start - 1 : after - 1])))
        for first, block in _blocks(lines[start - 1 : after - 1], start):
            kind = next(
                (kind for start, kind in _KINDS.items() if block[0].startswith(start)),
                BlockKind.PROSE,
            )
            language = block[0].strip("`").strip() if kind is BlockKind.CODE else ""
            text, last = "\n".join(block), first + len(block) - 1
            chunks.append(
                Chunk(len(chunks), ordinal, kind, heading, first, last, text, language=language)
            )
    document_links = tuple(
        Link(LinkKind.WIKILINK, target, "", target, 1, target) for target in links
    )
    return ParsedDocument(
        Document(path, title, **facts), tuple(sections), tuple(chunks), document_links
    )


def _blocks(lines: Sequence[str], start: int) -> list[tuple[int, list[str]]]:
    blocks: list[tuple[int, list[str]]] = []
    for n, line in enumerate(lines, start):
        if not line or line.startswith("#"):
            continue
        if blocks and blocks[-1][0] + len(blocks[-1][1]) == n:
            blocks[-1][1].append(line)
        else:
            blocks.append((n, [line]))
    return blocks


def _passes(document: Document, filters: Filters) -> bool:
    globs = [glob if glob.startswith(("/", "*")) else f"/{glob}" for glob in filters.path]
    tags = [tag.lstrip("#") for tag in filters.tag]
    return (
        (not filters.folder or document.folder in filters.folder)
        and document.path not in filters.without
        and (not globs or GitIgnoreSpec.from_lines(globs).match_file(document.path))
        and all(
            any(f"{fold(tag)}/".startswith(f"{fold(filter_tag)}/") for tag in document.tags)
            for filter_tag in tags
        )
        and all(meets(document.properties, condition.as_typed) for condition in filters.where)
        and (
            filters == replace(filters, since=None, until=None)
            or _is_between(day_of(document), filters)
        )
    )


def _meets(document: Document, condition: TypedFilter) -> bool:
    if condition.field == "property":
        return meets(document.properties, condition.condition)
    value, path = fold_line(condition.value), fold_line(document.path)
    if condition.field == "tag":
        return any(f"{fold(tag)}/".startswith(f"{value}/") for tag in document.tags)
    if condition.field == "title":
        return any(
            f" {' '.join(words(condition.value))} " in f" {' '.join(words(name))} "
            for name in (document.title, *document.aliases)
        )
    path = path.rpartition("/")[2] if condition.field == "file" else path
    return fnmatchcase(path, value) if "*" in value else value.removeprefix("./") in path


def _is_between(day: date | None, filters: Filters) -> bool:
    return day is not None and (filters.since or day) <= day <= (filters.until or day)


def _fields(document: Document, chunks: Sequence[Chunk]) -> dict[str, list[str]]:
    texts = {
        "title": document.title,
        "headings": "\n".join(heading for chunk in chunks for heading in chunk.heading_path[1:]),
        "keywords": "\n".join(document.keywords),
        "description": document.description,
        "tags": "\n".join(document.tags),
        "aliases": "\n".join(document.aliases),
        "author": f"{document.author}\n{document.category}\n{document.type}",
        "path": document.path.rpartition(".")[0],
        "body": "\n".join(strip_markup(chunk.text) for chunk in chunks),
    }
    names = [name for chunk in chunks for name in identifiers(chunk.text)]
    code = [word for name, parts in names for word in (name, *parts) if word not in STOP_WORDS]
    # single CJK characters are at the end, so that no phrase matches across them
    characters = {
        name: [word for word in words_with_positions(text)[0] if len(word) == 1 and has_cjk(word)]
        for name, text in texts.items()
    }
    return {
        **{name: [*map(_singular, words(text)), *characters[name]] for name, text in texts.items()},
        **{f"exact {name}": [*words(text), *characters[name]] for name, text in texts.items()},
        "code": code,
    }


def _singular(word: str) -> str:
    return re.sub(r"(?<=[^s])s$", "", word) if len(word) > 3 else word


def _holds_phrase(chunk: Mapping[str, list[str]], text: str, fields: Collection[str]) -> bool:
    phrase = words(text)
    return any(_occurrences(phrase, chunk[f"exact {name}"]) for name in fields)


def _scores(
    units: Sequence[Mapping[str, list[str]]], terms: Sequence[Term], weights: KeywordWeights
) -> dict[int, tuple[float, float]]:
    """Return each matching unit's score, and its terms' share of the total idf."""
    scores: dict[int, tuple[float, float]] = {}
    total_idf = 0.0

    def form_of(text: str) -> list[str]:
        return [text] if "code" in weights.fields else [_singular(word) for word in words(text)]

    for term in terms:
        for word in dict.fromkeys(form_of(term.text)):
            counts = _weighted_counts(units, [word], weights)
            for form in term.forms:
                form_counts = _weighted_counts(units, form_of(form.text), weights)
                counts = [
                    own + form.weight * more for own, more in zip(counts, form_counts, strict=True)
                ]
            frequency = sum(count > 0 for count in counts)
            idf = term.weight * log(1 + (len(units) - frequency + 0.5) / (frequency + 0.5))
            total_idf += idf
            for n in (n for n, count in enumerate(counts) if count):
                score, share = scores.get(n, (0.0, 0.0))
                scores[n] = (
                    score + idf * counts[n] / (counts[n] + 1),
                    share + idf,
                )
    return {n: (score, share / total_idf) for n, (score, share) in scores.items()}


def _weighted_counts(
    units: Sequence[Mapping[str, list[str]]], form: list[str], weights: KeywordWeights
) -> list[float]:
    return [
        sum(boost * _occurrences(form, unit[name]) for name, boost in weights.fields.items())
        for unit in units
    ]


def _occurrences(form: list[str], text: list[str]) -> int:
    return sum(text[at : at + len(form)] == form for at in range(len(text) - len(form) + 1))
