"""Every chunk of the evaluation corpora is at its lines; skipped without the corpora."""

from pathlib import Path

import pytest

from corpus.test_parse import check
from evaluation.corpora import needs_corpora, unpack
from thumbindex.corpus.parse import parse_document
from thumbindex.corpus.walk import walk
from thumbindex.settings import CorpusSettings

SETTINGS = CorpusSettings()
pytestmark = [pytest.mark.long, needs_corpora]


MIN_CHUNKS = {
    "obsidian-help": 4_000,
    "devdocs": 20_000,
    "cpp-docs": 40_000,
    "tldr-en": 7_000,
    "cisi": 3_000,
}


@pytest.mark.parametrize(("name", "min_chunks"), MIN_CHUNKS.items())
def test_every_chunk_is_at_its_lines_inside_its_section(
    tmp_path: Path, name: str, min_chunks: int
) -> None:
    root = unpack(name, tmp_path)
    files, problems = walk(root, SETTINGS)
    assert problems == ()
    chunks = 0
    for file in files:
        data = (root / file.path).read_bytes()
        parsed = parse_document(file.path, data, SETTINGS)
        chunks += len(parsed.chunks)
        text = data.decode("utf-8-sig")
        if not any(sign in text for sign in ("<!--", "%%", "{/*", ";base64,")):
            check(text, parsed, SETTINGS.chunk)
    assert chunks > min_chunks
