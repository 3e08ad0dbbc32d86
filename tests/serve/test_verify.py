"""Citations are verified by a client's tool and on the command line, and link to their notes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result
from mcp import Client
from mcp.server.lowlevel.server import Server
from typer.testing import CliRunner

from thumbindex.library import Library
from thumbindex.serve.cli import app
from thumbindex.serve.links import obsidian_link
from thumbindex.serve.opening import Opening
from thumbindex.serve.replies import reply_query, reply_verify

SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / "verify.json"
NOTE = "# Plans\n\n## Budget\n\nThe team spends 4,000 euros a month on servers.\n"
HOLDS = 'plans.md#Budget (line 5): "spends 4,000 euros a month"'
CHANGED = 'plans.md#Budget (line 5): "spends 5,000 euros a month"'

Run = Callable[..., Result]


@pytest.fixture
def run(
    tmp_path: Path, open_fake: Callable[[Opening], Library], monkeypatch: pytest.MonkeyPatch
) -> Run:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/plans.md").write_text(NOTE, encoding="utf-8")

    def run_it(*arguments: str, text: str | None = None) -> Result:
        given = [
            "verify",
            "--folder",
            str(tmp_path / "notes"),
            "--index",
            str(tmp_path / "index"),
            *arguments,
        ]
        return CliRunner().invoke(app, given, obj=open_fake, input=text)

    return run_it


async def call(server: Server, text: Any) -> tuple[str, dict[str, Any]]:
    async with Client(server) as client:
        result = await client.call_tool("verify", {"text": text})
    assert not result.is_error, result.content
    return result.content[0].text, result.structured_content


# ------------------------------------------------------------------ the tool


@pytest.mark.anyio
async def test_a_client_verifies_a_draft_with_the_citation_and_the_text_that_it_was_given(
    server: Server,
) -> None:
    async with Client(server) as client:
        answer = (
            await client.call_tool(
                "query", {"query": "which note wins when two devices edit", "limit": 1}
            )
        ).structured_content
    found = answer["results"][0]
    wrong = "the older note wins"
    draft = (
        f'It is so: "the newer note wins" ({found["citation"]}). But “when two devices edit the '
        f"same note, {wrong}” ({found['address']})."
    )
    text, verified = await call(server, draft)
    assert [each["state"] for each in verified["citations"]] == ["there", "changed"]
    assert verified["citations"][0] == {
        "citation": found["citation"],
        "state": "there",
        "quotation": "the newer note wins",
    }
    assert "`older` against `newer`" in verified["citations"][1]["differs"]
    assert text.startswith(f"2 citations: 1 there, 1 changed.\n1. there: {found['citation']} ")


@pytest.mark.anyio
async def test_a_client_gives_citations_as_a_list_and_is_told_of_quotations_without_one(
    server: Server,
) -> None:
    text, verified = await call(
        server,
        [
            'sync.md "the newer note wins"',
            'nowhere.md "the newest note wins here"',
            '"nobody says it here"',
        ],
    )
    assert ([each["state"] for each in verified["citations"]], verified["uncited"]) == (
        ["there", "never_there"],
        1,
    )
    assert "1 quotation without a citation." in text


@pytest.mark.anyio
async def test_a_draft_without_a_citation_and_one_that_is_no_answer_are_told_so(
    server: Server,
) -> None:
    assert (await call(server, "Just words."))[0] == "No citation of a note was found."
    async with Client(server) as client:
        result = await client.call_tool("verify", {"text": "a" * 100_001})
    assert (result.is_error, "100,001 characters" in result.content[0].text) == (True, True)


def test_an_answer_stays_within_its_budget_and_counts_what_it_leaves_out(
    tmp_path: Path, open_fake: Callable[[Opening], Library]
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/plans.md").write_text(NOTE, encoding="utf-8")
    with open_fake(Opening((str(tmp_path / "notes"),), tmp_path / "index")) as library:
        library.index()
        reply = reply_verify(library, {"text": [f"{CHANGED}\n" * 150]})
        most = library.config.serve.max_tokens
        assert library.count_tokens(reply.text) <= most
        assert (
            library.count_tokens(
                json.dumps(reply.structured, ensure_ascii=False, separators=(",", ":"))
            )
            <= most
        )
    assert len(reply.structured["citations"]) + reply.structured["left_out"] == 150
    assert f"… {reply.structured['left_out']} citations left out" in reply.text


# ------------------------------------------------------------------ the command


def test_the_command_takes_a_text_a_file_or_standard_input(run: Run, tmp_path: Path) -> None:
    (tmp_path / "answer.md").write_text(HOLDS, encoding="utf-8")
    expected = (
        '1 citation: 1 there.\nthere: plans.md#Budget (line 5) "spends 4,000 euros a month"\n'
    )
    for found in (
        run(HOLDS),
        run("--file", str(tmp_path / "answer.md")),
        run(text=HOLDS),
        run("-", text=HOLDS),
    ):
        assert (found.exit_code, found.stdout) == (0, expected)


def test_the_path_of_a_file_in_place_of_a_text_is_answered_with_how_the_file_is_checked(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "my answer.txt").write_text(HOLDS, encoding="utf-8")
    said = run(str(tmp_path / "my answer.txt"))
    assert (said.exit_code, said.stdout) == (1, "No citation of a note was found.\n")
    assert (
        f"`thumbindex verify --file '{tmp_path / 'my answer.txt'}'` checks the text in it."
        in said.stderr
    )
    assert [
        "--file" in run(text).stderr
        for text in (HOLDS, "a" * 5000, "~5 euros", str(tmp_path / "none.txt"))
    ] == [False] * 4


def test_the_command_fails_where_a_citation_does_not_hold_and_says_in_what(run: Run) -> None:
    found = run(CHANGED)
    assert found.exit_code == 1
    assert found.stdout.endswith(
        'changed: plans.md#Budget (line 5) "spends 5,000 euros a month" -> plans.md#Budget '
        "(line 5) (`5,000` against `4,000`)\n"
    )
    assert run(HOLDS.replace("line 5", "line 1")).exit_code == 0  # it moved, and holds
    assert run("no citation at all").exit_code == 1


@pytest.mark.parametrize("text", [HOLDS, CHANGED, 'nowhere.md: "never said by anybody"', "nothing"])
def test_what_it_found_as_json_fits_its_schema(run: Run, text: str) -> None:
    jsonschema.validate(
        json.loads(run("--json", text).stdout), json.loads(SCHEMA.read_text(encoding="utf-8"))
    )


def test_wrong_use_says_what_to_write_instead(run: Run, tmp_path: Path) -> None:
    both = run(HOLDS, "--file", "x.md")
    assert (both.exit_code, "exclude each other" in both.stderr) == (2, True)
    missing = run("--file", str(tmp_path / "none.md"))
    assert (missing.exit_code, "cannot be read: No such file or directory" in missing.stderr) == (
        2,
        True,
    )


# ------------------------------------------------------------------ links


@pytest.mark.parametrize(
    ("form", "is_near", "link"),
    [
        ("none", True, None),
        ("obsidian", True, "obsidian://open?vault=my%20vault&file=work%2Fthe%20plans%23Budget"),
        ("vscode", True, "vscode://fileROOT/my%20vault/work/the%20plans.md:5"),
        ("file", True, "file://ROOT/my%20vault/work/the%20plans.md"),
        ("file", False, None),
    ],
)
def test_a_passage_links_to_its_note_as_it_is_configured_and_never_over_http(
    tmp_path: Path,
    open_fake: Callable[[Opening], Library],
    form: str,
    is_near: bool,
    link: str | None,
) -> None:
    vault = tmp_path / "my vault"
    (vault / ".obsidian").mkdir(parents=True)
    (vault / "work").mkdir()
    (vault / "work/the plans.md").write_text(NOTE, encoding="utf-8")
    with open_fake(
        Opening((str(vault / "work"),), tmp_path / "index", overrides=(f"serve.links={form}",))
    ) as library:
        library.index()
        reply = reply_query(library, {"query": "what does the team spend?"}, is_near=is_near)
    (found,) = reply.structured["results"]
    expected = link and link.replace("ROOT", tmp_path.as_posix())
    assert found.get("link") == expected
    assert (expected or "://") in reply.text or not expected
    assert str(tmp_path) not in reply.text or is_near


def test_a_note_outside_of_a_vault_has_no_link_for_obsidian(tmp_path: Path) -> None:
    assert obsidian_link(tmp_path / "x.md", "") == ""
