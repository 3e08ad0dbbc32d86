"""The page for a small vault in one process, tested without a browser."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import anyio
import httpx2
import pytest

from folders import write_notes
from sites import with_http
from small_vault import *  # noqa: F403
from thumbindex.background.host import LibraryHost
from thumbindex.config import load_config
from thumbindex.library import Library
from thumbindex.opening import OpenOptions
from thumbindex.page.site import SCREENS, render
from thumbindex.page.visit import Screen, Visit
from thumbindex.settings import Config
from thumbindex.web.app import HttpApp

BASE = "http://127.0.0.1:8377"


@dataclass
class Browser:
    """Sends requests like a browser: keeps cookies and sends Fetch Metadata."""

    site: HttpApp
    headers: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)

    def ask(
        self, path: str, method: str = "GET", form: Mapping[str, Any] | None = None, **headers: str
    ) -> httpx2.Response:
        """Send one request without following redirects."""
        sent = {"Sec-Fetch-Site": "none" if method == "GET" else "same-origin", **self.headers}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if form is not None:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        content = None if form is None else urlencode(form, doseq=True, errors="surrogateescape")

        async def send() -> httpx2.Response:
            transport = httpx2.ASGITransport(app=self.site.app, client=("127.0.0.1", 5000))
            async with httpx2.AsyncClient(transport=transport, base_url=BASE) as client:
                return await client.request(
                    method,
                    path,
                    headers={name: value for name, value in sent.items() if value},
                    content=content,
                )

        response = anyio.run(send)
        for header in response.headers.get_list("set-cookie"):
            name, _, value = header.partition(";")[0].partition("=")
            self.cookies[name] = value
        return response

    def get(self, path: str, **headers: str) -> httpx2.Response:
        """Open an address."""
        return self.ask(path, **headers)

    def json(self, path: str, **headers: str) -> Any:
        """Return a screen's JSON."""
        response = self.ask(path, **headers)
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, path: str, form: Mapping[str, Any], **headers: str) -> httpx2.Response:
        """Send a form."""
        return self.ask(path, "POST", form, **headers)


@pytest.fixture(scope="session")
def plain_config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """The default configuration with the page on."""
    config = load_config(user_file=tmp_path_factory.mktemp("config") / "none")
    return with_http(config, page=True)


@pytest.fixture(scope="session")
def browse(plain_config: Config) -> Callable[..., Browser]:
    """Open the page of a library, local and without tokens unless HTTP settings are given."""

    def open_it(library: Library, config: Config = plain_config, **settings: Any) -> Browser:
        library_host = LibraryHost(OpenOptions(), lambda opening: library, command=[])
        return Browser(HttpApp(library_host, library.folders, with_http(config, **settings)))

    return open_it


@pytest.fixture
def browser(library: Library, browse: Callable[..., Browser]) -> Browser:
    """The page of the vault in `tests/small_vault.py`."""
    return browse(library)


@pytest.fixture(scope="session")
def visit_of() -> Callable[..., Visit]:
    """Build a visit, e.g. `visit_of(library, "q=sync", subpath="vault/sync.md")`."""

    def make(
        library: Library, query: str = "", opening: OpenOptions | None = None, **more: Any
    ) -> Visit:
        values = {name: tuple(texts) for name, texts in parse_qs(query).items()}
        facts: dict[str, Any] = {"may_write": True, "is_local": True, **more}
        return Visit(
            LibraryHost(opening or OpenOptions(), lambda opening: library, command=[]),
            library,
            values,
            **facts,
        )

    return make


@pytest.fixture(scope="session")
def show() -> Callable[[str, Visit], tuple[Screen, str]]:
    """Return a screen and its HTML."""

    def show_it(name: str, visit: Visit) -> tuple[Screen, str]:
        screen = SCREENS[name](visit)
        return screen, render(name, screen, visit)

    return show_it


class Tags(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def links(self) -> list[str]:
        """Return the targets of all links."""
        return [attributes.get("href") or "" for tag, attributes in self.tags if tag == "a"]


@pytest.fixture(scope="session")
def tags_of() -> Callable[[str], Tags]:
    """Parse a page: `tags_of(html).tags`, `.text`, `.links()`."""
    return Tags


@pytest.fixture
def vault_copy(
    tmp_path: Path, open_fake: Callable[[OpenOptions], Library]
) -> Iterator[Callable[[Mapping[str, str]], Library]]:
    """Create and index a vault: `vault_copy({"a.md": "# A\\n"})` returns its library."""
    opened: list[Library] = []

    def make(notes: Mapping[str, str]) -> Library:
        root = write_notes(tmp_path / f"vault{len(opened)}", notes)
        opened.append(library := open_fake(OpenOptions((str(root),), tmp_path / "indexes")))
        library.index()
        return library

    yield make
    for library in opened:
        library.close()


@pytest.fixture
def page(vault: Library, browse: Callable[..., Browser]) -> Browser:
    """Return the page of a test module's own `vault`."""
    return browse(vault)
