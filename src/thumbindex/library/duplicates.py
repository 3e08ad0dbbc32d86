"""Duplicates: repeats inside a document, near copies across documents, and what the owner decides about them."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from thumbindex.compare.differences import judge, kept_apart, without_ending
from thumbindex.compare.tokens import reading
from thumbindex.corpus.parse import parse_document
from thumbindex.errors import StorageError, UsageError
from thumbindex.index.duplicate_tables import Alike, Looked
from thumbindex.index.duplicates import Clusters
from thumbindex.index.files import Places
from thumbindex.index.snapshot import stored_vectors
from thumbindex.index.store import Store, document_from_row
from thumbindex.index.vectors import VectorView
from thumbindex.index.writer import Writer
from thumbindex.library.folders import Folder
from thumbindex.library.reader import Reader
from thumbindex.model import BlockKind, Chunk, Cluster, Decision, DuplicatesFound, IngestionCounts, Judgement, Place, Standing, Verdict, day_of
from thumbindex.ports import Embedder, Matrix, Vector
from thumbindex.settings import Config, DuplicatesSettings, IndexSettings, IngestSettings
from thumbindex.text import embedded_text, text_key, visible, words

AT_ONCE = 256
"""Segments that are compared with all kept ones at once: a page of fifty thousand takes 50 MB so."""

JUDGED = 5
"""Kept segments that one is judged against, the nearest first: a log of ten thousand lines that differ in a number is read in seconds."""

MOST_RATIO, MOST_BOOST = 0.50, 0.60
"""Above these something is wrong: generated pages, or a text that says one thing over and over. Healthy are 0.10 to 0.40, and 0.05 to 0.20."""

_NUMBERED = re.compile(r"(?<!\w)\w*\d[\w.]*")


@dataclass(frozen=True, slots=True)
class Repeat:
    """A segment that is left out, by its position, and the one that says it."""

    segment: int
    keeper: int
    exact: bool  # byte for byte: boilerplate, which boosts nothing


@dataclass(frozen=True, slots=True)
class Boost:
    """How much a segment's salience is raised, and to what."""

    segment: int
    boost: float
    salience: float


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of one document's segments; all others are as they were."""

    repeats: tuple[Repeat, ...] = ()  # by position
    boosts: tuple[Boost, ...] = ()  # by position


@dataclass(slots=True)
class _Kept:
    """The segments of one kind and language that are kept so far, the most salient first."""

    segments: list[int] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    by_text: dict[tuple[str, ...], list[int]] = field(default_factory=dict)
    vectors: list[Matrix] = field(default_factory=list)

    def add(self, segment: int, chunk: Chunk) -> None:
        """Keep one more; its vector comes with its block's."""
        self.by_text.setdefault((chunk.text, *_numbers(chunk)), []).append(len(self.segments))
        self.segments.append(segment)
        self.chunks.append(chunk)

    def cosines(self, vectors: Matrix) -> Matrix:
        """Return the cosines of vectors with those of all that are kept."""
        return vectors @ np.concatenate(self.vectors).T if self.vectors else np.zeros((len(vectors), 0), dtype=np.float32)

    def keeper(self, chunk: Chunk, cosines: Vector, similarity: float) -> int | None:
        """Return which of them a segment repeats, if any: one of the same text, else the nearest one that no guard tells apart."""
        same = next((k for k in self.by_text.get((chunk.text, *_numbers(chunk)), ()) if cosines[k] >= similarity), None)
        if same is not None:
            return self.segments[same]
        near = np.flatnonzero(cosines >= similarity)
        nearest = near[np.argsort(-cosines[near], kind="stable")][:JUDGED].tolist()
        return next((self.segments[k] for k in nearest if _says_the_same(self.chunks[k], chunk)), None)


def ingest(chunks: Sequence[Chunk], matrix: Matrix, settings: IngestSettings) -> Ingested:
    """Find the repeats among the segments of one document, the most salient kept first; a row of NaN is a segment without a vector, and is kept."""
    if not settings.enabled or len(chunks) < 2:
        return Ingested()
    compared = np.array([chunk.salience >= settings.least_salience for chunk in chunks]) & ~np.isnan(matrix).any(axis=1)
    kinds: dict[tuple[str, str], list[int]] = {}
    for n in sorted(np.flatnonzero(compared).tolist(), key=lambda n: (-chunks[n].salience, chunks[n].ordinal)):
        kinds.setdefault((chunks[n].kind, chunks[n].language.casefold()), []).append(n)
    found = [repeat for order in kinds.values() if len(order) > 1 for repeat in _repeats(order, chunks, matrix, settings.similarity)]
    return Ingested(tuple(sorted(found, key=lambda repeat: repeat.segment)), tuple(_boosts(found, chunks, settings)))


