"""The checks of `doctor`: everything that an answer needs, with a remedy for each failure."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from thumbindex import library, postgres
from thumbindex.errors import ConfigError, ModelError, StorageError, ThumbindexError, UsageError
from thumbindex.install.clients import CLIENTS, Client, Machine
from thumbindex.install.plan import entry_command, entry_location, option_values, read_entry
from thumbindex.model import FolderStatus
from thumbindex.opening import OpenOptions
from thumbindex.present.sentences import (
    CHECK_GLOB,
    folder_state_sentence,
    folder_warning_lines,
    unmatched_glob_warning,
)
from thumbindex.process import environment, is_offline
from thumbindex.settings import AUTO_MODEL, Config
from thumbindex.text import plural

if TYPE_CHECKING:
    from thumbindex.library import ModelHealth

State = Literal["ok", "warn", "fail"]

_HANDSHAKE_SECONDS = 60.0
"""Maximum wait for a server to start and list its tools."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    subject: str
    state: State
    found: str
    remedy: str = ""  # what to do; empty if nothing
    places: tuple[str, ...] = ()  # details, one line each; mostly places in notes


def check_model(name: str, examine: Callable[[str], ModelHealth]) -> Check:
    """Check that a model is on this machine and that its files match the known hashes."""
    try:
        health = examine(name)
    except ModelError as error:
        if "/" in name and not is_offline() and "not on this machine" in str(error):
            return Check(
                "model",
                "warn",
                f"{name} is not on this machine",
                "Nothing to do: it is downloaded when it is first needed.",
            )
        return Check("model", "fail", str(error), "Until this is fixed, answers use keywords only.")
    alias = f"{name}: " if name != health.name else ""
    hashes = (
        f"the hashes of {health.verified} files match"
        if health.verified
        else "complete (no known hashes to compare)"
    )
    return Check(
        "model",
        "ok",
        f"{alias}{health.name}, {health.dimensions} dimensions, {hashes} ({health.folder})",
    )


def check_folder(
    status: FolderStatus, is_intact: Callable[[], bool], opening: OpenOptions
) -> Check:
    """Check a folder's status, and whether its index is intact."""
    subject, again = f"folder {status.folder}", opening.command("index", status.root)
    failure = status.failure
    if status.indexed and not failure:
        try:
            failure = "" if is_intact() else "damaged"
        except StorageError as error:
            failure = str(error)
    state, places = status.index, tuple(folder_warning_lines(status, opening))
    if failure:
        todo = f"Run `{again}`: it repairs the index and keeps the vectors."
        if failure == "of a later version":
            todo = "Use the version that wrote it, or another --index."
        severity: State = "warn" if failure == "busy" else "fail"
        return Check(subject, severity, f"{status.location}: {failure}", todo, places)
    description = f"{status.root}: {folder_state_sentence(status)}"
    if not status.is_missing and not os.access(status.root, os.R_OK | os.X_OK):
        return Check(
            subject, "warn", f"{description}, but not readable", "Give this user read access."
        )
    state_of_folder: State = "warn" if places else "ok"
    if not status.indexed:
        return Check(
            subject, state_of_folder, description, f"Run `{again}`, or start a server.", places
        )
    vectors = f"vectors for {state.vectors:,} of {plural(state.chunks, 'passage')}"
    description += f", {plural(state.documents, 'note')}, {vectors}, intact ({status.location})"
    lacks_vectors = state.pending and not state.is_refining
    if status.unfinished or (lacks_vectors and not status.writing):
        return Check(
            subject, "warn", description, f"Run `{again}`, or leave it to the server.", places
        )
    return Check(subject, state_of_folder, description, "", places)


def check_client(client: Client, machine: Machine) -> Check | None:
    """Check a client's entry for our server. Return None if there is no entry."""
    subject = f"client {client.name}"
    try:
        entry = read_entry(entry_location(client, machine))
    except UsageError as error:
        return Check(
            subject, "warn", str(error), "The client cannot read it either: correct the file."
        )
    if entry is None:
        return None
    again, file = f"Run `thumbindex install {client.name} --folder DIR`.", client.file(machine)

    def check(state: State, finding: str, remedy: str = "") -> Check:
        return Check(subject, state, f"{file}: {finding}", remedy)

    command = entry_command(entry)
    if not command:
        return check("fail", "the entry has no command", again)
    program = Path(command[0])
    if not program.is_absolute():
        problem = f"{program} is not an absolute path, so the client may not find it"
        return check("warn", problem, again)
    if not os.access(program, os.X_OK) or not program.is_file():
        return check("fail", f"{program} is not an executable file", again)
    if entry.get("disabled") is True or entry.get("enabled") is False:
        return check("warn", "the entry is disabled", f"Enable it in {client.title}.")
    missing = [folder for folder in option_values(command, "--folder") if not Path(folder).is_dir()]
    if missing:
        return check(
            "warn",
            f"missing folders: {', '.join(missing)}",
            f"Mount them, or correct the entry. {again}",
        )
    return check("ok", " ".join(command))


