"""A language model's recorded calls on this project's `docs`, with limits for turns and tokens."""

import sys
from pathlib import Path

import pytest

from clients.recorded import DOCS, is_answered, play, tasks

pytestmark = pytest.mark.slow

MOST_STALE = 3
"""Maximum tasks whose label is no longer in the docs."""

# `python tests/clients/recorded.py` prints the figures; these leave room for edits of the docs.
LEAST_FOUND = 0.75  # of the tasks
LEAST_AT_ONCE = 0.68
MOST_TURNS = 1.5
MOST_TEXT = 1_650  # tokens a task
MOST_STRUCTURED = 2_450
MOST_LISTED = 2_000  # tokens of the tool list and the instructions


def test_recorded_calls_find_answers_within_turn_and_token_limits(
    tmp_path: Path,
) -> None:
    current = [task for task in tasks() if is_answered(task, DOCS)]
    stale = [task.says for task in tasks() if task not in current]
    assert len(stale) <= MOST_STALE, (
        f"the docs no longer contain these labels of tests/clients/recorded.json: {stale}"
    )
    figures = play(DOCS, tmp_path / "index", current)
    sys.stdout.write(f"{figures}\n")
    missed = [task.task for task in figures.played if not task.found]
    assert figures.found >= LEAST_FOUND * len(current), f"{figures}; not found: {missed}"
    assert figures.at_once >= LEAST_AT_ONCE * len(current), str(figures)
    assert figures.mean("turns") <= MOST_TURNS, str(figures)
    assert figures.mean("text") <= MOST_TEXT, str(figures)
    assert figures.mean("structured") <= MOST_STRUCTURED, str(figures)
    assert figures.listed <= MOST_LISTED, str(figures)
