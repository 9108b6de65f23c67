"""Choose the shards that an acquire asks: one at random, others if it is short, then many at once.

``group_commit`` writes a shard, ``splitting`` splits it.
"""

from collections.abc import Mapping, Sequence

from ...operations.errors import StoreError
from ...operations.values import NOTHING
from ...rules.sharding import Amounts
from ...schema.attributes import SHARD_COUNT
from ...schema.items import BucketState
from ..bucket.reading import read_whole
from ..bucket.serving import cached_bucket
from ..bucket.shifting import all_shifted
from ..bucket.view import View
from ..process.namespace_state import CachedBucket, NamespaceState
from ..process.queueing import queue
from ..steps import Flow
from .claims import Claim, Seen
from .copies import cached_shards, fresh_shard

ELSEWHERE = 2
ROUNDS = 4


def choose_shard(
    namespace_state: NamespaceState, home: CachedBucket, amounts: Mapping[str, int] = NOTHING
) -> CachedBucket:
    """Return the shard that an acquire asks first, chosen at random; shard 0 if it needs slots, which are all there."""
    state = home.state
    if state is None or state.item[SHARD_COUNT] == 1 or not state.slots.isdisjoint(amounts):
        return home
    return shard_of(namespace_state, home, namespace_state.pick(state.shard_count))


def try_other_shards(namespace_state: NamespaceState, claims: Sequence[Claim]) -> Flow[None]:
    """Ask other shards for the claims whose first shard was short, then all shards together."""
    if not (short := _short(claims)):
        return
    tried = {id(claim): {claim.target.id.shard} for claim in claims}
    while short:
        again = [claim for claim in short if _go_elsewhere(namespace_state, claim, tried[id(claim)])]
        if not again:
            break
        yield from queue([claim.enter() for claim in again])
        short = _short(claims)
    for claim in short:
        try:
            yield from _take_from_many(namespace_state, claim)
        except StoreError as error:
            claim.error = error


def read_shards(namespace_state: NamespaceState, claim: Claim) -> Flow[Sequence[BucketState]]:
    """Return all shards of the bucket under the values that hold now: the copies if all are fresh, else what the store
    has, repaired. This process keeps what it has read, also of shards that it has not asked yet.
    """
    begun = namespace_state.now()
    states = cached_shards(namespace_state, claim, begun)
    if not states and claim.turn is not None:
        # a crowd uses copies of any age: it asks again, and must not read them one by one
        known = namespace_state.repaired_states(claim.cached, begun)
        states = known if len(known) == claim.cached.shard_count else ()
    if states:
        return all_shifted(states, claim.config, begun)
    [states] = yield from read_whole([claim.cached.id])
    if not states:
        namespace_state.learn_beside(claim.cached.id, None, begun)
    for state in states:
        shard_of(namespace_state, claim.cached, state.id.shard)
        namespace_state.learn_beside(state.id, state.item, begun)
    return all_shifted([state.repaired(begun) for state in states], claim.config, begun)


def _short(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims that other shards may help. Return none if one claim cannot be helped."""
    short = [claim for claim in claims if not claim.admitted]
    return short if all(claim.refused and claim.is_split for claim in short) else []


def _go_elsewhere(namespace_state: NamespaceState, claim: Claim, tried: set[int]) -> bool:
    """Choose another shard, at random, that is not known to be short; return ``False`` if there is none.

    At most two others are tried; all of them if the amounts are 0, which any shard without a debt admits.
    """
    if len(tried) > ELSEWHERE and any(claim.checked.values()):
        return False
    others = [shard for shard in range(claim.cached.shard_count) if shard not in tried]
    hopeful = [shard for shard in others if not _is_short(namespace_state, claim, shard)]
    if not hopeful:
        return False
    shard = hopeful[namespace_state.pick(len(hopeful))]
    tried.add(shard)
    claim.target = shard_of(namespace_state, claim.cached, shard)
    return True


def _is_short(namespace_state: NamespaceState, claim: Claim, shard: int) -> bool:
    """Return whether the shard is known to lack the requested tokens."""
    now = namespace_state.now()
    state = fresh_shard(namespace_state, claim, shard, now)
    return state is not None and not View((state,), claim.config, now).fits(claim.checked)


def _take_from_many(namespace_state: NamespaceState, claim: Claim) -> Flow[None]:
    """Serve a request from several shards. Keep what some of them gave while asking others for the rest."""
    for _ in range(ROUNDS):
        states = yield from read_shards(namespace_state, claim)
        now = namespace_state.now()
        parts = View(states, claim.config, now).divided(claim.missing)
        if parts is None and not any(request.admitted for request in claim.last):
            claim.seen = Seen(states, now) if states else None
        if not parts:
            return
        yield from take_parts(namespace_state, claim, parts)
        if claim.admitted or not claim.refused:
            return


def take_parts(namespace_state: NamespaceState, claim: Claim, parts: Mapping[int, Amounts]) -> Flow[None]:
    """Ask each of these shards for its part of what is missing."""
    yield from queue(
        claim.enter_many((shard_of(namespace_state, claim.cached, shard), part) for shard, part in parts.items())
    )


def shard_of(namespace_state: NamespaceState, home: CachedBucket, shard: int) -> CachedBucket:
    """Return a shard of the bucket whose shard 0 is ``home``, even one that this process has not seen."""
    return cached_bucket(namespace_state, home.id.entity_id, home.id.resource, shard=shard)
