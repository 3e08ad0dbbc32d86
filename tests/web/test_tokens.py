"""Tokens are shown once, stored as hashes, and refused as soon as their line is deleted."""

import hashlib
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from program import app
from thumbindex.errors import ConfigError, UsageError
from thumbindex.web.access import TokenFileVerifier
from thumbindex.web.token_file import TOKEN_PREFIX, add_token, read_hashes


def verified(file: TokenFileVerifier, token: str) -> str | None:
    access = anyio.run(file.verify_token, token)
    return access.client_id if access else None


def test_token_file_stores_only_hashes(tmp_path: Path) -> None:
    path = tmp_path / "new" / "secrets" / "tokens"
    token = add_token(path, "alice")
    assert token.startswith(TOKEN_PREFIX)
    assert token.removeprefix(TOKEN_PREFIX) not in path.read_text(encoding="utf-8")
    assert read_hashes(path) == {"alice": hashlib.sha256(token.encode()).digest()}
    assert sorted(entry.name for entry in path.parent.iterdir()) == [".tokens.lock", "tokens"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such limit")
@pytest.mark.parametrize("before", [None, "# ours"])
def test_full_disk_leaves_the_token_file_unchanged(tmp_path: Path, before: str | None) -> None:
    path = tmp_path / "tokens"
    if before is not None:
        path.write_text(before, encoding="utf-8")
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))"
    add = f"from thumbindex.cli.app import app; app(['token', 'x', '--token-file', {str(path)!r}])"
    result = subprocess.run(
        [sys.executable, "-c", f"{limited}\n{add}"], capture_output=True, text=True, check=False
    )
    assert (result.returncode, "Cannot write the token file" in result.stderr) == (2, True)
    assert (path.read_text(encoding="utf-8") if path.exists() else None) == before
    assert {entry.name for entry in tmp_path.iterdir()} <= {"tokens", ".tokens.lock"}


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_token_file_is_private(tmp_path: Path) -> None:
    add_token(tmp_path / "tokens", "alice")
    assert stat.S_IMODE((tmp_path / "tokens").stat().st_mode) == 0o600


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_existing_file_keeps_its_permissions_and_symlink(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "etc" / "tokens"
    link.parent.mkdir()
    real.write_text("# ours", encoding="utf-8")
    real.chmod(0o640)
    link.symlink_to(real)
    before = real.stat()
    add_token(link, "alice")
    after = real.stat()
    assert (
        link.is_symlink(),
        stat.S_IMODE(after.st_mode),
        after.st_ino,
        list(read_hashes(real)),
    ) == (True, 0o640, before.st_ino, ["alice"])
    assert real.read_text(encoding="utf-8").startswith("# ours\nalice sha256:")


def test_concurrent_additions_lose_no_token(tmp_path: Path) -> None:
    names = [f"user{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        tokens = dict(
            zip(
                names,
                pool.map(lambda name: add_token(tmp_path / "tokens", name), names),
                strict=True,
            )
        )
    file = TokenFileVerifier(tmp_path / "tokens")
    assert {name: verified(file, token) for name, token in tokens.items()} == {
        name: name for name in names
    }


def test_each_token_belongs_to_its_name(tmp_path: Path) -> None:
    tokens = {name: add_token(tmp_path / "tokens", name) for name in ("alice", "bob", "carol")}
    file = TokenFileVerifier(tmp_path / "tokens")
    assert {name: verified(file, token) for name, token in tokens.items()} == {
        name: name for name in tokens
    }
    wrong = [
        "",
        " ",
        tokens["bob"][:-1],
        tokens["bob"] + "x",
        tokens["bob"].lower(),
        "\x00",
        "\ud800",
        hashlib.sha256(tokens["bob"].encode()).hexdigest(),
    ]
    assert [verified(file, token) for token in wrong] == [None] * len(wrong)


def test_deleted_line_revokes_its_token_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    tokens = [add_token(path, name) for name in ("alice", "bob")]
    file = TokenFileVerifier(path)
    remaining = [
        line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("bob")
    ]
    path.write_text("\n".join(remaining), encoding="utf-8")
    assert [verified(file, token) for token in tokens] == ["alice", None]


@pytest.mark.parametrize("text", [None, "alice plain-text-token\n", "alice sha256:abc\n"])
def test_unreadable_token_file_refuses_all_tokens_and_is_logged(
    tmp_path: Path, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens"
    token = add_token(path, "alice")
    content = path.read_text(encoding="utf-8")
    file = TokenFileVerifier(path)
    path.unlink() if text is None else path.write_text(text, encoding="utf-8")
    assert verified(file, token) is None
    assert [
        f"{path}:" in message and message.endswith(". Until then, all tokens are refused.")
        for message in caplog.messages
    ] == [True]
    path.write_text(content, encoding="utf-8")
    assert verified(file, token) == "alice"


def test_plain_token_in_the_file_is_refused_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("# mine\nalice hunter2\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"tokens:2: expected `NAME sha256:HASH`") as caught:
        TokenFileVerifier(tmp_path / "tokens")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "group:finance", "*", "a" * 65, "a\nb"])
def test_invalid_token_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="not a valid token name"):
        add_token(tmp_path / "tokens", name)


def test_command_prints_only_the_token(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["token", "alice", "--token-file", str(tmp_path / "tokens")])
    again = CliRunner().invoke(app, ["token", "alice", "--token-file", str(tmp_path / "tokens")])
    file = TokenFileVerifier(tmp_path / "tokens")
    assert verified(file, result.stdout.strip()) == "alice"
    assert (again.exit_code, "already has a token named 'alice'" in again.stderr) == (2, True)


@pytest.mark.parametrize(
    "shown",
    ["", "Bearer", "Basic YTpi", "Bearer ti_" + "x" * 43, "Bearer " + "x.y.z"],
)
def test_only_health_works_without_a_token(running: Any, shown: str) -> None:
    headers = {"Authorization": shown} if shown else {}
    paths = {"/mcp": 401, "/metrics": 401, "/health": 200, "/ready": 200}
    assert {path: running.ask(path, headers=headers).status_code for path in paths} == paths
    refused = running.call("tools/list", headers)
    assert (
        refused.status_code,
        refused.json()["error"],
        "Bearer" in refused.headers["www-authenticate"],
    ) == (401, "invalid_token", True)
