"""A program that waits, in very little memory, until an index has nobody who tends it, and is then
the child that does: `LOCK... -- ARGUMENT...`.

It imports nothing but what waiting takes: each server has a child, and of those on one folder all
but one only wait.
"""

from __future__ import annotations

import select
import signal
import sys
from collections.abc import Sequence
from typing import IO

if sys.platform != "win32":
    import fcntl

PAUSE_SECONDS = 0.2
"""How often one looks: the child then imports what it needs, for half a second of a quiet machine,
and is to take over within two.
"""

REST = "--"
"""Stands between the locks and the arguments."""


def await_office(locks: Sequence[str], wishes: IO[str]) -> bool:
    """Wait until one of the locks is free or the server has a wish, which is the child's to hear;
    without locks, do not wait.

    Tell whether the server is still there, as far as can be told: a child that begins in order to
    end takes the processor from those who quit.
    """
    while (
        locks
        and all(map(_is_held, locks))
        and not select.select([wishes], [], [], PAUSE_SECONDS)[0]
    ):
        pass
    return not _is_at_end(wishes)


def _is_at_end(wishes: IO[str]) -> bool:
    """Tell whether nobody can write any more and nothing is left to be read; no where a system does
    not say so.
    """
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(wishes, select.POLLIN)
    return [event for _, event in poll.poll(0)] == [select.POLLHUP]


def _is_held(lock: str) -> bool:
    """Tell whether a process holds a lock; where it is free it is shared for the moment of
    looking.
    """
    if sys.platform == "win32":  # no pipe can be waited for there while a lock is looked at
        return False
    try:
        with open(lock) as file:  # noqa: PTH123 - pathlib would be half of what is imported here
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no index yet, or none that can be read: the child says so
        return False
    return False


if __name__ == "__main__":
    # Ctrl-C in a terminal reaches the server's child as well: the server ends it, by closing its
    # input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    at = sys.argv.index(REST)
    if not await_office(sys.argv[1:at], sys.stdin):
        sys.exit(0)
    # Imported here: it is what waiting does without (`test_a_child_that_waits_has_loaded_little…`).
    from thumbindex.serve.child import index_for_server

    sys.exit(index_for_server(sys.argv[at + 1 :]))
