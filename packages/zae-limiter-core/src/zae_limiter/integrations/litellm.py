"""A callback of LiteLLM's proxy: it takes tokens before a call, and settles what was used. Needs the extra ``litellm``.

Make an instance in a module beside the configuration of the proxy, and name it under ``litellm_settings.callbacks``. No
subclass: LiteLLM calls only hooks that the class of an instance defines itself.
"""

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, Unpack, cast
from uuid import uuid4

try:
    import litellm
    from fastapi import HTTPException
    from litellm.integrations.custom_logger import CustomLogger
    from litellm.proxy._types import ProxyException
    from litellm.types.utils import ModelResponseStream
except ImportError as error:
    problem = 'zae_limiter.integrations.litellm needs LiteLLM\'s proxy: pip install "zae-limiter-core[litellm]"'
    raise ImportError(problem) from error

from ..aio.limiter import RateLimiter
from ..exceptions import InvalidIdentifierError, RateLimitExceeded, ZAELimiterError
from ..http import STATUS
from ..settings import AcquireOptions
from .answers import ANSWERED, Answers
from .estimates import assumed_answer
from .leases import Leases, OpenCalls
from .tokens import Usage, estimate

CLIENT_LEFT: Final = 499
_NOTE: Final = "zae_limiter"  # in the call's metadata, which every hook gets
_BUCKETS: Final = ("litellm_metadata", "metadata")
_FALLBACKS: Final = ("fallbacks", "context_window_fallbacks", "content_policy_fallbacks")
log = logging.getLogger(__name__)


def key_of(user: Any) -> str:
    """The hash of the key that the proxy has checked. Raises ``LookupError`` if it checks none."""
    from litellm.proxy import proxy_server

    if not user.api_key or not (proxy_server.master_key or proxy_server.user_custom_auth):
        raise LookupError("the proxy checks no key: set general_settings.master_key, or give RateLimits an identity")
    return f"key-{hashlib.sha256(str(user.api_key).encode()).hexdigest()}"


def model_of(data: Mapping[str, Any]) -> str:
    """The name of the model as the client gives it."""
    return str(data["model"])


class RateLimits(CustomLogger):
    """Limits the calls of a proxy that name a model.

    ``limiter`` is one, or an ``async`` function that opens it, called once. ``identity`` gets the proxy's
    ``UserAPIKeyAuth``, ``resource`` and ``estimate`` get the body of the request. ``requests`` and ``tokens`` name
    limits; ``None`` leaves one out. ``units`` and ``legacy`` are options of ``zae_limiter.http.headers``, ``options``
    those of ``acquire``.
    """

    def __init__(
        self,
        limiter: RateLimiter | Callable[[], Awaitable[RateLimiter]],
        *,
        identity: Callable[[Any], str] = key_of,
        resource: Callable[[Mapping[str, Any]], str] = model_of,
        estimate: Callable[[Mapping[str, Any]], int] = estimate,
        requests: str | None = "rpm",
        tokens: str | None = "tpm",
        units: Mapping[str, str] | None = None,
        legacy: bool = False,
        **options: Unpack[AcquireOptions],
    ) -> None:
        super().__init__()
        self._given, self._opening = limiter, asyncio.Lock()
        self._opened: RateLimiter | None = None
        self._identity, self._resource, self._estimate = identity, resource, estimate
        self._requests, self._tokens = requests, tokens
        self._answers, self._options = Answers(units or {}, legacy), options
        self._open: OpenCalls[str, Leases] = OpenCalls()
        self._ending: set[asyncio.Task[None]] = set()

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> None:
        """Take the tokens of a call, or refuse it with an ``HTTPException``."""
        for name in _BUCKETS:
            if isinstance(data.get(name), dict):
                data[name].pop(_NOTE, None)  # what a client has put there
        if data.get("model") and "mcp" not in call_type:
            self._check_models(data, call_type)
            await self._take(user_api_key_dict, data, call_type)

    async def async_post_call_success_hook(self, data: dict[str, Any], user_api_key_dict: Any, response: Any) -> None:
        """Settle the call whose answer is there."""
        if leases := self._leases_of(data):
            leases.keep()
            usage = Usage()
            usage.add(response)
            await self._end(data, leases, usage.tokens)

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """Pass a stream on, and settle the call when it ends, however it ends."""
        leases = self._leases_of(request_data)
        if leases is None:
            async for chunk in response:
                yield chunk
            return
        stream = _Stream(request_data)
        failed: BaseException | None = None
        try:
            async for chunk in response:
                leases.keep()
                stream.add(chunk)
                yield chunk
            stream.whole = True
        except Exception as error:
            failed = error
            raise
        finally:
            if failed is None:
                leases.keep()  # a client that leaves early has used what the provider was asked for
            # a task of its own: the server goes on cancelling the one that serves a client who has left
            ending = asyncio.create_task(self._end(request_data, leases, stream.tokens(), failed))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            await asyncio.shield(ending)

    async def async_post_call_failure_hook(
        self,
        request_data: dict[str, Any],
        original_exception: Exception,
        user_api_key_dict: Any,
        traceback_str: str | None = None,
    ) -> None:
        """Give back what a failed call took. A client that leaves has used its estimate."""
        if leases := self._leases_of(request_data):
            if getattr(original_exception, "status_code", None) == CLIENT_LEFT:
                leases.keep()
            await self._end(request_data, leases, None, original_exception)

    async def async_post_call_response_headers_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any, *args: Any, **kwargs: Any
    ) -> dict[str, str] | None:
        """The header fields of an answer. Older releases of LiteLLM do not ask for them."""
        return _note(data).get("fields")

    def _check_models(self, data: Mapping[str, Any], call_type: str) -> None:
        """Refuse a call that would reach other models than those of its resource: their limits would not see it."""
        if "completion" in call_type and "," in str(data["model"]):
            raise HTTPException(400, "model: name one model; the limits count one call of one model")
        for field in _FALLBACKS:
            for model in _models(data.get(field)):
                if self._resource({**data, "model": model}) != self._resource(data):
                    problem = "has limits of its own; ask for it, or let the configuration of the proxy name fallbacks"
                    raise HTTPException(400, f"{field}: {model} {problem}")

    async def _take(self, user: Any, data: dict[str, Any], call_type: str) -> None:
        cost = {self._requests: 1} if self._requests else {}
        if self._tokens:
            cost[self._tokens] = self._estimate(_estimated(data, call_type))
        leases = Leases()
        try:
            limiter = await self._limiter()
            lease = limiter.acquire(self._identity(user), self._resource(data), cost, **self._options)
            fields = self._answers.fields(await leases.enter(lease))
        except ANSWERED as error:
            document, fields = self._answers.document(error)
            detail = document["detail"]
            if self._tokens and isinstance(error, RateLimitExceeded):
                why = assumed_answer(error, self._tokens, _estimated(data, call_type), self._estimate)
                detail = f"{detail}; {why}" if why else detail
            raise _refusal(document["status"], detail, fields, call_type) from error
        except InvalidIdentifierError as error:
            raise HTTPException(400, str(error)) from error
        except ZAELimiterError as error:
            log.exception("the rate limiter could not be asked")
            raise HTTPException(500, "The rate limiter does not work; the log of the proxy says why.") from error
        call = uuid4().hex
        name = next((name for name in _BUCKETS if isinstance(data.get(name), dict)), _BUCKETS[-1])
        data[name] = {**(data.get(name) or {}), _NOTE: {"id": call, "fields": fields}}
        self._open.put(call, leases)

    async def _limiter(self) -> RateLimiter:
        if isinstance(self._given, RateLimiter):
            return self._given
        async with self._opening:
            if self._opened is None:
                self._opened = await self._given()
        return self._opened

    def _leases_of(self, data: Mapping[str, Any]) -> Leases | None:
        return self._open.get(_note(data).get("id", ""))

    async def _end(
        self, data: Mapping[str, Any], leases: Leases, used: int | None, error: BaseException | None = None
    ) -> None:
        self._open.discard(_note(data).get("id", ""))
        if self._tokens and used is not None and (lease := leases.last):
            await lease.settle(**{self._tokens: used})
        await leases.end(error)


