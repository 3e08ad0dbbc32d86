"""Folders by name: the commands that write, list and take out what stands under `[folders]` in the
user's configuration.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thumbindex import library
from thumbindex.cli.last_answer import erase_answer
from thumbindex.cli.options import (
    JsonOption,
    open_for,
    open_named,
    opening_options,
    opening_or_engine_options,
)
from thumbindex.cli.terminal import (
    ProgressDisplay,
    print_forgotten,
    print_json,
    print_line,
    print_report,
    print_status,
)
from thumbindex.config import MAX_ABOUT_CHARS, configured_roots, real_folder, user_config_file
from thumbindex.errors import IndexBusyError, UnknownFolderError, UsageError
from thumbindex.install.edit import (
    naming_file,
    put_table,
    read_table,
    read_text,
    take_table,
    write_text,
)
from thumbindex.model import FolderStatus
from thumbindex.opening import OpenOptions, open_everywhere
from thumbindex.present.as_json import report_payload, status_payload
from thumbindex.present.exit_codes import FOUND, NOT_FOUND, exits_with_code, print_error
from thumbindex.present.sentences import CHECK_GLOB, unmatched_glob_warning
from thumbindex.settings import Config
from thumbindex.text import one_line, plural

if TYPE_CHECKING:
    from thumbindex.library import Library


_TABLE = "folders"

_NAME = re.compile(r"\w[\w .-]{0,63}")
"""A folder's name stands in citations, before a colon, and in addresses."""

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="The configuration file that is meant, not the user's own."
    ),
]


