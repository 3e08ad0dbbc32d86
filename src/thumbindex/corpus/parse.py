"""Parse one file's bytes into a document with its sections, chunks and links; or into its outline alone."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from itertools import dropwhile
from pathlib import PurePosixPath

from thumbindex.corpus.abbreviations import find_abbreviations
from thumbindex.corpus.chunk import Draft, draft_chunks, gather_sections, salience, section_start
from thumbindex.corpus.front_matter import FrontMatter, read_front_matter
from thumbindex.corpus.hidden import find_flags, strip_invisible
from thumbindex.corpus.markdown import Outline, code_lines, parse_destination, parse_wikilink, read_outline
from thumbindex.corpus.private import is_private_path, says_private
from thumbindex.corpus.read import decode
from thumbindex.corpus.source import Source, comment_lines, leave_out_comments, line_starts, may_hold_comments
from thumbindex.language import prose_language
from thumbindex.model import BlockKind, Chunk, Document, Link, LinkKind, ParsedDocument, Problem, Section
from thumbindex.settings import ChunkSettings, CorpusSettings
from thumbindex.text import visible


def parse_document(path: str, data: bytes, settings: CorpusSettings, modified: float = 0.0) -> ParsedDocument:
    """Parse a file's bytes, whatever they are; what could not be read as it stands is named in `problems`."""
    raw, found = decode(path, data)
    text = strip_invisible(raw)
    front = read_front_matter(path, text)
    # blank lines in place of the front matter keep every later line at its number
    source = read_source("\n" * front.lines + text[front.size :], path)
    outline = read_outline(source.text)
    title = front.title or next((r.heading for r in outline.regions if r.level == 1 and r.heading), "") or PurePosixPath(path).stem
    sections, chunks = cut_document(source, outline, title, settings.chunk)
    document = Document(
        path=path,
        title=title,
        front_matter=front.fields,
        tags=tuple(dict.fromkeys((*front.tags, *outline.tags))),
        aliases=front.aliases,
        keywords=front.keywords,
        description=front.description,
        author=front.author,
        category=front.category,
        type=front.type,
        date=front.date,
        modified=modified,
        abbreviations=find_abbreviations(title, source, outline),
        flags=tuple(f"{line}: {reason}" for line, reason in find_flags(raw, text, lambda: code_lines(source.text))),
        language=prose_language(visible(chunk.text) for chunk in chunks if chunk.kind is not BlockKind.CODE),
    )
    private = is_private_path(path, settings) or says_private(raw, front, settings)
    links, problems = (*_related(front), *outline.links), (*found, *front.problems)
    if len(links) > settings.max_links:
        reason = f"{len(links):,} links, more than {settings.max_links:,}: those from here on are not followed"
        problems = (*problems, Problem(path, links[settings.max_links].line, reason))
    return ParsedDocument(document, sections, chunks, links[: settings.max_links], problems, private)


def read_source(text: str, path: str = "") -> Source:
    """Return a text as it is cut, comments left out; in `.mdx` files those of JSX too."""
    mdx = path.lower().endswith(".mdx")
    if may_hold_comments(text, mdx):
        return leave_out_comments(text, code_lines(text), mdx)
    return Source(text, line_starts(text), ())


def cut_document(source: Source, outline: Outline, title: str, settings: ChunkSettings) -> tuple[tuple[Section, ...], tuple[Chunk, ...]]:
    """Cut a document into sections and their chunks; one without text has one of each, empty, at line 1."""
    largest = min(settings.child_max, settings.parent_max)
    settings = replace(settings, child_max=largest, child_min=min(settings.child_min, largest))
    drafts = draft_chunks(source, outline, settings)
    if not drafts:
        return (Section(0, 1, 1, ""),), (Chunk(0, 0, BlockKind.PROSE, (title,), 1, 1, "", salience(BlockKind.PROSE, 0, 0, 0, 1, 0)),)
    sections: list[Section] = []
    chunks: list[Chunk] = []
    for ordinal, run in enumerate(gather_sections(drafts, settings)):
        start, end = section_start(drafts, run, settings), drafts[run[1] - 1].piece.end
        sections.append(Section(ordinal, source.line_at(start), source.line_at(end - 1), source.show(start, end)))
        chunks += [_chunk(source, drafts, position, ordinal, title) for position in range(*run)]
    return tuple(sections), tuple(chunks)


def _chunk(source: Source, drafts: Sequence[Draft], ordinal: int, section: int, title: str) -> Chunk:
    draft, piece = drafts[ordinal], drafts[ordinal].piece
    headings = tuple(dropwhile(lambda heading: _plain(heading) == _plain(title), draft.headings))
    text = source.show(piece.start, piece.end)
    return Chunk(
        ordinal=ordinal,
        section=section,
        kind=piece.kind,
        heading_path=(title, *headings),
        start_line=source.line_at(piece.start),
        end_line=source.line_at(piece.end - 1),
        text=f"{piece.prefix}\n{text}" if piece.prefix else text,
        salience=salience(piece.kind, len(headings), draft.place, ordinal, len(drafts), len(text)),
        language=piece.language,
    )


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def _related(front: FrontMatter) -> list[Link]:
    """Read the front matter's `related`: wikilinks, Markdown links or bare paths."""
    links: list[Link | None] = []
    for entry in front.related:
        if entry.startswith("[["):
            links.append(parse_wikilink(entry.strip("[]"), LinkKind.RELATED, front.related_line))
        elif entry.startswith("[") and entry.endswith(")") and "](" in entry:
            text, _, destination = entry[1:-1].partition("](")
            links.append(parse_destination(destination.strip("<>"), LinkKind.RELATED, text, front.related_line))
        else:
            links.append(parse_destination(entry, LinkKind.RELATED, entry, front.related_line))
    return [link for link in links if link]


def headings_of(path: str, text: str) -> tuple[tuple[int, str, int], ...]:
    """Return level, visible text and line (from 1) of each heading of a decoded file, in order."""
    front = read_front_matter(path, text)
    source = read_source("\n" * front.lines + text[front.size :], path)
    return tuple((region.level, region.heading, region.start + 1) for region in read_outline(source.text).regions if region.level)


def comments_of(path: str, text: str) -> tuple[tuple[int, int], ...]:
    """Return the first and the last line, from 1, of each comment of a decoded file, in order; none that is code."""
    mdx = path.lower().endswith(".mdx")
    return tuple(comment_lines(text, code_lines(text), mdx)) if may_hold_comments(text, mdx) else ()
