from datetime import date

import pytest

from thumbindex.model import Candidate, Document
from thumbindex.query.recency import best_first, day_of, raise_score
from thumbindex.settings import RecencySettings
from thumbindex.testing import document, memory_snapshot


@pytest.mark.parametrize(("age", "score"), [(0.0, 1.1), (180.0, 1.05), (360.0, 1.025)])
def test_the_gain_halves_every_half_life(age: float, score: float) -> None:
    chunk = document("a.md", "text").chunks[0]
    raised = raise_score(Candidate(0, 0, chunk, 1.0), age, RecencySettings(bias=0.1, half_life_days=180))  # type: ignore[arg-type]
    assert raised.score == pytest.approx(score)


@pytest.mark.parametrize("written", ["2024-02-29", "2024-02-29T10:00:00"])
def test_front_matter_s_date_counts_before_the_modified_time(written: str) -> None:
    assert day_of(Document("a.md", "A", date=written, modified=1e9)) == date(2024, 2, 29).toordinal()


@pytest.mark.parametrize("written", ["", "someday"])
def test_without_a_readable_date_the_modified_time_counts(written: str) -> None:
    assert day_of(Document("a.md", "A", date=written, modified=86_400 * 1.5)) == date(1970, 1, 2).toordinal() + 0.5


def test_ties_go_by_path_then_line(candidates) -> None:
    made = candidates(memory_snapshot([document("b.md", "one\n\ntwo"), document("a.md", "three")]), 1.0, 1.0, 1.0)
    assert [each.id for each in best_first(reversed(made))] == [0, 1, 2]
