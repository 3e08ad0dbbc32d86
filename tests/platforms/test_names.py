"""Names as macOS has them: letters and accents apart in listings, upper and lower case one."""

from pathlib import Path
from unicodedata import normalize

import pytest

from folders import open_library, write_notes
from platforms.fakes import take_any_case
from thumbindex.config import load_config, resolve_folders
from thumbindex.corpus.walk import walk
from thumbindex.errors import ConfigError
from thumbindex.settings import CorpusSettings

APART = normalize("NFD", "Übung/Café.md")


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    coffee = "# Café\n\nThe espresso is strong. See [[Straße]].\n"
    notes = {APART: coffee, "Straße.md": "# Straße\n\nThe road is long.\n"}
    return write_notes(tmp_path / "Notes", notes)


@pytest.fixture
def macos(monkeypatch: pytest.MonkeyPatch) -> None:
    take_any_case(monkeypatch.setattr)


def test_notes_with_accents_are_indexed_read_and_filtered_however_they_are_typed(
    vault: Path,
) -> None:
    with open_library(vault) as library:
        assert library.index().added == 2
        assert library.query("espresso", path=["Übung/*"]).passages[0].path == APART
        assert library.read("Übung/Café.md").path == APART
        assert library.related("Übung/Café.md").links == ("Straße.md",)


def test_a_glob_or_ignore_rule_in_one_form_meets_a_name_in_the_other(vault: Path) -> None:
    settings = [CorpusSettings(exclude=("Übung/",)), CorpusSettings(include=("Straße.md",))]
    found = [[file.path for file in walk(vault, setting).files] for setting in settings]
    assert found == [["Straße.md"], ["Straße.md"]]
    (vault / ".gitignore").write_text("Café.md\n", encoding="utf-8")
    assert [file.path for file in walk(vault, CorpusSettings()).files] == ["Straße.md"]


def test_a_folder_is_one_folder_in_whatever_case_it_is_written(
    vault: Path, tmp_path: Path, macos: None
) -> None:
    config = load_config(user_file=tmp_path / "none")
    assert resolve_folders(config, [tmp_path / "notes", vault]) == (("Notes", vault),)


def test_a_folder_in_another_case_keeps_its_rights(
    vault: Path, tmp_path: Path, macos: None
) -> None:
    (tmp_path / "user.toml").write_text(
        f"[[folders]]\nname = 'a'\npath = '{vault}'\ntokens = ['ada']\n", encoding="utf-8"
    )
    (tmp_path / "other.toml").write_text(
        f"[folders]\nb = '{tmp_path / 'NOTES'}'\n", encoding="utf-8"
    )
    with pytest.raises(ConfigError, match="names no `tokens`"):
        load_config(user_file=tmp_path / "user.toml", config_file=tmp_path / "other.toml")


def test_two_folders_that_differ_by_case_are_two_where_case_counts(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "Notes").mkdir()
    found = resolve_folders(
        load_config(user_file=tmp_path / "none"), [tmp_path / "notes", tmp_path / "Notes"]
    )
    assert {root.name for _, root in found} == {"notes", "Notes"}