@exits_with_code
def add(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder with the notes.")],
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="What to call it; else as its directory is called."
        ),
    ] = None,
    about: Annotated[
        str | None,
        typer.Option(
            "--about",
            metavar="SENTENCE",
            help="What it holds, in a sentence: the client's model reads it.",
        ),
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Give a folder a name.

    Commands and servers take it when they are given no --folder.
    """
    path, present, root = _file(config), OpenOptions(config=config).load(), real_folder(directory)
    if not root.is_dir():
        raise UsageError(f"{directory}: there is no folder {root}: check the path.")
    if str(root) != str(root).encode("utf-8", "replace").decode("utf-8"):
        raise UsageError(
            f"{root!r} is no text that a configuration can hold: give the folder a name in UTF-8."
        )
    chosen = root.name if name is None else name
    if not _NAME.fullmatch(chosen):
        given = (
            "Its directory's name will not do"
            if name is None
            else f"The name {one_line(name)!r} will not do"
        )
        raise UsageError(
            f"{given}: give --name with letters, digits, spaces, dots, dashes and "
            "underscores, at most 64 of them."
        )
    if about is not None and len(about) > MAX_ABOUT_CHARS:
        raise UsageError(
            f"--about has {len(about):,} characters: at most {MAX_ABOUT_CHARS} are read."
        )
    roots = configured_roots(present)
    _refuse_double(chosen, root, roots)
    nested = [
        other
        for other, outer in roots.items()
        if root.is_relative_to(outer) or outer.is_relative_to(root)
    ]
    if guarded := next((each for each in nested if each in present.folder_tokens), None):
        raise UsageError(
            f"{guarded} names the tokens that may see it, and {root} is a part of it, or "
            "around it: write both by hand, with tokens."
        )
    library.index_paths_of(present.index.directory, root)
    entry = {"path": _shortest(root), **({"about": one_line(about)} if about else {})}
    _change(path, lambda text: _with_folder(text, chosen, entry))
    if as_json:
        print_json(
            {
                "name": chosen,
                "path": str(root),
                "about": entry.get("about", ""),
                "config": str(path),
            }
        )
        return FOUND
    print_line(f"{chosen} is {root}. It stands in {path}.")
    for other in nested:
        inner, around = (chosen, other) if root.is_relative_to(roots[other]) else (other, chosen)
        print_line(f"{inner} lies inside {around}: its notes are in both indexes.")
    print_line(
        "Next: `thumbindex index` takes its notes in, `thumbindex query --folder "
        f"{shlex.quote(chosen)} …` asks them."
    )
    return FOUND


@exits_with_code
def folders(
    config: ConfigOption = None,
    index: Annotated[
        Path | None,
        typer.Option(
            "--index", metavar="DIR", help="The directory that holds the indexes, one a folder."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """List the folders that have a name.

    Shows where each is, what it is about, and how far its index is.
    """
    opening = OpenOptions(index=index, config=config)
    present = opening.load()
    roots = configured_roots(present)
    indexed = _indexed(opening, roots)
    listed = [
        _facts(name, root, present, indexed.get(root)) for name, root in sorted(roots.items())
    ]
    if as_json:
        print_json({"folders": listed})
    else:
        for each in listed:
            state = (
                "is not there" if not each["there"] else _state(indexed.get(roots[each["name"]]))
            )
            print_line(f"{each['name']}: {each['path']}, {state}")
            if each["about"]:
                print_line(f"  {each['about']}")
        if not listed:
            print_line("No folder has a name yet: `thumbindex add DIR` gives one.")
    return FOUND if listed else NOT_FOUND


@exits_with_code
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The folder's name, or its path.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Remove a folder's name; notes and index stay."""
    present = OpenOptions(config=config).load()
    path, roots = _file(config), configured_roots(present)
    found = (
        name
        if name in roots
        else next((each for each, root in roots.items() if root == real_folder(name)), None)
    )
    if found is None:
        near = get_close_matches(name, roots, n=1)
        if near:
            known = f"did you mean {near[0]}?"
        elif roots:
            known = f"the folders are {', '.join(sorted(roots))}."
        else:
            known = "no folder has one."
        raise UsageError(f"No folder has the name {one_line(name)!r}: {known}")
    _change(path, lambda text: _without_folder(text, found))
    if as_json:
        print_json({"name": found, "path": str(roots[found]), "config": str(path)})
        return FOUND
    print_line(f"{found} is no longer in {path}. Its notes are untouched.")
    if found in present.folder_tokens:
        print_line(
            "The tokens that may see it went, too: state them again before a server shares it.",
            "bold",
        )
    print_line(
        f"Its index stays: `thumbindex forget --folder {shlex.quote(str(roots[found]))}` "
        "deletes it."
    )
    return FOUND


# ------------------------------------------------------------------ what the list says


def _indexed(opening: OpenOptions, roots: Mapping[str, Path]) -> dict[Path, FolderStatus]:
    """Return the state of each of the folders that has an index."""
    directory = str(opening.index or opening.load().index.directory)
    there = [
        name
        for name, root in roots.items()
        if library.index_paths_of(directory, root).store.exists()
    ]
    if not there:
        return {}
    with library.Library.open(there, index=opening.index, config=opening.load()) as opened:
        return {Path(each.root): each for each in opened.status()}


def _facts(name: str, root: Path, config: Config, status: FolderStatus | None) -> dict[str, Any]:
    documents = status.index.documents if status else None
    return {
        "name": name,
        "path": str(root),
        "about": config.about.get(name, ""),
        "there": root.is_dir(),
        "indexed": status is not None,
        "documents": documents,
        "updated": status.updated if status else None,
    }


def _state(status: FolderStatus | None) -> str:
    if status is None:
        return "not indexed yet"
    return f"{plural(status.index.documents, 'note')} in its index"


# ------------------------------------------------------------------ what is written


def _file(config: Path | None) -> Path:
    return config.expanduser() if config else user_config_file()


def _shortest(root: Path) -> str:
    """Return a path as one writes it: from the home folder on where it lies there."""
    home = Path.home().resolve()
    if root != home and root.is_relative_to(home):
        return f"~/{root.relative_to(home).as_posix()}"
    return str(root)


def _refuse_double(name: str, root: Path, roots: Mapping[str, Path]) -> None:
    if known := next((each for each, other in roots.items() if other == root), None):
        raise UsageError(
            f"{root} has a name already: {known}. To give it another one, `thumbindex remove "
            f"{shlex.quote(known)}` first."
        )
    if name in roots:
        raise UsageError(
            f"{name} is the name of {roots[name]}: give this one another name with --name."
        )


def _with_folder(text: str, name: str, entry: Mapping[str, str]) -> str:
    present = read_table(text, (_TABLE,))
    if isinstance(present, list):
        return put_table(text, (_TABLE, len(present)), {"name": name, **entry})
    return put_table(text, (_TABLE, name), entry)


def _without_folder(text: str, name: str) -> str:
    present = read_table(text, (_TABLE,))
    if not isinstance(present, list):
        return take_table(text, (_TABLE, name))
    names = [each.get("name") for each in present]
    return take_table(text, (_TABLE, names.index(name))) if name in names else text


def _change(path: Path, edit: Callable[[str], str]) -> None:
    """Edit a configuration file, which is created if there is none."""
    before = read_text(path)
    with naming_file(path):
        after = edit(before or "")
    if after == (before or ""):
        raise UsageError(
            f"{path} does not name that folder itself, so nothing was changed: another "
            "configuration does (--config)."
        )
    write_text(path, after, before)


@exits_with_code
@opening_options
def index(
    ctx: typer.Context,
    opening: OpenOptions,
    words_only: Annotated[
        bool,
        typer.Option(
            "--words-only", help="Leave the vectors for later: keywords and links answer at once."
        ),
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="Read every file again; texts that have a vector keep it."),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Compare every file's digest, not its facts alone, and read the whole index.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Bring the index up to date, vectors too."""
    with open_for(ctx, opening) as opened, ProgressDisplay() as show:
        report = opened.index(
            words_only=words_only, rebuild=rebuild, verify=verify, progress=show, after_others=True
        )
        unmatched = opened.unmatched_private_globs()
    if as_json:
        print_json(report_payload(report))
    else:
        print_report(report, opening.command("broken"))
    _warn_of_globs(unmatched)
    return FOUND


def _warn_of_globs(unmatched: tuple[str, ...]) -> None:
    for glob in unmatched:
        print_error(f"{unmatched_glob_warning(glob)}. {CHECK_GLOB}", color="yellow")


@exits_with_code
@opening_or_engine_options
def status(
    ctx: typer.Context,
    opening: OpenOptions,
    as_json: JsonOption = False,
) -> int:
    """List the indexes, their size, model and state.

    Those of --folder, else all of them.
    """
    if opening.index and not opening.database and not opening.index.expanduser().is_dir():
        raise UsageError(
            f"There is no index directory {opening.index}: check the path, or make one with "
            f"`thumbindex index --index {opening.index}`."
        )
    is_chosen = opening.folder or opening.database
    with open_for(ctx, opening) if is_chosen else open_everywhere(opening) as opened:
        folders, unmatched = opened.status(), opened.unmatched_private_globs()
    if as_json:
        print_json(status_payload(folders))
    else:
        print_status(folders)
    _warn_of_globs(unmatched)
    return FOUND


@exits_with_code
@opening_options
def forget(
    ctx: typer.Context,
    opening: OpenOptions,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Without --folder, too: those of the configured folders, else of the current one.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Delete the index of a folder, never the folder.

    The folder itself may be gone.
    """
    with _to_forget(ctx, opening) as opened:
        if not opening.folder and not yes:
            roots = " ".join(f"--folder {shlex.quote(str(root))}" for _, root in opened.folders)
            raise UsageError(
                f"Nothing was deleted: which index is meant? Run it with `{roots}`, or with --yes."
            )
        if watched := opened.watched_folders():
            raise IndexBusyError(
                f"Nothing was deleted: a server watches {', '.join(watched)} and would build "
                "the index again. End it first."
            )
        if running := [each.progress for each in opened.status() if each.progress]:
            who = ", ".join(f"process {each.pid} is indexing {each.folder}" for each in running)
            raise IndexBusyError(
                f"Nothing was deleted: {who} and would make the index again. End it first, or "
                "wait until it is done."
            )
        folders = opened.forget()
        erase_answer(root for _, root in opened.folders)
    if as_json:
        print_json(status_payload(folders))
    else:
        print_forgotten(folders)
    return FOUND


def _to_forget(ctx: typer.Context, opening: OpenOptions) -> AbstractContextManager[Library]:
    """Open what is to be forgotten; the index of a folder that is gone is found by the folder's old
    path or name.
    """
    try:
        return open_named(ctx, opening)
    except UnknownFolderError:
        opened = open_everywhere(opening)
        if not opened.folders:
            raise
        return opened
