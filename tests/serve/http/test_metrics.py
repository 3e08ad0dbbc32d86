"""Metrics are written by the rules of Prometheus' text format, and read by those who are named for
it.
"""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from thumbindex.model import STATEMENT_BUCKETS, DatabaseStatus, IndexState
from thumbindex.serve.http.metrics import Metrics

LABEL = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(
    rf"([a-z_]+)(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\+Inf|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
)


def read(text: str) -> dict[str, dict[str, float]]:
    """Read the format as it is described, strictly: each family once, with HELP and TYPE before its
    samples.
    """
    assert text.endswith("\n")
    found: dict[str, dict[str, float]] = {}
    family, kind = "", ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert family not in found
            found[family] = {}
        elif line.startswith("# TYPE "):
            name, kind = line.split(" ")[2:]
            assert (name, kind in {"counter", "gauge", "histogram"}, found[family]) == (
                family,
                True,
                {},
            )
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
            assert sample[1] in {family + suffix for suffix in suffixes}
            assert kind != "counter" or family.endswith("_total")
            found[family][line.rpartition(" ")[0]] = float(sample[3])
    return found


def written(
    metrics: Metrics, folders: Mapping[str, IndexState], streams: int
) -> dict[str, dict[str, float]]:
    return read(metrics.text(folders, streams).decode())


def test_what_is_written_is_the_format() -> None:
    metrics = Metrics()
    for seconds in (0.001, 0.005, 0.03, 99.0):
        metrics.count_call("query", "ok", seconds)
    metrics.count_call("read", "error", 0.5)
    metrics.count_response(200)
    found = written(metrics, {'a "b"\\\n': IndexState(2, 7, 5, 2, "m", 1)}, 3)
    calls = found["thumbindex_tool_seconds"]
    up_to = {
        le: calls[f'thumbindex_tool_seconds_bucket{{le="{le}",outcome="ok",tool="query"}}']
        for le in ("0.005", "0.01", "0.05", "60.0", "+Inf")
    }
    assert list(up_to.values()) == [2, 2, 3, 3, 4]
    assert calls['thumbindex_tool_seconds_count{outcome="ok",tool="query"}'] == 4
    assert calls['thumbindex_tool_seconds_sum{outcome="ok",tool="query"}'] == pytest.approx(99.036)
    assert found["thumbindex_index_chunks"] == {
        'thumbindex_index_chunks{folder="a \\"b\\"\\\\\\n"}': 7
    }
    assert found["thumbindex_streams"] == {"thumbindex_streams": 3}


def test_a_database_is_told_of() -> None:
    buckets = (2, *([0] * (len(STATEMENT_BUCKETS) - 1)), 1)
    status = DatabaseStatus(
        "place", "host:1", False, 0.5, 3, 4, 0, 3, 1, 2.5, 2.0, "SELECT", buckets
    )
    families = read(Metrics().text({}, 0, status).decode())
    values = {
        name.removeprefix("thumbindex_engine_"): value
        for family in families
        if family.startswith("thumbindex_engine_")
        for name, value in families[family].items()
    }
    first, last = (
        f'statement_seconds_bucket{{le="{le}"}}' for le in (STATEMENT_BUCKETS[0], "+Inf")
    )
    assert (values[first], values[last], values["statement_seconds_sum"]) == (2, 3, 2.5)
    assert {name: value for name, value in values.items() if "statement_seconds" not in name} == {
        "up": 1,
        "standby": 0,
        "lag_seconds": 0.5,
        'pool_connections{state="used"}': 3,
        'pool_connections{state="idle"}': 4,
        "pool_waiting": 0,
        "statements_total": 3,
        "slow_statements_total": 1,
    }


def test_calls_are_counted_by_tool_and_outcome(open_running: Any) -> None:
    for name, arguments in (
        ("query", {"query": "leave"}),
        ("read", {"path": "nowhere.md"}),
        ("made-up", {}),
        ("made-up-too", {}),
    ):
        open_running.call("tools/call", name=name, arguments=arguments)
    answer = open_running.ask("/metrics")
    counts = {
        name: value
        for name, value in read(answer.text)["thumbindex_tool_seconds"].items()
        if "_count" in name
    }
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert counts == {
        'thumbindex_tool_seconds_count{outcome="ok",tool="query"}': 1,
        'thumbindex_tool_seconds_count{outcome="error",tool="read"}': 1,
        'thumbindex_tool_seconds_count{outcome="error",tool="unknown"}': 2,
    }


@pytest.mark.parametrize(("name", "status"), [("prometheus", 200), ("alice", 403)])
def test_metrics_are_for_those_who_are_named(running: Any, name: str, status: int) -> None:
    answer = running.ask("/metrics", headers=running.token(name))
    assert (answer.status_code, "salaries" in answer.text) == (status, status == 200)


def test_who_reads_metrics_reads_no_notes(running: Any) -> None:
    assert running.call("tools/list", running.token("prometheus")).status_code == 403
