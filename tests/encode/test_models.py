import json
import os
import shutil
import subprocess
import sys

import pytest

from thumbindex.encode.models import (
    BUNDLED,
    BUNDLED_FOLDER,
    bundled_folder,
    find_model,
    locate_model,
)
from thumbindex.errors import ModelError

REMEDY = "take another"


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_bundled_model_has_two_names(name):
    card = find_model(name, offline=False)
    assert (card.name, card.dimensions, card.window, card.pooling, card.portable) == (
        BUNDLED,
        384,
        256,
        "mean",
        True,
    )


def test_auto_is_the_bundled_model_regardless_of_the_hub_cache(
    tmp_path,
):
    snapshot(
        tmp_path, "BAAI/bge-small-en-v1.5", ["modules.json", "config.json", "model.safetensors"]
    )
    script = (
        "import sys; from thumbindex.encode.models import find_model;"
        "print(find_model('auto', offline=False).name, 'huggingface_hub' in sys.modules)"
    )
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert result.stdout.split() == [BUNDLED, "False"]


def test_missing_or_changed_bundled_file_is_rejected(tmp_path):
    folder = shutil.copytree(BUNDLED_FOLDER, tmp_path / "model")
    graph = folder / "model.onnx"
    data = graph.read_bytes()
    assert bundled_folder(folder, check_digests=True) == folder
    graph.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    advice = r"Reinstall thumbindex .*`uv tool install --reinstall \.`"
    with pytest.raises(ModelError, match=rf"model\.onnx does not have the published .*\. {advice}"):
        bundled_folder(folder, check_digests=True)
    graph.write_bytes(data[:-1])
    with pytest.raises(ModelError, match=r"model\.onnx does not have the published checksum"):
        bundled_folder(folder)
    graph.unlink()
    with pytest.raises(ModelError, match=r"model\.onnx is missing\. Reinstall thumbindex"):
        bundled_folder(folder)


@pytest.mark.parametrize("name", ["no/such/model/folder", "./models"])
def test_missing_model_folder_is_reported(name, tmp_path):
    with pytest.raises(ModelError, match=r"There is no model folder .* take another"):
        locate_model(name, offline=True, remedy=REMEDY)


def test_hub_model_is_rejected_offline_with_advice():
    with pytest.raises(
        ModelError, match=r"HF_HUB_OFFLINE.*--set encode.embed.model=all-MiniLM-L6-v2"
    ):
        find_model("someone/a-model", offline=True)


def test_failed_download_is_reported_with_advice():
    with pytest.raises(
        ModelError, match=r"sentence-transformers/no-such could not be fetched .* take another"
    ):
        locate_model("no-such", offline=False, remedy=REMEDY)


def snapshot(cache, name, files):
    """Create a hub cache in the layout of huggingface_hub."""
    repository = cache / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40)
    for path in files:
        target = repository / "snapshots" / ("0" * 40) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps({}))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["modules.json", "config.json", "onnx/model.onnx"], True),
        (["modules.json", "config.json", "onnx/model_quantized.onnx"], False),
        (
            ["modules.json", "config.json", "model.safetensors.index.json", "model-1.safetensors"],
            False,
        ),
    ],
)
def test_only_a_complete_model_in_the_hub_cache_counts(files, expected, tmp_path):
    snapshot(tmp_path, "someone/a-model", files)
    script = (
        "from thumbindex.encode.models import cached_model; raise SystemExit(0 if "
        "cached_model('someone/a-model') else 5)"
    )
    # huggingface_hub reads it at import
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path)}
    assert subprocess.run(
        [sys.executable, "-c", script], env=environment, check=False
    ).returncode == (0 if expected else 5)
