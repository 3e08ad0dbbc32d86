"""Edit one entry of another program's file (JSON, TOML, Markdown) as text.

Everything else stays. The result is read again: an edit that changes anything else is refused.
"""

from __future__ import annotations

import codecs
import json
import re
import shutil
import stat
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.serve.owner_file import write_owner_file

BACKUP = ".thumbindex-backup"
"""Suffix of a backup's name; further backups add a number."""

Keys = tuple[str | int, ...]
"""A path to a value: names, and numbers of items in arrays."""


class Malformed(Exception):  # noqa: N818 - `naming` makes a UsageError of it
    """A text that cannot be read or edited: `line:column: reason`."""


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn Malformed into a UsageError that names the file."""
    try:
        yield
    except Malformed as error:
        raise UsageError(
            f"{path}:{error}. Nothing was changed: correct the file and run this again."
        ) from error


@dataclass(frozen=True, slots=True)
class Editor:
    """Three functions for one file format; each raises Malformed."""

    read: Callable[[str, Keys], Any]  # None if there is no entry
    put: Callable[[str, Keys, Any], str]
    take: Callable[[str, Keys], str]


# ------------------------------------------------------------------ files


def read_text(path: Path) -> str | None:
    """Return a file's text without its byte order mark, or None if there is no file.

    Raises UsageError.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
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


def write_text(
    path: Path, text: str | None, before: str | None, *, keep: bool = False
) -> Path | None:
    """Replace a file's text, or delete the file if the text is None.

    Symlinks, permissions and a byte order mark stay. With `keep`, copy the old file first and
    return the copy. Raises UsageError if the file no longer holds `before` or cannot be written.
    """
    if read_text(path) != before:
        raise UsageError(
            f"{path}: another program has changed it meanwhile, and nothing was written: run "
            "this again."
        )
    try:
        target = path.resolve()
        mode = target.stat().st_mode if before is not None else 0
        # a rename would replace a read-only file, too
        if before is not None and not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
            raise UsageError(
                f"{path}: is read-only, and nothing was changed: make it writable (chmod u+w) "
                "and run this again."
            )
        backup = _back_up(path) if keep and before is not None else None
        if text is None:
            target.unlink(missing_ok=True)
            return backup
        target.parent.mkdir(parents=True, exist_ok=True)
        has_mark = before is not None and target.read_bytes().startswith(codecs.BOM_UTF8)
        mark = codecs.BOM_UTF8 if has_mark else b""
        write_owner_file(target, mark + text.encode(), durable=True)
        if before is not None:
            target.chmod(stat.S_IMODE(mode))
        return backup
    except (OSError, RuntimeError) as error:  # a circle of symlinks is a RuntimeError
        what = getattr(error, "strerror", None) or error
        raise UsageError(
            f"{path}: cannot be written ({what}): check who may write there, and quit the "
            "client on Windows."
        ) from error


def backups(path: Path) -> list[Path]:
    """Return the backups of a file, the newest first."""
    found = list[Path]()
    while (backup := _numbered(path, len(found) + 1)).exists():
        found.insert(0, backup)
    return found


def _back_up(path: Path) -> Path:
    new = _numbered(path, len(backups(path)) + 1)
    shutil.copy2(path, new)
    return new


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}{BACKUP}" + (f"-{number}" if number > 1 else ""))


# ------------------------------------------------------------------ all formats