def boost_of(near: int, settings: IngestSettings) -> float:
    """Return the boost of a segment that so many others repeat in other words: logarithmic, linear or none."""
    if settings.boost == "off" or not near:
        return 0.0
    return settings.base * (math.log2(1 + near) if settings.boost == "logarithmic" else near)


def _repeats(order: Sequence[int], chunks: Sequence[Chunk], matrix: Matrix, similarity: float) -> list[Repeat]:
    """Go through segments of one kind, the most salient first, and compare each with those that are kept by then."""
    found: list[Repeat] = []
    kept = _Kept()
    for start in range(0, len(order), AT_ONCE):
        block = order[start : start + AT_ONCE]
        vectors = matrix[block]
        earlier, among = kept.cosines(vectors), vectors @ vectors.T
        stayed: list[int] = []  # positions in the block
        for at, n in enumerate(block):
            keeper = kept.keeper(chunks[n], np.concatenate([earlier[at], among[at, stayed]]), similarity)
            if keeper is None:
                kept.add(n, chunks[n])
                stayed.append(at)
            else:
                found.append(Repeat(n, keeper, chunks[n].text == chunks[keeper].text))
        kept.vectors.append(vectors[stayed])
    return found


def _says_the_same(keeper: Chunk, other: Chunk) -> bool:
    """Tell whether a segment may be left out for another one: it has no word of its own, since nobody would find that any more."""
    mine, yours = ({without_ending(word) for word in reading(chunk.text).content} for chunk in (keeper, other))
    return yours <= mine and _numbers(keeper) == _numbers(other) and kept_apart(keeper, other) is None


def _numbers(chunk: Chunk) -> list[str]:
    """Return what has digits in the headings above a segment: the same words under "5.1" and "7.6" are two facts."""
    return _NUMBERED.findall(" ".join(chunk.heading_path))


def _boosts(repeats: Iterable[Repeat], chunks: Sequence[Chunk], settings: IngestSettings) -> list[Boost]:
    """Return what each keeper gains; texts that repeat it count once each, however often they stand there."""
    near: dict[int, set[bytes]] = {}
    for repeat in repeats:
        if not repeat.exact:
            near.setdefault(repeat.keeper, set()).add(text_key(chunks[repeat.segment].text))
    boosts = ((keeper, boost_of(len(texts), settings)) for keeper, texts in sorted(near.items()))
    # a segment is never worth less for being repeated, whatever the cap
    return [Boost(n, boost, max(chunks[n].salience, min(settings.most_salience, chunks[n].salience + boost))) for n, boost in boosts if boost]


# ------------------------------------------------------------------ counts


def counted(kinds: Mapping[str, int], repeats: Mapping[str, int], boosts: Mapping[str, Sequence[float]]) -> tuple[IngestionCounts, ...]:
    """Return the counts by type of document, of segments, repeats and boosts by type."""
    return tuple(
        IngestionCounts(kind, kinds[kind], repeats.get(kind, 0), len(raised), sum(raised) / len(raised) if raised else 0.0, max(raised, default=0.0))
        for kind in sorted(kinds)
        for raised in (boosts.get(kind, ()),)
    )


def total(counts: Sequence[IngestionCounts]) -> IngestionCounts:
    """Return the counts of all types together; its type is `all`."""
    boosted = sum(each.boosted for each in counts)
    mean = sum(each.mean_boost * each.boosted for each in counts) / boosted if boosted else 0.0
    most = max((each.most_boost for each in counts), default=0.0)
    return IngestionCounts("all", sum(each.segments for each in counts), sum(each.repeats for each in counts), boosted, mean, most)


def ratio(counts: IngestionCounts) -> float:
    """Return which share of the segments was left out, 0 to 1."""
    return counts.repeats / counts.segments if counts.segments else 0.0


def in_words(counts: IngestionCounts) -> str:
    """Say what was left out in one line."""
    boosts = f", {counts.boosted:,} boosted by {counts.mean_boost:.2f} on average, {counts.most_boost:.2f} at most" if counts.boosted else ""
    left = counts.segments - counts.repeats
    return f"deduplication: {counts.segments:,} -> {left:,} segments ({ratio(counts):.0%} repeat others of their document{boosts})"


def warnings(counts: IngestionCounts) -> tuple[str, ...]:
    """Say what is more than is healthy, each in a sentence that ends with what to do."""
    of = f" of type {counts.type!r}" if counts.type not in {"", "all"} else ""
    found = []
    if ratio(counts) > MOST_RATIO:
        found.append(
            f"{ratio(counts):.0%} of the segments of documents{of} repeat others of their document, more than half: "
            "generated pages? Raise index.ingest.similarity, or leave them out with corpus.exclude."
        )
    if counts.most_boost > MOST_BOOST:
        found.append(
            f"A segment of a document{of} is raised by {counts.most_boost:.2f}, more than {MOST_BOOST:.2f}: "
            "lower index.ingest.base, or see what repeats it."
        )
    return tuple(found)


