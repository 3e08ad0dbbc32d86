"""Variants come from what the settings declare, and change one thing."""

from dataclasses import replace

import pytest

from thumbindex.query.pipeline import STAGES
from thumbindex.settings import QuerySettings
from thumbindex.study.compare import Variant, ablate, ablation_variants
from thumbindex.study.evaluate import Evaluation, QuerySource

DEFAULT = QuerySettings()
VARIANTS = {each.name: each for each in ablation_variants(DEFAULT)}
RETRIEVERS = [name for name, _ in STAGES if name.startswith("search_")]


@pytest.mark.parametrize("stage", [name for name, _ in STAGES])
def test_every_stage_is_switched(stage: str) -> None:
    variant = VARIANTS[f"{'without' if DEFAULT.runs(stage) else 'with'} {stage}"]
    assert variant.applied(DEFAULT) == (
        DEFAULT.without_stages(stage) if DEFAULT.runs(stage) else DEFAULT.with_stages(stage)
    )


@pytest.mark.parametrize("retriever", RETRIEVERS)
def test_a_retriever_alone_leaves_the_others_off(retriever: str) -> None:
    settings = VARIANTS[f"{retriever} alone"].applied(DEFAULT)
    assert [name for name in RETRIEVERS if settings.runs(name)] == [retriever]


def test_every_alternative_of_a_setting_with_choices_is_tried() -> None:
    chosen = {name for name in VARIANTS if "=" in name}
    assert chosen >= {
        "fuse.method=rrf",
        "diversify.method=mmr",
        "search_graph.direction=in",
        "search_graph.direction=both",
    }
    assert VARIANTS["fuse.method=rrf"].applied(DEFAULT).fuse.method == "rrf"


def test_an_alternative_of_a_stage_that_is_off_switches_it_on() -> None:
    settings = VARIANTS["with deduplicate, method=semantic"].applied(DEFAULT)
    assert (settings.runs("deduplicate"), settings.deduplicate.method) == (True, "semantic")


def test_variants_follow_the_configuration() -> None:
    other = VARIANTS["fuse.method=rrf"].applied(VARIANTS["with rerank"].applied(DEFAULT))
    names = {each.name for each in ablation_variants(other)}
    assert {"without rerank", "fuse.method=convex"} <= names
    assert not {"with rerank", "fuse.method=rrf"} & names


def test_an_effect_is_the_difference_to_the_configuration_as_it_is(
    source: QuerySource, evaluation: Evaluation
) -> None:
    nothing = Variant("nothing", {"skip": tuple(RETRIEVERS)})
    same, worse = ablate([source], [evaluation], [Variant("the same", {}), nothing])
    assert (same.difference and same.difference.interval.mean, same.evaluations[0].run) == (
        0.0,
        evaluation.run,
    )
    assert (worse.difference and worse.difference.after, worse.evaluations[0].unanswered) == (
        0.0,
        3,
    )


def test_every_variant_is_asked_or_says_why_not(
    source: QuerySource, evaluation: Evaluation
) -> None:
    short = replace(source, queries=source.queries[:1])
    effects = ablate(
        [short],
        [replace(evaluation, queries=short.queries)],
        ablation_variants(source.library.config.query),
    )
    refused = {each.variant.name: each.refusal for each in effects if each.difference is None}
    assert list(refused) == ["with deduplicate, method=exact_field"]
    assert "needs `query.deduplicate.field`" in refused["with deduplicate, method=exact_field"]
