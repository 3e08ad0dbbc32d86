"""Read front matter in YAML, TOML or JSON, and Logseq's properties; adapter for PyYAML."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time
from itertools import chain, islice, pairwise
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
_KEY = re.compile(
    r"(?:[ \t]*+(?:#.*|(?:<%|\{[{%]).*)?\n)*+"  # comments and template tags
    r"(?:[\"']?\w[^\n:]{0,80}:(?:\s|$)|[\w-]{1,80}:(?![\s:/]))"
)
_NULL = re.compile(r"~|null|Null|NULL|")
_NUMBER = re.compile(r"-?\d{1,18}(?:\.\d{1,18})?")
# YAML reads these as comments, but the author meant tags
_UNQUOTED_TAGS = re.compile(
    r"^([ \t]*+(?:tags?:|-)[ \t]++)(#[^\s,#]++(?:[ \t,]++#[^\s,#]++)*+)[ \t]*+$", re.M | re.I
)
# YAML parses `[[Note]]` as a list in a list, but the author meant a wikilink
_UNQUOTED_LINK = re.compile(r"\[\[[^\[\]\n]+\]\]")


class _FrontMatterError(ValueError):
    """A block that cannot be parsed.

    `prose` is True if the block is ordinary text between two rules, not front matter.
    `syntax` is True if some entries of the block may be valid.
    """

    def __init__(
        self, reason: str, line: int, *, prose: bool = False, syntax: bool = False
    ) -> None:
        super().__init__(reason)
        self.line = line
        self.prose = prose
        self.syntax = syntax


class Property(NamedTuple):
    """A text in the front matter: a value, an item of a list, or a value of a nested map."""

    key: str  # in lower case; nested keys are joined by dots
    text: str  # as written, without quotes
    line: int  # of the file, from 1


def _read_yaml(block: str) -> tuple[Mapping[str, Any], _YamlReader]:
    """Parse a YAML block. The reader has its texts and the lines of its keys.

    Scalars follow YAML 1.2's core schema, so `no` and `2024-01-05` stay text.
    """
    if len(block) > _MAX_CHARACTERS:
        raise _FrontMatterError(f"more than {_MAX_CHARACTERS:,} characters", 1)
    reader = _YamlReader()
    return reader.read(block, 2), reader


def _limit_depth(events: Iterable[Any]) -> None:
    """Raise _FrontMatterError if a block is nested too deeply.

    PyYAML composes nodes recursively in C, so deep nesting could crash the process.
    """
    depth = 0
    for event in events:
        depth += _DEPTH_CHANGE.get(type(event).__name__, 0)
        if depth > MAX_DEPTH:
            raise _FrontMatterError(_TOO_MUCH, int(event.start_mark.line) + 2)


class _YamlReader:
    """Converts YAML nodes to values, and limits the number and depth of the values.

    Every use of an alias counts its values again, which stops a "billion laughs" attack.
    """

    def __init__(self) -> None:
        self.keys: list[tuple[str, int]] = []  # keys of the outermost mapping, with lines
        self.properties: list[Property] = []
        self._block = ""
        self._first_line = 2
        self._values = self._characters = 0

    def read(self, block: str, first_line: int) -> Mapping[str, Any]:
        """Parse a block that begins at a line of the file."""
        # Imported here, because queries and index runs without changes need no YAML parser.
        import yaml

        if "#" in block:
            block = _UNQUOTED_TAGS.sub(r'\1"\2"', block)
        self._block, self._first_line = block, first_line
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            _limit_depth(yaml.parse(block, Loader=loader))
            root: Any = yaml.compose(block, Loader=loader)
        except _FrontMatterError:
            raise
        except (yaml.YAMLError, ValueError) as error:
            mark = getattr(error, "problem_mark", None)
            raise _FrontMatterError(
                f"not YAML: {getattr(error, 'problem', None) or error}",
                mark.line + first_line if mark else 1,
                prose=not _KEY.match(block),
                syntax=True,
            ) from error
        if root is None or root.value == "":
            return {}
        if root.id != "mapping":
            is_prose = not _KEY.match(block)
            raise _FrontMatterError(
                "the first block between `---` lines has no `key: value` pairs: treated as text"
                if is_prose
                else "not YAML: a space is missing after `key:`",
                1 if is_prose else first_line,
                prose=is_prose,
                syntax=True,
            )
        fields: Mapping[str, Any] = self.value(root, "", 0)
        return fields

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
            self.properties.append(Property(key, node.value, self._line(node)))
        return value

    def _mapping(self, node: Any, key: str | None, depth: int) -> dict[str, Any] | str:
        if node.flow_style and self._block.startswith("{{", node.start_mark.index):
            return self._source(node)  # a template's variable
        fields: dict[str, Any] = {}
        for name_node, value_node in node.value:
            value = self.value(name_node, None, depth + 1)  # texts of a key are not recorded
            name = name_node.value if name_node.id == "scalar" else str(value)
            inner = name.lower()
            if depth == 0:
                self.keys.append((name, self._line(name_node)))
            else:
                inner = None if key is None else f"{key}.{inner}"
            fields[name] = self.value(value_node, inner, depth + 1)
        return fields

    def _sequence(self, node: Any, key: str | None, depth: int) -> list[Any]:
        count_before = len(self.properties)
        items = [self.value(item, key, depth + 1) for item in node.value]
        if key is not None and node.flow_style and _UNQUOTED_LINK.fullmatch(self._source(node)):
            self.properties[count_before:] = [Property(key, self._source(node), self._line(node))]
        return items

    def _source(self, node: Any) -> str:
        return self._block[node.start_mark.index : node.end_mark.index]

    def _line(self, node: Any) -> int:
        return int(node.start_mark.line) + self._first_line


def _scalar(text: str) -> Any:
    """Return the value of an unquoted scalar.

    A number that JSON writes differently, such as 1.10, 007 or 1e3, stays text.
    """
    if _NULL.fullmatch(text):
        return None
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text):
        number = float(text) if "." in text else int(text)
        return number if str(number) == text else text
    return text


_OPEN = re.compile(r"(---|\+\+\+)[ \t]*\n")
_CLOSE = {
    "---": re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.M),
    "+++": re.compile(r"^\+\+\+[ \t]*$", re.M),
}
_YAML_ENTRY = re.compile(r"^(?=[^\s#\-\]}])", re.M)
_TOML_ENTRY = re.compile(r"^(?=\[|[\w\"'][^\n=]{0,80}=)", re.M)
_PLAIN = re.compile(r"[\"']?(\w[^\n:=\"']{0,80}?)[\"']?[ \t]*+[:=](?!:)[ \t]*+(.*)")
_ITEM = re.compile(r"^[ \t]*+-[ \t]*+(\S.*)", re.M)
_INDENT = re.compile(r"^[ \t]++", re.M)
_MAX_ENTRIES = 500  # parsed one by one in an invalid block, at 0.1 ms each; the others are plain
_MAX_TABLE = 200  # characters of a table's name, which each of its entries repeats
_MAX_PROBLEMS = 10
_MAX_BETWEEN_TEXTS = 10_000  # characters that are searched for the next text, to find its line
_GROUPS = frozenset(("taxonomies", "extra", "params"))
"""Maps in which Zola and Hugo keep tags, authors and the like."""

_JSON_KEYS = _GROUPS | set(
    "title date tags categories keywords author authors description draft aliases slug".split()
)
"""Keys in lower case. An object with none of them is text: an example, a drawing."""

_JSON_END = re.compile(r"[ \t]*+(?:\n(?!\{\s*+[\"}])|\Z)")  # not another line of JSON
_PROPERTY = re.compile(r"(?:-[ \t]++|[ \t]++)?([\w-]{1,80}+)::(?:[ \t]++(.*))?")
_PROPERTIES = re.compile(r"(?:[ \t]*+\n)*+(?=(?:-[ \t]++)?[\w-]{1,80}+::(?:\s|\Z))")
_MAX_PROPERTIES = 100
_REFERENCE = re.compile(r"#?\[\[([^\[\]]++)\]\]|([^,\[\]]++)")
_MAX_TOML_STEPS = 2_000
"""Maximum dots and brackets in one line of TOML. If a line has more, the block is not parsed.

