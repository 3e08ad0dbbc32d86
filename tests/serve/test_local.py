"""A command is answered by a server that has the same index open, in the same bytes; where anything
differs, it opens the index itself.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from notes import write
from thumbindex.library import Library
from thumbindex.process import environment
from thumbindex.serve import local_client
from thumbindex.serve.background import Warnings
from thumbindex.serve.cli import app
from thumbindex.serve.local_client import (
    COMMANDS,
    LONGEST_REQUEST,
    STDOUT,
    TAKEN,
    frame,
    is_own,
    sockets_in,
)
from thumbindex.serve.local_server import LocalSocket, listen
from thumbindex.serve.opening import Opening
from waiting import TRUSTED_SECONDS

ASK = """
import sys
from thumbindex.serve import local_client
local_client.TAKE_SECONDS, local_client.ASK_SECONDS = {seconds}, {seconds}
code = local_client.ask_servers(sys.argv[1:])
sys.exit(99 if code is None else code)
"""
PATIENT, HASTY = ASK.format(seconds=10), ASK.format(seconds=local_client.TAKE_SECONDS)
"""A client that waits on a busy machine, and one that waits as long as a command does."""

NOBODY = 99
"""What it ends with where no server answers."""

TIMES = re.compile(rb'"seconds": [\d.e-]+')
"""Of a trace: no two runs of one command have the same."""

Open = Callable[[Opening], Library]


class Printed(NamedTuple):
    """What a command came to."""

    code: int
    stdout: bytes
    stderr: bytes


def ask(folder: Path, *arguments: str, client: str = PATIENT, **around: str) -> Printed:
    """Ask the servers there are from a process of its own, in a folder."""
    ended = subprocess.run(
        [sys.executable, "-c", client, *arguments],
        cwd=folder,
        env={**environment(), **around},
        capture_output=True,
        check=False,
    )
    return Printed(ended.returncode, TIMES.sub(b"", ended.stdout), ended.stderr)


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a runtime directory with a short path, as the addresses of sockets are, and let nothing
    else be this user's.
    """
    with tempfile.TemporaryDirectory(prefix="ti") as made:
        for name in ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            (Path(made) / name).mkdir()
            monkeypatch.setenv(name, str(Path(made) / name))
        yield Path(made) / "XDG_RUNTIME_DIR"


@pytest.fixture
def settled(library: Library) -> Library:
    """Return the library of the vault where nothing is left to do."""
    settle(library)
    return library


def settle(library: Library) -> None:
    """Index until nothing is left to do."""
    newest = max(each.stat().st_mtime for _, root in library.folders for each in root.rglob("*.md"))
    time.sleep(max(0.0, newest + TRUSTED_SECONDS - time.time()))
    for _ in range(2):
        library.index()
    assert library.up_to_date()


@pytest.fixture
def served(runtime: Path, settled: Library, open_fake: Open) -> Iterator[LocalSocket]:
    """Listen for commands over the vault."""
    local = LocalSocket(settled, Warnings(), open_fake)
    yield local
    local.close()


@pytest.fixture
def ask_here(served: LocalSocket, vault: Path, indexes: Path) -> Callable[..., Printed]:
    """Ask the server that has the vault open."""

    def ask_it(*arguments: str, client: str = PATIENT, **around: str) -> Printed:
        place = (f"--folder={vault}", f"--index={indexes}")
        return ask(vault, arguments[0], *place, *arguments[1:], client=client, **around)

    return ask_it


@pytest.fixture
def alone(
    open_fake: Open, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., Printed]:
    """Run a command in this process, in a folder, over an index that it opens itself."""

    def run(folder: Path, *arguments: str) -> Printed:
        monkeypatch.chdir(folder)
        with pytest.raises(SystemExit) as ended:
            typer.main.get_command(app).main(
                arguments, "thumbindex", standalone_mode=False, obj=open_fake
            )
        stdout, stderr = capfdbinary.readouterr()
        return Printed(ended.value.code, TIMES.sub(b"", stdout), stderr)

    return run


CASES = {
    "query": ("query", "how do I begin syncing?"),
    "query without an answer": ("query", "zzyzx quasar"),
    "query as JSON": ("query", "green button", "--json"),
    "query by a tag that no note has": ("query", "green button", "--tag", "guide/setpu"),
    "query with a wrong date": ("query", "notes", "--since", "yesterday"),
    "query with a wrong option": ("query", "notes", "--no-such-option"),
    "list": ("list",),
    "read as cited": ("read", "sync.md (lines 5-7)", "--json"),
    "outline": ("outline", "sync.md"),
    "related": ("related", "sync"),
    "broken": ("broken",),
    "orphans": ("orphans", "--json"),
    "why": ("why", "sync.md", "how do I begin syncing?"),
    "why of a note that is not there": ("why", "nowhere.md", "which note wins?"),
}


def test_every_command_that_a_server_answers_is_asked_here():
    assert {command for command, *_ in CASES.values()} == set(COMMANDS)


