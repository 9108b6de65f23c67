"""Middleware of Django. Needs the extra ``django``.

Make an instance in a module of your own, and name it in ``settings.MIDDLEWARE``, like ``"mysite.limits.middleware"``.
The tokens are kept once the view has begun. With ``refund="before_answer"`` a view that raises, a server error (5xx)
and an ``async`` view that Django cancels, because the client of an ASGI server left, give them back, unless the view
has settled; a view on a thread goes on to its end, and so keeps. Corrections (``lease.settle``) are written when the
view has returned, or when the server has sent or closed a stream.
"""

from asyncio import CancelledError
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, Unpack

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.http import HttpResponse

from ..aio.lease import Lease
from ..aio.limiter import RateLimiter
from ..flows.acquire.requests import NO_DRAWS
from ..runtime.tasks import result_of
from ..runtime.threads import in_thread
from ..sync.lease import SyncLease
from ..sync.limiter import SyncRateLimiter
from ..values.draws import Draw
from ..values.estimates import Amount
from .addresses import AddressOptions, Proxies
from .answers import ANSWERED, Answered, Answers, NotServed, Options, refusal_of, served, split
from .arguments import Rule
from .leases import Leases, Paced, Refund, SyncLeases
from .retries import FIELD, OF_BODY, key_of_request

T = TypeVar("T")
OfRequest: TypeAlias = T | Callable[[Any], T]


def client_address(**options: Unpack[AddressOptions]) -> Callable[[Any], str]:
    """Return an ``identity``: the address of the client, as ``zae_limiter.integrations.addresses`` finds it."""
    proxies = Proxies(**options)
    return lambda request: proxies.of_environ(request.META)


def retry_key(request: Any) -> str | None:
    """Return the key by which a retried request counts once: an ``idempotency_key``, of its ``Idempotency-Key``."""
    field = request.headers.get(FIELD)
    of_body = [request.headers.get(name, "") for name in OF_BODY]
    return key_of_request(request.method, request.get_full_path(), () if field is None else (field,), of_body)


def lease_of(request: Any) -> SyncLease:
    """Return the request's lease, to settle or to consume more. Raises ``LookupError`` if the request is not
    limited.
    """
    return _lease_of(request, SyncLease)


def async_lease_of(request: Any) -> Lease:
    """Return the request's lease where ``AsyncRateLimits`` limits. Raises ``LookupError`` if the request is not
    limited.
    """
    return _lease_of(request, Lease)


def _lease_of(request: Any, kind: type[T]) -> T:
    leases = getattr(request, "rate_limit_leases", None)
    if leases is None or not isinstance(leases.last, kind):
        raise LookupError(
            f"the request to {request.path!r} has no {kind.__name__}: nothing limits it, or another middleware"
        )
    return leases.last


class RateLimits:
    """Limits the requests of a site, with a ``SyncRateLimiter``.

    ``limiter``, ``identity`` (the entity's id), ``resource``, ``cost`` (tokens by limit) and ``draws`` (further
    buckets) are values, or functions of the request. A request that costs nothing (``{}``) is not limited. ``options``
    are those of ``acquire``, and those of ``zae_limiter.integrations.answers.Answers``.
    ``refund``: ``"never"`` once the view has begun, or ``"before_answer"``. ``idempotency_key``: ``retry_key``, or
    another function of the request; without one, each request counts.
    """

    sync_capable = True
    async_capable = False

    def __init__(
        self,
        limiter: OfRequest[SyncRateLimiter],
        *,
        identity: Callable[[Any], str],
        resource: OfRequest[str],
        cost: OfRequest[Mapping[str, Amount]],
        draws: OfRequest[Sequence[Draw]] = NO_DRAWS,
        refund: Refund = "never",
        idempotency_key: Callable[[Any], str | None] | None = None,
        **options: Unpack[Options],
    ) -> None:
        self._answers, acquire = split(options)
        self._rule = Rule(SyncRateLimiter, limiter, identity, resource, cost, draws, refund, acquire, idempotency_key)

    def __call__(self, get_response: Callable[[Any], Any]) -> "_SyncMiddleware":
        """Return what Django calls for each site."""
        return _SyncMiddleware(self._rule, self._answers, get_response)


class AsyncRateLimits:
    """Limits the requests of a site that an ASGI server serves, with a ``RateLimiter``; the functions may be ``async``.

    The arguments are those of ``RateLimits``.
    """

    sync_capable = False
    async_capable = True

    def __init__(
        self,
        limiter: OfRequest[RateLimiter | Awaitable[RateLimiter]],
        *,
        identity: Callable[[Any], str | Awaitable[str]],
        resource: OfRequest[str | Awaitable[str]],
        cost: OfRequest[Mapping[str, Amount] | Awaitable[Mapping[str, Amount]]],
        draws: OfRequest[Sequence[Draw] | Awaitable[Sequence[Draw]]] = NO_DRAWS,
        refund: Refund = "never",
        idempotency_key: Callable[[Any], str | Awaitable[str | None] | None] | None = None,
        **options: Unpack[Options],
    ) -> None:
        self._answers, acquire = split(options)
        self._rule = Rule(RateLimiter, limiter, identity, resource, cost, draws, refund, acquire, idempotency_key)

    def __call__(self, get_response: Callable[[Any], Any]) -> "_AsyncMiddleware":
        """Return what Django calls for each site."""
        return _AsyncMiddleware(self._rule, self._answers, get_response)


