"""The schedules of limits in a history: by which one each shard was shaped, and what the time before a write counts by.

Why. A shard has the values of one piece of a schedule, and a write that goes by the same schedule counts all pieces
since the anchor. Whatever else moves the anchor, a write by another config, a split, one that tells a bucket, counts by
the values that the shard has.

Never: arithmetic (bucket_items), what a schedule is like (kinds).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from zae_limiter.operations.values import NOTHING, Item
from zae_limiter.values.limits import Limit
from zae_limiter.values.resolution import Config

from .bucket_items import SLOTS, Rule, Times, limit_state_of, limits_of, rule_of
from .kernel import Violation
from .kinds import Scheduled


class Planned(NamedTuple):
    """How a write was planned: by which config, and whether it gives the bucket the shape of that."""

    config: Config | None
    shapes: bool

    @staticmethod
    def by(plan: Any) -> "Planned":
        """How the library planned it."""
        return Planned(plan.config, plan.state is None or plan.reshapes)


class Schedules:
    """The schedules of limits as they are declared, and those that shaped the shards of all buckets."""

    def __init__(self, declared: Iterable[Scheduled] = ()) -> None:
        self._declared = {_key(each.limit): each.pieces for each in declared}
        self._of: dict[str, dict[str, Times]] = {}

    def of(self, pk: str, name: str) -> Times:
        """By which schedule a shard got its rule of a limit; none, if the config had none."""
        return self._of[pk].get(name, ()) if pk in self._of else ()

    def times(self, limit: Limit | None) -> Times:
        """The rules of a limit, one after the other; none, if it has no schedule."""
        if limit is None or not limit.schedule:
            return ()
        pieces = self._declared[_key(limit)]
        return tuple((since_ms, rule_of(replace(piece, prefetch=limit.prefetch))) for since_ms, piece in pieces)

    def counting(self, pk: str, before: Item | None, planned: Planned | None, *, moved: bool) -> Mapping[str, Times]:
        """The schedules by which the time before a write counts; the other limits count by the rule that they have.

        A write whose config nobody noted is made in one pass, by the shape that the shard has, or moves the anchor; one
        without a config gives back, at no time.
        """
        of = self._of.get(pk, NOTHING)
        if before is None or not of:
            return NOTHING
        config = None if planned is None else planned.config
        if config is None:
            return NOTHING if moved else of
        wanted = {name: self.times(config.scheduled.get(name)) for name in config.by_name}
        if not moved:
            return {name: times for name, times in of.items() if wanted.get(name, times) == times}
        if any(of.get(name, ()) != times for name, times in wanted.items()):
            return NOTHING
        if not all(_has(before, limit, wanted[name]) for name, limit in config.by_name.items()):
            return NOTHING
        return {name: times for name, times in wanted.items() if times}

    def wrote(self, pk: str, planned: Planned | None) -> None:
        """A write took effect: a shard has the schedules of the config that shaped it."""
        if planned is not None and planned.shapes and planned.config is not None:
            config, of = planned.config, self._of.get(pk, {})
            of = {**of, **{name: self.times(config.scheduled.get(name)) for name in config.by_name}}
            self._of[pk] = {name: times for name, times in of.items() if times}

    def inherits(self, pk: str, from_pk: str) -> None:
        """A shard was made by the shape of another one."""
        self._of[pk] = self._of.get(from_pk, {})


def check_times(name: str, rule: Rule, at_ms: int) -> None:
    """Raises ``Violation`` where a limit gets other values than its schedule has then, or just before."""
    found = [
        next((piece for since_ms, piece in reversed(rule.times) if since_ms <= at), rule) for at in (at_ms, at_ms - 1)
    ]
    if rule._replace(times=()) not in found and rule.times:
        raise Violation(f"{name} has {rule} from {at_ms} on, and its schedule has {found[0]}")


def _key(limit: Limit) -> tuple[Any, ...]:
    values = limit.capacity, limit.burst, limit.refill_amount, limit.refill_period
    return (limit.name, *values, limit.schedule)


def _has(item: Item, limit: Limit, times: Times) -> bool:
    """Whether a shard has a limit, as of any time."""
    if limit._has_slots:
        return (1000 * limit.capacity, 1000 * limit.expires) == tuple(map(item.get, (f"b_{SLOTS}_cp", f"b_{SLOTS}_ex")))
    if limit.name not in limits_of(item):
        return False
    rule = limit_state_of(item, limit.name).rule._replace(begin_ms=0)
    return rule in [each for _, each in times] if times else rule == rule_of(limit)
