"""Limit the tools of FastMCP's servers, and what its clients call. Needs the extra ``fastmcp``.

``ToolLimits`` is a middleware: ``server.add_middleware(ToolLimits(limiter, ...))``. Its arguments and its rules are
those of ``zae_limiter.integrations.mcp``, whose ``ToolGuard`` also limits the calls of FastMCP's ``Client``.
"""

from typing import TYPE_CHECKING, Any

try:
    from fastmcp.exceptions import FastMCPError
    from fastmcp.server.middleware import Middleware
    from fastmcp.tools.base import ToolResult
except ImportError as error:
    from ..runtime.extras import install_command

    problem = f"zae_limiter.integrations.fastmcp needs fastmcp 4: {install_command('fastmcp')}"
    raise ImportError(problem) from error

from ..values.refusal import RateLimitExceeded
from .mcp import (
    GuardedClient,
    ToolCall,
    ToolGuard,
    call_of,
    lease_of,
    principal,
    refused,
    serving,
    settle,
)
from .mcp import ToolLimits as _ToolLimits
from .tool_calls import ToolRefused, explain

if TYPE_CHECKING:
    from fastmcp.server.middleware import CallNext, MiddlewareContext
    from mcp_types import CallToolRequestParams

__all__ = ["GuardedClient", "ToolCall", "ToolGuard", "ToolLimits", "lease_of", "principal", "refused", "settle"]


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
        try:
            async with serving(leases) as ended:
                result = await call_next(context)
                ended(getattr(result, "is_error", False) is True)
                return result
        except FastMCPError as error:
            if isinstance(error.__cause__, RateLimitExceeded):  # a `consume` in the tool was refused
                return _result(explain(error.__cause__, begun=True))
            raise


def _result(refusal: ToolRefused) -> ToolResult:
    return ToolResult(content=refusal.text, structured_content=refusal.structured, is_error=True)
