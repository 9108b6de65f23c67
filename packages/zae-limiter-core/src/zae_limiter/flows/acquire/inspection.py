"""Look at an acquire without performing it: limits that hold, available tokens, time to wait, and why.

``check`` goes by the limits that this process knows, and reads the buckets. ``explain`` leaves the cached limits aside:
it reads every record that decides the acquire, as the store has it now. For an entity and those above it that takes two
reads: the first has the entity's records, the second those of all who were above it when it got its parents, and the
other shards of its own bucket. One more reads the other shards of those above.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from ...operations.values import NOTHING, Item, Key
from ...runtime.dataclass import replace
from ...runtime.named_tuple import NamedTuple
from ...schema.attributes import ACQUIRES, RUN_ENDED, RUN_UNTIL, read_ask
from ...schema.entities import read_tier
from ...schema.items import BucketId, BucketState, read_bucket
from ...values.checks import Check
from ...values.explanation import BucketExplanation, Explanation, LimitExplanation, LimitsFrom
from ...values.limit_status import LimitStatus
from ...values.limits import MILLI, Limit, OnUnavailable
from ...values.resolution import Config, LimitsInForce, Resolved, ResolvedLimits, compose
from ...values.switches import ResolvedSwitches
from ...values.timetables import timetable_of
from ..bucket.reading import read_whole, refused_counts
from ..bucket.serving import cached_shard, resolve
from ..bucket.shifting import in_force
from ..bucket.versions import where_it_holds, with_birth
from ..bucket.view import View
from ..process.config_cache import ConfigKeys, ConfigRecords, Record, config_keys
from ..process.namespace_state import CachedShard, NamespaceState, bucket_key
from ..retry import read_all
from ..steps import Flow
from ..validation import validate_bucket
from .claims import Claim
from .disabling import is_disabled, never
from .path import Gap, Known, find_claims, join, walk
from .requests import AcquireRequest

RUN_TIMES: Final = (RUN_UNTIL, RUN_ENDED)


def available(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[dict[str, int]]:
    """Return whole tokens in all shards of the entity's own bucket and held by this process, by limit; negative in
    debt. Always reads the store.
    """
    [own, *_] = yield from _read_claims(namespace_state, request)
    view = asked_of(namespace_state, own.claim, own.states, namespace_state.now()).view
    return {name: view.available(name) // MILLI for name in view.config.by_name}


def check(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[Check]:
    """Return what the acquire would find, by one read of its buckets if their limits are known. A request without
    amounts stands for one token of each limit.
    """
    found = yield from _read_claims(namespace_state, request)
    now = namespace_state.now()
    stored = [asked_of(namespace_state, claim, states, now) for claim, states in found]
    by_prefetch = are_prefetched(request, stored)
    statuses = []
    for each, asked in zip(found, stored, strict=True):
        disabled = is_disabled(request, each.claim.resolved)
        of_disabled = dict.fromkeys(each.claim.config.by_name, 0) if disabled else {}
        for name, amount in (asked.amounts or of_disabled).items():
            status = asked.view.status(each.claim, name, amount, asked.wait(name, by_prefetch=by_prefetch))
            statuses.append(never(status) if disabled else status)
    claims = [each.claim for each in found]
    unlimited = {
        name
        for claim in claims
        for name in (claim.unlimited or () if request.amounts else claim.unlimited_names)
        if claim.config.is_unlimited or name not in claim.limited_above
    }
    return Check(request.entity_id, request.resource, tuple(statuses), tuple(sorted(unlimited)))


def explain(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[Explanation]:
    """Return what the acquire would find. A request without amounts stands for one token of each limit.

    Raises the ``ValidationError`` of the acquire for an amount without a limit, and if there are no limits at all.
    """
    records, now = _Records(namespace_state, request), namespace_state.now
    walked, gap = walk(request, records.look, now)
    while wanted := records.unread(walked, gap):
        items = yield from read_all(wanted)
        records.items |= {key: items.get(key) for key in wanted}
        walked, gap = walk(request, records.look, now)
    claims, at_ms = join(request, walked, gap), now()
    for claim in claims:
        if not claim.config.stored:
            known = namespace_state.home_of(claim.bucket) or claim.home
            claim.config = with_birth(namespace_state, known, known, claim.config)
    asked = [asked_of(namespace_state, claim, records.states(claim.bucket), at_ms) for claim in claims]
    by_prefetch, own = are_prefetched(request, asked), walked[0].resolved
    first, after = _resources_beside(request, own, [*zip(claims, asked, strict=True)])
    return Explanation(
        request.entity_id,
        request.resource,
        _instant(at_ms),
        own.parent_ids[0] if own.parent_ids else None,
        any(claim.place and not claim.draw for claim in walked),
        tuple(
            _explained(records, claim, each, by_prefetch=by_prefetch) for claim, each in zip(claims, asked, strict=True)
        ),
        own.parent_ids,
        first,
        after,
    )


def _resources_beside(
    request: AcquireRequest, own: Resolved, found: "Sequence[tuple[Claim, Asked]]"
) -> tuple[str | None, str | None]:
    """Return the resource that a call asks before its own by now, and that which it asks after a refusal."""
    policy = request.on_refused or own.on_refused
    if policy is None:
        return None, None
    is_used = policy.percent is not None and any(used_limits(found, policy.percent))
    return policy.overflow if is_used else None, policy.overflow


class _Records:
    """The records behind a call, as far as they were read: each item of the store, or that there is none."""

    def __init__(self, namespace_state: NamespaceState, request: AcquireRequest) -> None:
        self._namespace_id, self._now_ms = namespace_state.namespace_id, namespace_state.now
        self._otherwise: LimitsFrom = "default_limits" if request.default_limits else "bucket"
        if request.limits:
            self._otherwise = "call"
        self.items: dict[Key, Item | None] = {}

    def look(self, entity_id: str, resource: str) -> Known | None:
        """Return a bucket with the limits that hold, by what was read; those of the bucket itself, if no level has
        others.
        """
        bucket = BucketId(self._namespace_id, entity_id, resource)
        if bucket_key(bucket) not in self.items:
            return None
        resolved, states = self._levels(bucket).resolve(self._now_ms()), self.states(bucket)
        if (resolved.source is None and self._otherwise == "bucket") or any(RUN_UNTIL in each.item for each in states):
            rules = {each.name: each for state in states for each in state.limits}
            limits = tuple(rules[name] for name in sorted(rules))
            resolved = replace(resolved, config=Config(limits, resolved.config.born_ms), source=None)
        return CachedShard(bucket), resolved, False

    def unread(self, claims: Iterable[Claim], gap: Gap | None) -> list[Key]:
        """Return the keys of all records behind the limits of a walk's places, and of their shards, as far as what was
        read names them, without those that were read.
        """
        buckets = [claim.bucket for claim in claims]
        if gap is not None:
            buckets += [BucketId(self._namespace_id, *place) for place in (*gap.missing, *gap.further)]
        keys = (key for bucket in buckets for key in (*self._config_keys(bucket).to_read, *self._shard_keys(bucket)))
        return [key for key in dict.fromkeys(keys) if key not in self.items]

    def sources(self, claim: Claim) -> "_Sources":
        """Return where the limits of a claim come from."""
        if self._otherwise == "call" or claim.resolved.source is None:
            return _Sources(self._otherwise)
        source, of = claim.resolved.source, claim.resolved.sources
        levels = self._levels(claim.bucket).levels(self._now_ms())
        ends = {level.source: _instant(level.ends_ms) for level in levels if level.ends_ms is not None}
        lifted = {
            limit.name: ends[level.source]
            for level in levels
            if level.source in ends
            for limit in level.limits
            if of.get(limit.name) == level.source and limit not in level.stored.limits
        }
        patterns = {limit.name: level.pattern for level in reversed(compose(levels).levels) for limit in level.limits}
        return _Sources(source, of, ends.get(source), lifted, patterns)

    def states(self, bucket: BucketId) -> list[BucketState]:
        """Return the shards of a bucket."""
        items = (self.items.get(key) for key in self._shard_keys(bucket))
        return [read_bucket(item).repaired(self._now_ms()) for item in items if item is not None]

    def _levels(self, bucket: BucketId) -> ConfigRecords:
        keys, now_ms = self._config_keys(bucket), self._now_ms()
        found = (Record(None if key is None else self.items.get(key), now_ms) for key in keys)
        return ConfigRecords(bucket.resource, *found)

    def _config_keys(self, bucket: BucketId) -> ConfigKeys:
        """Return the keys of the levels, without those of a tier that is not known."""
        of = bucket.namespace_id, bucket.entity_id, bucket.resource
        return config_keys(*of, lambda meta: read_tier(self.items.get(meta)))

    def _shard_keys(self, bucket: BucketId) -> list[Key]:
        home = self.items.get(bucket_key(bucket))
        shards = 1 if home is None else read_bucket(home).shard_count
        return [bucket_key(bucket.other(shard)) for shard in range(shards)]


class _Sources(NamedTuple):
    """Where limits come from, each of them, and when overrides end: that of the first level, that of each limit.

    ``patterns``: the pattern that has a limit, or ``None``.
    """

    first: LimitsFrom
    each: Mapping[str, LimitsFrom] = MappingProxyType({})
    until: datetime | None = None
    lifted: Mapping[str, datetime] = MappingProxyType({})
    patterns: Mapping[str, str | None] = MappingProxyType({})


def _explained(records: _Records, claim: Claim, asked: "Asked", *, by_prefetch: bool) -> BucketExplanation:
    sources = records.sources(claim)
    run = {name: state.item[name] for state in asked.view.states[:1] for name in RUN_TIMES if name in state.item}
    if run and (RUN_ENDED in run or run[RUN_UNTIL] <= asked.view.at_ms):
        asked = asked._replace(over=True)
    return BucketExplanation(
        entity_id=claim.bucket.entity_id,
        resource=claim.bucket.resource,
        source=sources.first,
        override_until=sources.until,
        limits=tuple(
            _explained_limit(asked, limit, sources, by_prefetch=by_prefetch) for limit in asked.view.config.marked
        ),
        path=claim.path,
        switches=claim.resolved.switches,
        tier=claim.resolved.tier,
        pattern=claim.resolved.pattern,
        unlimited=tuple(sorted(claim.unlimited_names)),
        is_unlimited=claim.config.is_unlimited,
        run_until=_instant(run[RUN_UNTIL]) if run else None,
        run_ended=_instant(run[RUN_ENDED]) if RUN_ENDED in run else None,
        shard_count=asked.view.states[0].shard_count if asked.view.states else 0,
        **_of_shards(asked.view.states),
    )


def _of_shards(states: Sequence[BucketState]) -> dict[str, Any]:
    """Return what the shards of a bucket count together, and what the last call asked for that one of them refused."""
    return {
        "admitted": sum(state.item.get(ACQUIRES, 0) for state in states),
        **refused_counts(states),
        "refused_ask": next((read_ask(state.item) for state in states), {}),
    }


def _explained_limit(asked: "Asked", limit: Limit, sources: _Sources, *, by_prefetch: bool) -> LimitExplanation:
    view, amount = asked.view, asked.amounts.get(limit.name)
    declared = view.config.scheduled.get(limit.name)
    return LimitExplanation(
        limit,
        requested=None if amount is None else amount // MILLI,
        available=view._replace(mine=NOTHING).available(limit.name) // MILLI,
        prefetched=view.mine.get(limit.name, 0) // MILLI,
        wait_seconds=asked.wait(limit.name, by_prefetch=by_prefetch),
        schedule="" if declared is None else timetable_of(declared).at(view.at_ms).text,
        in_force=None if declared is None else view.config.by_name[limit.name],
        source=sources.each.get(limit.name, sources.first),
        override_until=sources.lifted.get(limit.name),
        pattern=sources.patterns.get(limit.name),
    )


def _instant(epoch_ms: int) -> datetime:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC)


def resolve_limits(namespace_state: NamespaceState, entity_id: str, resource: str) -> Flow[ResolvedLimits]:
    """Return the limits that hold, the policy of the system config, and the levels that the limits are of."""
    cached = cached_shard(namespace_state, *validate_bucket(entity_id, resource))
    resolved = yield from resolve(namespace_state, cached, bucket_too=False)
    policy = resolved.on_unavailable
    return ResolvedLimits(
        LimitsInForce(resolved.config.marked, resolved.sources, resolved.pattern),
        None if policy is None else OnUnavailable(policy),
        resolved.source,
    )


def resolve_switches(namespace_state: NamespaceState, entity_id: str, resource: str) -> Flow[ResolvedSwitches]:
    """Return the switches that hold for an entity on a resource."""
    cached = cached_shard(namespace_state, *validate_bucket(entity_id, resource))
    resolved = yield from resolve(namespace_state, cached, bucket_too=False)
    return resolved.switches or ResolvedSwitches()


class Asked(NamedTuple):
    """A bucket as it is stored, and what a call asks of it, in millitokens by limit; ``over``: that of a run which is
    over.
    """

    view: View
    amounts: Mapping[str, int]
    over: bool = False

    def wait(self, name: str, *, by_prefetch: bool) -> float:
        """Return the seconds that a call waits for a limit. ``by_prefetch``: by prefetched tokens."""
        if self.over and name in self.amounts:
            return math.inf
        return 0.0 if by_prefetch or name not in self.amounts else self.view.wait(name, self.amounts[name])


def asked_of(namespace_state: NamespaceState, claim: Claim, states: Sequence[BucketState], at_ms: int) -> Asked:
    """Return the bucket of a claim with what the call asks of it: one token of each limit, if it names no amounts."""
    config = where_it_holds(claim.config, states)
    view, home = View.of(states, config, at_ms), namespace_state.home_of(claim.bucket)
    terms = in_force(config, None, namespace_state.now()) or config  # to explain needs no queue, and has none
    mine = NOTHING if home is None else home.held(terms)
    view = view._replace(mine=mine, reshaped=True)
    return Asked(view, claim.amounts if claim.part.amounts else dict.fromkeys(config.by_name, MILLI))


def used_limits(found: "Sequence[tuple[Claim, Asked]]", percent: int) -> Iterator[tuple[Claim, LimitStatus]]:
    """Yield the enforced limits of the call's own path, of those that it asks for, of which so much is used. There are
    none if a level is disabled.
    """
    if any(claim.resolved.disables for claim, _ in found):
        return
    for claim, (view, amounts, _) in found:
        if claim.draw or not view.states:
            continue
        enforced = view.config.enforced
        for name, amount in amounts.items():
            limit = enforced.get(name)
            if limit is None or not amount:
                continue
            if view.available(name) * 100 <= limit._initial_milli * (100 - percent):
                yield claim, view.status(claim, name, amount)


def are_prefetched(request: AcquireRequest, asked: Sequence[Asked]) -> bool:
    """Return whether this process holds all that is asked for, so that the acquire passes without a request."""
    if request.shadow:
        return False
    return all(amount <= each.view.mine.get(name, -1) for each in asked for name, amount in each.amounts.items())


class _StoredClaim(NamedTuple):
    claim: Claim
    states: Sequence[BucketState]


def _read_claims(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[list[_StoredClaim]]:
    """Return the claims with the stored states of their buckets. Leave the cached shards alone: a run may be at
    work.
    """
    claims = yield from find_claims(namespace_state, request)
    found = yield from read_whole([claim.bucket for claim in claims])
    return [_StoredClaim(claim, states) for claim, states in zip(claims, found, strict=True)]
