"""Edit one entry of another program's file (JSON, TOML, Markdown) as text.

Everything else stays. Each result is parsed again, and an edit that changed anything else is
refused.
"""

from __future__ import annotations

import codecs
import io
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
from thumbindex.owner_file import write_owner_file

BACKUP = ".thumbindex-backup"
"""Suffix of a backup's name."""

Keys = tuple[str | int, ...]
"""A path to a value: names of keys, and positions in arrays."""


class MalformedError(Exception):
    """A text that cannot be parsed or edited. The message is `line:column: reason`."""


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Turn MalformedError into a UsageError that names the file."""
    try:
        yield
    except MalformedError as error:
        raise UsageError(
            f"{path}:{error}. Nothing was changed: correct the file and run this again."
        ) from error


@dataclass(frozen=True, slots=True)
class Editor:
    """Functions that read, add and remove an entry in a file format; all raise MalformedError."""

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
            f"{path} is not UTF-8 (byte {error.start}), so nothing was changed. Save it as UTF-8 "
            "and run this again."
        ) from error
    except OSError as error:
        raise UsageError(f"Cannot read {path} ({error.strerror}): nothing was changed.") from error


def write_text(path: Path, text: str | None, before: str | None, *, keep: bool = False) -> None:
    """Replace a file's text, or delete the file if `text` is None.

    Symlinks, permissions and a byte order mark stay. With `keep`, backs up the old file first.
    Raises UsageError if the old text is not `before`, or if writing fails.
    """
    if read_text(path) != before:
        raise UsageError(
            f"Another program has just changed {path}: nothing was written. Run this again."
        )
    try:
        target = path.resolve()
        mode = None if before is None else stat.S_IMODE(target.stat().st_mode)
        # a rename would replace a read-only file, too
        if mode is not None and not mode & 0o222:
            raise UsageError(
                f"{path} is read-only and was not changed: make it writable (chmod u+w) and run "
                "this again."
            )
        if keep:
            shutil.copy2(path, backup_path(path))
        if text is None:
            target.unlink()
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        has_mark = mode is not None and target.read_bytes().startswith(codecs.BOM_UTF8)
        write_owner_file(target, text.encode("utf-8-sig" if has_mark else "utf-8"), durable=True)
        if mode is not None:
            target.chmod(mode)
    except (OSError, RuntimeError) as error:  # a circle of symlinks is a RuntimeError
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"Cannot write {path} ({reason}): check its permissions. On Windows, quit the client "
            "first."
        ) from error


def backup_path(path: Path) -> Path:
    """Return the path of a file's backup, which has the text from before our entry was added."""
    return path.with_name(f"{path.name}{BACKUP}")


# ------------------------------------------------------------------ all formats


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _with_line_end(text: str) -> str:
    return text if not text or text.endswith("\n") else text + _newline(text)


def _with_empty_line(text: str) -> str:
    return _with_line_end(text) + (_newline(text) if text else "")


def _without_empty_line(text: str) -> str:
    newline = _newline(text)
    return text.removesuffix(newline) if text.endswith(newline * 2) else text


def _value_at(value: Any, keys: Keys) -> Any:
    for key in keys:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _checked(
    read_entry: Callable[[str, Keys], Any], old: str, new: str, keys: Keys, entry: Any, todo: str
) -> str:
    """Return `new` if it differs from `old` only in the entry at `keys`, which must equal `entry`.

    Otherwise, raises MalformedError with the advice `todo`.
    """
    with suppress(MalformedError):
        documents = [read_entry(text, ()) or {} for text in (old, new)]
        if _value_at(documents[1], keys) == entry:
            for document in documents:
                _remove(document, keys)
            if repr(documents[0]) == repr(documents[1]):  # nan is not equal to itself
                return new
    name = ".".join(map(str, keys))
    raise MalformedError(f"1:1: cannot edit `{name}` in this form: {todo}")


