"""Judge: thumbs at answers become questions that `eval` and `tune` ask; what they find is shown,
and nothing is applied by itself.
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from thumbindex.errors import UsageError
from thumbindex.model import Judged, JudgedPlace
from thumbindex.serve.as_json import as_json
from thumbindex.serve.opening import Opening
from thumbindex.serve.page.runs import Run, Runs
from thumbindex.serve.page.visit import (
    Done,
    Download,
    NotAllowedError,
    Screen,
    Visit,
    address,
    note_address,
    own_address,
)
from thumbindex.settings import LONGEST_QUERY
from thumbindex.text import query_id

RUNS = Runs()
"""Of this process: its server serves one set of folders."""

LEAST_QUERIES = 30
"""From so many questions on tuning decides (`study.tune.LEAST_QUERIES`; a test compares the
two).
"""

GRADES = {"2": "answers", "1": "helps", "0": "does not"}

_PAGE = 100

_DRAWS = 1_000

_WORST = 10
"""Questions that are named."""

_SIDE = 260
"""Pixels of the picture of two runs."""


def show(visit: Visit) -> Screen:
    """List what was judged, and what the last runs found."""
    judged = {folder: each for folder, each in visit.library.judgments().all().items() if each}
    names = [name for name, _ in visit.library.folders]
    folder = visit.text("folder") or next(iter(judged), names[0] if names else "")
    if folder and folder not in names:
        raise UsageError(f"There is no folder {folder!r}.")
    own = judged.get(folder, ())
    page = visit.number("page", 1, 1, 10_000)
    part = list(reversed(own))[(page - 1) * _PAGE : page * _PAGE]
    runs = visit.library.judgments().runs(folder) if folder and visit.may_write else ()
    evaluated, tuned = (
        RUNS.last(name, folder) if visit.may_write else None for name in ("eval", "tune")
    )
    commands = _commands(visit, folder)
    pages = -(-len(own) // _PAGE)
    results: dict[str, Any] = {"quality": (), "worst": (), "ablation": ()}
    if runs:
        last = runs[0]["result"]
        results["quality"] = _quality(last, own)
        results["worst"] = _worst(last, own, folder)
        results["ablation"] = _ablation(last)
    numbers = range(1, pages + 1) if pages > 1 else ()
    values: dict[str, Any] = {
        "folder": folder,
        "folders": [
            (name, len(judged.get(name, ())), address("judge", folder=name)) for name in names
        ],
        "entries": [_entry(folder, each) for each in part],
        "pages": [(n, address("judge", folder=folder, page=n)) for n in numbers],
        "page": page,
        "questions": sum(
            not each.nothing and any(place.grade for place in each.places) for each in own
        ),
        "nothings": sum(each.nothing for each in own),
        "least": LEAST_QUERIES,
        "grades": GRADES,
        "runs": [_from_here(each, visit) for each in (evaluated, tuned) if each],
        "busy": _busy(visit),
        "is_taken": visit.may_write and RUNS.busy() is not None,
        **results,
        "compared": _compared(runs, own) if len(runs) > 1 else None,
        "verdict": tuned.result if tuned and tuned.state == "done" else None,
        "tried": _tried(tuned.result) if tuned and tuned.state == "done" and tuned.result else (),
        "commands": commands,
        "command": f"{commands['eval']}\n{commands['tune']}",
    }

    def twin() -> dict[str, Any]:
        """Return all of it but where things are drawn."""
        same = (
            "folder",
            "page",
            "questions",
            "nothings",
            "least",
            "is_taken",
            "verdict",
            "commands",
        )
        drawn = {name: values[name] for name in ("quality", "ablation", "tried")}
        drawn["compared"] = values["compared"]["dots"] if values["compared"] else ()
        worst = [
            {"query": text, "address": href, "score": score}
            for text, href, score in values["worst"]
        ]
        return {
            **{name: values[name] for name in same},
            "folders": {name: len(judged.get(name, ())) for name in names},
            "pages": max(1, pages),
            "judged": [as_json(each) for each in part],
            "runs": [_run(each) for each in values["runs"]],
            "busy": _run(values["busy"]) if values["busy"] else None,
            "worst": worst,
            **{name: [_undrawn(row) for row in rows] for name, rows in drawn.items()},
        }

    return Screen("Judge", values, twin)


def _run(run: Run) -> dict[str, Any]:
    return {
        name: getattr(run, name) for name in ("name", "folder", "began", "state", "said", "seconds")
    }


def _undrawn(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a picture without where it is drawn."""
    return {
        name: value
        for name, value in row.items()
        if name not in {"x", "y", "width"} and not name.endswith("_x")
    }


