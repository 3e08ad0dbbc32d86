"""Every request of the protocol passes here: it is counted by tool and outcome, and does not take for ever."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

from thumbindex.serve.metrics import Metrics
from thumbindex.serve.tools import TOOLS

_NAMES = frozenset(tool["name"] for tool in TOOLS)


class Calls:
    """What the protocol's package calls around each request."""

    def __init__(self, metrics: Metrics, seconds: float) -> None:
        self._metrics, self._seconds = metrics, seconds

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Answer a request within its time, a stream of changes without one."""
        if ctx.method == "subscriptions/listen":
            return await call_next(ctx)
        if ctx.method != "tools/call":
            return await self._within(ctx, call_next)
        name = str((ctx.params or {}).get("name"))
        began, outcome = time.perf_counter(), "cancelled"
        try:
            result = await self._within(ctx, call_next)
            outcome = "error" if _is_error(result) else "ok"
        except TimeLimitError:
            outcome = "timeout"
            raise
        except MCPError:
            outcome = "refused"
            raise
        finally:
            # A name that somebody made up is no label: there would be as many as anybody likes.
            self._metrics.called(name if name in _NAMES else "unknown", outcome, time.perf_counter() - began)
        return result

    async def _within(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        with anyio.move_on_after(self._seconds):
            return await call_next(ctx)
        raise TimeLimitError(types.INTERNAL_ERROR, f"No answer within {self._seconds:g} s: ask for less, or again in a while.")


class TimeLimitError(MCPError):
    """A request took too long."""


def _is_error(result: HandlerResult) -> bool:
    if isinstance(result, Mapping):
        return bool(result.get("isError"))
    return bool(getattr(result, "is_error", False))
