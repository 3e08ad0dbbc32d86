"""The soak and the storm are programs that lie side by side and import each other by their names:
so do their tests.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
