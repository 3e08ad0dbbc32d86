"""Parse a file's bytes into a document, sections, chunks and links, or into headings alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import PurePosixPath

from thumbindex.corpus.abbreviations import find_abbreviations
from thumbindex.corpus.chunk import cut_document
from thumbindex.corpus.front_matter import FrontMatter, read_front_matter
from thumbindex.corpus.hidden import Flag, find_flags
from thumbindex.corpus.links import property_links
from thumbindex.corpus.markdown import (
    MAX_HEADING_CHARS,
    ParsedMarkdown,
    code_lines,
    is_mdx,
    parse_markdown,
)
from thumbindex.corpus.private import private_marker
from thumbindex.corpus.properties import MAX_VALUES, inline_properties, note_properties
from thumbindex.corpus.read import decode, is_text
from thumbindex.corpus.source import SourceText, read_source
from thumbindex.corpus.validity import read_validity
from thumbindex.dates import note_dates
from thumbindex.language import language_of_prose
from thumbindex.model import BlockKind, Document, ParsedDocument, Problem
from thumbindex.settings import CorpusSettings
from thumbindex.text import strip_invisible
from thumbindex.visible_text import strip_markup

MAX_TAGS = 10_000
"""Maximum tags stored per note. Further tags can be found only as words of the text."""


def parse_document(
    path: str, data: bytes, settings: CorpusSettings, modified: float = 0.0, in_vault: bool = True
) -> ParsedDocument:
    """Parse a file's bytes. Never fails: the `problems` of the result list unreadable parts.

    If the file is not text, its document has no words, but a private marker still counts.
    """
    raw, decode_problems = decode(path, data)
    text = strip_invisible(raw)
    front = read_front_matter(path, text)
    private = bool(private_marker(raw, front, settings))
    not_text_reason = (
        ""
        if is_text(data)
        else "not text, or UTF-16 without a BOM (save it as UTF-8): only its name is searchable"
    )
    if not_text_reason:
        raw, text, front = "", "", FrontMatter()
        decode_problems = (Problem(path, None, not_text_reason),)
    # blank lines replace the front matter to preserve line numbers
    source = read_source("\n" * front.lines + text[front.size :], path, in_vault)
    markdown = parse_markdown(source.text, is_mdx(path))
    title = (
        front.text("title")
        or next(_title_headings(source, markdown), "")
        or PurePosixPath(path).stem
    )
    title, tags = title[:MAX_HEADING_CHARS], tuple(dict.fromkeys((*front.tags, *markdown.tags)))
    sections, chunks = cut_document(source, markdown, title, settings.chunk)
    flags = find_flags(raw, text, lambda: code_lines(source.text, is_mdx(path)))
    if not_text_reason:
        flags = (Flag(1, not_text_reason),)
    day, created = note_dates(
        path, front.fields, lambda key: front.values(key, split=""), text[front.size :]
    )
    inline = [*islice(inline_properties(source, markdown), MAX_VALUES + 1)]
    validity = read_validity(front, inline, source, markdown)
    properties, unread_line = note_properties(front, inline)
    document = Document(
        path=path,
        title=title,
        properties=properties,
        tags=tags[:MAX_TAGS],
        aliases=front.values("aliases", "alias"),
        keywords=front.values("keywords", "keyword"),
        description=front.text("description", "summary"),
        author=", ".join(front.values("author", "authors", split="")),
        category=", ".join(front.values("category", "categories", split="")),
        type=front.text("type"),
        status=validity.status,
        valid_until=validity.valid_until,
        date=day,
        created=created,
        modified=modified,
        abbreviations=find_abbreviations(title, source, markdown),
        flags=tuple(f"{line}: {reason}" for line, reason in flags),
        language=language_of_prose(
            strip_markup(chunk.text) for chunk in chunks if chunk.kind is not BlockKind.CODE
        ),
    )
    links = (*validity.links, *property_links(front.texts), *markdown.links)
    limits = list(markdown.limits)
    if len(tags) > MAX_TAGS:
        rest = "the rest are indexed only as words"
        limits.append((1, f"{len(tags):,} tags, more than {MAX_TAGS:,}: {rest}"))
    if unread_line:
        limits.append((unread_line, f"more than {MAX_VALUES:,} property values: ignored from here"))
    limited = (Problem(path, line, reason) for line, reason in limits)
    problems = (*decode_problems, *front.problems, *limited)
    if len(links) > settings.max_links:
        reason = (
            f"{len(links):,} links, more than corpus.max_links ({settings.max_links:,}): "
            "links from this line on are ignored"
        )
        problems = (*problems, Problem(path, links[settings.max_links].line, reason))
    return ParsedDocument(
        document, sections, chunks, links[: settings.max_links], problems, private
    )


def _title_headings(source: SourceText, markdown: ParsedMarkdown) -> Iterator[str]:
    """Yield the headings that may be the title: `#`, and `<h1>` if no heading is above it."""
    for number, region in enumerate(markdown.regions):
        if region.level == 1 and region.heading:
            start = source.starts[region.start]
            if number == 1 or not source.text[start : start + 200].lstrip().startswith("<"):
                yield region.heading


def parse_headings(path: str, text: str, in_vault: bool) -> tuple[tuple[int, str, int], ...]:
    """Return the level, visible text and line (from 1) of each heading in a file's text."""
    return tuple(
        (region.level, region.heading, region.start + 1)
        for region in parse_markdown(note_body(path, text, in_vault), is_mdx(path)).regions
        if region.level
    )


def note_body(path: str, text: str, in_vault: bool) -> str:
    """Return a file's text without front matter and comments, with the same line numbers."""
    front = read_front_matter(path, text)
    return read_source("\n" * front.lines + text[front.size :], path, in_vault).text
