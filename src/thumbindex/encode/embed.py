"""Embed texts with onnxruntime on a CPU or torch on a GPU; count tokens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from thumbindex.encode.models import (
    BUNDLED_FILES,
    BUNDLED_NAMES,
    ModelCard,
    bundled_folder,
    file_digest,
    find_model,
    has_extra,
    open_in_torch,
    require_extra,
)
from thumbindex.errors import ModelError
from thumbindex.ports import Embedder, Matrix, Vector
from thumbindex.process import count_cores, disable_telemetry
from thumbindex.settings import AUTO_MODEL, EmbedSettings
from thumbindex.text import has_cjk


@lru_cache(maxsize=2)
def open_tokenizer(path: Path, window: int) -> Any:
    """Load a tokenizer that truncates texts after `window` tokens.

    The tokenizer is cached and shared, so do not change its settings.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()  # the file may set a padding
    tokenizer.enable_truncation(window)
    return tokenizer


MAX_BYTES_PER_TOKEN = 6
"""The token counter counts at least one token for this many bytes of text.

Without this minimum, a long unknown word would count as a single token.
"""

_BUNDLED_WINDOW = 256
"""Window of the bundled model in tokens."""

_MAX_CACHED_WORD = 100
"""Maximum characters of a word whose token count is cached."""

_WORD_CACHE_SIZE = 1 << 13
"""Entries in the cache of token counts. Packing an answer counts the same words repeatedly."""


