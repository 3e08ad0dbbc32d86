"""A few hundred fixed hostile inputs; `make fuzz` tries new ones for ten minutes."""

from collections.abc import Iterator

import pytest

from fuzz.run import open_library
from fuzz.targets import TARGETS, feed
from thumbindex.library import Library

pytestmark = pytest.mark.slow

SEEDS = {"parser": 150, "front_matter": 300, "query_syntax": 60, "tool_arguments": 200}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with open_library(tmp_path_factory.mktemp("fuzz")) as library:
        yield library


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_input_is_harmless(name: str, library: Library) -> None:
    for seed in range(SEEDS[name]):
        feed(TARGETS[name], seed, library)
