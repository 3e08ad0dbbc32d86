"""The contract of Embedder, for the fake and real ones."""

import numpy as np
import pytest

from fakes import FakeEmbedder
from thumbindex.language import probe_words

TEXTS = [
    "How to share a vault",
    "",
    "one",
    "Sync keeps notes the same on all devices. " * 40,
    "naïve 日本語 🙂",
    "```\nx = 1\n```",
    "Sync settings",
]


@pytest.fixture(params=["fake", "real", pytest.param("torch", marks=pytest.mark.long)])
def embedder(request):
    return (
        FakeEmbedder(known=["baby"])
        if request.param == "fake"
        else request.getfixturevalue(f"{request.param}_embedder")
    )


def test_a_vector_does_not_depend_on_its_neighbors(embedder):
    alone = [embedder.embed_passages([text])[0] for text in TEXTS]
    assert np.array_equal(embedder.embed_passages(TEXTS), alone)


def test_a_text_embedded_twice_gives_the_same_vector(embedder):
    first, *_, last = embedder.embed_passages([TEXTS[0], *TEXTS, TEXTS[0]])
    assert np.array_equal(first, last)
    assert np.array_equal(embedder.embed_query(TEXTS[0]), embedder.embed_query(TEXTS[0]))


def test_vectors_are_in_the_order_of_their_texts(embedder):
    assert np.array_equal(
        embedder.embed_passages(TEXTS[::-1]), embedder.embed_passages(TEXTS)[::-1]
    )


def test_vectors_have_length_one(embedder):
    vectors = embedder.embed_passages(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), embedder.dimensions)
    assert (vectors * vectors).sum(axis=1) == pytest.approx([1.0] * len(TEXTS), abs=1e-6)
    assert np.linalg.norm(embedder.embed_query(TEXTS[0])) == pytest.approx(1.0, abs=1e-6)


def test_related_texts_are_closer_than_unrelated_ones(embedder):
    sync, bread = embedder.embed_passages(
        ["Sync settings for notes", "A recipe for bread with walnuts"]
    )
    query = embedder.embed_query("settings of sync")
    assert query @ sync > query @ bread + 0.1


def test_no_texts_return_no_vectors(embedder):
    assert embedder.embed_passages([]).shape == (0, embedder.dimensions)


def test_text_beyond_the_window_is_not_embedded(embedder):
    window = " ".join(["word"] * embedder.window)
    longer = f"{window} something else entirely"
    assert np.array_equal(*embedder.embed_passages([f"{window} word", longer]))


def test_known_words_are_single_tokens(embedder):
    assert [embedder.knows(word) for word in ("baby", "Baby", "subcription", "")] == [
        True,
        True,
        False,
        False,
    ]


def test_english_vocabulary_lacks_probe_words_of_other_languages(embedder):
    shares = [
        sum(map(embedder.knows, probe_words(language))) / len(probe_words(language))
        for language in ("de", "fr", "es", "ja", "zh")
    ]
    assert max(shares) < 0.75


def test_embedder_has_a_fingerprint_and_a_name(embedder):
    assert embedder.fingerprint
    assert embedder.name