Parsing deep nesting takes quadratic time.
"""

_TOML_INT = re.compile(
    r"^([\w-]{1,80}+)[ \t]*+=[ \t]*+"
    r"(\+\d[\d_]*+|-?\d++_[\d_]++|0[xob][\da-fA-F_]++)[ \t]*+(?:#.*)?$",
    re.M,
)
"""An integer in a notation that tomllib does not keep."""

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
            value = next(self._values_of(key, self.fields), None)
            if isinstance(value, (str, int, float)) and (text := " ".join(_name(value).split())):
                return text
        return ""

    def values(self, *keys: str, split: str = r"\s*,\s*") -> tuple[str, ...]:
        """Return the distinct values of all `keys`, also from the tables of Zola and Hugo.

        A string is split at the pattern `split`. If `split` is empty, the string is one value.
        """
        texts: list[str] = []
        groups = (value for name, value in self.fields.items() if name.lower() in _GROUPS)
        maps = [self.fields, *(group for group in groups if isinstance(group, dict))]
        for value in chain.from_iterable(self._values_of(key, m) for key in keys for m in maps):
            if isinstance(value, str) and split:
                is_list = value.startswith("[")  # that is not closed
                parts = re.split(split, value.strip("[] "))
                texts += map(_without_quotes, parts) if is_list else parts
            elif isinstance(value, list):
                texts += [_name(entry) for entry in _flat(value)]
            elif value is not None:
                texts.append(_name(value))
        return tuple(
            dict.fromkeys(text for text in (" ".join(entry.split()) for entry in texts) if text)
        )

    @staticmethod
    def _values_of(key: str, fields: Mapping[str, Any]) -> Iterator[Any]:
        return (value for name, value in fields.items() if name.lower() == key)


def read_front_matter(path: str, text: str) -> FrontMatter:
    """Parse the front matter at the start of a file's text.

    If an entry of a block is invalid, report a problem and use the entry as plain text.
    """
    if text.startswith("{"):
        return _read_json(text)
    opening = _OPEN.match(text)
    if opening is None:
        return _read_properties(text)
    closing = _CLOSE[opening[1]].search(text, opening.end())
    is_yaml = opening[1] == "---"
    if closing is None:  # a horizontal rule, or unclosed front matter
        start = opening.end()
        has_key = _KEY.match(text, start) if is_yaml else _TOML_KEY.match(text, start)
        reason = (
            f"front matter without a closing `{opening[1]}` line is treated as text: add the line "
            "after the last key"
        )
        return FrontMatter(problems=(Problem(path, 1, reason),) if has_key else ())
    block, size = text[opening.end() : closing.start()], min(closing.end() + 1, len(text))
    lines = text.count("\n", 0, size)
    problems: list[tuple[int, str]] = []
    texts: Sequence[Property]
    try:
        if is_yaml:
            fields, reader = _read_yaml(block)
            texts, counts = reader.properties, Counter(key for key, _ in reader.keys)
            problems += (
                (line, f"duplicate key `{key}`: the last value is used")
                for key, line in dict(reader.keys).items()
                if counts[key] > 1
            )
        else:
            fields, texts = _read_toml(block)
    except _FrontMatterError as error:
        if error.prose:  # text between two rules, not front matter
            return FrontMatter(problems=(Problem(path, error.line, str(error)),))
        fields, texts, problems = _read_entries(block, is_yaml, error)
    return FrontMatter(
        fields,
        size,
        lines,
        texts,
        tuple(Problem(path, line, f"front matter: {reason}") for line, reason in problems),
    )


def _read_entries(
    block: str, is_yaml: bool, error: _FrontMatterError
) -> tuple[Mapping[str, Any], Sequence[Property], list[tuple[int, str]]]:
    """Read an invalid block entry by entry. An invalid entry is used as plain text.

    If the block is too large, all entries are plain text.
    """
    problems = [] if error.syntax else [(error.line, f"{error}; only plain `key: value` is used")]
    fields: dict[str, Any] = {}
    reader, table = _YamlReader(), ""
    starts = [match.start() for match in (_YAML_ENTRY if is_yaml else _TOML_ENTRY).finditer(block)]
    line = 2 + block.count("\n", 0, starts[0] if starts else 0)
    for count, (start, end) in enumerate(pairwise((*starts, len(block)))):
        entry, reason = block[start:end], ""
        attempts = [entry]
        if not is_yaml:
            table = entry.partition("\n")[0] if entry.startswith("[") else table
            attempts = [f"{table[:_MAX_TABLE]}\n{entry}" if table and entry[0] != "[" else entry]
        elif "\t" in entry:
            attempts.append(_INDENT.sub(lambda match: match[0].replace("\t", "  "), entry))
        for attempt in attempts if error.syntax and count < _MAX_ENTRIES else ():
            try:
                if is_yaml:
                    _merge(fields, reader.read(attempt, line))
                else:
                    added, texts = _read_toml(attempt)
                    _merge(fields, added)
                    reader.properties += [text._replace(line=line) for text in texts]
                break
            except _FrontMatterError as entry_error:
                reason = reason or str(entry_error)
        else:
            if not table and (match := _PLAIN.match(entry)):
                plain = list(_plain_texts(match, entry, line))
                values = [text for _, text, _ in plain]
                fields[match[1]] = values[0] if match[2].strip() else values
                reader.properties += plain
        if reason and len(problems) < _MAX_PROBLEMS:
            problems.append((line, f"{reason}; read as plain text"))
        line += entry.count("\n")
    problems = problems or [(error.line, f"{error}; its entries are read one by one")]
    return fields, reader.properties[:_MAX_VALUES], problems


def _plain_texts(match: re.Match[str], entry: str, line: int) -> Iterator[Property]:
    """Yield the value of an invalid entry that begins at `line`, or else the items of its list."""
    key, text = match[1].lower(), match[2].strip()
    if text:
        yield Property(key, _without_quotes(text), line)
        return
    for number, text_line in enumerate(entry.split("\n")[1:], line + 1):
        if item := _ITEM.match(text_line):
            yield Property(key, _without_quotes(item[1]), number)


def _without_quotes(text: str) -> str:
    """Return a text without the quotes around it. The second quote may be missing."""
    text = text.strip()
    quote = text[:1]
    if quote not in ("'", '"') or (text.count(quote) > 1 and not text.endswith(quote)):
        return text
    return text[1:].removesuffix(quote)


def _merge(fields: dict[str, Any], added: Mapping[str, Any]) -> None:
    for key, value in added.items():
        earlier = fields.get(key)
        if isinstance(earlier, dict) and isinstance(value, dict):
            value = {**earlier, **value}
        fields[key] = value


def _read_toml(block: str) -> tuple[Mapping[str, Any], Sequence[Property]]:
    if len(block) > _MAX_CHARACTERS:
        raise _FrontMatterError(f"more than {_MAX_CHARACTERS:,} characters", 1)
    if any(line.count(".") + line.count("[") > _MAX_TOML_STEPS for line in block.split("\n")):
        raise _FrontMatterError(_TOO_DEEP, 1)
    try:
        fields = tomllib.loads(block, parse_float=_scalar)
    except (ValueError, RecursionError) as error:
        line = _TOML_LINE.search(str(error))
        raise _FrontMatterError(
            f"not TOML: {error}", int(line[1]) + 1 if line else 1, syntax=True
        ) from error
    for key, written in _TOML_INT.findall(block):
        with suppress(ValueError):  # a line of a text, not of the table
            if fields.get(key) == int(written, 0):
                fields[key] = written
    return _with_texts(fields, block, 2)


def _read_json(text: str) -> FrontMatter:
    """Parse the object at the start of a text. If it is not front matter, it stays text."""
    source = text[:_MAX_CHARACTERS]
    decoder = json.JSONDecoder(parse_float=_scalar, parse_int=_scalar, parse_constant=str)
    try:
        fields, end = decoder.raw_decode(source)
        after = _JSON_END.match(text, end)
        if after is None or _JSON_KEYS.isdisjoint(map(str.lower, fields)):
            return FrontMatter()
        safe, texts = _with_texts(fields, source[:end], 1)
    except (ValueError, RecursionError):
        return FrontMatter()
    return FrontMatter(safe, after.end(), text.count("\n", 0, after.end()), texts)


def _read_properties(text: str) -> FrontMatter:
    """Read Logseq's page properties, `key:: value`, in the first block. They stay in the text."""
    opening = _PROPERTIES.match(text)
    if opening is None:
        return FrontMatter()
    fields: dict[str, Any] = {}
    for line in text[opening.end() :].split("\n", _MAX_PROPERTIES)[:_MAX_PROPERTIES]:
        match = _PROPERTY.fullmatch(line.rstrip())
        if match is None:
            # a line of prose in the same paragraph: not properties
            is_next_block = not line.strip() or line.lstrip().startswith(("-", "*", "#"))
            return FrontMatter(fields) if is_next_block else FrontMatter()
        key, value = match[1], match[2] or ""
        is_list = key.lower() in ("tags", "tag", "alias", "aliases")
        fields[key] = [*_references(value)] if is_list else _scalar(value)
    return FrontMatter(fields)


