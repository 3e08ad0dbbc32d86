"""Folders with rights in a configuration file: `[[folders]]` with name, path and the tokens that see it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from thumbindex.errors import ConfigError

_KEYS = ("name", "path", "tokens")


def has_folder_tables(document: Mapping[str, Any]) -> bool:
    """Tell whether a file writes its folders as `[[folders]]`, not as lines below `[folders]`."""
    tables = document.get("folders")
    return isinstance(tables, list) and all(isinstance(each, dict) for each in tables)


def read_folder_tables(tables: Sequence[Mapping[str, Any]], path: Path, source: str) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Return the folders' paths, and the tokens that are named to see them, by folder name; raise ConfigError with file and line."""
    lines = [number for number, line in enumerate(source.splitlines(), start=1) if re.match(r"\s*\[\[\s*folders\s*\]\]", line)]
    folders: dict[str, str] = {}
    granted: dict[str, tuple[str, ...]] = {}
    roots: dict[str, Path] = {}
    for n, table in enumerate(tables):
        where = f"{path}:{lines[n]}" if len(lines) == len(tables) else str(path)
        name, to, tokens = _read_table(table, where)
        if name in folders:
            raise ConfigError(f"{where}: there are two folders of the name {name!r}: call one of them otherwise.")
        root = (path.parent / Path(to).expanduser()).resolve()
        if other := next((each for each, known in roots.items() if known == root), None):
            raise ConfigError(f"{where}: {name!r} is the folder that {other!r} is, {root}: leave one of them out, with the tokens of both.")
        folders[name], roots[name] = to, root
        if tokens is not None:
            granted[name] = tokens
    return folders, granted


def check_rights_kept(before: Mapping[str, str], folders: Mapping[str, str], granted: Collection[str], where: str) -> None:
    """Raise ConfigError where a later layer names a folder again, or a part of it, whose rights an earlier one states, and states none."""
    guarded = {name: Path(path).expanduser().resolve() for name, path in before.items()}
    for name, path in folders.items():
        root = Path(path).expanduser().resolve()
        for other, known in guarded.items() if name not in granted else ():
            if name == other or root.is_relative_to(known) or known.is_relative_to(root):
                raise ConfigError(
                    f"{where}: the folder {name!r} names no `tokens`, and an earlier configuration names some for {other!r}, {known}: "
                    'write it as [[folders]] with name, path and tokens, ["*"] if every token may see it.'
                )


def _read_table(table: Mapping[str, Any], where: str) -> tuple[str, str, tuple[str, ...] | None]:
    for key in table.keys() - set(_KEYS):
        near = [f"did you mean `{each}`?" for each in get_close_matches(key, _KEYS, n=1)]
        raise ConfigError(f"{where}: unknown key `folders.{key}`: {near[0] if near else 'a folder has name, path and tokens.'}")
    for key in _KEYS[:2]:
        if not isinstance(table.get(key), str) or not table[key].strip():
            raise ConfigError(f"{where}: a folder needs `{key}`, a string.")
    tokens = table.get("tokens")
    if tokens is not None and not (isinstance(tokens, list) and all(isinstance(each, str) and each.strip() for each in tokens)):
        raise ConfigError(f'{where}: `tokens` must be a list of token names, as ["alice", "bob"], or ["*"] for every token.')
    return table["name"], table["path"], None if tokens is None else tuple(tokens)
