"""Questions that take nothing: which limits hold, what is available, and when.

Lives here: reads. Never: a write.
"""

from typing import NamedTuple

from ..bucket import Shape, calculate_retry_after, refill_bucket
from ..limits import MILLI, ConfigSource, Limit, OnUnavailable
from ..schema.items import View, read_bucket
from .acquire import find_sides
from .load import read_all, resolve, shadow_of
from .scope import Scope
from .sides import Request, Side
from .steps import Flow

Resolution = tuple[list[Limit], OnUnavailable | None, ConfigSource | None]


def available(scope: Scope, request: Request) -> Flow[dict[str, int]]:
    """Whole tokens in the entity's own bucket, by limit; negative in debt. Always asks the store."""
    [own, *_] = yield from _look(scope, request)
    now = scope.now()
    return {limit.name: _balance(own.view, limit, now) // MILLI for limit in own.side.config.limits}


def time_until_available(scope: Scope, request: Request) -> Flow[float]:
    """Seconds until an acquire of the amounts can pass, of the parent too where the entity cascades to one."""
    looks = yield from _look(scope, request)
    now = scope.now()
    return max(_wait(look, name, amount, now) for look in looks for name, amount in look.side.amounts.items())


def resolve_limits(scope: Scope, entity_id: str, resource: str) -> Flow[Resolution]:
    """The limits that hold, what the system config says for a store that is away, and which level won."""
    resolved = yield from resolve(scope, shadow_of(scope, entity_id, resource), bucket_too=False)
    return list(resolved.config.limits), resolved.on_unavailable, resolved.source


class _Look(NamedTuple):
    side: Side
    view: View | None


def _look(scope: Scope, request: Request) -> Flow[list[_Look]]:
    """The buckets to ask, as the store has them now. What their lanes remember is left alone: they may be at work."""
    sides = yield from find_sides(scope, request)
    found = yield from read_all([side.shadow.key for side in sides])
    items = [found.get(side.shadow.key) for side in sides]
    return [_Look(side, None if item is None else read_bucket(item)) for side, item in zip(sides, items, strict=True)]


def _wait(look: _Look, name: str, amount: int, now_ms: int) -> float:
    """Seconds until the amount is there, by the limits that an acquire would hold the bucket to."""
    limit = look.side.config.by_name[name]
    return calculate_retry_after(Shape(limit, now_ms), _balance(look.view, limit, now_ms), amount, now_ms)


def _balance(view: View | None, limit: Limit, now_ms: int) -> int:
    """What there is, up to the ceiling that the config sets; a bucket that has not the limit yet is full."""
    shape = view.shapes.get(limit.name) if view is not None else None
    if view is None or shape is None:
        return limit.ceiling_milli
    return min(limit.ceiling_milli, refill_bucket(shape, view.tokens_milli(limit.name), now_ms))
