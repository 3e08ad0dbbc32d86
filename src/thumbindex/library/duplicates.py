"""Duplicates: repeats inside a document, near copies across documents, and what the owner decides
about them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain, combinations
from typing import Any

import numpy as np

from thumbindex.compare.differences import judge, kept_apart
from thumbindex.compare.tokens import reading
from thumbindex.errors import StorageError, UsageError
from thumbindex.index.duplicate_tables import Alike, DuplicateFindings, DuplicateTables
from thumbindex.index.duplicates import clusters
from thumbindex.index.snapshot import stored_vectors
from thumbindex.index.store import Store, document_from_row
from thumbindex.index.vectors import VectorView, highest
from thumbindex.index.writer import Writer
from thumbindex.library.embedding import groups
from thumbindex.library.folders import Folder
from thumbindex.library.reader import Reader
from thumbindex.model import (
    BlockKind,
    Chunk,
    Cluster,
    Decision,
    DuplicatesFound,
    IngestionCounts,
    Lapsed,
    Place,
    Standing,
    Verdict,
    day_of,
    iso_day,
)
from thumbindex.ports import Matrix, Vector
from thumbindex.query.copies import are_of_two_days
from thumbindex.query.parents import owner_of
from thumbindex.settings import IndexSettings, IngestSettings
from thumbindex.text import plural, text_key, visible, words

_LOG = logging.getLogger(__name__)

# ------------------------------------------------------------------ repeats inside a document

SEGMENTS_AT_ONCE = 256
"""Segments that are compared with all kept ones at once: a page of fifty thousand takes 50 MB
so.
"""

SEGMENTS_A_STEP = 32
"""Segments of these that are judged at once, in some hundredths of a second."""

JUDGED = 5
"""Kept segments that one is judged against, the nearest first."""

MOST_JUDGED = 10_000
"""Pairs that are judged of one kind of segment in a document: a log of ten thousand lines that
differ in a number is read in some ten seconds.

