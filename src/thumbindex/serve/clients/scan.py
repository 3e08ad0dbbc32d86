"""Reads JSON with comments and trailing commas, and keeps where each value stands: what is edited later is text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

MOST_NESTED = 100
"""A client's file nests a few levels; one that nests more is no client's file, and must not exhaust the stack."""

_BLANK = re.compile(r"[ \t\r\n]+|//[^\r\n]*")
_LINE_COMMENT = re.compile(r"//[^\r\n]*")
_SCALAR = re.compile(r"[\w.+-]")


class Malformed(Exception):  # noqa: N818 - caught where the file's name is known, and said as a sentence there
    """A text that is not what it should be, from an offset on."""

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(what)
        self.offset, self.what = offset, what


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its place, `text[start:end]`."""

    start: int
    end: int
    value: Any
    members: tuple[Member, ...] | None  # None where it is no object

    def member(self, key: str) -> Member | None:
        """Return the member that a reader takes: the last one of a key that is there twice."""
        return next((each for each in reversed(self.members or ()) if each.key == key), None)


@dataclass(frozen=True, slots=True)
class Member:
    """One key of an object with its value."""

    key: str
    start: int  # of the key
    node: Node
    comma: int | None  # offset of the comma behind it


def scan(text: str) -> Node | None:
    """Return the one value of a text; None where it holds only blanks and comments. Raises Malformed."""
    reader = _Reader(text)
    reader.pass_blank()
    if reader.at == len(text):
        return None
    node = reader.value(0)
    reader.pass_blank()
    if reader.at < len(text):
        raise Malformed(reader.at, "something follows the end of the document")
    return node


def pass_line(text: str, start: int) -> int:
    """Return where the line's own comments end, if nothing but comments follows on the line; else `start`."""
    reader = _Reader(text, start)
    end = start
    while reader.at < len(text):
        if text[reader.at] in "\r\n":
            return end
        before = reader.at
        if text[before] in " \t":
            reader.at += 1
        elif not reader.pass_comment() or "\n" in text[before : reader.at]:
            return start
        else:
            end = reader.at
    return start


class _Reader:
    def __init__(self, text: str, at: int = 0) -> None:
        self.text, self.at = text, at

    def pass_blank(self) -> None:
        while found := _BLANK.match(self.text, self.at) or self._block_comment():
            self.at = found if isinstance(found, int) else found.end()

    def pass_comment(self) -> bool:
        line = _LINE_COMMENT.match(self.text, self.at)
        found = line.end() if line else self._block_comment()
        self.at = found or self.at
        return bool(found)

    def value(self, depth: int) -> Node:
        if depth > MOST_NESTED:
            raise Malformed(self.at, f"it nests deeper than {MOST_NESTED} levels")
        opening = self.text[self.at : self.at + 1]
        if opening == "{":
            return self._object(depth)
        return self._array(depth) if opening == "[" else self._scalar()

    def _block_comment(self) -> int | None:
        if not self.text.startswith("/*", self.at):
            return None
        end = self.text.find("*/", self.at + 2)
        if end < 0:
            raise Malformed(self.at, "this comment has no end")
        return end + 2

    def _object(self, depth: int) -> Node:
        start, members = self.at, list[Member]()
        self.at += 1
        while not self._closes("}", "a key in quotes"):
            if members and members[-1].comma is None:
                raise Malformed(self.at, "a comma is missing before this")
            members.append(self._member(depth))
        return Node(start, self.at, {each.key: each.node.value for each in members}, tuple(members))

    def _member(self, depth: int) -> Member:
        start = self.at
        if self.text[start] != '"':
            raise Malformed(start, "a key in quotes is expected here")
        key = self._scalar().value
        self.pass_blank()
        self._take(":")
        self.pass_blank()
        node = self.value(depth + 1)
        return Member(key, start, node, self._comma())

    def _array(self, depth: int) -> Node:
        start, values, comma = self.at, list[Any](), True
        self.at += 1
        while not self._closes("]", "a value"):
            if not comma:
                raise Malformed(self.at, "a comma is missing before this")
            values.append(self.value(depth + 1).value)
            comma = self._comma() is not None
        return Node(start, self.at, values, None)

    def _closes(self, closing: str, expected: str) -> bool:
        self.pass_blank()
        if self.at == len(self.text):
            raise Malformed(self.at, f"the text ends where {expected} or {closing} is expected")
        if self.text[self.at] == closing:
            self.at += 1
            return True
        return False

    def _comma(self) -> int | None:
        self.pass_blank()
        if not self.text.startswith(",", self.at):
            return None
        self.at += 1
        return self.at - 1

    def _take(self, wanted: str) -> None:
        if not self.text.startswith(wanted, self.at):
            raise Malformed(self.at, f"{wanted} is expected here")
        self.at += len(wanted)

    def _scalar(self) -> Node:
        start = self.at
        try:
            value, self.at = json.JSONDecoder().raw_decode(self.text, start)
        except json.JSONDecodeError as error:
            raise Malformed(error.pos, error.msg[0].lower() + error.msg[1:]) from error
        if self.text[start] != '"' and _SCALAR.match(self.text, self.at):
            raise Malformed(start, "this is no value: text stands in quotes")
        return Node(start, self.at, value, None)