def _busy(visit: Visit) -> Run | None:
    """Return the run that is under way, where the visitor may judge and sees its folder."""
    run = RUNS.busy()
    if run and visit.may_write and run.folder in dict(visit.library.folders):
        return _from_here(run, visit)
    return None


def _from_here(run: Run, visit: Visit) -> Run:
    """Return a run as a visitor may see it: its words name places of the disk."""
    return run if visit.is_near else replace(run, said="")


def _entry(folder: str, judged: Judged) -> Mapping[str, Any]:
    return {
        "query": judged.query,
        "ask": address("ask", q=judged.query),
        "kind": judged.kind,
        "nothing": judged.nothing,
        "made": judged.made[:16].replace("T", " "),
        "places": [_judged_place(folder, each) for each in judged.places],
    }


def _judged_place(folder: str, place: JudgedPlace) -> Mapping[str, str]:
    anchor = address("", heading=place.heading)[1:] if place.heading else ""
    return {
        "href": note_address(folder, place.path) + anchor,
        "words": f"{place.path}#{place.heading}" if place.heading else place.path,
        "path": place.path,
        "heading": place.heading,
        "grade": str(place.grade),
    }


def _commands(visit: Visit, folder: str) -> Mapping[str, str]:
    """Return the commands that do the same; their paths are for who is on this machine."""
    places = {each.name: each.places for each in visit.library.opened}
    if not visit.is_near or folder not in places:
        return {
            "eval": "thumbindex eval judged.jsonl",
            "tune": "thumbindex tune --queries judged.jsonl",
            "undo": "thumbindex tune --undo",
        }
    own, options = str(places[folder].judged_set), visit.options([folder])
    return {
        "eval": shlex.join(["thumbindex", "eval", own, *options]),
        "tune": shlex.join(["thumbindex", "tune", "--queries", own, *options]),
        "undo": shlex.join(["thumbindex", "tune", "--undo", *options]),
    }


# ------------------------------------------------------------------ what is judged


def mark(visit: Visit) -> Done:
    """Keep what a passage is to a question, or take that back."""
    query, folder, path = (
        visit.text("query", LONGEST_QUERY),
        visit.text("folder"),
        visit.text("path"),
    )
    given = visit.choice("grade", ("2", "1", "0", "take_back"))
    grade = None if given == "take_back" else int(given)
    if not path or not folder:
        raise UsageError("Which passage? Its folder or path is missing.")
    kept = visit.library.judgments().judge(
        query, path, visit.text("heading"), grade, folder=folder, kind=_kind(visit)
    )
    return Done(
        _back(visit, folder),
        {
            "query": kept.query,
            "places": as_json(kept.places),
            "grade": grade,
            "nothing": kept.nothing,
        },
    )


def nothing(visit: Visit) -> Done:
    """Keep that the notes do not hold an answer, in each folder that was asked, or take that
    back.
    """
    query, folders = (
        visit.text("query", LONGEST_QUERY),
        visit.texts("folder") or tuple(name for name, _ in visit.library.folders),
    )
    holds_nothing = visit.choice("grade", ("nothing", "take_back")) == "nothing"
    for folder in folders:
        visit.library.judgments().judge_nothing(
            query, folder=folder, kind=_kind(visit), holds_nothing=holds_nothing
        )
    return Done(
        _back(visit, folders[0] if folders else ""), {"query": query, "nothing": holds_nothing}
    )


