"""Words lead where a model does not read the language of what they find."""

import pytest

from thumbindex.language import telling_words
from thumbindex.model import DocumentId, Query, RankedList
from thumbindex.query.rank import as_read, reads
from thumbindex.query.stage import Search, Tools
from thumbindex.testing import FakeEmbedder, document, memory_snapshot

ENGLISH = FakeEmbedder(known=telling_words("en"))
EVERYTHING = FakeEmbedder(
    known=[word for language in ("en", "de", "ja", "zh") for word in telling_words(language)]
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
def test_an_english_model_reads_no_other_language_whose_telling_words_are_known(
    language: str, expected: tuple[bool, bool]
) -> None:
    assert tuple(reads(embedder, language) for embedder in (ENGLISH, EVERYTHING)) == expected


@pytest.mark.parametrize(
    ("languages", "factor"),
    [(("en", "en"), 1.0), (("de", "de"), 0.2), (("ja", "ja"), 0.0), (("en", "ja"), 0.5)],
)
def test_meaning_counts_by_how_much_of_what_words_find_the_model_reads(
    languages: tuple[str, str], factor: float
) -> None:
    notes = [document(f"{n}.md", "Text", language=language) for n, language in enumerate(languages)]
    search = Search(
        Query("text"),
        "text",
        lists={"search_keyword": RankedList((), {DocumentId(0): 1.0, DocumentId(1): 1.0})},
    )
    assert as_read(search, Tools(memory_snapshot(notes), embedder=ENGLISH)).get(
        "search_vector", 1.0
    ) == pytest.approx(factor)
