"""Configuration, loaded in layers and checked, each over the one before."""

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
from thumbindex.settings import Config
from thumbindex.text import one_line, redact_passwords

FOLDER_FILE = "thumbindex.toml"
"""The only file of a vault that is read as configuration; a `config.toml` there belongs to someone
else.
"""

NO_ROOT = Path("/dev/null")
"""Root of a folder that lies in a database. It is a file, so that nothing can be read below it."""

FOLDER_FILE_KEYS = (
    "corpus.include",
    "corpus.exclude",
    "corpus.chunk.",
    "corpus.private.",
    "query.",
)
"""What a folder's own file may set: it may come from anyone, so never models, paths or folders."""

_PRIVATE_GLOBS = "corpus.private.globs"

_WILDCARD = re.compile(r"[*?\[]")

_EXCLUDING_KEYS = ("corpus.include", "corpus.exclude", "corpus.private.")
"""Keys that exclude notes. If one is wrong in a folder's own file, no new note is indexed."""

_ADDITIVE_KEYS = "corpus.private."
"""Keys that a folder's own file extends and never replaces: private notes stay private."""

MAX_FOLDER_FILE_BYTES = 8_000
"""Maximum size of a folder's own file: parsing time grows with the square of the key lengths, and
its globs and tags are matched with each note.
"""

MAX_ABOUT_CHARS = 300
"""Maximum characters of a folder's description: clients read it with every session."""

_OPEN_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
"""Follow no symlink and wait for no pipe."""

_MAX_SHOWN = 60
"""Maximum characters of a key or value in a message."""

_ORDERED_KEYS = (
    ("corpus.chunk.child_max", "corpus.chunk.parent_max"),
    ("query.confidence.abstain", "query.confidence.doubt"),
)

_FOLDER_KEYS = ("path", "about", "tokens")


@dataclass(frozen=True, slots=True)
class Setting:
    """One key with what is allowed for it."""

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
    """Load the configuration that holds for one folder (or for none), later layers over earlier
    ones.

    Raises ConfigError for a file, key or value that is wrong; the message names it and says what is
    allowed.
    """
    values: dict[str, Any] = {}
    home = Path(user_file) if user_file is not None else user_config_file()
    if _exists(home):
        values |= _read_layer(home)
    pinned: dict[str, Any] = {}
    if config_file is not None:
        pinned |= _read_layer(Path(config_file).expanduser())
        if "folders" in pinned and values.get("folder_tokens"):
            before = {name: values["folders"][name] for name in values["folder_tokens"]}
            _check_rights_kept(before, pinned["folders"], pinned["folder_tokens"], f"{config_file}")
    for override in overrides:
        pinned |= _read_override(override)
    written = frozenset({**values, **pinned}) - {"about", "folder_tokens"}
    config: Config = replace(
        _apply(Config(), {**values, **pinned}), pinned=frozenset(pinned), explicit_keys=written
    )
    _check_together(config)
    return config if folder is None else with_folder_file(config, folder)


