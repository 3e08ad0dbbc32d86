"""The configured model by itself, for what is measured against it."""

from __future__ import annotations

from thumbindex.encode.embed import open_embedder
from thumbindex.ports import Embedder
from thumbindex.process import offline
from thumbindex.settings import Config


def open_model(config: Config) -> Embedder:
    """Open the model that new indexes are made with; raise ModelError where it cannot be had."""
    return open_embedder(config.encode.embed, offline=offline())
