"""Find a model (bundled, in a folder or on the Hugging Face hub), read its card, load rerankers."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thumbindex.errors import ModelError, install_hint
from thumbindex.process import disable_telemetry
from thumbindex.settings import AUTO_MODEL


def file_digest(path: Path) -> str:
    """Return the hexadecimal sha256 of a file. For a bundled file, read it from `BUNDLED_FILES`."""
    if path.parent == BUNDLED_FOLDER and path.name in BUNDLED_FILES:
        return BUNDLED_FILES[path.name][1]
    return _sha256(path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


BUNDLED = "all-MiniLM-L6-v2"

BUNDLED_NAMES = (AUTO_MODEL, BUNDLED, f"sentence-transformers/{BUNDLED}")

BUNDLED_FOLDER = Path(__file__).parent / "minilm"
"""Folder of the bundled model, built by `scripts/build_model.py`; `origin.json` lists the sources.
"""

BUNDLED_FILES = {
    "model.onnx": (
        90_404,
        "c226d09271a50bdcb4156a275e0fd0e08d6f8310a78e06a986174cde8cb8ea30",
    ),
    "model.onnx.data": (
        23_696_896,
        "cf13dfc7577a7d0cb542b11c0439df47073769ae5ce2688a9ef35cee0ee6451f",
    ),
    "tokenizer.json": (
        466_247,
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
    # vectors of `provisional.py`, from `scripts/build_table.py`
    "token_table.npy": (
        11_842_728,
        "d446f70ee401baf41f6619314bada1e7e00b2d8710cd0e46033da57e1e02a431",
    ),
}
"""Size and sha256 of the files that determine the vectors."""

_USE_BUNDLED = f"use the bundled model: `--set encode.embed.model={BUNDLED}`"

_PORTABLE_MODULES = {"Transformer", "Pooling", "Normalize"}
_PORTABLE_POOLINGS = {"mean", "cls"}
_OTHER_RUNTIMES = ("onnx", "openvino")  # folders with further copies of the weights
# full precision; other variants are for specific processors
_GRAPHS = ("onnx/model.onnx", "model.onnx")
# appended to the name of a graph: the file with its weights
_GRAPH_WEIGHTS = ("_data", ".data")
_FALLBACK_WINDOW = 512  # window of BERT models, used if a folder does not specify one

_FAMILIES = (
    # families trained with prefixes that their folders omit
    (
        re.compile(r"bge-(small|base|large)-en"),
        "Represent this sentence for searching relevant passages: ",
        "",
    ),
    (re.compile(r"e5-(small|base|large)"), "query: ", "passage: "),
)


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The facts needed to run an embedding model."""

    name: str  # as in the configuration
    folder: Path
    dimensions: int
    window: int  # tokens, special ones included
    pooling: str  # "mean", "cls", or another that only sentence-transformers supports
    query_prefix: str
    passage_prefix: str
    # can run in onnxruntime: only a transformer, mean or cls pooling and normalization
    portable: bool
    weights: str  # sha256 over weights and tokenizer
    graph: Path | None = None  # the ONNX file that the folder ships

    def fingerprint(self, precision: str) -> str:
        """Return a hash of everything that the vectors depend on.

        The name is left out: it may be the path of a folder, and the folder may move.
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
    """Read a model folder in the layout of sentence-transformers; raise ModelError if invalid.

    The card's `graph` is None if the folder has torch weights and either `torch` is set or the
    model is not portable.
    """
    config = _read_json(folder / "config.json")
    modules = _read_modules(folder)
    pooling_folder = next(
        (folder / module["path"] for kind, module in modules if kind == "Pooling"), None
    )
    # without modules (a plain checkpoint) sentence-transformers uses mean pooling
    pooling_config = (
        _read_json(pooling_folder / "config.json") if pooling_folder else {"pooling_mode": "mean"}
    )
    pooling = _pooling(pooling_config)
    settings = _read_optional(folder / "sentence_bert_config.json")
    query_prefix, passage_prefix = _prefixes(folder, name)
    portable = (
        {kind for kind, _ in modules} <= _PORTABLE_MODULES
        and pooling in _PORTABLE_POOLINGS
        and not settings.get("do_lower_case")
    )
    portable = portable and (folder / "tokenizer.json").is_file()
    graph = None if (torch or not portable) and _torch_weights(folder) else _shipped_graph(folder)
    return ModelCard(
        name=name,
        folder=folder,
        dimensions=int(
            pooling_config.get("word_embedding_dimension")
            or pooling_config.get("embedding_dimension")
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
    return next((folder / name for name in _GRAPHS if (folder / name).is_file()), None)


def _read_json(path: Path, kind: type = dict) -> Any:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _incomplete(path.parent, f"{path.name} cannot be read ({error})") from error
    if not isinstance(content, kind):
        raise _incomplete(path.parent, f"{path.name} is not a JSON {kind.__name__}")
    return content


def _incomplete(folder: Path, problem: str) -> ModelError:
    return ModelError(f"{folder} is not a complete model: {problem}. Fetch the model again.")


def _read_optional(path: Path) -> dict[str, Any]:
    return dict(_read_json(path)) if path.is_file() else {}


def _read_modules(folder: Path) -> list[tuple[str, dict[str, str]]]:
    """Return (class name, module) for each module of sentence-transformers, in order."""
    path = folder / "modules.json"
    modules = _read_json(path, list) if path.is_file() else []
    return [(module.get("type", "").rpartition(".")[2], module) for module in modules]


def _pooling(config: dict[str, Any]) -> str:
    if not config.get("include_prompt", True):
        return "other"
    if "pooling_mode" in config:
        return str(config["pooling_mode"])
    modes = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    chosen = [
        key for key, value in config.items() if key.startswith("pooling_mode_") and value is True
    ]
    return modes.get(chosen[0], "other") if len(chosen) == 1 else "other"


def _window(folder: Path, config: dict[str, Any], settings: dict[str, Any]) -> int:
    positions = int(config.get("max_position_embeddings") or _FALLBACK_WINDOW)
    if "roberta" in str(config.get("model_type", "")):
        positions -= 2  # RoBERTa's positions begin after the padding id
    maximum = (
        settings.get("max_seq_length")
        or _read_optional(folder / "tokenizer_config.json").get("model_max_length")
        or positions
    )
    return min(int(maximum), positions)


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
    files = _torch_weights(folder) if graph is None else [graph, *_weight_files(graph)]
    if not files:
        raise _incomplete(folder, "it has no weights (onnx/model.onnx or *.safetensors)")
    tokenizers = [
        folder / file
        for file in ("tokenizer.json", "vocab.txt", "sentencepiece.bpe.model", "spiece.model")
    ]
    files.extend([path for path in tokenizers if path.is_file()][:1])
    listing = "\n".join(
        f"{path.relative_to(folder).as_posix()} {file_digest(path)}" for path in files
    )
    return hashlib.sha256(listing.encode()).hexdigest()


def _weight_files(graph: Path) -> list[Path]:
    return [
        path
        for ending in _GRAPH_WEIGHTS
        if (path := graph.with_name(graph.name + ending)).is_file()
    ]


def _torch_weights(folder: Path) -> list[Path]:
    return sorted(_torch_files(folder, "*.safetensors") or _torch_files(folder, "*.bin"))


def _torch_files(folder: Path, pattern: str) -> list[Path]:
    return [
        path
        for path in folder.rglob(pattern)
        if path.relative_to(folder).parts[0] not in _OTHER_RUNTIMES
    ]


_EXTRA_PACKAGES = ("sentence_transformers", "torch")
"""Packages of the extra `models`, imported only for a model that needs them."""


def has_extra() -> bool:
    """Return whether the extra `models` is installed, without importing it."""
    return all(importlib.util.find_spec(name) for name in _EXTRA_PACKAGES)


def require_extra(subject: str) -> None:
    """Raise ModelError if the extra `models` is not installed. `subject` begins the message."""
    if not has_extra():
        raise ModelError(
            f"{subject} needs the extra `models`: {install_hint('models')}. Without a GPU, first "
            "install torch's build for CPUs."
        )


def _fetch(repository: str, *, torch: bool) -> None:
    """Download a model: an ONNX graph if the repository has one, or else torch weights.

    With `torch`, torch weights are preferred. Raises ModelError if torch weights are needed
    and the extra `models` is not installed.
    """
    from huggingface_hub import hf_hub_download, list_repo_files
    from huggingface_hub.errors import EntryNotFoundError
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    files = set(list_repo_files(repository))
    torch_names = sorted(name for name in files if name.partition("/")[0] not in _OTHER_RUNTIMES)
    weights = [name for name in torch_names if name.endswith(".safetensors")] or [
        name for name in torch_names if name.endswith(".bin")
    ]
    graph = next((name for name in _GRAPHS if name in files), None)
    if graph is None or (torch and weights):
        require_extra(f"The model {repository} in torch")
    else:
        weights = [name for end in _GRAPH_WEIGHTS if (name := graph + end) in files] + [graph]
    # plain checkpoints have no such file: the request makes the cache record its absence
    with suppress(EntryNotFoundError):
        hf_hub_download(repository, "modules.json")
    metadata = [name for name in torch_names if name.endswith((".json", ".txt", ".model"))]
    for name in (*metadata, *weights):  # weights last: a model with weights is complete
        hf_hub_download(repository, name)


_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def find_model(name: str, *, offline: bool, torch: bool = False) -> ModelCard:
    """Find an embedding model by name or folder; raise ModelError if it is unavailable.

    `auto` is the bundled model, which runs only in onnxruntime. With `torch`, `auto` is the
    original of the bundled model, from the hub.
    """
    if name in BUNDLED_NAMES and not torch:
        return read_card(bundled_folder(), BUNDLED)
    remedy = _USE_BUNDLED
    if name in BUNDLED_NAMES:
        name, remedy = BUNDLED, "leave `encode.embed.runtime` at `auto`"
    folder = locate_model(name, offline=offline, remedy=remedy, torch=torch)
    return read_card(folder, name, torch=torch)


def bundled_folder(folder: Path = BUNDLED_FOLDER, *, check_digests: bool = False) -> Path:
    """Return the folder of the bundled model, after checking the sizes of the files in it.

    With `check_digests`, the digests are checked too. Raises ModelError if a file is missing or
    damaged.
    """
    for name, (size, digest) in BUNDLED_FILES.items():
        path = folder / name
        if not path.is_file():
            problem = "is missing"
        elif path.stat().st_size != size or (check_digests and _sha256(path) != digest):
            problem = "does not have the published checksum"
        else:
            continue
        raise ModelError(
            f"The bundled model is damaged: {path} {problem}. Reinstall thumbindex from its "
            "checkout: `uv tool install --reinstall .` (with pip: `pip install --force-reinstall "
            "--no-deps .`)."
        )
    return folder


def locate_model(
    name: str, *, offline: bool, remedy: str, proof: str = "modules.json", torch: bool = False
) -> Path:
    """Return the folder of a model. `name` is a path or a name on the hub.

    If `offline` is False, a missing model is downloaded. `proof` and `torch` are passed to
    `cached_model`. `remedy` is the advice at the end of an error message.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder.absolute()
    if not _HUB_NAME.fullmatch(name) or name.startswith("."):
        raise ModelError(f"There is no model folder {name}. Correct the path, or {remedy}.")
    repository = name if "/" in name else f"sentence-transformers/{name}"
    cached = cached_model(repository, proof, torch=torch)
    if cached:
        return cached
    if offline:
        raise ModelError(
            f"The model {repository} is not on this machine and HF_HUB_OFFLINE forbids "
            f"fetching it. Go online once, or {remedy}."
        )
    disable_telemetry()
    reason = "it has no weights"
    try:
        _fetch(repository, torch=torch)
    except ModelError:
        raise
    except Exception as error:  # huggingface_hub's errors have no common base
        reason = str(error).strip().partition("\n")[0]
    cached = cached_model(repository, proof, torch=torch)
    if not cached:
        raise ModelError(
            f"The model {repository} could not be fetched ({reason}). Check its name, or {remedy}."
        )
    return cached