def _exists(path: Path) -> bool:
    """Return whether a path exists, readable or not, or is a broken link."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def with_folder_file(config: Config, folder: str | Path) -> Config:
    """Return the configuration of a folder: its own `thumbindex.toml` over all but `--config` and
    `--set`.

    Raises nothing. Of a wrong file only the valid keys that exclude notes are used, and
    `folder_file_error` says what is wrong. If it may exclude more, `blocks_indexing` is set.
    """
    kept: dict[str, Any] = {}
    blocks, root = True, os.path.realpath(folder)
    try:
        flat = list(_flatten(_parse(FOLDER_FILE, _read_folder_file(Path(folder))), ""))
        for key, value in flat:
            if right := _valid_items(key, value, root):  # valid beside wrong ones
                kept[key] = right
        blocks = any(
            _may_exclude(key, value) for key, value in flat if value != list(kept.get(key, ()))
        )
        return _with_folder_values(
            config, {key: _checked_value(key, value, FOLDER_FILE, root) for key, value in flat}
        )
    except OSError as error:
        wrong = f"{FOLDER_FILE}: cannot be read ({error.strerror or error})"
    except ConfigError as error:
        said = one_line(str(error)).rstrip(".")
        wrong = said if said.startswith(FOLDER_FILE) else f"{FOLDER_FILE}: {said}"
    effect = "Only its settings that leave notes out are used."
    if blocks:
        effect = (
            "New and changed notes stay out until you correct it, as it may keep them private. "
            "What was indexed before is still shown."
        )
    return replace(
        _with_folder_values(config, kept),
        folder_file_error=f"{wrong}. {effect}",
        blocks_indexing=blocks,
    )


def _valid_items(key: str, value: Any, root: str) -> tuple[str, ...]:
    """Return the valid items of a list that excludes notes."""
    if not (
        key in settings_by_key() and key.startswith(_EXCLUDING_KEYS) and isinstance(value, list)
    ):
        return ()
    right = []
    for item in value:
        with suppress(ConfigError):
            right += _checked_value(key, [item], FOLDER_FILE, root)
    return tuple(right)


def _may_exclude(key: str, value: Any) -> bool:
    """Return whether an invalid key may have been meant to exclude notes."""
    if key in settings_by_key():
        return key.startswith(_EXCLUDING_KEYS)
    return not key.startswith("query.") or isinstance(value, (str, list, dict))


def _with_folder_values(config: Config, given: Mapping[str, Any]) -> Config:
    values = {key: value for key, value in given.items() if key not in config.pinned}
    # The user's own globs come last, as the last one decides: what begins with `!` takes away from
    # the folder's alone.
    values |= {
        key: (*value, *_value_of(config, key))
        for key, value in given.items()
        if key.startswith(_ADDITIVE_KEYS)
    }
    own_config: Config = replace(
        _apply(config, values), explicit_keys=config.explicit_keys | values.keys()
    )
    _check_together(own_config)
    return own_config


def _read_folder_file(folder: Path) -> bytes:
    """Return a folder's own file, empty where there is none; raise OSError, or ConfigError where it
    is no file of the folder, or too large.
    """
    own = folder / FOLDER_FILE
    real = os.path.realpath(own)
    if Path(real).parent != Path(os.path.realpath(folder)):  # a symlink may lead anywhere
        raise ConfigError(f"{FOLDER_FILE}: is a symlink to another folder, and is not read")
    try:
        descriptor = os.open(real, _OPEN_FLAGS)
    except OSError:
        if os.path.lexists(own):
            raise
        return b""  # or a folder that may not be looked into: whoever walks it says so
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{FOLDER_FILE}: is not a regular file, and is not read")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_FOLDER_FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MAX_FOLDER_FILE_BYTES:
        raise ConfigError(f"{FOLDER_FILE}: has more than {MAX_FOLDER_FILE_BYTES:,} bytes")
    return data


def user_config_file() -> Path:
    """Return where the user's own configuration lies, whether it is there or not."""
    return user_config_path("thumbindex") / "config.toml"


def resolve_folders(
    config: Config,
    names: Sequence[str | Path] = (),
    is_known: Callable[[Path], bool] = lambda _: False,
) -> tuple[tuple[str, Path], ...]:
    """Return (name, absolute root) of each folder: configured names or paths; none gives the
    configured ones, else the current folder.

    Raises UnknownFolderError for a folder that is not there, unless it `is_known`: a drive that is
    not mounted just now comes back.
    """
    configured = configured_roots(config)
    found: list[Path] = []
    for name in list(names) or list(configured) or [Path(current_folder())]:
        if not str(name).strip():
            raise UsageError(
                "A folder is named, but its name is empty: write it, or leave the option out "
                "to mean the current folder."
            )
        root = configured.get(str(name)) or real_folder(name)
        # a name may be too long for the system
        if not os.path.isdir(root) and not is_known(root):  # noqa: PTH112
            raise UnknownFolderError(_no_folder_message(str(name), root, sorted(configured)))
        found.append(root)
    return tuple(sorted(folder_names(configured, found).items()))


