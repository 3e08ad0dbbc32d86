"""Copies and contradictions in answers, on every surface."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from fakes import FakeEmbedder
from folders import write_notes
from notes import write
from schemas import check
from thumbindex.library import Library
from thumbindex.mcp.query_reply import reply_query
from thumbindex.present.as_json import answer_payload

TEXT = "Every night the server copies all files to the second disk and keeps them for {} days."
NOTES = {
    "a.md": (
        "---\nstatus: approved\nowner: Ada\ncreated: 2024-01-01\ndate: 2024-01-01\n---\n"
        f"# Backups\n\n{TEXT.format(30)}\n"
    ),
    "copy.md": (
        f"---\nstatus: draft\nowner: Bo\ndate: 2025-01-01\n---\n# Backups\n\n{TEXT.format(30)}\n"
    ),
    "new.md": f"---\ndate: 2026-01-01\n---\n# Backups\n\n{TEXT.format(90)}\n",
}
DENIED = {
    "English": (
        "Every night the server copies all files to the disk, and the key is kept in the safe.",
        "is kept",
        "is not kept",
        "not",
    ),
    "German, no": (
        "Jede Nacht schreibt der Server eine Kopie auf die zweite Platte im Keller.",
        "eine Kopie",
        "keine Kopie",
        "keine",
    ),
    "French, no": (
        "Chaque nuit le serveur écrit une copie sur le second disque.",
        "écrit une copie",
        "n’écrit pas de copie",
        "ne pas",
    ),
}
"""By language: a text, its denied phrase, the denial, and the word that an answer names."""

UNKNOWN = {
    "Chinese": (
        "服务器每天晚上把所有文件复制到第二块硬盘，钥匙保存在保险箱里。",
        "钥匙保存",
        "钥匙不保存",
    ),
}


@pytest.fixture(scope="module")
def denied(tmp_path_factory: pytest.TempPathFactory) -> Library:
    root = tmp_path_factory.mktemp("denied")
    for language, (text, said, otherwise, *_) in {**DENIED, **UNKNOWN}.items():
        write(root / f"{language} office.md", f"# {language}\n\n{text}\n")
        write(root / f"{language} branch.md", f"# {language}\n\n{text.replace(said, otherwise)}\n")
    library = Library.open([root], index=tmp_path_factory.mktemp("index"), embedder=FakeEmbedder())
    library.index()
    return library


@pytest.fixture(scope="module")
def backups(tmp_path_factory: pytest.TempPathFactory) -> Library:
    root = write_notes(tmp_path_factory.mktemp("backups"), NOTES)
    library = Library.open([root], index=tmp_path_factory.mktemp("index"), embedder=FakeEmbedder())
    library.index()
    return library


def found(library: Library) -> dict[str, Any]:
    payload = answer_payload(library.query("server copies all files every night"))
    check(payload, "query")
    return {result["path"]: result for result in payload["results"]}


def test_merged_text_appears_once_with_cautious_metadata(backups: Library) -> None:
    results = found(backups)
    (merged,) = (result for path, result in results.items() if path != "new.md")
    assert merged["dedup"] == {"is_duplicate": False, "cluster_size": 2}
    assert (merged["created"], merged["status"], merged["owner"]) == ("2024-01-01", "draft", "Bo")
    assert len(merged["also_in"]) == 1


def test_contradicting_texts_name_each_other_with_date_and_words(backups: Library) -> None:
    results = found(backups)
    (contradiction,) = results["new.md"]["disagrees"]
    assert (contradiction["path"], contradiction["differs"]) == (
        next(path for path in results if path != "new.md"),
        "`90 day` vs. `30 day`",
    )
    assert contradiction["date"] in {"2024-01-01", "2025-01-01"}


@pytest.mark.parametrize("language", {**DENIED, **UNKNOWN})
def test_notes_that_differ_by_a_negation_are_never_merged(denied: Library, language: str) -> None:
    text = {**DENIED, **UNKNOWN}[language][0]
    passages = {
        passage.path: passage for passage in denied.query(text, path=[f"{language} *.md"]).passages
    }
    assert sorted(passages) == [f"{language} branch.md", f"{language} office.md"]
    assert [(passage.also_in, passage.cluster_size) for passage in passages.values()] == [
        ((), 1),
        ((), 1),
    ]
    assert denied.duplicates().merged == 0


@pytest.mark.parametrize("language", DENIED)
def test_negation_is_reported_as_a_contradiction(denied: Library, language: str) -> None:
    text, *_, word = DENIED[language]
    passages = {
        passage.path: passage for passage in denied.query(text, path=[f"{language} *.md"]).passages
    }
    (first,), (second,) = (
        passages[f"{language} {place}.md"].disagrees for place in ("office", "branch")
    )
    assert (first.path, second.path) == (f"{language} branch.md", f"{language} office.md")
    assert f"nothing vs. `{word}`" in first.differs
    assert f"`{word}` vs. nothing" in second.differs


def test_tool_text_lists_copies_with_their_lines(
    backups: Library,
) -> None:
    text = reply_query(backups, {"query": "server copies all files every night"}).text
    assert "\n(also in: a.md (line 9))\n" in text


def test_terminal_shows_copies_as_whole_places_that_an_editor_opens(
    tmp_path: Path, run_in: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / f"{'a rather long name of a folder ' * n}{n}" for n in (1, 2)]
    for n, folder in enumerate(folders):
        write(folder / f"copy {n}.md", f"# Backups\n\n{TEXT.format(30)}\n")
        write(folder / f"other {n}.md", f"# Backups\n\n{TEXT.format(30)}\n")
    monkeypatch.chdir(tmp_path)
    printed = run_in(
        folders[0], "query", "--folder", str(folders[1]), "server copies all files every night"
    ).stdout
    (copies,) = re.findall(r"also in: (.*) and 2 more", printed)
    path, _, line = copies.rpartition(":")
    assert (tmp_path / path).read_text().splitlines()[int(line) - 1] == TEXT.format(30)


def test_tool_names_the_folder_of_a_copy_if_there_are_several(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name / "copy.md", f"# Backups\n\n{TEXT.format(30)}\n")
    folders, index = [tmp_path / "one", tmp_path / "two"], tmp_path / "index"
    with Library.open(folders, index=index, embedder=FakeEmbedder()) as library:
        library.index()
        text = reply_query(library, {"query": "server copies all files every night"}).text
    assert re.search(r"\(also in: (one|two): copy\.md \(line 3\)\)", text)


def test_tool_text_reports_contradictions(backups: Library) -> None:
    reply = reply_query(backups, {"query": "server copies all files every night", "explain": True})
    assert "these two disagree: `30 day` vs. `90 day` in new.md (line 6, 2026-01-01)" in reply.text
    assert "\ndeduplication: 3 → 2 candidates (33% removed as copies)\n" in reply.text
    assert reply.structured["deduplication"] == {
        "in": 3,
        "out": 2,
        "ratio": 0.3333,
        "warning": False,
    }


def test_copies_are_current_limited_and_listed_once(tmp_path: Path) -> None:
    root, unrelated = (
        tmp_path / "notes",
        "Trees grow in spring, when rain is warm and birds come back to the garden.",
    )
    root.mkdir()
    for name in "abcdef":
        write(root / f"{name}.md", f"# Note\n\n{TEXT.format(30)}\n")
    write(
        root / "twice.md",
        f"# Note\n\n{TEXT.format(30)}\n\n{unrelated}\n\n## Again\n\n{TEXT.format(30)}\n",
    )
    with Library.open([root], index=tmp_path / "index", embedder=FakeEmbedder()) as library:
        library.index()
        before = reply_query(library, {"query": "server copies all files", "limit": 1}).structured[
            "results"
        ][0]
        write(root / "c.md", "# Note\n\nNothing of that any more.\n")
        write(root / "d.md", f"---\nprivate: true\n---\n# Note\n\n{TEXT.format(30)}\n")
        (root / "e.md").unlink()
        os.utime(root / "b.md")
        (passage,) = library.query("server copies all files", limit=1).passages
    assert (len(before["also_in"]), before["also_in_more"]) == (3, 3)
    places = [copy.path for copy in (passage, *passage.also_in)]
    assert sorted(places) == ["a.md", "b.md", "f.md", "twice.md"]
    assert passage.cluster_size == 4
