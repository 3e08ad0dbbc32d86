"""The log and terminal output of the HTTP server, without a process."""

import io
import json
import logging
import re
from typing import Any

import pytest

from thumbindex.errors import UsageError
from thumbindex.settings import HttpSettings
from thumbindex.web.app import HttpServer, ServerLog, connection_hint

SECRET = "zirconium"


def log_of(clock: list[float]) -> tuple[logging.Logger, io.StringIO]:
    """Return another package's logger on the server's log, and its output."""
    written, logger = io.StringIO(), logging.Logger("elsewhere")
    logger.addHandler(ServerLog(written, lambda: clock[0]))
    return logger, written


def test_log_of_other_packages_contains_only_type_and_source_line() -> None:
    logger, written = log_of([0.0])
    try:
        int(SECRET)
    except ValueError as error:
        logger.exception("failed with %s", SECRET)
        logger.error("failed", exc_info=ExceptionGroup(SECRET, [error]))
    logger.warning(f"dropped {SECRET}")
    assert re.sub(r":\d+", "", written.getvalue()).splitlines() == [
        "elsewhere: error at test_output.py: ValueError at test_output.py",
        "elsewhere: error at test_output.py: ValueError at test_output.py",
        "elsewhere: warning at test_output.py",
    ]


def test_log_repeats_a_line_at_most_once_a_minute() -> None:
    clock = [0.0]
    logger, written = log_of(clock)
    logger.name = "thumbindex.web"
    for clock[0] in (0.0, 1.0, 59.0, 60.0, 119.0):
        logger.warning("a folder\nis %s", "gone")
        logger.warning("another")
    assert written.getvalue() == "a folder is gone\nanother\n" * 2


def test_port_in_use_is_reported_in_one_line(
    open_running: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings = HttpSettings(port=int(open_running.base.rpartition(":")[2]))
    with pytest.raises(
        UsageError,
        match=(
            rf"^Port {settings.port} on 127.0.0.1 is in use: "
            r"choose another with --port \(0 picks a free one\)\.$"
        ),
    ):
        HttpServer(open_running.site.app, settings, print, print).run()
    assert caplog.text == ""
    assert open_running.ask("/health").status_code == 200


def test_connection_hint_mentions_token_and_page_if_configured() -> None:
    first, servers, last = connection_hint("http://x:1/mcp", requires_token=False).splitlines()
    assert json.loads(servers) == {"mcpServers": {"thumbindex": {"url": "http://x:1/mcp"}}}
    asking = connection_hint("http://x:1/mcp", requires_token=True, has_page=True).splitlines()
    entry = json.loads(asking[1])["mcpServers"]["thumbindex"]
    assert entry["headers"] == {"Authorization": "Bearer TOKEN"}
    assert [asking[0], asking[-1]] == [first, last]
    assert asking[2:-1] == [
        "Replace TOKEN with the token that `thumbindex token NAME` printed.",
        "In a browser, open http://x:1/.",
    ]
