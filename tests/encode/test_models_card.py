from dataclasses import replace
from pathlib import Path

import pytest

from thumbindex.encode.models import read_card
from thumbindex.errors import ModelError

POOLING = "1_Pooling/config.json"
PROMPTS = "config_sentence_transformers.json"


@pytest.fixture
def card(model_folder):
    return lambda name="model", **files: read_card(model_folder(name, **files), name)


def test_card_contains_the_facts_of_the_folder(card, tmp_path):
    actual = card()
    assert (actual.name, actual.folder, actual.dimensions, actual.window, actual.pooling) == (
        "model",
        tmp_path / "model",
        384,
        256,
        "mean",
    )
    assert (actual.query_prefix, actual.passage_prefix, actual.portable) == ("", "", True)


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode": "cls", "embedding_dimension": 384}, "cls"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, "other"),
    ],
)
def test_pooling_is_read_from_old_and_new_formats(card, stated, expected):
    actual = card(**{POOLING: stated})
    assert (actual.pooling, actual.portable) == (expected, expected == "cls")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"sentence_bert_config.json": {}, "tokenizer_config.json": {"model_max_length": 128}},
            128,
        ),
        (
            {
                "sentence_bert_config.json": {},
                "tokenizer_config.json": {"model_max_length": 10**30},
            },
            512,
        ),
        (
            {
                "sentence_bert_config.json": None,
                "config.json": {"model_type": "xlm-roberta", "max_position_embeddings": 514},
            },
            512,
        ),
    ],
)
def test_window_is_the_smallest_stated_one(card, files, expected):
    assert card(**files).window == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bge-small-en-v1.5", ("Represent this sentence for searching relevant passages: ", "")),
        ("multilingual-e5-base", ("query: ", "passage: ")),
    ],
)
def test_known_families_get_their_prefixes(card, name, expected):
    actual = card(name, **{PROMPTS: {"prompts": {"query": "", "document": ""}}})
    assert (actual.query_prefix, actual.passage_prefix) == expected


def test_stated_prompts_take_precedence(card):
    actual = card("e5-base", **{PROMPTS: {"prompts": {"query": "ask: ", "document": "tell: "}}})
    assert (actual.query_prefix, actual.passage_prefix) == ("ask: ", "tell: ")


@pytest.mark.parametrize(
    "files",
    [
        {
            "modules.json": [
                {"path": "", "type": "Transformer"},
                {"path": "1_Pooling", "type": "Pooling"},
                {"path": "2_Dense", "type": "Dense"},
            ]
        },
        {"tokenizer.json": None},
        {"sentence_bert_config.json": {"do_lower_case": True}},
    ],
)
def test_model_with_other_modules_is_not_portable(card, files):
    assert not card(**files).portable


@pytest.mark.parametrize("missing", [POOLING, "model.safetensors"])
def test_incomplete_model_is_rejected_naming_the_missing_file(card, missing):
    with pytest.raises(ModelError, match="not a complete model: .*" + missing.rpartition(".")[2]):
        card(**{missing: None})


def test_invalid_json_is_rejected_naming_the_file(card):
    with pytest.raises(ModelError, match=r"modules\.json cannot be read"):
        card(**{"modules.json": "{"})


def test_fingerprint_changes_with_everything_vectors_depend_on(card):
    first = card()
    others = [
        replace(first, **{name: "x"})
        for name in ("weights", "pooling", "query_prefix", "passage_prefix")
    ]
    cards = [first, *others, replace(first, window=512)]
    assert len({card.fingerprint("int8") for card in cards} | {first.fingerprint("fp32")}) == 7


def test_fingerprint_survives_moving_the_folder(card):
    first = card()
    assert replace(first, name="other", folder=Path("elsewhere")).fingerprint(
        "int8"
    ) == first.fingerprint("int8")


def test_weights_and_vocabulary_identify_a_model_but_exports_do_not(card):
    digests = {
        card("first").weights,
        card("retrained", **{"model.safetensors": "better weights"}).weights,
        card("retokenized", **{"tokenizer.json": {"version": "2"}}).weights,
    }
    assert len(digests) == 3
    assert card("exported", **{"onnx/model.safetensors": "the same again"}).weights in digests


@pytest.mark.parametrize("graph", ["onnx/model.onnx", "model.onnx"])
def test_shipped_graph_and_its_data_identify_a_model(card, graph):
    plain, shipped = card("plain"), card("shipped", **{graph: "a graph"})
    other, more = (
        card("other", **{graph: "another"}),
        card("more", **{graph: "a graph", f"{graph}_data": "weights"}),
    )
    assert (plain.graph, shipped.graph) == (None, shipped.folder / graph)
    assert len({card.weights for card in (plain, shipped, other, more)}) == 4
    assert card("alone", **{graph: "a graph", "model.safetensors": None}).weights == shipped.weights
