"""`thumbindex tune` and `eval --from-links`: what they print, what they keep, and that it can be
taken back.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result
from typer.testing import CliRunner

from thumbindex.library import Library
from thumbindex.model import Answer
from thumbindex.serve.cli import app
from thumbindex.serve.opening import Opening
from thumbindex.testing import FakeEmbedder, FakeReranker

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    root = tmp_path / "vault"
    root.mkdir()
    for n in range(16):
        text = (
            f"---\ndescription: what anybody would tell of number {n} here\n---\n# Page {n}\n\n"
            f"Thing {n} [[{(n + 1) % 16}|kin of {n}]].\n"
        )
        (root / f"{n}.md").write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def run(
    vault: Path, open_fake: Callable[[Opening], Library], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(vault.parent))

    def run_it(command: str, *arguments: str, opener: Any = open_fake) -> Result:
        return CliRunner().invoke(
            app,
            [command, "--folder", str(vault), "--index", str(vault.parent / "index"), *arguments],
            obj=opener,
        )

    return run_it


def checked(result: Result, schema: str) -> Any:
    payload = json.loads(result.stdout)
    jsonschema.validate(
        payload, json.loads((SCHEMAS / f"{schema}.json").read_text(encoding="utf-8"))
    )
    return payload


def test_tuning_shows_and_keeps_its_evidence_beside_the_index_and_writes_nothing_into_the_vault(
    run: Callable[..., Result], vault: Path
) -> None:
    before = sorted(vault.rglob("*"))
    found = checked(run("tune", "--json"), "tune")
    kept = json.loads(Path(found["location"]).read_text(encoding="utf-8"))
    assert (kept["settings"], kept["reason"], kept["evidence"]["tried"]) == (
        found["settings"],
        found["reason"],
        found["tried"],
    )
    assert Path(found["location"]).is_relative_to(vault.parent / "index")
    assert sorted(vault.rglob("*")) == before


def test_status_says_since_when_and_on_what_grounds(run: Callable[..., Result]) -> None:
    run("index")
    assert checked(run("status", "--json"), "status")["folders"][0]["tuned"] is None
    reason = checked(run("tune", "--json"), "tune")["reason"]
    assert checked(run("status", "--json"), "status")["folders"][0]["tuned"]["reason"] == reason
    assert reason in run("status").stdout


def test_a_tuning_is_printed_and_taken_back(run: Callable[..., Result]) -> None:
    tuned = run("tune")
    assert "alone against the defaults" in tuned.stdout
    assert "`thumbindex tune --undo` deletes it" in tuned.stdout
    assert (run("tune", "--undo").stdout, run("tune", "--undo").exit_code) == (
        "vault: back to the defaults\n",
        1,
    )
    assert json.loads(run("tune", "--undo", "--json").stdout) == {"undone": {"vault": False}}


def test_too_few_queries_decide_nothing_and_keep_nothing(
    run: Callable[..., Result], vault: Path
) -> None:
    for n in range(1, 16):
        (vault / f"{n}.md").unlink()
    found = checked(run("tune", "--json"), "tune")
    assert found["location"] is None
    assert found["reason"].startswith(
        "There is 1 query to tune by (link 0, description 1; headings and titles do not "
        "decide), fewer than 30"
    )
    assert run("tune").stdout.endswith("nothing was decided: nothing is kept\n")
    assert list((vault.parent / "index").rglob("tuned.json")) == []


def test_a_users_own_queries_decide_too(run: Callable[..., Result], tmp_path: Path) -> None:
    labeled = {
        "id": "1",
        "query": "thing",
        "kind": "any",
        "relevant": [{"path": "3.md", "heading": None, "grade": 2}],
    }
    (tmp_path / "q.jsonl").write_text(json.dumps(labeled), encoding="utf-8")
    assert (
        checked(run("tune", "--queries", str(tmp_path / "q.jsonl"), "--json"), "tune")["kinds"][
            "given"
        ]["n"]
        == 1
    )


def test_tuning_says_first_what_it_will_take(run: Callable[..., Result]) -> None:
    said = run("tune", "--json").stderr.splitlines()
    first = next(
        n
        for n, line in enumerate(said)
        if line.startswith(
            "Asking 32 questions from the notes with 13 settings each: less than a minute"
        )
    )
    assert all("setting" not in line for line in said[:first])


def test_a_tuning_that_is_cut_off_keeps_what_was_found_before(
    run: Callable[..., Result], vault: Path
) -> None:
    class CutOff(Library):
        def query(self, text: str, **given: Any) -> Answer:
            raise KeyboardInterrupt

    def cut_off(opening: Opening) -> Library:
        return CutOff.open(
            opening.folder,
            index=opening.index,
            config=opening.load(),
            embedder=FakeEmbedder(),
            reranker=FakeReranker(),
        )

    kept = Path(checked(run("tune", "--json"), "tune")["location"])
    before = kept.read_bytes()
    assert run("tune", opener=cut_off).exit_code == 130
    assert (kept.read_bytes(), [path.name for path in kept.parent.glob("tuned*")]) == (
        before,
        ["tuned.json"],
    )


def test_two_folders_are_not_tuned_at_once(run: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    result = run("tune", "--folder", str(tmp_path / "other"))
    assert (result.exit_code, result.stderr) == (
        2,
        "Folders are tuned one at a time: name one with --folder.\n",
    )


def test_a_vault_is_evaluated_by_its_own_links(run: Callable[..., Result], tmp_path: Path) -> None:
    result = run("eval", "--from-links", "--write-queries", str(tmp_path / "q.jsonl"), "--json")
    assert set(checked(result, "eval")["scores"]) == {"ALL", "link", "description"}
    assert len((tmp_path / "q.jsonl").read_text(encoding="utf-8").splitlines()) == 32
    assert checked(run("eval", str(tmp_path / "q.jsonl"), "--json"), "eval")["queries"] == 32


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "Say what to ask"),
        (("q.jsonl", "--from-links"), "Say what to ask"),
        (("q.jsonl", "--write-queries", "x"), "give both"),
    ],
)
def test_queries_come_from_one_place(
    run: Callable[..., Result], arguments: tuple[str, ...], says: str
) -> None:
    result = run("eval", *arguments)
    assert (result.exit_code, says in result.stderr) == (2, True)
