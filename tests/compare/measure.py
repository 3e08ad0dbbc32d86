"""What is measured of a tool on one folder: its index, its start, its answers as typed and with
rewordings, names, and hostile notes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, quantiles
from typing import Any

from bench.load import descendants_seconds
from compare.driver import (
    GivenUpError,
    Place,
    Reply,
    Session,
    Tool,
    Watch,
    make_index,
    session,
    tokens_of,
)
from compare.hostile import ask_hostile, settle, write_hostile
from servers import children_of
from thumbindex.index.files import size_of
from thumbindex.study.compare import interval_of
from thumbindex.study.measures import MAIN, RankedPassage, score_query
from thumbindex.study.queries import LabeledQuery

DEPTH = 20
"""Results that each tool is asked for where quality is measured: ten documents are scored, and some
rank several passages of one.
"""

RRF_K = 60
"""Of reciprocal rank fusion (Cormack 2009), where a tool takes one text and the rewordings are
asked one by one.
"""

INDEX_SECONDS = 1200.0
"""The longest an index may take, and a tool's questions of one folder, each: longer than a call's
limit for each hostile note.
"""

HOSTILE_SECONDS = 600.0
"""The same of the hostile notes, of which some hang a tool: a call may take a minute, and there are
thirteen.
"""


@dataclass(frozen=True, slots=True)
class Questions:
    """What is asked of a folder: labeled questions, the same with rewordings, and names."""

    typed: Sequence[LabeledQuery]
    reworded: Sequence[LabeledQuery]
    names: Sequence[LabeledQuery]
    source: str = ""  # where they are from, in words


def drawn(queries: Sequence[LabeledQuery], most: int) -> list[LabeledQuery]:
    """Return up to so many, chosen by a digest of their ids: the same ones each time."""
    return sorted(queries, key=lambda each: hashlib.sha256(each.id.encode()).digest())[:most]


def measure(tool: Tool, place: Place, questions: Questions, state: str = "") -> dict[str, Any]:
    """Index, unless this state of notes and tool has an index, and ask; return a record.

    What could not be done stands in it under `given up`.
    """
    record: dict[str, Any] = {"tool": tool.name}
    try:
        record["index"] = indexed(tool, place, state)
        with Watch() as watch:
            record |= asyncio.run(_in_time(_ask_all(tool, place, questions, watch), INDEX_SECONDS))
        record["memory"] = watch.most
        record["index"]["bytes"] = size_of(place.home)
    except GivenUpError as reason:
        record["given up"] = without_places(str(reason), place)
    end_what_was_left()
    return record


def measure_hostile(tool: Tool, place: Place) -> dict[str, str]:
    """Index the hostile notes beside ordinary ones and ask for each."""
    for folder in (place.notes.parent, place.home):
        shutil.rmtree(folder, ignore_errors=True)
    place.home.mkdir(parents=True)
    write_hostile(place.notes, place.notes.parent / "outside")

    found: dict[str, str] = {}

    async def ask() -> dict[str, str]:
        async with session(tool, place, place.home / "log") as opened:
            await ask_hostile(opened, found)
        return found

    try:
        make_index(tool, place, HOSTILE_SECONDS)
        asyncio.run(_in_time(ask(), HOSTILE_SECONDS))
    except GivenUpError as reason:
        found["given up"] = without_places(str(reason), place)
    end_what_was_left()
    return settle(found)


def without_places(reason: str, place: Place) -> str:
    """Return what a tool said without where this machine keeps it: the page is for others."""
    for folder, name in ((place.notes, "NOTES"), (place.home, "HOME"), (place.programs, "TOOL")):
        reason = reason.replace(str(folder), name)
    return reason


def indexed(tool: Tool, place: Place, state: str) -> dict[str, Any]:
    """Make the index, unless one of the same notes by the same tool is there; return when, and the
    seconds and the processor's seconds it took.
    """
    kept = _kept(tool, place)
    if tool.index(place) and kept.exists():
        found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        if found["state"] == state:
            return found
    drop_index(tool, place)
    place.home.mkdir(parents=True)
    found = {"state": state, "made": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"}
    start, before = time.perf_counter(), _processor_of_tools()
    make_index(tool, place, INDEX_SECONDS)
    if tool.index(place):
        found |= {
            "seconds": time.perf_counter() - start,
            "processor": _processor_of_tools() - before,
        }
        kept.write_text(json.dumps(found), encoding="utf-8")
    return found


def drop_index(tool: Tool, place: Place) -> None:
    """Have a tool begin with an empty home."""
    _kept(tool, place).unlink(missing_ok=True)
    shutil.rmtree(place.home, ignore_errors=True)


def _kept(tool: Tool, place: Place) -> Path:
    return place.home.parent / f"{tool.name}.index.json"


async def _in_time(asking: Any, seconds: float) -> dict[str, Any]:
    try:
        async with asyncio.timeout(seconds):
            return dict(await asking)
    except TimeoutError:
        raise GivenUpError(f"not done with all questions after {seconds:.0f} s") from None


async def _ask_all(tool: Tool, place: Place, questions: Questions, watch: Watch) -> dict[str, Any]:
    start, before = time.perf_counter(), _processor_of_tools()
    async with session(tool, place, place.home / "log") as opened:
        if (reply := (await opened.ask(questions.typed[0]))[0]).is_error:
            raise GivenUpError(f"it answers with an error: {reply.text[:200]}")
        first, first_processor = time.perf_counter() - start, _processor_of_tools() - before
        record: dict[str, Any] = {"first": {"seconds": first, "processor": first_processor}}
        seconds, tokens, default, found = [], [], [], {}
        before = _processor_of_tools()
        for query in questions.typed:
            reply, took = await opened.ask(query)
            seconds.append(took)
            tokens.append(tokens_of(reply))
            default.append(_score(query, tool, place, reply))
        record["calls"] = {
            "seconds": seconds,
            "processor": (_processor_of_tools() - before) / len(seconds),
            "tokens": tokens,
        }
        for query in questions.typed:
            found[query.id] = tool.paths(place, (await opened.ask(query, DEPTH))[0])
        record["typed"] = {
            "default": default,
            "deep": [score_query(query, found[query.id])[MAIN] for query in questions.typed],
        }
        record["nothing"] = sum(not each for each in found.values())
        record["reworded"] = await _ask_reworded(opened, questions.reworded, found)
        record["names"] = [
            float(_score(query, tool, place, (await opened.ask(query))[0], "S@1"))
            for query in questions.names
        ]
        watch.look()
    return record


async def _ask_reworded(
    opened: Session, queries: Sequence[LabeledQuery], typed: dict[str, list[RankedPassage]]
) -> dict[str, list[float]]:
    """Ask with rewordings: given as they are to a tool that takes them; to others as one long text,
    and one by one with the ranks fused.
    """
    tool, place = opened.tool, opened.place
    if tool.takes_rewordings:
        return {
            "given": [
                _score(query, tool, place, (await opened.ask(query, DEPTH))[0]) for query in queries
            ]
        }
    joined, fused = [], []
    for query in queries:
        texts = [query.query, *query.also, *([query.passage] if query.passage else [])]
        joined.append(
            _score(
                query,
                tool,
                place,
                (await opened.ask(replace(query.as_typed, query=" ".join(texts)), DEPTH))[0],
            )
        )
        lists = [typed[query.id]] if query.id in typed else []
        for text in texts[len(lists) :]:
            lists.append(
                tool.paths(place, (await opened.ask(replace(query.as_typed, query=text), DEPTH))[0])
            )
        fused.append(score_query(query, fuse(lists))[MAIN])
    return {"as one text": joined, "one by one": fused}


def fuse(lists: Sequence[Sequence[RankedPassage]]) -> list[RankedPassage]:
    """Fuse rankings of documents by reciprocal ranks."""
    scores: dict[str, float] = defaultdict(float)
    for found in lists:
        for rank, path in enumerate(dict.fromkeys(each.path for each in found), start=1):
            scores[path] += 1 / (RRF_K + rank)
    return [RankedPassage(path, ()) for path in sorted(scores, key=lambda path: -scores[path])]


def _score(
    query: LabeledQuery, tool: Tool, place: Place, reply: Reply, measured: str = MAIN
) -> float:
    return score_query(query, tool.paths(place, reply))[measured]


def summary(record: dict[str, Any]) -> dict[str, Any]:
    """Return what the table shows of a record, all of it made of what was measured."""
    if "typed" not in record:
        return {"given up": record.get("given up", "not asked")}
    seconds = record["calls"]["seconds"]
    reworded = {way: interval_of(values) for way, values in record["reworded"].items() if values}
    way = max(reworded, key=lambda each: reworded[each].mean, default="")
    return {
        "typed": interval_of(record["typed"]["deep"]),
        "default": interval_of(record["typed"]["default"]),
        "reworded": reworded.get(way),
        "way": way,
        "names": interval_of(record["names"]) if record["names"] else None,
        "nothing": record["nothing"],
        "first": record["first"],
        "p50": 1000 * quantiles(seconds, n=20, method="inclusive")[9],
        "p95": 1000 * quantiles(seconds, n=20, method="inclusive")[18],
        "processor": 1000 * record["calls"]["processor"],
        "tokens": mean(record["calls"]["tokens"]),
        "memory": record["memory"] / 1e6,
        "index": record["index"],
    }


def end_what_was_left() -> None:
    """End what a tool has left running: each is known to have been started from here."""
    for each in children_of(os.getpid()):
        with suppress(OSError):
            os.kill(each, 9)
            os.waitpid(each, 0)


def _processor_of_tools() -> float:
    """Return the processor's seconds of all processes below this one, those that have ended among
    them: a tool's call may start a program.
    """
    return descendants_seconds() - time.process_time()
