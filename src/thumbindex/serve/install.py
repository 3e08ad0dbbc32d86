"""`thumbindex install`: has an MCP client start the server, and shows every line that changes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from thumbindex.errors import UsageError
from thumbindex.process import environment
from thumbindex.serve.checks import command_of, options_of
from thumbindex.serve.clients.known import CLIENTS, Client, Surroundings
from thumbindex.serve.clients.plan import Change, entry_of, entry_spot, install_at, instructions_spot, read_entry, uninstall_at
from thumbindex.serve.opening import Opening
from thumbindex.serve.options import JsonOption, takes_opening
from thumbindex.serve.outcome import FOUND, reported
from thumbindex.serve.render import print_json

_CLIENT_HELP = f"One of {', '.join(each.name for each in CLIENTS)}."


@reported
@takes_opening
def install(
    ctx: typer.Context,
    opening: Opening,
    client: Annotated[str, typer.Argument(metavar="CLIENT", help=_CLIENT_HELP)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change and write nothing.")] = False,
    uninstall: Annotated[bool, typer.Option("--uninstall", help="Take out what this command put in.")] = False,
    no_instructions: Annotated[bool, typer.Option("--no-instructions", help="Leave CLAUDE.md, AGENTS.md or the like alone.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Have an MCP client start the server for --folder (without it: the configured folders, else the current one)."""
    chosen, around, instructed = find_client(client), surroundings(), not no_instructions
    gone = () if uninstall else replaced(chosen, around, opening)
    changes = removals(chosen, around, instructed=instructed) if uninstall else additions(chosen, around, opening, instructed=instructed)
    kept = [None if dry_run else each.write() for each in changes]
    if as_json:
        print_json(install_payload(chosen, changes, kept, dry_run))
    else:
        _print(chosen, changes, kept, dry_run, uninstall)
        if gone:
            both = " ".join(f"--folder {shlex.quote(each)}" for each in gone)
            typer.echo(f"The entry named other folders until now, which it serves no more. To keep them, run this again with {both} as well.")
        if not uninstall and chosen.instructions is None and instructed:
            typer.echo(f"{chosen.title} reads no file of lasting instructions. If it does not use the tools by itself, add this to its settings:")
            typer.echo(f"  {advice(served(opening))}")
    return FOUND


