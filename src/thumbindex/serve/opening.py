"""How each program of ours begins and ends: what a caller asks to open, exit codes, and errors as
one line on stderr.
"""

from __future__ import annotations

import errno
import functools
import io
import logging
import os
import re
import shlex
import stat
import sys
import traceback
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thumbindex.config import (
    NOWHERE,
    configured_roots,
    load_config,
    real_folder,
    resolve_folders,
    with_folder_file,
)
from thumbindex.errors import ThumbindexError, UnknownFolderError, UsageError
from thumbindex.process import caller
from thumbindex.settings import Config
from thumbindex.text import one_line, without_password

if TYPE_CHECKING:
    from thumbindex.library import Library


_ENGINE_URL = "engine.url="
"""The setting that is kept from children, and from what is printed of an opening."""


@dataclass(frozen=True, slots=True)
class Opening:
    """Folders, index and configuration: the options that every command takes, a server and its
    child too.
    """

    folder: tuple[str, ...] = ()
    index: Path | None = None
    config: Path | None = None
    overrides: tuple[str, ...] = ()
    # the database that is asked, empty the configured one; None where only an index on this machine
    # will do
    engine: str | None = None

    def arguments(self) -> list[str]:
        """Return the same as command line arguments, for a child process; it is not told of a
        database, whose password others would see there.
        """
        overrides = [each for each in self.overrides if not each.startswith(_ENGINE_URL)]
        given = [
            *(("--folder", each) for each in self.folder),
            *(("--set", each) for each in overrides),
        ]
        given += [("--index", str(self.index))] if self.index else []
        given += [("--config", str(self.config))] if self.config else []
        return [f"{name}={value}" for name, value in given]

    def command(self, name: str) -> str:
        """Return how a command over the same is typed where this was."""
        written = (each.partition("=") for each in self.arguments())
        return " ".join(
            [
                f"thumbindex {name}",
                *(f"{option} {shlex.quote(value)}" for option, _, value in written),
            ]
        )

    @classmethod
    def from_arguments(cls, arguments: Sequence[str]) -> Opening:
        """Return what `arguments` wrote."""
        given: dict[str, list[str]] = {}
        for name, _, value in (each.partition("=") for each in arguments):
            given.setdefault(name, []).append(value)
        (index, config) = (
            Path(given[name][-1]) if name in given else None for name in ("--index", "--config")
        )
        return cls(tuple(given.get("--folder", ())), index, config, tuple(given.get("--set", ())))

    def over(self, group: Opening) -> Opening:
        """Return what this names, what a group of commands names where this names nothing."""
        overrides = (*group.overrides, *self.overrides)
        engine = None if self.engine is None else self.engine or group.engine or ""
        return Opening(
            self.folder or group.folder,
            self.index or group.index,
            self.config or group.config,
            overrides,
            engine,
        )

    def load(self) -> Config:
        """Load the configuration; each folder's own file is the library's to take in."""
        return load_config(config_file=self.config, overrides=self.overrides)

    @property
    def database(self) -> str:
        """The address of the database that is asked in place of an index on this machine; empty
        where there is none.
        """
        return "" if self.engine is None else self.engine or self.database_in(self.load())

    def database_in(self, config: Config) -> str:
        """Return the same where the configuration is loaded."""
        return "" if self.engine is None else self.engine or config.engine.url


MayName = Mapping[Path, Callable[[str], bool]]
"""By folder, what tells whether a directory of its first level may be named."""


def library_class() -> type[Library]:
    """Return the library, imported when it is first needed: the handshake and `--help` do without
    (`test_help_imports_nothing_heavy`).
    """
    from thumbindex.library import Library

    return Library


def open_library(opening: Opening) -> Library:
    """Open the library that an opening describes."""
    config = opening.load()
    asked: dict[str, Any] = {"engine": url} if (url := opening.database_in(config)) else {}
    return library_class().open(
        opening.folder, index=opening.index, config=config, wait_for_models=False, **asked
    )


