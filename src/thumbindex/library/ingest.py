"""Repeats inside one document: no search units of their own, but what says a thing more than once matters more (spec/dedup.md, section 3)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from thumbindex.compare.differences import kept_apart, stem
from thumbindex.compare.tokens import reading
from thumbindex.model import Chunk, IngestionCounts
from thumbindex.ports import Matrix, Vector
from thumbindex.settings import IngestSettings
from thumbindex.text import text_key

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
    mine, yours = ({stem(word) for word in reading(chunk.text).content} for chunk in (keeper, other))
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
