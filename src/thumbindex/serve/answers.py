"""Answers of HTTP that are not the protocol's: errors as JSON, whoever made them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus

from mcp_types import INVALID_REQUEST
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from thumbindex.serve.metrics import Metrics


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error that the protocol's clients read as their own, and everybody else as JSON."""
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": message}}
    return JSONResponse(body, status_code=status, headers=dict(headers or {}))


class Sent:
    """What was sent of an answer, so that it can be ended properly wherever it was broken off."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_begun = self.is_over = False

    async def __call__(self, message: Message) -> None:
        """Pass a part of the answer on."""
        self.is_begun = self.is_begun or message["type"] == "http.response.start"
        self.is_over = self.is_over or (message["type"] == "http.response.body" and not message.get("more_body", False))
        await self._send(message)

    async def end(self, scope: Scope, receive: Receive, instead: Response) -> None:
        """End the answer: by another one where nothing was sent of it."""
        if not self.is_begun:
            await instead(scope, receive, self)
        elif not self.is_over:
            await self({"type": "http.response.body", "body": b"", "more_body": False})


class Observed:
    """The outermost layer: counts answers by status, and puts errors that are plain text into JSON."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun: Message | None = None
        said = b""

        async def observe(message: Message) -> None:
            nonlocal begun, said
            if message["type"] == "http.response.start":
                self._metrics.answered(message["status"])
                if _is_plain_error(message):
                    begun = message
                    return
            if begun is None:
                await send(message)
                return
            said += message.get("body", b"")
            if not message.get("more_body", False):
                kept = {name: value for name, value in Headers(raw=begun["headers"]).items() if name in _KEPT}
                message_said = said.decode("utf-8", errors="replace").strip() or HTTPStatus(begun["status"]).phrase
                await refusal(begun["status"], message_said, kept)(scope, receive, send)

        await self._app(scope, receive, observe)


_KEPT = {"allow", "retry-after", "www-authenticate", "vary", "access-control-allow-origin"}


def _is_plain_error(message: Message) -> bool:
    kind = Headers(raw=message["headers"]).get("content-type", "")
    return bool(message["status"] >= 400 and not kind.startswith(("application/json", "text/event-stream")))


def as_json_line(value: object) -> str:
    """Write a value on one line."""
    return json.dumps(value, ensure_ascii=False)
