"""Metrics are written by the rules of Prometheus' text format, and read by those who are named for
it.
"""

import re
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.types import CallToolResult

from postgres.cluster import Cluster
from thumbindex.index.postgres.database import Engine
from thumbindex.library import Library
from thumbindex.library.engine import publish_folders
from thumbindex.model import STATEMENT_BUCKETS, DatabaseStatus, IndexState
from thumbindex.serve.http.limits import BUCKETS, Calls, Metrics
from thumbindex.settings import Config
from thumbindex.testing import FakeEmbedder

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


@pytest.mark.parametrize(
    ("server", "standby", "lag"),
    [("db:5432", False, 0.0), ("spare:5432", True, 6.5), ("", False, None)],
)
def test_a_database_is_told_of_with_its_standby_where_one_answers(
    server: str, standby: bool, lag: float | None
) -> None:
    status = DatabaseStatus(
        "db/notes",
        server,
        standby,
        lag,
        2,
        3,
        4,
        50,
        1,
        1.5,
        0.75,
        "SELECT 1",
        (40, 10, *[0] * (len(STATEMENT_BUCKETS) - 1)),
    )
    found = read(Metrics().text({}, 0, status).decode())
    assert found["thumbindex_engine_up"] == {"thumbindex_engine_up": bool(server)}
    beside = [
        found.get(f"thumbindex_engine_{part}", {}).get(f"thumbindex_engine_{part}")
        for part in ("standby", "lag_seconds")
    ]
    assert beside == ([None, None] if lag is None else [standby, lag])
    assert found["thumbindex_engine_pool_waiting"] == {"thumbindex_engine_pool_waiting": 4}
    assert (
        found["thumbindex_engine_statement_seconds"][
            'thumbindex_engine_statement_seconds_bucket{le="+Inf"}'
        ]
        == 50
    )


def test_a_histogram_is_complete_for_each_tool_and_outcome() -> None:
    metrics = Metrics()
    metrics.count_call("query", "ok", 1.0)
    assert len(written(metrics, {}, 0)["thumbindex_tool_seconds"]) == len(BUCKETS) + 3


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


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (CallToolResult(content=[], is_error=True), "error"),
        ({"isError": False}, "ok"),
        (None, "ok"),
    ],
)
async def test_a_call_is_counted_by_what_its_result_says_in_whichever_form_it_comes(
    result: Any, outcome: str
) -> None:
    async def answered(_: Any) -> Any:
        return result

    metrics = Metrics()
    await Calls(metrics, 5.0)(
        SimpleNamespace(method="tools/call", params={"name": "read"}), answered
    )
    counts = written(metrics, {}, 0)["thumbindex_tool_seconds"]
    assert counts[f'thumbindex_tool_seconds_count{{outcome="{outcome}",tool="read"}}'] == 1


def test_metrics_are_read_and_not_posted(open_running: Any, running: Any) -> None:
    posted = [
        open_running.ask("/metrics", "POST"),
        running.ask("/metrics", "POST", running.token("prometheus")),
    ]
    assert [answer.status_code for answer in posted] == [405, 405]


def test_indexes_are_counted_by_folder_and_memory_is_there(open_running: Any) -> None:
    found = read(open_running.ask("/metrics").text)
    folders = {
        name: value
        for name, value in found["thumbindex_index_documents"].items()
        if "salaries" in name
    }
    assert list(folders.values()) == [2]
    assert found["process_start_time_seconds"]["process_start_time_seconds"] > 1.7e9


@pytest.mark.parametrize(
    ("name", "status"), [("prometheus", 200), ("alice", 403), ("bob", 403), ("eve", 403)]
)
def test_metrics_are_for_those_who_are_named(running: Any, name: str, status: int) -> None:
    answer = running.ask("/metrics", headers=running.token(name))
    assert (answer.status_code, "salaries" in answer.text) == (status, status == 200)


def test_who_reads_metrics_reads_no_notes(running: Any) -> None:
    assert running.call("tools/list", running.token("prometheus")).status_code == 403


@pytest.mark.slow
def test_those_who_watch_a_server_over_replicas_hear_how_they_are_and_wait_for_none(
    serve: Callable[..., Any], library: Library, config: Config, place: Path, cluster: Cluster
) -> None:
    first, second = cluster.nodes
    url = cluster.url(database=cluster.server.database(migrated=True))
    publish_folders(library.opened, url)
    cluster.catch_up()
    with (
        Library.open(
            index=place / "nowhere",
            config=config,
            embedder=FakeEmbedder(),
            wait_for_models=False,
            engine=url,
        ) as published,
        serve(library=published) as running,
    ):

        def told() -> dict[str, dict[str, float]]:
            return read(running.ask("/metrics", headers=running.token("prometheus")).text)

        assert (
            running.ask("/ready").json(),
            told()["thumbindex_engine_standby"]["thumbindex_engine_standby"],
        ) == ({"status": "ready"}, 1)
        second.pause()
        with (
            closing(Engine(first.address(url.rpartition("/")[2]))) as engine,
            engine.change() as session,
        ):
            session.execute("UPDATE folders SET published = now()")
        time.sleep(6)
        assert told()["thumbindex_engine_lag_seconds"]["thumbindex_engine_lag_seconds"] > 5
        assert (
            running.ask("/ready")
            .json()["note"]
            .startswith("The database is read from a standby that is ")
        )
        for each in (first, second):
            each.kill()
        began = time.monotonic()
        away = told()
        assert (
            away["thumbindex_engine_up"]["thumbindex_engine_up"],
            "thumbindex_engine_lag_seconds" in away,
        ) == (0, False)
        assert (running.ask("/ready").status_code, time.monotonic() - began < 6) == (503, True)
        first.start()
        assert (
            running.ask("/ready").status_code,
            told()["thumbindex_engine_standby"]["thumbindex_engine_standby"],
        ) == (200, 0)
