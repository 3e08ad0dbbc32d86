"""The supported MCP clients: their configuration files, entry formats and instruction files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENTRY = "thumbindex"
"""Name of our entry in the configuration file of every client."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The platform, home folder and variables that determine paths.

    Functions take it as a parameter, so that tests cover every platform.
    """

    platform: str  # as in `sys.platform`
    home: Path
    environment: Mapping[str, str]

    def folder(self, variable: str, *below_home: str) -> Path:
        """Return the folder that an environment variable names, or a default in the home folder."""
        path = self.environment.get(variable, "")
        return Path(path) if path else self.home.joinpath(*below_home)

    def application(self, name: str) -> Path:
        """Return the platform's folder for an application's settings."""
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
    """An MCP client."""

    name: str  # on the command line
    title: str
    # configuration files: the first that exists, else the last
    files: Callable[[Machine], Sequence[Path]]
    keys: tuple[str, ...] = ("mcpServers",)  # path to the servers in the file
    inner: str = ""  # key between `keys` and the servers in the newer file format
    entry: Callable[[Sequence[str]], dict[str, Any]] = _plain  # for a command line
    # file that the client reads with every question
    instructions: Callable[[Machine], Path] | None = None
    restart: str = "Start a new session."  # how to make it notice a change
    # relative path of a project's own file; empty if there is none
    project: tuple[str, ...] = ()
    # relative paths of a project's instructions: the first that exists, else the last
    project_instructions: tuple[str, ...] = ()
    # placeholder for the project's folder; empty if that is the server's current directory
    workspace: str = ""

    @property
    def is_toml(self) -> bool:
        """Return whether the file is TOML; all others are JSON with comments."""
        return self.name == "codex"

    def file(self, machine: Machine) -> Path:
        """Return the client's configuration file."""
        places = self.files(machine)
        # Path.exists raises in a folder without access
        return next((place for place in places if os.path.exists(place)), places[-1])  # noqa: PTH110

    def is_installed(self, machine: Machine) -> bool:
        """Return whether the client's configuration file or a settings folder exists."""
        file = self.file(machine)
        folders = [
            path.parent
            for path in (file, *([self.instructions(machine)] if self.instructions else ()))
            if path.parent != machine.home
        ]
        return os.path.exists(file) or any(map(os.path.isdir, folders))  # noqa: PTH110


def _claude_desktop(machine: Machine) -> Sequence[Path]:
    name = "claude_desktop_config.json"
    plain = machine.application("Claude") / name
    if machine.platform != "win32":
        return (plain,)
    # the packaged app sees this folder in place of the other one
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
        project_instructions=("CLAUDE.md", "AGENTS.md"),
    ),
    Client(
        "cursor",
        "Cursor",
        lambda machine: (machine.home / ".cursor" / "mcp.json",),
        restart="Switch the server on under Settings, MCP.",
        project=(".cursor", "mcp.json"),
        project_instructions=(".cursor/rules/thumbindex.mdc",),
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
        project_instructions=(".github/copilot-instructions.md",),
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
        restart="It notices the change by itself.",
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
"""The clients, in the order of the documentation."""
