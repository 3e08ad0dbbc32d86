"""An HTTP server in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from thumbindex.background.host import LibraryHost
from thumbindex.settings import Config
from thumbindex.web.app import HttpApp, HttpServer
from waiting import until


def with_http(config: Config, **settings: Any) -> Config:
    """Return a configuration with changed HTTP settings."""
    return replace(config, serve=replace(config.serve, http=replace(config.serve.http, **settings)))


@contextmanager
def listening(
    site: HttpApp, config: Config, library_host: LibraryHost
) -> Iterator[tuple[str, HttpServer]]:
    """Listen on a free port while the context is open; yield the address and the server."""
    urls: list[str] = []
    server = HttpServer(site.app, config.serve.http, urls.append, site.drain)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        assert until(lambda: bool(urls)), "the server does not listen"
        yield urls[0], server
    finally:
        server.should_exit = True
        thread.join(10)
        library_host.stop()
