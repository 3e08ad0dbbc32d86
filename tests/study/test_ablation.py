"""Variants come from what the settings declare, and change one thing."""

from thumbindex.query.pipeline import STAGES
from thumbindex.study.compare import Variant, ablate
from thumbindex.study.evaluate import Evaluation, QuerySource

RETRIEVERS = [name for name, _ in STAGES if name.startswith("search_")]


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
