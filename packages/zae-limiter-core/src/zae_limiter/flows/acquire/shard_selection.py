"""A bucket of several shards: which of them an acquire asks.

Lives here: the first by chance, others where it is short, many at once. Never: how one is written (commit), how it came
to be (splitting).
"""

from collections.abc import Sequence

from ...operations.errors import StoreError
from ...schema.items import View
from ...sharding import allocate
from ...token_bucket import refill_bucket
from ..bucket.reading import read_whole
from ..bucket.serving import shadow_of
from ..process.namespace_state import Scope, Shadow
from ..process.queueing import queue, take_back
from ..steps import Flow
from .claims import Side

ELSEWHERE = 2
ROUNDS = 4


def aim(scope: Scope, home: Shadow) -> Shadow:
    """The shard that an acquire tries first: any."""
    count = home.shard_count
    return home if count == 1 else _shard(scope, home, scope.pick(count))


def spread(scope: Scope, sides: Sequence[Side]) -> Flow[None]:
    """Try other shards for the sides whose first one was short; then all of them together."""
    tried = {id(side): {side.target.id.shard} for side in sides}
    while short := _short(sides):
        again = [side for side in short if _go_elsewhere(scope, side, tried[id(side)])]
        if not again:
            break
        yield from queue([side.enter() for side in again])
    for side in _short(sides):
        try:
            yield from _gather(scope, side)
        except StoreError as error:
            side.error = error


def survey(scope: Scope, side: Side) -> Flow[Sequence[View]]:
    """Every shard of the bucket: by the copies where all are fresh, else as the store has them now, repaired."""
    begun = scope.now()
    views = copies(scope, side, begun)
    if views:
        return views
    [views] = yield from read_whole([side.shadow.id])
    if not views:
        scope.learn_beside(side.shadow.id, None, begun)
    for view in views:
        scope.learn_beside(view.id, view.item, begun)
    return [view.repaired(begun) for view in views]


def copies(scope: Scope, side: Side, now_ms: int) -> Sequence[View]:
    """The last seen state of every shard, none where one of them is missing or no longer fresh."""
    count = side.shadow.shard_count
    views = [view for shard in range(count) if (view := _fresh(scope, side, shard, now_ms)) is not None]
    # a bucket that this process forgot and saw again may have more shards than the caller's copy says
    return views if len(views) == count == views[0].shard_count else ()


def rooms_of(side: Side, views: Sequence[View], now_ms: int) -> dict[int, dict[str, int]]:
    """What each shard has of the limits that are asked for, in millitokens; a limit that is new to it is full."""
    return {view.id.shard: {name: _room(side, view, name, now_ms) for name in side.amounts} for view in views}


def covers(side: Side, views: Sequence[View], now_ms: int) -> bool:
    """Whether the shards together have what is asked for; a debt blocks only the shard that carries it."""
    rooms = rooms_of(side, views, now_ms)
    for name, amount in side.amounts.items():
        if amount == 0 and all(room[name] < 0 for room in rooms.values()):
            return False
    return allocate(side.amounts, rooms) is not None


def _short(sides: Sequence[Side]) -> list[Side]:
    """The sides that other shards may help; none where one side is beyond help."""
    lost = any(not side.admitted and not (side.refused and side.is_split) for side in sides)
    return [] if lost else [side for side in sides if not side.admitted]


def _go_elsewhere(scope: Scope, side: Side, tried: set[int]) -> bool:
    """Aim at another shard, by chance, that is not known to be short; up to two, or any that is not in debt."""
    if len(tried) > ELSEWHERE and any(side.amounts.values()):
        return False
    others = [shard for shard in range(side.shadow.shard_count) if shard not in tried]
    hopeful = [shard for shard in others if not _is_short(scope, side, shard)]
    if not hopeful:
        return False
    shard = hopeful[scope.pick(len(hopeful))]
    tried.add(shard)
    side.target = _shard(scope, side.shadow, shard)
    return True


def _is_short(scope: Scope, side: Side, shard: int) -> bool:
    """Whether the shard is known not to have what is asked for."""
    now = scope.now()
    view = _fresh(scope, side, shard, now)
    return view is not None and any(amount > _room(side, view, name, now) for name, amount in side.amounts.items())


def _gather(scope: Scope, side: Side) -> Flow[None]:
    """Serve a request from several shards: each what it has, all or none."""
    for _ in range(ROUNDS):
        views = yield from survey(scope, side)
        now = scope.now()
        parts = allocate(side.amounts, rooms_of(side, views, now)) if covers(side, views, now) else None
        if not parts:
            return
        entries = side.enter_many((_shard(scope, side.shadow, shard), part) for shard, part in parts.items())
        yield from queue(entries)
        if side.admitted:
            return
        yield from take_back(entries, uncounted=True)
        if not side.refused:
            return


def _fresh(scope: Scope, side: Side, shard: int, now_ms: int) -> View | None:
    of = side.shadow.id
    shadow = scope.shadows.get((of.entity_id, of.resource, shard))
    if shadow is None or shadow.is_ahead(now_ms) or not shadow.is_fresh(now_ms, scope.settings.staleness_ms):
        return None
    return shadow.view


def _room(side: Side, view: View, name: str, now_ms: int) -> int:
    return refill_bucket(*view.part(side.config.by_name[name], now_ms), now_ms)


def _shard(scope: Scope, home: Shadow, shard: int) -> Shadow:
    return shadow_of(scope, home.id.entity_id, home.id.resource, shard=shard)
