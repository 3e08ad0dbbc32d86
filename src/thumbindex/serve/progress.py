"""Progress on stderr: a bar on a terminal, a few plain lines where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from thumbindex import model

_EVERY_SECONDS = 10.0
"""Between two plain lines about one phase: a log of an hour's indexing stays readable."""


class ProgressDisplay:
    """Shows how far a run is; call it with each Progress, inside a `with`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = Console(stderr=True, soft_wrap=True, highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bars = Progress(*columns, console=self._console, transient=True) if self._console.is_terminal else None
        self._tasks: dict[str, TaskID] = {}
        self._told: dict[str, float] = {}
        self._clock = clock

    def __enter__(self) -> ProgressDisplay:
        if self._bars:
            self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bars:
            self._bars.stop()

    def __call__(self, progress: model.Progress) -> None:
        """Show one step."""
        name = f"{progress.folder}: {progress.phase}"
        if progress.phase == "waiting":
            if self._clock() - self._told.get(name, -_EVERY_SECONDS) >= _EVERY_SECONDS:
                self._told[name] = self._clock()
                self._console.print(f"{name} for {_whom(progress)}", markup=False)
        elif self._bars:
            task = self._tasks.get(name)
            if task is None:
                task = self._tasks[name] = self._bars.add_task(name, total=progress.total)
            self._bars.update(task, completed=progress.done, total=progress.total)
        elif self._is_due(name, progress):
            self._console.print(f"{name} {progress.done:,}/{progress.total:,}", markup=False)

    def _is_due(self, name: str, progress: model.Progress) -> bool:
        now = self._clock()
        if not progress.total:
            return False
        if progress.done < progress.total and now - self._told.get(name, now - _EVERY_SECONDS) < _EVERY_SECONDS:
            return False
        self._told[name] = now
        return True


def _whom(progress: model.Progress) -> str:
    if not progress.pid:
        return "another process that is writing"
    far = f", {progress.done:,} of {progress.total:,} so far" if progress.total else ""
    return f"another process (pid {progress.pid}) that is indexing this folder{far}; Ctrl-C ends the waiting and nothing else"