def folder_names(configured: Mapping[str, Path], roots: Iterable[Path]) -> dict[str, Path]:
    """Return folders by name: the configured one, else the directory's, with those above it where
    that name alone means several folders.
    """
    names: dict[str, Path] = {}
    others = []
    for root in roots:
        if name := next((name for name, path in configured.items() if path == root), ""):
            names[name] = root
        else:
            others.append(root)
    for root in others:
        is_taken = {tail for other in others if other != root for tail in _tails(other)}
        is_taken |= configured.keys()
        last = str(root) if root.name in is_taken else root.name or "root"
        names[next((tail for tail in _tails(root) if tail not in is_taken), last)] = root
    return names


def _tails(root: Path) -> list[str]:
    return ["/".join(root.parts[-length:]) for length in range(1, len(root.parts))]


def configured_roots(config: Config) -> dict[str, Path]:
    """Return the absolute root of each folder that is configured, by its name."""
    return {name: real_folder(path) for name, path in config.folders.items()}


def absolute_path(path: str | Path) -> Path:
    """Return an absolute path, relative to the current directory of the command, which may be
    another process.
    """
    written = Path(path).expanduser()
    return written if written.is_absolute() else Path(current_folder(), written)


def real_folder(path: str | Path) -> Path:
    """Return a folder's absolute path, links followed; where upper and lower case are one (macOS),
    it is spelled as on disk.

    Else one folder would have two indexes, and two sets of rights.
    """
    real = absolute_path(path).resolve()
    try:
        if not real.samefile(str(real).swapcase()):
            return real
    except (OSError, ValueError):
        return real
    spelled = Path(real.anchor)
    for name in real.parts[1:]:
        names = _names_in(spelled)
        if name not in names:
            name = next((each for each in names if _folded(each) == _folded(name)), name)
        spelled /= name
    return spelled


def _names_in(folder: Path) -> Sequence[str]:
    try:
        return [each.name for each in folder.iterdir()]
    except OSError:  # what may not be listed is taken as it was written
        return ()


def _folded(name: str) -> str:
    return normalize("NFC", name).casefold()


@cache
def settings_by_key() -> Mapping[str, Setting]:
    """Return every setting by its dotted key, in the order of `config.toml`."""
    return {each.key: each for each in _walk(Config, "")}


def changed_settings(config: Config) -> dict[str, Any]:
    """Return the settings that differ from their defaults, by their dotted keys."""
    now = {key: _value_of(config, key) for key in settings_by_key()}
    return {key: value for key, value in now.items() if value != settings_by_key()[key].default}


def _walk(table: Any, prefix: str) -> Iterator[Setting]:
    hints = get_type_hints(table)
    instance = table()
    # Plain keys stand before tables, as TOML needs them; `sorted` is stable.
    for each in sorted(fields(table), key=lambda each: is_dataclass(hints[each.name])):
        key, kind = f"{prefix}{each.name}", hints[each.name]
        if is_dataclass(kind):
            yield from _walk(kind, f"{key}.")
        elif each.metadata:
            yield Setting(key, kind, getattr(instance, each.name), **each.metadata)


def _apply(table: Any, values: Mapping[str, Any], prefix: str = "") -> Any:
    given: dict[str, Any] = {}
    for field in fields(table):
        key, now = f"{prefix}{field.name}", getattr(table, field.name)
        if is_dataclass(now):
            given[field.name] = _apply(now, values, f"{key}.")
        elif key in values:
            given[field.name] = values[key]
    return replace(table, **given)


def _value_of(config: Config, key: str) -> Any:
    return reduce(getattr, key.split("."), config)


# ------------------------------------------------------------------ one layer


