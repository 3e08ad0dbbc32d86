"""Read YAML (`---`) or TOML (`+++`) front matter as JSON-safe values; adapter for PyYAML."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from itertools import islice
from math import inf, isinf
from typing import Any, NamedTuple

from thumbindex.model import Problem

_MAX_CHARACTERS = 200_000
_MAX_VALUES = 20_000  # an aliased value counts at each use, and so do its characters
MAX_DEPTH = 20
_DEPTH_CHANGE = {
    "SequenceStartEvent": 1,
    "MappingStartEvent": 1,
    "SequenceEndEvent": -1,
    "MappingEndEvent": -1,
}
_TOO_DEEP = f"more than {MAX_DEPTH} levels"
_TOO_MUCH = f"more than {_MAX_VALUES:,} values or {MAX_DEPTH} levels"
_KEY = re.compile(r"(?:[ \t]*(?:#.*)?\n)*[\"']?[\w][^\n:]{0,80}:(?:\s|$)")
_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?\d{1,18}")
_FLOAT = re.compile(r"[-+]?(?:\.\d+|\d+\.\d*|\d+(?:\.\d*)?[eE][-+]?\d{1,3})")
# YAML parses `[[Note]]` as a list in a list, but the author meant a wikilink
_UNQUOTED_LINK = re.compile(r"\[\[[^\[\]\n]+\]\]")


class _FrontMatterError(ValueError):
    """A block that cannot be parsed.

    `prose` is True if the block is ordinary text between two rules, not front matter.
    """

    def __init__(self, reason: str, line: int, prose: bool = False) -> None:
        super().__init__(reason)
        self.line = line
        self.prose = prose


class Property(NamedTuple):
    """A text in the front matter: a value, an item of a list, or a value of a nested map."""

    key: str  # in lower case; nested keys are joined by dots
    text: str  # as written, without quotes
    line: int  # of the file, from 1


def _read_yaml(
    block: str,
) -> tuple[Mapping[str, Any], Sequence[Property], tuple[tuple[str, int], ...]]:
    """Parse a YAML block into a mapping, Properties and duplicate keys (key, line in the file).

    Scalars follow YAML 1.2's core schema, so `no` and `2024-01-05` stay text.
    """
    # Imported here, because queries and index runs without changes need no YAML parser.
    import yaml

    if len(block) > _MAX_CHARACTERS:
        raise _FrontMatterError(f"more than {_MAX_CHARACTERS:,} characters", 1)
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _limit_depth(yaml.parse(block, Loader=loader))
        root: Any = yaml.compose(block, Loader=loader)
    except _FrontMatterError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        reason = f"not YAML: {getattr(error, 'problem', None) or error}"
        raise _FrontMatterError(
            reason, mark.line + 2 if mark else 1, prose=not _KEY.match(block)
        ) from error
    if root is None or root.value == "":
        return {}, (), ()
    if root.id != "mapping":
        raise _FrontMatterError(
            "the first block between `---` lines has no `key: value` pairs: treated as text",
            1,
            prose=True,
        )
    reader = _YamlReader(block)
    fields = reader.value(root, "", 0)
    lines = dict(reader.keys)
    counts = Counter(key for key, _ in reader.keys)
    return fields, reader.properties, tuple((key, lines[key]) for key in counts if counts[key] > 1)


def _limit_depth(events: Iterable[Any]) -> None:
    """Raise _FrontMatterError if a block is nested too deeply.

    PyYAML composes nodes recursively in C, so deep nesting could crash the process.
    """
    depth = 0
    for event in events:
        depth += _DEPTH_CHANGE.get(type(event).__name__, 0)
        if depth > MAX_DEPTH:
            raise _FrontMatterError(_TOO_MUCH, _line(event))


class _YamlReader:
    """Converts YAML nodes to values, and limits the number and depth of the values.

    Every use of an alias counts its values again, which stops a "billion laughs" attack.
    """

    def __init__(self, block: str) -> None:
        self.keys: list[tuple[str, int]] = []  # keys of the outermost mapping, with lines
        self.properties: list[Property] = []
        self._block = block
        self._values = self._characters = 0

    def value(self, node: Any, key: str | None, depth: int) -> Any:
        """Return a node's value. If `key` is given, record each text of the node as a Property."""
        is_scalar = node.id == "scalar"
        self._values += 1
        self._characters += len(node.value) if is_scalar else 0
        is_too_much = self._values > _MAX_VALUES or self._characters > _MAX_CHARACTERS
        if is_too_much or (depth == MAX_DEPTH and not is_scalar):
            raise _FrontMatterError(_TOO_MUCH, self.keys[-1][1] if self.keys else 1)
        if not is_scalar:
            read_children = self._mapping if node.id == "mapping" else self._sequence
            return read_children(node, key, depth)
        value = node.value if node.style else _scalar(node.value)
        if key is not None and node.value and value is not None:
            self.properties.append(Property(key, node.value, _line(node)))
        return value

    def _mapping(self, node: Any, key: str | None, depth: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for name_node, value_node in node.value:
            value = self.value(name_node, None, depth + 1)  # texts of a key are not recorded
            name = name_node.value if name_node.id == "scalar" else str(value)
            inner = name.lower()
            if depth == 0:
                self.keys.append((name, _line(name_node)))
            else:
                inner = None if key is None else f"{key}.{inner}"
            fields[name] = self.value(value_node, inner, depth + 1)
        return fields

    def _sequence(self, node: Any, key: str | None, depth: int) -> list[Any]:
        count_before = len(self.properties)
        items = [self.value(item, key, depth + 1) for item in node.value]
        if key is not None and node.flow_style:
            source = self._block[node.start_mark.index : node.end_mark.index]
            if _UNQUOTED_LINK.fullmatch(source):
                self.properties[count_before:] = [Property(key, source, _line(node))]
        return items


def _line(part: Any) -> int:
    return int(part.start_mark.line) + 2  # the block begins at the file's second line


def _scalar(text: str) -> Any:
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text.lower() == "true"
    if _INT.fullmatch(text):
        return int(text)
    number = float(text) if _FLOAT.fullmatch(text) else inf
    return text if isinf(number) else number  # JSON has no infinity (`1e999`)


_OPEN = re.compile(r"(---|\+\+\+)[ \t]*\n")
_CLOSE = {
    "---": re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.M),
    "+++": re.compile(r"^\+\+\+[ \t]*$", re.M),
}
_PLAIN = re.compile(r"([A-Za-z_][\w -]*):[ \t]+(\S.*?)[ \t]*")
_MAX_TOML_STEPS = 2_000
"""Maximum dots and brackets in one line of TOML. If a line has more, the block is not parsed.

Parsing deep nesting takes quadratic time.
"""