Beyond that only equal texts are repeats, and others stay.
"""

_NUMBERED = re.compile(r"(?<!\w)\w*\d[\w.]*")

Repeat = tuple[int, int, bool]
"""A segment that is left out, the one that says it, and whether they are equal byte for byte:
boilerplate, which boosts nothing.
"""

Boost = tuple[int, float, float]
"""A segment, how much its salience is raised, and to what."""


def ingest(
    chunks: Mapping[int, Chunk], vectors: Mapping[int, Vector], settings: IngestSettings
) -> Generator[None, None, tuple[list[Repeat], list[Boost]]]:
    """Find the repeats among the segments of one document, and what they boost; the most salient
    one is kept, and one without a vector.

    It yields where something else may come first.
    """
    kinds: dict[tuple[str, str], list[int]] = defaultdict(list)
    for n in sorted(chunks, key=lambda n: (-chunks[n].salience, chunks[n].ordinal)):
        if n in vectors and chunks[n].salience >= settings.least_salience:
            kinds[chunks[n].kind, chunks[n].language.casefold()].append(n)
    several = [order for order in kinds.values() if len(order) > 1 and settings.enabled]
    repeats: list[Repeat] = []
    for order in several:
        repeats += yield from _repeats(order, chunks, vectors, settings.similarity)
    repeats.sort()
    # texts that repeat one count once each, however often they stand there
    near: dict[int, set[bytes]] = defaultdict(set)
    for segment, keeper, exact in repeats:
        if not exact:
            near[keeper].add(text_key(chunks[segment].text))
    boosts = []
    for keeper, texts in sorted(near.items()):
        if boost := boost_of(len(texts), settings):
            # which is never worth less for being repeated, whatever the cap
            salience = chunks[keeper].salience
            boosts.append(
                (keeper, boost, max(salience, min(settings.most_salience, salience + boost)))
            )
    return repeats, boosts


def boost_of(near: int, settings: IngestSettings) -> float:
    """Return the boost of a segment that so many others repeat in other words: logarithmic, linear
    or none.
    """
    if settings.boost == "off" or not near:
        return 0.0
    return settings.base * (math.log2(1 + near) if settings.boost == "logarithmic" else near)


def _repeats(
    order: Sequence[int],
    chunks: Mapping[int, Chunk],
    vectors: Mapping[int, Vector],
    similarity: float,
) -> Generator[None, None, list[Repeat]]:
    """Go through segments of one kind, the most salient first: each repeats a kept one of the same
    text, else the nearest that says the same.
    """
    repeats: list[Repeat] = []
    kept: list[int] = []
    judged = 0
    by_text: dict[tuple[str, ...], list[int]] = defaultdict(list)  # positions in `kept`
    earlier: list[Matrix] = []  # the vectors of those that are kept, block by block
    for block in groups(order, SEGMENTS_AT_ONCE):
        matrix = np.stack([vectors[n] for n in block])
        among = matrix @ matrix.T
        before = matrix @ np.concatenate(earlier).T if earlier else among[:, :0]
        stayed: list[int] = []  # positions in the block
        for at, n in enumerate(block):
            if at % SEGMENTS_A_STEP == 0:
                yield
            cosines = np.concatenate([before[at], among[at, stayed]])
            same = by_text[chunks[n].text, *_numbers(chunks[n])]
            keeper = next((kept[k] for k in same if cosines[k] >= similarity), None)
            if keeper is None and judged < MOST_JUDGED:
                near = np.flatnonzero(highest(cosines[np.newaxis], similarity, JUDGED))
                nearest = near[np.argsort(-cosines[near], kind="stable")][:JUDGED].tolist()
                judged += len(nearest)
                keeper = next(
                    (kept[k] for k in nearest if _says_the_same(chunks[kept[k]], chunks[n])), None
                )
            if keeper is None:
                same.append(len(kept))
                kept.append(n)
                stayed.append(at)
            else:
                repeats.append((n, keeper, chunks[n].text == chunks[keeper].text))
        earlier.append(matrix[stayed])
    return repeats


def _says_the_same(keeper: Chunk, other: Chunk) -> bool:
    """Tell whether a segment may be left out for another one: it has no word of its own, since
    nobody would find that any more.
    """
    return (
        Counter(reading(other.text).stems) <= Counter(reading(keeper.text).stems)
        and _numbers(keeper) == _numbers(other)
        and kept_apart(keeper, other) is None
    )


def _numbers(chunk: Chunk) -> list[str]:
    """Return what has digits in the headings above a segment: the same words under "5.1" and "7.6"
    are two facts.
    """
    return _NUMBERED.findall(" ".join(chunk.heading_path))


# ------------------------------------------------------------------ counts of repeats

MOST_RATIO, MOST_BOOST = 0.50, 0.60
"""Above these something is wrong: generated pages, or a text that says one thing over and over.

Healthy are 0.10 to 0.40, and 0.05 to 0.20.
"""


def counted(found: Mapping[str, tuple[int, int, Sequence[float]]]) -> tuple[IngestionCounts, ...]:
    """Return the counts by type of document, given the number of segments, that of repeats, and the
    boosts.
    """
    return tuple(
        IngestionCounts(
            kind,
            segments,
            repeats,
            len(boosts),
            sum(boosts) / len(boosts) if boosts else 0.0,
            max(boosts, default=0.0),
        )
        for kind, (segments, repeats, boosts) in sorted(found.items())
    )


def ingestion_total(counts: Sequence[IngestionCounts]) -> IngestionCounts:
    """Return the counts of all types together; its type is `all`."""
    boosted = sum(each.boosted for each in counts)
    mean = sum(each.mean_boost * each.boosted for each in counts) / boosted if boosted else 0.0
    most = max((each.most_boost for each in counts), default=0.0)
    return IngestionCounts(
        "all",
        sum(each.segments for each in counts),
        sum(each.repeats for each in counts),
        boosted,
        mean,
        most,
    )


def ingestion_words(counts: IngestionCounts) -> str:
    """Say what was left out in one line."""
    repeat = (
        "only repeats another one of its note and is"
        if counts.repeats == 1
        else "only repeat others of their notes and are"
    )
    return (
        f"{counts.repeats:,} of {plural(counts.segments, 'chunk')} {repeat} left out of the search"
    )


def ingestion_warnings(counts: IngestionCounts) -> tuple[str, ...]:
    """Say what is more than is healthy, each in a sentence that ends with what to do."""
    of = f" of type {counts.type!r}" if counts.type not in {"", "all"} else ""
    found = []
    if _ratio(counts) > MOST_RATIO:
        found.append(
            f"{_ratio(counts):.0%} of the chunks of notes{of} repeat others of their note, more "
            "than half: "
            "generated pages? Raise index.ingest.similarity, or leave them out with corpus.exclude."
        )
    if counts.most_boost > MOST_BOOST:
        found.append(
            f"A chunk of a note{of} is raised by {counts.most_boost:.2f}, more than "
            f"{MOST_BOOST:.2f}: "
            "lower index.ingest.base, or see what repeats it."
        )
    return tuple(found)


def _ratio(counts: IngestionCounts) -> float:
    return counts.repeats / counts.segments if counts.segments else 0.0


# ------------------------------------------------------------------ near copies across documents

SPARE = 251
"""Near chunks that are looked at beside the nearest ones that are wanted: some are of the same
document, or gone.