def _remove(document: Any, keys: Keys) -> None:
    """Remove an entry from a parsed document, and then each empty parent."""
    for depth in range(len(keys), 0, -1):
        value = _value_at(document, keys[:depth])
        if value in ({}, []) or (depth == len(keys) and value is not None):
            del _value_at(document, keys[: depth - 1])[keys[depth - 1]]


# ------------------------------------------------- Markdown: a block between two comments

BEGIN, END = "<!-- thumbindex: begin -->", "<!-- thumbindex: end -->"

_BLOCK = re.compile(
    rf"{re.escape(BEGIN)}\r?\n(?P<lines>(?:(?!<!-- thumbindex).)*){re.escape(END)}(?:\r?\n|\Z)",
    re.S,
)


def read_block(text: str, _: Keys = ()) -> str | None:
    """Return the lines of our block, or None if there is no block."""
    block = _BLOCK.search(text)
    return block["lines"].replace("\r\n", "\n").rstrip("\n") if block else None


def put_block(text: str, _: Keys, lines: str) -> str:
    """Return the text with `lines` in our block. If there is no block, one is added at the end."""
    if read_block(text) == lines:
        return text
    newline, old = _newline(text), _BLOCK.search(text)
    block = newline.join([BEGIN, *lines.split("\n"), END, ""])
    if old:
        return text[: old.start()] + block + text[old.end() :]
    return _with_empty_line(text) + block


def take_block(text: str, _: Keys = ()) -> str:
    """Return the text without our block and the empty line before it."""
    block = _BLOCK.search(text)
    if not block:
        return text
    return _without_empty_line(text[: block.start()]) + text[block.end() :]


BLOCK = Editor(read_block, put_block, take_block)

_RULE_HEAD = "---\nalwaysApply: true\n---\n"


def read_rule(text: str, _: Keys = ()) -> str | None:
    """Return the lines of a Cursor rule, or None if the file is empty."""
    return text.removeprefix(_RULE_HEAD).rstrip("\n") or None


def put_rule(_text: str, _: Keys, lines: str) -> str:
    """Return a Cursor rule that always applies."""
    return f"{_RULE_HEAD}{lines}\n"


RULE = Editor(read_rule, put_rule, lambda text, keys: "")

# ------------------------------------------------- JSON with comments and trailing commas

_STRING = r'"(?:[^"\\]++|\\.)*+"?'
_COMMENT = re.compile(rf"({_STRING})|//[^\r\n]*+|/\*.*?\*/", re.S)
_COMMENTS_OF_LINE = re.compile(r"[ \t]*(?:/\*(?:(?!\*/)[^\n])*\*/[ \t]*)*(?://[^\r\n]*)?(?=\r?\n)")
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*+[}}\]])", re.S)


def read_object(text: str, keys: Keys) -> Any:
    """Return the value at a path of keys, or None if there is none. Raises MalformedError."""
    plain = _without_comments(text)
    try:
        return _value_at(json.loads(plain), keys) if plain.strip() else None
    except json.JSONDecodeError as error:
        reason = error.msg[0].lower() + error.msg[1:]
        raise MalformedError(f"{error.lineno}:{error.colno}: {reason}") from error
    except (RecursionError, ValueError) as error:
        raise MalformedError(f"1:1: not valid JSON ({error})") from error


def put_object(text: str, keys: Keys, value: Any) -> str:
    """Return the text with a value at a path of keys. An object is merged into an existing object.

    Raises MalformedError.
    """
    current = read_object(text, keys)
    if isinstance(current, dict) and isinstance(value, dict):
        for name, member in value.items():
            text = put_object(text, (*keys, name), member)
        return text
    if value == current:
        return text
    if not _without_comments(text).strip():
        text = f"{_with_line_end(text)}{{}}{_newline(text)}"
    indented = re.search(r"\n([ \t]+)[\"/]", text)
    unit = indented[1] if indented else "  "
    if current is None:
        new = _with_member(text, keys, value, unit)
    else:
        _, at, end = _span(_without_comments(text), keys)
        new = text[:at] + _dump(value, unit, _newline_at(text, at)) + text[end:]
    todo = f"add {json.dumps({keys[-1]: value}, ensure_ascii=False)} by hand"
    return _checked(read_object, text, new, keys, value, todo)


