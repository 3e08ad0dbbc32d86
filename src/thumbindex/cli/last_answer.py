"""The last answer: `query` remembers where its passages stand, `open` opens one of them, `forget`
erases them.
"""

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
from thumbindex.cli.print_answers import location_line
from thumbindex.cli.terminal import print_line
from thumbindex.config import absolute_path
from thumbindex.errors import StorageError, UnknownFolderError, UnknownPathError, UsageError
from thumbindex.model import Answer
from thumbindex.opening import OpenOptions, is_local_path
from thumbindex.owner_file import write_owner_file
from thumbindex.present.editor_links import obsidian_vault, vscode_link
from thumbindex.present.exit_codes import FAILURE, FOUND, exits_with_code, print_error
from thumbindex.process import environment
from thumbindex.text import plural

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """Where the passages of an answer stand, and with which options it was asked for; neither the
    question nor a text.
    """

    opening: OpenOptions
    places: tuple[tuple[str, str, int], ...]  # folder's root, path in it and line, best first


def remember_answer(
    answer: Answer, folders: Sequence[tuple[str, Path]], opening: OpenOptions
) -> None:
    """Keep where the passages of an answer stand, for `open`; where that cannot be written, the
    answer before is gone all the same.

    Nothing of a database can be opened: of such an answer nothing is kept.
    """
    roots = {name: str(root) for name, root in folders if is_local_path(root)}
    index, config = (each and absolute_path(each) for each in (opening.index, opening.config))
    asked = OpenOptions(tuple(roots.values()), index, config, opening.overrides).arguments()
    places = [
        (roots[passage.folder], passage.path, location_line(passage))
        for passage in answer.passages
        if len(roots) == len(folders)
    ]
    path = _file()
    with suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        written = json.dumps({"format": _FORMAT, "opening": asked, "places": places}, indent=1)
        write_owner_file(path, written.encode("ascii"))


def erase_answer(roots: Iterable[Path]) -> None:
    """Erase the last answer where any of these folders was asked."""
    known, path = read_answer(), _file()
    if known is None or {str(root) for root in roots} & set(known.opening.folder):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(
                f"{path} names notes of the last answer and cannot be deleted "
                f"({error.strerror}): delete it yourself."
            ) from error


def read_answer() -> LastAnswer | None:
    """Return the last answer; None where there is none that can be read."""
    try:
        kept = json.loads(_file().read_bytes())
        places = tuple((str(root), str(path), int(line)) for root, path, line in kept["places"])
        if kept["format"] == _FORMAT:
            return LastAnswer(OpenOptions.from_arguments(kept["opening"]), places)
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _file() -> Path:
    return user_state_path("thumbindex", appauthor=False) / "last" / "answer.json"


# ------------------------------------------------------------------ open N


class OpenWith(StrEnum):
    """What a result is opened with."""

    EDITOR = "editor"
    OBSIDIAN = "obsidian"
    VSCODE = "vscode"


_WITH = (
    "Without it: your $VISUAL or $EDITOR; where none is set Obsidian, for a note in a vault, else "
    "the system's program. `editor` leaves Obsidian out."
)


@exits_with_code
def open_result(
    ctx: typer.Context,
    number: Annotated[
        int,
        typer.Argument(
            metavar="N", help="Which result, as the last answer numbers them; the first without it."
        ),
    ] = 1,
    program: Annotated[
        OpenWith | None, typer.Option("--with", metavar="|".join(OpenWith), help=_WITH)
    ] = None,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print what would be opened: path:line, or an address.")
    ] = False,
) -> int:
    """Open a result of your last `query` at its line.

    A query with --json is not remembered; of one with --files the Nth path is opened.
    """
    path, line = _open_place(ctx, number)
    set_editor = _editor(environment())
    if program is None:
        program = OpenWith.OBSIDIAN if not set_editor and obsidian_vault(path) else OpenWith.EDITOR
    if program is OpenWith.EDITOR and (only_print or set_editor):
        return _print(f"{path}:{line}") if only_print else _edit(set_editor, path, line)
    address = str(path)
    if program is OpenWith.OBSIDIAN:
        if not obsidian_vault(path):
            raise UsageError(
                f"{path} is in no Obsidian vault: no folder above it has a `.obsidian`. Leave "
                "--with out, or choose another program."
            )
        address = f"obsidian://open?path={quote(os.fsencode(path), safe='')}"
    elif program is OpenWith.VSCODE:
        address = vscode_link(path, line)
    return _print(address) if only_print else _start(address)