A page whose own chunks come before all others has its copies found when those are looked at.
"""

QUERIES_AT_ONCE = 128
"""Chunks whose nearest ones are looked for at once, in a tenth of a second where there are
100,000.
"""

CHUNKS_A_STEP = 256
"""Chunks that are loaded at once, and whose words are looked up."""

PAIRS_A_STEP, PAIRS_A_COMMIT = 64, 1000
"""Pairs that are judged, and kept, at once, in some hundredths of a second."""

KEPT_VIEWS = 4
"""Folders whose vectors stay in memory between two edits."""

ChunkDocuments = dict[int, int]
"""Chunks' row ids with their documents'."""


@dataclass(slots=True)
class _Nearby:
    """The vectors of one folder's chunks, kept in memory between two edits."""

    identity: tuple[int, int, str]  # the store's file, and the model
    view: VectorView
    last: int  # up to here it holds all
    gone: set[int] = field(default_factory=set)  # rows that it should not hold any more


_views: dict[str, _Nearby] = {}
_guard = threading.Lock()


def _identity(store: Store) -> tuple[int, int]:
    """Return what tells the file of a store from every other one that comes to its path while it is
    open.
    """
    facts = store.path.stat()
    return facts.st_dev, facts.st_ino


@contextmanager
def _nearby(store: Store, fingerprint: str, last: int) -> Iterator[_Nearby]:
    """Give the vectors of a folder's chunks up to a row: those of the last time with what came
    since, else those of its file.
    """
    identity = (*_identity(store), fingerprint)
    with _guard:
        near = _views.pop(str(store.path), None)  # nobody else has them meanwhile
    if near is None or near.identity != identity or near.last > store.last_row:
        near = _Nearby(identity, stored_vectors(store), last)
    gone = np.array(sorted(near.gone), dtype=np.int64)
    near.gone.clear()
    new = np.array([row for row, _ in store.documents_between(near.last, last)], dtype=np.int64)
    lacking = np.setdiff1d(new, np.setdiff1d(near.view.rows(), gone)).tolist()
    near.view = near.view.changed(gone, *store.chunk_matrix(lacking))
    near.last = max(near.last, last)
    try:
        yield near
    finally:
        with _guard:
            _views[str(store.path)] = near
            while len(_views) > KEPT_VIEWS:
                del _views[next(iter(_views))]


