import shutil

import pytest

from thumbindex.encode.models import CrossEncoderReranker
from thumbindex.errors import ModelError


def test_missing_model_name_is_reported_with_advice():
    with pytest.raises(ModelError, match=r"set `encode\.rerank\.model` to a CrossEncoder"):
        CrossEncoderReranker("", offline=True)


@pytest.mark.long
def test_unavailable_cross_encoder_is_reported_with_advice():
    pytest.importorskip("sentence_transformers", reason="the extra `models` is not installed")
    with pytest.raises(ModelError, match=r"HF_HUB_OFFLINE.*skip `rerank`"):
        CrossEncoderReranker("cross-encoder/ms-marco-MiniLM-L6-v2", offline=True)


@pytest.mark.long
def test_cross_encoder_scores_pairs_through_a_sigmoid(tiny_cross_encoder):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_cross_encoder)
    model = AutoModelForSequenceClassification.from_pretrained(tiny_cross_encoder).eval()
    with torch.inference_mode():
        expected = torch.sigmoid(
            model(**tokenizer("share", "a vault", return_tensors="pt")).logits
        ).item()
    reranker = CrossEncoderReranker(str(tiny_cross_encoder), offline=True)
    assert reranker.score("share", ["a vault"]) == pytest.approx([expected], abs=1e-5)


@pytest.mark.long
def test_model_with_several_outputs_is_not_a_reranker(tiny_cross_encoder, tmp_path):
    from transformers import AutoModelForSequenceClassification

    folder = shutil.copytree(tiny_cross_encoder, tmp_path / "model")
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=3, ignore_mismatched_sizes=True
    )
    model.save_pretrained(folder)
    with pytest.raises(ModelError, match=r"has 3 outputs, not one.*skip `rerank`"):
        CrossEncoderReranker(str(folder), offline=True)
