"""Folders in servers of their own: a hub holds no folder, and reads those of its shards through
`postgres_fdw`.

A shard is a database like any other, whose folders are numbered in a range of their own. The hub's
tables are partitioned by these ranges, each a foreign table of one shard: a question about a folder
is planned for its shard alone. PostgreSQL gives each transaction one snapshot of each shard, and
all of a folder is in one shard, its row in `folders` too: a question sees one moment of each
folder.
"""

from __future__ import annotations

import re

from thumbindex.errors import EngineError, UsageError
from thumbindex.index.postgres.database import FOLDERS_A_SHARD, VERSION, Engine, Session
from thumbindex.index.postgres.publish import TABLES

NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
"""Of a foreign server: it is the name of a schema, too."""


def attach(engine: Engine, server: str) -> int:
    """Have a hub read what a foreign server of its database holds; return the shard's number.

    Raises EngineError, UsageError.
    """
    if not NAME.fullmatch(server):
        raise UsageError(
            f"{server!r} is no name of a foreign server: it is of small letters, digits and "
            "underscores."
        )
    engine.prepare_hub()
    with engine.change(lock=0) as session:
        if not session.fetch("SELECT 1 FROM pg_foreign_server WHERE srvname = %s", (server,)):
            raise EngineError(
                f"{engine.where} knows no foreign server {server!r}: make it first, as "
                "docs/scale.md shows."
            )
        if session.fetch("SELECT 1 FROM pg_namespace WHERE nspname = %s", (server,)):
            raise EngineError(
                f"{server} is attached already, or has a schema's name: `DROP SCHEMA {server} "
                "CASCADE` takes it away."
            )
        session.execute(f"CREATE SCHEMA {server}")
        tables = ("folders", *TABLES)
        session.execute(
            f"IMPORT FOREIGN SCHEMA public LIMIT TO (facts, {', '.join(tables)}) FROM SERVER "
            f"{server} INTO {server}"
        )
        number = _number_of(session, server)
        start, end = number * FOLDERS_A_SHARD, (number + 1) * FOLDERS_A_SHARD
        for table in tables:
            session.execute(
                f"CREATE TABLE IF NOT EXISTS public.{table} (LIKE {server}.{table}) PARTITION "
                "BY RANGE (folder)"
            )
            session.execute(
                f"ALTER TABLE public.{table} ATTACH PARTITION {server}.{table} FOR VALUES "
                f"FROM ({start}) TO ({end})"
            )
        _refuse_twins(session)
    return number


def _number_of(session: Session, server: str) -> int:
    """Return a shard's number. Raises EngineError where it is none that can be attached."""
    found = session.fetch("SELECT to_regclass(%s) IS NOT NULL", (f"{server}.facts",))[0][0]
    facts: dict[str, str] = (
        dict(session.fetch(f"SELECT key, value FROM {server}.facts")) if found else {}
    )
    if facts.get("schema") != str(VERSION):
        was = f"schema {facts['schema']}" if "schema" in facts else "no index of thumbindex"
        raise EngineError(
            f"{server} holds {was}, and schema {VERSION} is needed: run `thumbindex engine "
            "migrate` on it."
        )
    number = int(facts.get("shard", "0"))
    taken = session.fetch(
        "SELECT n.nspname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN "
        "pg_namespace n ON n.oid = c.relnamespace"
        " WHERE i.inhparent = to_regclass('public.folders') AND pg_get_expr(c.relpartbound, c.oid) "
        "LIKE %s",
        (f"FOR VALUES FROM ({number * FOLDERS_A_SHARD})%",),
    )
    if taken:
        raise EngineError(
            f"{server} is shard {number}, and so is {taken[0][0]}: make one of them anew with "
            "`thumbindex engine migrate --shard N`."
        )
    return number


def _refuse_twins(session: Session) -> None:
    """Raise EngineError where two shards hold folders of one name."""
    twins = session.fetch(
        "SELECT name FROM folders WHERE is_current GROUP BY name HAVING count(*) > 1 ORDER BY "
        "name LIMIT 1"
    )
    if twins:
        raise EngineError(
            f"Another shard holds a folder {twins[0][0]!r}, too: publish one of them under "
            "another name, then forget the first."
        )
