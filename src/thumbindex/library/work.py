"""Embed the texts that builders have put into a database's queue: any number of workers, each on
any machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from thumbindex.encode.embed import open_embedder
from thumbindex.errors import ModelError
from thumbindex.index.postgres import queue
from thumbindex.index.postgres.database import Engine
from thumbindex.index.vector_store import packed
from thumbindex.ports import Embedder
from thumbindex.process import offline
from thumbindex.settings import EmbedSettings
from thumbindex.text import one_line

TEXTS_AT_ONCE = 32
"""Texts that are taken from the queue at once."""

REFUSED_SECONDS = 60.0
"""After so long a model that could not be had is tried again: the network may be back."""


@dataclass(frozen=True, slots=True)
class Worked:
    """What a worker has done, and what is left."""

    embedded: int  # texts, by this worker since it began
    waiting: int  # texts that have no vector yet, those that workers have in hand among them


class Worker:
    """Takes texts that wait for a vector, a few of each model at a time, and keeps their vectors;
    what it cannot embed it leaves to others.
    """

    def __init__(
        self, url: str, open_model: Callable[[str], Embedder], say: Callable[[str], object]
    ) -> None:
        self._engine = Engine(url, writes=True)
        self._open_model, self._say = open_model, say
        self._models: dict[str, Embedder] = {}  # by name
        self._refused: dict[str, tuple[float, str]] = {}  # until when, and why, by fingerprint
        self._embedded = 0
        try:
            self._engine.check()
        except BaseException:
            self._engine.close()
            raise

    def look(self) -> int:
        """Embed a few texts of each model that has any; return how many.

        Raises StorageError: then these wait again, and the next look takes them.
        """
        with self._engine.question() as session:
            models = queue.waiting_models(session)
        return sum(self._embed(fingerprint, name) for fingerprint, name in models)

    def worked(self) -> Worked:
        """Return what this worker has done, and how many texts wait, of whatever model."""
        with self._engine.question() as session:
            return Worked(self._embedded, queue.count_waiting(session))

    @property
    def refuses(self) -> bool:
        """Tell whether there was a model that this worker does not have."""
        return bool(self._refused)

    def close(self) -> None:
        """Close the connections."""
        self._engine.close()

    def _embed(self, fingerprint: str, name: str) -> int:
        until, _ = self._refused.get(fingerprint, (0.0, ""))
        if time.monotonic() < until:
            return 0
        try:
            embedder = self._opened(fingerprint, name)
            with queue.take(self._engine, fingerprint, TEXTS_AT_ONCE) as taken:
                if taken.texts:
                    vectors = packed(embedder.embed_passages(list(taken.texts.values())))
                    taken.keep(
                        {
                            key: vector.tobytes()
                            for key, vector in zip(taken.texts, vectors, strict=True)
                        }
                    )
        except ModelError as error:
            self._refuse(
                fingerprint,
                f"Texts of the model {one_line(name)} are left to other workers: {error}",
            )
            return 0
        self._embedded += len(taken.texts)
        return len(taken.texts)

    def _opened(self, fingerprint: str, name: str) -> Embedder:
        """Return the model, opened before texts are taken: that may take minutes.

        Raises ModelError where it is not the one that is meant.
        """
        if name not in self._models:
            self._models[name] = self._open_model(name)
        if self._models[name].fingerprint != fingerprint:
            raise ModelError(
                f"here it gives other vectors ({self._models[name].fingerprint}) than those that "
                f"are wanted ({fingerprint})."
                " Give this worker the builder's version of thumbindex, `encode.embed.runtime` and "
                "files of the model."
            )
        return self._models[name]

    def _refuse(self, fingerprint: str, sentence: str) -> None:
        _, said = self._refused.get(fingerprint, (0.0, ""))
        self._refused[fingerprint] = (time.monotonic() + REFUSED_SECONDS, sentence)
        if sentence != said:
            self._say(sentence)


def configured_models(settings: EmbedSettings) -> Callable[[str], Embedder]:
    """Return what opens a model by name, with the runtime and the number of threads that are
    configured.
    """
    return lambda name: open_embedder(replace(settings, model=name), offline=offline())
