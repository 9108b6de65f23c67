"""Acquire: who is asked, in which order, and what happens when one side says no.

Lives here: resolution, cascade, compensation, the unavailable store. Never: one bucket's write (commit).
"""

import logging
from collections.abc import Iterable, Sequence

from ...exceptions import RateLimiterUnavailable, RateLimitExceeded, ValidationError
from ...limits import LimitStatus, OnUnavailable
from ...operations.errors import RaceLost, StoreError
from ...resolution import Config, Resolved
from ..bucket.limit_removal import Crowded
from ..bucket.serving import resolve, shadow_of
from ..process.bucket_queue import Ticket
from ..process.namespace_state import Scope, Shadow
from ..process.queueing import queue, take_back
from ..public_errors import public_error
from ..steps import Flow, Queued, Sleep, Tell
from .claims import Grant, Request, Side
from .create_with_parent import create_pair
from .shard_selection import aim, copies, covers, spread, survey
from .statuses import statuses_before

ROUNDS = 8
AGAIN_SECONDS = 0.01


def acquire(scope: Scope, request: Request) -> Flow[Grant]:
    """Take the amounts of every limit, or nothing.

    Raises ``RateLimitExceeded``, ``ValidationError``, ``RateLimiterUnavailable`` where the store is away and
    ``on_unavailable`` says ``block``, and another ``InfrastructureError`` where the store is not what is wrong.
    """
    try:
        for attempt in range(ROUNDS):
            if attempt > 1:  # let others finish
                yield Sleep(AGAIN_SECONDS * attempt)
            sides = _known_sides(scope, request) or _expired_sides(scope, request)
            if sides is None:
                sides = yield from find_sides(scope, request)
            side = sides[0]
            if len(sides) == 1 and not side.stale and not side.target.lane.busy:
                entry = side.enter()
                yield Queued(entry)
                if entry.admitted:
                    return Grant(request, sides)
            else:
                yield from _take_with_others(scope, sides)
            yield from spread(scope, sides)
            if (yield from _conclude(scope, sides)):
                return Grant(request, sides)
        raise RaceLost(f"the limits of {request.entity_id}/{request.resource} changed during {ROUNDS} attempts")
    except StoreError as error:
        yield from let_through(scope, request, error)
        return Grant(request, (), error)


def let_through(scope: Scope, request: Request, error: StoreError) -> Flow[None]:
    """What the store could not count goes uncounted, where that is wanted.

    Raises ``RateLimiterUnavailable`` where it is not, and what else is wrong whatever is wanted.
    """
    if isinstance(error, Crowded):
        raise error.problem from None
    shown = public_error(scope.stack, error)
    if not isinstance(shown, RateLimiterUnavailable) or _policy(scope, request.on_unavailable) == "block":
        raise shown from error
    more = scope.degraded.count(scope.now())
    if more is not None:
        what, before = f"{request.entity_id}/{request.resource}", f"; {more} more since the last line" if more else ""
        yield Tell(__name__, logging.WARNING, f"{what}: not counted, because the store is away: {error}{before}")


def _policy(scope: Scope, asked: OnUnavailable | None) -> OnUnavailable:
    """What to do without the store: what the call says, else the system config read last, else the repository."""
    return asked or scope.configs.on_unavailable or scope.settings.on_unavailable


def find_sides(scope: Scope, request: Request) -> Flow[list[Side]]:
    """The buckets to ask, with the limits that hold for each, read where they are not known or not fresh.

    Raises ``ValidationError`` where an amount has no limit, or there are no limits at all.
    """
    sides = [(yield from _approach(scope, request, request.entity_id))]
    parent_id = _parent_to_ask(request, sides[0].resolved)
    if parent_id is not None:
        sides.append((yield from _approach(scope, request, parent_id)))
    return _with_amounts(request, sides)


def _known_sides(scope: Scope, request: Request) -> list[Side] | None:
    """The common case: everything is known and fresh, and there is no parent to ask."""
    shadow = scope.shadows.get((request.entity_id, request.resource, 0))
    if shadow is None or not shadow.known:
        return None
    resolved = scope.fresh(shadow)
    if resolved is None or (resolved.parent_id is not None and _parent_to_ask(request, resolved) is not None):
        return None
    side = _side(scope, request, shadow, resolved)
    if side.config.limits and request.amounts.keys() <= side.config.by_name.keys():
        return [side]
    return _with_amounts(request, [side])


def _expired_sides(scope: Scope, request: Request) -> list[Side] | None:
    """All is known, but the time of a config has come: it is read again beside the write."""
    sides: list[Side] = []
    entity_id: str | None = request.entity_id
    while entity_id is not None and len(sides) < 2:
        shadow = scope.shadows.get((entity_id, request.resource, 0))
        resolved = None if shadow is None or not shadow.known else scope.last_known(shadow)
        if shadow is None or resolved is None:
            return None
        sides.append(_side(scope, request, shadow, resolved, stale=scope.has_expired(resolved)))
        entity_id = _parent_to_ask(request, resolved)
    try:
        return _with_amounts(request, sides)
    except ValidationError:  # by limits that may no longer hold
        return None


