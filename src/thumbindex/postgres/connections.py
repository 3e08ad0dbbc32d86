"""A bounded pool of connections. libpq chooses the server among those of the address."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import zip_longest
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from thumbindex.errors import EngineError

MOST_CONNECTIONS = 8
"""Connections of one process: a question takes one, and few are answered at once."""

WAIT_SECONDS = 10
"""How long a question waits for a free connection."""

LIFE_SECONDS = 300.0
"""Age at which a connection is replaced, so that a standby that came back is used again."""

DEFAULTS: Mapping[str, str | int] = {
    "application_name": "thumbindex",
    "connect_timeout": 3,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Parameters that the address may override. With these a server whose machine or network has
vanished is given up after some 15 s, not after hours.
"""

Connection = psycopg.Connection[Any]


class Connections:
    """At most `MOST_CONNECTIONS` connections to the server that libpq chooses.

    Safe to use from several threads.
    """

    def __init__(self, url: str, prepare: Callable[[Connection], None], *, writes: bool) -> None:
        given: dict[str, Any] = conninfo_to_dict(url)
        if writes:
            wanted = "read-write"
        else:
            wanted = "prefer-standby" if len(list(_servers(given))) > 1 else "any"
        self._address = make_conninfo("", **{**DEFAULTS, "target_session_attrs": wanted, **given})
        self._prepare = prepare
        self._idle: list[Connection] = []
        self._made_at: dict[Connection, float] = {}
        self._closed_at = 0.0
        self._room = threading.Condition()
        self.used = 0
        self.waiting = 0

    @property
    def idle(self) -> int:
        """How many connections are free."""
        return len(self._idle)

    def take(self) -> Connection:
        """Return a free connection, or a new one; `give_back` ends its use.

        Raises psycopg.Error, and EngineError if all stay in use.
        """
        with self._room:
            self.waiting += 1
            try:
                if not self._room.wait_for(lambda: self.used < MOST_CONNECTIONS, WAIT_SECONDS):
                    raise EngineError(
                        f"All {MOST_CONNECTIONS} connections to the database are in use for "
                        f"{WAIT_SECONDS} s: ask again in a moment."
                    )
            finally:
                self.waiting -= 1
            self.used += 1
            connection = self._idle.pop() if self._idle else None
        try:
            return connection or self._connect()
        except BaseException:
            self._leave()
            raise

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for the next question.

        If it broke, throw the others away as well: most likely they lead to the same server.
        """
        if connection.closed:
            self.close()
        with self._room:
            is_young = self._made_at[connection] > time.monotonic() - LIFE_SECONDS
            is_kept = is_young and self._made_at[connection] > self._closed_at
            if is_kept:
                self._idle.append(connection)
            else:
                del self._made_at[connection]
        self._leave()
        if not is_kept:
            _close(connection)

    def close(self) -> None:
        """Close the free connections now, and the others when they are given back."""
        with self._room:
            free, self._idle = self._idle, []
            self._closed_at = time.monotonic()
            for connection in free:
                del self._made_at[connection]
        for connection in free:
            _close(connection)

    def _connect(self) -> Connection:
        connection = psycopg.connect(self._address, autocommit=True)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        with self._room:
            self._made_at[connection] = time.monotonic()
        return connection

    def _leave(self) -> None:
        with self._room:
            self.used -= 1
            self._room.notify()


def _close(connection: Connection) -> None:
    with suppress(psycopg.Error):
        connection.close()


# ------------------------------------------------------------------ addresses as they are shown


def server_of(connection: Connection) -> str:
    """Return the name and port of the server that a connection leads to."""
    info = connection.info
    return _shown(info.host, "", str(info.port))


def _servers(parts: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name, address and port of each server."""
    hosts, numbers, ports = (
        str(parts.get(key) or "").split(",") for key in ("host", "hostaddr", "port")
    )
    count = max(len(hosts), len(numbers))
    yield from zip_longest(hosts, numbers, ports if len(ports) > 1 else ports * count, fillvalue="")


def _shown(host: str, number: str, port: str) -> str:
    """Return how a server is shown: its name, or its address, and its port."""
    name = "a local socket" if host.startswith("/") or not (host or number) else host or number
    return f"{name}:{port}" if port else name


def place_of(url: str) -> str:
    """Return an address without user and password, to be shown.

    Raises EngineError where it is none; what was written is not repeated.
    """
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        parts = {"host": "@"}
    host, port, name = (str(parts.get(key) or "") for key in ("host", "port", "dbname"))
    # a part of a password, perhaps
    if re.search(r"[@%\s]", host) or re.search(r"[^\d,]", port) or re.search("[@/]", name):
        raise EngineError(
            "The address of the database is none: write it as postgresql://user@host:5432/name; "
            "what is no letter or digit in a name or password is written as %40 for @, %2F for / "
            "and so on."
        )
    where = _where(parts)
    return f"{where}/{name}" if name else where


def _where(parts: Mapping[str, Any]) -> str:
    if parts.get("service") and not (parts.get("host") or parts.get("hostaddr")):
        return f"the service {parts['service']}"
    return ",".join(_shown(*each) for each in _servers(parts))
