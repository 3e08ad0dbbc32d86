"""Find repeated chunks inside a document.

One chunk of each group is kept. The repeats are not searched, but raise the kept chunk's salience.
"""

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
"""Maximum chunks of one kind in a document that are compared by meaning, most salient first.

A further chunk is a repeat only if its text is identical to the text of a kept chunk.
"""

_CHUNK_BATCH = 32
"""Chunks judged between two yields."""

_MAX_JUDGED = 5
"""Maximum kept chunks compared with one chunk, nearest first."""

_NUMBERED = re.compile(r"(?<!\w)\w*\d[\w.]*")

Repeat = tuple[int, int, bool]
"""A chunk, the kept chunk, and whether the two texts are identical.

An identical text is boilerplate, and does not raise the kept chunk's salience.
"""

Boost = tuple[int, float, float]
"""A kept chunk, the boost, and the boosted salience."""


def find_repeats(
    chunks: Mapping[int, Chunk], vectors: Mapping[int, Vector], settings: IngestSettings
) -> Generator[None, None, tuple[list[Repeat], list[Boost]]]:
    """Find repeats among the chunks of one document, and the boosts of the kept chunks.

    Keeps the most salient chunk of each group. Yields between steps to let other work run.
    """
    kinds: dict[tuple[str, str], list[int]] = defaultdict(list)
    for n in sorted(chunks, key=lambda n: (-chunks[n].salience, chunks[n].ordinal)):
        if n in vectors and chunks[n].salience >= settings.min_salience:
            kinds[chunks[n].kind, chunks[n].language.casefold()].append(n)
    groups = [order for order in kinds.values() if len(order) > 1 and settings.enabled]
    repeats: list[Repeat] = []
    for order in groups:
        repeats += yield from _repeats(order, chunks, vectors, settings.similarity)
    repeats.sort()
    # each distinct text counts once
    near_copies: dict[int, set[bytes]] = defaultdict(set)
    for chunk, keeper, exact in repeats:
        if not exact:
            near_copies[keeper].add(text_key(chunks[chunk].text))
    boosts = []
    for keeper, texts in sorted(near_copies.items()):
        if boost := boost_for(len(texts), settings):
            # the cap never lowers salience
            salience = chunks[keeper].salience
            boosts.append(
                (keeper, boost, max(salience, min(settings.max_salience, salience + boost)))
            )
    return repeats, boosts


def boost_for(repeats: int, settings: IngestSettings) -> float:
    """Return the boost for a chunk with this many repeats: logarithmic, linear or none."""
    if settings.boost == "off" or not repeats:
        return 0.0
    return settings.base * (math.log2(1 + repeats) if settings.boost == "logarithmic" else repeats)


def _repeats(
    order: Sequence[int],
    chunks: Mapping[int, Chunk],
    vectors: Mapping[int, Vector],
    similarity: float,
) -> Generator[None, None, list[Repeat]]:
    """Find repeats among chunks of one kind, ordered by salience."""
    matrix = np.stack([vectors[n] for n in order[:_MAX_COMPARED]])
    cosines = matrix @ matrix.T
    repeats: list[Repeat] = []
    keepers: list[int] = []  # positions in `order`
    by_text: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for at, n in enumerate(order):
        if at % _CHUNK_BATCH == 0:
            yield
        same_text = by_text[chunks[n].text, *_numbers(chunks[n])]
        keeper = next((k for k in same_text if vectors[k] @ vectors[n] >= similarity), None)
        if keeper is None and at < _MAX_COMPARED:  # the nearest kept chunk with the same meaning
            to_kept = cosines[at, keepers]
            similar = np.flatnonzero(to_kept >= similarity)
            nearest = similar[np.argsort(-to_kept[similar], kind="stable")][:_MAX_JUDGED].tolist()
            candidates = (order[keepers[k]] for k in nearest)
            keeper = next((k for k in candidates if _is_covered(chunks[n], chunks[k])), None)
        if keeper is not None:
            repeats.append((n, keeper, chunks[n].text == chunks[keeper].text))
            continue
        same_text.append(n)
        if at < _MAX_COMPARED:
            keepers.append(at)
    return repeats


def _is_covered(chunk: Chunk, keeper: Chunk) -> bool:
    """Return whether a chunk adds no word, number or contradicting statement to the kept chunk."""
    return (
        Counter(tokenize(chunk.text).stems) <= Counter(tokenize(keeper.text).stems)
        and _numbers(keeper) == _numbers(chunk)
        and chunk_difference(keeper, chunk) is None
    )


def _numbers(chunk: Chunk) -> list[str]:
    """Return the numbers in a chunk's headings, such as "5.1"."""
    return _NUMBERED.findall(" ".join(chunk.heading_path))


_HIGH_RATIO, _HIGH_BOOST = 0.50, 0.60
"""Ratio of repeats to chunks, and boost of a chunk, above which a warning is logged.

Usual values are at most 0.40 and 0.20.
"""


def ingestion_words(counts: Sequence[IngestionCounts]) -> str:
    """Return a sentence about the number of repeats."""
    repeats, chunks = sum(count.repeats for count in counts), sum(count.chunks for count in counts)
    repeat = (
        "only repeats another chunk of its note and is"
        if repeats == 1
        else "only repeat other chunks of their notes and are"
    )
    return f"{repeats:,} of {plural(chunks, 'chunk')} {repeat} not searched"


def ingestion_warnings(counts: IngestionCounts) -> tuple[str, ...]:
    """Return warnings about a high ratio of repeats or a high boost, each with a remedy."""
    of_type = f" of type {counts.type!r}" if counts.type else ""
    ratio = counts.repeats / counts.chunks if counts.chunks else 0.0
    warnings = []
    if ratio > _HIGH_RATIO:
        warnings.append(
            f"{ratio:.0%} of the chunks in notes{of_type} repeat other chunks of their note. If "
            "these notes are generated pages, exclude them with corpus.exclude; otherwise raise "
            "index.ingest.similarity."
        )
    if counts.most_boost > _HIGH_BOOST:
        warnings.append(
            f"Repeats raise the salience of a chunk in a note{of_type} by {counts.most_boost:.2f}, "
            f"more than {_HIGH_BOOST:.2f}: lower index.ingest.base, or check the repeats."
        )
    return tuple(warnings)