def take_out(visit: Visit) -> Done:
    """Take a question out, with all that was judged of it."""
    folder = visit.text("folder")
    visit.library.judgments().take_out(visit.text("query", LONGEST_QUERY), folder=folder)
    return Done(_back(visit, folder), {})


def _kind(visit: Visit) -> str:
    return visit.text("kind")[:40]


def _back(visit: Visit, folder: str) -> str:
    target = own_address(visit.text("back", 2 * LONGEST_QUERY))
    return target if target != "/" else address("judge", folder=folder)


def export(visit: Visit) -> Download:
    """Hand out the set of a folder, as `eval` and `tune` read it."""
    if not visit.may_write:
        raise NotAllowedError(
            "Judgments are handed out to those who may judge (`serve.http.writers`)."
        )
    folder = visit.text("folder") or next(iter(dict(visit.library.folders)), "")
    return Download(
        "judged.jsonl",
        "application/x-ndjson",
        visit.library.judgments().set_of(folder).encode("utf-8", "replace"),
    )


# ------------------------------------------------------------------ runs


def evaluate(visit: Visit) -> Done:
    """Start `eval` of a folder's set in a process of its own."""
    folder, opening = _asked(visit)
    places = {each.name: each.places for each in visit.library.opened}[folder]
    if not places.judged_set.exists() or not places.judged_set.stat().st_size:
        raise UsageError("No question has an answer yet: judge some first, on Ask.")
    more = []
    if places.judged_nothing.exists() and places.judged_nothing.stat().st_size:
        more += ["--off-topic", str(places.judged_nothing)]
    if visit.has("ablate"):
        more.append("--ablate")
    judgments = visit.library.judgments()

    def keep(run: Run) -> None:
        judgments.keep_run(folder, {"made": run.began, "result": run.result})

    RUNS.start(
        "eval",
        folder,
        ["eval", str(places.judged_set), "--json", *more, *opening.arguments()],
        keep,
    )
    return Done(address("judge", folder=folder), {"started": "eval"})


def tune(visit: Visit) -> Done:
    """Start `tune --dry-run` of a folder in a process of its own: it decides, and keeps nothing."""
    folder, opening = _asked(visit)
    places = {each.name: each.places for each in visit.library.opened}[folder]
    given = (
        ["--queries", str(places.judged_set)]
        if places.judged_set.exists() and places.judged_set.stat().st_size
        else []
    )
    RUNS.start("tune", folder, ["tune", "--dry-run", "--json", *given, *opening.arguments()])
    return Done(address("judge", folder=folder), {"started": "tune"})


def stop(visit: Visit) -> Done:
    """Stop the run that is under way, where it is of a folder that the visitor sees."""
    if _busy(visit):
        RUNS.stop()
    return Done(address("judge", folder=visit.text("folder")), {"stopped": True})


def _asked(visit: Visit) -> tuple[str, Opening]:
    """Return the folder of a run, and how a command of its own opens it."""
    folder, roots = visit.text("folder"), dict(visit.library.folders)
    if folder not in roots:
        raise UsageError("Which folder? Its name is missing, or there is none of that name.")
    own = visit.background.opening
    return folder, Opening((str(roots[folder]),), own.index, own.config, own.overrides)


# ------------------------------------------------------------------ pictures


def _by_query(result: Mapping[str, Any]) -> dict[str, float]:
    return {
        str(id_): float(score)
        for one in result.get("sets", ())
        for id_, score in one.get("by_query", {}).items()
    }


