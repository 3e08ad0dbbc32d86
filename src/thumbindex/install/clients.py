"""The clients: where each keeps its servers, in which form, and where it reads instructions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENTRY = "thumbindex"
"""What our entry is called in every client."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What places depend on; given in, so that every platform can be asked about on any."""

    platform: str  # as in `sys.platform`
    home: Path
    environment: Mapping[str, str]

    def folder(self, variable: str, *below_home: str) -> Path:
        """Return the folder that a variable of the environment names, else one below the home
        folder.
        """
        named = self.environment.get(variable, "")
        return Path(named) if named else self.home.joinpath(*below_home)

    def application(self, name: str) -> Path:
        """Return the folder where the platform keeps an application's settings."""
        if self.platform == "win32":
            return self.folder("APPDATA", "AppData", "Roaming") / name
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support" / name
        return self.folder("XDG_CONFIG_HOME", ".config") / name


def _plain(command: Sequence[str]) -> dict[str, Any]:
    return {"command": command[0], "args": list(command[1:])}


def _typed(command: Sequence[str]) -> dict[str, Any]:
    return {"type": "stdio", **_plain(command)}


@dataclass(frozen=True, slots=True)
class Client:
    """One client of MCP."""

    name: str  # on the command line
    title: str
    # with its servers: the first one that is there, else the last one
    files: Callable[[Machine], Sequence[Path]]
    keys: tuple[str, ...] = ("mcpServers",)  # under which its servers stand
    inner: str = ""  # a key between those and the servers, in files of the client's later form
    entry: Callable[[Sequence[str]], dict[str, Any]] = _plain  # of a command line
    # read with every question; None where there is no such file
    instructions: Callable[[Machine], Path] | None = None
    restart: str = "Start a new session."  # the sentence that says what makes it see a change
    # the parts of the path of a project's own file, from the project's folder on; empty where there
    # is no such file
    project: tuple[str, ...] = ()
    # how that file writes the project's folder; empty where it is the server's current directory
    workspace: str = ""

    @property
    def is_toml(self) -> bool:
        """Return whether the file is TOML; all others are JSON with comments."""
        return self.name == "codex"

    def file(self, machine: Machine) -> Path:
        """Return its file."""
        places = self.files(machine)
        # a folder may be closed to us
        return next((place for place in places if os.path.exists(place)), places[-1])  # noqa: PTH110

    def is_installed(self, machine: Machine) -> bool:
        """Return whether it has been used on this machine: its file is there, or a folder of its
        own.
        """
        file = self.file(machine)
        own = [
            each.parent
            for each in (file, *([self.instructions(machine)] if self.instructions else ()))
            if each.parent != machine.home
        ]
        return os.path.exists(file) or any(map(os.path.isdir, own))  # noqa: PTH110


def _claude_desktop(machine: Machine) -> Sequence[Path]:
    name = "claude_desktop_config.json"
    plain = machine.application("Claude") / name
    if machine.platform != "win32":
        return (plain,)
    # As a packaged application it sees this folder in the place of the other one.
    local = machine.folder("LOCALAPPDATA", "AppData", "Local")
    return (
        local / "Packages" / "Claude_pzs8sxrjxfjjc" / "LocalCache" / "Roaming" / "Claude" / name,
        plain,
    )


def _windsurf(machine: Machine) -> Path:
    return machine.home / ".codeium" / "windsurf"


def _zed(machine: Machine) -> Path:
    if machine.platform == "win32":
        return machine.application("Zed")
    if machine.platform == "darwin":
        return machine.home / ".config" / "zed"
    return machine.application("zed")


def _codex(machine: Machine) -> Path:
    return machine.folder("CODEX_HOME", ".codex")


def _gemini(machine: Machine) -> Path:
    return machine.folder("GEMINI_CLI_HOME") / ".gemini"


def _open_code(machine: Machine) -> Path:
    return machine.folder("XDG_CONFIG_HOME", ".config") / "opencode"


CLIENTS: tuple[Client, ...] = (
    Client(
        "claude-desktop", "Claude Desktop", _claude_desktop, restart="Quit it and start it again."
    ),
    Client(
        "claude-code",
        "Claude Code",
        lambda machine: (machine.folder("CLAUDE_CONFIG_DIR") / ".claude.json",),
        entry=_typed,
        instructions=lambda machine: machine.folder("CLAUDE_CONFIG_DIR", ".claude") / "CLAUDE.md",
        project=(".mcp.json",),
    ),
    Client(
        "cursor",
        "Cursor",
        lambda machine: (machine.home / ".cursor" / "mcp.json",),
        restart="Switch the server on under Settings, MCP.",
        project=(".cursor", "mcp.json"),
        workspace="${workspaceFolder}",
    ),
    Client(
        "vscode",
        "VS Code",
        lambda machine: (machine.application("Code") / "User" / "mcp.json",),
        keys=("servers",),
        entry=_typed,
        restart="Run `MCP: List Servers` and start it there.",
        project=(".vscode", "mcp.json"),
        workspace="${workspaceFolder}",
    ),
    Client(
        "windsurf",
        "Windsurf",
        lambda machine: (_windsurf(machine) / "mcp_config.json",),
        instructions=lambda machine: _windsurf(machine) / "memories" / "global_rules.md",
        restart="Refresh its list of MCP servers.",
    ),
    Client(
        "zed",
        "Zed",
        lambda machine: (_zed(machine) / "settings.json",),
        keys=("context_servers",),
        instructions=lambda machine: _zed(machine) / "AGENTS.md",
        restart="It takes that up by itself.",
    ),
    Client(
        "codex",
        "Codex",
        lambda machine: (_codex(machine) / "config.toml",),
        keys=("mcp_servers",),
        instructions=lambda machine: _codex(machine) / "AGENTS.md",
    ),
    Client(
        "gemini-cli",
        "Gemini CLI",
        lambda machine: (_gemini(machine) / "settings.json",),
        instructions=lambda machine: _gemini(machine) / "GEMINI.md",
    ),
    Client(
        "opencode",
        "OpenCode",
        lambda machine: (
            _open_code(machine) / "opencode.jsonc",
            _open_code(machine) / "opencode.json",
        ),
        keys=("mcp",),
        inner="servers",
        entry=lambda command: {"type": "local", "command": list(command)},
        instructions=lambda machine: _open_code(machine) / "AGENTS.md",
    ),
)
"""In the order of the documentation."""
