"""Middleware of ASGI, for Starlette, FastAPI, Litestar, Quart and any other: it needs no framework.

A request takes its tokens before the application runs, and keeps them once it has begun, whatever happens to the answer
and the client. With ``refund="before_answer"`` they go back if the application raises or stops before its answer
begins, or if its answer is a server error (5xx), unless it has settled: what it settled always counts. Corrections
(``lease.settle``) are written when the application ends, so after the last byte of a stream. A client that leaves while
its request waits (``max_wait``, ``on_refused``) leaves the line. A stream whose slot has
ended is cut off (``SlotEnded``). Websockets and lifespans pass through.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, Unpack

from ..aio.lease import Lease
from ..aio.limiter import RateLimiter
from ..flows.acquire.requests import NO_DRAWS
from ..http import Show
from ..runtime.elapsed import elapsed_ms
from ..runtime.log_throttle import LogThrottle
from ..values.draws import Draw
from ..values.estimates import Amount
from . import inbox
from .addresses import AddressOptions, Proxies
from .answers import Answer, AnswerOptions, Answers, NotServed, Options, refusal_of, served, split
from .arguments import Rule
from .arguments import resolve as resolve  # noqa: PLC0414 - a name of this module for its users
from .leases import Leases, Refund, SlotEnded
from .retries import FIELD, OF_BODY, key_of_request

Scope = MutableMapping[str, Any]
Message = inbox.Message
Receive = inbox.Receive
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
T = TypeVar("T")
OfScope: TypeAlias = T | Callable[[Scope], T | Awaitable[T]]

LEASE: Final = "rate_limit_lease"  # of scope["state"]
_EXCHANGE: Final = "zae_limiter.exchange"  # of the scope
log = logging.getLogger(__name__)
_cut_off: Final = LogThrottle()  # a client may cause many of these lines
_LATE: Final = Answer(408, {"Content-Length": "0"}, b"")  # for a body that does not come
_NOBODY: Final = Answer(499, {"Content-Length": "0"}, b"")  # middleware further out may require an answer


class ClientLeft(Exception):
    """The client left while its request waited for tokens."""


def lease_of(scope: Mapping[str, object]) -> Lease:
    """Return the request's lease, to settle or to consume more. Raises ``LookupError`` if the request is not
    limited.
    """
    state = scope.get("state")
    lease = state.get(LEASE) if isinstance(state, Mapping) else None
    if not isinstance(lease, Lease):
        raise LookupError(f"the request to {scope.get('path')!r} has no lease: nothing limits it")
    return lease


def client_address(**options: Unpack[AddressOptions]) -> Callable[[Scope], str]:
    """Return an ``identity``: the address of the client, as ``zae_limiter.integrations.addresses`` finds it."""
    proxies = Proxies(**options)

    def identity(scope: Scope) -> str:
        header: dict[str, list[str]] = {}
        for name, value in scope.get("headers", ()):
            if (field := name.decode("latin-1").lower()) in proxies.fields:
                header.setdefault(field, []).append(value.decode("latin-1"))
        return proxies.client((scope.get("client") or (None,))[0], header)

    return identity


def retry_key(scope: Scope) -> str | None:
    """Return the key by which a retried request counts once: an ``idempotency_key``, of its ``Idempotency-Key``."""
    target = b"?".join((scope.get("raw_path") or scope["path"].encode(), scope.get("query_string", b"")))
    found: dict[bytes, list[str]] = {name.lower().encode(): [] for name in (FIELD, *OF_BODY)}
    for name, value in scope.get("headers", ()):
        if (given := found.get(name.lower())) is not None:
            given.append(value.decode("latin-1"))
    fields, *of_body = found.values()
    return key_of_request(scope["method"], target.decode("latin-1"), fields, [", ".join(each) for each in of_body])


class Exchange:
    """One request and its answer at one layer of middleware, with the leases that it holds there.

    An inner layer has an exchange of its own, which ends first. If the answer is the inner layer's refusal, this layer
    gives its tokens back. The answer has the header fields of the innermost layer that has any.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, answers: Answers) -> None:
        self._scope, self._inbox, self._send = scope, inbox.Inbox(receive), send
        self._default = self._answers = answers
        self._leases = Leases()
        self._status: int | None = None
        self._refused = False
        self._ended: SlotEnded | None = None  # nothing is sent any more
        self._has_slots = False  # as the answer begins
        self._has_body = False  # all of it
        self._fields: list[tuple[bytes, bytes]] = []  # of this layer, or of one further in, as the answer has them
        self._inner: Exchange | None = None  # the latest one: middleware in between may call its application again

    @classmethod
    def of(cls, scope: Scope) -> "Exchange":
        """Return the innermost exchange of a scope. Raises ``LookupError`` if there is no ``AnswerMiddleware``."""
        if isinstance(found := scope.get(_EXCHANGE), cls):
            return found
        raise LookupError("no middleware of zae_limiter serves this request: install it in the application")

    async def acquire(self, lease: Lease, *, refund: Refund = "never", show: Show | None = None) -> Lease:
        """Take the tokens until the request ends; ``show`` replaces that of the middleware. Raises the errors of
        ``acquire``, and ``ClientLeft`` if the client leaves while the acquire waits.
        """
        self._answers = self._default.showing(show)
        entering = self._leases.enter(lease, refund)
        await (self._enter_unless_gone(entering) if lease._may_wait() else entering)
        self._scope.setdefault("state", {})[LEASE] = lease
        self._has_slots = self._leases.hold_slots
        return lease

    async def run(self, app: App) -> None:
        """Run the application, or send an answer in its place."""
        outer = self._scope.get(_EXCHANGE)
        if outer is not None:
            outer._inner = self
        self._scope[_EXCHANGE] = self
        try:
            await self._run(app)
        except ClientLeft:
            if self._status is None:
                await self._reply(_NOBODY)
        except Exception as error:
            if self._ended is not None and _comes_of(error, self._ended):
                if (ending := _cut_off.ending(round(elapsed_ms()))) is not None:
                    log.warning("the answer to %r was cut off: %s%s", self._scope["path"], self._ended, ending)
                if self._status is None:
                    return await self._reply(_LATE)
                raise self._ended from None  # else middleware further out may end the answer as if it were whole
            refusal = refusal_of(error)
            if refusal is None or self._status is not None:
                raise
            await self._reply(self._answers.to(refusal, self._scope["path"]))
        finally:
            self._scope[_EXCHANGE] = outer
            self._inbox.close()

    async def _run(self, app: App) -> None:
        try:
            await app(self._scope, self._get, self._answer)
        except BaseException as error:
            self._follow_end()
            await self._leases.end(error)
            raise
        self._follow_end()
        await self._leases.end(None if self._served else NotServed())

    @property
    def _served(self) -> bool:
        return self._status is not None and served(self._status) and not self._refused

    async def _enter_unless_gone(self, entering: Coroutine[Any, Any, Lease]) -> None:
        waiting, watching = asyncio.ensure_future(entering), asyncio.ensure_future(self._inbox.until_gone())
        try:
            await asyncio.wait({waiting, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done() and watching.result():
                raise ClientLeft
            await waiting
        finally:
            waiting.cancel()
            watching.cancel()
            await asyncio.gather(waiting, watching, return_exceptions=True)

    async def _answer(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if self._ended is not None:
                raise self._ended  # a framework's own answer to the error: ours says what happened
            self._status, self._has_slots = message["status"], self._leases.hold_slots
            headers = [(name, value) for name, value in message.get("headers", ())]
            self._follow(headers)
            if self._served:
                self._leases.keep()
            if (lease := self._leases.last) and not self._fields:
                self._fields = _raw(self._answers.fields(lease))
                ours = {name for name, _ in self._fields}
                headers = [each for each in headers if each[0].lower() not in ours] + self._fields
                message = {**message, "headers": headers}
        await (self._pass_on(message) if self._has_slots else self._send(message))

    async def _pass_on(self, message: Message) -> None:
        """Send a message. Raises ``SlotEnded`` where an answer that goes on has lost its slots, and where its client
        has not read for as long as the slots take to expire.
        """
        if self._ended is not None:
            raise self._ended
        if message.get("more_body"):
            self._check_slots()
        await self._while_slots_last(self._send(message), "has not read")

    def _check_slots(self) -> None:
        if lost := self._leases.lost_slots:
            self._ended = SlotEnded(f"slots of {', '.join(lost)} are free for others")
            raise self._ended

    async def _get(self) -> Message:
        """Return the next message of the client. Raises ``SlotEnded`` where a part of its body does not come for as
        long as the slots take to expire, or the body takes so long that they have ended: the work would go without.
        """
        coming = self._inbox.get()
        if self._has_body:  # only its leaving may come
            return await coming
        message = await (self._while_slots_last(coming, "has sent no part of its body") if self._has_slots else coming)
        self._has_body = not message.get("more_body")
        if self._has_slots:
            self._check_slots()
        return message

    async def _while_slots_last(self, moving: Awaitable[T], what: str) -> T:
        """Return what the client's next move brings."""
        seconds = self._leases.stall()
        if seconds is None:
            return await moving
        try:
            async with asyncio.timeout(seconds) as patience:
                moved = await moving
        except TimeoutError:
            if not patience.expired():
                raise
            self._ended = SlotEnded(f"its client {what} for {seconds:g} s, in which a slot expires")
            raise self._ended from None
        self._leases.resume()
        return moved

    def _follow(self, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Use the inner layer's outcome, unless middleware in between sends another answer than that layer did."""
        inner = self._inner
        if inner is not None and inner._status == self._status:
            self._refused = inner._refused
        if inner is not None and {*inner._fields} <= {(name.lower(), value) for name, value in headers}:
            self._fields = inner._fields

    def _follow_end(self) -> None:
        """Use the outcome of an inner door, unless middleware in between sends another answer."""
        if self._inner is not None and self._inner._status == self._status:
            self._leases.turned_away |= self._inner._leases.turned_away

    async def _reply(self, answer: Answer) -> None:
        self._refused, self._status, self._fields = True, answer.status, _raw(answer.headers)
        await self._send({"type": "http.response.start", "status": answer.status, "headers": self._fields})
        await self._send({"type": "http.response.body", "body": answer.body})


class AnswerMiddleware:
    """Ends the leases that a request acquires, shows them in its header fields, and answers refusals.

    It limits nothing itself: ``fastapi.install`` adds it.
    """

    def __init__(self, app: App, **options: Unpack[AnswerOptions]) -> None:
        self._app = app
        self._answers = Answers(**options)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a scope."""
        if scope["type"] == "http":
            await Exchange(scope, receive, send, self._answers).run(self._app)
        else:
            await self._app(scope, receive, send)


class RateLimitMiddleware:
    """Limits every request of an application.

    ``limiter``, ``identity`` (the entity's id), ``resource``, ``cost`` (tokens by limit) and ``draws`` (further
    buckets) are values, or functions of the scope, which may be ``async``. A request that costs nothing (``{}``) is not
    limited. ``options`` are those of ``acquire``, and those of ``zae_limiter.integrations.answers.Answers``.
    ``refund``: ``"never"`` once the application has begun, or ``"before_answer"``. ``idempotency_key``: ``retry_key``,
    or another function of the scope; without one, each request counts.
    """

    def __init__(
        self,
        app: App,
        *,
        limiter: OfScope[RateLimiter],
        identity: OfScope[str],
        resource: OfScope[str],
        cost: OfScope[Mapping[str, Amount]],
        draws: OfScope[Sequence[Draw]] = NO_DRAWS,
        refund: Refund = "never",
        idempotency_key: Callable[[Scope], str | Awaitable[str | None] | None] | None = None,
        **options: Unpack[Options],
    ) -> None:
        self._app = app
        self._answers, acquire = split(options)
        self._rule = Rule(RateLimiter, limiter, identity, resource, cost, draws, refund, acquire, idempotency_key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a scope."""
        if scope["type"] == "http":
            await Exchange(scope, receive, send, self._answers).run(self._limited)
        else:
            await self._app(scope, receive, send)

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        if lease := await self._rule.lease_of_async(scope):
            await Exchange.of(scope).acquire(lease, refund=self._rule.refund)
        await self._app(scope, receive, send)


def _comes_of(error: BaseException | None, ended: SlotEnded) -> bool:
    """Return whether an error is the end of the slots, or what an application and its framework made of it."""
    if isinstance(error, BaseExceptionGroup):
        return all(_comes_of(each, ended) for each in error.exceptions)
    return error is not None and (error is ended or _comes_of(error.__cause__ or error.__context__, ended))


def _raw(fields: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("ascii"), value.encode("ascii")) for name, value in fields.items()]
