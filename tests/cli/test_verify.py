"""Verifying citations with the tool and the command, and links to notes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from mcp import Client
from mcp.server.lowlevel.server import Server

from notes import write
from schemas import checked
from thumbindex.library import Library
from thumbindex.mcp.replies import reply_verify
from thumbindex.opening import OpenOptions
from thumbindex.present.editor_links import obsidian_link

NOTE = "# Plans\n\n## Budget\n\nThe team spends 4,000 euros a month on servers.\n"
HOLDS = 'plans.md#Budget (line 5): "spends 4,000 euros a month"'
CHANGED = 'plans.md#Budget (line 5): "spends 5,000 euros a month"'

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, run_in: Run) -> Run:
    write(tmp_path / "notes/plans.md", NOTE)

    return lambda *arguments, text=None: run_in(
        tmp_path / "notes", "verify", *arguments, stdin=text
    )


async def call(server: Server, text: Any) -> tuple[str, dict[str, Any]]:
    async with Client(server) as client:
        result = await client.call_tool("verify", {"text": text})
    assert not result.is_error, result.content
    return result.content[0].text, result.structured_content


# ------------------------------------------------------------------ the tool


@pytest.mark.anyio
async def test_tool_verifies_a_draft_with_its_own_citations(
    server: Server,
) -> None:
    async with Client(server) as client:
        answer = (
            await client.call_tool(
                "query", {"query": "which note wins when two devices edit", "limit": 1}
            )
        ).structured_content
    passage = answer["results"][0]
    wrong = "the older note wins"
    draft = (
        f'It is so: "the newer note wins" ({passage["citation"]}). But “when two devices edit the '
        f"same note, {wrong}” ({passage['citation']})."
    )
    text, verified = await call(server, draft)
    assert [citation["state"] for citation in verified["citations"]] == ["there", "changed"]
    assert verified["citations"][0] == {
        "citation": passage["citation"],
        "state": "there",
        "quotation": "the newer note wins",
    }
    assert "`older` vs. `newer`" in verified["citations"][1]["differs"]
    assert text.startswith(f"2 citations: 1 there, 1 changed.\n1. there: {passage['citation']} ")


@pytest.mark.anyio
async def test_draft_without_citations_or_too_long_is_reported(
    server: Server,
) -> None:
    assert (await call(server, "Just words."))[0] == "No citation of a note was found."
    async with Client(server) as client:
        result = await client.call_tool("verify", {"text": "a" * 100_001})
    assert (result.is_error, "100,001 characters" in result.content[0].text) == (True, True)


def test_verification_stays_within_its_budget_and_counts_omissions(
    tmp_path: Path, open_fake: Callable[[OpenOptions], Library]
) -> None:
    write(tmp_path / "notes/plans.md", NOTE)
    with open_fake(OpenOptions((str(tmp_path / "notes"),), tmp_path / "index")) as library:
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


def test_verify_reads_an_argument_a_file_or_stdin(run: Run, tmp_path: Path) -> None:
    write(tmp_path / "answer.md", HOLDS)
    expected = (
        '1 citation: 1 there.\nthere: plans.md#Budget (line 5) "spends 4,000 euros a month"\n'
    )
    for result in (
        run(HOLDS),
        run("--file", str(tmp_path / "answer.md")),
        run(text=HOLDS),
        run("-", text=HOLDS),
    ):
        assert (result.exit_code, result.stdout) == (0, expected)


@pytest.mark.parametrize(
    ("draft", "summary"),
    [
        ("‘spends 4,000 euros’ (plans.md:5)", "1 citation: 1 there."),
        ("'pays for the whole harbor' (plans.md:5)", "1 citation: 1 never there."),
        ("It pays for the harbor (plans.md:5).", "1 citation: 1 not compared."),
        (f"{HOLDS}, see plans.md:1", "2 citations: 1 there, 1 not compared."),
        ("It pays (plans.md#Harbor)", "1 citation: 1 never there."),
        ("no citation at all", "No citation of a note was found."),
        ("It pays (plans.md#Budget (line 1))", "1 citation: 1 moved."),
    ],
)
def test_verify_exits_with_0_only_if_each_citation_has_a_true_quotation(
    run: Run, draft: str, summary: str
) -> None:
    result = run(draft)
    assert result.stdout.splitlines()[0] == summary
    assert result.exit_code == (0 if summary == "1 citation: 1 there." else 1)


@pytest.mark.parametrize("text", [CHANGED, 'nowhere.md: "never said by anybody"', "plans.md:5"])
def test_verify_json_fits_its_schema(run: Run, text: str) -> None:
    checked(run("--json", text), "verify")


# ------------------------------------------------------------------ links


def test_note_outside_a_vault_has_no_obsidian_link(tmp_path: Path) -> None:
    assert obsidian_link(tmp_path / "x.md", "") == ""
