"""The config cache: the records of the levels and of entities, as they were read, for a limited time. ``serving``
reads them.
"""

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

from ...operations.values import Item, Key
from ...runtime.lru import LRU
from ...schema import keys, plan_keys
from ...schema.attributes import ON_REFUSED
from ...schema.configs import (
    limits_in_force,
    override_end,
    read_config,
    read_limits,
    read_on_refused,
    read_on_unavailable,
    read_switches,
)
from ...schema.entities import ParentLink, read_parent_link, read_plan
from ...values.limits import Policy
from ...values.on_refused import OnRefused
from ...values.resolution import NO_NAMES, OWN_LEVELS, Config, Level, Resolved, winner
from ...values.stats import CacheStats
from ...values.switches import ResolvedSwitches, resolve_switches


class Record(NamedTuple):
    """An item of a level or of an entity, as it was read at ``read_at_ms``; ``None`` if it does not exist."""

    item: Item | None
    read_at_ms: int

    def has_ended(self, now_ms: int) -> bool:
        """Return whether an override was in force when the item was read, and is no longer."""
        until_ms = override_end(self.item)
        return until_ms is not None and self.read_at_ms < until_ms <= now_ms


Records = Mapping[Key, Record]


class ConfigKeys(NamedTuple):
    """The keys of all items that decide the limits of an entity on a resource, but for those of its plan."""

    entity: Key
    entity_default: Key
    resource: Key
    system: Key
    meta: Key


def config_keys(namespace_id: str, entity_id: str, resource: str) -> ConfigKeys:
    """Return the keys of the levels that every entity has, and of the entity's record."""
    entity_pk = keys.pk_entity(namespace_id, entity_id)
    return ConfigKeys(
        entity=Key(entity_pk, keys.sk_config(resource)),
        entity_default=Key(entity_pk, keys.sk_config("_default_")),
        resource=Key(keys.pk_resource(namespace_id, resource), keys.sk_config()),
        system=Key(keys.pk_system(namespace_id), keys.sk_config()),
        meta=Key(entity_pk, keys.sk_meta()),
    )


def keys_of_plan(namespace_id: str, plan: str | None, resource: str) -> tuple[Key, ...]:
    """Return the keys of a plan's config on a resource, and on all (``_default_``); none without a plan."""
    if plan is None:
        return ()
    pk = plan_keys.pk_plan(namespace_id, plan)
    return Key(pk, keys.sk_config(resource)), Key(pk, keys.sk_config("_default_"))


