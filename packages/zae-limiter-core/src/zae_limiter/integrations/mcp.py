"""Limit the tools of servers of the official SDK for MCP, and what a program calls on such servers. Needs the extra
``mcp``.

``ToolLimits`` is a middleware of a server: ``MCPServer(middleware=[ToolLimits(...)])``. A refused call is a result of
the tool with ``isError``, which a model can read and obey; calls that list tools, resources or prompts are free.
``ToolGuard`` limits the calls of a client before they go out.

A call keeps what it took when it fails or is cancelled (``refund="never"``), less what ``settle`` says was not used,
because a tool may have done its work by then; ``"before_answer"`` gives everything back unless the tool has settled.
Slots are renewed while the tool runs, and freed at its end in every case.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

try:
    import anyio
    from mcp.server.auth.middleware.auth_context import get_access_token
    from mcp_types import CallToolResult, TextContent
except ImportError as error:
    from ..runtime.extras import install_command

    problem = f"zae_limiter.integrations.mcp needs mcp 2: {install_command('mcp')}"
    raise ImportError(problem) from error

from ..aio.budgets import RunBudget
from ..aio.limiter import RateLimiter
from ..exceptions import ValidationError
from ..flows.acquire.requests import NO_DRAWS, EachCallOptions
from ..values.draws import Draw
from ..values.naming import check_resource
from ..values.refusal import RateLimitExceeded
from .answers import NotServed
from .leases import Leases, Refund
from .tool_calls import (
    ONE_CALL,
    PARTS,
    Cost,
    Part,
    Running,
    ToolCall,
    ToolRefused,
    ToolRule,
    consume,
    current,
    explain,
    lease_of,
    principal,
    settle,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

__all__ = ["ToolCall", "ToolGuard", "ToolLimits", "consume", "lease_of", "principal", "refused", "settle"]

C = TypeVar("C")


class ToolLimits:
    """A middleware that limits the calls of tools. It limits nothing else.

    ``costs``: what a call of a tool takes, by its name: amounts (``{"calls": 1, "usd": "$0.01"}``), or a function of
    the ``ToolCall``; ``other``: of any other tool. ``{}`` is free. The amounts are of the bucket of the ``user`` on
    ``resource``: by default that of the verified token, ``user-SUBJECT`` or ``client-ID``; all others share
    ``anonymous``. ``per`` adds buckets: ``tool`` (``mcp/search``, for the tools in ``costs``), ``agent`` (the token's
    client, on ``mcp:agent``), ``session`` (the id that the server issued, on ``mcp:session``). These three and
    ``draws`` may be functions of the call; what a client chooses bounds nothing, so the user's bucket is always drawn
    on. ``suggest``: whether a refusal names other tools that fit. ``idempotency_key`` is a function of the call; a
    call with the key of one before counts once. ``limiter`` may be a function of the call; ``options`` are those of
    ``acquire``.
    """

    def __init__(
        self,
        limiter: RateLimiter | Callable[[ToolCall], RateLimiter | Awaitable[RateLimiter]],
        *,
        costs: Mapping[str, Cost | Callable[[ToolCall], Cost | Awaitable[Cost]]] | None = None,
        other: Cost | Callable[[ToolCall], Cost | Awaitable[Cost]] = ONE_CALL,
        resource: str = "mcp",
        user: str | Callable[[ToolCall], str | Awaitable[str]] = principal,
        per: Collection[Part] = (),
        agent: Callable[[ToolCall], str | Awaitable[str | None] | None] = lambda call: call.client,
        session: Callable[[ToolCall], str | Awaitable[str | None] | None] = lambda call: call.session,
        draws: Sequence[Draw] | Callable[[ToolCall], Sequence[Draw] | Awaitable[Sequence[Draw]]] = NO_DRAWS,
        refund: Refund = "never",
        suggest: bool = True,
        idempotency_key: Callable[[ToolCall], str | Awaitable[str | None] | None] | None = None,
        **options: Unpack[EachCallOptions],
    ) -> None:
        self._rule = ToolRule(
            limiter,
            costs={} if costs is None else costs,
            other=other,
            resource=resource,
            user=user,
            per=per,
            agent=agent,
            session=session,
            draws=draws,
            refund=refund,
            suggest=suggest,
            idempotency_key=idempotency_key,
            options=options,
        )

    async def __call__(self, ctx: "ServerRequestContext[Any, Any]", call_next: "CallNext") -> "HandlerResult":
        """Handle a message of a client."""
        call = _call_of(ctx)
        if call is None:
            return await call_next(ctx)
        try:
            leases = await self._rule.begin(call)
        except ToolRefused as refusal:
            return refused(refusal)
        async with serving(leases) as (running, ended):
            result = await call_next(ctx)
            failed = result.get("isError") if isinstance(result, Mapping) else getattr(result, "is_error", False)
            ended(failed is True)
            return refused(running.refusal) if failed is True and running.refusal is not None else result


class ToolGuard:
    """Limit what a program calls on many servers: ``guard.client(session, "github")`` has the calls of the session.

    ``entity_id`` is who pays; an open budget of a run, in place of the ``limiter``, says it itself. A call takes its
    cost from the bucket of the entity on ``resource``; ``per`` adds those of the ``server`` (``mcp/github``) and of the
    ``tool`` (``mcp/github/search``), the latter for the tools in ``costs``: ``{"github/search": {"calls": 1}}``, as in
    ``ToolLimits``. A refusal raises ``RateLimitExceeded`` before anything goes out; with ``results=True`` it is a
    result with ``isError`` for the model. ``idempotency_key`` is a function of the call, ``options`` are those of
    ``acquire``.
    """

    def __init__(
        self,
        limiter: RateLimiter | RunBudget,
        *,
        entity_id: str | None = None,
        costs: Mapping[str, Cost | Callable[[ToolCall], Cost | Awaitable[Cost]]] | None = None,
        other: Cost | Callable[[ToolCall], Cost | Awaitable[Cost]] = ONE_CALL,
        resource: str = "mcp",
        per: Collection[str] = (),
        draws: Sequence[Draw] = NO_DRAWS,
        refund: Refund = "never",
        results: bool = False,
        idempotency_key: Callable[[ToolCall], str | Awaitable[str | None] | None] | None = None,
        **options: Unpack[EachCallOptions],
    ) -> None:
        if isinstance(per, str) or not {*per} <= {"server", "tool"}:
            raise ValidationError("per", per, "must be a list of server, tool")
        payer = limiter.within if isinstance(limiter, RunBudget) else entity_id
        if payer is None or (entity_id or payer) != payer:
            raise ValidationError("entity_id", entity_id, "must name who pays; a run is within an entity already")
        self._resource, self._of_server, self._further = resource, "server" in per, draws
        self.results = results
        self._rule = ToolRule(
            limiter,
            costs={} if costs is None else costs,
            other=other,
            resource=resource,
            user=payer,
            per=[each for each in PARTS if each in per],
            agent=lambda _: None,
            session=lambda _: None,
            draws=self._draws,
            refund=refund,
            suggest=True,
            idempotency_key=idempotency_key,
            options=options,
        )

    def client(self, session: C, server: str) -> "GuardedClient[C]":
        """Return a client whose calls of tools are limited; all else is that of ``session``: a ``ClientSession`` or
        ``Client``. ``server`` is your name of the server.
        """
        if "/" in check_resource("server", server):
            raise ValidationError("server", server, "has a slash: the tool's name follows one")
        check_resource("server", f"{self._resource}/{server}")
        return GuardedClient(self, session, server)

    def call(self, server: str, tool: str, arguments: Mapping[str, Any] | None) -> "AbstractAsyncContextManager[None]":
        """Return the block of one call: it takes the cost, and raises ``ToolRefused``, caused by the refusal."""
        return self._calling(ToolCall(tool, arguments or {}, context=server), f"{server}/{tool}")

    def answer(self, method: str, refusal: ToolRefused, options: Mapping[str, Any]) -> Any:  # noqa: ARG002 - FastMCP's
        """Return the result of a refused call, whose method and options are these."""
        return refused(refusal)

    @asynccontextmanager
    async def _calling(self, call: ToolCall, name: str) -> "AsyncIterator[None]":
        async with held(await self._rule.begin(call, name)):
            yield

    def _draws(self, call: ToolCall) -> Sequence[Draw]:
        return [*([Draw(resource=f"{self._resource}/{call.context}")] if self._of_server else ()), *self._further]


class GuardedClient(Generic[C]):
    """A client whose calls of tools are limited by a ``ToolGuard``."""

    def __init__(self, guard: ToolGuard, session: C, server: str) -> None:
        self._guard, self._session, self._server = guard, session, server

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, *args: Any, **options: Any) -> Any:
        """Call a tool as the session does. Raises ``RateLimitExceeded``, unless the guard returns results."""
        return await self._limited("call_tool", name, arguments, *args, **options)

    async def call_tool_mcp(
        self, name: str, arguments: dict[str, Any] | None = None, *args: Any, **options: Any
    ) -> Any:
        """Call a tool as FastMCP's client does. Raises ``RateLimitExceeded``, unless the guard returns results."""
        return await self._limited("call_tool_mcp", name, arguments or {}, *args, **options)

    async def _limited(self, method: str, name: str, arguments: Any, *args: Any, **options: Any) -> Any:
        try:
            async with self._guard.call(self._server, name, arguments):
                return await getattr(self._session, method)(name, arguments, *args, **options)
        except ToolRefused as refusal:
            if self._guard.results:
                return self._guard.answer(method, refusal, options)
            raise (refusal.__cause__ or refusal) from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


