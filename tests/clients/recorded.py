"""A client that plays the tool calls a language model chose, over this project's `docs`: how many
answers it sees, for how many tokens and turns.

`recorded.json` holds, for each task, the calls in the order in which the model would make them from
the tool list and the instructions alone, and where the answer stands: a note, and a few words of
its text. Calls are played until an answer shows these words. `{first citation}` stands for the
first citation of the answer before. `python tests/clients/recorded.py` prints the figures;
`test_recorded.py` keeps them.
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
    """What a person asks a model for, the calls that the model makes, and the words of the note
    that answer it.
    """

    text: str
    path: str
    says: str
    calls: tuple[tuple[str, Mapping[str, Any]], ...]


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a task."""

    task: str
    turns: int  # calls until the answer was seen, or all of them
    found: bool
    # tokens of all answers up to there, as text and as structured content: a client hands on one of
    # them
    text: int
    structured: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What came of all tasks."""

    listed: int  # tokens of the tool list and the instructions, which every conversation pays
    played: tuple[Played, ...]

    @property
    def found(self) -> int:
        """How many answers were seen."""
        return sum(each.found for each in self.played)

    @property
    def at_once(self) -> int:
        """How many of them in the first answer."""
        return sum(each.found and each.turns == 1 for each in self.played)

    def mean(self, what: str) -> float:
        """Return the mean of `turns`, `text` or `structured` over all tasks."""
        return sum(getattr(each, what) for each in self.played) / len(self.played)

    def __str__(self) -> str:
        found = (
            f"{self.found} of {len(self.played)} answers seen, {self.at_once} at once, in "
            f"{self.mean('turns'):.2f} turns a task"
        )
        return (
            f"{found}; tokens a task: {self.mean('text'):,.0f} as text, "
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
    """Tell whether the note still says what the task is labeled with."""
    note = folder / task.path
    return note.is_file() and _spaced(task.says) in _spaced(note.read_text(encoding="utf-8"))


def options(folder: Path, index: Path, *more: str) -> list[str]:
    """Index a folder; return how to serve it."""
    given = [f"--folder={folder}", f"--index={index}", *more]
    subprocess.run(
        [sys.executable, "-P", "-m", "thumbindex", "index", *given], check=True, capture_output=True
    )
    return ["-P", "-m", "thumbindex", "serve", *given]


def play(folder: Path, index: Path, chosen: Sequence[Task]) -> Figures:
    """Play tasks against a server of a fresh index."""
    served = options(folder, index)
    with Library.open([folder], index=index) as library:
        return asyncio.run(_play(served, chosen, library))


async def _play(served: list[str], chosen: Sequence[Task], library: Library) -> Figures:
    async with Client(
        StdioServerParameters(command=sys.executable, args=served, env=dict(os.environ))
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
        played = [await _played(client, each, library) for each in chosen]
        return Figures(
            library.count_tokens(listed) + library.count_tokens(client.instructions or ""),
            tuple(played),
        )


async def until_meaning(client: Client, seconds: float = 60.0) -> None:
    """Ask until answers come by meaning: the model is loaded after the first questions."""
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
    for tool, given in task.calls:
        cited = _CITATION.search(shown)
        if any(each == FIRST_CITATION for each in given.values()) and cited is None:
            continue  # nothing was shown that could be read
        arguments = {
            name: cited.group(1) if cited and each == FIRST_CITATION else each
            for name, each in given.items()
        }
        answer = await client.call_tool(tool, arguments)
        assert not answer.is_error, f"{task.text} {tool} {arguments}: {answer.content}"
        shown = "\n".join(each.text for each in answer.content if isinstance(each, TextContent))
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
        figures = play(DOCS, Path(place), [each for each in tasks() if is_answered(each, DOCS)])
    for each in figures.played:
        sys.stdout.write(
            f"{each.turns if each.found else '-':>2} {each.text:>6,} {each.structured:>6,}  "
            f"{each.task}\n"
        )
    sys.stdout.write(f"{figures}\n")
