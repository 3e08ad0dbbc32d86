"""The cases are a program beside their tests: they import each other by their names."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
