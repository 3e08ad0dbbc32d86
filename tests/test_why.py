"""Why a note is not among the answers, from the folder on disk to the last stage, with fake models
and real indexes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from folders import open_library, write_notes
from thumbindex.errors import UnknownPathError, UsageError
from thumbindex.library import Library
from thumbindex.model import Why

NOTES = {
    "fruit/apples.md": (
        "# Apples\n\nApples grow on trees. See [[pears]].\n\n## Storing\n\n"
        "Keep apples in a cool cellar.\n"
    ),
    "fruit/pears.md": "---\ntags: [soft]\n---\n# Pears\n\nPears ripen off the tree.\n",
    "drafts/plums.md": "# Plums\n\nPlums are blue.\n",
    ".trash/figs.md": "# Figs\n\nFigs are old.\n",
    "list.txt": "apples\n",
}

Open = Callable[..., Library]


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    root = write_notes(tmp_path / "vault", NOTES)
    for path in NOTES:
        os.utime(root / path, (1_000_000_000, 1_000_000_000))
    (root / ".gitignore").write_text("# not ready\ndrafts/\n")
    return root


@pytest.fixture
def opened(vault: Path) -> Iterator[Open]:
    """Open the vault, and further folders."""
    with ExitStack() as stack:
        yield lambda *more, overrides=(): stack.enter_context(
            open_library(vault, *more, overrides=overrides)
        )


@pytest.fixture
def library(opened: Open) -> Library:
    library = opened()
    library.index()
    return library


def told(found: Why) -> tuple[str, str]:
    return found.fate, found.reason


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("drafts/plums.md", "its folder drafts is ignored by .gitignore, line 2: drafts/"),
        (
            ".trash/figs.md",
            "its folder .trash is hidden, as its name begins with a dot (corpus.hidden reads such)",
        ),
        ("list.txt", "it is not Markdown: corpus.extensions names .md, .markdown, .mdx"),
        ("./drafts/plums.md#Plums", "its folder drafts is ignored by .gitignore, line 2: drafts/"),
    ],
)
def test_a_file_that_a_rule_leaves_out_is_told_which(
    library: Library, path: str, reason: str
) -> None:
    assert told(library.why(path, "plums")) == ("not_indexed", reason)


def test_a_file_that_came_since_is_told_to_be_unknown_yet(library: Library, vault: Path) -> None:
    (vault / "new.md").write_text("# New\n\nBananas.\n")
    assert told(library.why("new.md", "bananas")) == (
        "not_indexed",
        (
            "the index does not know it yet: a server that runs takes it in by itself, else "
            "`thumbindex index` does"
        ),
    )


def test_a_file_that_is_too_large_is_told_its_size(vault: Path, opened: Open) -> None:
    library = opened(overrides=("corpus.max_file_bytes=60",))
    library.index()
    size = (vault / "fruit/apples.md").stat().st_size
    assert told(library.why("fruit/apples.md", "apples")) == (
        "not_indexed",
        f"{size} bytes, more than corpus.max_file_bytes (60): left out",
    )


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything"
)
def test_a_file_that_cannot_be_read_is_told_why(vault: Path, opened: Open) -> None:
    (vault / "fruit/pears.md").chmod(0)
    library = opened()
    library.index()
    assert told(library.why("fruit/pears.md", "pears")) == (
        "not_indexed",
        "cannot be read: Permission denied",
    )


def test_a_folder_without_an_index_is_told_so(opened: Open) -> None:
    assert told(opened().why("fruit/pears.md", "pears")) == (
        "not_indexed",
        "there is no index of vault yet: `thumbindex index` makes one",
    )


@pytest.mark.parametrize("path", ["../secret.md", "/etc/hosts", "fruit/../../secret.md"])
def test_a_path_outside_the_folders_is_told_so_and_not_looked_at(
    library: Library, vault: Path, path: str
) -> None:
    assert told(library.why(path, "apples")) == (
        "not_indexed",
        f"it lies outside the folders that are searched: {vault}",
    )


def test_a_path_that_is_nowhere_names_the_nearest(library: Library) -> None:
    with pytest.raises(UnknownPathError, match=r"Nearest: fruit/pears\.md"):
        library.why("fruit/peers.md", "pears")


@pytest.mark.parametrize(
    "name", ["pears", "Pears", "[[pears]]", "fruit/pears", "1. fruit/pears.md (lines 5-6)"]
)
def test_a_note_is_named_as_it_is_to_be_read(library: Library, name: str) -> None:
    assert library.why(name, "pears ripen") == library.why("fruit/pears.md", "pears ripen")
    assert library.read(name).path == "fruit/pears.md"


def test_a_note_in_the_answer_is_told_where_it_stands(library: Library) -> None:
    found = library.why("fruit/pears.md", "pears ripen")
    assert (found.fate, found.rank, found.folder, found.notes) == ("shown", 1, "vault", ())


def test_a_heading_is_looked_for_alone(library: Library) -> None:
    found = library.why("fruit/apples.md#storing", "cool cellar")
    assert (found.heading, found.chunks, found.fate) == ("storing", 1, "shown")
    with pytest.raises(UsageError, match=r"no text under a heading .Storage.\. Nearest: Storing"):
        library.why("fruit/apples.md#Storage", "cool cellar")


def test_filters_that_keep_a_note_out_are_named(library: Library) -> None:
    assert (
        library.why("fruit/apples.md", "apples", tag=["soft"]).reason
        == "the filter `tag` asks for soft; its tags: none"
    )
    assert (
        library.why("fruit/apples.md", "apples", path=["drafts/**"]).reason
        == "the filter `path` does not match it: drafts/**"
    )


def test_one_path_in_two_folders_is_asked_for_the_folder(opened: Open, tmp_path: Path) -> None:
    (other := tmp_path / "other" / "fruit").mkdir(parents=True)
    (other / "pears.md").write_text("# Pears\n\nOther pears.\n")
    library = opened(other.parent)
    library.index()
    with pytest.raises(
        UsageError, match=r"several documents: other: fruit/pears\.md, vault: fruit/"
    ):
        library.why("fruit/pears.md", "pears")
    assert library.why("fruit/pears.md", "pears", folder=["other"]).folder == "other"


def test_a_file_that_is_another_one_than_was_indexed_is_told_so(
    library: Library, vault: Path
) -> None:
    (vault / "fruit/pears.md").write_text("# Pears\n\nPears are yellow.\n")
    assert library.why("fruit/pears.md", "pears").notes == (
        "the file was changed since it was indexed: what is told is of what was read then",
    )
    (vault / "fruit/apples.md").unlink()
    with pytest.raises(UnknownPathError):
        library.why("fruit/apples.md", "apples")
    vault.rename(vault.with_name("elsewhere"))
    assert library.why("fruit/apples.md", "apples").notes == (
        "the file is not there any more: what is told is of what was read last",
    )


def test_an_explained_answer_is_the_same_answer(library: Library) -> None:
    plain, explained = (
        library.query("apples in a cellar", explain=explain) for explain in (False, True)
    )
    assert [each.explanation for each in plain.passages] == [None] * len(plain.passages)
    assert tuple(replace(each, explanation=None) for each in explained.passages) == plain.passages
    assert all(each.explanation and each.explanation.evidence for each in explained.passages)