@lru_cache(maxsize=1)
def token_counter() -> Callable[[str], int]:
    """Return a function that counts the tokens of a text for all-MiniLM-L6-v2.

    The count may be too high but is never too low. Raises ModelError if that model's tokenizer is
    not installed.
    """
    # the window of the embedder, so that both share the tokenizer
    tokenizer = open_tokenizer(bundled_folder() / "tokenizer.json", _BUNDLED_WINDOW)

    def count_word_tokens(word: str) -> int:
        encoding = tokenizer.encode(word, add_special_tokens=False)
        return len(encoding.ids) + sum(len(overflow.ids) for overflow in encoding.overflowing)

    cached = lru_cache(maxsize=_WORD_CACHE_SIZE)(count_word_tokens)

    def count(text: str) -> int:
        least = -(-len(text.encode("utf-8", "replace")) // MAX_BYTES_PER_TOKEN)
        # WordPiece splits a text at white space, so words can be counted separately
        counts = [
            cached(word) if len(word) <= _MAX_CACHED_WORD else count_word_tokens(word)
            for word in text.split()
        ]
        return max(least, sum(counts))

    return count


_GPU_DRIVER_FILES = ("/dev/nvidia0", "/dev/kfd", "/dev/dxg", r"C:\Windows\System32\nvcuda.dll")
"""GPU driver files of NVIDIA, AMD and WSL. If none exists, `has_gpu` does not import torch."""


def open_embedder(settings: EmbedSettings, *, offline: bool) -> Embedder:
    """Load the configured model; raise ModelError if it is not available."""
    # a GPU does not switch the bundled model to torch, which would require a download
    torch = settings.runtime == "torch" or (
        settings.runtime == "auto" and settings.model not in BUNDLED_NAMES and has_gpu()
    )
    if settings.runtime == "torch":
        require_extra('`encode.embed.runtime = "torch"`')
    card = find_model(settings.model, offline=offline, torch=torch)
    if settings.runtime == "torch" or (settings.runtime == "auto" and card.graph is None):
        return TorchEmbedder(card)
    return OnnxEmbedder(card, settings.workers or default_workers())


def default_workers() -> int:
    """Return the number of usable cores, at most four. Memory bandwidth limits more workers."""
    return min(4, count_cores())


def has_gpu() -> bool:
    """Return whether torch can use a GPU."""
    if not any(Path(path).exists() for path in _GPU_DRIVER_FILES) or not has_extra():
        return False
    import torch

    return bool(torch.cuda.is_available())


class _Embedder:
    """Base class of both embedders. Adds the model's prefixes, and embeds each text separately."""

    def __init__(self, card: ModelCard, precision: str, workers: int = 1) -> None:
        self.name = card.name
        self.fingerprint = card.fingerprint(precision)
        self.dimensions = card.dimensions
        self.window = card.window
        self._card = card
        self._workers = workers

    def embed_passages(self, texts: Sequence[str]) -> Matrix:
        """Embed passages: shape (len(texts), dimensions)."""
        return self._matrix([self._card.passage_prefix + text for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Embed a query: shape (dimensions,)."""
        return self._embed(self._card.query_prefix + text)

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        """Embed queries in parallel: shape (len(texts), dimensions)."""
        return self._matrix([self._card.query_prefix + text for text in texts])

    def _matrix(self, texts: Sequence[str]) -> Matrix:
        rows = _embed_in_parallel(self._embed, texts, self._workers)
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.dimensions)

    def _embed(self, text: str) -> Vector:
        raise NotImplementedError


_SHIPPED_GRAPH = "onnx-1"
"""Takes the place of the precision in the fingerprint of an `OnnxEmbedder`."""


@lru_cache(maxsize=1)
def bundled_fingerprint() -> str:
    """Return the fingerprint of the bundled model's vectors."""
    return find_model(AUTO_MODEL, offline=True).fingerprint(_SHIPPED_GRAPH)


_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}


def _open_session(path: Path) -> Any:
    """Open a single-threaded inference session. Raises ModelError if the graph is not valid."""
    disable_telemetry()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # embedding several texts in parallel is faster
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    size, digest = BUNDLED_FILES["model.onnx"]
    if path.stat().st_size == size and file_digest(path) == digest:
        # On processors without VNNI, products of signed weights overflow. Most other graphs lack
        # the zero points that this option needs.
        options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common base
        raise ModelError(
            f"onnxruntime cannot open {path} ({error}). Fetch the model again or choose another."
        ) from error


class OnnxEmbedder(_Embedder):
    """Runs an ONNX graph on one text per call, with several calls in parallel.

    Texts are not batched, because the int8 scales of a text would depend on the other texts.
    """

    def __init__(self, card: ModelCard, workers: int) -> None:
        if card.graph is None:
            raise ModelError(
                f"The model {card.name} has no ONNX file that onnxruntime can run. Choose a model "
                "that ships `onnx/model.onnx`, or remove `encode.embed.runtime` to run this one "
                "in torch (with the extra `models`)."
            )
        if not card.portable:
            raise ModelError(
                f"The model {card.name} has parts that onnxruntime cannot run. Use `--set "
                "encode.embed.runtime=torch`."
            )
        super().__init__(card, _SHIPPED_GRAPH, workers)
        self._tokenizer = open_tokenizer(card.folder / "tokenizer.json", card.window)
        self._session = _open_session(card.graph)
        self._inputs = {entry.name for entry in self._session.get_inputs()}
        outputs = {
            entry.name: entry.shape
            for entry in self._session.get_outputs()
            if len(entry.shape) == 3
        }
        if not self._inputs <= _INPUTS or not outputs:
            raise ModelError(
                f"{card.graph} has inputs other than {', '.join(sorted(_INPUTS))}, or no output "
                "of token vectors (three axes). Use `--set encode.embed.runtime=torch`."
            )
        self._output = (
            "last_hidden_state" if "last_hidden_state" in outputs else next(iter(outputs))
        )
        if isinstance(outputs[self._output][-1], int):
            self.dimensions = outputs[self._output][-1]

    def knows(self, word: str) -> bool:
        """Return whether a word is one token of the vocabulary."""
        return _is_one_token(word, self._tokenizer.encode(word, add_special_tokens=False).tokens)

    def _embed(self, text: str) -> Vector:
        # a tokenizer without special tokens returns no ids for an empty text
        states = self._states(self._tokenizer.encode(text).ids or [0])
        return _normalized(states[0] if self._card.pooling == "cls" else states.mean(axis=0))

    def _states(self, ids: Sequence[int]) -> Matrix:
        row = np.array([ids], dtype=np.int64)
        feed = {
            "input_ids": row,
            "attention_mask": np.ones_like(row),
            "token_type_ids": np.zeros_like(row),
        }
        output = self._session.run([self._output], {name: feed[name] for name in self._inputs})[0][
            0
        ]
        return np.asarray(output, dtype=np.float32)


class TorchEmbedder(_Embedder):
    """Runs any model that sentence-transformers can load, on one text at a time."""

    def __init__(self, card: ModelCard) -> None:
        if card.graph is not None:
            raise ModelError(
                f"The model {card.name} has no torch weights, only ONNX. Use `--set "
                "encode.embed.runtime=onnx`."
            )
        super().__init__(card, "fp32")
        self._model = open_in_torch(
            "SentenceTransformer",
            card.folder,
            f"model {card.name}",
            "Fetch it again or choose another.",
        )
        self._model.max_seq_length = card.window
        self.dimensions = int(self._model.get_embedding_dimension() or card.dimensions)
        self._lock = threading.Lock()  # the tokenizer is not thread-safe

    def knows(self, word: str) -> bool:
        """Return whether a word is one token of the vocabulary."""
        with self._lock:
            return _is_one_token(word, self._model.tokenizer.tokenize(word))

    def _embed(self, text: str) -> Vector:
        with self._lock:
            vector = self._model.encode(text, prompt="", show_progress_bar=False)
        return _normalized(np.asarray(vector, dtype=np.float32))


def _embed_in_parallel(
    embed: Callable[[str], Vector], texts: Sequence[str], workers: int
) -> list[Vector]:
    if workers == 1 or len(texts) < 2:
        return [embed(text) for text in texts]
    pool = ThreadPoolExecutor(min(workers, len(texts)))
    try:
        return list(pool.map(embed, texts))
    finally:
        # after Ctrl-C, wait only for the texts that are being embedded
        pool.shutdown(cancel_futures=True)


_UNKNOWN = ("[unk]", "<unk>", "<|endoftext|>")
"""Tokens for unknown words."""


def _is_one_token(word: str, tokens: Sequence[str]) -> bool:
    """Return whether `tokens` is a single known token for the whole word."""
    bare_tokens = [bare for token in tokens if (bare := token.lstrip("▁Ġ").casefold())]
    # byte-level vocabularies spell the token of a CJK character differently
    return bare_tokens == [word.casefold()] or (
        len(word) == 1
        and has_cjk(word)
        and len(bare_tokens) == 1
        and bare_tokens[0] not in _UNKNOWN
    )


def _normalized(vectors: Matrix) -> Matrix:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    units: Matrix = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return units
