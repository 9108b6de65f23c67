"""What the integrations of MCP share: the buckets and the cost of a tool's call, and a refusal that a model can read.
It needs no library.

A client chooses the name of the tool, the arguments, and often the session. So only the names in ``costs`` become a
resource, a session's id becomes a hash that is bound to the user, and whatever else a call draws on, it always draws on
the bucket of its user: a fresh session or an unknown tool leads to no fresh tokens.
"""

import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias, get_args
from unicodedata import normalize

from ..aio.budgets import RunBudget
from ..aio.lease import DrawLease, Lease
from ..aio.limiter import RateLimiter
from ..exceptions import (
    ContentionError,
    IdempotencyKeyError,
    InvalidIdentifierError,
    RateLimiterUnavailable,
    ValidationError,
    ZAELimiterError,
)
from ..flows.acquire.requests import NO_DRAWS, EachCallOptions
from ..flows.validation import validate_flag
from ..runtime.dataclass import dataclass, field
from ..values.draws import Draw
from ..values.estimates import Amount, Estimate
from ..values.limit_status import LimitStatus
from ..values.limits import MILLI, check_amounts
from ..values.money import CURRENCIES, MICRO, read_money
from ..values.naming import RUN_RESOURCE as RUNS
from ..values.naming import check_identifier, check_limit_name, check_resource
from ..values.refusal import BudgetEnded, RateLimitExceeded
from ..wiring import with_key
from .answers import InvalidClientId
from .arguments import check_opened, check_options, check_refund, ids_of_client, resolve
from .leases import Leases, Refund

