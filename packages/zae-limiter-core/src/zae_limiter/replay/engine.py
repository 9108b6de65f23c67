"""Decide a trace of calls again: the same calls at the same instants, by other limits.

The problem: a limiter decides with a store, a cache, shards and retries, at thousands of calls a second at best; a
day of a busy namespace has millions. The choice: one bucket is a few integers (``balances``); a call looks at the
limits that it names on its whole path, and takes from all or from none. What is left out changes no verdict: who
writes, how often, on which shard. What a trace cannot know is left out, too, and said in docs/decisions/replay.md: that
a refused caller would have come again later, or would have waited.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from ..values.limits import MILLI, Limit
from .balances import Balance, balance_of

DISABLED: Final = "(disabled)"
"""The name in place of a limit's, of a switch that refuses every call; no limit has such a name."""


class BucketLimits(NamedTuple):
    """The limits that hold for one bucket. ``disabled``: every call is refused; ``bypass``: no limit refuses."""

    entity_id: str
    resource: str
    limits: tuple[Limit, ...]
    disabled: bool = False
    bypass: bool = False


class Short(NamedTuple):
    """A limit that lacks the amount of a call, of the entity that asked or of one above it."""

    entity_id: str
    limit_name: str


class Verdict(NamedTuple):
    """``refused_by`` has the limits that were short: none admits the call. ``shadowed``: shadow limits that were."""

    refused_by: tuple[Short, ...]
    shadowed: tuple[Short, ...] = ()


ADMITTED: Final = Verdict(())

PathOf = Callable[[str, str], Sequence[BucketLimits]]


class _Bucket:
    __slots__ = ("balances", "is_open")

    def __init__(self, found: BucketLimits) -> None:
        self.is_open = False
        self.balances = {limit.name: balance_of(found.entity_id, limit, shadow=found.bypass) for limit in found.limits}

    def open(self, at_ms: int) -> None:
        for balance in self.balances.values():
            balance.open(at_ms)

    def lacks(self, names: Sequence[str], costs: Sequence[int], at_ms: int) -> bool:
        known = (
            (self.balances[name], n * MILLI) for name, n in zip(names, costs, strict=True) if name in self.balances
        )
        return any(cost > balance.look(at_ms) and not balance.shadow for balance, cost in known)


class _Path:
    """The buckets that the calls of an entity on a resource draw on, and for each set of names the limits to look at.

    ``closed``: some of the buckets may not be there yet.
    """

    __slots__ = ("buckets", "closed", "disabled", "plans")

    def __init__(self, buckets: Sequence[_Bucket], disabled: Sequence[str]) -> None:
        self.buckets = buckets
        self.closed = True
        self.disabled = Verdict(tuple(Short(entity_id, DISABLED) for entity_id in disabled))
        self.plans: dict[tuple[str, ...], list[tuple[Balance, int]]] = {}

    def plan(self, names: tuple[str, ...]) -> list[tuple[Balance, int]]:
        """Return each limit of these names, with the place of its name."""
        found = self.plans[names] = [
            (bucket.balances[name], place)
            for bucket in self.buckets
            for place, name in enumerate(names)
            if name in bucket.balances
        ]
        return found

    def open(self, names: tuple[str, ...], costs: Sequence[int], at_ms: int) -> None:
        """Begin the buckets that are not there yet. Such a one stays if it has its own part of the call, and no bucket
        that is there lacks its own; a call of nothing makes none.
        """
        new = [bucket for bucket in self.buckets if not bucket.is_open]
        lacking = any(bucket.lacks(names, costs, at_ms) for bucket in self.buckets if bucket.is_open)
        for bucket in new:
            bucket.open(at_ms)
            asked = any(n for name, n in zip(names, costs, strict=True) if name in bucket.balances)
            bucket.is_open = asked and not lacking and not bucket.lacks(names, costs, at_ms)
        self.closed = not all(bucket.is_open for bucket in self.buckets)


class _Held:
    """What an open lease has asked for, in millitokens: ``told`` by name, ``slots`` that it has, and what it ``missed``
    of shadow limits that were short.
    """

    __slots__ = ("missed", "path", "slots", "told")

    def __init__(self, path: _Path) -> None:
        self.path = path
        self.told: dict[str, int] = {}
        self.slots: dict[Balance, int] = {}
        self.missed: dict[Balance, int] = {}

    def without_counted(self, balance: Balance, change: int, at_ms: int) -> int:
        """Return the part of a correction that changes the balance of a shadow limit; the rest is only counted."""
        if balance in self.missed or (change > 0 and balance.name not in self.told and balance.look(at_ms) <= 0):
            return change - max(change, -self.missed.get(balance, 0))
        return change


