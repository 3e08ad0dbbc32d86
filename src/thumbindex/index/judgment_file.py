"""The user's judgments of answers, in a file that survives rebuilds.

A second file contains them as a labeled set for `eval`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from thumbindex.errors import StorageError, UsageError
from thumbindex.index.files import (
    IndexPaths,
    as_storage_errors,
    read_with_retry,
    storage_error,
    write_atomically,
)
from thumbindex.index.locks import hold_lock
from thumbindex.model import JudgedQuery, RelevanceJudgment
from thumbindex.text import query_id

MAX_QUESTIONS = 10_000
"""Maximum number of judged questions. `change_judgments` raises UsageError if it is exceeded."""


def read_judgments(paths: IndexPaths) -> tuple[JudgedQuery, ...]:
    """Return all judgments, oldest first. Raises StorageError."""
    path = paths.judged
    try:
        return tuple(_judged(row) for row in json.loads(read_with_retry(path))["judged"])
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise storage_error(path.parent, error) from error
    # not IndexDamagedError, which triggers a rebuild: judgments cannot be rebuilt
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(
            f"Cannot read the judgments in {path}: {error}. Repair the file, or move it "
            "elsewhere to start over."
        ) from error


def _judged(row: dict[str, Any]) -> JudgedQuery:
    judged = tuple(
        RelevanceJudgment(str(place["path"]), str(place["heading"]), int(place["grade"]))
        for place in row["places"]
    )
    return JudgedQuery(str(row["query"]), str(row["kind"]), judged, str(row["made"]))


def change_judgments(
    paths: IndexPaths, change: Callable[[list[JudgedQuery]], Sequence[JudgedQuery]]
) -> tuple[JudgedQuery, ...]:
    """Replace the judgments with the result of `change` while holding a lock. Return the new ones.

    Questions without judgments are removed. Raises StorageError, or UsageError if there is no index
    or there are too many questions.
    """
    if not paths.folder.is_dir():
        raise UsageError("There is no index yet: run `thumbindex index` before you judge answers.")
    with hold_lock(paths.folder / "judged.lock"), as_storage_errors(paths.folder):
        questions = tuple(q for q in change(list(read_judgments(paths))) if q.judgments)
        if len(questions) > MAX_QUESTIONS:
            raise UsageError(
                f"You have judged {MAX_QUESTIONS:,} questions, which is the maximum. Remove some "
                "judgments first."
            )
        rows = [
            {
                "query": question.query,
                "kind": question.kind,
                "places": [asdict(judgment) for judgment in question.judgments],
                "made": question.made,
            }
            for question in questions
        ]
        write_atomically(
            paths.judged, json.dumps({"judged": rows}, ensure_ascii=False, indent=1), durable=True
        )
        write_atomically(paths.judged_set, "".join(f"{line}\n" for line in labeled_set(questions)))
    return questions


def labeled_set(judged: Sequence[JudgedQuery]) -> list[str]:
    """Return the questions that have a relevant note, as JSON lines for `eval`."""
    lines = []
    for question in judged:
        if relevant := [_label(place) for place in question.judgments if place.grade > 0]:
            row = {
                "id": query_id(question.query),
                "query": question.query,
                "kind": question.kind,
                "relevant": relevant,
            }
            lines.append(json.dumps(row, ensure_ascii=False))
    return lines


def _label(place: RelevanceJudgment) -> dict[str, Any]:
    heading = {"heading": place.heading} if place.heading else {}
    return {"path": place.path, **heading, "grade": place.grade}


def remove_judgments(paths: IndexPaths, note_paths: Sequence[str]) -> None:
    """Remove all judgments of some notes. Questions without other judgments are also removed."""
    removed = set(note_paths)
    if any(j.path in removed for question in read_judgments(paths) for j in question.judgments):
        change_judgments(paths, lambda judged: [_without(query, removed) for query in judged])


def _without(judged: JudgedQuery, removed: set[str]) -> JudgedQuery:
    remaining = tuple(j for j in judged.judgments if j.path not in removed)
    return replace(judged, judgments=remaining)
