"""The command `install`: set up an MCP client to start the server."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from thumbindex.cli.options import JsonOption, takes_opening
from thumbindex.cli.terminal import print_json
from thumbindex.config import absolute, real_folder
from thumbindex.errors import UsageError
from thumbindex.install.clients import CLIENTS, ENTRY, Client, Surroundings
from thumbindex.install.edit import (
    BLOCK,
    JSON,
    TOML,
    Editor,
    Keys,
    Malformed,
    backup_of,
    naming,
    read_object,
    read_text,
    write_text,
)
from thumbindex.opening import Opening
from thumbindex.present.failures import FOUND, exits_with_code
from thumbindex.process import environment


@dataclass(frozen=True, slots=True)
class Spot:
    """The place of our entry in one file."""

    path: Path
    editor: Editor
    keys: Keys = ()


@dataclass(frozen=True, slots=True)
class Change:
    """A file's text before and after; None is no file."""

    path: Path
    before: str | None
    after: str | None
    keep: bool = False  # whether the file is copied before
    restored: Path | None = None  # the backup that the text comes from

    @property
    def is_none(self) -> bool:
        """Tell whether nothing is to be done."""
        return self.before == self.after

    def difference(self) -> str:
        """Return what changes as a unified diff, empty if nothing does."""
        lines = unified_diff(
            (self.before or "").splitlines(),
            (self.after or "").splitlines(),
            "/dev/null" if self.before is None else str(self.path),
            "/dev/null" if self.after is None else str(self.path),
            n=1,  # more lines around it might show a secret of another entry
            lineterm="",
        )
        return "".join(f"{line}\n" for line in lines)

    def write(self) -> Path | None:
        """Make the change; return the backup of the old file, if there is a new one.

        Raises UsageError.
        """
        if self.is_none:
            return None
        write_text(self.path, self.after, self.before, keep=self.keep)
        if self.restored:
            self.restored.unlink(missing_ok=True)
        return backup_of(self.path) if self.keep else None


def entry_spot(client: Client, around: Surroundings) -> Spot:
    """Return where a client's entry for our server stands.

    Raises UsageError for a file that cannot be read.
    """
    path = client.file(around)
    if client.is_toml:
        return Spot(path, TOML, (*client.keys, ENTRY))
    return Spot(path, JSON, (*client.keys, *_inner(client, path), ENTRY))


def instructions_spot(client: Client, around: Surroundings) -> Spot | None:
    """Return where a client's lasting instructions say that our tools are to be used; None where it
    reads no such file.
    """
    return Spot(client.instructions(around), BLOCK) if client.instructions else None


def install_at(spot: Spot, entry: Any) -> Change:
    """Return the change that puts an entry into a file.

    Raises UsageError for a file that cannot be read or edited.
    """
    before, editor, keys = read_text(spot.path), spot.editor, spot.keys
    with naming(spot.path):
        present = editor.read(before or "", keys)
        after = editor.put(before or "", keys, entry)
        # a file that this command made needs no backup
        is_ours = present is not None and editor.put("", keys, present) == before
    is_first = present is None or not (is_ours or backup_of(spot.path).exists())
    return Change(spot.path, before, after, keep=before is not None and is_first)


def uninstall_at(spot: Spot) -> Change:
    """Return the change that takes our entry out of a file.

    If nothing else has changed since, the file's backup comes back. Raises UsageError.
    """
    before, entry = read_text(spot.path), read_entry(spot)
    if before is None or entry is None:
        return Change(spot.path, before, before)
    editor, keys = spot.editor, spot.keys
    backup = backup_of(spot.path)
    for original in (read_text(backup), None):  # None: there was no file
        with suppress(Malformed):
            is_first = editor.read(original or "", keys) is None
            if is_first and editor.put(original or "", keys, entry) == before:
                restored = None if original is None else backup
                return Change(spot.path, before, original, restored=restored)
    with naming(spot.path):
        return Change(spot.path, before, editor.take(before, keys))


def read_entry(spot: Spot) -> Any:
    """Return our entry, or None if there is none. Raises UsageError."""
    with naming(spot.path):
        return spot.editor.read(read_text(spot.path) or "", spot.keys)


def _inner(client: Client, path: Path) -> tuple[str, ...]:
    """Return the key between, where a file is of the later form; one that is of both, or new, is
    read by both versions as the earlier one.
    """
    if not client.inner:
        return ()
    text = read_text(path) or ""
    with suppress(Malformed):  # whoever reads it next says so
        earlier = read_object(text, (*client.keys, ENTRY))
        later = read_object(text, (*client.keys, client.inner))
        # A server that is itself called so has a type.
        if earlier is None and isinstance(later, dict) and not isinstance(later.get("type"), str):
            return (client.inner,)
    return ()


