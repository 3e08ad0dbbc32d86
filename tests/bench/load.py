"""What the first publication of a folder costs: its parts, the memory of both sides, the log that
it writes, and the disk that it fills.

As a program it publishes the index of a server's options, in a process of its own, and prints what
that took.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg

from bench.memory import memory_of
from bench.results import Row
from bench.subject import Subject, program
from postgres.server import TestServer
from servers import children_of
from thumbindex.errors import ThumbindexError
from thumbindex.library.engine import Publishing
from thumbindex.serve.opening import Opening

LOOK_SECONDS = 0.2
"""How often it is looked which table is being filled."""

MEMORY_SECONDS = 2.0
"""How often the memory of all processes is added up: the system walks through each one's pages."""

KINDS = {
    "documents": "documents",
    "chunks": "texts",
    "sections": "texts",
    "postings": "words",
    "segments": "words",
    "words": "words",
}
"""What tables hold, by their names; `vectors` are told from their index, and the rest are
others.
"""

PARTS = ("documents", "texts", "words", "vectors", "HNSW", "others")

_NOW = (
    "SELECT coalesce((SELECT relid::regclass::text || ' HNSW' FROM pg_stat_progress_create_index "
    "WHERE datname = current_database() LIMIT 1),"
    " (SELECT relid::regclass::text FROM pg_stat_progress_copy WHERE datname = current_database() "
    "LIMIT 1), '')"
)

_SIZES = (
    "SELECT p.relname, sum(pg_total_relation_size(c.oid))::float8 FROM pg_inherits i JOIN pg_class "
    "c ON c.oid = i.inhrelid"
    " JOIN pg_class p ON p.oid = i.inhparent WHERE p.relkind = 'p' GROUP BY 1"
)

_HNSW = (
    "SELECT coalesce(sum(pg_relation_size(c.oid)), 0)::float8 FROM pg_class c JOIN pg_am a ON "
    "a.oid = c.relam WHERE a.amname = 'hnsw'"
)


def load_rows(subject: Subject, server: TestServer, database: str) -> Iterator[Row]:
    """Publish the folder's index into a database that has our tables; yield what that took."""
    start, before = _log_position(server, database), processor_seconds(server.process)
    with closing(_Observer(server, database)) as observer:
        done = _publish(subject.arguments, server.address(database))
    taken, written = (
        processor_seconds(server.process) - before,
        _log_position(server, database) - start,
    )
    yield Row(
        "engine",
        "load",
        "s",
        [done["seconds"]],
        note=f"{done['chunks']:,} chunks of {done['documents']:,} documents; PostgreSQL "
        f"{_about(server)}",
    )
    for part in PARTS:
        yield Row(
            "engine",
            f"load, {part}",
            "s",
            [observer.seconds[part]],
            note="" if part != "others" else "what is read, compared and committed",
        )
    yield Row("engine", "load, processor time of the builder", "s", [done["processor"]])
    yield Row("engine", "load, processor time of PostgreSQL", "s", [taken])
    yield Row("engine", "load, resident, most, of the builder", "MB", [done["resident"] / 1e6])
    yield Row(
        "engine",
        "load, proportional, most, of PostgreSQL",
        "MB",
        [observer.memory / 1e6],
        note="its shared buffers among them",
    )
    yield Row("engine", "load, log written", "MB", [written / 1e6])


def size_rows(server: TestServer, database: str) -> Iterator[Row]:
    """Yield what a database takes of the disk, by what its tables hold, with their indexes."""
    ((whole, hnsw),) = server.run(
        f"SELECT pg_database_size(current_database())::float8, ({_HNSW})", database
    )
    sizes = defaultdict[str, float](float, HNSW=float(str(hnsw)))
    for table, size in server.run(_SIZES, database):
        sizes[part_of(str(table))] += float(str(size))
    sizes["vectors"] -= sizes["HNSW"]
    sizes["others"] += float(str(whole)) - sum(sizes.values())
    yield Row("engine", "database", "MB", [float(str(whole)) / 1e6])
    yield from (Row("engine", f"database, {part}", "MB", [sizes[part] / 1e6]) for part in PARTS)