class ConfigCache:
    """The config cache of one namespace in one process.

    The record of an entity names its plan, so the keys of the plan's configs are known only with that record. The cache
    remembers the plan of an entity for longer than its record: so one read has all keys again, unless the plan changes.
    """

    def __init__(self, namespace_id: str, *, ttl_ms: int, size: int) -> None:
        self._namespace_id = namespace_id
        self._ttl_ms = ttl_ms
        self._records: LRU[Key, Record] = LRU(len(ConfigKeys._fields) * max(size, 1000))
        self._plans: LRU[Key, str] = LRU(max(size, 1000))
        self._on_unavailable: Policy | None = None
        self._lock = Lock()
        self._changes = max(size, 1000)
        self._changed: dict[Key, int] = {}
        self._all_changed = 0
        self.generation = 0
        self.hits = 0
        self.misses = 0
        self.has_on_refused = False
        """Whether any record ever had an ``on_refused``: without one, no acquire looks for it."""

    @property
    def on_unavailable(self) -> Policy | None:
        """The policy of the system config read last; kept after it expires, for an outage."""
        return self._on_unavailable

    def stale_keys(self, entity_id: str, resource: str, now_ms: int, *, since_ms: int = 0) -> list[Key]:
        """Return the keys to read before the limits are fresh again, as of ``since_ms`` at least: all keys, if an
        override has ended since it was read.

        Another read may have shown the override's limits to the bucket later than the read that this cache
        remembers.
        """
        ttl_ms = self._ttl_ms
        keys = self._keys(entity_id, resource)
        records = [(key, self._records.get(key)) for key in keys]
        if any(record is not None and record.has_ended(now_ms) for _, record in records):
            return keys
        return [
            key
            for key, record in records
            if record is None or record.read_at_ms < since_ms or abs(now_ms - record.read_at_ms) > ttl_ms
        ]

    def _keys(self, entity_id: str, resource: str) -> list[Key]:
        """Return the keys of all items that decide the limits, by the plan that the entity had last."""
        found = config_keys(self._namespace_id, entity_id, resource)
        return [*found, *keys_of_plan(self._namespace_id, self._plans.get(found.meta), resource)]

    def unknown_of_plan(self, entity_id: str, resource: str, read: Records, now_ms: int) -> list[Key]:
        """Return the keys of the entity's plan that neither the ``read`` nor the cache has."""
        meta = config_keys(self._namespace_id, entity_id, resource).meta
        record = read.get(meta) or self._records.get(meta)
        plan = None if record is None else read_plan(record.item)
        wanted = [key for key in keys_of_plan(self._namespace_id, plan, resource) if key not in read]
        known = ((key, self._records.get(key)) for key in wanted)
        return [key for key, found in known if found is None or abs(now_ms - found.read_at_ms) > self._ttl_ms]

    def has_all(self, read: Records, entity_id: str, resource: str) -> bool:
        """Return whether one read had all records behind the limits of an entity on a resource."""
        return all(key in read for key in self._keys(entity_id, resource))

    def is_current(self, resolved: Resolved, entity_id: str, resource: str) -> bool:
        """Return whether this process has left every item behind ``resolved`` unchanged since."""
        if resolved.generation == self.generation:
            return True
        if resolved.generation < self._all_changed:
            return False
        ns = self._namespace_id
        wanted = (*config_keys(ns, entity_id, resource), *keys_of_plan(ns, resolved.plan, resource))
        return all(self._changed.get(key, 0) <= resolved.generation for key in wanted)

    def learn(self, wanted: Iterable[Key], found: Mapping[Key, Item], read_at_ms: int, generation: int) -> Records:
        """Remember and return the records of a read that began at ``read_at_ms``, in ``generation``.

        A wanted key that was not found is remembered as missing. A record that this process has changed since is
        returned, but not remembered. Raises ``Unreadable`` before it remembers any.
        """
        records = {key: Record(found.get(key), read_at_ms) for key in wanted}
        for key, record in records.items():
            check_record(key, record.item, read_at_ms)
            self.has_on_refused |= record.item is not None and ON_REFUSED in record.item
            if key.sk == keys.sk_meta():
                self._learn_plan(key, record.item)
        system = Key(keys.pk_system(self._namespace_id), keys.sk_config())
        with self._lock:
            for key, record in records.items():
                if max(self._changed.get(key, 0), self._all_changed) <= generation:
                    self._records.put(key, record)
                    if key == system:
                        self._on_unavailable = read_on_unavailable(record.item)
        return records

    def _learn_plan(self, key: Key, item: Item | None) -> None:
        plan = read_plan(item)
        if plan is not None:
            self._plans.put(key, plan)
        elif self._plans.get(key) is not None:
            self._plans.discard(key)

    def resolve(
        self, entity_id: str, resource: str, read: Records, *, now_ms: int, generation: int, later_than_ms: int = 0
    ) -> Resolved | None:
        """Return the limits that hold now, by the records just ``read`` and the cached ones; ``None`` if one is
        missing.

        ``generation``: that in which the read began. ``later_than_ms``: a ``cv`` seen before the read; the config
        counts as later, whatever the clocks say.
        """
        wanted = config_keys(self._namespace_id, entity_id, resource)
        meta = read.get(wanted.meta) or self._records.get(wanted.meta)
        plan = None if meta is None else read_plan(meta.item)
        every = (*wanted, *keys_of_plan(self._namespace_id, plan, resource))
        records = [record for record in (read.get(key) or self._records.get(key) for key in every) if record]
        if len(records) < len(every):
            return None
        items = ConfigItems(*(record.item for record in records))
        config = items.config([record.read_at_ms for record in records], now_ms).read_again_after(later_than_ms)
        seen_ms = min(record.read_at_ms for record in records)
        return items.resolved(
            config, now_ms, seen_ms=seen_ms, cached_until_ms=seen_ms + self._ttl_ms, generation=generation
        )

    def expire(self, entity_id: str, resource: str) -> None:
        """Mark all records behind the limits of an entity on a resource as stale, so that the next acquire reads
        them.
        """
        for key in self._keys(entity_id, resource):
            self._records.discard(key)

    def forget(self, key: Key) -> None:
        """Mark a record as stale that this process has changed; limits resolved from it are no longer current."""
        with self._lock:
            self._records.discard(key)
            self.generation += 1
            self._changed[key] = self.generation
            if len(self._changed) > self._changes:
                self._changed.clear()
                self._all_changed = self.generation

    def invalidate(self) -> None:
        """Mark all records as stale."""
        with self._lock:
            self._records.clear()
            self._plans.clear()
            self._changed.clear()
            self.generation += 1
            self._all_changed = self.generation

    def stats(self) -> CacheStats:
        """Return the hits and misses, the size, and the life of a record in seconds."""
        return CacheStats(self.hits, self.misses, len(self._records), self._ttl_ms / 1000)


