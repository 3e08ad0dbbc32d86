"""The page over a small vault, in one process: what a browser would get, without one."""

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
    """Asks a site as a browser does: it keeps cookies, and says where its requests come from."""

    site: HttpApp
    headers: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)

    def ask(
        self, path: str, method: str = "GET", form: Mapping[str, Any] | None = None, **headers: str
    ) -> httpx2.Response:
        """Send one request; no redirect is followed."""
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

        found = anyio.run(send)
        for header in found.headers.get_list("set-cookie"):
            name, _, value = header.partition(";")[0].partition("=")
            self.cookies[name] = value
        return found

    def get(self, path: str, **headers: str) -> httpx2.Response:
        """Open an address."""
        return self.ask(path, **headers)

    def json(self, path: str, **headers: str) -> Any:
        """Open a screen's twin."""
        found = self.ask(path, **headers)
        assert found.status_code == 200, found.text
        return found.json()

    def post(self, path: str, form: Mapping[str, Any], **headers: str) -> httpx2.Response:
        """Send a form."""
        return self.ask(path, "POST", form, **headers)


@pytest.fixture(scope="session")
def plain_config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """The defaults, whatever the user's own configuration says, with the page on."""
    found = load_config(user_file=tmp_path_factory.mktemp("config") / "none")
    return with_http(found, page=True)


@pytest.fixture(scope="session")
def browse(plain_config: Config) -> Callable[..., Browser]:
    """Open the page over a library, on this machine and without tokens; settings of HTTP may be
    changed.
    """

    def open_it(library: Library, config: Config = plain_config, **given: Any) -> Browser:
        library_host = LibraryHost(OpenOptions(), lambda opening: library, command=[])
        return Browser(HttpApp(library_host, library.folders, with_http(config, **given)))

    return open_it


@pytest.fixture
def browser(library: Library, browse: Callable[..., Browser]) -> Browser:
    """The page over the vault of `tests/small_vault.py`."""
    return browse(library)


@pytest.fixture(scope="session")
def visit_of() -> Callable[..., Visit]:
    """Make a visit by hand: `visit_of(library, "q=sync&limit=3", subpath="vault/sync.md",
    may_write=False)`.
    """

    def make(
        library: Library, query: str = "", opening: OpenOptions | None = None, **more: Any
    ) -> Visit:
        values = {name: tuple(each) for name, each in parse_qs(query).items()}
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
    """Show a screen: what it says, and its HTML."""

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
        """Return where its links lead."""
        return [attributes.get("href") or "" for tag, attributes in self.tags if tag == "a"]


@pytest.fixture(scope="session")
def tags_of() -> Callable[[str], Tags]:
    """Read a page: `tags_of(html).tags`, `.text`, `.links()`."""
    return Tags


@pytest.fixture
def vault_copy(
    tmp_path: Path, open_fake: Callable[[OpenOptions], Library]
) -> Iterator[Callable[[Mapping[str, str]], Library]]:
    """Make a vault of some notes and index it: `vault_copy({"a.md": "# A\\n"})` returns its
    library, `library.folders[0]` its name and place.
    """
    opened: list[Library] = []

    def make(notes: Mapping[str, str]) -> Library:
        root = write_notes(tmp_path / f"vault{len(opened)}", notes)
        opened.append(library := open_fake(OpenOptions((str(root),), tmp_path / "indexes")))
        library.index()
        return library

    yield make
    for library in opened:
        library.close()