class _Middleware:
    def __init__(self, rule: Rule, answers: Answers, get_response: Callable[[Any], Any]) -> None:
        self._rule, self._answers, self._get_response = rule, answers, get_response

    def process_exception(self, request: Any, error: Exception) -> Any:
        """Answer a refusal of more tokens inside a view; Django calls it on a thread."""
        refusal = refusal_of(error)
        return None if refusal is None else self._reply(request, refusal, turned_away=False)

    def _reply(self, request: Any, error: Answered, *, turned_away: bool) -> Any:
        answer = self._answers.to(error, request.path)
        response = HttpResponse(answer.body, status=answer.status, headers=answer.headers)
        response.rate_limit_refused, response.rate_limit_turned_away = True, turned_away
        return response

    def _serves(self, leases: SyncLeases | Leases, response: Any) -> bool:
        """Show the lease in the response, unless inner middleware does; return whether its tokens stay taken."""
        leases.turned_away = getattr(response, "rate_limit_turned_away", False)
        if getattr(response, "rate_limit_refused", False):
            return False
        if leases.last is not None and not getattr(response, "rate_limit_shown", False):
            fields = self._answers.fields(leases.last)
            response.rate_limit_shown = bool(fields)
            for name, value in fields.items():
                response[name] = value
        return served(response.status_code)


class _SyncMiddleware(_Middleware):
    def __call__(self, request: Any) -> Any:
        leases = SyncLeases()
        try:
            if lease := self._rule.lease_of(request):
                request.rate_limit_leases = leases
                leases.enter(lease, self._rule.refund)
        except ANSWERED as error:
            return self._reply(request, error, turned_away=True)
        try:
            response = self._get_response(request)
        except BaseException as error:
            if _done_nonetheless(request, error):
                leases.keep()
            leases.end(error)
            raise
        if not self._serves(leases, response):
            leases.end(NotServed())
        else:
            leases.keep()
            _end_with(response, leases)
        return response


class _AsyncMiddleware(_Middleware):
    def __init__(self, rule: Rule, answers: Answers, get_response: Callable[[Any], Any]) -> None:
        super().__init__(rule, answers, get_response)
        markcoroutinefunction(self)

    async def __call__(self, request: Any) -> Any:
        leases = Leases()
        try:
            if lease := await self._rule.lease_of_async(request):
                request.rate_limit_leases = leases
                await leases.enter(lease, self._rule.refund)
        except ANSWERED as error:
            return self._reply(request, error, turned_away=True)
        try:
            response = await self._get_response(request)
        except BaseException as error:
            if _done_nonetheless(request, error):
                leases.keep()
                await sync_to_async(_nothing)()  # behind the view, on its thread
            await leases.end(error)
            raise
        if not self._serves(leases, response):
            await leases.end(NotServed())
        else:
            leases.keep()
            await _end_with_async(response, leases)
        return response


def _done_nonetheless(request: Any, error: BaseException) -> bool:
    """Return whether a view continues after its client has left: a thread cannot be cancelled."""
    match = request.resolver_match
    return isinstance(error, CancelledError) and match is not None and not iscoroutinefunction(match.func)


def _nothing() -> None: ...


class _Stream:
    """Parts of a response that end leases behind the last one, or with the ``close`` that Django calls.

    Behind an ASGI server a thread makes the parts. If the client leaves, the thread goes on to its end, closed or not.
    """

    def __init__(self, parts: Iterator[bytes], end: Callable[[], None]) -> None:
        self._parts, self._end = _ended(parts, end), end

    def __iter__(self) -> Iterator[bytes]:
        return self._parts

    def close(self) -> None:
        """End the leases, unless a thread is at a part: then they end behind it."""
        try:
            self._parts.close()
        except ValueError:  # Python's own of a generator that is at work
            return
        self._end()


def _ended(parts: Iterator[bytes], end: Callable[[], None]) -> Generator[bytes, None, None]:
    try:
        yield from parts
    finally:
        end()


def _end_with(response: Any, leases: SyncLeases) -> None:
    if not response.streaming:
        leases.end()
    elif getattr(response, "is_async", False):
        # on a thread of no pool: a request that waits may hold the one that sync middleware shares
        response.streaming_content = _streamed(response, leases, lambda: result_of(in_thread(leases.end)))
    else:
        content = response.streaming_content
        response.streaming_content = _Stream(Paced(content, leases) if leases.hold_slots else content, leases.end)


async def _end_with_async(response: Any, leases: Leases) -> None:
    if response.streaming:
        response.streaming_content = _streamed(response, leases, leases.end)
    else:
        await leases.end()


def _streamed(response: Any, leases: SyncLeases | Leases, end: Callable[[], Awaitable[None]]) -> AsyncIterator[bytes]:
    content, asynchronous = response.streaming_content, response.is_async

    async def parts() -> AsyncIterator[bytes]:
        try:
            if asynchronous:
                async for part in content:
                    leases.stall()
                    yield part
                    leases.go_on()
            else:
                for part in await _listed(content):
                    leases.stall()
                    yield part
                    leases.go_on()
        finally:
            await end()

    return parts()


async def _listed(content: Iterator[bytes]) -> list[bytes]:
    """Return the parts, as Django itself does; a cancelled caller waits for the thread that makes them."""
    try:
        return await sync_to_async(lambda: list(content))()
    except CancelledError:
        await sync_to_async(_nothing)()
        raise
