"""Read front matter: YAML between `---` or TOML between `+++`, made safe and JSON-safe; the adapter to PyYAML."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from functools import lru_cache
from math import inf, isinf
from typing import Any

from thumbindex.model import Problem

MOST_CHARACTERS = 200_000
_MOST_NODES = 20_000  # aliases counted as often as they are used
DEEPEST = 20
_KEY = re.compile(r"(?:[ \t]*(?:#.*)?\n)*[\"']?[\w][^\n:]{0,80}:(?:\s|$)")
_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?\d{1,18}")
_FLOAT = re.compile(r"[-+]?(?:\.\d+|\d+\.\d*|\d+(?:\.\d*)?[eE][-+]?\d{1,3})")

YamlFields = tuple[Mapping[str, Any], Mapping[str, int], tuple[tuple[str, int], ...]]


class FrontMatterError(ValueError):
    """A block cannot be read; `line` is the file's, and `prose` tells that it is no front matter at all."""

    def __init__(self, reason: str, line: int, prose: bool = False) -> None:
        super().__init__(reason)
        self.line = line
        self.prose = prose


def read_yaml(block: str) -> YamlFields:
    """Return the mapping in a block that begins at a file's second line, the lines of its keys, and the keys that stand twice.

    Scalars are read by YAML 1.2's core schema (so `no` and `2024-01-05` stay text); what no JSON can hold becomes text.
    """
    if len(block) > MOST_CHARACTERS:
        raise FrontMatterError(f"more than {MOST_CHARACTERS:,} characters", 1)
    yaml = _package()
    try:
        _refuse_bombs(block)
        root = yaml.compose(block, Loader=_loader())
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, FrontMatterError):
            raise
        mark = getattr(error, "problem_mark", None)
        reason = f"not YAML: {getattr(error, 'problem', None) or error}"
        raise FrontMatterError(reason, mark.line + 2 if mark else 1, prose=not _KEY.match(block)) from error
    if root is None or (isinstance(root, yaml.ScalarNode) and not root.value):
        return {}, {}, ()
    if not isinstance(root, yaml.MappingNode):
        raise FrontMatterError("what stands between the first two rules is no list of `key: value`: read as text", 1, prose=True)
    places = [(_key(key), _line(key)) for key, _ in root.value]
    counts = Counter(key for key, _ in places)
    lines = dict(places)
    return _value(root), {key.lower(): line for key, line in lines.items()}, tuple((key, lines[key]) for key in counts if counts[key] > 1)


def _refuse_bombs(block: str) -> None:
    """Count the nodes that the block stands for before any of them is made ("billion laughs")."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    total, yaml = 0, _package()
    for event in yaml.parse(block, Loader=_loader()):
        line = _line(event)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise FrontMatterError(f"alias *{event.anchor} stands for nothing, or for itself", line)
            total += sizes[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            if event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            total += 1
            sizes.pop(event.anchor or "", None)
            open_nodes.append((event.anchor, total))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor:
                sizes[anchor] = total - before + 1
        if total > _MOST_NODES or len(open_nodes) > DEEPEST:
            raise FrontMatterError(f"more than {_MOST_NODES:,} values or {DEEPEST} levels", line)


@lru_cache(maxsize=1)
def _package() -> Any:
    # Imported here: neither a server that answers nor a child that finds nothing to index reads front matter.
    import yaml

    return yaml


def _loader() -> Any:
    return getattr(_package(), "CSafeLoader", _package().SafeLoader)


def _line(place: Any) -> int:
    return int(place.start_mark.line) + 2  # the block begins at the file's second line


def _value(node: Any) -> Any:
    yaml = _package()
    if isinstance(node, yaml.MappingNode):
        return {_key(key): _value(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_value(entry) for entry in node.value]
    text = str(node.value)
    return text if getattr(node, "style", None) else _scalar(text)


def _key(node: Any) -> str:
    return str(node.value if isinstance(node, _package().ScalarNode) else _value(node))


def _scalar(text: str) -> Any:
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text.lower() == "true"
    if _INT.fullmatch(text):
        return int(text)
    number = float(text) if _FLOAT.fullmatch(text) else inf
    return text if isinf(number) else number  # JSON has no infinity, which `1e999` is too


_OPEN = re.compile(r"(---|\+\+\+)[ \t]*\n")
_CLOSE = {"---": re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.M), "+++": re.compile(r"^\+\+\+[ \t]*$", re.M)}
_PLAIN = re.compile(r"^([A-Za-z_][\w -]*):[ \t]+(\S.*?)[ \t]*$", re.M)
_DATE = re.compile(r"\s*(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?!\d)")
_MOST_STEPS = 2_000
"""Dots and brackets of one line: TOML that is nested by them takes the square of them to read."""

_TOML_LINE = re.compile(r"at line (\d+)")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What stands at a file's head, by field; empty where there is nothing."""

    fields: Mapping[str, Any] = field(default_factory=dict)  # JSON-safe
    size: int = 0  # characters that the block takes, from the file's first
    lines: int = 0  # lines that it takes
    related_line: int = 1
    problems: tuple[Problem, ...] = ()

    @property
    def title(self) -> str:
        """Return the title, or an empty text."""
        return self._text("title")

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags without `#`; a text is split at commas and spaces."""
        values = self._values("tags", "tag", split=r"[,\s]+")
        return tuple(dict.fromkeys(tag for value in values if (tag := value.lstrip("#").strip("/ "))))

    @property
    def aliases(self) -> tuple[str, ...]:
        """Return the document's other names."""
        return self._values("aliases", "alias")

    @property
    def keywords(self) -> tuple[str, ...]:
        """Return the keywords."""
        return self._values("keywords", "keyword")

    @property
    def description(self) -> str:
        """Return the description or summary."""
        return self._text("description") or self._text("summary")

    @property
    def author(self) -> str:
        """Return the author, or all of them with commas between."""
        return ", ".join(self._values("author", "authors", split=""))

    @property
    def category(self) -> str:
        """Return the category, or all of them with commas between."""
        return ", ".join(self._values("category", "categories", split=""))

    @property
    def type(self) -> str:
        """Return the document's type."""
        return self._text("type")

    @property
    def related(self) -> tuple[str, ...]:
        """Return the entries of `related` as written."""
        return self._values("related", split="")

    @property
    def date(self) -> str:
        """Return the day of the last update, else of the first writing, as an ISO date."""
        for key in ("updated", "modified", "lastmod", "date"):
            match = _DATE.match(self._text(key))
            if match:
                try:
                    return date(*map(int, match.groups())).isoformat()
                except ValueError:
                    continue
        return ""

    def _text(self, key: str) -> str:
        value = self._value(key)
        return " ".join(str(value).split()) if isinstance(value, (str, int, float)) else ""

    def _values(self, *keys: str, split: str = r"\s*,\s*") -> tuple[str, ...]:
        found: list[str] = []
        for key in keys:
            value = self._value(key)
            if isinstance(value, str) and split:
                found += re.split(split, value.strip("[] "))
            elif isinstance(value, list):
                found += [_name(entry) for entry in _flat(value)]
            elif value is not None:
                found.append(_name(value))
        return tuple(dict.fromkeys(text for text in (" ".join(entry.split()) for entry in found) if text))

    def _value(self, key: str) -> Any:
        return next((value for name, value in self.fields.items() if name.lower() == key), None)


