"""Who looks after a database is told in sentences what is wrong with it, and never a password."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result
from jsonschema import validate
from typer.testing import CliRunner

from postgres.server import OWN, PASSWORD, TestServer, fresh_database
from thumbindex.config import load_config
from thumbindex.errors import EngineError, IndexTooNewError
from thumbindex.library import Library
from thumbindex.serve.cli import app
from thumbindex.serve.opening import Opening, names_allowed, served_folders
from thumbindex.testing import FakeEmbedder

pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

from postgres.vault import make_vault
from thumbindex.index.postgres.database import VERSION, Engine, place_of
from thumbindex.index.postgres.doctor import examine, published_folders
from thumbindex.index.postgres.publish import make_partitions

PIECES = ("p@ss", "p%40ss", "word#1", "word%231", "%2Fword", PASSWORD)
"""What of the password must be nowhere."""

NOWHERE = "postgresql://somebody:p%40ss%2Fword%231@127.0.0.1:1/notes"

Checks = dict[str, tuple[bool, str]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a configuration of its own."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return tmp_path


def run(*arguments: object, obj: object = None) -> Result:
    done = CliRunner().invoke(app, list(map(str, arguments)), obj=obj)
    assert_no_password(done.output)
    return done


def assert_no_password(said: str) -> None:
    assert [piece for piece in PIECES if piece in said] == []


def looked(engine: Engine, **how: int) -> Checks:
    found = list(examine(engine, **how))
    for each in found:
        assert_no_password(each.sentence)
    return {each.name: (each.is_well, each.sentence) for each in found}


def put_folder(engine: Engine, name: str, *, vectors: int = 0) -> int:
    """Put a folder there whose words are a few postings; return its number."""
    facts = json.dumps({"documents": 2, "chunks": 3, "vectors": vectors, "dimensions": 3})
    with engine.change() as session:
        sql = (
            "INSERT INTO folders (name, incarnation, is_current, generation, published, facts) "
            "VALUES (%s, 'x', true, 7, now(), %s) RETURNING folder"
        )
        ((folder,),) = session.fetch(sql, (name, facts))
        make_partitions(session, folder)
        session.execute(
            "INSERT INTO postings SELECT %s, 1, 'term' || n, 1, '', '' FROM "
            "generate_series(1, 50) n",
            (folder,),
        )
    return int(folder)


def notes(parent: Path) -> tuple[object, ...]:
    """Make a folder of two notes; return the options that name it and its index."""
    (parent / "notes").mkdir()
    (parent / "notes/tea.md").write_text(
        "# Tea\n\nGreen tea is brewed at 80 degrees. See [[milk]].\n", encoding="utf-8"
    )
    (parent / "notes/coffee.md").write_text(
        "# Coffee\n\nBeans are roasted. See [[tea]].\n", encoding="utf-8"
    )
    for each in (parent / "notes").iterdir():
        # what was saved just now is looked at again, and that is a generation
        os.utime(each, (1.7e9, 1.7e9))
    return ("--folder", parent / "notes", "--index", parent / "index")


def open_it(opening: Opening) -> Library:
    return Library.open(
        opening.folder,
        index=opening.index,
        config=opening.load(),
        embedder=FakeEmbedder(),
        engine=opening.database,
    )


def count_schema(engine: Engine, version: int) -> None:
    with engine.change() as session:
        session.execute("UPDATE facts SET value = %s WHERE key = 'schema'", (str(version),))


# ------------------------------------------------------------------ addresses


def test_an_address_is_shown_without_who_asks() -> None:
    shown = {
        NOWHERE: "127.0.0.1:1/notes",
        "postgresql:///notes?host=/tmp/x&password=p@ss": "a local socket/notes",
        "host=db.example.org dbname=notes user=me password=p@ss": "db.example.org/notes",
        "service=notes": "the service notes",
        "postgresql://a:p%40ss@one:1,two:2/notes": "one:1,two:2/notes",
    }
    assert {url: place_of(url) for url in shown} == shown


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://a:p@ss@db/notes",
        "postgresql://a:p@ss/word#1@db/notes",
        "postgres:/a:p@ss@db",
        "p@ss",
        "a=p@ss",
    ],
)
def test_an_address_that_is_none_is_not_repeated(url: str) -> None:
    with pytest.raises(
        EngineError, match="The address of the database is none: write it as postgresql://"
    ) as error:
        Engine(url)
    assert_no_password(str(error.value))
    for command in (["engine", "folders"], ["query", "tea"], ["doctor"]):
        done = run(*command, "--engine", url)
        assert (done.exit_code in (1, 3), "is none: write it as" in done.output) == (True, True)


def test_what_is_set_on_the_command_line_is_not_repeated_with_its_password() -> None:
    done = run("query", "tea", "--set", f"engine.ulr={NOWHERE}")
    assert (done.exit_code, done.output) == (
        2,
        (
            "--set engine.ulr=postgresql://…@127.0.0.1:1/notes: unknown key `engine.ulr`: did you "
            "mean `engine.url`?\n"
        ),
    )


def test_neither_a_child_nor_what_is_printed_of_a_server_is_told_the_address() -> None:
    opening = Opening(
        ("notes",), overrides=("query.limit=3", f"engine.url={NOWHERE}"), engine=NOWHERE
    )
    assert opening.arguments() == ["--folder=notes", "--set=query.limit=3"]


def test_a_folders_own_file_names_no_database(tmp_path: Path) -> None:
    (tmp_path / "thumbindex.toml").write_text(f'[engine]\nurl = "{NOWHERE}"\n', encoding="utf-8")
    config = load_config(user_file=tmp_path / "none", folder=tmp_path)
    assert (
        config.engine.url,
        "`engine.url` may not be set in a folder's own thumbindex.toml" in config.problem,
    ) == ("", True)
    assert_no_password(config.problem)


def test_a_command_asks_the_configured_database_and_one_that_writes_an_index_does_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "c.toml").write_text(f'[engine]\nurl = "{NOWHERE}"\n', encoding="utf-8")
    asked = Opening(config=tmp_path / "c.toml", engine="")
    assert (asked.database, Opening(config=tmp_path / "c.toml").database) == (NOWHERE, "")
    assert Opening(config=tmp_path / "c.toml", engine="", overrides=("engine.url=",)).database == ""
    assert run("duplicates", "--engine", NOWHERE, "undo", "3f2a").output.startswith(
        "That is done where the folders are indexed"
    )


def test_a_command_without_a_database_asks_for_one() -> None:
    done = run("engine", "folders")
    assert (done.exit_code, "Name it by --engine" in done.output) == (2, True)


def test_a_missing_extra_is_named() -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None; sys.argv[0] = 'thumbindex'; from "
        "thumbindex.__main__ import main; main()"
    )
    for command in (["engine", "migrate"], ["doctor"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *command, "--engine", NOWHERE],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (
            "needs the extra `postgres`: `uv tool install '.[postgres]'`"
            in done.stdout + done.stderr
        )
        assert done.returncode in (1, 3)
        assert_no_password(done.stdout + done.stderr)


# ------------------------------------------------------------------ no way in


def test_a_database_that_is_not_there_is_said_so() -> None:
    for command in (["migrate"], ["folders"], ["forget", "notes"]):
        done = run("engine", *command, "--engine", NOWHERE)
        assert (done.exit_code, "127.0.0.1:1/notes cannot be reached" in done.output) == (3, True)


def test_a_wrong_password_and_an_unknown_role_are_said_so(
    postgres: TestServer, database: str
) -> None:
    role = postgres.role("stranger")
    with (
        closing(Engine(postgres.address(database, f"{role}_not"))) as nobody,
        pytest.raises(EngineError, match="cannot be reached") as error,
    ):
        nobody.check()
    assert_no_password(str(error.value))
    with closing(Engine(postgres.address(database, role, "p@ss/word#12"))) as wrong:
        if OWN in os.environ:
            pytest.skip("one's own server may ask for no password")
        with pytest.raises(EngineError, match="password authentication failed") as error:
            wrong.version()
    assert_no_password(str(error.value))


# ------------------------------------------------------------------ extension and schema


def test_an_empty_database_is_made_ready_by_migrate_alone(postgres: TestServer) -> None:
    with fresh_database(postgres, migrated=False) as name:
        url = postgres.address(name)
        with closing(Engine(url)) as engine:
            with pytest.raises(
                EngineError,
                match="holds no index of thumbindex: make one with `thumbindex engine migrate "
                "--engine URL`",
            ):
                engine.check()
            checks = looked(engine)
            assert checks["extension"] == (
                False,
                (
                    "pgvector is installed and not yet in this database: a superuser runs `CREATE "
                    "EXTENSION vector`"
                ),
            )
            assert (checks["schema"][0], list(checks)[-1]) == (False, "schema")
        assert (
            run("engine", "migrate", "--engine", url).output
            == f"The tables were made, of schema {VERSION}.\n"
        )
        assert (
            run("engine", "migrate", "--engine", url).output
            == f"The tables are of schema {VERSION} already: nothing was changed.\n"
        )


def test_a_role_that_may_not_make_the_extension_or_the_tables_is_told(postgres: TestServer) -> None:
    with fresh_database(postgres, migrated=False) as name:
        done = run("engine", "migrate", "--engine", postgres.address(name, postgres.role("reader")))
    assert (done.exit_code, "may not do this (permission denied" in done.output) == (3, True)


def test_a_newer_schema_is_left_alone(engine: Engine) -> None:
    count_schema(engine, VERSION + 1)
    for ask in (engine.check, engine.migrate):
        with pytest.raises(IndexTooNewError, match="upgrade thumbindex here"):
            ask()
    assert engine.version() == VERSION + 1
    assert looked(engine)["schema"][0] is False


def test_an_older_schema_is_changed_by_migrate_alone(
    postgres: TestServer, database: str, engine: Engine
) -> None:
    count_schema(engine, -1)
    with pytest.raises(
        EngineError,
        match=(
            r"of an earlier version .schema -1.: "
            r"`thumbindex engine migrate --engine URL` makes it anew"
        ),
    ):
        engine.check()
    url = postgres.address(database)
    for command in (
        ["engine", "folders"],
        ["engine", "forget", "notes"],
        ["query", "tea"],
        ["status"],
    ):
        done = run(*command, "--engine", url)
        assert (
            done.exit_code,
            "`thumbindex engine migrate --engine URL` makes it anew" in done.output,
        ) == (3, True)
    assert engine.version() == -1


def test_migrate_makes_an_older_schema_anew_and_a_builder_fills_it_again(
    postgres: TestServer, database: str, engine: Engine, tmp_path: Path
) -> None:
    where, url = notes(tmp_path), postgres.address(database)
    assert run("engine", "publish", *where, "--engine", url, obj=open_it).exit_code == 0
    count_schema(engine, VERSION - 1)
    done = run("engine", "migrate", "--engine", url)
    assert done.output == (
        f"The tables were made anew, in place of schema {VERSION - 1}: builders publish their "
        "folders again.\n"
    )
    assert published_folders(engine) == ()
    assert "2 came, 0 went" in run("engine", "publish", *where, "--engine", url, obj=open_it).stdout
    assert looked(engine)["schema"][0] is True


# ------------------------------------------------------------------ rights


def test_a_role_that_may_only_read_publishes_nothing(
    engine: Engine, reading_engine: Engine, reader_url: str, tmp_path: Path
) -> None:
    done = run("engine", "publish", *notes(tmp_path), "--engine", reader_url, obj=open_it)
    assert (done.exit_code, "may not do this (permission denied" in done.output) == (3, True)
    assert published_folders(reading_engine) == published_folders(engine) == ()
    with reading_engine.question() as session, pytest.raises(EngineError, match="may not do this"):
        session.execute("DELETE FROM folders")


def test_a_question_changes_nothing_whoever_asks_it(engine: Engine) -> None:
    with (
        pytest.raises(
            EngineError, match=r"may not do this .cannot execute DELETE in a read-only transaction"
        ),
        engine.question() as session,
    ):
        session.execute("DELETE FROM folders")


# ------------------------------------------------------------------ the doctor


def test_a_database_in_which_all_is_well(
    postgres: TestServer, engine: Engine, reading_engine: Engine
) -> None:
    for name in ("notes", "handbook"):
        put_folder(engine, name)
    checks = looked(engine)
    assert {name: each for name, each in checks.items() if not each[0]} == {}
    assert checks["rights"][1] == "this role may read and publish"
    assert checks["replication"][1] == "the primary server, with 0 standbys"
    assert (
        checks["folder notes"][1]
        == "generation 7, 2 documents, 3 chunks; a builder said so a moment ago"
    )
    assert (
        checks["words of notes"][1]
        == "a word is found by the key of its partition, and in no other"
    )
    assert looked(reading_engine)["rights"] == (
        True,
        (
            "this role may read, which is enough for a server, and not publish, for which it has "
            "to own the tables"
        ),
    )


def test_a_database_without_folders_has_nothing_to_answer_from(engine: Engine) -> None:
    assert looked(engine)["folders"] == (
        False,
        "none is published yet: `thumbindex engine publish --folder DIR` does it",
    )


def test_a_role_that_may_read_nothing_is_told(postgres: TestServer, database: str) -> None:
    with closing(Engine(postgres.address(database, postgres.role("stranger")))) as engine:
        checks = looked(engine)
    assert [name for name, each in checks.items() if not each[0]] == ["schema"]
    assert "permission denied" in checks["schema"][1]


def test_an_extension_that_was_dropped_is_missed(engine: Engine) -> None:
    with engine.change() as session:
        session.execute("DROP EXTENSION vector CASCADE")
    assert looked(engine)["extension"][0] is False


def test_a_key_that_is_not_used_is_told(engine: Engine) -> None:
    folder = put_folder(engine, "notes")
    with engine.change() as session:
        session.execute("ALTER TABLE postings DROP CONSTRAINT postings_pkey")
    is_well, said = looked(engine)["words of notes"]
    assert (is_well, f"a word is not found by postings_{folder}_pkey" in said) == (False, True)


def test_partitions_that_are_not_pruned_are_told(
    postgres: TestServer, database: str, engine: Engine
) -> None:
    for name in ("notes", "handbook"):
        put_folder(engine, name)
    postgres.run(f"ALTER DATABASE {database} SET enable_partition_pruning = off")
    with closing(Engine(postgres.address(database))) as later:
        is_well, said = looked(later)["words of notes"]
    assert (is_well, "`enable_partition_pruning` has to be on" in said) == (False, True)


def test_many_vectors_need_an_index_of_their_own(engine: Engine) -> None:
    folder = put_folder(engine, "notes", vectors=11)
    assert looked(engine)["vectors of notes"] == (
        True,
        "11: few enough to compare each with a question",
    )
    assert looked(engine, exact_vectors=10)["vectors of notes"][0] is False
    with engine.change() as session:
        made = (
            f"CREATE INDEX vectors_{folder}_hnsw ON vectors_{folder} USING hnsw "
            "((vector::halfvec(3)) halfvec_ip_ops)"
        )
        session.execute(made)
    assert looked(engine, exact_vectors=10)["vectors of notes"] == (
        True,
        "11, found by an index of their own",
    )


def test_the_command_says_the_same_as_text_and_as_json(
    postgres: TestServer, database: str, engine: Engine
) -> None:
    put_folder(engine, "notes")
    url = postgres.address(database)
    done = run("doctor", "--engine", url)
    assert (
        done.exit_code,
        "ok    engine words of notes: a word is found by the key" in done.output,
    ) == (0, True)
    told = json.loads(run("doctor", "--engine", url, "--json").stdout)
    assert (told["failed"], {each["state"] for each in told["checks"]}) == (0, {"ok"})
    count_schema(engine, VERSION + 1)
    assert run("doctor", "--engine", url).exit_code == 1


# ------------------------------------------------------------------ what is published


def test_what_is_published_is_listed_and_forgotten(
    postgres: TestServer, database: str, engine: Engine
) -> None:
    url = postgres.address(database)
    assert run("engine", "folders", "--engine", url).exit_code == 1
    folder = put_folder(engine, "notes")
    listed = json.loads(run("engine", "folders", "--engine", url, "--json").stdout)["folders"]
    assert [
        (each["name"], each["generation"], each["documents"], each["chunks"]) for each in listed
    ] == [("notes", 7, 2, 3)]
    assert run("engine", "forget", "notes", "--engine", url).exit_code == 0
    done = run("engine", "forget", "notes", "--engine", url)
    assert (done.exit_code, "Nothing is published under the name 'notes'" in done.output) == (
        2,
        True,
    )
    with engine.question() as session:
        assert session.fetch("SELECT to_regclass(%s)::text", (f"postings_{folder}",)) == [(None,)]


def test_what_is_published_is_asked_by_each_command_that_reads(
    postgres: TestServer, database: str, reader_url: str, tmp_path: Path
) -> None:
    where, url = notes(tmp_path), postgres.address(database)
    published = [
        run("engine", "publish", *where, "--engine", url, obj=open_it).stdout for _ in range(2)
    ]
    assert re.fullmatch(
        r"notes: generation \d+ published, 2 documents, 2 chunks; 2 came, 0 went\n", published[0]
    )
    assert published[1] == "notes: published already, nothing has changed\n"
    asked = {
        "query green tea": "1. notes/tea.md:3",
        "list": "coffee.md",
        "read tea.md": "80 degrees",
        "outline": "tea.md",
        "related tea.md": "coffee.md",
        "why tea.md green": "tea.md is in the answer",
        "status": "notes",
        "broken": "milk",
        "orphans": "coffee.md",
        "duplicates": "0 clusters",
    }
    said = {each: run(*each.split(), "--engine", reader_url, obj=open_it).output for each in asked}
    assert {
        each: text for each, text in said.items() if asked[each] not in text or "Unexpected" in text
    } == {}
    checked = run(
        "verify", 'tea.md (line 3) says "brewed at 80 degrees"', "--engine", reader_url, obj=open_it
    )
    assert checked.exit_code == 0, checked.output


def test_a_server_learns_from_the_database_which_folders_it_has(
    postgres: TestServer, database: str, reader_url: str, tmp_path: Path
) -> None:
    run("engine", "publish", *notes(tmp_path), "--engine", postgres.address(database), obj=open_it)
    opening = Opening(engine=reader_url)
    folders, about = served_folders(opening, opening.load())
    assert ([name for name, _ in folders], about) == (["notes"], {})
    assert names_allowed(opening, folders) == {}


def test_what_these_commands_print_as_json_fits_its_schema(
    postgres: TestServer, database: str, tmp_path: Path
) -> None:
    url, garden = postgres.address(database), make_vault(tmp_path / "garden")
    asked = (
        ("migrate",),
        ("publish", "--folder", garden, "--index", tmp_path / "index"),
        ("folders",),
        ("forget", "garden"),
    )
    schema = json.loads(
        (Path(__file__).parents[2] / "docs" / "schema" / "engine.json").read_text(encoding="utf-8")
    )
    for words in asked:
        done = run("engine", *words, "--engine", url, "--json")
        validate(json.loads(done.stdout), schema)
