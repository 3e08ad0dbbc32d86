"""The command `doctor`: check everything that has to be right for an answer, and say what to do
where it is not.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shlex import quote
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
"""The longest wait for a server's answers: as long as patient clients wait."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of what the doctor says."""

    subject: str
    state: State
    found: str
    remedy: str = ""  # what to do; empty where nothing is to be done
    places: tuple[str, ...] = ()  # more of it, a line each: mostly a place in a note


def check_model(name: str, examine: Callable[[str], ModelHealth]) -> Check:
    """Look for a model on this machine and compare its files with the digests that are known."""
    try:
        found = examine(name)
    except ModelError as error:
        if "/" in name and not is_offline() and "not on this machine" in str(error):
            return Check(
                "model",
                "warn",
                f"{name} is not on this machine",
                "Nothing to do: it is fetched when it is first needed.",
            )
        return Check("model", "fail", str(error), "Until then answers come from words alone.")
    asked = f"{name}: " if name != found.name else ""
    hashes = (
        f"the hashes of {found.verified} files are right"
        if found.verified
        else "whole; no hashes of it are known"
    )
    return Check(
        "model",
        "ok",
        f"{asked}{found.name}, {found.dimensions} dimensions, {hashes} ({found.folder})",
    )


def check_folder(status: FolderStatus, whole: Callable[[], bool]) -> Check:
    """Say of a folder what `status` says, and whether its index is whole."""
    subject, again = f"folder {status.folder}", f"thumbindex index --folder {quote(status.root)}"
    failure = status.failure
    if status.indexed and not failure:
        try:
            failure = "" if whole() else "damaged"
        except StorageError as error:
            failure = str(error)
    state, places = status.index, tuple(folder_warning_lines(status))
    if failure:
        todo = f"Run `{again}`: it repairs, vectors are kept."
        if failure == "of a later version":
            todo = "Use the version that wrote it, or another --index."
        doubt: State = "warn" if failure == "busy" else "fail"
        return Check(subject, doubt, f"{status.location}: {failure}", todo, places)
    found = f"{status.root}: {folder_state_sentence(status)}"
    if not status.is_missing and not os.access(status.root, os.R_OK | os.X_OK):
        return Check(subject, "warn", f"{found}, but it may not be read", "Allow it to be read.")
    well: State = "warn" if places else "ok"
    if not status.indexed:
        return Check(subject, well, found, f"The server makes one, or `{again}`.", places)
    vectors = f"{state.vectors:,} of {plural(state.chunks, 'chunk')} with vectors"
    found += f", {plural(state.documents, 'document')}, {vectors}, whole ({status.location})"
    if status.unfinished or (state.pending and not status.writing):
        return Check(subject, "warn", found, f"Run `{again}`, or leave it to the server.", places)
    return Check(subject, well, found, "", places)


def check_client(client: Client, machine: Machine) -> Check | None:
    """Look at one client's entry for the server; None where it has none."""
    subject = f"client {client.name}"
    try:
        entry = read_entry(entry_location(client, machine))
    except UsageError as error:
        return Check(subject, "warn", str(error), "The client cannot read it either.")
    if entry is None:
        return None
    again, file = f"Run `thumbindex install {client.name}` with its folders.", client.file(machine)

    def check(state: State, found: str, remedy: str = "") -> Check:
        return Check(subject, state, f"{file}: {found}", remedy)

    command = entry_command(entry)
    if not command:
        return check("fail", "the entry names no command", again)
    program = Path(command[0])
    if not program.is_absolute():
        lost = f"{program} is looked for where the client looks, which may find nothing"
        return check("warn", lost, again)
    if not os.access(program, os.X_OK) or not program.is_file():
        return check("fail", f"there is no program {program}", again)
    if entry.get("disabled") is True or entry.get("enabled") is False:
        return check("warn", "the entry is switched off", f"Switch it on in {client.title}.")
    away = [each for each in option_values(command, "--folder") if not Path(each).is_dir()]
    if away:
        return check(
            "warn", f"{', '.join(away)}: there is no such folder", f"Mount it, or: {again}"
        )
    return check("ok", " ".join(command))


