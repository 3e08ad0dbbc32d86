"""How long deduplication takes of a query: `python tests/soak/dedup_latency.py FOLDER QUERIES.jsonl
[TABLE.KEY=VALUE…]`, on an index that is there.

Fifty candidates a query; the first round meets every text for the first time, the second finds them
read. Processor time of the one thread, so that a busy machine does not count.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from thumbindex.config import load_config
from thumbindex.library import Library
from thumbindex.model import Query
from thumbindex.query.pipeline import run
from thumbindex.query.stage import Tools
from thumbindex.serve.wording import DEDUPLICATING

CANDIDATES = 50
STAGES = (*DEDUPLICATING, "contradict")


def main(folder: str, queries: str, *overrides: str) -> None:
    """Print the quantiles of all stages together, and each one's mean."""
    index = next(
        (each.removeprefix("index=") for each in overrides if each.startswith("index=")), None
    )
    config = load_config(overrides=[each for each in overrides if not each.startswith("index=")])
    library = Library.open([folder], index=index, config=config)
    library.query("warm up")
    settings = replace(config.query, fuse=replace(config.query.fuse, limit=CANDIDATES))
    (reader,) = library._readers
    tools = Tools(reader.opened().snapshot, settings, library._embedder)
    texts = [
        json.loads(line)["query"] for line in Path(queries).read_text(encoding="utf-8").splitlines()
    ]
    for name in ("each text for the first time", "texts that were read before"):
        rounds = [run(Query(text), tools, time.thread_time)[1] for text in texts]
        spent = np.array(
            [
                [1000 * step.seconds for step in trace if step.stage in STAGES]
                for trace in rounds
                if len(trace) > len(STAGES)
            ]
        )
        total = spent.sum(axis=1)
        print(
            f"{name}: p50 {np.median(total):.1f} ms, p95 {np.percentile(total, 95):.1f} ms, "
            f"most {total.max():.1f} ms"
        )
    names = [step.stage for step in rounds[0] if step.stage in STAGES]
    print(
        ", ".join(
            f"{name} {mean:.2f}" for name, mean in zip(names, spent.mean(axis=0), strict=True)
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
