"""Text that many notes share, such as footers, does not come before a note's own text."""

from pathlib import Path

import pytest

from folders import open_library, write_notes
from thumbindex import Library

TOPICS = "apples pears plums quinces figs dates limes grapes melons olives".split()


def footer(name: str) -> str:
    edit = f"https://example.org/edit/{name}.md"
    return f"# This note\n\nSync this note with git: [edit it]({edit}) or [copy it]({edit}?raw)."


def vault(tmp_path: Path, *, complete: bool = False, **more: str) -> Library:
    notes = {
        f"{topic}.md": f"# {topic}\n\nThe {topic} are picked in autumn, and stored in the cellar."
        f" {'They keep until the spring. ' * 20}\n\n{footer(topic)}\n"
        for topic in TOPICS
    }
    notes["backup.md"] = (
        "# Backup\n\nA script syncs the vault with git each night.\n"
        f"{'It runs on the old laptop. ' * 20}\n\n{footer('backup')}\n"
    )
    notes |= {f"{name}.md": text for name, text in more.items()}
    library = open_library(write_notes(tmp_path / "notes", notes))
    library.index(complete=complete)
    return library


@pytest.mark.parametrize("complete", [False, True])
def test_own_text_comes_before_shared_text(tmp_path, complete: bool) -> None:
    with vault(tmp_path, complete=complete) as library:
        passages = library.query("sync the vault with git").passages
    assert passages[0].path == "backup.md"
    assert passages[0].match.startswith("A script syncs")


def test_shared_text_is_found_once_and_with_low_confidence(tmp_path) -> None:
    with vault(tmp_path) as library:
        answer = library.query("edit or copy it")
    matches = [passage for passage in answer.passages if "edit it" in passage.match]
    assert (len(matches), answer.confidence_level) == (1, "low")


def test_edited_note_shares_its_footer_at_once(tmp_path) -> None:
    with vault(tmp_path) as library:
        folder = Path(library.folders[0][1])
        (folder / "kiwis.md").write_text(f"# Kiwis\n\nKiwis are green.\n\n{footer('kiwis')}\n")
        library.index(complete=False)
        answer = library.query("edit or copy it")
    assert [passage.path for passage in answer.passages if "edit it" in passage.match] == [
        "apples.md"
    ]


def test_note_with_only_shared_text_is_found(tmp_path) -> None:
    with vault(tmp_path, stub=footer("stub")) as library:
        answer = library.query("sync this note", limit=20)
    assert "stub.md" in {passage.path for passage in answer.passages}


def test_title_puts_a_note_first_only_if_the_note_has_own_text(tmp_path) -> None:
    stub = footer("store").replace("This note", "Cellar")
    with vault(tmp_path / "stub", store=stub) as library:
        answer = library.query("cellar")
        assert answer.passages[0].match.startswith("The apples are picked")
        assert library.query("[[store]]").passages[0].path == "store.md"
        assert library.query("store.md").passages[0].path == "store.md"
    with vault(tmp_path / "own", store=f"# Cellar\n\nIt is dry.\n\n{stub}") as library:
        assert library.query("cellar").passages[0].match == "It is dry."


def test_shared_text_is_found_in_each_note_that_a_filter_leaves(tmp_path) -> None:
    with vault(tmp_path) as library:
        for filters in ({"path": ["pears.md"]}, {"path": ["p*.md"]}):
            answer = library.query("edit or copy it", **filters)
            assert [passage.path for passage in answer.passages] == ["pears.md"]
        assert library.query("edit or copy it path:pears.md").passages[0].path == "pears.md"


def test_shared_text_is_found_if_its_first_note_became_private(tmp_path) -> None:
    with vault(tmp_path) as library:
        first = Path(library.folders[0][1]) / "apples.md"
        first.write_text(f"---\nprivate: true\n---\n{first.read_text()}")
        library.index(complete=False)
        answer = library.query("edit or copy it")
    assert "edit it" in answer.passages[0].match
