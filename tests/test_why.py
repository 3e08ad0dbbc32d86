"""Why a query misses a note: not on disk, excluded, not indexed, changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from folders import open_library, write_notes
from thumbindex.errors import UnknownPathError, UsageError
from thumbindex.library import Library
from thumbindex.model import WhyReport

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
    """Opens the vault and further folders."""
    with ExitStack() as stack:
        yield lambda *more, overrides=(): stack.enter_context(
            open_library(vault, *more, overrides=overrides)
        )


@pytest.fixture
def library(opened: Open) -> Library:
    library = opened()
    library.index()
    return library


def outcome_and_reason(report: WhyReport) -> tuple[str, str]:
    return report.outcome, report.reason


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("drafts/plums.md", "its folder drafts is ignored by .gitignore, line 2: drafts/"),
        (
            ".trash/figs.md",
            "its folder .trash is hidden: its name begins with a dot "
            "(set corpus.hidden to include it)",
        ),
        ("list.txt", "it is not Markdown: corpus.extensions lists .md, .markdown, .mdx"),
        ("./drafts/plums.md#Plums", "its folder drafts is ignored by .gitignore, line 2: drafts/"),
    ],
)
def test_why_names_the_rule_that_excludes_a_file(library: Library, path: str, reason: str) -> None:
    assert outcome_and_reason(library.why(path, "plums")) == ("not_indexed", reason)


def test_why_reports_a_new_file_as_not_indexed_yet(library: Library, vault: Path) -> None:
    (vault / "new.md").write_text("# New\n\nBananas.\n")
    assert outcome_and_reason(library.why("new.md", "bananas")) == (
        "not_indexed",
        (
            "it is not indexed yet: a running server indexes it soon, otherwise run "
            "`thumbindex index`"
        ),
    )


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything"
)
def test_why_reports_an_unreadable_file(vault: Path, opened: Open) -> None:
    (vault / "fruit/pears.md").chmod(0)
    library = opened()
    library.index()
    assert outcome_and_reason(library.why("fruit/pears.md", "pears")) == (
        "not_indexed",
        "cannot be read: Permission denied",
    )


def test_why_reports_a_folder_without_an_index(opened: Open) -> None:
    assert outcome_and_reason(opened().why("fruit/pears.md", "pears")) == (
        "not_indexed",
        "vault has no index yet: run `thumbindex index`",
    )


@pytest.mark.parametrize("path", ["../secret.md", "/etc/hosts", "fruit/../../secret.md"])
def test_why_does_not_look_outside_the_folders(library: Library, path: str) -> None:
    with pytest.raises(UnknownPathError, match="No note"):
        library.why(path, "apples")


def test_why_explains_a_single_heading(library: Library) -> None:
    report = library.why("fruit/apples.md#storing", "cool cellar")
    assert (report.heading, report.chunks, report.outcome) == ("storing", 1, "shown")
    with pytest.raises(UsageError, match=r"has no heading .Storage.\. Nearest: Storing"):
        library.why("fruit/apples.md#Storage", "cool cellar")
