"""The queue of texts that wait for a vector: folders want them, workers take them, and builders
collect the vectors.

A text is there once for each model, under the digest of what is embedded. It goes when no folder
wants it any more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from thumbindex.index.postgres.database import Engine, Session
from thumbindex.ports import Vector

KEYS_AT_ONCE = 1000
"""Texts that are put into the queue, and vectors that are collected, with one statement."""

IDLE_SECONDS = 900
"""For so long a worker may embed what it took with one call; of one that hangs for longer
PostgreSQL takes it back.
"""

KEEPALIVES = {"tcp_keepalives_idle": 30, "tcp_keepalives_interval": 10, "tcp_keepalives_count": 3}
"""Within a minute PostgreSQL notices that a worker's machine has vanished, and takes back what it
had taken.
"""

TextsOf = Callable[[Sequence[bytes]], Mapping[bytes, str]]
"""Gives the texts with these digests; those that went meanwhile are missing."""


@dataclass(frozen=True, slots=True)
class Counts:
    """How much of a model is in the queue."""

    fingerprint: str
    model: str
    waiting: int  # for a worker
    done: int  # for a builder, which collects the vectors


def counts(session: Session) -> tuple[Counts, ...]:
    """Count what is in the queue, by model."""
    sql = (
        "SELECT fingerprint, model, count(*) - count(vector), count(vector) FROM texts GROUP BY "
        "1, 2 ORDER BY 2, 1"
    )
    return tuple(Counts(*row) for row in session.fetch(sql))


def count_waiting(session: Session) -> int:
    """Count the texts that have no vector yet, of whatever model, by the index of those alone."""
    return int(session.fetch("SELECT count(*) FROM texts WHERE vector IS NULL")[0][0])


# ------------------------------------------------------------------ folders want vectors


def want(
    session: Session, folder: int, model: tuple[str, str], keys: Sequence[bytes], texts_of: TextsOf
) -> None:
    """Have a folder want just these texts embedded, the first one first, by a model (fingerprint
    and name).

    A text that is in the queue, or has a vector of that model in a published folder, is not put
    there again. Texts that nobody wants any more go; one that a worker has in hand goes with a
    later call or a sweep, since a publication waits for no worker. Of another incarnation of the
    folder nothing is wanted any more.
    """
    fingerprint, name = model
    if keys:
        session.execute(
            "CREATE TEMP TABLE asked (key bytea PRIMARY KEY, priority int8 NOT NULL) ON COMMIT DROP"
        )
        session.copy(
            "asked",
            ("key", "priority"),
            ("bytea", "int8"),
            ((key, n) for n, key in enumerate(keys)),
        )
        session.execute("ANALYZE asked")
        session.execute(
            "INSERT INTO wanted SELECT %s, %s, key FROM asked ON CONFLICT DO NOTHING",
            (folder, fingerprint),
        )
        sql = (
            "SELECT key, priority FROM asked a WHERE NOT EXISTS (SELECT FROM texts t WHERE "
            "t.fingerprint = %s AND t.key = a.key)"
            " AND NOT EXISTS (SELECT FROM vectors v WHERE v.folder = ANY(%s) AND v.key = a.key) "
            "ORDER BY key"
        )
        lacking: dict[bytes, int] = dict(
            session.fetch(sql, (fingerprint, _folders_of(session, fingerprint)))
        )
        _put(session, fingerprint, name, lacking, texts_of)
    others = (
        "SELECT o.folder FROM folders f JOIN folders o ON o.name = f.name AND o.folder <> "
        "f.folder WHERE f.folder = %s"
    )
    still = (
        " AND NOT (fingerprint = %s AND EXISTS (SELECT FROM asked a WHERE a.key = wanted.key))"
        if keys
        else ""
    )
    sql = (
        f"DELETE FROM wanted WHERE (folder = %s{still}) OR folder IN ({others}) RETURNING "
        "fingerprint, key"
    )
    _drop_unwanted(session, session.fetch(sql, (folder, *([fingerprint] if keys else []), folder)))


def want_nothing(session: Session, folder: int) -> None:
    """Have a folder want nothing of the queue."""
    want(session, folder, ("", ""), (), lambda keys: {})


def _put(
    session: Session, fingerprint: str, model: str, lacking: Mapping[bytes, int], texts_of: TextsOf
) -> None:
    """Put texts into the queue, by digest and priority.

    They go in the order of their digests: builders that put the same ones wait for each other, and
    never in a circle.
    """
    keys = list(lacking)
    for start in range(0, len(keys), KEYS_AT_ONCE):
        texts = texts_of(keys[start : start + KEYS_AT_ONCE])
        part = [key for key in keys[start : start + KEYS_AT_ONCE] if key in texts]
        session.execute(
            "INSERT INTO texts SELECT %s, key, %s, priority, text, NULL FROM unnest(%s::bytea[], "
            "%s::int8[], %s::bytea[]) AS t (key, priority, text)"
            " ON CONFLICT DO NOTHING",
            (
                fingerprint,
                model,
                part,
                [lacking[key] for key in part],
                [texts[key].encode("utf-8", "surrogatepass") for key in part],
            ),
        )


def _drop_unwanted(session: Session, gone: Sequence[tuple[str, bytes]]) -> None:
    """Take texts out of the queue that a folder wants no more and no other one wants."""
    for start in range(0, len(gone), KEYS_AT_ONCE):
        part = gone[start : start + KEYS_AT_ONCE]
        which = (
            " JOIN unnest(%s::text[], %s::bytea[]) AS g (fingerprint, key) ON (g.fingerprint, "
            "g.key) = (t.fingerprint, t.key)"
        )
        session.execute(
            _DROP.format(which),
            ([fingerprint for fingerprint, _ in part], [key for _, key in part]),
        )


_DROP = (
    "DELETE FROM texts WHERE (fingerprint, key) IN (SELECT t.fingerprint, t.key FROM texts t{}"
    " WHERE NOT EXISTS (SELECT FROM wanted w WHERE (w.fingerprint, w.key) = (t.fingerprint, "
    "t.key)) FOR UPDATE OF t SKIP LOCKED)"
)
"""What nobody wants; what a worker has in hand is left."""


def sweep(engine: Engine) -> None:
    """Take out of the queue what folders wanted that are published no more, and texts that nobody
    wants.
    """
    with engine.change() as session:
        session.execute("DELETE FROM wanted WHERE folder NOT IN (SELECT folder FROM folders)")
        if session.fetch("SELECT FROM texts LIMIT 1"):
            session.execute(_DROP.format(""))


# ------------------------------------------------------------------ workers take texts


def waiting_models(session: Session) -> list[tuple[str, str]]:
    """Return fingerprint and name of each model that texts wait for: one look into the index a
    model, however many texts there are.
    """
    first = "SELECT fingerprint, model FROM texts WHERE vector IS NULL"
    return [
        (fingerprint, model)
        for fingerprint, model in session.fetch(
            f"WITH RECURSIVE models AS (({first} ORDER BY fingerprint LIMIT 1) UNION ALL SELECT "
            "following.* FROM models m CROSS JOIN LATERAL"
            f" ({first} AND fingerprint > m.fingerprint ORDER BY fingerprint LIMIT 1) following) "
            "SELECT fingerprint, model FROM models"
        )
    ]


class Taken:
    """Texts that one worker has in hand, for as long as its transaction lasts."""

    def __init__(self, session: Session, fingerprint: str, texts: Mapping[bytes, str]) -> None:
        self._session, self._fingerprint, self.texts = session, fingerprint, texts

    def keep(self, vectors: Mapping[bytes, bytes]) -> None:
        """Keep vectors by the digests of their texts, as `index/vector_store.py` stores them, and
        empty the texts.
        """
        self._session.execute(
            "UPDATE texts t SET text = '', vector = v.vector FROM unnest(%s::bytea[], %s::bytea[]) "
            "AS v (key, vector)"
            " WHERE t.fingerprint = %s AND t.key = v.key",
            (list(vectors), list(vectors.values()), self._fingerprint),
        )


@contextmanager
def take(engine: Engine, fingerprint: str, count: int) -> Iterator[Taken]:
    """Take texts that wait for a model's vectors, those of highest priority that nobody else has in
    hand.

    What is kept until the end is kept together. Where there is no end, because the worker was
    killed or its machine has vanished, PostgreSQL rolls back, and another worker takes the same
    texts.
    """
    with engine.change() as session:
        limit(session)
        sql = (
            "SELECT key, text FROM texts WHERE vector IS NULL AND fingerprint = %s ORDER BY "
            "priority LIMIT %s FOR UPDATE SKIP LOCKED"
        )
        texts = {
            key: text.decode("utf-8", "surrogatepass")
            for key, text in session.fetch(sql, (fingerprint, count))
        }
        yield Taken(session, fingerprint, texts)


def limit(session: Session) -> None:
    """Have PostgreSQL end this transaction, and give back what it holds, where its worker hangs or
    is gone.
    """
    for name, value in {
        "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
        **KEEPALIVES,
    }.items():
        session.execute(f"SET LOCAL {name} = '{value}'")


# ------------------------------------------------------------------ builders collect vectors


def collect(session: Session, folder: int, fingerprint: str, last: bytes) -> dict[bytes, bytes]:
    """Return vectors of texts that a folder wants, by digest, behind the `last` one, as workers
    kept them; some at a time.

    They stay until the folder wants them no more.
    """
    sql = (
        "SELECT t.key, t.vector FROM texts t JOIN wanted w ON w.folder = %s AND w.fingerprint = "
        "t.fingerprint AND w.key = t.key"
        " WHERE t.fingerprint = %s AND t.vector IS NOT NULL AND t.key > %s ORDER BY t.key LIMIT %s"
    )
    return dict(session.fetch(sql, (folder, fingerprint, last, KEYS_AT_ONCE)))


def lacks_texts(session: Session, folder: int) -> bool:
    """Tell whether a folder wants a text that is not in the queue: somebody took it out meanwhile,
    or it has its vector in a published folder.
    """
    sql = (
        "SELECT EXISTS (SELECT FROM wanted w WHERE folder = %s"
        " AND NOT EXISTS (SELECT FROM texts t WHERE (t.fingerprint, t.key) = (w.fingerprint, "
        "w.key)))"
    )
    return bool(session.fetch(sql, (folder,))[0][0])


def find_vectors(
    session: Session, fingerprint: str, keys: Sequence[bytes]
) -> Iterator[dict[bytes, Vector]]:
    """Yield the vectors that published folders have of texts, by digest, a part at a time.

    A number in half precision is off by 2^-11 of itself at most. An int8 step is 1/127 of the
    largest, so the same int8 comes of it.
    """
    if folders := _folders_of(session, fingerprint):
        for start in range(0, len(keys), KEYS_AT_ONCE):
            sql = (
                "SELECT DISTINCT ON (key) key, halfvec_send(vector) FROM vectors WHERE folder = "
                "ANY(%s) AND key = ANY(%s::bytea[])"
            )
            if rows := session.fetch(sql, (folders, list(keys[start : start + KEYS_AT_ONCE]))):
                # behind its length
                yield {
                    key: np.frombuffer(sent, dtype=">f2", offset=4).astype(np.float32)
                    for key, sent in rows
                }


def _folders_of(session: Session, fingerprint: str) -> list[int]:
    """Return the numbers of the published folders with vectors of a model."""
    rows = session.fetch("SELECT folder, facts FROM folders WHERE generation >= 0")
    return [folder for folder, facts in rows if json.loads(facts).get("fingerprint") == fingerprint]
