"""The three write plans: consume from a bucket as it is, reshape it, or create it.

This module has the headroom under each plan, and its operation; ``batch`` chooses the requests that fit, ``commit_run``
reads the outcome.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...operations.values import NOTHING, Conditions, Get, Put, Update
from ...rules.balances import ShardLimit, limit_share
from ...rules.registry import keeping_ms
from ...rules.rule import FOREVER_MS
from ...rules.schedules import carry
from ...schema.attributes import ANCHOR, CONFIG_READ_AT, PK, SHARD_COUNT, TTL, bucket_attributes
from ...schema.items import (
    BucketState,
    LimitBalance,
    anchor_attributes,
    bucket_item,
    rule_attributes,
    slot_attributes,
    window_end,
)
from ...values.limits import Limit
from ...values.resolution import Config
from ..bucket_queue import BucketRequest
from ..process.namespace_state import CachedBucket
from ..slots import draft_slots
from .batch import Batch, UpdateDraft
from .shifting import draft_schedules

SLACK_DIVISOR = 20
DEMAND_FOR_ADD = 0.4
TTL_GRACE_MS = 60_000


class ConsumeWrite:
    """The bucket keeps its shape. After ``write``, ``upper`` has the upper bounds of the update, by attribute."""

    __slots__ = (
        "cached",
        "ceilings",
        "config",
        "headroom",
        "minted",
        "multiplier",
        "now_ms",
        "slack",
        "state",
        "upper",
    )

    reshapes = False

    def __init__(
        self,
        cached: CachedBucket,
        state: BucketState,
        now_ms: int,
        multiplier: int,
        config: Config | None,
        slack: frozenset[str],
    ) -> None:
        self.cached = cached
        self.state = state
        self.now_ms = now_ms
        self.multiplier = multiplier
        self.config = config
        self.slack = slack
        self.upper: dict[str, int] = {}
        self.ceilings = state.ceilings
        self.minted: dict[str, int] = {}
        self.headroom: dict[str, int] = {}
        for name, shard_limit in state.shard_limits.items():
            minted = shard_limit.minted_since_anchor(now_ms)
            self.minted[name] = minted
            self.headroom[name] = min(shard_limit.ceiling_milli, state.tokens_milli(name) + minted)

    def write(self, batch: Batch) -> Update:
        """Return one update for all requests of the batch."""
        if batch.gives_only:
            return self._give_back(batch)
        draft, longest_ms = UpdateDraft(), 0
        for name, shard_limit in self.state.shard_limits.items():
            self._take(draft, name, batch)
            deficit = shard_limit.ceiling_milli - self.headroom[name] + batch.net(name)
            longest_ms = max(longest_ms, keeping_ms(shard_limit.limit, deficit))
        self.upper = draft.at_most
        draft.equals[ANCHOR] = self.state.item[ANCHOR]
        draft.count_write(batch, self.state.shard_limits)
        if self.config is not None:
            draft.expire(expires_at(self, self.config, longest_ms), self.state.item)
        return draft.update(self.cached.key)

    def _give_back(self, batch: Batch) -> Update:
        draft = UpdateDraft()
        names = [name for name in batch.limits() if name in self.state.shard_limits]
        draft.exists = tuple(bucket_attributes(name).tokens for name in names)
        draft.equals[SHARD_COUNT] = self.state.shard_count
        for name in names:
            at, net = bucket_attributes(name), batch.net(name)
            if name in self.state.slots:
                draft_slots(draft, self.state.shard_limits[name], batch, self.now_ms)
            else:
                draft.count(at.tokens, -net)
            draft.count(at.consumed, net + batch.count_only.get(name, 0))
        draft.count_write(batch, self.state.shard_limits)
        return draft.update(self.cached.key)

    def _take(self, draft: UpdateDraft, limit: str, batch: Batch) -> None:
        """Draft one limit, below its ceiling or at it; leave alone a limit that takes no part."""
        at, net, checked = bucket_attributes(limit), batch.net(limit), batch.checked.get(limit)
        draft.count(at.consumed, net + batch.count_only.get(limit, 0))
        if limit in self.state.slots:
            draft_slots(draft, self.state.shard_limits[limit], batch, self.now_ms)
            return
        if checked is None and limit not in batch.unchecked:
            draft.count(at.tokens, -net)
            return
        minted, ceiling = self.minted[limit], self.ceilings[limit]
        slow = each if (each := self.state.shard_limits[limit]).unit else None
        if checked == 0 and net == 0:
            draft.at_least[at.tokens] = -minted
            if slow:
                draft.only_as_seen(at.fraction, self.state.item)
            return
        slack = None if self.headroom[limit] < ceiling else self._absolute_slack(limit, ceiling, checked or 0)
        if slack is None:
            least = None if checked is None else checked - batch.given.get(limit, 0) - minted
            draft.take_below(at.tokens, least=least, most=ceiling - minted, change=-net)
            if slow:
                draft.only_as_seen(at.fraction, self.state.item)
        else:
            held = ceiling - slack - minted
            draft.take_at_ceiling(at.tokens, least=held, balance=held - net)
            if slow:
                draft.set[at.tokens] = ceiling - slack - net - slow.moved_by_anchor(self.now_ms)
                draft.set[at.fraction] = slow.whole_at(self.now_ms)
                draft.full_by_any_fraction(at, self.state.item)

    def _absolute_slack(self, limit: str, ceiling: int, checked: int) -> int | None:
        """Return the slack of an absolute write, for a limit that seems full; ``None`` for a relative write.

        A limit that does not refill evenly would miss what slack forgets for its whole window: it has none.
        """
        if limit in self.slack and self.state.shard_limits[limit].limit.kind != "token_bucket":
            return 0
        if limit in self.slack:
            return min(ceiling // SLACK_DIVISOR, ceiling - checked)
        return 0 if self.cached.uncontended or self.cached.demand(limit) < DEMAND_FOR_ADD else None


class AnchoredBalance(NamedTuple):
    """One limit at the new anchor: stored balance, tokens minted until then, the lower of its two ceilings; and what
    is ``due`` now, which may be a moment before the anchor. ``fraction``: of a slow limit.
    """

    tokens: int
    minted: int
    ceiling: int
    due: int
    fraction: int | None = None

    @property
    def headroom(self) -> int:
        """The headroom of now, in millitokens."""
        return min(self.ceiling, self.tokens + self.due)

    @property
    def is_full(self) -> bool:
        """Whether the limit is at its ceiling at the new anchor."""
        return self.tokens + self.minted >= self.ceiling

    @property
    def is_full_now(self) -> bool:
        """Whether it was there already."""
        return self.tokens + self.due >= self.ceiling


class ReshapeWrite:
    """The bucket gets the shape of the config, under a new anchor.

    Each limit of the item moves to the anchor and keeps its tokens, up to the lower of the two ceilings. A limit that
    is new to the item starts full; one that the config lacks keeps its rule. ``shifts``: the config is
    that of the bucket, maybe as of another time, so each limit with a schedule has what the values of all times since
    the anchor make of its tokens.
    """

    reshapes = True
    upper: Mapping[str, int] = NOTHING

    def __init__(self, cached: CachedBucket, state: BucketState, now_ms: int, multiplier: int, config: Config) -> None:
        self.cached = cached
        self.state = state
        self.now_ms = now_ms
        self.multiplier = multiplier
        self.config = config
        self.anchor_ms = max(now_ms, state.anchor_ms + 1)
        kept = {name: each for name, each in state.shard_limits.items() if not self._becomes_slots(each.limit)}
        self.shifts = state.is_of(config)
        self.anchored = {name: self._anchored(shard_limit) for name, shard_limit in kept.items()}
        new = {limit.name: self._ceiling(limit) for limit in config.limits if limit.name not in self.anchored}
        begun = {name: self._share(config.by_name[name], config.by_name[name].initial_milli) for name in new}
        self.headroom = {name: balance.headroom for name, balance in self.anchored.items()} | begun
        self.ceilings = {name: balance.ceiling for name, balance in self.anchored.items()} | new

    def _ceiling(self, limit: Limit) -> int:
        return self._share(limit, limit.ceiling_milli)

    def _share(self, limit: Limit, whole_milli: int) -> int:
        return limit_share(limit, whole_milli, self.cached.id.shard, self.state.shard_count)

    def _becomes_slots(self, limit: Limit) -> bool:
        """Return whether a limit of the bucket is of another kind, and gets slots: they begin as new."""
        return not limit.has_slots and self.config.by_name.get(limit.name, limit).has_slots

    def _anchored(self, shard_limit: ShardLimit) -> AnchoredBalance:
        name = shard_limit.limit.name
        ruled = self.config.by_name.get(name, shard_limit.limit)
        if self.shifts and name in self.config.scheduled:
            declared, since_ms = self.config.scheduled[name], self.state.anchor_ms
            over = by_now = carry(shard_limit, declared, self.anchor_ms)
            if self.now_ms < self.anchor_ms:
                by_now = carry(shard_limit, declared, max(self.now_ms, since_ms))
            fraction = ShardLimit(ruled, self.anchor_ms, shard_limit.shard, shard_limit.shards).fraction
            return AnchoredBalance(self.state.tokens_milli(name), over.minted, over.ceiling, by_now.minted, fraction)
        if ruled.has_slots:  # all holders keep their slots, whatever their number becomes
            ceiling = self._ceiling(ruled)
            gained = shard_limit.minted_since_anchor(self.now_ms) + ceiling - shard_limit.ceiling_milli
            return AnchoredBalance(self.state.tokens_milli(name), gained, ceiling, gained)
        ceiling = min(shard_limit.ceiling_milli, self._ceiling(ruled))
        moved = shard_limit.moved(self.anchor_ms, ruled)
        minted, due = (shard_limit.minted_since_anchor(at) for at in (self.anchor_ms, self.now_ms))
        return AnchoredBalance(self.state.tokens_milli(name), minted, ceiling, due, moved.fraction)

    def write(self, batch: Batch) -> Update:
        """Return one update that reshapes the bucket and carries the batch."""
        draft = UpdateDraft()
        draft.equals[ANCHOR] = self.state.anchor_ms
        for name, balance in self.anchored.items():
            self._take(draft, name, balance, batch)
        for limit in self.config.limits:
            self._rule(draft, limit, batch)
        rules = {name: shard_limit.limit for name, shard_limit in self.state.shard_limits.items()} | dict(
            self.config.by_name
        )
        draft.count_write(batch, rules)
        draft.set |= anchor_attributes(rules.values(), self.anchor_ms) | self._begun(rules, batch)
        marks = (bucket_attributes(name).minted for name in rules)
        draft.remove += tuple(name for name in marks if name not in draft.set and name in self.state.item)
        if self.reshapes and not self.shifts:
            draft_schedules(draft, self.state, self.config)
            known_ms = self.state.item[CONFIG_READ_AT]
            newer = self.config.born_ms > known_ms  # else it only adds limits, which stay for a life of the cache
            draft.set[CONFIG_READ_AT] = self.config.born_ms if newer else max(known_ms + 1, self.now_ms)
        longest_ms = max(self._wait_ms(limit, batch) for limit in rules.values())
        draft.expire(expires_at(self, self.config, longest_ms), self.state.item)
        return draft.update(self.cached.key)

    def _begun(self, rules: Mapping[str, Limit], batch: Batch) -> dict[str, int]:
        """Return the begins of the windows that the batch begins: it takes from a limit whose window is over."""
        known = self.state.shard_limits
        ends = {name: window_end(known[name]) if name in known else 0 for name in taken_from(rules.values(), batch)}
        return {bucket_attributes(name).begun: self.anchor_ms for name, end in ends.items() if end <= self.anchor_ms}

    def _take(self, draft: UpdateDraft, name: str, balance: AnchoredBalance, batch: Batch) -> None:
        at, net, checked = bucket_attributes(name), batch.net(name), batch.checked.get(name)
        draft.count(at.consumed, net + batch.count_only.get(name, 0))
        ruled = self.config.by_name.get(name)
        if name in self.state.slots and (ruled is None or ruled.has_slots):
            old = self.state.shard_limits[name]
            draft_slots(draft, old, batch, self.now_ms, new=ruled or old.limit)
            return
        least = None if checked is None else checked - batch.given.get(name, 0) - balance.due
        full = balance.ceiling - balance.minted
        if balance.is_full:
            least = full if least is None else max(full, least)
            draft.take_at_ceiling(at.tokens, least=least, balance=balance.ceiling - net)
        else:
            draft.take_below(at.tokens, least=least, most=full, change=balance.minted - net)
        self._keep_fraction(draft, name, balance)

    def _keep_fraction(self, draft: UpdateDraft, name: str, balance: AnchoredBalance) -> None:
        """Draft the fraction of a limit under its new rule."""
        at, old = bucket_attributes(name), self.state.shard_limits[name]
        if old.unit:
            draft.only_as_seen(at.fraction, self.state.item)
        ruled = ShardLimit(self.config.by_name.get(name, old.limit), self.anchor_ms, old.shard, old.shards)
        if not ruled.unit:
            draft.remove += (at.fraction,) if at.fraction in self.state.item else ()
        elif balance.is_full:
            full_ms = self.now_ms if balance.is_full_now and ruled.limit == old.limit else self.anchor_ms
            draft.set[at.fraction] = ruled.whole_at(full_ms)
            draft.set[at.tokens] -= ruled.moved_by_anchor(full_ms)
        elif balance.fraction is None:
            draft.set[at.fraction] = ruled.fraction
        else:
            draft.set[at.fraction] = balance.fraction % ruled.unit
            if balance.fraction < 0:  # then more than its part of this millitoken is there
                draft.add[at.tokens] = draft.add.get(at.tokens, 0) + 1

    def _rule(self, draft: UpdateDraft, limit: Limit, batch: Batch) -> None:
        at, shard_limit = bucket_attributes(limit.name), self.state.shard_limits.get(limit.name)
        net = batch.net(limit.name)
        if shard_limit is None:
            draft.absent += (at.tokens,)
        if limit.name not in self.anchored:
            draft.add[at.consumed] = net + batch.count_only.get(limit.name, 0)  # the item may count it already
            draft.set[at.tokens] = self.headroom[limit.name] - net
            if limit.has_slots:
                draft.set |= slot_attributes(limit, self.now_ms, net)
            begun = ShardLimit(limit, self.anchor_ms, self.cached.id.shard, self.state.shard_count)
            if begun.unit:
                draft.set[at.fraction] = begun.fraction
            elif at.fraction in self.state.item:
                draft.remove += (at.fraction,)
        elif not limit.has_slots and limit.name in self.state.slots:
            draft.remove += tuple(at.slots)
        if shard_limit is None or shard_limit.limit != limit:
            rule = rule_attributes(limit)
            draft.set.update(rule)
            draft.remove += tuple(name for name in at.rule if name not in rule and name in self.state.item)

    def _wait_ms(self, limit: Limit, batch: Batch) -> int:
        deficit = self._ceiling(limit) - min(0, self.headroom[limit.name] - batch.net(limit.name))
        return keeping_ms(limit, deficit)


class WindowWrite(ReshapeWrite):
    """The bucket keeps its rules, and the batch begins a window: under a new anchor, as a reshape."""

    reshapes = False


def begins_window(state: BucketState, requests: Sequence[BucketRequest], now_ms: int) -> bool:
    """Return whether one of the requests takes from a limit whose window is over."""
    if now_ms < state.begins_ms:
        return False
    over = {name for name, each in state.shard_limits.items() if window_end(each) <= now_ms}
    return any(amount and name in over for request in requests for name, amount in request.amounts.items())


def taken_from(limits: Iterable[Limit], batch: Batch) -> list[str]:
    """Return the limits whose windows begin with the first use, and of which the batch takes tokens."""
    windowed = [limit.name for limit in limits if limit.kind == "first_use"]
    return [name for name in windowed if batch.checked.get(name) or batch.unchecked.get(name)]


class CreateWrite:
    """The bucket is created, full but for what the batch takes; some kinds of limits begin with less."""

    reshapes = False
    upper: Mapping[str, int] = NOTHING
    state = None

    def __init__(self, cached: CachedBucket, now_ms: int, multiplier: int, config: Config) -> None:
        self.cached = cached
        self.now_ms = now_ms
        self.multiplier = multiplier
        self.config = config
        self.headroom = {limit.name: limit.initial_milli for limit in config.limits}
        self.ceilings = {limit.name: limit.ceiling_milli for limit in config.limits}

    def write(self, batch: Batch) -> Put:
        """Return a put of the new item, on the condition that there is none."""
        config, limits = self.config, self.config.limits
        longest_ms = max(self._wait_ms(limit, batch) for limit in limits)
        ids = {limit.name: config.schedule_id(limit.name) for limit in limits}
        nets = ((limit, batch.net(limit.name), batch.count_only.get(limit.name, 0)) for limit in limits)
        item = bucket_item(
            self.cached.id,
            self.cached.parent_link,
            (LimitBalance(each, each.initial_milli - net, net + count, ids[each.name]) for each, net, count in nets),
            shard_count=1,
            anchor_ms=self.now_ms,
            config_read_at_ms=config.born_ms,
            spread=self.cached.spread,
            expires_at=expires_at(self, config, longest_ms),
        )
        begun = {bucket_attributes(name).begun: self.now_ms for name in taken_from(limits, batch)}
        return Put(item | begun | batch.counts | batch.counts_beside(config.by_name), Conditions(absent=(PK,)))

    def _wait_ms(self, limit: Limit, batch: Batch) -> int:
        return keeping_ms(limit, limit.ceiling_milli - limit.initial_milli + batch.net(limit.name))


WritePlan = ConsumeWrite | ReshapeWrite | WindowWrite | CreateWrite


class Decision(NamedTuple):
    """One operation, and the requests that it serves. Without a plan it only reads the bucket."""

    operation: Put | Update | Get
    batch: Batch
    plan: WritePlan | None = None


def expires_at(plan: WritePlan, config: Config, longest_ms: int) -> int | None:
    """Return the ``ttl`` in epoch seconds: a minute from now, plus ``multiplier`` times the time in which the slowest
    limit fills; ``None`` if that never happens. A total that expires does not fill: for its time the bucket stays.

    ``longest_ms`` is that time by the plan's own balances. Other processes may have consumed since, so it is at least
    the time from empty, and the ``ttl`` is not before the one seen. Return ``None`` for a bucket that does not expire:
    the entity has limits of its own, the multiplier is 0, there are several shards, or it keeps a schedule.
    """
    state = plan.state
    if config.own or plan.multiplier == 0 or (state is not None and state.shard_count != 1):
        return None
    if state is not None and not plan.reshapes and any(map(state.schedule_id, state.shard_limits)):
        return None
    fill_ms = longest_ms if state is None else max(longest_ms, state.fill_ms)
    if fill_ms >= FOREVER_MS:
        return None
    unused_ms = 0 if state is None else state.unused_ms
    if state is None or plan.reshapes:
        unused_ms = max(unused_ms, 1000 * max((limit.unused_seconds for limit in config.limits), default=0))
    ttl = -(-(plan.now_ms + max(TTL_GRACE_MS + plan.multiplier * fill_ms, unused_ms)) // 1000)
    return ttl if state is None else max(ttl, state.item.get(TTL, 0))
