"""The command `open`, and the file in which `query` saves the locations of its last answer."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer
from platformdirs import user_state_path

from thumbindex.cli.options import open_for
from thumbindex.cli.terminal import print_row
from thumbindex.config import absolute_path, obsidian_vault
from thumbindex.errors import StorageError, UnknownFolderError, UnknownPathError, UsageError
from thumbindex.model import Answer
from thumbindex.opening import OpenOptions, is_local_path
from thumbindex.owner_file import write_owner_file
from thumbindex.present.editor_links import vscode_link
from thumbindex.present.excerpts import all_lines, from_answer
from thumbindex.present.exit_codes import FAILURE, FOUND, exits_with_code, print_error
from thumbindex.process import environment
from thumbindex.text import plural

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """The options of a query, and the locations of the answer's passages.

    For privacy, the query and the notes' text are left out.
    """

    opening: OpenOptions
    places: tuple[tuple[str, str, int], ...]  # folder's root, path in it and line, best first


def remember_answer(
    answer: Answer, folders: Sequence[tuple[str, Path]], opening: OpenOptions
) -> None:
    """Save the locations of an answer's passages for `open`.

    The previous answer is erased, even if saving fails. If any folder is in a database,
    no passage is saved, because the results could not be numbered.
    """
    roots = {name: str(root) for name, root in folders if is_local_path(root)}
    index, config = (option and absolute_path(option) for option in (opening.index, opening.config))
    options = OpenOptions(tuple(roots.values()), index, config, opening.overrides).arguments()
    places = [
        (roots[passage.folder], passage.path, from_answer(all_lines(passage)).start_line)
        for passage in answer.passages
        if len(roots) == len(folders)
    ]
    path = _answer_path()
    with suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps({"format": _FORMAT, "opening": options, "places": places}, indent=1)
        write_owner_file(path, text.encode("ascii"))


def erase_answer(roots: Iterable[Path]) -> None:
    """Erase the last answer if it came from any of these folders. Raises StorageError."""
    last, path = read_answer(), _answer_path()
    if last is None or {str(root) for root in roots} & set(last.opening.folder):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(
                f"Cannot delete {path} ({error.strerror}), which names notes of the last answer: "
                "delete it yourself."
            ) from error


def read_answer() -> LastAnswer | None:
    """Return the last answer, or None if there is none or it is unreadable."""
    try:
        stored = json.loads(_answer_path().read_bytes())
        places = tuple((str(root), str(path), int(line)) for root, path, line in stored["places"])
        if stored["format"] == _FORMAT:
            return LastAnswer(OpenOptions.from_arguments(stored["opening"]), places)
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _answer_path() -> Path:
    return user_state_path("thumbindex", appauthor=False) / "last" / "answer.json"


# ------------------------------------------------------------------ open N


class OpenWith(StrEnum):
    """A program that opens a result."""

    EDITOR = "editor"
    OBSIDIAN = "obsidian"
    VSCODE = "vscode"


_WITH = (
    "The program (default: $VISUAL or $EDITOR; if neither is set, Obsidian for a note in a vault, "
    "else the system's default program). `editor` never uses Obsidian."
)


@exits_with_code
def open_result(
    ctx: typer.Context,
    number: Annotated[
        int,
        typer.Argument(metavar="N", help="The result's number in the last answer."),
    ] = 1,
    program: Annotated[
        OpenWith | None, typer.Option("--with", metavar="|".join(OpenWith), help=_WITH)
    ] = None,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the path:line or URL instead of opening it.")
    ] = False,
) -> int:
    """Open a result of your last `query` at its line.

    After a query with --files, N is the Nth path. Queries with --json are not remembered.
    """
    path, line = _current_location(ctx, number)
    set_editor = _editor(environment())
    if program is None:
        program = OpenWith.OBSIDIAN if not set_editor and obsidian_vault(path) else OpenWith.EDITOR
    if program is OpenWith.EDITOR and (only_print or set_editor):
        return _print(f"{path}:{line}") if only_print else _run_editor(set_editor, path, line)
    address = str(path)
    if program is OpenWith.OBSIDIAN:
        if not obsidian_vault(path):
            raise UsageError(
                f"{path} is not in an Obsidian vault: no folder above it contains `.obsidian`. "
                "Omit --with, or choose another program."
            )
        address = f"obsidian://open?path={quote(os.fsencode(path), safe='')}"
    elif program is OpenWith.VSCODE:
        address = vscode_link(path, line)
    return _print(address) if only_print else _open_with_system(address)


def result_location(ctx: typer.Context, typed: str) -> tuple[OpenOptions, Path, int] | None:
    """If a text is the number of a result of the last answer, return its folder, path and line."""
    last = read_answer()
    if last is None or typed not in map(str, range(1, len(last.places) + 1)):
        return None
    folder = last.places[int(typed) - 1][:1]
    return replace(last.opening, folder=folder), *_current_location(ctx, int(typed))


def _current_location(ctx: typer.Context, number: int) -> tuple[Path, int]:
    """Return the path and line of a result of the last answer. Raises UsageError."""
    last = read_answer()
    if last is None:
        raise UsageError("There is no last answer: run `thumbindex query` first.")
    if not last.places:
        raise UsageError("Your last query found nothing that can be opened.")
    if not 1 <= number <= len(last.places):
        raise UsageError(
            f"There is no result {number}: the last answer has "
            f"{plural(len(last.places), 'result')}."
        )
    root, path, line = last.places[number - 1]
    try:
        with open_for(ctx, replace(last.opening, folder=(root,))) as library:
            # raises if the note is missing, private, or outside the folder
            excerpt = library.read(path, exact=True)
    except (UnknownFolderError, UnknownPathError) as error:
        why = "its note is missing, private, or outside its folder now"
        raise UsageError(
            f"Cannot open result {number} of the last answer: {why}. Run `thumbindex query` again."
        ) from error
    return Path(root, path), min(line, max(1, excerpt.total_lines))


def _print(address: str) -> int:
    print_row(address)
    return FOUND


# ------------------------------------------------------------------ programs, never through a shell


_LINE_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "vi",
            "vim",
            "nvim",
            "gvim",
            "mvim",
            "view",
            "nano",
            "emacs",
            "emacsclient",
            "kak",
            "joe",
            "micro",
            "gedit",
        ),
        ("+{line}", "{path}"),
    ),
    **dict.fromkeys(
        ("code", "code-insiders", "codium", "cursor", "windsurf"), ("--goto", "{path}:{line}")
    ),
    **dict.fromkeys(("hx", "helix", "subl", "sublime_text", "zed", "zeditor"), ("{path}:{line}",)),
}
"""Arguments that open a file at a line, by editor. Other editors get only the path."""

_READ_BY_CMD = re.compile(r'[&|<>^%!"]')
"""A character that Windows interprets in arguments of .cmd and .bat files, even in quotes."""


def editor_command(words: Sequence[str], path: Path, line: int) -> list[str]:
    """Return the command that opens a file at a line in an editor. Raises UsageError."""
    program = shutil.which(words[0])
    if program is None:
        raise UsageError(
            f"$VISUAL or $EDITOR names {words[0]!r}, which is not installed: set another editor, "
            "or use --with or --print."
        )
    if program.lower().endswith((".cmd", ".bat")) and _READ_BY_CMD.search(str(path)):
        raise UsageError(
            f"Cannot pass {path} to {program}: Windows would run a part of its name as a command. "
            "Use --with vscode."
        )
    form = _LINE_ARGUMENTS.get(Path(words[0]).stem.lower(), ("{path}",))
    return [program, *words[1:], *(part.format(path=path, line=line) for part in form)]


def _editor(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words of the command in $VISUAL or $EDITOR; empty if neither is set.

    Raises UsageError for unclosed quotes.
    """
    for name in ("VISUAL", "EDITOR"):
        if command := variables.get(name, "").strip():
            try:
                if os.name != "nt":
                    return tuple(shlex.split(command))
                return tuple(word.strip('"') for word in shlex.split(command, posix=False))
            except ValueError as error:
                raise UsageError(f"Cannot parse ${name} ({error}): {command}") from error
    return ()


def _run_editor(words: Sequence[str], path: Path, line: int) -> int:
    """Run the editor in this terminal until it ends."""
    exit_code = subprocess.run(editor_command(words, path, line), check=False).returncode
    if exit_code:
        print_error(f"{words[0]} failed with exit code {exit_code}.")
    return FAILURE if exit_code else FOUND


def _open_with_system(address: str) -> int:
    """Open a file or URL with the system's default program."""
    if sys.platform == "win32":
        os.startfile(address)
        return FOUND
    name = "open" if sys.platform == "darwin" else "xdg-open"
    program = shutil.which(name)
    if program is None:
        raise UsageError(f"`{name}` is not installed: set $EDITOR, or use --print.")
    # it lists each browser that it tried
    ended = subprocess.run([program, address], check=False, stderr=subprocess.DEVNULL)
    if exit_code := ended.returncode:
        print_error(f"{name} failed with exit code {exit_code}: set $EDITOR, or use --print.")
    return FAILURE if exit_code else FOUND
