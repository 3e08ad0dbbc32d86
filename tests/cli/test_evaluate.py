"""`thumbindex eval`: which set runs on which folder, and what it writes and refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from notes import write
from program import app
from schemas import checked
from thumbindex.library import Library
from thumbindex.opening import OpenOptions

Run = Callable[..., Result]


@pytest.fixture
def run(
    open_fake: Callable[[OpenOptions], Library], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Run `eval` on two folders of one note, with a query set for each and one for both."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    write(Path("cats/cats.md"), "# Cats\n\nA cat purrs on the sofa.\n")
    write(Path("dogs/dogs.md"), "# Dogs\n\nA dog barks in the garden.\n")
    label("cats.manual", "c1", "a cat that purrs", "cats.md")
    label("dogs.manual", "d1", "a dog that barks", "dogs.md")
    label("pets.manual", "p1", "a dog that barks", "dogs.md")

    def run_it(*arguments: str) -> Result:
        place = ["--folder", "cats", "--folder", "dogs", "--index", "index"]
        return CliRunner().invoke(app, ["eval", *place, *arguments], obj=open_fake)

    return run_it


def label(name: str, id_: str, query: str, path: str, **more: object) -> None:
    relevant = [{"path": path, "heading": None, "grade": 2}]
    row = {"id": id_, "query": query, "kind": "question", "relevant": relevant, **more}
    write(Path(f"{name}.jsonl"), json.dumps(row))


def test_set_runs_on_the_folder_of_its_name_or_else_on_all(run: Run) -> None:
    sets = ("cats.manual.jsonl", "dogs.manual.jsonl", "pets.manual.jsonl")
    report = checked(run(*sets, "--json"), "eval")
    folders = {
        query_set["name"]: (query_set["folders"], query_set["index"]["documents"])
        for query_set in report["sets"]
    }
    assert folders == {
        "cats.manual": (["cats"], 1),
        "dogs.manual": (["dogs"], 1),
        "pets.manual": (["cats", "dogs"], 2),
    }
    assert (report["queries"], report["scores"]["ALL"]["nDCG@10"]) == (3, 1.0)
    assert "cats.manual" in run(*sets).stdout


def test_rewordings_are_searched_too(run: Run) -> None:
    rewordings = {"also": ["a cat that purrs"], "passage": "A cat purrs when it is content."}
    label("pets.client", "c1", "feline contentment", "cats.md", **rewordings)
    label("pets.typed", "c1", "feline contentment", "cats.md")
    reports = (checked(run(f"pets.{kind}.jsonl", "--json"), "eval") for kind in ("client", "typed"))
    assert [report["scores"]["ALL"]["nDCG@10"] for report in reports] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere.jsonl",), "Cannot read the queries in nowhere.jsonl"),
        (("cats.lost.jsonl",), "cats.lost: none of its 1 labeled paths is in cats"),
    ],
)
def test_invalid_arguments_are_reported_in_one_sentence(
    run: Run, arguments: tuple[str, ...], says: str
) -> None:
    label("cats.lost", "l1", "a dog", "dogs.md")
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