def split_lines(text: str) -> list[str]:
    """Return a text's lines with their ends; only a line feed ends a line."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _with_line_end(text: str) -> str:
    return text if not text or text.endswith("\n") else text + _newline(text)


def _with_empty_line(text: str) -> str:
    return _with_line_end(text) + (_newline(text) if text else "")


def _without_empty_line(text: str) -> str:
    newline = _newline(text)
    return text.removesuffix(newline) if text.endswith(newline * 2) else text


def _at(value: Any, keys: Keys) -> Any:
    for key in keys:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _checked(
    read: Callable[[str, Keys], Any], old: str, new: str, keys: Keys, entry: Any, todo: str
) -> str:
    """Return the new text if the entry alone has changed. Raises Malformed."""
    with suppress(Malformed):
        documents = [read(text, ()) or {} for text in (old, new)]
        if _at(documents[1], keys) == entry:
            for document in documents:
                if _at(document, keys) is not None:
                    del _at(document, keys[:-1])[keys[-1]]
            if _without_empty(documents[0]) == _without_empty(documents[1]):
                return new
    name = ".".join(map(str, keys))
    raise Malformed(f"1:1: `{name}` cannot be edited as it is written here: {todo}")


def _without_empty(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    smaller = {key: _without_empty(each) for key, each in value.items()}
    return {key: each for key, each in smaller.items() if each not in ({}, [])}


# ------------------------------------------------- Markdown: a block between two comments

BEGIN, END = "<!-- thumbindex: begin -->", "<!-- thumbindex: end -->"

_BLOCK = re.compile(
    rf"{re.escape(BEGIN)}\r?\n(?P<lines>(?:(?!<!-- thumbindex).)*){re.escape(END)}(?:\r?\n|\Z)",
    re.S,
)


def read_block(text: str, _: Keys = ()) -> str | None:
    """Return the lines of the block, or None if there is none."""
    found = _BLOCK.search(text)
    return found["lines"].replace("\r\n", "\n").rstrip("\n") if found else None


def put_block(text: str, _: Keys, lines: str) -> str:
    """Return the text with the block in its place, or at the end."""
    if read_block(text) == lines:
        return text
    newline, found = _newline(text), _BLOCK.search(text)
    block = newline.join([BEGIN, *lines.split("\n"), END, ""])
    if found:
        return text[: found.start()] + block + text[found.end() :]
    return _with_empty_line(text) + block


def take_block(text: str, _: Keys = ()) -> str:
    """Return the text without the block and the empty line before it."""
    found = _BLOCK.search(text)
    if not found:
        return text
    return _without_empty_line(text[: found.start()]) + text[found.end() :]


BLOCK = Editor(read_block, put_block, take_block)

# ------------------------------------------------- JSON with comments and trailing commas

_STRING = r'"(?:[^"\\]++|\\.)*+"?'
_COMMENT = re.compile(rf"({_STRING})|//[^\r\n]*+|/\*.*?\*/", re.S)
_COMMENTS_OF_LINE = re.compile(r"[ \t]*(?:/\*(?:(?!\*/)[^\n])*\*/[ \t]*)*(?://[^\r\n]*)?(?=\r?\n)")
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*+[}}\]])", re.S)


def read_object(text: str, keys: Keys) -> Any:
    """Return the value at a path of keys, or None if there is none. Raises Malformed."""
    plain = _plain(text)
    try:
        return _at(json.loads(plain), keys) if plain.strip() else None
    except json.JSONDecodeError as error:
        what = error.msg[0].lower() + error.msg[1:]
        raise Malformed(f"{error.lineno}:{error.colno}: {what}") from error
    except (RecursionError, ValueError) as error:
        raise Malformed(f"1:1: it is no JSON that a client would write ({error})") from error


def put_object(text: str, keys: Keys, entry: Mapping[str, Any]) -> str:
    """Return the text with an entry at a path of keys; other keys of the entry stay.

    Raises Malformed.
    """
    now = read_object(text, keys)
    value = {**now, **entry} if isinstance(now, dict) else entry
    if value == now:
        return text
    plain, newline = _plain(text), _newline(text)
    indented = re.search(r"\n([ \t]+)[\"/]", text)
    unit = indented[1] if indented else "  "
    if not plain.strip():
        new = _with_line_end(text) + _written(_nested(keys, value), unit, newline) + newline
    elif now is None:
        new = _with_member(text, plain, keys, value, unit)
    else:
        at, end = _span(plain, keys)
        new = text[:at] + _written(value, unit, newline + _indent(text, at)) + text[end:]
    todo = f"write {json.dumps({keys[-1]: value}, ensure_ascii=False)} there by hand"
    return _checked(read_object, text, new, keys, value, todo)


def take_object(text: str, keys: Keys) -> str:
    """Return the text without the entry at a path of keys, and one comma. Raises Malformed."""
    if read_object(text, keys) is None:
        return text
    plain, bare = _plain(text), _COMMENT.sub(_as_blanks, text)
    start, _, end = _members(plain, _span(plain, keys[:-1])[0])[str(keys[-1])]
    before, after = len(bare[:start].rstrip()), bare[end:].lstrip()
    begin = len(text[:start].rstrip(" \t"))
    if re.match(r"[ \t]*+,?[ \t]*+\r?\n", text[end:]):  # nothing else is on these lines
        begin = len(text[:begin].removesuffix("\n").removesuffix("\r"))
    kept = text[:begin]
    if after.startswith(","):
        end = len(text) - len(after) + 1
    elif bare[before - 1] == ",":
        kept = text[: before - 1] + text[before:begin]
    return _checked(read_object, text, kept + text[end:], keys, None, "take it out by hand")


def _with_member(text: str, plain: str, keys: Keys, value: Any, unit: str) -> str:
    """Put a member first in the innermost object that is there, on a line of its own."""
    newline, document = _newline(text), read_object(text, ())
    depth = max(n for n in range(len(keys)) if _at(document, keys[:n]) is not None)
    at, _ = _span(plain, keys[:depth])
    if plain[at] != "{":
        name = ".".join(map(str, keys[:depth])) or "the document"
        place = json.JSONDecodeError("", text, at)
        raise Malformed(
            f"{place.lineno}:{place.colno}: `{name}` is expected to be an object in braces"
        )
    base, comma = newline + _indent(text, at), "," if _at(document, keys[:depth]) else ""
    member = _written(_nested(keys[depth:], value), unit, base)
    member = member.removeprefix("{").removesuffix(base + "}") + comma
    if rest_of_line := _COMMENTS_OF_LINE.match(text, at + 1):  # they stay where they are
        at = rest_of_line.end()
        return text[:at] + member + text[at:]
    return text[: at + 1] + member + base + (unit if comma else "") + text[at + 1 :].lstrip(" \t")


def _span(plain: str, keys: Keys) -> tuple[int, int]:
    """Return begin and end of the value at a path of keys."""
    at, end = len(plain) - len(plain.lstrip()), len(plain)
    for key in keys:
        _, at, end = _members(plain, at)[str(key)]
    return at, end


def _members(plain: str, at: int) -> dict[str, tuple[int, int, int]]:
    """Return for each key of an object its offset, and begin and end of its value.

    The last one counts of a key that is there twice, as for every reader.
    """
    members, decoder = dict[str, tuple[int, int, int]](), json.JSONDecoder()
    to_next = re.compile(r"[\s,:]*+")
    at = _after(to_next, plain, at + 1)
    while plain[at] != "}":
        key, end = decoder.raw_decode(plain, at)
        begin = _after(to_next, plain, end)
        _, end = decoder.raw_decode(plain, begin)
        members[key] = at, begin, end
        at = _after(to_next, plain, end)
    return members


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _plain(text: str) -> str:
    """Return JSON with a blank for each character of comments and trailing commas."""
    return _TRAILING_COMMA.sub(_as_blanks, _COMMENT.sub(_as_blanks, text))


def _as_blanks(found: re.Match[str]) -> str:
    return found[1] or re.sub(r"[^\r\n]", " ", found[0])


def _nested(keys: Keys, value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


def _written(value: Any, unit: str, newline: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline)


def _indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


JSON = Editor(read_object, put_object, take_object)

# ------------------------------------------------- TOML: a table is a header and its lines


def read_table(text: str, keys: Keys) -> Any:
    """Return the value at a path of keys, or None if there is none. Raises Malformed."""
    try:
        return _at(tomllib.loads(text), keys)
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).partition(" (at ")
        where = re.findall(r"\d+", place) or [str(text.count("\n") + 1), "1"]
        raise Malformed(f"{':'.join(where)}: {what[0].lower()}{what[1:]}") from error


def put_table(text: str, keys: Keys, entry: Mapping[str, Any]) -> str:
    """Return the text with an entry as a table; other keys of the table stay. Raises Malformed."""
    now, newline, new = read_table(text, keys), _newline(text), ""
    # TOML reads JSON's strings and lists, but for one control character
    lines = {
        key: f"{key} = {json.dumps(value, ensure_ascii=False)}{newline}".replace("\x7f", "\\u007f")
        for key, value in entry.items()
    }
    header = f"[{'.'.join(_quoted(key) for key in keys if isinstance(key, str))}]"
    if isinstance(keys[-1], int):
        header = f"[{header}]"
    if isinstance(now, dict):
        changed = {key: lines[key] for key in lines if now.get(key) != entry[key]}
        for table, section in _sections(text):
            new += _with_lines(section, changed) if table == keys else section
    else:
        new = f"{_with_empty_line(text)}{header}{newline}{''.join(lines.values())}"
        now = {}
    paste = "; ".join([header, *map(str.strip, lines.values())])
    todo = f"write it by hand as a table of its own, a line each: {paste}"
    return _checked(read_table, text, new, keys, {**now, **entry}, todo)


def take_table(text: str, keys: Keys) -> str:
    """Return the text without the table or line of a path of keys. Raises Malformed."""
    if read_table(text, keys) is None:
        return text
    new = ""
    for table, section in _sections(text):
        if table[: len(keys)] == keys:
            # comments at the end belong to the table that follows
            comments = re.search(r"(?:^[ \t]*(?:#.*)?(?:\n|\Z))*\Z", section, re.M)
            kept = comments[0] if comments and "#" in comments[0] else ""
            new = _without_empty_line(new) + kept
        elif table == keys[:-1]:
            new += re.sub(_line_of(keys[-1]), "", section, count=1)
        else:
            new += section
    return _checked(read_table, text, new, keys, None, "take it out by hand")


def _sections(text: str) -> list[tuple[Keys, str]]:
    """Cut a text before each header, with the path of the table that it opens."""
    sections, items = list[tuple[Keys, str]]([((), "")]), Counter[Keys]()
    for line in split_lines(text):
        table = _opened(line)
        if table and line.lstrip().startswith("[["):
            items[table] += 1
            table = (*table, items[table] - 1)
        if table:
            sections.append((table, line))
        else:
            sections[-1] = sections[-1][0], sections[-1][1] + line
    return sections


def _opened(line: str) -> Keys:
    """Return the path of the table that a line opens; it is empty if the line is no header."""
    table, value = Keys(), None
    if line.lstrip().startswith("["):
        with suppress(tomllib.TOMLDecodeError):
            value = tomllib.loads(line)
    while isinstance(value, dict) and value:
        key, value = next(iter(value.items()))
        table = (*table, key)
    return table


def _with_lines(section: str, lines: Mapping[str, str]) -> str:
    """Put lines below the header of a table, in the place of those with the same keys."""
    for key in lines:
        section = re.sub(_line_of(key), "", section, count=1)
    header, *rest = split_lines(section)
    return _with_line_end(header) + "".join([*lines.values(), *rest])


def _line_of(key: object) -> str:
    return rf"""(?m)^[ \t]*["']?{re.escape(str(key))}["']?[ \t]*=.*(?:\n|\Z)"""


def _quoted(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


TOML = Editor(read_table, put_table, take_table)