def find_client(name: str) -> Client:
    """Return a client by its name; raise UsageError that says which there are."""
    for each in CLIENTS:
        if name.casefold() in {each.name, each.title.casefold()}:
            return each
    near = get_close_matches(name.casefold(), [each.name for each in CLIENTS], n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise UsageError(
        f"There is no client {name!r}.{hint} The clients are {', '.join(each.name for each in CLIENTS)}; docs/clients.md helps with others."
    )


def surroundings() -> Surroundings:
    """Return where this process runs."""
    return Surroundings(sys.platform, Path.home(), environment())


def additions(client: Client, around: Surroundings, opening: Opening, *, instructed: bool) -> list[Change]:
    """Return what is to change for a client to start the server. Raises UsageError."""
    folders = served(opening)
    command = [*own_command(Path(sys.argv[0]), Path(sys.executable)), "serve", *_options(opening, folders)]
    _refuse_bytes(command)
    changes = [install_at(entry_spot(client, around), entry_of(client, around, command))]
    spot = instructions_spot(client, around) if instructed else None
    return [*changes, install_at(spot, advice(folders))] if spot else changes


def removals(client: Client, around: Surroundings, *, instructed: bool) -> list[Change]:
    """Return what is to change for a client to know nothing of the server. Raises UsageError."""
    spots = (entry_spot(client, around), instructions_spot(client, around) if instructed else None)
    return [uninstall_at(each) for each in spots if each]


def served(opening: Opening) -> tuple[tuple[str, Path], ...]:
    """Return name and path of the folders to be named to the server; none where it takes the configured ones.

    A client starts its servers in any folder: the current one is named by its path. Raises UsageError where that cannot be meant,
    and for a folder that no server takes: one around the index directory, or with its index on a network drive.
    """
    # Imported here: `--help` must not pay for the rooms behind it.
    from thumbindex.library.folders import find_folders, place_of

    config = opening.load()
    directory = str(opening.index or config.index.directory)
    folders = find_folders(config, opening.folder, directory)
    is_current = not opening.folder and not config.folders
    if is_current and folders[0][1] in {Path.home().resolve(), Path(folders[0][1].anchor)}:
        raise UsageError(f"Without --folder the current one is served, and that is {folders[0][1]}: name the folder with your notes with --folder.")
    for _, root in folders:
        place_of(directory, root)
    return folders if opening.folder or is_current else ()


def replaced(client: Client, around: Surroundings, opening: Opening) -> tuple[str, ...]:
    """Return the folders that the present entry names and the next one does not. Raises UsageError."""
    there = options_of(command_of(read_entry(entry_spot(client, around))), "--folder")
    kept = {Path(root).expanduser().resolve() for _, root in served(opening) or opening.load().folders.items()}
    return tuple(each for each in there if Path(each).resolve() not in kept)


def own_command(program: Path, python: Path) -> list[str]:
    """Return the command line that starts this program from anywhere, with no search path at hand."""
    beside = [python.with_name(name) for name in ("thumbindex", "thumbindex.exe")]
    for each in (program, program.with_name(f"{program.name}.exe"), *beside):
        if each.name in {"thumbindex", "thumbindex.exe"} and each.is_file():
            return [str(each.absolute())]
    # -P: the working directory may be a vault, whose files must never be imported.
    return [str(python.absolute()), "-P", "-m", "thumbindex"]


def advice(folders: Sequence[tuple[str, Path]]) -> str:
    """Return the line that makes an agent use the tools."""
    named = f" ({', '.join(name for name, _ in folders)})" if folders else ""
    return (
        f"Before answering anything that the user's notes and docs{named} may cover, ask the `query` tool of the MCP server `thumbindex`"
        " and cite what you use as path#heading (lines a-b)."
    )


def install_payload(client: Client, changes: Sequence[Change], kept: Sequence[Path | None], dry_run: bool) -> dict[str, Any]:
    """Return what `install --json` prints."""
    files = [
        {"path": str(change.path), "changed": not change.is_none, "difference": change.difference(), "backup": str(backup) if backup else None}
        for change, backup in zip(changes, kept, strict=True)
    ]
    return {"client": client.name, "dry_run": dry_run, "files": files}


def _options(opening: Opening, folders: Sequence[tuple[str, Path]]) -> list[str]:
    """Return the options of `serve`, with every path absolute: a client starts it in any folder."""
    given = [("--folder", str(root)) for _, root in folders]
    given += [("--set", each) for each in opening.overrides]
    paths = (("--index", opening.index), ("--config", opening.config))
    given += [(name, str(path.expanduser().absolute())) for name, path in paths if path]
    return [word for pair in given for word in pair]


def _refuse_bytes(command: Sequence[str]) -> None:
    for word in command:
        if word != word.encode("utf-8", "replace").decode("utf-8"):
            raise UsageError(f"{word!r} is no text that a client's file can hold: give the folder a name in UTF-8.")


def _print(client: Client, changes: Sequence[Change], kept: Sequence[Path | None], dry_run: bool, uninstall: bool) -> None:
    for change in changes:
        typer.echo(change.difference() or f"{change.path}: nothing to change", nl=change.is_none)
    for backup in kept:
        if backup:
            typer.echo(f"What was there is kept in {backup}")
    if all(change.is_none for change in changes):
        return
    if dry_run:
        typer.echo("Nothing was written: this was --dry-run.")
    else:
        told = "no longer starts thumbindex. If it is running, restart it." if uninstall else f"starts thumbindex. {client.restart}"
        typer.echo(f"{client.title} {told}")
