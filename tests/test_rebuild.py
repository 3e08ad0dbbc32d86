"""An index is built anew beside the old one: whatever happens meanwhile, nothing is lost, nothing
comes back, and nothing private stays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from thumbindex.config import load_config
from thumbindex.index.editions import BUILDING, mend, next_edition, switch
from thumbindex.index.files import VECTORS
from thumbindex.index.locks import locked
from thumbindex.index.store import Store
from thumbindex.index.vector_store import VectorStore
from thumbindex.library import Library
from thumbindex.testing import FakeEmbedder

Open = Callable[..., Library]


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    root = tmp_path / "vault"
    root.mkdir()
    for name in ("apples", "pears", "plums"):
        (root / f"{name}.md").write_text(f"# {name}\n\nSome {name} are ripe.\n", encoding="utf-8")
    return root


@pytest.fixture
def opened(vault: Path, tmp_path: Path) -> Open:
    """Return a function that opens the vault as another process would, with settings of its own."""

    def open_it(
        *overrides: str, embedder: FakeEmbedder | None = None, folder: Path = vault
    ) -> Library:
        config = load_config(user_file=tmp_path / "none", overrides=overrides)
        return Library.open(
            [folder], index=tmp_path / "index", config=config, embedder=embedder or FakeEmbedder()
        )

    return open_it


def paths(library: Library) -> set[str]:
    return {entry.path for entry in library.outline()}


def unneeded(library: Library) -> int:
    """Count the vectors that no text of the index has."""
    with closing(Store(library.opened[0].places.at().store, read_only=True)) as store:
        texts = store.texts()
    found = 0
    for path in (library.opened[0].places.folder.with_name(VECTORS)).glob("*.sqlite3"):
        with closing(VectorStore(path, read_only=True)) as vectors:
            found += len(vectors.keys() - texts)
    return found


@pytest.mark.parametrize("how", [{"rebuild": True}, {}])
def test_a_note_that_became_private_leaves_no_vector_when_the_index_is_built_anew(
    vault: Path, opened: Open, how: dict[str, bool]
) -> None:
    with opened() as library:
        library.index()
    (vault / "pears.md").write_text(
        "---\nprivate: true\n---\nSome pears are ripe.\n", encoding="utf-8"
    )
    with opened(*(() if how else ("corpus.chunk.child_max=400",))) as library:
        library.index(words_only=True, **how)
        assert (paths(library), unneeded(library)) == ({"apples.md", "plums.md"}, 0)


def test_what_changes_beside_a_rebuild_is_not_lost_and_does_not_come_back(
    vault: Path, opened: Open
) -> None:
    with opened() as library, opened() as other:
        library.index()
        edits = [
            lambda: (vault / "quinces.md").write_text("# Quinces\n", encoding="utf-8"),
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
        assert (report.changed, embedder.embedded, library.opened[0].places.present) == (3, 0, 2)
        assert "made with other settings: it was built anew" in report.mended[0]
        assert library.index().mended == ()


def test_a_vault_that_was_moved_embeds_nothing_again(vault: Path, opened: Open) -> None:
    with opened() as library:
        library.index()
    embedder = FakeEmbedder()
    with opened(embedder=embedder, folder=vault.rename(vault.with_name("moved"))) as library:
        assert (library.index().added, embedder.embedded) == (3, 0)


def test_a_rebuild_that_was_interrupted_goes_on_and_until_then_the_old_index_answers(
    opened: Open,
) -> None:
    with opened() as library:
        library.index()
    with opened("corpus.chunk.child_max=400") as library:
        asked = iter([True])
        report = library.index(words_only=True, interrupted=lambda: next(asked, False))
        assert (library.opened[0].places.present, len(paths(library))) == (
            1 if report.left else 2,
            3,
        )
        library.index()
        assert (library.opened[0].places.present, len(paths(library))) == (2, 3)


def test_what_an_unfinished_rebuild_left_is_deleted_by_the_next_run_of_anybody(
    vault: Path, opened: Open
) -> None:
    with opened() as library:
        library.index()
        folder = library.opened[0].places.folder
        next_edition(folder, lambda store: False)
        (vault / "quinces.md").write_text("# Quinces\n", encoding="utf-8")
        library.index()
        assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["1"]


def test_who_finds_damage_that_another_process_has_mended_meanwhile_leaves_it_alone(
    opened: Open,
) -> None:
    with opened() as library:
        library.index()
        places = library.opened[0].places
        places.at().store.write_bytes(b"damaged" * 1000)
        said: list[str] = []
        finder = threading.Thread(target=lambda: said.append(mend(places)))
        with locked(places.rebuild):
            finder.start()
            switch(places.folder, next_edition(places.folder, lambda store: False))
            library.index()
        finder.join()
        assert (said, places.present, len(paths(library))) == ([""], 2, 3)


def test_a_switch_to_what_is_not_there_is_refused(opened: Open) -> None:
    with opened() as library:
        library.index()
        folder = library.opened[0].places.folder
        assert (switch(folder, 2), switch(folder, 1), library.opened[0].places.present) == (
            False,
            False,
            1,
        )


def test_an_index_is_complete_when_its_last_batch_is_committed(opened: Open) -> None:
    with opened() as library:
        library.index()
        places = library.opened[0].places
        switch(places.folder, next_edition(places.folder, lambda store: False))
        library.index()
        with closing(Store(places.at().store, read_only=True)) as store:
            assert (store.meta(BUILDING), bool(store.meta("corpus"))) == ("", True)


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
            (vault / "pears.md").write_text("#private\n\nSome pears are ripe.\n", encoding="utf-8")
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
        library.opened[0].places.folder.joinpath("decisions.json").write_text("{", encoding="utf-8")
        (vault / "pears.md").write_text("#private\n\nSome pears are ripe.\n", encoding="utf-8")
        library.index()
        assert paths(library) == {"apples.md", "plums.md"}
