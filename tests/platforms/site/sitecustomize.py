"""Puts the fake of Windows over a child's os layer, before anything of ours is imported."""

import os
import sys
from pathlib import Path

if os.environ.get("THUMBINDEX_TESTS_SYSTEM") == "windows":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from platforms import fakes

    fakes.refuse_open_files(setattr, fakes.of_all_processes)
    fakes.show_windows(setattr)
    fakes.refuse_pipes_in_loops(setattr)
