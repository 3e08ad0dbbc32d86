"""Any value of any setting is accepted, or reported in a sentence with its key."""

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
"""One setting of each type, bounds and choices."""

MAX_MESSAGE_CHARS = 600


def is_clear(error: ConfigError, key: str) -> bool:
    """Return whether an error is a short message that names the key."""
    message = str(error)
    return (
        key in message
        and len(message) < MAX_MESSAGE_CHARS
        and "Traceback" not in message
        and message.endswith((".", "?"))
    )


def unclear_error(key: str, value: str, load: Callable[[], Config]) -> str:
    """Return the error of loading a value if it is not clear, else an empty text."""
    try:
        load()
    except ConfigError as error:
        return "" if is_clear(error, key) else f"{key} = {value[:40]}: {error}"
    return ""


@pytest.mark.parametrize("key", KEYS)
def test_value_on_command_line_is_accepted_or_reported(key: str, tmp_path: Path) -> None:
    errors = [
        unclear_error(
            key,
            value,
            lambda value=value: load_config(
                user_file=tmp_path / "none", overrides=[f"{key}={value}"]
            ),
        )
        for value in VALUES
    ]
    assert list(filter(None, errors)) == []


@pytest.mark.parametrize("key", KEYS)
def test_value_in_file_is_accepted_or_reported(key: str, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"

    def load(value: str) -> Config:
        file.write_text(f"{key} = {value}\n", encoding="utf-8")
        return load_config(user_file=tmp_path / "none", config_file=file)

    # Python refuses to parse such a number, so the error names the file only
    digits = [value for value in VALUES if value[:2] != "0x"]
    assert (
        list(
            filter(
                None, (unclear_error(key, each, lambda each=each: load(each)) for each in digits)
            )
        )
        == []
    )


@pytest.mark.parametrize("key", [key for key in KEYS if key.startswith(FOLDER_FILE_KEYS)])
def test_value_in_folder_file_is_accepted_or_reported(key: str, tmp_path: Path) -> None:
    for value in VALUES:
        (tmp_path / "thumbindex.toml").write_text(f"{key} = {value}\n", encoding="utf-8")
        config = with_folder_file(Config(), tmp_path)
        assert config.folder_file_error == "" or (
            config.folder_file_error.startswith("thumbindex.toml")
            and len(config.folder_file_error) < MAX_MESSAGE_CHARS
        ), (key, value)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("settings")
    with open_library(place):
        yield place


def test_accepted_query_settings_give_an_answer_or_error(place: Path) -> None:
    values = ("1e-320", "true", "[]")
    settings = [setting for key, setting in settings_by_key().items() if key.startswith("query.")]
    for key, value in (
        (setting.key, value)
        for setting in settings
        for value in (*values, str(setting.minimum), str(setting.maximum))
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
def test_tool_argument_is_accepted_or_reported(name: str) -> None:
    for value in ARGUMENTS:
        message = ""
        try:
            json.dumps(check_arguments("query", {"query": "apples", name: value}), allow_nan=False)
        except UsageError as error:
            message = str(error)
        is_short = len(message) < MAX_MESSAGE_CHARS
        assert not message or (name in message and is_short), (value, message)