def check_record(key: Key, item: Item | None, now_ms: int) -> None:
    """Raise ``Unreadable`` for an item that is like no config, or like no entity's record."""
    if key.sk == keys.sk_meta():
        read_parent_link(item)
        read_plan(item)
    elif item is not None:
        read_config(item, now_ms)


class ConfigItems(NamedTuple):
    """The items of the levels, and the entity's record; ``None`` for each that does not exist."""

    entity: Item | None
    entity_default: Item | None
    resource: Item | None
    system: Item | None
    meta: Item | None
    plan: Item | None = None
    plan_default: Item | None = None

    def levels(self, now_ms: int) -> list[Level]:
        """Return the levels, the strongest first; an override in force replaces the limits of its level. A plan has
        limits alone, no switches.
        """
        return [
            Level("entity", limits_in_force(self.entity, now_ms), read_switches(self.entity)),
            Level("entity_default", limits_in_force(self.entity_default, now_ms), read_switches(self.entity_default)),
            Level("plan", read_limits(self.plan)),
            Level("plan_default", read_limits(self.plan_default)),
            Level("resource", read_limits(self.resource), read_switches(self.resource)),
            Level("system", read_limits(self.system), read_switches(self.system)),
        ]

    def switches(self, now_ms: int) -> ResolvedSwitches | None:
        """Return the switches that hold; ``None`` if no level sets one."""
        return resolve_switches((level.source, level.switches) for level in self.levels(now_ms))

    def on_refused(self) -> OnRefused | None:
        """Return what the strongest level that says something of refusals says."""
        levels = (self.entity, self.entity_default, self.plan, self.plan_default, self.resource, self.system)
        found = map(read_on_refused, levels)
        return next((policy for policy in found if policy is not None), None)

    def override_ends(self, now_ms: int) -> list[int]:
        """Return the ends (epoch ms) of the overrides in force."""
        ends = (override_end(item) for item in (self.entity, self.entity_default))
        return [end for end in ends if end is not None and now_ms < end]

    def config(self, read_at_ms: Sequence[int], now_ms: int) -> Config:
        """Return the limits of the winning level, as old as the oldest read up to that level, in which the entity's
        record counts from its plan on; empty if no level has limits. ``read_at_ms`` are in the order of the items.

        They count as the entity's own only if it has limits beside an override. An override alone leaves no bucket that
        never expires. Neither do limits of which one is a total that expires.
        """
        levels = self.levels(now_ms)
        wins = winner(levels)
        if wins is None:
            return Config((), min(read_at_ms))
        entity, entity_default, resource, system, meta, *plan = read_at_ms
        of_plan = [min(meta, each) for each in plan] or [meta, meta]
        ages = [entity, entity_default, *of_plan, resource, system]
        oldest = min(ages[: levels.index(wins) + 1])
        own = wins.source in OWN_LEVELS and any(map(read_limits, (self.entity, self.entity_default)))
        own = own and not any(limit.unused_seconds for limit in wins.limits)
        config = Config(wins.limits, oldest, own=own, stored=True)
        return config.at(now_ms)

    def resolved(self, config: Config, now_ms: int, *, seen_ms: int, cached_until_ms: int, generation: int) -> Resolved:
        """Return config, switches, parents and policy in one value."""
        levels, ends_ms = self.levels(now_ms), min(self.override_ends(now_ms), default=None)
        wins = winner(levels)
        parent_link, switches = read_parent_link(self.meta), self.switches(now_ms)
        if switches is not None and switches.disables:
            cached_until_ms = 0
        return Resolved(
            config=config,
            source=wins.source if wins else None,
            on_unavailable=read_on_unavailable(self.system),
            parent_ids=parent_link.parent_ids,
            cascade=cascades(parent_link, switches),
            valid_until_ms=cached_until_ms if ends_ms is None else min(cached_until_ms, ends_ms - 1),
            generation=generation,
            ends_ms=ends_ms,
            further_ids=parent_link.further_ids,
            switches=switches,
            seen_ms=seen_ms,
            on_refused=self.on_refused(),
            plan=read_plan(self.meta),
            dropped=self._names(levels) - config.by_name.keys() or NO_NAMES,
        )

    def _names(self, levels: Iterable[Level]) -> frozenset[str]:
        """Return the names of the limits of all levels, also of those that an override replaces."""
        replaced = (*read_limits(self.entity), *read_limits(self.entity_default))
        return frozenset(limit.name for limits in (replaced, *(level.limits for level in levels)) for limit in limits)


def cascades(link: ParentLink, switches: ResolvedSwitches | None) -> bool:
    """Return whether the acquires of an entity draw on its parents: by the switch, else by the entity's own record."""
    if switches is None or switches.cascade is None:
        return link.cascade
    return switches.cascade.value == "on" and bool(link.parent_ids)
