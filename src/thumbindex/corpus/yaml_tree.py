"""YAML read as a tree of plain values: no objects, no dates, no bombs; the door to PyYAML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from math import inf, isinf
from typing import Any

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
