"""An agent whose run has a budget: it calls the tools of a server of MCP until it is done, or its budget is spent."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mcp import Client

from model import Answer, Model
from server import server
from zae_limiter import RateLimiter, Repository
from zae_limiter.integrations.mcp import ToolGuard

TEAM = "team-a"
COSTS = {
    "library/search": {"calls": 1, "usd": "$0.40"},
    "library/fetch": {"calls": 1, "usd": "$0.01"},
}


@asynccontextmanager
async def opened() -> AsyncIterator[RateLimiter]:
    """Open the store of ZAEL_STORE, which all agents share, or one in memory; set what the team may use in all."""
    repository = await Repository.open("agent") if "ZAEL_STORE" in os.environ else Repository.in_memory("agent")
    async with RateLimiter(repository) as limiter:
        await repository.set_limits(TEAM, ["calls: 100/min", "usd: $5/day UTC"], "mcp")
        yield limiter


async def work(limiter: RateLimiter, run_name: str, topics: list[str], say: Callable[[str], None] = print) -> str:
    """Answer about the topics, for at most a dollar and ten calls, within an hour."""
    model = Model(topics)
    async with limiter.budget(run_name, {"usd": "$1", "calls": 10}, within=TEAM, expires=3600) as run:
        guard = ToolGuard(run, costs=COSTS, results=True)
        async with Client(server) as session:  # or the address of a server: Client("http://127.0.0.1:8000/mcp")
            library = guard.client(session, "library")
            while not isinstance(step := model.next(), Answer):
                result = await library.call_tool(step.tool, step.arguments)
                text = result.content[0].text
                say(f"{step.tool} {step.arguments}: {text}")
                model.read(step, text, is_error=result.is_error)
        left = await run.left()
        say(f"left of {run_name}: {left['calls']} calls, ${left['usd'] / 1_000_000:.2f}")
    return step.text


async def main(run_name: str, *topics: str) -> None:
    """Work, and print the answer."""
    async with opened() as limiter:
        print(await work(limiter, run_name, [*topics]))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
