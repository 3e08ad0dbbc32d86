"""Plan the changes that `install` makes to a client's files."""

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
    RULE,
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
    """The location of our entry in a file."""

    path: Path
    editor: Editor
    keys: Keys = ()


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file's text before and after a change. None means that the file does not exist."""

    path: Path
    before: str | None
    after: str | None
    keep: bool = False  # whether to back up the file first
    restored: Path | None = None  # the backup to restore

    @property
    def is_empty(self) -> bool:
        """Return whether nothing changes."""
        return self.before == self.after

    def difference(self) -> str:
        """Return the change as a unified diff."""
        lines = unified_diff(
            (self.before or "").splitlines(),
            (self.after or "").splitlines(),
            "/dev/null" if self.before is None else str(self.path),
            "/dev/null" if self.after is None else str(self.path),
            n=1,  # more context might show a secret of another entry
            lineterm="",
        )
        return "".join(f"{line}\n" for line in lines)

    def write(self) -> Path | None:
        """Make the change. Return the path of the backup if this change made one.

        Raises UsageError.
        """
        if self.is_empty:
            return None
        write_text(self.path, self.after, self.before, keep=self.keep)
        if self.restored:
            self.restored.unlink(missing_ok=True)
        return backup_path(self.path) if self.keep else None


def entry_location(client: Client, machine: Machine) -> EntryLocation:
    """Return the location of a client's entry for our server.

    Raises UsageError if the file is unreadable.
    """
    path = client.file(machine)
    if client.is_toml:
        return EntryLocation(path, TOML, (*client.keys, ENTRY))
    return EntryLocation(path, JSON, (*client.keys, *_nested_keys(client, path), ENTRY))


def instructions_location(client: Client, machine: Machine) -> EntryLocation | None:
    """Return the location of our block in a client's file of standing instructions.

    None if the client has no such file.
    """
    return EntryLocation(client.instructions(machine), BLOCK) if client.instructions else None


def project_instructions_location(client: Client, project: Path) -> EntryLocation:
    """Return the location of our block or rule in a project's file of standing instructions."""
    files = [project / name for name in client.project_instructions]
    path = next((file for file in files if file.exists()), files[-1])
    return EntryLocation(path, RULE if path.suffix == ".mdc" else BLOCK)


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
    """Return the change that removes our entry from a file.

    If nothing else in the file has changed since the entry was added, the change restores the
    backup. Raises UsageError.
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
    """Return the extra key of the newer file format, or () for the older format."""
    if not client.inner:
        return ()
    text = read_text(path) or ""
    with suppress(MalformedError):  # the next reader reports it
        earlier = read_object(text, (*client.keys, ENTRY))
        later = read_object(text, (*client.keys, client.inner))
        # a server of that name would have a type
        if earlier is None and isinstance(later, dict) and not isinstance(later.get("type"), str):
            return (client.inner,)
    return ()  # all versions of the client support the older format


def entry_command(entry: Any) -> list[str]:
    """Return the command line in a client's entry; empty if there is none."""
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
    """Return the location of our entry in a client's configuration file inside a project.

    Raises UsageError if the client has no such file.
    """
    if not client.project:
        names = ", ".join(supported.name for supported in CLIENTS if supported.project)
        raise UsageError(f"--project does not support {client.title}, only {names}.")
    return EntryLocation(project.joinpath(*client.project), JSON, (*client.keys, ENTRY))


def project_command(client: Client, opening: OpenOptions, project: Path) -> list[str]:
    """Return a server's command line that works on the machine of everyone in a project.

    It has the program's name instead of its path, and folders inside the project.

    Raises UsageError.
    """
    if opening.index or opening.config or opening.overrides:
        raise UsageError(
            "--project takes only --folder: --index, --config and --set are specific to this "
            "machine."
        )
    command = ["thumbindex", "serve"]
    for folder in opening.folder or (".",):
        root = real_folder(folder)
        if not root.is_dir() or not root.is_relative_to(real_folder(project)):
            raise UsageError(
                f"There is no folder {folder} inside the project {project}: --project takes only "
                "folders of the project."
            )
        inside = root.relative_to(real_folder(project)).as_posix()
        if client.workspace:
            inside = client.workspace if inside == "." else f"{client.workspace}/{inside}"
        command += ["--folder", inside]
    return command


def find_client(name: str) -> Client:
    """Return a client by its name. Raises UsageError, which lists the clients."""
    for client in CLIENTS:
        if name.casefold() in {client.name, client.title.casefold()}:
            return client
    raise UsageError(
        f"There is no client {name!r}. The clients are "
        f"{', '.join(known.name for known in CLIENTS)}; for others, see docs/reference/clients.md."
    )


def this_machine() -> Machine:
    """Return the Machine that this process runs on."""
    return Machine(sys.platform, Path.home(), environment())


def folders_to_serve(opening: OpenOptions) -> tuple[tuple[str, Path], ...]:
    """Return the names and paths of the folders for the server's command line.

    Without --folder, returns the current folder, or none if folders are configured. Raises
    UsageError if a folder cannot be served.
    """
    config = opening.load()
    directory = str(opening.index or config.index.directory)
    folders = library.find_folders(config, opening.folder, directory)
    is_current = not opening.folder and not config.folders
    if is_current and folders[0][1] in {Path.home().resolve(), Path(folders[0][1].anchor)}:
        raise UsageError(
            f"Without --folder, the server would use the current folder, {folders[0][1]}: name "
            "the folder with your notes with --folder."
        )
    for _, root in folders:
        library.index_paths_of(directory, root)
    # a client may start the server in any folder, but the server reads the configuration
    return folders if opening.folder or is_current else ()


def serve_command(opening: OpenOptions, folders: Sequence[tuple[str, Path]]) -> list[str]:
    """Return the server's command line. Its paths are absolute: a client starts it in any folder.

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
                f"{word!r} is not valid UTF-8, so a client's file cannot hold it: rename the "
                "folder."
            )
    return command


def own_command(program: Path, python: Path) -> list[str]:
    """Return a command that starts this program in any folder and without PATH."""
    beside = [python.with_name(name) for name in ("thumbindex", "thumbindex.exe")]
    for path in (program, program.with_name(f"{program.name}.exe"), *beside):
        if path.name in {"thumbindex", "thumbindex.exe"} and path.is_file():
            return [str(path.absolute())]
    # -P: the working directory may be a vault, and its files must never be imported
    return [str(python.absolute()), "-P", "-m", "thumbindex"]


def instruction_line(folders: Sequence[tuple[str, Path]]) -> str:
    """Return the instruction that makes an agent use the tools."""
    names = f" ({', '.join(name for name, _ in folders)})" if folders else ""
    return (
        f"Before answering anything that the user's notes and docs{names} may cover, ask the "
        "`query` tool of the MCP server `thumbindex`"
        " and cite what you use as path#heading (lines a-b)."
    )
