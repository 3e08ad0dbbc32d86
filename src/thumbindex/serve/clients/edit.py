"""Edit one entry of another program's file (JSON, TOML, Markdown) and leave every other byte where
it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thumbindex.errors import UsageError

BACKUP = ".thumbindex-backup"
"""What the names of backups end with; a later one has a number behind it."""

_BOM = "\ufeff"


# - caught where the file's name is known, and said as a sentence there
class Malformed(Exception):  # noqa: N818
    """A text that is not what it should be, from an offset on."""

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(what)
        self.offset, self.what = offset, what


@dataclass(frozen=True, slots=True)
class Editor:
    """How an entry is read, put and taken in files of one form; each raises Malformed."""

    # of a text and a path of keys; None where there is no entry
    read: Callable[[str, Sequence[str]], Any]
    put: Callable[[str, Sequence[str], Any], str]
    take: Callable[[str, Sequence[str], str], str]  # also of the text before we came


def read_text(path: Path) -> str | None:
    """Return a file's text with its line ends and byte order mark as they are, None where there is
    no file.

    Raises UsageError.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: not UTF-8 (byte {error.start}): nothing was changed. Save it as UTF-8 "
            "and run this again."
        ) from error
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read ({error.strerror}): nothing was changed."
        ) from error


def without_mark(text: str) -> tuple[str, str]:
    """Return a text's byte order mark, which may be empty, and the rest."""
    return (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)


def split_lines(text: str) -> list[str]:
    """Return a text's lines with their ends; `splitlines` would cut at characters that end no line
    of a file.
    """
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def line_and_column(text: str, offset: int) -> str:
    """Return line and column of an offset, as editors count them."""
    line = text.count("\n", 0, offset) + 1
    return f"{line}:{offset - text.rfind(chr(10), 0, offset)}"


def backups(path: Path) -> list[Path]:
    """Return the backups of a file, the newest first."""
    found = list[Path]()
    while (each := _numbered(path, len(found) + 1)).exists():
        found.insert(0, each)
    return found


def back_up(path: Path) -> Path | None:
    """Keep what a file holds beside it, never over an older backup; return the new one, None where
    one says the same or there is no file.
    """
    kept = backups(path)
    if not path.exists() or any(each.read_bytes() == path.read_bytes() for each in kept):
        return None
    new = _numbered(path, len(kept) + 1)
    shutil.copy2(path, new)
    return new


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}{BACKUP}" + (f"-{number}" if number > 1 else ""))


