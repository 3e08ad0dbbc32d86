"""The clients: where each keeps its servers, in which form, and where it reads instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "thumbindex"
"""What our entry is called in every client."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What places depend on; given in, so that every platform can be asked about on any."""

    platform: str  # as in `sys.platform`
    home: Path
    environment: Mapping[str, str]

    def folder(self, variable: str, *below_home: str) -> Path:
        """Return the folder that a variable of the environment names, else one below the home folder."""
        named = self.environment.get(variable, "")
        return Path(named) if named else self.home.joinpath(*below_home)

    def application(self, name: str) -> Path:
        """Return the folder where the platform keeps an application's settings."""
        if self.platform == "win32":
            return self.folder("APPDATA", "AppData", "Roaming") / name
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support" / name
        return self.folder("XDG_CONFIG_HOME", ".config") / name


Places = Callable[[Surroundings], Sequence[Path]]


@dataclass(frozen=True, slots=True)
class Client:
    """One client of MCP."""

    name: str  # on the command line
    title: str
    files: Places  # with its servers: the first one that is there, else the last one
    keys: tuple[str, ...]  # under which its servers stand
    entry: Callable[[Sequence[str]], dict[str, Any]]  # of a command line
    instructions: Callable[[Surroundings], Path] | None  # read with every question; None where there is no such file
    restart: str  # the sentence that says what makes it see a change
    inner: str = ""  # a key between those and the servers, in files of the client's later form

    @property
    def is_toml(self) -> bool:
        """Tell whether its file is TOML; all others are JSON, in which comments are left alone."""
        return self.name == "codex"

    def file(self, around: Surroundings) -> Path:
        """Return its file."""
        places = self.files(around)
        return next((each for each in places if each.exists()), places[-1])


def _plain(command: Sequence[str]) -> dict[str, Any]:
    return {"command": command[0], "args": list(command[1:])}


def _typed(command: Sequence[str]) -> dict[str, Any]:
    return {"type": "stdio", **_plain(command)}


def _local(command: Sequence[str]) -> dict[str, Any]:
    return {"type": "local", "command": list(command), "enabled": True}


def _claude_desktop(around: Surroundings) -> Sequence[Path]:
    name = "claude_desktop_config.json"
    plain = around.application("Claude") / name
    if around.platform != "win32":
        return (plain,)
    # As a packaged application it sees this folder in the place of the other one.
    local = around.folder("LOCALAPPDATA", "AppData", "Local")
    return (local / "Packages" / "Claude_pzs8sxrjxfjjc" / "LocalCache" / "Roaming" / "Claude" / name, plain)


def _claude_code(around: Surroundings) -> Sequence[Path]:
    return (around.folder("CLAUDE_CONFIG_DIR") / ".claude.json",)


def _zed(around: Surroundings) -> Path:
    if around.platform == "win32":
        return around.application("Zed")
    return around.home / ".config" / "zed" if around.platform == "darwin" else around.application("zed")


def _gemini(around: Surroundings) -> Path:
    return around.folder("GEMINI_CLI_HOME") / ".gemini"


def _open_code(around: Surroundings) -> Path:
    return around.folder("XDG_CONFIG_HOME", ".config") / "opencode"


CLIENTS: tuple[Client, ...] = (
    Client("claude-desktop", "Claude Desktop", _claude_desktop, ("mcpServers",), _plain, None, "Quit it and start it again."),
    Client(
        "claude-code",
        "Claude Code",
        _claude_code,
        ("mcpServers",),
        _typed,
        lambda around: around.folder("CLAUDE_CONFIG_DIR", ".claude") / "CLAUDE.md",
        "Start a new session.",
    ),
    Client(
        "cursor",
        "Cursor",
        lambda around: (around.home / ".cursor" / "mcp.json",),
        ("mcpServers",),
        _plain,
        None,
        "Switch the server on under Settings, MCP.",
    ),
    Client(
        "vscode",
        "VS Code",
        lambda around: (around.application("Code") / "User" / "mcp.json",),
        ("servers",),
        _typed,
        None,
        "Run `MCP: List Servers` and start it there.",
    ),
    Client(
        "windsurf",
        "Windsurf",
        lambda around: (around.home / ".codeium" / "windsurf" / "mcp_config.json",),
        ("mcpServers",),
        _plain,
        lambda around: around.home / ".codeium" / "windsurf" / "memories" / "global_rules.md",
        "Refresh its list of MCP servers.",
    ),
    Client(
        "zed",
        "Zed",
        lambda around: (_zed(around) / "settings.json",),
        ("context_servers",),
        _plain,
        lambda around: _zed(around) / "AGENTS.md",
        "It takes that up by itself.",
    ),
    Client(
        "codex",
        "Codex",
        lambda around: (around.folder("CODEX_HOME", ".codex") / "config.toml",),
        ("mcp_servers",),
        _plain,
        lambda around: around.folder("CODEX_HOME", ".codex") / "AGENTS.md",
        "Start a new session.",
    ),
    Client(
        "gemini-cli",
        "Gemini CLI",
        lambda around: (_gemini(around) / "settings.json",),
        ("mcpServers",),
        _plain,
        lambda around: _gemini(around) / "GEMINI.md",
        "Start a new session.",
    ),
    Client(
        "opencode",
        "OpenCode",
        lambda around: (_open_code(around) / "opencode.jsonc", _open_code(around) / "opencode.json"),
        ("mcp",),
        _local,
        lambda around: _open_code(around) / "AGENTS.md",
        "Start a new session.",
        inner="servers",
    ),
)
"""In the order of the documentation."""