class _Stream:
    """What a stream has said of its usage, and its parts, which LiteLLM counts if it has said nothing."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._request = request
        self._usage = Usage()
        self._parts: list[Any] = []
        self.whole = False

    def add(self, part: Any) -> None:
        self._usage.add(part)
        if isinstance(part, ModelResponseStream):
            self._parts.append(part)
            self.whole = self.whole or any(choice.finish_reason for choice in part.choices)
        else:
            self.whole = self._usage.whole  # a client may leave after the last event, before the stream ends

    def tokens(self) -> int | None:
        """All tokens of the call; ``None`` if nobody can tell, as of half a stream that begins with a usage."""
        if not self.whole and self._usage.tokens is not None:
            return None
        if self._usage.tokens is None and self._parts:
            try:
                self._usage.add(litellm.stream_chunk_builder(self._parts, messages=self._request.get("messages")))
            except litellm.exceptions.APIError:
                log.warning("the tokens of a stream could not be counted; the estimate stays", exc_info=True)
        return self._usage.tokens


def _estimated(data: Mapping[str, Any], call_type: str) -> Mapping[str, Any]:
    """The request to estimate: that of embeddings has no answer."""
    return {**data, "max_tokens": 0} if "embedding" in call_type else data


def _models(fallbacks: object, depth: int = 5) -> Iterator[str]:
    """The models that a client names as fallbacks: names, requests with a model, or either by the model that fails."""
    if isinstance(fallbacks, str):
        yield fallbacks
    elif isinstance(fallbacks, Mapping | list) and depth:
        parts = fallbacks.values() if isinstance(fallbacks, Mapping) else fallbacks
        for part in [fallbacks["model"]] if isinstance(fallbacks, Mapping) and "model" in fallbacks else parts:
            yield from _models(part, depth - 1)


def _refusal(status: int, detail: str, fields: dict[str, str], call_type: str) -> Exception:
    """The exception whose header fields the endpoint of the call passes on."""
    if not call_type.endswith(("text_completion", "anthropic_messages")):
        return HTTPException(status, detail, fields)
    kind = "rate_limit_error" if status == STATUS else "api_error"
    refusal: Any = ProxyException(message=detail, type=kind, param=None, code=status, headers=fields)
    refusal.status_code = status  # older releases answer with it
    return cast("Exception", refusal)


def _note(data: Mapping[str, Any]) -> dict[str, Any]:
    for name in _BUCKETS:
        bucket = data.get(name)
        if isinstance(bucket, Mapping) and isinstance(found := bucket.get(_NOTE), dict):
            return found
    return {}
