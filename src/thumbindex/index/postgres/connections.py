"""Connections to the servers that an address names: which of them is asked, how many connections
are kept, and which are given up.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from thumbindex.errors import EngineError

MOST_CONNECTIONS = 8
"""Of one process: a question takes one, and few are answered at once."""

CONNECT_SECONDS = 10
"""How long a connection to the only server, or a free one, is waited for."""

AMONG_SEVERAL_SECONDS = 3
"""How long one is waited for where another server may be asked instead."""

AGAIN_SECONDS = 2
"""How long one is waited for where none came the last time: whoever asks hears of it soon. libpq
knows no shorter time.
"""

REST_SECONDS = 30.0
"""So long a server that could not be reached is asked after all others."""

LIFE_SECONDS, SECOND_CHOICE_SECONDS = 1_800.0, 60.0
"""How old a connection gets; and one to the primary, where standbys are preferred and none was
there: one may be there again.
"""

WATCHED = {
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Where the address says nothing else: a server whose machine or network has vanished is given up
after some 15 s, not after hours.
"""

ANY, PREFERS_STANDBY, CHANGES = "any", "prefer-standby", "read-write"
"""Of libpq's `target_session_attrs`: what one server, several that are read from, and those of who
changes something are asked for.
"""

KINDS = (ANY, "read-write", "read-only", "primary", "standby", PREFERS_STANDBY)
"""All values that libpq knows."""

Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Host:
    """One server of an address."""

    name: str  # as it may be shown
    address: str  # of it alone


@dataclass(slots=True, eq=False)
class Held:
    """A connection, and to whom."""

    connection: Connection
    host: Host
    era: int  # how often all connections had been closed when it was made
    until: float = 0.0  # by the monotonic clock
    is_fresh: bool = True  # nothing was asked of it yet
    was_standby: bool | None = None  # as it said when it was asked; None where it tells by itself

    @property
    def is_standby(self) -> bool:
        """Tell whether its server is a standby now: servers report it with each answer that follows
        a promotion.
        """
        told = self.connection.pgconn.parameter_status(b"in_hot_standby")
        if told is not None:
            return told == b"on"
        if self.was_standby is None:  # something stands between that does not pass it on
            (self.was_standby,) = self.connection.execute(
                b"SELECT pg_is_in_recovery()"
            ).fetchone() or (False,)
        return bool(self.was_standby)

    def fits(self, wanted: str) -> bool:
        """Tell whether its server is one that is wanted, in the words of `target_session_attrs`."""
        if wanted == ANY:
            return True
        if wanted in ("standby", PREFERS_STANDBY):
            return self.is_standby
        only_reads = (
            self.is_standby
            or self.connection.pgconn.parameter_status(b"default_transaction_read_only") == b"on"
        )
        return {"primary": not self.is_standby, "read-only": only_reads}.get(wanted, not only_reads)


