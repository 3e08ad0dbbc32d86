"""A conversation with the Python SDK and a real process: six questions, citations, `verify`."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from clients.recorded import options
from folders import write_notes

pytestmark = pytest.mark.slow

NOTES = {
    "decisions/storage.md": "# Storage\n\n## Which database\n\n"
    "The orders are kept in PostgreSQL 16 on two machines.\n\n## Backups\n\n"
    "A full backup is taken every night at 02:30 and kept for 35 days.\n",
    "decisions/queue.md": "# Queue\n\n## Retries\n\n"
    "A failed message is tried again five times, then it goes to the dead letter queue.\n",
    "people/rota.md": "# Rota\n\n## On call\n\n"
    "Maren Holt is on call in weeks with an even number.\n\n## Holidays\n\n"
    "The office is closed from 24 December.\n",
    "runbooks/deploy.md": "# Deploy\n\n## Rollback\n\n"
    "To roll back, run `shop release previous` on the build machine.\n",
}

ASKED = {
    "which database holds the orders": "kept in PostgreSQL 16 on two machines",
    "how long are backups kept": "every night at 02:30 and kept for 35 days",
    "when does the office close in December": "The office is closed from 24 December",
    "how do I roll back a release": "run `shop release previous` on the build machine",
    "who is on call in even weeks": "is on call in weeks with an even number",
    "where do messages go that always fail": "then it goes to the dead letter queue",
}
"""A user's questions, and the model's quotations."""


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    return write_notes(tmp_path / "team", NOTES)


def edit(note: Path, before: str, after: str) -> None:
    text = note.read_text(encoding="utf-8")
    assert before in text
    note.write_text(text.replace(before, after), encoding="utf-8")


async def states(client: Client, draft: str) -> list[dict[str, Any]]:
    """Verify a draft after the server has indexed all edits."""
    await client.call_tool("query", {"query": "anything", "wait_fresh": 30})
    result = await client.call_tool("verify", {"text": draft})
    assert not result.is_error, result.content
    assert result.structured_content is not None
    citations: list[dict[str, Any]] = result.structured_content["citations"]
    return citations


@pytest.mark.anyio
async def test_citations_of_six_answers_are_verified_after_edits_and_a_move(
    vault: Path, tmp_path: Path
) -> None:
    served = options(vault, tmp_path / "index")
    async with Client(
        StdioServerParameters(command=sys.executable, args=served, env=dict(os.environ))
    ) as client:
        sentences = []
        for question, quoted in ASKED.items():
            arguments = {"query": question, "limit": 3}
            answer = (await client.call_tool("query", arguments)).structured_content or {}
            # no `read`: cite the passage that contains the quotation
            passage = next(result for result in answer["results"] if quoted in result["text"])
            sentences.append(f'"{quoted}" ({passage["citation"]})')
        draft = "\n\n".join(sentences)
        assert [citation["state"] for citation in await states(client, draft)] == ["there"] * 6

        edit(vault / "decisions/storage.md", "kept for 35 days", "kept for 90 days")
        edit(
            vault / "decisions/queue.md",
            "# Queue\n",
            "# Queue\n\nEverything that the shop sends.\n",
        )
        edit(
            vault / "people/rota.md",
            "\n\n## Holidays\n\nThe office is closed from 24 December.",
            "",
        )
        (vault / "runbooks/deploy.md").rename(vault / "runbooks/release.md")
        invented = (
            '"The shop is closed on Sundays and Mondays" (thumbindex://team/people/opening.md)'
        )
        citations = await states(client, f"{draft}\n\n{invented}")

    assert [citation["state"] for citation in citations] == [
        "there",
        "changed",
        "never_there",  # a citation does not hold the text, as an address does
        "moved",
        "there",
        "moved",
        "never_there",
    ], citations
    changed, renamed, lines = citations[1], citations[3], citations[5]
    assert changed["differs"] == "`35` vs. `90`"
    assert renamed["now"] == "runbooks/release.md#Rollback (line 5)"
    assert lines["now"] == "decisions/queue.md#Retries (line 7)"