def refused(refusal: ToolRefused | RateLimitExceeded) -> CallToolResult:
    """Return the result of a refused call, for the model: also of a refusal that a tool has caught."""
    found = explain(refusal, begun=True) if isinstance(refusal, RateLimitExceeded) else refusal
    text = TextContent(type="text", text=found.text)
    return CallToolResult(content=[text], structured_content=found.structured, is_error=True)


@asynccontextmanager
async def held(leases: Leases | None) -> "AsyncIterator[Callable[[bool], None]]":
    """Hold the leases of a call in this block, and end them even where the call is cancelled.

    The block says whether its result is an error, which is a failure for the refund.
    """
    failed: BaseException | None = None

    def ended(is_error: bool) -> None:  # noqa: FBT001 - its one argument
        nonlocal failed
        failed = NotServed() if is_error else None

    try:
        yield ended
    except BaseException as error:
        failed = error
        raise
    finally:
        if leases is not None:
            with anyio.CancelScope(shield=True):  # a cancelled scope would interrupt each request of the end again
                await leases.end(failed)


@asynccontextmanager
async def serving(leases: Leases | None) -> "AsyncIterator[tuple[Running, Callable[[bool], None]]]":
    """Hold the leases of a call in this block, where they are those of ``lease_of``, as ``held`` does."""
    async with held(leases) as ended:
        call = Running(leases)
        token = current.set(call)  # also without leases: a program that serves and calls tools has others around it
        try:
            yield call, ended
        finally:
            current.reset(token)


def _call_of(ctx: "ServerRequestContext[Any, Any]") -> ToolCall | None:
    """Return the call of a tool; ``None`` for another message, and for a malformed one, which the server refuses."""
    if ctx.method != "tools/call" or ctx.request_id is None or not isinstance(ctx.params, Mapping):
        return None
    tool, arguments = ctx.params.get("name"), ctx.params.get("arguments")
    if not isinstance(tool, str) or not (arguments is None or isinstance(arguments, Mapping)):
        return None
    return call_of(tool, arguments or {}, ctx.request, ctx.session, ctx)


def call_of(tool: str, arguments: Mapping[str, Any], request: Any, session: Any, context: Any) -> ToolCall:
    """Return a call with what its server knows of the caller: its token, and the session that the server has issued.

    A header with the id of a session does not count: where the server issues none, a client may send any.
    """
    user = request.scope.get("user") if hasattr(request, "scope") else None
    token = getattr(user, "access_token", None) or get_access_token()
    issued = getattr(getattr(session, "_connection", None), "session_id", None)
    subject, client = getattr(token, "subject", None), getattr(token, "client_id", None)
    return ToolCall(tool, arguments, subject, client, issued, context)
