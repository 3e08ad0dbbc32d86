"""The command `install`: set up an MCP client to start the server."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from itertools import pairwise
from pathlib import Path
from typing import Any

from thumbindex import library
from thumbindex.config import real_folder
from thumbindex.errors import UsageError
from thumbindex.install.clients import CLIENTS, ENTRY, Client, Machine
from thumbindex.install.edit import (
    BLOCK,
    JSON,
    TOML,
    Editor,
    Keys,
    MalformedError,
    backup_path,
    naming_file,
    read_object,
    read_text,
    write_text,
)
from thumbindex.opening import OpenOptions
from thumbindex.process import environment


@dataclass(frozen=True, slots=True)
class EntryLocation:
    """The place of our entry in one file."""

    path: Path
    editor: Editor
    keys: Keys = ()


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file's text before and after; None is no file."""

    path: Path
    before: str | None
    after: str | None
    keep: bool = False  # whether the file is copied before
    restored: Path | None = None  # the backup that the text comes from

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is to be done."""
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
        if self.is_empty:
            return None
        write_text(self.path, self.after, self.before, keep=self.keep)
        if self.restored:
            self.restored.unlink(missing_ok=True)
        return backup_path(self.path) if self.keep else None


def entry_location(client: Client, machine: Machine) -> EntryLocation:
    """Return where a client's entry for our server stands.

    Raises UsageError for a file that cannot be read.
    """
    path = client.file(machine)
    if client.is_toml:
        return EntryLocation(path, TOML, (*client.keys, ENTRY))
    return EntryLocation(path, JSON, (*client.keys, *_nested_keys(client, path), ENTRY))


def instructions_location(client: Client, machine: Machine) -> EntryLocation | None:
    """Return where a client's lasting instructions say that our tools are to be used; None where it
    reads no such file.
    """
    return EntryLocation(client.instructions(machine), BLOCK) if client.instructions else None


def plan_install(location: EntryLocation, entry: Any) -> FileChange:
    """Return the change that puts an entry into a file.

    Raises UsageError for a file that cannot be read or edited.
    """
    before, editor, keys = read_text(location.path), location.editor, location.keys
    with naming_file(location.path):
        present = editor.read(before or "", keys)
        after = editor.put(before or "", keys, entry)
        # a file that this command made needs no backup
        is_ours = present is not None and editor.put("", keys, present) == before
    is_first = present is None or not (is_ours or backup_path(location.path).exists())
    return FileChange(location.path, before, after, keep=before is not None and is_first)


def plan_uninstall(location: EntryLocation) -> FileChange:
    """Return the change that takes our entry out of a file.

    If nothing else has changed since, the file's backup comes back. Raises UsageError.
    """
    before, entry = read_text(location.path), read_entry(location)
    if before is None or entry is None:
        return FileChange(location.path, before, before)
    editor, keys = location.editor, location.keys
    backup = backup_path(location.path)
    for original in (read_text(backup), None):  # None: there was no file
        with suppress(MalformedError):
            is_first = editor.read(original or "", keys) is None
            if is_first and editor.put(original or "", keys, entry) == before:
                restored = None if original is None else backup
                return FileChange(location.path, before, original, restored=restored)
    with naming_file(location.path):
        return FileChange(location.path, before, editor.take(before, keys))


def read_entry(location: EntryLocation) -> Any:
    """Return our entry, or None if there is none. Raises UsageError."""
    with naming_file(location.path):
        return location.editor.read(read_text(location.path) or "", location.keys)


def _nested_keys(client: Client, path: Path) -> tuple[str, ...]:
    """Return the key between, where a file is of the later form; one that is of both, or new, is
    read by both versions as the earlier one.
    """
    if not client.inner:
        return ()
    text = read_text(path) or ""
    with suppress(MalformedError):  # whoever reads it next says so
        earlier = read_object(text, (*client.keys, ENTRY))
        later = read_object(text, (*client.keys, client.inner))
        # A server that is itself called so has a type.
        if earlier is None and isinstance(later, dict) and not isinstance(later.get("type"), str):
            return (client.inner,)
    return ()


def entry_command(entry: Any) -> list[str]:
    """Return the command line of a client's entry, empty where there is none."""
    if not isinstance(entry, Mapping):
        return []
    command, args = entry.get("command"), entry.get("args")
    words: list[Any] = [*command] if isinstance(command, list) else [command]
    if isinstance(args, list):
        words += args
    return words if all(isinstance(word, str) for word in words) else []


def option_values(command: Sequence[str], name: str) -> Iterator[str]:
    """Yield the values that a command line gives to an option."""
    for word, following in pairwise([*command, ""]):
        if word == name:
            yield following
        elif word.startswith(f"{name}="):
            yield word.removeprefix(f"{name}=")


def project_location(client: Client, project: Path) -> EntryLocation:
    """Return where a project's own file names our server.

    Raises UsageError for a client that reads none.
    """
    if not client.project:
        known = ", ".join(each.name for each in CLIENTS if each.project)
        raise UsageError(
            f"{client.title} reads no file of a project that this command knows: --project is "
            f"for {known}."
        )
    return EntryLocation(project.joinpath(*client.project), JSON, (*client.keys, ENTRY))


def project_command(client: Client, opening: OpenOptions, project: Path) -> list[str]:
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


def find_client(name: str) -> Client:
    """Return a client by its name; raise UsageError that says which there are."""
    for client in CLIENTS:
        if name.casefold() in {client.name, client.title.casefold()}:
            return client
    raise UsageError(
        f"There is no client {name!r}. The clients are "
        f"{', '.join(each.name for each in CLIENTS)}; docs/clients.md helps with others."
    )


def this_machine() -> Machine:
    """Return where this process runs."""
    return Machine(sys.platform, Path.home(), environment())


def folders_to_serve(opening: OpenOptions) -> tuple[tuple[str, Path], ...]:
    """Return name and path of the folders to be named to the server; none where it takes the
    configured ones.

    A client starts its servers in any folder: the current one is named by its path. Raises
    UsageError where that cannot be meant, and for a folder that no server takes: one machine the
    index directory, or with its index on a network drive.
    """

    config = opening.load()
    directory = str(opening.index or config.index.directory)
    folders = library.find_folders(config, opening.folder, directory)
    is_current = not opening.folder and not config.folders
    if is_current and folders[0][1] in {Path.home().resolve(), Path(folders[0][1].anchor)}:
        raise UsageError(
            f"Without --folder the current one is served, and that is {folders[0][1]}: name "
            "the folder with your notes with --folder."
        )
    for _, root in folders:
        library.index_paths_of(directory, root)
    return folders if opening.folder or is_current else ()


def serve_command(opening: OpenOptions, folders: Sequence[tuple[str, Path]]) -> list[str]:
    """Return the command line of the server, with every path absolute: a client starts it in any
    folder.

    Raises UsageError.
    """
    command = [*own_command(Path(sys.argv[0]), Path(sys.executable)), "serve"]
    for _, root in folders:
        command += ["--folder", str(root)]
    for override in opening.overrides:
        command += ["--set", override]
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


def instruction_line(folders: Sequence[tuple[str, Path]]) -> str:
    """Return the line that makes an agent use the tools."""
    named = f" ({', '.join(name for name, _ in folders)})" if folders else ""
    return (
        f"Before answering anything that the user's notes and docs{named} may cover, ask the "
        "`query` tool of the MCP server `thumbindex`"
        " and cite what you use as path#heading (lines a-b)."
    )
