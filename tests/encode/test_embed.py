import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from thumbindex.encode.embed import OnnxEmbedder, TorchEmbedder, open_embedder
from thumbindex.encode.models import BUNDLED, BUNDLED_FOLDER, read_card
from thumbindex.errors import ModelError
from thumbindex.settings import EmbedSettings

WORDS = "sync keeps the notes of a vault alike on every device that has joined it".split()
SENTENCES = [f"{' '.join(WORDS[start:end])} {end}." for start in range(4) for end in range(6, 11)]


@pytest.fixture(scope="module")
def card():
    return read_card(BUNDLED_FOLDER, BUNDLED)


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 10, 400])
def test_vectors_are_close_to_those_of_torch_at_any_length(real_embedder, torch_embedder, count):
    text = " ".join(WORDS[number % len(WORDS)] for number in range(count))
    assert real_embedder.embed_query(text) @ torch_embedder.embed_query(text) >= 0.97


@pytest.mark.long
def test_cls_pooling_equals_sentence_transformers(card, published, tmp_path):
    folder = shutil.copytree(published, tmp_path / "model")
    modules = [
        ("", "base.modules.transformer.Transformer"),
        ("1_Pooling", "sentence_transformer.modules.pooling.Pooling"),
    ]
    entries = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.{kind}"}
        for n, (path, kind) in enumerate(modules)
    ]
    (folder / "modules.json").write_text(json.dumps(entries))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"embedding_dimension": 384, "pooling_mode": "cls"})
    )
    in_torch = TorchEmbedder(read_card(folder, "by the first token", torch=True))
    in_onnx = OnnxEmbedder(replace(card, pooling="cls"), workers=1)
    cosines = in_onnx.embed_passages(SENTENCES) * in_torch.embed_passages(SENTENCES)
    assert cosines.sum(axis=1).min() >= 0.95


def test_vectors_do_not_depend_on_the_processor(real_embedder):
    """Where int8 products overflow, the cosine is 0.528."""
    first, second = real_embedder.embed_passages([SENTENCES[1], SENTENCES[5]])
    assert first @ second == pytest.approx(0.5012, abs=0.001)


def test_prefixes_are_added_to_queries_and_passages(card):
    plain = OnnxEmbedder(card, workers=1)
    prefixed = OnnxEmbedder(
        replace(card, query_prefix="query: ", passage_prefix="passage: "), workers=1
    )
    assert np.array_equal(prefixed.embed_query("vault"), plain.embed_query("query: vault"))
    assert np.array_equal(
        prefixed.embed_passages(["vault"])[0], plain.embed_query("passage: vault")
    )


def test_vectors_do_not_depend_on_the_number_of_workers(card):
    one, three = (OnnxEmbedder(card, workers=count).embed_passages(SENTENCES) for count in (1, 3))
    assert np.array_equal(one, three)


def test_model_without_onnx_is_rejected_for_onnxruntime(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(BUNDLED_FOLDER, folder, ignore=shutil.ignore_patterns("*.onnx*"))
    (folder / "model.safetensors").write_bytes(b"weights")
    settings = EmbedSettings(model=str(folder), runtime="onnx")
    with pytest.raises(
        ModelError, match=r"ships `onnx/model\.onnx`, .*in torch \(with the extra `models`\)"
    ):
        open_embedder(settings, offline=True)


@pytest.mark.long
def test_model_without_onnx_runs_in_torch(tiny_bert):
    settings = EmbedSettings(model=str(tiny_bert))
    assert isinstance(open_embedder(settings, offline=True), TorchEmbedder)


@pytest.mark.slow
def test_interrupt_ends_embedding_promptly():
    script = """
import sys
from thumbindex.encode.embed import open_embedder
from thumbindex.settings import EmbedSettings
embedder = open_embedder(EmbedSettings(workers=2), offline=True)
print("ready", flush=True)
embedder.embed_passages(["words of a vault " * 20] * 300_000)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in process.communicate(timeout=10)[1]
