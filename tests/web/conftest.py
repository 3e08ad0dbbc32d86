"""A server over real sockets, in a thread, with two folders that have different rights."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from fakes import FakeEmbedder
from folders import write_notes
from servers import META
from sites import listening, with_http
from small_vault import *  # noqa: F403
from thumbindex.background.host import LibraryHost
from thumbindex.config import load_config
from thumbindex.library import Library
from thumbindex.opening import OpenOptions
from thumbindex.settings import Config, HttpSettings
from thumbindex.web.app import HttpApp, HttpServer
from thumbindex.web.limits import CHECK_SECONDS
from thumbindex.web.token_file import add_token

HANDBOOK = {
    "leave.md": "# Leave\n\nEverybody takes thirty days of leave a year. See [[travel]].\n",
    "travel.md": "# Travel\n\nBook trains early and keep the tickets.\n\nstage:: open\n",
}
SALARIES = {
    "bands.md": (
        "# Bands\n\nThe zirconium band earns ninety thousand a year. See [[leave]]. #bands\n"
    ),
    "leave.md": (
        "# Leave bonus\n\nUnused days of leave are paid at a zirconium rate.\n\ngrade:: bonus\n"
    ),
}


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders and five tokens.

    alice sees both folders, bob and carol one, eve none; prometheus reads metrics.
    """
    place = tmp_path_factory.mktemp("team")
    for folder, notes in (("handbook", HANDBOOK), ("salaries", SALARIES)):
        write_notes(place / folder, notes)
    rights = (
        '[[folders]]\nname = "handbook"\npath = "handbook"\n'
        'tokens = ["alice", "bob", "carol", "scope:notes"]\n'
    )
    rights += (
        '[[folders]]\nname = "salaries"\npath = "salaries"\ntokens = ["alice", "group:finance"]\n'
    )
    (place / "config.toml").write_text(
        rights + '[serve.http]\nmetrics = ["prometheus"]\n', encoding="utf-8"
    )
    for name in ("alice", "bob", "carol", "eve", "prometheus"):
        (place / f"{name}.token").write_text(add_token(place / "tokens", name), encoding="utf-8")
    return place


@pytest.fixture(scope="session")
def config(place: Path) -> Config:
    defaults = load_config(user_file=place / "none", config_file=place / "config.toml")
    return with_http(defaults, token_file=str(place / "tokens"), port=0)


@pytest.fixture(scope="session")
def open_indexed(place: Path, config: Config) -> Callable[..., Library]:
    """Open indexed folders by name, or all of them."""

    def open_it(*names: str) -> Library:
        return Library.open(
            names,
            index=place / "index",
            config=config,
            embedder=FakeEmbedder(),
            wait_for_models=False,
        )

    with open_it() as library:
        library.index()
    return open_it


@pytest.fixture(scope="session")
def library(open_indexed: Callable[..., Library]) -> Iterator[Library]:
    with open_indexed() as library:
        yield library


@dataclass(frozen=True, slots=True)
class Running:
    """A listening server and its tokens."""

    url: str
    site: HttpApp
    server: HttpServer
    place: Path

    def token(self, name: str) -> dict[str, str]:
        """Return the Authorization header for a token's name."""
        return {
            "Authorization": f"Bearer {(self.place / f'{name}.token').read_text(encoding='utf-8')}"
        }

    @property
    def base(self) -> str:
        return self.url.removesuffix("/mcp")

    def ask(
        self,
        path: str = "/mcp",
        method: str = "GET",
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> httpx2.Response:
        with httpx2.Client(timeout=20) as http:
            return http.request(method, self.base + path, headers=headers, **more)

    def call(
        self, method: str, headers: dict[str, str] | None = None, **params: Any
    ) -> httpx2.Response:
        """Post one request with the latest protocol."""
        return self.ask(method="POST", **self._message(method, headers or {}, params))

    def greet(self, headers: dict[str, str], version: str = "2025-11-25") -> httpx2.Response:
        """Open a session, for protocol versions with a handshake."""
        hello = {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        return self.ask(
            method="POST",
            headers={"Accept": "application/json, text/event-stream", **headers},
            json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        )

    @contextmanager
    def stream(self, name: str) -> Iterator[httpx2.Response]:
        """Open a stream of changes with a token."""
        listen = {"notifications": {"resourcesListChanged": True}}
        message = self._message("subscriptions/listen", self.token(name), listen)
        with httpx2.stream("POST", self.url, timeout=20, **message) as response:
            yield response

    def _message(
        self, method: str, headers: dict[str, str], params: dict[str, Any]
    ) -> dict[str, Any]:
        all_headers = {
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
            "Accept": "application/json, text/event-stream",
            **headers,
        }
        if "name" in params:
            all_headers["Mcp-Name"] = params["name"]
        params = {**params, "_meta": META}
        return {
            "headers": all_headers,
            "json": {"jsonrpc": "2.0", "id": 1, "method": method, "params": params},
        }

    @asynccontextmanager
    async def client(
        self, name: str | None = None, mode: str = "auto", **more: Any
    ) -> AsyncIterator[Client]:
        """Connect the SDK's client with a token."""
        headers = self.token(name) if name else {}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=mode, **more) as client,
        ):
            yield client


@contextmanager
def running_site(
    library: Library, config: Config, place: Path, check_seconds: float
) -> Iterator[Running]:
    """Serve a library's folders while the context is open."""
    library_host = LibraryHost(OpenOptions(), lambda opening: library, command=[])
    site = HttpApp(library_host, library.folders, config, check_seconds=check_seconds)
    with listening(site, config, library_host) as (url, server):
        yield Running(url, site, server, place)


@pytest.fixture(scope="session")
def serve(library: Library, config: Config, place: Path) -> Callable[..., Any]:
    """Serve with changed HTTP settings."""

    def serve_it(
        library: Library = library, check_seconds: float = CHECK_SECONDS, **settings: Any
    ) -> Any:
        # like the command does for folders in a database
        roots = {**config.folders, **{name: str(root) for name, root in library.folders}}
        changed = with_http(replace(config, folders=roots), **settings)
        # names from an issuer's claims are valid only with an issuer
        if not changed.serve.http.issuer:
            granted = {
                name: tuple(token for token in tokens if ":" not in token)
                for name, tokens in config.folder_tokens.items()
            }
            changed = replace(changed, folder_tokens=granted)
        return running_site(library, changed, place, check_seconds)

    return serve_it


@pytest.fixture(scope="module")
def running(serve: Callable[..., Any]) -> Iterator[Running]:
    with serve() as site:
        yield site


@pytest.fixture(scope="session")
def serve_openly(library: Library, place: Path) -> Callable[..., Any]:
    """Serve without tokens, as without configuration, with changed HTTP settings."""

    def serve_it(check_seconds: float = CHECK_SECONDS, **settings: Any) -> Any:
        assert HttpSettings().token_file == ""
        config = with_http(
            replace(load_config(user_file=place / "none"), folders={}), port=0, **settings
        )
        return running_site(library, config, place, check_seconds)

    return serve_it


@pytest.fixture(scope="module")
def open_running(serve_openly: Callable[..., Any]) -> Iterator[Running]:
    with serve_openly() as site:
        yield site
