"""What servers and their children take, as Linux tells of each process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judge import Verdict, judge_level

from servers import ServerProcess, children_of
from thumbindex.index.files import size_of

MEASURES = ("resident", "threads", "handles")


@dataclass(frozen=True, slots=True)
class Taken:
    """What one process takes."""

    pid: int
    resident: int  # bytes
    threads: int
    handles: int
    # bytes of `resident` that are in no file: pages of an index that is mapped come and go as the
    # system likes
    anonymous: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """What all take at one moment, by name ("server 1", "child 1"), and the bytes of the index."""

    second: float
    taken: Mapping[str, Taken]
    index: int

    @property
    def resident(self) -> int:
        """Return the bytes of all processes."""
        return sum(each.resident for each in self.taken.values())


def take_sample(second: float, servers: Sequence[ServerProcess], index: Path) -> Sample:
    """Measure what lives; a process that has ended is not in it."""
    named = {f"server {n}": server.process.pid for n, server in enumerate(servers, 1)}
    for n, server in enumerate(servers, 1):
        for m, pid in enumerate(children_of(server.process.pid)):
            named[f"child {n}" + ("" if m == 0 else f" ({m + 1})")] = pid
    found = {name: taken for name, pid in named.items() if (taken := take(pid)) is not None}
    return Sample(round(second, 1), found, size_of(index))


def take(pid: int) -> Taken | None:
    """Return what a process takes; None where there is none any more."""
    try:
        facts = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        )
        resident, anonymous = (int(facts[name].split()[0]) * 1024 for name in ("VmRSS", "RssAnon"))
        return Taken(
            pid,
            resident,
            int(facts["Threads"]),
            sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()),
            anonymous,
        )
    except (OSError, KeyError):  # one that has just ended has no memory
        return None


def elected(index: Path) -> set[int]:
    """Return the process ids that hold a lock on watching: whoever indexes."""
    inodes = {str(path.stat().st_ino) for path in index.glob("*/watch.lock")}
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return {
        int(fields[-4])
        for fields in lines
        if fields[-3].rpartition(":")[2] in inodes and fields[1] != "->"
    }


def judge_same_processes(samples: Sequence[Sample]) -> Verdict:
    """Judge whether the processes are the same from first to last: one that died and was started
    again has forgotten what it leaked.
    """
    seen = [{name: taken.pid for name, taken in sample.taken.items()} for sample in samples]
    changed = next((n for n, each in enumerate(seen) if each != seen[0]), None)
    if changed is None:
        return Verdict(
            "the same processes throughout",
            True,
            ", ".join(f"{name} is {pid}" for name, pid in seen[0].items()),
        )
    return Verdict(
        "the same processes throughout",
        False,
        f"{seen[0]} at first, {seen[changed]} after {samples[changed].second:g} s",
    )


def judge_processes(samples: Sequence[Sample], long_enough: bool) -> list[Verdict]:
    """Judge each process by itself, and the index: a small one that grows does not hide behind the
    large ones.
    """
    names = [name for name in samples[0].taken if all(name in sample.taken for sample in samples)]
    verdicts = [judge_same_processes(samples)]
    for name in names:
        for measure in MEASURES:
            verdicts.append(
                judge_level(
                    name,
                    measure,
                    [getattr(sample.taken[name], measure) for sample in samples],
                    long_enough,
                )
            )
    return [
        *verdicts,
        judge_level("index", "bytes on disk", [sample.index for sample in samples], long_enough),
    ]
