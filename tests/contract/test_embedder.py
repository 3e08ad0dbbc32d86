"""What every Embedder promises, on the fake and on the real ones."""

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


def test_vectors_come_in_the_order_of_their_texts(embedder):
    assert np.array_equal(
        embedder.embed_passages(TEXTS[::-1]), embedder.embed_passages(TEXTS)[::-1]
    )


def test_a_vector_is_as_similar_to_itself_as_can_be(embedder):
    vectors = embedder.embed_passages(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), embedder.dimensions)
    assert (vectors * vectors).sum(axis=1) == pytest.approx([1.0] * len(TEXTS), abs=1e-6)
    assert np.linalg.norm(embedder.embed_query(TEXTS[0])) == pytest.approx(1.0, abs=1e-6)


def test_texts_about_one_thing_are_closer_than_texts_about_two(embedder):
    sync, bread = embedder.embed_passages(
        ["Sync settings for notes", "A recipe for bread with walnuts"]
    )
    query = embedder.embed_query("settings of sync")
    assert query @ sync > query @ bread + 0.1


def test_no_texts_give_no_vectors(embedder):
    assert embedder.embed_passages([]).shape == (0, embedder.dimensions)
    assert embedder.count_truncated([]) == 0


def test_what_stands_past_the_window_is_not_embedded_but_counted(embedder):
    window = " ".join(["word"] * embedder.window)
    longer = f"{window} something else entirely"
    assert np.array_equal(*embedder.embed_passages([f"{window} word", longer]))
    assert embedder.count_truncated(["word", longer, window[:50], longer]) == 2


def test_a_word_is_known_where_it_is_one_token_and_a_misspelt_one_is_not(embedder):
    assert [embedder.knows(word) for word in ("baby", "Baby", "subcription", "")] == [
        True,
        True,
        False,
        False,
    ]


def test_an_english_vocabulary_lacks_most_of_what_tells_other_languages(embedder):
    shares = [
        sum(map(embedder.knows, probe_words(language))) / len(probe_words(language))
        for language in ("de", "fr", "es", "ja", "zh")
    ]
    assert max(shares) < 0.75


def test_it_says_what_its_vectors_can_be_compared_with(embedder):
    assert embedder.fingerprint
    assert embedder.name
