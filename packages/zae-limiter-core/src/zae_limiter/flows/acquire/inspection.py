"""Questions that take nothing: which limits hold, what is available, and when.

Lives here: reads. Never: a write.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ...limits import MILLI, ConfigSource, Limit, OnUnavailable
from ...schema.items import View
from ...sharding import Part, calculate_balance, calculate_wait, full_part, unseen_parts
from ...token_bucket import Shape, refill_bucket
from ..bucket.reading import read_whole
from ..bucket.serving import resolve, shadow_of
from ..process.namespace_state import Scope
from ..steps import Flow
from .acquire import find_sides
from .claims import Request, Side

Resolution = tuple[list[Limit], OnUnavailable | None, ConfigSource | None]


def available(scope: Scope, request: Request) -> Flow[dict[str, int]]:
    """Whole tokens in all shards of the entity's own bucket, by limit; negative in debt. Always asks the store."""
    [own, *_] = yield from _look(scope, request)
    now = scope.now()
    limits = own.side.config.limits
    return {limit.name: calculate_balance(_parts(own.views, limit, now), now) // MILLI for limit in limits}


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
    views: Sequence[View]


def _look(scope: Scope, request: Request) -> Flow[list[_Look]]:
    """The buckets to ask, as the store has them now. What their lanes remember is left alone: they may be at work."""
    sides = yield from find_sides(scope, request)
    found = yield from read_whole([side.shadow.id for side in sides])
    now = scope.now()
    return [_Look(side, [view.repaired(now) for view in views]) for side, views in zip(sides, found, strict=True)]


def _wait(look: _Look, name: str, amount: int, now_ms: int) -> float:
    """Seconds until the amount is there, by the limits that an acquire would hold the bucket to."""
    return calculate_wait(_parts(look.views, look.side.config.by_name[name], now_ms), amount, now_ms)


def _parts(views: Sequence[View], limit: Limit, now_ms: int) -> list[Part]:
    """What each shard has, up to the ceiling that the config sets; full where there is no bucket, or not this limit."""
    shards = [_part(view, limit, now_ms) for view in views]
    counts = {view.id.shard: view.shard_count for view in views}
    shards += unseen_parts(limit, now_ms, counts)
    return shards or [full_part(limit, now_ms)]


def _part(view: View, limit: Limit, now_ms: int) -> Part:
    ruled = Shape(limit, now_ms, view.id.shard, view.shard_count)
    return Part(ruled, min(ruled.ceiling_milli, refill_bucket(*view.part(limit, now_ms), now_ms)))
