"""Chunks gathered to sections: small neighbors under the same ancestor joined, long stretches split evenly between chunks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

from thumbindex.corpus.pack import Draft
from thumbindex.settings import ChunkSettings

Run = tuple[int, int]
"""Positions of the chunks of one stretch, half open."""

_DEEPEST = 7  # the preamble and six levels of headings


def gather_sections(drafts: Sequence[Draft], settings: ChunkSettings) -> list[Run]:
    """Return the runs of chunks that are one section each, in order, at most `parent_max` characters with the headings in them."""
    starts = [i for i, draft in enumerate(drafts) if draft.place == 0]
    return _gather(drafts, list(pairwise([*starts, len(drafts)])), 0, settings) if drafts else []


def section_start(drafts: Sequence[Draft], run: Run, settings: ChunkSettings) -> int:
    """Return the offset where a section begins: at its first heading, unless that is so long that it does not fit."""
    return max(drafts[run[0]].reach, drafts[run[1] - 1].piece.end - settings.parent_max)


def _gather(drafts: Sequence[Draft], regions: Sequence[Run], depth: int, settings: ChunkSettings) -> list[Run]:
    """Gather the regions below one heading, the deepest headings first."""
    whole = regions[0][0], regions[-1][1]
    if _size(drafts, whole) <= settings.parent_max:
        return [whole]
    if len(regions) == 1:
        return _split(drafts, whole, settings)
    if depth > _DEEPEST:
        return _merge(drafts, [run for region in regions for run in _split(drafts, region, settings)], settings)
    below = [list(members) for _, members in groupby(regions, key=lambda region: drafts[region[0]].headings[: depth + 1])]
    return _merge(drafts, [run for members in below for run in _gather(drafts, members, depth + 1, settings)], settings)


def _split(drafts: Sequence[Draft], run: Run, settings: ChunkSettings) -> list[Run]:
    """Split a stretch into parts of about one size, as few as the maximum allows."""
    total = _size(drafts, run)
    target = total / -(-total // settings.parent_max)
    cuts = [run[0]]
    for position in range(run[0] + 1, run[1]):
        if _size(drafts, (cuts[-1], position)) >= target or _size(drafts, (cuts[-1], position + 1)) > settings.parent_max:
            cuts.append(position)
    return list(pairwise([*cuts, run[1]]))


def _merge(drafts: Sequence[Draft], runs: Sequence[Run], settings: ChunkSettings) -> list[Run]:
    merged: list[Run] = []
    for run in runs:
        joined = (merged[-1][0], run[1]) if merged else run
        small = merged and min(_size(drafts, merged[-1]), _size(drafts, run)) < settings.parent_min
        if small and _size(drafts, joined) <= settings.parent_max:
            merged[-1] = joined
        else:
            merged.append(run)
    return merged


def _size(drafts: Sequence[Draft], run: Run) -> int:
    return drafts[run[1] - 1].piece.end - drafts[run[0]].reach
