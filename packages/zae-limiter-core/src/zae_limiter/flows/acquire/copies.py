"""What this process has seen of the buckets of a call, and refusals by it, which cost no request.

A copy of a bucket refuses for ``staleness_ms`` as well as an answer does. Two things may make it wrong: amounts that
calls under way give back, and limits newer than those of the call. So what comes back counts as there, and the store is
asked where the copies cannot show every bucket of the call under its limits.
"""

from collections.abc import Mapping, Sequence

from ...operations.values import NOTHING, sums
from ...schema.attributes import SHARD_COUNT
from ...schema.items import BucketState
from ..bucket.view import View
from ..process.namespace_state import NamespaceState
from .claims import Claim
from .outdated import may_refuse
from .requests import AcquireRequest
from .statuses import refusal_of


def refuse_by_copies(namespace_state: NamespaceState, request: AcquireRequest, claims: Sequence[Claim]) -> None:
    """Raise ``RateLimitExceeded`` if fresh copies of a claim's shards show that the tokens are not there.

    The refusal shows every claim, so this process must know each of them well enough.
    """
    now = namespace_state.now()
    short = {rank: names for rank, claim in enumerate(claims) if (names := _short_of(namespace_state, claim, now))}
    if not short:
        return
    shown: list[View] = []
    for rank, claim in enumerate(claims):
        view = View(namespace_state.states(claim.home), claim.config, now)
        if not _is_presentable(namespace_state, claim, view, is_short=rank in short):
            for each in short:
                claims[each].target.short_ms = now
            return
        shown.append(view)
    for claim, seen in zip(claims, shown, strict=True):
        claim.decided_by_view = seen
    raise refusal_of(request, claims, now, short_of=short[0] if 0 in short and len(shown[0].states) == 1 else ())


def _short_of(namespace_state: NamespaceState, claim: Claim, now_ms: int) -> Sequence[str]:
    """Return what the first shard of a claim lacks, if fresh copies of all shards lack the amounts, also with what
    calls under way give back; else nothing.
    """
    state, checked = claim.target.state, claim.checked
    # the shard that is asked first has them, mostly; then no other one matters
    if state is None or not (names := state.short_of(checked, now_ms)):
        return ()
    states = complete_states(namespace_state, claim, now_ms)
    if not states or (len(states) > 1 and View(states, claim.config, now_ms).fits(checked)):
        return ()
    back: Mapping[str, int] = NOTHING
    for shard in namespace_state.shards(claim.home):
        if shard.waiting or shard.busy:
            back = sums(back, shard.coming_back())
    if back:
        less = {name: max(0, amount - back.get(name, 0)) for name, amount in checked.items()}
        if View(states, claim.config, now_ms).fits(less):
            return ()
    return names


def _is_presentable(namespace_state: NamespaceState, claim: Claim, view: View, *, is_short: bool) -> bool:
    """Return whether the limits still hold, the bucket has them, and its balance is not older than limits may be.

    If no bucket exists, no invalidation can have reached this process, so stale limits must not refuse. Nor
    must a bucket that was invalidated since it was seen.
    """
    if claim.stale or not claim.target.is_fresh(view.at_ms, namespace_state.settings.config_ttl_ms):
        return False
    if not view.states:
        limits, checked = claim.config.by_name, claim.checked
        begins = all(name not in limits or limits[name]._initial_milli >= checked[name] for name in checked)
        return begins or may_refuse(namespace_state, claim, (), view.at_ms)
    if not (is_short or fresh_shards(namespace_state, claim, view.at_ms) or view.fits(claim.checked)):
        return False
    return namespace_state.agree(claim.home, claim.config)


def states_to_divide(namespace_state: NamespaceState, claim: Claim, now_ms: int) -> Sequence[BucketState]:
    """Return the states by which a claim is divided among the shards of its bucket; none if they are to be read.

    A crowd uses copies of any age, also a caller that just joined: each asks again, and must not read all shards.
    """
    states = complete_states(namespace_state, claim, now_ms)
    if not states and claim.call.max_wait and claim.home.line:
        known = namespace_state.states(claim.home)
        return known if len(known) == claim.home.shard_count else ()
    return states


def complete_states(namespace_state: NamespaceState, claim: Claim, now_ms: int) -> Sequence[BucketState]:
    """Return the last seen state of every shard; none if one is missing or stale, or does not have all that there is:
    this process holds tokens of the bucket.
    """
    prefetch = claim.home.prefetch
    if prefetch is not None and any(prefetch.left().values()):
        return ()
    return fresh_shards(namespace_state, claim, now_ms)


def fresh_shards(namespace_state: NamespaceState, claim: Claim, now_ms: int) -> Sequence[BucketState]:
    """Return the last seen state of every shard, without what this process holds; none if one is missing or stale."""
    cached, count = claim.home, claim.home.shard_count
    if count == 1:
        only = cached.state  # the claim has it: most calls need no look for it
        if (
            only is None
            or not cached.is_fresh(now_ms, namespace_state.settings.staleness_ms)
            or only.is_in_future(now_ms)
        ):
            only = fresh_shard(namespace_state, claim, 0, now_ms)
        return (only,) if only is not None and only.item[SHARD_COUNT] == 1 else ()
    found = (fresh_shard(namespace_state, claim, shard, now_ms) for shard in range(count))
    states = [state for state in found if state is not None]
    # the bucket may have more shards than the claim's copy says: seen again, or by a shard that was split since
    return states if len(states) == count == max(state.shard_count for state in states) else ()


def fresh_shard(namespace_state: NamespaceState, claim: Claim, shard: int, now_ms: int) -> BucketState | None:
    """Return the last seen state of a shard; ``None`` if it is missing or stale."""
    of = claim.home.id
    cached = namespace_state.cached_shards.get((of.entity_id, of.resource, shard))
    if (
        cached is None
        or cached.is_in_future(now_ms)
        or not cached.is_fresh(now_ms, namespace_state.settings.staleness_ms)
    ):
        return None
    return cached.state