class Replay:
    """Decides calls in the order of their time, by the limits of ``path_of``: that of an entity on a resource, from its
    own bucket upward. Each bucket begins as a new one.
    """

    def __init__(self, path_of: PathOf) -> None:
        self._path_of = path_of
        self._paths: dict[tuple[str, str], _Path] = {}
        self._buckets: dict[tuple[str, str], _Bucket] = {}
        self._leases: dict[str, _Held] = {}

    def decide(
        self,
        at_ms: int,
        entity_id: str,
        resource: str,
        amounts: Mapping[str, int],
        lease: str | None = None,
    ) -> Verdict:
        """Decide a call for whole tokens by limit at an instant (epoch ms) that is not before those of other calls.

        ``lease`` names what ``end`` ends; without one, the amounts stay as they are, and slots are not held.
        """
        path = self._paths.get((entity_id, resource)) or self._path(entity_id, resource)
        if path.disabled.refused_by:
            return path.disabled
        names, costs = tuple(amounts), [*amounts.values()]
        plan = path.plans.get(names)
        if plan is None:
            plan = path.plan(names)
        if path.closed:
            path.open(names, costs, at_ms)
        lacks = False
        for balance, place in plan:
            if costs[place] * MILLI > balance.look(at_ms):
                lacks = True
        if lacks:
            return self._lacking(at_ms, path, plan, (names, costs), lease)
        if lease is not None:
            self._hold(lease, path, plan, amounts)
        for balance, place in plan:
            if not balance.has_slots or lease is not None:
                balance.take(at_ms, costs[place] * MILLI)
        return ADMITTED

    def end(self, at_ms: int, lease: str, consumed: Mapping[str, int] | None = None) -> None:
        """End a lease: its slots are free again, and what it ``consumed`` in whole tokens replaces its amounts.

        Without ``consumed`` the amounts stay. A lease that this replay has refused has nothing to end.
        """
        held = self._leases.pop(lease, None)
        if held is None:
            return
        for bucket in held.path.buckets:
            for name, balance in bucket.balances.items():
                if balance.has_slots:
                    change = -held.slots.get(balance, 0)
                elif consumed is not None and name in consumed:
                    change = consumed[name] * MILLI - held.told.get(name, 0)
                else:
                    continue
                if change > 0 and not bucket.is_open:
                    bucket.open(at_ms)
                    bucket.is_open = True
                if change and bucket.is_open:
                    if balance.shadow:
                        change = held.without_counted(balance, change, at_ms)
                    balance.correct(at_ms, change)

    def _lacking(
        self,
        at_ms: int,
        path: _Path,
        plan: Sequence[tuple[Balance, int]],
        asked: tuple[tuple[str, ...], Sequence[int]],
        lease: str | None,
    ) -> Verdict:
        """Return the verdict of a call for which a limit is short: if only shadow limits are, it takes the rest."""
        names, costs = asked
        lacking = {balance: None for balance, place in plan if costs[place] * MILLI > balance.free}
        if not all(balance.shadow for balance in lacking):
            return Verdict(tuple(Short(each.entity_id, each.name) for each in lacking if not each.shadow))
        rest = [(balance, place) for balance, place in plan if balance not in lacking]
        if lease is not None:
            held = self._hold(lease, path, rest, dict(zip(names, costs, strict=True)))
            for balance, place in plan:
                if balance in lacking:
                    held.missed[balance] = held.missed.get(balance, 0) + costs[place] * MILLI
        for balance, place in rest:
            if not balance.has_slots or lease is not None:
                balance.take(at_ms, costs[place] * MILLI)
        return Verdict((), tuple(Short(each.entity_id, each.name) for each in lacking))

    def _hold(self, lease: str, path: _Path, plan: Sequence[tuple[Balance, int]], amounts: Mapping[str, int]) -> _Held:
        held = self._leases.get(lease)
        if held is None:
            held = self._leases[lease] = _Held(path)
        told, costs = held.told, [*amounts.values()]
        for name, amount in amounts.items():
            told[name] = told.get(name, 0) + amount * MILLI
        for balance, place in plan:
            if balance.has_slots:
                held.slots[balance] = held.slots.get(balance, 0) + costs[place] * MILLI
        return held

    def _path(self, entity_id: str, resource: str) -> _Path:
        found = self._path_of(entity_id, resource)
        buckets = [self._bucket(each) for each in found]
        path = _Path(buckets, [each.entity_id for each in found if each.disabled])
        self._paths[entity_id, resource] = path
        return path

    def _bucket(self, found: BucketLimits) -> _Bucket:
        key = (found.entity_id, found.resource)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(found)
        return bucket
