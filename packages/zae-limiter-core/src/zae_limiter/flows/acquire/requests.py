"""The options and the request of an acquire, and the check of its arguments.

``AcquireOptions`` types the ``**options`` of the decorator and of the integrations. A test holds ``acquire`` to it: the
same names, types and defaults, and each option reaches its check.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

from ...exceptions import ValidationError
from ...values.estimates import Estimate, EstimateKey
from ...values.limits import Limit, OnUnavailable, check_amounts, check_limits, check_on_unavailable
from ...values.naming import check_identifier, check_resource
from ..process.waiting_line import Turn
from ..validation import validate_bucket, validate_flag

LONGEST_WAIT: Final = 10**9  # seconds; a longer wait has no bound


class AcquireOptions(TypedDict, total=False):
    """The options of ``acquire``."""

    limits: Sequence[Limit] | None
    cascade: bool
    on_unavailable: OnUnavailable | None
    rollback: bool
    max_wait: float


@dataclass(slots=True)  # only `rereads`, `learns` and estimates change; not frozen, which would slow down every acquire
class AcquireRequest:
    """The arguments of an acquire; amounts in millitokens by limit.

    ``turn``: the place of its caller in a waiting line, if it waits. ``since_ms``: when the attempt of a caller that
    may wait began. ``learns``: the limits whose amounts are estimates, and what the real ones are remembered by.
    ``rereads``: how often it was decided before, so that its limits were read again.
    """

    entity_id: str
    resource: str
    amounts: Mapping[str, int]
    limits: tuple[Limit, ...] = ()
    default_limits: tuple[Limit, ...] = ()
    cascade: bool = False
    on_unavailable: OnUnavailable | None = None
    rollback: bool = True
    max_wait: float = 0.0
    turn: Turn | None = None
    shadow: bool = False
    since_ms: int = 0
    rereads: int = 0
    learns: Mapping[str, EstimateKey] | None = None


def validate_request(
    entity_id: str,
    resource: str,
    consume: Mapping[str, int | Estimate],
    *,
    limits: Sequence[Limit] | None = None,
    default_limits: tuple[Limit, ...] = (),
    cascade: bool = False,
    on_unavailable: OnUnavailable | None = None,
    rollback: bool = True,
    max_wait: float = 0.0,
    shadow: bool = False,
) -> AcquireRequest:
    """Check a caller's arguments, and return them as a request. Raises ``ValidationError``."""
    if type(consume) is not dict and not isinstance(consume, Mapping):  # the check of an ABC is slow
        raise ValidationError("consume", consume, "must map limits to amounts, like {'rpm': 1}")
    if not consume:
        raise ValidationError("consume", {}, "name at least one limit and an amount")
    learns: Mapping[str, EstimateKey] | None = None
    try:
        amounts = check_amounts("consume", consume)  # type: ignore[arg-type]  # estimates are found by its refusal
    except ValidationError:
        learns = {name: each.key(name) for name, each in consume.items() if isinstance(each, Estimate)}
        if not learns:
            raise
        amounts = check_amounts("consume", _estimated(consume))
    request = AcquireRequest(  # by position, because every acquire makes one
        check_identifier("entity_id", entity_id),
        check_resource("resource", resource),
        amounts,
        () if limits is None else check_limits("limits", limits),
        default_limits,
        cascade and validate_flag("cascade", cascade),
        ("allow" if shadow else None) if on_unavailable is None else check_on_unavailable(on_unavailable),
        rollback is True or validate_flag("rollback", rollback),
        max_wait if type(max_wait) is float and max_wait == 0 else validate_max_wait(max_wait),
        None,
        shadow,
    )
    if learns is not None:
        request.learns = learns
    return request


def _estimated(consume: Mapping[str, int | Estimate]) -> dict[str, int]:
    return {name: each.amount(name) if isinstance(each, Estimate) else each for name, each in consume.items()}


def fit_estimates(request: AcquireRequest, limits: Iterable[Limit]) -> None:
    """Lower each estimate to what a new bucket has of each of these limits: it may have been learnt from calls with
    larger ones, and is refused for a time, never for ever. A limit that blocks everything goes on doing so.
    """
    fitting = dict(request.amounts)
    for limit in limits:
        if limit.name in (request.learns or ()) and limit.initial_milli:
            fitting[limit.name] = min(fitting[limit.name], limit.initial_milli)
    request.amounts = fitting


def validate_max_wait(seconds: object) -> float:
    """Check the longest wait, in seconds, and return it. Raises ``ValidationError``."""
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds >= 0:
        return float(seconds) if seconds < LONGEST_WAIT else math.inf
    raise ValidationError("max_wait", seconds, "must be a number of seconds, 0 or more; math.inf for no bound")


def validate_place(
    entity_id: str, resource: str, *, limits: Sequence[Limit] | None, default_limits: tuple[Limit, ...]
) -> AcquireRequest:
    """Check a call without amounts, and return it as a request. Raises ``ValidationError``."""
    given = () if limits is None else check_limits("limits", limits)
    return AcquireRequest(*validate_bucket(entity_id, resource), {}, given, default_limits)
