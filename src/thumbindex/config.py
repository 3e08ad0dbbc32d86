"""Load the configuration: check each layer, and let later layers override earlier ones."""

from __future__ import annotations

import os
import re
import stat
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache, reduce
from pathlib import Path
from typing import Any, get_type_hints
from unicodedata import normalize

from platformdirs import user_config_path

from thumbindex.errors import ConfigError, UnknownFolderError, UsageError
from thumbindex.process import current_folder
from thumbindex.settings import COMPARED_FIELDS, Config
from thumbindex.text import one_line, redact_passwords

FOLDER_FILE = "thumbindex.toml"
"""Name of a folder's configuration file. A `config.toml` there may belong to another program."""

NO_ROOT = Path("/dev/null")
"""Root of a folder that is only in a database. It is a file, so no path below it exists."""

FOLDER_FILE_KEYS = (
    "corpus.include",
    "corpus.exclude",
    "corpus.chunk.",
    "corpus.private.",
    "query.",
)
"""Keys, or prefixes of keys, that a folder's configuration file may set.

Models, paths and folders are excluded, because the file may come from anyone.
"""

_PRIVATE_GLOBS = "corpus.private.globs"

_WILDCARD = re.compile(r"[*?\[]")

_EXCLUDING_KEYS = ("corpus.include", "corpus.exclude", "corpus.private.")
"""Keys that exclude notes.

If a folder's configuration file has an error in any of them, no new note is indexed.
"""

_ADDITIVE_KEYS = "corpus.private."
"""Keys that a folder's configuration file extends but never replaces.

Private notes therefore stay private.
"""

MAX_FOLDER_FILE_BYTES = 8_000
"""Maximum size of a folder's configuration file, to limit the time that indexing takes.

Parsing time grows with the square of key lengths, and each note is matched against all globs.
"""

MAX_ABOUT_CHARS = 300
"""A folder's description is cut to this length, because clients read it in every session."""

_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
"""Flags to open a file without following a symlink or waiting for a pipe."""

_MAX_SHOWN = 60
"""Longer keys and values are cut to this many characters in messages."""

_ORDERED_KEYS = (
    ("corpus.chunk.child_max", "corpus.chunk.parent_max"),
    ("query.confidence.abstain_below", "query.confidence.low_below"),
)
"""Pairs of keys whose first value must not be above the second."""

_FOLDER_KEYS = ("path", "about", "tokens")


@dataclass(frozen=True, slots=True)
class Setting:
    """One key and its allowed values."""

    key: str  # dotted, as in `query.fuse.k`
    kind: Any
    default: Any
    meaning: str
    minimum: float | None
    maximum: float | None
    choices: tuple[str, ...]


def load_config(
    *,
    user_file: str | Path | None = None,
    config_file: str | Path | None = None,
    overrides: Sequence[str] = (),
    folder: str | Path | None = None,
) -> Config:
    """Load the configuration for one folder, or for none.

    Later arguments override earlier ones. Raises ConfigError if a file, key or value is wrong.
    """
    values: dict[str, Any] = {}
    own_file = Path(user_file) if user_file is not None else user_config_file()
    if _exists(own_file):
        values |= _read_layer(own_file)
    pinned: dict[str, Any] = {}
    if config_file is not None:
        pinned |= _read_layer(Path(config_file).expanduser())
        if "folders" in pinned and values.get("folder_tokens"):
            before = {name: values["folders"][name] for name in values["folder_tokens"]}
            _check_tokens_kept(before, pinned["folders"], pinned["folder_tokens"], f"{config_file}")
    for override in overrides:
        pinned |= _read_override(override)
    keys = frozenset({**values, **pinned}) - {"about", "folder_tokens"}
    config: Config = replace(
        _apply(Config(), {**values, **pinned}), pinned=frozenset(pinned), explicit_keys=keys
    )
    _check_consistency(config)
    return config if folder is None else with_folder_file(config, folder)


