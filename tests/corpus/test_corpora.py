"""Every chunk of the evaluation corpora is found at its lines; skipped where these are not beside
the repository.
"""

import re
from pathlib import Path

import pytest

from study.corpora import needs_corpora, unpack
from thumbindex.corpus.parse import parse_document
from thumbindex.corpus.walk import walk
from thumbindex.model import BlockKind, Chunk, ParsedDocument, Section
from thumbindex.settings import CorpusSettings
from thumbindex.text import strip_invisible

SETTINGS = CorpusSettings()
pytestmark = [pytest.mark.long, needs_corpora]
_CODE_OR_COMMENT = re.compile(r"(```.*?```|`[^`\n]*`)|<!--.*?-->|%%.*?%%", re.S)


def without_comments(text: str) -> list[str]:
    """Return a text's lines, none fewer; a mark tells a line end that stood in a comment."""
    return _CODE_OR_COMMENT.sub(
        lambda match: match[1] or "\1\n" * match[0].count("\n"), text
    ).split("\n")


def place_of(part: Chunk | Section, lines: list[str]) -> str:
    return "\n".join(lines[part.start_line - 1 : part.end_line]).replace("\1\n", "")


def stands_at_its_lines(part: Chunk | Section, lines: list[str]) -> bool:
    place = place_of(part, lines)
    if part.text in place:
        return True
    header, _, rows = part.text.partition("\n")
    repeated = (
        isinstance(part, Chunk)
        and part.kind is BlockKind.TABLE
        and header in lines[: part.start_line]
    )
    return repeated and rows.partition("\n")[2] in place


def is_exact(chunk: Chunk, lines: list[str]) -> bool:
    """Tell whether a chunk begins on its first line and ends on its last one; a repeated table
    header and comments excepted.
    """
    rows = chunk.text.split("\n")
    if any(
        sign in line
        for sign in ("<!--", "-->", "%%")
        for line in lines[chunk.start_line - 1 : chunk.end_line]
    ):
        return True
    ends = rows[-1] in lines[chunk.end_line - 1]
    return ends and (rows[0] in lines[chunk.start_line - 1] or chunk.kind is BlockKind.TABLE)


def check(parsed: ParsedDocument, lines: list[str], bare: list[str]) -> None:
    for chunk in parsed.chunks:
        section = parsed.sections[chunk.section]
        assert stands_at_its_lines(chunk, lines) or stands_at_its_lines(chunk, bare), (
            parsed.document.path,
            chunk,
        )
        assert is_exact(chunk, lines), (parsed.document.path, chunk)
        assert len(chunk.text) <= SETTINGS.chunk.child_max
        assert section.start_line <= chunk.start_line <= chunk.end_line <= section.end_line
    for section in parsed.sections:
        assert stands_at_its_lines(section, lines) or stands_at_its_lines(section, bare), (
            parsed.document.path,
            section,
        )
        assert len(section.text) <= SETTINGS.chunk.parent_max


LEAST = {
    "obsidian-help": 4_000,
    "devdocs": 20_000,
    "cpp-docs": 40_000,
    "tldr-en": 7_000,
    "cisi": 3_000,
}


@pytest.mark.parametrize(("name", "least"), LEAST.items())
def test_every_chunk_is_found_at_its_lines_inside_its_section(
    tmp_path: Path, name: str, least: int
) -> None:
    root = unpack(name, tmp_path)
    files, problems = walk(root, SETTINGS)
    assert problems == ()
    chunks = 0
    for file in files:
        parsed = parse_document(file.path, (root / file.path).read_bytes(), SETTINGS)
        text = strip_invisible((root / file.path).read_text("utf-8-sig"))
        check(parsed, text.split("\n"), without_comments(text))
        chunks += len(parsed.chunks)
    assert chunks > least
