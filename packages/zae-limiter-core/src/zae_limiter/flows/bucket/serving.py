"""Serve a bucket: run its queue, and read at once all that an acquire needs.

This module says which records to read, and when again; ``resolution`` says which level wins, ``config_cache`` how long
it holds.
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from ...operations.errors import StoreError
from ...schema.attributes import CONFIG_AS_OF
from ...schema.items import BucketId
from ...values.resolution import Config, Resolved
from .. import bucket
from ..bucket_queue import BucketRequest, Outcome, RunQueue, Waiter, renewal
from ..prefetch import Prefetch
from ..process.namespace_state import CachedShard, NamespaceState, Runs
from ..process.queueing import enqueue_and_wait
from ..steps import Enqueue, Flow, Post, Wake
from .group_commit import commit
from .limit_removal import leaving, tidy

READS: Final = 3


def cached_shard(namespace_state: NamespaceState, entity_id: str, resource: str, *, shard: int = 0) -> CachedShard:
    """Return a shard as this process knows it; made if it knows none."""
    cached = namespace_state.cached_shards.get((entity_id, resource, shard))
    if cached is None:
        if (runs := namespace_state.runs) is None:
            namespace_state.runs = runs = Runs(partial(serve, namespace_state), partial(load, namespace_state))
        shard_id = BucketId(namespace_state.namespace_id, entity_id, resource, shard)
        cached = CachedShard(shard_id, runs, spread=namespace_state.spread)
        cached = namespace_state.cached_shards.setdefault((entity_id, resource, shard), cached)
    return cached


def let_prefetch(namespace_state: NamespaceState, home: CachedShard, shard: CachedShard) -> None:
    """Let this process prefetch tokens of a bucket, given by its shard 0: one prefetch serves all shards."""
    if home.prefetch is None:
        home.prefetch = namespace_state.prefetches.of(home.id.entity_id, home.id.resource)
        namespace_state.grants_at_once = True
    shard.prefetch = home.prefetch


def serve(namespace_state: NamespaceState, cached: CachedShard, requests: Sequence[BucketRequest]) -> Flow[None]:
    """Settle every request, and queue the amounts that go back to other shards. It waits for those that were split off
    since, which have higher numbers, and not for one that the shard has merged with: two could wait for each other.

    Afterwards remove a limit that no config names, and split a shard that is written too often, unless the clock is in
    doubt. Settled requests do not wait for this; those behind them do.
    """
    yield from commit(namespace_state, cached, requests)
    parts = requests[0].elsewhere
    if len(requests) > 1:
        parts = [part for request in requests for part in request.elsewhere]
    if parts:
        entity_id, resource = cached.id.entity_id, cached.id.resource
        queues = [cached_shard(namespace_state, entity_id, resource, shard=part.shard) for part in parts]
        entered = [part.request_on(queue) for part, queue in zip(parts, queues, strict=True)]
        for part, request in zip(parts, entered, strict=True):
            if part.shard < cached.id.shard:
                yield Post(request)
        yield from enqueue_and_wait(
            [each for part, each in zip(parts, entered, strict=True) if part.shard > cached.id.shard]
        )
    if cached.id.shard and cached.state is None and cached.prefetch is not None:
        yield from _pass_prefetch_on(namespace_state, cached, cached.prefetch, requests[0].config)
    config = requests[0].config
    names = leaving(namespace_state, cached, config)
    if names and config is not None and requests[0].admitted:
        yield Wake(requests)
        yield from tidy(namespace_state, cached, config, names)
    most = namespace_state.settings.split_above
    if (
        most is not None
        and cached.write_rate.per_second
        and cached.write_rate.exceeds(most, namespace_state.now())
        and not namespace_state.doubted()
    ):
        yield Wake(requests)
        yield from bucket.splitting.split_hot_shard(namespace_state, cached)


def _pass_prefetch_on(
    namespace_state: NamespaceState, gone: CachedShard, prefetch: Prefetch, config: Config | None
) -> Flow[None]:
    """Let shard 0 count what was served by a prefetch: the shard of these requests is gone, because it has merged."""
    home = cached_shard(namespace_state, gone.id.entity_id, gone.id.resource)
    home.prefetch = prefetch
    if prefetch.is_used:
        namespace_state.prefetches.in_use[prefetch] = renewal(home, config, "end")
        yield Post(renewal(home, config, "count"))


def resolve(namespace_state: NamespaceState, cached: CachedShard, *, bucket_too: bool) -> Flow[Resolved]:
    """Return the limits that hold for the entity on the resource: remembered, or read once for all callers that wait
    for them.

    With ``bucket_too`` the read includes the bucket, if this process has not seen it. Raises ``StoreError``.
    """
    fresh, configs = namespace_state.fresh(cached), namespace_state.configs
    configs.hits, configs.misses = configs.hits + (fresh is not None), configs.misses + (fresh is None)
    if fresh is not None and (cached.known or not bucket_too):
        return fresh
    waiter = Waiter(cached.loading)
    yield Enqueue(waiter)
    if waiter.outcome is not None and waiter.outcome.error is not None:
        raise waiter.outcome.error
    assert cached.resolved is not None, "a load that succeeded resolves"
    return cached.resolved


def resolve_all(
    namespace_state: NamespaceState, homes: Sequence[CachedShard], likely: Sequence[CachedShard]
) -> Flow[list[Resolved]]:
    """Return the limits of several entities on their resource, with their buckets. One read has all that is unknown,
    also of the entities that are ``likely`` to be asked next. Raises ``StoreError``.
    """
    unknown = [home for home in homes if not home.known or namespace_state.fresh(home) is None]
    if unknown and len(unknown) + len(likely) > 1:
        first, *others = unknown
        waiter = LoadingTogether(first.loading, [*others, *likely])
        yield Enqueue(waiter)
        if waiter.outcome is not None and waiter.outcome.error is not None:
            raise waiter.outcome.error
    found = []
    for home in homes:
        resolved = yield from resolve(namespace_state, home, bucket_too=True)
        found.append(resolved)
    return found


class LoadingTogether(Waiter):
    """A place in the queue of a bucket's limits, whose run reads those of ``others`` as well."""

    def __init__(self, queue: RunQueue, others: Sequence[CachedShard]) -> None:
        super().__init__(queue)
        self.others = others