def part_of(table: str) -> str:
    """Return what a table holds, or a partition of it."""
    name = table.partition("_")[0]
    return (
        "HNSW"
        if table.endswith(" HNSW") and name == "vectors"
        else "vectors"
        if name == "vectors"
        else KINDS.get(name, "others")
    )


def processor_seconds(process: int) -> float:
    """Return what a process without threads and all of its descendants have taken, those that have
    ended among them; 0 for no process.
    """
    if not process:
        return 0.0
    # ticks of its children that have ended
    ended = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[13:15]
    return sum(map(int, ended)) / os.sysconf("SC_CLK_TCK") + sum(
        map(_running_seconds, _tree(process))
    )


def descendants_seconds() -> float:
    """Return what this process and all of its descendants have taken, those that have ended among
    them, to a hundredth of a second.
    """
    ticks = 0
    for process in _tree(os.getpid()):
        with suppress(OSError):  # it has just ended
            ticks += sum(
                map(
                    int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]
                )
            )
    return ticks / os.sysconf("SC_CLK_TCK")


def _tree(process: int) -> list[int]:
    return [process, *(each for child in children_of(process) for each in _tree(child))]


def _running_seconds(process: int) -> float:
    """Return to the nanosecond what the system has given a process: its clock ticks are a hundredth
    of a second, as long as a step.
    """
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9
    except OSError:
        return 0.0


class _Observer:
    """Looks at a server while somebody loads: which table is being filled, or index made, and how
    much memory it has.
    """

    def __init__(self, server: TestServer, database: str) -> None:
        self.seconds: Mapping[str, float] = defaultdict(float)
        self.memory = 0
        self._server, self._over = server, threading.Event()
        self._connection = psycopg.connect(server.address(database), autocommit=True)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        seconds, last, next_memory = defaultdict[str, float](float), time.monotonic(), 0.0
        self.seconds = seconds
        while not self._over.wait(LOOK_SECONDS):
            row = self._connection.execute(_NOW.encode()).fetchone()
            now = time.monotonic()
            seconds[part_of(str(row[0])) if row else "others"] += now - last
            last = now
            if now >= next_memory:
                self.memory = max(self.memory, memory_of(self._server.process)[1])
                next_memory = time.monotonic() + MEMORY_SECONDS

    def close(self) -> None:
        """End the thread and the connection."""
        self._over.set()
        self._thread.join()
        self._connection.close()


def _log_position(server: TestServer, database: str) -> float:
    ((position,),) = server.run(
        "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8", database
    )
    return float(str(position))


def _about(server: TestServer) -> str:
    """Return a server's version and the settings that were set on it, in words."""
    ((version,),) = server.run("SHOW server_version")
    rows = server.run(
        "SELECT name, current_setting(name) FROM pg_settings WHERE sourcefile LIKE "
        "'%auto.conf' ORDER BY name"
    )
    return ", ".join([str(version), *(f"{name} {value}" for name, value in rows)])


def _publish(options: list[str], url: str) -> dict[str, Any]:
    """Run the program. Raises ThumbindexError where it fails."""
    command, environment = program("bench.load", options)
    done = subprocess.run(
        command, input=url, capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode:
        raise ThumbindexError(
            "The folder could not be published: "
            f"{(done.stderr.strip() or 'no reason was given').splitlines()[-1]}"
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Read a server's options and, from standard input, the address of the database."""
    import resource

    subject, url = (
        Subject(Opening.from_arguments(sys.argv[1:]), Path(), Namespace()),
        sys.stdin.read(),
    )
    with subject.open() as library, closing(Publishing(library.opened, url)) as builder:
        began, spent = time.perf_counter(), time.process_time()
        (done,) = builder.look()
        builder.tidy()
        taken = {"seconds": time.perf_counter() - began, "processor": time.process_time() - spent}
    resident = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        json.dumps(
            {**taken, "resident": resident, "chunks": done.chunks, "documents": done.documents}
        )
    )


if __name__ == "__main__":
    main()