def command_of(entry: Any) -> list[str]:
    """Return the command line of a client's entry, empty where there is none."""
    if not isinstance(entry, Mapping):
        return []
    command, args = entry.get("command"), entry.get("args")
    words: list[Any] = [*command] if isinstance(command, list) else [command]
    if isinstance(args, list):
        words += args
    return words if all(isinstance(each, str) for each in words) else []


def options_of(command: Sequence[str], name: str) -> Iterator[str]:
    """Yield the values that a command line gives to an option."""
    for word, following in pairwise([*command, ""]):
        if word == name:
            yield following
        elif word.startswith(f"{name}="):
            yield word.removeprefix(f"{name}=")


_CLIENT_HELP = f"One of {', '.join(each.name for each in CLIENTS)}."


@exits_with_code
@takes_opening
def install(
    ctx: typer.Context,
    opening: Opening,
    client: Annotated[str | None, typer.Argument(metavar="CLIENT", help=_CLIENT_HELP)] = None,
    project: Annotated[
        bool,
        typer.Option(
            "--project",
            help="Write the file of the project in the current directory, for all who work on it, "
            "not your own.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change and write nothing.")
    ] = False,
    uninstall: Annotated[
        bool, typer.Option("--uninstall", help="Take out what this command put in.")
    ] = False,
    no_instructions: Annotated[
        bool,
        typer.Option("--no-instructions", help="Leave CLAUDE.md, AGENTS.md or the like alone."),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Set up an MCP client to start the server.

    Without --folder it serves the configured folders, else the current one.

    Without CLIENT, list those that are found on this machine; with --project, it is Claude Code.
    """
    if client is None and not project:
        return _list_clients(surroundings(), as_json)
    chosen, around = _find_client(client or _TEAM), surroundings()
    spots = [project_spot(chosen, absolute(".")) if project else entry_spot(chosen, around)]
    if not no_instructions and not project and (lasting := instructions_spot(chosen, around)):
        spots.append(lasting)
    remarks = list[str]()
    if uninstall:
        changes = [uninstall_at(each) for each in spots]
        done = "no longer starts thumbindex. If it is running, restart it."
    elif project:
        command = project_command(chosen, opening, absolute("."))
        remarks = _replaced(spots[0], command, ())
        changes = [install_at(spots[0], chosen.entry(command))]
        done = (
            "starts thumbindex for whoever opens this project and has thumbindex installed. "
            f"{chosen.restart}"
        )
    else:
        folders = _served(opening)
        command, line = _serve_command(opening, folders), advice(folders)
        remarks = _replaced(spots[0], command, opening.load().folders.values())
        if not no_instructions and chosen.instructions is None:
            remarks += [
                f"{chosen.title} reads no file of lasting instructions. If it does not use the "
                "tools by itself, add this to its settings:",
                f"  {line}",
            ]
        entries = (chosen.entry(command), line)
        changes = [install_at(spot, entry) for spot, entry in zip(spots, entries, strict=False)]
        done = f"starts thumbindex. {chosen.restart}"
    kept = list[Path | None]()
    for change in changes:
        kept.append(None if dry_run else change.write())
        if not as_json:
            said = change.difference() or f"{change.path}: nothing to change"
            typer.echo(said, nl=change.is_none)
    if as_json:
        _print_as_json(chosen, dry_run, changes, kept)
        return FOUND
    for backup in filter(None, kept):
        typer.echo(f"What was there is kept in {backup}")
    if not all(change.is_none for change in changes):
        said = "Nothing was written: this was --dry-run." if dry_run else f"{chosen.title} {done}"
        typer.echo(said)
    for remark in remarks:
        typer.echo(remark)
    return FOUND


def _replaced(spot: Spot, command: Sequence[str], configured: Iterable[object]) -> list[str]:
    """Say which folders of the present entry a new command line leaves out."""
    served = [*options_of(command, "--folder")] or [*map(str, configured)]
    roots = {real_folder(each) for each in served}
    present = options_of(command_of(read_entry(spot)), "--folder")
    gone = [f"--folder {shlex.quote(each)}" for each in present if real_folder(each) not in roots]
    if not gone:
        return []
    return [
        "The entry named other folders until now, which it serves no more. To keep them, run "
        f"this again with {' '.join(gone)} as well."
    ]


def _print_as_json(
    client: Client, dry_run: bool, changes: Sequence[Change], kept: Sequence[Path | None]
) -> None:
    files = [
        {
            "path": str(change.path),
            "changed": not change.is_none,
            "difference": change.difference(),
            "backup": str(backup) if backup else None,
        }
        for change, backup in zip(changes, kept, strict=True)
    ]
    print_json({"client": client.name, "dry_run": dry_run, "files": files})


_TEAM = "claude-code"
"""The client that `--project` means where none is named: others read its file, `.mcp.json`, too."""


def _list_clients(around: Surroundings, as_json: bool) -> int:
    """List the clients that are found on this machine, each with its command."""
    found = [each for each in CLIENTS if each.is_here(around)]
    if as_json:
        facts = [
            {
                "name": each.name,
                "title": each.title,
                "found": each in found,
                "path": str(each.file(around)),
            }
            for each in CLIENTS
        ]
        print_json({"clients": facts})
        return FOUND
    if found:
        typer.echo("Found on this machine:")
    else:
        typer.echo("No client that this command knows was found on this machine.")
    width = max((len(each.title) for each in found), default=0)
    for each in found:
        typer.echo(f"  {each.title:{width}}  thumbindex install {each.name} --folder DIR")
    others = ", ".join(each.name for each in CLIENTS if each not in found)
    typer.echo(f"Not found: {others or 'none'}. docs/clients.md helps with more clients.")
    return FOUND


def project_spot(client: Client, project: Path) -> Spot:
    """Return where a project's own file names our server.

    Raises UsageError for a client that reads none.
    """
    if not client.project:
        known = ", ".join(each.name for each in CLIENTS if each.project)
        raise UsageError(
            f"{client.title} reads no file of a project that this command knows: --project is "
            f"for {known}."
        )
    return Spot(project.joinpath(*client.project), JSON, (*client.keys, ENTRY))


def project_command(client: Client, opening: Opening, project: Path) -> list[str]:
    """Return the command line of a server for all who work on a project: by name, with folders
    inside the project.

    Raises UsageError.
    """
    if opening.index or opening.config or opening.overrides:
        raise UsageError(
            "--project takes --folder alone: --index, --config and --set name what is on this "
            "machine only."
        )
    command = ["thumbindex", "serve"]
    for each in opening.folder or (".",):
        root = real_folder(each)
        if not root.is_dir() or not root.is_relative_to(real_folder(project)):
            raise UsageError(
                f"{each}: there is no such folder inside the project {project}: --project "
                "names folders of the project alone."
            )
        inside = root.relative_to(real_folder(project)).as_posix()
        if client.workspace:
            inside = client.workspace if inside == "." else f"{client.workspace}/{inside}"
        command += ["--folder", inside]
    return command


def _find_client(name: str) -> Client:
    """Return a client by its name; raise UsageError that says which there are."""
    for each in CLIENTS:
        if name.casefold() in {each.name, each.title.casefold()}:
            return each
    raise UsageError(
        f"There is no client {name!r}. The clients are "
        f"{', '.join(each.name for each in CLIENTS)}; docs/clients.md helps with others."
    )


def surroundings() -> Surroundings:
    """Return where this process runs."""
    return Surroundings(sys.platform, Path.home(), environment())


def _served(opening: Opening) -> tuple[tuple[str, Path], ...]:
    """Return name and path of the folders to be named to the server; none where it takes the
    configured ones.

    A client starts its servers in any folder: the current one is named by its path. Raises
    UsageError where that cannot be meant, and for a folder that no server takes: one around the
    index directory, or with its index on a network drive.
    """
    # Imported here, as everything of the library: `--help` does without.
    from thumbindex.library import find_folders, place_of

    config = opening.load()
    directory = str(opening.index or config.index.directory)
    folders = find_folders(config, opening.folder, directory)
    is_current = not opening.folder and not config.folders
    if is_current and folders[0][1] in {Path.home().resolve(), Path(folders[0][1].anchor)}:
        raise UsageError(
            f"Without --folder the current one is served, and that is {folders[0][1]}: name "
            "the folder with your notes with --folder."
        )
    for _, root in folders:
        place_of(directory, root)
    return folders if opening.folder or is_current else ()


def _serve_command(opening: Opening, folders: Sequence[tuple[str, Path]]) -> list[str]:
    """Return the command line of the server, with every path absolute: a client starts it in any
    folder.

    Raises UsageError.
    """
    command = [*own_command(Path(sys.argv[0]), Path(sys.executable)), "serve"]
    for _, root in folders:
        command += ["--folder", str(root)]
    for each in opening.overrides:
        command += ["--set", each]
    for name, path in (("--index", opening.index), ("--config", opening.config)):
        command += [name, str(path.expanduser().absolute())] if path else []
    for word in command:
        if word != word.encode("utf-8", "replace").decode("utf-8"):
            raise UsageError(
                f"{word!r} is no text that a client's file can hold: give the folder a name "
                "in UTF-8."
            )
    return command


def own_command(program: Path, python: Path) -> list[str]:
    """Return the command line that starts this program from anywhere, with no search path at
    hand.
    """
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
        f"Before answering anything that the user's notes and docs{named} may cover, ask the "
        "`query` tool of the MCP server `thumbindex`"
        " and cite what you use as path#heading (lines a-b)."
    )
