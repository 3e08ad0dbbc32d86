"""Bad neighbors: what else may live on a disk, one after another, as a table: `make neighbors`, or
`python tests/neighbors/neighbors.py CASE ...`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from cases import CASES
from place import NotTriedError, Place


def main(arguments: list[str]) -> int:
    """Try each case at its full size; print a table in Markdown.

    Return 1 where one failed, 3 where none could be tried.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="CASE",
        help="cases whose names hold this; all of them where none is named",
    )
    names, ended = parser.parse_args(arguments).names, Counter[str]()
    if unknown := [each for each in names if not any(each in name for name in CASES)]:
        parser.error(f"no such case: {', '.join(unknown)}")
    print("| neighbor | | what came of it | seconds |\n|---|---|---|---|", flush=True)
    for name, case in CASES.items():
        if names and not any(each in name for each in names):
            continue
        with tempfile.TemporaryDirectory(
            prefix="thumbindex-neighbors-", ignore_cleanup_errors=True
        ) as made:
            (Path(made) / "vault").mkdir()
            began = time.monotonic()
            try:
                held, came = "held", case(Place(Path(made).resolve(), full=True))
            except NotTriedError as error:
                held, came = "not tried", str(error)
            except Exception as error:
                held, came = "FAILED", f"{type(error).__name__}: {error}"
                traceback.print_exc()
        ended[held] += 1
        print(
            f"| {name} | {held} | {came.replace('|', '&#124;')} | {time.monotonic() - began:.1f} |",
            flush=True,
        )
    print(f"\n{ended['held']} held, {ended['not tried']} not tried, {ended['FAILED']} failed")
    return 1 if ended["FAILED"] else 0 if ended["held"] else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
