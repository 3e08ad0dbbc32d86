"""`thumbindex eval`: which set is asked of which folder, what is written, and what is refused."""

import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result
from typer.testing import CliRunner

from thumbindex.index.store import Store
from thumbindex.library import Library
from thumbindex.serve.cli import app
from thumbindex.serve.opening import Opening

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs" / "schema" / "eval.json").read_text(encoding="utf-8")
)
NOTES = {
    "cats": "# Cats\n\nA cat purrs on the sofa.\n",
    "dogs": "# Dogs\n\nA dog barks in the garden.\n",
}

Run = Callable[..., Result]


@pytest.fixture
def run(
    open_fake: Callable[[Opening], Library], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Run `eval` over two folders, each with one note `note.md`, in a folder with a query set for
    each and one for both.
    """
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name, text in NOTES.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.md").write_text(text, encoding="utf-8")
    write("cats.manual", "c1", "a cat that purrs", "cats.md")
    write("dogs.manual", "d1", "a dog that barks", "dogs.md")
    write("pets.manual", "p1", "a dog that barks", "dogs.md")

    def run_it(*arguments: str) -> Result:
        return CliRunner().invoke(
            app,
            ["eval", "--folder", "cats", "--folder", "dogs", "--index", "index", *arguments],
            obj=open_fake,
        )

    return run_it


def write(name: str, id_: str, query: str, path: str) -> None:
    row = {
        "id": id_,
        "query": query,
        "kind": "question",
        "relevant": [{"path": path, "heading": None, "grade": 2}],
    }
    Path(f"{name}.jsonl").write_text(json.dumps(row), encoding="utf-8")


def told(result: Result) -> Any:
    payload = json.loads(result.stdout)
    jsonschema.validate(payload, SCHEMA)
    return payload


def test_a_set_is_asked_of_the_folder_of_its_name_else_of_all_together(run: Run) -> None:
    found = told(run("cats.manual.jsonl", "dogs.manual.jsonl", "pets.manual.jsonl", "--json"))
    folders = {
        each["name"]: (each["folders"], each["index"]["documents"]) for each in found["sets"]
    }
    assert folders == {
        "cats.manual": (["cats"], 1),
        "dogs.manual": (["dogs"], 1),
        "pets.manual": (["cats", "dogs"], 2),
    }
    assert (found["queries"], found["scores"]["ALL"]["nDCG@10"]) == (3, 1.0)


def test_tables_show_sets_and_kinds(run: Run) -> None:
    lines = run("cats.manual.jsonl", "dogs.manual.jsonl").stdout.splitlines()
    assert [
        line.split()[0] for line in lines if line.split()[1:3] in (["1", "1.000"], ["2", "1.000"])
    ] == ["ALL", "cats.manual", "dogs.manual", "ALL", "question"]


def test_a_report_holds_all_and_serves_as_a_baseline(run: Run, tmp_path: Path) -> None:
    first = run("cats.manual.jsonl", "--report", "made/report", "--json")
    page = (tmp_path / "made" / "report" / "report.md").read_text(encoding="utf-8")
    assert told(first) == json.loads(
        (tmp_path / "made" / "report" / "report.json").read_text(encoding="utf-8")
    )
    assert "| cats.manual | 1 | 1.000 |" in page
    again = told(
        run(
            "cats.manual.jsonl",
            "--baseline",
            "made/report/report.json",
            "--set",
            "query.limit=1",
            "--json",
        )
    )
    assert [(each["name"], each["difference"]) for each in again["baseline"]] == [
        ("cats.manual", 0.0)
    ]
    assert again["sets"][0]["settings"] == {"query.limit": 1}


def test_a_set_with_also_and_passage_is_asked_both_ways(run: Run, tmp_path: Path) -> None:
    row = json.loads(Path("cats.manual.jsonl").read_text(encoding="utf-8"))
    given = {
        "query": "feline contentment",
        "also": ["a cat that purrs"],
        "passage": "A cat purrs when it is content.",
    }
    Path("cats.client.jsonl").write_text(json.dumps(row | given), encoding="utf-8")
    found = told(
        run(
            "cats.client.jsonl",
            "dogs.manual.jsonl",
            "--run",
            "run.jsonl",
            "--report",
            "report",
            "--json",
        )
    )
    cats, dogs = found["sets"]
    assert cats["typed"]["digest"] != cats["digest"]
    assert "typed" not in dogs
    assert [
        (each["name"], [kind["name"] for kind in each["kinds"]]) for each in found["rewordings"]
    ] == [("cats.client", ["ALL", "question"])]
    ids = [
        [json.loads(line)["id"] for line in Path(name).read_text(encoding="utf-8").splitlines()]
        for name in ("run.jsonl", "run.typed.jsonl")
    ]
    assert ids == [["c1", "d1"], ["c1", "d1"]]
    assert "## cats.client: nDCG@10 as typed, and with `also` and `passage`" in (
        tmp_path / "report" / "report.md"
    ).read_text(encoding="utf-8")
    again = told(run("cats.client.jsonl", "--baseline", "report/report.json", "--json"))
    assert [each["name"] for each in again["baseline"]] == ["cats.client", "cats.client, as typed"]


def test_an_ablation_has_the_vocabulary_that_expand_needs_and_compares_with_what_is_configured(
    run: Run, open_fake: Callable[[Opening], Library]
) -> None:
    found = told(run("cats.manual.jsonl", "--ablate", "--json"))
    with (
        open_fake(Opening(("cats",), Path("index"))) as library,
        closing(Store(library.opened[0].places.store, read_only=True)) as store,
    ):
        assert "purrs" in store.meta("vocabulary")
    assert found["sets"][0]["settings"] == {}
    names = [each["name"] for each in found["ablation"]]
    assert {"with expand", "search_vector alone", "fuse.method=rrf", "with rerank"} <= set(names)
    assert [each["name"] for each in found["ablation"] if "refusal" in each] == [
        "with deduplicate, method=exact_field"
    ]


def test_without_matplotlib_the_rest_of_the_report_is_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("cats.manual.jsonl", "--report", "report")
    assert (result.exit_code, "pip install '.[plots]'" in result.stderr) == (0, True)
    assert sorted(each.name for each in (tmp_path / "report").iterdir()) == [
        "report.json",
        "report.md",
    ]


def test_a_label_that_no_folder_holds_is_said(run: Run) -> None:
    rows = [
        json.loads(Path(f"{name}.manual.jsonl").read_text(encoding="utf-8"))
        for name in ("cats", "dogs")
    ]
    Path("cats.more.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert "cats.more: 1 labeled paths are not in the index" in run("cats.more.jsonl").stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere.jsonl",), "nowhere.jsonl: the queries cannot be read"),
        (("cats.manual.jsonl", "cats.manual.jsonl"), "Two query sets are called cats.manual"),
        (
            ("dogs.manual.jsonl", "pets.manual.jsonl", "cats.lost.jsonl"),
            "cats.lost: none of its 1 labeled paths is in cats: give the folder",
        ),
        (
            ("cats.manual.jsonl", "cats.copy.jsonl", "--run", "run.jsonl"),
            "The id 'c1' is in cats.manual and in cats.copy",
        ),
        (
            ("cats.manual.jsonl", "--baseline", "nowhere.json"),
            "nowhere.json: the baseline cannot be read",
        ),
        (
            ("cats.manual.jsonl", "--baseline", "cats.manual.jsonl"),
            "not a run of `thumbindex eval`",
        ),
        (
            ("cats.manual.jsonl", "--report", "cats.manual.jsonl"),
            "the report's folder cannot be made",
        ),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(
    run: Run, arguments: tuple[str, ...], says: str
) -> None:
    write("cats.lost", "l1", "a dog", "dogs.md")
    write("cats.copy", "c1", "a cat", "cats.md")
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
