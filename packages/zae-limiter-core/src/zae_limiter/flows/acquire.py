"""Acquire: who is asked, in which order, and what happens when one side says no.

Lives here: resolution, cascade, compensation, the unavailable store. Never: one bucket's write (commit).
"""

from collections.abc import Iterable, Sequence

from ..exceptions import InfrastructureNotFoundError, RateLimiterUnavailable, RateLimitExceeded, ValidationError
from ..limits import OnUnavailable
from ..operations.errors import StoreError, TableMissing
from ..resolution import Config, Resolved
from .frames import Ordinary
from .lane import Entry, Ticket
from .load import resolve, shadow_of
from .pairs import create_pair
from .scope import Scope, Shadow
from .sides import Grant, Request, Side
from .statuses import statuses_before
from .steps import Flow, Parallel, Queued

ROUNDS = 4


def acquire(scope: Scope, request: Request) -> Flow[Grant]:
    """Take the amounts of every limit, or nothing.

    Raises ``RateLimitExceeded``, ``ValidationError``, and ``RateLimiterUnavailable`` where the store is away and
    ``on_unavailable`` says ``block``.
    """
    try:
        for _ in range(ROUNDS):
            sides = _known_sides(scope, request) or (yield from _sides(scope, request))
            if len(sides) == 1 and not sides[0].stale and not sides[0].shadow.lane.busy:
                yield Queued(sides[0].enter())
            else:
                yield from _take_with_others(scope, sides)
            if _all_admitted(sides) or (yield from _conclude(scope, sides)):
                return Grant(request, sides)
    except StoreError as error:
        if policy(scope, request.on_unavailable) == "allow":
            return Grant(request, (), error)
        raise unavailable(scope, error) from error
    raise RateLimiterUnavailable(
        f"the limits of {request.entity_id}/{request.resource} changed during {ROUNDS} attempts"
    )


def policy(scope: Scope, asked: OnUnavailable | None) -> OnUnavailable:
    """What to do without the store: what the call says, else the system config read last, else the repository."""
    return asked or scope.configs.on_unavailable or scope.settings.on_unavailable


def unavailable(scope: Scope, error: StoreError) -> InfrastructureNotFoundError | RateLimiterUnavailable:
    """The exception that a user sees for a store that did not answer."""
    if isinstance(error, TableMissing):
        return InfrastructureNotFoundError(scope.stack)
    return RateLimiterUnavailable(f"{error}" if error.__cause__ is None else f"{error.__cause__}")


def find_sides(scope: Scope, request: Request) -> Flow[list[Side]]:
    """The buckets to ask, with the limits that hold for each. Raises ``ValidationError`` where there are none."""
    return _known_sides(scope, request) or (yield from _sides(scope, request))


def _known_sides(scope: Scope, request: Request) -> list[Side] | None:
    """The common case: everything is known and fresh, and there is no parent to ask."""
    shadow = scope.shadows.get((request.entity_id, request.resource, 0))
    if shadow is None or not shadow.known:
        return None
    resolved = scope.fresh(shadow)
    if resolved is None or (resolved.parent_id is not None and (resolved.cascade or request.cascade)):
        return None
    return _with_amounts(request, [_side(scope, request, shadow, resolved)])


def _sides(scope: Scope, request: Request) -> Flow[list[Side]]:
    """The entity's side and its parent's, read where this process knows nothing of them."""
    sides = [(yield from _approach(scope, request, request.entity_id))]
    resolved = sides[0].resolved
    if resolved.parent_id is not None and (resolved.cascade or request.cascade):
        sides.append((yield from _approach(scope, request, resolved.parent_id)))
    return _with_amounts(request, sides)


def _approach(scope: Scope, request: Request, entity_id: str) -> Flow[Side]:
    shadow = shadow_of(scope, entity_id, request.resource)
    expired = scope.expired(shadow) if shadow.known else None
    if expired is not None and scope.now() > expired.valid_until_ms:
        return _side(scope, request, shadow, expired, stale=True)
    resolved = yield from resolve(scope, shadow, bucket_too=True)
    return _side(scope, request, shadow, resolved)


