"""Arguments as MCP clients send them: empty, as JSON text, or as text instead of numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from mcp import Client
from mcp.server.lowlevel.server import Server

from thumbindex.errors import UsageError
from thumbindex.mcp.tools import TOOLS, check_arguments

_SCHEMAS: Mapping[str, Mapping[str, Any]] = {tool["name"]: tool["inputSchema"] for tool in TOOLS}

_REQUIRED: Mapping[str, dict[str, Any]] = {
    "query": {"query": "boiler"},
    "read": {"path": ["a.md"]},
    "related": {"path": "a.md"},
    "verify": {"text": ["a.md (line 3)"]},
}

_EMPTY = ["", "  ", "\n\t", "\u3000", None, [], "null", " null ", "[]", " [ ] ", [""], '["", " "]']


def _arguments(*types: str) -> Iterator[tuple[str, str]]:
    """Yield each tool with each argument of one of the types."""
    for tool, schema in _SCHEMAS.items():
        for name, argument in schema["properties"].items():
            if argument["type"] in types:
                yield tool, name


def _checked(tool: str, **arguments: Any) -> dict[str, Any]:
    return check_arguments(tool, _REQUIRED.get(tool, {}) | arguments)


@pytest.mark.parametrize("value", _EMPTY, ids=repr)
def test_empty_optional_argument_is_not_given(value: object) -> None:
    for tool, schema in _SCHEMAS.items():
        optional = schema["properties"].keys() - set(schema.get("required", ()))
        assert _checked(tool, **dict.fromkeys(optional, value)) == _checked(tool)


@pytest.mark.parametrize("value", ["", " \n", None, [], [""], ["", "  "], [None]], ids=repr)
def test_empty_required_argument_is_an_error_that_names_it(value: object) -> None:
    for tool, required in _REQUIRED.items():
        (name,) = required
        with pytest.raises(UsageError, match=f"`{tool}` needs `{name}`: "):
            check_arguments(tool, {name: value})


@pytest.mark.parametrize(("tool", "name"), [*_arguments("array")])
@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ('["a.md"]', ["a.md"]),
        ('["a.md", "b c.md"]', ["a.md", "b c.md"]),
        (' [\n  "größe.md",\n  "\\u0627.md"\n]\n', ["größe.md", "ا.md"]),
        ('["a, b", "c\\"d"]', ["a, b", 'c"d']),
        ('["a.md", "", null]', ["a.md"]),
        (["a.md", "", " ", None], ["a.md"]),
        ("a.md", ["a.md"]),
        (2024, ["2024"]),
        ([2024, 3.0, 1.5], ["2024", "3", "1.5"]),
        # not lists of strings
        ("[ab]*.md", ["[ab]*.md"]),
        ("[1]*.md", ["[1]*.md"]),
        ("[2024]", ["[2024]"]),
        ("[[a]]", ["[[a]]"]),
        ('["a.md"', ['["a.md"']),
        ('["a.md"] and more', ['["a.md"] and more']),
        ('{"a": "b"}', ['{"a": "b"}']),
        ("a, b", ["a, b"]),
        ("[" * 4_000, ["[" * 4_000]),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_list_may_be_sent_as_json_text(tool: str, name: str, sent: object, read: object) -> None:
    assert _checked(tool, **{name: sent})[name] == read


@pytest.mark.parametrize(("tool", "name"), [*_arguments("string")])
@pytest.mark.parametrize(
    ("sent", "read"),
    [(12, "12"), (12.0, "12"), (["12"], "12"), ([12], "12"), ("12", "12")],
    ids=repr,
)
def test_text_may_be_sent_as_number_or_list_of_one(
    tool: str, name: str, sent: object, read: str
) -> None:
    if name in {"since", "until"}:
        with pytest.raises(UsageError, match=f"{name} is '12': write a date"):
            _checked(tool, **{name: sent})
    else:
        assert _checked(tool, **{name: sent}) == _checked(tool, **{name: read})


@pytest.mark.parametrize(
    ("tool", "arguments", "read"),
    [
        ("related", {"path": '["a.md"]'}, {"path": "a.md"}),
        ("outline", {"path": '["guides/**"]'}, {"path": "guides/**"}),
        ("query", {"query": "[1, 2]"}, {"query": "[1, 2]"}),
        ("query", {"query": '["boiler"]'}, {"query": '["boiler"]'}),
        ("query", {"query": "[]"}, {"query": "[]"}),
        ("query", {"query": "null"}, {"query": "null"}),
        ("query", {"query": 404}, {"query": "404"}),
        ("read", {"path": "null"}, {"path": ["null"]}),
        ("read", {"path": "a.md", "heading": "[draft] Plan"}, {"heading": "[draft] Plan"}),
        ("query", {"query": "boiler", "passage": '"quoted"'}, {"passage": '"quoted"'}),
        ("read", {"path": "a.md", "lines": "", "heading": ""}, {"path": ["a.md"]}),
        ("query", {"query": "x", "also": [12345678]}, {"also": ["12345678"]}),
        ("status", {"folder": ""}, {}),
    ],
    ids=repr,
)
def test_text_stays_text(tool: str, arguments: dict[str, Any], read: dict[str, Any]) -> None:
    checked = check_arguments(tool, arguments)
    assert {name: checked.get(name) for name in read} == read
    assert checked.keys() <= arguments.keys() - {"lines"}


@pytest.mark.parametrize(("tool", "name"), [*_arguments("integer", "number", "boolean")])
def test_number_or_boolean_may_be_sent_as_text(tool: str, name: str) -> None:
    forms: dict[Any, list[Any]] = {7: ["7", "7.0", " 7 ", "+7", "07", 7.0, ["7"]]}
    if name == "max_tokens":
        forms = {700: ["700", "700.0", "7e2", 700.0]}
    elif name == "wait_fresh":
        forms[2.5] = ["2.5", "2.50"]
    elif name in ("explain", "verbatim", "retired"):
        forms = {True: ["true", "True", "TRUE", " true "], False: ["false", "False"]}
    for value, sent in forms.items():
        read = [_checked(tool, **{name: form})[name] for form in sent]
        assert (read, {type(item) for item in read}) <= ([value] * len(sent), {type(value), float})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("integer", "three"),
        ("integer", "3.5"),
        ("integer", 3.5),
        ("integer", "nan"),
        ("integer", "1e999"),
        ("integer", True),
        ("integer", ["3", "4"]),
        ("integer", {"value": 3}),
        ("number", "soon"),
        ("number", "inf"),
        ("boolean", "maybe"),
        ("boolean", 2),
        ("string", {"text": "x"}),
        ("string", ["a", "b"]),
        ("string", True),
        ("array", {"0": "a"}),
        ("array", [["a"]]),
        ("array", [{"a": 1}]),
        ("array", True),
    ],
    ids=repr,
)
def test_other_value_is_an_error_with_an_example(kind: str, value: object) -> None:
    for tool, name in _arguments(kind):
        with pytest.raises(UsageError, match=f"^`{name}` must be .*such as .*, not ") as error:
            _checked(tool, **{name: value})
        assert len(str(error.value)) < 300


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("tool", "plain", "sent"),
    [
        ("query", {}, {"tag": "", "why": " ", "since": "", "folder": [], "also": "null"}),
        ("query", {"path": ["sync.md"]}, {"path": '["sync.md"]', "until": "null"}),
        ("query", {"tag": ["guide"], "limit": 1}, {"tag": '["guide", ""]', "limit": "1.0"}),
        ("query", {"also": ["two devices"]}, {"also": '["two devices"]', "explain": "False"}),
        ("read", {"path": ["sync.md"]}, {"path": '["sync.md"]', "heading": "", "lines": ""}),
        ("read", {"path": "sync.md", "lines": "2"}, {"path": ["sync.md", ""], "lines": 2}),
        ("outline", {}, {"path": "", "folder": "", "tag": "", "since": [], "until": "null"}),
        ("related", {"path": "sync.md"}, {"path": ["sync.md"], "limit": "10", "folder": ""}),
        ("verify", {"text": "sync.md (line 1)"}, {"text": json.dumps(["sync.md (line 1)"])}),
    ],
    ids=repr,
)
async def test_call_has_the_same_result_as_with_plain_arguments(
    server: Server, tool: str, plain: dict[str, Any], sent: dict[str, Any]
) -> None:
    required = {"query": "which note wins"} if tool == "query" else {}
    async with Client(server) as client:
        first = await client.call_tool(tool, required | plain)
        second = await client.call_tool(tool, required | sent)
    assert not first.is_error
    assert second.structured_content == first.structured_content


@pytest.mark.anyio
async def test_empty_cursor_lists_the_first_page(server: Server) -> None:
    async with Client(server) as client:
        assert (await client.list_resources(cursor="")) == await client.list_resources()
