"""Admit by the tokens that this process holds ahead: without a request, a flow or a task.

The way of every other acquire is ``acquire``. Both have the same outcome.
"""

from collections.abc import Callable, Mapping, Sequence

from ...schema.items import BucketState
from ...values.resolution import Resolved
from ..bucket.serving import hold_ahead
from ..bucket_queue import BucketRequest, Outcome, Waiter, renewal
from ..hold import Hold
from ..process.namespace_state import CachedBucket, NamespaceState
from .acquire import known_claims
from .claims import Claim, Grant, config_of
from .path import Path, parents_to_ask
from .requests import AcquireRequest
from .shard_selection import choose_shard

Part = tuple[CachedBucket, Resolved, BucketState | None, tuple[str, ...]]
"""A bucket that an acquire draws on, with its limits, its shard 0 and the way to it as they were then."""


class HeldGrant(Grant):
    """The tokens of an acquire that was served by holds. Few leases need the claims, so they are made on demand."""

    parts: Sequence[Part] = ()
    at_ms = 0

    @property
    def claims(self) -> Sequence[Claim]:
        """The claims, as if each had been served by a write."""
        with self.lock:
            if not self._claims:
                self._claims = [self._claim(place, *part) for place, part in enumerate(self.parts)]
            return self._claims

    def _claim(
        self, place: int, home: CachedBucket, resolved: Resolved, state: BucketState | None, path: tuple[str, ...]
    ) -> Claim:
        config = config_of(self.request, resolved, lambda: self.at_ms)
        claim = Claim(home, home, resolved, config, _amounts(self.request, resolved), path=path, place=place)
        claim.default_limits = self.request.default_limits
        claim.limited = {name for _, known, *_ in self.parts for name in known.config.by_name}
        claim.enter().outcome = Outcome("admitted", state, self.at_ms)
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
    resolved = home.resolved
    if resolved is None or not _is_of(namespace_state, home, hold, resolved, now_ms):
        return None
    parts: list[Part] = [(home, resolved, home.state, ())]
    if resolved.parent_ids and parents_to_ask(request, request.entity_id, resolved):
        parts = _path(namespace_state, request, now_ms)
        amounts = [(home, _amounts(request, resolved)) for home, resolved, *_ in parts]
        if not parts or not _move_all(amounts, now_ms, post):
            return None
    elif not hold.move(request.amounts, now_ms):  # a limit that the bucket lacks is not held
        return None
    for home, resolved, *_ in parts:
        namespace_state.configs.hits += 1
        if (hold := home.queue.hold) is not None and hold.due:
            _renew(namespace_state, home, hold, resolved, post)
    grant = HeldGrant(request, ())
    grant.parts, grant.at_ms = parts, now_ms
    return grant


def _grant_with_draws(
    namespace_state: NamespaceState, request: AcquireRequest, now_ms: int, post: Callable[[Waiter], object]
) -> Grant | None:
    """Do the same for a call with draws."""
    claims = known_claims(namespace_state, request) or ()
    for claim in claims:
        home, hold = claim.cached, claim.cached.queue.hold
        if claim.unlimited or hold is None or home.resolved is None:
            return None
        if not _is_of(namespace_state, home, hold, home.resolved, now_ms):
            return None
    if not claims or not _move_all([(claim.cached, claim.amounts) for claim in claims], now_ms, post):
        return None
    for claim in claims:
        namespace_state.configs.hits += 1
        claim.enter().outcome = Outcome("admitted", claim.target.state, now_ms)
        if (hold := claim.cached.queue.hold) is not None and hold.due:
            _renew(namespace_state, claim.cached, hold, claim.resolved, post)
    return Grant(request, claims)


def _is_of(namespace_state: NamespaceState, home: CachedBucket, hold: Hold, resolved: Resolved, now_ms: int) -> bool:
    """Return whether a bucket is held by these limits, which are fresh, and nobody waits for it."""
    if resolved.generation != namespace_state.configs.generation or home.line:
        return False
    limits = resolved.config.limits
    if limits is not hold.terms.limits and limits != hold.terms.limits:
        return False
    return 0 <= resolved.valid_until_ms - now_ms <= namespace_state.settings.config_ttl_ms


def _path(namespace_state: NamespaceState, request: AcquireRequest, now_ms: int) -> list[Part]:
    """Return the parts of the acquire's path; none if something of it is not held."""
    path, parts, known = Path(request.entity_id), list[Part](), set[str]()
    for entity_id in path.order:
        home = namespace_state.cached_buckets.get((entity_id, request.resource, 0))
        if home is None or (hold := home.queue.hold) is None or (resolved := home.resolved) is None:
            return []
        if not _is_of(namespace_state, home, hold, resolved, now_ms):
            return []
        parts.append((home, resolved, home.state, path.to[entity_id]))
        known.update(resolved.config.by_name)
        path.rise(entity_id, parents_to_ask(request, entity_id, resolved))
    return parts if request.amounts.keys() <= known else []


def _move_all(
    asked: Sequence[tuple[CachedBucket, Mapping[str, int]]], now_ms: int, post: Callable[[Waiter], object]
) -> bool:
    """Take amounts from all holds, or from none: what one gave before another had too little goes back to it, and to
    the table, if its block has ended since.
    """
    for place, (home, amounts) in enumerate(asked):
        hold = home.queue.hold
        if hold is not None and hold.move(amounts, now_ms, below=1 if place else 0):
            continue
        for before, (giver, taken) in enumerate(asked[:place]):
            back, below = {name: -amount for name, amount in taken.items()}, -1 if before else 0
            of_giver, given = giver.queue.hold, {name: amount for name, amount in taken.items() if amount}
            if (of_giver is None or not of_giver.move(back, now_ms, events=-1, below=below)) and given:
                shards = 0 if giver.state is None else giver.state.shard_count
                request = BucketRequest(giver.queue, given=given, events=-1, shards=shards)
                request.below = below
                post(request)
        return False
    return True


def _amounts(request: AcquireRequest, resolved: Resolved) -> Mapping[str, int]:
    """Return the amounts of the limits of a bucket, in millitokens."""
    return {name: amount for name, amount in request.amounts.items() if name in resolved.config.by_name}


def _renew(
    namespace_state: NamespaceState,
    home: CachedBucket,
    hold: Hold,
    resolved: Resolved,
    post: Callable[[Waiter], object],
) -> None:
    """Take the next block before this one runs out, from any shard."""
    hold.renews(hold.now())
    shard = choose_shard(namespace_state, home)
    hold_ahead(namespace_state, home, shard)
    post(renewal(shard.queue, resolved.config, "renew"))
