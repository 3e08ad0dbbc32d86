"""One name on every surface: a tool's argument, the command line's flag, the library's parameter
and the configuration's key.
"""

import inspect
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.main import get_command

from thumbindex.cli.app import app
from thumbindex.config import settings_by_key
from thumbindex.library import Library
from thumbindex.mcp.tools import TOOLS
from thumbindex.model import QueryArguments
from thumbindex.settings import Config

TOOL: Mapping[str, frozenset[str]] = {
    each["name"]: frozenset(each["inputSchema"]["properties"]) for each in TOOLS
}

NOT_IN_A_SHELL = {
    "query": "the question is the command's argument QUERY",
    "why": "a command of its own, which takes the path and the question",
    "max_tokens": "a terminal has no budget; `serve.max_tokens` sets the default",
    "seen": "nor does it hold passages",
}
"""Arguments of the tool `query` that its command has no flag for."""

ONLY_IN_A_SHELL = {
    "index": "where indexes lie is no business of a model",
    "engine": "nor is the database that they are published to",
    "config": "no more is the configuration",
    "set": "nor single keys of it",
    "wait": "a server never keeps its client waiting for vectors",
    "full": "a client says how long an answer may be: `max_tokens`",
    "files": "a tool's answer names the path of each passage anyway",
    "json": "a tool's answer has its structured content beside the text anyway",
}
"""Flags of the command `query` that its tool has no argument for."""

KEYS = {
    "limit": "query.limit",
    "max_tokens": "serve.max_tokens",
    "folder": "folders",
    "index": "index.directory",
}
"""Arguments and flags whose default stands in the configuration.

One that takes a single value is in the singular, its table in the plural.
"""


def flags(command: str) -> set[str]:
    """Return the long flags of a command, as Python writes them."""
    parameters = get_command(app).commands[command].params  # type: ignore[attr-defined]
    return {
        flag.removeprefix("--").replace("-", "_")
        for parameter in parameters
        for flag in parameter.opts
        if flag.startswith("--")
    } - {"help"}


def test_the_tool_and_the_command_that_ask_take_the_same_names() -> None:
    assert TOOL["query"] - NOT_IN_A_SHELL.keys() == flags("query") - ONLY_IN_A_SHELL.keys()


def test_the_command_that_says_why_filters_as_the_one_that_asks_does() -> None:
    filters = {"folder", "path", "tag", "since", "limit"}
    assert filters <= flags("query")
    assert filters <= flags("why")


@pytest.mark.parametrize(
    ("method", "tool"),
    [
        ("query", "query"),
        ("read", "read"),
        ("outline", "outline"),
        ("related", "related"),
        ("verify", "verify"),
    ],
)
def test_the_library_takes_what_the_tool_takes(method: str, tool: str) -> None:
    taken = set(inspect.signature(getattr(Library, method)).parameters)
    taken |= QueryArguments.__optional_keys__ if "arguments" in taken else set()
    # the question: in Python a word for what it is, since the method has the other one
    spelled = {"query": "text"}
    # methods of their own, a client's window
    beside = {"why", "max_tokens", "seen"} | (
        {"tag", "since", "until"} if method == "outline" else set()
    )
    assert {spelled.get(name, name) for name in TOOL[tool] - beside} <= taken


@pytest.mark.parametrize("name", ["words_only", "rebuild", "verify", "folder"])
def test_the_library_indexes_by_the_flags_of_the_command(name: str) -> None:
    assert name in flags("index")
    assert name in inspect.signature(Library.index).parameters


def test_one_name_means_one_thing_in_every_tool() -> None:
    kinds: dict[str, set[str]] = {}
    for tool in TOOLS:
        for name, schema in tool["inputSchema"]["properties"].items():
            kinds.setdefault(name, set()).add(schema["type"])
    # A search filters by several folders and globs; what reads one document names one.
    assert {name for name, found in kinds.items() if len(found) > 1} == {"folder", "path"}


@pytest.mark.parametrize(("name", "key"), KEYS.items())
def test_a_default_stands_under_the_same_name_in_the_configuration(name: str, key: str) -> None:
    assert key in settings_by_key()
    assert any(name in names for names in (*TOOL.values(), flags("query")))


def test_every_command_opens_by_the_same_flags() -> None:
    alike = (
        "index",
        "query",
        "status",
        "forget",
        "serve",
        "why",
        "eval",
        "install",
        "doctor",
    )
    assert {name: {"folder", "index", "config", "set", "json"} - flags(name) for name in alike} == {
        name: set() for name in alike
    }


def test_a_default_that_a_tool_states_is_the_configured_one() -> None:
    described = next(tool for tool in TOOLS if tool["name"] == "query")["inputSchema"][
        "properties"
    ]["limit"]["description"]
    assert described == f"Passages, default {Config().query.limit}"
    table = (Path(__file__).parents[1] / "docs" / "tools.md").read_text(encoding="utf-8")
    assert f"`limit` ({Config().query.limit}), `max_tokens` ({Config().serve.max_tokens})" in table
