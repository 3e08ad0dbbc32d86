"""The same text means the same note to every command and tool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from folders import open_library, write_notes
from thumbindex.errors import UnknownPathError, UsageError
from thumbindex.library import Library

NOTES = {
    "notes/tea.md": "---\naliases: [Chai]\n---\n# Tea\n\n## Brewing\n\nPour hot water.\n\n"
    "## Cold water\n\nWait for a day.\n",
    "notes/Ideas/tea.md": "# Cold tea\n\nMore tea.\n",
    "notes/Ideas/Müsli.md": "# Muesli\n\nOats.\n",
    "notes/alpha/plan.md": "# Plan A\n\nAlpha.\n",
    "notes/beta/plan.md": "# Plan B\n\nBeta.\n",
    "work/c# notes.md": "# C#\n\n## Generics\n\nThey are reified.\n",
    "work/sync.md": "# Sync\n\n## Steps\n\nPair them.\n",
}


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    write_notes(tmp_path, NOTES)
    with open_library(tmp_path / "notes", tmp_path / "work") as opened:
        opened.index(complete=False)
        yield opened


@pytest.mark.parametrize(
    ("typed", "path"),
    [
        ("tea", "tea.md"),
        ("TEA.MD", "tea.md"),
        ("Chai", "tea.md"),
        ("notes/tea", "tea.md"),
        ("notes: tea.md", "tea.md"),
        ("Ideas/tea", "Ideas/tea.md"),
        ("Cold tea", "Ideas/tea.md"),
        ("musli", "Ideas/Müsli.md"),
        ("beta/plan", "beta/plan.md"),
        ("sync#Steps", "sync.md"),
        ("{root}/notes/alpha/plan.md", "alpha/plan.md"),
        ("{root}/notes/alpha/plan", "alpha/plan.md"),
    ],
)
def test_name_means_the_same_note_everywhere(
    library: Library, tmp_path: Path, typed: str, path: str
) -> None:
    typed = typed.format(root=tmp_path.as_posix())
    (check,) = library.verify(f"It stands in [[{typed}]].").citations
    assert [
        library.read(typed).path,
        library.outline(typed)[0].path,
        library.related(typed).path,
        library.why(typed, "hot water").path,
        check.path,
    ] == [path] * 5


@pytest.mark.parametrize("heading", ["Brewing", "brewing", "Tea > Brewing", "cold-water"])
def test_heading_means_the_same_lines_everywhere(library: Library, heading: str) -> None:
    (check,) = library.verify(f"It stands in [[notes/tea.md#{heading}]].").citations
    lines = library.read(f"notes/tea.md#{heading}")
    assert (check.state, check.start_line, check.end_line) == (
        "not_compared",
        lines.start_line,
        lines.end_line,
    )
    assert library.why(f"notes/tea.md#{heading}", "water").chunks == 1


def test_note_with_a_hash_in_its_name_is_found_by_citation(library: Library) -> None:
    cited = "work: c# notes.md#Generics (lines 3-5)"
    (check,) = library.verify(f'"They are reified." ({cited})').citations
    assert library.read(cited).start_line == 3
    assert library.read("c# notes.md#Generics", exact=True).start_line == 3
    assert (check.state, check.path) == ("there", "c# notes.md")


def test_ambiguous_name_gives_the_same_error_everywhere(library: Library) -> None:
    several = (
        r"^'plan' is the name of several documents: "
        r"notes: alpha/plan\.md, notes: beta/plan\.md\. Give the path of one\."
    )
    for ask in (
        library.read,
        library.outline,
        library.related,
        lambda name: library.why(name, "tea"),
    ):
        with pytest.raises(UsageError, match=several):
            ask("plan")


def test_remote_callers_cannot_use_absolute_paths(library: Library, tmp_path: Path) -> None:
    remote = library.without_local_paths()
    for path in (tmp_path / "notes/tea.md", tmp_path / "notes/gone.md", Path("/etc/passwd")):
        messages = set()
        for ask in (
            remote.read,
            remote.outline,
            remote.related,
            lambda name: remote.why(name, "tea"),
        ):
            with pytest.raises(UnknownPathError) as refused:
                ask(path.as_posix())
            messages.add(str(refused.value).partition(".md")[0])
        assert len(messages) == 1
        assert str(tmp_path) not in str(refused.value).replace(path.as_posix(), "")


@pytest.mark.parametrize("typed", ["/a\0/b", "\0", "/" + "x/" * 2_000, "\udcff.md", ": "])
def test_impossible_file_name_matches_no_note(library: Library, typed: str) -> None:
    for ask in (library.read, library.outline, library.related):
        with pytest.raises(UnknownPathError):
            ask(typed)
    with suppress(UnknownPathError):
        assert library.why(typed, "tea").outcome == "not_indexed"


def test_completion_lists_exact_names_first(library: Library) -> None:
    assert [note.path for note in library.suggest_notes("tea", 9)] == ["tea.md", "Ideas/tea.md"]
    assert [note.path for note in library.suggest_notes("co", 9)] == ["Ideas/tea.md"]
    assert [note.path for note in library.suggest_notes("ideas/mu", 9)] == ["Ideas/Müsli.md"]
    assert [note.path for note in library.suggest_notes("tea ide", 9)] == ["Ideas/tea.md"]
    assert [note.path for note in library.suggest_notes("musil ideas", 9)] == ["Ideas/Müsli.md"]
    assert len(library.suggest_notes("", 99)) == len(NOTES)
