"""Admit by the tokens that this process holds ahead: without a request, a flow or a task.

The way of every other acquire is ``acquire``. Both have the same outcome.
"""

from collections.abc import Callable, Mapping, Sequence

from ...exceptions import ValidationError
from ...schema.items import BucketState
from ...values.resolution import Resolved
from .. import acquire as acquiring
from ..bucket.serving import hold_ahead
from ..bucket_queue import BucketRequest, Outcome, Waiter, renewal
from ..hold import Hold
from ..process.namespace_state import CachedShard, NamespaceState
from ..tally import Tally
from .claims import Claim, Grant
from .path import Known, Place, join, parents_to_ask, walk
from .requests import AcquireRequest

Part = tuple[CachedShard, Resolved, BucketState | None]
"""A bucket that an acquire draws on, with its limits and its shard 0 as they were then."""


class HeldGrant(Grant):
    """The tokens of an acquire that was served by holds. Few leases need the claims, so they are made on demand."""

    parts: Mapping[Place, Part] = {}
    at_ms = 0

    @property
    def claims(self) -> Sequence[Claim]:
        """The claims, as if each had been served by a write."""
        with self.lock:
            if not self._claims:
                claims, _ = walk(self.request, lambda *place: (*self.parts[place][:2], False), lambda: self.at_ms)
                self._claims = join(self.request, claims)
                for claim in self._claims:
                    _, _, state = self.parts[claim.bucket.entity_id, claim.bucket.resource]
                    claim.new_request().outcome = Outcome("admitted", state, self.at_ms)
            return self._claims


def grant_ahead(
    namespace_state: NamespaceState, request: AcquireRequest, post: Callable[[Waiter], object]
) -> Grant | None:
    """Return the grant of an acquire if this process holds all that it asks for, of every bucket of its path.

    ``post`` puts a request into its queue, which takes the next tokens ahead in good time.
    """
    home = namespace_state.cached_shards.get((request.entity_id, request.resource, 0))
    if home is None or (hold := home.queue.hold) is None or request.limits or request.shadow:
        return None
    now_ms = hold.now()
    resolved = home.resolved
    if resolved is None or not _is_of(namespace_state, home, hold, resolved, now_ms):
        return None
    if request.also or (resolved.parent_ids and parents_to_ask(request, request.entity_id, resolved)):
        return _grant_of_path(namespace_state, request, now_ms, post)
    if not hold.move(request.amounts, now_ms):  # a limit that the bucket lacks is not held
        return None
    namespace_state.configs.hits += 1
    if hold.due:
        _renew(namespace_state, home, hold, resolved, post)
    grant = HeldGrant(request, ())
    grant.parts, grant.at_ms = {(request.entity_id, request.resource): (home, resolved, home.state)}, now_ms
    return grant


def _grant_of_path(
    namespace_state: NamespaceState, request: AcquireRequest, now_ms: int, post: Callable[[Waiter], object]
) -> Grant | None:
    """Do the same for an acquire that draws on several buckets."""
    parts: dict[Place, Part] = {}

    def look(entity_id: str, resource: str) -> Known | None:
        home = namespace_state.cached_shards.get((entity_id, resource, 0))
        if home is None or (hold := home.queue.hold) is None or (resolved := home.resolved) is None:
            return None
        if not _is_of(namespace_state, home, hold, resolved, now_ms):
            return None
        parts[entity_id, resource] = home, resolved, home.state
        return home, resolved, False

    claims, gap = walk(request, look, lambda: now_ms)
    if gap is not None:
        return None
    try:
        claims = join(request, claims)
    except ValidationError:  # the way of every other acquire finds out whether that still holds
        return None
    if any(claim.unlimited for claim in claims) or not _move_all(claims, now_ms, post):
        return None
    for claim in claims:
        namespace_state.configs.hits += 1
        if (hold := claim.home.queue.hold) is not None and hold.due:
            _renew(namespace_state, claim.home, hold, claim.resolved, post)
    if request.also:
        for claim in claims:
            claim.new_request().outcome = Outcome("admitted", claim.home.state, now_ms)
        return Grant(request, claims)
    grant = HeldGrant(request, ())
    grant.parts, grant.at_ms = parts, now_ms
    return grant


def _is_of(namespace_state: NamespaceState, home: CachedShard, hold: Hold, resolved: Resolved, now_ms: int) -> bool:
    """Return whether a bucket is held by these limits, which are fresh, and nobody waits for it."""
    if resolved.generation != namespace_state.configs.generation or home.line:
        return False
    limits = resolved.config.limits
    if limits is not hold.terms.limits and limits != hold.terms.limits:
        return False
    return 0 <= resolved.valid_until_ms - now_ms <= namespace_state.settings.config_ttl_ms


def _move_all(claims: Sequence[Claim], now_ms: int, post: Callable[[Waiter], object]) -> bool:
    """Take the amounts of all claims from their holds, or nothing: what one gave before another had too little goes
    back to it, and to the table, if its block has ended since.
    """
    for rank, claim in enumerate(claims):
        hold = claim.home.queue.hold
        if hold is not None and hold.move(claim.amounts, now_ms, below=1 if claim.place else 0):
            continue
        for before in claims[:rank]:
            giver, below = before.home, -1 if before.place else 0
            back = {name: -amount for name, amount in before.amounts.items()}
            of_giver, given = giver.queue.hold, {name: amount for name, amount in before.amounts.items() if amount}
            if (of_giver is None or not of_giver.move(back, now_ms, events=-1, below=below)) and given:
                shards = 0 if giver.state is None else giver.state.shard_count
                post(BucketRequest(giver.queue, given=given, counts=Tally(events=-1, below=below), shards=shards))
        return False
    return True


def _renew(
    namespace_state: NamespaceState,
    home: CachedShard,
    hold: Hold,
    resolved: Resolved,
    post: Callable[[Waiter], object],
) -> None:
    """Take the next block before this one runs out, from any shard."""
    hold.renews(hold.now())
    shard = acquiring.taking.choose_shard(namespace_state, home)
    hold_ahead(namespace_state, home, shard)
    post(renewal(shard.queue, resolved.config, "renew"))
