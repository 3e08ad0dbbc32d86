"""Real servers answer real commands: in a pipe and a terminal, over stdio and HTTP."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from notes import write
from servers import SERVE, SERVE_HTTP, THUMBINDEX, ServerProcess, await_meaning
from thumbindex.process import environment
from waiting import TRUSTED_SECONDS

pytestmark = pytest.mark.slow

NOTES = {
    "sync.md": (
        "---\ntags: [guide/setup]\ndate: 2026-03-01\n---\n# Sync\n\n## Set up\n\n"
        "Press the green button to begin syncing your vault.\n"
    ),
    "canvas.md": (
        "# Canvas\n\nDraw boxes and arrows on an endless whiteboard. See [[sync]].\n\n"
        "| one | two |\n|---|---|\n| naïve | 東京 |\n"
    ),
}

# Reports whether the command opened the index itself: then the command line's parser is loaded.
RUN = """
import os, sys
from thumbindex.__main__ import main
try:
    main()
finally:
    with open(sys.argv[0], "w") as said:
        said.write("itself" if "typer" in sys.modules else "server")
"""
PROGRAM = (sys.executable, "-P", "-c", f"import sys; sys.argv[0] = sys.argv.pop(1){RUN}")

CASES = {
    "query": ("query", "how do I begin syncing?"),
    "JSON": ("query", "whiteboard", "--json"),
    "unknown heading": ("read", "canvas.md#Nowhere"),
}
TIMES = re.compile(rb'"seconds": [\d.e-]+')

LINK_IDS = re.compile(rb"(?<=\x1b]8;)id=\d+")
"""Invisible random ids that join the parts of a link in a terminal."""

Command = Callable[..., tuple[str, int, bytes]]


class Place:
    """A vault, its index, and its own home folder."""

    def __init__(self, root: Path) -> None:
        self.vault, self.here = root / "vault", root / "elsewhere"
        self.options = [f"--folder={self.vault}", f"--index={root / 'index'}"]
        for directory in (self.vault, self.here, root / "run", root / "home", root / "nobody"):
            directory.mkdir(mode=0o700)
        for name, text in NOTES.items():
            write(self.vault / name, text)
        self.said = root / "said"
        xdg = {
            name: str(root / "home" / name)
            for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
        }
        # a slow machine would be told once to start a server
        write(root / "home" / "XDG_STATE_HOME" / "thumbindex" / "server-suggested", "")
        self.around = {
            **environment(),
            **xdg,
            "HOME": str(root / "home"),
            "XDG_RUNTIME_DIR": str(root / "run"),
            "TERM": "xterm-256color",
        }
        self.alone = {**self.around, "XDG_RUNTIME_DIR": str(root / "nobody")}

    def sockets(self) -> list[str]:
        folder = Path(self.around["XDG_RUNTIME_DIR"], "thumbindex", "run")
        return sorted(str(path) for path in folder.glob("*.json")) if folder.is_dir() else []

    def await_socket(self) -> None:
        """Wait until a server answers commands."""
        until = time.monotonic() + 60
        while not self.sockets():
            assert time.monotonic() < until
            time.sleep(0.05)

    def piped(self, arguments: Sequence[str], around: Mapping[str, str]) -> tuple[str, int, bytes]:
        """Run a command in a pipe; return who answered, its exit code, and its output."""
        command = [*PROGRAM, str(self.said), *arguments, *self.options]
        ended = subprocess.run(
            command,
            env=around,
            cwd=self.here,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return self.said.read_text(), ended.returncode, TIMES.sub(b"", ended.stdout)

    def in_terminal(
        self, arguments: Sequence[str], around: Mapping[str, str], columns: int = 100
    ) -> tuple[str, int, bytes]:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 30, columns, 0, 0))
        command = [*PROGRAM, str(self.said), *arguments, *self.options]
        with subprocess.Popen(
            command, env=around, cwd=self.here, stdin=theirs, stdout=theirs, stderr=theirs
        ) as process:
            os.close(theirs)
            output = b""
            with suppress(OSError):  # Linux reports the end of output so
                while select.select([ours], [], [], 60)[0] and (part := os.read(ours, 10_000)):
                    output += part
        os.close(ours)
        return self.said.read_text(), process.returncode, TIMES.sub(b"", LINK_IDS.sub(b"", output))


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """Make a Place with a short path, and index it."""
    with tempfile.TemporaryDirectory(prefix="ti") as root:
        directory = Place(Path(root))
        time.sleep(TRUSTED_SECONDS)
        for _ in range(2):
            subprocess.run(
                [*THUMBINDEX, "index", "--complete", *directory.options],
                env=directory.around,
                check=True,
                capture_output=True,
            )
        yield directory


@contextmanager
def stdio_server(place: Place, *options: str) -> Iterator[ServerProcess]:
    """Start a server that answers commands."""
    with ServerProcess([*place.options, *options], SERVE, place.around, Path("/")) as server:
        server.call("query", query="sync")
        yield server


@pytest.fixture(scope="module")
def server(place: Place) -> Iterator[ServerProcess]:
    with stdio_server(place) as running:
        place.await_socket()
        # the first command makes the server import the command line
        first = place.piped(CASES["query"], place.around)
        assert first[1] == 0
        yield running


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("where", ["piped", "in_terminal"])
def test_command_prints_the_same_with_and_without_a_server(
    where: str, case: str, place: Place, server: ServerProcess
):
    run: Command = getattr(place, where)
    # a busy machine may be slow
    served = next(
        (result for _ in range(5) if (result := run(CASES[case], place.around))[0] == "server"),
        None,
    )
    assert served is not None
    assert served[1:] == run(CASES[case], place.alone)[1:]


@pytest.mark.parametrize(
    "around",
    [
        {"NO_COLOR": "1"},
        {"COLUMNS": "60"},
        {"TERM": "dumb"},
    ],
)
def test_every_kind_of_terminal_shows_the_same(
    around: Mapping[str, str], place: Place, server: ServerProcess
):
    served, alone = (
        place.in_terminal(CASES["query"], {**kind, **around})
        for kind in (place.around, place.alone)
    )
    assert served[1:] == alone[1:]
    assert served[0] == "server"


def test_only_protocol_messages_are_written_to_stdout(place: Place, server: ServerProcess):
    for _ in range(3):
        place.piped(CASES["query"], place.around)
        assert server.call("query", query="green button")["found"]


def test_http_server_answers_commands_and_removes_its_socket(place: Place):
    options = [*SERVE_HTTP, *place.options]
    before = place.sockets()
    with subprocess.Popen(
        options, env=place.around, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/"
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        until = time.monotonic() + 60
        while place.sockets() == before:
            assert time.monotonic() < until
            time.sleep(0.05)
        process.terminate()
        process.wait(20)
    assert place.sockets() == before


def test_server_with_answer_commands_off_opens_no_socket(place: Place):
    before = place.sockets()
    with stdio_server(place, "--set=serve.answer_commands=false") as server:
        await_meaning(server.call, "how do I begin syncing?")
        time.sleep(1)
        assert place.sockets() == before