@dataclass(slots=True)
class _Comparison:
    """Compares chunks with those of their document and with their nearest ones elsewhere, each pair
    once.
    """

    store: Store
    settings: IndexSettings
    near: _Nearby
    pairs: set[tuple[int, int]] = field(default_factory=set)  # that were compared

    def compare(
        self, rows: ChunkDocuments, again: ChunkDocuments, mark: str
    ) -> Generator[None, None, DuplicateFindings]:
        """Compare new chunks, and those that are to be compared again, with what the store holds;
        yield where something else may come first.
        """
        chunks, plain = dict[int, Chunk](), dict[int, bytes]()
        for part in groups([*rows, *again], CHUNKS_A_STEP):
            chunks.update(loaded := self.store.chunks(part))
            plain.update(
                (row, digest) for row, chunk in loaded.items() if (digest := _plain_digest(chunk))
            )
            yield
        own = {row: document for row, document in rows.items() if row in chunks}
        repeats, boosts = list[Repeat](), list[Boost]()
        if self.settings.ingest.enabled:
            vectors = self.store.chunk_vectors(list(own))
            documents: dict[int, dict[int, Chunk]] = defaultdict(dict)
            for row, document in own.items():
                documents[document][row] = chunks[row]
            for segments in documents.values():
                found = yield from ingest(segments, vectors, self.settings.ingest)
                repeats += found[0]
                boosts += found[1]
        left_out = {row for row, *_ in repeats}
        searched = {
            row: document
            for row, document in {**own, **again}.items()
            if row in chunks and row not in left_out
        }
        alike: list[Alike] = []
        if self.settings.duplicates.enabled:
            alike = yield from self._alike(searched, chunks, plain)
        digests = [(row, text_key(chunks[row].text), plain.get(row, b"")) for row in own]
        return DuplicateFindings(mark, digests, repeats, boosts, alike, list(again))

    def _alike(
        self, own: ChunkDocuments, chunks: Mapping[int, Chunk], plain: Mapping[int, bytes]
    ) -> Generator[None, None, list[Alike]]:
        """Return the pairs of these chunks and chunks of other documents that are one text twice or
        in the grey zone.
        """
        vectors, pairs = self.store.chunk_vectors(list(own)), set[tuple[int, int]]()
        same = defaultdict[bytes, list[int]](list)
        rows = [row for row in own if row in vectors]
        parts = chain(
            (
                self._of_the_same_words(part, own, plain, same)
                for part in groups(list(own), CHUNKS_A_STEP)
            ),
            (self._nearest(part, own, vectors) for part in groups(rows, QUERIES_AT_ONCE)),
        )
        for part in parts:
            yield
            pairs.update((min(pair), max(pair)) for pair in part)
        pairs -= self.pairs
        # what is in a later block comes again there; of earlier ones nothing does but what comes
        # from the other side
        newest = max(own, default=0)
        self.pairs = {pair for pair in self.pairs | pairs if pair[1] > newest}
        texts, found = dict(chunks), list[Alike]()
        for judged in groups(sorted(pairs), PAIRS_A_STEP):
            yield
            others = sorted({row for pair in judged for row in pair} - texts.keys())
            texts.update(self.store.chunks(others))
            vectors.update(self.store.chunk_vectors(others))
            found += self._judged(judged, texts, vectors)
        return found

    def _judged(
        self,
        pairs: Sequence[tuple[int, int]],
        texts: Mapping[int, Chunk],
        vectors: Mapping[int, Vector],
    ) -> Iterator[Alike]:
        for a, b in pairs:
            # a list of what reference links mean is no text
            if a in texts and b in texts and reading(texts[a].text).tokens:
                # in double precision it is the same whatever else was compared with them
                cosine = (
                    round(float(vectors[a].astype(np.float64) @ vectors[b].astype(np.float64)), 6)
                    if a in vectors and b in vectors
                    else None
                )
                verdict = judge(texts[a], texts[b], cosine, self.settings.duplicates)
                if verdict.zone != "distinct":
                    yield a, b, cosine or 0.0, verdict.zone, verdict.rule, verdict.differs

    def _nearest(
        self, rows: Sequence[int], own: ChunkDocuments, vectors: Mapping[int, Vector]
    ) -> Iterator[tuple[int, int]]:
        """Yield each of some chunks with its nearest ones of other documents, as far as they may be
        one text or grey.
        """
        wanted = self.settings.duplicates.nearest
        at, found, _ = self.near.view.near(
            np.stack([vectors[row] for row in rows]), self.settings.duplicates.grey, wanted + SPARE
        )
        near = np.unique(found).tolist()
        documents = self.store.documents_of(near)
        self.near.gone.update(row for row in near if row not in documents)
        repeated = self.store.duplicates.repeats_among(list(documents))
        taken: Counter[int] = Counter()
        for row, other in zip((rows[n] for n in at.tolist()), found.tolist(), strict=True):
            if (
                taken[row] < wanted
                and other in documents
                and other not in repeated
                and documents[other] != own[row]
            ):
                taken[row] += 1
                yield row, other

    def _of_the_same_words(
        self,
        rows: Sequence[int],
        own: ChunkDocuments,
        plain: Mapping[int, bytes],
        same: defaultdict[bytes, list[int]],
    ) -> Iterator[tuple[int, int]]:
        """Yield each of some chunks with the newest ones of other documents that have the same
        words: copies under other headings.

        `same` has those of our own that came before, by their words.
        """
        wanted = self.settings.duplicates.nearest
        for row in rows:
            if row in plain:
                here = [other for other in same[plain[row]] if own[other] != own[row]]
                there = self.store.duplicates.rows_of_words(plain[row], own[row], wanted)
                yield from (
                    (row, other) for other in sorted({*here, *there}, reverse=True)[:wanted]
                )
                same[plain[row]].append(row)


