"""Commands for folders and their indexes: add, list, remove, index, status and forget."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    print_row,
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
from thumbindex.opening import OpenOptions, open_everywhere
from thumbindex.present.as_json import report_payload, status_payload
from thumbindex.present.exit_codes import FOUND, NOT_FOUND, exits_with_code, print_error
from thumbindex.present.sentences import CHECK_GLOB, unmatched_glob_warning
from thumbindex.text import one_line

if TYPE_CHECKING:
    from thumbindex.library import Library


_TABLE = "folders"

_NAME = re.compile(r"\w[\w .-]{0,63}")
"""A folder name without colons and slashes, which would break citations and URLs."""

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="Use this configuration file instead of the default one."
    ),
]


@exits_with_code
def add(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder that contains the notes.")
    ],
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="A name (default: the directory's name)."),
    ] = None,
    about: Annotated[
        str | None,
        typer.Option(
            "--about",
            metavar="SENTENCE",
            help="A sentence about the folder's contents, for the client's model.",
        ),
    ] = None,
    config: ConfigOption = None,
) -> int:
    """Give a folder a name.

    Commands and servers without --folder use all named folders. To keep a note out of them, write
    `private: true` in its front matter, or #private anywhere in it.
    """
    path, settings, root = (
        _config_path(config),
        OpenOptions(config=config).load(),
        real_folder(directory),
    )
    if not root.is_dir():
        raise UsageError(f"{directory}: there is no folder {root}. Check the path.")
    if str(root) != str(root).encode("utf-8", "replace").decode("utf-8"):
        raise UsageError(
            f"{root!r} is not valid UTF-8, so a configuration cannot hold it: rename the folder."
        )
    chosen = root.name if name is None else name
    if not _NAME.fullmatch(chosen):
        rejected = "its directory's name" if name is None else repr(one_line(name))
        raise UsageError(
            f"Cannot use {rejected} as a name: choose a --name of letters, digits, spaces, dots, "
            "dashes and underscores, at most 64 characters."
        )
    if about is not None and len(about) > MAX_ABOUT_CHARS:
        raise UsageError(f"--about has {len(about):,} characters; the limit is {MAX_ABOUT_CHARS}.")
    roots = configured_roots(settings)
    _refuse_duplicate(chosen, root, roots)
    nested = [
        other
        for other, outer in roots.items()
        if root.is_relative_to(outer) or outer.is_relative_to(root)
    ]
    if guarded := next(
        (nested_name for nested_name in nested if nested_name in settings.folder_tokens),
        None,
    ):
        raise UsageError(
            f"The folder {guarded} lists `tokens`, and {root} is inside or around it: "
            "edit the configuration yourself, and set `tokens` for both."
        )
    library.index_paths_of(settings.index.directory, root)
    entry = {"path": _with_tilde(root), **({"about": one_line(about)} if about else {})}
    _change(path, lambda text: _with_folder(text, chosen, entry))
    print_line(f"Added {chosen} ({root}) to {path}.")
    for other in nested:
        inner, around = (chosen, other) if root.is_relative_to(roots[other]) else (other, chosen)
        print_line(f"{inner} is inside {around}: its notes are in both indexes.")
    print_line(f"To index and search it, run `{OpenOptions(config=config).command('query …')}`.")
    return FOUND


@exits_with_code
def folders(
    config: ConfigOption = None,
    index: Annotated[
        Path | None,
        typer.Option(
            "--index", metavar="DIR", help="The directory with the indexes, one per folder."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """List the named folders.

    Shows each folder's path and description, and whether it is indexed.
    """
    settings = OpenOptions(config=config).load()
    directory = str(index or settings.index.directory)
    listed = [
        {
            "name": name,
            "path": str(root),
            "about": settings.about.get(name, ""),
            "there": root.is_dir(),
            "indexed": library.index_paths_of(directory, root).store.exists(),
        }
        for name, root in sorted(configured_roots(settings).items())
    ]
    if as_json:
        print_json({"folders": listed})
        return FOUND if listed else NOT_FOUND
    for folder in listed:
        state = "indexed" if folder["indexed"] else "not indexed yet"
        print_row(
            f"{folder['name']}: {folder['path']}, {state if folder['there'] else 'does not exist'}"
        )
        if folder["about"]:
            print_line(f"  {folder['about']}")
    if not listed:
        print_line("No folder has a name yet. To add one, run `thumbindex add DIR`.")
    return FOUND if listed else NOT_FOUND


@exits_with_code
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The folder's name, or its path.")],
    config: ConfigOption = None,
) -> int:
    """Remove a folder's name; notes and index stay."""
    settings = OpenOptions(config=config).load()
    path, roots = _config_path(config), configured_roots(settings)
    chosen = (
        name
        if name in roots
        else next(
            (folder_name for folder_name, root in roots.items() if root == real_folder(name)), None
        )
    )
    if chosen is None:
        nearest = get_close_matches(name, roots, n=1)
        if nearest:
            hint = f"did you mean {nearest[0]}?"
        elif roots:
            hint = f"the folders are {', '.join(sorted(roots))}."
        else:
            hint = "no folder is configured. To add one, run `thumbindex add DIR`."
        raise UsageError(f"No folder is named {one_line(name)!r}: {hint}")
    _change(path, lambda text: _without_folder(text, chosen))
    print_line(f"Removed {chosen} from {path}. Its notes are untouched.")
    if chosen in settings.folder_tokens:
        print_line(
            "Its list of allowed tokens was removed too: set it again before a server shares it.",
            "bold",
        )
    print_line(
        "Its index stays. To delete it, run "
        f"`{OpenOptions(config=config).command('forget', str(roots[chosen]))}`."
    )
    return FOUND