Part: TypeAlias = Literal["tool", "agent", "session"]
PARTS: Final = get_args(Part)
Cost: TypeAlias = Mapping[str, "Amount | str"]
ONE_CALL: Final[Cost] = {"calls": 1}
ANONYMOUS: Final = "anonymous"
"""The entity of all callers whom the server has not authenticated, together."""
_HASHED: Final = "sha256-"
_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
_UNCOUNTABLE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool. Its ``tool`` and ``arguments`` are what the client sent, unchecked.

    ``user`` and ``client`` are the subject and the client of the token that the server has verified, ``session`` is the
    id that the server has issued; ``None`` where there is none. ``context`` is that of the library.
    """

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)
    user: str | None = None
    client: str | None = None
    session: str | None = None
    context: Any = field(default=None, hash=False, compare=False)


class ToolRefused(Exception):
    """A call that is not made. ``text`` is for the model, ``structured`` has the same for programs."""

    def __init__(self, text: str, structured: dict[str, Any]) -> None:
        super().__init__(text)
        self.text, self.structured = text, structured


def principal(call: ToolCall) -> str:
    """Return the entity of a call: ``user-SUBJECT`` of the verified token, or ``client-ID`` if it has no subject, or
    ``anonymous``.

    A subject is unique to one issuer only: write a function of your own if your server trusts several.
    """
    if call.user:
        return entity_of("user", call.user)
    return entity_of("client", call.client) if call.client else ANONYMOUS


def entity_of(kind: str, text: str) -> str:
    """Return the id of an entity: ``KIND-TEXT``, with a hash in the place of a text that no id can have."""
    name = f"{kind}-{text}"
    if not text.startswith(_HASHED) and normalize("NFC", text) == text:
        with suppress(InvalidIdentifierError):
            return check_identifier("entity_id", name)
    return f"{kind}-{_HASHED}{_hash(text)}"


def amounts_of(name: str, cost: object) -> dict[str, Amount]:
    """Return the amounts of a cost, of which money may be a text: ``"$0.01"``. Raises ``ValidationError``."""
    if not isinstance(cost, Mapping):
        raise ValidationError(name, cost, "must map limits to amounts, like {'calls': 1, 'usd': '$0.01'}; {} is free")
    amounts = {check_limit_name(name, limit): _amount(name, limit, each) for limit, each in cost.items()}
    check_amounts(name, {limit: each for limit, each in amounts.items() if not isinstance(each, Estimate)})
    return amounts


def _amount(cost: str, limit: str, amount: Any) -> Amount:
    name = f"{cost}[{limit!r}]"
    if not isinstance(amount, str):
        return amount  # type: ignore[no-any-return]  # `check_amounts` is next
    try:
        micro = read_money(amount)
    except ValueError as error:
        raise ValidationError(name, amount, str(error)) from None
    if micro is None or (limit in CURRENCIES and micro.unit != limit):
        wanted = limit if limit in CURRENCIES else "a currency"
        raise ValidationError(name, amount, f"must be a number of tokens, or money of {wanted}, like '$0.01'")
    return Decimal(micro) / MICRO


class Costs:
    """What calls cost, by the name of their tool: amounts, or a function of the call. ``other``: of any other tool.

    Raises ``ValidationError``.
    """

    def __init__(self, costs: Mapping[str, Any], other: Any) -> None:
        if not isinstance(costs, Mapping):
            raise ValidationError("costs", costs, "must map tools to costs, like {'search': {'calls': 1}}")
        self._costs = {name: _cost(f"costs[{name!r}]", each) for name, each in costs.items()}
        self._other = _cost("other", other)

    @property
    def tools(self) -> Collection[str]:
        """The names that may become a resource."""
        return self._costs.keys()

    async def of(self, call: ToolCall, name: str) -> dict[str, Amount]:
        """Return the amounts of a call. Raises ``ToolRefused`` for arguments that its function does not understand."""
        cost = self._costs.get(name, self._other)
        if not callable(cost):
            return cost  # type: ignore[no-any-return]
        try:
            return amounts_of("cost", await resolve(cost, call))
        except _UNCOUNTABLE as error:
            log.info("the cost of a call of %r cannot be computed", name[:100], exc_info=error)
            text = "Not run: its cost cannot be computed from these arguments. Correct them, then call again."
            raise ToolRefused(text, {"error": "invalid_arguments", "retry_after_seconds": None}) from None
        except Exception as error:
            log.exception("the cost of a call of the tool %r cannot be computed", name[:100])
            raise _limiter_failed() from error

    def depends(self, name: str) -> bool:
        """Return whether other arguments may cost less."""
        return callable(self._costs.get(name, self._other))

    def fitting(self, name: str, statuses: Iterable[LimitStatus]) -> list[str]:
        """Return the other tools whose fixed cost fits into limits that they share with the call of a tool."""
        left: dict[str, int] = {}
        for status in statuses:
            if not status.limit.shadow:
                left[status.limit_name] = min(status.available, left.get(status.limit_name, status.available))
        return [each for each, cost in self._costs.items() if each != name and not callable(cost) and _fits(cost, left)]


def _limiter_failed() -> ToolRefused:
    """Return the refusal for a fault of the server, which its log has: the refusal says nothing of it."""
    text = "Not run: the limits of this server do not work. Do not repeat the call; report this to the user."
    return ToolRefused(text, {"error": "limiter_failed", "retry_after_seconds": None})


def _cost(name: str, cost: Any) -> Any:
    return cost if callable(cost) else amounts_of(name, cost)


def _fits(cost: Mapping[str, Any], left: Mapping[str, int]) -> bool:
    """Return whether a cost fits into what is left; one of unknown limits, or an estimate, does not."""
    if any(isinstance(each, Estimate) for each in cost.values()) or not cost.keys() <= left.keys():
        return False
    return all(amount <= left[name] * MILLI for name, amount in check_amounts("cost", cost).items())


class ToolRule:
    """How calls of tools are limited: values, or functions of the call. Raises ``ValidationError``.

    The bucket of a call is that of its user on ``resource``. ``per`` adds draws: ``tool`` on ``RESOURCE/TOOL``, for the
    tools in ``costs``; ``agent`` and ``session`` on ``RESOURCE:agent`` and ``RESOURCE:session``. A call without an
    agent or a session draws on its user there, so that leaving it out leads to no fresh tokens.
    """

    def __init__(
        self,
        limiter: RateLimiter | RunBudget | Callable[[ToolCall], Any],
        *,
        costs: Mapping[str, Cost | Callable[[ToolCall], Any]],
        other: Cost | Callable[[ToolCall], Any],
        resource: str,
        user: str | Callable[[ToolCall], str | Awaitable[str]],
        per: Collection[Part],
        agent: Callable[[ToolCall], Any],
        session: Callable[[ToolCall], Any],
        draws: Sequence[Draw] | Callable[[ToolCall], Any],
        refund: Refund,
        suggest: bool,
        idempotency_key: Callable[[ToolCall], Any] | None,
        options: EachCallOptions,
    ) -> None:
        if not isinstance(limiter, RunBudget):
            check_opened(RateLimiter, limiter)
        check_refund(refund)
        self._suggest = validate_flag("suggest", suggest)
        if isinstance(per, str) or not {*per} <= {*PARTS}:
            raise ValidationError("per", per, f"must be a list of {', '.join(PARTS)}")
        self._costs = Costs(costs, other)
        self._resource = check_resource("resource", resource)
        for tool in self._costs.tools if "tool" in per else ():
            check_resource(f"costs[{tool!r}]", f"{resource}/{tool}")
        check_options(options, user, resource, draws, idempotency_key)
        self._of_call: Mapping[str, Any] = {  # values, or functions of the call
            "limiter": limiter,
            "user": user,
            "agent": agent,
            "session": session,
            "draws": draws,
            "key": idempotency_key,
        }
        self._per, self._refund, self._options = frozenset(per), refund, options
        self._life = options.pop("key_life", None)

    async def begin(self, call: ToolCall, name: str | None = None) -> Leases | None:
        """Take what a call costs; ``None`` if it is free. ``name``: that of its tool in ``costs``.

        Raises ``ToolRefused`` if it must not be made, caused by the error of ``acquire``.
        """
        name = call.tool if name is None else name
        cost = await self._costs.of(call, name)
        if not cost:
            return None
        parts: list[Part] = []
        try:
            limiter, user = [await self._asked(each, call) for each in ("limiter", "user")]
            if not isinstance(limiter, RateLimiter | RunBudget):
                raise ValidationError("limiter", limiter, "must be a RateLimiter, or a function that returns one")
            draws = await self._draws_of(call, name, user, parts)
            key = with_key(await self._asked("key", call), self._life)
            place = (self._resource,) if isinstance(limiter, RunBudget) else (user, self._resource)
            try:
                return await self._enter(limiter, place, cost, draws, key)
            except ValidationError as error:
                of_tool = f"on resource {f'{self._resource}/{name}'!r} (known: "
                if parts[:1] != ["tool"] or of_tool not in str(error):
                    raise
                return await self._enter(limiter, place, cost, draws[1:] or NO_DRAWS, key)  # it limits nothing here
        except RateLimitExceeded as refusal:
            raise self._refused(refusal, name, parts) from refusal
        except (RateLimiterUnavailable, ContentionError) as error:
            text = "Not run: the limits cannot be checked now. Wait 1 second, then make the same call again."
            raise ToolRefused(text, {"error": "limiter_unavailable", "retry_after_seconds": 1}) from error
        except IdempotencyKeyError as error:
            text = "Not run: its key was used for a call of another size. Make the call with another key."
            raise ToolRefused(text, {"error": "other_call", "retry_after_seconds": None}) from error
        except InvalidClientId as error:
            text = "Not run: the id of the caller, or its key, is not valid. Do not repeat the call."
            raise ToolRefused(text, {"error": "invalid_caller", "retry_after_seconds": None}) from error
        except ZAELimiterError as error:
            log.exception("the limits of the tool %r could not be applied", name[:100])
            raise _limiter_failed() from error

    async def _enter(
        self,
        limiter: Any,
        place: tuple[str, ...],
        cost: Mapping[str, Amount],
        draws: Sequence[Draw],
        key: Mapping[str, Any],
    ) -> Leases:
        leases = Leases()
        with ids_of_client():
            lease = limiter.acquire(*place, cost, draws=draws, **key, **self._options)
        await leases.enter(lease, self._refund)
        return leases

    async def _asked(self, what: str, call: ToolCall) -> Any:
        """Return a value, or what a function of the call returns. Raises ``ToolRefused`` where that fails."""
        try:
            return await resolve(self._of_call[what], call)
        except ZAELimiterError:
            raise
        except Exception as error:
            log.exception("%s= failed for a call of the tool %r", what, call.tool[:100])
            raise _limiter_failed() from error

    async def _draws_of(self, call: ToolCall, name: str, user: str, parts: list[Part]) -> Sequence[Draw]:
        """Return the draws of a call, and note which part of it each of the first ones is of."""
        found: list[Draw] = []
        if "tool" in self._per and name in self._costs.tools:
            parts.append("tool")
            found.append(Draw(resource=f"{self._resource}/{name}"))
        if "agent" in self._per:
            agent = await self._asked("agent", call)
            parts.append("agent")
            found.append(Draw(entity_of("agent", str(agent)) if agent else None, resource=f"{self._resource}:agent"))
        if "session" in self._per:
            session = await self._asked("session", call)
            bound = f"session-{_hash(f'{user} {session}')}" if session else None  # by its user: ids can be guessed
            parts.append("session")
            found.append(Draw(bound, resource=f"{self._resource}:session"))
        draws = await self._asked("draws", call)
        if not isinstance(draws, list | tuple):
            raise ValidationError("draws", draws, "must be a list of draws, like [Draw('user-7')]")
        return [*found, *draws] or NO_DRAWS

    def _refused(self, refusal: RateLimitExceeded, name: str, parts: Sequence[Part]) -> ToolRefused:
        worst = refusal.primary_violation
        shared = [each for each in refusal.statuses if not (each.draw and parts[each.draw - 1 : each.draw] == ["tool"])]
        closed = refusal.reason == "disabled" or isinstance(refusal, BudgetEnded) or not self._suggest
        others = [] if closed else self._costs.fitting(name, shared)
        most = worst.limit.usable_burst if refusal.reason == "never" else max(0, worst.available)
        smaller = (
            most
            if most and not isinstance(refusal, BudgetEnded) and self._costs.depends(name) and not _is_group(worst)
            else None
        )
        return explain(refusal, _whose(worst, parts), others, smaller)


def explain(
    refusal: RateLimitExceeded,
    scope: str = "user",
    others: Sequence[str] = (),
    at_most: int | None = None,
    *,
    begun: bool = False,
) -> ToolRefused:
    """Return a refusal in words that a model can obey: which limit, how long to wait, and what it may do instead.

    ``begun``: the tool had begun to work. It names no entity, and no number of a limit of the scope ``group``, which
    others share.
    """
    worst, limit = refusal.primary_violation, refusal.primary_violation.limit
    seconds = refusal.retry_after_seconds
    wait = None if math.isinf(seconds) else max(1, math.ceil(seconds))
    shown = scope != "group" and refusal.reason != "disabled" and not isinstance(refusal, BudgetEnded)
    left = limit.show(max(0, worst.available))
    numbers = f" ({left} of {limit.show(limit.capacity)} left, {limit.show(worst.requested)} needed)" if shown else ""
    said = [f"{'Stopped' if begun else 'Not run'}: {_problem(refusal, scope)}{numbers}.", _advice(refusal, wait)]
    if others:
        said.append(f"You may call now: {', '.join(others)}.")
    if at_most:
        said.append(f"A smaller call fits: at most {limit.show(at_most)} of {worst.limit_name}.")
    structured: dict[str, Any] = {
        "error": "rate_limit_exceeded",
        "reason": refusal.reason,
        "limit": worst.limit_name,
        "scope": scope,
        **({"available": worst.available, "requested": worst.requested, "capacity": limit.capacity} if shown else {}),
        **({"unit": f"micro-{limit.unit}"} if shown and limit.unit else {}),
        "retry_after_seconds": wait,
        "retry_after": None if wait is None else in_words(wait),
        "other_tools": list(others),
        "at_most": at_most,
    }
    return ToolRefused(" ".join(said), structured)


def in_words(seconds: int) -> str:
    """Return a duration in its two largest units: ``3 minutes 20 seconds``."""
    found: list[str] = []
    for size, unit in _UNITS:
        number, seconds = divmod(seconds, size)
        if number:
            found.append(f"{number} {unit}{'' if number == 1 else 's'}")
    return " ".join(found[:2]) or "0 seconds"


def _problem(refusal: RateLimitExceeded, scope: str) -> str:
    if isinstance(refusal, BudgetEnded):
        return "the budget of this run is over"
    name = f"the limit {refusal.primary_violation.limit_name} of this {scope}"
    match refusal.reason:
        case "disabled":
            return f"access of this {scope} is switched off"
        case "never":
            return f"this call is larger than {name} ever allows"
        case "concurrency":
            return f"too many calls run at once under {name}"
        case "quota":
            return f"{name} is spent"
        case _:
            return f"{name} is used up for now"


def _advice(refusal: RateLimitExceeded, wait: int | None) -> str:
    if refusal.reason == "disabled":
        return "Do not call again: only its owner can switch it on."
    if refusal.reason == "never" and not isinstance(refusal, BudgetEnded):
        return "Do not repeat it: ask for less."
    if wait is None:
        return "It does not come back by itself: do not repeat the call, finish with what you have."
    long = f"{in_words(wait)} ({wait} seconds)" if wait >= 60 else in_words(wait)
    if refusal.reason == "concurrency":
        return f"Wait until another call has ended, or {long}, then make the same call again."
    return f"Wait {long}, then make the same call again; until then it is refused."


def _whose(status: LimitStatus, parts: Sequence[Part]) -> str:
    """Return the part of a call that a limit is of: ``user``, ``tool``, ``agent``, ``session``, ``run``, ``group`` for
    an entity above one of them, or ``resource`` for a draw of the application.
    """
    if status.resource == RUNS and status.entity_id.startswith("run:"):
        return "run"
    if _is_group(status):
        return "group"
    if not status.draw:
        return "user"
    return parts[status.draw - 1] if status.draw <= len(parts) else "resource"


def _is_group(status: LimitStatus) -> bool:
    return status.place > 0


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Running:
    """The call of a tool that runs: its leases, and the refusal of a ``consume`` that the tool has asked for."""

    def __init__(self, leases: Leases | None) -> None:
        self.leases = leases
        self.refusal: RateLimitExceeded | None = None


current: ContextVar[Running | None] = ContextVar("zae_limiter_tool_call", default=None)


def lease_of() -> Lease:
    """Return the lease of the tool's call that runs. Raises ``LookupError`` if nothing limits it."""
    return _running()[1]