def _read_layer(path: Path) -> dict[str, Any]:
    try:
        document = _parse(str(path), path.read_bytes())
    except OSError as error:
        raise ConfigError(
            f"{path}: the configuration cannot be read ({error.strerror}): name another file "
            "with --config."
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
            f"{place}: the configuration is not UTF-8 (byte {error.start}): save it as UTF-8."
        ) from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        where = f"{place}:{line[1]}" if line else place
        hint = ": write a path between single quotes" if b"\\" in data else ""
        raise ConfigError(f"{where}: not valid TOML: {error}{hint}") from error
    except ValueError as error:
        raise ConfigError(f"{place}: not valid TOML: a number with too many digits") from error
    except RecursionError as error:
        raise ConfigError(f"{place}: not valid TOML: too many nested brackets") from error


def _checked_value(key: str, value: Any, place: str, root: str = "") -> Any:
    """Return a key's value, checked and converted; `root` is the folder whose own file sets it."""
    if key not in settings_by_key():
        raise ConfigError(f"{place}: {_unknown_key(key)}")
    if root and not key.startswith(FOLDER_FILE_KEYS):
        raise ConfigError(
            f"{place}: `{key}` may not be set in a folder's own {FOLDER_FILE}: set it in "
            f"{user_config_file()} or with --config."
        )
    taken = _check(settings_by_key()[key], value, place)
    for glob in taken if key == _PRIVATE_GLOBS else ():
        if wrong := _wrong_glob(glob, root):
            raise ConfigError(f"{place}: `{key}` {_show_value(glob)} {wrong}.")
    return taken


def _read_override(override: str) -> dict[str, Any]:
    key, equals, written = (part.strip() for part in override.partition("="))
    where = f"--set {_shorten(one_line(redact_passwords(override)), 2 * _MAX_SHOWN)}"
    if not equals:
        raise ConfigError(f"{where}: write it as TABLE.KEY=VALUE, for example query.limit=10.")
    kind = settings_by_key()[key].kind if key in settings_by_key() else None
    value: Any = written
    with suppress(ValueError, RecursionError):  # text need not stand between quotes here
        value = tomllib.loads(f"value = {written}")["value"]
    if kind is str and not isinstance(value, str):
        value = written
    if kind == tuple[str, ...] and isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    return {key: _checked_value(key, value, where)}


