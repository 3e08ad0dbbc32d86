"""The commands `install` and `doctor`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thumbindex.cli.options import JsonOption, open_for, opening_options, opening_or_engine_options
from thumbindex.cli.terminal import print_json
from thumbindex.config import absolute_path, real_folder
from thumbindex.install.clients import CLIENTS, Client, Machine
from thumbindex.install.doctor import run_checks
from thumbindex.install.plan import (
    EntryLocation,
    FileChange,
    entry_command,
    entry_location,
    find_client,
    folders_to_serve,
    instruction_line,
    instructions_location,
    option_values,
    plan_install,
    plan_uninstall,
    project_command,
    project_location,
    read_entry,
    serve_command,
    this_machine,
)
from thumbindex.opening import OpenOptions
from thumbindex.present.exit_codes import FOUND, NOT_FOUND, exits_with_code
from thumbindex.text import one_line, redact_passwords

if TYPE_CHECKING:
    pass


_CLIENT_HELP = f"One of {', '.join(each.name for each in CLIENTS)}."


@exits_with_code
@opening_options
def install(
    ctx: typer.Context,
    opening: OpenOptions,
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
        return _list_clients(this_machine(), as_json)
    chosen, machine = find_client(client or _PROJECT_CLIENT), this_machine()
    locations = [
        project_location(chosen, absolute_path(".")) if project else entry_location(chosen, machine)
    ]
    if not no_instructions and not project and (lasting := instructions_location(chosen, machine)):
        locations.append(lasting)
    remarks = list[str]()
    if uninstall:
        changes = [plan_uninstall(location) for location in locations]
        done = "no longer starts thumbindex. If it is running, restart it."
    elif project:
        command = project_command(chosen, opening, absolute_path("."))
        remarks = _dropped_folders(locations[0], command, ())
        changes = [plan_install(locations[0], chosen.entry(command))]
        done = (
            "starts thumbindex for whoever opens this project and has thumbindex installed. "
            f"{chosen.restart}"
        )
    else:
        folders = folders_to_serve(opening)
        command, line = serve_command(opening, folders), instruction_line(folders)
        remarks = _dropped_folders(locations[0], command, opening.load().folders.values())
        if not no_instructions and chosen.instructions is None:
            remarks += [
                f"{chosen.title} reads no file of lasting instructions. If it does not use the "
                "tools by itself, add this to its settings:",
                f"  {line}",
            ]
        entries = (chosen.entry(command), line)
        changes = [
            plan_install(location, entry)
            for location, entry in zip(locations, entries, strict=False)
        ]
        done = f"starts thumbindex. {chosen.restart}"
    kept = list[Path | None]()
    for change in changes:
        kept.append(None if dry_run else change.write())
        if not as_json:
            said = change.difference() or f"{change.path}: nothing to change"
            typer.echo(said, nl=change.is_empty)
    if as_json:
        _print_as_json(chosen, dry_run, changes, kept)
        return FOUND
    for backup in filter(None, kept):
        typer.echo(f"What was there is kept in {backup}")
    if not all(change.is_empty for change in changes):
        said = "Nothing was written: this was --dry-run." if dry_run else f"{chosen.title} {done}"
        typer.echo(said)
    for remark in remarks:
        typer.echo(remark)
    return FOUND


def _dropped_folders(
    location: EntryLocation, command: Sequence[str], configured: Iterable[object]
) -> list[str]:
    """Say which folders of the present entry a new command line leaves out."""
    served = [*option_values(command, "--folder")] or [*map(str, configured)]
    roots = {real_folder(each) for each in served}
    present = option_values(entry_command(read_entry(location)), "--folder")
    gone = [f"--folder {shlex.quote(each)}" for each in present if real_folder(each) not in roots]
    if not gone:
        return []
    return [
        "The entry named other folders until now, which it serves no more. To keep them, run "
        f"this again with {' '.join(gone)} as well."
    ]


def _print_as_json(
    client: Client, dry_run: bool, changes: Sequence[FileChange], kept: Sequence[Path | None]
) -> None:
    files = [
        {
            "path": str(change.path),
            "changed": not change.is_empty,
            "difference": change.difference(),
            "backup": str(backup) if backup else None,
        }
        for change, backup in zip(changes, kept, strict=True)
    ]
    print_json({"client": client.name, "dry_run": dry_run, "files": files})


_PROJECT_CLIENT = "claude-code"
"""The client that `--project` means where none is named: others read its file, `.mcp.json`, too."""


def _list_clients(machine: Machine, as_json: bool) -> int:
    """List the clients that are found on this machine, each with its command."""
    found = [client for client in CLIENTS if client.is_local_path(machine)]
    if as_json:
        facts = [
            {
                "name": client.name,
                "title": client.title,
                "found": client in found,
                "path": str(client.file(machine)),
            }
            for client in CLIENTS
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
    others = ", ".join(client.name for client in CLIENTS if client not in found)
    typer.echo(f"Not found: {others or 'none'}. docs/clients.md helps with more clients.")
    return FOUND


_COLORS = {"ok": typer.colors.GREEN, "warn": typer.colors.YELLOW, "fail": typer.colors.RED}


@exits_with_code
@opening_or_engine_options
def doctor(
    ctx: typer.Context,
    opening: OpenOptions,
    as_json: JsonOption = False,
) -> int:
    """Check the installation, the folders and the clients.

    The folders are those of --folder, else the configured ones, else those that clients name.

    With --engine, check a database that folders are published to, and nothing else.
    """
    checks = []
    for found in run_checks(opening, this_machine(), lambda one: open_for(ctx, one)):
        # a client's entry may name a database with its password
        each = replace(
            found, found=redact_passwords(found.found), remedy=redact_passwords(found.remedy)
        )
        checks.append(each)
        if as_json:
            continue
        state = typer.style(f"{each.state:<4}", fg=_COLORS[each.state])
        typer.echo(f"{state}  {one_line(f'{each.subject}: {each.found}')}")
        for line in filter(None, (*each.places, each.remedy)):
            typer.echo(f"      {one_line(line)}")
    failed, doubtful = (sum(check.state == state for check in checks) for state in ("fail", "warn"))
    if as_json:
        print_json(
            {"failed": failed, "warnings": doubtful, "checks": [asdict(check) for check in checks]}
        )
    else:
        typer.echo(
            f"{failed} failed, {doubtful} to look at, {len(checks) - failed - doubtful} right"
        )
    return NOT_FOUND if failed else FOUND