def _parent_to_ask(request: Request, resolved: Resolved) -> str | None:
    return resolved.parent_id if resolved.cascade or request.cascade else None


def _approach(scope: Scope, request: Request, entity_id: str) -> Flow[Side]:
    shadow = shadow_of(scope, entity_id, request.resource)
    resolved = yield from resolve(scope, shadow, bucket_too=True)
    return _side(scope, request, shadow, resolved)


def _side(scope: Scope, request: Request, shadow: Shadow, resolved: Resolved, *, stale: bool = False) -> Side:
    config = resolved.config
    if request.limits:
        config = Config(request.limits, scope.now(), own=config.own, given=True)
    elif not config.limits and request.default_limits:
        config = Config(request.default_limits, config.read_at_ms)
    return Side(shadow, aim(scope, shadow), resolved, config, request.amounts, stale)


def _with_amounts(request: Request, sides: list[Side]) -> list[Side]:
    """Each side with the amounts of its own limits. Raises ``ValidationError`` for one that none of them limits."""
    for side in sides:
        if not side.config.limits:
            bucket = side.shadow.id
            problem = (
                "no level has limits for it: set_limits, set_resource_defaults, set_system_defaults, or pass limits="
            )
            raise ValidationError("limits", f"{bucket.entity_id}/{bucket.resource}", problem)
        side.amounts = {name: amount for name, amount in request.amounts.items() if name in side.config.by_name}
    for name in request.amounts.keys() - {known for side in sides for known in side.amounts}:
        there = ", ".join(sorted({known for side in sides for known in side.config.by_name}))
        raise ValidationError("consume", name, f"no such limit on {request.resource}: there are {there}")
    return sides


def _take_with_others(scope: Scope, sides: list[Side]) -> Flow[None]:
    """Take where others are at it, where there is a parent, or where the config's time has come."""
    refuse_by_copies(scope, sides)
    asked = [side for side in sides if any(side.amounts.values())]
    if len(asked) == 2 and all(side.shadow.view is None and not side.stale for side in asked):
        yield from create_pair(scope, asked[0], asked[1])
    else:
        yield from _take_beside_refresh(sides)


def refuse_by_copies(scope: Scope, sides: Sequence[Side]) -> None:
    """Raises ``RateLimitExceeded`` where the last seen state of a side is fresh, and the tokens are not there."""
    now = scope.now()
    if any(_rules_out(scope, side, now) for side in sides):
        for side in sides:
            side.seen = scope.views(side.shadow)
        raise RateLimitExceeded(statuses_before(sides, now))


def _rules_out(scope: Scope, side: Side, now_ms: int) -> bool:
    views = () if side.stale else copies(scope, side, now_ms)
    if not views:
        return False
    for view in views:
        for name, limit in side.config.by_name.items():
            if name not in view.shapes or view.shapes[name].limit != limit:
                return False
    return not covers(side, views, now_ms)


def _take_beside_refresh(sides: list[Side]) -> Flow[None]:
    """All sides at once; a config whose time has come is read beside the write."""
    tickets: list[Ticket] = [side.enter() for side in sides if side.amounts]
    tickets += [Ticket(side.shadow.loading) for side in sides if side.stale]
    yield from queue(tickets)


def _conclude(scope: Scope, sides: list[Side]) -> Flow[bool]:
    """Whether the sides stand after all; else take back what was taken, and say why it was."""
    outcomes = [entry.outcome for side in sides for entry in side.last if entry.outcome is not None]
    changed = any(side.stale and _changed(side) for side in sides)
    if not changed and all(side.admitted for side in sides):
        return True
    yield from take_back([entry for side in sides for entry in side.last], uncounted=True)
    if any(outcome.verdict == "outdated" for outcome in outcomes):
        for side in sides:
            yield from resolve(scope, side.shadow, bucket_too=True)
        return False
    if changed:
        return False
    error = first_error(sides)
    if error is not None:
        raise error
    raise RateLimitExceeded((yield from how_they_stood(scope, sides)))


def first_error(sides: Iterable[Side]) -> StoreError | None:
    """Why a side was not asked, or did not answer."""
    for side in sides:
        for entry in side.last:
            if entry.outcome is not None and entry.outcome.error is not None:
                return entry.outcome.error
        if side.error is not None:
            return side.error
    return None


def how_they_stood(scope: Scope, sides: Sequence[Side]) -> Flow[list[LimitStatus]]:
    """The statuses of a refusal; of a bucket of several shards they tell of all of them, as well as can be known."""
    for side in sides:
        try:
            side.seen = (yield from survey(scope, side)) if side.is_split else ()
        except StoreError:  # also where the time is over: that it is refused is known
            side.seen = scope.views(side.shadow)
    return statuses_before(sides, scope.now())


def _changed(side: Side) -> bool:
    now = side.shadow.resolved
    return now is not None and not now.agrees_with(side.resolved)
