"""A server with the same index answers a command byte for byte; else the command runs itself."""

from __future__ import annotations

import io
import json
import logging
import pickle
import re
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from filelock import FileLock

from notes import write
from thumbindex.background.indexer import IndexingLoop
from thumbindex.cli import command_client
from thumbindex.cli.app import app
from thumbindex.cli.command_client import ACCEPTED, COMMANDS, fingerprint
from thumbindex.cli.command_server import CommandServer, listen
from thumbindex.errors import IndexDamagedError
from thumbindex.library import Library
from thumbindex.model import Answer
from thumbindex.opening import OpenOptions
from thumbindex.process import environment
from waiting import TRUSTED_SECONDS

PROGRAM = typer.main.get_command(app)


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.skipif(sys.platform == "win32", reason="commands do not ask servers there")
def test_slow_command_suggests_a_server_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    for seconds in (0.5, 2, 2):
        command_client.suggest_server(time.monotonic() - seconds)
    assert terminal.getvalue() == (
        "That took 2.0 s. While a server runs, it takes 0.2 s: keep an MCP client open, "
        "or `thumbindex page`.\n"
    )


ASK = """
import sys
from thumbindex.cli import command_client
command_client.TAKE_SECONDS = {seconds}
command_client.ANSWER_SECONDS = max({seconds}, command_client.ANSWER_SECONDS)
code = command_client.ask_servers(sys.argv[1:])
sys.exit(99 if code is None else code)
"""
PATIENT, HASTY = ASK.format(seconds=10), ASK.format(seconds=command_client.ACCEPT_SECONDS)
"""Clients with a long wait, for busy machines, and with the real one."""

NOBODY = 99
"""Exit code if no server answers."""

TIMES = re.compile(rb'"seconds": [\d.e-]+')
"""Times in a trace, which differ between runs."""

Open = Callable[[OpenOptions], Library]


class Printed(NamedTuple):
    """A command's exit code and output."""

    code: int
    stdout: bytes
    stderr: bytes


def ask(folder: Path, *arguments: str, client: str = PATIENT, **around: str) -> Printed:
    """Ask the servers from another process, in a folder."""
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
    """Make a private runtime directory, with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="ti") as directory:
        for name in ("XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            (Path(directory) / name).mkdir()
            monkeypatch.setenv(name, str(Path(directory) / name))
        yield Path(directory) / "XDG_RUNTIME_DIR"


@pytest.fixture
def settled(library: Library) -> Library:
    """Return the vault's library, completely indexed."""
    settle(library)
    return library


def settle(library: Library) -> None:
    """Index until nothing is left to do."""
    newest = max(note.stat().st_mtime for _, root in library.folders for note in root.rglob("*.md"))
    time.sleep(max(0.0, newest + TRUSTED_SECONDS - time.time()))
    for _ in range(2):
        library.index()
    assert library.is_up_to_date()


@pytest.fixture
def served(runtime: Path, settled: Library, open_fake: Open) -> Iterator[CommandServer]:
    local = CommandServer(settled, PROGRAM, open_fake)
    yield local
    local.close()


@pytest.fixture
def ask_here(served: CommandServer, vault: Path, indexes: Path) -> Callable[..., Printed]:
    """Ask the server of the vault."""

    def ask_it(*arguments: str, client: str = PATIENT, **around: str) -> Printed:
        place = (f"--folder={vault}", f"--index={indexes}")
        return ask(vault, arguments[0], *place, *arguments[1:], client=client, **around)

    return ask_it


@pytest.fixture
def alone(
    open_fake: Open, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> Callable[..., Printed]:
    """Run a command in this process, on an index that it opens itself."""

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
    "query without words": ("query", " "),
    "list": ("list",),
    "read as cited": ("read", "sync.md (lines 5-7)", "--json"),
    "outline": ("outline", "sync.md"),
    "related": ("related", "sync"),
    "why": ("why", "sync.md", "how do I begin syncing?"),
    "read of a heading that is not there": ("read", "canvas.md#Nowhere"),
}


def test_cases_cover_every_served_command():
    assert {command for command, *_ in CASES.values()} == set(COMMANDS)


