"""Planned changes of clients' files: every client, platform and kind of file."""

import json
import os
import stat
import tomllib
from pathlib import Path

import pytest

from thumbindex.errors import UsageError
from thumbindex.install.clients import CLIENTS, Client, Machine
from thumbindex.install.edit import backup_path
from thumbindex.install.plan import (
    entry_location,
    instructions_location,
    plan_install,
    plan_uninstall,
)

COMMAND = ["/opt/thumbindex", "serve", "--folder", "/notes"]
PLATFORMS = ("linux", "darwin", "win32")
BY_NAME = {client.name: client for client in CLIENTS}

PLACES = {
    ("claude-desktop", "linux"): ".config/Claude/claude_desktop_config.json",
    ("claude-desktop", "darwin"): "Library/Application Support/Claude/claude_desktop_config.json",
    ("claude-desktop", "win32"): "AppData/Roaming/Claude/claude_desktop_config.json",
    **{("claude-code", platform): ".claude.json" for platform in PLATFORMS},
    **{("cursor", platform): ".cursor/mcp.json" for platform in PLATFORMS},
    ("vscode", "linux"): ".config/Code/User/mcp.json",
    ("vscode", "darwin"): "Library/Application Support/Code/User/mcp.json",
    ("vscode", "win32"): "AppData/Roaming/Code/User/mcp.json",
    **{("windsurf", platform): ".codeium/windsurf/mcp_config.json" for platform in PLATFORMS},
    ("zed", "linux"): ".config/zed/settings.json",
    ("zed", "darwin"): ".config/zed/settings.json",
    ("zed", "win32"): "AppData/Roaming/Zed/settings.json",
    **{("codex", platform): ".codex/config.toml" for platform in PLATFORMS},
    **{("gemini-cli", platform): ".gemini/settings.json" for platform in PLATFORMS},
    **{("opencode", platform): ".config/opencode/opencode.json" for platform in PLATFORMS},
}

INSTRUCTIONS = {
    "claude-code": ".claude/CLAUDE.md",
    "windsurf": ".codeium/windsurf/memories/global_rules.md",
    "zed": ".config/zed/AGENTS.md",
    "codex": ".codex/AGENTS.md",
    "gemini-cli": ".gemini/GEMINI.md",
    "opencode": ".config/opencode/AGENTS.md",
}


def at(home: Path, platform: str = "linux", **environment: str) -> Machine:
    """Return a machine with all paths inside a home folder."""
    return Machine(platform, home, environment)


def install(client: Client, machine: Machine) -> None:
    plan_install(entry_location(client, machine), client.entry(COMMAND)).write()