def _exists(path: Path) -> bool:
    """Return whether a path exists, even as an unreadable file or a broken link."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def with_folder_file(config: Config, folder: str | Path) -> Config:
    """Apply a folder's `thumbindex.toml`. It cannot replace keys from `--config` or `--set`.

    Never raises. If the file has an error, only its valid keys that exclude notes apply, and
    `folder_file_error` describes the error. If the error may concern the exclusion of notes,
    `blocks_indexing` is set.
    """
    valid: dict[str, Any] = {}
    blocks, root = True, os.path.realpath(folder)
    try:
        flat = list(_flatten(_parse(FOLDER_FILE, _read_folder_file(Path(folder))), ""))
        for key, value in flat:
            if items := _valid_items(key, value, root):
                valid[key] = items
        blocks = any(
            _may_exclude(key, value) for key, value in flat if value != list(valid.get(key, ()))
        )
        return _with_folder_values(
            config, {key: _checked_value(key, value, FOLDER_FILE, root) for key, value in flat}
        )
    except OSError as error:
        message = f"{FOLDER_FILE}: cannot be read ({error.strerror or error})"
    except ConfigError as error:
        message = one_line(str(error)).rstrip(".")
        message = message if message.startswith(FOLDER_FILE) else f"{FOLDER_FILE}: {message}"
    effect = "Only its settings that exclude notes are used."
    if blocks:
        effect = (
            "New and changed notes are not indexed until you correct the file, because it may make "
            "them private. Notes that were indexed before are still shown."
        )
    return replace(
        _with_folder_values(config, valid),
        folder_file_error=f"{message}. {effect}",
        blocks_indexing=blocks,
    )


def _valid_items(key: str, value: Any, root: str) -> tuple[str, ...]:
    """Return the valid items of a list that excludes notes."""
    if not (
        key in settings_by_key() and key.startswith(_EXCLUDING_KEYS) and isinstance(value, list)
    ):
        return ()
    valid = []
    for item in value:
        with suppress(ConfigError):
            valid += _checked_value(key, [item], FOLDER_FILE, root)
    return tuple(valid)


def _may_exclude(key: str, value: Any) -> bool:
    """Return whether an invalid key may be meant to exclude notes."""
    if key in settings_by_key():
        return key.startswith(_EXCLUDING_KEYS)
    return not key.startswith("query.") or isinstance(value, (str, list, dict))


def _with_folder_values(config: Config, folder_values: Mapping[str, Any]) -> Config:
    values = {key: value for key, value in folder_values.items() if key not in config.pinned}
    # The last matching glob decides. The user's globs are last, so a folder's `!` cannot undo them.
    values |= {
        key: (*value, *_value_of(config, key))
        for key, value in folder_values.items()
        if key.startswith(_ADDITIVE_KEYS)
    }
    folder_config: Config = replace(
        _apply(config, values), explicit_keys=config.explicit_keys | values.keys()
    )
    _check_consistency(folder_config)
    return folder_config


def _read_folder_file(folder: Path) -> bytes:
    """Read a folder's configuration file, or return b"" for a missing file.

    Raises OSError, or ConfigError for a file that is too large, not regular or outside the folder.
    """
    file_path = folder / FOLDER_FILE
    real = os.path.realpath(file_path)
    if Path(real).parent != Path(os.path.realpath(folder)):  # a symlink may lead anywhere
        raise ConfigError(f"{FOLDER_FILE}: is a symlink to another folder, so it is not read")
    try:
        descriptor = os.open(real, _OPEN_FLAGS)
    except OSError:
        if os.path.lexists(file_path):
            raise
        return b""  # an unreadable folder is reported when its files are listed
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{FOLDER_FILE}: is not a regular file, so it is not read")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_FOLDER_FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MAX_FOLDER_FILE_BYTES:
        raise ConfigError(f"{FOLDER_FILE}: has more than {MAX_FOLDER_FILE_BYTES:,} bytes")
    return data


def user_config_file() -> Path:
    """Return the path of the user's configuration file, which may not exist."""
    return user_config_path("thumbindex") / "config.toml"


def resolve_folders(
    config: Config,
    names: Sequence[str | Path] = (),
    is_known: Callable[[Path], bool] = lambda _: False,
) -> tuple[tuple[str, Path], ...]:
    """Return the name and the absolute root of each folder. `names` are configured names or paths.

    Without `names`, return the configured folders, or else the current folder. Raises
    UnknownFolderError for a missing folder that `is_known` does not accept.
    """
    configured = configured_roots(config)
    roots: list[Path] = []
    for name in list(names) or list(configured) or [Path(current_folder())]:
        if not str(name).strip():
            raise UsageError(
                "A folder's name is empty: write a name, or omit the option to use the current "
                "folder."
            )
        root = configured.get(str(name)) or real_folder(name)
        # a name may be too long for the system
        if not os.path.isdir(root) and not is_known(root):  # noqa: PTH112
            raise UnknownFolderError(_no_folder_message(str(name), root, sorted(configured)))
        roots.append(root)
    return tuple(sorted(folder_names(configured, roots).items()))


