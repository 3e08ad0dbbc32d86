"""`thumbindex duplicates`: what it prints, how it asks, and how it ends."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result
from typer.testing import CliRunner

from thumbindex.library import Library
from thumbindex.serve.cli import app
from thumbindex.serve.duplicates import differing_words, review_clusters
from thumbindex.serve.opening import Opening

SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / "duplicates.json"
RETENTION = (
    "# Retention\n\nLogs are kept for {} days and then they are deleted, and exports must be "
    "asked for before the end of it.\n"
)
PREVIEW = (
    "# {}\n\nPage preview is a plugin that lets you preview a page when you hover the cursor over "
    "a link in a note.\n"
)

Run = Callable[..., Result]


@pytest.fixture
def run(
    open_fake: Callable[[Opening], Library], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Run a command of the group over a vault of one copy and one contradiction."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    vault = tmp_path / "vault"
    vault.mkdir()
    for name, text in (
        ("a", PREVIEW.format("A")),
        ("b", PREVIEW.format("B")),
        ("old", RETENTION.format(30)),
        ("new", RETENTION.format(90)),
    ):
        (vault / f"{name}.md").write_text(text, encoding="utf-8")
    given = ["--folder", str(vault), "--index", str(tmp_path / "indexes")]
    with open_fake(Opening((str(vault),), tmp_path / "indexes")) as library:
        library.index()

    def run_it(*arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(
            app, ["duplicates", *given, *arguments], obj=open_fake, input=stdin
        )

    return run_it


def listed(run: Run) -> Any:
    payload = json.loads(run("--grey", "--json").stdout)
    jsonschema.validate(payload, json.loads(SCHEMA.read_text(encoding="utf-8")))
    return payload


def grey_id(run: Run) -> str:
    return str(next(each["id"] for each in listed(run)["clusters"] if each["zone"] == "grey"))


def test_the_list_as_json_fits_its_schema(run: Run) -> None:
    found = listed(run)
    assert [each["zone"] for each in found["clusters"]] == ["same", "grey"]
    assert (found["merged"], found["flagged"], found["share"]) == (2, 2, 1.0)


def test_texts_stand_side_by_side_with_the_differing_words_marked(run: Run) -> None:
    shown = run("--grey").stdout
    assert "[30] days" in shown
    assert "[90] days" in shown
    assert "these disagree: " in shown
    assert "old.md:3-3" in shown


def test_what_is_to_be_decided_is_counted_and_listed_on_demand(run: Run) -> None:
    shown = run()
    assert shown.exit_code == 0
    assert "equal text" in shown.stdout
    assert "old.md" not in shown.stdout
    assert "2 for you to decide (--grey lists them)" in shown.stdout


def test_a_decision_is_made_shown_and_undone(run: Run) -> None:
    name = grey_id(run)
    assert (
        "; decided: apart (two policies)"
        in run("decide", name, "apart", "--note", "two policies").stdout
    )
    assert [each["note"] for each in listed(run)["clusters"]] == ["", "two policies"]
    assert run("undo", name).exit_code == 0
    assert run("undo", name).exit_code == 2


def test_a_wrong_word_or_cluster_says_what_to_do(run: Run) -> None:
    assert "say `same` or `apart`" in run("decide", grey_id(run), "maybe").stderr
    unknown = run("decide", "zzzz", "same")
    assert (unknown.exit_code, "`thumbindex duplicates --grey` lists them" in unknown.stderr) == (
        2,
        True,
    )


def test_decisions_go_through_a_file(run: Run, tmp_path: Path) -> None:
    name, file = grey_id(run), tmp_path / "decisions.json"
    run("decide", name, "same")
    assert run("export", str(file)).stdout == f"1 decision written to {file}.\n"
    run("undo", name)
    assert run("import", str(file)).stdout == "1 decision imported.\n"
    assert run("export").stdout == file.read_text(encoding="utf-8")
    file.write_text("[", encoding="utf-8")
    assert "make an export with" in run("import", str(file)).stderr


@pytest.mark.parametrize(
    ("typed", "verdict", "told"),
    [("s\n", "same", 1), ("x\na\n", "apart", 1), ("k\n", None, 0), ("q\n", None, 0), ("", None, 0)],
)
def test_a_review_takes_a_key_a_decision_and_line_by_line_without_a_terminal(
    run: Run, typed: str, verdict: str | None, told: int
) -> None:
    assert f"{told} of 1 decided" in run("review", stdin=typed).stdout
    assert [each["verdict"] for each in listed(run)["clusters"]] == [None, verdict]


def test_an_interrupted_review_keeps_what_was_decided(
    run: Run, open_fake: Callable[[Opening], Library], tmp_path: Path
) -> None:
    def keys() -> Iterator[str]:
        yield "s"
        raise KeyboardInterrupt

    with open_fake(Opening((str(tmp_path / "vault"),), tmp_path / "indexes")) as library:
        waiting = list(library.duplicates(grey=True).clusters)
        assert review_clusters(library, waiting, keys()) == 1
    assert [each["verdict"] for each in listed(run)["clusters"]] == ["same", None]


def test_lapsed_decisions_are_listed_with_the_place_where_the_text_stood(
    run: Run, tmp_path: Path
) -> None:
    run("decide", grey_id(run), "apart")
    (tmp_path / "vault" / "new.md").write_text("# Retention\n\nAsk the office.\n", encoding="utf-8")
    assert {tuple(sorted(each["places"])) for each in listed(run)["lapsed"]} == {
        ("new.md:3", "old.md:3")
    }
    assert "a text is not there any more" in run().stdout


def test_pairs_from_a_file_are_decided_and_bad_lines_survived(run: Run, tmp_path: Path) -> None:
    pairs, out = tmp_path / "pairs.jsonl", tmp_path / "out.jsonl"
    lines = [
        '{"id": "1", "a": "Kept for 30 days.", "b": "Kept for 90 days."}',
        "{",
        '{"id": "2", "a": 1}',
        '{"id": "3", "a": "*x* y", "b": "x y"}',
    ]
    pairs.write_text("\n".join(lines), encoding="utf-8")
    result = run("judge", str(pairs), "--out", str(out))
    assert [json.loads(line)["merge"] for line in out.read_text(encoding="utf-8").splitlines()] == [
        False,
        True,
    ]
    assert result.exit_code == 0
    assert all(f"pairs.jsonl:{n}: " in result.stderr for n in (2, 3))
    assert run("judge", str(pairs)).stdout == out.read_text(encoding="utf-8")


def test_pairs_are_not_overwritten_with_their_decisions(run, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(json.dumps({"id": "1", "a": "x", "b": "x"}), encoding="utf-8")
    result = run("judge", str(pairs), "--out", str(pairs))
    assert (
        result.exit_code,
        "name another one" in result.stderr,
        json.loads(pairs.read_text())["a"],
    ) == (2, True, "x")


def test_a_file_of_pairs_without_a_pair_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n", encoding="utf-8")
    assert (
        run("judge", str(tmp_path / "empty.jsonl")).exit_code
        == run("judge", str(tmp_path / "none.jsonl")).exit_code
        == 2
    )


def test_differing_words_are_marked_in_both_texts() -> None:
    left, right = differing_words("kept for 30 days", "kept  for 90\ndays, then", color=False)
    assert (left.plain, right.plain) == ("kept for [30] days", "kept  for [90]\ndays[, then]")
    assert differing_words("a b", "a c", color=True)[0].plain == "a b"
