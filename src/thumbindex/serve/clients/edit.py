"""Edit one entry of another program's file (JSON, TOML, Markdown) and leave every other byte where it was."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thumbindex.errors import UsageError

BACKUP = ".thumbindex-backup"
"""What the names of backups end with; a later one has a number behind it."""

_BOM = "\ufeff"


def read_text(path: Path) -> str | None:
    """Return a file's text with its line ends and byte order mark as they are, None where there is no file. Raises UsageError."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 (byte {error.start}): nothing was changed. Save it as UTF-8 and run this again.") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}): nothing was changed.") from error


def without_mark(text: str) -> tuple[str, str]:
    """Return a text's byte order mark, which may be empty, and the rest."""
    return (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)


def lines_of(text: str) -> list[str]:
    """Return a text's lines with their ends; `splitlines` would cut at characters that end no line of a file."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def place(text: str, offset: int) -> str:
    """Return line and column of an offset, as editors count them."""
    line = text.count("\n", 0, offset) + 1
    return f"{line}:{offset - text.rfind(chr(10), 0, offset)}"


def backups(path: Path) -> Iterator[Path]:
    """Yield the backups of a file, the newest first."""
    found, number = list[Path](), 1
    while (each := _numbered(path, number)).exists():
        found.append(each)
        number += 1
    return reversed(found)


def back_up(path: Path) -> Path | None:
    """Keep what a file holds beside it, never over an older backup; return the new one, None where one says the same or there is no file."""
    if not path.exists():
        return None
    kept = list(backups(path))
    if any(each.read_bytes() == path.read_bytes() for each in kept):
        return None
    new = _numbered(path, len(kept) + 1)
    shutil.copy2(path, new)
    return new


def write_text(path: Path, text: str | None, before: str | None) -> None:
    """Put a text in the place of what is there, through symlinks and with its permissions, or no file; raise UsageError where that cannot be done.

    `before` is what the change was made from: where another program has written meanwhile, nothing is changed.
    """
    try:
        refuse_other(path, before)
        target = path.resolve()
        if text is None:
            target.unlink(missing_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            _replace(target, text)
    except (OSError, RuntimeError) as error:
        raise UsageError(f"{path}: cannot be written ({getattr(error, 'strerror', None) or error}): check who may write there.") from error


def refuse_other(path: Path, before: str | None) -> None:
    """Raise UsageError where a file no longer holds what it held, or was made read-only: a rename would get around what somebody wanted."""
    if read_text(path) != before:
        raise UsageError(f"{path}: another program has changed it meanwhile, and nothing was written: run this again.")
    if path.exists() and not path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(f"{path}: is read-only, and nothing was changed: make it writable (chmod u+w) and run this again.")


def _replace(target: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - an open descriptor has no path
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        Path(temporary).replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}{BACKUP}" + (f"-{number}" if number > 1 else ""))


BEGIN, END = "<!-- thumbindex: begin -->", "<!-- thumbindex: end -->"

_BLOCK = re.compile(re.escape(BEGIN) + r"\r?\n(?P<lines>[^<]*(?:<(?!!-- thumbindex)[^<]*)*)" + re.escape(END) + r"(?:\r?\n|\Z)")


def read_block(text: str) -> str | None:
    """Return the lines of the block, None where there is none."""
    found = _BLOCK.search(text)
    return found["lines"].replace("\r\n", "\n").rstrip("\n") if found else None


def put_block(text: str, lines: str) -> str:
    """Return the text with the block at its end, or where it was."""
    newline = "\r\n" if "\r\n" in text else "\n"
    block = newline.join([BEGIN, *lines.split("\n"), END, ""])
    if found := _BLOCK.search(text):
        return text if read_block(text) == lines else text[: found.start()] + block + text[found.end() :]
    if not text:
        return block
    return text + ("" if text.endswith("\n") else newline) + newline + block


def take_block(text: str) -> str:
    """Return the text without the block, nor the empty line before it."""
    found = _BLOCK.search(text)
    if not found:
        return text
    before = text[: found.start()]
    for empty in ("\r\n\r\n", "\n\n"):
        if before.endswith(empty):
            before = before[: -len(empty) // 2]
    return before + text[found.end() :]


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


_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)")

_BY_HAND = "the table `{table}` is written inside another value: write it as [{table}] on a line of its own"


@dataclass(frozen=True, slots=True)
class _Part:
    """A statement, a header, a comment or an empty line, with its end of line."""

    text: str
    table: tuple[str, ...]  # in which it stands; of a header the table that it opens
    is_header: bool
    keys: frozenset[str]  # that it sets

    @property
    def is_empty(self) -> bool:
        return not self.text.strip()

    @property
    def is_remark(self) -> bool:
        return self.is_empty or self.text.lstrip().startswith("#")


def read_toml(text: str, keys: Sequence[str]) -> Any:
    """Return the value at a path of keys, None where there is none. Raises Malformed."""
    found: Any = _parsed(text)
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def put_toml(text: str, keys: Sequence[str], entry: Mapping[str, Any]) -> str:
    """Return the text with an entry as a table; keys of the table that are not ours stay. Raises Malformed."""
    now, newline = read_toml(text, keys), "\r\n" if "\r\n" in text else "\n"
    if now is None:
        lines = [f"[{_dotted(keys)}]", *(f"{key} = {_value(value)}" for key, value in entry.items())]
        put = _lead(text, newline) + "".join(line + newline for line in lines)
    else:
        parts = _own(text, keys)
        put = "".join(part.text for part in _changed(parts, tuple(keys), {k: v for k, v in entry.items() if now.get(k) != v}, newline))
    return _checked(text, put, keys, {**(now or {}), **entry})


def take_toml(text: str, keys: Sequence[str]) -> str:
    """Return the text without the table at a path of keys, nor the empty line before it. Raises Malformed."""
    if read_toml(text, keys) is None:
        return text
    parts = _own(text, keys)
    ours = [part.table[: len(keys)] == tuple(keys) for part in parts]
    # Remarks before the next table are that one's.
    for number in range(len(parts) - 1, -1, -1):
        following = parts[number + 1] if number + 1 < len(parts) else None
        if ours[number] and parts[number].is_remark and following and not ours[number + 1]:
            ours[number] = False
    first = ours.index(True)
    if first and parts[first - 1].is_empty:
        ours[first - 1] = True
    kept = "".join(part.text for part, is_ours in zip(parts, ours, strict=True) if not is_ours)
    return _checked(text, kept, keys, None)


def _changed(parts: Sequence[_Part], keys: tuple[str, ...], values: Mapping[str, Any], newline: str) -> Iterator[_Part]:
    left = dict(values)
    for part in parts:
        ours = part.table == keys
        replaced = [key for key in part.keys if key in left] if ours and not part.is_header else []
        if replaced:
            key = replaced[0]
            yield _Part(f"{key} = {_value(left.pop(key))}{newline}", part.table, False, part.keys)
        else:
            yield part
        if ours and part.is_header:
            there = {key for each in parts if each.table == keys for key in each.keys}
            for key in [key for key in left if key not in there]:
                yield _Part(f"{key} = {_value(left.pop(key))}{newline}", keys, False, frozenset({key}))


def _own(text: str, keys: Sequence[str]) -> list[_Part]:
    """Return the parts of a text in which the table has a header of its own."""
    parts = list(_parts(text))
    if not any(part.is_header and part.table == tuple(keys) for part in parts):
        raise Malformed(0, _BY_HAND.format(table=_dotted(keys)))
    return parts


def _parts(text: str) -> Iterator[_Part]:
    """Cut a valid text into parts: a part ends with the first line at which what there is of it is valid by itself."""
    table, held = tuple[str, ...](), ""
    for line in lines_of(text):
        held += line
        try:
            found = tomllib.loads(held)
        except tomllib.TOMLDecodeError:
            continue
        is_header = held.lstrip().startswith("[")
        if is_header:
            table = _opened(found)
        yield _Part(held, table, is_header, frozenset() if is_header else frozenset(found))
        held = ""


def _opened(found: Mapping[str, Any]) -> tuple[str, ...]:
    path = list[str]()
    while isinstance(found, Mapping) and found:
        key, found = next(iter(found.items()))
        path.append(key)
    return tuple(path)


def _checked(old: str, new: str, keys: Sequence[str], entry: Mapping[str, Any] | None) -> str:
    """Return the new text where it says the same as the old one but for the entry."""
    expected = _parsed(old)
    parent = expected
    for key in keys[:-1]:
        parent = parent.setdefault(key, {})
    if entry is None:
        parent.pop(keys[-1], None)
    elif isinstance(parent, dict):
        parent[keys[-1]] = dict(entry)
    try:
        same = _without_empty(tomllib.loads(new)) == _without_empty(expected)
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise Malformed(0, _BY_HAND.format(table=_dotted(keys)))
    return new


def _without_empty(value: Any) -> Any:
    """Leave out tables that hold nothing: a table that is gone may have opened the one around it."""
    if not isinstance(value, dict):
        return value
    smaller = {key: _without_empty(each) for key, each in value.items()}
    return {key: each for key, each in smaller.items() if each != {}}


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        what = _PLACE.sub("", str(error)).strip() or "it is no TOML"
        offset = sum(map(len, lines_of(text)[: int(place[1]) - 1])) + int(place[2]) - 1 if place else len(text)
        raise Malformed(offset, what[0].lower() + what[1:]) from error


def _lead(text: str, newline: str) -> str:
    if not text:
        return text
    return text + ("" if text.endswith("\n") else newline) + newline


def _dotted(keys: Sequence[str]) -> str:
    return ".".join(key if _BARE.fullmatch(key) else json.dumps(key) for key in keys)


def _value(value: Any) -> str:
    # JSON's strings and lists are TOML's, but for one control character that JSON leaves as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
