"""A token sees only its folders: the server acts as if it had no others."""

import json
import re
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from fakes import FakeEmbedder
from thumbindex.background.host import LibraryHost
from thumbindex.background.supervisor import Message
from thumbindex.config import load_config, resolve_folders
from thumbindex.errors import ConfigError, UnknownFolderError
from thumbindex.index.locks import publish_run
from thumbindex.library import Library
from thumbindex.opening import OpenOptions
from thumbindex.postgres import publish_folders
from thumbindex.settings import Config
from thumbindex.web.access import FolderRights, access_policy, check_rights, nested_folder_warnings
from thumbindex.web.app import HttpApp
from thumbindex.web.token_file import add_token
from waiting import until

FOLDERS = [("handbook", Path("/h")), ("salaries", Path("/s"))]

SECRETS = ("salaries", "zirconium", "bands", "ninety", "bonus")

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "query": ("query", {"query": "zirconium band"}),
    "query for a name": ("query", {"query": "Leave bonus"}),
    "query explained": ("query", {"query": "zirconium leave", "explain": True}),
    "query in the folder": ("query", {"query": "leave", "folder": ["salaries"]}),
    "query fresh": ("query", {"query": "leave", "wait_fresh": 0.2}),
    "query by a glob": ("query", {"query": "leave", "path": ["**/bands*"]}),
    "query by a tag": ("query", {"query": "path:bandz.md", "tag": ["bandz"]}),
    "query by a property": ("query", {"query": "leave", "where": ["grade:bonus"]}),
    "query with a condition": ("query", {"query": "leave grade:bonus stage:opn has:grade"}),
    "query since": ("query", {"query": "leave", "since": "2020-01-01"}),
    "why": ("query", {"query": "leave", "why": "bands.md"}),
    "why outside": ("query", {"query": "leave", "why": "../salaries/bands.md"}),
    "read": ("read", {"path": "bands.md"}),
    "read a namesake": ("read", {"path": "leave.md"}),
    "read with its folder": ("read", {"path": "salaries/bands.md"}),
    "read in the folder": ("read", {"path": "bands.md", "folder": "salaries"}),
    "outline": ("outline", {}),
    "outline of": ("outline", {"path": "bands.md"}),
    "outline in the folder": ("outline", {"folder": "salaries"}),
    "outline by a tag": ("outline", {"tag": ["bandz"]}),
    "outline by a property": ("outline", {"where": ["has:grades", "-grade:x"]}),
    "related": ("related", {"path": "leave.md"}),
    "related to": ("related", {"path": "bands.md"}),
    "verify": ("verify", {"text": ["salaries: bands.md#Bands (line 3)", "[[bands]]"]}),
    "verify a quote": ("verify", {"text": 'nothing.md: "ninety thousand a year"'}),
    "status": ("status", {}),
    "an unknown tool": ("bands", {}),
}

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        name: ("tools/call", {"name": tool, "arguments": arguments})
        for name, (tool, arguments) in CALLS.items()
    },
    "resources": ("resources/list", {}),
    "resources from": ("resources/list", {"cursor": "thumbindex://salaries/bands.md"}),
    "resource": ("resources/read", {"uri": "thumbindex://salaries/bands.md"}),
    "passage": ("resources/read", {"uri": "thumbindex://salaries/bands.md?is=1a2b3c4d#Bands"}),
    "discover": ("server/discover", {}),
    "tools": ("tools/list", {}),
}

OF_A_DATABASE = ("query", "query by a glob", "why", "read", "outline", "related", "status")


@pytest.fixture(scope="module")
def alone(
    serve: Callable[..., Any], open_indexed: Callable[..., Library], config: Config, place: Path
) -> Any:
    """A server with only the handbook."""
    with open_indexed("handbook") as library, serve(library=library) as site:
        yield site


def comparable(text: str) -> Any:
    """Return an answer without times."""
    return re.sub(r'("(?:seconds|updated)": ?)(?:[\d.e-]+|"[^"]*")', r"\1x", text)