def _running() -> tuple[Running, Lease]:
    running = current.get()
    if running is None or running.leases is None or running.leases.last is None:
        raise LookupError("this call of a tool has no lease: nothing limits it")
    return running, running.leases.last


async def consume(**amounts: int | Decimal | str) -> None:
    """Take more for the running call, in all of its buckets: for a tool whose cost shows while it works.

    A refusal raises ``RateLimitExceeded``; if the tool lets it pass, the result of the call says so to the model.
    Raises ``LookupError`` if nothing limits the call, and the errors of ``Lease.consume``.
    """
    running, lease = _running()
    more: Any = amounts_of("consume", amounts)
    taken: list[tuple[DrawLease, dict[str, Any]]] = []
    try:
        for draw in lease.draws:
            if draw.as_called and (part := {name: each for name, each in more.items() if name in draw.consumed}):
                await draw.consume(**part)
                taken.append((draw, part))
        await lease.consume(**more)
    except BaseException as error:
        running.refusal = error if isinstance(error, RateLimitExceeded) else None
        for draw, part in taken:  # with the end of the call: until then it has too much, never too little
            await draw.release(**part)
        raise


async def settle(**amounts: int | Decimal | str) -> None:
    """Set what the running call has used until now, in all of its buckets: call it as often as you report progress.

    The last amounts count when the call ends, also by an error or a cancellation. Raises ``LookupError`` if nothing
    limits the call, and the errors of ``Lease.settle``.
    """
    used: Any = amounts_of("settle", amounts)
    lease = lease_of()
    await lease.settle(**used)
    for draw in lease.draws:
        if draw.as_called and (shared := {name: each for name, each in used.items() if name in draw.consumed}):
            await draw.settle(**shared)