def take_object(text: str, keys: Keys) -> str:
    """Return the text without the entry at a path of keys and its comma. Raises MalformedError."""
    if read_object(text, keys) is None:
        return text
    start, _, end = _span(_without_comments(text), keys)
    bare = _COMMENT.sub(_as_blanks, text)
    before, after = len(bare[:start].rstrip()), bare[end:].lstrip()
    begin = len(text[:start].rstrip(" \t"))
    if re.match(r"[ \t]*+,?[ \t]*+\r?\n", text[end:]):  # nothing else is on these lines
        begin = len(text[:begin].removesuffix("\n").removesuffix("\r"))
    head = text[:begin]
    if after.startswith(","):
        end = len(text) - len(after) + 1
    elif bare[before - 1] == ",":
        head = text[: before - 1] + text[before:begin]
    return _checked(read_object, text, head + text[end:], keys, None, "remove it by hand")


def _with_member(text: str, keys: Keys, value: Any, unit: str) -> str:
    """Add a member at the start of the innermost existing object, on a new line."""
    document = read_object(text, ())
    if document is None:
        raise MalformedError("1:1: not a JSON object")
    depth = max(n for n in range(len(keys)) if _value_at(document, keys[:n]) is not None)
    _, at, _ = _span(_without_comments(text), keys[:depth])
    base, comma = _newline_at(text, at), "," if _value_at(document, keys[:depth]) else ""
    for key in reversed(keys[depth:]):
        value = {key: value}
    member = _dump(value, unit, base).removeprefix("{").removesuffix(base + "}") + comma
    at += 1
    if rest_of_line := _COMMENTS_OF_LINE.match(text, at):  # comments stay on the line of the brace
        at = rest_of_line.end()
        return text[:at] + member + text[at:]
    return text[:at] + member + base + (unit if comma else "") + text[at:].lstrip(" \t")


def _span(plain: str, keys: Keys) -> tuple[int, int, int]:
    """Return three offsets: where a member starts, where its value starts, and where both end."""
    start = begin = _skip(plain, 0)
    end, decoder = len(plain), json.JSONDecoder()
    for key in keys:
        members = dict[str | int, tuple[int, int, int]]()
        at = _skip(plain, begin + 1)
        while plain[at] != "}":
            name, end = decoder.raw_decode(plain, at)
            begin = _skip(plain, end)
            _, end = decoder.raw_decode(plain, begin)
            members[name] = at, begin, end  # the last of repeated keys counts
            at = _skip(plain, end)
        start, begin, end = members[key]
    return start, begin, end


def _skip(plain: str, at: int) -> int:
    """Return the offset of the next key, value or brace."""
    while plain[at] in " \t\r\n,:":
        at += 1
    return at


def _without_comments(text: str) -> str:
    """Return JSON in which each character of comments and trailing commas is a blank."""
    return _TRAILING_COMMA.sub(_as_blanks, _COMMENT.sub(_as_blanks, text))


def _as_blanks(match: re.Match[str]) -> str:
    return match[1] or re.sub(r"[^\r\n]", " ", match[0])


def _dump(value: Any, unit: str, newline: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline)


