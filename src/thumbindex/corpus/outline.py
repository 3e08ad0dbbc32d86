"""A document's headings and comments with their lines."""

from __future__ import annotations

from thumbindex.corpus.blocks import code_lines, read_outline
from thumbindex.corpus.front_matter import read_front_matter
from thumbindex.corpus.parse import read_source
from thumbindex.corpus.source import comment_lines, may_hold_comments


def headings_of(path: str, text: str) -> tuple[tuple[int, str, int], ...]:
    """Return level, visible text and line (from 1) of each heading of a decoded file, in order."""
    front = read_front_matter(path, text)
    source = read_source("\n" * front.lines + text[front.size :], path)
    return tuple((region.level, region.heading, region.start + 1) for region in read_outline(source.text).regions if region.level)


def comments_of(path: str, text: str) -> tuple[tuple[int, int], ...]:
    """Return the first and the last line, from 1, of each comment of a decoded file, in order; none that is code."""
    mdx = path.lower().endswith(".mdx")
    return tuple(comment_lines(text, code_lines(text), mdx)) if may_hold_comments(text, mdx) else ()