def load(namespace_state: NamespaceState, cached: CachedShard, waiters: Sequence[Waiter]) -> Flow[None]:
    """Read the unknown and expired records once, and settle all waiters."""
    error = None
    others = [other for each in waiters if isinstance(each, LoadingTogether) for other in each.others]
    try:
        yield from _load(namespace_state, cached, dict.fromkeys(others))
    except StoreError as failure:
        error = failure
    for waiter in waiters:
        waiter.outcome = Outcome("failed" if error else "admitted", cached.state, namespace_state.now(), error)
    cached.has_loaded()


def _load(namespace_state: NamespaceState, cached: CachedShard, others: Collection[CachedShard]) -> Flow[None]:
    """Resolve the limits; repeat it, a few times, if this process has changed one of their configs meanwhile.

    The last result holds for the callers that waited for it; for later callers it is no longer current.
    """
    resolved, reads, of = None, 0, cached.id
    while resolved is None or (
        reads < READS and not namespace_state.configs.is_current(resolved, of.entity_id, of.resource)
    ):
        resolved = yield from _read(namespace_state, cached, others)
        reads += 1
    cached.obeys(resolved)
    if resolved.disables:  # who is refused next reads all records again, to see at once that it no longer is
        namespace_state.configs.expire(of.entity_id, of.resource)


def _read(
    namespace_state: NamespaceState, cached: CachedShard, others: Collection[CachedShard]
) -> Flow[Resolved | None]:
    """Return the limits by one read of the unknown and expired records; ``None`` if all of them have to be read at
    once. The read has the unknown records of ``others`` as well. A second one follows where an entity turns out to have
    a tier whose limits are unknown.
    """
    entity_id, resource, begun = cached.id.entity_id, cached.id.resource, namespace_state.now()
    configs, generation = namespace_state.configs, namespace_state.configs.generation
    seen_cv = 0
    if cached.state is not None:  # without a state of its shard 0, those of the others are not known
        seen_cv = max(state.item[CONFIG_AS_OF] for state in namespace_state.states(cached))
    asked = [cached]
    if others:
        asked += [each for each in others if not each.known or namespace_state.fresh(each) is None]
    unseen = [each for each in asked if not each.known]
    beside = [each.key for each in unseen]
    if len(beside) > 1:
        beside = [*dict.fromkeys(beside)]  # a forgotten bucket may be there twice
    places = {
        (each.id.entity_id, each.id.resource): 0 if each.resolved is None else namespace_state.doubted_since(each)
        for each in asked
    }
    read = yield from configs.read(places, begun, beside=beside)
    for each in unseen:
        if not each.known:
            each.learn(read.beside.get(each.key), begun, own_writes=0)
    now_ms = namespace_state.now()
    resolved = configs.resolve((entity_id, resource), read, now_ms=now_ms, generation=generation, later_than_ms=seen_cv)
    config = None if resolved is None else resolved.config
    seen = [] if cached.state is None else namespace_state.states(cached)
    if config is None or (seen and any(state.compare(config) == "outdated" for state in seen)):
        configs.expire(entity_id, resource)
        return None
    return resolved
