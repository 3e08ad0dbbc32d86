"""Blocks cut into pieces no longer than the maximum: at blocks, sentences, lines, rows, words; the door to LlamaIndex's sentence splitter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from thumbindex.corpus.blocks import Block, Shape
from thumbindex.corpus.source import Source
from thumbindex.model import BlockKind

_SENTENCE = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’)\]*_`]*\s+(?=[^a-z\s])|[。！？]+[」』”’）]*|\n[ \t]*\n")
_BREAK = re.compile(r"[\s。！？]")
_PARAGRAPHS = "\n\n\n"  # where the sentence splitter splits first
_SPLITTER_READS = 20_000  # characters given to the sentence splitter at once: it holds every one of them as a list item
_CLOSING_FENCE = re.compile(r"[ \t>]*(?:`{3,}|~{3,})[ \t]*$")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the source that is not cut again; `prefix` is a table's header, repeated before rows that stand apart from it."""

    start: int
    end: int
    kind: BlockKind
    language: str = ""
    prefix: str = ""

    @property
    def size(self) -> int:
        """Count the characters of the piece, prefix included."""
        return self.end - self.start + (len(self.prefix) + 1 if self.prefix else 0)


def cut_children(source: Source, block: Block, maximum: int) -> Iterator[Piece]:
    """Cut each block of a container, and the lines that stand in no block of it (link definitions, what is nested too deeply)."""
    line = block.start
    for child in block.children:
        yield from _cut_gap(source, block, line, child.start, maximum)
        yield from _cut(source, replace(child, start=max(line, child.start)), maximum)
        line = max(line, child.end)
    yield from _cut_gap(source, block, line, block.end, maximum)


