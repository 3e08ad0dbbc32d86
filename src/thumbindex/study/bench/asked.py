"""A program: opens one index in a process of its own, asks it questions, and prints what each took and the memory that is held then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from thumbindex.config import load_config
from thumbindex.errors import ThumbindexError
from thumbindex.process import compute_on_one_thread

WARM = 20
"""The first questions, which are not counted; the memory is that after them, before the index is opened a second time."""


def ask_apart(arguments: Sequence[str], questions: Sequence[str]) -> dict[str, Any]:
    """Run the program over an index of synthetic vectors; return milliseconds of `words` and `hybrid` answers, `chunks` and `resident` bytes."""
    # -P: the working directory may be a vault, whose files must never be imported.
    command = [sys.executable, "-P", "-m", __name__, *arguments]
    done = subprocess.run(command, input=json.dumps(list(questions)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ThumbindexError(f"An index could not be asked: {(done.stderr.strip() or 'no reason was given').splitlines()[-1]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Read a server's options and, from standard input, the questions."""
    compute_on_one_thread()
    # Imported here: numerical libraries read how many threads they may use when they are imported.
    from thumbindex.library import Library
    from thumbindex.library.raw import open_model
    from thumbindex.study.bench.asking import ask_all
    from thumbindex.study.bench.synthetic import SyntheticEmbedder
    from thumbindex.study.bench.taken import taken_by

    given = [(name, value) for name, _, value in (each.removeprefix("--").partition("=") for each in sys.argv[1:])]
    named = dict(given)
    config = load_config(
        config_file=Path(named["config"]) if "config" in named else None, overrides=[value for name, value in given if name == "set"]
    )
    questions = json.load(sys.stdin)
    embedder = SyntheticEmbedder(open_model(config))

    def opened(**more: Any) -> Library:
        return Library.open([named["folder"]], index=named["index"], config=config, wait_for_models=False, **more)

    with opened(embedder=embedder) as full:
        ask_all({"hybrid": full}, questions[:WARM])
        resident = taken_by(os.getpid()).resident
        with opened() as words:
            ask_all({"words": words}, questions[:WARM])
            asked = ask_all({"words": words, "hybrid": full}, questions[WARM:])
        chunks = full.status()[0].state.chunks
    print(json.dumps({**asked, "chunks": chunks, "resident": resident}))  # noqa: T201 - what the program is for


if __name__ == "__main__":
    main()