def write_text(path: Path, text: str | None, before: str | None) -> None:
    """Put a text in the place of what is there, through symlinks and with its permissions, or no
    file; raise UsageError where that cannot be done.

    `before` is what the change was made from: where another program has written meanwhile, nothing
    is changed.
    """
    try:
        refuse_other(path, before)
        target = path.resolve()
        if text is None:
            target.unlink(missing_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
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
    except (OSError, RuntimeError) as error:
        what = getattr(error, "strerror", None) or error
        raise UsageError(
            f"{path}: cannot be written ({what}): check who may write there, and quit the "
            "client on Windows."
        ) from error


def refuse_other(path: Path, before: str | None) -> None:
    """Raise UsageError where a file no longer holds what it held, or was made read-only: a rename
    would get around what somebody wanted.
    """
    if read_text(path) != before:
        raise UsageError(
            f"{path}: another program has changed it meanwhile, and nothing was written: run "
            "this again."
        )
    if path.exists() and not path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(
            f"{path}: is read-only, and nothing was changed: make it writable (chmod u+w) and "
            "run this again."
        )


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


# ----------------------------------------------------------- Markdown: a block between two comments

BEGIN, END = "<!-- thumbindex: begin -->", "<!-- thumbindex: end -->"

_BLOCK = re.compile(
    re.escape(BEGIN)
    + r"\r?\n(?P<lines>[^<]*(?:<(?!!-- thumbindex)[^<]*)*)"
    + re.escape(END)
    + r"(?:\r?\n|\Z)"
)


def read_block(text: str) -> str | None:
    """Return the lines of the block, None where there is none."""
    found = _BLOCK.search(text)
    return found["lines"].replace("\r\n", "\n").rstrip("\n") if found else None


def put_block(text: str, lines: str) -> str:
    """Return the text with the block at its end, or where it was."""
    newline = _newline(text)
    block = newline.join([BEGIN, *lines.split("\n"), END, ""])
    if found := _BLOCK.search(text):
        if read_block(text) == lines:
            return text
        return text[: found.start()] + block + text[found.end() :]
    return _with_empty_line(text, newline) + block


def take_block(text: str) -> str:
    """Return the text without the block, nor the empty line before it."""
    found = _BLOCK.search(text)
    if not found:
        return text
    before = text[: found.start()]
    for newline in ("\r\n", "\n"):
        if before.endswith(2 * newline):
            before = before.removesuffix(newline)
    return before + text[found.end() :]


def _with_empty_line(text: str, newline: str) -> str:
    """Return a text that something of ours is to follow."""
    return text and text + ("" if text.endswith("\n") else newline) + newline


BLOCK = Editor(
    lambda text, _: read_block(text),
    lambda text, _, lines: put_block(text, lines),
    lambda text, *_: take_block(text),
)

# --------------------- JSON with comments and trailing commas: the edit is a splice between offsets

MOST_NESTED = 100
"""A client's file nests a few levels; one that nests more is no client's file, and must not exhaust
the stack.
"""

_BLANK = re.compile(r"(?:[ \t\r\n]++|//[^\r\n]*+|/\*.*?\*/)*+", re.S)
_REST_OF_LINE = re.compile(
    r"((?:[ \t]*+(?://[^\r\n]*+|/\*(?:(?!\*/)[^\n])*+\*/))*+)[ \t]*+(?=[\r\n])"
)
_MORE = re.compile(r"[\w.+-]")

_INDENT = "  "
"""What a new file is indented by, and one whose own indent cannot be seen."""


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
    """One key of an object with its value; a value of an array has no key."""

    key: str
    start: int  # of the key
    node: Node
    comma: int | None  # offset of the comma behind it

    @property
    def end(self) -> int:
        """The offset behind the member and its comma."""
        return self.node.end if self.comma is None else self.comma + 1


def scan(text: str) -> Node | None:
    """Return the one value of a text; None where it holds only blanks and comments.

    Raises Malformed.
    """
    reader = _Reader(text)
    reader.pass_blank()
    if reader.at == len(text):
        return None
    node = reader.value(0)
    reader.pass_blank()
    if reader.at < len(text):
        raise Malformed(reader.at, "something follows the end of the document")
    return node


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def pass_blank(self) -> None:
        found = _BLANK.match(self.text, self.at)
        self.at = found.end() if found else self.at
        if self.text.startswith("/*", self.at):
            raise Malformed(self.at, "this comment has no end")

    def value(self, depth: int) -> Node:
        if depth > MOST_NESTED:
            raise Malformed(self.at, f"it nests deeper than {MOST_NESTED} levels")
        start = self.at
        is_object = self.text.startswith("{", start)
        if not is_object and not self.text.startswith("[", start):
            return self._scalar()
        closing, expected = ("}", "a key in quotes") if is_object else ("]", "a value")
        members = list[Member]()
        self.at += 1
        while True:
            self.pass_blank()
            if self.at == len(self.text):
                raise Malformed(self.at, f"the text ends where {expected} or {closing} is expected")
            if self.text[self.at] == closing:
                break
            if members and members[-1].comma is None:
                raise Malformed(self.at, "a comma is missing before this")
            members.append(self._member(depth, is_object))
        self.at += 1
        if is_object:
            return Node(
                start, self.at, {each.key: each.node.value for each in members}, tuple(members)
            )
        return Node(start, self.at, [each.node.value for each in members], None)

    def _member(self, depth: int, has_key: bool) -> Member:
        start, key = self.at, ""
        if has_key:
            if self.text[start] != '"':
                raise Malformed(start, "a key in quotes is expected here")
            key = self._scalar().value
            self.pass_blank()
            if not self._takes(":"):
                raise Malformed(self.at, ": is expected here")
            self.pass_blank()
        node = self.value(depth + 1)
        self.pass_blank()
        return Member(key, start, node, self.at - 1 if self._takes(",") else None)

    def _takes(self, wanted: str) -> bool:
        found = self.text.startswith(wanted, self.at)
        self.at += found
        return found

    def _scalar(self) -> Node:
        start = self.at
        try:
            value, self.at = json.JSONDecoder().raw_decode(self.text, start)
        except json.JSONDecodeError as error:
            raise Malformed(error.pos, error.msg[0].lower() + error.msg[1:]) from error
        if self.text[start] != '"' and _MORE.match(self.text, self.at):
            raise Malformed(start, "this is no value: text stands in quotes")
        return Node(start, self.at, value, None)


def read_object(text: str, keys: Sequence[str]) -> Any:
    """Return the value at a path of keys, None where there is none. Raises Malformed."""
    node = _find(text, keys)
    return node.value if node else None


def put_object(text: str, keys: Sequence[str], entry: Mapping[str, Any]) -> str:
    """Return the text with an entry at a path of keys; keys of the entry that are not ours stay.

    Raises Malformed.
    """
    if not isinstance(read_object(text, keys), dict):
        return _put(text, keys, entry)
    for key, value in entry.items():
        text = _put(text, (*keys, key), value)
    return text


def take_object(text: str, keys: Sequence[str], original: str = "") -> str:
    """Return the text without the entry at a path of keys, nor the empty objects around it that the
    original text lacks.

    Raises Malformed.
    """
    for depth in range(len(keys), 0, -1):
        path = keys[:depth]
        is_ours = depth == len(keys) or (
            read_object(text, path) == {} and read_object(original, path) is None
        )
        parent = _find(text, path[:-1])
        found = parent.member(path[-1]) if parent else None
        if is_ours and parent and found:
            text = _without(text, parent, found)
    return text


def _find(text: str, keys: Sequence[str]) -> Node | None:
    node = scan(text)
    for key in keys:
        found = node.member(key) if node else None
        node = found.node if found else None
    return node


def _put(text: str, keys: Sequence[str], value: Any) -> str:
    """Put a value at a path of keys: over the one that is there, else as the last member of the
    innermost object that is there.
    """
    newline, node = _newline(text), scan(text)
    if node is None:
        lead = text if not text.strip() or text.endswith("\n") else text + newline
        return lead + _written(_nested(keys, value), _INDENT, "", newline) + newline
    unit = (_indent_of(text, node.members[0].start) if node.members else "") or _INDENT
    for depth, key in enumerate(keys):
        if node.members is None:
            raise Malformed(
                node.start,
                f"`{'.'.join(keys[:depth]) or 'the document'}` is expected to be an object in "
                "braces",
            )
        found = node.member(key)
        if found is None:
            return _with_member(text, node, key, _nested(keys[depth + 1 :], value), unit)
        node = found.node
    if node.value == value:
        return text
    return (
        text[: node.start]
        + _written(value, unit, _indent_of(text, node.start), newline)
        + text[node.end :]
    )


def _with_member(text: str, parent: Node, key: str, value: Any, unit: str) -> str:
    """Put a member last, where its neighbors are: on a line of its own, unless they share one."""
    newline, base = _newline(text), _indent_of(text, parent.start)
    last = parent.members[-1] if parent.members else None
    at, name = last.end if last else parent.start + 1, json.dumps(key, ensure_ascii=False)
    if last and "\n" not in text[parent.start : last.start]:
        before, after, written = " ", "", json.dumps(value, ensure_ascii=False)
    else:
        indent = _indent_of(text, last.start) if last else base + unit
        remarks = _REST_OF_LINE.match(text, at)
        at = remarks.end(1) if remarks else at
        before, after = newline + indent, "" if "\n" in text[at : parent.end] else newline + base
        written = _written(value, unit, indent, newline)
    comma = "," if last and last.comma is not None else ""
    put = f"{before}{name}: {written}{comma}{after}{text[at:]}"
    if last is None or comma:
        return text[:at] + put
    return f"{text[: last.node.end]},{text[last.node.end : at]}{put}"


def _without(text: str, parent: Node, found: Member) -> str:
    """Take a member out with the blank before it and its comma; a last one takes the comma of the
    one before.
    """
    start = len(text[: found.start].rstrip(" \t"))
    if text[:start].endswith("\n"):
        start -= 2 if text[:start].endswith("\r\n") else 1
    earlier = [each for each in parent.members or () if each.start < found.start]
    if found.comma is not None or not earlier:
        return text[:start] + text[found.end :]
    comma = earlier[-1].comma or start
    return text[:comma] + text[comma + 1 : start] + text[found.end :]


def _nested(keys: Sequence[str], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


def _written(value: Any, unit: str, indent: str, newline: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline + indent)


def _indent_of(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


JSON = Editor(read_object, put_object, take_object)

# ------------------------ TOML: a table is put in and taken out as lines, and the result read again

_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)")


@dataclass(frozen=True, slots=True)
class _Part:
    """A statement, a header, a comment or an empty line, with its end of line."""

    text: str
    table: tuple[str, ...]  # in which it stands; of a header the table that it opens
    keys: frozenset[str] | None  # that it sets; None for a header

    @property
    def is_remark(self) -> bool:
        return not self.text.strip() or self.text.lstrip().startswith("#")


def read_table(text: str, keys: Sequence[str]) -> Any:
    """Return the value at a path of keys, None where there is none. Raises Malformed."""
    try:
        found: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        what = _PLACE.sub("", str(error)).strip() or "it is no TOML"
        offset = (
            sum(map(len, split_lines(text)[: int(place[1]) - 1])) + int(place[2]) - 1
            if place
            else len(text)
        )
        raise Malformed(offset, what[0].lower() + what[1:]) from error
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def put_table(text: str, keys: Sequence[str], entry: Mapping[str, Any]) -> str:
    """Return the text with an entry as a table; keys of the table that are not ours stay.

    Raises Malformed.
    """
    now, newline = read_table(text, keys), _newline(text)
    written = _statements(entry, newline)
    if now is None:
        put = (
            _with_empty_line(text, newline)
            + f"[{'.'.join(map(_key, keys))}]{newline}"
            + "".join(written.values())
        )
    elif not isinstance(now, dict):
        raise _by_hand(keys)
    else:
        parts, put = _parts_around(text, keys), ""
        changed = {key: line for key, line in written.items() if now.get(key) != entry[key]}
        there = {key for part in parts if part.table == tuple(keys) for key in part.keys or ()}
        for part in parts:
            ours = part.keys if part.table == tuple(keys) else frozenset[str]()
            put += next((changed[key] for key in ours or () if key in changed), part.text)
            if ours is None:
                put += "".join(line for key, line in changed.items() if key not in there)
    return _read_again(text, put, keys, {**(now or {}), **entry})


def _statements(entry: Mapping[str, Any], newline: str) -> dict[str, str]:
    """Return the line that sets each key: JSON's strings and lists are TOML's, but for one control
    character that JSON leaves as it is.
    """
    return {
        key: f"{key} = {json.dumps(value, ensure_ascii=False)}{newline}".replace("\x7f", "\\u007f")
        for key, value in entry.items()
    }


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def take_table(text: str, keys: Sequence[str]) -> str:
    """Return the text without the table at a path of keys, nor the empty line before it.

    Raises Malformed.
    """
    if read_table(text, keys) is None:
        return text
    kept, is_first = list[_Part](), True
    remarks = list[_Part]()  # behind a statement of ours: before another table they are that one's
    for part in _parts_around(text, keys):
        if part.table[: len(keys)] != tuple(keys):
            kept += [*remarks, part]
            remarks = []
        elif part.is_remark:
            remarks.append(part)
        else:
            if is_first and kept and not kept[-1].text.strip():
                kept.pop()
            remarks, is_first = [], False
    # somebody's own, at the end of the file
    kept += remarks if any(part.text.strip() for part in remarks) else []
    return _read_again(text, "".join(part.text for part in kept), keys, None)


def put_item(text: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return the text with an entry as the last one of an array of tables. Raises Malformed."""
    newline = _newline(text)
    lines = "".join(_statements(entry, newline).values())
    put = _with_empty_line(text, newline) + f"[[{name}]]{newline}{lines}"
    return _read_as(
        put,
        (name,),
        {**tomllib.loads(text), name: [*(read_table(text, (name,)) or ()), dict(entry)]},
    )


def take_item(text: str, name: str, at: int) -> str:
    """Return the text without one entry of an array of tables, counted from 0. Raises Malformed."""
    kept, number = list[str](), -1
    for part in _parts_around(text, (name,)):
        number += part.keys is None and part.table == (name,)
        is_other = part.table[:1] != (name,) or number != at
        if is_other or part.is_remark:
            kept.append(part.text)
    held, expected = read_table(text, (name,)), tomllib.loads(text)
    expected[name] = [*held[:at], *held[at + 1 :]] or {}
    return _read_as("".join(kept), (name,), expected)


def take_value(text: str, keys: Sequence[str]) -> str:
    """Return the text without the statement that sets a key of a table. Raises Malformed."""
    *table, key = keys
    kept = [
        part.text
        for part in _parts_around(text, table)
        if (part.table, part.keys) != (tuple(table), frozenset({key}))
    ]
    expected: Any = tomllib.loads(text)
    found = expected
    for each in table:
        found = found[each]
    found.pop(key, None)
    return _read_as("".join(kept), keys, expected)


def _read_as(new: str, keys: Sequence[str], expected: Mapping[str, Any]) -> str:
    """Return the new text where it says what is expected. Raises Malformed."""
    with contextlib.suppress(tomllib.TOMLDecodeError):
        if _without_empty(tomllib.loads(new)) == _without_empty(dict(expected)):
            return new
    raise _by_hand(keys)


def _parts_around(text: str, keys: Sequence[str]) -> list[_Part]:
    """Cut a valid text into parts: a part ends with the first line at which what there is of it is
    valid by itself.

    Raises Malformed where the table at a path of keys has no header of its own.
    """
    parts, table, held = list[_Part](), tuple[str, ...](), ""
    for line in split_lines(text):
        held += line
        try:
            found: Any = tomllib.loads(held)
        except tomllib.TOMLDecodeError:
            continue
        is_header = held.lstrip().startswith("[")
        names = frozenset(found)
        if is_header:
            table = ()
            while isinstance(found, dict) and found:
                key, found = next(iter(found.items()))
                table += (key,)
        parts.append(_Part(held, table, None if is_header else names))
        held = ""
    if not any(part.keys is None and part.table == tuple(keys) for part in parts):
        raise _by_hand(keys)
    return parts


def _read_again(old: str, new: str, keys: Sequence[str], entry: Mapping[str, Any] | None) -> str:
    """Return the new text where it says the same as the old one but for the entry.

    Raises Malformed.
    """
    parent = expected = tomllib.loads(old)
    for key in keys[:-1]:
        parent = parent.setdefault(key, {})
    if entry is None:
        parent.pop(keys[-1], None)
    elif isinstance(parent, dict):
        parent[keys[-1]] = dict(entry)
    return _read_as(new, keys, expected)


def _by_hand(keys: Sequence[str]) -> Malformed:
    table = ".".join(keys)
    return Malformed(
        0,
        f"the table `{table}` is written inside another value: write it as [{table}] on a "
        "line of its own",
    )


def _without_empty(value: Any) -> Any:
    """Leave out tables that hold nothing: a table that is gone may have opened the one around
    it.
    """
    if not isinstance(value, dict):
        return value
    smaller = {key: _without_empty(each) for key, each in value.items()}
    return {key: each for key, each in smaller.items() if each != {}}


TOML = Editor(read_table, put_table, lambda text, keys, _: take_table(text, keys))
