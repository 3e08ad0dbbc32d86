"""Confidence comes from cosines and words, and can say no."""

import re
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from fakes import FakeEmbedder, document, memory_snapshot
from thumbindex.language import probe_words
from thumbindex.model import Query
from thumbindex.ports import Mask, Vector
from thumbindex.query.confidence import (
    MAX_KEYWORD_CONFIDENCE,
    SAMPLE_SIZE,
    cached_sample,
    grounding,
    query_terms,
    standard_deviations,
)
from thumbindex.query.pipeline import start_search
from thumbindex.query.stage import Tools

PAGE = np.array([0.8, 0.4, 0.2], dtype=np.float32)


def asked(idf: float, *holding: int) -> tuple[float, Mask]:
    return idf, np.isin(np.arange(len(PAGE)), holding)


def test_a_text_stands_out_less_where_the_others_are_as_near():
    near, far = np.full(400, 0.5), np.full(400, 0.1)
    near[::2] += 0.1
    far[::2] += 0.1
    assert standard_deviations(0.7, near) < 4 < 6 < standard_deviations(0.7, far)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([asked(2.0, 0, 1)], 1.0),  # the nearest chunk of the page holds it
        ([asked(2.0, 1)], 0.5),  # one half as near does
        ([asked(2.0)], 0.0),  # none
        ([asked(1.0, 0), asked(3.0)], 0.1),  # 1² of 1² + 3²
        ([], 0.0),
    ],
)
def test_a_word_is_grounded_as_far_as_the_part_of_the_page_that_holds_it_is_near(words, expected):
    assert grounding(PAGE, words) == pytest.approx(expected)


def test_an_identifier_is_asked_for_as_a_whole_too_a_word_once():
    tools = Tools(
        memory_snapshot([document("a.md", "# A\n\nCall get_user in MailMerge for a user.")])
    )
    held = [
        bool(term.chunks)
        for term in query_terms(
            start_search(Query("get_users MailMerge"), tools).all_phrasings[0], tools
        )
    ]
    assert held == [True, True, True, False]  # get, mailmerge, users; get_users


def test_the_words_of_a_quoted_phrase_are_asked_for_together_alone():
    tools = Tools(memory_snapshot([document("a.md", "# A\n\nA users guide with a quoted phrase.")]))
    assert [
        term.text
        for term in query_terms(
            start_search(Query('"quoted phrase" users'), tools).all_phrasings[0], tools
        )
    ] == ["quoted phrase", "users"]


def test_a_page_of_the_right_subject_that_lacks_the_word_makes_less_sure(ask):
    notes = [
        document("a.md", "# Sync\n\nPay for sync with a card."),
        document("b.md", "# Themes\n\nDark and light themes."),
    ]
    answered, _ = ask(notes, "pay for sync with a card", embedder=FakeEmbedder(512))
    missed, _ = ask(notes, "pay for sync with bitcoin", embedder=FakeEmbedder(512))
    assert answered.confidence > missed.confidence + 0.2


RECIPES = [
    document(
        f"{n}.md",
        f"# Recipe {n}\n\nVinegar{n} and pepper{n}, stirred, with the sauce of our kitchen.",
    )
    for n in range(30)
]
"""Thirty notes of one subject."""

PLUMS = document(
    "plums.md",
    "# Plums\n\nStew the plums with cinnamon and star anise, with the sauce of our kitchen.",
)


@pytest.mark.parametrize("embedder", [None, FakeEmbedder(512)])
def test_a_rare_word_that_is_there_makes_sure_with_and_without_vectors(ask, embedder):
    search, _ = ask([*RECIPES, PLUMS], "cinnamon plums", embedder=embedder)
    assert (search.passages[0].path, search.confidence_level) == ("plums.md", "high")


@pytest.mark.parametrize("embedder", [None, FakeEmbedder(512)])
def test_the_subjects_name_makes_nobody_sure(ask, embedder):
    search, _ = ask([*RECIPES, PLUMS], "our kitchen sauce helicopter licence", embedder=embedder)
    assert search.confidence_level == "low"


def test_what_is_refused_for_holding_too_little_of_a_question_is_named_one_place_a_note(ask):
    search, _ = ask(
        [
            *RECIPES,
            document(
                "licence.md", "# Licence\n\n" + "\n\n".join(["The sauce of our kitchen."] * 9)
            ),
        ],
        "helicopter exam sauce",
    )
    assert (search.answerable, search.candidates, search.passages) == (False, (), ())
    assert len({each.document for each in search.nearest}) == len(search.nearest) == 3


