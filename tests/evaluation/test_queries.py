"""What a file of labeled queries may hold, and what makes two sets the same."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from thumbindex.errors import UsageError
from thumbindex.evaluation.queries import Label, LabeledQuery, load_queries, load_set, set_digest

FIRST = LabeledQuery("1", "green", "keyword", (Label("a.md", None, 2),))


def row(name: str) -> str:
    return json.dumps({"id": name, "query": "text", "relevant": [{"path": "a.md"}]})


def test_a_set_is_named_by_its_file_and_belongs_to_the_folder_before_the_first_dot(
    tmp_path: Path,
) -> None:
    (tmp_path / "notes.manual.jsonl").write_text(row("1"), encoding="utf-8")
    found = load_set(tmp_path / "notes.manual.jsonl")
    assert (found.name, found.folder, found.queries[0].kind) == ("notes.manual", "notes", "unknown")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"not JSON \(Expecting"),
        ("[" * 100_000, "not JSON"),
        ('{"id": 1}', "lacks query and relevant: each line needs id, query, relevant"),
        ('{"id": 1, "query": 5, "relevant": []}', "query is 5, and has to be text"),
        (
            '{"id": 1, "query": "a", "relevant": [{"path": "a.md"}, 3]}',
            "relevant 2: not a place: write it as ",
        ),
        (
            '{"id": 1, "query": "a", "relevant": [{"path": "a.md", "grade": "x"}]}',
            'relevant 1: grade is "x", and has to be a number',
        ),
        (
            '{"id": 1, "query": "a", "relevant": ["a.md"], "also": "b"}',
            'also is "b", and has to be a list',
        ),
        (
            '{"id": 1, "query": "a", "relevant": ["a.md"], "also": ["b", 3]}',
            "also is .*, and has to be a list of at most 4 texts",
        ),
        ('{"id": 1, "query": " ", "relevant": [{"path": "a.md"}]}', "no text"),
    ],
)
def test_a_broken_query_is_named_by_its_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_text("\n" + line, encoding="utf-8")
    with pytest.raises(UsageError, match=rf"queries.jsonl:2(: .*)?({message})"):
        load_queries(path)


def test_an_id_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_text(f"{row('1')}\n{row('1')}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"queries.jsonl:2: the id '1' is there twice"):
        load_queries(tmp_path / "queries.jsonl")


def test_a_path_alone_is_a_place_that_answers(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text(
        '{"id": 1, "query": "a", "relevant": ["a.md", {"path": "b.md", "grade": 2}]}',
        encoding="utf-8",
    )
    assert load_queries(tmp_path / "q.jsonl")[0].relevant == (
        Label("a.md", None, 1),
        Label("b.md", None, 2),
    )


def test_rewordings_make_no_other_set(tmp_path: Path) -> None:
    line = {
        "id": "1",
        "query": "green",
        "kind": "keyword",
        "relevant": [{"path": "a.md", "grade": 2}],
        "also": ["verdant"],
        "passage": "Grass is.",
    }
    (tmp_path / "q.jsonl").write_text(json.dumps(line), encoding="utf-8")
    (found,) = load_queries(tmp_path / "q.jsonl")
    assert (found.as_typed, found.rewording) == (
        FIRST,
        {"also": ("verdant",), "passage": "Grass is."},
    )
    assert set_digest([found]) == set_digest([FIRST]) != set_digest([replace(FIRST, query="red")])
