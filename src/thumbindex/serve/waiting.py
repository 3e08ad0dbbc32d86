"""Work for one request in a thread of its own: how far it is reaches the client, and that the client has gone reaches the thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio.to_thread import run_sync
from mcp.server.session import ServerSession

from thumbindex.model import Progress
from thumbindex.serve.sentences import how_far

Result = TypeVar("Result")

_REPORT_SECONDS = 0.3
"""Between two reports of progress: about three a second, and none for what is answered at once."""


class Waiting:
    """What a request's thread and its client have to tell each other."""

    def __init__(self) -> None:
        self._gone = threading.Event()
        self._latest: Progress | None = None
        self._told: Progress | None = None
        self._value = -1  # what was sent last
        self._before = 0  # what the phases before the present one came to

    def tell(self, progress: Progress) -> None:
        """Say how far the work is; of many in a moment the client hears the last one."""
        self._latest = progress

    def is_over(self) -> bool:
        """Tell whether nobody waits for the answer any longer."""
        return self._gone.is_set()

    def end(self) -> None:
        """Let the thread know that nobody waits any longer."""
        self._gone.set()

    def next_report(self) -> tuple[int, int, str] | None:
        """Return progress, total and message to be sent now; None where there is nothing that is further than the last.

        The protocol wants a number that only grows: a phase that follows another goes on from where that one ended.
        """
        latest = self._latest
        if latest is None or not latest.total or latest == self._told:
            return None
        if self._told is not None and (latest.folder, latest.phase, latest.total) != (self._told.folder, self._told.phase, self._told.total):
            self._before = self._value + 1 - latest.done
        self._told = latest
        if self._before + latest.done <= self._value:
            return None
        self._value = self._before + latest.done
        return self._value, self._before + latest.total, how_far(latest)


async def in_thread(work: Callable[[Waiting], Result], session: ServerSession) -> Result:
    """Do work in a thread while its progress is reported; whoever cancels is answered at once, and the thread is told."""
    waiting = Waiting()
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(_report, waiting, session)
        try:
            result = await run_sync(work, waiting, abandon_on_cancel=True)
        except Exception as error:  # raised below: out of a task group it would come wrapped
            failure = error
        finally:
            waiting.end()
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return result


async def _report(waiting: Waiting, session: ServerSession) -> None:
    while True:
        await anyio.sleep(_REPORT_SECONDS)
        if report := waiting.next_report():
            await session.report_progress(*report)
