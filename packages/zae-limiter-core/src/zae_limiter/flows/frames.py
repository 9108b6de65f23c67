"""The three kinds of write that an acquire may need: to a bucket as it is, to one of another shape, to a new one.

Lives here: how much room each leaves, and the operation that it is. Never: who fits (batch), what its answer means (commit).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..bucket import Shape, share
from ..limits import Limit
from ..operations.values import Conditions, Item, Put, Update
from ..resolution import Config
from ..schema.items import ONE_WRITE, WRITES, View, bucket_attributes, rule_attributes
from .batch import Draft, Load, Standing, expires_at
from .scope import Shadow

SLACK_DIVISOR = 20


@dataclass(slots=True)
class Ordinary:
    """The bucket keeps its shape. ``upper`` holds, after ``write``, the upper bound of each limit in row ADD."""

    shadow: Shadow
    view: View
    now_ms: int
    multiplier: int
    config: Config | None
    slack: frozenset[str]
    stands: dict[str, Standing] = field(init=False)
    room: dict[str, int] = field(init=False)
    ceilings: dict[str, int] = field(init=False)
    upper: dict[str, int] = field(init=False, default_factory=dict)

    reshapes = False

    def __post_init__(self) -> None:
        self.stands, self.room, self.ceilings = {}, {}, {}
        for name, shape in self.view.shapes.items():
            stand = Standing(self.view.tokens_milli(name), shape.minted_since_anchor(self.now_ms), shape.ceiling_milli)
            self.stands[name], self.room[name], self.ceilings[name] = stand, stand.room, stand.ceiling

    def write(self, load: Load) -> Update:
        """One update, whatever the number of entries."""
        draft = Draft()
        if load.gives_only:
            draft.exists = [bucket_attributes(limit).tk for limit in load.given]
        else:
            draft.equals["rf"] = self.view.anchor_ms
        for limit in load.limits():
            self._take(draft, limit, load)
        self.upper = draft.at_most
        draft.count_consumption(load)
        if self.config is not None and not load.gives_only:
            draft.expire(self._ttl(self.config, load), self.view.item)
        return draft.update(self.shadow.key)

    def _take(self, draft: Draft, limit: str, load: Load) -> None:
        stand, checked = self.stands.get(limit), load.checked.get(limit)
        if stand is None or (checked is None and not load.unchecked.get(limit)):
            draft.count(bucket_attributes(limit).tk, load.given.get(limit, 0))
        elif checked == 0 and load.net(limit) == 0:
            draft.at_least[bucket_attributes(limit).tk] = -stand.minted
        elif not stand.full:
            draft.take_below(limit, stand, load)
        elif limit in self.slack:
            slack = min(stand.ceiling // SLACK_DIVISOR, stand.ceiling - (checked or 0))
            draft.take_at_ceiling(limit, stand, load, slack=slack, minted=stand.minted)
        elif self.shadow.alone or self.shadow.below.get(limit, 0.0) < 0.5:
            draft.take_at_ceiling(limit, stand, load, minted=stand.minted)
        else:
            draft.take_below(limit, stand, load)

    def _ttl(self, config: Config, load: Load) -> int | None:
        if not expires(config, self.multiplier, self.view.item["shard_count"]):
            return None
        deficits = ((self.view.shapes[name].limit, s.ceiling - s.room + load.net(name)) for name, s in self.stands.items())
        return expires_at(self.now_ms, self.multiplier, deficits)


@dataclass(slots=True)
class Reshape:
    """The bucket gets the shape that the config asks for, under a new anchor.

    Every limit that the item has moves to the anchor; its tokens stay, up to the lower of the two ceilings. A limit that
    is new to the item starts full; one that the config has not is left as it is.
    """

    shadow: Shadow
    view: View
    now_ms: int
    multiplier: int
    config: Config
    anchor_ms: int = field(init=False)
    stands: dict[str, Standing] = field(init=False)
    room: dict[str, int] = field(init=False)
    ceilings: dict[str, int] = field(init=False)
    upper: Mapping[str, int] = field(init=False, default_factory=dict)

    reshapes = True

    def __post_init__(self) -> None:
        self.anchor_ms = max(self.now_ms, self.view.anchor_ms + 1)
        self.stands = {name: self._stand(shape) for name, shape in self.view.shapes.items()}
        new = {limit.name: self._ceiling(limit) for limit in self.config.limits if limit.name not in self.stands}
        self.room = {name: stand.room for name, stand in self.stands.items()} | new
        self.ceilings = {name: stand.ceiling for name, stand in self.stands.items()} | new

    def _ceiling(self, limit: Limit) -> int:
        return share(limit.ceiling_milli, self.shadow.id.shard, self.view.item["shard_count"])

    def _stand(self, shape: Shape) -> Standing:
        name = shape.limit.name
        ruled = self.config.by_name.get(name, shape.limit)
        ceiling = min(shape.ceiling_milli, self._ceiling(ruled))
        return Standing(self.view.tokens_milli(name), shape.minted_since_anchor(self.anchor_ms), ceiling)

    def write(self, load: Load) -> Update:
        """One update that moves the shape and carries the batch."""
        draft = Draft(equals={"rf": self.view.anchor_ms})
        for name, stand in self.stands.items():
            if stand.full:
                draft.take_at_ceiling(name, stand, load)
            else:
                draft.take_below(name, stand, load, moved=stand.minted)
        for limit in self.config.limits:
            self._rule(draft, limit, load)
        draft.count_consumption(load)
        draft.set.update(rf=self.anchor_ms, cv=self.config.read_at_ms)
        draft.expire(self._ttl(load), self.view.item)
        return draft.update(self.shadow.key)

    def _rule(self, draft: Draft, limit: Limit, load: Load) -> None:
        at, shape = bucket_attributes(limit.name), self.view.shapes.get(limit.name)
        if shape is None:
            draft.absent.append(at.tk)
            draft.set[at.tk] = self.room[limit.name] - load.net(limit.name)
        if shape is None or shape.limit != limit:
            rule = rule_attributes(limit)
            draft.set.update(rule)
            if at.bx not in rule and at.bx in self.view.item:
                draft.remove.append(at.bx)

    def _ttl(self, load: Load) -> int | None:
        if not expires(self.config, self.multiplier, self.view.item["shard_count"]):
            return None
        deficits = ((limit, self._ceiling(limit) - self.room[limit.name] + load.net(limit.name)) for limit in self.config.limits)
        return expires_at(self.now_ms, self.multiplier, deficits)


@dataclass(slots=True)
class New:
    """There is no bucket: it is made full, but for what the batch takes."""

    shadow: Shadow
    now_ms: int
    multiplier: int
    config: Config
    room: dict[str, int] = field(init=False)
    upper: Mapping[str, int] = field(init=False, default_factory=dict)
    stands: Mapping[str, Standing] = field(init=False, default_factory=dict)

    reshapes = False

    def __post_init__(self) -> None:
        self.room = {limit.name: limit.ceiling_milli for limit in self.config.limits}

    @property
    def ceilings(self) -> dict[str, int]:
        """All limits are full."""
        return self.room

    def write(self, load: Load) -> Put:
        """The item, refused where there is one."""
        bucket, config = self.shadow.id, self.config
        item: Item = {**bucket.attributes(), **self.shadow.family, "shard_count": 1, "rf": self.now_ms}
        item |= {"cv": config.read_at_ms, "ev": load.events, WRITES: ONE_WRITE}
        for limit in config.limits:
            at, net = bucket_attributes(limit.name), load.net(limit.name)
            item |= {at.tk: limit.ceiling_milli - net, at.tc: net, **rule_attributes(limit)}
        if expires(config, self.multiplier, 1):
            deficits = ((limit, load.net(limit.name)) for limit in config.limits)
            item["ttl"] = expires_at(self.now_ms, self.multiplier, deficits)
        return Put(item, Conditions(absent=("PK",)))


Frame = Ordinary | Reshape | New
FrameOf = Callable[[int], Frame]


def expires(config: Config, multiplier: int, shard_count: int) -> bool:
    """Whether such a bucket has a ``ttl``: not with limits of the entity's own, not when it is split."""
    return not config.own and multiplier > 0 and shard_count == 1
