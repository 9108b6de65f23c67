"""Rate limits of LangChain's chat models. Needs the extra ``langchain``.

``RequestLimiter`` is the ``rate_limiter`` of a model: each request waits for its tokens, and they are not given back.
``TokenLimits`` is a callback: it takes an estimate before a call, settles what the answer says was used when it ends,
and holds slots until then.

No call waits on a thread of the event loop's pool. LangChain runs blocking hooks of ``ainvoke`` and ``astream`` there,
so callers that wait for slots would hold the threads that the ends of other calls need to free them. A ``RateLimiter``
waits on the loop itself. A ``SyncRateLimiter`` waits, and ends, on threads of its own.
"""

import sys
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from typing import Any, Final, TypeVar, Unpack
from uuid import UUID

try:
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.rate_limiters import BaseRateLimiter
except ImportError as error:
    from ..runtime.extras import install_command

    problem = f"zae_limiter.integrations.langchain needs langchain-core: {install_command('langchain')}"
    raise ImportError(problem) from error

from ..aio.lease import Lease
from ..aio.limiter import RateLimiter
from ..exceptions import ValidationError
from ..flows.acquire.lease import check_most
from ..flows.acquire.requests import NO_DRAWS, AcquireOptions, EachCallOptions
from ..runtime.dataclass import replace
from ..runtime.lru import LRU
from ..runtime.tasks import result_of
from ..runtime.threads import in_thread
from ..sync.lease import SyncLease
from ..sync.limiter import SyncRateLimiter
from ..values.draws import Draw
from ..values.estimates import Estimate
from ..values.on_refused import OnRefused
from ..values.refusal import RateLimitExceeded
from ..wiring import with_key
from .answers import NotServed
from .arguments import calls_cost, check_either, check_options, check_refund
from .heard import bytes_heard
from .leases import MAX_OPEN, Leases, OpenCalls, Refund, SyncLeases
from .litellm_stream import Stream
from .retries import key_of_call
from .settlement import assumed_answer, settle, settle_at_least, settle_at_least_sync, settle_sync
from .tokens import estimate, floor
from .usage import TokenUsage, UsageReader, part_of

MAX_WAIT: Final = 60.0
AT_ONCE: Final = 0.001  # seconds: 0 would leave the wait to the policy of a level
_BLOCKING: Final = "a RateLimiter cannot serve a blocking call: use ainvoke, or give a SyncRateLimiter"
_AWAITS: Final = CO_COROUTINE | CO_ASYNC_GENERATOR
_OF_PART: Final = ("content", "tool_call_chunks", "additional_kwargs")
_OF_MESSAGE: Final = ("name", "tool_calls", "invalid_tool_calls", "tool_call_id")
T = TypeVar("T")


def retry_key(request: Mapping[str, Any], metadata: Mapping[str, Any]) -> str | None:
    """Return the key by which a retried call counts once: an ``idempotency_key`` of ``TokenLimits``, made of that in
    the ``metadata`` of the call and of its messages, because all calls of a chain have its metadata.
    """
    key = metadata.get("idempotency_key")
    return None if key is None else key_of_call(key, request)


