"""An index is built anew beside the old one: whatever happens meanwhile, nothing is lost, nothing
comes back, and nothing private stays.
"""

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
def opened(vault: Path) -> Open:
    """Return a function that opens the vault as another process would, with settings of its own."""
    return lambda *overrides, embedder=None: open_library(
        vault, overrides=overrides, embedder=embedder
    )


def paths(library: Library) -> set[str]:
    return {entry.path for entry in library.outline()}


def unneeded(library: Library) -> int:
    """Count the vectors that no text of the index has."""
    with closing(Store(library.opened[0].index_paths.of_build().store, read_only=True)) as store:
        texts = embedded_keys(store)
    found = 0
    for path in (library.opened[0].index_paths.folder.with_name(VECTORS_FOLDER)).glob("*.sqlite3"):
        with closing(VectorStore(path, read_only=True)) as vectors:
            found += len(vectors.keys() - texts)
    return found


@pytest.mark.parametrize("how", [{"rebuild": True}, {}])
def test_a_note_that_became_private_leaves_no_vector_when_the_index_is_built_anew(
    vault: Path, opened: Open, how: dict[str, bool]
) -> None:
    with opened() as library:
        library.index()
    write(vault / "pears.md", "---\nprivate: true\n---\nSome pears are ripe.\n")
    with opened(*(() if how else ("corpus.chunk.child_max=400",))) as library:
        library.index(words_only=True, **how)
        assert (paths(library), unneeded(library)) == ({"apples.md", "plums.md"}, 0)


def test_what_changes_beside_a_rebuild_is_not_lost_and_does_not_come_back(
    vault: Path, opened: Open
) -> None:
    with opened() as library, opened() as other:
        library.index()
        edits = [
            lambda: write(vault / "quinces.md", "# Quinces\n"),
            lambda: (vault / "pears.md").unlink(),
        ]

        def meanwhile(progress: object) -> None:
            if edits:
                edits.pop()()
                other.index(words_only=True)

        library.index(rebuild=True, progress=meanwhile)
        assert (paths(library), edits) == ({"apples.md", "plums.md", "quinces.md"}, [])


def test_other_settings_of_cutting_build_the_index_anew_say_so_and_embed_only_what_is_another_text(
    opened: Open,
) -> None:
    with opened() as library:
        library.index()
    embedder = FakeEmbedder()
    with opened("corpus.chunk.child_max=400", embedder=embedder) as library:
        report = library.index()
        assert (report.changed, embedder.embedded, library.opened[0].index_paths.current_build) == (
            3,
            0,
            2,
        )
        assert "made with other settings: it was rebuilt" in report.repaired[0]
        assert library.index().repaired == ()


def test_a_rebuild_that_was_interrupted_goes_on_and_until_then_the_old_index_answers(
    opened: Open,
) -> None:
    with opened() as library:
        library.index()
    with opened("corpus.chunk.child_max=400") as library:
        asked = iter([True])
        report = library.index(words_only=True, interrupted=lambda: next(asked, False))
        assert (library.opened[0].index_paths.current_build, len(paths(library))) == (
            1 if report.deferred else 2,
            3,
        )
        library.index()
        assert (library.opened[0].index_paths.current_build, len(paths(library))) == (2, 3)


class Hiding(FakeEmbedder):
    """Has a note become private, and another process see that, while it embeds."""

    def __init__(self, hide: Callable[[], None]) -> None:
        super().__init__()
        self.hide = hide

    def embed_passages(self, texts):
        """Embed, and hide a note the first time."""
        hide, self.hide = self.hide, lambda: None
        hide()
        return super().embed_passages(texts)


def test_a_note_that_becomes_private_while_it_is_embedded_gets_no_vector(
    vault: Path, opened: Open
) -> None:
    with opened() as other:

        def hide() -> None:
            write(vault / "pears.md", "#private\n\nSome pears are ripe.\n")
            other.index(words_only=True)

        with opened(embedder=Hiding(hide)) as library:
            library.index()
            library.index()
        assert (paths(other), unneeded(other), other.index().embedded) == (
            {"apples.md", "plums.md"},
            0,
            0,
        )


def test_decisions_that_cannot_be_read_keep_no_note_from_becoming_private(
    vault: Path, opened: Open
) -> None:
    with opened() as library:
        library.index()
        library.opened[0].index_paths.folder.joinpath("decisions.json").write_text(
            "{", encoding="utf-8"
        )
        write(vault / "pears.md", "#private\n\nSome pears are ripe.\n")
        library.index()
        assert paths(library) == {"apples.md", "plums.md"}
