"""A callback of LiteLLM's proxy: it takes tokens before a call, and settles what was used. Needs the extra ``litellm``.

A call takes the tokens of the model that it asks for before LiteLLM chooses anything, so that a refusal is an answer of
its own. LiteLLM then tells which deployment it has chosen, at each attempt: one of another model (a fallback of the
configuration) takes that model's tokens, too, or is not asked. ``litellm_routing`` says what a client may send.

Make an instance in a module beside the configuration of the proxy, and name it under ``litellm_settings.callbacks``. No
subclass: LiteLLM calls only hooks that the class of an instance defines itself.
"""

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Final, Unpack, cast
from uuid import uuid4

try:
    import litellm
    from fastapi import HTTPException
    from litellm.integrations.custom_logger import CustomLogger
    from litellm.proxy._types import ProxyException
    from litellm.types.utils import StandardCallbackDynamicParams
except ImportError as error:
    from ..runtime.extras import install_command

    raise ImportError(f"{__name__} needs LiteLLM's proxy: {install_command('litellm')}") from error

from ..aio.limiter import RateLimiter
from ..exceptions import ValidationError, ZAELimiterError
from ..flows.acquire.lease import check_most
from ..flows.acquire.requests import NO_DRAWS
from ..http import PAYMENT_REQUIRED, STATUS
from ..streams.aio.pieces import Pieces
from ..values.draws import Draw
from ..values.estimates import Estimate
from ..values.limits import MAX_TOKENS
from ..values.naming import check_resource
from ..values.refusal import RateLimitExceeded
from ..wiring import with_key
from .answers import ANSWERED, INVALID, OTHER_REQUEST, Options, split
from .arguments import calls_cost, check_opened, check_options, check_refund, ids_of_client
from .cut import CutStream
from .leases import Leases, OpenCalls, Refund, with_end
from .litellm_routing import (
    ConfigurationError,
    Models,
    RoutingError,
    check_call,
    check_fields,
    hides_models,
    is_managing,
    models_of,
    request_of,
)
from .litellm_stream import GONE, Stream, goes_on, id_of, is_later, later_id
from .retries import FIELD, key_of_call, key_of_request
from .settlement import assumed_answer, settle, settle_at_least
from .tokens import estimate, estimate_prompt
from .usage import TokenUsage, read_usage

CLIENT_LEFT: Final = 499
_NOTE: Final = "zae_limiter"  # in the call's metadata, which every hook gets
_BUCKETS: Final = ("litellm_metadata", "metadata")
_OF_CALLBACKS: Final = frozenset(StandardCallbackDynamicParams.__annotations__) - {"litellm_disabled_callbacks"}
log = logging.getLogger(__name__)


def key_of(user: Any) -> str:
    """Return the hash of the key that the proxy has checked. Raises ``LookupError`` if it checks none."""
    from litellm.proxy import proxy_server

    if not user.api_key or not (proxy_server.master_key or proxy_server.user_custom_auth):
        raise LookupError("the proxy checks no key: set general_settings.master_key, or give RateLimits an identity")
    return f"key-{hashlib.sha256(str(user.api_key).encode()).hexdigest()}"


def model_of(data: Mapping[str, Any]) -> str:
    """Return the first group of the configuration that has the model, whatever name the client has used for it."""
    return _models().resource_of_name(str(data["model"]))


def retry_key(user: Any, data: Mapping[str, Any]) -> str | None:
    """Return the key by which a retried call counts once: an ``idempotency_key``, made of the ``Idempotency-Key`` of
    its header, of the key that the proxy has checked, of the path, and of the body but for its metadata.
    """
    request = data.get("proxy_server_request") or {}
    header, body = request.get("headers") or {}, request.get("body") or {}
    fields = [text for name, text in header.items() if name.lower() == FIELD.lower()]
    sent = {name: value for name, value in body.items() if name not in _BUCKETS}  # where the proxy has its notes
    target = f"{user.api_key} {request.get('url')}"
    return key_of_request(str(request.get("method")), target, fields, [key_of_call(sent)]) if fields else None


