"""Files of labeled queries, and digests of sets."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from thumbindex.errors import UsageError
from thumbindex.evaluation.queries import Label, LabeledQuery, load_queries, load_set, set_digest

FIRST = LabeledQuery("1", "green", "keyword", (Label("a.md", None, 2),))


def row(name: str) -> str:
    return json.dumps({"id": name, "query": "text", "relevant": [{"path": "a.md"}]})


def test_file_name_gives_the_names_of_set_and_folder(tmp_path: Path) -> None:
    (tmp_path / "notes.manual.jsonl").write_text(row("1"), encoding="utf-8")
    queries = load_set(tmp_path / "notes.manual.jsonl")
    assert (queries.name, queries.folder) == ("notes.manual", "notes")
    assert queries.queries[0].kind == "unknown"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not a labeled query"),
        ("[" * 100_000, "not a labeled query"),
        ('{"id": 1}', "not a labeled query .*relevant"),
        ('{"id": 1, "query": 5, "relevant": []}', "not a labeled query"),
        ('{"id": 1, "query": "a", "relevant": [{"path": "a.md"}, 3]}', "not a labeled query"),
        ('{"id": 1, "query": "a", "relevant": []}', "a query needs .* at least one relevant note"),
        ('{"id": 1, "query": " ", "relevant": ["a.md"]}', "a query needs a text"),
    ],
)
def test_error_names_the_line_of_a_broken_query(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "queries.jsonl"
    path.write_text("\n" + line, encoding="utf-8")
    with pytest.raises(UsageError, match=rf"queries.jsonl:2(: .*)?({message})"):
        load_queries(path)


def test_duplicate_id_is_refused(tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_text(f"{row('1')}\n{row('1')}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"queries.jsonl:2: duplicate id '1'"):
        load_queries(tmp_path / "queries.jsonl")


def test_label_may_be_a_path(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text(
        '{"id": 1, "query": "a", "relevant": ["a.md", {"path": "b.md", "grade": 2}]}',
        encoding="utf-8",
    )
    assert load_queries(tmp_path / "q.jsonl")[0].relevant == (
        Label("a.md", None, 1),
        Label("b.md", None, 2),
    )


def test_set_digest_ignores_rewordings(tmp_path: Path) -> None:
    line = {
        "id": "1",
        "query": "green",
        "kind": "keyword",
        "relevant": [{"path": "a.md", "grade": 2}],
        "also": ["verdant"],
        "passage": "Grass is.",
    }
    (tmp_path / "q.jsonl").write_text(json.dumps(line), encoding="utf-8")
    (query,) = load_queries(tmp_path / "q.jsonl")
    assert query.as_typed == FIRST
    assert query.rewording == {"also": ("verdant",), "passage": "Grass is."}
    assert set_digest([query]) == set_digest([FIRST]) != set_digest([replace(FIRST, query="red")])
