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
from functools import cache, partial, reduce
from pathlib import Path
from typing import Any, NewType, get_type_hints
from unicodedata import normalize

from platformdirs import user_config_path

from thumbindex.errors import ConfigError, UnknownFolderError, UsageError
from thumbindex.process import current_folder
from thumbindex.settings import STAGE_NAMES, Config
from thumbindex.text import one_line, without_password

FOLDER_FILE = "thumbindex.toml"
"""The only file of a vault that is read as configuration; a `config.toml` there belongs to someone
else.
"""

NOWHERE = Path("/dev/null")
"""Where what is published to a database is said to lie: below a file, so that nothing can be read
there by mistake.
"""

HARMLESS = ("corpus.include", "corpus.exclude", "corpus.chunk.", "corpus.private.", "query.")
"""What a folder's own file may set: it may come from anyone, so never models, paths or folders."""

PRIVATE_GLOBS = "corpus.private.globs"

_WILDCARD = re.compile(r"[*?\[]")

LEAVES_OUT = ("corpus.include", "corpus.exclude", "corpus.private.")
"""Keys that leave notes out. If one is wrong in a folder's own file, no new note is indexed."""

ADDED = "corpus.private."
"""Where a folder's own file adds to what the user says and takes nothing away: what is private
stays so.
"""

MOST_FOLDER_FILE = 100_000
"""Bytes of a folder's own file: TOML is read ten times as slowly as ignore rules are."""

MOST_DOTS = 1_000_000
"""What the dots of a folder's own file may come to: the parser takes time by the parts of the
longest key, times those of all keys and lines.
"""

MOST_STRINGS, LONGEST_STRING = 1_000, 500
"""How many globs or tags a list of a folder's own file may hold, and how many characters each: all
of them are asked of each note.
"""

LONGEST_ABOUT = 300
"""Characters of what is said about a folder: a client's model reads it with every greeting."""

_READING = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
"""Follows no symlink that was put there just now, and waits for no pipe."""

_LONGEST_SHOWN = 60
"""Characters of a key or value that a message shows."""

_ORDERED = (
    ("corpus.chunk.child_max", "corpus.chunk.parent_max"),
    ("query.confidence.abstain", "query.confidence.doubt"),
)

Key = NewType("Key", str)
"""A setting's dotted name, as in `query.fuse.k`."""

