"""What the holder of a token sees of a server: its folders, as if there were no others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from thumbindex.errors import StorageError, ThumbindexError
from thumbindex.serve.background import WORDS_SECONDS, Background, never, tell_nobody

if TYPE_CHECKING:
    from thumbindex.library import Library
    from thumbindex.model import Progress

_LOG = logging.getLogger(__name__)

_Asked = TypeVar("_Asked")


class BackgroundView:
    """A background that shows some folders. Everything that a tool, resource, completion or stream of changes is made of comes through here."""

    takes_roots = False  # folders are the server's: it is not on the client's machine
    is_settled = True

    def __init__(self, background: Background, folders: frozenset[str]) -> None:
        self.folders, self.names = folders, tuple(sorted(folders))
        self._background = background
        self.follower = background.follower.within(folders)
        self.start, self.start_soon = background.start, background.start_soon
        self.await_model = partial(background.await_model, only=folders)
        self.notes, self.progress = partial(background.notes, folders), partial(background.progress, folders)

    def settle(self, folder: Sequence[str] = (), notes: Sequence[str] = ()) -> None:
        """Do nothing: which folders are served is known."""

    @property
    def is_attended(self) -> bool:
        """Tell whether there is a child that indexes, or is about to."""
        return self._background.is_attended

    def library(self) -> Library:
        """Return a library over these folders alone."""
        return self._opened().only(self.folders)

    def await_words(
        self, seconds: float = WORDS_SECONDS, tell: Callable[[Progress], None] = tell_nobody, interrupted: Callable[[], bool] = never
    ) -> None:
        """Wait until there are words to search in these folders."""
        self._opened()
        self._background.await_words(seconds, tell, interrupted, self.folders)

    def mended(self, ask: Callable[[], _Asked], interrupted: Callable[[], bool] = never) -> _Asked:
        """Ask; where that meets damage, have it repaired and ask again. Raises what was met last."""
        return self._background.mended(ask, interrupted, self.folders)

    def _opened(self) -> Library:
        try:
            return self._background.library()
        except ThumbindexError as error:
            # Opening opens all folders: what it fails of may name one that is not seen here.
            _LOG.warning("The folders cannot be opened: %s", error)
            raise StorageError("The notes cannot be opened just now: whoever runs this server finds the reason in its log.") from None
