"""Of the children of several servers on one folder, those that only stand by hold next to
nothing.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from thumbindex.serve.standby import await_office

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="no pipe can be waited for there while a lock is looked at"
)

WAITING = 80
"""Modules of a child that waits for its office: 64 today."""

IDLE = 600
"""Modules of a child that has nothing to do: 544 today; with what indexing takes they were
1,040.
"""

# What a child needs that indexes, and one that waits for something to index does not; networkx is
# the server's alone.
LATER = (
    "faiss onnxruntime tokenizers torch markdown_it yaml rapidfuzz networkx typer pydantic mcp "
    "importlib.metadata"
)


@pytest.fixture
def wishes() -> Any:
    incoming, outgoing = os.pipe()
    with os.fdopen(incoming) as read, os.fdopen(outgoing, "w") as written:
        yield read, written


def begin(locks: list[Path], wishes: tuple[Any, Any]) -> Future[bool]:
    """Wait in a thread that keeps no test from ending; `result(10)` raises where it is not back
    within ten seconds.
    """
    back = Future[bool]()
    threading.Thread(
        target=lambda: back.set_result(await_office(list(map(str, locks)), wishes[0])), daemon=True
    ).start()
    return back


def waits(locks: list[Path], wishes: tuple[Any, Any], end: Callable[[], object]) -> bool:
    """Tell whether it waits for just what `end` does."""
    back = begin(locks, wishes)
    waited = not wait([back], 0.2).done
    end()
    back.result(10)
    return waited


def test_it_waits_until_one_of_the_locks_is_free(tmp_path: Path, wishes: Any) -> None:
    one, other = FileLock(tmp_path / "one"), FileLock(tmp_path / "other", thread_local=False)
    with one, other:
        assert waits([tmp_path / "one", tmp_path / "other"], wishes, other.release)


@pytest.mark.parametrize(
    "end",
    [lambda written: print("repair", file=written, flush=True), lambda written: written.close()],
)
def test_it_waits_no_longer_than_until_the_server_has_a_wish_or_is_gone(
    tmp_path: Path, wishes: Any, end: Callable[[Any], None]
) -> None:
    with FileLock(tmp_path / "lock"):
        assert waits([tmp_path / "lock"], wishes, lambda: end(wishes[1]))


def test_where_the_server_is_gone_the_child_ends_without_having_begun(tmp_path: Path) -> None:
    with FileLock(tmp_path / "held"):
        lock = str(tmp_path / "held")
        command = [sys.executable, "-X", "importtime", "-m", "thumbindex.serve.standby", lock, "--"]
        done = subprocess.run(
            command, input="", capture_output=True, text=True, check=True, timeout=60
        )
    assert "thumbindex.serve.child" not in done.stderr


@pytest.mark.parametrize(
    ("module", "most"), [("thumbindex.serve.standby", WAITING), ("thumbindex.serve.child", IDLE)]
)
def test_a_child_that_waits_has_loaded_little_and_one_that_is_idle_nothing_that_indexes(
    module: str, most: int
) -> None:
    program = (
        f"import json, sys, {module}; print(json.dumps([len(sys.modules), [each for each in "
        f"{LATER!r}.split() if each in sys.modules]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded, heavy = json.loads(done.stdout)
    assert (loaded <= most, heavy) == (True, [])
