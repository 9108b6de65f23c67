"""The options and the request of an acquire, and the check of its arguments.

``EachCallOptions`` types the ``**options`` of the decorator and of the integrations, whose draws and keys may be
functions. A test holds ``acquire`` to it: the same names, types and defaults, and each option reaches its check.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypedDict

from ...exceptions import ValidationError
from ...runtime.dataclass import dataclass, replace
from ...values.draws import Draw
from ...values.entities import MOST_BUCKETS
from ...values.estimates import Amount, Estimate, EstimateKey
from ...values.limits import Limit, Policy, check_amounts, check_limits, check_on_unavailable
from ...values.naming import RUN_RESOURCE, check_identifier, check_resource, refuse_run
from ...values.on_refused import OnRefused
from ..validation import validate_flag

ONE_OF_EACH: Final[Mapping[str, int]] = MappingProxyType({})  # what a look asks for without amounts
LONGEST_WAIT: Final = 10**9  # seconds; a longer wait has no bound
NO_WAIT: Final = 0.0
NO_MONEY: Final = frozenset[str]()
NO_DRAWS: Final[tuple[Draw, ...]] = ()
REMEMBERED: Final = 1_000  # calls without options, of each limiter


class OwnBucketOptions(TypedDict, total=False):
    """The options of ``acquire`` but for its draws and its key."""

    limits: Sequence[Limit | str] | None
    cascade: bool
    on_unavailable: Policy | None
    rollback: bool
    max_wait: float
    on_refused: OnRefused | None
    max_hold: float | None


class EachCallOptions(OwnBucketOptions, total=False):
    """The options that each call of a function, or of an integration, has in common."""

    key_life: float | None


class AcquireOptions(EachCallOptions, total=False):
    """The options of ``acquire``."""

    draws: Sequence[Draw]
    idempotency_key: str | None


class OldOptions(TypedDict):
    """There are none: ``renamed`` answers what is given. Gone with 1.0."""


@dataclass(slots=True)  # not frozen, which would slow down every acquire: only those with estimates or draws change
class AcquireRequest:
    """The arguments of an acquire; amounts in millitokens by limit.

    ``cascade``: whether it draws on those above its entity; ``None``: if the entity cascades. ``learns``: the limits
    whose amounts are estimates, and what the real ones are remembered by. ``rereads``: how often it was decided before,
    so that its limits were read again. ``max_hold``: the seconds after which its slots end. ``draws``: its draws, each
    a request like that of the call, for another bucket. ``caller``: of a draw, the entity and the resource of the call.
    ``as_called``: its amounts are the call's, as far as its buckets have limits for them. ``money``: the limits whose
    amounts were given as ``Decimal``. ``by_usage``: of a draw, what a usage of the call is in its bucket.
    ``longest_wait``: the seconds after which no wait goes on, by the call or its levels.
    """

    entity_id: str
    resource: str
    amounts: Mapping[str, int]
    limits: tuple[Limit, ...] = ()
    default_limits: tuple[Limit, ...] = ()
    cascade: bool | None = None
    on_unavailable: Policy | None = None
    rollback: bool = True
    max_wait: float = 0.0
    shadow: bool = False
    rereads: int = 0
    learns: Mapping[str, EstimateKey] | None = None
    draws: "tuple[AcquireRequest, ...]" = ()
    on_refused: OnRefused | None = None
    max_hold: float | None = None
    caller: tuple[str, str] | None = None
    as_called: bool = False
    money: frozenset[str] = NO_MONEY
    by_usage: Callable[[Any], Mapping[str, Any]] | None = None
    longest_wait: float = math.inf

    @property
    def is_plain(self) -> bool:
        """Whether it names one bucket, and amounts that are known."""
        return not self.draws and not self.learns and not self.money

    def give(self, amounts: Mapping[str, int], learns: Mapping[str, EstimateKey] | None) -> None:
        """Ask for checked amounts."""
        self.amounts, self.learns = amounts, learns
        self.money = getattr(amounts, "money", NO_MONEY)

    def follow(self, call: "AcquireRequest") -> None:
        """Ask for what the call asks for by now, if that is what this draw was to ask for: estimates get lower."""
        if call.learns and self.as_called:
            self.amounts = call.amounts

    def ask(self, consume: Mapping[str, Amount] | None) -> None:
        """Ask for what a draw has: amounts of its own, or those of its call, which alone learns from them. Raises
        ``ValidationError``.
        """
        self.learns, self.as_called = None, consume is None
        if consume is not None:
            self.give(*_estimated("consume of a draw", consume))

    def waiting(self, seconds: float) -> "AcquireRequest":
        """Return the request of a call that waits as long as its levels say."""
        return replace(self, max_wait=min(seconds, self.longest_wait))

    def at_once(self) -> "AcquireRequest":
        """Return the request of a call that does not wait: what a lease takes later never does."""
        return replace(self, max_wait=0.0) if self.max_wait else self

    @property
    def parts(self) -> "tuple[AcquireRequest, ...]":
        """The request of the call, then those of its draws."""
        return (self, *self.draws)

    @property
    def asker(self) -> tuple[str, str]:
        """The entity and the resource of the call."""
        return self.caller or (self.entity_id, self.resource)


def remembering(
    default_limits: tuple[Limit, ...], *, shadow: bool
) -> Callable[[str, str, Mapping[str, Amount]], AcquireRequest]:
    """Return the check of the arguments of a call without options. It remembers the requests of the last calls: most
    calls of a program are like one before.
    """

    @lru_cache(maxsize=REMEMBERED)
    def request_of(entity_id: str, resource: str, *amounts: tuple[str, int]) -> AcquireRequest:
        return validate_request(entity_id, resource, dict(amounts), default_limits=default_limits, shadow=shadow)

    def check(entity_id: str, resource: str, consume: Mapping[str, Amount]) -> AcquireRequest:
        if type(consume) is dict:
            for amount in consume.values():
                if type(amount) is not int:  # an estimate; or `True` and 1.0, which would be found as 1
                    break
            else:
                try:
                    return request_of(entity_id, resource, *consume.items())
                except TypeError:  # what cannot be a key is not a name: the check says so
                    pass
        return validate_request(entity_id, resource, consume, default_limits=default_limits, shadow=shadow)

    return check


def validate_request(
    entity_id: str,
    resource: str,
    consume: Mapping[str, Amount],
    *,
    limits: Sequence[Limit | str] | None = None,
    default_limits: tuple[Limit, ...] = (),
    cascade: bool = False,
    on_unavailable: Policy | None = None,
    rollback: bool = True,
    max_wait: float = 0.0,
    draws: Sequence[Draw] = (),
    on_refused: OnRefused | None = None,
    max_hold: float | None = None,
    shadow: bool = False,
) -> AcquireRequest:
    """Check a caller's arguments, and return them as a request; one without amounts for ``ONE_OF_EACH``. Raises
    ``ValidationError``.
    """
    amounts: Mapping[str, int] = {}
    learns: Mapping[str, EstimateKey] | None = None
    if consume is not ONE_OF_EACH:
        if type(consume) is not dict and not isinstance(consume, Mapping):  # the check of an ABC is slow
            raise ValidationError("consume", consume, "must map limits to amounts, like {'rpm': 1}")
        if not consume:
            raise ValidationError("consume", {}, "name at least one limit and an amount")
        try:
            amounts = check_amounts("consume", consume)  # type: ignore[arg-type]  # estimates are found by its refusal
        except ValidationError:
            if not any(isinstance(each, Estimate) for each in consume.values()):
                raise
            amounts, learns = _estimated("consume", consume)
    request = AcquireRequest(  # by position, because every acquire makes one
        check_identifier("entity_id", entity_id),
        check_resource("resource", resource),
        amounts,
        () if limits is None else check_limits("limits", limits),
        default_limits,
        (cascade and validate_flag("cascade", cascade)) or None,
        ("allow" if shadow else None) if on_unavailable is None else check_on_unavailable(on_unavailable),
        rollback is True or validate_flag("rollback", rollback),
        max_wait if type(max_wait) is float and max_wait == 0 else validate_max_wait(max_wait),
        shadow,
    )
    if learns is not None or type(amounts) is not dict:
        request.give(amounts, learns)
    if max_hold is not None:
        request.max_hold = validate_max_hold(max_hold)
    if draws != ():
        request.draws = _draws(request, draws)
    if on_refused is not None:
        _follow(request, OnRefused.check("on_refused", on_refused, request.resource))
    return request


def check_names(options: Mapping[str, object], kind: type, *beside: str) -> None:
    """Raise ``ValidationError`` for what is not an option of a ``kind``, nor one ``beside`` it."""
    known = {*kind.__annotations__, *beside}
    for name in options.keys() - known:
        raise ValidationError(name, options[name], f"is not an option of acquire: there are {', '.join(sorted(known))}")


def _follow(request: AcquireRequest, on_refused: OnRefused) -> None:
    """Let a request follow the policy of its call."""
    if request.max_wait and on_refused.wait:
        raise ValidationError(
            "max_wait", request.max_wait, f"on_refused waits {on_refused.wait} s: leave one of them out"
        )
    request.on_refused = on_refused
    request.max_wait = request.max_wait or on_refused.wait


def _estimated(field: str, consume: Mapping[str, Amount]) -> tuple[dict[str, int], dict[str, EstimateKey] | None]:
    """Return amounts with estimates in millitokens, and what these are remembered by. Raises ``ValidationError``."""
    learns = {name: each.key(name) for name, each in consume.items() if isinstance(each, Estimate)}
    amounts = {name: each.amount(name) if isinstance(each, Estimate) else each for name, each in consume.items()}
    return check_amounts(field, amounts), learns or None


def _draws(request: AcquireRequest, draws: object) -> tuple[AcquireRequest, ...]:
    """Return the draws of a call as requests. Raises ``ValidationError`` for a bucket that the call names twice."""
    if not isinstance(draws, list | tuple) or not all(isinstance(each, Draw) for each in draws):
        raise ValidationError("draws", draws, "must be a list of draws, like [Draw('user-7')]")
    if len(draws) >= MOST_BUCKETS:
        problem = f"draws on too many buckets: one call draws on {MOST_BUCKETS} at most, its own among them"
        raise ValidationError("draws", len(draws), problem)
    found, named = list[AcquireRequest](), {request.asker}
    for each in draws:
        place = each.entity_id or request.entity_id, each.resource or request.resource
        if place in named:
            raise ValidationError("draws", "/".join(place), "the call draws on this bucket already: name each one once")
        named.add(place)
        found.append(_draw_of(request, each, place))
    return tuple(found)


def _draw_of(request: AcquireRequest, draw: Draw, place: tuple[str, str]) -> AcquireRequest:
    """Return the request of a draw: that of the call, for another bucket."""
    of = replace(request, cascade=draw.cascade, caller=request.asker, by_usage=draw.by_usage)
    of.entity_id, of.resource = place
    of.limits = request.limits if draw.limits is None else check_limits("limits of a draw", draw.limits)
    of.ask(draw.consume)
    return of


def refuse_draws_on_runs(draws: Sequence[AcquireRequest]) -> None:
    """Raise ``InvalidIdentifierError`` if a draw is on the bucket of a run, of which only its own calls take."""
    for each in draws:
        if each.resource == RUN_RESOURCE:
            refuse_run(each.entity_id)


def validate_max_wait(seconds: object) -> float:
    """Check the longest wait, in seconds, and return it. Raises ``ValidationError``."""
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds >= 0:
        return float(seconds) if seconds < LONGEST_WAIT else math.inf
    raise ValidationError("max_wait", seconds, "must be a number of seconds, 0 or more; math.inf for no bound")


def validate_max_hold(seconds: object) -> float | None:
    """Check the longest time that a slot is held, in seconds, and return it; ``None`` if it has no bound. Raises
    ``ValidationError``.
    """
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0:
        return float(seconds) if seconds < LONGEST_WAIT else None
    raise ValidationError("max_hold", seconds, "must be a number of seconds above 0; None for no bound")
