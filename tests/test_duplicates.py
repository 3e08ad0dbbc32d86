"""The owner decides about clusters. Decisions survive reindexing, and outdated ones are listed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from folders import open_library, write, write_notes
from thumbindex.errors import UsageError
from thumbindex.library import Library
from thumbindex.model import Cluster

RETENTION = (
    "Logs are kept for {} days and then they are deleted, and exports must be asked for before "
    "the end of that time."
)
PREVIEW = (
    "Page preview is a plugin that lets you preview a page when you hover the cursor over a link, "
    "without going there."
)

NOTES = {
    "a.md": f"---\ndate: 2024-01-01\n---\n# One\n\n{PREVIEW}\n",
    "b.md": (
        f"---\ndate: 2025-01-01\n---\n# Two\n\n{PREVIEW.replace('preview a', '**preview** a')}\n"
    ),
    "old/c.md": f"# Retention\n\n{RETENTION.format(30)}\n",
    "new/d.md": f"# Retention\n\n{RETENTION.format(90)}\n",
    "e.md": "# Other\n\nBoxes and arrows on a whiteboard.\n",
}


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    return write_notes(tmp_path / "vault", NOTES)


@pytest.fixture
def library(vault: Path) -> Iterator[Library]:
    with open_library(vault) as library:
        library.index()
        yield library


def clusters(library: Library, *, grey: bool = True) -> dict[tuple[str, ...], Cluster]:
    """Return the clusters by the paths where their texts stand."""
    return {
        tuple(sorted(text.path for text in found.texts)): found
        for found in library.duplicates(grey=grey).clusters
    }


def test_clusters_of_one_text_come_first_and_those_to_be_decided_on_demand(
    library: Library,
) -> None:
    assert list(clusters(library)) == [("a.md", "b.md"), ("new/d.md", "old/c.md")]
    assert list(clusters(library, grey=False)) == [("a.md", "b.md")]


def test_a_cluster_tells_its_rule_what_differs_where_and_when(library: Library) -> None:
    same, grey = clusters(library).values()
    assert (same.zone, same.rule, same.differs, same.verdict) == (
        "same",
        "equal except for markup",
        "",
        None,
    )
    assert [(text.path, text.start_line, text.date) for text in same.texts] == [
        ("b.md", 6, "2025-01-01"),
        ("a.md", 6, "2024-01-01"),
    ]
    assert set(grey.differs.split(" against ")) == {"`30 day`", "`90 day`"}


def test_notes_of_two_releases_are_alike_and_contradict_nothing(
    library: Library, vault: Path
) -> None:
    paths = ("1.5.8.md", "1.6.0.md")
    for path, days in zip(paths, (40, 50), strict=True):
        write(vault / path, f"# Retention\n\n{RETENTION.format(days)}\n")
    library.index()
    found = clusters(library)
    assert (found[paths].zone, found[paths].differs) == ("grey", "")
    assert found["new/d.md", "old/c.md"].differs


def test_an_automatic_decision_is_taken_back_in_one_step(library: Library) -> None:
    same = clusters(library)["a.md", "b.md"]
    assert library.decisions().decide(same.id[:4], "apart").verdict == "apart"
    assert library.duplicates().merged == 0


def test_a_decision_survives_reindexing_and_a_rebuilt_index(library: Library) -> None:
    library.decisions().decide(clusters(library)["a.md", "b.md"].id, "apart")
    library.index(rebuild=True)
    assert clusters(library)["a.md", "b.md"].verdict == "apart"


def test_a_decision_holds_where_a_note_is_moved(library: Library, vault: Path) -> None:
    library.decisions().decide(clusters(library)["new/d.md", "old/c.md"].id, "apart")
    (vault / "new/d.md").rename(vault / "moved.md")
    library.index()
    assert clusters(library)["moved.md", "old/c.md"].verdict == "apart"
    assert library.duplicates().outdated_decisions == ()


def test_no_note_is_ever_written_to(library: Library, vault: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in vault.rglob("*.md")}
    for each in clusters(library).values():
        library.decisions().decide(each.id, "same")
        library.decisions().decide(each.id, None)
    assert {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in vault.rglob("*.md")
    } == before


def test_a_folder_without_an_index_says_what_to_do(vault: Path, tmp_path: Path) -> None:
    with (
        open_library(vault) as library,
        pytest.raises(UsageError, match="run `thumbindex index`"),
    ):
        library.duplicates()
