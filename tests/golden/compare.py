"""Compare two captures: `python tests/golden/compare.py BEFORE AFTER [--most N]` prints the first
differences of each entry; exit 1 on any.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def differences(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """Name each place where two values differ, and how."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            if name not in before or name not in after:
                yield (
                    f"{at}.{name} {'came' if name in after else 'went'}: "
                    f"{json.dumps((after if name in after else before)[name])[:100]}"
                )
            else:
                yield from differences(before[name], after[name], f"{at}.{name}")
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{at}: {len(before)} entries, now {len(after)}"
        for n, (one, other) in enumerate(zip(before, after, strict=False)):
            yield from differences(one, other, f"{at}[{n}]")
    elif before != after or type(before) is not type(after):
        yield f"{at}: {json.dumps(before)[:150]} → {json.dumps(after)[:150]}"


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument(
        "--most", type=int, default=3, help="differences shown of one entry, default 3"
    )
    given = parser.parse_args()
    total = 0
    for path in sorted(given.before.glob("*.jsonl")):
        if not (given.after / path.name).exists():
            print(f"{path.stem}: not captured")
            continue
        before, after = read(path), read(given.after / path.name)
        found = {
            label: list(differences(before.get(label), after.get(label)))
            for label in before | after
        }
        differing = {label: each for label, each in found.items() if each}
        for label, each in differing.items():
            print(f"{path.stem} | {label} | {len(each)} differences")
            print("".join(f"    {line}\n" for line in each[: given.most]), end="")
        print(f"{path.stem}: {len(found) - len(differing):,} of {len(found):,} equal")
        total += len(differing)
    return min(total, 1)


if __name__ == "__main__":
    sys.exit(main())