# ------------------------------------------------------------------ edit the configuration


def _config_path(config: Path | None) -> Path:
    return config.expanduser() if config else user_config_file()


def _with_tilde(root: Path) -> str:
    """Return a path with `~` if it is below the home folder."""
    home = Path.home().resolve()
    if root != home and root.is_relative_to(home):
        return f"~/{root.relative_to(home).as_posix()}"
    return str(root)


def _refuse_duplicate(name: str, root: Path, roots: Mapping[str, Path]) -> None:
    if present := next((other_name for other_name, other in roots.items() if other == root), None):
        raise UsageError(
            f"{root} is already named {present}. To rename it, run `thumbindex remove "
            f"{shlex.quote(present)}` first."
        )
    if name in roots:
        raise UsageError(f"{roots[name]} is already named {name}: choose another name with --name.")


def _with_folder(text: str, name: str, entry: Mapping[str, str]) -> str:
    present = read_table(text, (_TABLE,))
    if isinstance(present, list):
        return put_table(text, (_TABLE, len(present)), {"name": name, **entry})
    return put_table(text, (_TABLE, name), entry)


def _without_folder(text: str, name: str) -> str:
    present = read_table(text, (_TABLE,))
    if not isinstance(present, list):
        return take_table(text, (_TABLE, name))
    names = [entry.get("name") for entry in present]
    return take_table(text, (_TABLE, names.index(name))) if name in names else text


def _change(path: Path, edit: Callable[[str], str]) -> None:
    """Edit a configuration file, creating it if necessary."""
    before = read_text(path)
    with naming_file(path):
        after = edit(before or "")
    if after == (before or ""):
        raise UsageError(
            f"Nothing was changed: {path} does not name that folder. Give the configuration file "
            "that does with --config."
        )
    write_text(path, after, before)


@exits_with_code
@opening_options
def index(
    ctx: typer.Context,
    opening: OpenOptions,
    complete: Annotated[
        bool,
        typer.Option(
            "--complete", help="Compute all exact vectors now, instead of while you query."
        ),
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option("--rebuild", help="Read every file again, but keep existing vectors."),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Compare every file's content, not just its size and time, and check the index.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Bring the index up to date, for queries by words and meaning.

    A note with `private: true` in its front matter, or #private anywhere in it, is left out.
    """
    with open_for(ctx, opening) as opened, ProgressDisplay() as show:
        report = opened.index(
            complete=complete, rebuild=rebuild, verify=verify, progress=show, after_others=True
        )
        unmatched, private = opened.unmatched_private_globs(), opened.count_private_notes()
    if as_json:
        print_json(report_payload(report))
    else:
        print_report(report, opening)
        if private:
            are = "note is" if private == 1 else "notes are"
            print_line(f"{private:,} {are} private: `{opening.command('list --private')}`")
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
    problems: Annotated[
        bool, typer.Option("--problems", help="List all problems in notes.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """List the indexes with their size, model and state.

    Without --folder, lists all indexes.
    """
    if opening.index and not opening.database and not opening.index.expanduser().is_dir():
        raise UsageError(
            f"There is no index directory {opening.index}: check the path, or create it with "
            f"`{opening.command('index')}`."
        )
    is_chosen = opening.folder or opening.database
    with open_for(ctx, opening) if is_chosen else open_everywhere(opening) as opened:
        folders, unmatched = opened.status(), opened.unmatched_private_globs()
    if as_json:
        print_json(status_payload(folders))
    else:
        print_status(folders, opening, problems=problems)
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
            help="Without --folder, delete the indexes of all configured folders, or if there are "
            "none, of the current folder.",
        ),
    ] = False,
) -> int:
    """Delete the index of a folder, with your decisions and judgments; never its notes.

    Also works for folders that no longer exist.
    """
    with _open_to_forget(ctx, opening) as opened:
        if not opening.folder and not yes:
            roots = " ".join(f"--folder {shlex.quote(str(root))}" for _, root in opened.folders)
            raise UsageError(f"Nothing was deleted. To confirm, add `{roots}` or --yes.")
        if watched := opened.watched_folders():
            raise IndexBusyError(
                f"Nothing was deleted: a server watches {', '.join(watched)} and would rebuild "
                "the index. Stop it first."
            )
        if running := [folder.progress for folder in opened.status() if folder.progress]:
            runs = ", ".join(f"process {run.pid} is indexing {run.folder}" for run in running)
            raise IndexBusyError(
                f"Nothing was deleted: {runs} and would rebuild the index. Stop it, or wait until "
                "it is done."
            )
        folders = opened.forget()
        erase_answer(root for _, root in opened.folders)
    print_forgotten(folders)
    return FOUND


def _open_to_forget(ctx: typer.Context, opening: OpenOptions) -> AbstractContextManager[Library]:
    """Open the folders to forget. A deleted folder is found by the path or name in its index."""
    try:
        return open_named(ctx, opening)
    except UnknownFolderError:
        opened = open_everywhere(opening)
        if not opened.folders:
            raise
        return opened
    except UsageError as error:
        if opening.folder or opening.load().folders:
            raise
        raise UsageError(
            "Nothing was deleted: name a folder with --folder. `thumbindex status` lists all "
            "indexes."
        ) from error
