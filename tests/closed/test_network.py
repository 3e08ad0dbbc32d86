"""Everything works without a network, and connects only to the local server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

USE = Path(__file__).parent / "use.py"
EXPECTED = {
    "embedded": 2,
    "command": "cellar.md",
    "stdio": "cellar.md",
    "http": "cellar.md",
    "page": [200, True],
}
ADDRESS = re.compile(r'sin6?_port=htons\((\d+)\).*?inet_(?:addr\(|pton\(AF_INET6, )"([^"]+)"')
"""Port and host of a call in the output of strace."""

SOCKET = re.compile(r'sun_path=(@?"[^"]*")')
"""Path of a Unix socket in the output of strace; local services also resolve names."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/cellar.md").write_text(
        "# Apples\n\nKeep fruit in a cool and dark room under the house.\n", encoding="utf-8"
    )
    (tmp_path / "notes/car.md").write_text(
        "# The car\n\nThe brakes were repaired in spring.\n", encoding="utf-8"
    )
    return tmp_path


def run_as_new_user(folder: Path, *command: object) -> str:
    """Run a program for a user with an empty home and without offline settings."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HF_", "XDG_", "THUMBINDEX"))
    }
    runtime = os.environ["XDG_RUNTIME_DIR"]
    environment = {**inherited, "HOME": str(folder), "XDG_RUNTIME_DIR": runtime}
    result = subprocess.run(
        [*map(str, command)], env=environment, capture_output=True, encoding="utf-8", timeout=300
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout


def can_run(*command: str) -> bool:
    return (
        shutil.which(command[0]) is not None
        and subprocess.run(command, capture_output=True).returncode == 0
    )


needs_strace = pytest.mark.skipif(
    not can_run("strace", "--seccomp-bpf", "-f", "true"),
    reason="strace is missing or not permitted",
)


def run_traced(folder: Path, *command: object) -> tuple[str, set[tuple[str, int]]]:
    """Run a program under strace; return its output and all addresses used, also by children.

    A Unix socket is listed with its path and port 0.
    """
    log = folder / "calls"
    calls = ("-e", "trace=connect,sendto,sendmsg,sendmmsg", "-e", "signal=none", "-o", log)
    output = run_as_new_user(folder, "strace", "-f", "--seccomp-bpf", "-qq", *calls, *command)
    trace = log.read_text(encoding="utf-8", errors="replace")
    return output, {(host, int(port)) for port, host in ADDRESS.findall(trace)} | {
        (path, 0) for path in SOCKET.findall(trace)
    }


@pytest.mark.long
@pytest.mark.skipif(
    not can_run("unshare", "-rn", "true"),
    reason="this system allows no private network namespace",
)
def test_everything_works_without_a_network(folder: Path) -> None:
    results = json.loads(run_as_new_user(folder, "unshare", "-rn", sys.executable, USE, folder))
    del results["port"]
    assert results == {"cut": True, **EXPECTED}


@pytest.mark.slow
@needs_strace
def test_only_the_local_server_is_contacted(folder: Path) -> None:
    output, addresses = run_traced(folder, sys.executable, USE, folder)
    results = json.loads(output)
    assert {name: results[name] for name in EXPECTED} == EXPECTED
    own_sockets = f'"{os.environ["XDG_RUNTIME_DIR"]}/thumbindex/'  # used by commands
    others = {(host, port) for host, port in addresses if not host.startswith(own_sockets)}
    assert others == {("127.0.0.1", results["port"])}


@pytest.mark.slow
@needs_strace
def test_trace_includes_addresses_used_by_children(folder: Path) -> None:
    script = (
        "import socket; [socket.socket(kind, socket.SOCK_DGRAM).sendto(b'x', to) for kind, to in "
        "((2, ('127.0.0.9', 9)), (1, '/nobody'))]"
    )
    _, addresses = run_traced(folder, "sh", "-c", f'{sys.executable} -c "{script}" || true')
    assert addresses == {("127.0.0.9", 9), ('"/nobody"', 0)}
