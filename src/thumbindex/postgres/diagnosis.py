"""What is published to a database, and what has to be right of it: the server, its extension, the
schema, the role's rights, and its indexes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from thumbindex.errors import StorageError
from thumbindex.postgres.database import LAG, VERSION, Engine, Session
from thumbindex.postgres.publish import TABLES
from thumbindex.postgres.published_index import read_folders
from thumbindex.postgres.published_vectors import EXACT
from thumbindex.text import plural

OLDEST_SERVER = 15
"""Of PostgreSQL: what is older is not tried."""

OLDEST_EXTENSION = (0, 8)
"""Of pgvector: the first whose index is searched on where a filter leaves too few."""

LONGEST_LAG_SECONDS = 60.0
"""A standby that is further behind answers from what was true a while ago."""


@dataclass(frozen=True, slots=True)
class PublishedFolder:
    """A folder as servers read it."""

    folder: int  # the number of its partitions
    name: str
    generation: int
    documents: int
    chunks: int
    vectors: int
    published: str  # when a builder last said that this is what there is: ISO 8601 in UTC
    seconds: float  # since then


def published_folders(engine: Engine) -> tuple[PublishedFolder, ...]:
    """Return what servers read, by name. Raises EngineError."""
    engine.check()
    with engine.question() as session:
        return _published_folders(session)


def _published_folders(session: Session) -> tuple[PublishedFolder, ...]:
    ((now,),) = session.fetch("SELECT extract(epoch FROM now())::float8")
    return tuple(
        PublishedFolder(
            state.folder,
            state.name,
            state.generation,
            int(state.facts["documents"]),
            int(state.facts["chunks"]),
            int(state.facts["vectors"]),
            datetime.fromtimestamp(state.published, UTC).isoformat(timespec="seconds"),
            max(now - state.published, 0.0),
        )
        for state in sorted(read_folders(session), key=lambda each: each.name)
    )


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    is_well: bool
    sentence: str


def examine(engine: Engine) -> Iterator[Check]:
    """Yield what is found of a database, one thing after another; what cannot be looked at, as the
    one before is not well, is left out.
    """
    try:
        with engine.question() as session:
            yield from _examine_server(engine, session)
            is_ours, schema = _check_schema(engine)
            yield schema
            if is_ours:
                rights = _check_rights(session)
                yield rights
                if rights.is_well:
                    yield from _examine_folders(session)
    except StorageError as error:
        yield Check("database", False, str(error))


def _examine_server(engine: Engine, session: Session) -> Iterator[Check]:
    sql = (
        "SELECT current_setting('server_version_num')::int, current_setting('server_version'), "
        "current_user::text"
    )
    number, version, role = session.fetch(sql)[0]
    yield Check("connection", True, f"{engine.where} answers to the role {role}")
    is_new = number // 10_000 >= OLDEST_SERVER
    yield Check(
        "server",
        is_new,
        f"PostgreSQL {version.split()[0]}"
        + ("" if is_new else f": {OLDEST_SERVER} or later is needed, upgrade it"),
    )
    yield _check_extension(session)
    yield _check_standby(session)


def _check_extension(session: Session) -> Check:
    there = session.fetch("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    if there:
        version = str(there[0][0])
        is_new = tuple(int(part) for part in version.split(".")[:2]) >= OLDEST_EXTENSION
        return Check(
            "extension",
            is_new,
            f"pgvector {version}"
            + ("" if is_new else ": 0.8 or later is needed, then `ALTER EXTENSION vector UPDATE`"),
        )
    if session.fetch("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
        return Check(
            "extension",
            False,
            "pgvector is installed and not yet in this database: a superuser runs `CREATE "
            "EXTENSION vector`",
        )
    return Check(
        "extension",
        False,
        "pgvector is missing: install version 0.8 or later on the database's machine",
    )


def _check_standby(session: Session) -> Check:
    behind, is_standby = session.fetch(LAG)[0]
    if not is_standby:
        count, seconds = session.fetch(
            "SELECT count(*), coalesce(extract(epoch FROM max(replay_lag)), 0)::float8 FROM "
            "pg_stat_replication"
        )[0]
        return _lag(
            seconds, f"the primary server, with {plural(count, 'standby')}", "the slowest is"
        )
    return _lag(behind, "a standby, which is enough to answer from", "it is")


def _lag(seconds: float, what: str, who: str) -> Check:
    if seconds <= LONGEST_LAG_SECONDS:
        return Check(
            "replication", True, f"{what}; {who} {seconds:.1f} s behind" if seconds else what
        )
    return Check(
        "replication",
        False,
        f"{what}; {who} {seconds:,.0f} s behind: answers are that old, see what holds it up",
    )


def _check_schema(engine: Engine) -> tuple[bool, Check]:
    try:
        engine.check()
    except StorageError as error:
        return False, Check("schema", False, str(error))
    return True, Check("schema", True, f"version {VERSION}")


def _check_rights(session: Session) -> Check:
    names = ["facts", "folders", *TABLES]
    sql = (
        "SELECT has_table_privilege(name, 'SELECT'), pg_has_role(relowner, 'USAGE') FROM "
        "unnest(%s::text[]) AS name"
        " JOIN pg_class ON pg_class.oid = to_regclass(name)"
    )
    rows = session.fetch(sql, (names,))
    may_read, owns = all(reads for reads, _ in rows), all(owner for _, owner in rows)
    (may_create,) = session.fetch("SELECT has_schema_privilege(current_schema(), 'CREATE')")[0]
    if not may_read:
        return Check(
            "rights",
            False,
            "this role may not read: `GRANT SELECT ON ALL TABLES IN SCHEMA public TO` it",
        )
    if owns and may_create:
        return Check("rights", True, "this role may read and publish")
    return Check(
        "rights",
        True,
        "this role may read, which is enough for a server, and not publish, for which it has "
        "to own the tables",
    )


def _examine_folders(session: Session) -> Iterator[Check]:
    found = _published_folders(session)
    if not found:
        yield Check(
            "folders",
            False,
            "none is published yet: `thumbindex engine publish --folder DIR` does it",
        )
    for each in found:
        size = f"{plural(each.documents, 'document')}, {plural(each.chunks, 'chunk')}"
        yield Check(
            f"folder {each.name}",
            True,
            f"generation {each.generation:,}, {size}; a builder said so {_ago(each.seconds)}",
        )
        yield _check_vectors(session, each)


def _ago(seconds: float) -> str:
    for length, noun in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= length:
            return f"{plural(int(seconds // length), noun)} ago"
    return "a moment ago"


def _check_vectors(session: Session, folder: PublishedFolder) -> Check:
    name = f"vectors of {folder.name}"
    if folder.vectors <= EXACT:
        return Check(name, True, f"{folder.vectors:,}: few enough to compare each with a question")
    sql = "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%s) AND indisvalid"
    if not session.fetch(sql, (f"vectors_{folder.folder}_hnsw",)):
        return Check(
            name,
            False,
            f"{folder.vectors:,}, and no index of their own: the next `thumbindex engine publish` "
            "makes it",
        )
    return Check(name, True, f"{folder.vectors:,}, found by an index of their own")