ID_DIGITS = 8
"""Hex digits of a cluster's name: to be typed, and a million clusters seldom have two of one name."""

_EACH_TWO = 50
"""Up to so many texts of a cluster are decided each two, whatever may be found later; of more, which would be thousands, those that were found."""

Pair = tuple[str, str]
"""The digests of two texts, the lesser first."""


@dataclass(frozen=True, slots=True)
class FolderDuplicates:
    """What is known of duplicates in one folder."""

    clusters: tuple[Cluster, ...]
    lapsed: tuple[Decision, ...]
    chunks: int


@dataclass(frozen=True, slots=True)
class _Link:
    """Two texts that are alike."""

    ends: Pair
    rows: frozenset[int]
    cosine: float
    zone: str
    rule: str
    differs: str


def read_clusters(reader: Reader) -> FolderDuplicates:
    """Read a folder's clusters, those of one text first, by where they stand, and its lapsed decisions."""
    store, name = reader.store, reader.folder.name
    with store.reading():
        alike, decisions = store.duplicates.alike(), store.decisions()
        chunks = store.chunks(sorted({row for pair in alike for row in pair[:2]}))
        digests = {row: text_key(chunk.text).hex() for row, chunk in chunks.items()}
        lapsed, elsewhere = _lapsed(store, decisions, digests)
        links = _links(alike, digests)
        links += _decided_links(decisions, elsewhere | digests, links)
        rows = {row for link in links for row in link.rows}
        standings = _standings(store, rows, name)
        total = len(store.chunk_rows())
    verdicts = {(each.first, each.second): each for each in decisions}
    clusters = [_cluster_of(each, standings, verdicts, name) for each in _components(links)]
    order = sorted(clusters, key=lambda each: (each.zone != "same", each.standings[0].place.path, each.standings[0].place.start_line, each.id))
    return FolderDuplicates(tuple(order), lapsed, total)


def _links(alike: Iterable[Alike], digests: dict[int, str]) -> list[_Link]:
    found = []
    for a, b, cosine, zone, rule, differs in alike:
        if a in digests and b in digests:
            low, high = sorted((digests[a], digests[b]))
            found.append(_Link((low, high), frozenset((a, b)), cosine, zone, rule, differs))
    return found


def _decided_links(decisions: Sequence[Decision], digests: dict[int, str], links: Sequence[_Link]) -> list[_Link]:
    """Return what the owner decided of texts that the index does not hold for alike: imported, or found by other settings."""
    listed = {link.ends for link in links}
    rows: dict[str, set[int]] = {}
    for row, digest in digests.items():
        rows.setdefault(digest, set()).add(row)
    found = []
    for each in decisions:
        ends = (each.first, each.second)
        both = frozenset().union(*(rows.get(digest, ()) for digest in ends))
        if ends not in listed and len(both) > 1 and rows.keys() >= set(ends):
            found.append(_Link(ends, both, 0.0, "decided", "by the owner alone", ""))
    return found


def _components(links: Sequence[_Link]) -> list[list[_Link]]:
    """Group links: those of one text by what hangs together, of the others each two texts by themselves."""
    number = {digest: n for n, digest in enumerate(sorted({digest for link in links for digest in link.ends}))}
    same = [[number[digest] for digest in link.ends] for link in links if link.zone == "same"]
    clusters = Clusters(np.array(same, dtype=np.int64).reshape(-1, 2), {}, {})
    groups: dict[tuple[str, ...], list[_Link]] = {}
    for link in links:
        one, other = (clusters.of(number[digest])[:1] for digest in link.ends)
        if link.zone == "same" or (link.zone == "decided" and one and one == other):
            groups.setdefault(("same", str(one)), []).append(link)
        else:
            groups.setdefault(("grey", *link.ends), []).append(link)
    return list(groups.values())


