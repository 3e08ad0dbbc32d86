"""All of it works where there is no network, and no address is asked for but the one on this
machine that a client asked.
"""

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
FOUND = {
    "embedded": 2,
    "command": "cellar.md",
    "stdio": "cellar.md",
    "http": "cellar.md",
    "page": [200, True],
}
ADDRESS = re.compile(r'sin6?_port=htons\((\d+)\).*?inet_(?:addr\(|pton\(AF_INET6, )"([^"]+)"')
"""Where a traced call went, as strace writes it: the port and the host."""

SOCKET = re.compile(r'sun_path=(@?"[^"]*")')
"""The same of a socket of this machine, by which services look names up for others."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/cellar.md").write_text(
        "# Apples\n\nKeep fruit in a cool and dark room under the house.\n", encoding="utf-8"
    )
    (tmp_path / "notes/car.md").write_text(
        "# The car\n\nThe brakes were repaired in spring.\n", encoding="utf-8"
    )
    return tmp_path


def strangers(place: Path, *command: object) -> str:
    """Run a program for a user with an empty home, who asked for no silence."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HF_", "XDG_", "THUMBINDEX"))
    }
    environment = {**kept, "HOME": str(place), "XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"]}
    done = subprocess.run(
        [*map(str, command)], env=environment, capture_output=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def can_run(*command: str) -> bool:
    return (
        shutil.which(command[0]) is not None
        and subprocess.run(command, capture_output=True).returncode == 0
    )


needs_strace = pytest.mark.skipif(
    not can_run("strace", "--seccomp-bpf", "-f", "true"),
    reason="strace is missing, or may not be used",
)


def written_down(place: Path, *command: object) -> tuple[str, set[tuple[str, int]]]:
    """Run a program under strace; return what it printed, and each address that it or a child asked
    or sent to: a look-up of a name is one, too.

    A socket of this machine stands there with its path and port 0.
    """
    log = place / "calls"
    calls = ("-e", "trace=connect,sendto,sendmsg,sendmmsg", "-e", "signal=none", "-o", log)
    printed = strangers(place, "strace", "-f", "--seccomp-bpf", "-qq", *calls, *command)
    said = log.read_text(encoding="utf-8", errors="replace")
    return printed, {(host, int(port)) for port, host in ADDRESS.findall(said)} | {
        (path, 0) for path in SOCKET.findall(said)
    }


@pytest.mark.long
@pytest.mark.skipif(
    not can_run("unshare", "-rn", "true"),
    reason="this system allows no network namespace of one's own",
)
def test_all_of_it_works_where_there_is_no_network(place: Path) -> None:
    found = json.loads(strangers(place, "unshare", "-rn", sys.executable, USE, place))
    del found["port"]
    assert found == {"cut": True, **FOUND}


@pytest.mark.slow
@needs_strace
def test_no_address_is_asked_for_but_the_one_on_this_machine_that_a_client_asked(
    place: Path,
) -> None:
    printed, asked = written_down(place, sys.executable, USE, place)
    found = json.loads(printed)
    assert {name: found[name] for name in FOUND} == FOUND
    own = f'"{os.environ["XDG_RUNTIME_DIR"]}/thumbindex/'  # by which a command asks a server
    others = {(host, port) for host, port in asked if not host.startswith(own)}
    assert others == {("127.0.0.1", found["port"])}


@pytest.mark.slow
@needs_strace
def test_an_address_that_a_child_sends_to_would_be_seen(place: Path) -> None:
    sending = (
        "import socket; [socket.socket(kind, socket.SOCK_DGRAM).sendto(b'x', to) for kind, to in "
        "((2, ('127.0.0.9', 9)), (1, '/nobody'))]"
    )
    _, asked = written_down(place, "sh", "-c", f'{sys.executable} -c "{sending}" || true')
    assert asked == {("127.0.0.9", 9), ('"/nobody"', 0)}
