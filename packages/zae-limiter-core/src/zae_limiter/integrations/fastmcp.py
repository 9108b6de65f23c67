"""Limit the tools of FastMCP's servers, and what its clients call. Needs the extra ``fastmcp``.

``ToolLimits`` is a middleware: ``server.add_middleware(ToolLimits(limiter, ...))``. Its arguments and its rules are
those of ``zae_limiter.integrations.mcp``. ``ToolGuard`` limits the calls of a ``Client`` before they go out.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

try:
    from fastmcp.client.client import CallToolResult
    from fastmcp.exceptions import FastMCPError, ToolError
    from fastmcp.server.middleware import Middleware
    from fastmcp.tools.base import ToolResult
except ImportError as error:
    from ..runtime.extras import install_command

    problem = f"zae_limiter.integrations.fastmcp needs fastmcp 4: {install_command('fastmcp')}"
    raise ImportError(problem) from error

from .mcp import (
    GuardedClient,
    ToolCall,
    call_of,
    consume,
    lease_of,
    principal,
    refused,
    serving,
    settle,
)
from .mcp import ToolGuard as _ToolGuard
from .mcp import ToolLimits as _ToolLimits
from .tool_calls import ToolRefused, explain

if TYPE_CHECKING:
    from fastmcp.server.middleware import CallNext, MiddlewareContext
    from mcp_types import CallToolRequestParams

__all__ = [
    "GuardedClient",
    "ToolCall",
    "ToolGuard",
    "ToolLimits",
    "consume",
    "lease_of",
    "principal",
    "refused",
    "settle",
]


class ToolLimits(Middleware, _ToolLimits):  # type: ignore[misc]  # FastMCP's own call, which calls the hook below
    """A middleware that limits the calls of tools: the one of ``zae_limiter.integrations.mcp``, for FastMCP."""

    async def on_call_tool(
        self, context: "MiddlewareContext[CallToolRequestParams]", call_next: "CallNext[CallToolRequestParams, Any]"
    ) -> Any:
        """Handle a call of a tool; also of ``server.call_tool`` in a program, which has no token and no session."""
        message, of = context.message, context.fastmcp_context
        seen = None if of is None else of.request_context
        request, session = (None, None) if seen is None else (seen.request, seen.session)
        try:
            leases = await self._rule.begin(call_of(message.name, message.arguments or {}, request, session, of))
        except ToolRefused as refusal:
            return _result(refusal)
        async with serving(leases) as (running, ended):
            try:
                result = await call_next(context)
            except FastMCPError:
                if running.refusal is None:
                    raise
                result = _result(explain(running.refusal, begun=True))
            ended(getattr(result, "is_error", False) is True)
            return result


class ToolGuard(_ToolGuard):
    """Limit what a program calls on many servers: the guard of ``zae_limiter.integrations.mcp``, for FastMCP's clients.

    With ``results=True`` a refused ``call_tool`` raises ``ToolError``, as one does that the server refuses, or returns
    FastMCP's result where the call has ``raise_on_error=False``.
    """

    def answer(self, method: str, refusal: ToolRefused, options: Mapping[str, Any]) -> Any:
        """Return the result of a refused call."""
        if method != "call_tool":
            return refused(refusal)
        if options.get("raise_on_error", True):
            raise ToolError(refusal.text)
        found = refused(refusal)
        return CallToolResult(found.content, found.structured_content, None, None, is_error=True)


def _result(refusal: ToolRefused) -> ToolResult:
    return ToolResult(content=refusal.text, structured_content=refusal.structured, is_error=True)
