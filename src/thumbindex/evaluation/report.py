"""Report an evaluation as JSON and as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from thumbindex.evaluation.measures import MAIN_MEASURE, MEASURES
from thumbindex.evaluation.queries import set_digest
from thumbindex.evaluation.runner import Evaluation, group_by_set, pooled_means


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of normal answers: latency percentiles in milliseconds, and tokens per query."""

    p50: float
    p95: float
    tokens: float


def cost_of(evaluations: Sequence[Evaluation]) -> Cost:
    """Return the cost over all queries of the evaluations."""
    # Imported here, since a command's help does not need numpy.
    import numpy as np

    results = [result for evaluation in evaluations for result in evaluation.results.values()]
    p50, p95 = np.percentile([result.seconds * 1000 for result in results], (50, 95))
    return Cost(float(p50), float(p95), sum(result.tokens for result in results) / len(results))


def report_json(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    """Return the output of `eval --json` (`docs/schema/eval.json`)."""
    return {**_measured(evaluations), "sets": list(map(_set, evaluations))}


def _measured(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    means_by_kind, counts = pooled_means(evaluations)
    scores: dict[str, dict[str, float]] = {}
    for kind, means in means_by_kind.items():
        rounded = {name: round(value, 4) for name, value in means.items()}
        scores[kind] = {"n": counts[kind], **rounded}
    cost = cost_of(evaluations)
    return {
        "queries": counts["ALL"],
        "unanswered": sum(evaluation.unanswered for evaluation in evaluations),
        "seconds": round(sum(evaluation.seconds for evaluation in evaluations), 3),
        "latency_ms": {"p50": round(cost.p50, 2), "p95": round(cost.p95, 2)},
        "tokens": round(cost.tokens, 1),
        "scores": scores,
    }


def _set(evaluation: Evaluation) -> dict[str, Any]:
    index = asdict(evaluation.index)
    del index["generation"]
    return {
        "name": evaluation.name,
        "folders": list(evaluation.folders),
        "index": index,
        "digest": set_digest(evaluation.queries),
        **_measured([evaluation]),
        "by_query": {
            query: measured[MAIN_MEASURE] for query, measured in evaluation.measured.items()
        },
    }


_MISSING = "-"


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table with explanatory notes."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def tables(evaluations: Sequence[Evaluation]) -> tuple[ReportTable, ...]:
    """Return the tables of a report in display order."""
    return _by_set(evaluations), _by_kind(evaluations), _costs(evaluations)


def _by_set(evaluations: Sequence[Evaluation]) -> ReportTable:
    rows = []
    for name, group in group_by_set(evaluations):
        scores, counts = pooled_means(group)
        rows.append((name, f"{counts['ALL']:,}", *_cells(scores["ALL"])))
    return ReportTable("By set", ("set", "n", *MEASURES), tuple(rows))


def _by_kind(evaluations: Sequence[Evaluation]) -> ReportTable:
    scores, counts = pooled_means(evaluations)
    rows = [(kind, f"{counts[kind]:,}", *_cells(means)) for kind, means in scores.items()]
    return ReportTable("By kind of query", ("kind", "n", *MEASURES), tuple(rows))


def _costs(evaluations: Sequence[Evaluation]) -> ReportTable:
    rows = []
    for name, group in group_by_set(evaluations):
        cost, unanswered = cost_of(group), sum(evaluation.unanswered for evaluation in group)
        latencies = (f"{cost.p50:.0f} ms", f"{cost.p95:.0f} ms")
        rows.append((name, *latencies, f"{cost.tokens:,.0f}", f"{unanswered:,}"))
    return ReportTable(
        "Answers of `query.limit` passages (the measures above are of longer rankings)",
        ("set", "p50 latency", "p95 latency", "tokens", "unanswered"),
        tuple(rows),
    )


def _cells(means: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(f"{means[name]:.3f}" if name in means else _MISSING for name in MEASURES)