def cached_model(
    repository: str, proof: str = "modules.json", *, torch: bool = False
) -> Path | None:
    """Return the folder of a complete model in the Hugging Face cache, or None. Uses no network.

    A complete model has weights, and the cache records whether the file `proof` exists. With
    `torch`, an ONNX graph does not count as weights.
    """
    from huggingface_hub import snapshot_download, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        # None: neither cached nor recorded as absent. Another program has downloaded only some of
        # the files, and the pooling would be a guess.
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


def open_in_torch(kind: str, folder: Path, label: str, remedy: str) -> Any:
    """Load a model with the sentence-transformers class `kind`, without progress bars or network.

    Raises ModelError if loading fails.
    """
    require_extra(f"The {label}")
    disable_telemetry()
    import sentence_transformers
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        return getattr(sentence_transformers, kind)(str(folder), local_files_only=True)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise ModelError(f"The {label} in {folder} cannot be loaded ({error}). {remedy}") from error


_SKIP_RERANK = "skip `rerank` with `query.skip`"


class CrossEncoderReranker:
    """Scores passages with a CrossEncoder that has one output, passed through a sigmoid."""

    def __init__(self, model: str, *, offline: bool) -> None:
        if not model:
            raise ModelError(
                "The stage `rerank` needs a model: set `encode.rerank.model` to a CrossEncoder, "
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
            f"Choose another, or {_SKIP_RERANK}.",
        )
        if self._model.num_labels != 1:
            raise ModelError(
                f"{model} is not a reranker: it has {self._model.num_labels} outputs, not one. "
                f"Choose another, or {_SKIP_RERANK}."
            )
        self._lock = threading.Lock()  # the tokenizer is not thread-safe

    def score(self, query: str, passages: Sequence[str]) -> list[float]:
        """Score each passage for the query, from 0 to 1, in the order of `passages`."""
        if not passages:
            return []
        from torch.nn import Sigmoid

        pairs = [(query, passage) for passage in passages]
        with self._lock:
            scores = self._model.predict(pairs, activation_fn=Sigmoid(), show_progress_bar=False)
        return [float(score) for score in scores]
