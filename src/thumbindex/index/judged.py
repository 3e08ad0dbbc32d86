"""What the owner judged of answers: it cannot be made anew, so it is a plain file beside the index,
written whole, and no rebuild touches it.

Beside it stand the same judgments as the set that `eval` reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from thumbindex.errors import StorageError, UsageError
from thumbindex.index.files import Places, read_shared, storage_error, write_whole, writing
from thumbindex.index.locks import locked
from thumbindex.model import JudgedQuery, RelevanceJudgment
from thumbindex.text import query_id

MOST_QUESTIONS = 10_000
"""That are kept: more than anybody judges by hand."""


def read_judged(places: Places) -> tuple[JudgedQuery, ...]:
    """Return what was judged, the oldest first.

    Raises StorageError where the file cannot be read: it is never written over then.
    """
    path = places.judged
    try:
        return tuple(_judged(each) for each in json.loads(read_shared(path))["judged"])
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise storage_error(path.parent, error) from error
    # No IndexDamagedError, after which an index is built anew: of this there is nothing to build it
    # from.
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


def change_judged(
    places: Places, change: Callable[[list[JudgedQuery]], Sequence[JudgedQuery]]
) -> tuple[JudgedQuery, ...]:
    """Change what was judged, one process after the other; return what is kept.

    Raises StorageError, UsageError where it would be too much.
    """
    if not places.folder.is_dir():
        raise UsageError("There is no index yet: what is judged is kept beside it.")
    with locked(places.folder / "judged.lock"), writing(places.folder):
        kept = tuple(each for each in change(list(read_judged(places))) if each.places)
        if len(kept) > MOST_QUESTIONS:
            raise UsageError(
                f"{MOST_QUESTIONS:,} questions are judged: take some out before others are added."
            )
        rows = [
            {**asdict(each), "places": [asdict(place) for place in each.places]} for each in kept
        ]
        write_whole(
            places.judged, json.dumps({"judged": rows}, ensure_ascii=False, indent=1), durable=True
        )
        write_whole(places.judged_set, "".join(f"{line}\n" for line in set_lines(kept)))
    return kept


def set_lines(judged: Sequence[JudgedQuery]) -> list[str]:
    """Return the questions that some note answers, as `eval` reads them."""
    lines = []
    for question in judged:
        if relevant := [_label(place) for place in question.places if place.grade > 0]:
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


def forget_judged(places: Places, paths: Sequence[str]) -> None:
    """Take out what was judged of notes that may not be named any more, and the questions that only
    they answered.
    """
    gone = set(paths)
    if any(one.path in gone for each in read_judged(places) for one in each.places):
        change_judged(places, lambda judged: [_without(each, gone) for each in judged])


def _without(judged: JudgedQuery, gone: set[str]) -> JudgedQuery:
    return replace(judged, places=tuple(each for each in judged.places if each.path not in gone))
