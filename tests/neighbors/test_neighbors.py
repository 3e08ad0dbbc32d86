"""Whatever else lives on a disk, an index ends as one that is built anew; `make neighbors` tries
the same at full size.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from cases import CASES
from place import NotTriedError, Place


@pytest.mark.skipif(sys.platform != "linux", reason="makes devices, mounts and users as Linux does")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_neighbor_costs_a_sentence_at_most(case: Callable[[Place], str]) -> None:
    with tempfile.TemporaryDirectory() as made:  # pytest's own are closed to other users
        (Path(made) / "vault").mkdir()
        try:
            assert case(Place(Path(made).resolve()))
        except NotTriedError as error:
            pytest.skip(str(error))
