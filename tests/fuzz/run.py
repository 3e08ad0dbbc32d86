"""Feeds hostile input for some minutes, or one seed again: `python tests/fuzz/run.py [SECONDS |
TARGET SEED]`.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.targets import TARGETS, feed
from thumbindex.config import load_config
from thumbindex.library import Library
from thumbindex.testing import FakeEmbedder

NOTES = {
    "a.md": "---\ntags: [x]\n---\n# A\n\nApples. See [[b]].\n",
    "b.md": "# B\n\nPears `get_id()` and v1.2.3.\n",
    "c/d.md": "# D\n\n中文 가나.\n",
}


def open_library(place: Path, model: str = "") -> Library:
    """Index a few notes with the shipped fakes, or with a model."""
    for path, text in NOTES.items():
        (place / "notes" / path).parent.mkdir(parents=True, exist_ok=True)
        (place / "notes" / path).write_text(text, encoding="utf-8")
    config = load_config(
        user_file=place / "none", overrides=[f"encode.embed.model={model}"] if model else []
    )
    library = Library.open(
        [place / "notes"],
        index=place / "index",
        config=config,
        embedder=None if model else FakeEmbedder(),
    )
    library.index()
    return library


def main() -> int:
    """Run until the time is up; the first failure says by which seed it comes again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what",
        nargs="?",
        default="600",
        metavar="SECONDS|TARGET",
        help=f"how long, or one of: {', '.join(TARGETS)}",
    )
    parser.add_argument("seed", nargs="?", type=int)
    given = parser.parse_args()
    if (given.what in TARGETS) is (given.seed is None):
        parser.error(f"either SECONDS alone, or one of {', '.join(TARGETS)} with its SEED")
    with tempfile.TemporaryDirectory() as place, open_library(Path(place)) as library:
        if given.seed is not None:
            feed(TARGETS[given.what], given.seed, library)
            return 0
        until, seed = time.monotonic() + float(given.what), time.time_ns() % 10**12
        first = seed
        while time.monotonic() < until:
            for name, target in TARGETS.items():
                try:
                    feed(target, seed, library)
                except BaseException:
                    print(f"failed: again by `python tests/fuzz/run.py {name} {seed}`", flush=True)
                    raise
            seed += 1
        print(f"{(seed - first) * len(TARGETS):,} inputs, no failure")
    return 0


if __name__ == "__main__":
    sys.exit(main())
