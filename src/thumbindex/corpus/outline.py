"""A document's headings with their levels and lines."""

from __future__ import annotations

from thumbindex.corpus.blocks import read_outline
from thumbindex.corpus.front_matter import read_front_matter
from thumbindex.corpus.parse import read_source


def headings_of(path: str, text: str) -> tuple[tuple[int, str, int], ...]:
    """Return level, visible text and line (from 1) of each heading of a decoded file, in order."""
    front = read_front_matter(path, text)
    source = read_source("\n" * front.lines + text[front.size :], path)
    return tuple((region.level, region.heading, region.start + 1) for region in read_outline(source.text).regions if region.level)
