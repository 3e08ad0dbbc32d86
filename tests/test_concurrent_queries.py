"""A few queries run at once; the others wait."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from folders import open_library, write
from waiting import until


def test_query_interrupted_while_queued_is_not_searched(
    tmp_path: Path,
) -> None:
    interrupted = threading.Event()
    write(tmp_path / "vault/apples.md", "# Apples\n\nApples grow on trees.\n")
    with open_library(tmp_path / "vault") as library, ThreadPoolExecutor(1) as pool:
        library.index()
        with library._query_slots, library._query_slots:
            query = pool.submit(library.query, "apples", interrupted=interrupted.is_set)
            assert until(lambda: query.running())
            interrupted.set()
        assert (query.result(10).passages, query.result().trace) == ((), ())
        # with `wait_fresh`, an interruption ends only the wait
        assert (
            len(library.query("apples", wait_fresh=1, interrupted=interrupted.is_set).passages) == 1
        )
