"""The stage confidence scores pages by cosines and words, and can refuse an answer."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from fakes import FakeEmbedder, document, memory_snapshot
from thumbindex.language import probe_words
from thumbindex.model import Query
from thumbindex.ports import Mask, Matrix, Vector
from thumbindex.query.confidence import (
    MAX_KEYWORD_CONFIDENCE,
    SAMPLE_SIZE,
    Sample,
    grounding,
    mean_and_deviation,
    query_terms,
)
from thumbindex.query.pipeline import start_search
from thumbindex.query.stage import Tools

PAGE = np.array([1.0, 0.5, 0.25])


def term(idf: float, *chunks: int) -> tuple[float, Mask]:
    return idf, np.isin(np.arange(len(PAGE)), chunks)


def test_cosine_stands_out_less_among_near_texts():
    near, far = np.full(4000, 0.5), np.full(4000, 0.1)
    near[::2] += 0.1
    far[::2] += 0.1
    means, deviations = zip(mean_and_deviation(near), mean_and_deviation(far), strict=True)
    assert means == pytest.approx((0.55, 0.15), abs=0.01)
    assert (0.7 - means[0]) / deviations[0] < 4 < 6 < (0.7 - means[1]) / deviations[1]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([term(2.0, 0, 1)], 1.0),  # in the nearest chunk of the page
        ([term(2.0, 1)], 0.5),  # in a chunk half as near
        ([term(2.0)], 0.0),  # in no chunk
        ([term(1.0, 0), term(9.0)], 0.25),  # a rare word counts more, but does not decide alone
        ([term(1.0, 0)] * 4 + [term(1.0)] * 4, 0.5**0.5),  # a long query may miss words
        ([], 0.0),
    ],
)
def test_grounding_is_nearness_of_chunks_with_the_word(words, expected):
    assert grounding(PAGE, words) == pytest.approx(expected)


def test_query_terms_include_whole_identifiers_and_words_once():
    tools = Tools(
        memory_snapshot([document("a.md", "# A\n\nCall get_user in MailMerge for a user.")])
    )
    occurs = [
        bool(term.chunks)
        for term in query_terms(
            start_search(Query("get_users MailMerge"), tools).all_phrasings[0], tools
        )
    ]
    assert occurs == [True, True, True, False]  # get, mailmerge, users; get_users


def test_query_terms_keep_quoted_phrase_whole():
    tools = Tools(memory_snapshot([document("a.md", "# A\n\nA users guide with a quoted phrase.")]))
    assert [
        term.text
        for term in query_terms(
            start_search(Query('"quoted phrase" users'), tools).all_phrasings[0], tools
        )
    ] == ["quoted phrase", "users"]


def test_missing_word_lowers_confidence(ask):
    notes = [
        document("a.md", "# Sync\n\nPay for sync with a card."),
        document("b.md", "# Themes\n\nDark and light themes."),
    ]
    answered, _ = ask(notes, "pay for sync with a card", embedder=FakeEmbedder(512))
    missed, _ = ask(notes, "pay for sync with bitcoin", embedder=FakeEmbedder(512))
    assert answered.confidence > missed.confidence + 0.2


@pytest.mark.parametrize("embedder", [None, FakeEmbedder(512)])
def test_unknown_word_with_the_letters_of_a_function_word_counts_as_one(ask, embedder):
    typed, mistyped, other = (
        ask([*RECIPES, PLUMS], f"{word} to stew plums", embedder=embedder)[0].confidence
        for word in ("how", "hwo", "vym")
    )
    assert abs(typed - mistyped) < 0.1 < typed - other


@pytest.mark.parametrize("embedder", [None, FakeEmbedder(512)])
def test_dotted_key_is_found_where_its_last_parts_stand_together(ask, embedder):
    nested = document("nested.md", "# Settings\n\n```yaml\nserver:\n  tls:\n    port: 8\n```\n")
    apart = document("apart.md", "# Settings\n\nA server has tls.\n\n# Ports\n\nEach has a port.")
    found, missed = (
        ask([*RECIPES, note], "server.tls.port", embedder=embedder)[0] for note in (nested, apart)
    )
    assert found.confidence_level == "high"
    assert found.confidence > missed.confidence + 0.1


RECIPES = [
    document(
        f"{n}.md",
        f"# Recipe {n}\n\nVinegar{n} and pepper{n}, stirred, with the sauce of our kitchen.",
    )
    for n in range(30)
]
"""Thirty notes on one subject."""

PLUMS = document(
    "plums.md",
    "# Plums\n\nStew the plums with cinnamon and star anise, with the sauce of our kitchen.",
)


@pytest.mark.parametrize("embedder", [None, FakeEmbedder(512)])
def test_rare_word_gives_high_confidence(ask, embedder):
    search, _ = ask([*RECIPES, PLUMS], "cinnamon plums", embedder=embedder)
    assert (search.passages[0].path, search.confidence_level) == ("plums.md", "high")


@pytest.mark.parametrize("embedder", [None, FakeEmbedder(512)])
def test_common_words_of_the_notes_give_low_confidence(ask, embedder):
    search, _ = ask([*RECIPES, PLUMS], "our kitchen sauce helicopter licence", embedder=embedder)
    assert search.confidence_level == "low"


class _Deaf(FakeEmbedder):
    """Embeds passages as if they were not about cinnamon."""

    def embed_passages(self, texts: Sequence[str]) -> Matrix:
        return super().embed_passages([text.replace("cinnamon", "") for text in texts])


def test_note_with_all_words_that_is_not_about_one_of_them_gives_low_confidence(ask):
    about, other = (
        ask([*RECIPES, PLUMS], "plums cinnamon", embedder=embedder)[0]
        for embedder in (FakeEmbedder(512), _Deaf(512))
    )
    assert [answer.passages[0].path for answer in (about, other)] == ["plums.md", "plums.md"]
    assert [answer.confidence_level for answer in (about, other)] == ["high", "low"]


def test_refusal_shows_the_two_nearest_notes_once_each(ask):
    search, _ = ask(
        [
            *RECIPES,
            document(
                "licence.md", "# Licence\n\n" + "\n\n".join(["The sauce of our kitchen."] * 9)
            ),
        ],
        "helicopter exam sauce",
    )
    assert (search.found, search.confidence_level) == (False, "low")
    assert len({passage.path for passage in search.passages}) == len(search.passages) == 2


@pytest.mark.parametrize("count", [1])
@pytest.mark.parametrize("embedder", [None, FakeEmbedder(64)])
def test_gibberish_is_refused_in_vaults_of_any_size(ask, count, embedder):
    search, _ = ask(RECIPES[:count], "xkcdvv zzrt quorble", embedder=embedder)
    assert (search.found, search.passages) == (False, ())


@pytest.mark.parametrize("count", [1, 15])
def test_question_is_answered_in_vaults_of_any_size(ask, count):
    search, _ = ask(
        [PLUMS, *RECIPES[1:count]], "stew plums with cinnamon", embedder=FakeEmbedder(512)
    )
    assert (search.passages[0].path, search.confidence_level) == ("plums.md", "high")


def test_note_without_vector_is_scored_by_words(ask):
    snapshot = memory_snapshot([*RECIPES, PLUMS], FakeEmbedder(512), pending=["plums.md"])
    search, _ = ask(snapshot, "cinnamon plums", embedder=FakeEmbedder(512))
    assert (search.passages[0].path, search.confidence_level) == ("plums.md", "high")


def test_page_in_unknown_language_is_scored_by_words(ask):
    english = FakeEmbedder(512, known=tuple(probe_words("en")))
    note = replace(PLUMS, document=replace(PLUMS.document, language="de"))
    english_note, _ = ask([*RECIPES, PLUMS], "cinnamon plums", embedder=english)
    german_note, _ = ask([*RECIPES, note], "cinnamon plums", embedder=english)
    assert (german_note.confidence, german_note.confidence == english_note.confidence) == (
        MAX_KEYWORD_CONFIDENCE,
        False,
    )


class _Blurred(FakeEmbedder):
    """Embeds any code like another word."""

    def embed_query(self, text: str) -> Vector:
        return super().embed_query(re.sub(r"\S*\d\S*", "sauce", text))


PARTS = document(
    "parts.md",
    "# Parts\n\n"
    + "\n\n".join(f"Hinge and pump, {n} left, code BL-{86000 + n}." for n in range(40)),
)


@pytest.mark.parametrize(("known", "level"), [((), "high"), (("bl-86024", "86024"), "low")])
def test_unknown_code_is_scored_by_words(ask, known, level):
    search, _ = ask([*RECIPES, PARTS], "BL-86024", embedder=_Blurred(512, known=known))
    assert search.confidence_level == level


def test_code_without_match_is_refused(ask):
    search, _ = ask([*RECIPES, PARTS], "QX-99999", embedder=_Blurred(512))
    assert (search.found, search.passages) == (False, ())


def test_function_words_give_low_confidence_unless_a_note_is_called_so(ask):
    who = document("who.md", "# The Who\n\nThe band of the same name.\n\n## Why\n\nOn the road.")
    answered = [
        ask([*RECIPES, who], text, embedder=FakeEmbedder(512))[0]
        for text in ("the", "why", "the who")
    ]
    assert [(answer.found, answer.confidence_level) for answer in answered] == [
        (True, "low"),
        (True, "low"),
        (True, "high"),
    ]


class _Translating(FakeEmbedder):
    """Embeds some words as their synonyms."""

    MEANS: ClassVar[dict[str, str]] = {"baby": "infant", "woken": "slept", "storm": "thunder"}

    def embed_query(self, text: str) -> Vector:
        return super().embed_query(" ".join(self.MEANS.get(word, word) for word in text.split()))


def test_prominent_page_is_answered_among_similar_notes(ask):
    log = [
        document(
            f"{n}.md",
            "# Log\n\nThe pump ran at the usual pressure and nothing was noticed at the "
            f"valves, entry{n}.",
        )
        for n in range(60)
    ]
    infant = document("infant.md", "# Night\n\nInfant slept through thunder.")
    embedder = _Translating(512, known=tuple(_Translating.MEANS))
    shown, _ = ask([*log, infant], "baby woken storm", embedder=embedder)
    refused, _ = ask([*log], "baby woken storm", embedder=embedder)
    assert ([passage.path for passage in shown.passages][:1], refused.found) == (
        ["infant.md"],
        False,
    )


@pytest.mark.parametrize(("pending", "least", "most"), [(11, SAMPLE_SIZE / 4, SAMPLE_SIZE)])
def test_sample_is_large_if_most_chunks_have_no_vector(pending, least, most):
    """With a sample of forty, one generation answered a query that the next one refused."""
    notes = [
        document(f"{n}.md", "".join(f"# Log {n} {at}\n\nentry{at}\n\n" for at in range(400)))
        for n in range(12)
    ]
    snapshot = memory_snapshot(notes, FakeEmbedder(), pending=[f"{n}.md" for n in range(pending)])
    assert least <= len(Sample(None, Tools(snapshot, embedder=FakeEmbedder())).chunks) <= most