@pytest.mark.parametrize("case", CASES)
def test_served_command_has_the_same_output_and_exit_code(
    case: str,
    served: CommandServer,
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
def test_paths_are_relative_to_the_clients_directory(
    inside: str,
    arguments: tuple[str, ...],
    served: CommandServer,
    vault: Path,
    indexes: Path,
    alone: Callable[..., Printed],
):
    result = ask(vault / inside, *arguments, "--index", str(indexes))
    assert result.code == 0
    assert result == alone(vault / inside, *arguments, "--index", str(indexes))


@pytest.mark.parametrize(
    ("arguments", "around"),
    [
        (("--set", "query.limit=2"), {}),
        (("--index", "/tmp/another"), {}),
        ((), {"TZ": "Asia/Tokyo"}),
        ((), {"PYTHONIOENCODING": "latin-1"}),
        (("x" * 100_000, "x" * 100_000, "x" * 100_000), {}),
    ],
)
def test_command_with_its_own_settings_is_not_served(
    arguments: tuple[str, ...],
    around: Mapping[str, str],
    ask_here: Callable[..., Printed],
):
    assert ask_here("query", "green button", *arguments, **around) == (NOBODY, b"", b"")


@pytest.mark.parametrize("command", ["index", "forget", "--version", ""])
def test_only_reading_commands_are_served(command: str, ask_here: Callable[..., Printed]):
    assert ask_here(command).code == NOBODY


def test_command_is_not_served_while_a_change_is_not_indexed(
    ask_here: Callable[..., Printed], settled: Library, vault: Path
):
    question = ("query", "green button")
    write(vault / "new.md", "# New\n\nA green button, too.\n")
    not_indexed = ask_here(*question)
    settle(settled)
    indexed = ask_here(*question)
    (vault / "new.md").unlink()
    deleted = ask_here(*question)
    settle(settled)
    assert [not_indexed.code, indexed.code, deleted.code] == [NOBODY, 0, NOBODY]
    assert b"new.md" in indexed.stdout


def test_command_after_an_edit_waits_for_the_indexer(
    ask_here: Callable[..., Printed],
    settled: Library,
    open_fake: Open,
    vault: Path,
    indexes: Path,
):
    watch = settled.opened[0].index_paths.watch
    with open_fake(OpenOptions((str(vault),), indexes)) as library, FileLock(watch):
        loop = IndexingLoop(library, lambda message: None)
        indexer = threading.Thread(target=loop.run)
        indexer.start()
        write(vault / "new.md", "# New\n\nA green button, too.\n")
        answer = ask_here("query", "green button")
        loop.stop()
        indexer.join()
    assert (answer.code, b"new.md" in answer.stdout) == (0, True)


def test_newly_private_note_is_in_no_answer(
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


def test_server_of_another_version_is_not_asked(
    served: CommandServer, ask_here: Callable[..., Printed]
):
    state(served, fingerprint=["before an upgrade"])
    assert ask_here("query", "green button").code == NOBODY


def test_two_folders_are_served_together_and_separately(
    runtime: Path, open_fake: Open, vault: Path, tmp_path: Path, alone: Callable[..., Printed]
):
    second = tmp_path / "other"
    write(second / "tea.md", "# Tea\n\nA green button on the kettle.\n")
    with open_fake(OpenOptions((str(vault), str(second)), tmp_path / "indexes")) as library:
        settle(library)
        local = CommandServer(library, PROGRAM, open_fake)
        for folders in ((vault, second), (second,), (vault,)):
            options = [f"--folder={folder}" for folder in folders]
            arguments = ("query", "green button", *options, f"--index={tmp_path / 'indexes'}")
            result = ask(tmp_path, *arguments)
            assert result.code == 0
            assert result == alone(tmp_path, *arguments)
        local.close()


# ------------------------------------------------------------------ permissions and faults


def endpoint(local: CommandServer) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(local.path.read_text(encoding="utf-8"))
    return content


def address(local: CommandServer) -> Path:
    """Return the socket of a server."""
    return local.path.with_suffix(".sock")


def state(local: CommandServer, **changes: Any) -> None:
    """Change the file that states a server's key."""
    local.path.write_text(json.dumps({**endpoint(local), **changes}), encoding="utf-8")


def test_socket_and_key_are_private_to_the_user(served: CommandServer) -> None:
    folder, places = served.path.parent, [served.path, address(served)]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, *places)] == [
        0o700,
        0o600,
        0o600,
    ]


def test_directory_open_to_others_is_not_used(
    served: CommandServer, settled: Library, ask_here: Callable[..., Printed]
) -> None:
    served.path.parent.chmod(0o755)
    assert (listen(settled, PROGRAM), ask_here("query", "green button").code) == (None, NOBODY)


def test_symlink_to_the_socket_directory_is_not_trusted(
    served: CommandServer, ask_here: Callable[..., Printed]
) -> None:
    folder = served.path.parent
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))
    assert ask_here("query", "green button").code == NOBODY


def test_client_without_the_key_gets_no_answer(served: CommandServer) -> None:
    with pytest.raises((AuthenticationError, EOFError)):
        Client(str(address(served)), "AF_UNIX", authkey=b"guessed")
    with Client(str(address(served)), "AF_UNIX") as stranger:
        stranger.recv_bytes()  # the challenge
        stranger.send_bytes(b"no answer to it")
        assert stranger.recv_bytes() == b"#FAILURE#"
        with pytest.raises((EOFError, OSError)):
            stranger.recv_bytes()


def test_server_without_the_key_is_not_trusted(
    served: CommandServer, ask_here: Callable[..., Printed]
) -> None:
    state(served, key="00" * 32)
    assert ask_here("query", "green button").code == NOBODY


