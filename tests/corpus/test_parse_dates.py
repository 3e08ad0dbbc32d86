import pytest

from thumbindex.corpus.parse import parse_document
from thumbindex.settings import CorpusSettings


def dates(path: str, text: str) -> tuple[str, str]:
    document = parse_document(path, text.encode(), CorpusSettings()).document
    return document.date, document.created


@pytest.mark.parametrize(
    ("block", "date", "created"),
    [
        ("date: 2024-01-05", "2024-01-05", "2024-01-05"),
        ("date: 2024-01-05\nupdated: 2024-03-02T10:00:00Z", "2024-03-02", "2024-01-05"),
        ("lastmod: 2023/7/9", "2023-07-09", ""),
        ("date modified: '[[2024-03-02]]'\ncreated: [[2024-01-05]]", "2024-03-02", "2024-01-05"),
        ("Created: 5. März 2024", "", "2024-03-05"),
        ("modified: '2024-13-45'\ndate: 2020-02-02", "2020-02-02", "2020-02-02"),
        ("date: 03/04/2026", "", ""),
        ("due: 2024-01-05", "", ""),
    ],
)
def test_front_matter_dates_a_note(block: str, date: str, created: str) -> None:
    assert dates("2019-01-01.md", f"---\n{block}\n---\n# Note\n\nText.\n") == (
        date or "2019-01-01",
        created or "2019-01-01",
    )
    assert dates("note.md", f"---\n{block}\n---\n# Note\n\nText.\n") == (date, created)


@pytest.mark.parametrize(
    "path",
    [
        "2026-01-31.md",
        "_posts/2026-01-31-title.md",
        "202601311530 Idea.md",
        "2026/01/31.md",
        "Jan 31st, 2026.md",
        "31.1.2026 Meeting.md",
    ],
)
def test_file_or_folder_name_dates_a_note(path: str) -> None:
    assert dates(path, "# Note\n\nText.\n") == ("2026-01-31", "2026-01-31")


@pytest.mark.parametrize(
    "path",
    [
        "v20260131.md",
        "2026-02-30.md",
        "03.04.2026.md",
        "123456789012.md",
        "notes.md",
    ],
)
def test_numbers_and_versions_in_a_name_are_not_dates(path: str) -> None:
    assert dates(path, "# Note\n\nText.\n") == ("", "")


@pytest.mark.parametrize(
    "line",
    [
        "date:: 2020-08-21",
        "| Date | 2020-08-21 |",
        "Created on Friday, 21st of August 2020 by Ada",
        "Erstellt am 21. August 2020",
    ],
)
def test_line_near_the_top_dates_a_note(line: str) -> None:
    assert dates("note.md", f"{line}\n\nText.\n") == ("2020-08-21", "2020-08-21")


@pytest.mark.parametrize("line", ["*Last updated: 2026-01-31*", "Stand: 31.01.2026"])
def test_update_line_sets_no_creation_date(line: str) -> None:
    assert dates("note.md", f"# Note\n\n{line}\n") == ("2026-01-31", "")


@pytest.mark.parametrize(
    "text",
    [
        "# Note\n\nOn 2020-08-21 we met Ada.",
        "# Note\n\nThe server was released on 2020-08-21 and fell over.",
        "# Note\n\nDue: 2020-08-21",
        "# Note\n\nDate: 03/04/2026",
        "# Note\n\n```\nDate: 2020-08-21\n```",
        "# Note\n\n" + "Text.\n\n" * 10 + "Date: 2020-08-21",
    ],
)
def test_dates_in_sentences_code_or_far_down_are_ignored(text: str) -> None:
    assert dates("note.md", text) == ("", "")


def test_unambiguous_date_counts_in_either_order() -> None:
    assert (
        dates("note.md", "Date: 13/04/2026\n")
        == dates("note.md", "Date: 04/13/2026\n")
        == ("2026-04-13", "2026-04-13")
    )
