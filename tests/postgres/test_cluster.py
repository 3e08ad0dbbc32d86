"""What the tests of replicas stand on: servers that die, are cut off and are promoted."""

from __future__ import annotations

import psycopg
import pytest

from postgres.cluster import Cluster


@pytest.mark.slow
def test_a_standby_follows_is_cut_off_and_takes_over(cluster: Cluster) -> None:
    first, second = cluster.nodes
    first.run("CREATE TABLE t AS SELECT 1 AS n")
    cluster.catch_up()
    assert second.run("SELECT n FROM t") == [(1,)]
    second.pause()
    first.run("INSERT INTO t VALUES (2)")
    assert second.run("SELECT count(*) FROM t") == [(1,)]
    second.resume()
    cluster.catch_up()
    second.cut()
    first.run("INSERT INTO t VALUES (3)")
    first.kill()
    cluster.promote(second)
    with psycopg.connect(cluster.url(target_session_attrs="read-write")) as connection:
        assert connection.execute(b"SELECT count(*) FROM t").fetchall() == [(2,)]
    cluster.rejoin(first)
    assert first.run("SELECT pg_is_in_recovery(), count(*) FROM t") == [(True, 2)]
