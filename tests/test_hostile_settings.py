"""Any value for any setting is taken, or refused by a sentence that names its key: from the command
line, a file, and a folder's own file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fakes import FakeEmbedder
from fuzz.run import open_library
from thumbindex.config import FOLDER_FILE_KEYS, load_config, settings_by_key, with_folder_file
from thumbindex.errors import ConfigError, ThumbindexError, UsageError
from thumbindex.library import Library
from thumbindex.mcp.tools import check_arguments
from thumbindex.settings import Config

VALUES = (
    "nan",
    "-inf",
    "-1",
    "0",
    "1e-320",
    f"1{'0' * 400}",
    "9223372036854775808",
    f"0x{'f' * 5000}",
    "true",
    "''",
    "[]",
    "[[]]",
    "['\\u0000']",
    "{a = 'b'}",
    "1979-05-27",
    "'''\n'''",
    f"'{'k' * 5000}'",
    "['**/**/**/**/x']",
)
KEYS = sorted(
    {
        (each.kind, each.minimum, each.maximum, each.choices, type(each.default)): each.key
        for each in reversed(settings_by_key().values())
    }.values()
)
"""A setting of each kind: of a type, with its bounds or its choices."""

LONGEST = 600
"""Characters of what is said of one value."""


def is_said(error: ConfigError, key: str) -> bool:
    """Tell whether an error is one sentence or two that name the key, or the two that do not go
    together.
    """
    said = str(error)
    return (
        key in said
        and len(said) < LONGEST
        and "Traceback" not in said
        and said.endswith((".", "?"))
    )


def wrongly_said(key: str, value: str, load: Callable[[], Config]) -> str:
    try:
        load()
    except ConfigError as error:
        return "" if is_said(error, key) else f"{key} = {value[:40]}: {error}"
    return ""


@pytest.mark.parametrize("key", KEYS)
def test_a_value_on_the_command_line_is_taken_or_named(key: str, tmp_path: Path) -> None:
    said = [
        wrongly_said(
            key,
            each,
            lambda each=each: load_config(user_file=tmp_path / "none", overrides=[f"{key}={each}"]),
        )
        for each in VALUES
    ]
    assert list(filter(None, said)) == []


@pytest.mark.parametrize("key", KEYS)
def test_a_value_in_a_file_is_taken_or_named_with_its_file(key: str, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"

    def load(value: str) -> Config:
        file.write_text(f"{key} = {value}\n", encoding="utf-8")
        return load_config(user_file=tmp_path / "none", config_file=file)

    # Python refuses such a number unread, by the file's name
    digits = [each for each in VALUES if each[:2] != "0x"]
    assert (
        list(
            filter(None, (wrongly_said(key, each, lambda each=each: load(each)) for each in digits))
        )
        == []
    )


@pytest.mark.parametrize("key", [key for key in KEYS if key.startswith(FOLDER_FILE_KEYS)])
def test_a_value_in_a_folders_own_file_is_taken_or_told_of(key: str, tmp_path: Path) -> None:
    for value in VALUES:
        (tmp_path / "thumbindex.toml").write_text(f"{key} = {value}\n", encoding="utf-8")
        own = with_folder_file(Config(), tmp_path)
        assert own.folder_file_error == "" or (
            own.folder_file_error.startswith("thumbindex.toml")
            and len(own.folder_file_error) < LONGEST
        ), (key, value)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("settings")
    with open_library(place):
        yield place


def test_a_query_setting_that_is_taken_gives_an_answer_or_a_sentence(place: Path) -> None:
    values = ("1e-320", "true", "[]")
    asked = [each for key, each in settings_by_key().items() if key.startswith("query.")]
    for key, value in (
        (each.key, value)
        for each in asked
        for value in (*values, str(each.minimum), str(each.maximum))
    ):
        with suppress(ConfigError):
            config = load_config(user_file=place / "none", overrides=[f"{key}={value}"])
            opened = Library.open(
                [place / "notes"], index=place / "index", config=config, embedder=FakeEmbedder()
            )
            with opened as library, suppress(ThumbindexError):
                assert 0 <= library.query("apples and [[b]]").confidence <= 1, (key, value)


ARGUMENTS = (float("nan"), -1, 10**30, True, None, "", "x" * 5000, "\0", "\ud800")
ARGUMENTS += ([], [[]], {}, ["x"] * 101)


@pytest.mark.parametrize("name", ["limit", "folder", "path", "since", "wait_fresh", "query"])
def test_an_argument_of_the_protocol_is_taken_or_named(name: str) -> None:
    for value in ARGUMENTS:
        said = ""
        try:
            json.dumps(check_arguments("query", {"query": "apples", name: value}), allow_nan=False)
        except UsageError as error:
            said = str(error)
        assert not said or (name in said and len(said) < LONGEST), (value, said)