@pytest.mark.parametrize("sent", [b"", b"no JSON", b"{}", pickle.dumps({"arguments": ["list"]})])
def test_malformed_request_is_declined_and_the_next_one_answered(
    sent: bytes, served: CommandServer, ask_here: Callable[..., Printed]
) -> None:
    key = bytes.fromhex(endpoint(served)["key"])
    with Client(str(address(served)), "AF_UNIX", authkey=key) as client:
        client.send_bytes(sent)
        with pytest.raises((EOFError, OSError)):
            client.recv_bytes()
    assert ask_here("query", "green button").code == 0


def test_silent_client_does_not_block_others(
    served: CommandServer, ask_here: Callable[..., Printed]
) -> None:
    with Client(str(address(served)), "AF_UNIX"):
        assert ask_here("query", "green button").code == 0


@pytest.mark.parametrize("reply", [None, b"", ACCEPTED])
def test_server_that_hangs_or_ends_delays_a_command_only_briefly(
    reply: bytes | None,
    served: CommandServer,
    ask_here: Callable[..., Printed],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    key = bytes.fromhex(endpoint(served)["key"])
    stated = served.path.read_text(encoding="utf-8")
    served.close()
    served.path.write_text(stated, encoding="utf-8")
    with Listener(str(address(served)), "AF_UNIX") as listener:

        def serve() -> None:
            with listener.accept() as connection:
                if reply is None:
                    connection.poll(5)
                    time.sleep(5)
                    return
                deliver_challenge(connection, key)
                answer_challenge(connection, key)
                connection.recv_bytes()
                connection.send_bytes(reply)

        threading.Thread(target=serve, daemon=True).start()
        started = time.monotonic()
        assert ask_here("query", "green button", client=HASTY) == (NOBODY, b"", b"")
        assert time.monotonic() - started < 3


def test_command_that_warns_is_not_served(
    runtime: Path,
    settled: Library,
    open_fake: Open,
    vault: Path,
    indexes: Path,
) -> None:
    def open_loudly(opening: OpenOptions) -> Library:
        logging.lastResort.handle(  # type: ignore[union-attr]
            logging.makeLogRecord({"levelno": logging.WARNING, "msg": "what the user has to know"})
        )
        return open_fake(opening)

    local = CommandServer(settled, PROGRAM, open_loudly)
    result = ask(vault, "list", f"--folder={vault}", f"--index={indexes}")
    local.close()
    assert result == (NOBODY, b"", b"")


def test_files_of_a_killed_server_are_skipped_and_deleted(
    runtime: Path, served: CommandServer, ask_here: Callable[..., Printed]
) -> None:
    folder = runtime / "thumbindex" / "run"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "dead.sock"))
    (folder / "dead.json").write_text(
        json.dumps({"key": "00", "fingerprint": fingerprint()}), encoding="utf-8"
    )
    served.path.rename(served.path.with_name("later.json"))
    address(served).rename(served.path.with_name("later.sock"))
    assert ask_here("query", "green button").code == 0
    assert {path.name for path in folder.iterdir()} == {"later.json", "later.sock"}


def test_index_without_vectors_is_not_served(
    runtime: Path, open_fake: Open, tmp_path: Path
) -> None:
    write(tmp_path / "tea" / "tea.md", "# Tea\n\nA green button on the kettle.\n")
    options = (f"--folder={tmp_path / 'tea'}", f"--index={tmp_path / 'indexes'}")
    with open_fake(OpenOptions((str(tmp_path / "tea"),), tmp_path / "indexes")) as library:
        time.sleep(TRUSTED_SECONDS)
        for _ in range(2):
            library.index(complete=False)
        local = CommandServer(library, PROGRAM, open_fake)
        without = ask(tmp_path, "query", "green button", *options)
        settle(library)
        with_them = ask(tmp_path, "query", "green button", *options)
        local.close()
    assert (without.code, with_them.code) == (NOBODY, 0)


class Damaged(Library):
    """A damaged library that must not be repaired."""

    def query(self, *_: Any, **__: Any) -> Answer:
        """Find damage."""
        raise IndexDamagedError("damaged")

    def repair(self, *_: Any, **__: Any) -> tuple[str, ...]:
        """Fail the test."""
        pytest.fail("a server repaired an index for a command")


def test_server_never_repairs_an_index_for_a_command(
    runtime: Path, settled: Library, open_fake: Open, vault: Path, indexes: Path
) -> None:
    damaged = copy(settled)
    damaged.__class__ = Damaged
    local = CommandServer(damaged, PROGRAM, open_fake)
    place = (f"--folder={vault}", f"--index={indexes}")
    codes = [
        ask(vault, *command, *place).code for command in (("list",), ("query", "green button"))
    ]
    local.close()
    assert codes == [0, NOBODY]
