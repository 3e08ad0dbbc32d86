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

from fakes import FakeEmbedder
from postgres.server import OWN, PASSWORD, TestServer, fresh_database
from thumbindex.cli.app import app
from thumbindex.config import load_config
from thumbindex.errors import EngineError, IndexTooNewError
from thumbindex.library import Library
from thumbindex.opening import OpenOptions, nameable_directories, served_folders
from thumbindex.postgres import Engine, PublishJob, diagnose_database, list_published
from thumbindex.postgres.database import VERSION, public_address

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


def looked(engine: Engine) -> Checks:
    found = list(diagnose_database(engine))
    for each in found:
        assert_no_password(each.sentence)
    return {each.name: (each.is_ok, each.sentence) for each in found}


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


def open_it(opening: OpenOptions) -> Library:
    return Library.open(
        opening.folder,
        index=opening.index,
        config=opening.load(),
        embedder=FakeEmbedder(),
        engine=opening.database,
    )


def count_schema(engine: Engine, version: int) -> None:
    with engine.write_transaction() as session:
        session.execute("UPDATE facts SET value = %s WHERE key = 'schema'", (str(version),))


# ------------------------------------------------------------------ addresses


def test_an_address_is_shown_without_who_asks() -> None:
    shown = {
        NOWHERE: "127.0.0.1:1/notes",
        "postgresql:///notes?host=/tmp/x&password=p@ss": "a local socket/notes",
        "service=notes": "the service notes",
        "postgresql://a:p%40ss@one,two:6432/notes": "one,two:6432/notes",
        "postgresql://a:p%40ss@/notes?host=/tmp/x,db2&port=1,2": "a local socket:1,db2:2/notes",
        "host=db1,db2 port=7000 dbname=notes password=p@ss": "db1:7000,db2:7000/notes",
    }
    assert {url: public_address(url) for url in shown} == shown


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://a:p@ss@db/notes",
        "postgresql://a:p@ss/word#1@db/notes",
        "p@ss",
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
    opening = OpenOptions(
        ("notes",), overrides=("query.limit=3", f"engine.url={NOWHERE}"), engine=NOWHERE
    )
    assert opening.arguments() == ["--folder=notes", "--set=query.limit=3"]


def test_a_folders_own_file_names_no_database(tmp_path: Path) -> None:
    (tmp_path / "thumbindex.toml").write_text(f'[engine]\nurl = "{NOWHERE}"\n', encoding="utf-8")
    config = load_config(user_file=tmp_path / "none", folder=tmp_path)
    assert (
        config.engine.url,
        "`engine.url` may not be set in a folder's own thumbindex.toml" in config.folder_file_error,
    ) == ("", True)
    assert_no_password(config.folder_file_error)


def test_a_command_asks_the_configured_database_and_one_that_writes_an_index_does_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "c.toml").write_text(f'[engine]\nurl = "{NOWHERE}"\n', encoding="utf-8")
    asked = OpenOptions(config=tmp_path / "c.toml", engine="")
    assert (asked.database, OpenOptions(config=tmp_path / "c.toml").database) == (NOWHERE, "")
    assert (
        OpenOptions(config=tmp_path / "c.toml", engine="", overrides=("engine.url=",)).database
        == ""
    )
    assert run("duplicates", "--engine", NOWHERE, "undo", "3f2a").output.startswith(
        "This command works on the machine that indexes the folders"
    )


def test_a_missing_extra_is_named() -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None; sys.argv[0] = 'thumbindex'; from "
        "thumbindex.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "engine", "migrate", "--engine", NOWHERE],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "needs the extra `postgres`: `uv tool install '.[postgres]'`" in done.stderr
    assert done.returncode == 3
    assert_no_password(done.stdout + done.stderr)


# ------------------------------------------------------------------ no way in


def test_a_database_that_is_not_there_is_said_so() -> None:
    for command in (["migrate"], ["folders"]):
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
            assert [name for name, each in looked(engine).items() if not each[0]] == [
                "extension",
                "schema",
            ]
        assert (
            run("engine", "migrate", "--engine", url).output
            == f"Created the tables of schema {VERSION}.\n"
        )
        assert (
            run("engine", "migrate", "--engine", url).output
            == f"The tables already have schema {VERSION}: nothing was changed.\n"
        )


def test_a_newer_schema_is_left_alone(engine: Engine) -> None:
    count_schema(engine, VERSION + 1)
    for ask in (engine.check, engine.migrate):
        with pytest.raises(IndexTooNewError, match="upgrade thumbindex here"):
            ask()
    assert engine.version() == VERSION + 1
    assert looked(engine)["schema"][0] is False