def folder_names(configured: Mapping[str, Path], roots: Iterable[Path]) -> dict[str, Path]:
    """Return folders by name: the configured name, or else the name of the directory.

    If several directories have the same name, parent directories are added: `work/notes`.
    """
    names: dict[str, Path] = {}
    others = []
    for root in roots:
        if name := next((name for name, path in configured.items() if path == root), ""):
            names[name] = root
        else:
            others.append(root)
    for root in others:
        is_taken = {tail for other in others if other != root for tail in _path_suffixes(other)}
        is_taken |= configured.keys()
        last = str(root) if root.name in is_taken else root.name or "root"
        names[next((tail for tail in _path_suffixes(root) if tail not in is_taken), last)] = root
    return names


def _path_suffixes(root: Path) -> list[str]:
    return ["/".join(root.parts[-length:]) for length in range(1, len(root.parts))]


def configured_roots(config: Config) -> dict[str, Path]:
    """Return the absolute roots of the configured folders, by name."""
    return {name: real_folder(path) for name, path in config.folders.items()}


def absolute_path(path: str | Path) -> Path:
    """Make a path absolute, relative to the current directory.

    For a remote command, this is the directory of the client process.
    """
    expanded = Path(path).expanduser()
    return expanded if expanded.is_absolute() else Path(current_folder(), expanded)


def obsidian_vault(path: Path) -> Path | None:
    """Return the Obsidian vault that contains a note, or None."""
    for parent in path.parents:
        if os.path.isdir(f"{parent}/.obsidian"):  # noqa: PTH112 - no error without permission
            return parent
    return None


def real_folder(path: str | Path) -> Path:
    """Return the canonical path of a folder: absolute, without links, in the case used on disk.

    If a folder had two paths, it could have two indexes and two sets of access rights.
    """
    real = absolute_path(path).resolve()
    try:
        if not real.samefile(str(real).swapcase()):
            return real
    except (OSError, ValueError):
        return real
    spelled = Path(real.anchor)
    for name in real.parts[1:]:
        names = _entry_names(spelled)
        if name not in names:
            name = next((other for other in names if _folded(other) == _folded(name)), name)
        spelled /= name
    return spelled


