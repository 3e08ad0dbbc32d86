"""A conversation as a client has it, by the Python SDK and a real process: ten questions, an answer
that cites, and what becomes of its citations.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from clients.recorded import options

NOTES = {
    "decisions/storage.md": """# Storage

## Which database

The orders are kept in PostgreSQL 16 on two machines.

## Backups

A full backup is taken every night at 02:30 and kept for 35 days.
""",
    "decisions/queue.md": """# Queue

## Retries

A failed message is tried again five times, then it goes to the dead letter queue.
""",
    "people/rota.md": """# Rota

## On call

Maren Holt is on call in weeks with an even number.

## Holidays

The office is closed from 24 December.
""",
    "runbooks/certificates.md": """# Certificates

## Renewal

The certificate of the shop is renewed by hand thirty days before it ends.
""",
    "runbooks/deploy.md": """# Deploy

## Rollback

To roll back, run `shop release previous` on the build machine.

## Freeze

Nothing is deployed on Fridays after noon.
""",
    "runbooks/alerts.md": """# Alerts

## Disk space

The pager rings when a disk is nine tenths full.
""",
}


@dataclass(frozen=True, slots=True)
class Turn:
    """A question as a person types it, what a model gives with it, and what it quotes of the
    answer.
    """

    question: str
    also: str
    passage: str
    quoted: str


ASKED = (
    Turn(
        "which database holds the orders",
        "order storage engine",
        "Orders are stored in a database.",
        "kept in PostgreSQL 16 on two machines",
    ),
    Turn(
        "how long are backups kept",
        "backup retention",
        "Backups are kept for a month.",
        "every night at 02:30 and kept for 35 days",
    ),
    Turn(
        "how often is a failed message retried",
        "message retry count",
        "A message is retried.",
        "is tried again five times",
    ),
    Turn(
        "who is on call in even weeks",
        "pager duty schedule",
        "Somebody is on call.",
        "is on call in weeks with an even number",
    ),
    Turn(
        "when does the office close in December",
        "christmas holidays",
        "The office closes.",
        "The office is closed from 24 December",
    ),
    Turn(
        "how is the shop's certificate renewed",
        "TLS renewal",
        "The certificate is renewed.",
        "renewed by hand thirty days before it ends",
    ),
    Turn(
        "how do I roll back a release",
        "undo a deploy",
        "Return to the release before.",
        "run `shop release previous` on the build machine",
    ),
    Turn(
        "may I deploy on Friday afternoon",
        "deploy freeze",
        "Deploys are not allowed.",
        "Nothing is deployed on Fridays after noon",
    ),
    Turn(
        "when does the pager ring about a disk",
        "disk space alert",
        "The disk is nearly full.",
        "when a disk is nine tenths full",
    ),
    Turn(
        "where do messages go that always fail",
        "failed messages",
        "They go to a queue.",
        "then it goes to the dead letter queue",
    ),
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    for path, text in NOTES.items():
        (tmp_path / "team" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "team" / path).write_text(text, encoding="utf-8")
    return tmp_path / "team"


def edit(note: Path, before: str, after: str) -> None:
    text = note.read_text(encoding="utf-8")
    assert before in text
    note.write_text(text.replace(before, after), encoding="utf-8")


async def states(client: Client, draft: str) -> list[dict[str, Any]]:
    """Verify a draft as the notes are now: a question waits until the server has seen the edits."""
    await client.call_tool("query", {"query": "anything", "wait_fresh": 30})
    result = await client.call_tool("verify", {"text": draft})
    assert not result.is_error, result.content
    assert result.structured_content is not None
    found: list[dict[str, Any]] = result.structured_content["citations"]
    return found


@pytest.mark.anyio
async def test_ten_answers_are_cited_from_what_was_shown_and_verified_after_edits_and_a_move(
    vault: Path, tmp_path: Path
) -> None:
    served = options(vault, tmp_path / "index")
    async with Client(
        StdioServerParameters(command=sys.executable, args=served, env=dict(os.environ))
    ) as client:
        sentences = []
        for number, turn in enumerate(ASKED):
            asked = {
                "query": turn.question,
                "also": [turn.also],
                "passage": turn.passage,
                "limit": 3,
            }
            answer = (await client.call_tool("query", asked)).structured_content or {}
            # No `read`: what is quoted stands in a passage that was shown, and the citation is that
            # passage's, by turns with and without its lines.
            shown = next(each for each in answer["results"] if turn.quoted in each["text"])
            sentences.append(f'"{turn.quoted}" ({shown["citation" if number % 2 else "address"]})')
        draft = "\n\n".join(sentences)
        assert [each["state"] for each in await states(client, draft)] == ["there"] * 10

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
        found = await states(client, f"{draft}\n\n{invented}")

    assert [each["state"] for each in found] == [
        *(
            "there",
            "changed",
            "there",
            "there",
            "gone",
            "there",
            "moved",
            "moved",
            "there",
            "moved",
        ),
        "never_there",
    ], found
    changed, renamed, lines = found[1], found[6], found[9]
    assert changed["differs"] == "`35` against `90`"
    assert renamed["now"] == "runbooks/release.md#Rollback (line 5)"
    assert lines["now"] == "decisions/queue.md#Retries (line 7)"