_FOLDER_KEYS = ("name", "path", "about", "tokens")
_FOLDERS, _ABOUT, _GRANTED, _TOKEN_FILE = (
    Key("folders"),
    Key("about"),
    Key("granted"),
    Key("serve.http.token_file"),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One key with what is allowed for it."""

    key: Key
    kind: Any
    default: Any
    meaning: str
    least: float | None
    most: float | None
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
    values: dict[Key, Any] = {}
    home = Path(user_file) if user_file is not None else user_config_file()
    if _is_there(home):
        values |= _read_layer(home)
    pinned: dict[Key, Any] = {}
    if config_file is not None:
        pinned |= _read_layer(Path(config_file).expanduser())
        if _FOLDERS in pinned and values.get(_GRANTED):
            before = {name: values[_FOLDERS][name] for name in values[_GRANTED]}
            _check_rights_kept(before, pinned[_FOLDERS], pinned[_GRANTED], f"{config_file}")
    for override in overrides:
        pinned |= _read_override(override)
    written = frozenset({**values, **pinned}) - {_ABOUT, _GRANTED}
    config: Config = replace(
        _apply(Config(), {**values, **pinned}), pinned=frozenset(pinned), written=written
    )
    _check_together(config)
    return config if folder is None else with_folder_file(config, folder)


def _is_there(path: Path) -> bool:
    """Tell whether anything has this name, readable or not: a broken link too."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def with_folder_file(config: Config, folder: str | Path) -> Config:
    """Return the configuration that holds for a folder: its own `thumbindex.toml` over all but what
    `--config` and `--set` say.

    Nothing is raised. Of a wrong file only the right keys that leave notes out hold, and `problem`
    says what is wrong. If it may leave out more than can be read, the configuration is `closed`.
    """
    kept: dict[Key, Any] = {}
    closed, root = True, os.path.realpath(folder)
    try:
        source, path = _own_text(_read_own_file(Path(folder))), Path(FOLDER_FILE)
        flat = list(_flatten(_parse(path, source), ""))
        for key, value in flat:
            if right := _right_items(key, value, root):  # they hold, whatever is wrong beside them
                kept[key] = right
        closed = any(
            _may_leave_out(key, value) for key, value in flat if value != list(kept.get(key, ()))
        )
        given = {
            key: _taken(key, value, partial(_place, path, source, key), HARMLESS, root)
            for key, value in flat
        }
        return _with_own(config, given)
    except OSError as error:
        wrong = f"{FOLDER_FILE}: cannot be read ({error.strerror or error})"
    except ConfigError as error:
        said = one_line(str(error)).rstrip(".")
        wrong = said if said.startswith(FOLDER_FILE) else f"{FOLDER_FILE}: {said}"
    effect = "Only its settings that leave notes out are used."
    if closed:
        effect = (
            "New and changed notes stay out until you correct it, as it may keep them private. "
            "What was indexed before is still shown."
        )
    return replace(_with_own(config, kept), problem=f"{wrong}. {effect}", closed=closed)


def _right_items(key: Key, value: Any, root: str) -> tuple[str, ...]:
    """Return the right items of a list that leaves notes out."""
    if not (key in settings() and key.startswith(LEAVES_OUT) and isinstance(value, list)):
        return ()
    right = []
    for item in value[:MOST_STRINGS]:
        with suppress(ConfigError):
            right += _taken(key, [item], str, HARMLESS, root)
    return tuple(right)


def _may_leave_out(key: Key, value: Any) -> bool:
    """Tell whether a key that does not hold may mean to leave notes out."""
    if key in settings():
        return key.startswith(LEAVES_OUT)
    return not key.startswith("query.") or isinstance(value, (str, list, dict))


def _with_own(config: Config, given: Mapping[Key, Any]) -> Config:
    values = {key: value for key, value in given.items() if key not in config.pinned}
    # The user's own globs come last, as the last one decides: what begins with `!` takes away from
    # the folder's alone.
    values |= {
        key: (*value, *_read(config, key)) for key, value in given.items() if key.startswith(ADDED)
    }
    own_config: Config = replace(_apply(config, values), written=config.written | values.keys())
    _check_together(own_config)
    return own_config


def _read_own_file(folder: Path) -> bytes:
    """Return the beginning of a folder's own file, empty where there is none; raise OSError, or
    ConfigError where it is no file of the folder.
    """
    own = folder / FOLDER_FILE
    real = os.path.realpath(own)
    if Path(real).parent != Path(os.path.realpath(folder)):  # a symlink may lead anywhere
        raise ConfigError(f"{FOLDER_FILE}: is a symlink to another folder, and is not read")
    try:
        descriptor = os.open(real, _READING)
    except OSError:
        if os.path.lexists(own):
            raise
        return b""  # or a folder that may not be looked into: whoever walks it says so
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{FOLDER_FILE}: is not a regular file, and is not read")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(MOST_FOLDER_FILE + 1)
    finally:
        os.close(descriptor)


def _own_text(data: bytes) -> str:
    if len(data) > MOST_FOLDER_FILE:
        raise ConfigError(f"{FOLDER_FILE}: has more than {MOST_FOLDER_FILE:,} bytes")
    source = _decode(Path(FOLDER_FILE), data)
    dots = [line.count(".") for line in source.split("\n")]
    if max(dots) * (sum(dots) + len(dots)) > MOST_DOTS:
        raise ConfigError(
            f"{FOLDER_FILE}:{dots.index(max(dots)) + 1}: has {max(dots):,} dots in one line: "
            "write each glob on a line of its own"
        )
    return source


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
    for each in list(names) or list(configured) or [Path(current_folder())]:
        if not str(each).strip():
            raise UsageError(
                "A folder is named, but its name is empty: write it, or leave the option out "
                "to mean the current folder."
            )
        root = configured.get(str(each)) or real_folder(each)
        # a name may be too long for the system
        if not os.path.isdir(root) and not is_known(root):  # noqa: PTH112
            raise UnknownFolderError(_no_folder(str(each), root, sorted(configured)))
        found.append(root)
    return tuple(sorted(folder_names(configured, found).items()))


def folder_names(configured: Mapping[str, Path], roots: Iterable[Path]) -> dict[str, Path]:
    """Return folders by name: the configured one, else the directory's, with those above it where
    that name alone means several folders.
    """
    own = {
        root: next((name for name, path in configured.items() if path == root), "")
        for root in roots
    }
    names = {name: root for root, name in own.items() if name}
    others = [root for root, name in own.items() if not name]
    for root in others:
        tails = ("/".join(root.parts[-length:]) for length in range(1, len(root.parts)))
        is_taken = {
            "/".join(each.parts[-length:])
            for each in others
            if each != root
            for length in range(1, len(each.parts))
        } | set(configured)
        last = str(root) if root.name in is_taken else root.name or "root"
        name = next((tail for tail in tails if tail not in is_taken), last)
        names[name] = root
    return names


def configured_roots(config: Config) -> dict[str, Path]:
    """Return the absolute root of each folder that is configured, by its name."""
    return {name: real_folder(path) for name, path in config.folders.items()}


def absolute(path: str | Path) -> Path:
    """Return a path as the user who wrote it sees it: from the current directory of the command,
    which may be another process.
    """
    written = Path(path).expanduser()
    return written if written.is_absolute() else Path(current_folder(), written)


def real_folder(path: str | Path) -> Path:
    """Return a folder's absolute path, links followed; where upper and lower case are one (macOS),
    it is spelled as on disk.

    Else one folder would have two indexes, and two sets of rights.
    """
    real = absolute(path).resolve()
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
def settings() -> Mapping[Key, Setting]:
    """Return every setting by its dotted key, in the order of `config.toml`."""
    return {each.key: each for each in _walk(Config, "")}


def changed(config: Config) -> dict[Key, Any]:
    """Return the settings that are not at their defaults, by their dotted keys."""
    now = {key: _read(config, key) for key in settings()}
    return {key: value for key, value in now.items() if value != settings()[key].default}


def _walk(table: Any, prefix: str) -> Iterator[Setting]:
    hints = get_type_hints(table)
    instance = table()
    # Plain keys stand before tables, as TOML needs them; `sorted` is stable.
    for each in sorted(fields(table), key=lambda each: is_dataclass(hints[each.name])):
        if is_dataclass(kind := hints[each.name]):
            yield from _walk(kind, f"{prefix}{each.name}.")
        elif told := each.metadata:
            key = Key(prefix + each.name)
            yield Setting(
                key,
                kind,
                getattr(instance, each.name),
                told["meaning"],
                told["least"],
                told["most"],
                told["choices"],
            )


def _apply(table: Any, values: Mapping[Key, Any], prefix: str = "") -> Any:
    given: dict[str, Any] = {}
    for each in fields(table):
        key, now = Key(prefix + each.name), getattr(table, each.name)
        if is_dataclass(now):
            given[each.name] = _apply(now, values, f"{key}.")
        elif key in values:
            given[each.name] = values[key]
    return replace(table, **given)


def _read(config: Config, key: str) -> Any:
    return reduce(getattr, key.split("."), config)


# ------------------------------------------------------------------ one layer


def _read_layer(path: Path) -> dict[Key, Any]:
    try:
        source = _decode(path, path.read_bytes())
    except OSError as error:
        raise ConfigError(
            f"{path}: the configuration cannot be read ({error.strerror}): name another file "
            "with --config."
        ) from error
    document = _parse(path, source)
    values: dict[Key, Any] = {_ABOUT: {}, _GRANTED: {}} if _FOLDERS in document else {}
    if tables := _folder_tables(document.get(_FOLDERS), path, source):
        document[_FOLDERS], values[_ABOUT], values[_GRANTED] = _read_folder_tables(tables, path)
    for key, value in _flatten(document, ""):
        values[key] = _taken(key, value, lambda key=key: _place(path, source, key))  # type: ignore[misc]
    if values.get(_TOKEN_FILE):
        values[_TOKEN_FILE] = str(path.parent / Path(values[_TOKEN_FILE]).expanduser())
    if _FOLDERS in values:
        values[_FOLDERS] = {
            name: str(path.parent / Path(to).expanduser()) for name, to in values[_FOLDERS].items()
        }
    return values


def _decode(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: the configuration is not UTF-8 (byte {error.start}): save it as UTF-8."
        ) from error


def _parse(path: Path, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        where = f"{path}:{line[1]}" if line else str(path)
        written = source.split("\n")[int(line[1]) - 1] if line else ""
        hint = ""
        if "\\" in written:
            hint = (
                ". Between double quotes a backslash begins an escape: write a path between "
                "single quotes"
            )
        raise ConfigError(f"{where}: not valid TOML: {error}{hint}") from error
    except (ValueError, RecursionError) as error:
        what = (
            "a number with too many digits"
            if isinstance(error, ValueError)
            else "too many brackets inside each other"
        )
        raise ConfigError(f"{path}: not valid TOML: {what}") from error


def _taken(
    key: Key, value: Any, place: Callable[[], str], only: tuple[str, ...] = (), root: str = ""
) -> Any:
    """Return a key's value as its setting holds it; `only` are the keys that the own file of the
    folder `root` may set.
    """
    if key not in settings():
        raise ConfigError(f"{place()}: {_unknown(key)}")
    if only and not key.startswith(only):
        raise ConfigError(
            f"{place()}: `{key}` may not be set in a folder's own {FOLDER_FILE}: set it in "
            f"{user_config_file()} or with --config."
        )
    taken = _check(settings()[key], value, place)
    if (
        only
        and isinstance(taken, tuple)
        and (len(taken) > MOST_STRINGS or max(map(len, taken), default=0) > LONGEST_STRING)
    ):
        raise ConfigError(
            f"{place()}: `{key}` takes at most {MOST_STRINGS:,} strings of at most "
            f"{LONGEST_STRING} characters here"
        )
    _refuse_globs(key, taken, place, root)
    return taken


def _read_override(override: str) -> dict[Key, Any]:
    key, equals, written = override.partition("=")
    key = key.strip()
    where = f"--set {_shortened(one_line(without_password(override)), 2 * _LONGEST_SHOWN)}"
    if not equals:
        raise ConfigError(f"{where}: write it as TABLE.KEY=VALUE, for example query.limit=10.")
    known = settings().get(Key(key))
    if known is None:
        raise ConfigError(f"{where}: {_unknown(key)}")
    written = written.strip()
    value: Any = written
    with suppress(ValueError, RecursionError):  # text need not stand between quotes here
        value = tomllib.loads(f"value = {written}")["value"]
    if known.kind is str and not isinstance(value, str):
        value = written
    if known.kind == tuple[str, ...] and isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    checked = _check(known, value, lambda: where)
    _refuse_globs(known.key, checked, lambda: where)
    return {known.key: checked}


def _flatten(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[Key, Any]]:
    """Yield each key with its value; what is below no table that is known comes as one."""
    for name, value in table.items():
        key = Key(prefix + name)
        if isinstance(value, Mapping) and key in _tables():
            yield from _flatten(value, f"{key}.")
        else:
            yield key, value


@cache
def _tables() -> frozenset[str]:
    return frozenset(
        known[: dot.start()] for known in settings() for dot in re.finditer(r"\.", known)
    )


def _unknown(key: str) -> str:
    shown = _shortened(key)
    if (
        key.endswith(".enabled")
        and key.removeprefix("query.").removesuffix(".enabled") in STAGE_NAMES
    ):
        return (
            f"unknown key `{shown}`: did you mean `query.skip`, the list of the stages that are "
            "left out?"
        )
    if key in _tables():
        return f"`{key}` is a table: write its keys below [{key}]."
    table, _, name = shown.rpartition(".")
    known = [*settings(), *sorted(_tables())]
    if table in _tables():  # a key of another table would set something else
        near = get_close_matches(
            name,
            [each.rpartition(".")[2] for each in known if each.rpartition(".")[0] == table],
            n=1,
        )
        near = [f"{table}.{each}" for each in near]
    else:
        near = (
            get_close_matches(shown, known, n=1)
            or [each for each in known if not table and each.endswith(f".{name}")][:1]
        )
    return f"unknown key `{shown}`" + (
        f": did you mean `{near[0]}`?" if near else ": docs/configuration.md lists every key."
    )


def _place(path: Path, source: str, key: str) -> str:
    table, _, name = key.rpartition(".")
    current = ""
    if len(key) > _LONGEST_SHOWN:
        return str(path)
    for number, line in enumerate(source.splitlines(), start=1):
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            current = header[1].replace(" ", "").replace('"', "")
        if (current == table and re.match(rf"\s*\"?{re.escape(name)}\"?\s*=", line)) or (
            header and current == key
        ):
            return f"{path}:{number}"
    return str(path)


# ------------------------------------------------------------------ one value


def _check(known: Setting, value: Any, place: Callable[[], str]) -> Any:
    checked = _coerce(known.kind, value)
    if checked is None:
        raise ConfigError(
            f"{place()}: `{known.key}` must be {_KINDS[str(known.kind)]}, not {_shown(value)}."
        )
    parts = checked if isinstance(checked, tuple) else (checked,)
    if (
        known.choices
        and (wrong := next((each for each in parts if each not in known.choices), None)) is not None
    ):
        if isinstance(checked, tuple) and (
            near := get_close_matches(_shortened(wrong), known.choices, n=1)
        ):
            raise ConfigError(
                f"{place()}: `{known.key}` takes no {_shown(wrong)}: did you mean `{near[0]}`?"
            )
        raise ConfigError(
            f"{place()}: `{known.key}` must be one of {', '.join(known.choices)}, not "
            f"{_shown(wrong)}."
        )
    below = known.least is not None and not checked >= known.least
    above = known.most is not None and not checked <= known.most
    if below or above:
        raise ConfigError(f"{place()}: `{known.key}` must be {limits(known)}, not {_shown(value)}.")
    return checked


def _refuse_globs(key: Key, value: Any, place: Callable[[], str], root: str = "") -> None:
    """Raise ConfigError for a private glob that can match nothing."""
    for glob in value if key == PRIVATE_GLOBS else ():
        if wrong := _wrong_glob(glob, root):
            raise ConfigError(f"{place()}: `{key}` {_shown(glob)} {wrong}.")


def _wrong_glob(glob: str, root: str) -> str:
    """Return why a private glob can match nothing, with the form that was meant; empty if it may
    match.

    `root` is the folder whose own file holds it: who writes there is not told what else is on the
    disk.
    """
    sign = "!" if glob.startswith("!") else ""
    text = glob.removeprefix("!")
    parts = re.split(r"[/\\]+", text)
    tail_parts = [part for part in parts if part not in (".", "..", "~")]
    named = [n for n, part in enumerate(tail_parts) if part and not _WILDCARD.search(part)]
    tail = repr(sign + "/".join(tail_parts[named[-1] :]) if named else "private/**")
    if not text.strip():
        return "is empty: leave it out"
    if text[0].isspace():
        return f"begins with a blank: write {sign + text.lstrip()!r}"
    if text[0] == "#":
        return f"begins with #, as a comment does: write '{sign}\\{text}'"
    if braces := re.search(r"\{([^{}]*,[^{}]*)\}", text):
        meant = [
            sign + text[: braces.start()] + name + text[braces.end() :]
            for name in braces[1].split(",")
        ]
        return f"holds braces, which globs here do not know: write {', '.join(map(repr, meant))}"
    if re.search(r"[!@+]\(.*\)", glob):
        return (
            "holds a pattern in parentheses, which globs here do not know: write a glob for each "
            "name"
        )
    if text.count("{") != text.count("}"):
        return (
            "holds half of a pair of braces, which globs here do not know: write a glob for each "
            "name"
        )
    if text[0] == "~" and len(parts[0]) == 1:
        return f"begins in the home directory: write it relative to the folder, as {tail}"
    is_absolute = text.startswith(f"{root}/") if root else _is_on_disk(parts)
    if is_absolute or re.match(r"[A-Za-z]:", text):
        return f"is an absolute path: write it relative to the folder, as {tail}"
    if ".." in parts:
        return f"leads out of the folder: write it relative to the folder, as {tail}"
    if "." in parts or "//" in text:
        return (
            "contains `./` or `//`, which no path has: write "
            f"{sign + '/'.join(part for part in parts if part != '.')!r}"
        )
    return ""


def _is_on_disk(parts: Sequence[str]) -> bool:
    """Return whether a glob begins with an absolute path of this machine, of two directories at
    least.
    """
    first = "/".join(parts[:3])
    return len(parts) > 2 and not parts[0] and not _WILDCARD.search(first) and os.path.isdir(first)  # noqa: PTH112


def _shown(value: Any) -> str:
    """Show what stands in a file, as far as it is short."""
    if isinstance(value, str):
        return repr(_shortened(value))
    if isinstance(value, (Mapping, list)):
        return "a table" if isinstance(value, Mapping) else "a list"
    # of thousands of digits Python writes none
    is_long = isinstance(value, int) and value.bit_length() > _LONGEST_SHOWN
    return "a number that large" if is_long else repr(value)


def _shortened(text: str, most: int = _LONGEST_SHOWN) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def limits(known: Setting) -> str:
    """Say in words what numbers a setting takes; empty where any will do."""
    if known.least is not None and known.most is not None:
        return f"{known.least} to {known.most}"
    if known.least is not None:
        return f"at least {known.least}"
    return f"at most {known.most}" if known.most is not None else ""


_KINDS = {
    str(bool): "true or false",
    str(int): "a whole number",
    str(float): "a number",
    str(str): "a string",
    str(tuple[str, ...]): "a list of strings",
    str(Mapping[str, str]): 'a table with a line `name = "path"` a folder',
}


def _coerce(kind: Any, value: Any) -> Any:
    """Return the value as its setting holds it, or None where it is of another type."""
    if kind in (bool, str):
        return value if isinstance(value, kind) else None
    if kind is int:
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    if kind is float:
        is_number = (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and abs(value) <= sys.float_info.max
        )
        return float(value) if is_number else None
    if isinstance(value, Mapping):
        if kind == Mapping[str, str] and all(isinstance(each, str) for each in value.values()):
            return dict(value)
        return None
    if (
        kind != Mapping[str, str]
        and isinstance(value, (list, tuple))
        and all(isinstance(each, str) for each in value)
    ):
        return tuple(value)
    return None


def _check_together(config: Config) -> None:
    same = config.query.deduplicate
    if config.query.runs("deduplicate") and same.method == "exact_field" and not same.field:
        raise ConfigError(
            "`query.deduplicate.method` is `exact_field`: name the field in "
            "`query.deduplicate.field`, as in `front_matter.id`."
        )
    for low, high in _ORDERED:
        least, most = _read(config, low), _read(config, high)
        if least > most:
            raise ConfigError(
                f"`{low}` ({least}) must not be above `{high}` ({most}): change one of them."
            )


# ------------------------------------------------------------------ folders


def _no_folder(given: str, root: Path, configured: Sequence[str]) -> str:
    if os.path.exists(root):  # noqa: PTH110
        return (
            f"{given}: that is a file: name the folder that holds it; `query --path` asks of "
            "single files."
        )
    near = get_close_matches(given, [name for name in configured if name != given], n=1)
    others = (
        f"or name a configured one: {', '.join(configured)}."
        if configured
        else "no folder is configured by a name."
    )
    known = f"did you mean `{near[0]}`?" if near else f"check the path; {others}"
    there = "There" if given == str(root) else f"{given}: there"
    return f"{there} is no folder {root}: {known}"


def _folder_tables(folders: Any, path: Path, source: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the place and the keys of each folder that is written as a table, `[[folders]]` or
    `[folders.NAME]`, and of those beside it.
    """
    if isinstance(folders, list) and all(isinstance(each, dict) for each in folders):
        lines = [
            number
            for number, line in enumerate(source.splitlines(), start=1)
            if re.match(r"\s*\[\[\s*folders\s*\]\]", line)
        ]
        if len(lines) != len(folders):
            return [(str(path), each) for each in folders]
        return [(f"{path}:{line}", each) for line, each in zip(lines, folders, strict=True)]
    if not isinstance(folders, dict) or not any(
        isinstance(each, dict) for each in folders.values()
    ):
        return []
    places = {name: _place(path, source, f"folders.{name}") for name in folders}
    if wrong := next(
        (name for name, each in folders.items() if isinstance(each, dict) and "name" in each), None
    ):
        raise ConfigError(
            f"{places[wrong]}: the name of a folder stands in its header, [folders.{wrong}]: "
            "take the key `name` out."
        )
    tables: list[tuple[str, Mapping[str, Any]]] = []
    for name, each in folders.items():
        table = each if isinstance(each, dict) else {"path": each}
        tables.append((places[name], {"name": name, **table}))
    return tables


def _read_folder_tables(
    tables: Sequence[tuple[str, Mapping[str, Any]]], path: Path
) -> tuple[dict[str, str], dict[str, str], dict[str, tuple[str, ...]]]:
    """Return the folders' paths, what they are about, and the tokens that are named to see them, by
    name; raise ConfigError with file and line.
    """
    folders: dict[str, str] = {}
    about: dict[str, str] = {}
    granted: dict[str, tuple[str, ...]] = {}
    roots: dict[str, Path] = {}
    for where, table in tables:
        name, to, tokens = _read_folder_table(table, where)
        if name in folders:
            raise ConfigError(
                f"{where}: there are two folders of the name {name!r}: call one of them otherwise."
            )
        root = real_folder(path.parent / Path(to).expanduser())
        if other := next((each for each, known in roots.items() if known == root), None):
            raise ConfigError(
                f"{where}: {name!r} is the folder that {other!r} is, {root}: leave one of "
                "them out, with the tokens of both."
            )
        folders[name], roots[name] = to, root
        if table.get("about"):
            about[name] = one_line(table["about"])[:LONGEST_ABOUT]
        if tokens is not None:
            granted[name] = tokens
    return folders, about, granted


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


def _read_folder_table(
    table: Mapping[str, Any], where: str
) -> tuple[str, str, tuple[str, ...] | None]:
    for key in table.keys() - set(_FOLDER_KEYS):
        near = [f"did you mean `{each}`?" for each in get_close_matches(key, _FOLDER_KEYS, n=1)]
        raise ConfigError(
            f"{where}: unknown key `folders.{key}`: "
            f"{near[0] if near else 'a folder has name, path, about and tokens.'}"
        )
    for key in _FOLDER_KEYS[:2]:
        if not isinstance(table.get(key), str) or not table[key].strip():
            raise ConfigError(f"{where}: a folder needs `{key}`, a string.")
    if not isinstance(table.get("about", ""), str):
        raise ConfigError(
            f"{where}: `about` must be a string: a sentence on what the folder holds."
        )
    tokens = table.get("tokens")
    if tokens is not None and not (
        isinstance(tokens, list) and all(isinstance(each, str) and each.strip() for each in tokens)
    ):
        raise ConfigError(
            f'{where}: `tokens` must be a list of token names, as ["alice", "bob"], or ["*"] '
            "for every token."
        )
    return table["name"], table["path"], None if tokens is None else tuple(tokens)
