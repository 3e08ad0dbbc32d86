from thumbindex.model import Document
from thumbindex.query.provenance import Provenance, shared_provenance


def note(**keys) -> Document:
    facts_of = {
        name: keys.pop(name)
        for name in ("date", "created", "first_commit", "author", "modified", "status")
        if name in keys
    }
    return Document("a.md", "A", properties=keys, **facts_of)


def test_shared_provenance_combines_documents() -> None:
    together = shared_provenance(
        [
            note(created="2024-05-01", status="approved", owner=("Ada",), date="2025-01-01"),
            note(date="2026-01-01", status="draft", author="Bo"),
        ]
    )
    assert together == Provenance("2024-05-01", "draft", "Bo")


def test_provenance_ignores_file_time() -> None:
    assert shared_provenance([note(modified=86_400.0 * 365)]) == Provenance("", "", "")


def test_created_is_first_commit_without_front_matter() -> None:
    assert (
        shared_provenance(
            [note(first_commit="2024-05-01"), note(created="2024-06-01", first_commit="2020-01-01")]
        ).created
        == "2024-05-01"
    )


def test_review_ranks_between_draft_and_approved() -> None:
    words = ["draft", "review", "approved"]
    assert [
        shared_provenance([note(status=a), note(status=b)]).status for a in words for b in words
    ] == ["draft"] * 3 + ["draft", "review", "review"] + words
