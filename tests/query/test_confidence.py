"""Confidence comes from cosines and words, and can say no."""

from dataclasses import replace

import numpy as np
import pytest

from thumbindex.model import ChunkId, Query
from thumbindex.ports import Calibration
from thumbindex.query.confidence import QueryTerm, evidence, grounding, held_by_page, on_scale, query_terms
from thumbindex.query.pipeline import begin
from thumbindex.query.stage import Tools
from thumbindex.testing import FakeEmbedder, document, memory_snapshot

SCALE = Calibration(noise_cosine=0.2, signal_cosine=0.7)
FOUND = [ChunkId(n) for n in (0, 1, 3)]
COSINES = np.array([0.8, 0.4, 0.2], dtype=np.float32)


def asked(idf: float, *holding: int) -> QueryTerm:
    return QueryTerm(idf, np.isin(np.arange(5), holding))


@pytest.mark.parametrize(("cosine", "meaning"), [(0.7, 1.0), (0.9, 1.0), (0.2, 0.0), (0.1, 0.0), (0.45, 0.5)])
def test_cosine_counts_on_the_indexs_own_scale(cosine, meaning):
    assert on_scale(cosine, SCALE) == pytest.approx(meaning)


def test_an_index_whose_scale_is_flat_divides_by_no_zero():
    assert on_scale(0.5, Calibration(0.5, 0.5)) == 0.0


def test_nothing_is_zero_and_everything_is_one():
    assert (evidence(0.0, 0.0, 0.0), evidence(1.0, 1.0, 1.0)) == (0.0, pytest.approx(1.0))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([asked(2.0, 0, 1)], 1.0),  # the nearest chunk holds it
        ([asked(2.0, 1)], 0.5),  # one half as near does
        ([asked(2.0, 4)], 0.0),  # only one that was not found
        ([asked(2.0)], 0.0),  # none
        ([asked(1.0, 0), asked(3.0)], 0.1),  # 1² of 1² + 3²
        ([], 0.0),
    ],
)
def test_a_word_is_grounded_as_far_as_a_text_that_holds_it_is_near(words, expected):
    assert grounding(FOUND, COSINES, words) == pytest.approx(expected)


def test_no_likeness_at_all_grounds_nothing():
    assert grounding(FOUND, np.zeros(3, dtype=np.float32), [asked(1.0, 0)]) == 0.0


def test_a_page_holds_what_any_of_its_chunks_holds():
    notes = [document("a.md", "# A\n\nApples.\n\nPears."), document("b.md", "# B\n\nPlums.")]  # chunks 0-1, 2
    tools = Tools(memory_snapshot(notes))
    words = [asked(1.0, 0), asked(2.0, 1), asked(1.0, 2)]
    assert [held_by_page(ChunkId(n), words, tools) for n in (0, 1, 2)] == [0.75, 0.75, 0.25]
    assert held_by_page(ChunkId(0), [], tools) == 0.0


def test_an_identifier_is_asked_for_as_a_whole_too_a_word_once():
    tools = Tools(memory_snapshot([document("a.md", "# A\n\nCall get_user in MailMerge for a user.")]))
    held = [bool(each.holding.any()) for each in query_terms(begin(Query("get_users MailMerge"), tools), tools)]
    assert held == [True, True, True, False]  # get, mailmerge, users; get_users


def test_a_page_of_the_right_subject_that_lacks_the_word_makes_less_sure(ask):
    notes = [document("a.md", "# Sync\n\nPay for sync with a card."), document("b.md", "# Themes\n\nDark and light themes.")]
    answered, _ = ask(notes, "pay for sync with a card", embedder=FakeEmbedder(512))
    missed, _ = ask(notes, "pay for sync with bitcoin", embedder=FakeEmbedder(512))
    assert answered.confidence > missed.confidence + 0.2


def test_a_lone_hit_is_not_sure_because_it_is_first(ask):
    notes = [document("a.md", "# A\n\nApples, pears and plums.")]
    search, _ = ask(notes, "apples zeppelins mainframes quarks", embedder=FakeEmbedder())
    assert search.confidence_level == "low"


def test_without_vectors_coverage_decides_and_is_never_sure(ask):
    notes = [document("a.md", "# A\n\nApples and pears."), document("b.md", "# B\n\nPlant trees.")]
    search, _ = ask(notes, "apples pears")
    assert (search.answerable, search.confidence, search.confidence_level) == (True, 0.49, "low")


def test_a_query_whose_words_are_all_held_is_answered_while_vectors_fill_in(ask):
    notes = [document("a.md", "# A\n\nApples and pears."), document("b.md", "# B\n\nPlant trees.")]
    snapshot = replace(memory_snapshot(notes, FakeEmbedder(512), pending=["a.md"]), calibration=Calibration(0.5, 1.0))
    search, _ = ask(snapshot, "apples pears", embedder=FakeEmbedder(512), confidence={"abstain": 0.4})
    assert (search.answerable, search.confidence, [passage.path for passage in search.passages]) == (True, 0.49, ["a.md"])
