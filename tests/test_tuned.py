"""What tuning found is used by whoever opens the folder, survives a rebuild, and goes with the
index.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from thumbindex.config import load_config
from thumbindex.library import Library
from thumbindex.library.folders import read_tuned, undo_tuned, write_tuned
from thumbindex.model import Tuned
from thumbindex.testing import FakeEmbedder

FOUND = Tuned(
    {"query.fuse.method": "rrf", "query.fuse.k": 30},
    "k 30: +0.030",
    "2026-11-21T12:00:00+00:00",
    "fake",
    {"queries": 80},
)


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    root = tmp_path / "vault"
    root.mkdir()
    (root / "apples.md").write_text("# Apples\n\nApples grow on trees.\n", encoding="utf-8")
    with open_library(root) as library:
        library.index()
        write_tuned(library.opened[0].places, FOUND)
    return root


def open_library(root: Path, *overrides: str) -> Library:
    config = load_config(user_file=root / "none", overrides=overrides)
    return Library.open([root], index=root.parent / "index", config=config, embedder=FakeEmbedder())


def test_what_was_found_is_used_at_the_next_opening(vault: Path) -> None:
    with open_library(vault) as library:
        assert (library.config.query.fuse.method, library.config.query.fuse.k) == ("rrf", 30)


def test_a_setting_of_the_user_goes_before_what_was_found(vault: Path) -> None:
    with open_library(vault, "query.fuse.method=convex") as library:
        assert (library.config.query.fuse.method, library.config.query.fuse.k) == ("convex", 30)


def test_tuning_can_be_left_aside(vault: Path) -> None:
    with open_library(vault, "query.tuned=false") as library:
        assert library.config.query.fuse.method == "convex"


def test_folders_that_are_asked_together_are_asked_as_the_user_says(
    vault: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with Library.open(
        [vault, other], index=tmp_path / "index", config=load_config(user_file=vault / "none")
    ) as library:
        assert library.config.query.fuse.method == "convex"


def test_what_was_found_is_read_as_it_was_written(vault: Path) -> None:
    with open_library(vault) as library:
        assert read_tuned(library.opened[0].places) == FOUND
        assert library.status()[0].tuned == FOUND


def test_undoing_goes_back_to_the_defaults_once(vault: Path) -> None:
    with open_library(vault) as library:
        assert [undo_tuned(library.opened[0].places) for _ in range(2)] == [True, False]
    with open_library(vault) as library:
        assert (library.config.query.fuse.method, library.status()[0].tuned) == ("convex", None)


def test_a_rebuilt_index_stays_tuned_and_a_forgotten_one_does_not(vault: Path) -> None:
    with open_library(vault) as library:
        library.index(rebuild=True)
        assert library.status()[0].tuned == FOUND
        library.forget()
    with open_library(vault) as library:
        assert library.config.query.fuse.method == "convex"
    assert list((vault.parent / "index").iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"format": 2, "settings": {}}',
        '{"format": 1, "settings": {"query.fuse.k": "x"}',
    ],
)
def test_a_damaged_file_is_told_in_one_sentence_and_changes_nothing(
    vault: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with open_library(vault) as library:
        library.opened[0].places.tuned.write_text(text, encoding="utf-8")
    with caplog.at_level(logging.WARNING), open_library(vault) as library:
        assert library.config.query.fuse.method == "convex"
        assert library.query("apples").passages[0].path == "apples.md"
        assert "The defaults are used" in library.status()[0].problems[0].reason
    assert len(caplog.messages) == 1
    assert "`thumbindex tune --undo` deletes it" in caplog.messages[0]


def test_a_value_that_no_setting_takes_leaves_all_defaults(vault: Path) -> None:
    with open_library(vault) as library:
        places = library.opened[0].places
    write_tuned(places, Tuned({"query.fuse.method": "rrf", "query.fuse.k": -1}, "", "", ""))
    with open_library(vault) as library:
        assert library.config.query.fuse.method == "convex"


def test_a_library_that_asks_otherwise_shares_what_is_open(vault: Path) -> None:
    with open_library(vault) as library:
        words = library.answering_with(
            load_config(
                user_file=vault / "none",
                overrides=["query.skip=search_vector,expand,deduplicate,rerank"],
            ).query
        )
        assert "search_vector" in library.query("apples").passages[0].sources
        assert "search_vector" not in words.query("apples").passages[0].sources
        assert words.opened == library.opened


class Counting(FakeEmbedder):
    """Counts the queries that it embeds."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def embed_query(self, text: str):
        self.asked.append(text)
        return super().embed_query(text)


def test_the_same_question_under_other_settings_is_embedded_once(vault: Path) -> None:
    embedder = Counting()
    with Library.open(
        [vault],
        index=vault.parent / "index",
        config=load_config(user_file=vault / "none"),
        embedder=embedder,
    ) as library:
        remembering = library.remembering()
        for k in (1, 2):
            remembering.answering_with(
                load_config(user_file=vault / "none", overrides=[f"query.fuse.k={k}"]).query
            ).query("apples")
    assert embedder.asked == ["apples"]
