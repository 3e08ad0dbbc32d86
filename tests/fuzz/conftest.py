"""The fuzzer is a program beside its tests: both import it by its folder's name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
