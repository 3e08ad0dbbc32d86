"""File names as on macOS: decomposed Unicode in listings, and case-insensitive."""

from pathlib import Path
from unicodedata import normalize

import pytest

from folders import open_library, write_notes
from platforms.fakes import take_any_case
from thumbindex.config import load_config, resolve_folders
from thumbindex.corpus.walk import walk
from thumbindex.errors import ConfigError
from thumbindex.settings import CorpusSettings

DECOMPOSED = normalize("NFD", "Übung/Café.md")


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    coffee = "# Café\n\nThe espresso is strong. See [[Straße]].\n"
    notes = {DECOMPOSED: coffee, "Straße.md": "# Straße\n\nThe road is long.\n"}
    return write_notes(tmp_path / "Notes", notes)


@pytest.fixture
def macos(monkeypatch: pytest.MonkeyPatch) -> None:
    take_any_case(monkeypatch.setattr)


def test_paths_match_in_either_unicode_form(vault: Path) -> None:
    with open_library(vault) as library:
        assert library.index().added == 2
        assert library.query("espresso", path=["Übung/*"]).passages[0].path == DECOMPOSED
        assert library.read("Übung/Café.md").path == DECOMPOSED
        assert library.related("Übung/Café.md").links == ("Straße.md",)


def test_globs_and_ignore_rules_match_in_either_unicode_form(vault: Path) -> None:
    settings = [CorpusSettings(exclude=("Übung/",)), CorpusSettings(include=("Straße.md",))]
    paths = [[file.path for file in walk(vault, setting).files] for setting in settings]
    assert paths == [["Straße.md"], ["Straße.md"]]
    (vault / ".gitignore").write_text("Café.md\n", encoding="utf-8")
    assert [file.path for file in walk(vault, CorpusSettings()).files] == ["Straße.md"]


def test_folder_named_twice_in_different_case_is_one_folder(
    vault: Path, tmp_path: Path, macos: None
) -> None:
    config = load_config(user_file=tmp_path / "none")
    assert resolve_folders(config, [tmp_path / "notes", vault]) == (("Notes", vault),)


def test_folder_in_different_case_keeps_its_rights(
    vault: Path, tmp_path: Path, macos: None
) -> None:
    (tmp_path / "user.toml").write_text(
        f"[[folders]]\nname = 'a'\npath = '{vault}'\ntokens = ['ada']\n", encoding="utf-8"
    )
    (tmp_path / "other.toml").write_text(
        f"[folders]\nb = '{tmp_path / 'NOTES'}'\n", encoding="utf-8"
    )
    with pytest.raises(ConfigError, match="has no `tokens`"):
        load_config(user_file=tmp_path / "user.toml", config_file=tmp_path / "other.toml")


def test_case_sensitive_file_system_has_two_folders(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "Notes").mkdir()
    folders = resolve_folders(
        load_config(user_file=tmp_path / "none"), [tmp_path / "notes", tmp_path / "Notes"]
    )
    assert {root.name for _, root in folders} == {"notes", "Notes"}
