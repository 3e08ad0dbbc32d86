"""Administrators get plain error messages, and never a password."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fakes import FakeEmbedder
from postgres.server import OWN, PASSWORD, TestServer, fresh_database
from program import app
from thumbindex.config import load_config
from thumbindex.errors import EngineError, IndexTooNewError
from thumbindex.library import Library
from thumbindex.opening import OpenOptions, served_folders
from thumbindex.postgres import Engine, PublishJob, diagnose_database
from thumbindex.postgres.database import VERSION, public_address
from thumbindex.postgres.published_folders import list_published

PIECES = ("p@ss", "p%40ss", "word#1", "word%231", "%2Fword", PASSWORD)
"""Parts of the password, which no output may contain."""

NOWHERE = "postgresql://somebody:p%40ss%2Fword%231@127.0.0.1:1/notes"

Checks = dict[str, tuple[bool, str]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a configuration of its own."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return tmp_path


def run(*arguments: object, obj: object = None) -> Result:
    result = CliRunner().invoke(app, list(map(str, arguments)), obj=obj)
    assert_no_password(result.output)
    return result


def assert_no_password(text: str) -> None:
    assert [piece for piece in PIECES if piece in text] == []


def diagnose(engine: Engine) -> Checks:
    checks = list(diagnose_database(engine))
    for check in checks:
        assert_no_password(check.sentence)
    return {check.name: (check.is_ok, check.sentence) for check in checks}


def write_notes(parent: Path) -> tuple[object, ...]:
    """Make a folder of two notes; return the options that name it and its index."""
    (parent / "notes").mkdir()
    (parent / "notes/tea.md").write_text(
        "# Tea\n\nGreen tea is brewed at 80 degrees. See [[milk]].\n", encoding="utf-8"
    )
    (parent / "notes/coffee.md").write_text(
        "# Coffee\n\nBeans are roasted. See [[tea]].\n", encoding="utf-8"
    )
    for note in (parent / "notes").iterdir():
        # a new file is checked again, which makes a generation
        os.utime(note, (1.7e9, 1.7e9))
    return ("--folder", parent / "notes", "--index", parent / "index")


def open_it(opening: OpenOptions) -> Library:
    return Library.open(
        opening.folder,
        index=opening.index,
        config=opening.load(),
        embedder=FakeEmbedder(),
        engine=opening.database,
    )


def set_schema_version(engine: Engine, version: int) -> None:
    with engine.write_transaction() as session:
        session.execute("UPDATE facts SET value = %s WHERE key = 'schema'", (str(version),))


# ------------------------------------------------------------------ addresses


def test_public_address_hides_user_and_password() -> None:
    public = {
        NOWHERE: "127.0.0.1:1/notes",
        "postgresql:///notes?host=/tmp/x&password=p@ss": "a local socket/notes",
        "service=notes": "notes",
        "postgresql://a:p%40ss@one,two:6432/notes": "one,two/notes",
        "host=db1,db2 port=7000 dbname=notes password=p@ss": "db1,db2:7000/notes",
    }
    assert {url: public_address(url) for url in public} == public


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://a:p@ss@db/notes",
        "postgresql://a:p@ss/word#1@db/notes",
        "p@ss",
    ],
)
def test_error_for_an_invalid_address_does_not_quote_it(url: str) -> None:
    with pytest.raises(
        EngineError, match="The database address is invalid: write postgresql://"
    ) as error:
        Engine(url)
    assert_no_password(str(error.value))
    for command in (["engine", "migrate"], ["query", "tea"], ["doctor"]):
        result = run(*command, "--engine", url)
        assert (result.exit_code in (1, 3), "address is invalid" in result.output) == (True, True)


def test_error_for_a_wrong_setting_hides_the_password() -> None:
    result = run("query", "tea", "--set", f"engine.ulr={NOWHERE}")
    assert (result.exit_code, result.output) == (
        2,
        (
            "--set engine.ulr=postgresql://…@127.0.0.1:1/notes: unknown key `engine.ulr`: did you "
            "mean `engine.url`?\n"
        ),
    )


def test_arguments_for_a_child_omit_the_database_address() -> None:
    opening = OpenOptions(
        ("notes",), overrides=("query.limit=3", f"engine.url={NOWHERE}"), engine=NOWHERE
    )
    assert opening.arguments() == ["--folder=notes", "--set=query.limit=3"]


def test_folder_file_may_not_set_the_database(tmp_path: Path) -> None:
    (tmp_path / "thumbindex.toml").write_text(f'[engine]\nurl = "{NOWHERE}"\n', encoding="utf-8")
    config = load_config(user_file=tmp_path / "none", folder=tmp_path)
    assert (
        config.engine.url,
        "`engine.url` may not be set in a folder's own thumbindex.toml" in config.folder_file_error,
    ) == ("", True)
    assert_no_password(config.folder_file_error)


def test_only_reading_commands_use_the_configured_database(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f'[engine]\nurl = "{NOWHERE}"\n', encoding="utf-8")
    reading = OpenOptions(config=tmp_path / "c.toml", engine="")
    assert (reading.database, OpenOptions(config=tmp_path / "c.toml").database) == (NOWHERE, "")
    assert (
        OpenOptions(config=tmp_path / "c.toml", engine="", overrides=("engine.url=",)).database
        == ""
    )
    assert run("duplicates", "--engine", NOWHERE, "undo", "3f2a").output.startswith(
        "This command works on the machine that indexes the folders"
    )


def test_error_names_the_missing_extra() -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None; sys.argv[0] = 'thumbindex'; from "
        "thumbindex.__main__ import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, "engine", "migrate", "--engine", NOWHERE],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "needs the extra `postgres`: run `uv tool install '.[postgres]'`" in result.stderr
    assert result.returncode == 3
    assert_no_password(result.stdout + result.stderr)


# ------------------------------------------------------------------ connection errors


def test_unreachable_database_is_reported() -> None:
    for command in (["engine", "migrate"], ["status"]):
        result = run(*command, "--engine", NOWHERE)
        assert (result.exit_code, "Cannot connect to 127.0.0.1:1/notes" in result.output) == (
            3,
            True,
        )


def test_wrong_password_and_unknown_role_are_reported(postgres: TestServer, database: str) -> None:
    role = postgres.role("stranger")
    with (
        closing(Engine(postgres.address(database, f"{role}_not"))) as nobody,
        pytest.raises(EngineError, match="Cannot connect to") as error,
    ):
        nobody.check()
    assert_no_password(str(error.value))
    with closing(Engine(postgres.address(database, role, "p@ss/word#12"))) as wrong:
        if OWN in os.environ:
            pytest.skip("the given server may not require a password")
        with pytest.raises(EngineError, match="password authentication failed") as error:
            wrong.version()
    assert_no_password(str(error.value))


# ------------------------------------------------------------------ extension and schema


def test_only_migrate_prepares_an_empty_database(postgres: TestServer) -> None:
    with fresh_database(postgres, migrated=False) as name:
        url = postgres.address(name)
        with closing(Engine(url)) as engine:
            with pytest.raises(
                EngineError,
                match="has no tables: run `thumbindex engine migrate --engine URL`, then publish",
            ):
                engine.check()
            failed = [name for name, (is_ok, _) in diagnose(engine).items() if not is_ok]
            assert failed == ["extension", "database"]
        assert (
            run("engine", "migrate", "--engine", url).output
            == f"Created the tables of schema {VERSION}.\n"
        )
        assert (
            run("engine", "migrate", "--engine", url).output
            == f"The tables already have schema {VERSION}: nothing was changed.\n"
        )


def test_newer_schema_is_left_alone(engine: Engine) -> None:
    set_schema_version(engine, VERSION + 1)
    for method in (engine.check, engine.migrate):
        with pytest.raises(IndexTooNewError, match="upgrade thumbindex on this machine"):
            method()
    assert engine.version() == VERSION + 1
    assert diagnose(engine)["database"][0] is False


def test_only_migrate_replaces_an_older_schema_and_publish_refills_it(
    postgres: TestServer, database: str, engine: Engine, tmp_path: Path
) -> None:
    options, url = write_notes(tmp_path), postgres.address(database)
    assert run("engine", "publish", *options, "--engine", url, obj=open_it).exit_code == 0
    set_schema_version(engine, VERSION - 1)
    for command in (["status"], ["engine", "forget", "notes"], ["query", "tea"]):
        result = run(*command, "--engine", url)
        assert result.exit_code == 3
        assert "run `thumbindex engine migrate --engine URL`" in result.output
    assert engine.version() == VERSION - 1
    result = run("engine", "migrate", "--engine", url)
    assert result.output == (
        f"Created the tables of schema {VERSION}, replacing schema {VERSION - 1}: builders "
        "publish their folders again.\n"
    )
    assert list_published(engine) == ()
    result = run("engine", "publish", *options, "--engine", url, obj=open_it)
    assert "2 added, 0 removed" in result.stdout
    assert diagnose(engine)["schema"][0] is True


# ------------------------------------------------------------------ rights


def test_read_only_role_cannot_publish(
    engine: Engine, reading_engine: Engine, reader_url: str, tmp_path: Path
) -> None:
    result = run("engine", "publish", *write_notes(tmp_path), "--engine", reader_url, obj=open_it)
    assert (result.exit_code, "permission denied" in result.output) == (3, True)
    assert list_published(reading_engine) == list_published(engine) == ()
    with (
        reading_engine.read_transaction() as session,
        pytest.raises(EngineError, match="cannot execute DELETE in a read-only transaction"),
    ):
        session.execute("DELETE FROM folders")


def test_queries_run_in_a_read_only_transaction(engine: Engine) -> None:
    with (
        pytest.raises(EngineError, match="cannot execute DELETE in a read-only transaction"),
        engine.read_transaction() as session,
    ):
        session.execute("DELETE FROM folders")


# ------------------------------------------------------------------ the doctor


def test_diagnosis_of_a_published_folder_passes(
    builder: PublishJob, engine: Engine, reading_engine: Engine
) -> None:
    for checked in (engine, reading_engine):
        names = [name for name, (is_ok, _) in diagnose(checked).items() if is_ok]
        checks = ["connection", "server", "extension", "schema", "folder garden", "folder shed"]
        assert names == checks


# ------------------------------------------------------------------ commands


def test_every_reading_command_works_over_a_published_folder(
    postgres: TestServer, database: str, reader_url: str, tmp_path: Path
) -> None:
    options, url = write_notes(tmp_path), postgres.address(database)
    published = [
        run("engine", "publish", *options, "--engine", url, obj=open_it).stdout for _ in range(2)
    ]
    assert re.fullmatch(
        r"notes: generation \d+ published, 2 notes, 2 passages; 2 added, 0 removed\n",
        published[0],
    )
    # a new file may be checked again, which makes a generation
    assert re.search("0 added, 0 removed|unchanged, already published", published[1])
    expected = {
        "query green tea": "   notes/tea.md:3",
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
    outputs = {
        command: run(*command.split(), "--engine", reader_url, obj=open_it).output
        for command in expected
    }
    assert {
        command: output
        for command, output in outputs.items()
        if expected[command] not in output or "Unexpected" in output
    } == {}
    checked = run(
        "verify", 'tea.md (line 3) says "brewed at 80 degrees"', "--engine", reader_url, obj=open_it
    )
    assert checked.exit_code == 0, checked.output


def test_server_without_folder_options_serves_the_published_folders(
    postgres: TestServer, database: str, reader_url: str, tmp_path: Path
) -> None:
    options, url = write_notes(tmp_path), postgres.address(database)
    run("engine", "publish", *options, "--engine", url, obj=open_it)
    opening = OpenOptions(engine=reader_url)
    folders, about = served_folders(opening, opening.load())
    assert ([name for name, _ in folders], about) == (["notes"], {})


def test_forgotten_folder_is_no_longer_published(
    postgres: TestServer, database: str, tmp_path: Path
) -> None:
    url = postgres.address(database)
    for command in (("migrate",), ("publish", *write_notes(tmp_path))):
        run("engine", *command, "--engine", url, obj=open_it)
    status = json.loads(run("status", "--engine", url, "--json", obj=open_it).stdout)
    assert [
        (folder["folder"], folder["index"]["documents"], folder["index"]["chunks"])
        for folder in status["folders"]
    ] == [("notes", 2, 2)]
    assert run("engine", "forget", "notes", "--engine", url, obj=open_it).exit_code == 0
    result = run("engine", "forget", "notes", "--engine", url)
    assert (result.exit_code, "No published folder is named 'notes'" in result.output) == (
        2,
        True,
    )
    result = run("doctor", "--engine", url, "--json")
    assert (result.exit_code, json.loads(result.stdout)["failed"]) == (1, 1)
