"""`reads_language` detects whether a model knows a language."""

import pytest

from fakes import FakeEmbedder
from thumbindex.language import probe_words, reads_language

ENGLISH = FakeEmbedder(known=probe_words("en"))
EVERYTHING = FakeEmbedder(
    known=[word for language in ("en", "de", "ja", "zh") for word in probe_words(language)]
)


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", (True, True)),
        ("de", (False, True)),
        ("ja", (False, True)),
        ("zh", (False, True)),
        ("th", (True, True)),
    ],
)
def test_english_model_reads_no_other_known_language(
    language: str, expected: tuple[bool, bool]
) -> None:
    assert (
        tuple(reads_language(language, embedder.knows) for embedder in (ENGLISH, EVERYTHING))
        == expected
    )
