"""Prometheus metrics of the HTTP server."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

import prometheus_client as prometheus
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from thumbindex.mcp.tools import TOOLS
from thumbindex.model import IndexState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper limits of the buckets of the tool call histogram, in seconds.

The last one is 60 because a query with `wait_fresh` may take that long.
"""

_TOOL_NAMES = frozenset(tool["name"] for tool in TOOLS)


class Metrics:
    """Metrics since the start of a server."""

    def __init__(self) -> None:
        # do not add a line with the creation time of each counter
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=registry)
        prometheus.Info("thumbindex", "Running version.", registry=registry).info(
            {"version": version("thumbindex")}
        )
        self._calls = prometheus.Histogram(
            "thumbindex_tool_seconds",
            "Duration of tool calls by tool and outcome.",
            ["tool", "outcome"],
            registry=registry,
            buckets=_BUCKETS,
        )
        self._responses = prometheus.Counter(
            "thumbindex_http_responses", "Responses by HTTP status.", ["status"], registry=registry
        )
        self._streams = prometheus.Gauge(
            "thumbindex_streams", "Open streams of changes.", registry=registry
        )
        self._indexes = {
            part: prometheus.Gauge(
                f"thumbindex_index_{part}",
                f"{part.title()} in the index of a folder.",
                ["folder"],
                registry=registry,
            )
            for part in ("documents", "chunks", "vectors")
        }

    def count_call(self, tool: str, outcome: str, seconds: float) -> None:
        """Count a tool call and its duration."""
        # clients can make up tool names, which would add labels without limit
        self._calls.labels(tool if tool in _TOOL_NAMES else "unknown", outcome).observe(seconds)

    def count_response(self, status: int) -> None:
        """Count an HTTP response."""
        self._responses.labels(status).inc()

    def text(self, folders: Mapping[str, IndexState], streams: int) -> bytes:
        """Return all metrics in the Prometheus text format, version 0.0.4."""
        self._streams.set(streams)
        for part, gauge in self._indexes.items():
            gauge.clear()
            for name, state in sorted(folders.items()):
                gauge.labels(name).set(getattr(state, part))
        return prometheus.generate_latest(self._registry)


class MetricsMiddleware:
    """Counts responses by status."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def count(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.count_response(message["status"])
            await send(message)

        await self._app(scope, receive, count)
