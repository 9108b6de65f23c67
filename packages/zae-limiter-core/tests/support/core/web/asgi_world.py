"""One client of plain ASGI, without a server.

Lives here: asking, and what the client got. Never: a claim.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from support.core.web.limits import GoneStore
from zae_limiter import Limit, Options, RateLimiter, Repository
from zae_limiter.integrations.asgi import Message, RateLimitMiddleware, Receive, Scope, Send

RPM: Final = Limit.per_minute("rpm", 10)
START: Final = {"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"1")]}
BODY: Final = {"type": "http.response.body", "body": b"hello"}


class World:
    """One user and one limiter; ``sent`` is what the client got."""

    def __init__(self, limiter: RateLimiter) -> None:
        self.limiter = limiter
        self.sent: list[Message] = []
        self.received: list[Message] = []
        self.later: Message | None = None  # after a while

    async def ask(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], **more: Any) -> None:
        """One request to an application behind the middleware."""
        options: dict[str, Any] = {"identity": lambda scope: "user", "resource": "api", "cost": {"rpm": 1}, **more}
        self.sent = []
        middleware = RateLimitMiddleware(app, limiter=self.limiter, **{"limits": [RPM], **options})
        await middleware({"type": "http", "path": "/here"}, self.receive, self.send)

    async def receive(self) -> Message:
        if not self.received and (later := self.later):
            await asyncio.sleep(0.2)
            return later
        return self.received.pop(0) if self.received else await asyncio.Future()

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    async def left(self) -> int:
        return (await self.limiter.available("user", "api", [RPM]))["rpm"]


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await send(dict(START))
    await send(dict(BODY))


async def away() -> tuple[RateLimiter, GoneStore]:
    store = GoneStore()
    return RateLimiter(await Repository.over(store, Options(stack="web"))), store
