"""What this index's cosines look like for questions that it cannot answer, and for its own titles: no fixed threshold travels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources

import numpy as np

from thumbindex.index.store import Store, text_key
from thumbindex.index.vector import VectorView
from thumbindex.index.writer import Writer
from thumbindex.ports import Embedder, Matrix

TITLES = 64
"""Titles that stand for questions the index can answer."""


def probes() -> tuple[str, ...]:
    """Return questions from everyday life, no two about one thing; few collections of notes answer more than a few of them."""
    return tuple(resources.files("thumbindex.library").joinpath("probes.txt").read_text(encoding="utf-8").splitlines())


def probe_keys() -> list[bytes]:
    """Return the keys under which the probes' vectors are kept."""
    return [_key(probe) for probe in probes()]


def _key(text: str) -> bytes:
    return text_key(f"query: {text}")


def calibrate(writer: Writer, embedder: Embedder, view: VectorView) -> int:
    """Measure and write down the best cosine of off-topic questions and of own titles; return the texts that were embedded.

    Medians, so that a vault about cooking, which answers some of the probes, is not misled.
    """
    off_topic, asked_off = _vectors(writer, embedder, probes())
    own, asked_own = _vectors(writer, embedder, _titles(writer.store))
    matrix = view.matrix()
    if len(matrix) and len(own):
        noise = float(np.median((off_topic @ matrix.T).max(axis=1)))
        signal = float(np.median((own @ matrix.T).max(axis=1)))
        measured = json.dumps({"noise_cosine": round(noise, 4), "signal_cosine": round(max(signal, noise), 4)}, sort_keys=True)
        if measured != writer.store.meta("calibration"):
            with writer.store.transaction():
                writer.store.set_meta("calibration", measured)
    return asked_off + asked_own


def _vectors(writer: Writer, embedder: Embedder, texts: Sequence[str]) -> tuple[Matrix, int]:
    """Return the texts' vectors as queries; those embedded before come from the store."""
    keys = [_key(text) for text in texts]
    known = writer.store.vectors(embedder.fingerprint, keys)
    new = {key: embedder.embed_query(text) for key, text in zip(keys, texts, strict=True) if key not in known}
    writer.keep_vectors(embedder.fingerprint, new)
    found = {**known, **new}
    return np.stack([found[key] for key in keys]) if keys else np.zeros((0, embedder.dimensions), dtype=np.float32), len(new)


def _titles(store: Store) -> tuple[str, ...]:
    """Return titles of documents, spread evenly over the index: what a reader of it would ask for."""
    titles = sorted({document.title for document in store.names() if len(document.title.split()) > 1})
    step = max(1, len(titles) // TITLES)
    return tuple(titles[::step][:TITLES])
