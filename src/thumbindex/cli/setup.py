"""The commands `install` and `doctor`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from thumbindex.cli.options import JsonOption, open_for, opening_options, opening_or_engine_options
from thumbindex.cli.terminal import print_json, print_line
from thumbindex.config import absolute_path
from thumbindex.errors import UsageError
from thumbindex.install.clients import CLIENTS, Client, Machine
from thumbindex.install.doctor import run_checks
from thumbindex.install.plan import (
    entry_location,
    find_client,
    folders_to_serve,
    instruction_line,
    instructions_location,
    plan_install,
    plan_uninstall,
    project_command,
    project_instructions_location,
    project_location,
    read_entry,
    serve_command,
    this_machine,
)
from thumbindex.opening import OpenOptions
from thumbindex.present.exit_codes import FOUND, NOT_FOUND, exits_with_code
from thumbindex.text import one_line, plural, redact_passwords

_CLIENT_HELP = f"The client: {', '.join(client.name for client in CLIENTS)}."


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
            help="Set up the project in the current directory, for everyone who works on it, "
            "instead of your own client.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes without writing them.")
    ] = False,
    uninstall: Annotated[
        bool, typer.Option("--uninstall", help="Remove what this command added.")
    ] = False,
    instructions: Annotated[
        bool,
        typer.Option(
            "--instructions",
            help="Also tell the client to use the tools, in its CLAUDE.md or AGENTS.md.",
        ),
    ] = False,
) -> int:
    """Set up an MCP client to start the server.

    Without --folder, the server uses the configured folders, or if there are none, the current
    folder.

    Without CLIENT, lists the clients on this machine; with --project, sets up Claude Code.
    """
    if client is None and not project:
        return _list_clients(this_machine())
    chosen, machine = find_client(client or _PROJECT_CLIENT), this_machine()
    here = absolute_path(".")
    location = project_location(chosen, here) if project else entry_location(chosen, machine)
    lasting = (
        project_instructions_location(chosen, here)
        if project
        else instructions_location(chosen, machine)
    )
    remarks = list[str]()
    if uninstall:
        changes = [plan_uninstall(place) for place in (location, lasting) if place]
        effect = "no longer starts thumbindex. If it is running, restart it."
    else:
        if project:
            command, line = project_command(chosen, opening, here), instruction_line(())
            effect = (
                "starts thumbindex for everyone who opens this project and has thumbindex "
                f"installed. {chosen.restart}"
            )
        else:
            folders = folders_to_serve(opening)
            command, line = serve_command(opening, folders), instruction_line(folders)
            names = [name for name, _ in folders] or opening.load().folders
            effect = f"starts thumbindex for {', '.join(names)}. {chosen.restart}"
        changes = [plan_install(location, chosen.entry(command))]
        if lasting is None:
            remarks += [
                f"{chosen.title} has no file for standing instructions. If it does not use the "
                "tools by itself, add this to its settings:",
                f"  {line}",
            ]
        elif instructions:
            changes.append(plan_install(lasting, line))
        elif read_entry(lasting) is None:
            remarks.append(
                f"If {chosen.title} does not use the tools by itself, run this again with "
                f"--instructions: it adds a line to {lasting.path}."
            )
    backups = list[Path | None]()
    for change in changes:
        backups.append(None if dry_run else change.write())
        text = change.difference() or f"{change.path}: nothing to change"
        typer.echo(text, nl=change.is_empty)
    for change in changes:
        if not (dry_run or uninstall or change.is_empty):
            typer.echo(f"Written to {change.path}")
    for backup in filter(None, backups):
        typer.echo(f"The previous file is saved as {backup}")
    if not all(change.is_empty for change in changes):
        text = "Nothing was written (--dry-run)." if dry_run else f"{chosen.title} {effect}"
        typer.echo(text)
    for remark in remarks:
        print_line(remark)
    return FOUND


_PROJECT_CLIENT = "claude-code"
"""Default client of `--project`. Other clients also read its file, `.mcp.json`."""


def _list_clients(machine: Machine) -> int:
    """List the clients on this machine: those set up, and the commands for the others."""
    installed = [client for client in CLIENTS if client.is_installed(machine)]
    set_up = [client for client in installed if _is_set_up(client, machine)]
    if not installed:
        typer.echo("No supported client was found on this machine.")
    width = max((len(client.title) for client in installed), default=0)
    for client in installed:
        state = "set up" if client in set_up else f"thumbindex install {client.name} --folder DIR"
        typer.echo(f"{client.title:{width}}  {state}")
    missing = ", ".join(client.name for client in CLIENTS if client not in installed)
    print_line(f"Not found: {missing or 'none'}. For other clients, see docs/reference/clients.md.")
    return FOUND


def _is_set_up(client: Client, machine: Machine) -> bool:
    with suppress(UsageError):  # a broken file, which `install CLIENT` and `doctor` report
        return read_entry(entry_location(client, machine)) is not None
    return False


_COLORS = {"ok": typer.colors.GREEN, "warn": typer.colors.YELLOW, "fail": typer.colors.RED}


@exits_with_code
@opening_or_engine_options
def doctor(
    ctx: typer.Context,
    opening: OpenOptions,
    as_json: JsonOption = False,
) -> int:
    """Check the installation, the folders and the clients.

    Without --folder, checks the configured folders, or if there are none, those in clients' files.

    With --engine, checks only a database of published folders.
    """
    checks = []
    for raw in run_checks(opening, this_machine(), lambda options: open_for(ctx, options)):
        # a client's entry may contain a database password
        check = replace(raw, found=redact_passwords(raw.found), remedy=redact_passwords(raw.remedy))
        checks.append(check)
        if as_json:
            continue
        state = typer.style(f"{check.state:<4}", fg=_COLORS[check.state])
        typer.echo(f"{state}  {one_line(f'{check.subject}: {check.found}')}")
        for line in filter(None, (*check.places, check.remedy)):
            typer.echo(f"      {one_line(line)}")
    failed, doubtful = (sum(check.state == state for check in checks) for state in ("fail", "warn"))
    if as_json:
        print_json(
            {"failed": failed, "warnings": doubtful, "checks": [asdict(check) for check in checks]}
        )
    else:
        typer.echo(
            f"{failed} failed, {plural(doubtful, 'warning')}, {len(checks) - failed - doubtful} ok"
        )
    return NOT_FOUND if failed else FOUND
