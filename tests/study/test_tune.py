"""What tuning decides: the defaults, unless others are better beyond noise and for every kind of
query.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from thumbindex.config import load_config
from thumbindex.errors import ConfigError
from thumbindex.library import Library
from thumbindex.model import Progress
from thumbindex.settings import Config, FuseSettings, QuerySettings
from thumbindex.study.queries import Label, LabeledQuery
from thumbindex.study.tune import (
    GRID,
    Estimate,
    Measure,
    decide_tuning,
    joint_values,
    open_axes,
    settings_of,
    tune,
)
from thumbindex.testing import FakeEmbedder

NAMES = tuple(
    LabeledQuery(f"n{n}", "name", "title", (Label(f"{n}.md", None, 2),)) for n in range(20)
)
TELLING = tuple(
    LabeledQuery(str(n), "text", "link" if n % 2 else "description", (Label(f"{n}.md", None, 2),))
    for n in range(80)
)


def answers(queries: tuple[LabeledQuery, ...], **gains: float) -> Measure:
    """Return what a measure would say where k of reciprocal ranks gains so much for a kind of
    query.
    """

    def measure(values):
        gained = [
            gains.get(query.kind, 0.0) if values.get("query.fuse.k") == 30 else 0.0
            for query in queries
        ]
        return (
            0.5
            + np.array(gained)
            + np.random.default_rng(1).normal(0, 0.01, len(queries)) * len(values)
        )

    return measure


def decided(names: dict[str, float], **gains: float):
    return decide_tuning(
        answers(TELLING, **gains), answers(NAMES, **names), Config(), TELLING, NAMES
    )


def test_what_gains_on_all_kinds_is_taken_and_says_by_how_much() -> None:
    found = decided({}, link=0.05, description=0.05)
    assert found.settings == {"query.fuse.method": "rrf", "query.fuse.k": 30}
    assert found.reason.startswith(
        "Better for these notes: reciprocal ranks, k 30 (nDCG@10, a score from 0 to 1, "
        "changes by +0.049 [+0.045, +0.052], cross-validated on 80"
    )
    assert found.gain is not None
    assert found.gain.low > 0.04


def test_where_nothing_gains_the_defaults_stay() -> None:
    found = decided({})
    assert (found.settings, found.choices) == ({}, ())
    assert found.reason.startswith(
        "The defaults stay: of the settings tried, none is clearly better for these notes (nDCG@10"
    )


def test_what_one_kind_loses_is_not_outweighed_by_another() -> None:
    found = decided({}, link=0.2, description=-0.02)
    assert (found.settings, found.choices) == ({}, ("reciprocal ranks, k 30",))
    assert "some kinds lose (description 0.50" in found.reason


def test_names_are_watched_though_they_decide_nothing() -> None:
    assert decided({"title": -0.1}, link=0.05, description=0.05).settings == {}
    assert decided({"title": 0.3}).settings == {}


def test_every_value_of_the_grid_is_one_that_its_setting_takes() -> None:
    assert open_axes(Config()) == GRID
    for choice in (choice for axis in GRID for choice in axis):
        assert settings_of(Config(), choice.values) != settings_of(Config(), {})


def test_two_stages_that_are_chosen_both_run() -> None:
    expanded, reranked = GRID[4][0], GRID[5][0]
    query = settings_of(Config(), joint_values((expanded, reranked)))
    assert (query.runs("expand"), query.runs("rerank"), query.runs("deduplicate")) == (
        True,
        True,
        False,
    )


def test_what_the_user_wrote_is_no_axis() -> None:
    config = load_config(
        user_file=Path("/none"), overrides=["query.search_vector.weight=0.7", "query.skip=rerank"]
    )
    names = [choice.name for axis in open_axes(config) for choice in axis]
    assert not [
        name for name in names if "meaning" in name or "reranked" in name or "expanded" in name
    ]
    assert "links 0.1" in names
    in_python = Config(query=QuerySettings(fuse=FuseSettings(method="rrf")))
    assert "reciprocal ranks, k 10" not in [
        choice.name for axis in open_axes(in_python) for choice in axis
    ]


def test_a_grid_with_a_wrong_key_does_not_pass() -> None:
    with pytest.raises(ConfigError, match="the grid: unknown key"):
        settings_of(Config(), {"query.fuse.kk": 1})


@pytest.fixture
def library(tmp_path: Path):
    root = tmp_path / "vault"
    root.mkdir()
    for n in range(16):
        text = (
            f"---\ndescription: what anybody would tell of number {n} here\n---\n# Page {n}\n\n"
            f"Thing {n} [[{(n + 1) % 16}|kin of {n}]].\n"
        )
        (root / f"{n}.md").write_text(text, encoding="utf-8")
    config = load_config(user_file=root / "none", overrides=["query.skip=deduplicate,rerank"])
    with Library.open(
        [root], index=tmp_path / "index", config=config, embedder=FakeEmbedder()
    ) as library:
        library.index()
        yield library


def test_a_vault_is_tuned_by_its_own_notes_and_each_question_is_counted(library: Library) -> None:
    steps: list[Progress] = []
    expected: list[Estimate] = []
    found = tune(library, Config(), progress=steps.append, announce=expected.append)
    assert (found.queries, found.documents, len(found.tried)) == (32, 16, sum(map(len, GRID)))
    assert found.model == "fake"
    assert [(each.queries, each.settings) for each in expected] == [(32, 13)]
    alone, together = (
        [step for step in steps if step.phase == phase]
        for phase in ("each setting by itself", "settings together")
    )
    assert [(step.done, step.total) for step in alone] == [
        (n, 13 * 32) for n in range(1, 13 * 32 + 1)
    ]
    assert [(step.done, step.total) for step in together] == [(n, 36) for n in range(1, 37)]


def test_too_few_queries_ask_nothing(library: Library) -> None:
    (library.folders[0][1] / "0.md").write_text("# Page 0\n", encoding="utf-8")
    for n in range(1, 3):
        (library.folders[0][1] / f"{n}.md").unlink()
    library.index()
    found = tune(library, Config())
    assert (found.settings, found.tried) == ({}, ())
    assert "fewer than 30: the defaults stay" in found.reason


def test_where_the_user_states_everything_nothing_is_left_to_tune(library: Library) -> None:
    axes = (
        "search_vector.weight",
        "fuse.method",
        "fuse.k",
        "search_graph.weight",
        "search_code.weight",
        "skip",
        "rerank.weight",
    )
    config = replace(Config(), written=frozenset(f"query.{key}" for key in axes))
    assert tune(library, config).reason.endswith("nothing is left to tune.")


def test_queries_that_are_given_decide_too(library: Library) -> None:
    found = tune(library, Config(), [LabeledQuery("1", "page", "any", (Label("3.md", None, 2),))])
    assert (found.queries, found.kinds["given"].queries) == (33, 1)
