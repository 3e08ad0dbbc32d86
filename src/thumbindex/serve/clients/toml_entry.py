"""One table of a TOML file: put in at the end, changed or taken out, with every other line where it was."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thumbindex.serve.clients.file import lines_of
from thumbindex.serve.clients.scan import Malformed

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
