"""Admit by the tokens that this process holds ahead: without a request, a flow or a task.

The way of every other acquire is ``acquire``. Both have the same outcome.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ...values.resolution import Resolved
from ..bucket.serving import hold_ahead
from ..bucket_queue import BucketRequest, Outcome, Renewal, Waiter
from ..hold import Hold
from ..process.namespace_state import CachedBucket, NamespaceState
from .claims import Claim, Grant
from .requests import AcquireRequest
from .shard_selection import choose_shard


class Part(NamedTuple):
    """One bucket that an acquire draws on, with what this process holds of it; amounts in millitokens by limit."""

    home: CachedBucket
    hold: Hold
    resolved: Resolved
    amounts: Mapping[str, int]


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
                self._claims = [self._claim(part) for part in self._parts]
            return self._claims

    def _claim(self, part: Part) -> Claim:
        claim = Claim(part.home, part.home, part.resolved, part.resolved.config, part.amounts)
        request: BucketRequest = claim.enter()
        request.outcome = Outcome("admitted", part.hold.state, self._at_ms)
        return claim


def grant_ahead(
    namespace_state: NamespaceState, request: AcquireRequest, post: Callable[[Waiter], object]
) -> HeldGrant | None:
    """Return the grant of an acquire if this process holds all that it asks for, of the child and of the parent.

    ``post`` puts a request into its queue, which takes the next tokens ahead in good time.
    """
    part = _part(namespace_state, request, request.entity_id)
    if part is None:
        return None
    resolved, now_ms = part.resolved, part.hold.now()
    parts, known = [part], part.amounts
    if resolved.parent_id is not None and (resolved.cascade or request.cascade):
        parent = _part(namespace_state, request, resolved.parent_id)
        if parent is None:
            return None
        parts, known = [part, parent], {**known, **parent.amounts}
    if len(known) < len(request.amounts):
        return None
    for rank, each in enumerate(parts):
        if not each.hold.move(each.amounts, now_ms, events=1 if any(each.amounts.values()) else 0):
            for taken in parts[:rank]:
                back = {name: -amount for name, amount in taken.amounts.items()}
                taken.hold.move(back, now_ms, events=-1)
            return None
    namespace_state.configs.hits += len(parts)
    for each in parts:
        if each.hold.due:
            _renew(namespace_state, each, now_ms, post)
    return HeldGrant(request, parts, now_ms)


def _part(namespace_state: NamespaceState, request: AcquireRequest, entity_id: str) -> Part | None:
    """Return the part of a bucket whose limits are known and fresh; ``None`` if nothing is held of it, or if callers
    wait for it.
    """
    home = namespace_state.cached_buckets.get((entity_id, request.resource, 0))
    if home is None or (hold := home.queue.hold) is None or home.line or request.limits or request.shadow:
        return None
    resolved = home.resolved
    if resolved is None or resolved.generation != namespace_state.configs.generation:
        return None
    config = resolved.config
    if namespace_state.has_expired(resolved) or (config.limits is not hold.limits and config.limits != hold.limits):
        return None
    amounts, names = request.amounts, config.by_name
    if not amounts.keys() <= names.keys():
        amounts = {name: amount for name, amount in amounts.items() if name in names}
    return Part(home, hold, resolved, amounts)


def _renew(namespace_state: NamespaceState, part: Part, now_ms: int, post: Callable[[Waiter], object]) -> None:
    """Take the next block before this one runs out, from any shard."""
    part.hold.renews(now_ms)
    shard = choose_shard(namespace_state, part.home)
    hold_ahead(namespace_state, part.home, shard)
    post(Renewal(shard.queue, part.resolved.config))
