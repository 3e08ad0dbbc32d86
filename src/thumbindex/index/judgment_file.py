"""The owner's judgments of answers: a file beside the index that no rebuild touches, and the same
judgments as the labeled set that `eval` reads.
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
"""Maximum judged questions."""


def read_judgments(paths: IndexPaths) -> tuple[JudgedQuery, ...]:
    """Return all judgments, the oldest first.

    Raises StorageError if the file cannot be read; it is not overwritten then.
    """
    path = paths.judged
    try:
        return tuple(_judged(each) for each in json.loads(read_with_retry(path))["judged"])
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise storage_error(path.parent, error) from error
    # Not IndexDamagedError, after which an index is rebuilt: judgments cannot be.
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(
            f"{path}: what was judged cannot be read ({error}): mend the file, or move it "
            "away to begin anew."
        ) from error


def _judged(row: dict[str, Any]) -> JudgedQuery:
    judged = tuple(
        RelevanceJudgment(str(each["path"]), str(each["heading"]), int(each["grade"]))
        for each in row["places"]
    )
    return JudgedQuery(str(row["query"]), str(row["kind"]), judged, str(row["made"]))


def change_judgments(
    paths: IndexPaths, change: Callable[[list[JudgedQuery]], Sequence[JudgedQuery]]
) -> tuple[JudgedQuery, ...]:
    """Change the judgments, one process at a time; return them.

    Raises StorageError, and UsageError if there would be too many.
    """
    if not paths.folder.is_dir():
        raise UsageError("There is no index yet: what is judged is kept beside it.")
    with hold_lock(paths.folder / "judged.lock"), as_storage_errors(paths.folder):
        kept = tuple(each for each in change(list(read_judgments(paths))) if each.judgments)
        if len(kept) > MAX_QUESTIONS:
            raise UsageError(
                f"{MAX_QUESTIONS:,} questions are judged: take some out before others are added."
            )
        rows = [
            {
                "query": each.query,
                "kind": each.kind,
                "places": [asdict(judgment) for judgment in each.judgments],
                "made": each.made,
            }
            for each in kept
        ]
        write_atomically(
            paths.judged, json.dumps({"judged": rows}, ensure_ascii=False, indent=1), durable=True
        )
        write_atomically(paths.judged_set, "".join(f"{line}\n" for line in labeled_set(kept)))
    return kept


def labeled_set(judged: Sequence[JudgedQuery]) -> list[str]:
    """Return the questions with a relevant note, as lines of JSON for `eval`."""
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
    """Remove the judgments of some notes, and the questions that only they answered."""
    gone = set(note_paths)
    if any(one.path in gone for judgment in read_judgments(paths) for one in judgment.judgments):
        change_judgments(paths, lambda judged: [_without(each, gone) for each in judged])


def _without(judged: JudgedQuery, gone: set[str]) -> JudgedQuery:
    kept = tuple(judgment for judgment in judged.judgments if judgment.path not in gone)
    return replace(judged, judgments=kept)
