"""The three kinds of write that an acquire may need: to a bucket as it is, to one of another shape, to a new one.

Lives here: how much room each leaves, and the operation that it is. Never: who fits (batch), what comes of it (commit).
"""

from collections.abc import Mapping
from typing import NamedTuple

from ...limits import Limit
from ...operations.values import NOTHING, Conditions, Item, Put, Update
from ...resolution import Config
from ...schema.items import ONE_WRITE, WRITES, View, bucket_attributes, rule_attributes
from ...token_bucket import Shape, share
from ..process.namespace_state import Shadow
from .batch import Draft, Load

SLACK_DIVISOR = 20
DEMAND_FOR_ADD = 0.4
TTL_GRACE_MS = 60_000


class Ordinary:
    """The bucket keeps its shape. ``upper`` holds, after ``write``, the upper bound of each ``tk`` in row ADD."""

    __slots__ = ("ceilings", "config", "minted", "multiplier", "now_ms", "room", "shadow", "slack", "upper", "view")

    reshapes = False

    def __init__(
        self, shadow: Shadow, view: View, now_ms: int, multiplier: int, config: Config | None, slack: frozenset[str]
    ) -> None:
        self.shadow = shadow
        self.view = view
        self.now_ms = now_ms
        self.multiplier = multiplier
        self.config = config
        self.slack = slack
        self.upper: dict[str, int] = {}
        self.ceilings = view.ceilings
        self.minted: dict[str, int] = {}
        self.room: dict[str, int] = {}
        for name, shape in view.shapes.items():
            minted = shape.minted_since_anchor(now_ms)
            self.minted[name] = minted
            self.room[name] = min(shape.ceiling_milli, view.tokens_milli(name) + minted)

    def write(self, load: Load) -> Update:
        """One update, whatever the number of entries."""
        if load.gives_only:
            return self._give_back(load)
        draft, longest_ms = Draft(), 0
        for name, shape in self.view.shapes.items():
            self._take(draft, name, load)
            limit, deficit = shape.limit, shape.ceiling_milli - self.room[name] + load.net(name)
            longest_ms = max(longest_ms, deficit * limit.refill_period // limit.refill_amount)
        self.upper = draft.at_most
        draft.equals["rf"] = self.view.item["rf"]
        draft.count_write(load)
        if self.config is not None:
            draft.expire(expires_at(self, self.config, longest_ms), self.view.item)
        return draft.update(self.shadow.key)

    def _give_back(self, load: Load) -> Update:
        draft = Draft()
        draft.exists = tuple(bucket_attributes(name).tk for name in load.given)
        draft.equals["shard_count"] = self.view.shard_count
        for name, amount in load.given.items():
            at = bucket_attributes(name)
            draft.add[at.tk], draft.add[at.tc] = amount, -amount
        draft.count_write(load)
        return draft.update(self.shadow.key)

    def _take(self, draft: Draft, limit: str, load: Load) -> None:
        """One limit, in the row that it is in; a limit that takes no part is left alone."""
        at, net, checked = bucket_attributes(limit), load.net(limit), load.checked.get(limit)
        draft.count(at.tc, net)
        if checked is None and limit not in load.unchecked:
            draft.count(at.tk, -net)
            return
        minted, ceiling = self.minted[limit], self.ceilings[limit]
        if checked == 0 and net == 0:
            draft.at_least[at.tk] = -minted
            return
        slack = None if self.room[limit] < ceiling else self._row_set(limit, ceiling, checked or 0)
        if slack is None:
            least = None if checked is None else checked - load.given.get(limit, 0) - minted
            draft.take_below(at.tk, least=least, most=ceiling - minted, change=-net)
        else:
            held = ceiling - slack - minted
            draft.take_at_ceiling(at.tk, least=held, balance=held - net)

    def _row_set(self, limit: str, ceiling: int, checked: int) -> int | None:
        """The slack of row SET, ``None`` for row ADD, where the copy says that the limit is at its ceiling."""
        if limit in self.slack:
            return min(ceiling // SLACK_DIVISOR, ceiling - checked)
        return 0 if self.shadow.alone or self.shadow.demand(limit) < DEMAND_FOR_ADD else None


class Standing(NamedTuple):
    """One limit at the anchor to come: stored balance, what is minted until then, the ceiling that counts."""

    tokens: int
    minted: int
    ceiling: int

    @property
    def room(self) -> int:
        """What is available, in millitokens."""
        return min(self.ceiling, self.tokens + self.minted)


class Reshape:
    """The bucket gets the shape that the config asks for, under a new anchor.

    Every limit that the item has moves to the anchor; its tokens stay, up to the lower of the two ceilings. A limit
    that is new to the item starts full; one that the config has not keeps its rule.
    """

    reshapes = True
    upper: Mapping[str, int] = NOTHING

    def __init__(self, shadow: Shadow, view: View, now_ms: int, multiplier: int, config: Config) -> None:
        self.shadow = shadow
        self.view = view
        self.now_ms = now_ms
        self.multiplier = multiplier
        self.config = config
        self.anchor_ms = max(now_ms, view.anchor_ms + 1)
        self.stands = {name: self._stand(shape) for name, shape in view.shapes.items()}
        new = {limit.name: self._ceiling(limit) for limit in config.limits if limit.name not in self.stands}
        self.room = {name: stand.room for name, stand in self.stands.items()} | new
        self.ceilings = {name: stand.ceiling for name, stand in self.stands.items()} | new

    def _ceiling(self, limit: Limit) -> int:
        return share(limit.ceiling_milli, self.shadow.id.shard, self.view.shard_count)

    def _stand(self, shape: Shape) -> Standing:
        name = shape.limit.name
        ruled = self.config.by_name.get(name, shape.limit)
        ceiling = min(shape.ceiling_milli, self._ceiling(ruled))
        return Standing(self.view.tokens_milli(name), shape.minted_since_anchor(self.anchor_ms), ceiling)

    def write(self, load: Load) -> Update:
        """One update that moves the shape and carries the batch."""
        draft = Draft()
        draft.equals["rf"] = self.view.anchor_ms
        for name, stand in self.stands.items():
            self._take(draft, name, stand, load)
        for limit in self.config.limits:
            self._rule(draft, limit, load)
        draft.count_write(load)
        draft.set.update(rf=self.anchor_ms, cv=self.config.read_again_after(self.view.item["cv"]).read_at_ms)
        rules = {name: shape.limit for name, shape in self.view.shapes.items()} | dict(self.config.by_name)
        longest_ms = max(self._wait_ms(limit, load) for limit in rules.values())
        draft.expire(expires_at(self, self.config, longest_ms), self.view.item)
        return draft.update(self.shadow.key)

    def _take(self, draft: Draft, name: str, stand: Standing, load: Load) -> None:
        at, net, checked = bucket_attributes(name), load.net(name), load.checked.get(name)
        draft.count(at.tc, net)
        if stand.room < stand.ceiling:
            least = None if checked is None else checked - load.given.get(name, 0) - stand.minted
            draft.take_below(at.tk, least=least, most=stand.ceiling - stand.minted, change=stand.minted - net)
        else:
            draft.take_at_ceiling(at.tk, least=stand.ceiling - stand.minted, balance=stand.ceiling - net)

    def _rule(self, draft: Draft, limit: Limit, load: Load) -> None:
        at, shape = bucket_attributes(limit.name), self.view.shapes.get(limit.name)
        if shape is None:
            draft.absent += (at.tk,)
            draft.set[at.tk] = self.room[limit.name] - load.net(limit.name)
            draft.set[at.tc] = load.net(limit.name)
        if shape is None or shape.limit != limit:
            rule = rule_attributes(limit)
            draft.set.update(rule)
            if at.bx not in rule and at.bx in self.view.item:
                draft.remove += (at.bx,)

    def _wait_ms(self, limit: Limit, load: Load) -> int:
        deficit = self._ceiling(limit) - min(0, self.room[limit.name] - load.net(limit.name))
        return deficit * limit.refill_period // limit.refill_amount


class New:
    """There is no bucket: it is made full, but for what the batch takes."""

    reshapes = False
    upper: Mapping[str, int] = NOTHING
    view = None

    def __init__(self, shadow: Shadow, now_ms: int, multiplier: int, config: Config) -> None:
        self.shadow = shadow
        self.now_ms = now_ms
        self.multiplier = multiplier
        self.config = config
        self.room = {limit.name: limit.ceiling_milli for limit in config.limits}
        self.ceilings = self.room

    def write(self, load: Load) -> Put:
        """The item, refused where there is one."""
        bucket, config = self.shadow.id, self.config
        item: Item = {**bucket.attributes(), **self.shadow.family, "shard_count": 1, "rf": self.now_ms}
        item |= {"cv": config.read_at_ms, "ev": load.events, WRITES: ONE_WRITE}
        for limit in config.limits:
            at, net = bucket_attributes(limit.name), load.net(limit.name)
            item |= {at.tk: limit.ceiling_milli - net, at.tc: net, **rule_attributes(limit)}
        longest_ms = max(load.net(limit.name) * limit.refill_period // limit.refill_amount for limit in config.limits)
        ttl = expires_at(self, config, longest_ms)
        if ttl is not None:
            item["ttl"] = ttl
        return Put(item, Conditions(absent=("PK",)))


Frame = Ordinary | Reshape | New


def expires_at(frame: Frame, config: Config, longest_ms: int) -> int | None:
    """``ttl``, in epoch seconds: a minute, and ``multiplier`` times as long as the slowest limit takes to fill up.

    Others may have been at the bucket since it was seen: it is kept for as long as it takes to fill it from empty, or
    from its debt, and never shorter than was seen. ``None`` for a bucket that does not expire: with limits of the
    entity's own, or when it is split.
    """
    view = frame.view
    if config.own or frame.multiplier == 0 or (view is not None and view.shard_count != 1):
        return None
    fill_ms = longest_ms if view is None else max(longest_ms, view.fill_ms)
    ttl = -(-(frame.now_ms + TTL_GRACE_MS + frame.multiplier * fill_ms) // 1000)
    return ttl if view is None else max(ttl, view.item.get("ttl", 0))
