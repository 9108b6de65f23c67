"""Rate limits of LangChain's chat models. Needs the extra ``langchain``.

``RequestLimiter`` is the ``rate_limiter`` of a model: each request waits for its tokens, and they are not given back.
``TokenLimits`` is a callback: it takes an estimate before a call, settles what the answer says was used when it ends,
and holds slots until then.
"""

from asyncio import to_thread
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Unpack
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
from ..flows.acquire.requests import AcquireOptions
from ..sync.lease import SyncLease
from ..sync.limiter import SyncRateLimiter
from ..values.estimates import Estimate
from ..values.on_refused import OnRefused
from ..values.refusal import RateLimitExceeded
from .arguments import calls_cost, check_refund
from .estimates import assumed_answer
from .leases import OpenCalls, Refund, SyncLeases
from .settlement import settle_sync
from .tokens import estimate
from .usage import TokenUsage, UsageReader

MAX_WAIT: Final = 60.0
AT_ONCE: Final = 0.001  # seconds: 0 would leave the wait to the policy of a level


class RequestLimiter(BaseRateLimiter):
    """The ``rate_limiter`` of a chat model: each of its requests takes ``consume`` first.

    A ``SyncRateLimiter`` serves ``invoke`` and ``ainvoke`` (in a thread), a ``RateLimiter`` serves ``ainvoke`` alone.
    ``options`` are those of ``acquire``; ``max_wait`` is 60 seconds if you name no wait. LangChain does not report the
    end of a request here, so limits with slots raise ``ValidationError``: ``TokenLimits`` holds them.
    """

    def __init__(
        self,
        limiter: RateLimiter | SyncRateLimiter,
        *,
        entity_id: str,
        resource: str,
        consume: Mapping[str, int],
        **options: Unpack[AcquireOptions],
    ) -> None:
        self._limiter = limiter
        self._place = (entity_id, resource, dict(consume))
        policy = options.get("on_refused")
        own: AcquireOptions = {} if isinstance(policy, OnRefused) and policy.wait else {"max_wait": MAX_WAIT}
        self._options: AcquireOptions = {**own, **options}

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take the tokens. Raises the errors of ``acquire``; a refusal is ``False`` if it is not ``blocking``.

        A blocking call raises ``RateLimitExceeded``, because LangChain sends the request whatever this returns.
        """
        if not isinstance(self._limiter, SyncRateLimiter):
            raise TypeError("a RateLimiter cannot serve a blocking call: use ainvoke, or give a SyncRateLimiter")
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
            return await to_thread(self.acquire, blocking=blocking)
        try:
            async with self._limiter.acquire(*self._place, **self._waiting(blocking=blocking)) as lease:
                _refuse_slots(lease)
                return True
        except RateLimitExceeded:
            if blocking:
                raise
            return False

    def _waiting(self, *, blocking: bool) -> AcquireOptions:
        if blocking:
            return self._options
        options: AcquireOptions = {**self._options, "max_wait": AT_ONCE}
        if isinstance(policy := options.get("on_refused"), OnRefused):
            options["on_refused"] = replace(policy, wait=0)
        return options


class TokenLimits(BaseCallbackHandler):
    """A callback of chat models: it takes a request and the estimated tokens before each call, and settles when it
    ends.

    ``requests``, ``tokens`` and ``slots`` name limits; ``None`` leaves one out. A call holds one of the ``slots`` until
    it ends, with its stream. ``estimate`` gets the messages as one mapping with the parameters of the model, like the
    body of a request. ``options`` are those of ``acquire``. A refusal raises ``RateLimitExceeded`` before the request
    goes out. ``refund``: a call that fails keeps its estimate (``"never"``),
    or gives it back (``"before_answer"``) unless a part of its answer had come.
    """

    raise_error = True  # LangChain swallows the errors of other callbacks

    def __init__(
        self,
        limiter: SyncRateLimiter,
        *,
        entity_id: str,
        resource: str,
        requests: str | None = "rpm",
        tokens: str | None = "tpm",
        slots: str | None = None,
        estimate: Callable[[Mapping[str, Any]], int | Estimate] = estimate,
        refund: Refund = "never",
        **options: Unpack[AcquireOptions],
    ) -> None:
        check_refund(refund)
        self._limiter, self._place = limiter, (entity_id, resource)
        self._calls, self._slots = calls_cost(requests, tokens, slots), slots
        self._tokens, self._estimate = tokens, estimate
        self._refund, self._options = refund, options
        self._open: OpenCalls[int, SyncLeases] = OpenCalls()

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[Any]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Take the tokens. Raises the errors of ``acquire``."""
        contents = [message.content for each in messages for message in each]
        self._take(run_id, {**kwargs.get("invocation_params", {}), "messages": contents})

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], *, run_id: UUID, **kwargs: Any) -> None:
        """Take the tokens for a model that is no chat model. Raises the errors of ``acquire``."""
        self._take(run_id, {**kwargs.get("invocation_params", {}), "prompt": prompts})

    def on_llm_new_token(self, token: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Keep the tokens: a part of the answer is there, of text, thinking or a tool's call."""
        self._keep(run_id)

    def on_stream_event(self, event: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Keep the tokens as well in ``stream_events(version="v3")`` of newer releases, which tells of no new token."""
        self._keep(run_id)

    def on_llm_end(self, response: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Settle what was used. Keep the estimate if the model does not say. Log what cannot be written."""
        self._end(run_id, response, None)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Give back what ``refund`` allows, unless a part of the answer had come: then keep the estimate."""
        self._end(run_id, None, error)

    def _take(self, run_id: UUID, request: Mapping[str, Any]) -> None:
        cost: dict[str, int | Estimate] = {**self._calls}
        if self._tokens:
            cost[self._tokens] = self._estimate(request)
        leases = SyncLeases()
        try:
            leases.enter(self._limiter.acquire(*self._place, cost, **self._options), self._refund)
        except RateLimitExceeded as error:
            if self._tokens and (why := assumed_answer(error, self._tokens, request, self._estimate)):
                error.add_note(why)
            raise
        if self._slots:  # a cancelled `ainvoke` reports no end, but its managers, which have its id, are collected
            leases.end_with(run_id)
        self._open.put(run_id.int, leases)

    def _keep(self, run_id: UUID) -> None:
        if leases := self._open.get(run_id.int):
            leases.keep()

    def _end(self, run_id: UUID, response: Any, error: BaseException | None) -> None:
        if (leases := self._open.pop(run_id.int)) is None or (lease := leases.last) is None:
            return
        if response is not None and (usage := _usage_of(response)):
            settle_sync(lease, self._tokens, usage)
        leases.end(error)


def _refuse_slots(lease: Lease | SyncLease) -> None:
    """Raise ``ValidationError`` if the lease holds slots: its end would free them before the request begins."""
    for status in lease.statuses:
        if status.limit.has_slots and status.requested:
            problem = "has slots, and this limiter is not told when a request ends: name it in TokenLimits(slots=…)"
            raise ValidationError("consume", status.limit_name, problem)


def _usage_of(response: Any) -> TokenUsage | None:
    """Return the most that an answer of the call says; each of several has the usage of all."""
    reader = UsageReader()
    for generations in response.generations:
        for generation in generations:
            reader.add({"usage": getattr(getattr(generation, "message", None), "usage_metadata", None)})
    return reader.usage
