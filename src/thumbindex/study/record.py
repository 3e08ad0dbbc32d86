"""What a run of `eval` found, and its JSON: what `--json` prints, `--report` writes and `--baseline` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from thumbindex.study.ablation import Effect
from thumbindex.study.abstention import Abstention
from thumbindex.study.bootstrap import Difference
from thumbindex.study.evaluate import Evaluation, pooled
from thumbindex.study.measures import MAIN
from thumbindex.study.queries import digest_of


@dataclass(frozen=True, slots=True)
class Findings:
    """The sets that were asked, what changed since a baseline, and what each setting does."""

    evaluations: tuple[Evaluation, ...]
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by set: those that are not at their defaults
    baseline: tuple[Difference, ...] = ()  # `ALL` first where there are several sets
    effects: tuple[Effect, ...] = ()
    abstention: Mapping[str, Abstention] = field(default_factory=dict)  # by set


@dataclass(frozen=True, slots=True)
class Cost:
    """What answers as users get them cost: milliseconds, and tokens a query."""

    p50: float
    p95: float
    tokens: float


def cost_of(evaluations: Sequence[Evaluation]) -> Cost:
    """Return what the queries of some sets cost."""
    asked = [each for evaluation in evaluations for each in evaluation.asked.values()]
    p50, p95 = np.percentile([each.seconds * 1000 for each in asked], (50, 95))
    return Cost(float(p50), float(p95), sum(each.tokens for each in asked) / len(asked))


def record(findings: Findings) -> dict[str, Any]:
    """Return what `eval --json` prints (`docs/schema/eval.json`); the measures by kind are those of the scorer in `shared/eval`."""
    told: dict[str, Any] = _measured(findings.evaluations)
    told["sets"] = [_set(each, findings.settings.get(each.name, {})) for each in findings.evaluations]
    if findings.baseline:
        told["baseline"] = [_difference(each) for each in findings.baseline]
    if findings.effects:
        told["ablation"] = [_effect(each) for each in findings.effects]
    if findings.abstention:
        told["abstention"] = [{"name": name, **asdict(each)} for name, each in findings.abstention.items()]
    return told


def _measured(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    scores, counts = pooled(evaluations)
    return {
        "queries": counts["ALL"],
        "unanswered": sum(each.unanswered for each in evaluations),
        "seconds": round(sum(each.seconds for each in evaluations), 3),
        **_cost(evaluations),
        "scores": {kind: {"n": counts[kind], **{name: round(value, 4) for name, value in means.items()}} for kind, means in scores.items()},
    }


def _cost(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    cost = cost_of(evaluations)
    return {"latency_ms": {"p50": round(cost.p50, 2), "p95": round(cost.p95, 2)}, "tokens": round(cost.tokens, 1)}


def _set(evaluation: Evaluation, settings: Mapping[str, Any]) -> dict[str, Any]:
    index = {name: value for name, value in asdict(evaluation.index).items() if name != "generation"}
    by_query = {query: measured[MAIN] for query, measured in evaluation.measured.items()}
    about = {"name": evaluation.name, "digest": digest_of(evaluation.queries), "folders": list(evaluation.folders), "index": index}
    about["settings"] = {key: list(value) if isinstance(value, tuple) else value for key, value in settings.items()}
    return {**about, **_measured([evaluation]), "by_query": by_query}


def _difference(each: Difference) -> dict[str, Any]:
    interval = {"difference": round(each.interval.mean, 4), "low": round(each.interval.low, 4), "high": round(each.interval.high, 4)}
    means = {"before": round(each.before, 4), "after": round(each.after, 4)}
    return {"name": each.name, "queries": each.queries, **means, **interval, "better": each.better, "worse": each.worse}


def _effect(each: Effect) -> dict[str, Any]:
    told = {"name": each.variant.name, "settings": {f"query.{key}": value for key, value in each.variant.changes.items()}}
    if each.difference is None:
        return {**told, "refusal": each.refusal}
    sets = {one.name: round(one.scores["ALL"][MAIN], 4) for one in each.evaluations}
    scores = {name: round(value, 4) for name, value in pooled(each.evaluations)[0]["ALL"].items()}
    return {**told, "scores": scores, "sets": sets, **_cost(each.evaluations), "difference": _difference(each.difference)}
