"""Rebuilding an index loses nothing, restores nothing deleted, and keeps nothing private."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fakes import FakeEmbedder
from folders import open_library, write, write_notes
from thumbindex.index.chunk_vectors import embedded_keys
from thumbindex.index.files import VECTORS_FOLDER
from thumbindex.index.store import Store
from thumbindex.index.vector_store import VectorStore
from thumbindex.library import Library

Open = Callable[..., Library]


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    names = ("apples", "pears", "plums")
    notes = {f"{name}.md": f"# {name}\n\nSome {name} are ripe.\n" for name in names}
    return write_notes(tmp_path / "vault", notes)


@pytest.fixture
def open_vault(vault: Path) -> Open:
    """Return a function that opens the vault like another process, with its own settings."""
    return lambda *overrides, embedder=None: open_library(
        vault, overrides=overrides, embedder=embedder
    )


def paths(library: Library) -> set[str]:
    return {entry.path for entry in library.outline()}


def count_unneeded(library: Library) -> int:
    """Count the vectors that belong to no text of the index."""
    with closing(Store(library.opened[0].index_paths.of_build().store, read_only=True)) as store:
        texts = embedded_keys(store)
    count = 0
    for path in (library.opened[0].index_paths.folder.with_name(VECTORS_FOLDER)).glob("*.sqlite3"):
        with closing(VectorStore(path, read_only=True)) as vectors:
            count += len(vectors.keys() - texts)
    return count


@pytest.mark.parametrize("options", [{"rebuild": True}, {}])
def test_rebuild_keeps_no_vector_of_a_note_that_became_private(
    vault: Path, open_vault: Open, options: dict[str, bool]
) -> None:
    with open_vault() as library:
        library.index()
    write(vault / "pears.md", "---\nprivate: true\n---\nSome pears are ripe.\n")
    with open_vault(*(() if options else ("corpus.chunk.child_max=400",))) as library:
        library.index(complete=False, **options)
        assert (paths(library), count_unneeded(library)) == ({"apples.md", "plums.md"}, 0)


def test_rebuild_keeps_changes_made_by_another_process(vault: Path, open_vault: Open) -> None:
    with open_vault() as library, open_vault() as other:
        library.index()
        edits = [
            lambda: write(vault / "quinces.md", "# Quinces\n"),
            lambda: (vault / "pears.md").unlink(),
        ]

        def index_elsewhere(progress: object) -> None:
            if edits:
                edits.pop()()
                other.index(complete=False)

        library.index(rebuild=True, progress=index_elsewhere)
        assert (paths(library), edits) == ({"apples.md", "plums.md", "quinces.md"}, [])


def test_changed_chunk_settings_rebuild_but_reuse_vectors(
    open_vault: Open,
) -> None:
    with open_vault() as library:
        library.index()
    embedder = FakeEmbedder()
    with open_vault("corpus.chunk.child_max=400", embedder=embedder) as library:
        report = library.index()
        assert (report.changed, embedder.embedded, library.opened[0].index_paths.current_build) == (
            3,
            0,
            2,
        )
        assert (
            "made with other settings or by an earlier version: it was rebuilt"
            in report.repaired[0]
        )
        assert library.index().repaired == ()


def test_interrupted_rebuild_resumes_while_the_old_index_answers(
    open_vault: Open,
) -> None:
    with open_vault() as library:
        library.index()
    with open_vault("corpus.chunk.child_max=400") as library:
        interruptions = iter([True])
        report = library.index(complete=False, interrupted=lambda: next(interruptions, False))
        assert (library.opened[0].index_paths.current_build, len(paths(library))) == (
            1 if report.deferred else 2,
            3,
        )
        library.index()
        assert (library.opened[0].index_paths.current_build, len(paths(library))) == (2, 3)


class HidingEmbedder(FakeEmbedder):
    """Makes a note private during embedding, and lets another process notice."""

    def __init__(self, hide: Callable[[], None]) -> None:
        super().__init__()
        self.hide = hide

    def embed_passages(self, texts):
        """Embed, and hide a note the first time."""
        hide, self.hide = self.hide, lambda: None
        hide()
        return super().embed_passages(texts)


def test_note_that_becomes_private_during_embedding_gets_no_vector(
    vault: Path, open_vault: Open
) -> None:
    with open_vault() as other:

        def hide() -> None:
            write(vault / "pears.md", "#private\n\nSome pears are ripe.\n")
            other.index(complete=False)

        with open_vault(embedder=HidingEmbedder(hide)) as library:
            library.index()
            library.index()
        assert (paths(other), count_unneeded(other), other.index().embedded) == (
            {"apples.md", "plums.md"},
            0,
            0,
        )


def test_unreadable_decisions_do_not_prevent_making_a_note_private(
    vault: Path, open_vault: Open
) -> None:
    with open_vault() as library:
        library.index()
        library.opened[0].index_paths.folder.joinpath("decisions.json").write_text(
            "{", encoding="utf-8"
        )
        write(vault / "pears.md", "#private\n\nSome pears are ripe.\n")
        library.index()
        assert paths(library) == {"apples.md", "plums.md"}