@pytest.mark.parametrize("count", [1])
@pytest.mark.parametrize("embedder", [None, FakeEmbedder(64)])
def test_gibberish_is_refused_in_a_vault_of_any_size(ask, count, embedder):
    search, _ = ask(RECIPES[:count], "xkcdvv zzrt quorble", embedder=embedder)
    assert (search.answerable, search.passages, search.nearest) == (False, (), ())


@pytest.mark.parametrize("count", [1, 15])
def test_a_question_is_answered_in_a_vault_of_any_size(ask, count):
    search, _ = ask(
        [PLUMS, *RECIPES[1:count]], "stew plums with cinnamon", embedder=FakeEmbedder(512)
    )
    assert (search.passages[0].path, search.confidence_level) == ("plums.md", "high")


def test_a_note_of_the_last_seconds_counts_by_its_words(ask):
    snapshot = memory_snapshot([*RECIPES, PLUMS], FakeEmbedder(512), pending=["plums.md"])
    search, _ = ask(snapshot, "cinnamon plums", embedder=FakeEmbedder(512))
    assert (search.passages[0].path, search.confidence_level) == ("plums.md", "high")


def test_a_page_in_a_language_that_the_model_does_not_read_counts_by_its_words(ask):
    english = FakeEmbedder(512, known=tuple(probe_words("en")))
    note = replace(PLUMS, document=replace(PLUMS.document, language="de"))
    read, _ = ask([*RECIPES, PLUMS], "cinnamon plums", embedder=english)
    unread, _ = ask([*RECIPES, note], "cinnamon plums", embedder=english)
    assert (unread.confidence, unread.confidence == read.confidence) == (
        MAX_KEYWORD_CONFIDENCE,
        False,
    )


class _Blurred(FakeEmbedder):
    """Makes of any code what it makes of some other word."""

    def embed_query(self, text: str) -> Vector:
        return super().embed_query(re.sub(r"\S*\d\S*", "sauce", text))


PARTS = document(
    "parts.md",
    "# Parts\n\n"
    + "\n\n".join(f"Hinge and pump, {n} left, code BL-{86000 + n}." for n in range(40)),
)


@pytest.mark.parametrize(("known", "level"), [((), "high"), (("bl-86024", "86024"), "low")])
def test_a_code_that_the_model_cannot_read_counts_by_the_words_of_its_page(ask, known, level):
    search, _ = ask([*RECIPES, PARTS], "BL-86024", embedder=_Blurred(512, known=known))
    assert search.confidence_level == level


def test_a_code_that_no_note_holds_is_refused(ask):
    search, _ = ask([*RECIPES, PARTS], "QX-99999", embedder=_Blurred(512))
    assert (search.answerable, search.passages) == (False, ())


def test_function_words_alone_make_nobody_sure_unless_they_are_a_name(ask):
    who = document("who.md", "# The Who\n\nThe band of the same name, on the road.")
    answered = [
        ask([*RECIPES, who], text, embedder=FakeEmbedder(512))[0] for text in ("the", "the who")
    ]
    assert [(each.answerable, each.confidence_level) for each in answered] == [
        (True, "low"),
        (True, "high"),
    ]


class _Translating(FakeEmbedder):
    """Knows that some words of questions mean others."""

    MEANS: ClassVar[dict[str, str]] = {"baby": "infant", "woken": "slept", "storm": "thunder"}

    def embed_query(self, text: str) -> Vector:
        return super().embed_query(" ".join(self.MEANS.get(word, word) for word in text.split()))


def test_a_page_that_stands_out_by_its_meaning_is_shown_beside_notes_that_are_all_alike(ask):
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
    assert ([passage.path for passage in shown.passages][:1], refused.answerable) == (
        ["infant.md"],
        False,
    )


@pytest.mark.parametrize(("pending", "least", "most"), [(11, SAMPLE_SIZE / 4, SAMPLE_SIZE)])
def test_the_sample_is_of_chunks_that_have_a_vector_however_few_these_are(pending, least, most):
    """Of forty nobody can tell what stands out: one generation of a folder answered a question that
    the next one refused.
    """
    notes = [
        document(f"{n}.md", "".join(f"# Log {n} {at}\n\nentry{at}\n\n" for at in range(400)))
        for n in range(12)
    ]
    snapshot = memory_snapshot(notes, FakeEmbedder(), pending=[f"{n}.md" for n in range(pending)])
    assert (
        least <= len(cached_sample(None, Tools(snapshot, embedder=FakeEmbedder())).chunks) <= most
    )