def _flatten(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield each key with its value; what is below no table that is known comes as one."""
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and key in _tables():
            yield from _flatten(value, f"{key}.")
        else:
            yield key, value


@cache
def _tables() -> frozenset[str]:
    return frozenset(
        known[: dot.start()] for known in settings_by_key() for dot in re.finditer(r"\.", known)
    )


def _unknown_key(key: str) -> str:
    if key in _tables():
        return f"`{key}` is a table: write its keys below [{key}]."
    shown = _shorten(key)
    table = shown.rpartition(".")[0]
    prefix = f"{table}." if table in _tables() else ""  # elsewhere a key sets something else
    known = [
        other.removeprefix(prefix)
        for other in (*settings_by_key(), *sorted(_tables()))
        if other.startswith(prefix)
    ]
    near = get_close_matches(shown.removeprefix(prefix), known, n=1)
    meant = (
        f"did you mean `{prefix}{near[0]}`?" if near else "docs/configuration.md lists all keys."
    )
    return f"unknown key `{shown}`: {meant}"


# ------------------------------------------------------------------ one value


def _check(known: Setting, value: Any, place: str) -> Any:
    checked = _coerce(known.kind, value)
    if checked is None:
        raise ConfigError(
            f"{place}: `{known.key}` must be {_KINDS[known.kind]}, not {_show_value(value)}."
        )
    for part in (checked if isinstance(checked, tuple) else (checked,)) if known.choices else ():
        if part not in known.choices:
            near = get_close_matches(_shorten(part), known.choices, n=1)
            meant = f"did you mean `{near[0]}`?" if near else f"give {', '.join(known.choices)}."
            raise ConfigError(f"{place}: `{known.key}` takes no {_show_value(part)}: {meant}")
    below = known.minimum is not None and not checked >= known.minimum
    above = known.maximum is not None and not checked <= known.maximum
    if below or above:
        raise ConfigError(
            f"{place}: `{known.key}` must be {describe_limits(known)}, not {_show_value(value)}."
        )
    return checked


def _wrong_glob(glob: str, root: str) -> str:
    """Return why a private glob can match nothing; empty if it may match.

    `root` is the folder whose own file holds it: who writes there is not told what else is on the
    disk.
    """
    text = glob.removeprefix("!")
    if not text.strip():
        return "is empty: leave it out"
    parts = re.split(r"[/\\]+", text)
    is_absolute = text.startswith(f"{root}/") if root else _is_on_disk(parts)
    if text[0].isspace() or text[0] == "#":
        return "begins with a blank or #, as a comment does: take it away, or write '\\#'"
    has_names = re.search(r"\{[^{},]*+,[^{}]*+\}", text) or re.search(r"[!@+]\(.*\)", glob)
    if has_names or text.count("{") != text.count("}"):
        return "holds names in braces or parentheses: write a glob for each name"
    if is_absolute or parts[0] == "~" or ".." in parts or re.match(r"[A-Za-z]:", text):
        return "is no path below the folder: write it relative to the folder, as 'private/**'"
    if "." in parts or "//" in text:
        return "contains `./` or `//`, which no path has: take it away"
    return ""


def _is_on_disk(parts: Sequence[str]) -> bool:
    """Return whether a glob begins with an absolute path of this machine, of two directories at
    least.
    """
    first = "/".join(parts[:3])
    return len(parts) > 2 and not parts[0] and not _WILDCARD.search(first) and os.path.isdir(first)  # noqa: PTH112


def _show_value(value: Any) -> str:
    """Return a value as a message shows it, shortened."""
    if isinstance(value, str):
        return repr(_shorten(value))
    if isinstance(value, (Mapping, list)):
        return "a table" if isinstance(value, Mapping) else "a list"
    # of thousands of digits Python writes none
    is_long = isinstance(value, int) and value.bit_length() > _MAX_SHOWN
    return "a number that large" if is_long else repr(value)


def _shorten(text: str, most: int = _MAX_SHOWN) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def describe_limits(known: Setting) -> str:
    """Return the range of a numeric setting in words; empty if it has none."""
    if known.minimum is not None and known.maximum is not None:
        return f"{known.minimum} to {known.maximum}"
    if known.minimum is not None:
        return f"at least {known.minimum}"
    return f"at most {known.maximum}" if known.maximum is not None else ""


_KINDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    tuple[str, ...]: "a list of strings",
    Mapping[str, str]: 'a table with a line `name = "path"` a folder',
}


def _coerce(kind: Any, value: Any) -> Any:
    """Return the value as its setting holds it, or None where it is of another type."""
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


def _check_together(config: Config) -> None:
    same = config.query.deduplicate
    if config.query.runs("deduplicate") and same.method == "exact_field" and not same.field:
        raise ConfigError(
            "`query.deduplicate.method` is `exact_field`: name the field in "
            "`query.deduplicate.field`, as in `front_matter.id`."
        )
    for low, high in _ORDERED_KEYS:
        least, most = _value_of(config, low), _value_of(config, high)
        if least > most:
            raise ConfigError(
                f"`{low}` ({least}) must not be above `{high}` ({most}): change one of them."
            )


# ------------------------------------------------------------------ folders


def _no_folder_message(given: str, root: Path, configured: Sequence[str]) -> str:
    if os.path.exists(root):  # noqa: PTH110
        return (
            f"{given}: that is a file: name the folder that holds it; `query --path` asks of "
            "single files."
        )
    near = get_close_matches(given, [name for name in configured if name != given], n=1)
    if near:
        known = f"did you mean `{near[0]}`?"
    elif configured:
        known = f"check the path; or name a configured one: {', '.join(configured)}."
    else:
        known = "check the path; no folder is configured by a name."
    there = "There" if given == str(root) else f"{given}: there"
    return f"{there} is no folder {root}: {known}"


def _read_folders(
    folders: Any, path: Path
) -> tuple[dict[str, str], dict[str, str], dict[str, tuple[str, ...]]]:
    """Return the folders' paths, what they are about, and the tokens that are named to see them, by
    name, of `[folders]`, `[folders.NAME]` or `[[folders]]`. Raises ConfigError.
    """
    if isinstance(folders, dict):
        tables = [
            (name, table if isinstance(table, dict) else {"path": table})
            for name, table in folders.items()
        ]
    elif isinstance(folders, list) and all(isinstance(table, dict) for table in folders):
        tables = [(table.pop("name", None), table) for table in folders]
    else:
        raise ConfigError(f"{path}: `folders` must be {_KINDS[Mapping[str, str]]}.")
    paths: dict[str, str] = {}
    about: dict[str, str] = {}
    granted: dict[str, tuple[str, ...]] = {}
    for name, table in tables:
        _check_folder(name, table, path)
        if name in paths:
            raise ConfigError(
                f"{path}: there are two folders of the name {name!r}: call one of them otherwise."
            )
        paths[name] = str(path.parent / Path(table["path"]).expanduser())
        if table.get("about"):
            about[name] = one_line(table["about"])[:MAX_ABOUT_CHARS]
        if "tokens" in table:
            granted[name] = tuple(table["tokens"])
    roots: dict[Path, str] = {}
    for name, to in paths.items():
        root = real_folder(to)
        if (other := roots.setdefault(root, name)) != name:
            raise ConfigError(
                f"{path}: {name!r} is the folder that {other!r} is, {root}: leave one of "
                "them out, and give the other the tokens of both."
            )
    return paths, about, granted


def _check_rights_kept(
    before: Mapping[str, str], folders: Mapping[str, str], granted: Collection[str], where: str
) -> None:
    """Raise ConfigError where a later layer names a folder again, or a part of it, whose rights an
    earlier one states, and states none.
    """
    guarded = {name: real_folder(path) for name, path in before.items()}
    for name, path in folders.items():
        root = real_folder(path)
        for other, known in guarded.items() if name not in granted else ():
            if name == other or root.is_relative_to(known) or known.is_relative_to(root):
                raise ConfigError(
                    f"{where}: the folder {name!r} names no `tokens`, and an earlier configuration "
                    f"names some for {other!r}, {known}: "
                    'write it as [[folders]] with name, path and tokens, ["*"] if every token may '
                    "see it."
                )


def _check_folder(name: Any, table: Mapping[str, Any], path: Path) -> None:
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"{path}: a folder needs `name`, a string.")
    for key in table.keys() - {*_FOLDER_KEYS}:
        near = get_close_matches(key, _FOLDER_KEYS, n=1)
        meant = f"did you mean `{near[0]}`?" if near else "a folder has name, path, about, tokens."
        if key == "name":
            meant = "the name stands in the header, take it out here."
        raise ConfigError(f"{path}: unknown key `folders.{_shorten(key)}`: {meant}")
    if not isinstance(to := table.get("path"), str) or not to.strip():
        raise ConfigError(f"{path}: the folder {name!r} needs `path`, a string.")
    if not isinstance(table.get("about", ""), str):
        raise ConfigError(f"{path}: `about` must be a string: a sentence on what the folder holds.")
    tokens = table.get("tokens", [])
    if not isinstance(tokens, list) or not all(
        isinstance(token, str) and token.strip() for token in tokens
    ):
        raise ConfigError(
            f'{path}: `tokens` must be a list of token names, as ["alice", "bob"], or ["*"] '
            "for every token."
        )