def _quality(result: Mapping[str, Any], judged: Sequence[Judged]) -> list[Mapping[str, Any]]:
    """Return nDCG@10 of all questions and of each kind, with the bounds of 95 of 100 draws."""
    scores, kinds = (
        _by_query(result),
        {query_id(each.query): each.kind or "unknown" for each in judged},
    )
    groups: dict[str, list[float]] = {"all": list(scores.values())}
    for id_, score in scores.items():
        groups.setdefault(kinds.get(id_, "taken out since"), []).append(score)
    rows: list[Mapping[str, Any]] = []
    for kind, values in groups.items():
        (low, high), mean = _interval(values), _mean(values)
        drawn = {
            f"{name}_x": round(200 * value, 1)
            for name, value in (("mean", mean), ("low", low), ("high", high))
        }
        rows.append(
            {"kind": kind, "n": len(values), "mean": mean, "low": low, "high": high, **drawn}
        )
    return rows if scores else []


def _worst(
    result: Mapping[str, Any], judged: Sequence[Judged], folder: str
) -> list[tuple[str, str, float]]:
    """Return the questions whose answers were furthest from what was judged, each with the address
    that asks it as the run did.
    """
    scores, texts = _by_query(result), {query_id(each.query): each.query for each in judged}
    missed = sorted(
        (score, texts[id_]) for id_, score in scores.items() if id_ in texts and score < 1
    )
    return [(text, address("ask", q=text, folder=folder), score) for score, text in missed[:_WORST]]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """Return between what the mean lies in 95 of 100 draws of the questions (bootstrap)."""
    if not values:
        return 0.0, 0.0
    drawn = random.Random(0)
    means = sorted(_mean(drawn.choices(values, k=len(values))) for _ in range(_DRAWS))
    return means[int(0.025 * len(means))], means[min(len(means) - 1, int(0.975 * len(means)))]


def _compared(
    runs: Sequence[Mapping[str, Any]], judged: Sequence[Judged]
) -> Mapping[str, Any] | None:
    """Return the questions of two runs as dots, each where it was before and is now."""
    now, before = _by_query(runs[0]["result"]), _by_query(runs[1]["result"])
    texts = {query_id(each.query): each.query for each in judged}
    both = [id_ for id_ in now if id_ in before]
    dots: list[dict[str, Any]] = [
        {
            "x": round(20 + (_SIDE - 40) * before[id_], 1),
            "y": round(_SIDE - 20 - (_SIDE - 40) * now[id_], 1),
            "query": texts.get(id_, id_),
            "ask": address("ask", q=texts[id_]) if id_ in texts else "",
            "before": before[id_],
            "now": now[id_],
            "moved": round(now[id_] - before[id_], 4),
        }
        for id_ in both
    ]
    if not dots:
        return None
    moved = sorted((each for each in dots if each["moved"]), key=lambda each: each["moved"])
    return {
        "side": _SIDE,
        "dots": dots,
        "moved": moved,
        "better": sum(each["moved"] > 0 for each in moved),
        "worse": sum(each["moved"] < 0 for each in moved),
    }


def _ablation(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what each switched stage changed, as bars."""
    found = [(each["name"], each.get("difference")) for each in result.get("ablation", ())]
    return _bars(
        [(name, each["difference"], each["low"], each["high"]) for name, each in found if each]
    )


def _tried(verdict: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what each setting that `tune` tried would change by itself, as bars."""
    return _bars([(each["name"], *each["gain"]) for each in verdict.get("tried", ())])


def _bars(found: Sequence[tuple[str, float, float, float]]) -> list[Mapping[str, Any]]:
    """Return differences with their intervals as bars, the worst first; one whose interval holds 0
    is noise.
    """
    most = (
        max((abs(bound) for _, _, low, high in found for bound in (low, high)), default=0.0) or 1.0
    )
    rows = [
        {
            "name": name,
            "mean": mean,
            "low": low,
            "high": high,
            "is_noise": low <= 0 <= high,
            "x": round(100 + 95 * min(0.0, mean) / most, 1),
            "width": round(95 * abs(mean) / most, 1),
        }
        for name, mean, low, high in found
    ]
    return sorted(rows, key=lambda row: float(row["mean"]))