def _newline_at(text: str, at: int) -> str:
    """Return a line break with the indentation of the line at an offset."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return _newline(text) + line[: len(line) - len(line.lstrip(" \t"))]


JSON = Editor(read_object, put_object, take_object)

# ------------------------------------------------- TOML: a table is a header and its lines


def read_table(text: str, keys: Keys) -> Any:
    """Return the value at a path of keys, or None if there is none. Raises MalformedError."""
    try:
        return _value_at(tomllib.loads(text), keys)
    except tomllib.TOMLDecodeError as error:
        reason, _, place = str(error).partition(" (at ")
        position = re.findall(r"\d+", place) or [str(text.count("\n") + 1), "1"]
        raise MalformedError(f"{':'.join(position)}: {reason[0].lower()}{reason[1:]}") from error


def put_table(text: str, keys: Keys, entry: Mapping[str, Any]) -> str:
    """Return the text with an entry as a table; other keys of the table stay.

    Raises MalformedError.
    """
    current, newline, new = read_table(text, keys), _newline(text), ""
    # TOML reads JSON's strings and lists, but for one control character
    lines = {
        key: f"{key} = {json.dumps(value, ensure_ascii=False)}{newline}".replace("\x7f", "\\u007f")
        for key, value in entry.items()
    }
    header = f"[{'.'.join(_quoted(key) for key in keys if isinstance(key, str))}]"
    if isinstance(keys[-1], int):
        header = f"[{header}]"
    if isinstance(current, dict):
        changed = {key: lines[key] for key in lines if current.get(key) != entry[key]}
        for table, section in _sections(text):
            new += _with_lines(section, changed) if table == keys else section
    else:
        new = f"{_with_empty_line(text)}{header}{newline}{''.join(lines.values())}"
        current = {}
    paste = "; ".join([header, *map(str.strip, lines.values())])
    todo = f"add it by hand as its own table, one key per line: {paste}"
    return _checked(read_table, text, new, keys, {**current, **entry}, todo)


def take_table(text: str, keys: Keys) -> str:
    """Return the text without the table or line at a path of keys. Raises MalformedError."""
    if read_table(text, keys) is None:
        return text
    new = ""
    for table, section in _sections(text):
        if table[: len(keys)] == keys:
            # comments at the end belong to the table that follows
            comments = re.search(r"(?:^[ \t]*(?:#.*)?(?:\n|\Z))*\Z", section, re.M)
            trailing = comments[0] if comments and "#" in comments[0] else ""
            new = _without_empty_line(new) + trailing
        elif table == keys[:-1]:
            new += re.sub(_line_of(keys[-1]), "", section, count=1)
        else:
            new += section
    return _checked(read_table, text, new, keys, None, "remove it by hand")


def _sections(text: str) -> list[tuple[Keys, str]]:
    """Split a text before each table header. Return the path and text of each table."""
    sections, items = list[tuple[Keys, str]]([((), "")]), Counter[Keys]()
    for line in io.StringIO(text, newline="\n"):
        table = _header_keys(line)
        if table and line.lstrip().startswith("[["):
            items[table] += 1
            table = (*table, items[table] - 1)
        if table:
            sections.append((table, line))
        else:
            sections[-1] = sections[-1][0], sections[-1][1] + line
    return sections


def _header_keys(line: str) -> Keys:
    """Return the path of the table that a line opens; empty if the line is not a header."""
    table, value = Keys(), None
    if line.lstrip().startswith("["):
        with suppress(tomllib.TOMLDecodeError):
            value = tomllib.loads(line)
    while isinstance(value, dict) and value:
        key, value = next(iter(value.items()))
        table = (*table, key)
    return table


def _with_lines(section: str, lines: Mapping[str, str]) -> str:
    """Put lines below the header of a table, replacing lines with the same keys."""
    for key in lines:
        section = re.sub(_line_of(key), "", section, count=1)
    header, _, body = _with_line_end(section).partition("\n")
    return f"{header}\n{''.join(lines.values())}{body}"


def _line_of(key: object) -> str:
    return rf"""(?m)^[ \t]*["']?{re.escape(str(key))}["']?[ \t]*=.*(?:\n|\Z)"""


def _quoted(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


TOML = Editor(read_table, put_table, take_table)