def cut_span(source: Source, start: int, end: int, maximum: int) -> Iterator[tuple[int, int]]:
    """Cut a stretch into parts of at most `maximum` characters, between words where there are any."""
    while end - start > maximum:
        part = source.text[start : start + maximum + 1]
        word = max(part.rfind(" "), part.rfind("\t"), part.rfind("\n"))
        cut = start + (word if word > maximum // 2 else maximum)
        if size := len(source.text[start:cut].rstrip()):
            yield start, start + size
        start = cut
        while start < end and source.text[start].isspace():
            start += 1
    if source.text[start:end].strip():
        yield start, end


def _cut(source: Source, block: Block, maximum: int) -> Iterator[Piece]:
    span = source.trim(block.start, block.end) if block.start < block.end and block.shape is not Shape.RULE else None
    if span is None:
        return
    whole = Piece(*span, block.kind, block.language)
    if whole.size <= maximum:
        yield whole
    elif block.shape is Shape.CONTAINER and block.children:
        yield from cut_children(source, block, maximum)
    elif block.shape is Shape.TABLE:
        yield from _cut_table(source, block, maximum)
    elif block.shape is Shape.PROSE:
        yield from (replace(whole, start=a, end=b) for a, b in cut_sentences(source, *span, maximum))
    else:
        yield from _cut_lines(source, block, maximum)


def _cut_gap(source: Source, block: Block, first: int, last: int, maximum: int) -> Iterator[Piece]:
    span = source.trim(first, last) if first < last else None
    if span and source.text[slice(*span)].strip("> \t\n"):  # an empty line of a quote is no text
        yield from _cut(source, Block(Shape.LINES, block.kind, first, last), maximum)


def _cut_lines(source: Source, block: Block, maximum: int) -> Iterator[Piece]:
    """Cut where lines are blank, else at every line; a fence that closes code is left out where it would stand alone."""
    last = block.end
    if block.kind is BlockKind.CODE and (tail := source.trim(last - 1, last)) and _CLOSING_FENCE.match(source.text[slice(*tail)]):
        last -= 1
    for first, end in _runs(source, block.start, last):
        span = source.trim(first, end)
        whole = Piece(*span, block.kind, block.language) if span else None
        if whole and whole.size <= maximum:
            yield replace(whole, end=_with_fence(source, whole, block, end, last, maximum))
        elif whole:
            for line in range(first, end):
                if span := source.trim(line, line + 1):
                    yield from (replace(whole, start=a, end=b) for a, b in cut_span(source, *span, maximum))


def _with_fence(source: Source, piece: Piece, block: Block, end: int, last: int, maximum: int) -> int:
    """Return where a piece ends when it is code's last and the closing fence fits in it."""
    if end < last or last == block.end:
        return piece.end
    closed = source.trim(last, block.end)
    return closed[1] if closed and closed[1] - piece.start <= maximum else piece.end


def _runs(source: Source, first: int, last: int) -> Iterator[tuple[int, int]]:
    start = first
    for line in range(first, last):
        if source.trim(line, line + 1) is None:
            if start < line:
                yield start, line
            start = line + 1
    if start < last:
        yield start, last


def _cut_table(source: Source, block: Block, maximum: int) -> Iterator[Piece]:
    """Cut between rows: the first piece holds the header, the others repeat it unless it takes half of the maximum."""
    head = source.trim(block.start, block.start + 2)
    rows = [span for line in range(block.start + 2, block.end) if (span := source.trim(line, line + 1))]
    if head is None or not rows or head[1] - head[0] > maximum // 2:
        yield from _cut_lines(source, replace(block, shape=Shape.LINES), maximum)
        return
    if rows[0][1] - head[0] <= maximum:
        yield Piece(head[0], rows.pop(0)[1], block.kind)
    else:
        yield Piece(*head, block.kind)
    for start, end in rows:
        row = Piece(start, end, block.kind, prefix=source.show(*head))
        if row.size <= maximum:
            yield row
        else:
            yield from (Piece(a, b, block.kind) for a, b in cut_span(source, start, end, maximum))


def cut_sentences(source: Source, start: int, end: int, maximum: int) -> Iterator[tuple[int, int]]:
    """Cut a paragraph into parts of whole sentences, at most `maximum` characters each and of about one size."""
    for first, last in cut_span(source, start, end, _SPLITTER_READS):
        parts = -(-(last - first) // maximum)
        size = min(maximum, -(-((last - first) // parts + maximum // 5) // 50) * 50)
        position = first
        part = source.text[first:last]
        for text in split(part, size) if _BREAK.search(part) else ():  # letter by letter, it takes a minute for 10 MB
            while position < last and source.text[position].isspace():
                position += 1
            if not source.text.startswith(text, position):
                break  # altered by the splitter: the rest is cut below
            yield from cut_span(source, position, position + len(text), maximum)
            position += len(text)
        if source.text[position:last].strip():
            yield from cut_span(source, position, last, maximum)


def split(text: str, size: int) -> list[str]:
    """Split a text into parts of whole sentences, as many as fit; LlamaIndex, which takes two seconds to import, is asked where one is too long.

    The parts are those that its SentenceSplitter makes: a test compares them.
    """
    sentences = _sentences(text)
    if _PARAGRAPHS in text or any(len(sentence) > size for sentence in sentences):
        parts: list[str] = _splitter(size).split_text(text)
        return parts
    packed = [""]
    for sentence in sentences:
        if packed[-1] and len(packed[-1]) + len(sentence) > size:
            packed.append("")
        packed[-1] += sentence
    return [part for each in packed if (part := each.strip())]


@lru_cache(maxsize=64)
def _splitter(size: int) -> Any:
    from llama_index.core.node_parser import SentenceSplitter

    # characters for tokens, and sentences of our own: its defaults count with tiktoken and download NLTK's data
    return SentenceSplitter(chunk_size=size, chunk_overlap=0, tokenizer=str, chunking_tokenizer_fn=_sentences)


def _sentences(text: str) -> list[str]:
    ends = [match.end() for match in _SENTENCE.finditer(text)]
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True) if a < b]
