"""How many small faults in our code do the tests notice?

`make mutants` runs this: mutmut makes the faults, a seeded sample of them is tried.

A fault that no test notices is printed as a diff: it is equivalent to what stood there, or a test
is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]

PARTS: Mapping[str, str] = {
    "query": "src/thumbindex/query/*.py",
    "corpus/private": "src/thumbindex/corpus/private.py",
    "serve/http": "src/thumbindex/serve/http/*.py",
    "index": "src/thumbindex/index/*.py",
}
"""By part, the modules that are changed."""

TESTS = (
    "tests/query",
    "tests/index",
    "tests/contract/test_indexes.py",
    "tests/serve/http",
    "tests/serve/page/test_state.py",
    "tests/corpus/test_private.py",
    "tests/test_duplicates.py",
    "tests/test_unchanged.py",
)
"""What is asked whether it notices: mutmut runs for a fault the tests that went through its
function, no other.
"""

PROCESSES = "tests/serve/http/test_serving.py"
"""Starts servers as processes of their own, in which mutmut does not look: asked about a function
of a server that no other test goes through.
"""

LEFT_OUT = "not postgres and not identity_is_the_bytes and not test_clients"
"""A database is another part; ten seconds of random texts, and slow clients, say nothing that other
tests do not say.
"""

APPLICATION = b"async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:"
"""Left as it is: uvicorn calls an application without arguments to see whether it is a factory, and
what mutmut puts around it takes none, too.
"""

FORGIVEN = "ignore::pytest.PytestUnraisableExceptionWarning"
"""What mutmut puts around a coroutine that a test calls to see it refused is never awaited."""

SETTINGS = f"""
[tool.mutmut]
source_paths = ["src"]
only_mutate = {json.dumps(list(PARTS.values()))}
do_not_mutate = ["src/thumbindex/index/postgres/*"]
also_copy = ["docs", "config.toml", "README.md", "constraints.txt", "LICENSE"]
process_isolation = "forkserver"
pytest_add_cli_args = [
    "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "{FORGIVEN}", "-k", "{LEFT_OUT}"
]
pytest_add_cli_args_test_selection = {json.dumps(TESTS)}
timeout_multiplier = 10.0
timeout_constant = 20.0
"""
"""Workers are forked from a process that has run no test: threads of FAISS and onnxruntime do not
outlive a fork.
"""

NOTICED = {1, 3, 24, 36, -24, 152, 255}
"""Exit codes of mutmut for a fault that a test noticed, or that never came to an end."""

AIM = 0.85
"""Of the faults that were tried so many are to be noticed."""

BATCH = 12
"""Faults a part and round: as many rounds are made as the time allows."""


def main() -> int:
    """Try a sample; print noticed and tried by part, and the faults that nobody noticed.

    Return 1 below the aim, 3 where nothing was tried.
    """
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=26)
    options.add_argument(
        "--minutes", type=float, default=30.0, help="no new round begins after this time"
    )
    options.add_argument("--workers", type=int, default=2)
    options.add_argument(
        "--part", choices=PARTS, action="append", help="of this part alone; may be repeated"
    )
    options.add_argument("--place", type=Path, default=ROOT / "build" / "mutants")
    chosen = options.parse_args()
    ends = time.monotonic() + chosen.minutes * 60
    lay_out(chosen.place)
    # Makes all faults, and learns which test goes through which function.
    mutmut(chosen.place, chosen.workers, "thumbindex.query.filters.*__mutmut_1")
    ask_processes(chosen.place / "mutants" / "mutmut-stats.json", faults(chosen.place))
    rounds = sample(faults(chosen.place), chosen.seed, chosen.part or list(PARTS))
    tried: list[str] = []
    for names in rounds:
        if left := not_noticed(names, faults(chosen.place)):
            mutmut(chosen.place, chosen.workers, *left)
        tried += names
        if time.monotonic() > ends:
            break
    report(chosen.place, tried, chosen.seed)
    return verdict(faults(chosen.place), tried)


def verdict(ended: Mapping[str, int | None], tried: Sequence[str]) -> int:
    """Return 0 where as many were noticed as is the aim, 1 where fewer were, 3 where nothing was
    tried.
    """
    noticed = sum(ended[name] in NOTICED for name in tried)
    return 3 if not tried else int(noticed < AIM * len(tried))


def lay_out(place: Path) -> None:
    """Copy what git knows, and tell mutmut what to do; a fault of text that has not changed stays,
    with how it ended.

    The folder of the changed modules is there before mutmut starts: Python never again looks into
    one on its path that was not.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, encoding="utf-8"
    ).stdout
    names = {name for name in listed.split("\0") if (ROOT / name).is_file()} - {""}
    clear(place, names)
    changed(place).mkdir(parents=True, exist_ok=True)
    for name in sorted(names):
        target, text = (
            place / name,
            (ROOT / name)
            .read_bytes()
            .replace(APPLICATION, APPLICATION + b"  # pragma: no mutate block"),
        )
        if not (target.exists() and target.read_bytes() == text):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8") + SETTINGS
    (place / "pyproject.toml").write_text(settings, encoding="utf-8")


