"""The soak, the marathon and the storm themselves, for seconds: they reach their end and judge what they saw; how quick it was is not asked here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="they look at processes in /proc")]


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(("soak.py", "--minutes", "0.3", "--notes", "60"), id="soak"),
        pytest.param(("marathon.py", "--minutes", "0.3", "--notes", "60"), id="marathon"),
        pytest.param(("storm.py", "--rest", "2", "--notes", "60", "--characters", "200"), id="storm"),
    ],
)
def test_a_program_that_watches_servers_ends_with_an_index_equal_to_a_fresh_one(program):
    name, *options = program
    said = subprocess.run([sys.executable, str(HERE / name), *options], capture_output=True, text=True, timeout=600, check=False)
    judged = [line.strip() for line in said.stdout.splitlines()]
    assert any(line.startswith("held") and "equal to a fresh build" in line for line in judged), said.stdout + said.stderr
    assert any(line.startswith("held") and "wrong or failed" in line for line in judged), said.stdout + said.stderr
