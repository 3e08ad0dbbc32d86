"""A few queries run at once, the others wait."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from folders import open_library, write
from waiting import until


def test_a_question_whose_asker_has_gone_while_it_waited_is_not_searched_for(
    tmp_path: Path,
) -> None:
    gone = threading.Event()
    write(tmp_path / "vault/apples.md", "# Apples\n\nApples grow on trees.\n")
    with open_library(tmp_path / "vault") as library, ThreadPoolExecutor(1) as pool:
        library.index()
        with library._query_slots, library._query_slots:
            asked = pool.submit(library.query, "apples", interrupted=gone.is_set)
            assert until(lambda: asked.running())
            gone.set()
        assert (asked.result(10).passages, asked.result().trace) == ((), ())
        # it ends the wait, not the question
        assert len(library.query("apples", wait_fresh=1, interrupted=gone.is_set).passages) == 1