def test_an_older_schema_is_made_anew_by_migrate_alone_and_a_builder_fills_it_again(
    postgres: TestServer, database: str, engine: Engine, tmp_path: Path
) -> None:
    where, url = notes(tmp_path), postgres.address(database)
    assert run("engine", "publish", *where, "--engine", url, obj=open_it).exit_code == 0
    count_schema(engine, VERSION - 1)
    for command in (["engine", "folders"], ["engine", "forget", "notes"], ["query", "tea"]):
        done = run(*command, "--engine", url)
        assert done.exit_code == 3
        assert "`thumbindex engine migrate --engine URL` makes it anew" in done.output
    assert engine.version() == VERSION - 1
    done = run("engine", "migrate", "--engine", url)
    assert done.output == (
        f"Created the tables of schema {VERSION}, replacing schema {VERSION - 1}: builders "
        "publish their folders again.\n"
    )
    assert list_published(engine) == ()
    assert (
        "2 added, 0 removed"
        in run("engine", "publish", *where, "--engine", url, obj=open_it).stdout
    )
    assert looked(engine)["schema"][0] is True


# ------------------------------------------------------------------ rights


def test_a_role_that_may_only_read_publishes_nothing(
    engine: Engine, reading_engine: Engine, reader_url: str, tmp_path: Path
) -> None:
    done = run("engine", "publish", *notes(tmp_path), "--engine", reader_url, obj=open_it)
    assert (done.exit_code, "may not do this (permission denied" in done.output) == (3, True)
    assert list_published(reading_engine) == list_published(engine) == ()
    with (
        reading_engine.read_transaction() as session,
        pytest.raises(EngineError, match="may not do this"),
    ):
        session.execute("DELETE FROM folders")


def test_a_question_changes_nothing_whoever_asks_it(engine: Engine) -> None:
    with (
        pytest.raises(
            EngineError, match=r"may not do this .cannot execute DELETE in a read-only transaction"
        ),
        engine.read_transaction() as session,
    ):
        session.execute("DELETE FROM folders")


# ------------------------------------------------------------------ the doctor


def test_the_doctor_finds_a_folder_well_that_was_just_published(
    builder: PublishJob, engine: Engine, reading_engine: Engine
) -> None:
    checks = looked(engine)
    assert {name: each for name, each in checks.items() if not each[0]} == {}
    assert checks["rights"][1] == "this role may read and publish"
    assert checks["vectors of garden"][0]
    is_well, said = looked(reading_engine)["rights"]
    assert (is_well, "and not publish" in said) == (True, True)


# ------------------------------------------------------------------ what is published


def test_what_is_published_is_asked_by_each_command_that_reads(
    postgres: TestServer, database: str, reader_url: str, tmp_path: Path
) -> None:
    where, url = notes(tmp_path), postgres.address(database)
    published = [
        run("engine", "publish", *where, "--engine", url, obj=open_it).stdout for _ in range(2)
    ]
    assert re.fullmatch(
        r"notes: generation \d+ published, 2 documents, 2 chunks; 2 added, 0 removed\n",
        published[0],
    )
    # files that were saved just now may be looked at again, which is a generation
    assert re.search("0 added, 0 removed|unchanged, already published", published[1])
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
    opening = OpenOptions(engine=reader_url)
    folders, about = served_folders(opening, opening.load())
    assert ([name for name, _ in folders], about) == (["notes"], {})
    assert nameable_directories(opening, folders) == {}


def test_commands_print_json_that_fits_its_schema(
    postgres: TestServer, database: str, tmp_path: Path
) -> None:
    url, schema = postgres.address(database), Path(__file__).parents[2] / "docs" / "schema"
    said = {}
    for words in (
        ("migrate",),
        ("publish", *notes(tmp_path)),
        ("folders",),
        ("forget", "notes"),
    ):
        done = run("engine", *words, "--engine", url, "--json", obj=open_it)
        said[words[0]] = json.loads(done.stdout)
        validate(said[words[0]], json.loads((schema / "engine.json").read_text(encoding="utf-8")))
    assert [
        (each["name"], each["documents"], each["chunks"]) for each in said["folders"]["folders"]
    ] == [("notes", 2, 2)]
    done = run("engine", "forget", "notes", "--engine", url)
    assert (done.exit_code, "No published folder is named 'notes'" in done.output) == (
        2,
        True,
    )
    done = run("doctor", "--engine", url, "--json")
    assert (done.exit_code, json.loads(done.stdout)["failed"]) == (1, 1)