class _Call(Leases):
    """A call under way: its entity, its cost, and the resources whose tokens it has taken.

    ``hidden``: it may reach any model, at the cost of the one resource that the owner has named for that.
    ``begun``: LiteLLM looks for a deployment, or passes the call on by a way that does not tell.
    """

    def __init__(
        self, user: Any, identity: str, request: Mapping[str, Any], cost: Mapping[str, int | Estimate], *, hidden: bool
    ) -> None:
        super().__init__()
        self.user, self.identity, self.request, self.cost, self.hidden = user, identity, request, cost, hidden
        self.resources: set[str] = set()
        self.begun = hidden
        self.key: Mapping[str, Any] = {}  # options of its acquires


class RateLimits(CustomLogger):
    """Limits the calls of a proxy.

    ``limiter`` is one, or an ``async`` function that opens it, called once. ``identity`` gets the proxy's
    ``UserAPIKeyAuth``, ``resource`` and ``estimate`` get the body of the request, ``draws`` (further buckets, or a
    function) both; for a fallback ``resource`` and ``draws`` get it again, with the ``model`` that LiteLLM has chosen.
    ``unnamed`` is the resource of calls whose models LiteLLM does not name (routes that pass on, batches); without it
    they are refused. ``fields`` names more fields that clients may send, and what a request may only name:
    ``background``, ``previous_response_id``, ``conversation``, ``prompt``, ``file_id``. ``requests``, ``tokens`` and
    ``slots`` name limits; ``None`` leaves one out. A call holds one of the ``slots`` until it ends, with its stream; of
    those that pass on, start a batch or go on in the background, LiteLLM reports no end, so they hold none. ``refund``:
    a call that fails keeps its estimate (``"never"``), or gives it back (``"before_answer"``) unless its answer had
    begun. ``piece``: the tokens that a stream takes at once, beside its prompt, in place of its estimate; it is cut
    where they are refused, as ``zae_limiter.integrations.cut`` says. ``most_settled`` bounds what a provider may claim
    that one call used, by default as ``lease.settle`` does. ``idempotency_key`` is ``retry_key``, or a function of the
    ``UserAPIKeyAuth`` and the body. ``options`` are those of ``acquire``, and those of
    ``zae_limiter.integrations.answers.Answers``.
    """

    def __init__(
        self,
        limiter: RateLimiter | Callable[[], Awaitable[RateLimiter]],
        *,
        identity: Callable[[Any], str] = key_of,
        resource: Callable[[Mapping[str, Any]], str] = model_of,
        unnamed: str | None = None,
        estimate: Callable[[Mapping[str, Any]], int | Estimate] = estimate,
        requests: str | None = "rpm",
        tokens: str | None = "tpm",
        slots: str | None = None,
        refund: Refund = "never",
        piece: int | None = None,
        most_settled: int | None = None,
        draws: Sequence[Draw] | Callable[[Any, Mapping[str, Any]], Sequence[Draw]] = NO_DRAWS,
        fields: Collection[str] = (),
        idempotency_key: Callable[[Any, Mapping[str, Any]], str | None] | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__()
        check_refund(refund)
        check_most("most_settled", most_settled)
        self._given, self._opening = limiter, asyncio.Lock()
        self._opened: RateLimiter | None = None
        self._identity, self._estimate = identity, estimate
        self._resource, self._unnamed = resource, unnamed
        self._calls, self._tokens, self._fields = calls_cost(requests, tokens, slots), tokens, fields
        self._draws = draws
        if piece is not None and (type(piece) is not int or not 1 <= piece <= MAX_TOKENS):
            raise ValidationError("piece", piece, "must be the tokens that a stream takes at once, such as 200")
        self._piece = piece
        check_opened(RateLimiter, limiter)
        if unnamed is not None:
            check_resource("unnamed", unnamed)
        self._answers, own = split(options)
        check_options(own, identity, resource, draws, idempotency_key)
        self._key, self._life = idempotency_key, own.pop("key_life", None)
        self._options = with_end(own)
        self._refund, self._most = refund, most_settled
        self._open: OpenCalls[str, _Call] = OpenCalls()
        self._later: OpenCalls[str, _Call] = OpenCalls()  # by the ids of their answers; those that were fetched, too
        self._ending: set[asyncio.Task[None]] = set()

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> None:
        """Take the tokens of a call, or refuse it with an ``HTTPException``."""
        for name in _BUCKETS:
            if isinstance(data.get(name), dict):
                data[name].pop(_NOTE, None)  # what a client has put there
        if "mcp" not in call_type and (data.get("model") or not is_managing(call_type)):
            await self._begin(user_api_key_dict, data, call_type)

    async def async_filter_deployments(
        self,
        model: str,
        healthy_deployments: list[dict[str, Any]],
        messages: Any,
        request_kwargs: dict[str, Any] | None = None,
        parent_otel_span: Any = None,
    ) -> list[dict[str, Any]]:
        """Take the tokens of a fallback before LiteLLM chooses a deployment, so that a refusal puts no deployment on
        pause.
        """
        call = self._call_of(request_kwargs or {})
        if call is not None and isinstance(healthy_deployments, list) and healthy_deployments:
            await self._reach(call, model, healthy_deployments[0])
        return healthy_deployments

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: Any) -> None:
        """Take the tokens of the deployment that LiteLLM has chosen, if they are not taken yet.

        Some paths of LiteLLM choose one and have never asked whether the client may call: refuse what comes from there.
        """
        if (call := self._call_of(kwargs)) is not None:
            await self._reach(call, str(kwargs.get("model")), kwargs)
        elif (kwargs.get("model_info") or {}).get("id") and not is_managing(getattr(call_type, "value", "")):
            raise HTTPException(400, "LiteLLM asks no rate limiter on this path; ask for the model on another one")

    async def async_post_call_success_hook(self, data: dict[str, Any], user_api_key_dict: Any, response: Any) -> None:
        """Settle the call whose answer is there, or that of an earlier call which this one fetches."""
        if leases := self._call_of(data):
            leases.keep()
            usage, later = read_usage(response), later_id(data, response)
            await self._end(data, leases, usage, later=later, goes_on=goes_on(response))
        else:
            await self._fetched(response)

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """Pass a stream on, and settle the call when it ends, however it ends."""
        leases = self._call_of(request_data)
        if leases is None:
            async for chunk in response:
                await self._fetched(getattr(chunk, "response", None))
                yield chunk
            return
        stream = self._stream_of(leases)
        cut = self._cut_of(leases, response)
        failed: BaseException | None = None
        try:
            async for chunk in cut or response:
                leases.keep()
                stream.add(chunk)
                leases.stall()
                yield chunk
                leases.go_on()
            stream.end()
        except Exception as error:
            failed = error
            raise
        finally:
            if failed is None:
                leases.keep()  # a client that leaves early has used what the provider was asked for
            # a task of its own: the server goes on cancelling the one that serves a client who has left
            usage = stream.usage if stream.begun or failed is None else None
            whole, later = stream.whole, stream.later_id
            ending = self._end(request_data, leases, usage, failed, later=later, goes_on=not whole)
            await asyncio.shield(self._in_background(_after(cut, ending)))

    async def async_post_call_failure_hook(
        self,
        request_data: dict[str, Any],
        original_exception: Exception,
        user_api_key_dict: Any,
        traceback_str: str | None = None,
    ) -> None:
        """Give back what ``refund`` allows, and all of a call that LiteLLM's limits refused. Who left pays."""
        if call := self._call_of(request_data):
            usage = None
            if getattr(original_exception, "status_code", None) == CLIENT_LEFT:
                call.keep()
                usage = self._stream_of(call).usage
            elif not call.begun and _is_refusal(original_exception):
                call.turned_away = True
            await self._end(request_data, call, usage, original_exception, goes_on=True)

    async def async_post_call_response_headers_hook(
        self, data: dict[str, Any], user_api_key_dict: Any, response: Any, *args: Any, **kwargs: Any
    ) -> dict[str, str] | None:
        """Return the header fields of an answer. Older releases of LiteLLM do not ask for them."""
        return _note(data).get("fields")

    async def _begin(self, user: Any, data: dict[str, Any], call_type: str) -> None:
        try:
            resource = self._resource_of(data, call_type)
            hidden = hides_models(data, call_type)
            call = _Call(user, self._identity(user), data, self._cost_of(data, call_type), hidden=hidden)
            if self._key is not None:
                call.key = with_key(self._key(user, data), self._life)
            fields = await self._take(call, resource, data)
        except Exception as error:
            raise self._answer_to(error, data, call_type) from error
        if hidden and "proxy_server_request" not in data:  # the provider gets it as it is: there is no place for a note
            call.keep()
            await call.end()
            return
        key = uuid4().hex
        name = next((name for name in _BUCKETS if isinstance(data.get(name), dict)), _BUCKETS[-1])
        data[name] = {**(data.get(name) or {}), _NOTE: {"id": key, "fields": fields}}
        self._open.put(key, call)

    def _resource_of(self, data: Mapping[str, Any], call_type: str) -> str:
        """Return the resource of a call that begins. Raises ``RoutingError`` for one that could reach others, too."""
        check_call(call_type)
        if hides_models(data, call_type):
            if self._unnamed is None:
                raise RoutingError(f"{call_type}: LiteLLM does not say which models it reaches; this proxy admits none")
            return self._unnamed
        if "completion" in call_type and "," in str(data["model"]):
            raise RoutingError("model: name one model; the limits count one call of one model")
        check_fields(data, self._fields, _OF_CALLBACKS)
        return self._resource(data)

    async def _reach(self, call: _Call, model: str, deployment: Mapping[str, Any]) -> None:
        """Apply to a call the limits of the model that LiteLLM has chosen for it."""
        call.begun = True
        if call.hidden:
            return
        try:
            if self._resource is model_of:
                resource = chosen = _models().resource_of_deployment(deployment)
            elif (group := _group_of(deployment)) is not None and group != call.request["model"]:
                chosen = model if "*" in group else group
                resource = self._resource({**call.request, "model": chosen})
            else:
                return
            if resource not in call.resources:
                await call.free_slots()  # the attempt before has failed
                await self._take(call, resource, {**call.request, "model": chosen})
        except Exception as error:
            call.turned_away = False  # the call had begun: what its other models took stays taken
            raise self._answer_to(error, call.request, "acompletion") from error

    async def _take(self, call: _Call, resource: str, request: Mapping[str, Any]) -> dict[str, str]:
        limiter = await self._limiter()
        draws = self._draws(call.user, request) if callable(self._draws) else self._draws
        with ids_of_client():
            lease = limiter.acquire(call.identity, resource, call.cost, draws=draws, **call.key, **self._options)
        fields = self._answers.fields(await call.enter(lease, self._refund))
        call.resources.add(resource)
        return fields

    def _cost_of(self, data: Mapping[str, Any], call_type: str) -> dict[str, int | Estimate]:
        cost: dict[str, int | Estimate] = {**self._calls}
        if self._tokens and self._takes_pieces(data):
            cost[self._tokens] = estimate_prompt(self._estimated(data, call_type)) + (self._piece or 0)
        elif self._tokens:
            cost[self._tokens] = self._estimate(self._estimated(data, call_type))
        return cost

    def _takes_pieces(self, data: Mapping[str, Any]) -> bool:
        return self._piece is not None and bool(data.get("stream")) and not data.get("background")

    def _cut_of(self, call: _Call, response: Any) -> CutStream[Any] | None:
        """Return the stream of a call as far as its tokens go; ``None`` for one that is not to be cut."""
        lease = call.last
        if not self._takes_pieces(call.request) or call.hidden or lease is None or self._tokens not in lease.consumed:
            return None
        pieces = Pieces(lease, dict.fromkeys({self._tokens, *lease.weights}, self._piece or 0))
        request = request_of(call.request, self._fields, hidden=call.hidden)
        return CutStream(response, pieces, request=request, most=self._most, show=self._answers.show)

    def _estimated(self, data: Mapping[str, Any], call_type: str) -> Mapping[str, Any]:
        """Return the request to estimate. A request for embeddings has no answer."""
        request = request_of(data, self._fields, hidden=hides_models(data, call_type))
        return {**request, "max_tokens": 0} if "embedding" in call_type else request

    def _stream_of(self, call: _Call) -> Stream:
        return Stream(request_of(call.request, self._fields, hidden=call.hidden))

    def _answer_to(self, error: Exception, data: Mapping[str, Any], call_type: str) -> Exception:
        """Return the exception whose answer the client gets."""
        if isinstance(error, ANSWERED):
            document, fields = self._answers.document(error)
            detail = document["detail"]
            if self._tokens and isinstance(error, RateLimitExceeded) and "violated-policies" in document:
                why = assumed_answer(error, self._tokens, self._estimated(data, call_type), self._estimate)
                detail = f"{detail}; {why}" if why else detail
            return _refusal(document["status"], detail, fields, call_type)
        if isinstance(error, RoutingError):
            return HTTPException(400, str(error))
        if isinstance(error, ZAELimiterError | ConfigurationError):
            log.error("the rate limiter could not be asked", exc_info=error)
            return HTTPException(500, "The rate limiter does not work; the log of the proxy says why.")
        return error

    async def _limiter(self) -> RateLimiter:
        if isinstance(self._given, RateLimiter):
            return self._given
        async with self._opening:
            if self._opened is None:
                self._opened = await self._given()
        return self._opened

    def _call_of(self, data: Mapping[str, Any]) -> _Call | None:
        return self._open.get(_note(data).get("id", ""))

    async def _end(
        self,
        data: Mapping[str, Any],
        leases: _Call,
        usage: TokenUsage | None,
        error: BaseException | None = None,
        *,
        later: str = "",
        goes_on: bool = False,
    ) -> None:
        """End a call; one whose answer may be fetched ``later`` stays open while it ``goes_on``, without slots: it
        may never be fetched.
        """
        self._open.discard(_note(data).get("id", ""))
        if usage is not None and (lease := leases.last):
            await (settle_at_least if goes_on else settle)(lease, self._tokens, usage, self._most)
        if later and goes_on:
            await leases.free_slots()
        else:
            await leases.end(error)
        if later:
            for expired in self._later.pop_old(leases.since):
                self._in_background(expired.end())
            self._later.put(later, leases)

    def _in_background(self, ending: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(ending)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def _fetched(self, answer: object) -> None:
        """Settle the call in the background whose answer is there, once. Hand out no answer of a call that is gone: a
        client could wait for that.
        """
        call = self._later.get(id_of(answer))
        if goes_on(answer) or (call is None and not is_later(answer)):
            return
        usage = read_usage(answer)
        if call is None and usage is not None:
            raise HTTPException(410, GONE)
        if call is not None:
            if usage is not None and (lease := call.last):
                await settle(lease, self._tokens, usage, self._most)
            await call.end()


async def _after(cut: CutStream[Any] | None, ending: Awaitable[None]) -> None:
    """End a call whose stream is closed."""
    if cut is not None:
        await cut.aclose()
    await ending


def _models() -> Models:
    from litellm.proxy import proxy_server

    if proxy_server.llm_router is None:
        raise ConfigurationError(
            "the proxy has no model_list: name its models in config.yaml, or give a resource function"
        )
    return models_of(proxy_server.llm_router)


def _group_of(deployment: Mapping[str, Any]) -> str | None:
    """Return the group of the deployment, as the router names it beside the call, or as its list has it."""
    buckets = (deployment.get(name) for name in _BUCKETS)
    noted: Mapping[str, Any] = next((bucket for bucket in buckets if isinstance(bucket, Mapping)), {})
    group = deployment.get("model_name") or noted.get("model_group")
    return None if group is None else str(group)


def _is_refusal(error: Exception) -> bool:
    """Tell whether a limit or a budget of the proxy was spent; a provider's own 429 is another error."""
    spent = isinstance(error, HTTPException) and error.status_code in (STATUS, PAYMENT_REQUIRED)
    return spent or isinstance(error, litellm.exceptions.BudgetExceededError)


def _refusal(status: int, detail: str, fields: dict[str, str], call_type: str) -> Exception:
    """Return the exception whose header fields the endpoint of the call passes on."""
    if not call_type.endswith(("text_completion", "anthropic_messages")):
        return HTTPException(status, detail, fields)
    invalid = dict.fromkeys((INVALID, OTHER_REQUEST), "invalid_request_error")
    kinds = {STATUS: "rate_limit_error", PAYMENT_REQUIRED: "insufficient_quota", **invalid}
    kind = kinds.get(status, "api_error")
    refusal: Any = ProxyException(message=detail, type=kind, param=None, code=status, headers=fields)
    refusal.status_code = status  # older releases answer with it
    return cast("Exception", refusal)


def _note(data: Mapping[str, Any]) -> dict[str, Any]:
    for name in _BUCKETS:
        bucket = data.get(name)
        if isinstance(bucket, Mapping) and isinstance(found := bucket.get(_NOTE), dict):
            return found
    return {}
