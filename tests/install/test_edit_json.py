"""Editing one entry of JSON with comments leaves every other value and comment alone."""

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thumbindex.install.edit import MalformedError, put_object, read_object, take_object

KEYS = ("mcpServers", "thumbindex")
ENTRY = {"command": "/bin/thumbindex", "args": ["serve"]}

FILES = {
    "neighbors": '{\n  "mcpServers": {\n    "a": {"command": "x"}\n  },\n  "theme": "dark"\n}\n',
    "comments": '// mine\n{\n  /* servers */ "mcpServers": { // all of them\n'
    '    "a": {"command": "x"} // the first, no comma\n'
    "    // nothing more\n  }\n}\n",
    "trailing commas": (
        '{\n\t"mcpServers": {\n\t\t"a": {\n\t\t\t"args": [1, 2,],\n\t\t}, // with a comma\n\t},\n}'
    ),
    "one line": '{"mcpServers": {"a": {"command": "x"}}, "b": [1, "}"]}',
    "other keys only": '{\n    "theme": "dark", // so dark\n    "font": 12\n}\n',
    "CRLF": '{\r\n  "mcpServers": {\r\n    "a": {}\r\n  }\r\n}\r\n',
    "escapes": '{\n  "m\\u0063pServers": {\n    "a\\"}": "// no comment /* nor this"\n  }\n}\n',
    "nothing after": '{\n  "mcpServers": {\n    "a": 1 /* one */\n  }\n}',
    "big numbers": (
        '{\n  "id": 12345678901234567890123,\n  "x": 1e400,\n  "mcpServers": {\n    "z": -0.10\n'
        "  }\n}\n"
    ),
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_adding_and_removing_an_entry_leaves_the_rest_unchanged(text: str) -> None:
    added = put_object(text, KEYS, ENTRY)
    removed = take_object(added, KEYS)
    before = read_object(text, ())
    servers = before.get("mcpServers", {})
    assert read_object(added, ()) == before | {"mcpServers": servers | {"thumbindex": ENTRY}}
    assert read_object(removed, ()) == before | {"mcpServers": servers}
    assert [_remarks(edited) for edited in (added, removed)] == [_remarks(text)] * 2
    assert ("\r\n" in added) == ("\r\n" in text)


def test_entry_goes_below_a_comment_after_the_brace() -> None:
    put = put_object(FILES["comments"], KEYS, ENTRY)
    assert '"mcpServers": { // all of them\n    "thumbindex": {' in put
    assert take_object(put, KEYS) == FILES["comments"]


def test_entry_is_indented_like_its_neighbors() -> None:
    put = put_object(FILES["trailing commas"], KEYS, {"command": "x"})
    assert '{\n\t\t"thumbindex": {\n\t\t\t"command": "x"\n\t\t},\n\t\t"a": {' in put


@pytest.mark.parametrize("text", ["", "\n", "  ", "// only a remark\n", "// a remark"])
def test_file_with_only_comments_gets_an_object_after_them(text: str) -> None:
    put = put_object(text, KEYS, ENTRY)
    assert put.startswith(text)
    assert read_object(put, KEYS) == ENTRY


@pytest.mark.parametrize(
    "text",
    ["{}", "{ }", "{\n}", "{ // none\n}", '{"mcpServers": {}}', '{\n  "mcpServers": {\n  }\n}'],
)
def test_empty_object_is_filled_and_emptied(text: str) -> None:
    put = put_object(text, KEYS, ENTRY)
    assert read_object(put, KEYS) == ENTRY
    assert read_object(take_object(put, KEYS), KEYS[:1]) == {}


def test_updated_entry_keeps_the_users_additions() -> None:
    mine = (
        '{"mcpServers": {/* off */ "thumbindex": {"command": "/old", // mine\n "env": {"A": "1"}, '
        '"disabled": true}}}'
    )
    put = put_object(mine, KEYS, ENTRY)
    assert read_object(put, KEYS) == {
        "command": "/bin/thumbindex",
        "env": {"A": "1"},
        "disabled": True,
        "args": ["serve"],
    }
    assert "/* off */" in put
    assert "// mine\n" in put


@pytest.mark.parametrize(
    ("text", "removed"),
    [
        (
            '{"m": {\n  "a": 1,\n  "t": {},\n  "b": 2 // b\n}}',
            '{"m": {\n  "a": 1,\n  "b": 2 // b\n}}',
        ),
        ('{"m": {\n  "a": 1, // a\n  "t": {}\n}}', '{"m": {\n  "a": 1 // a\n}}'),
        ('{"m": {\n  "a": 1, // a\n  "t": {}, "b": 2\n}}', '{"m": {\n  "a": 1, // a\n "b": 2\n}}'),
        ('{"m": {\n  "a": 1,\n  "t": {}, // ours\n}}', '{"m": {\n  "a": 1,\n // ours\n}}'),
        ('{"m": {"t": 1}}', '{"m": {}}'),
        ('{"m": {"a": 1, "t": 2}}', '{"m": {"a": 1}}'),
    ],
)
def test_entry_is_removed_with_one_comma(text: str, removed: str) -> None:
    assert take_object(text, ("m", "t")) == removed


def test_last_of_repeated_keys_counts() -> None:
    text = '{"mcpServers": {"old": 1}, "mcpServers": {"a": 1}}'
    put = put_object(text, KEYS, {"x": 1})
    assert read_object(put, ()) == {"mcpServers": {"thumbindex": {"x": 1}, "a": 1}}
    assert put.startswith('{"mcpServers": {"old": 1}, ')


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": 1', "1:8"),
        ('{"a": 1\n "b": 2}', "2:2"),
        ("{a: 1}", "1:2"),
        ('{"a": tru}', "1:7"),
        ('{"a": "x\n"}', "1:9"),
        ('{"a": 1} {', "1:10"),
        ("/* no end", "1:1"),
        ('{"a": }', "1:7"),
        ('{"mcpServers": []}', "1:1"),
        ('{"mcpServers": null}', "1:1"),
        ("[]", "1:1"),
        ("null", "1:1"),
        ('{"a": ' + "[" * 100_000, "1:1"),
    ],
)
def test_syntax_errors_are_reported_with_their_position(text: str, place: str) -> None:
    with pytest.raises(MalformedError, match=f"^{place}: "):
        put_object(text, KEYS, ENTRY)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": "' + "\\\\" * 500_000,
        "{" + "/**/" * 250_000,
        "[" * 1_000_000,
    ],
)
def test_megabyte_of_repetition_is_read_quickly(text: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(MalformedError):
        put_object(text, KEYS, ENTRY)
    assert time.perf_counter() - begun < 5


@st.composite
def _written(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Draw an object with random blanks, comments and trailing commas."""
    blank = st.lists(
        st.sampled_from(
            ["", " ", "\t", "\n", "\r\n", "// one\n", "/* two */", "/* 3\n4 */", "//\r\n"]
        ),
        max_size=2,
    ).map("".join)

    def write(value: Any) -> str:
        if not isinstance(value, dict):
            return json.dumps(value)
        members = [
            draw(blank)
            + json.dumps(key)
            + draw(blank)
            + ":"
            + draw(blank)
            + write(member)
            + draw(blank)
            for key, member in value.items()
        ]
        end = draw(st.sampled_from(["", "," + draw(blank)])) if members else draw(blank)
        return "{" + ",".join(members) + end + "}"

    names = st.sampled_from(["mcpServers", "a", "b", "//", "}"])
    document = draw(
        st.dictionaries(
            names,
            st.integers() | st.dictionaries(names, st.integers() | st.just("/*"), max_size=3),
            max_size=3,
        )
    )
    document["mcpServers"] = draw(st.dictionaries(names, st.integers(), max_size=2))
    return draw(blank) + write(document) + draw(blank), document


def _remarks(text: str) -> list[str]:
    return [
        comment
        for comment in re.findall(r'(?:"(?:[^"\\]|\\.)*")|(//[^\r\n]*|/\*.*?\*/)', text, re.S)
        if comment
    ]


@settings(max_examples=50)
@given(_written())
def test_comments_and_values_survive_everywhere(
    written: tuple[str, dict[str, Any]],
) -> None:
    text, document = written
    added = put_object(text, KEYS, ENTRY)
    servers = document["mcpServers"]
    assert read_object(added, ()) == {**document, "mcpServers": {"thumbindex": ENTRY, **servers}}
    removed = take_object(added, KEYS)
    assert read_object(removed, ()) == document
    assert [_remarks(edited) for edited in (added, removed)] == [_remarks(text)] * 2
    assert "".join(removed.split()) == "".join(text.split())
