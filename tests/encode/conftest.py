import json

import pytest


@pytest.fixture
def model_folder(tmp_path):
    """Return a function that makes a model folder from files; dicts and lists become JSON."""

    def make(name="model", **changes):
        files = {
            "config.json": {
                "model_type": "bert",
                "hidden_size": 384,
                "max_position_embeddings": 512,
            },
            "modules.json": [
                {"path": "", "type": "st.models.Transformer"},
                {"path": "1_Pooling", "type": "st.models.Pooling"},
            ],
            "1_Pooling/config.json": {
                "word_embedding_dimension": 384,
                "pooling_mode_cls_token": False,
                "pooling_mode_mean_tokens": True,
            },
            "sentence_bert_config.json": {"max_seq_length": 256, "do_lower_case": False},
            "tokenizer.json": {},
            "model.safetensors": "weights",
            **changes,
        }
        folder = tmp_path / name
        for path, content in files.items():
            if content is not None:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(
                    content if isinstance(content, str) else json.dumps(content), encoding="utf-8"
                )
        return folder

    return make
