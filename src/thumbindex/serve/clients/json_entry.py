"""One entry of a JSON file, comments and all: put in, replaced or taken out, with every other byte where it was."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from thumbindex.serve.clients.scan import Malformed, Member, Node, pass_line, scan

_INDENT = "  "
"""What a new file is indented by, and one whose own indent cannot be seen."""


def read_json(text: str, keys: Sequence[str]) -> Any:
    """Return the value at a path of keys, None where there is none. Raises Malformed."""
    node = scan(text)
    for key in keys:
        found = node.member(key) if node else None
        node = found.node if found else None
    return node.value if node else None


def put_json(text: str, keys: Sequence[str], entry: Mapping[str, Any]) -> str:
    """Return the text with an entry at a path of keys; keys of the entry that are not ours stay. Raises Malformed."""
    if not isinstance(read_json(text, keys), dict):
        return _put(text, keys, entry)
    for key, value in entry.items():
        text = _put(text, (*keys, key), value)
    return text


def take_json(text: str, keys: Sequence[str], original: str = "") -> str:
    """Return the text without the entry at a path of keys, nor the empty objects around it that the original text lacks. Raises Malformed."""
    text = _taken(text, keys)
    for depth in range(len(keys) - 1, 0, -1):
        if read_json(text, keys[:depth]) == {} and read_json(original, keys[:depth]) is None:
            text = _taken(text, keys[:depth])
    return text


def _taken(text: str, keys: Sequence[str]) -> str:
    parent = scan(text)
    for key in keys[:-1]:
        found = parent.member(key) if parent else None
        parent = found.node if found else None
    found = parent.member(keys[-1]) if parent else None
    return _without(text, parent, found) if parent and found else text


def _put(text: str, keys: Sequence[str], value: Any) -> str:
    root = scan(text)
    if root is None:
        lead = text if not text.strip() or text.endswith("\n") else text + _newline(text)
        return lead + _written(_nested(keys, value), _INDENT, "", _newline(text)) + _newline(text)
    node, unit = root, _unit(text, root)
    for depth, key in enumerate(keys):
        if node.members is None:
            raise Malformed(node.start, f"`{'.'.join(keys[:depth]) or 'the document'}` is expected to be an object in braces")
        found = node.member(key)
        if found is None:
            return _inserted(text, node, key, _nested(keys[depth + 1 :], value), unit)
        node = found.node
    if node.value == value:
        return text
    return text[: node.start] + _written(value, unit, _line_indent(text, node.start), _newline(text)) + text[node.end :]


def _nested(keys: Sequence[str], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


def _inserted(text: str, parent: Node, key: str, value: Any, unit: str) -> str:
    """Put a member last, where its neighbors are: on a line of its own, unless they share one."""
    newline = _newline(text)
    base = _line_indent(text, parent.start)
    members = parent.members or ()
    if members and "\n" not in text[parent.start : members[-1].start]:
        at, before, after = _after(members[-1]), " ", ""
        written = f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
    else:
        indent = _line_indent(text, members[-1].start) if members else base + unit
        at = pass_line(text, _after(members[-1]) if members else parent.start + 1)
        before = newline + indent
        after = "" if "\n" in text[at : parent.end] else newline + base
        written = f"{json.dumps(key, ensure_ascii=False)}: {_written(value, unit, indent, newline)}"
    if not members:
        return text[:at] + before + written + after + text[at:]
    last = members[-1]
    if last.comma is not None:
        return text[:at] + before + written + "," + after + text[at:]
    return text[: last.node.end] + "," + text[last.node.end : at] + before + written + after + text[at:]


def _without(text: str, parent: Node, found: Member) -> str:
    """Take a member out with the blank before it and its comma; a last one takes the comma of the one before."""
    start = len(text[: found.start].rstrip(" \t"))
    if text[:start].endswith("\n"):
        start -= 2 if text[:start].endswith("\r\n") else 1
    if found.comma is not None:
        return text[:start] + text[found.comma + 1 :]
    earlier = [each for each in parent.members or () if each.start < found.start]
    if not earlier:
        return text[:start] + text[found.node.end :]
    comma = earlier[-1].comma or start
    return text[:comma] + text[comma + 1 : start] + text[found.node.end :]


def _after(last: Member) -> int:
    return last.node.end if last.comma is None else last.comma + 1


def _written(value: Any, unit: str, indent: str, newline: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline + indent)


def _unit(text: str, root: Node) -> str:
    first = root.members[0] if root.members else None
    return (_line_indent(text, first.start) if first else "") or _INDENT


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