def check_server_start(options: Sequence[str]) -> Check:
    """Start a server of our own, shake hands, list its tools, and end it."""
    began = time.perf_counter()
    try:
        tools = asyncio.run(_tools_of_server(options))
    except Exception as error:  # the SDK raises MCPError, OSError and others, often in groups
        cause = error
        while isinstance(cause, ExceptionGroup):
            cause = cause.exceptions[0]
        said = str(cause) or f"no answer within {_HANDSHAKE_SECONDS:g} s"
        command = " ".join(["thumbindex", "serve", *options])
        return Check("handshake", "fail", said, f"Run `{command}` yourself: it says why.")
    seconds = time.perf_counter() - began
    return Check("handshake", "ok", f"{seconds:.1f} s; tools {', '.join(tools)}")


async def _tools_of_server(options: Sequence[str]) -> list[str]:
    # Imported here: no other command needs a client.
    from mcp import Client, StdioServerParameters, stdio_client

    # -P: the working directory may be a vault, whose files must never be imported.
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
    """Look at a database that folders are published to: all that has to be right of it for a
    server, and what a builder needs.
    """
    try:
        with closing(postgres.Engine(url)) as engine:
            for each in postgres.diagnose_database(engine):
                yield Check(f"engine {each.name}", "ok" if each.is_ok else "fail", each.sentence)
    except StorageError as error:
        yield Check("engine", "fail", str(error))


def run_checks(
    opening: OpenOptions, machine: Machine, opener: Callable[[OpenOptions], Any]
) -> Iterator[Check]:
    """Yield what is found, one subject after another; the server that is started last writes what
    every server does, and nothing else does.
    """
    if opening.engine:
        yield from check_database(opening.engine)
        return
    try:
        config = opening.load()
    except ConfigError as error:
        yield Check("configuration", "fail", str(error), "Mend it: no command goes on without.")
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
    there = yield from _examine_folders(
        [replace(opening, folder=(folder,)) for folder in folders], source, config, opener
    )
    clients = [each for each in (check_client(client, machine) for client in CLIENTS) if each]
    yield from clients or [
        Check(
            "clients",
            "warn",
            "none starts thumbindex",
            "Run `thumbindex install CLIENT`; `thumbindex install --help` lists them.",
        )
    ]
    if there:
        yield check_server_start(replace(opening, folder=there).arguments())
    else:
        # A server without folders would take the current one in, which may be anything.
        # Windows deletes no file that is open: the server's child may take a moment longer to end.
        with tempfile.TemporaryDirectory(
            prefix="thumbindex-doctor-", ignore_cleanup_errors=True
        ) as made:
            (Path(made) / "empty").mkdir()
            empty = OpenOptions(
                (str(Path(made).resolve() / "empty"),),
                Path(made).resolve() / "index",
                None,
                opening.overrides,
            )
            yield check_server_start(empty.arguments())


def _examine_folders(
    openings: Sequence[OpenOptions],
    source: str,
    config: Config,
    opener: Callable[[OpenOptions], Any],
) -> Generator[Check, None, tuple[str, ...]]:
    """Yield what is found; return the folders that a server can be started with."""
    models, there = set[str](), list[str]()
    unmatched = set(config.corpus.private.globs)
    for opening in openings:
        try:
            with opener(opening) as opened:
                for folder, status in zip(opened.opened, opened.status(), strict=True):
                    yield check_folder(status, partial(library.is_intact, folder))
                    models |= {status.index.model} - {""}
                unmatched &= set(opened.unmatched_private_globs())
            there += opening.folder
        except ThumbindexError as error:
            unmatched = set()  # what it would match is unknown
            todo = f"Correct the path, or leave it out: {source} names it."
            yield Check(f"folder {opening.folder[0]}", "fail", str(error), todo)
    if not openings:
        unmatched = set()
        yield Check(
            "folders",
            "warn",
            "none is named",
            "Name yours: `thumbindex install CLIENT --folder DIR`, or [folders] in the "
            "configuration.",
        )
    yield from (
        Check("private globs", "warn", unmatched_glob_warning(glob), CHECK_GLOB)
        for glob in sorted(unmatched)
    )
    # An index keeps the model that it was made with: `auto` is only for those to come.
    wanted = set(models)
    if not models or config.encode.embed.model != AUTO_MODEL:
        wanted.add(config.encode.embed.model)
    for name in sorted(wanted):
        yield check_model(name, library.examine_model)
    return tuple(there)


def _folders_in_entries(machine: Machine) -> Iterator[str]:
    """Yield the folders that clients have servers started with; files that cannot be read are told
    of later.
    """
    for client in CLIENTS:
        with suppress(ThumbindexError):
            entry = read_entry(entry_location(client, machine))
            yield from option_values(entry_command(entry), "--folder")