@pytest.mark.parametrize("case", CASES)
def test_a_server_answers_in_the_same_bytes_with_the_same_exit_code(
    case: str,
    served: LocalSocket,
    vault: Path,
    indexes: Path,
    tmp_path: Path,
    alone: Callable[..., Printed],
):
    arguments = (*CASES[case], "--folder", str(vault), "--index", str(indexes))
    assert ask(tmp_path, *arguments) == alone(tmp_path, *arguments)


@pytest.mark.parametrize(
    ("inside", "arguments"),
    [
        ("", ("query", "green button")),
        ("..", ("query", "green button", "--folder", "vault")),
        ("plugins", ("read", "./canvas.md", "--folder", "..")),
        ("plugins", ("why", "canvas.md", "boxes and arrows", "--folder", "..")),
    ],
)
def test_paths_are_seen_from_where_the_command_is_typed(
    inside: str,
    arguments: tuple[str, ...],
    served: LocalSocket,
    vault: Path,
    indexes: Path,
    alone: Callable[..., Printed],
):
    found = ask(vault / inside, *arguments, "--index", str(indexes))
    assert found.code == 0
    assert found == alone(vault / inside, *arguments, "--index", str(indexes))


def test_a_server_whose_own_directory_is_gone_answers_all_the_same(
    runtime: Path,
    settled: Library,
    open_fake: Open,
    vault: Path,
    indexes: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    (tmp_path / "gone").mkdir()
    local = LocalSocket(settled, Warnings(), open_fake)
    with monkeypatch.context() as there:
        there.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        found = ask(vault / "plugins", *CASES["query"], "--folder", "..", "--index", str(indexes))
    local.close()
    assert found.code == 0


@pytest.mark.parametrize(
    ("arguments", "around"),
    [
        (("--set", "query.limit=2"), {}),
        (("--wait",), {}),
        (("--wait-fresh=1",), {}),
        (("--help",), {}),
        (("--index", "/tmp/another"), {}),
        (("--config", "config.toml"), {}),
        (("--folder", "/usr"), {}),
        ((), {"TZ": "Asia/Tokyo"}),
        ((), {"HOME": "/tmp"}),
        ((), {"LONG": "x" * 100_000, "LONGER": "x" * 100_000, "LONGEST": "x" * 100_000}),
    ],
)
def test_a_command_with_anything_of_its_own_opens_the_index_itself(
    arguments: tuple[str, ...],
    around: Mapping[str, str],
    ask_here: Callable[..., Printed],
):
    assert ask_here("query", "green button", *arguments, **around) == (NOBODY, b"", b"")


@pytest.mark.parametrize("command", ["index", "forget", "--version", ""])
def test_no_server_is_asked_to_do_anything_but_read(command: str, ask_here: Callable[..., Printed]):
    assert ask_here(command).code == NOBODY


def test_a_note_that_is_saved_and_not_indexed_is_the_commands_own_to_take_in(
    ask_here: Callable[..., Printed], settled: Library, vault: Path
):
    question = ("query", "green button")
    write(vault / "new.md", "# New\n\nA green button, too.\n")
    not_indexed = ask_here(*question)
    settle(settled)
    indexed = ask_here(*question)
    (vault / "new.md").unlink()
    gone = ask_here(*question)
    settle(settled)
    assert [not_indexed.code, indexed.code, gone.code] == [NOBODY, 0, NOBODY]
    assert b"new.md" in indexed.stdout


def test_a_note_that_has_just_become_private_is_in_no_answer(
    ask_here: Callable[..., Printed], settled: Library, vault: Path
):
    note, text = vault / "diary.md", "# Diary\n\nThe lilac submarine.\n"
    write(note, text)
    settle(settled)
    before = ask_here("query", "lilac submarine")
    write(note, f"---\nprivate: true\n---\n{text}")
    after = ask_here("query", "lilac submarine")
    settle(settled)
    indexed = ask_here("query", "lilac submarine")
    note.unlink()
    settle(settled)
    assert b"diary.md" in before.stdout
    assert b"diary.md" not in after.stdout + indexed.stdout


def test_a_server_of_other_code_is_not_believed(
    served: LocalSocket, ask_here: Callable[..., Printed]
):
    served._program = ["before an upgrade"]
    assert ask_here("query", "green button").code == NOBODY


def test_two_folders_are_answered_together_and_each_alone(
    runtime: Path, open_fake: Open, vault: Path, tmp_path: Path, alone: Callable[..., Printed]
):
    other = tmp_path / "other"
    write(other / "tea.md", "# Tea\n\nA green button on the kettle.\n")
    with open_fake(Opening((str(vault), str(other)), tmp_path / "indexes")) as library:
        settle(library)
        local = LocalSocket(library, Warnings(), open_fake)
        for folders in ((vault, other), (other,), (vault,)):
            named = [f"--folder={each}" for each in folders]
            arguments = ("query", "green button", *named, f"--index={tmp_path / 'indexes'}")
            found = ask(tmp_path, *arguments)
            assert found.code == 0
            assert found == alone(tmp_path, *arguments)
        local.close()


# ------------------------------------------------------------------ who may ask, and whom


def test_nobody_listens_and_nobody_asks_where_others_may_look(
    runtime: Path, settled: Library, served: LocalSocket, ask_here: Callable[..., Printed]
):
    closed = ask_here("query", "green button").code
    Path(served.path).parent.chmod(0o750)
    opened = ask_here("query", "green button").code
    second = listen(settled, Warnings())
    assert second is not None
    assert (closed, opened, Path(second.path).parent) == (
        0,
        NOBODY,
        runtime.parent / "XDG_CACHE_HOME" / "thumbindex" / "run",
    )
    second.close()


def test_a_symlink_to_a_directory_is_not_taken_for_it(runtime: Path, served: LocalSocket):
    (runtime / "link").symlink_to(Path(served.path).parent)
    assert sockets_in(f"{runtime}/link") == []
    assert sockets_in(f"{runtime}/thumbindex") == [served.path]


def test_the_directory_and_the_socket_are_this_users_alone(served: LocalSocket):
    assert [
        Path(served.path).parent.stat().st_mode & 0o777,
        Path(served.path).stat().st_mode & 0o777,
    ] == [0o700, 0o600]


class Peer:
    """A connection of which the system says whose it is."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def getsockopt(self, *_: int) -> bytes:
        """Say whose it is."""
        return self._answer


@pytest.mark.parametrize(("stranger", "expected"), [(0, True), (1, False)])
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_another_user_at_the_other_end_is_turned_away(
    platform: str, stranger: int, expected: bool, monkeypatch: pytest.MonkeyPatch
):
    user = os.geteuid() + stranger
    monkeypatch.setattr(sys, "platform", platform)
    if platform == "darwin":  # which has no SO_PEERCRED
        monkeypatch.delattr(local_client.socket, "SO_PEERCRED")
    assert (
        is_own(
            Peer(
                struct.pack("3i", 1, user, 1)
                if platform == "linux"
                else struct.pack("2I", 0, user) + bytes(68)
            )
        )
        == expected
    )  # type: ignore[arg-type]


def test_where_there_are_no_such_sockets_nobody_listens_and_nobody_asks(
    runtime: Path, settled: Library, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delattr(socket, "AF_UNIX")
    assert listen(settled, Warnings()) is None
    assert local_client.ask_servers(["query", "green button"]) is None


def reply(request: bytes, path: str) -> bytes:
    """Send bytes and return what comes back until the other end closes."""
    found = b""
    with socket.socket(socket.AF_UNIX) as client, suppress(ConnectionError):
        client.settimeout(10)
        client.connect(path)
        client.sendall(request)
        while part := client.recv(1000):
            found += part
    return found


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"",
        b"\xff" * 100,
        frame(TAKEN, b"nothing"),
        frame(TAKEN, b'{"environment": 1, "folder": "/"}'),
        frame(TAKEN, b"[" * 100_000),
        struct.pack(">BI", TAKEN, LONGEST_REQUEST + 1),
    ],
)
def test_a_request_that_is_none_is_not_answered_and_the_next_one_is(
    request_bytes: bytes, served: LocalSocket, ask_here: Callable[..., Printed]
):
    assert reply(request_bytes, served.path) == b""
    assert ask_here("query", "green button").code == 0


def test_a_client_that_says_nothing_holds_nobody_up_for_long(
    served: LocalSocket, ask_here: Callable[..., Printed]
):
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(served.path)
        began = time.monotonic()
        assert ask_here("query", "green button", client=HASTY).code == NOBODY
        assert time.monotonic() - began < 10
        assert ask_here("query", "green button").code == 0


@pytest.mark.parametrize(
    "said",
    [b"", frame(TAKEN) + frame(STDOUT, b"half")],
)
def test_of_an_answer_that_breaks_off_nothing_is_printed(said: bytes, runtime: Path, vault: Path):
    (runtime / "thumbindex").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{runtime}/thumbindex/1.sock")
        server.listen()
        client = subprocess.Popen(
            [sys.executable, "-c", PATIENT, "query", "tea"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        connection, _ = server.accept()
        with connection:
            connection.recv(1 << 20)
            connection.sendall(said)
        assert (client.communicate(), client.returncode) == ((b"", b""), NOBODY)


def test_the_socket_of_a_server_that_was_killed_goes_with_the_next_one(
    runtime: Path, settled: Library, vault: Path
):
    (runtime / "thumbindex").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{runtime}/thumbindex/1.sock")
    assert ask(vault, "query", "tea").code == NOBODY
    local = listen(settled, Warnings())
    assert local is not None
    assert sockets_in(f"{runtime}/thumbindex") == [local.path]
    local.close()
    assert sockets_in(f"{runtime}/thumbindex") == []


# ------------------------------------------------------------------ what a server must not do


def test_a_lent_library_neither_writes_nor_loads_nor_closes(
    settled: Library, vault: Path, indexes: Path, runtime: Path, open_fake: Open
):
    cold = open_fake(Opening((str(vault),), indexes))
    cold._embedder, cold._given = None, False
    local = LocalSocket(cold, Warnings(), open_fake)
    found = ask(vault, "query", "green button", "--folder", str(vault), "--index", str(indexes))
    local.close()
    assert found.code == NOBODY
    assert not cold.models_ready