_TOML_KEY = re.compile(r"[ \t]*\[?\[?[\"']?([\w-]+)[\"']?[ \t]*[\].=]")
_TOML_LINE = re.compile(r"at line (\d+)")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The front matter of a file. If the file has none, all fields are empty."""

    fields: Mapping[str, Any] = field(default_factory=dict)  # JSON-safe
    size: int = 0  # characters of the block, from the start of the file
    lines: int = 0  # lines of the block
    texts: Sequence[Property] = ()  # in order
    problems: tuple[Problem, ...] = ()

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags without `#`. A string is split at commas and spaces."""
        values = self.values("tags", "tag", split=r"[,\s]+")
        return tuple(
            dict.fromkeys(tag for value in values if (tag := value.lstrip("#").strip("/ ")))
        )

    def text(self, *keys: str) -> str:
        """Return the text of the first of `keys` that has one, on one line; empty if none has."""
        for key in keys:
            value = self._value(key)
            if isinstance(value, (str, int, float)) and (text := " ".join(str(value).split())):
                return text
        return ""

    def values(self, *keys: str, split: str = r"\s*,\s*") -> tuple[str, ...]:
        """Return the distinct values of all `keys`.

        A string is split at the pattern `split`. If `split` is empty, the string is one value.
        """
        texts: list[str] = []
        for key in keys:
            value = self._value(key)
            if isinstance(value, str) and split:
                texts += re.split(split, value.strip("[] "))
            elif isinstance(value, list):
                texts += [_name(entry) for entry in _flat(value)]
            elif value is not None:
                texts.append(_name(value))
        return tuple(
            dict.fromkeys(text for text in (" ".join(entry.split()) for entry in texts) if text)
        )

    def _value(self, key: str) -> Any:
        return next((value for name, value in self.fields.items() if name.lower() == key), None)


