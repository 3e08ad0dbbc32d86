"""A few hundred hostile inputs, the same each time; `make fuzz` tries new ones for ten minutes."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.run import open_library
from fuzz.targets import TARGETS, feed
from thumbindex.library import Library

SEEDS = {"parser": 150, "front_matter": 300, "query_syntax": 60, "tool_arguments": 200}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with open_library(tmp_path_factory.mktemp("fuzz")) as library:
        yield library


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_input_does_no_harm(name: str, library: Library) -> None:
    for seed in range(SEEDS[name]):
        feed(TARGETS[name], seed, library)


@pytest.mark.parametrize("name", TARGETS)
@settings(
    max_examples=50,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(random=st.randoms(use_true_random=False))
def test_hypothesis_which_makes_what_fails_smaller_finds_no_harm(
    name: str, library: Library, random: Random
) -> None:
    TARGETS[name](random, library)
