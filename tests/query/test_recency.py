from datetime import date

import pytest

from fakes import document
from thumbindex.model import Candidate, Document, day_of
from thumbindex.query.rank import boost_recent
from thumbindex.settings import RecencySettings


@pytest.mark.parametrize(("age", "score"), [(0.0, 1.1), (180.0, 1.05), (360.0, 1.025)])
def test_boost_halves_every_half_life(age: float, score: float) -> None:
    chunk = document("a.md", "text").chunks[0]
    raised = boost_recent(
        Candidate(0, 0, chunk, 1.0), age, RecencySettings(bias=0.1, half_life_days=180)
    )  # type: ignore[arg-type]
    assert raised.score == pytest.approx(score)


@pytest.mark.parametrize("date_text", ["2024-02-29", "2024-02-29T10:00:00"])
def test_date_in_note_outranks_commits_and_edits(date_text: str) -> None:
    assert day_of(
        Document("a.md", "A", date=date_text, last_commit="2025-01-01", edited=1.7e9)
    ) == date(2024, 2, 29)


@pytest.mark.parametrize(
    ("commit", "day"),
    [
        ("2025-01-01", date(2025, 1, 1)),
        ("2023-01-01", date(2023, 11, 14)),
        ("", date(2023, 11, 14)),
    ],
)
def test_later_of_last_commit_and_edit_counts(commit: str, day: date) -> None:
    assert (
        day_of(Document("a.md", "A", created="2020-01-01", last_commit=commit, edited=1.7e9)) == day
    )


@pytest.mark.parametrize("date_text", ["", "someday"])
def test_file_time_is_not_a_date(date_text: str) -> None:
    assert day_of(Document("a.md", "A", date=date_text, modified=86_400.0)) is None


def test_undated_document_has_age_0(ask) -> None:
    notes = [
        document(f"{n}.md", "# Log\n\nBackups run at night.", date=date_text)
        for n, date_text in enumerate(("", "2026-01-01", "2010-12-31"))
    ]
    answer = ask(notes, "backups run", off="dedup_versions dedup_known dedup_hash dedup_ngram")[0]
    assert [passage.path for passage in answer.passages] == ["0.md", "1.md", "2.md"]
    assert len({passage.score for passage in answer.passages}) == 2
