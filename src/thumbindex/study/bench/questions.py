"""Questions that a folder's own notes give: titles, headings, and words as they stand in a passage; the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from thumbindex.model import Chunk
from thumbindex.text import visible

FEWEST, MOST = 3, 8
"""Words of a phrase: as long as people's questions are."""


def draw_questions(chunks: Sequence[tuple[str, Chunk]], count: int, seed: int = 1) -> tuple[str, ...]:
    """Draw questions from chunks with their titles, a title, a heading and a phrase by turns; each once where there are enough."""
    chance = random.Random(seed)
    found: dict[str, None] = {}
    for number in range(20 * count):  # a few titles may be all there are
        title, chunk = chance.choice(chunks)
        asked = (title, chunk.heading_path[-1], _phrase(chunk, chance))[number % 3].strip()
        if asked:
            found[asked] = None
        if len(found) == count:
            break
    drawn = list(found)
    return tuple(drawn[n % len(drawn)] for n in range(count))


def _phrase(chunk: Chunk, chance: random.Random) -> str:
    words = visible(chunk.text).split()
    start = chance.randrange(max(1, len(words) - FEWEST))
    return " ".join(words[start : start + chance.randint(FEWEST, MOST)])
