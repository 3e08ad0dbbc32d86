"""Several real servers on one vault: one indexes, the others follow, and one takes over after a
crash.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from notes import write
from servers import ServerProcess, children_of, is_alive, is_found

pytestmark = pytest.mark.slow

Start = Callable[[], ServerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    write(tmp_path / "vault" / "first.md", "# First\n\nPlenty of apples grow on trees.\n")
    overrides = ("encode.embed.model=all-MiniLM-L6-v2",)
    options = [
        f"--folder={tmp_path / 'vault'}",
        f"--index={tmp_path / 'index'}",
        *(f"--set={override}" for override in overrides),
    ]
    with ExitStack() as running:
        yield lambda: running.enter_context(ServerProcess(options))


def seconds_until(is_so: Callable[[], bool], most: float = 20.0) -> float:
    started = time.monotonic()
    while not is_so() and time.monotonic() - started < most:
        time.sleep(0.02)
    assert is_so()
    return time.monotonic() - started


def watch_lock(tmp_path: Path) -> Path:
    (lock,) = (tmp_path / "index").glob("*/watch.lock")
    return lock


def holds(lock: Path, pid: int) -> bool:
    """Return whether a process holds a lock, according to /proc/locks."""
    inode = str(lock.stat().st_ino)
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(
        fields[1] == "FLOCK" and fields[4] == str(pid) and fields[5].endswith(f":{inode}")
        for fields in locks
    )


def save(tmp_path: Path, word: str) -> None:
    write(
        tmp_path / "vault" / "first.md", f"# First\n\nPlenty of apples grow on trees, {word} too.\n"
    )


@pytest.mark.alone
def test_second_server_sees_changes_within_a_second(tmp_path: Path, start: Start):
    first, follower = start(), start()
    for server in (first, follower):
        seconds_until(lambda server=server: is_found(server.call, "apples"))
    save(tmp_path, "quinces")
    seconds_until(lambda: is_found(first.call, "quinces"))
    assert seconds_until(lambda: is_found(follower.call, "quinces")) < 1.0


@pytest.mark.alone
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks children up in /proc")
def test_second_server_takes_over_indexing_after_the_first_is_killed(tmp_path: Path, start: Start):
    first = start()
    seconds_until(lambda: is_found(first.call, "apples"))
    second = start()
    seconds_until(lambda: is_found(second.call, "apples"))
    orphans = children_of(first.process.pid)
    assert (len(orphans), children_of(second.process.pid)) == (1, [])
    assert holds(watch_lock(tmp_path), first.process.pid)
    os.kill(first.process.pid, signal.SIGKILL)
    killed = time.monotonic()
    first.process.wait(2)
    seconds_until(lambda: len(children_of(second.process.pid)) == 1)
    assert holds(watch_lock(tmp_path), second.process.pid)
    assert time.monotonic() - killed < 2.0
    assert not any(map(is_alive, orphans))
    save(tmp_path, "quinces")
    assert seconds_until(lambda: is_found(second.call, "quinces")) < 4.0


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks children up in /proc")
def test_killed_indexer_is_restarted(tmp_path: Path, start: Start):
    server = start()
    seconds_until(lambda: is_found(server.call, "apples"))
    os.kill(children_of(server.process.pid)[0], signal.SIGKILL)
    save(tmp_path, "quinces")
    assert seconds_until(lambda: is_found(server.call, "quinces"), 30) < 30.0
