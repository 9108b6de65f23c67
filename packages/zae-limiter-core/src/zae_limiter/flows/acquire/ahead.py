"""Admit by the tokens that this process holds ahead: without a request, a flow or a task.

The way of every other acquire is ``acquire``. Both have the same outcome.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ...schema.items import BucketState
from ...values.resolution import Resolved
from ..bucket.serving import hold_ahead
from ..bucket_queue import BucketRequest, Outcome, Renewal, Waiter
from ..hold import Hold
from ..process.namespace_state import CachedBucket, NamespaceState
from .acquire import known_claims
from .claims import Claim, Grant, config_of
from .path import Path, parents_to_ask
from .requests import AcquireRequest
from .shard_selection import choose_shard


class Part(NamedTuple):
    """One bucket that an acquire draws on, with what this process holds of it, and its shard 0 as seen by then."""

    home: CachedBucket
    hold: Hold
    resolved: Resolved
    state: BucketState | None
    path: tuple[str, ...] = ()


class HeldGrant(Grant):
    """The tokens of an acquire that was served by holds. Few leases need the claims, so they are made on demand."""

    def __init__(self, request: AcquireRequest, parts: Sequence[Part], at_ms: int) -> None:
        super().__init__(request, ())
        self._parts = parts
        self._at_ms = at_ms

    @property
    def claims(self) -> Sequence[Claim]:
        """The claims, as if each had been served by a write."""
        with self.lock:
            if not self._claims:
                self._claims = [self._claim(place, part) for place, part in enumerate(self._parts)]
            return self._claims

    def _claim(self, place: int, part: Part) -> Claim:
        home, hold, resolved, state, path = part
        config = config_of(self.request, resolved, hold.now)
        claim = Claim(home, home, resolved, config, _amounts(self.request, part), path=path, place=place)
        claim.default_limits = self.request.default_limits
        claim.limited = {name for each in self._parts for name in each.resolved.config.by_name}
        claim.enter().outcome = Outcome("admitted", state, self._at_ms)
        return claim


def grant_ahead(
    namespace_state: NamespaceState, request: AcquireRequest, post: Callable[[Waiter], object]
) -> Grant | None:
    """Return the grant of an acquire if this process holds all that it asks for, of every bucket of its path.

    ``post`` puts a request into its queue, which takes the next tokens ahead in good time.
    """
    home = namespace_state.cached_buckets.get((request.entity_id, request.resource, 0))
    if home is None or (hold := home.queue.hold) is None or request.limits or request.shadow:
        return None
    now_ms = hold.now()
    if request.also:
        return _grant_with_draws(namespace_state, request, now_ms, post)
    part = _part(namespace_state, home, hold, now_ms)
    if part is None:
        return None
    resolved, parts = part.resolved, [part]
    if resolved.parent_ids and parents_to_ask(request, request.entity_id, resolved):
        parts = _path(namespace_state, request, now_ms)
        if not parts or not _move_all([(each, _amounts(request, each)) for each in parts], now_ms, post):
            return None
    elif not hold.move(request.amounts, now_ms):  # a limit that the bucket lacks is not held
        return None
    namespace_state.configs.hits += len(parts)
    for each in parts:
        if each.hold.due:
            _renew(namespace_state, each, now_ms, post)
    return HeldGrant(request, parts, now_ms)


def _grant_with_draws(
    namespace_state: NamespaceState, request: AcquireRequest, now_ms: int, post: Callable[[Waiter], object]
) -> Grant | None:
    """Do the same for a call with draws."""
    claims = known_claims(namespace_state, request) or ()
    holding = [(claim, hold) for claim in claims if (hold := claim.cached.queue.hold) is not None]
    parts = [_part(namespace_state, claim.cached, hold, now_ms) for claim, hold in holding]
    known = [part for part in parts if part is not None]
    if not claims or len(known) < len(claims) or any(claim.unlimited for claim in claims):
        return None
    if not _move_all([(part, claim.amounts) for part, claim in zip(known, claims, strict=True)], now_ms, post):
        return None
    namespace_state.configs.hits += len(claims)
    for claim in claims:
        claim.enter().outcome = Outcome("admitted", claim.target.state, now_ms)
    for part in known:
        if part.hold.due:
            _renew(namespace_state, part, now_ms, post)
    return Grant(request, claims)


def _part(namespace_state: NamespaceState, home: CachedBucket, hold: Hold, now_ms: int) -> Part | None:
    """Return the part of a bucket whose limits are known and fresh; ``None`` if nothing is held by them, or if callers
    wait for it.
    """
    resolved = home.resolved
    if resolved is None or resolved.generation != namespace_state.configs.generation or home.line:
        return None
    limits = resolved.config.limits
    if limits is not hold.limits and limits != hold.limits:
        return None
    if not 0 <= resolved.valid_until_ms - now_ms <= namespace_state.settings.config_ttl_ms:
        return None
    return Part(home, hold, resolved, home.state)


def _path(namespace_state: NamespaceState, request: AcquireRequest, now_ms: int) -> list[Part]:
    """Return the parts of the acquire's path; none if something of it is not held."""
    path, parts = Path(request.entity_id), list[Part]()
    for entity_id in path.order:
        home = namespace_state.cached_buckets.get((entity_id, request.resource, 0))
        if home is None or (hold := home.queue.hold) is None:
            return []
        part = _part(namespace_state, home, hold, now_ms)
        if part is None:
            return []
        parts.append(part._replace(path=path.to[entity_id]))
        path.rise(entity_id, parents_to_ask(request, entity_id, part.resolved))
    known = {name for part in parts for name in part.resolved.config.by_name}
    return parts if request.amounts.keys() <= known else []


def _move_all(parts: Sequence[tuple[Part, Mapping[str, int]]], now_ms: int, post: Callable[[Waiter], object]) -> bool:
    """Take amounts from all holds, or from none."""
    for rank, (part, amounts) in enumerate(parts):
        if not part.hold.move(amounts, now_ms, below=1 if rank else 0):
            for place, (taken, given) in enumerate(parts[:rank]):
                _give_back(taken, given, 1 if place else 0, now_ms, post)
            return False
    return True


def _give_back(
    part: Part, amounts: Mapping[str, int], below: int, now_ms: int, post: Callable[[Waiter], object]
) -> None:
    """Give back what a hold gave, and the acquire; to the table, if its block has ended since."""
    back = {name: -amount for name, amount in amounts.items()}
    if part.hold.move(back, now_ms, events=-1, below=-below) or not any(amounts.values()):
        return
    shards = 0 if part.state is None else part.state.shard_count
    given = {name: amount for name, amount in amounts.items() if amount}
    request = BucketRequest(part.home.queue, given=given, events=-1, shards=shards)
    request.below = -below
    post(request)


def _amounts(request: AcquireRequest, part: Part) -> Mapping[str, int]:
    """Return the amounts of the part's own limits, in millitokens."""
    names = part.resolved.config.by_name
    return {name: amount for name, amount in request.amounts.items() if name in names}


def _renew(namespace_state: NamespaceState, part: Part, now_ms: int, post: Callable[[Waiter], object]) -> None:
    """Take the next block before this one runs out, from any shard."""
    part.hold.renews(now_ms)
    shard = choose_shard(namespace_state, part.home)
    hold_ahead(namespace_state, part.home, shard)
    post(Renewal(shard.queue, part.resolved.config))
