"""Metrics in the Prometheus text format, and who may read them."""

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from thumbindex.model import IndexState
from thumbindex.web.metrics import Metrics


def read(text: str) -> dict[tuple[str, ...], float]:
    """Return samples by name and label values."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_include_calls_folders_and_streams() -> None:
    metrics = Metrics()
    for seconds in (0.001, 0.005, 0.03, 99.0):
        metrics.count_call("query", "ok", seconds)
    samples = read(metrics.text({'a "b"\\\n': IndexState(2, 7, 5, 2, "m", 1)}, 3).decode())
    up_to = {
        le: samples["thumbindex_tool_seconds_bucket", le, "ok", "query"]
        for le in ("0.005", "0.01", "0.05", "60.0", "+Inf")
    }
    assert list(up_to.values()) == [2, 2, 3, 3, 4]
    assert samples["thumbindex_tool_seconds_sum", "ok", "query"] == pytest.approx(99.036)
    assert samples["thumbindex_index_chunks", 'a "b"\\\n'] == 7
    assert samples["thumbindex_streams",] == 3


def test_calls_are_counted_by_tool_and_outcome(open_running: Any) -> None:
    for name, arguments in (
        ("query", {"query": "leave"}),
        ("read", {"path": "nowhere.md"}),
        ("made-up", {}),
        ("made-up-too", {}),
    ):
        open_running.call("tools/call", name=name, arguments=arguments)
    answer = open_running.ask("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = read(answer.text)
    assert {
        key[1:]: samples[key] for key in samples if key[0] == "thumbindex_tool_seconds_count"
    } == {("ok", "query"): 1, ("error", "read"): 1, ("error", "unknown"): 2}


@pytest.mark.parametrize(("name", "status"), [("prometheus", 200), ("alice", 403)])
def test_only_listed_tokens_read_metrics(running: Any, name: str, status: int) -> None:
    answer = running.ask("/metrics", headers=running.token(name))
    assert (answer.status_code, "salaries" in answer.text) == (status, status == 200)


def test_metrics_token_sees_no_notes(running: Any) -> None:
    assert running.call("tools/list", running.token("prometheus")).status_code == 403