def _open_place(ctx: typer.Context, number: int) -> tuple[Path, int]:
    """Return where a result of the last answer stands now.

    Raises UsageError where there is none, or where it may not be opened any more.
    """
    known = read_answer()
    if known is None:
        raise UsageError("There is no last answer: ask with `thumbindex query` first.")
    if not known.places:
        raise UsageError("The last answer has no results: ask with `thumbindex query` again.")
    if not 1 <= number <= len(known.places):
        raise UsageError(
            f"There is no result {number}: the last answer has "
            f"{plural(len(known.places), 'result')}. Give 1 to {len(known.places)}."
        )
    root, path, line = known.places[number - 1]
    try:
        with open_for(ctx, replace(known.opening, folder=(root,))) as library:
            # what reads it says whether it is there, inside the folder, and open to be read
            excerpt = library.read(path, exact=True)
    except (UnknownFolderError, UnknownPathError) as error:
        why = "its note is gone, private, or outside its folder now"
        raise UsageError(
            f"Result {number} of the last answer cannot be opened: {why}. Ask again with "
            "`thumbindex query`."
        ) from error
    return Path(root, path), min(line, max(1, excerpt.total_lines))


def _print(address: str) -> int:
    print_line(address)
    return FOUND


# ----------------------------------------------------------- programs, none of them through a shell


_LINE_FORMS: Mapping[str, tuple[str, ...]] = {
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
"""How an editor is told which line to show; one that is not here gets the path alone."""

_READ_BY_CMD = re.compile(r'[&|<>^%!"]')
"""What Windows takes for a part of a command in an argument of a command file, as `code.cmd` is
one: no quotes hold it.
"""


def editor_command(words: Sequence[str], path: Path, line: int) -> list[str]:
    """Return what runs an editor on a line of a file.

    Raises UsageError where it is not installed, or cannot be given this name.
    """
    program = shutil.which(words[0])
    if program is None:
        raise UsageError(
            f"There is no program {words[0]!r}, which $VISUAL or $EDITOR names: set one that "
            "is there, or use --with or --print."
        )
    if program.lower().endswith((".cmd", ".bat")) and _READ_BY_CMD.search(str(path)):
        raise UsageError(
            f"{path} cannot be given to {program}: Windows would take a part of its name for "
            "a command. Use --with vscode."
        )
    form = _LINE_FORMS.get(Path(words[0]).stem.lower(), ("{path}",))
    return [program, *words[1:], *(each.format(path=path, line=line) for each in form)]


def _editor(around: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words of the editor that is set; none where none is.

    Raises UsageError for quotes that do not end.
    """
    for name in ("VISUAL", "EDITOR"):
        if written := around.get(name, "").strip():
            try:
                if os.name != "nt":
                    return tuple(shlex.split(written))
                return tuple(each.strip('"') for each in shlex.split(written, posix=False))
            except ValueError as error:
                raise UsageError(f"${name} cannot be read ({error}): {written}") from error
    return ()


def _edit(words: Sequence[str], path: Path, line: int) -> int:
    """Run the editor in this terminal until it ends."""
    ended = subprocess.run(editor_command(words, path, line), check=False).returncode
    if ended:
        print_error(f"{words[0]} ended with exit code {ended}.")
    return FAILURE if ended else FOUND


def _start(address: str) -> int:
    """Have the system open a file or an address with the program that it has for it."""
    if sys.platform == "win32":
        os.startfile(address)
        return FOUND
    name = "open" if sys.platform == "darwin" else "xdg-open"
    program = shutil.which(name)
    if program is None:
        raise UsageError(f"There is no `{name}` to open it with: set $EDITOR, or use --print.")
    ended = subprocess.run([program, address], check=False).returncode
    if ended:
        print_error(
            f"{name} ended with exit code {ended}: nothing may have been opened. Set $EDITOR, "
            "or use --print."
        )
    return FAILURE if ended else FOUND
