"""Repeats inside a document: left out of the search, but they raise salience."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Generator, Mapping, Sequence

import numpy as np

from thumbindex.compare.differences import chunk_difference
from thumbindex.compare.tokens import tokenize
from thumbindex.model import Chunk, IngestionCounts
from thumbindex.ports import Vector
from thumbindex.settings import IngestSettings
from thumbindex.text import plural, text_key

_MAX_COMPARED = 2_000
"""Maximum segments of one kind in a document that are compared by meaning, the most salient first.
Of the others, only equal texts are repeats.
"""

_SEGMENT_BATCH = 32
"""Segments that are judged between two yields: some hundredths of a second."""

_MAX_JUDGED = 5
"""Maximum kept segments that a segment is compared with, nearest first."""

_NUMBERED = re.compile(r"(?<!\w)\w*\d[\w.]*")

Repeat = tuple[int, int, bool]
"""A segment that is left out, the one that says it, and whether they are equal byte for byte:
boilerplate, which boosts nothing.
"""

Boost = tuple[int, float, float]
"""A segment, how much its salience is raised, and to what."""


def find_repeats(
    chunks: Mapping[int, Chunk], vectors: Mapping[int, Vector], settings: IngestSettings
) -> Generator[None, None, tuple[list[Repeat], list[Boost]]]:
    """Find repeats among the segments of one document, and boosts of the segments they repeat.

    The most salient segment is kept. Yields between steps, so that other work may run.
    """
    kinds: dict[tuple[str, str], list[int]] = defaultdict(list)
    for n in sorted(chunks, key=lambda n: (-chunks[n].salience, chunks[n].ordinal)):
        if n in vectors and chunks[n].salience >= settings.min_salience:
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
        if boost := boost_for(len(texts), settings):
            # which is never worth less for being repeated, whatever the cap
            salience = chunks[keeper].salience
            boosts.append(
                (keeper, boost, max(salience, min(settings.max_salience, salience + boost)))
            )
    return repeats, boosts


def boost_for(near: int, settings: IngestSettings) -> float:
    """Return the boost of a segment with `near` repeats: logarithmic, linear or none."""
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
    matrix = np.stack([vectors[n] for n in order[:_MAX_COMPARED]])
    cosines = matrix @ matrix.T
    repeats: list[Repeat] = []
    kept: list[int] = []  # positions
    by_text: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for at, n in enumerate(order):
        if at % _SEGMENT_BATCH == 0:
            yield
        same = by_text[chunks[n].text, *_numbers(chunks[n])]
        keeper = next((k for k in same if vectors[k] @ vectors[n] >= similarity), None)
        if keeper is None and at < _MAX_COMPARED:
            to_kept = cosines[at, kept]
            near = np.flatnonzero(to_kept >= similarity)
            nearest = near[np.argsort(-to_kept[near], kind="stable")][:_MAX_JUDGED].tolist()
            others = (order[kept[k]] for k in nearest)
            keeper = next((k for k in others if _says_the_same(chunks[k], chunks[n])), None)
        if keeper is not None:
            repeats.append((n, keeper, chunks[n].text == chunks[keeper].text))
            continue
        same.append(n)
        if at < _MAX_COMPARED:
            kept.append(at)
    return repeats


def _says_the_same(keeper: Chunk, other: Chunk) -> bool:
    """Return whether a segment may be left out for another one: it has no word of its own."""
    return (
        Counter(tokenize(other.text).stems) <= Counter(tokenize(keeper.text).stems)
        and _numbers(keeper) == _numbers(other)
        and chunk_difference(keeper, other) is None
    )


def _numbers(chunk: Chunk) -> list[str]:
    """Return the numbers in the headings of a segment: "5.1" is not "7.6"."""
    return _NUMBERED.findall(" ".join(chunk.heading_path))


_HIGH_RATIO, _HIGH_BOOST = 0.50, 0.60
"""Above these something is wrong: generated pages, or a text that says one thing over and over.

Healthy are 0.10 to 0.40, and 0.05 to 0.20.
"""


def ingestion_words(counts: Sequence[IngestionCounts]) -> str:
    """Return a sentence about how many chunks were left out."""
    repeats, chunks = sum(count.repeats for count in counts), sum(count.chunks for count in counts)
    repeat = (
        "only repeats another one of its note and is"
        if repeats == 1
        else "only repeat others of their notes and are"
    )
    return f"{repeats:,} of {plural(chunks, 'chunk')} {repeat} left out of the search"


def ingestion_warnings(counts: IngestionCounts) -> tuple[str, ...]:
    """Return warnings about high ratios, each with what to do."""
    of = f" of type {counts.type!r}" if counts.type else ""
    ratio = counts.repeats / counts.chunks if counts.chunks else 0.0
    found = []
    if ratio > _HIGH_RATIO:
        found.append(
            f"{ratio:.0%} of the chunks of notes{of} repeat others of their note, more "
            "than half: "
            "generated pages? Raise index.ingest.similarity, or leave them out with corpus.exclude."
        )
    if counts.most_boost > _HIGH_BOOST:
        found.append(
            f"A chunk of a note{of} is raised by {counts.most_boost:.2f}, more than "
            f"{_HIGH_BOOST:.2f}: "
            "lower index.ingest.base, or see what repeats it."
        )
    return tuple(found)