class Connections:
    """A few connections to one of several servers; a thread that needs one makes it where none is
    free.

    Safe to use from several threads.
    """

    def __init__(self, url: str, prepare: Callable[[Connection], None], *, writes: bool) -> None:
        parts = conninfo_to_dict(url)
        self.hosts = hosts_of(url)
        self._wanted = str(
            parts.get("target_session_attrs")
            or (CHANGES if writes else PREFERS_STANDBY if len(self.hosts) > 1 else ANY)
        )
        if self._wanted not in KINDS:
            raise EngineError(
                "target_session_attrs of the address of the database is none of "
                f"{', '.join(KINDS)}: correct it, or leave it out."
            )
        self._is_shuffled = parts.get("load_balance_hosts") == "random"
        self._waits = parts.get("connect_timeout") is None
        self._prepare = prepare
        self._idle: list[Held] = []
        self._used = self._closed = 0
        self.waiting = 0
        self._down: dict[Host, float] = {}  # when each could not be reached
        self._is_down = False  # none that fits could be had
        self._room = threading.Condition()

    @property
    def used(self) -> int:
        """How many connections answer somebody now."""
        return self._used

    @property
    def idle(self) -> int:
        """How many are free."""
        return len(self._idle)

    def take(self) -> Held:
        """Return a connection, which is to be given back.

        Raises psycopg.Error, EngineError where all are in use for long.
        """
        with self._room:
            self.waiting += 1
            try:
                if not self._room.wait_for(lambda: self._used < MOST_CONNECTIONS, CONNECT_SECONDS):
                    raise EngineError(
                        f"All {MOST_CONNECTIONS} connections to the database are in use for "
                        f"{CONNECT_SECONDS} s: ask again in a moment."
                    )
            finally:
                self.waiting -= 1
            self._used += 1
            now = time.monotonic()
            old, self._idle = (
                [each for each in self._idle if each.until < now],
                [each for each in self._idle if each.until >= now],
            )
            held = self._idle.pop() if self._idle else None
        _close(old)
        try:
            return held or self._connect()
        except BaseException:
            with self._room:
                self._used -= 1
                self._room.notify()
            raise

    def give_back(self, held: Held) -> None:
        """Keep a connection for the next one who asks; where it was lost, give up all to its
        server: nobody is to meet them one by one.
        """
        if held.connection.closed:
            self.give_up(held.host)
        elif self._wanted == PREFERS_STANDBY and not held.is_standby:  # it may have been promoted
            held.until = min(held.until, time.monotonic() + SECOND_CHOICE_SECONDS)
        held.is_fresh = False
        with self._room:
            self._used -= 1
            is_kept = (
                not held.connection.closed
                and held.era == self._closed
                and held.until >= time.monotonic()
            )
            if is_kept:
                self._idle.append(held)
            self._room.notify()
        if not is_kept:
            _close([held])

    def give_up(self, host: Host) -> None:
        """Close the free connections to a server."""
        with self._room:
            gone, self._idle = (
                [each for each in self._idle if each.host is host],
                [each for each in self._idle if each.host is not host],
            )
        _close(gone)

    def close(self) -> None:
        """Close all that are free, and others when they are given back; the next one is made
        anew.
        """
        with self._room:
            gone, self._idle, self._closed = self._idle, [], self._closed + 1
        _close(gone)

    def _connect(self) -> Held:
        """Connect to the first server that fits.

        Raises psycopg.OperationalError that says of each why not.
        """
        second: Held | None = None
        failures = list[tuple[Host, str]]()
        for host in self._order():
            if second is not None and host in self._down:
                break  # a server that answers is better than one that may
            try:
                held = self._opened(host)
            except psycopg.Error as error:
                self._down[host] = time.monotonic()
                failures.append((host, " ".join(str(error).split())))
                continue
            self._down.pop(host, None)
            if held.fits(self._wanted):
                _close([second] if second else [])
                held.until = time.monotonic() + LIFE_SECONDS
                self._is_down = False
                return held
            if self._wanted == PREFERS_STANDBY and second is None:
                second = held
                continue
            failures.append(
                (
                    host,
                    (
                        f"is {'a standby' if held.is_standby else 'the primary server'}, and "
                        f"{self._wanted} is wanted"
                    ),
                )
            )
            _close([held])
        if second is not None:
            second.until = time.monotonic() + SECOND_CHOICE_SECONDS
            self._is_down = False
            return second
        self._is_down = True
        raise psycopg.OperationalError(
            "; ".join(
                f"{host.name}: {said}" if len(self.hosts) > 1 else said for host, said in failures
            )
        )

    def _opened(self, host: Host) -> Held:
        if self._is_down:
            seconds = AGAIN_SECONDS
        else:
            seconds = AMONG_SEVERAL_SECONDS if len(self.hosts) > 1 else CONNECT_SECONDS
        era = self._closed
        address = (
            make_conninfo(host.address, connect_timeout=seconds) if self._waits else host.address
        )
        connection = psycopg.connect(address, autocommit=True)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return Held(connection, host, era)

    def _order(self) -> list[Host]:
        """Return the servers as they are asked: those that could not be reached a moment ago come
        last.
        """
        since = time.monotonic() - REST_SECONDS
        # others note meanwhile what is down
        self._down = {host: at for host, at in self._down.copy().items() if at >= since}
        hosts = (
            random.sample(self.hosts, len(self.hosts)) if self._is_shuffled else list(self.hosts)
        )
        return sorted(hosts, key=lambda host: host in self._down)


def _close(gone: list[Held]) -> None:
    for each in gone:
        with suppress(psycopg.Error):
            each.connection.close()


def hosts_of(url: str) -> tuple[Host, ...]:
    """Return the servers that an address names; one that leaves them to libpq's own files is taken
    for one.
    """
    parts = {key: value for key, value in conninfo_to_dict(url).items() if value is not None}
    said = {**WATCHED, "application_name": "thumbindex", **parts}
    names = list(_several(parts))
    if len(names) <= 1:
        return (Host(_where(parts), make_conninfo("", **said)),)
    own = {
        key: value
        for key, value in said.items()
        if key not in ("host", "hostaddr", "port", "target_session_attrs", "load_balance_hosts")
    }
    return tuple(Host(shown(*each), make_conninfo("", **own, **_named(*each))) for each in names)


def _several(parts: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name, address and port of each server."""
    hosts, numbers, ports = (
        str(parts.get(key) or "").split(",") for key in ("host", "hostaddr", "port")
    )
    count = max(len(hosts), len(numbers))
    yield from zip_longest(hosts, numbers, ports if len(ports) > 1 else ports * count, fillvalue="")


def _named(host: str, number: str, port: str) -> dict[str, str]:
    return {
        key: value for key, value in (("host", host), ("hostaddr", number), ("port", port)) if value
    }


def shown(host: str, number: str, port: str) -> str:
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
    return ",".join(shown(*each) for each in _several(parts))
