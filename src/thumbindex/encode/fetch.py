"""The program that fetches one model into the Hugging Face cache: `python -m thumbindex.encode.fetch NAME`."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings

from thumbindex.process import forbid_telemetry

SMALL_FILES = ["*.json", "*.txt", "*.model"]
WEIGHTS = ["*.safetensors"]
OLD_WEIGHTS = ["*.bin"]
OTHER_RUNTIMES = ["onnx/*", "openvino/*"]


def fetch(repository: str) -> None:
    """Fetch a model; its weights come last, so that a model with weights is complete."""
    from huggingface_hub import hf_hub_download, list_repo_files, snapshot_download
    from huggingface_hub.errors import EntryNotFoundError

    snapshot_download(repository, allow_patterns=SMALL_FILES, ignore_patterns=OTHER_RUNTIMES)
    # asked for by name, the cache remembers that there is none: a plain checkpoint is complete without
    with contextlib.suppress(EntryNotFoundError):
        hf_hub_download(repository, "modules.json")
    safe = any(name.endswith(".safetensors") for name in list_repo_files(repository))
    snapshot_download(repository, allow_patterns=WEIGHTS if safe else OLD_WEIGHTS, ignore_patterns=OTHER_RUNTIMES)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    forbid_telemetry()
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    fetch(sys.argv[1])
