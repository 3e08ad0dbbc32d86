import shutil

import numpy as np
import pytest

from fakes import FakeEmbedder
from thumbindex.encode.rerank import (
    CrossEncoderReranker,
    LateInteractionReranker,
    max_similarity,
    open_reranker,
)
from thumbindex.errors import ModelError
from thumbindex.settings import RerankModelSettings

EAST, NORTH = np.eye(2, dtype=np.float32)
NOTHING = np.empty((0, 2), dtype=np.float32)


def test_each_query_token_counts_its_nearest_token_in_the_passage():
    diagonal = (EAST + NORTH) / np.sqrt(np.float32(2))
    query = np.array([EAST, NORTH])
    assert max_similarity(query, np.array([NORTH, EAST, diagonal])) == 1.0
    assert max_similarity(query, np.array([EAST])) == 0.5
    assert max_similarity(query, np.array([diagonal])) == pytest.approx(np.sqrt(0.5))


def test_what_points_the_other_way_or_has_no_tokens_scores_nothing():
    assert max_similarity(np.array([EAST]), np.array([-EAST])) == 0.0
    assert max_similarity(np.array([EAST]), NOTHING) == 0.0
    assert max_similarity(NOTHING, np.array([EAST])) == 0.0


def test_late_interaction_is_the_choice_that_needs_no_further_model():
    reranker = open_reranker(RerankModelSettings(), FakeEmbedder(), offline=True)
    assert isinstance(reranker, LateInteractionReranker)
    assert reranker.name == "late-interaction"


@pytest.mark.long
def test_a_cross_encoder_that_cannot_be_had_is_refused_with_what_to_do():
    pytest.importorskip("sentence_transformers", reason="the extra `models` is not installed")
    with pytest.raises(
        ModelError, match=r"HF_HUB_OFFLINE.*--set encode.rerank.model=late-interaction"
    ):
        open_reranker(
            RerankModelSettings(model="cross-encoder/ms-marco-MiniLM-L6-v2"),
            FakeEmbedder(),
            offline=True,
        )


@pytest.mark.long
def test_a_cross_encoder_scores_pairs_through_a_sigmoid(tiny_cross_encoder):
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_cross_encoder)
    model = AutoModelForSequenceClassification.from_pretrained(tiny_cross_encoder).eval()
    with torch.inference_mode():
        expected = torch.sigmoid(
            model(**tokenizer("share", "a vault", return_tensors="pt")).logits
        ).item()
    reranker = open_reranker(
        RerankModelSettings(model=str(tiny_cross_encoder)), FakeEmbedder(), offline=True
    )
    assert isinstance(reranker, CrossEncoderReranker)
    assert reranker.score("share", ["a vault"]) == pytest.approx([expected], abs=1e-5)


@pytest.mark.long
def test_a_model_of_several_outputs_is_no_reranker(tiny_cross_encoder, tmp_path):
    from transformers import AutoModelForSequenceClassification

    folder = shutil.copytree(tiny_cross_encoder, tmp_path / "model")
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=3, ignore_mismatched_sizes=True
    )
    model.save_pretrained(folder)
    with pytest.raises(
        ModelError, match=r"has 3 outputs, not one.*--set encode.rerank.model=late-interaction"
    ):
        CrossEncoderReranker(str(folder), offline=True)
