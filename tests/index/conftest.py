"""Notes of plain paragraphs, and indexes of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from thumbindex.index.files import IndexPaths
from thumbindex.index.store import Store
from thumbindex.index.writer import Batch, Writer
from thumbindex.model import (
    BlockKind,
    Chunk,
    Document,
    FileState,
    Link,
    LinkKind,
    ParsedDocument,
    Section,
)

Note = tuple[FileState, ParsedDocument]


def make_note(
    path: str, *paragraphs: str, title: str = "", links: tuple[str, ...] = (), **attributes: object
) -> Note:
    """Return a note of one section with a chunk per paragraph, which may be "Heading: text"."""
    name = title or path.removesuffix(".md")
    chunks = []
    for n, paragraph in enumerate(paragraphs):
        heading, _, text = paragraph.rpartition(": ")
        chunks.append(
            Chunk(
                n, 0, BlockKind.PROSE, (name, heading) if heading else (name,), n + 1, n + 1, text
            )
        )
    section = Section(0, 1, max(len(paragraphs), 1), "\n".join(chunk.text for chunk in chunks))
    text = "\n".join(paragraphs)
    state = FileState(path, len(text), 1_000, 1, hashlib.sha256(text.encode()).hexdigest())
    parsed_links = tuple(Link(LinkKind.WIKILINK, target, "", target, 1) for target in links)
    document = Document(path, name, **attributes)  # type: ignore[arg-type]
    return state, ParsedDocument(document, (section,), tuple(chunks), parsed_links)


def resolver(documents: Sequence[Document]) -> Callable[[Link, str], str | None]:
    """Resolve `x` to an existing `x.md`; other links dangle."""
    paths = {document.path for document in documents}
    return lambda link, _: f"{link.target}.md" if f"{link.target}.md" in paths else None


@pytest.fixture
def note() -> Callable[..., Note]:
    return make_note


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., tuple[Store, IndexPaths]]:
    """Return a function that applies a batch and opens the store."""

    def apply(
        *notes: Note, removed: tuple[str, ...] = (), folder: str = "index"
    ) -> tuple[Store, IndexPaths]:
        with Writer.open(tmp_path / folder) as writer:
            writer.apply(Batch(notes, removed), resolver)
        paths = IndexPaths(tmp_path / folder)
        return Store(paths.store, read_only=True), paths

    return apply