def check_server_start(options: Sequence[str]) -> Check:
    """Start a server, list its tools over MCP, and stop it."""
    started = time.perf_counter()
    try:
        tools = asyncio.run(_tools_of_server(options))
    except Exception as error:  # the SDK raises MCPError, OSError and others, often in groups
        cause = error
        while isinstance(cause, ExceptionGroup):
            cause = cause.exceptions[0]
        reason = str(cause) or f"no answer within {_HANDSHAKE_SECONDS:g} s"
        command = " ".join(["thumbindex", "serve", *options])
        return Check("handshake", "fail", reason, f"Run `{command}` to see the reason.")
    seconds = time.perf_counter() - started
    return Check("handshake", "ok", f"answered in {seconds:.1f} s; tools: {', '.join(tools)}")


async def _tools_of_server(options: Sequence[str]) -> list[str]:
    # imported late: no other command needs a client
    from mcp import Client, StdioServerParameters, stdio_client

    # -P: the working directory may be a vault, and its files must never be imported
    server = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "thumbindex", "serve", *options],
        env=dict(environment()),
    )
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        async with (
            asyncio.timeout(_HANDSHAKE_SECONDS),
            Client(stdio_client(server, nowhere), mode="legacy") as client,
        ):
            return [tool.name for tool in (await client.list_tools()).tools]


def check_database(url: str) -> Iterator[Check]:
    """Check everything that servers and builders need in a database of published folders."""
    try:
        with closing(postgres.Engine(url)) as engine:
            for finding in postgres.diagnose_database(engine):
                yield Check(
                    f"engine {finding.name}", "ok" if finding.is_ok else "fail", finding.sentence
                )
    except StorageError as error:
        yield Check("engine", "fail", str(error))


def run_checks(
    opening: OpenOptions, machine: Machine, opener: Callable[[OpenOptions], Any]
) -> Iterator[Check]:
    """Run all checks and yield their results.

    The last check starts a server, which may write to the indexes. The others write nothing.
    """
    if opening.engine:
        yield from check_database(opening.engine)
        return
    try:
        config = opening.load()
    except ConfigError as error:
        yield Check(
            "configuration",
            "fail",
            str(error),
            "Correct it, since every command reads it.",
        )
        return
    if url := opening.database_in(config):
        yield from check_database(url)
    opening = replace(opening, engine=None)
    folders, source = opening.folder, "--folder"
    if not folders:
        folders, source = tuple(config.folders), "[folders] in the configuration"
    if not folders:
        folders, source = tuple(dict.fromkeys(_folders_in_entries(machine))), "a client's entry"
    yield Check(
        "configuration",
        "ok",
        f"{plural(len(config.explicit_keys), 'key')} set, "
        f"{plural(len(config.folders), 'folder')} named",
    )
    servable = yield from _examine_folders(
        [replace(opening, folder=(folder,)) for folder in folders], source, config, opener
    )
    clients = [result for result in (check_client(client, machine) for client in CLIENTS) if result]
    yield from clients or [
        Check(
            "clients",
            "warn",
            "no client is set up to start thumbindex",
            "Run `thumbindex install CLIENT`; `thumbindex install --help` lists them.",
        )
    ]
    if servable:  # without folders, a server would index the current one, which may be anything
        yield check_server_start(replace(opening, folder=servable).arguments())


def _examine_folders(
    openings: Sequence[OpenOptions],
    source: str,
    config: Config,
    opener: Callable[[OpenOptions], Any],
) -> Generator[Check, None, tuple[str, ...]]:
    """Check the folders, private globs and models. Return the folders that can be opened.

    `source` says where the folders were named.
    """
    models, servable = set[str](), list[str]()
    unmatched = set(config.corpus.private.globs)
    for opening in openings:
        try:
            with opener(opening) as opened:
                for folder, status in zip(opened.opened, opened.status(), strict=True):
                    yield check_folder(status, partial(library.is_intact, folder), opening)
                    models |= {status.index.model} - {""}
                unmatched &= set(opened.unmatched_private_globs())
            servable += opening.folder
        except ThumbindexError as error:
            unmatched = set()  # the globs may match in this folder
            todo = f"Correct or remove the path in {source}."
            yield Check(f"folder {opening.folder[0]}", "fail", str(error), todo)
    if not openings:
        unmatched = set()
        yield Check(
            "folders",
            "warn",
            "no folder is configured",
            "Add one with `thumbindex add DIR` or `thumbindex install CLIENT --folder DIR`.",
        )
    yield from (
        Check("private globs", "warn", unmatched_glob_warning(glob), CHECK_GLOB)
        for glob in sorted(unmatched)
    )
    # an existing index keeps its model: `auto` only applies to new ones
    names = set(models)
    if not models or config.encode.embed.model != AUTO_MODEL:
        names.add(config.encode.embed.model)
    for name in sorted(names):
        yield check_model(name, library.examine_model)
    return tuple(servable)


def _folders_in_entries(machine: Machine) -> Iterator[str]:
    """Yield the folders in clients' entries. Skip unreadable files, which check_client reports."""
    for client in CLIENTS:
        with suppress(ThumbindexError):
            entry = read_entry(entry_location(client, machine))
            yield from option_values(entry_command(entry), "--folder")