class RequestLimiter(BaseRateLimiter):
    """The ``rate_limiter`` of a chat model: each of its requests takes ``consume`` first.

    A ``SyncRateLimiter`` serves ``invoke`` and ``ainvoke`` (each call on a thread of its own), a ``RateLimiter`` serves
    ``ainvoke`` alone. ``options`` are those of ``acquire``; ``max_wait`` is 60 seconds if you name no wait. LangChain
    does not report the end of a request here, so limits with slots raise ``ValidationError``: ``TokenLimits`` holds
    them. Nor does it report the request: an ``idempotency_key`` takes no argument, and may read a ``ContextVar``.
    """

    def __init__(
        self,
        limiter: RateLimiter | SyncRateLimiter,
        *,
        entity_id: str,
        resource: str,
        consume: Mapping[str, int],
        draws: Sequence[Draw] = NO_DRAWS,
        idempotency_key: Callable[[], str | None] | None = None,
        **options: Unpack[EachCallOptions],
    ) -> None:
        check_either(limiter)
        check_options(options, entity_id, resource, draws, idempotency_key)
        self._limiter, self._key = limiter, idempotency_key
        self._life = options.pop("key_life", None)
        self._place = (entity_id, resource, dict(consume))
        policy = options.get("on_refused")
        own: AcquireOptions = {} if isinstance(policy, OnRefused) and policy.wait else {"max_wait": MAX_WAIT}
        self._options: AcquireOptions = {"draws": draws, **own, **options}

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take the tokens. Raises the errors of ``acquire``; a refusal is ``False`` if it is not ``blocking``.

        A blocking call raises ``RateLimitExceeded``, because LangChain sends the request whatever this returns.
        """
        if not isinstance(self._limiter, SyncRateLimiter):
            raise TypeError(_BLOCKING)
        try:
            with self._limiter.acquire(*self._place, **self._waiting(blocking=blocking)) as lease:
                _refuse_slots(lease)
                return True
        except RateLimitExceeded:
            if blocking:
                raise
            return False

    async def aacquire(self, *, blocking: bool = True) -> bool:
        """Take the tokens on an event loop, as ``acquire`` does on a thread."""
        if isinstance(self._limiter, SyncRateLimiter):
            return await _on_own_thread(partial(self.acquire, blocking=blocking))
        try:
            async with self._limiter.acquire(*self._place, **self._waiting(blocking=blocking)) as lease:
                _refuse_slots(lease)
                return True
        except RateLimitExceeded:
            if blocking:
                raise
            return False

    def _waiting(self, *, blocking: bool) -> AcquireOptions:
        key: Any = {} if self._key is None else with_key(self._key(), self._life)
        if blocking:
            return {**self._options, **key}
        options: AcquireOptions = {**self._options, **key, "max_wait": AT_ONCE}
        if isinstance(policy := options.get("on_refused"), OnRefused):
            options["on_refused"] = replace(policy, wait=0)
        return options


class _Hook:
    """A hook in both forms: a coroutine function for LangChain's async managers, a function for the blocking ones.

    An async manager runs a function in the loop's pool of threads. A blocking manager runs a coroutine on another loop
    and swallows its errors, so that a refused call would go out. Both read the hook by its name, and may do so on a
    thread whose loop runs (``invoke`` in a notebook). What tells them apart is the frame that reads it: code that can
    await the hook is a coroutine itself.
    """

    def __init__(self, blocking: Callable[..., None], on_loop: Callable[..., Any]) -> None:
        self._blocking, self._on_loop = blocking, on_loop
        self.__doc__ = blocking.__doc__

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        awaits = sys._getframe(1).f_code.co_flags & _AWAITS
        return (self._on_loop if awaits else self._blocking).__get__(instance, owner)


class TokenLimits(BaseCallbackHandler):
    """A callback of chat models: it takes a request and the estimated tokens before each call, and settles when it
    ends.

    A ``SyncRateLimiter`` serves ``invoke`` and ``ainvoke`` (on threads of its own), a ``RateLimiter`` serves
    ``ainvoke`` alone, on the event loop.

    ``requests``, ``tokens`` and ``slots`` name limits; ``None`` leaves one out. A call holds one of the ``slots`` until
    it ends, with its stream. ``estimate`` gets the messages as one mapping with the parameters of the model, like the
    body of a request, and so does ``draws``, if it is a function: it returns further buckets. ``options`` are those of
    ``acquire``. A refusal raises ``RateLimitExceeded`` before the request goes out. ``refund``: a call that fails keeps
    its estimate (``"never"``), or gives it back (``"before_answer"``) unless a part of its answer had come.
    ``idempotency_key`` is ``retry_key``, or a function of the same mapping and of the ``metadata`` of the call.
    ``most_settled`` bounds what a provider may claim that one call used, by default as ``lease.settle`` does.
    """

    raise_error = True  # LangChain swallows the errors of other callbacks

    def __init__(
        self,
        limiter: RateLimiter | SyncRateLimiter,
        *,
        entity_id: str,
        resource: str,
        requests: str | None = "rpm",
        tokens: str | None = "tpm",
        slots: str | None = None,
        estimate: Callable[[Mapping[str, Any]], int | Estimate] = estimate,
        refund: Refund = "never",
        most_settled: int | None = None,
        draws: Sequence[Draw] | Callable[[Mapping[str, Any]], Sequence[Draw]] = NO_DRAWS,
        idempotency_key: Callable[[Mapping[str, Any], Mapping[str, Any]], str | None] | None = None,
        **options: Unpack[EachCallOptions],
    ) -> None:
        check_either(limiter)
        check_refund(refund)
        check_options(options, entity_id, resource, draws, idempotency_key)
        check_most("most_settled", most_settled)
        self._limiter, self._place = limiter, (entity_id, resource)
        self._calls = calls_cost(requests, tokens, slots)
        self._tokens, self._estimate, self._draws = tokens, estimate, draws
        self._key, self._life = idempotency_key, options.pop("key_life", None)
        self._refund, self._options, self._most = refund, options, most_settled
        self._open: OpenCalls[int, Leases | SyncLeases] = OpenCalls()
        self._streams: LRU[int, Stream] = LRU(MAX_OPEN)

    def _chat_starts(self, serialized: Any, messages: list[list[Any]], *, run_id: UUID, **kwargs: Any) -> None:
        """Take the tokens. Raises the errors of ``acquire``."""
        request = _chat(messages, kwargs)
        self._remember(run_id, request, self._taken(request, self._keyed(request, kwargs)))

    async def _chat_starts_on_loop(
        self, serialized: Any, messages: list[list[Any]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        request = _chat(messages, kwargs)
        self._remember(run_id, request, await self._taken_on_loop(request, self._keyed(request, kwargs)))

    def _llm_starts(self, serialized: Any, prompts: list[str], *, run_id: UUID, **kwargs: Any) -> None:
        """Take the tokens for a model that is not a chat model. Raises the errors of ``acquire``."""
        request = _completion(prompts, kwargs)
        self._remember(run_id, request, self._taken(request, self._keyed(request, kwargs)))

    async def _llm_starts_on_loop(self, serialized: Any, prompts: list[str], *, run_id: UUID, **kwargs: Any) -> None:
        request = _completion(prompts, kwargs)
        self._remember(run_id, request, await self._taken_on_loop(request, self._keyed(request, kwargs)))

    def _part_comes(self, token: Any, *, run_id: UUID, chunk: Any = None, **kwargs: Any) -> None:
        """Keep the tokens: a part of the answer is there, of text, thinking or a tool's call."""
        self._hear(run_id, "part", _heard(token, chunk))

    async def _part_comes_on_loop(self, token: Any, **kwargs: Any) -> None:
        self._part_comes(token, **kwargs)

    def _event_comes(self, event: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Keep the tokens: LangChain reports parts as events, too, and each block again when it ends."""
        way = "block" if part_of(event, "event") == "content-block-finish" else "event"
        self._hear(run_id, way, bytes_heard(part_of(event, "delta"), part_of(event, "content")))

    async def _event_comes_on_loop(self, event: Any, **kwargs: Any) -> None:
        self._event_comes(event, **kwargs)

    def _hear(self, run_id: UUID, way: str, size: int) -> None:
        if leases := self._open.get(run_id.int):
            leases.keep()
        if stream := self._streams.get(run_id.int):
            stream.hear(way, size)

    def _llm_ends(self, response: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Settle what was used. Keep the estimate if the model does not say. Log what cannot be written."""
        self._end(run_id, _usage_of(response), None)

    async def _llm_ends_on_loop(self, response: Any, *, run_id: UUID, **kwargs: Any) -> None:
        await self._end_on_loop(run_id, _usage_of(response), None)

    def _llm_fails(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Give back what ``refund`` allows, unless a part of the answer had come: then keep the estimate, or what came
        with the request if that is more.
        """
        self._end(run_id, None, error)

    async def _llm_fails_on_loop(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        await self._end_on_loop(run_id, None, error)

    on_chat_model_start: Any = _Hook(_chat_starts, _chat_starts_on_loop)
    on_llm_start: Any = _Hook(_llm_starts, _llm_starts_on_loop)
    on_llm_new_token: Any = _Hook(_part_comes, _part_comes_on_loop)
    on_stream_event: Any = _Hook(
        _event_comes, _event_comes_on_loop
    )  # of ``stream_events(version="v3")`` in newer releases
    on_llm_end: Any = _Hook(_llm_ends, _llm_ends_on_loop)
    on_llm_error: Any = _Hook(_llm_fails, _llm_fails_on_loop)

    def _cost(self, request: Mapping[str, Any]) -> dict[str, int | Estimate]:
        return {**self._calls, **({self._tokens: self._estimate(request)} if self._tokens else {})}

    def _draws_of(self, request: Mapping[str, Any]) -> Sequence[Draw]:
        return self._draws(request) if callable(self._draws) else self._draws

    def _keyed(self, request: Mapping[str, Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return {} if self._key is None else with_key(self._key(request, kwargs.get("metadata") or {}), self._life)

    def _taken(self, request: Mapping[str, Any], key: Mapping[str, Any]) -> SyncLeases:
        if not isinstance(self._limiter, SyncRateLimiter):
            raise TypeError(_BLOCKING)
        leases = SyncLeases()
        with self._explained(request):
            draws = self._draws_of(request)
            lease = self._limiter.acquire(*self._place, self._cost(request), draws=draws, **key, **self._options)
            leases.enter(lease, self._refund)
        return leases

    async def _taken_on_loop(self, request: Mapping[str, Any], key: Mapping[str, Any]) -> Leases | SyncLeases:
        if isinstance(self._limiter, SyncRateLimiter):
            return await _on_own_thread(partial(self._taken, request, key), abandoned=_give_back)
        leases = Leases()
        with self._explained(request):
            draws = self._draws_of(request)
            lease = self._limiter.acquire(*self._place, self._cost(request), draws=draws, **key, **self._options)
            await leases.enter(lease, self._refund)
        return leases

    @contextmanager
    def _explained(self, request: Mapping[str, Any]) -> Iterator[None]:
        try:
            yield
        except RateLimitExceeded as error:
            if self._tokens and (why := assumed_answer(error, self._tokens, request, self._estimate)):
                error.add_note(why)
            raise

    def _remember(self, run_id: UUID, request: Mapping[str, Any], leases: Leases | SyncLeases) -> None:
        if leases.hold_slots:  # a cancelled `ainvoke` reports no end, but the managers with its id are collected
            leases.end_with(run_id)
        self._open.put(run_id.int, leases)
        self._streams.put(run_id.int, Stream({}, least=floor(request)))  # many calls never report their end

    def _at_least(self, run_id: UUID, leases: Leases | SyncLeases | None) -> TokenUsage | None:
        """Return what a call without usage has used, if parts of its answer came, and that may be beyond its
        estimate.
        """
        stream = self._streams.pop(run_id.int)
        if stream is None or not stream.begun or leases is None or (lease := leases.last) is None:
            return None
        usage = stream.usage
        beyond = self._tokens is not None and usage.total > lease.consumed.get(self._tokens, 0)
        return usage if beyond or any(draw.has_price for draw in lease.draws) else None

    def _end(self, run_id: UUID, usage: TokenUsage | None, error: BaseException | None) -> None:
        leases = self._open.pop(run_id.int)
        least = self._at_least(run_id, leases)
        if leases is None:
            return
        if not isinstance(leases, SyncLeases):
            raise TypeError(_BLOCKING)
        self._finish(leases, usage, least, error)

    async def _end_on_loop(self, run_id: UUID, usage: TokenUsage | None, error: BaseException | None) -> None:
        leases = self._open.pop(run_id.int)
        least = self._at_least(run_id, leases)
        if isinstance(leases, SyncLeases):
            await _on_own_thread(partial(self._finish, leases, usage, least, error))
        elif leases is not None:
            if usage and (lease := leases.last):
                await settle(lease, self._tokens, usage, self._most)
            elif least and (lease := leases.last):
                await settle_at_least(lease, self._tokens, least, self._most)
            await leases.end(error)

    def _finish(
        self, leases: SyncLeases, usage: TokenUsage | None, least: TokenUsage | None, error: BaseException | None
    ) -> None:
        if usage and (lease := leases.last):
            settle_sync(lease, self._tokens, usage, self._most)
        elif least and (lease := leases.last):
            settle_at_least_sync(lease, self._tokens, least, self._most)
        leases.end(error)


def _chat(messages: list[list[Any]], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **kwargs.get("invocation_params", {}),
        "messages": [_message(message) for each in messages for message in each],
    }


def _message(message: Any) -> dict[str, Any]:
    """Return what a provider gets of a message: calls of tools are texts, too."""
    texts = {name: text for name in _OF_MESSAGE if (text := getattr(message, name, None))}
    return {**message.additional_kwargs, "role": message.type, "content": message.content, **texts}


def _heard(token: object, chunk: Any) -> int:
    """Return the bytes of text in a part of an answer: of all that its message holds, or what LangChain says of it."""
    message = getattr(chunk, "message", None)
    return bytes_heard(*(getattr(message, name, ()) for name in _OF_PART) if message else (token,))


def _completion(prompts: list[str], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {**kwargs.get("invocation_params", {}), "prompt": prompts}


async def _on_own_thread(work: Callable[[], T], *, abandoned: Callable[["Future[T]"], None] | None = None) -> T:
    """Return the result of ``work``, done on a thread of no pool. ``abandoned`` gets it if the caller is cancelled."""
    working = in_thread(partial(copy_context().run, work))
    try:
        return await result_of(working)
    except CancelledError:
        if abandoned:
            working.add_done_callback(abandoned)
        raise


def _give_back(taking: "Future[SyncLeases]") -> None:
    """Give back what was taken for a call that was cancelled while it waited."""
    if taking.exception() is None:
        leases = taking.result()
        leases.turned_away = True
        leases.end(NotServed())


def _refuse_slots(lease: Lease | SyncLease) -> None:
    """Raise ``ValidationError`` if the lease holds slots: its end would free them before the request begins."""
    for status in lease.statuses:
        if status.limit._has_slots and status.requested:
            problem = "has slots, and this limiter cannot see the end of a request: name it in TokenLimits(slots=…)"
            raise ValidationError("consume", status.limit_name, problem)


def _usage_of(response: Any) -> TokenUsage | None:
    """Return the most that an answer of the call says; each of several has the usage of all."""
    reader = UsageReader()
    for generations in response.generations:
        for generation in generations:
            reader.add({"usage": getattr(getattr(generation, "message", None), "usage_metadata", None)})
    return reader.usage
