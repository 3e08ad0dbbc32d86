"""Find a model (bundled, in a folder, or on the Hugging Face hub) and read its card; load a
cross-encoder.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thumbindex.errors import ModelError, install_hint
from thumbindex.process import disable_telemetry
from thumbindex.settings import AUTO_MODEL


def run_child(module: str, *arguments: str) -> str | None:
    """Run a module as a program, in silence; return None when it went well, else its last
    complaint.
    """
    # -P: the current folder is someone's vault, and a `token.py` in it must not be imported
    command = [sys.executable, "-P", "-m", module, *arguments]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
    except OSError as error:
        return f"{sys.executable} could not be started: {error}"
    if done.returncode == 0:
        return None
    complaints = done.stderr.decode(errors="replace").strip().splitlines()
    return complaints[-1] if complaints else f"it ended with code {done.returncode}"


def file_digest(path: Path) -> str:
    """Return a file's sha256 in hex; that of a bundled one is known."""
    if path.parent == BUNDLED_FOLDER and path.name in BUNDLED_FILES:
        return BUNDLED_FILES[path.name][1]
    return _sha256(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


BUNDLED = "all-MiniLM-L6-v2"

BUNDLED_NAMES = (AUTO_MODEL, BUNDLED, f"sentence-transformers/{BUNDLED}")

BUNDLED_FOLDER = Path(__file__).parent / "minilm"
"""Part of this package; `scripts/build_model.py` makes it, and `origin.json` in it says from
what.
"""

BUNDLED_FILES = {
    "model.onnx": (
        87_104,
        "dcff4328b330be8fb772cf56a8801b1c7ae5aec9094841576aa82ef8a5f5ab94",
    ),
    "model.onnx.data": (
        23_696_896,
        "cf13dfc7577a7d0cb542b11c0439df47073769ae5ce2688a9ef35cee0ee6451f",
    ),
    "tokenizer.json": (
        466_247,
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
}
"""Bytes and sha256 of the files that decide what vectors come out."""

_USE_BUNDLED = f"use the model that is installed with `--set encode.embed.model={BUNDLED}`"

_PORTABLE_MODULES = {"Transformer", "Pooling", "Normalize"}
_PORTABLE_POOLINGS = {"mean", "cls"}
_OTHER_RUNTIMES = ("onnx", "openvino")  # folders that hold the same weights once more
# in full precision; variants beside them are for processors that this one may not be
_GRAPHS = ("onnx/model.onnx", "model.onnx")
# endings of the file that holds a graph's weights, beside the graph
_GRAPH_WEIGHTS = ("_data", ".data")
_FALLBACK_WINDOW = 512  # what BERT and its kin were trained with, where a folder states nothing

_FAMILIES = (
    # these families were trained with prefixes that their folders do not state
    (
        re.compile(r"bge-(small|base|large)-en"),
        "Represent this sentence for searching relevant passages: ",
        "",
    ),
    (re.compile(r"e5-(small|base|large)"), "query: ", "passage: "),
)


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The facts about an embedding model that are needed to run it."""

    name: str  # as a user would write it
    folder: Path
    dimensions: int
    window: int  # tokens, special ones included
    pooling: str  # "mean", "cls", or another that only sentence-transformers knows
    query_prefix: str
    passage_prefix: str
    # transformer, mean or cls pooling, normalization and nothing else: can run in onnxruntime
    portable: bool
    weights: str  # sha256 over weights and tokenizer
    graph: Path | None = None  # the ONNX file that the folder ships

    def fingerprint(self, precision: str) -> str:
        """Name all that vectors depend on; the model's name is not part of it: a folder may
        move.
        """
        facts = [
            self.weights,
            self.pooling,
            self.query_prefix,
            self.passage_prefix,
            precision,
            self.window,
        ]
        return f"{precision}-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]}"


def read_card(folder: Path, name: str, *, torch: bool = False) -> ModelCard:
    """Read a model folder in the layout of sentence-transformers; raise ModelError where it is not
    one.

    What the folder ships as ONNX is what runs; with `torch`, or where the model has further parts,
    its weights for torch come first.
    """
    config = _read_json(folder / "config.json")
    modules = _read_modules(folder)
    pooling_folder = next(
        (folder / module["path"] for kind, module in modules if kind == "Pooling"), None
    )
    # a plain transformers checkpoint has no modules; sentence-transformers then takes the mean
    stated = (
        _read_json(pooling_folder / "config.json") if pooling_folder else {"pooling_mode": "mean"}
    )
    pooling = _pooling(stated)
    settings = _read_optional(folder / "sentence_bert_config.json")
    query_prefix, passage_prefix = _prefixes(folder, name)
    portable = (
        {kind for kind, _ in modules} <= _PORTABLE_MODULES
        and pooling in _PORTABLE_POOLINGS
        and not settings.get("do_lower_case")
    )
    portable = portable and (folder / "tokenizer.json").is_file()
    graph = None if (torch or not portable) and _own_weights(folder) else _shipped_graph(folder)
    return ModelCard(
        name=name,
        folder=folder,
        dimensions=int(
            stated.get("word_embedding_dimension")
            or stated.get("embedding_dimension")
            or config.get("hidden_size")
            or 0
        ),
        window=_window(folder, config, settings),
        pooling=pooling,
        query_prefix=query_prefix,
        passage_prefix=passage_prefix,
        portable=portable,
        weights=_weights(folder, graph),
        graph=graph,
    )


def _shipped_graph(folder: Path) -> Path | None:
    """Return the ONNX file that a model's folder ships, if any."""
    return next((folder / name for name in _GRAPHS if (folder / name).is_file()), None)


def _read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; raise ModelError where there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{path.parent} is not a complete model: {path.name} cannot be read ({error}). "
            "Fetch the model again."
        ) from error
    if not isinstance(content, dict):
        raise ModelError(
            f"{path.parent} is not a complete model: {path.name} holds no JSON object. Fetch "
            "the model again."
        )
    return content


def _read_optional(path: Path) -> dict[str, Any]:
    return _read_json(path) if path.is_file() else {}


def _read_modules(folder: Path) -> list[tuple[str, dict[str, str]]]:
    """Return the modules of sentence-transformers in order, each with the name of its class."""
    path = folder / "modules.json"
    try:
        modules = (
            [dict(module) for module in json.loads(path.read_text(encoding="utf-8"))]
            if path.is_file()
            else []
        )
    except (OSError, ValueError, TypeError) as error:
        raise ModelError(
            f"{folder} is not a complete model: modules.json cannot be read ({error}). Fetch "
            "the model again."
        ) from error
    return [(module.get("type", "").rpartition(".")[2], module) for module in modules]


def _pooling(stated: dict[str, Any]) -> str:
    if not stated.get("include_prompt", True):
        return "other"
    if "pooling_mode" in stated:
        return str(stated["pooling_mode"])
    modes = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    chosen = [
        key for key, value in stated.items() if key.startswith("pooling_mode_") and value is True
    ]
    return modes.get(chosen[0], "other") if len(chosen) == 1 else "other"


def _window(folder: Path, config: dict[str, Any], settings: dict[str, Any]) -> int:
    positions = int(config.get("max_position_embeddings") or _FALLBACK_WINDOW)
    if "roberta" in str(config.get("model_type", "")):
        positions -= 2  # RoBERTa counts positions from the padding's id plus one
    stated = (
        settings.get("max_seq_length")
        or _read_optional(folder / "tokenizer_config.json").get("model_max_length")
        or positions
    )
    return min(int(stated), positions)


def _prefixes(folder: Path, name: str) -> tuple[str, str]:
    prompts = _read_optional(folder / "config_sentence_transformers.json").get("prompts") or {}
    query = str(prompts.get("query") or "")
    passage = str(prompts.get("passage") or prompts.get("document") or "")
    if query or passage:
        return query, passage
    family = name.rstrip("/\\").replace("\\", "/").rpartition("/")[2].lower()
    return next(
        ((query, passage) for pattern, query, passage in _FAMILIES if pattern.search(family)),
        ("", ""),
    )


def _weights(folder: Path, graph: Path | None) -> str:
    files = _own_weights(folder) if graph is None else [graph, *_beside(graph)]
    if not files:
        raise ModelError(
            f"{folder} is not a complete model: it holds no weights (onnx/model.onnx or "
            "*.safetensors). Fetch the model again."
        )
    tokenizers = [
        folder / file
        for file in ("tokenizer.json", "vocab.txt", "sentencepiece.bpe.model", "spiece.model")
    ]
    files.extend([path for path in tokenizers if path.is_file()][:1])
    listing = "\n".join(
        f"{path.relative_to(folder).as_posix()} {file_digest(path)}" for path in files
    )
    return hashlib.sha256(listing.encode()).hexdigest()


def _beside(graph: Path) -> list[Path]:
    return [
        path
        for ending in _GRAPH_WEIGHTS
        if (path := graph.with_name(graph.name + ending)).is_file()
    ]


def _own_weights(folder: Path) -> list[Path]:
    return sorted(_own(folder, "*.safetensors") or _own(folder, "*.bin"))


def _own(folder: Path, pattern: str) -> list[Path]:
    return [
        path
        for path in folder.rglob(pattern)
        if path.relative_to(folder).parts[0] not in _OTHER_RUNTIMES
    ]


_EXTRA_PACKAGES = ("sentence_transformers", "torch")
"""The packages of the extra `models`, imported only for a model that needs them."""


def has_extra() -> bool:
    """Return whether the extra `models` is installed, without importing it."""
    return all(importlib.util.find_spec(name) for name in _EXTRA_PACKAGES)


def require_extra(what: str) -> None:
    """Raise ModelError, beginning with `what`, if the extra `models` is not installed."""
    if not has_extra():
        raise ModelError(
            f"{what} needs the extra `models`: {install_hint('models')}. Without a GPU, first "
            "install torch's build for CPUs."
        )


def fetch(repository: str, *, torch: bool) -> None:
    """Fetch a model as ONNX where it ships that, else (or with `torch`) as weights for torch; these
    come last, so that what has them is complete.

    Raises ModelError, before anything large is fetched, where the model needs the extra and that is
    not installed.
    """
    from huggingface_hub import hf_hub_download, list_repo_files
    from huggingface_hub.errors import EntryNotFoundError

    files = set(list_repo_files(repository))
    own = sorted(name for name in files if name.partition("/")[0] not in _OTHER_RUNTIMES)
    weights = [name for name in own if name.endswith(".safetensors")] or [
        name for name in own if name.endswith(".bin")
    ]
    graph = next((name for name in _GRAPHS if name in files), None)
    if torch and (weights or graph is None):
        require_extra(f"The model {repository} in torch")
    elif graph is None:
        require_extra(f"The model {repository}, which ships no ONNX file,")
    else:
        weights = [name for end in _GRAPH_WEIGHTS if (name := graph + end) in files] + [graph]
    # asked for by name, the cache remembers that there is none: a plain checkpoint is complete
    # without
    with contextlib.suppress(EntryNotFoundError):
        hf_hub_download(repository, "modules.json")
    described = [name for name in own if name.endswith((".json", ".txt", ".model"))]
    for name in (*described, *weights):
        hf_hub_download(repository, name)


_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def find_model(name: str, *, offline: bool, torch: bool = False) -> ModelCard:
    """Find an embedding model by name or folder, the bundled one where it is `auto`; raise
    ModelError where it cannot be had.

    The bundled one is for onnxruntime alone: with `torch` it is the model of the hub from which it
    was made.
    """
    if name in BUNDLED_NAMES and not torch:
        return read_card(bundled_folder(), BUNDLED)
    remedy = _USE_BUNDLED
    if name in BUNDLED_NAMES:
        name, remedy = BUNDLED, "leave `encode.embed.runtime` at `auto`"
    folder = locate_model(name, offline=offline, remedy=remedy, torch=torch)
    return read_card(folder, name, torch=torch)


def bundled_folder(folder: Path = BUNDLED_FOLDER, *, read: bool = False) -> Path:
    """Return the folder of the model that is part of this package, after a look at its files: at
    their sizes, and with `read` at every byte. Raises ModelError.
    """
    for name, (size, digest) in BUNDLED_FILES.items():
        path = folder / name
        if not path.is_file():
            wrong = "missing"
        elif path.stat().st_size != size or (read and _sha256(path) != digest):
            wrong = "not the file that was published"
        else:
            continue
        raise ModelError(
            f"The bundled model is damaged: {path} is {wrong}. Install thumbindex again, in its "
            "checkout: `uv tool install --reinstall .` (with pip: `pip install --force-reinstall "
            "--no-deps .`)."
        )
    return folder


def locate_model(
    name: str, *, offline: bool, remedy: str, proof: str = "modules.json", torch: bool = False
) -> Path:
    """Return the folder of a model by its path or hub name, fetching it if that is allowed; for
    `proof` and `torch` see `cached_model`.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder.absolute()
    if not _HUB_NAME.fullmatch(name) or name.startswith("."):
        raise ModelError(f"There is no model folder {name}. Correct the path, or {remedy}.")
    repository = name if "/" in name else f"sentence-transformers/{name}"
    found = cached_model(repository, proof, torch=torch)
    if found:
        return found
    if offline:
        raise ModelError(
            f"The model {repository} is not on this machine and HF_HUB_OFFLINE forbids "
            f"fetching it. Go online once, or {remedy}."
        )
    complaint = run_child("thumbindex.encode.models", repository, *(["torch"] if torch else []))
    found = cached_model(repository, proof, torch=torch)
    if not found:
        raise ModelError(
            f"The model {repository} could not be fetched "
            f"({complaint or 'it holds no weights'}). Check its name, or {remedy}."
        )
    return found


def cached_model(
    repository: str, proof: str = "modules.json", *, torch: bool = False
) -> Path | None:
    """Return the folder of a model that is complete in the Hugging Face cache, else None; no
    network is used.

    `proof` is the file without which a folder that holds weights may still be half of a model. With
    `torch` an ONNX file is not enough.
    """
    from huggingface_hub import snapshot_download, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        # None is neither there nor known to be absent: another program fetched only some files, and
        # pooling would be a guess
        if try_to_load_from_cache(repository, proof) is None:
            return None
        folder = Path(snapshot_download(repository, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    return folder if _has_weights(folder) or (_shipped_graph(folder) and not torch) else None


def _has_weights(folder: Path) -> bool:
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return any(folder.glob("*.safetensors")) or any(folder.glob("*.bin"))
    try:
        parts = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    except (OSError, ValueError, KeyError):
        return False
    return all((folder / part).is_file() for part in parts)


def open_in_torch(kind: str, folder: Path, what: str, remedy: str) -> Any:
    """Load a model with a class of sentence-transformers, without progress bars or network; raise
    ModelError where that cannot be.
    """
    require_extra(f"The {what}")
    disable_telemetry()
    import sentence_transformers
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        return getattr(sentence_transformers, kind)(str(folder), local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise ModelError(f"The {what} in {folder} cannot be loaded ({error}). {remedy}") from error


_SKIP_RERANK = "leave `rerank` out with `query.skip`"


class CrossEncoderReranker:
    """Scores with a sentence-transformers CrossEncoder of one output, through a sigmoid."""

    def __init__(self, model: str, *, offline: bool) -> None:
        if model in {"", "late-interaction"}:  # the latter was the default, without a model
            raise ModelError(
                "The stage `rerank` needs a model: name a CrossEncoder in `encode.rerank.model`, "
                f"or {_SKIP_RERANK}."
            )
        self.name = model
        require_extra(f"The reranker {model}")
        folder = locate_model(
            model, offline=offline, remedy=_SKIP_RERANK, proof="config.json", torch=True
        )
        self._model = open_in_torch(
            "CrossEncoder",
            folder,
            f"reranker {model}",
            f"Name another, or {_SKIP_RERANK}.",
        )
        if self._model.num_labels != 1:
            raise ModelError(
                f"{model} is no reranker: it has {self._model.num_labels} outputs, not one. "
                f"Name another, or {_SKIP_RERANK}."
            )
        self._lock = threading.Lock()  # its tokenizer cannot be borrowed by two threads

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Score each passage for the query, in the passages' order: 0 to 1."""
        if not passages:
            return []
        from torch.nn import Sigmoid

        pairs = [(query, passage) for passage in passages]
        with self._lock:
            scores = self._model.predict(pairs, activation_fn=Sigmoid(), show_progress_bar=False)
        return [float(score) for score in scores]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    disable_telemetry()
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    try:
        fetch(sys.argv[1], torch=sys.argv[2:] == ["torch"])
    except ModelError as error:
        raise SystemExit(str(error)) from error
