"""Bad neighbors: what else may live on a disk, one after another, as a table: `make neighbors`, or `python tests/neighbors/neighbors.py CASE ...`."""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from pathlib import Path

from cases import CASES
from place import NotTriedError, Place


def main(names: list[str]) -> int:
    """Try each case at its full size; print a table in Markdown, and return 1 where one failed."""
    failed = 0
    print("| neighbor | | what came of it | seconds |\n|---|---|---|---|", flush=True)
    for name, case in CASES.items():
        if names and not any(each in name for each in names):
            continue
        with tempfile.TemporaryDirectory(prefix="thumbindex-neighbors-", ignore_cleanup_errors=True) as made:
            (Path(made) / "vault").mkdir()
            began = time.monotonic()
            try:
                held, came = "held", case(Place(Path(made).resolve(), full=True))
            except NotTriedError as error:
                held, came = "not tried", str(error)
            except Exception as error:
                failed, held, came = 1, "FAILED", f"{type(error).__name__}: {error}"
                traceback.print_exc()
        print(f"| {name} | {held} | {came.replace('|', '&#124;')} | {time.monotonic() - began:.1f} |", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
