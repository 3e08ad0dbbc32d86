"""What a server counts, as Prometheus reads it: counts and seconds of tools by outcome, answers by status, what the indexes hold, memory."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path

from thumbindex.model import IndexState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Seconds: a warm query takes some hundredths, `wait_fresh` up to 60."""

Labels = Mapping[str, str]
Sample = tuple[str, Labels, float]

_PAGE_BYTES = 4096
_STATM = Path("/proc/self/statm")


class Metrics:
    """Counts since the start of a server; all of it happens on the event loop."""

    def __init__(self) -> None:
        self._started = time.time()
        self._seconds: dict[tuple[str, str], list[int]] = {}  # by tool and outcome: how many fell into each bucket
        self._sums: Counter[tuple[str, str]] = Counter()
        self._statuses: Counter[int] = Counter()

    def called(self, tool: str, outcome: str, seconds: float) -> None:
        """Count a call of a tool."""
        buckets = self._seconds.setdefault((tool, outcome), [0] * (len(BUCKETS) + 1))
        buckets[bisect_left(BUCKETS, seconds)] += 1
        self._sums[tool, outcome] += seconds  # type: ignore[assignment]

    def answered(self, status: int) -> None:
        """Count an answer of HTTP."""
        self._statuses[status] += 1

    def text(self, folders: Mapping[str, IndexState], streams: int) -> str:
        """Return all of it in Prometheus' text format, version 0.0.4."""
        by_folder = [({"folder": name}, state) for name, state in sorted(folders.items())]
        families: list[tuple[str, str, str, list[Sample]]] = [
            ("thumbindex_info", "gauge", "The version that runs.", [("", {"version": version("thumbindex")}, 1)]),
            ("thumbindex_tool_seconds", "histogram", "Seconds of tool calls by tool and outcome.", list(self._histogram())),
            (
                "thumbindex_http_responses_total",
                "counter",
                "Answers by HTTP status.",
                [("", {"status": str(status)}, count) for status, count in sorted(self._statuses.items())],
            ),
            ("thumbindex_streams", "gauge", "Streams of changes that are open.", [("", {}, streams)]),
            ("thumbindex_index_documents", "gauge", "Documents of an index.", [("", labels, state.documents) for labels, state in by_folder]),
            ("thumbindex_index_chunks", "gauge", "Chunks of an index.", [("", labels, state.chunks) for labels, state in by_folder]),
            ("thumbindex_index_vectors", "gauge", "Chunks that have a vector.", [("", labels, state.vectors) for labels, state in by_folder]),
            ("process_start_time_seconds", "gauge", "When the server started, in seconds since 1970.", [("", {}, self._started)]),
            ("process_resident_memory_bytes", "gauge", "Memory of the server, its child not counted.", _memory()),
        ]
        return "".join(_family(*each) for each in families if each[3])

    def _histogram(self) -> Iterator[Sample]:
        for (tool, outcome), buckets in sorted(self._seconds.items()):
            labels = {"tool": tool, "outcome": outcome}
            for bound, count in zip([*map(_number, BUCKETS), "+Inf"], accumulate(buckets), strict=True):
                yield "_bucket", {**labels, "le": bound}, count
            yield "_sum", labels, self._sums[tool, outcome]
            yield "_count", labels, sum(buckets)


def _family(name: str, kind: str, about: str, samples: Sequence[Sample]) -> str:
    head = f"# HELP {name} {about}\n# TYPE {name} {kind}\n"
    return head + "".join(f"{name}{suffix}{_labels(labels)} {_number(value)}\n" for suffix, labels, value in samples)


def _labels(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _memory() -> list[Sample]:
    """Return what the process holds in memory; nothing where the system does not tell as Linux does."""
    try:
        return [("", {}, int(_STATM.read_text(encoding="ascii").split()[1]) * _PAGE_BYTES)]
    except (OSError, ValueError, IndexError):
        return []
