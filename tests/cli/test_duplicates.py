"""`thumbindex duplicates`: output, prompts and exit codes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from notes import write
from schemas import checked

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
def run(tmp_path: Path, run_in: Run) -> Run:
    """Run a command of the group on a vault with one copy and one contradiction."""
    vault = tmp_path / "vault"
    write(vault / "a.md", PREVIEW.format("A"))
    write(vault / "b.md", PREVIEW.format("B"))
    write(vault / "old.md", RETENTION.format(30))
    write(vault / "new.md", RETENTION.format(90))
    run_in(vault, "index", "--complete")

    def run_it(*arguments: str, stdin: str | None = None) -> Result:
        return run_in(vault, "duplicates", *arguments, stdin=stdin)

    return run_it


def listed(run: Run) -> Any:
    return checked(run("--grey", "--json"), "duplicates")


def grey_id(run: Run) -> str:
    return str(
        next(cluster["id"] for cluster in listed(run)["clusters"] if cluster["zone"] == "grey")
    )


def test_duplicates_json_fits_its_schema(run: Run) -> None:
    report = listed(run)
    assert [cluster["zone"] for cluster in report["clusters"]] == ["grey", "same"]
    assert (report["merged"], report["flagged"], report["share"]) == (2, 2, 1.0)


def test_list_has_one_line_per_cluster_and_says_how_to_see_all_of_it(run: Run) -> None:
    first, second, hint, total = run("--grey").stdout.split("\n", 3)
    assert first == f"{grey_id(run)}  disagree  2 passages  old.md:3  Retention"
    assert second.endswith("  same      2 passages  b.md:3  B")
    assert hint.startswith("To see all of a cluster, run `thumbindex duplicates show CLUSTER")
    assert total.startswith("2 clusters. ")


def test_texts_are_shown_side_by_side_with_differences_marked(run: Run) -> None:
    output = run("show", grey_id(run)).stdout
    assert "[30] days" in output
    assert "[90] days" in output
    assert "these disagree: " in output
    assert "old.md:3  Retention" in output


def test_decision_is_saved_shown_and_undone(run: Run) -> None:
    name = grey_id(run)
    assert (
        "; decided: apart (two policies)"
        in run("decide", name, "apart", "--note", "two policies").stdout
    )
    assert [cluster["note"] for cluster in listed(run)["clusters"]] == ["", "two policies"]
    assert run("undo", name).exit_code == 0
    assert run("undo", name).exit_code == 2


def test_wrong_decision_or_cluster_is_explained(run: Run) -> None:
    assert "use `same` or `apart`" in run("decide", grey_id(run), "maybe").stderr
    unknown = run("decide", "zzzz", "same")
    assert unknown.exit_code == 2
    assert "`thumbindex duplicates --grey` lists the ids" in unknown.stderr


@pytest.mark.parametrize(
    ("typed", "verdict", "decided"),
    [("s\n", "same", 1), ("x\na\n", "apart", 1), ("k\n", None, 0), ("", None, 0)],
)
def test_review_reads_keys_line_by_line_without_a_terminal(
    run: Run, typed: str, verdict: str | None, decided: int
) -> None:
    assert f"{decided} of 1 decided" in run("review", stdin=typed).stdout
    assert [cluster["verdict"] for cluster in listed(run)["clusters"]] == [None, verdict]


def test_outdated_decisions_are_listed_with_their_former_places(run: Run, tmp_path: Path) -> None:
    run("decide", grey_id(run), "apart")
    write(tmp_path / "vault" / "new.md", "# Retention\n\nAsk the office.\n")
    assert {
        tuple(sorted(decision["places"])) for decision in listed(run)["outdated_decisions"]
    } == {("new.md:3", "old.md:3")}
    assert "One of these passages no longer exists." in run().stdout
