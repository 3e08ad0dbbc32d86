"""The user's decisions about duplicate clusters."""

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
    """Return the clusters by the paths of their texts."""
    return {
        tuple(sorted(text.path for text in cluster.texts)): cluster
        for cluster in library.duplicates(grey=grey).clusters
    }


def test_contradictions_are_listed_first_and_grey_clusters_on_request(library: Library) -> None:
    assert list(clusters(library)) == [("new/d.md", "old/c.md"), ("a.md", "b.md")]
    assert list(clusters(library, grey=False)) == [("a.md", "b.md")]


def test_cluster_reports_rule_difference_places_and_dates(library: Library) -> None:
    grey, same = clusters(library).values()
    assert (same.zone, same.rule, same.differs, same.verdict) == (
        "same",
        "identical except for markup",
        "",
        None,
    )
    assert [(text.path, text.start_line, text.date) for text in same.texts] == [
        ("b.md", 6, "2025-01-01"),
        ("a.md", 6, "2024-01-01"),
    ]
    assert set(grey.differs.split(" vs. ")) == {"`30 day`", "`90 day`"}


def test_release_notes_are_grey_without_a_difference(library: Library, vault: Path) -> None:
    paths = ("1.5.8.md", "1.6.0.md")
    for path, days in zip(paths, (40, 50), strict=True):
        write(vault / path, f"# Retention\n\n{RETENTION.format(days)}\n")
    library.index()
    by_paths = clusters(library)
    assert (by_paths[paths].zone, by_paths[paths].differs) == ("grey", "")
    assert by_paths["new/d.md", "old/c.md"].differs


def test_owner_overrides_an_automatic_decision(library: Library) -> None:
    same = clusters(library)["a.md", "b.md"]
    assert library.decisions().decide(same.id[:4], "apart").verdict == "apart"
    assert library.duplicates().merged == 0


def test_decision_survives_a_rebuild(library: Library) -> None:
    library.decisions().decide(clusters(library)["a.md", "b.md"].id, "apart")
    library.index(rebuild=True)
    assert clusters(library)["a.md", "b.md"].verdict == "apart"


def test_decision_survives_moving_a_note(library: Library, vault: Path) -> None:
    library.decisions().decide(clusters(library)["new/d.md", "old/c.md"].id, "apart")
    (vault / "new/d.md").rename(vault / "moved.md")
    library.index()
    assert clusters(library)["moved.md", "old/c.md"].verdict == "apart"
    assert library.duplicates().outdated_decisions == ()


def test_decisions_never_write_to_notes(library: Library, vault: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in vault.rglob("*.md")}
    for cluster in clusters(library).values():
        library.decisions().decide(cluster.id, "same")
        library.decisions().decide(cluster.id, None)
    assert {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in vault.rglob("*.md")
    } == before


def test_duplicates_of_an_unindexed_folder_say_to_index_it(vault: Path, tmp_path: Path) -> None:
    with (
        open_library(vault) as library,
        pytest.raises(UsageError, match="run `thumbindex index`"),
    ):
        library.duplicates()
