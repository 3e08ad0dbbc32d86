"""A client that replays a language model's tool calls on this project's `docs`, and counts found
answers, turns and tokens.

`recorded.json` holds tasks. Each has the calls that a model chose from the tool list and the
instructions alone, and a label: a note and a few words of the answer. Calls are replayed until a
reply shows these words. `{first citation}` is replaced with the first citation of the previous
reply. `python tests/clients/recorded.py` prints the figures; `test_recorded.py` checks them.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mcp import Client, StdioServerParameters
from mcp_types import TextContent

from thumbindex.library import Library

DOCS = Path(__file__).parents[2] / "docs"
RECORDED = Path(__file__).with_name("recorded.json")

FIRST_CITATION = "{first citation}"

_CITATION = re.compile(r"^## 1\. (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Task:
    """A user's task, the model's calls, and the note and words that answer it."""

    text: str
    path: str
    says: str
    calls: tuple[tuple[str, Mapping[str, Any]], ...]


@dataclass(frozen=True, slots=True)
class Played:
    """The result of a task."""

    task: str
    turns: int  # calls until the answer was found, or all calls
    found: bool
    # tokens of all replies; a client passes on either the text or the structured content
    text: int
    structured: int


@dataclass(frozen=True, slots=True)
class Figures:
    """The results of all tasks."""

    listed: int  # tokens of the tool list and the instructions, paid in every conversation
    played: tuple[Played, ...]

    @property
    def found(self) -> int:
        """Number of answers found."""
        return sum(task.found for task in self.played)

    @property
    def at_once(self) -> int:
        """Number of answers found in the first reply."""
        return sum(task.found and task.turns == 1 for task in self.played)

    def mean(self, field: str) -> float:
        """Return the mean of `turns`, `text` or `structured` over all tasks."""
        return sum(getattr(task, field) for task in self.played) / len(self.played)

    def __str__(self) -> str:
        summary = (
            f"{self.found} of {len(self.played)} answers found, {self.at_once} at once, in "
            f"{self.mean('turns'):.2f} turns per task"
        )
        return (
            f"{summary}; tokens per task: {self.mean('text'):,.0f} as text, "
            f"{self.mean('structured'):,.0f} structured; tool list and instructions {self.listed:,}"
        )


def tasks() -> tuple[Task, ...]:
    """Read the recorded calls."""
    rows = json.loads(RECORDED.read_text(encoding="utf-8"))
    return tuple(
        Task(
            row["task"],
            row["answer"]["path"],
            row["answer"]["says"],
            tuple((call["tool"], call["arguments"]) for call in row["calls"]),
        )
        for row in rows
    )


def is_answered(task: Task, folder: Path) -> bool:
    """Return whether the note still contains the task's label."""
    note = folder / task.path
    return note.is_file() and _spaced(task.says) in _spaced(note.read_text(encoding="utf-8"))


def options(folder: Path, index: Path, *more: str) -> list[str]:
    """Index a folder; return the arguments that serve it."""
    arguments = [f"--folder={folder}", f"--index={index}", *more]
    subprocess.run(
        [sys.executable, "-P", "-m", "thumbindex", "index", "--complete", *arguments],
        check=True,
        capture_output=True,
    )
    return ["-P", "-m", "thumbindex", "serve", *arguments]


def play(folder: Path, index: Path, chosen: Sequence[Task]) -> Figures:
    """Replay tasks against a server with a fresh index."""
    arguments = options(folder, index)
    with Library.open([folder], index=index) as library:
        return asyncio.run(_play(arguments, chosen, library))


async def _play(arguments: list[str], chosen: Sequence[Task], library: Library) -> Figures:
    async with Client(
        StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    ) as client:
        tools = (await client.list_tools()).tools
        listed = json.dumps(
            [
                tool.model_dump(
                    mode="json", by_alias=True, exclude_none=True, exclude={"output_schema"}
                )
                for tool in tools
            ]
        )
        await until_meaning(client)
        played = [await _played(client, task, library) for task in chosen]
        return Figures(
            library.count_tokens(listed) + library.count_tokens(client.instructions or ""),
            tuple(played),
        )


async def until_meaning(client: Client, seconds: float = 60.0) -> None:
    """Query until vectors are searched: the model loads after the first queries."""
    async with asyncio.timeout(seconds):
        while True:
            trace = (
                await client.call_tool(
                    "query", {"query": "which model reads my notes", "explain": True}
                )
            ).structured_content or {}
            if any(step["stage"] == "search_vector" and step["out"] for step in trace["trace"]):
                return
            await asyncio.sleep(0.05)


async def _played(client: Client, task: Task, library: Library) -> Played:
    turns, text, structured, shown, found = 0, 0, 0, "", False
    for tool, recorded in task.calls:
        cited = _CITATION.search(shown)
        if FIRST_CITATION in recorded.values() and cited is None:
            continue  # no citation to read
        arguments = {
            name: cited.group(1) if cited and value == FIRST_CITATION else value
            for name, value in recorded.items()
        }
        answer = await client.call_tool(tool, arguments)
        assert not answer.is_error, f"{task.text} {tool} {arguments}: {answer.content}"
        shown = "\n".join(part.text for part in answer.content if isinstance(part, TextContent))
        turns += 1
        text += library.count_tokens(shown)
        structured += library.count_tokens(
            json.dumps(answer.structured_content, ensure_ascii=False)
        )
        found = task.path in shown and _spaced(task.says) in _spaced(shown)
        if found:
            break
    return Played(task.text, turns, found, text, structured)


def _spaced(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    with TemporaryDirectory(ignore_cleanup_errors=True) as place:
        figures = play(DOCS, Path(place), [task for task in tasks() if is_answered(task, DOCS)])
    for result in figures.played:
        sys.stdout.write(
            f"{result.turns if result.found else '-':>2} {result.text:>6,} "
            f"{result.structured:>6,}  {result.task}\n"
        )
    sys.stdout.write(f"{figures}\n")
