"""Acquire: who is asked, in which order, and what happens when one side says no.

Lives here: resolution, cascade, compensation, the unavailable store. Never: one bucket's write (commit).
"""

from collections.abc import Iterable, Sequence

from ..exceptions import InfrastructureNotFoundError, RateLimiterUnavailable, RateLimitExceeded, ValidationError
from ..limits import OnUnavailable
from ..operations.errors import StoreError, TableMissing
from ..resolution import Config, Resolved
from .commit import RaceLost
from .frames import Ordinary
from .lane import Entry, Lane, Ticket
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
            sides = _known_sides(scope, request) or _expired_sides(scope, request)
            if sides is None:
                sides = yield from find_sides(scope, request)
            side = sides[0]
            if len(sides) == 1 and not side.stale and not side.shadow.lane.busy:
                entry = side.enter()
                yield Queued(entry)
                admitted = entry.admitted
            else:
                yield from _take_with_others(scope, sides)
                admitted = _all_admitted(sides)
            if admitted or (yield from _conclude(scope, sides)):
                return Grant(request, sides)
        raise RaceLost(f"the limits of {request.entity_id}/{request.resource} changed during {ROUNDS} attempts")
    except StoreError as error:
        if policy(scope, request.on_unavailable) == "allow":
            return Grant(request, (), error)
        raise unavailable(scope, error) from error


def policy(scope: Scope, asked: OnUnavailable | None) -> OnUnavailable:
    """What to do without the store: what the call says, else the system config read last, else the repository."""
    return asked or scope.configs.on_unavailable or scope.settings.on_unavailable


def unavailable(scope: Scope, error: StoreError) -> InfrastructureNotFoundError | RateLimiterUnavailable:
    """The exception that a user sees for a store that did not answer."""
    if isinstance(error, TableMissing):
        return InfrastructureNotFoundError(scope.stack)
    return RateLimiterUnavailable(str(error) or type(error.__cause__ or error).__name__)


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
        sides.append(_side(scope, request, shadow, resolved, stale=scope.now() > resolved.valid_until_ms))
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
        config = Config(request.limits, scope.now(), own=config.own)
        if shadow.view is not None:  # given now, whatever another process's clock said of the bucket's limits
            config = config.read_again_after(shadow.view.item["cv"])
    elif not config.limits and request.default_limits:
        config = Config(request.default_limits, config.read_at_ms)
    return Side(shadow, resolved, config, request.amounts, stale)


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
    for side in sides:
        side.seen = side.shadow.view
    if any(_rules_out(scope, side, now) for side in sides):
        raise RateLimitExceeded(statuses_before(sides, now))


def _rules_out(scope: Scope, side: Side, now_ms: int) -> bool:
    shadow, view = side.shadow, side.seen
    if view is None or side.stale or now_ms - shadow.seen_at_ms >= scope.settings.staleness_ms:
        return False
    if any(name not in view.shapes or view.shapes[name].limit != limit for name, limit in side.config.by_name.items()):
        return False
    room = Ordinary(shadow, view, now_ms, 0, None, frozenset()).room
    return any(amount > room[name] for name, amount in side.amounts.items())


def _take_beside_refresh(sides: list[Side]) -> Flow[None]:
    """All sides at once; a config whose time has come is read beside the write."""
    tickets: list[Ticket] = [side.enter() for side in sides if side.amounts]
    tickets += [Ticket(side.shadow.loading) for side in sides if side.stale]
    yield from queue(tickets)


def _all_admitted(sides: list[Side]) -> bool:
    return not any(side.stale or (side.entries and not side.entries[-1].admitted) for side in sides)


def _conclude(scope: Scope, sides: list[Side]) -> Flow[bool]:
    """Whether the sides stand after all; else take back what was taken, and say why it was."""
    entries = [side.last for side in sides if side.last is not None]
    outcomes = [entry.outcome for entry in entries if entry.outcome is not None]
    verdicts = [outcome.verdict for outcome in outcomes]
    changed = any(side.stale and _changed(side) for side in sides)
    if not changed and verdicts.count("admitted") == len(entries):
        return True
    yield from take_back(entries, events=-1)
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
    """Give back what the entries took, in one write a bucket; an entry of which nothing stands is passed over."""
    given: dict[Lane, Entry] = {}
    for entry in entries:
        if entry.admitted and any(entry.checked.values()):
            back = entry.give_back(events=events)
            given[back.lane] = given[back.lane].merged(back) if back.lane in given else back
    yield from queue(list(given.values()))


def queue(tickets: Sequence[Ticket]) -> Flow[None]:
    """Have the tickets settled, all at once."""
    if len(tickets) == 1:
        yield Queued(tickets[0])
    elif tickets:
        yield Parallel(tuple(Queued(ticket) for ticket in tickets))