def enclosing(opening: Opening) -> tuple[Opening, str]:
    """Return the opening of the folder around the current directory, the nearest that is configured
    or indexed, and a sentence that says so.

    Where folders are named, or there is none around, it is the same opening, and nothing is said.
    Raises UsageError where none is named or configured and the current directory cannot be meant,
    as a home directory cannot: the index directory lies in it.
    """
    if opening.folder:
        return opening, ""
    config = opening.load()
    if opening.database_in(config):
        return opening, ""
    library, current, directory = (
        library_class(),
        real_folder("."),
        str(opening.index or config.index.directory),
    )
    configured = configured_roots(config)
    for root in (current, *current.parents):
        with suppress(UsageError):  # an index on a network drive is nobody's
            if root in configured.values() or library.place_of(directory, root).store.exists():
                name = next(
                    (name for name, each in configured.items() if each == root), root.name or "root"
                )
                said = (
                    f"Using the index of {one_line(name)} ({root}): the current directory is part "
                    "of it; --folder names another one."
                )
                return replace(
                    opening, folder=(str(root),)
                ), said if root != current or configured else ""
    try:
        if not configured:
            library.place_of(directory, current)
    except UsageError as error:
        raise UsageError(
            "No folder is named, by --folder DIR or `thumbindex add DIR`, so the current one "
            f"is meant. {error}"
        ) from error
    return opening, ""


def open_models(opening: Opening) -> Library:
    """Open no folder at all: for what needs but the models and settings of an opening."""
    return library_class()((), opening.load())


def open_everywhere(opening: Opening) -> Library:
    """Open the indexes in the index directory: those that the opening names by folder path or name,
    else all.
    """
    return library_class().everywhere(
        index=opening.index, config=opening.load(), only=opening.folder
    )


def named_folders(opening: Opening) -> tuple[tuple[str, Path], ...]:
    """Return name and path of each folder that an opening names; one that is away will do where it
    has an index.
    """
    config = opening.load()
    try:
        return resolve_folders(config, opening.folder)
    except UnknownFolderError:
        return library_class().find_folders(
            config, opening.folder, str(opening.index or config.index.directory)
        )


def served_folders(
    opening: Opening, config: Config
) -> tuple[tuple[tuple[str, Path], ...], Mapping[str, str]]:
    """Return name and path of each folder that a server answers from, and what the owners of some
    say about them.
    """
    if not opening.database_in(config):
        return named_folders(opening), config.about
    with open_library(opening) as library:
        said = {each.name: each.config.about.get(each.name, "") for each in library.opened}
        return library.folders, {
            **config.about,
            **{name: about for name, about in said.items() if about},
        }


def is_here(root: Path) -> bool:
    """Tell whether a folder, or a note, lies on this machine, and not in a database."""
    return NOWHERE not in root.parents


def names_allowed(opening: Opening, folders: tuple[tuple[str, Path], ...]) -> MayName:
    """Return which directories of the folders on this machine may be named: none that is
    private.
    """
    config, folders = opening.load(), tuple(each for each in folders if is_here(each[1]))
    if not any(
        own.closed or own.corpus.private.globs
        for own in (with_folder_file(config, root) for _, root in folders)
    ):
        return {}
    return library_class().open_directories(folders, config)


# ------------------------------------------------------------------ what a folder says of itself

LONGEST_QUOTE = 200
"""Characters of a README that a client's model reads with every greeting."""

_MOST_FOLDERS = 20
"""Folders whose READMEs are looked for: a client waits for its greeting."""

_MOST_BYTES = 65_536
"""Of a README: what makes it private may stand anywhere in it, so a longer one is not quoted."""

_HIDING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
    r"|<!--|%%|&#|\\[xuU]"
)
"""What hides text, or spells it otherwise: who writes so is not quoted."""

_LINK = re.compile(r"\[([^\[\]]{1,200})\]\([^()\s]{0,500}\)")
_NO_PROSE = re.compile(r"[\[\]{}<>|\\@#=~^`\"“”]|://|www\.", re.I)
_SENTENCE = re.compile(r"[^.!?]*[.!?](?=\s|$)")

