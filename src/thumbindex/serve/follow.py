"""The server's follower: opens what is new in the indexes before anybody asks, and tells what came, went and changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from thumbindex.errors import ThumbindexError
from thumbindex.process import collect_as_usual

if TYPE_CHECKING:
    from thumbindex.library import Library
    from thumbindex.model import Changes

FOLLOW_SECONDS = 0.25
"""Between two looks at the indexes: a new generation is open well within a second. Where nothing is new a look is a few tiny reads."""

_LONGEST_PAUSE = 4.0
"""Seconds: after an error the pause doubles up to this, so that an index under repair is not read to pieces."""

Listener = Callable[[Mapping[str, "Changes"]], None]
"""Takes by folder what came, went and changed; called in the follower's thread, so it returns at once."""


class Follower:
    """Looks at the indexes until it is stopped; errors of theirs are for those who ask to see, not for it to die of."""

    def __init__(self, pause: float = FOLLOW_SECONDS) -> None:
        self._pause = pause
        self._listeners: dict[object, Listener] = {}
        self._stopped = threading.Event()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell a listener from now on; return how to end that."""
        key = object()
        self._listeners[key] = listener

        def leave() -> None:
            self._listeners.pop(key, None)

        return leave

    def start(self, library: Library) -> None:
        """Follow in a thread of its own."""
        threading.Thread(target=self.follow, args=(library,), name="follower", daemon=True).start()

    def follow(self, library: Library) -> None:
        """Follow until `stop`."""
        news = library.news()
        pause = self._pause
        while not self._stopped.is_set():
            began = time.monotonic()
            try:
                library.refresh()
                self._tell(news.look())
            except (ThumbindexError, OSError):
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                # Opening a large index takes its time: while one commit follows another, at most half of it.
                pause = max(self._pause, time.monotonic() - began)
            collect_as_usual()  # the first time: the start is over, and what it opened stays
            self._stopped.wait(pause)

    def within(self, folders: Collection[str]) -> Following:
        """Return what tells of some folders alone."""
        return Following(self, folders)

    def _tell(self, news: Mapping[str, Changes]) -> None:
        for listener in list(self._listeners.values()) if news else ():
            listener(news)

    def stop(self) -> None:
        """End `follow`, from another thread."""
        self._stopped.set()


class Following:
    """A follower's news of some folders: of the others not even that there is any."""

    def __init__(self, follower: Follower, folders: Collection[str]) -> None:
        self._follower, self._folders = follower, folders

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell a listener from now on; return how to end that."""

        def hear(news: Mapping[str, Changes]) -> None:
            if known := {name: changes for name, changes in news.items() if name in self._folders}:
                listener(known)

        return self._follower.listen(hear)