def files(home: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in sorted(home.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(("name", "platform"), PLACES)
def test_install_creates_a_missing_file_and_uninstall_removes_it(
    name: str, platform: str, tmp_path: Path
) -> None:
    client, machine = BY_NAME[name], at(tmp_path, platform)
    install(client, machine)
    text = (tmp_path / PLACES[name, platform]).read_text(encoding="utf-8")
    value = tomllib.loads(text) if client.is_toml else json.loads(text)
    for key in (*client.keys, "thumbindex"):
        value = value[key]
    assert value.get("args", value["command"])[-3:] == COMMAND[1:]
    plan_uninstall(entry_location(client, machine)).write()
    assert files(tmp_path) == {}


@pytest.mark.parametrize(("name", "place"), INSTRUCTIONS.items())
def test_instructions_are_added_to_and_removed_from_the_clients_file(
    name: str, place: str, tmp_path: Path
) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("# Mine\r\n\r\nBe brief – always.".encode())
    spot = instructions_location(BY_NAME[name], at(tmp_path))
    assert spot is not None
    plan_install(spot, "Ask `query`.").write()
    assert b"\r\nAsk `query`.\r\n" in path.read_bytes()
    plan_uninstall(spot).write()
    assert files(tmp_path) == {place: "# Mine\r\n\r\nBe brief – always.".encode()}


@pytest.mark.parametrize(
    ("name", "variable", "place"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("gemini-cli", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("opencode", "XDG_CONFIG_HOME", "opencode/opencode.json"),
        ("zed", "XDG_CONFIG_HOME", "zed/settings.json"),
    ],
)
def test_path_in_an_environment_variable_is_used(
    name: str, variable: str, place: str, tmp_path: Path
) -> None:
    machine = at(tmp_path / "home", **{variable: str(tmp_path / "elsewhere")})
    assert BY_NAME[name].file(machine) == tmp_path / "elsewhere" / place


def test_claude_desktop_from_the_store_reads_its_own_folder(tmp_path: Path) -> None:
    machine = at(tmp_path, "win32")
    packaged = (
        tmp_path
        / "AppData/Local/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming"
        / "Claude/claude_desktop_config.json"
    )
    packaged.parent.mkdir(parents=True)
    assert BY_NAME["claude-desktop"].file(machine) == tmp_path / PLACES["claude-desktop", "win32"]
    packaged.write_text("{}", encoding="utf-8")
    assert BY_NAME["claude-desktop"].file(machine) == packaged


OLD_ENTRY = ', "thumbindex": {"type": "local", "command": ["x"]}'


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("{}", ["mcp", "thumbindex"]),
        ('{"mcp": {"a": {"type": "local", "command": ["x"]}}}', ["mcp", "thumbindex"]),
        (
            '{"mcp": {"servers": {"a": {"type": "local", "command": ["x"]}}}}',
            ["mcp", "servers", "thumbindex"],
        ),
        (f'{{"mcp": {{"servers": {{}}{OLD_ENTRY}}}}}', ["mcp", "thumbindex"]),
    ],
)
def test_opencode_entry_uses_the_format_of_the_file(
    text: str, keys: list[str], tmp_path: Path
) -> None:
    path = tmp_path / ".config/opencode/opencode.jsonc"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    install(BY_NAME["opencode"], at(tmp_path))
    value = json.loads(path.read_text(encoding="utf-8"))
    for key in keys:
        value = value[key]
    assert value == {"type": "local", "command": COMMAND}
    plan_uninstall(entry_location(BY_NAME["opencode"], at(tmp_path))).write()
    assert path.read_text(encoding="utf-8") == text.replace(OLD_ENTRY, "")


KINDS = {
    "empty": b"",
    "no newline at the end": b'{"theme": "dark"}',
    "with remarks": b'// mine\n{\n  // "thumbindex" is to come\n  "theme": "dark", /* so */\n}\n',
    "CRLF": b'{\r\n  "mcpServers": {\r\n    "a": {"command": "x"}\r\n  }\r\n}\r\n',
    "with a byte order mark": b'\xef\xbb\xbf{\n\t"mcpServers": {}\n}\n',
    "in another language": '{\n  "thème": "foncé – 暗い"\n}\n'.encode(),
}


@pytest.mark.parametrize("content", KINDS.values(), ids=KINDS)
def test_uninstall_restores_every_byte_and_deletes_the_backup(
    content: bytes, tmp_path: Path
) -> None:
    path, machine = tmp_path / ".cursor/mcp.json", at(tmp_path)
    path.parent.mkdir()
    path.write_bytes(content)
    install(BY_NAME["cursor"], machine)
    assert backup_path(path).read_bytes() == content
    assert path.read_bytes()[:3] == content[:3] or content[:3] != b"\xef\xbb\xbf"
    plan_uninstall(entry_location(BY_NAME["cursor"], machine)).write()
    assert files(tmp_path) == {".cursor/mcp.json": content}


@pytest.mark.parametrize(
    "content", [b'model = "x"', b'\xef\xbb\xbfmodel = "x"\r\n', b"# only a remark\n", b""]
)
def test_uninstall_restores_every_byte_of_a_toml_file(content: bytes, tmp_path: Path) -> None:
    path, machine = tmp_path / ".codex/config.toml", at(tmp_path)
    path.parent.mkdir()
    path.write_bytes(content)
    install(BY_NAME["codex"], machine)
    assert b"[mcp_servers.thumbindex]" in path.read_bytes()
    plan_uninstall(entry_location(BY_NAME["codex"], machine)).write()
    assert files(tmp_path) == {".codex/config.toml": content}


def test_backup_is_the_file_before_our_latest_entry(tmp_path: Path) -> None:
    path, machine = tmp_path / ".cursor/mcp.json", at(tmp_path)
    path.parent.mkdir()
    for content in ('{"a": 1}', '{"b": 2}'):
        path.write_text(content, encoding="utf-8")
        install(BY_NAME["cursor"], machine)
        entry = BY_NAME["cursor"].entry(["/other", "serve"])
        plan_install(entry_location(BY_NAME["cursor"], machine), entry).write()
    assert files(tmp_path).keys() == {".cursor/mcp.json", ".cursor/mcp.json.thumbindex-backup"}
    plan_uninstall(entry_location(BY_NAME["cursor"], machine)).write()
    assert files(tmp_path) == {".cursor/mcp.json": b'{"b": 2}'}


def test_new_file_is_deleted_despite_an_old_backup(tmp_path: Path) -> None:
    path, machine = tmp_path / ".cursor/mcp.json", at(tmp_path)
    path.parent.mkdir()
    backup_path(path).write_text('{"a": 1}', encoding="utf-8")
    install(BY_NAME["cursor"], machine)
    plan_uninstall(entry_location(BY_NAME["cursor"], machine)).write()
    assert files(tmp_path) == {".cursor/mcp.json.thumbindex-backup": b'{"a": 1}'}


def test_handwritten_entry_is_kept_in_a_backup(tmp_path: Path) -> None:
    path, machine = tmp_path / ".cursor/mcp.json", at(tmp_path)
    path.parent.mkdir()
    by_hand = '{"mcpServers": {"thumbindex": {"command": "/mine", "disabled": true}}}'
    path.write_text(by_hand, encoding="utf-8")
    install(BY_NAME["cursor"], machine)
    assert backup_path(path).read_text(encoding="utf-8") == by_hand
    plan_uninstall(entry_location(BY_NAME["cursor"], machine)).write()
    assert json.loads(path.read_text(encoding="utf-8")) == {"mcpServers": {}}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("cursor", b'\xef\xbb\xbf{"a": nope}', "mcp.json:1:7: expecting value"),
        (
            "cursor",
            b'{"mcpServers": "none"}',
            "mcp.json:1:1: cannot edit `mcpServers.thumbindex` in this form: add "
            '{"thumbindex": {"command": "/opt/thumbindex"',
        ),
        ("codex", b"a = 1\nb = = 2\n", "config.toml:2:5: invalid value"),
        (
            "codex",
            b"mcp_servers = {}\n",
            "config.toml:1:1: cannot edit `mcp_servers.thumbindex` in this form: add it by hand as "
            "its own table, one key per line: [mcp_servers.thumbindex]; "
            'command = "/opt/thumbindex"; args = ["serve", "--folder", "/notes"]',
        ),
        (
            "cursor",
            '{"a": 1}'.encode("utf-16"),
            "mcp.json is not UTF-8 (byte 0), so nothing was changed. Save it as UTF-8",
        ),
    ],
)
def test_broken_file_is_left_alone_and_reported_with_its_position(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    path = BY_NAME[name].file(at(tmp_path))
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(UsageError) as raised:
        install(BY_NAME[name], at(tmp_path))
    assert message in str(raised.value)
    assert [file.read_bytes() for file in path.parent.iterdir()] == [content]


def test_file_and_backup_keep_their_permissions(tmp_path: Path) -> None:
    path, machine = tmp_path / ".cursor/mcp.json", at(tmp_path)
    path.parent.mkdir()
    path.write_text("{}", encoding="utf-8")
    path.chmod(0o600)
    install(BY_NAME["cursor"], machine)
    modes = [stat.S_IMODE(file.stat().st_mode) for file in (path, backup_path(path))]
    assert modes == [0o600, 0o600]


def test_a_read_only_file_is_left_alone(tmp_path: Path) -> None:
    path, machine = tmp_path / ".cursor/mcp.json", at(tmp_path)
    path.parent.mkdir()
    path.write_text("{}", encoding="utf-8")
    path.chmod(0o444)
    with pytest.raises(UsageError, match="is read-only and was not changed"):
        install(BY_NAME["cursor"], machine)
    assert files(tmp_path) == {".cursor/mcp.json": b"{}"}


@pytest.mark.skipif(os.name == "nt", reason="symlinks need a privilege on Windows")
def test_symlinked_file_is_written_through(tmp_path: Path) -> None:
    path, machine, dotfiles = (
        tmp_path / ".cursor/mcp.json",
        at(tmp_path),
        tmp_path / "dotfiles.json",
    )
    path.parent.mkdir()
    dotfiles.write_text('{"a": 1}', encoding="utf-8")
    path.symlink_to(dotfiles)
    install(BY_NAME["cursor"], machine)
    assert (path.is_symlink(), "thumbindex" in dotfiles.read_text(encoding="utf-8")) == (True, True)
    plan_uninstall(entry_location(BY_NAME["cursor"], machine)).write()
    assert (path.is_symlink(), dotfiles.read_text(encoding="utf-8")) == (True, '{"a": 1}')


def test_changes_by_another_program_are_not_lost(tmp_path: Path) -> None:
    path, machine = tmp_path / ".claude.json", at(tmp_path)
    path.write_text('{"numStartups": 1}', encoding="utf-8")
    change = plan_install(
        entry_location(BY_NAME["claude-code"], machine),
        BY_NAME["claude-code"].entry(COMMAND),
    )
    path.write_text('{"numStartups": 2}', encoding="utf-8")
    with pytest.raises(UsageError, match="Another program has just changed"):
        change.write()
    assert path.read_text(encoding="utf-8") == '{"numStartups": 2}'


def test_diff_shows_little_more_than_the_changes(tmp_path: Path) -> None:
    path, machine = tmp_path / ".cursor/mcp.json", at(tmp_path)
    path.parent.mkdir()
    path.write_text(
        '{\n  "secret": "abc",\n  "mcpServers": {\n    "a": {}\n  }\n}\n', encoding="utf-8"
    )
    diff = plan_install(entry_location(BY_NAME["cursor"], machine), {"command": "x"}).difference()
    assert diff.splitlines()[3:] == [
        '   "mcpServers": {',
        '+    "thumbindex": {',
        '+      "command": "x"',
        "+    },",
        '     "a": {}',
    ]
    assert "abc" not in diff