def _cluster_of(links: list[_Link], standings: dict[int, Standing], verdicts: dict[Pair, Decision], folder: str) -> Cluster:
    first = min(links, key=lambda link: (link.cosine, link.ends))
    rows = {row for link in links for row in link.rows}
    zone = "same" if first.zone == "same" else "grey"
    key = min(digest for link in links for digest in link.ends) if zone == "same" else "".join(first.ends)
    decided = {link.ends: verdicts.get(link.ends) for link in links}
    made = [each for each in decided.values() if each]
    verdict = made[0].verdict if len(made) == len(decided) and len({each.verdict for each in made}) == 1 else None
    return Cluster(
        hashlib.blake2b(f"{zone}{key}".encode(), digest_size=ID_DIGITS // 2).hexdigest(),
        folder,
        "same" if zone == "same" else "grey",
        first.rule,
        "; ".join(dict.fromkeys(link.differs for link in links if link.differs)),
        first.cosine,
        tuple(sorted((standings[row] for row in rows), key=lambda each: (each.date, each.place.path, each.place.start_line), reverse=True)),
        tuple(sorted(decided)),
        verdict,
        made[0].note if verdict else "",
    )


def _standings(store: Store, rows: Iterable[int], folder: str) -> dict[int, Standing]:
    chunks = store.chunks(sorted(rows))
    of = {row: document for row, document, _ in store.chunk_rows() if row in chunks}
    facts = {
        row: document_from_row(path, title, modified, more, folder) for row, path, title, modified, more in store.documents(sorted(set(of.values())))
    }
    return {row: _stands(chunk, facts[of[row]].path, day_of(facts[of[row]]).isoformat(), folder) for row, chunk in chunks.items()}


def _stands(chunk: Chunk, path: str, day: str, folder: str) -> Standing:
    place = Place(folder, path, chunk.start_line, chunk.end_line)
    return Standing(place, chunk.heading_path, chunk.text, text_key(chunk.text).hex(), day)


def _lapsed(store: Store, decisions: Sequence[Decision], digests: dict[int, str]) -> tuple[tuple[Decision, ...], dict[int, str]]:
    """Return the decisions of which a text is nowhere any more, and where the texts of the others stand that the index holds for alike to none.

    All texts are read only where a decision is about one that is not among those at hand.
    """
    wanted = {digest for each in decisions for digest in (each.first, each.second)} - set(digests.values())
    if not wanted:
        return (), {}
    every = store.chunks([row for row, _, _ in store.chunk_rows()])
    elsewhere = {row: digest for row, chunk in every.items() if (digest := text_key(chunk.text).hex()) in wanted}
    gone = wanted - set(elsewhere.values())
    return tuple(each for each in decisions if each.first in gone or each.second in gone), elsewhere


def pairs_of(cluster: Cluster) -> list[tuple[Pair, Pair]]:
    """Return the pairs of texts that a decision on a cluster is about, one that stands in several places with itself too, and where they stand."""
    first: dict[str, str] = {}
    places = Counter(each.digest for each in cluster.standings)
    for each in cluster.standings:
        first.setdefault(each.digest, f"{each.place.path}:{each.place.start_line}")
    each_two = combinations(sorted(first), 2) if len(first) <= _EACH_TWO else ()
    itself = ((digest, digest) for digest, count in places.items() if count > 1 and cluster.zone == "same")
    return [((a, b), (first[a], first[b])) for a, b in sorted({*cluster.pairs, *each_two, *itself})]


def is_merged(cluster: Cluster) -> bool:
    """Tell whether the texts of a cluster come once in an answer."""
    return cluster.verdict == "same" or (cluster.zone == "same" and cluster.verdict is None)


def places_of(clusters: Iterable[Cluster]) -> frozenset[Place]:
    """Return the places in clusters, each once."""
    return frozenset(each.place for cluster in clusters for each in cluster.standings)


SPARE = 251
"""Near chunks that are looked at beside the nearest ones that are wanted: some are of the same document, or gone. A page whose own chunks
come before all others has its copies found when those are looked at."""

QUERIES_AT_ONCE = 1024
"""Chunks whose nearest ones are looked for at once: what it takes is some tens of megabytes, whatever the size of the index."""

KEPT_VIEWS = 4
"""Folders whose vectors stay in memory between two edits."""

Judge = Callable[[Chunk, Chunk, float | None, DuplicatesSettings], Judgement]


def plain_digest(chunk: Chunk) -> bytes | None:
    """Return a digest of a chunk's kind, language and words, by which a copy is found that stands under another heading; None without words."""
    found = chunk.text.split() if chunk.kind is BlockKind.CODE else words(visible(chunk.text))
    if not found:
        return None
    return text_key("\0".join((chunk.kind, chunk.language, *found)))


# ------------------------------------------------------------------ by vectors


@dataclass(slots=True)
class Nearby:
    """The vectors of one folder's chunks, kept in memory between two edits."""

    identity: tuple[int, int, str]  # the store's file, and the model
    view: VectorView
    last: int = 0  # up to here it holds all
    gone: set[int] = field(default_factory=set)  # rows that it should not hold any more

    def follow(self, store: Store, last: int) -> None:
        """Take in the chunks that came since, and drop those that were found to be gone."""
        self.view.remove(np.array(sorted(self.gone), dtype=np.int64))
        self.gone.clear()
        new = np.array([row for row, _ in store.documents_between(self.last, last)], dtype=np.int64)
        self.view.add(*store.chunk_matrix(np.setdiff1d(new, self.view.rows()).tolist()))
        self.last = max(self.last, last)

    def nearest(self, store: Store, own: Mapping[int, int], vectors: Mapping[int, Vector], wanted: int, least: float) -> Iterator[tuple[int, int]]:
        """Yield pairs of a chunk of `own` (row id to document's) and each of its nearest ones of other documents, of at least so high a cosine."""
        rows = [row for row in own if row in vectors]
        for start in range(0, len(rows), QUERIES_AT_ONCE):
            part = rows[start : start + QUERIES_AT_ONCE]
            at, found, _ = self.view.near(np.stack([vectors[row] for row in part]), least, wanted + SPARE)
            elsewhere = self._elsewhere(store, np.unique(found).tolist())
            taken = [0] * len(part)
            for n, other in zip(at.tolist(), found.tolist(), strict=True):
                if taken[n] < wanted and elsewhere.get(other, own[part[n]]) != own[part[n]]:
                    taken[n] += 1
                    yield part[n], other

    def _elsewhere(self, store: Store, rows: Sequence[int]) -> dict[int, int]:
        """Return the documents of chunks that may be paired; take note of those that are gone."""
        there = store.documents_of(rows)
        self.gone.update(row for row in rows if row not in there)
        repeated = store.duplicates.repeats_among(list(there))
        return {row: document for row, document in there.items() if row not in repeated}


_views: dict[str, Nearby] = {}
_guard = threading.Lock()


def nearby(store: Store, places: Places, fingerprint: str, last: int) -> Nearby:
    """Return the vectors of a folder's chunks up to a row: those of the last call with what came since, else those of its file."""
    facts = places.store.stat()
    identity = (facts.st_dev, facts.st_ino, fingerprint)
    with _guard:
        known = _views.pop(str(places.store), None)
    if known is None or known.identity != identity or known.last > store.last_row:
        known = Nearby(identity, stored_vectors(store), last)
    known.follow(store, last)
    return known


def keep_nearby(places: Places, known: Nearby) -> None:
    """Keep the vectors for the next edit; nobody else has them meanwhile."""
    with _guard:
        _views[str(places.store)] = known
        while len(_views) > KEPT_VIEWS:
            del _views[next(iter(_views))]


# ------------------------------------------------------------------ judged


@dataclass(slots=True)
class Comparison:
    """Compares chunks with their nearest ones, each pair once."""

    store: Store
    settings: DuplicatesSettings
    judge: Judge
    near: Nearby
    seen: set[tuple[int, int]] = field(default_factory=set)

    def alike(self, own: Mapping[int, int], chunks: Mapping[int, Chunk], plain: Mapping[int, bytes]) -> list[Alike]:
        """Return the pairs of chunks of `own` (row id to document's) and chunks of other documents that are one text twice or in the grey zone."""
        vectors = self.store.chunk_vectors(list(own))
        pairs = {(min(a, b), max(a, b)) for a, b in self._candidates(own, vectors, plain)} - self.seen
        # what is in a later block comes again there; of earlier ones nothing does but what comes from the other side
        self.seen = {pair for pair in self.seen | pairs if pair[1] > max(own, default=0)}
        others = sorted({row for pair in pairs for row in pair} - chunks.keys())
        texts = {**chunks, **self.store.chunks(others)}
        vectors.update(self.store.chunk_vectors(others))
        found = (self._judged(a, b, texts, vectors) for a, b in sorted(pairs) if a in texts and b in texts)
        return [pair for pair in found if pair is not None]

    def _candidates(self, own: Mapping[int, int], vectors: Mapping[int, Vector], plain: Mapping[int, bytes]) -> Iterator[tuple[int, int]]:
        yield from self.near.nearest(self.store, own, vectors, self.settings.nearest, self.settings.grey)
        same: dict[bytes, list[int]] = {}
        for row, document in own.items():
            if row in plain:
                here = [other for other in same.get(plain[row], ()) if own[other] != document]
                there = self.store.duplicates.rows_of_words(plain[row], document, self.settings.nearest)
                yield from ((row, other) for other in sorted({*here, *there}, reverse=True)[: self.settings.nearest])
                same.setdefault(plain[row], []).append(row)

    def _judged(self, first: int, second: int, texts: Mapping[int, Chunk], vectors: Mapping[int, Vector]) -> Alike | None:
        cosine = _cosine(vectors[first], vectors[second]) if first in vectors and second in vectors else None
        found = self.judge(texts[first], texts[second], cosine, self.settings)
        return None if found.zone == "distinct" else (first, second, cosine or 0.0, found.zone, found.rule, found.differs)


def _cosine(first: Vector, second: Vector) -> float:
    """Return the cosine of two stored vectors, the same whatever else was compared with them."""
    return round(float(first.astype(np.float64) @ second.astype(np.float64)), 6)


_LOG = logging.getLogger(__name__)

LOOKING_VERSION = 3
"""Changes when the same chunks would be judged in another way: all are looked at again."""

CHUNKS_AT_ONCE = 1000
"""Chunks that are looked at between two commits, whole documents, about a second's work: an interruption waits for no more."""

Rows = dict[int, int]
"""Chunks' row ids with their documents'."""


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be looked at."""

    settings: str  # a digest of what decides
    anew: bool  # other settings or another model decided so far
    rows: Rows
    again: Rows  # that have lost one that was alike
    last: int  # up to here all have vectors
    mark: str  # how far others had looked: where that is another one meanwhile, they go on


def look_at_new(folder: Folder, interrupted: Callable[[], bool] = lambda: False) -> None:
    """Find what is known of duplicates among new chunks, a group of documents at a time; the writer's lock is taken for commits alone."""
    with closing(Store(folder.places.store, read_only=True)) as store:
        fingerprint = store.meta("fingerprint")
        due = _due(store, folder.config.index, fingerprint) if fingerprint else None
        if due is None or not (due.anew or due.rows or due.again):
            return
        near = nearby(store, folder.places, fingerprint, due.last)
        comparison = Comparison(store, folder.config.index.duplicates, judge, near)
        try:
            done = _look(folder, store, due, comparison, interrupted)
        finally:
            keep_nearby(folder.places, near)
    if folder.config.index.ingest.log:
        report(done)


def report(counts: IngestionCounts) -> None:
    """Log what was left out of the search, if anything, and what of it is more than is healthy."""
    if counts.repeats:
        _LOG.info("%s", in_words(counts))
    for sentence in warnings(counts):
        _LOG.warning("%s", sentence)


def _due(store: Store, settings: IndexSettings, fingerprint: str) -> Due:
    wanted = _decisive(settings, fingerprint)
    with store.reading():
        known, _, row = (mark := store.meta("looked")).partition(" ")
        anew = known != wanted
        last = max(0 if anew else int(row), store.embedded_to if store.pending() else store.last_row)
        rows = dict(store.documents_between(0 if anew else int(row), last))
        again = {} if anew else store.documents_of(store.duplicates.lonely())
    return Due(wanted, anew, rows, {row: document for row, document in again.items() if row not in rows}, last, mark)


def _decisive(settings: IndexSettings, fingerprint: str) -> str:
    """Return a digest of what decides: whether it is told makes no difference."""
    decisive = (LOOKING_VERSION, fingerprint, replace(settings.ingest, log=True, metrics=True), settings.duplicates)
    return text_key(repr(decisive)).hex()


def _look(folder: Folder, store: Store, due: Due, comparison: Comparison, interrupted: Callable[[], bool]) -> IngestionCounts:
    segments, found, again, anew, mark = 0, list[Looked](), due.again, due.anew, due.mark
    groups = list(_by_document(due.rows))
    try:
        decided = {digest for each in store.decisions() for digest in (each.first, each.second)}
    except StorageError as error:  # the owner's own file keeps nobody from looking
        _LOG.warning("%s", error)
        decided = set()
    for rows in groups or [{}]:
        last = due.last if not groups or rows is groups[-1] else max(rows)
        looked = _look_at(store, rows, again, comparison, folder.config.index, f"{due.settings} {last}")
        with Writer.open(folder.places.folder) as writer, writer.store.transaction():
            if writer.store.meta("looked") != mark:
                break
            if anew:
                writer.store.duplicates.forget_looked()
            writer.store.duplicates.keep_looked(looked, decided)
        segments, again, anew, mark = segments + len(rows), {}, False, looked.mark
        found.append(looked)
        if interrupted():
            break
    boosts = [boost for looked in found for _, boost, _ in looked.boosts]
    return total(counted({"": segments}, {"": sum(len(looked.repeats) for looked in found)}, {"": boosts}))


def _by_document(rows: Rows) -> Iterator[Rows]:
    """Yield whole documents, as many as make up a group."""
    group: Rows = {}
    for row, document in rows.items():
        if len(group) >= CHUNKS_AT_ONCE and document != next(reversed(group.values())):
            yield group
            group = {}
        group[row] = document
    if group:
        yield group


def _look_at(store: Store, rows: Rows, again: Rows, comparison: Comparison, settings: IndexSettings, mark: str) -> Looked:
    chunks = store.chunks([*rows, *again])
    own = {row: document for row, document in rows.items() if row in chunks}
    repeats, boosts = _ingested(store, own, chunks, settings) if settings.ingest.enabled else ([], [])
    words = {row: digest for row in chunks for digest in (plain_digest(chunks[row]),) if digest is not None}
    left_out = {row for row, *_ in repeats}
    searched = {row: document for row, document in {**own, **again}.items() if row in chunks and row not in left_out}
    alike = comparison.alike(searched, chunks, words) if settings.duplicates.enabled else []
    digests = [(row, text_key(chunks[row].text), words.get(row, b"")) for row in own]
    return Looked(mark, digests, repeats, boosts, alike, list(again))


def _ingested(
    store: Store, rows: Rows, chunks: dict[int, Chunk], settings: IndexSettings
) -> tuple[list[tuple[int, int, int]], list[tuple[int, float, float]]]:
    """Return the repeats inside each document, and what they boost, by row ids."""
    repeats, boosts = [], []
    vectors = store.chunk_vectors(list(rows))
    for own in _documents(rows):
        matrix = _matrix(own, vectors)
        found = ingest([chunks[row] for row in own], matrix, settings.ingest) if matrix is not None else Ingested()
        repeats += [(own[each.segment], own[each.keeper], int(each.exact)) for each in found.repeats]
        boosts += [(own[each.segment], each.boost, each.salience) for each in found.boosts]
    return repeats, boosts


def _documents(rows: Rows) -> Iterator[list[int]]:
    by_document: dict[int, list[int]] = {}
    for row, document in rows.items():
        by_document.setdefault(document, []).append(row)
    yield from by_document.values()


def _matrix(rows: Sequence[int], vectors: Mapping[int, Vector]) -> Matrix | None:
    """Return the vectors of a document's chunks, rows of NaN where there is none; None where there are fewer than two."""
    held = [n for n, row in enumerate(rows) if row in vectors]
    if len(held) < 2:
        return None
    known = np.stack([vectors[rows[n]] for n in held])
    matrix = np.full((len(rows), known.shape[1]), np.nan, dtype=np.float32)
    matrix[held] = known
    return matrix


def ingestion_counts(store: Store) -> tuple[IngestionCounts, ...]:
    """Return what ingestion did, by type of document."""
    found = store.duplicates.ingested_by_type()
    return counted({k: v[0] for k, v in found.items()}, {k: v[1] for k, v in found.items()}, {k: v[2] for k, v in found.items()})


EXPORT_VERSION = 1
"""Of the JSON that `export` writes."""

_AT_ONCE = 256
"""Texts of pairs that are embedded at once."""


class Duplicated:
    """What a library tells of duplicates in its folders, and what its owner decides of them."""

    config: Config
    _readers: tuple[Reader, ...]
    _open_embedder: Callable[[str], Embedder]
    _known: Callable[[Sequence[str]], Sequence[str]]

    def duplicates(self, folder: Sequence[str] = (), *, grey: bool = False) -> DuplicatesFound:
        """Return the clusters of one text, with `grey` those too of which the owner has to decide, and what of the decisions has lapsed."""
        found = [(reader.folder.name, read_clusters(reader)) for reader in self._chosen_readers(folder)]
        every = [each for _, known in found for each in known.clusters]
        merged = places_of(each for each in every if is_merged(each))
        return DuplicatesFound(
            tuple(each for each in every if grey or each.zone == "same" or each.verdict),
            tuple((name, decision) for name, known in found for decision in known.lapsed),
            sum(known.chunks for _, known in found),
            len(merged),
            len(places_of(each for each in every if each.zone == "grey" and each.verdict is None) - merged),
        )

    def decide(self, cluster: str, verdict: Verdict, note: str = "", *, folder: Sequence[str] = ()) -> Cluster:
        """Decide of all texts of a cluster, by its id, that they are the same or stay apart; return it as it is then."""
        reader, found = self._cluster(cluster, folder)
        now = time.time()
        made = [Decision(*pair, verdict, note, now, *places) for pair, places in pairs_of(found)]
        with Writer.open(reader.folder.places.folder) as writer:
            writer.decide(made)
        return self._again(reader, found)

    def undo(self, cluster: str, *, folder: Sequence[str] = ()) -> Cluster:
        """Take back what was decided of a cluster; return it as it is then. Raises UsageError where nothing was decided."""
        reader, found = self._cluster(cluster, folder)
        with Writer.open(reader.folder.places.folder) as writer:
            gone = writer.decide(dropped=[pair for pair, _ in pairs_of(found)])
        if not gone:
            raise UsageError(f"Cluster {found.id}: nothing was decided of it; `thumbindex duplicates --grey` lists what is decided and what is not.")
        return self._again(reader, found)

    def export_decisions(self, folder: Sequence[str] = ()) -> dict[str, Any]:
        """Return all decisions, lapsed ones too, as JSON values."""
        readers = self._chosen_readers(folder)
        return {"version": EXPORT_VERSION, "decisions": [asdict(each) for reader in readers for each in reader.store.decisions()]}

    def import_decisions(self, exported: Any, folder: Sequence[str] = ()) -> int:
        """Keep decisions that were exported, over those about the same texts; return how many. Raises UsageError where one is no decision.

        Each goes to the folders that hold both texts; one about texts that no folder holds goes to all, and is listed as lapsed.
        """
        decisions = _read_decisions(exported)
        texts = sorted({digest for each in decisions for digest in (each.first, each.second)})
        held = {reader: set(reader.store.duplicates.rows_of_texts(texts).values()) for reader in self._chosen_readers(folder)}
        nowhere = [each for each in decisions if not any({each.first, each.second} <= there for there in held.values())]
        for reader, there in held.items():
            with Writer.open(reader.folder.places.folder) as writer:
                writer.decide((*(each for each in decisions if {each.first, each.second} <= there), *nowhere))
        self.refresh()
        return len(decisions)

    def judge_pairs(self, pairs: Sequence[tuple[str, str]]) -> tuple[Judgement, ...]:
        """Judge pairs of texts that are in no index, by the configured model and guards. Raises ModelError."""
        embedder = self._open_embedder("")
        return tuple(judgement for at in range(0, len(pairs), _AT_ONCE) for judgement in _judge(pairs[at : at + _AT_ONCE], embedder, self.config))

    def refresh(self) -> None:
        """Open the indexes as they are now."""
        raise NotImplementedError

    def _chosen_readers(self, folder: Sequence[str]) -> list[Reader]:
        self._known(folder)
        chosen = [reader for reader in self._readers if not folder or reader.folder.name in folder]
        for reader in chosen:
            if not reader.folder.places.store.exists():
                raise UsageError(f"There is no index of {reader.folder.root}: run `thumbindex index` first.")
        return chosen

    def _cluster(self, name: str, folder: Sequence[str]) -> tuple[Reader, Cluster]:
        """Find a cluster by its id, or by how it begins where no other does."""
        wanted = name.strip().casefold()
        found = [
            (reader, each)
            for reader in self._chosen_readers(folder)
            for each in read_clusters(reader).clusters
            if wanted and each.id.startswith(wanted)
        ]
        if len(found) != 1:
            what = f"begins several ({', '.join(each.id for _, each in found)}): give all of it" if found else "is not there (any more)"
            raise UsageError(f"Cluster {name}: {what}; `thumbindex duplicates --grey` lists them.")
        return found[0]

    def _again(self, reader: Reader, cluster: Cluster) -> Cluster:
        self.refresh()
        return next(each for each in (*read_clusters(reader).clusters, cluster) if each.id == cluster.id)


# ------------------------------------------------------------------ import, and pairs from a file


def _read_decisions(exported: Any) -> list[Decision]:
    if not isinstance(exported, dict) or exported.get("version") != EXPORT_VERSION or not isinstance(exported.get("decisions"), list):
        raise UsageError(f"This is no export of decisions of version {EXPORT_VERSION}: make one with `thumbindex duplicates export FILE`.")
    return [_read_decision(each, n) for n, each in enumerate(exported["decisions"], 1)]


def _read_decision(given: Any, number: int) -> Decision:
    try:
        read = Decision(**given)
        texts = (read.first, read.second, read.note, read.first_place, read.second_place)
        whole = all(isinstance(text, str) for text in texts) and isinstance(read.made, int | float) and math.isfinite(read.made)
        if not whole or read.verdict not in ("same", "apart") or not read.first <= read.second:
            raise ValueError(json.dumps(given)[:200])
        "".join(texts).encode()  # a lone surrogate can be kept nowhere
        bytes.fromhex(read.first + read.second)
    except (TypeError, ValueError) as error:
        raise UsageError(f"Decision {number} of the export cannot be read ({error}): nothing was imported; export again.") from error
    return read


def _judge(pairs: Sequence[tuple[str, str]], embedder: Embedder, config: Config) -> list[Judgement]:
    vectors = embedder.embed_passages([embedded_text((), text) for pair in pairs for text in pair])
    cosines = (vectors[::2] * vectors[1::2]).sum(axis=1)
    return [
        judge(_chunk(first, config), _chunk(second, config), float(cosine), config.index.duplicates)
        for (first, second), cosine in zip(pairs, cosines, strict=True)
    ]


def _chunk(text: str, config: Config) -> Chunk:
    """Return a text as one chunk: of the kind and language of its blocks where these are of one."""
    found = parse_document("text.md", text.encode("utf-8", "surrogatepass"), config.corpus).chunks
    kinds = {(each.kind, each.language) for each in found}
    kind, language = kinds.pop() if len(kinds) == 1 else (BlockKind.PROSE, "")
    return Chunk(0, 0, kind, (), 1, 1 + text.count("\n"), text, language=language)
