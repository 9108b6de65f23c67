"""The overflow of a call that is refused: `why` answers what an acquire does, which asks the overflow next."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from decimal import Decimal

    from zae_limiter import Draw, Explanation, SyncRateLimiter

LEVELS: Final = {"entity", "tier", "resource"}  # that name the resource: limits of all resources make no overflow


def read_overflow(
    limiter: "SyncRateLimiter",
    found: "Explanation",
    amounts: "Mapping[str, int | Decimal] | None",
    *,
    draws: "Sequence[Draw]" = (),
    cascade: bool,
) -> "Explanation | None":
    """Explain the acquire of the overflow; ``None`` if the call is not refused, or it serves no such call."""
    from zae_limiter import ValidationError

    if found.overflow is None or found.binding is None or found.disabled is not None:
        return None
    whose = [
        replace(each, entity_id=each.entity_id or found.entity_id, resource=each.resource or found.resource)
        for each in draws
    ]
    if (found.entity_id, found.overflow) in {(each.entity_id, each.resource) for each in whose}:
        return None
    try:
        there = limiter.explain(found.entity_id, found.overflow, cascade=cascade)
        own = there.buckets[0]
        names = {each.limit.name for each in own.limits}
        asked = dict.fromkeys((each.limit.name for each in found.buckets[0].limits), 1) if amounts is None else amounts
        taken = {name: amount for name, amount in asked.items() if name in names}
        if own.source not in LEVELS or not taken:
            return None
        return limiter.explain(found.entity_id, found.overflow, taken, cascade=cascade, draws=whose)
    except ValidationError:  # it has no limits, or none of what is asked there
        return None


def left_there(there: "Explanation") -> "Sequence[tuple[str, int, str]]":
    """Return what the overflow has left of what the call takes there: names, tokens and units."""
    limits = [each for each in there.buckets[0].limits if each.requested is not None]
    return [(each.limit.name, each.available, each.limit.unit) for each in limits]