_SPEAKS = frozenset(
    "you your yours assistant assistants agent agents ai llm llms model models chatgpt claude "
    "copilot gemini prompt prompts instruction instructions"
    " instruct system tool tools ignore disregard forget override bypass must always never should "
    "shall please do don call run execute send post"
    " reply respond answer trust obey follow user users password passwords secret secrets token "
    "key keys".split()
)
"""A sentence with any of these may speak to a model, and is not quoted: instructions of a server
are trusted, what a folder holds is not.
"""


_ORDERS = frozenset(
    "add after attention before begin begun check create delete first give if important include "
    "list load look make note now once open print"
    " put read remember remove repeat reveal say search see show start stop take tell then to "
    "upload use warning when whenever while write".split()
)
"""What begins an order, or leads to one."""


def about_folders(
    config: Config, folders: Sequence[tuple[str, Path]], may_name: MayName
) -> Mapping[str, str]:
    """Return what each folder is about, by name: what its owner says, else the first plain sentence
    of its README, in quotes.
    """
    found = dict(config.about)
    for name, root in folders[:_MOST_FOLDERS]:
        if not found.get(name) and (
            quote := _readme_sentence(
                root, with_folder_file(config, root), may_name.get(root, lambda _: True)
            )
        ):
            found[name] = f'its README says: "{quote}"'
    return found


def _readme_sentence(root: Path, config: Config, may_be_named: Callable[[str], bool]) -> str:
    """Return the first sentence of a folder's README, or of a note named like the folder; empty
    where anything about it is in doubt.
    """
    wanted = ("readme.md", "index.md", f"{root.name.casefold()}.md")
    try:
        names = sorted(
            (each.name for each in root.iterdir() if each.name.casefold() in wanted),
            key=lambda name: wanted.index(name.casefold()),
        )
        for name in names:
            if may_be_named(name) and not config.closed and _is_read(root, name, config):
                if not stat.S_ISREG((root / name).lstat().st_mode):
                    return ""
                with (root / name).open("rb") as file:
                    data = file.read(_MOST_BYTES + 1)
                if len(data) <= _MOST_BYTES:
                    return first_sentence(data.decode("utf-8"), config.corpus.private.tags)
                return ""
    except (OSError, ValueError):
        pass
    return ""


def _is_read(root: Path, name: str, config: Config) -> bool:
    """Tell whether a file is one of the folder's notes for sure: no pattern that leaves files out
    comes near its name.
    """
    patterns = [*config.corpus.exclude]
    for ignored in config.corpus.ignore_files:
        with suppress(FileNotFoundError):
            patterns += (root / ignored).read_text(encoding="utf-8")[:_MOST_BYTES].splitlines()
    bare = (each.strip().lstrip("/").removeprefix("**/").casefold() for each in patterns)
    return not config.corpus.include and not any(
        each and fnmatch(name.casefold(), each) for each in bare
    )


def first_sentence(text: str, private_tags: Sequence[str]) -> str:
    """Return the first sentence of a README's first paragraph; empty where it is no plain prose,
    hides something, or may be private.

    The words that make a note private are looked for in all letters of it, whatever stands between
    them: the reader of private notes is not loaded yet when a client is greeted, and in doubt
    nothing is quoted.
    """
    words = {"private", *(each.casefold() for each in private_tags)}
    letters = _letters(text)
    if _HIDING.search(text) or any(
        not word.isascii() or _letters(word) in letters for word in words
    ):
        return ""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() in {"---", "+++"}:
        if lines[0].rstrip() not in (rest := [each.rstrip() for each in lines[1:]]):
            return ""
        lines = lines[2 + rest.index(lines[0].rstrip()) :]
    paragraph: list[str] = []
    for line in lines:
        if line.strip() and not line.startswith("#") and not (paragraph or line[0].isalpha()):
            return ""  # a list, HTML, code: what follows may stand in it
        if paragraph and not line.strip():
            break
        paragraph += [line.strip()] if line.strip() and not line.startswith("#") else []
    prose = _LINK.sub(r"\1", " ".join(paragraph)).replace("*", "").replace("`", "")
    found = _SENTENCE.match(prose)
    sentence = " ".join((found[0] if found else prose).split())
    said = set(re.findall(r"[^\W\d_]+", sentence.casefold()))
    orders = {
        each.split()[0].casefold().rstrip(",")
        for each in re.split("[,;:] ", sentence)
        if each.strip()
    } & _ORDERS
    has_rule = any(not line.strip("-=") for line in paragraph)
    if (
        len(said) < _FEWEST_WORDS
        or _NO_PROSE.search(sentence)
        or said & _SPEAKS
        or orders
        or has_rule
        or not sentence.isprintable()
    ):
        return ""
    if len(sentence) <= LONGEST_QUOTE:
        return sentence
    return sentence[: LONGEST_QUOTE - 1].rpartition(" ")[0] + "…"


