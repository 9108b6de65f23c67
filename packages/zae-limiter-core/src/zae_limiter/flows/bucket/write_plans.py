"""What a write for requests would find, and what it leaves: a bucket as it is, one that it reshapes, or a new one.

A plan says what each limit has for the requests; ``batch`` chooses those that fit, ``writing`` makes the update, and
``commit_run`` reads the outcome.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ... import rules
from ...operations.values import NOTHING, Conditions, Get, Item, Put, Update
from ...rules.balances import Begin, Move, ShardLimit, become, is_quota, keeps_use, stay
from ...rules.registry import keeping_ms
from ...rules.rule import FOREVER_MS
from ...runtime.named_tuple import NamedTuple
from ...schema.attributes import ACQUIRES, CONFIG_AS_OF, PK, REFUSED_ASK, TTL, bucket_attributes
from ...schema.items import BucketState, LimitBalance, bucket_item, new_state, window_end
from ...values.limits import Limit
from ...values.resolution import Config
from .. import bucket
from ..bucket_queue import BucketRequest
from ..process.namespace_state import CachedShard, NamespaceState
from .batch import Batch, Room, fit_batch
from .writing import ANY_TTL, Change, Changed, write

SLACK_DIVISOR = 20
DEMAND_FOR_ADD = 0.4
TTL_GRACE_MS = 60_000
NEW = Conditions(absent=(PK,))


class WritePlan:
    """A write for requests at ``now_ms``: what each limit has for them, and at most, in millitokens.

    ``state``: the bucket as it was seen, ``None`` for a new one. ``anchor_ms``: its anchor afterwards. ``reshapes``: it
    gets the rules of the config. ``ruled``: the changed limits of which what was used counts, as they are afterwards.
    ``slack``: the limits that leave some at their ceiling.
    """

    __slots__ = (
        "anchor_ms",
        "cached",
        "ceilings",
        "config",
        "headroom",
        "moves",
        "multiplier",
        "now_ms",
        "reshapes",
        "ruled",
        "slack",
        "state",
    )

    def __init__(
        self,
        cached: CachedShard,
        state: BucketState | None,
        now_ms: int,
        multiplier: int,
        config: Config | None,
        slack: frozenset[str] = frozenset(),
    ) -> None:
        self.cached = cached
        self.state = state
        self.now_ms = now_ms
        self.multiplier = multiplier
        self.config = config
        self.slack = slack
        self.reshapes = False
        self.moves: Mapping[str, Move | Begin] = {}
        self.ruled: Mapping[str, ShardLimit] = {}
        if state is None:
            assert config is not None, "a request that consumes carries its config"
            self.anchor_ms = now_ms
            self.ceilings: Mapping[str, int] = {limit.name: limit._ceiling_milli for limit in config.limits}
            self.headroom = {limit.name: limit._initial_milli for limit in config.limits}
            return
        self.anchor_ms, self.ceilings, self.headroom = state.anchor_ms, state.ceilings, state.headroom(now_ms)

    @property
    def keeps_anchor(self) -> bool:
        """Whether it leaves a bucket that is there the anchor that it has."""
        return self.state is not None and self.anchor_ms == self.state.anchor_ms

    def begins_with_less(self, amounts: Mapping[str, int]) -> bool:
        """Return whether the write sets a balance that lacks an amount, so that no condition of it would refuse."""
        return any(isinstance(self.moves.get(name), Begin) and n > self.headroom[name] for name, n in amounts.items())

    def write(self, batch: Batch) -> Put | Update:
        """Return the one operation for all requests of the batch."""
        state, config, now_ms = self.state, self.config, self.now_ms
        if state is None:
            return self._create(batch)
        amounts = batch.checked, batch.unchecked, batch.given, batch.counts.amounts, batch.slots
        counts, values = {**batch.counters, **batch.refusal_counts}, dict[str, Any]()
        if batch.refused_ask:
            values[REFUSED_ASK] = batch.refused_ask
        if self.moves:
            change = Change(self.anchor_ms, self.moves, *amounts, counts=counts, values=values)
            return write(state, self._reshaped(change), now_ms)
        if batch.gives_only:
            return write(state, Change(None, {}, *amounts, counts=counts, values=values), now_ms)
        moves, slack, longest_ms = dict[str, Move | Begin](), dict[str, int | None](), 0
        for name, shard_limit in state.shard_limits.items():
            ceiling, headroom, checked = shard_limit.ceiling_milli, self.headroom[name], batch.checked.get(name)
            longest_ms = max(longest_ms, keeping_ms(shard_limit.limit, ceiling - headroom + batch.net(name)))
            if name not in state.slots and (checked is not None or name in batch.unchecked):
                moves[name] = stay(shard_limit, now_ms)
                if headroom >= ceiling:
                    slack[name] = self._slack(shard_limit, checked or 0)
        ttl = ANY_TTL if config is None else expires_at(self, config, longest_ms)
        change = Change(self.anchor_ms, moves, *amounts, slack, counts=counts, values=values, ttl=ttl)
        return write(state, change, now_ms)

    def made(self, put: Put) -> BucketState:
        """Return the state of the new bucket that its put has made."""
        assert self.config is not None
        return new_state(put.item, self.cached.id, self.config.limits)

    def _slack(self, shard_limit: ShardLimit, checked: int) -> int | None:
        """Return what a write leaves to others of a limit that seems full; ``None`` for a relative write.

        A limit that does not refill evenly would miss what slack forgets for its whole window: it has none.
        """
        limit, ceiling = shard_limit.limit, shard_limit.ceiling_milli
        if limit.name in self.slack and limit.kind != "token_bucket":
            return 0
        if limit.name in self.slack:
            return min(ceiling // SLACK_DIVISOR, ceiling - checked)
        return 0 if self.cached.others.are_away or self.cached.others.demand(limit.name) < DEMAND_FOR_ADD else None

    def _reshaped(self, change: Change) -> Change:
        """Return the change with the rules of the config, and the windows that it begins."""
        state, config = self.state, self.config
        assert state is not None
        assert config is not None
        rules = {name: each.limit for name, each in state.shard_limits.items()} | dict(config.by_name)
        values = {**change.values, **begins(rules.values(), state, self.anchor_ms, change.take, change.force)}
        schedules: Mapping[str, str] = {}
        if self.reshapes:
            schedules = {name: config.schedule_id(name) for name in config.by_name}
            if not state.is_of(config):
                values[CONFIG_AS_OF] = config.born_ms
        longest_ms = 0
        for name, limit in rules.items():
            whole = state.share_of(limit, limit._ceiling_milli)
            debt = min(0, self.headroom[name] - change.net(name))
            longest_ms = max(longest_ms, keeping_ms(limit, whole - debt))
        if self.ruled:
            kept = bucket.use_kept.kept(state, self.ruled, self.moves, self.now_ms)
            values, longest_ms = kept.values | values, max(longest_ms, kept.lasts_ms)
            change = change._replace(remove=kept.remove, expected=kept.expected)
        ttl = expires_at(self, config, longest_ms)
        return change._replace(rules=config.by_name, schedules=schedules, values=values, ttl=ttl)

    def _create(self, batch: Batch) -> Put:
        """Return a put of the new item, on the condition that there is none."""
        config = self.config
        assert config is not None
        balances, longest_ms = [], 0
        for limit in config.limits:
            net, initial = batch.net(limit.name), limit._initial_milli
            longest_ms = max(longest_ms, keeping_ms(limit, limit._ceiling_milli - initial + net))
            consumed = net + batch.counts.amounts.get(limit.name, 0)
            balances.append(LimitBalance(limit, initial - net, consumed, config.schedule_id(limit.name)))
        item = bucket_item(
            self.cached.id,
            self.cached.parent_link,
            balances,
            shard_count=1,
            anchor_ms=self.now_ms,
            config_as_of_ms=config.born_ms,
            spread=self.cached.spread,
            expires_at=expires_at(self, config, longest_ms),
        )
        item |= begins(config.limits, None, self.now_ms, batch.checked, batch.unchecked)
        item |= {ACQUIRES: 0, **batch.counters, **batch.refusal_counts}
        if batch.refused_ask:
            item[REFUSED_ASK] = batch.refused_ask
        if batch.counts.amounts:
            item |= batch.counts_beside(config.by_name)
        return Put(item, NEW)


def plan_new(
    namespace_state: NamespaceState, cached: CachedShard, request: BucketRequest, now_ms: int
) -> tuple[Put, Batch, WritePlan]:
    """Return the put of a new bucket for one request, its batch and its plan. The batch is empty if the request asks
    for more than the bucket holds.
    """
    if request.config is None:
        raise AssertionError("a request that consumes carries its config")
    config = request.config.at(now_ms)  # a schedule may have changed values since the claim was made
    plan = WritePlan(cached, None, now_ms, namespace_state.settings.ttl_multiplier, config)
    batch = fit_batch([request], Room(plan.headroom, plan.ceilings))
    put = plan.write(batch)
    assert isinstance(put, Put), "there is no bucket yet"
    return put, batch, plan


def reshape(
    cached: CachedShard, state: BucketState, now_ms: int, multiplier: int, config: Config, *, shapes: bool = True
) -> WritePlan:
    """Return the plan of a write that moves the anchor; ``shapes``: it gives the bucket the shape of the config.

    Each limit of the item moves to the anchor and keeps its tokens, up to the lower of the two ceilings. A limit that
    is new to the item starts full; one that the config lacks keeps its rule. Of a quota, what was used counts. If the
    config is that of the bucket, maybe as of another time, each limit with a schedule has what the values of all times
    since the anchor make of its tokens.
    """
    plan = WritePlan(cached, state, now_ms, multiplier, config)
    plan.anchor_ms = anchor_ms = max(now_ms, state.anchor_ms + 1)
    plan.reshapes = shapes
    shifts, headroom, ceilings = state.is_of(config), dict[str, int](), dict[str, int]()
    moves, kept = dict[str, Move | Begin](), dict[str, ShardLimit]()
    for name, limit in ({name: each.limit for name, each in state.shard_limits.items()} | dict(config.by_name)).items():
        declared = config.scheduled.get(name) if shifts else None
        becomes = _becomes(state, limit, declared, anchor_ms, now_ms)
        moves[name], ruled, headroom[name], ceilings[name] = becomes
        if name in state.shard_limits and counts_use(state.shard_limits[name].limit, limit, declared):
            kept[name] = ruled
    plan.moves, plan.headroom, plan.ceilings, plan.ruled = moves, headroom, ceilings, kept
    return plan


def counts_use(was: Limit, limit: Limit, declared: Limit | None) -> bool:
    """Return whether what was used counts where a limit is in the place of another one, maybe by its schedule."""
    return keeps_use(was, limit) if declared is None else is_quota(limit)


def _becomes(state: BucketState, limit: Limit, declared: Limit | None, anchor_ms: int, now_ms: int) -> Changed:
    """Return what becomes of a limit on a shard; ``declared``: with its schedule, if that alone changes it."""
    was, ruled = state.shard_limits.get(limit.name), state.ruled(limit, anchor_ms)
    if was is None or (limit._has_slots and not was.limit._has_slots):  # slots begin as new
        initial = state.share_of(limit, limit._initial_milli)
        return Changed(Begin(initial, ruled.fraction if ruled.unit else None), ruled, initial, ruled.ceiling_milli)
    tokens = state.tokens_milli(limit.name)
    if counts_use(was.limit, limit, declared):
        return bucket.use_kept.changed(was, tokens, limit, declared, anchor_ms, now_ms)
    if declared is not None:
        move = rules.schedules.carry_through(was, tokens, declared, limit, anchor_ms, now_ms)
    elif limit._has_slots:  # all holders keep their slots, whatever their number becomes
        gained = was.minted_since_anchor(now_ms) + ruled.ceiling_milli - was.ceiling_milli
        move = Move(gained, gained, ruled.ceiling_milli, gained)
    else:
        move = become(was, tokens, limit, anchor_ms, now_ms)
    ceiling = ruled.ceiling_milli if move.ceiling is None else move.ceiling
    return Changed(move, ruled, min(ceiling, tokens + move.due), ceiling)


def begins_window(state: BucketState, requests: Sequence[BucketRequest], now_ms: int) -> bool:
    """Return whether one of the requests takes from a limit whose window is over."""
    if now_ms < state.begins_ms:
        return False
    over = {name for name, each in state.shard_limits.items() if window_end(each) <= now_ms}
    return any(amount and name in over for request in requests for name, amount in request.amounts.items())


def begins(limits: Iterable[Limit], state: BucketState | None, at_ms: int, *taken: Mapping[str, int]) -> Item:
    """Return the begins of the windows that these amounts begin: of limits whose windows begin with the first use, and
    of which none is under way in the ``state`` of the bucket.
    """
    known, found = NOTHING if state is None else state.shard_limits, Item()
    for limit in limits:
        if limit.kind != "first_use" or not any(amounts.get(limit.name) for amounts in taken):
            continue
        if limit.name not in known or window_end(known[limit.name]) <= at_ms:
            found[bucket_attributes(limit.name).begun] = at_ms
    return found


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
    the entity has limits of its own, the multiplier is 0, there are several shards, or it keeps a schedule, or what was
    used of a total that is another limit by now.
    """
    state = plan.state
    if config.own or plan.multiplier == 0 or (state is not None and state.outlasts_its_limits):
        return None
    if state is not None and not plan.reshapes and any(map(state.schedule_id, state.shard_limits)):
        return None
    fill_ms = longest_ms if state is None else max(longest_ms, state.fill_ms)
    if fill_ms >= FOREVER_MS:
        return None
    unused_ms = 0 if state is None else state.unused_ms
    if state is None or plan.reshapes:
        unused_ms = max(unused_ms, 1000 * max((limit._unused_seconds for limit in config.limits), default=0))
    ttl = -(-(plan.now_ms + max(TTL_GRACE_MS + plan.multiplier * fill_ms, unused_ms)) // 1000)
    return ttl if state is None else max(ttl, state.item.get(TTL, 0))