@pytest.mark.parametrize("name", METHODS)
def test_answers_equal_those_of_a_server_without_the_hidden_folder(
    running: Any, alone: Any, name: str
) -> None:
    assert_alike(running, alone, name)


def test_database_answers_equal_those_without_the_hidden_folder(
    serve: Callable[..., Any],
    library: Library,
    config: Config,
    place: Path,
    postgres: Any,
    database: str,
) -> None:
    url = postgres.address(database)
    publish_folders(library.opened, url)

    def published(*names: str) -> Library:
        return Library.open(
            names,
            index=place / "nowhere",
            config=config,
            embedder=FakeEmbedder(),
            wait_for_models=False,
            engine=url,
        )

    with (
        published() as both,
        published("handbook") as one,
        serve(library=both) as running,
        serve(library=one) as alone,
    ):
        assert (
            "zirconium"
            in running.call("tools/call", running.token("alice"), **METHODS["query"][1]).text
        )
        for name in (*OF_A_DATABASE, "resources"):
            assert_alike(running, alone, name)


def assert_alike(running: Any, alone: Any, name: str) -> None:
    """Assert that both servers answer a one-folder token alike."""
    method, params = METHODS[name]
    if "uri" in params:
        params = {**params, "name": params["uri"]}
    headers = {"Mcp-Name": params["uri"]} if "uri" in params else {}
    params = {
        key: value for key, value in params.items() if not ("uri" in params and key == "name")
    }
    shared = running.call(method, {**running.token("bob"), **headers}, **params)
    reference = alone.call(method, {**alone.token("bob"), **headers}, **params)
    assert (shared.status_code, comparable(shared.text)) == (
        reference.status_code,
        comparable(reference.text),
    )
    request = json.dumps(params)
    assert [word for word in SECRETS if word in shared.text and word not in request] == []


def test_token_with_both_folders_is_answered_from_both(running: Any) -> None:
    answer = running.call(
        "tools/call", running.token("alice"), name="query", arguments={"query": "zirconium band"}
    ).json()
    result, *_ = answer["result"]["structuredContent"]["results"]
    assert result["citation"].startswith("salaries: ")


def test_token_without_folders_gets_an_explanation(running: Any) -> None:
    refused = running.call("tools/list", running.token("eve"))
    assert (
        refused.status_code,
        "has access to no folder" in refused.json()["error"]["message"],
    ) == (
        403,
        True,
    )


def test_hidden_and_unknown_names_take_equally_long(library: Library) -> None:
    """Timing must not reveal hidden folders."""
    background = LibraryHost(OpenOptions(), lambda opening: library, command=[])
    restricted = background.only({"handbook"}).library()

    def seconds(name: str) -> float:
        started = time.perf_counter()
        with pytest.raises(UnknownFolderError):
            restricted.query("leave", folder=[name])
        return time.perf_counter() - started

    hidden, nowhere = zip(
        *((seconds("salaries"), seconds("salariez")) for _ in range(200)), strict=True
    )
    assert 0.5 < statistics.median(hidden) / statistics.median(nowhere) < 2
    assert [reader.folder.name for reader in restricted._readers] == ["handbook"]


def test_notes_and_progress_cover_visible_folders_only(library: Library, place: Path) -> None:
    import sys

    lines = Message("salaries", "folder", "Zirconium is away.").line()
    lines += Message("handbook", "folder", "A book is away.").line()
    script = f"import sys; sys.stderr.write({lines!r}); sys.stderr.flush(); input()"
    background = LibraryHost(
        OpenOptions(), lambda opening: library, command=[sys.executable, "-c", script]
    )
    restricted = background.only({"handbook"})
    restricted.start()
    assert until(lambda: set(background.notes()) == {"Zirconium is away.", "A book is away."})
    assert restricted.notes() == ("A book is away.",)
    with ExitStack() as runs:
        for folder in library.opened:
            runs.enter_context(publish_run(folder.index_paths.folder))("words", 1, 9)
        assert len(background.progress()) > 1
        assert [step.folder for step in restricted.progress()] == ["handbook"]
    background.stop()
    assert not [note for note in restricted.notes() if "irconium" in note]