def _references(value: str) -> Iterator[str]:
    """Yield the pages that a value names: `[[a]], b`, `#[[two words]] #c`."""
    for match in _REFERENCE.finditer(value):
        name = (match[1] or match[2]).strip()
        yield from (name.split() if name.startswith("#") else [name])


def _with_texts(
    fields: Mapping[str, Any], block: str, first_line: int
) -> tuple[Mapping[str, Any], Sequence[Property]]:
    """Return JSON-safe fields, and their texts with lines. `block` is what was parsed."""
    safe = _json_safe(fields, 0)
    texts: list[Property] = []
    line, position = first_line, 0
    for key, text in islice(_texts_in("", safe), _MAX_VALUES):
        offset = block.find(text, position, position + len(text) + _MAX_BETWEEN_TEXTS)
        next_position = offset if offset >= 0 else position + len(text)  # it has an escape
        line += block.count("\n", position, next_position)
        position = next_position
        texts.append(Property(key, text, line))
    return safe, texts


def _texts_in(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts_in(f"{key}.{name}".lower().lstrip("."), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_in(key, inner)
    elif value is not None:
        yield key, _name(value)


def _json_safe(value: Any, depth: int) -> Any:
    if isinstance(value, (dict, list)) and depth == MAX_DEPTH:
        raise _FrontMatterError(_TOO_DEEP, 1)
    if isinstance(value, dict):
        return {str(key): _json_safe(entry, depth + 1) for key, entry in value.items()}
    if isinstance(value, list):
        return [_json_safe(entry, depth + 1) for entry in value]
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    # an escape in JSON may be half of a character
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _flat(values: list[Any]) -> list[Any]:
    """Flatten nested lists, because YAML parses an unquoted `[[Note]]` as a nested list."""
    items: list[Any] = []
    for value in values:
        items += _flat(value) if isinstance(value, list) else [value]
    return items


def _name(value: Any) -> str:
    if isinstance(value, dict):  # an author may be a map with a `name`
        value = value.get("name", "")
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