def _entry_names(folder: Path) -> Sequence[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:  # keep the spelling in an unreadable folder
        return ()


def _folded(name: str) -> str:
    return normalize("NFC", name).casefold()


@cache
def settings_by_key() -> Mapping[str, Setting]:
    """Return all settings by dotted key, in the order of `config.toml`."""
    return {setting.key: setting for setting in _iterate_settings(Config, "")}


def _iterate_settings(table: Any, prefix: str) -> Iterator[Setting]:
    hints = get_type_hints(table)
    instance = table()
    # TOML needs plain keys before tables; `sorted` is stable.
    for field in sorted(fields(table), key=lambda field: is_dataclass(hints[field.name])):
        key, kind = f"{prefix}{field.name}", hints[field.name]
        if is_dataclass(kind):
            yield from _iterate_settings(kind, f"{key}.")
        elif field.metadata:
            yield Setting(key, kind, getattr(instance, field.name), **field.metadata)


def _apply(table: Any, values: Mapping[str, Any], prefix: str = "") -> Any:
    changes: dict[str, Any] = {}
    for field in fields(table):
        key, value = f"{prefix}{field.name}", getattr(table, field.name)
        if is_dataclass(value):
            changes[field.name] = _apply(value, values, f"{key}.")
        elif key in values:
            changes[field.name] = values[key]
    return replace(table, **changes)


def _value_of(config: Config, key: str) -> Any:
    return reduce(getattr, key.split("."), config)


# ------------------------------------------------------------------ one layer


def _read_layer(path: Path) -> dict[str, Any]:
    try:
        document = _parse(str(path), path.read_bytes())
    except OSError as error:
        raise ConfigError(
            f"{path}: the configuration cannot be read ({error.strerror}). Use another file with "
            "--config."
        ) from error
    values: dict[str, Any] = {}
    if "folders" in document:
        values["folders"], values["about"], values["folder_tokens"] = _read_folders(
            document.pop("folders"), path
        )
    for key, value in _flatten(document, ""):
        values[key] = _checked_value(key, value, str(path))
    if token_file := values.get("serve.http.token_file"):
        values["serve.http.token_file"] = str(path.parent / Path(token_file).expanduser())
    return values


def _parse(place: str, data: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{place}: not UTF-8 at byte {error.start}: save the file as UTF-8."
        ) from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        where = f"{place}:{line[1]}" if line else place
        hint = ": write paths in single quotes" if b"\\" in data else ""
        raise ConfigError(f"{where}: not valid TOML: {error}{hint}") from error
    except ValueError as error:
        raise ConfigError(f"{place}: not valid TOML: a number has too many digits") from error
    except RecursionError as error:
        raise ConfigError(f"{place}: not valid TOML: too many nested brackets") from error


def _checked_value(key: str, value: Any, place: str, root: str = "") -> Any:
    """Check and convert a value.

    `root` is the folder whose configuration file sets the key, or "" for another source.
    """
    if key not in settings_by_key():
        raise ConfigError(f"{place}: {_unknown_key(key)}")
    if root and not key.startswith(FOLDER_FILE_KEYS):
        raise ConfigError(
            f"{place}: `{key}` may not be set in a folder's own {FOLDER_FILE}: set it in "
            f"{user_config_file()} or with --config."
        )
    checked = _check(settings_by_key()[key], value, place)
    for glob in checked if key == _PRIVATE_GLOBS else ():
        if error := _glob_error(glob, root):
            raise ConfigError(f"{place}: `{key}` {_show_value(glob)} {error}.")
    return checked


def _read_override(override: str) -> dict[str, Any]:
    key, equals, text = (part.strip() for part in override.partition("="))
    where = f"--set {_shorten(one_line(redact_passwords(override)), 2 * _MAX_SHOWN)}"
    if not equals:
        raise ConfigError(f"{where}: write it as TABLE.KEY=VALUE, for example query.limit=10.")
    kind = settings_by_key()[key].kind if key in settings_by_key() else None
    value: Any = text
    with suppress(ValueError, RecursionError):  # a string may have no quotes
        value = tomllib.loads(f"value = {text}")["value"]
    if kind is str and not isinstance(value, str):
        value = text
    if kind == tuple[str, ...] and isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    return {key: _checked_value(key, value, where)}


def _flatten(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys of a table and their values. An unknown table is a single value."""
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and key in _tables():
            yield from _flatten(value, f"{key}.")
        else:
            yield key, value


@cache
def _tables() -> frozenset[str]:
    return frozenset(
        key[: dot.start()] for key in settings_by_key() for dot in re.finditer(r"\.", key)
    )


def _unknown_key(key: str) -> str:
    if key in _tables():
        return f"`{key}` is a table: write its keys below [{key}]."
    shown = _shorten(key)
    table = shown.rpartition(".")[0]
    prefix = f"{table}." if table in _tables() else ""  # suggest keys of the same table only
    names = [
        key.removeprefix(prefix)
        for key in (*settings_by_key(), *sorted(_tables()))
        if key.startswith(prefix)
    ]
    near = get_close_matches(shown.removeprefix(prefix), names, n=1)
    hint = f"did you mean `{prefix}{near[0]}`?" if near else "see docs/reference/settings.md."
    return f"unknown key `{shown}`: {hint}"


# ------------------------------------------------------------------ one value


def _check(setting: Setting, value: Any, place: str) -> Any:
    checked = _coerce(setting.kind, value)
    if checked is None:
        kind = _TYPE_NAMES[setting.kind]
        raise ConfigError(f"{place}: `{setting.key}` must be {kind}, not {_show_value(value)}.")
    parts = checked if isinstance(checked, tuple) else (checked,)
    for part in parts if setting.choices else ():
        if part not in setting.choices:
            near = get_close_matches(_shorten(part), setting.choices, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"use {', '.join(setting.choices)}."
            raise ConfigError(f"{place}: `{setting.key}` cannot be {_show_value(part)}: {hint}")
    below = setting.minimum is not None and not checked >= setting.minimum
    above = setting.maximum is not None and not checked <= setting.maximum
    if below or above:
        raise ConfigError(
            f"{place}: `{setting.key}` must be {describe_limits(setting)}, "
            f"not {_show_value(value)}."
        )
    return checked


def _glob_error(glob: str, root: str) -> str:
    """Return why a private glob cannot match any note, or "" for a valid glob.

    `root` is the folder whose configuration file contains the glob, or "" for another source.
    """
    text = glob.removeprefix("!")
    if not text.strip():
        return "is empty: remove it"
    parts = re.split(r"[/\\]+", text)
    # the author of a folder's own file must not learn which paths exist on this machine
    is_absolute = text.startswith(f"{root}/") if root else _is_on_disk(parts)
    if text[0].isspace() or text[0] == "#":
        return "begins with a space or #: remove that character, or write '\\#' for a literal #"
    has_names = re.search(r"\{[^{},]*+,[^{}]*+\}", text) or re.search(r"[!@+]\(.*\)", glob)
    if has_names or text.count("{") != text.count("}"):
        return "has alternatives in braces or parentheses: write one glob for each"
    if is_absolute or parts[0] == "~" or ".." in parts or re.match(r"[A-Za-z]:", text):
        return "is not inside the folder: write it relative to the folder, such as 'private/**'"
    if "." in parts or "//" in text:
        return "contains `./` or `//`, which no path has: remove it"
    return ""


def _is_on_disk(parts: Sequence[str]) -> bool:
    """Return whether a glob begins with an existing absolute path of at least two directories."""
    first = "/".join(parts[:3])
    return len(parts) > 2 and not parts[0] and not _WILDCARD.search(first) and os.path.isdir(first)  # noqa: PTH112


def _show_value(value: Any) -> str:
    if isinstance(value, str):
        return repr(_shorten(value))
    if isinstance(value, (Mapping, list)):
        return "a table" if isinstance(value, Mapping) else "a list"
    # Python refuses to format thousands of digits
    is_long = isinstance(value, int) and value.bit_length() > _MAX_SHOWN
    return "a number that large" if is_long else repr(value)


def _shorten(text: str, maximum: int = _MAX_SHOWN) -> str:
    return text if len(text) <= maximum else f"{text[:maximum]}…"


def describe_limits(setting: Setting) -> str:
    """Return the range of a numeric setting in words; empty if it has none."""
    if setting.minimum is not None and setting.maximum is not None:
        return f"{setting.minimum} to {setting.maximum}"
    if setting.minimum is not None:
        return f"at least {setting.minimum}"
    return f"at most {setting.maximum}" if setting.maximum is not None else ""


_TYPE_NAMES: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    tuple[str, ...]: "a list of strings",
    Mapping[str, str]: 'a table with one line `name = "path"` per folder',
}


def _coerce(kind: Any, value: Any) -> Any:
    """Convert a value to its setting's type, or return None if the types do not match."""
    if isinstance(value, bool) or kind is bool:
        return value if isinstance(value, bool) and kind is bool else None
    if kind is float:
        is_number = isinstance(value, (int, float)) and abs(value) <= sys.float_info.max
        return float(value) if is_number else None
    if kind in (int, str):
        return value if isinstance(value, kind) else None
    if kind == tuple[str, ...]:
        is_list = isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value)
        return tuple(value) if is_list else None
    is_table = isinstance(value, dict) and all(isinstance(part, str) for part in value.values())
    return dict(value) if is_table else None


def _check_consistency(config: Config) -> None:
    stage = config.query.deduplicate
    if config.query.runs("deduplicate") and stage.method == "exact_field" and not stage.field:
        raise ConfigError(
            "`query.deduplicate.method` is `exact_field`: also set `query.deduplicate.field`, "
            "such as `properties.id`."
        )
    is_property = stage.field.startswith("properties.")
    if stage.field and not is_property and stage.field not in COMPARED_FIELDS:
        raise ConfigError(
            f"`query.deduplicate.field` is {stage.field!r}: write a property such as "
            f"`properties.id`, or one of {', '.join(COMPARED_FIELDS)}."
        )
    for low_key, high_key in _ORDERED_KEYS:
        low, high = _value_of(config, low_key), _value_of(config, high_key)
        if low > high:
            raise ConfigError(
                f"`{low_key}` ({low}) must not be above `{high_key}` ({high}): change one of them."
            )


# ------------------------------------------------------------------ folders


def _no_folder_message(name: str, root: Path, configured: Sequence[str]) -> str:
    if os.path.exists(root):  # noqa: PTH110
        return f"{name} is a file: use its folder. To search a single file, use `query --path`."
    near = get_close_matches(name, [other for other in configured if other != name], n=1)
    if near:
        hint = f"did you mean `{near[0]}`?"
    elif configured:
        hint = f"check the path, or use a configured folder: {', '.join(configured)}."
    else:
        hint = "check the path. No folders are configured by name."
    there = "There" if name == str(root) else f"{name}: there"
    return f"{there} is no folder {root}: {hint}"


def _read_folders(
    folders: Any, path: Path
) -> tuple[dict[str, str], dict[str, str], dict[str, tuple[str, ...]]]:
    """Read `[folders]`, `[folders.NAME]` or `[[folders]]`. Raises ConfigError.

    Return the folders' paths, descriptions and allowed tokens, each by name.
    """
    if isinstance(folders, dict):
        tables = [
            (name, table if isinstance(table, dict) else {"path": table})
            for name, table in folders.items()
        ]
    elif isinstance(folders, list) and all(isinstance(table, dict) for table in folders):
        tables = [(table.pop("name", None), table) for table in folders]
    else:
        raise ConfigError(f"{path}: `folders` must be {_TYPE_NAMES[Mapping[str, str]]}.")
    paths: dict[str, str] = {}
    about: dict[str, str] = {}
    allowed_tokens: dict[str, tuple[str, ...]] = {}
    for name, table in tables:
        _check_folder(name, table, path)
        if name in paths:
            raise ConfigError(f"{path}: two folders are named {name!r}: rename one of them.")
        paths[name] = str(path.parent / Path(table["path"]).expanduser())
        if table.get("about"):
            about[name] = one_line(table["about"])[:MAX_ABOUT_CHARS]
        if "tokens" in table:
            allowed_tokens[name] = tuple(table["tokens"])
    roots: dict[Path, str] = {}
    for name, folder in paths.items():
        root = real_folder(folder)
        if (other := roots.setdefault(root, name)) != name:
            raise ConfigError(
                f"{path}: {name!r} and {other!r} are the same folder, {root}: remove one, and "
                "give the other the tokens of both."
            )
    return paths, about, allowed_tokens


def _check_tokens_kept(
    restricted: Mapping[str, str],
    folders: Mapping[str, str],
    with_tokens: Collection[str],
    where: str,
) -> None:
    """Raise ConfigError if a later layer drops the tokens of a restricted folder.

    A folder without tokens must not be, contain or be inside a restricted folder.
    """
    restricted_roots = {name: real_folder(path) for name, path in restricted.items()}
    for name, path in folders.items():
        root = real_folder(path)
        for other, known in restricted_roots.items() if name not in with_tokens else ():
            if name == other or root.is_relative_to(known) or known.is_relative_to(root):
                raise ConfigError(
                    f"{where}: the folder {name!r} has no `tokens`, but an earlier configuration "
                    f"sets them for {other!r}, {known}: "
                    "write it as [[folders]] with name, path and tokens, or with "
                    'tokens = ["*"] for every token.'
                )


def _check_folder(name: Any, table: Mapping[str, Any], path: Path) -> None:
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"{path}: a folder needs `name`, a string.")
    for key in table.keys() - {*_FOLDER_KEYS}:
        raise ConfigError(
            f"{path}: unknown key `folders.{_shorten(key)}`: the keys of [[folders]] are name, "
            "path, about and tokens."
        )
    if not isinstance(folder := table.get("path"), str) or not folder.strip():
        raise ConfigError(f"{path}: the folder {name!r} needs `path`, a string.")
    if not isinstance(table.get("about", ""), str):
        raise ConfigError(f"{path}: `about` must be a string that describes the folder.")
    tokens = table.get("tokens", [])
    if not isinstance(tokens, list) or not all(
        isinstance(token, str) and token.strip() for token in tokens
    ):
        raise ConfigError(
            f'{path}: `tokens` must be a list of token names, such as ["alice", "bob"], or ["*"] '
            "for every token."
        )
