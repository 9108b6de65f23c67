"""What the servers of MCP over HTTP have in common: users, a tool, and limits in a file that other processes share.

Lives here: what both applications import. Never: an application, a claim.
"""

import os
from typing import Any, Final

from zae_limiter import RateLimiter, Repository
from zae_limiter.integrations.mcp import ToolCall

USERS: Final = {"token-ann": "ann", "token-bob": "bob"}
AGENT: Final = "app"
OPTIONS: Final[dict[str, Any]] = {"costs": {"echo": {"calls": 1}}, "per": ["tool", "agent", "session"]}
opened: list[RateLimiter] = []


async def limiter(call: ToolCall) -> RateLimiter:
    """Open the file with the first call, on the loop that serves it; a busy computer is not an outage."""
    if not opened:
        repository = await Repository.sqlite(os.environ["ZAEL_TEST_FILE"], acquire_timeout=60)
        opened.append(RateLimiter(repository))
    return opened[0]


def echo(text: str) -> str:
    """Return a text."""
    return text