def test_folder_file_errors_are_shown_only_for_visible_folders(
    tmp_path: Path,
) -> None:
    for name in ("handbook", "salaries"):
        (tmp_path / name).mkdir()
    (tmp_path / "salaries" / "thumbindex.toml").write_text(f"x = {'1' * 5_000}\n", encoding="utf-8")

    def open_both(opening: OpenOptions) -> Library:
        return Library.open(
            [tmp_path / "handbook", tmp_path / "salaries"],
            index=tmp_path / "index",
            config=Config(),
        )

    background = LibraryHost(OpenOptions(), open_both, command=[])
    assert background.library().opened
    assert [("salaries" in note, "thumbindex.toml" in note) for note in background.notes()[:1]] == [
        (True, True)
    ]
    assert background.only({"handbook"}).notes() == ()
    background.stop()


def test_opening_errors_do_not_name_hidden_folders() -> None:
    def fail(opening: OpenOptions) -> Library:
        raise ConfigError("/secret/salaries/thumbindex.toml: unknown key.")

    restricted = LibraryHost(OpenOptions(), fail, command=[]).only({"handbook"})
    with pytest.raises(Exception, match="Cannot open the notes right now") as caught:
        restricted.library()
    assert "salaries" not in str(caught.value)


# ------------------------------------------------------------------ mistakes in the configuration


@pytest.mark.parametrize(
    ("granted", "known", "asks", "issuer", "says"),
    [
        ({"finance": ["alice"]}, {"alice"}, True, False, "'handbook' lists no `tokens`"),
        (
            {"handbook": ["bob"], "salaries": ["bob"]},
            {"bob"},
            False,
            False,
            "but the server requires none",
        ),
        (
            {"handbook": ["bob"], "salaries": ["bbo"]},
            {"bob"},
            True,
            False,
            "'bbo', which is not in the token file",
        ),
        (
            {"handbook": ["bob"], "salaries": ["group:x"]},
            {"bob"},
            True,
            False,
            "'group:x', which is not",
        ),
        ({"handbook": ["bob"], "salaries": ["grp:x"]}, {"bob"}, True, True, "write sub:NAME"),
    ],
)
def test_incomplete_rights_are_refused(
    granted: dict[str, list[str]], known: set[str], asks: bool, issuer: bool, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        check_rights(FOLDERS, granted, known, requires_token=asks, has_issuer=issuer)


def test_subfolder_of_a_restricted_folder_needs_its_own_rights(tmp_path: Path) -> None:
    (tmp_path / "fin" / "2024").mkdir(parents=True)
    for name in ("alice", "bob"):
        add_token(tmp_path / "tokens", name)
    text = (
        '[[folders]]\nname = "finance"\npath = "fin"\ntokens = ["alice"]\n[serve.http]\n'
        'token_file = "tokens"\n'
    )
    (tmp_path / "c.toml").write_text(text, encoding="utf-8")
    config = load_config(user_file=tmp_path / "none", config_file=tmp_path / "c.toml")
    with pytest.raises(ConfigError, match="'2024' lists no `tokens`"):
        access_policy(config, resolve_folders(config, [tmp_path / "fin" / "2024"]))
    assert access_policy(config, resolve_folders(config)).rights.visible_to(["bob"]) == frozenset()


def test_rights_do_not_apply_to_another_folder_with_the_same_name() -> None:
    rights = {"handbook": ["*"], "salaries": ["alice"]}
    with pytest.raises(ConfigError, match="'salaries' lists no `tokens`"):
        check_rights(
            FOLDERS,
            rights,
            {"alice"},
            requires_token=True,
            has_issuer=False,
            configured={"handbook": Path("/h"), "salaries": Path("/old")},
        )


def test_rights_match_the_configuration() -> None:
    rights = check_rights(
        FOLDERS,
        {"handbook": ["*"], "salaries": ["alice", "group:finance"]},
        {"alice", "bob"},
        requires_token=True,
        has_issuer=True,
    )
    visible = {
        name: set(rights.visible_to([name]))
        for name in ("alice", "bob", "group:finance", "sub:alice", "finance")
    }
    both, one = {"handbook", "salaries"}, {"handbook"}
    assert visible == {
        "alice": both,
        "bob": one,
        "group:finance": both,
        "sub:alice": one,
        "finance": one,
    }
    assert FolderRights(("a", "b"), {}).visible_to([]) == {"a", "b"}


def test_nested_folders_cause_a_warning() -> None:
    folders = [("all", Path("/notes")), ("secret", Path("/notes/hr"))]
    warned = nested_folder_warnings(
        folders, FolderRights(("all", "secret"), {"all": ("bob",), "secret": ("alice",)})
    )
    assert [line.split(":")[0] for line in warned] == ["The folder 'secret' is inside 'all'"]
    assert (
        nested_folder_warnings(
            folders, FolderRights(("all", "secret"), {"all": ("bob",), "secret": ("bob", "alice")})
        )
        == []
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"host": "0.0.0.0"}, "Other machines can reach 0.0.0.0, and no token"),
        ({"host": "::"}, "thumbindex token NAME"),
        ({"hosts": ("notes.example.org",)}, "`serve.http.hosts` gives other machines access"),
        ({"proxies": ("127.0.0.1",)}, "`serve.http.proxies` gives other machines access"),
        (
            {"issuer": "http://login.example.org", "url": "https://n.example.org/mcp"},
            "must start with https",
        ),
        ({"issuer": "https://login.example.org"}, "needs `serve.http.url`"),
        ({"token_file": "/nowhere/tokens"}, "Cannot read the token file /nowhere/tokens: "),
    ],
)
def test_server_open_by_mistake_does_not_start(given: dict[str, Any], says: str) -> None:
    config = Config()
    config = replace(config, serve=replace(config.serve, http=replace(config.serve.http, **given)))
    with pytest.raises(ConfigError, match=says):
        HttpApp(LibraryHost(OpenOptions(), command=[]), FOLDERS, config)


