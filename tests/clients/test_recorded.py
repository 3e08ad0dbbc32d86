"""Calls that a language model chose, played against this project's `docs`: a change of the tool
list or of packing shows in figures.
"""

import sys
from pathlib import Path

import pytest

from clients.recorded import DOCS, is_answered, play, tasks

pytestmark = pytest.mark.slow

MOST_STALE = 3
"""Tasks whose label is in the docs no longer: `recorded.json` wants other words for more."""

# `python tests/clients/recorded.py` prints the figures; these leave room for an edit of the docs.
LEAST_FOUND = 0.75  # of the tasks
LEAST_AT_ONCE = 0.68
MOST_TURNS = 1.5
MOST_TEXT = 1_650  # tokens a task
MOST_STRUCTURED = 2_450
MOST_LISTED = 1_900  # tokens of the tool list and the instructions


def test_the_calls_of_a_model_find_the_answers_within_their_turns_and_tokens(
    tmp_path: Path,
) -> None:
    kept = [task for task in tasks() if is_answered(task, DOCS)]
    stale = [task.says for task in tasks() if task not in kept]
    assert len(stale) <= MOST_STALE, (
        f"the docs say this no longer, relabel tests/clients/recorded.json: {stale}"
    )
    figures = play(DOCS, tmp_path / "index", kept)
    sys.stdout.write(f"{figures}\n")
    missed = [each.task for each in figures.played if not each.found]
    assert figures.found >= LEAST_FOUND * len(kept), f"{figures}; not seen: {missed}"
    assert figures.at_once >= LEAST_AT_ONCE * len(kept), str(figures)
    assert figures.mean("turns") <= MOST_TURNS, str(figures)
    assert figures.mean("text") <= MOST_TEXT, str(figures)
    assert figures.mean("structured") <= MOST_STRUCTURED, str(figures)
    assert figures.listed <= MOST_LISTED, str(figures)
