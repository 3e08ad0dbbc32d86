"""Confidence comes from cosine and coverage, and can say no."""

from dataclasses import replace

import pytest

from thumbindex.ports import Calibration
from thumbindex.query.confidence import evidence
from thumbindex.testing import FakeEmbedder, document, memory_snapshot

SCALE = Calibration(noise_cosine=0.2, signal_cosine=0.7)


@pytest.mark.parametrize(("cosine", "coverage", "sure"), [(0.7, 1.0, 1.0), (0.9, 1.0, 1.0), (0.2, 0.0, 0.0), (0.1, 0.0, 0.0), (0.45, 0.0, 0.35)])
def test_cosine_counts_on_the_indexs_own_scale(cosine, coverage, sure):
    assert evidence(cosine, coverage, SCALE) == pytest.approx(sure)


def test_without_vectors_coverage_decides():
    assert evidence(None, 0.4, SCALE) == 0.4


def test_an_index_whose_scale_is_flat_divides_by_no_zero():
    assert 0 <= evidence(0.5, 0.5, Calibration(0.5, 0.5)) <= 1


def test_a_lone_hit_is_not_sure_because_it_is_first(ask):
    notes = [document("a.md", "# A\n\nApples, pears and plums.")]
    search, _ = ask(notes, "apples zeppelins mainframes quarks", embedder=FakeEmbedder())
    assert search.confidence_level == "low"


def test_while_vectors_fill_in_words_alone_answer_with_doubt():
    assert (evidence(0.2, 0.9, SCALE), evidence(0.2, 0.9, SCALE, partial=True)) == (pytest.approx(0.27), 0.49)
    assert evidence(0.7, 0.5, SCALE, partial=True) == pytest.approx(0.85)


def test_a_query_whose_words_are_all_held_is_answered_while_vectors_fill_in(ask):
    notes = [document("a.md", "# A\n\nApples and pears."), document("b.md", "# B\n\nPlant trees.")]
    snapshot = replace(memory_snapshot(notes, FakeEmbedder(512), pending=["a.md"]), calibration=Calibration(0.5, 1.0))
    search, _ = ask(snapshot, "apples pears", embedder=FakeEmbedder(512), confidence={"abstain": 0.4})
    assert (search.answerable, search.confidence, [passage.path for passage in search.passages]) == (True, 0.49, ["a.md"])
