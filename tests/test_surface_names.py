"""Tool arguments, command-line flags, library parameters and settings have the same names."""

import inspect
from collections.abc import Mapping

import pytest
from typer.main import get_command

from thumbindex.cli.app import app
from thumbindex.config import settings_by_key
from thumbindex.library import Library
from thumbindex.mcp.tools import TOOLS
from thumbindex.model import QueryArguments
from thumbindex.settings import Config

TOOL: Mapping[str, frozenset[str]] = {
    tool["name"]: frozenset(tool["inputSchema"]["properties"]) for tool in TOOLS
}

NOT_IN_A_SHELL = {
    "query": "the command has the argument QUERY",
    "why": "the command `why`",
    "max_tokens": "a terminal has no budget; `serve.max_tokens` sets the default",
    "wait_fresh": "commands index changed notes first",
}
"""Arguments of the tool `query` without a flag of the command."""

ONLY_IN_A_SHELL = {
    "index": "a model does not choose the index",
    "engine": "a model does not choose the database",
    "config": "a model does not choose the configuration",
    "set": "a model does not change settings",
    "full": "a client limits the answer with `max_tokens`",
    "files": "a tool's answer has the path of each passage",
    "json": "a tool's answer has structured content",
}
"""Flags of the command `query` without an argument of the tool."""

KEYS = {
    "limit": "query.limit",
    "max_tokens": "serve.max_tokens",
    "folder": "folders",
    "index": "index.directory",
}
"""Arguments and flags with a default in the configuration."""


def flags(command: str) -> set[str]:
    """Return the long flags of a command, as Python names."""
    parameters = get_command(app).commands[command].params  # type: ignore[attr-defined]
    return {
        flag.removeprefix("--").replace("-", "_")
        for parameter in parameters
        for flag in parameter.opts
        if flag.startswith("--")
    } - {"help"}


def test_query_tool_and_command_have_same_arguments() -> None:
    assert TOOL["query"] - NOT_IN_A_SHELL.keys() == flags("query") - ONLY_IN_A_SHELL.keys()


def test_why_command_has_filters_of_query() -> None:
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
def test_library_methods_have_arguments_of_tools(method: str, tool: str) -> None:
    parameters = set(inspect.signature(getattr(Library, method)).parameters)
    parameters |= QueryArguments.__optional_keys__ if "arguments" in parameters else set()
    renamed = {"query": "text"}  # the method is named `query`
    only_in_tools = {"why", "max_tokens"} | (
        {"tag", "since", "until", "where"} if method == "outline" else set()
    )
    assert {renamed.get(name, name) for name in TOOL[tool] - only_in_tools} <= parameters


@pytest.mark.parametrize("name", ["complete", "rebuild", "verify", "folder"])
def test_library_index_has_flags_of_command(name: str) -> None:
    assert name in flags("index")
    assert name in inspect.signature(Library.index).parameters


def test_argument_has_one_type_in_all_tools() -> None:
    kinds: dict[str, set[str]] = {}
    for tool in TOOLS:
        for name, schema in tool["inputSchema"]["properties"].items():
            kinds.setdefault(name, set()).add(schema["type"])
    # A search has several folders and globs, a tool that reads a document has one.
    assert {name for name, types in kinds.items() if len(types) > 1} == {"folder", "path"}


@pytest.mark.parametrize(("name", "key"), KEYS.items())
def test_default_has_same_name_in_configuration(name: str, key: str) -> None:
    assert key in settings_by_key()
    assert any(name in names for names in (*TOOL.values(), flags("query")))


def test_commands_share_opening_flags() -> None:
    commands = (
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
    assert {name: {"folder", "index", "config", "set"} - flags(name) for name in commands} == {
        name: set() for name in commands
    }


def test_description_of_limit_states_configured_default() -> None:
    described = next(tool for tool in TOOLS if tool["name"] == "query")["inputSchema"][
        "properties"
    ]["limit"]["description"]
    assert described == f"Default up to {Config().query.limit}"
