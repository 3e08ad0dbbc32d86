import json
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from thumbindex.encode.embed import OnnxEmbedder, TorchEmbedder, gpu_is_there, open_embedder
from thumbindex.encode.models import read_card
from thumbindex.errors import ModelError
from thumbindex.settings import EmbedSettings

pytestmark = pytest.mark.long

WORDS = "sync keeps the notes of a vault alike on every device that has joined it".split()
SENTENCES = [f"{' '.join(WORDS[start:end])} {end}." for start in range(4) for end in range(6, 11)]


@pytest.mark.parametrize("count", [1, 10, 400])
def test_texts_of_any_length_stay_close_to_those_of_torch(real_embedder, torch_embedder, count):
    text = " ".join(WORDS[number % len(WORDS)] for number in range(count))
    assert real_embedder.embed_query(text) @ torch_embedder.embed_query(text) >= 0.97


def test_pooling_by_the_first_token_is_that_of_sentence_transformers(
    tiny_bert, model_cache, tmp_path
):
    folder = shutil.copytree(tiny_bert, tmp_path / "model")
    modules = [
        ("", "base.modules.transformer.Transformer"),
        ("1_Pooling", "sentence_transformer.modules.pooling.Pooling"),
    ]
    entries = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.{kind}"}
        for n, (path, kind) in enumerate(modules)
    ]
    (folder / "modules.json").write_text(json.dumps(entries))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"embedding_dimension": 32, "pooling_mode": "cls"})
    )
    card = read_card(folder, "tiny", model_cache)
    cosines = OnnxEmbedder(card, model_cache, workers=1).embed_passages(SENTENCES) * TorchEmbedder(
        card
    ).embed_passages(SENTENCES)
    assert cosines.sum(axis=1).min() >= 0.995


def test_prefixes_stand_before_queries_and_passages(tiny_card, model_cache):
    plain = OnnxEmbedder(tiny_card, model_cache, workers=1)
    prefixed = OnnxEmbedder(
        replace(tiny_card, query_prefix="query: ", passage_prefix="passage: "),
        model_cache,
        workers=1,
    )
    assert np.array_equal(prefixed.embed_query("vault"), plain.embed_query("query: vault"))
    assert np.array_equal(
        prefixed.embed_passages(["vault"])[0], plain.embed_query("passage: vault")
    )


def test_more_workers_give_the_same_vectors(tiny_card, model_cache):
    one, three = (
        OnnxEmbedder(tiny_card, model_cache, workers=count).embed_passages(SENTENCES)
        for count in (1, 3)
    )
    assert np.array_equal(one, three)


def test_opening_imports_no_torch_and_prints_nothing(tiny_bert, tiny_card, model_cache):
    OnnxEmbedder(tiny_card, model_cache, workers=1)  # exported by now
    script = f"""
import sys
from thumbindex.encode.embed import open_embedder
from thumbindex.settings import EmbedSettings
settings = EmbedSettings(model={str(tiny_bert)!r}, runtime="onnx", cache={str(model_cache)!r})
open_embedder(settings, offline=True).embed_query("vault")
heavy = {{"torch", "transformers", "sentence_transformers", "onnx"}}
raise SystemExit(str(sorted(heavy & set(sys.modules))))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr.strip()) == ("", "[]")


def test_a_model_that_onnx_cannot_run_runs_in_torch(tiny_bert, tmp_path, caplog):
    folder = shutil.copytree(tiny_bert, tmp_path / "model")
    (folder / "sentence_bert_config.json").write_text(json.dumps({"do_lower_case": True}))
    settings = EmbedSettings(model=str(folder), cache=str(tmp_path / "cache"))
    embedder = open_embedder(settings, offline=True)
    assert isinstance(embedder, TorchEmbedder)
    assert gpu_is_there() or "runs in torch now" in caplog.text
    with pytest.raises(ModelError, match=r"--set encode.embed.runtime=torch"):
        open_embedder(replace(settings, runtime="onnx"), offline=True)


def test_an_interrupt_ends_embedding_at_once(tiny_bert, tiny_card, model_cache):
    OnnxEmbedder(tiny_card, model_cache, workers=1)  # exported by now
    script = f"""
import sys
from thumbindex.encode.embed import open_embedder
from thumbindex.settings import EmbedSettings
settings = EmbedSettings(
    model={str(tiny_bert)!r}, runtime="onnx", workers=2, cache={str(model_cache)!r}
)
embedder = open_embedder(settings, offline=True)
print("ready", flush=True)
embedder.embed_passages(["words of a vault " * 20] * 300_000)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in process.communicate(timeout=10)[1]