def read_front_matter(path: str, text: str) -> FrontMatter:
    """Read the block at the head of a text; one that is broken is reported and read as far as its plain lines go."""
    opening = _OPEN.match(text)
    closing = _CLOSE[opening[1]].search(text, opening.end()) if opening else None
    if opening is None or closing is None:
        return FrontMatter()
    block, size = text[opening.end() : closing.start()], min(closing.end() + 1, len(text))
    lines = text.count("\n", 0, size)
    problems: tuple[Problem, ...] = ()
    key_lines: Mapping[str, int] = {}
    try:
        fields, key_lines, doubled = read_yaml(block) if opening[1] == "---" else (*_read_toml(block), ())
        problems = tuple(Problem(path, line, f"front matter: `{key}` stands twice, the last one counts") for key, line in doubled)
    except FrontMatterError as error:
        if error.prose:  # text between two rules, not front matter
            return FrontMatter(problems=(Problem(path, error.line, str(error)),))
        fields = {key: value.strip("'\"") for key, value in _PLAIN.findall(block)}
        problems = (Problem(path, error.line, f"front matter: {error}; its plain `key: value` lines were read"),)
    return FrontMatter(fields, size, lines, key_lines.get("related", 1), problems)


def _read_toml(block: str) -> tuple[Mapping[str, Any], Mapping[str, int]]:
    if len(block) > MOST_CHARACTERS:
        raise FrontMatterError(f"more than {MOST_CHARACTERS:,} characters", 1)
    too_deep = any(line.count(".") + line.count("[") > _MOST_STEPS for line in block.split("\n"))
    try:
        fields = {} if too_deep else tomllib.loads(block)
        too_deep = too_deep or _depth(fields) > DEEPEST
    except (ValueError, RecursionError) as error:
        line = _TOML_LINE.search(str(error))
        raise FrontMatterError(f"not TOML: {error}", int(line[1]) + 1 if line else 1) from error
    if too_deep:
        raise FrontMatterError(f"more than {DEEPEST} levels", 1)
    return _safe(fields), {}


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0) if isinstance(value, (dict, list)) else 0


def _safe(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _safe(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_safe(entry) for entry in value]
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    return str(value) if isinstance(value, float) and value - value != 0 else value  # JSON has no inf and nan


def _flat(values: list[Any]) -> list[Any]:
    """Flatten lists in lists: `[[Note]]` without quotes is one in YAML."""
    found: list[Any] = []
    for value in values:
        found += _flat(value) if isinstance(value, list) else [value]
    return found


def _name(value: Any) -> str:
    if isinstance(value, dict):  # authors are written as `name: …` with more facts beside
        return str(value.get("name", ""))
    return "" if value is None else str(value)