# ------------------------------------------------------------------ new chunks are compared

COMPARISON_VERSION = 7
"""Changes when the same chunks would be judged in another way: all are compared again."""

COMPARED_AT_ONCE = 1000
"""Chunks that are compared between two commits, whole documents: what an interruption may cost."""


def find_duplicates(folder: Folder) -> Iterator[None]:
    """Compare new chunks with each other and with the old ones, a group of documents at a time; the
    writer's lock is taken for commits alone.

    It yields, several times a second, where something else may come first; whoever stops there
    loses the group at hand. It yields nothing where nothing is new.
    """
    settings = folder.config.index
    with closing(Store(folder.places.store, read_only=True)) as store:
        if not (fingerprint := store.meta("fingerprint")):
            return
        decisive = (
            COMPARISON_VERSION,
            fingerprint,
            replace(settings.ingest, log=True, metrics=True),
            settings.duplicates,
        )
        version = text_key(repr(decisive)).hex()
        with store.reading():
            before, _, row = (mark := store.meta("looked")).partition(" ")
            anew = before != version  # other settings or another model decided so far
            first = 0 if anew else int(row)
            # up to here all have vectors
            last = max(first, store.embedded_to if store.pending() else store.last_row)
            rows = dict(store.documents_between(first, last))
            # that have lost one that was alike
            again = {} if anew else store.documents_of(store.duplicates.lonely())
        again = {row: document for row, document in again.items() if row not in rows}
        if not (anew or rows or again):
            return
        segments, repeats, boosts = 0, 0, list[float]()
        try:
            decided = {digest for each in store.decisions() for digest in (each.first, each.second)}
        except StorageError as error:  # the owner's own file keeps nobody from looking
            _LOG.warning("%s", error)
            decided = set()
        own = _identity(store)

        def keep(change: Callable[[DuplicateTables], None]) -> bool:
            """Change what is known; tell whether that was done.

            Not where others have come further meanwhile, or the index was built anew.
            """
            with Writer.open(folder.places.folder) as writer, writer.store.transaction():
                is_ours = writer.store.meta("looked") == mark and _identity(writer.store) == own
                if is_ours:
                    change(writer.store.duplicates)
                return is_ours

        parts = list(by_document(rows)) or [{}]
        with _nearby(store, fingerprint, last) as near:
            comparison = _Comparison(store, settings, near)
            for n, part in enumerate(parts, 1):
                found = yield from comparison.compare(
                    part, again, f"{version} {last if n == len(parts) else max(part)}"
                )
                if anew:  # with a mark of its own: who began as we did meets another one
                    if not keep(partial(DuplicateTables.forget_findings, mark=f"{version} 0")):
                        break
                    anew, mark = False, f"{version} 0"
                for pairs in groups(found.alike, PAIRS_A_COMMIT):
                    keep(partial(DuplicateTables.put_alike, rows=pairs))
                    yield
                if not keep(partial(DuplicateTables.keep_findings, found=found, decided=decided)):
                    break
                segments, repeats = segments + len(part), repeats + len(found.repeats)
                boosts += [boost for _, boost, _ in found.boosts]
                again, mark = {}, found.mark
                yield
    (counts,) = counted({"": (segments, repeats, boosts)})
    if settings.ingest.log:
        if counts.repeats:
            _LOG.info("%s", ingestion_words(counts))
        for sentence in ingestion_warnings(counts):
            _LOG.warning("%s", sentence)


def by_document(rows: ChunkDocuments) -> Iterator[ChunkDocuments]:
    """Yield whole documents, as many as make up a group."""
    group: ChunkDocuments = {}
    for row, document in rows.items():
        if len(group) >= COMPARED_AT_ONCE and document != next(reversed(group.values())):
            yield group
            group = {}
        group[row] = document
    if group:
        yield group


