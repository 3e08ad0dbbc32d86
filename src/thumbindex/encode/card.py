"""Reads from a model's folder what must be known to use it: window, pooling, prefixes, and what tells it from others."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thumbindex.encode.digest import file_digest
from thumbindex.errors import ModelError

_PORTABLE_MODULES = {"Transformer", "Pooling", "Normalize"}
_PORTABLE_POOLINGS = {"mean", "cls"}
_FALLBACK_WINDOW = 512  # what BERT and its kin were trained with, where a folder states nothing

_FAMILIES = (
    # these families were trained with prefixes that their folders do not state
    (re.compile(r"bge-(small|base|large)-en"), "Represent this sentence for searching relevant passages: ", ""),
    (re.compile(r"e5-(small|base|large)"), "query: ", "passage: "),
)


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What must be known of an embedding model to run it."""

    name: str  # as a user would write it
    folder: Path
    dimensions: int
    window: int  # tokens, special ones included
    pooling: str  # "mean", "cls", or another that only sentence-transformers knows
    query_prefix: str
    passage_prefix: str
    portable: bool  # transformer, mean or cls pooling, normalization and nothing else: can run in onnxruntime
    weights: str  # sha256 over weights and tokenizer

    def fingerprint(self, precision: str) -> str:
        """Name all that vectors depend on; the model's name is not part of it: a folder may move."""
        facts = [self.weights, self.pooling, self.query_prefix, self.passage_prefix, precision, self.window]
        return f"{precision}-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]}"


def read_card(folder: Path, name: str, cache: Path) -> ModelCard:
    """Read a model folder in the layout of sentence-transformers; raise ModelError where it is not one."""
    config = read_json(folder / "config.json")
    modules = _read_modules(folder)
    kinds = [_kind(module) for module in modules]
    pooling_folder = next((folder / module["path"] for module in modules if _kind(module) == "Pooling"), None)
    # a plain transformers checkpoint has no modules; sentence-transformers then takes the mean
    stated = read_json(pooling_folder / "config.json") if pooling_folder else {"pooling_mode": "mean"}
    pooling = _pooling(stated)
    settings = _read_optional(folder / "sentence_bert_config.json")
    query_prefix, passage_prefix = _prefixes(folder, name)
    plain = set(kinds) <= _PORTABLE_MODULES and pooling in _PORTABLE_POOLINGS and not settings.get("do_lower_case")
    return ModelCard(
        name=name,
        folder=folder,
        dimensions=int(stated.get("word_embedding_dimension") or stated.get("embedding_dimension") or config.get("hidden_size") or 0),
        window=_window(folder, config, settings),
        pooling=pooling,
        query_prefix=query_prefix,
        passage_prefix=passage_prefix,
        portable=plain and (folder / "tokenizer.json").is_file(),
        weights=_weights(folder, cache),
    )


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; raise ModelError where there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path.parent} is not a complete model: {path.name} cannot be read ({error}). Fetch the model again.") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path.parent} is not a complete model: {path.name} holds no JSON object. Fetch the model again.")
    return content


def _read_optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _read_modules(folder: Path) -> list[dict[str, str]]:
    path = folder / "modules.json"
    try:
        return [dict(module) for module in json.loads(path.read_text(encoding="utf-8"))] if path.is_file() else []
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(f"{folder} is not a complete model: modules.json cannot be read ({error}). Fetch the model again.") from error


def _kind(module: dict[str, str]) -> str:
    return module.get("type", "").rpartition(".")[2]


def _pooling(stated: dict[str, Any]) -> str:
    if not stated.get("include_prompt", True):
        return "other"
    if "pooling_mode" in stated:
        return str(stated["pooling_mode"])
    modes = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    chosen = [key for key, value in stated.items() if key.startswith("pooling_mode_") and value is True]
    return modes.get(chosen[0], "other") if len(chosen) == 1 else "other"


def _window(folder: Path, config: dict[str, Any], settings: dict[str, Any]) -> int:
    positions = int(config.get("max_position_embeddings") or _FALLBACK_WINDOW)
    if "roberta" in str(config.get("model_type", "")):
        positions -= 2  # RoBERTa counts positions from the padding's id plus one
    stated = settings.get("max_seq_length") or _read_optional(folder / "tokenizer_config.json").get("model_max_length") or positions
    return min(int(stated), positions)


def _prefixes(folder: Path, name: str) -> tuple[str, str]:
    prompts = _read_optional(folder / "config_sentence_transformers.json").get("prompts") or {}
    query = str(prompts.get("query") or "")
    passage = str(prompts.get("passage") or prompts.get("document") or "")
    if query or passage:
        return query, passage
    family = name.rstrip("/\\").replace("\\", "/").rpartition("/")[2].lower()
    return next(((query, passage) for pattern, query, passage in _FAMILIES if pattern.search(family)), ("", ""))


def _weights(folder: Path, cache: Path) -> str:
    files = sorted(_own(folder, "*.safetensors") or _own(folder, "*.bin"))
    if not files:
        raise ModelError(f"{folder} is not a complete model: it holds no weights (*.safetensors). Fetch the model again.")
    tokenizers = [folder / file for file in ("tokenizer.json", "vocab.txt", "sentencepiece.bpe.model", "spiece.model")]
    files.extend([path for path in tokenizers if path.is_file()][:1])
    listing = "\n".join(f"{path.relative_to(folder).as_posix()} {file_digest(path, cache)}" for path in files)
    return hashlib.sha256(listing.encode()).hexdigest()


def _own(folder: Path, pattern: str) -> list[Path]:
    exports = {"onnx", "openvino"}  # the same weights once more, for other runtimes
    return [path for path in folder.rglob(pattern) if path.relative_to(folder).parts[0] not in exports]
