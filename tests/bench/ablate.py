"""What each stage is worth, and how far confidence tells what has no answer.

    python tests/bench/ablate.py SET.jsonl --folder DIR
    python tests/bench/ablate.py SET.jsonl --folder DIR --off-topic tests/evaluation/off_topic.jsonl

The first asks the labeled queries again with one thing changed: a stage switched, a retriever
alone, another choice of a setting. The second asks queries without an answer, too.
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

# The shared modules of the tests lie one folder up.
sys.path.insert(0, str(Path(__file__).parents[1]))

from stages import with_stages, without_stages
from thumbindex.cli.terminal import ProgressDisplay, print_tables
from thumbindex.config import load_config, settings_by_key
from thumbindex.errors import ThumbindexError
from thumbindex.evaluation.baseline import compare_runs, main_values
from thumbindex.evaluation.measures import MAIN_MEASURE, plain_path
from thumbindex.evaluation.queries import LabeledQuery, load_set
from thumbindex.evaluation.report import ReportTable, cost_of, verdict_of
from thumbindex.evaluation.runner import RANKED_PASSAGES, QuerySource, check_labels, evaluate_all
from thumbindex.library import Library
from thumbindex.settings import STAGE_NAMES, QuerySettings

# ------------------------------------------------------------------ what each stage is worth

Variants = Mapping[str, QuerySettings]
"""Settings with one thing changed, by a name that says which."""


def variants(query: QuerySettings) -> Variants:
    """Return every stage switched, every retriever alone, and every other choice of a setting."""
    found: dict[str, QuerySettings] = {}
    for stage in STAGE_NAMES:
        if query.runs(stage):
            found[f"without {stage}"] = without_stages(query, stage)
        else:
            found[f"with {stage}"] = with_stages(query, stage)
    retrievers = [stage for stage in STAGE_NAMES if stage.startswith("search_")]
    for one in retrievers:
        found[f"{one} alone"] = with_stages(without_stages(query, *retrievers), one)
    for key, choices in _choices().items():
        stage, _, name = key.partition(".")
        table = getattr(query, stage)
        for choice in choices:
            if choice != getattr(table, name):
                changed = replace(query, **{stage: replace(table, **{name: choice})})
                found[f"{key}={choice}"] = with_stages(changed, stage)
    return found


def _choices() -> Mapping[str, Sequence[str]]:
    """Return what can be chosen, by keys such as `fuse.method`."""
    return {
        key.removeprefix("query."): each.choices
        for key, each in settings_by_key().items()
        if key.startswith("query.") and key.count(".") == 2 and each.choices
    }


def ablation(
    sources: Sequence[QuerySource], changed: Variants, limit: int = RANKED_PASSAGES
) -> ReportTable:
    """Ask with each variant, and compare with the settings as they are."""
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
            notes.append(f"{name} was not asked: {error}")
            continue
        found = compare_runs(name, base, main_values(after))
        bounds = f"[{found.low:+.3f}, {found.high:+.3f}]"
        row = (name, f"{found.after:.3f}", f"{found.difference:+.3f}", bounds)
        rows.append((*row, verdict_of(found), f"{cost_of(after).p50:.0f}"))
    columns = ("configuration", MAIN_MEASURE, "difference", "95 % interval", "verdict", "p50 ms")
    return ReportTable("Each setting alone", columns, tuple(rows), tuple(notes))


# ------------------------------------------------------------------ confidence

THRESHOLDS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.55, 0.6, 0.7)
"""Confidences for which it is counted what would be refused."""

TENTHS = range(10)


@dataclass(frozen=True, slots=True)
class Confidences:
    """Confidences of answers, by what was asked."""

    answerable: Sequence[float]
    right: Sequence[float]  # those of them whose first passage is labeled
    unanswerable: Mapping[str, Sequence[float]]  # by kind


def load_unanswerable(path: Path, corpora: Sequence[str] = ()) -> list[LabeledQuery]:
    """Read queries without an answer: of the kind `off-topic`, or `near-miss` of one corpus."""
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
    """Ask everything, refusing nothing."""
    query = library.config.query
    willing = replace(query.confidence, abstain_below=0.0, minimum_relevance=0.0)
    library = library.with_query_settings(replace(query, confidence=willing))
    sure, right = [], []
    for each in answerable:
        answer = library.query(each.query, limit=1, **each.rewording)
        labeled = {plain_path(label.path) for label in each.relevant}
        sure.append(answer.confidence)
        if answer.passages and plain_path(answer.passages[0].path) in labeled:
            right.append(answer.confidence)
    unsure: dict[str, list[float]] = {}
    for each in unanswerable:
        answer = library.query(each.query, limit=1, **each.rewording)
        unsure.setdefault(each.kind, []).append(answer.confidence)
    return Confidences(sure, right, unsure)


def below(values: Sequence[float], threshold: float) -> float:
    """Return the share of values below a threshold, 0 of none."""
    return sum(value < threshold for value in values) / len(values) if values else 0.0


def auc(higher: Sequence[float], lower: Sequence[float]) -> float:
    """Return how often one of the first values is above one of the second, ties as half (Mann &
    Whitney 1947).
    """
    ordered = sorted(lower)
    won = sum(bisect_left(ordered, value) + bisect_right(ordered, value) for value in higher)
    return won / (2 * len(higher) * len(lower))


def thresholds(name: str, found: Confidences) -> ReportTable:
    """Return the shares that are below each threshold: they would be refused there."""
    rows = []
    for at in THRESHOLDS:
        refused = [below(values, at) for values in found.unanswerable.values()]
        shares = (below(found.right, at), *refused)
        rows.append((f"below {at:.2f}", *(f"{share:.3f}" for share in shares)))
    notes = tuple(
        f"AUC, {len(found.answerable)} answerable against {len(values)} {kind}: "
        f"{auc(found.answerable, values):.4f}"
        for kind, values in found.unanswerable.items()
    )
    return ReportTable(name, ("confidence", "right", *found.unanswerable), tuple(rows), notes)


def reliability(name: str, found: Confidences) -> ReportTable:
    """Return how often the first passage is right, by tenths of confidence."""
    unsure = [value for values in found.unanswerable.values() for value in values]
    rows = []
    for tenth in TENTHS:
        answerable, right, none = (
            sum(min(int(value * 10), 9) == tenth for value in values)
            for values in (found.answerable, found.right, unsure)
        )
        if answerable or none:
            share = f"{right / answerable:.3f}" if answerable else "-"
            rows.append((f"{tenth / 10:.1f} and more", str(answerable), share, str(none)))
    columns = ("confidence", "answerable", "first passage right", "without an answer")
    return ReportTable(f"{name}: reliability", columns, tuple(rows))


# ------------------------------------------------------------------ the program


@contextmanager
def asked(arguments: argparse.Namespace) -> Iterator[list[QuerySource]]:
    """Open the folders, indexed, with their models and the vocabulary of `expand`.

    A set called NAME.KIND.jsonl is asked of the folder NAME, if there is one.
    """
    config = load_config(overrides=arguments.set)
    wide = replace(config, query=with_stages(config.query, "expand"))
    with Library.open(arguments.folder, index=arguments.index, config=wide) as library:
        with ProgressDisplay() as show:
            library.index(progress=show, after_others=True)
        library.load_models()
        sources = []
        for each in map(load_set, arguments.queries):
            own = each.folder in dict(library.folders)
            answering = (library.only([each.folder]) if own else library).with_query_settings(
                config.query
            )
            sources.append(QuerySource(each.name, answering, each.queries))
            check_labels(sources[-1])
        yield sources


def main() -> None:
    """Run one of the two measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("queries", nargs="+", type=Path, metavar="SET.jsonl")
    parser.add_argument("--folder", action="append", required=True, metavar="DIR")
    parser.add_argument("--index", metavar="DIR", help="where the index lies")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--limit", type=int, default=RANKED_PASSAGES, help="passages a query")
    parser.add_argument("--off-topic", type=Path, metavar="FILE", help="queries without an answer")
    arguments = parser.parse_args()
    with asked(arguments) as sources:
        if not arguments.off_topic:
            changed = variants(sources[0].library.config.query)
            print_tables([ablation(sources, changed, arguments.limit)])
            return
        for source in sources:
            folders = [name for name, _ in source.library.folders]
            unanswerable = load_unanswerable(arguments.off_topic, folders)
            found = confidences(source.library, source.queries, unanswerable)
            print_tables([thresholds(source.name, found), reliability(source.name, found)])


if __name__ == "__main__":
    main()