def _plain_digest(chunk: Chunk) -> bytes:
    """Return a digest of a chunk's kind, language and words, by which a copy is found that stands
    under another heading; none without words.
    """
    found = chunk.text.split() if chunk.kind is BlockKind.CODE else words(visible(chunk.text))
    return text_key("\0".join((chunk.kind, chunk.language, *found))) if found else b""


# ------------------------------------------------------------------ clusters

ID_DIGITS = 8
"""Hex digits of a cluster's name: to be typed, and a million clusters seldom have two of one
name.
"""

_EACH_TWO = 50
"""Up to so many texts of a cluster are decided each two, whatever may be found later; of more,
which would be thousands, those that were found.
"""

Pair = tuple[str, str]
"""The digests of two texts, the lesser first."""


@dataclass(frozen=True, slots=True)
class _Link:
    """Two texts that are alike."""

    ends: Pair
    rows: frozenset[int]
    cosine: float
    zone: str
    rule: str
    differs: str


def _read_clusters(reader: Reader) -> tuple[list[Cluster], list[Decision], int]:
    """Read a folder's clusters, those of one text first, by where they stand, its lapsed decisions,
    and how many chunks it has.
    """
    store, name = reader.store, reader.folder.name
    with store.reading(), store.as_written():
        alike, decisions = (
            store.duplicates.alike(),
            {(each.first, each.second): each for each in store.decisions()},
        )
        documents = {row: document for row, document, _ in store.chunk_rows()}
        chunks = store.chunks(sorted({row for pair in alike for row in pair[:2]}))
        digests = {row: text_key(chunk.text).hex() for row, chunk in chunks.items()}
        wanted = {digest for pair in decisions for digest in pair} - set(digests.values())
        # all texts are read only where a decision is about one that is not among those at hand
        if wanted:
            for row, chunk in store.chunks(list(documents)).items():
                if (digest := text_key(chunk.text).hex()) in wanted:
                    chunks[row], digests[row] = chunk, digest
        links = _links(alike, decisions, digests)
        standing = sorted({row for link in links for row in link.rows})
        facts = store.documents(sorted({documents[row] for row in standing}))
        read = {
            row: document_from_row(path, title, times, rest, name)
            for row, path, title, times, rest in facts
        }
        standings = {}
        for row in standing:
            chunk, document = chunks[row], read[documents[row]]
            standings[row] = Standing(
                name,
                document.path,
                chunk.start_line,
                chunk.end_line,
                chunk.heading_path,
                chunk.text,
                digests[row],
                iso_day(day_of(document)),
                owner_of(document),
            )
    gone = wanted - set(digests.values())
    clusters = [_cluster_of(each, standings, decisions, name) for each in _grouped(links)]
    order = sorted(
        clusters,
        key=lambda each: (
            each.zone != "same",
            each.texts[0].path,
            each.texts[0].start_line,
            each.id,
        ),
    )
    return order, [each for pair, each in decisions.items() if gone & set(pair)], len(documents)


def _links(
    alike: Iterable[Alike], decisions: Iterable[Pair], digests: Mapping[int, str]
) -> list[_Link]:
    """Return what the index holds for alike, and what the owner decided of other texts: imported,
    or found by other settings.
    """
    found = []
    for a, b, cosine, zone, rule, differs in alike:
        if a in digests and b in digests:
            low, high = sorted((digests[a], digests[b]))
            found.append(_Link((low, high), frozenset((a, b)), cosine, zone, rule, differs))
    listed = {link.ends for link in found}
    rows: dict[str, set[int]] = {}
    for row, digest in digests.items():
        rows.setdefault(digest, set()).add(row)
    for ends in decisions:
        both = frozenset().union(*(rows.get(digest, ()) for digest in ends))
        if ends not in listed and len(both) > 1 and rows.keys() >= set(ends):
            found.append(_Link(ends, both, 0.0, "decided", "by the owner alone", ""))
    return found


