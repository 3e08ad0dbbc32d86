"""Puts the fake of another system over a child's os layer, before anything of ours is imported."""

import os
import sys
from pathlib import Path

if system := os.environ.get("THUMBINDEX_TESTS_SYSTEM"):
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import fakes

    for install in fakes.SYSTEMS[system]:
        install(setattr)
