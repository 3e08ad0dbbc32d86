"""Lists of notes by their properties, and the list of properties, as terminal sessions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from folders import write_notes
from schemas import checked

NOTES = {
    "books/Ada.md": "---\nstatus: doing\nrating: 10\ndue: 2026-12-01\n---\nThe engine.\n",
    "books/Bo.md": "---\nstatus: Doing\nrating: 9\nauthor: [Bo, '[[people/Cy|C.]]']\n---\n# Mill\n",
    "books/Cy.md": "status:: done\ndue:: [[2026-03-01]]\n\nThe sail.\n",
    "d.md": "Nothing, see [x](y.md).\n",
}

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, run_in: Run) -> Run:
    vault = write_notes(tmp_path / "vault", NOTES)
    return lambda *arguments: run_in(vault, *arguments)


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        pytest.param(
            ["--where", "status:doing", "--sort", "rating", "--columns", "rating,author,due"],
            [
                "path          rating  author                due",
                "books/Bo.md   9       Bo, [[people/Cy|C.]]",
                "books/Ada.md  10                            2026-12-01",
            ],
            id="numbers",
        ),
        pytest.param(
            ["--sort", "-due", "--columns", "due"],
            [
                "path          due",
                "books/Ada.md  2026-12-01",
                "books/Cy.md   [[2026-03-01]]",
                "books/Bo.md",
                "d.md",
            ],
            id="descending-days",
        ),
        pytest.param(
            ["--where", "-has:status", "--columns", "Status"],
            ["path  status", "d.md"],
            id="without-the-key",
        ),
        pytest.param(
            ["--where", "statsu:done"],
            ["No note matches.", "No note matches statsu:done: nearest is has:status."],
            id="unknown-key",
        ),
        pytest.param(
            ["--where", "has:rating", "--columns", "stat", "--limit", "1"],
            [
                "No note has the property stat: nearest is status.",
                "path          stat",
                "books/Ada.md",
                "1 more: use a higher --limit",
            ],
            id="unknown-column",
        ),
    ],
)
def test_list_prints_a_table(run: Run, arguments: list[str], lines: list[str]) -> None:
    result = run("list", *arguments)
    assert result.stdout.splitlines() == lines


def test_list_as_json_has_the_asked_properties(run: Run) -> None:
    listing = checked(
        run("list", "--where", "rating>=10", "--columns", "due,author", "--json"), "list"
    )
    assert listing["notes"][0]["properties"] == {"due": ["2026-12-01"], "author": []}


def test_properties_lists_keys_and_values(run: Run) -> None:
    assert run("properties").stdout.splitlines() == [
        "status  3 notes  doing (2), done (1)",
        "due     2 notes  2026-12-01 (1), [[2026-03-01]] (1)",
        "rating  2 notes  10 (1), 9 (1)",
        "author  1 note   [[people/Cy|C.]] (1), Bo (1)",
    ]
    assert run("properties", "STATUS").stdout == "status:doing  2\nstatus:done   1\n"
    assert checked(run("properties", "author", "--json"), "properties")["properties"] == [
        {
            "key": "author",
            "notes": 1,
            "values": [{"value": "[[people/Cy|C.]]", "notes": 1}, {"value": "Bo", "notes": 1}],
            "left_out": 0,
        }
    ]
    missing = run("properties", "nothing")
    assert (missing.exit_code, missing.stdout) == (1, "No note has this property.\n")


def test_query_why_broken_and_orphans_take_conditions(run: Run) -> None:
    assert "books/Cy.md" in run("query", "the sail", "--where", "status=done").stdout
    excluded = run("why", "books/Cy.md", "sail", "--where", "-status:done").stdout
    assert "the filter `-status:done` excludes it" in excluded
    assert run("broken", "--where", "-has:status").stdout.endswith("1 broken link in 1 note\n")
    assert run("orphans", "--where", "has:author").stdout.splitlines()[-1].startswith("1 note ")


@pytest.mark.parametrize("condition", ["status", "rating>>4", "rating=>4", "rating!=4"])
def test_malformed_condition_is_wrong_usage(condition: str, run: Run) -> None:
    result = run("list", "--where", condition)
    assert result.exit_code == 2
    assert f"'{condition}' is not a condition: write status:doing, rating>=4" in result.stderr
