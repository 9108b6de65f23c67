"""A server of MCP over HTTP, of the official SDK.

Lives here: the application. Never: a claim.
"""

from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings

from support.core.web.mcp_tools import AGENT, OPTIONS, USERS, echo, limiter
from zae_limiter.integrations.mcp import ToolLimits


class Tokens:
    """What the SDK asks about tokens."""

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return whose token it is."""
        return AccessToken(token=token, client_id=AGENT, scopes=[], subject=USERS[token]) if token in USERS else None


settings = AuthSettings.model_validate({"issuer_url": "http://127.0.0.1", "resource_server_url": None})
server = MCPServer("sdk", middleware=[ToolLimits(limiter, **OPTIONS)], token_verifier=Tokens(), auth=settings)
server.add_tool(echo)
app = server.streamable_http_app()