def changed(place: Path) -> Path:
    """Return where mutmut puts the modules with their faults; the tests import them from there."""
    return place.resolve() / "mutants" / "src"


def clear(place: Path, names: Collection[str]) -> None:
    """Take away what an earlier run copied, or made of it, and git no longer has: a module that is
    gone would be changed, and asked by tests.
    """
    for folder in (place, place / "mutants"):
        for top in {name.partition("/")[0] for name in names if "/" in name}:
            for path in filter(Path.is_file, (folder / top).rglob("*")):
                if (
                    "__pycache__" not in path.parts
                    and path.relative_to(folder).as_posix().removesuffix(".meta") not in names
                ):
                    path.unlink()


def mutmut(place: Path, workers: int, *names: str) -> None:
    """Try faults by their names; what mutmut says goes to a file."""
    with (place / "mutmut.log").open("a", encoding="utf-8") as log:
        command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(workers), *names]
        # CI: hypothesis then takes the same examples each time, and no deadline, which twice the
        # work could miss.
        # A test's children have the fault, too.
        environment = {**os.environ, "CI": "1", "PYTHONPATH": str(changed(place))}
        done = subprocess.run(
            command, cwd=place, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode:
        sys.exit(
            f"mutmut ended with {done.returncode}: see {place / 'mutmut.log'}. The tests must "
            "pass on what is not changed."
        )


def ask_processes(stats: Path, names: Collection[str]) -> None:
    """Have tests that start processes asked about functions of a server that no other test goes
    through.
    """
    known = json.loads(stats.read_text(encoding="utf-8"))
    asked, tests = (
        known["tests_by_mangled_function_name"],
        [test for test in known["duration_by_test"] if test.startswith(PROCESSES)],
    )
    for function in {
        name.rpartition("__mutmut_")[0] for name in names if part_of(name) == "serve/http"
    }:
        asked[function] = asked.get(function) or tests
    stats.write_text(json.dumps(known), encoding="utf-8")


def faults(place: Path) -> dict[str, int | None]:
    """Return each fault with how it ended: nothing where it was not tried."""
    found: dict[str, int | None] = {}
    for path in sorted((place / "mutants").rglob("*.meta")):
        found |= json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
    return found


def not_noticed(names: Sequence[str], ended: Mapping[str, int | None]) -> list[str]:
    """Return the faults that are to be tried: not those that an earlier run noticed, in text that
    has not changed since.
    """
    return [name for name in names if ended[name] not in NOTICED]


def part_of(name: str) -> str:
    """Return the part that a fault's name (`thumbindex.query.filters.x_…`) is of."""
    return next(part for part in PARTS if name.startswith(f"thumbindex.{part.replace('/', '.')}."))


def sample(names: Mapping[str, object], seed: int, parts: list[str]) -> Iterator[list[str]]:
    """Yield rounds of equally many faults a part, in an order that the seed says, until all were
    tried.
    """
    by_part: dict[str, list[str]] = {part: [] for part in parts}
    for name in sorted(names):
        if part_of(name) in by_part:
            by_part[part_of(name)].append(name)
    for part, found in by_part.items():
        random.Random(f"{seed} {part}").shuffle(found)
    while any(by_part.values()):
        yield [name for found in by_part.values() for name in found[:BATCH]]
        by_part = {part: found[BATCH:] for part, found in by_part.items()}


def report(place: Path, tried: list[str], seed: int) -> None:
    """Print noticed and tried by part, then each fault that was not noticed."""
    ended = faults(place)
    counts = Counter((part_of(name), ended[name] in NOTICED) for name in tried)
    print(f"seed {seed}\n\n| part | noticed | tried | of |\n| --- | --- | --- | --- |")
    for part in PARTS:
        noticed, total = counts[part, True], counts[part, True] + counts[part, False]
        if total:
            made = sum(part_of(name) == part for name in ended)
            print(f"| `{part}` | {noticed} ({noticed / total:.0%}) | {total} | {made} |")
    for name in tried:
        if ended[name] not in NOTICED:
            command = [sys.executable, "-m", "mutmut", "show", name]
            shown = subprocess.run(
                command, cwd=place, capture_output=True, encoding="utf-8", check=False
            ).stdout
            print(f"\n{name} ended with {ended[name]}\n{shown}")


if __name__ == "__main__":
    sys.exit(main())
