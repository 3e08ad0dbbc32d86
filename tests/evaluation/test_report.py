"""Tables of a report."""

from thumbindex.evaluation.baseline import compare_runs
from thumbindex.evaluation.report import tables
from thumbindex.evaluation.runner import Evaluation


def test_baseline_adds_a_table(evaluation: Evaluation) -> None:
    differences = [compare_runs("vault.manual", [1.0, 1.0], [1.0, 0.0])]
    titles = [
        "By set",
        "By kind of query",
        "Answers of `query.limit` passages (the measures above are of longer rankings)",
        "nDCG@10 since the baseline",
    ]
    assert [table.title for table in tables([evaluation], differences)] == titles
    assert [table.title for table in tables([evaluation])] == titles[:3]
