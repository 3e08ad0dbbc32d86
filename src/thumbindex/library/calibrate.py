"""What this index's cosines look like for questions that it cannot answer, and for its own titles: no fixed threshold travels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources

import numpy as np

from thumbindex.index.store import Store
from thumbindex.index.vector import VectorView
from thumbindex.ports import Embedder, Matrix
from thumbindex.text import text_key

TITLES = 64
"""Titles that stand for questions the index can answer."""


def probes() -> tuple[str, ...]:
    """Return questions from everyday life, no two about one thing; few collections of notes answer more than a few of them."""
    return tuple(resources.files("thumbindex.library").joinpath("probes.txt").read_text(encoding="utf-8").splitlines())


def probe_keys() -> list[bytes]:
    """Return the keys under which the probes' vectors are kept."""
    return [query_key(probe) for probe in probes()]


def query_key(text: str) -> bytes:
    """Return the key of a text that is embedded as a query."""
    return text_key(f"query: {text}")


def calibration(store: Store, embedder: Embedder, view: VectorView, titles: Sequence[str]) -> str:
    """Measure the best cosine of off-topic questions and of own titles, all embedded before; return them as JSON, empty where there is nothing.

    Medians, so that a vault about cooking, which answers some of the probes, is not misled.
    """
    off_topic, own = _vectors(store, embedder, probes()), _vectors(store, embedder, titles)
    if not (len(view.rows()) and len(own)):
        return ""
    noise = float(np.median(view.highest(off_topic)))
    signal = float(np.median(view.highest(own)))
    return json.dumps({"noise_cosine": round(noise, 4), "signal_cosine": round(max(signal, noise), 4)}, sort_keys=True)


def _vectors(store: Store, embedder: Embedder, texts: Sequence[str]) -> Matrix:
    found = store.vectors(embedder.fingerprint, [query_key(text) for text in texts])
    return np.stack(list(found.values())) if found else np.zeros((0, embedder.dimensions), dtype=np.float32)


def some_titles(store: Store) -> tuple[str, ...]:
    """Return titles of documents, spread evenly over the index: what a reader of it would ask for."""
    titles = sorted({document.title for document in store.names() if len(document.title.split()) > 1})
    step = max(1, len(titles) // TITLES)
    return tuple(titles[::step][:TITLES])
