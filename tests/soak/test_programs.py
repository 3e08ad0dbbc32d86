"""The soak, the marathon and the storm, for seconds: they end with the right index.

What else they judge wants more notes, and quiet.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="they look at processes in /proc"),
]


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(("soak.py", "--minutes", "0.3", "--notes", "60"), id="soak"),
        pytest.param(("marathon.py", "--minutes", "0.3", "--notes", "60"), id="marathon"),
        pytest.param(
            ("storm.py", "--rest", "2", "--notes", "60", "--characters", "200"), id="storm"
        ),
    ],
)
def test_a_program_that_watches_servers_ends_with_an_index_equal_to_a_fresh_one(program):
    name, *options = program
    said = subprocess.run(
        [sys.executable, str(HERE / name), *options],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert "held       equal to a fresh build: every table" in said.stdout, (
        said.stdout + said.stderr
    )
