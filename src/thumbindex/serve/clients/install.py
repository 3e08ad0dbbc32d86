"""The command `install`: have an MCP client start the server; every change is planned, shown, and only then written."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches, unified_diff
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from thumbindex.errors import UsageError
from thumbindex.process import environment
from thumbindex.serve.clients.edit import (
    Malformed,
    back_up,
    backups,
    lines_of,
    place,
    put_block,
    put_json,
    put_toml,
    read_block,
    read_json,
    read_text,
    read_toml,
    refuse_other,
    take_block,
    take_json,
    take_toml,
    without_mark,
    write_text,
)
from thumbindex.serve.clients.table import CLIENTS, NAME, Client, Surroundings
from thumbindex.serve.opening import FOUND, Opening, reported
from thumbindex.serve.options import JsonOption, takes_opening
from thumbindex.serve.terminal import print_json


@dataclass(frozen=True, slots=True)
class Spot:
    """Our place in one file, whatever the file's form."""

    path: Path
    read: Callable[[str], Any]  # of a text, None where nothing of ours is there
    put: Callable[[str, Any], str]
    take: Callable[[str, str], str]  # of a text, and of what it was before we came


@dataclass(frozen=True, slots=True)
class Change:
    """What a file holds and what it is to hold; None is no file."""

    path: Path
    before: str | None
    after: str | None
    keep: bool = False  # whether what it holds is to be kept beside it

    @property
    def is_none(self) -> bool:
        """Tell whether nothing is to be done."""
        return self.before == self.after

    def difference(self) -> str:
        """Return what changes as a unified diff, empty where nothing does."""
        old, new = (str(self.path) if text is not None else "/dev/null" for text in (self.before, self.after))
        # One line around is enough to see where it is: more might show what others keep secret.
        return "".join(unified_diff(_lines(self.before), _lines(self.after), old, new, n=1))

    def write(self) -> Path | None:
        """Make the change; return where the old file is kept, if it had to be. Raises UsageError."""
        if self.is_none:
            return None
        refuse_other(self.path, self.before)
        kept = back_up(self.path) if self.keep else None
        write_text(self.path, self.after, self.before)
        if not self.keep:
            self._forget_backup()
        return kept

    def _forget_backup(self) -> None:
        """Delete the newest backup where the file is again what it holds."""
        newest = next(backups(self.path), None)
        if newest and read_text(newest) == self.after:
            newest.unlink()


def entry_spot(client: Client, around: Surroundings) -> Spot:
    """Return where a client's entry for our server stands. Raises UsageError for a file that cannot be read."""
    path = client.file(around)
    if client.is_toml:
        keys = (*client.keys, NAME)
        return Spot(path, partial(read_toml, keys=keys), partial(_put_toml, keys), lambda text, _: take_toml(text, keys))
    keys = (*client.keys, *_inner(client, path), NAME)
    return Spot(path, partial(read_json, keys=keys), partial(_put_json, keys), lambda text, original: take_json(text, keys, original))


def instructions_spot(client: Client, around: Surroundings) -> Spot | None:
    """Return where a client's lasting instructions say that our tools are to be used; None where it reads no such file."""
    if client.instructions is None:
        return None
    return Spot(client.instructions(around), read_block, put_block, lambda text, _: take_block(text))


def install_at(spot: Spot, entry: Any) -> Change:
    """Return the change that puts an entry there. Raises UsageError for a file that cannot be read as what it should be."""
    before = read_text(spot.path)
    with_entry = _told(spot, before, lambda: _put(spot, before, entry))
    there = _told(spot, before, lambda: _read(spot, before))
    # A file that holds nothing but our entry needs no backup: there was none before us.
    is_ours = there is not None and _put(spot, None, there) == before
    return Change(spot.path, before, with_entry, keep=there is None or (not is_ours and next(backups(spot.path), None) is None))


def uninstall_at(spot: Spot) -> Change:
    """Return the change that takes our entry out: what was there before where nothing else has changed since. Raises UsageError."""
    before = read_text(spot.path)
    entry = _told(spot, before, lambda: _read(spot, before))
    if before is None or entry is None:
        return Change(spot.path, before, before)
    originals = list(_originals(spot))
    for original in (*originals, None):
        if _put(spot, original, entry) == before:
            return Change(spot.path, before, original)
    kept = [read_text(each) or "" for each in backups(spot.path)]
    mark, text = without_mark(before)
    after = mark + spot.take(text, without_mark((*originals, *kept, "")[0])[1])
    is_ours = not kept and "".join(after.split()) in {"", "{}"}
    return Change(spot.path, before, None if is_ours else after)


def read_entry(spot: Spot) -> Any:
    """Return our entry as it stands, None where there is none. Raises UsageError."""
    before = read_text(spot.path)
    return _told(spot, before, lambda: _read(spot, before))


def entry_of(client: Client, around: Surroundings, command: Sequence[str]) -> dict[str, Any]:
    """Return the entry that has a client start a command line."""
    entry = client.entry(command)
    if _inner(client, client.file(around)):
        del entry["enabled"]  # unknown to the later form
    return entry


def _inner(client: Client, path: Path) -> tuple[str, ...]:
    """Return the key between, where a file is of the later form; one that is of both, or new, is read by both versions as the earlier one."""
    if not client.inner:
        return ()
    text = without_mark(read_text(path) or "")[1]
    try:
        earlier, later = read_json(text, (*client.keys, NAME)), read_json(text, (*client.keys, client.inner))
    except Malformed:
        return ()  # whoever reads it next says so
    # A server that is itself called so has a type.
    return (client.inner,) if earlier is None and isinstance(later, dict) and not isinstance(later.get("type"), str) else ()


def _originals(spot: Spot) -> Iterator[str]:
    """Yield what the file was before we came, the newest first."""
    for each in backups(spot.path):
        text = read_text(each)
        try:
            if text is not None and _read(spot, text) is None:
                yield text
        except Malformed:
            continue


def _put(spot: Spot, text: str | None, entry: Any) -> str:
    mark, rest = without_mark(text or "")
    return mark + spot.put(rest, entry)


def _read(spot: Spot, text: str | None) -> Any:
    return spot.read(without_mark(text or "")[1])


def _told(spot: Spot, text: str | None, attempt: Callable[[], Any]) -> Any:
    try:
        return attempt()
    except Malformed as error:
        where = place(without_mark(text or "")[1], error.offset)
        raise UsageError(f"{spot.path}:{where}: {error.what}. Nothing was changed: mend the file and run this again.") from error


def _put_json(keys: Sequence[str], text: str, entry: Any) -> str:
    return put_json(text, keys, entry)


def _put_toml(keys: Sequence[str], text: str, entry: Any) -> str:
    return put_toml(text, keys, entry)


def _lines(text: str | None) -> list[str]:
    lines = lines_of(text or "")
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file\n"
    return lines


def command_of(entry: Any) -> list[str]:
    """Return the command line of a client's entry, empty where there is none."""
    command, args = (entry.get("command"), entry.get("args")) if isinstance(entry, Mapping) else (None, None)
    words = [*command] if isinstance(command, list) else [command, *(args if isinstance(args, list) else [])]
    return words if all(isinstance(each, str) for each in words) else []


def options_of(command: Sequence[str], name: str) -> Iterator[str]:
    """Yield the values that a command line gives to an option."""
    for word, following in pairwise([*command, ""]):
        if word == name:
            yield following
        elif word.startswith(f"{name}="):
            yield word.removeprefix(f"{name}=")


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