_FEWEST_WORDS = 3
"""Of a sentence that says what a folder is about."""


def _letters(text: str) -> str:
    """Return the letters and digits of a text in ASCII, in one case."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("ı", "i")
    return re.sub("[^a-z0-9]+", "", folded)


FOUND, NOT_FOUND, WRONG_USE, FAILURE, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes."""


def reported(command: Callable[..., int]) -> Callable[..., None]:
    """Turn what a command returns or raises into an exit code, an error into one line on stderr."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        raise SystemExit(outcome(functools.partial(command, *args, **kwargs)))

    return run


def outcome(command: Callable[[], int]) -> int:
    """Return a command's exit code, with an error reported in one line on stderr."""
    if caller() is None and logging.lastResort:  # what prints the log where nothing else does
        logging.lastResort.setFormatter(_OneLine())
    for stream in (sys.stdout, sys.stderr) if caller() is None else ():
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a path may hold bytes that are no UTF-8
    try:
        return command()
    except UsageError as error:
        say_error(str(error))
        return WRONG_USE
    except ThumbindexError as error:
        say_error(str(error))
        return FAILURE
    except KeyboardInterrupt:
        say_error("Interrupted: what is committed stays; the next run goes on from there.")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output is gone (`| head`): at exit the interpreter must not flush into
        # the closed pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FOUND
    except Exception as error:  # the program's one report of what nobody foresaw
        say_error(unforeseen(error))
        return FAILURE


class _OneLine(logging.Formatter):
    """Writes a message of the log as one line, whatever names are in it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """Return the message."""
        return one_line(record.message)


def say_error(message: str, color: str | None = "red") -> None:
    """Print one line on stderr."""
    # Imported here: the child of a server does without
    # (`test_a_child_that_waits_has_loaded_little…`).
    import typer

    asked = caller()
    typer.secho(
        without_password(one_line(message)), asked.stderr if asked else None, fg=color, err=True
    )


_FULL = "There is no space left to write to: free some, and run it again."
_MANY_FILES = (
    "This process may open no more files: allow it more (`ulimit -n 1024`), and run it again."
)
_REFUSED = "give this user the right to it, or choose another place (an index: --index)."
_REFUSALS = {
    errno.ENOSPC: _FULL,
    getattr(errno, "EDQUOT", errno.ENOSPC): _FULL,
    errno.EMFILE: _MANY_FILES,
    errno.ENFILE: _MANY_FILES,
}
_REFUSALS |= dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _REFUSED)
"""What to do where the system refuses something: no bug of ours."""

_NO_MEMORY = ("can't start new thread", "failed to map segment")
"""What Python and the loader of libraries say where there is too little memory."""


def unforeseen(error: Exception) -> str:
    """Say in one sentence what the system refused, and what to do; of anything else that it is a
    bug, and where.
    """
    advice = _REFUSALS.get(error.errno or 0) if isinstance(error, OSError) else None
    if isinstance(error, OSError) and advice == _REFUSED:
        return f"{error.filename or 'A file'} cannot be used ({error.strerror}): {advice}"
    if advice:
        return advice
    if isinstance(error, MemoryError) or any(each in str(error) for each in _NO_MEMORY):
        return (
            f"There is not enough memory ({error}): free some, or allow it more (`ulimit -v`), "
            "and run it again."
        )
    where = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"Unexpected {type(error).__name__}: {error} "
        f"({Path(where.filename).name}:{where.lineno}). Please report this as a bug."
    )
