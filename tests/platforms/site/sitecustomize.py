"""Fake Windows in a child process before our modules are imported."""

import os
import sys
from pathlib import Path

if os.environ.get("THUMBINDEX_TESTS_SYSTEM") == "windows":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from platforms import fakes

    fakes.refuse_open_files(setattr, fakes.of_all_processes)
    fakes.show_windows(setattr)
    fakes.refuse_pipes_in_loops(setattr)