def test_loopback_needs_no_token() -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.9.9.9"):
        http = replace(Config().serve.http, host=host)
        config = replace(Config(), serve=replace(Config().serve, http=http))
        assert HttpApp(LibraryHost(OpenOptions(), command=[]), FOLDERS, config).warnings() == []


# ------------------------------------------------------------------ subscriptions


@pytest.mark.anyio
# from the version after the ones that have it
@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
async def test_hidden_notes_cannot_be_subscribed_to(running: Any) -> None:
    errors = {}
    async with running.client("bob", "legacy") as client:
        for folder in ("salaries", "nowhere"):
            with pytest.raises(MCPError) as caught:
                await client.subscribe_resource(f"thumbindex://{folder}/bands.md")
            errors[folder] = str(caught.value).replace(folder, "x")
    assert (
        errors["salaries"]
        == errors["nowhere"]
        == "thumbindex://x/bands.md: unknown folder 'x'. The folders are handbook."
    )


@pytest.mark.anyio
async def test_stream_omits_hidden_notes(running: Any) -> None:
    uris = [f"thumbindex://{folder}/leave.md" for folder in ("salaries", "handbook", "nowhere")]
    async with (
        running.client("bob") as client,
        client.listen(resource_subscriptions=uris) as stream,
    ):
        assert stream.honored.resource_subscriptions == ["thumbindex://handbook/leave.md"]


def test_single_visible_folder_uses_its_own_settings(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "note.md").write_text("# Note\n", encoding="utf-8")
    (tmp_path / "a" / "thumbindex.toml").write_text("[query]\nlimit = 1\n", encoding="utf-8")
    with Library.open(
        [tmp_path / "a", tmp_path / "b"], index=tmp_path / "index", config=Config()
    ) as both:
        limits = [
            both.config.query.limit,
            *(both.only(names).config.query.limit for names in ({"a"}, {"b"}, {"a", "b"})),
        ]
        assert (limits, both.only({"a"}).folders) == ([5, 1, 5, 5], (("a", tmp_path / "a"),))
