"""Measure the effect of each stage, or how well confidence detects queries without an answer.

    python tests/bench/ablate.py SET.jsonl --folder DIR
    python tests/bench/ablate.py SET.jsonl --folder DIR --off-topic tests/evaluation/off_topic.jsonl

The first command runs the labeled queries with one change at a time: a stage switched on or off, a
single retriever, another choice of a setting. The second also runs queries without an answer.
"""

from __future__ import annotations

import argparse
import json
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

# For the tests' shared modules.
sys.path.insert(0, str(Path(__file__).parents[1]))

from baseline import compare_runs
from stages import with_stages, without_stages
from thumbindex.cli.terminal import ProgressDisplay, print_tables
from thumbindex.config import load_config, settings_by_key
from thumbindex.errors import ThumbindexError
from thumbindex.evaluation.measures import MAIN_MEASURE, plain_path
from thumbindex.evaluation.queries import LabeledQuery, load_set
from thumbindex.evaluation.report import ReportTable, cost_of
from thumbindex.evaluation.runner import (
    RANKED_PASSAGES,
    Evaluation,
    QuerySource,
    check_labels,
    evaluate_all,
)
from thumbindex.library import Library
from thumbindex.settings import STAGE_NAMES, QuerySettings

# ------------------------------------------------------------------ ablation

Variants = Mapping[str, QuerySettings]
"""Settings with one change, by the name of the change."""


def variants(query: QuerySettings) -> Variants:
    """Return variants with one change: a stage switched, a retriever alone, another choice."""
    changed_settings: dict[str, QuerySettings] = {}
    for stage in STAGE_NAMES:
        if query.runs(stage):
            changed_settings[f"without {stage}"] = without_stages(query, stage)
        else:
            changed_settings[f"with {stage}"] = with_stages(query, stage)
    retrievers = [stage for stage in STAGE_NAMES if stage.startswith("search_")]
    for retriever in retrievers:
        alone = with_stages(without_stages(query, *retrievers), retriever)
        changed_settings[f"{retriever} alone"] = alone
    for key, choices in _choices().items():
        stage, _, name = key.partition(".")
        table = getattr(query, stage)
        for choice in choices:
            if choice != getattr(table, name):
                changed = replace(query, **{stage: replace(table, **{name: choice})})
                changed_settings[f"{key}={choice}"] = with_stages(changed, stage)
    return changed_settings


def _choices() -> Mapping[str, Sequence[str]]:
    """Return the choices of settings, by keys such as `fuse.method`."""
    return {
        key.removeprefix("query."): setting.choices
        for key, setting in settings_by_key().items()
        if key.startswith("query.") and key.count(".") == 2 and setting.choices
    }


def main_values(evaluations: Sequence[Evaluation]) -> list[float]:
    """Return the main measure of every query, in the order of the evaluations."""
    return [
        evaluation.measured[query.id][MAIN_MEASURE]
        for evaluation in evaluations
        for query in evaluation.queries
    ]


def ablation(
    sources: Sequence[QuerySource], changed: Variants, limit: int = RANKED_PASSAGES
) -> ReportTable:
    """Evaluate each variant, and compare it with the current settings."""
    with ProgressDisplay() as show:
        before = evaluate_all(sources, limit, show)
    base = main_values(before)
    costs = cost_of(before)
    rows = [("as configured", f"{sum(base) / len(base):.3f}", "", "", "", f"{costs.p50:.0f}")]
    notes = []
    for name, query in changed.items():
        print(name, file=sys.stderr)
        try:
            varied = [
                replace(source, library=source.library.with_query_settings(query))
                for source in sources
            ]
            after = evaluate_all(varied, limit)
        except ThumbindexError as error:
            notes.append(f"{name} was skipped: {error}")
            continue
        change = compare_runs(name, base, main_values(after))
        bounds = f"[{change.low:+.3f}, {change.high:+.3f}]"
        row = (name, f"{change.after:.3f}", f"{change.difference:+.3f}", bounds)
        rows.append((*row, change.verdict, f"{cost_of(after).p50:.0f}"))
    columns = ("configuration", MAIN_MEASURE, "difference", "95 % interval", "verdict", "p50 ms")
    return ReportTable("Each setting alone", columns, tuple(rows), tuple(notes))


# ------------------------------------------------------------------ confidence

THRESHOLDS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.55, 0.6, 0.7)
"""Confidence thresholds in the table of refused queries."""

TENTHS = range(10)


@dataclass(frozen=True, slots=True)
class Confidences:
    """Confidences of answers by kind of query."""

    answerable: Sequence[float]
    right: Sequence[float]  # answerable, and the first passage is labeled
    unanswerable: Mapping[str, Sequence[float]]  # by kind