def read_front_matter(path: str, text: str) -> FrontMatter:
    """Parse the front matter at the start of a file's text.

    If the block is invalid, report a problem and use only its plain `key: value` lines.
    """
    opening = _OPEN.match(text)
    closing = _CLOSE[opening[1]].search(text, opening.end()) if opening else None
    if opening is None:
        return FrontMatter()
    if closing is None:  # a horizontal rule, or unclosed front matter
        start = opening.end()
        has_key = _KEY.match(text, start) if opening[1] == "---" else _TOML_KEY.match(text, start)
        reason = (
            f"front matter without a closing `{opening[1]}` line is treated as text: add the line "
            "after the last key"
        )
        return FrontMatter(problems=(Problem(path, 1, reason),) if has_key else ())
    block, size = text[opening.end() : closing.start()], min(closing.end() + 1, len(text))
    lines = text.count("\n", 0, size)
    problems: tuple[Problem, ...] = ()
    texts: Sequence[Property] = ()
    try:
        fields, texts, duplicates = (
            _read_yaml(block) if opening[1] == "---" else (*_read_toml(block), ())
        )
        problems = tuple(
            Problem(path, line, f"front matter: duplicate key `{key}`: the last value is used")
            for key, line in duplicates
        )
    except _FrontMatterError as error:
        if error.prose:  # text between two rules, not front matter
            return FrontMatter(problems=(Problem(path, error.line, str(error)),))
        plain = [
            (match, line)
            for line, text_line in enumerate(block.split("\n"), 2)
            if (match := _PLAIN.fullmatch(text_line))
        ]
        fields = {match[1]: match[2].strip("'\"") for match, _ in plain}
        texts = [
            Property(match[1].lower(), match[2].strip("'\""), line)
            for match, line in plain[:_MAX_VALUES]
        ]
        problems = (
            Problem(
                path,
                error.line,
                f"front matter: {error}; only its plain `key: value` lines are used",
            ),
        )
    return FrontMatter(fields, size, lines, texts, problems)


def _read_toml(block: str) -> tuple[Mapping[str, Any], Sequence[Property]]:
    if len(block) > _MAX_CHARACTERS:
        raise _FrontMatterError(f"more than {_MAX_CHARACTERS:,} characters", 1)
    if any(line.count(".") + line.count("[") > _MAX_TOML_STEPS for line in block.split("\n")):
        raise _FrontMatterError(_TOO_DEEP, 1)
    try:
        fields = tomllib.loads(block)
    except (ValueError, RecursionError) as error:
        line = _TOML_LINE.search(str(error))
        raise _FrontMatterError(f"not TOML: {error}", int(line[1]) + 1 if line else 1) from error
    safe = _json_safe(fields, 0)
    lines: dict[str, int] = {}
    for number, text_line in enumerate(block.split("\n"), 2):
        if match := _TOML_KEY.match(text_line):
            lines.setdefault(match[1].lower(), number)
    texts = (
        Property(key, text, lines.get(key.partition(".")[0], 1))
        for key, text in _texts_in("", safe)
    )
    return safe, tuple(islice(texts, _MAX_VALUES))


def _texts_in(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts_in(f"{key}.{name}".lower().lstrip("."), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_in(key, inner)
    elif isinstance(value, str):
        yield key, value


def _json_safe(value: Any, depth: int) -> Any:
    if isinstance(value, (dict, list)) and depth == MAX_DEPTH:
        raise _FrontMatterError(_TOO_DEEP, 1)
    if isinstance(value, dict):
        return {str(key): _json_safe(entry, depth + 1) for key, entry in value.items()}
    if isinstance(value, list):
        return [_json_safe(entry, depth + 1) for entry in value]
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    # JSON has no inf and nan
    return str(value) if isinstance(value, float) and value - value != 0 else value


def _flat(values: list[Any]) -> list[Any]:
    """Flatten nested lists, because YAML parses an unquoted `[[Note]]` as a nested list."""
    items: list[Any] = []
    for value in values:
        items += _flat(value) if isinstance(value, list) else [value]
    return items


def _name(value: Any) -> str:
    if isinstance(value, dict):  # an author may be a map with a `name`
        return str(value.get("name", ""))
    return "" if value is None else str(value)
