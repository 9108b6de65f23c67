"""A server of MCP over HTTP, of FastMCP.

Lives here: the application. Never: a claim.
"""

from fastmcp import FastMCP
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from support.core.web.mcp_tools import AGENT, OPTIONS, USERS, echo, limiter
from zae_limiter.integrations.fastmcp import ToolLimits

tokens = {token: {"client_id": AGENT, "scopes": [], "sub": user} for token, user in USERS.items()}
server: FastMCP = FastMCP("fast", auth=StaticTokenVerifier(tokens))
server.add_middleware(ToolLimits(limiter, **OPTIONS))
server.tool(echo)
app = server.http_app()
