"""Ranking measures, also compared with the scorer of the evaluation sets."""

import json
import random
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from evaluation.corpora import SHARED, needs_corpora
from thumbindex.evaluation.measures import (
    RankedPassage,
    by_kind,
    measure_run,
    score_query,
)
from thumbindex.evaluation.queries import Label, LabeledQuery, load_queries


def query_for(*relevant: Label, ignore: tuple[str, ...] = ()) -> LabeledQuery:
    return LabeledQuery("q", "text", "question", relevant, ignore)


def ranked(*places: str) -> tuple[RankedPassage, ...]:
    return tuple(
        RankedPassage(path, tuple(headings.split(" > ")) if headings else ())
        for path, _, headings in (place.partition("#") for place in places)
    )


def test_relevant_document_at_rank_1_scores_1() -> None:
    measured = score_query(query_for(Label("a.md", None, 2)), ranked("a.md"))
    assert measured == {"nDCG@10": 1.0, "MRR@10": 1.0, "R@5": 1.0, "R@10": 1.0, "S@1": 1.0}


def test_ranks_start_at_1() -> None:
    measured = score_query(query_for(Label("b.md", None, 2)), ranked("a.md", "b.md"))
    assert (measured["MRR@10"], measured["S@1"], round(measured["nDCG@10"], 4)) == (
        0.5,
        0.0,
        0.6309,
    )


def test_grade_2_weighs_three_times_grade_1() -> None:
    labels = (Label("a.md", None, 2), Label("b.md", None, 1))
    swapped = score_query(query_for(*labels), ranked("b.md", "a.md"))["nDCG@10"]
    assert swapped == pytest.approx((1 + 3 * 0.63093) / (3 + 1 * 0.63093), abs=1e-4)


def test_ignored_path_is_removed_unless_labeled() -> None:
    label = Label("b.md", None, 2)
    assert score_query(query_for(label, ignore=("a.md",)), ranked("a.md", "b.md"))["S@1"] == 1.0
    assert score_query(query_for(label, ignore=("b.md",)), ranked("b.md"))["S@1"] == 1.0


def test_section_measures_match_headings_without_markup() -> None:
    query = query_for(Label("a.md", "Set `up` [sync](x.md)", 2))
    measured = score_query(query, ranked("a.md#A > Other", "a.md#A > set up sync > Deeper"))
    assert (measured["sec@1"], measured["sec@3"], measured["sec@10"]) == (0.0, 1.0, 1.0)


def test_query_missing_from_the_run_scores_0() -> None:
    assert measure_run({}, [query_for(Label("a.md", None, 2))])["q"]["nDCG@10"] == 0.0


@needs_corpora
@pytest.mark.parametrize("with_headings", [True, False])
def test_measures_equal_those_of_the_shared_scorer(tmp_path: Path, with_headings: bool) -> None:
    sets = [
        SHARED / "queries" / "dev" / name
        for name in ("devdocs.auto.jsonl", "obsidian-help.manual.jsonl")
    ]
    (tmp_path / "queries.jsonl").write_text(
        "".join(file.read_text(encoding="utf-8") for file in sets), encoding="utf-8"
    )
    queries = load_queries(tmp_path / "queries.jsonl")
    run = _random_run(queries, with_headings)
    rows = (
        {"id": id_, "results": [asdict(passage) for passage in passages]}
        for id_, passages in run.items()
    )
    (tmp_path / "run.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    command = [
        sys.executable,
        str(SHARED / "score.py"),
        str(tmp_path / "run.jsonl"),
        str(tmp_path / "queries.jsonl"),
        "--json",
    ]
    expected = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    measured = measure_run(run, queries)
    scores, counts = by_kind([(query.kind, measured[query.id]) for query in queries])
    assert {
        kind: {"n": counts[kind], **{m: round(v, 4) for m, v in means.items()}}
        for kind, means in scores.items()
    } == expected


def _random_run(
    queries: tuple[LabeledQuery, ...], with_headings: bool
) -> dict[str, tuple[RankedPassage, ...]]:
    generator = random.Random(7)
    labels = [label for query in queries for label in query.relevant]
    run = {}
    for query in queries[:-3]:
        places = generator.sample([*query.relevant, *generator.sample(labels, 12)], 9)
        run[query.id] = tuple(
            RankedPassage(place.path, ("Title", place.heading or "Other") if with_headings else ())
            for place in places
        )
    return run