def _grouped(links: Sequence[_Link]) -> list[list[_Link]]:
    """Group links: those of one text by what hangs together, of the others each two texts by
    themselves.
    """
    digests = sorted({digest for link in links for digest in link.ends})
    number = {digest: n for n, digest in enumerate(digests)}
    same = [[number[digest] for digest in link.ends] for link in links if link.zone == "same"]
    joined = clusters(same, {}, {})
    groups: dict[tuple[str, ...], list[_Link]] = defaultdict(list)
    for link in links:
        one, other = (joined.get(number[digest], [])[:1] for digest in link.ends)
        is_same = link.zone == "same" or (link.zone == "decided" and one and one == other)
        groups[("same", str(one)) if is_same else link.ends].append(link)
    return list(groups.values())


def _cluster_of(
    links: list[_Link],
    standings: Mapping[int, Standing],
    decisions: Mapping[Pair, Decision],
    folder: str,
) -> Cluster:
    first = min(links, key=lambda link: (link.cosine, link.ends))
    is_same = first.zone == "same"
    if is_same:
        key = f"same{min(digest for link in links for digest in link.ends)}"
    else:
        key = f"grey{''.join(first.ends)}"
    decided = {link.ends: decisions.get(link.ends) for link in links}
    made = [decision for decision in decided.values() if decision]
    verdicts = {decision.verdict for decision in made}
    verdict = made[0].verdict if len(made) == len(decided) and len(verdicts) == 1 else None
    rows = {row for link in links for row in link.rows}
    newest_first = sorted(
        (standings[row] for row in rows),
        key=lambda each: (each.date, each.path, each.start_line),
        reverse=True,
    )
    differences = [
        link.differs for link in links if link.differs and not _is_of_two_days(link, standings)
    ]
    return Cluster(
        hashlib.blake2b(key.encode(), digest_size=ID_DIGITS // 2).hexdigest(),
        folder,
        "same" if is_same else "grey",
        first.rule,
        "; ".join(dict.fromkeys(differences)),
        first.cosine,
        tuple(newest_first),
        tuple(sorted(decided)),
        verdict,
        made[0].note if verdict else "",
    )


def _is_of_two_days(link: _Link, standings: Mapping[int, Standing]) -> bool:
    return any(
        are_of_two_days(standings[a].path, standings[b].path)
        for a, b in combinations(sorted(link.rows), 2)
    )


def _pairs_of(cluster: Cluster) -> list[tuple[Pair, Pair]]:
    """Return the pairs of texts that a decision on a cluster is about, one that stands in several
    places with itself too, and where they stand.
    """
    first: dict[str, str] = {}
    for each in cluster.texts:
        first.setdefault(each.digest, f"{each.path}:{each.start_line}")
    each_two = combinations(sorted(first), 2) if len(first) <= _EACH_TWO else ()
    places = Counter(each.digest for each in cluster.texts)
    itself = (
        (digest, digest) for digest, count in places.items() if count > 1 and cluster.zone == "same"
    )
    return [((a, b), (first[a], first[b])) for a, b in sorted({*cluster.pairs, *each_two, *itself})]


# ------------------------------------------------------------------ what the owner sees and decides

EXPORT_VERSION = 1
"""Of the JSON that `export` writes."""


def all_duplicates(readers: Sequence[Reader], *, grey: bool) -> DuplicatesFound:
    """Return the clusters of some folders, with `grey` those too of which the owner has to decide,
    and what of the decisions has lapsed.
    """
    every: list[Cluster] = []
    lapsed: list[Lapsed] = []
    chunks = 0
    for reader in readers:
        clusters, gone, count = _read_clusters(reader)
        every += clusters
        for decision in gone:
            places = decision.first_place, decision.second_place
            lapsed.append(Lapsed(reader.folder.name, decision.verdict, decision.note, places))
        chunks += count
    merged, flagged = set[Place](), set[Place]()
    for each in every:
        # its texts come once in an answer
        if each.verdict == "same" or (each.zone == "same" and each.verdict is None):
            merged.update(map(_place, each.texts))
        elif each.zone == "grey" and each.verdict is None:
            flagged.update(map(_place, each.texts))
    return DuplicatesFound(
        tuple(each for each in every if grey or each.zone == "same" or each.verdict),
        tuple(lapsed),
        chunks,
        len(merged),
        len(flagged - merged),
    )


def _place(text: Standing) -> Place:
    return Place(text.folder, text.path, text.start_line, text.end_line)


class Decisions:
    """What the owner decides of copies in some folders, which are indexed."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = readers

    def decide(self, cluster: str, verdict: Verdict | None, note: str = "") -> Cluster:
        """Decide that all texts of a cluster, by its id, are the same or stay apart, or with None
        take back what was decided; return the cluster as it is then.

        Raises UsageError where there is nothing to take back.
        """
        readers = self._deciding()
        reader, found = _find_cluster(readers, cluster)
        pairs, now = _pairs_of(found), time.time()
        with Writer.open(reader.folder.places.folder) as writer:
            if verdict is not None:
                writer.decide(
                    [Decision(*pair, verdict, note, now, *places) for pair, places in pairs]
                )
            elif not writer.decide(dropped=[pair for pair, _ in pairs]):
                raise UsageError(
                    f"Cluster {found.id}: nothing was decided of it; `thumbindex duplicates "
                    "--grey` lists what is decided and what is not."
                )
        for each in readers:
            each.refresh()
        return next(each for each in (*_read_clusters(reader)[0], found) if each.id == found.id)

    def exported(self) -> dict[str, Any]:
        """Return all decisions, lapsed ones too, as JSON values."""
        readers = self._deciding()
        decisions = [asdict(each) for reader in readers for each in reader.store.decisions()]
        return {"version": EXPORT_VERSION, "decisions": decisions}

    def keep(self, exported: Any) -> int:
        """Keep decisions that were exported, over those about the same texts; return how many.

        Each goes to the folders that hold both texts; one about texts that no folder holds goes to
        all, and is listed as lapsed. Raises UsageError where one is no decision.
        """
        if (
            not isinstance(exported, dict)
            or exported.get("version") != EXPORT_VERSION
            or not isinstance(exported.get("decisions"), list)
        ):
            raise UsageError(
                f"This is no export of decisions of version {EXPORT_VERSION}: make one with "
                "`thumbindex duplicates export FILE`."
            )
        decisions = [_read_decision(each, n) for n, each in enumerate(exported["decisions"], 1)]
        texts = sorted({digest for each in decisions for digest in (each.first, each.second)})
        held = [
            (reader, set(reader.store.duplicates.rows_of_texts(texts).values()))
            for reader in self._deciding()
        ]
        nowhere = [
            each
            for each in decisions
            if not any({each.first, each.second} <= there for _, there in held)
        ]
        for reader, there in held:
            with Writer.open(reader.folder.places.folder) as writer:
                writer.decide(
                    (*(each for each in decisions if {each.first, each.second} <= there), *nowhere)
                )
            reader.refresh()
        return len(decisions)

    def _deciding(self) -> list[Reader]:
        """Return the folders whose decisions are kept here.

        Raises UsageError where there is none: those of a database are its builders'.
        """
        if self._readers and all(reader.is_published for reader in self._readers):
            raise UsageError(
                f"{self._readers[0].folder.name} is published from another place: decide there, "
                "and it is published with the decision."
            )
        return [reader for reader in self._readers if not reader.is_published]


def _find_cluster(readers: Sequence[Reader], name: str) -> tuple[Reader, Cluster]:
    """Find a cluster by its id, or by how it begins where no other does."""
    wanted = name.strip().casefold()
    found = [
        (reader, each)
        for reader in readers
        for each in _read_clusters(reader)[0]
        if wanted and each.id.startswith(wanted)
    ]
    if len(found) != 1:
        what = (
            f"begins several ({', '.join(each.id for _, each in found)}): give all of it"
            if found
            else "is not there (any more)"
        )
        raise UsageError(f"Cluster {name}: {what}; `thumbindex duplicates --grey` lists them.")
    return found[0]


def _read_decision(given: Any, number: int) -> Decision:
    try:
        read = Decision(**given)
        texts = (read.first, read.second, read.note, read.first_place, read.second_place)
        whole = (
            all(isinstance(text, str) for text in texts)
            and isinstance(read.made, int | float)
            and math.isfinite(read.made)
        )
        if not whole or read.verdict not in ("same", "apart") or not read.first <= read.second:
            raise ValueError(json.dumps(given)[:200])
        "".join(texts).encode()  # a lone surrogate can be kept nowhere
        bytes.fromhex(read.first + read.second)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"Decision {number} of the export cannot be read ({error}): nothing was imported; "
            "export again."
        ) from error
    return read