def _side(scope: Scope, request: Request, shadow: Shadow, resolved: Resolved, *, stale: bool = False) -> Side:
    config = resolved.config
    if request.limits:
        config = Config(request.limits, scope.now())
    elif not config.limits and request.default_limits:
        config = Config(request.default_limits, config.read_at_ms)
    return Side(shadow, resolved, config, request.amounts, stale)


def _with_amounts(request: Request, sides: list[Side]) -> list[Side]:
    """Each side with the amounts of its own limits. Raises ``ValidationError`` for one that none of them limits."""
    amounts = request.amounts.keys()
    if len(sides) == 1 and sides[0].config.limits and amounts <= sides[0].config.by_name.keys():
        return sides
    for side in sides:
        if not side.config.limits:
            bucket = side.shadow.id
            problem = (
                "no level has limits for it: set_limits, set_resource_defaults, set_system_defaults, or pass limits="
            )
            raise ValidationError("limits", f"{bucket.entity_id}/{bucket.resource}", problem)
        side.amounts = {name: amount for name, amount in request.amounts.items() if name in side.config.by_name}
    for name in amounts - {known for side in sides for known in side.amounts}:
        there = ", ".join(sorted({known for side in sides for known in side.config.by_name}))
        raise ValidationError("consume", name, f"no such limit on {request.resource}: there are {there}")
    return [side for side in sides if side.amounts] or sides[:1]


def _take_with_others(scope: Scope, sides: list[Side]) -> Flow[None]:
    """Take where others are at it, where there is a parent, or where the config's time has come."""
    if any(rules_out(scope, side) for side in sides):
        raise RateLimitExceeded(statuses_before(sides, scope.now()))
    if len(sides) == 2 and all(side.shadow.view is None and not side.stale for side in sides):
        yield from create_pair(scope, sides[0], sides[1])
    else:
        yield from _take_beside_refresh(sides)


def rules_out(scope: Scope, side: Side) -> bool:
    """Whether the last seen state is fresh, and says that the amounts are not there."""
    shadow, now = side.shadow, scope.now()
    if shadow.view is None or side.stale or now - shadow.seen_at_ms >= scope.settings.staleness_ms:
        return False
    if not shadow.agrees_with(side.config):
        return False
    room = Ordinary(shadow, shadow.view, now, 0, None, frozenset()).room
    return any(amount > room[name] for name, amount in side.amounts.items())


def _take_beside_refresh(sides: list[Side]) -> Flow[None]:
    """All sides at once; a config whose time has come is read beside the write."""
    tickets: list[Ticket] = [side.enter() for side in sides]
    tickets += [Ticket(side.shadow.loading) for side in sides if side.stale]
    yield from queue(tickets)


def _all_admitted(sides: list[Side]) -> bool:
    return not any(side.stale or not side.entries[-1].admitted for side in sides)


def _conclude(scope: Scope, sides: list[Side]) -> Flow[bool]:
    """Whether the sides stand after all; else take back what was taken, and say why it was."""
    outcomes = [side.last.outcome for side in sides if side.last is not None and side.last.outcome is not None]
    verdicts = [outcome.verdict for outcome in outcomes]
    changed = any(side.stale and _changed(side) for side in sides)
    if not changed and verdicts.count("admitted") == len(sides):
        return True
    yield from take_back([side.last for side in sides if side.last is not None], events=-1)
    if "outdated" in verdicts:
        for side in sides:
            yield from resolve(scope, side.shadow, bucket_too=True)
        return False
    if changed:
        return False
    if "failed" in verdicts:
        raise next(outcome.error for outcome in outcomes if outcome.error is not None)
    raise RateLimitExceeded(statuses_before(sides, scope.now()))


def _changed(side: Side) -> bool:
    now = side.shadow.resolved
    return now is not None and not now.agrees_with(side.resolved)


def take_back(entries: Iterable[Entry], *, events: int) -> Flow[None]:
    """Give back what the entries took, each to its bucket; an entry of which nothing stands is passed over."""
    given = [entry.give_back(events=events) for entry in entries if entry.admitted]
    yield from queue([entry for entry in given if entry.given])


def queue(tickets: Sequence[Ticket]) -> Flow[None]:
    """Have the tickets settled, all at once."""
    if len(tickets) == 1:
        yield Queued(tickets[0])
    elif tickets:
        yield Parallel(tuple(Queued(ticket) for ticket in tickets))