def load_unanswerable(path: Path, corpora: Sequence[str] = ()) -> list[LabeledQuery]:
    """Read queries without an answer: `off-topic`, or `near-miss` of one of the corpora."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    return [
        LabeledQuery(
            str(row["id"]),
            row["query"],
            row["kind"],
            (),
            also=tuple(row.get("also", ())),
            passage=row.get("passage", ""),
        )
        for row in rows
        if not row.get("corpus") or row["corpus"] in corpora
    ]


def confidences(
    library: Library, answerable: Sequence[LabeledQuery], unanswerable: Sequence[LabeledQuery]
) -> Confidences:
    """Run all queries without refusing any."""
    settings = library.config.query
    no_cutoff = replace(settings.confidence, abstain_below=0.0, minimum_relevance=0.0)
    library = library.with_query_settings(replace(settings, confidence=no_cutoff))
    with_answer, right = [], []
    for query in answerable:
        answer = library.query(query.query, limit=1, **query.rewording)
        labeled = {plain_path(label.path) for label in query.relevant}
        with_answer.append(answer.confidence)
        if answer.passages and plain_path(answer.passages[0].path) in labeled:
            right.append(answer.confidence)
    without_answer: dict[str, list[float]] = {}
    for query in unanswerable:
        answer = library.query(query.query, limit=1, **query.rewording)
        without_answer.setdefault(query.kind, []).append(answer.confidence)
    return Confidences(with_answer, right, without_answer)


def below(values: Sequence[float], threshold: float) -> float:
    """Return the share of values below a threshold; 0 without values."""
    return sum(value < threshold for value in values) / len(values) if values else 0.0


def auc(higher: Sequence[float], lower: Sequence[float]) -> float:
    """Return the probability that a value of `higher` exceeds one of `lower`; ties count half (Mann
    & Whitney 1947).
    """
    ordered = sorted(lower)
    wins = sum(bisect_left(ordered, value) + bisect_right(ordered, value) for value in higher)
    return wins / (2 * len(higher) * len(lower))


def thresholds(name: str, measured: Confidences) -> ReportTable:
    """Return the shares of queries below each threshold, which it would refuse."""
    rows = []
    for threshold in THRESHOLDS:
        refused = [below(values, threshold) for values in measured.unanswerable.values()]
        shares = (below(measured.right, threshold), *refused)
        rows.append((f"below {threshold:.2f}", *(f"{share:.3f}" for share in shares)))
    notes = tuple(
        f"AUC, {len(measured.answerable)} answerable against {len(values)} {kind}: "
        f"{auc(measured.answerable, values):.4f}"
        for kind, values in measured.unanswerable.items()
    )
    return ReportTable(name, ("confidence", "right", *measured.unanswerable), tuple(rows), notes)


def reliability(name: str, measured: Confidences) -> ReportTable:
    """Return how often the first passage is relevant, by tenths of confidence."""
    unanswerable = [value for values in measured.unanswerable.values() for value in values]
    rows = []
    for tenth in TENTHS:
        answerable, right, none = (
            sum(min(int(value * 10), 9) == tenth for value in values)
            for values in (measured.answerable, measured.right, unanswerable)
        )
        if answerable or none:
            share = f"{right / answerable:.3f}" if answerable else "-"
            rows.append((f"{tenth / 10:.1f} and more", str(answerable), share, str(none)))
    columns = ("confidence", "answerable", "first passage right", "without an answer")
    return ReportTable(f"{name}: reliability", columns, tuple(rows))


# ------------------------------------------------------------------ the program


@contextmanager
def query_sources(arguments: argparse.Namespace) -> Iterator[list[QuerySource]]:
    """Index and open the folders, with models and the vocabulary of `expand`.

    A set called NAME.KIND.jsonl queries only the folder NAME, if it exists.
    """
    config = load_config(overrides=arguments.set)
    wide = replace(config, query=with_stages(config.query, "expand"))
    with Library.open(arguments.folder, index=arguments.index, config=wide) as library:
        with ProgressDisplay() as show:
            library.index(progress=show, after_others=True)
        library.load_models()
        sources = []
        for query_set in map(load_set, arguments.queries):
            has_folder = query_set.folder in dict(library.folders)
            view = library.only([query_set.folder]) if has_folder else library
            view = view.with_query_settings(config.query)
            sources.append(QuerySource(query_set.name, view, query_set.queries))
            check_labels(sources[-1])
        yield sources


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("queries", nargs="+", type=Path, metavar="SET.jsonl")
    parser.add_argument("--folder", action="append", required=True, metavar="DIR")
    parser.add_argument("--index", metavar="DIR", help="index directory")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--limit", type=int, default=RANKED_PASSAGES, help="passages per query")
    parser.add_argument("--off-topic", type=Path, metavar="FILE", help="queries without an answer")
    arguments = parser.parse_args()
    with query_sources(arguments) as sources:
        if not arguments.off_topic:
            changed = variants(sources[0].library.config.query)
            print_tables([ablation(sources, changed, arguments.limit)])
            return
        for source in sources:
            folders = [name for name, _ in source.library.folders]
            unanswerable = load_unanswerable(arguments.off_topic, folders)
            measured = confidences(source.library, source.queries, unanswerable)
            print_tables([thresholds(source.name, measured), reliability(source.name, measured)])


if __name__ == "__main__":
    main()
