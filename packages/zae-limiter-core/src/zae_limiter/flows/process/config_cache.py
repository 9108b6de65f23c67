"""The config cache: the records of the levels and of entities, as they were read, for a limited time. ``serving``
reads them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Final

from ... import values
from ...operations.values import Item, Key
from ...runtime import forks
from ...runtime.lru import LRU
from ...runtime.named_tuple import NamedTuple
from ...schema import keys
from ...schema.attributes import ON_REFUSED, PATTERNS, RESOURCE, TIER
from ...schema.configs import Row, read_config, read_level
from ...schema.entities import read_parent_link, read_tier
from ...schema.record import reads, unreadable
from ...schema.store_errors import Unreadable
from ...values.limits import ConfigSource, Policy
from ...values.naming import DEFAULT_RESOURCE
from ...values.resolution import LEVELS, NO_NAMES, OWN_LEVELS, TIER_LEVELS, Config, Level, Resolved, compose
from ...values.switches import resolve_switches
from ..retry import key_of, read_all
from ..steps import Flow
from ..validation import OwnPlace

if TYPE_CHECKING:
    from ..index_rows import IndexRows


class Record(NamedTuple):
    """An item of a level or of an entity, as it was read at ``read_at_ms``; ``None`` if it does not exist."""

    item: Item | None
    read_at_ms: int

    def has_ended(self, now_ms: int) -> bool:
        """Return whether an override was in force when the item was read, and is no longer."""
        until_ms = Row(self.item).override_end()
        return until_ms is not None and self.read_at_ms < until_ms <= now_ms


Records = Mapping[Key, Record]


class Read(NamedTuple):
    """What one read has found: records, the keys of each place that it was for, and items beside them."""

    records: Records
    keys: "Mapping[OwnPlace, ConfigKeys]"
    beside: Mapping[Key, Item]


RESOURCES_REMEMBERED: Final = 1_000  # whose limits, as all entities without a record of their own have them, are known
META: Final = keys.sk_meta()
NO_RECORDS: Final[Records] = {}


class ConfigKeys(NamedTuple):
    """The keys of all items that decide the limits of an entity on a resource; ``None`` for those of no tier."""

    entity: Key
    entity_default: Key
    resource: Key
    system: Key
    meta: Key
    tier: Key | None = None
    tier_default: Key | None = None

    @property
    def to_read(self) -> list[Key]:
        """The keys of the items that may exist."""
        return [*self[:5]] if self.tier is None else [*self]  # type: ignore[list-item]  # both keys of a tier, or none


def config_keys(
    namespace_id: str, entity_id: str, resource: str, tier_of: Callable[[Key], str | None] = lambda _: None
) -> ConfigKeys:
    """Return the keys of the levels of an entity, and of its record; by that ``tier_of`` knows the entity's tier."""
    entity_pk = keys.pk_entity(namespace_id, entity_id)
    on_resource, on_all, of_resource, of_system = _shared_keys(namespace_id, resource)
    new = tuple.__new__  # as `Key` does, without its call: each first acquire comes by here
    meta = new(Key, (entity_pk, META))
    own = new(Key, (entity_pk, on_resource)), new(Key, (entity_pk, on_all))
    tier = tier_of(meta)
    if tier is None:
        return new(ConfigKeys, (*own, of_resource, of_system, meta, None, None))
    pk = keys.pk_tier(namespace_id, tier)
    return ConfigKeys(*own, of_resource, of_system, meta, Key(pk, on_resource), Key(pk, on_all))


@lru_cache(maxsize=1024)
def _shared_keys(namespace_id: str, resource: str) -> tuple[str, str, Key, Key]:
    """Return what the keys of all entities on a resource share: the sort keys of their configs on it and on all
    resources, the key of the resource's config, and that of the system's.
    """
    of_resource = Key(keys.pk_resource(namespace_id, resource), keys.sk_config())
    of_system = Key(keys.pk_system(namespace_id), keys.sk_config())
    return keys.sk_config(resource), keys.sk_config(DEFAULT_RESOURCE), of_resource, of_system


class ConfigCache:
    """The config cache of one namespace in one process.

    The record of an entity names its tier, so the keys of the tier's configs are known only with that record. The cache
    remembers the tier of an entity for longer than its record: so one read has all keys again, unless the tier changes.
    """

    def __init__(self, namespace_id: str, *, ttl_ms: int, size: int) -> None:
        self._namespace_id = namespace_id
        self._ttl_ms = ttl_ms
        self._records: LRU[Key, Record] = LRU(5 * max(size, 1000))  # of a bucket without a tier
        self._tiers: LRU[Key, str] = LRU(max(size, 1000))
        self._by_levels: LRU[str, _ByLevels] = LRU(RESOURCES_REMEMBERED)
        self._system = Key(keys.pk_system(namespace_id), keys.sk_config())
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
        forks.register(self)

    def forget(self) -> None:
        """Take a new lock after a fork: the parent's may never be released in the child."""
        self._lock = Lock()

    @property
    def on_unavailable(self) -> Policy | None:
        """The policy of the system config read last; kept after it expires, for an outage."""
        return self._on_unavailable

    def _stale(self, keys: ConfigKeys, now_ms: int, *, as_of_ms: int, read: Records) -> list[Key]:
        """Return which of the keys to read, beside those just ``read``, before the limits are fresh again, as of
        ``as_of_ms`` at least: all keys, if an override has ended since it was read.

        Another read may have shown the override's limits to the bucket later than the read that this cache
        remembers.
        """
        wanted = [key for key in keys.to_read if key not in read] if read else keys.to_read
        stale, ttl_ms = list[Key](), self._ttl_ms
        for key in wanted:
            record = self._records.get(key)
            if record is None:
                stale.append(key)
                continue
            if record.read_at_ms < as_of_ms or abs(now_ms - record.read_at_ms) > ttl_ms:
                stale.append(key)
            if record.item is not None and record.has_ended(now_ms):
                return wanted
        return stale

    def _keys(self, entity_id: str, resource: str, read: Records = NO_RECORDS) -> ConfigKeys:
        """Return the keys of all items that decide the limits, by the tier that the entity had last."""

        def tier_of(meta: Key) -> str | None:
            record = read.get(meta) or self._records.get(meta)
            return self._tiers.get(meta) if record is None else read_tier(record.item)

        return config_keys(self._namespace_id, entity_id, resource, tier_of)

    def read(
        self,
        places: Mapping[OwnPlace, int],
        now_ms: int,
        *,
        beside: Sequence[Key] = (),
        rows: "IndexRows | None" = None,
    ) -> Flow[Read]:
        """Read the records behind the limits at these places that are unknown, expired, or older than the instant of
        the place, and the items ``beside`` them with the same request.

        A second request follows where an entity turns out to have a tier whose limits are unknown. The ``rows`` of a
        list leave out records that cannot be read: the cache must not take them for missing.
        """
        generation, read, others = self.generation, dict[Key, Record](), dict[Key, Item]()
        keys_of = {place: self._keys(*place) for place in places}
        for is_first in (True, False):
            stale = [
                self._stale(keys_of[at], now_ms, as_of_ms=is_first * since, read=read) for at, since in places.items()
            ]
            wanted = stale[0] if len(stale) == 1 else list(dict.fromkeys(chain.from_iterable(stale)))
            if not (wanted or is_first):
                break
            found = yield from read_all([*wanted, *(beside if is_first else ())])
            if beside and found:
                others |= {key: found.pop(key) for key in beside if key in found}
            if rows is not None:
                sound = {key_of(item): item for item in rows.read(found.values(), partial(_checked, now_ms=now_ms))}
                wanted, found = [key for key in wanted if key in sound or key not in found], sound
            read |= self.learn(wanted, found, now_ms, generation)
            if self.generation == generation and not self._shows_tier(keys_of, found):
                break  # nothing else is to be read: this process has changed no config meanwhile
            keys_of = {place: self._keys(*place, read) for place in places}
        return Read(read, keys_of, others)

    def is_current(self, resolved: Resolved, entity_id: str, resource: str) -> bool:
        """Return whether this process has left every item behind ``resolved`` unchanged since."""
        if resolved.generation == self.generation:
            return True
        if resolved.generation < self._all_changed:
            return False
        wanted = config_keys(self._namespace_id, entity_id, resource, lambda _: resolved.tier).to_read
        return not any(self._is_changed(key, resolved.generation) for key in wanted)

    def learn(self, wanted: Iterable[Key], found: Mapping[Key, Item], read_at_ms: int, generation: int) -> Records:
        """Remember and return the records of a read that began at ``read_at_ms``, in ``generation``.

        A wanted key that was not found is remembered as missing. A record that this process has changed since is
        returned, but not remembered. Raises ``Unreadable`` before it remembers any.
        """
        missing = Record(None, read_at_ms)  # one for all: most entities have no record of their own
        records = {key: missing if (item := found.get(key)) is None else Record(item, read_at_ms) for key in wanted}
        for key, record in records.items():
            if record is not missing:
                check_record(key, record.item, read_at_ms)
                self.has_on_refused |= any(ON_REFUSED in each for each in _configs_in(found[key]))
            if key.sk == META:
                if (tier := read_tier(record.item)) is not None:
                    self._tiers.put(key, tier)
                elif self._tiers.get(key) is not None:
                    self._tiers.discard(key)
        with self._lock:
            known = records
            if self.generation != generation:
                known = {key: each for key, each in records.items() if not self._is_changed(key, generation)}
            self._records.put_all(known)
            if (system := known.get(self._system)) is not None:
                self._on_unavailable = Row(system.item).on_unavailable()
        return records

    def _shows_tier(self, keys_of: Mapping[OwnPlace, ConfigKeys], found: Mapping[Key, Item]) -> bool:
        """Return whether an entity has a tier by what was found, or had one."""
        if found and any(TIER in item for item in found.values()):
            return True
        for each in keys_of.values():  # noqa: SIM110 - a generator costs more, and each first acquire comes by here
            if each.tier is not None:
                return True
        return False

    def _is_changed(self, key: Key, generation: int) -> bool:
        """Return whether this process has changed a record after a generation."""
        return max(self._changed.get(key, 0), self._all_changed) > generation

    def resolve(
        self, place: OwnPlace, read: Read, *, now_ms: int, generation: int, later_than_ms: int = 0
    ) -> Resolved | None:
        """Return the limits that hold now at a place, by the records just ``read`` and the cached ones; ``None`` if one
        is missing.

        ``generation``: that in which the read began. ``later_than_ms``: a ``cv`` seen before the read; if that had all
        records, the config counts as later, whatever the clocks say.
        """
        wanted, of_read = read.keys[place], read.records
        to_read = wanted.to_read
        found = [record for key in to_read if (record := of_read.get(key) or self._records.get(key))]
        if len(found) < len(to_read):
            return None
        if later_than_ms and not all(key in of_read for key in to_read):
            later_than_ms = 0
        of_tier = () if wanted.tier is not None else (Record(None, found[4].read_at_ms),) * 2
        records, terms = (
            ConfigRecords(place[1], *found, *of_tier),
            (later_than_ms, self._ttl_ms, generation),
        )
        if not records.are_of_levels:
            return records.resolve(now_ms, *terms)
        return self._resolve_by_levels(place[1], records, now_ms, *terms)

    def _resolve_by_levels(self, resource: str, records: "ConfigRecords", now_ms: int, *terms: int) -> Resolved:
        """Return the limits of an entity without a record of its own: all such entities have the same ones, resolved
        once for each read of the resource's and the system's config.
        """
        known, (later_than_ms, _, generation) = self._by_levels.get(resource), terms
        if (
            known is not None
            and known.records.decide_for(records)
            and known.resolved.generation == generation
            and known.resolved.config.born_ms > later_than_ms
        ):
            return known.resolved
        resolved = records.resolve(now_ms, *terms)
        # the birth of limits that only count as later is that of one bucket alone
        if resolved.is_plain and resolved.ends_ms is None and not later_than_ms and records.decide_for(records):
            self._by_levels.put(resource, _ByLevels(records, resolved))
        return resolved

    def expire(self, entity_id: str, resource: str) -> None:
        """Mark all records behind the limits of an entity on a resource as stale, so that the next acquire reads
        them.
        """
        for key in self._keys(entity_id, resource).to_read:
            self._records.discard(key)

    def mark_changed(self, key: Key) -> None:
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
            self._tiers.clear()
            self._changed.clear()
            self.generation += 1
            self._all_changed = self.generation

    def stats(self) -> "values.stats.CacheStats":
        """Return the hits and misses, the size, and the life of a record in seconds."""
        return values.stats.CacheStats(self.hits, self.misses, len(self._records), self._ttl_ms / 1000)


def _checked(item: Item, now_ms: int) -> Item:
    """Return the item of a record. Raises ``Unreadable``."""
    check_record(key_of(item), item, now_ms)
    return item


def check_record(key: Key, item: Item | None, now_ms: int) -> None:
    """Raise ``Unreadable`` for an item that is like no config, or like no entity's record."""
    if key.sk == keys.sk_meta():
        read_parent_link(item)
        read_tier(item)
    elif item is not None:
        own, *patterns = _configs_in(item)
        read_config(own, now_ms)
        for config in patterns:
            try:
                read_config(config, now_ms)
            except Unreadable as error:
                raise unreadable(item, ValueError(f"of the pattern {config[RESOURCE]}, {error.problem}")) from error


@reads
def _configs_in(item: Item) -> list[Item]:
    """Return an item, and the configs of patterns in it."""
    if PATTERNS not in item:
        return [item]
    from ...schema.patterns import pattern_items  # which few namespaces have

    return [item, *pattern_items(item)]


def _levels_of_patterns(system: Item, resource: str, now_ms: int, read_at_ms: int) -> list[Level]:
    """Return the levels of the patterns of a resource, the longest first."""
    from ...schema.patterns import configs_of

    found = reads(lambda item: [*configs_of(item, resource)])(system)
    return [read_level(item, "pattern", now_ms, read_at_ms)._replace(pattern=pattern) for pattern, item in found]


@reads
def _on_unavailable(item: Item | None) -> Policy | None:
    return Row(item).on_unavailable()


class ConfigRecords(NamedTuple):
    """The records of the levels, and the entity's own, as they were read together or one after another.

    That of the system has the patterns, too, of which those of the resource ``on`` are levels.
    """

    on: str
    entity: Record
    entity_default: Record
    resource: Record
    system: Record
    meta: Record
    tier: Record
    tier_default: Record

    def levels(self, now_ms: int) -> list[Level]:
        """Return the levels, the strongest first; an override in force replaces the limits of its level.

        The entity's record says that it has a tier, so the levels of its tier are as old as that at least.
        """
        records: list[tuple[ConfigSource, Record]] = [
            (source, getattr(self, source)) for source in LEVELS if source != "pattern"
        ]
        known_ms = self.meta.read_at_ms
        levels = [
            read_level(item, source, now_ms, min(at_ms, known_ms) if source in TIER_LEVELS else at_ms)
            for source, (item, at_ms) in records
        ]
        if self.system.item is not None and PATTERNS in self.system.item:
            levels[-1:-1] = _levels_of_patterns(self.system.item, self.on, now_ms, self.system.read_at_ms)
        return levels

    @property
    def are_of_levels(self) -> bool:
        """Whether the entity has no record of its own."""
        return self.entity.item is None and self.entity_default.item is None and self.meta.item is None

    def decide_for(self, other: "ConfigRecords") -> bool:
        """Return whether these are the same configs of the resource and of the system as of ``other``, and older than
        its other records, so that the age of the limits is theirs.
        """
        oldest_ms = max(self.resource.read_at_ms, self.system.read_at_ms)
        return (
            self.resource is other.resource
            and self.system is other.system
            and other.entity.read_at_ms >= oldest_ms
            and other.entity_default.read_at_ms >= oldest_ms
            and other.meta.read_at_ms >= oldest_ms
        )

    def resolve(self, now_ms: int, later_than_ms: int = 0, ttl_ms: int = 0, generation: int = 0) -> Resolved:
        """Return the limits of the levels together, with the switches, the parents and the policies that hold.

        The limits are as old as the oldest read down to the last level that they are of; without any, as the oldest of
        all. They count
        as the entity's own only if it has limits beside an override: an override alone leaves no bucket that never
        expires. Neither do limits of which one is a total that expires.
        """
        levels, oldest_ms = self.levels(now_ms), min(record.read_at_ms for record in self[1:])
        composed = compose(levels)
        if not composed.levels:
            config = Config((), oldest_ms)
        else:
            age = min(level.read_at_ms for level in levels[: levels.index(composed.levels[-1]) + 1])
            own = composed.source in OWN_LEVELS and any(level.stored for level in levels if level.source in OWN_LEVELS)
            own = own and bool(composed.limits) and not any(limit._unused_seconds for limit in composed.limits)
            config = Config(composed.limits, age, own=own, stored=True).at(now_ms)
        switches, link = (
            resolve_switches((level.source, level.switches, level.pattern) for level in levels),
            read_parent_link(self.meta.item),
        )
        cascade = link.cascade
        if switches is not None and switches.cascade is not None:  # before the entity's own record
            cascade = switches.cascade.value == "on" and bool(link.parent_ids)
        ends_ms = min((level.ends_ms for level in levels if level.ends_ms is not None), default=None)
        until_ms = 0 if switches is not None and switches.disables else oldest_ms + ttl_ms
        named = {limit.name for level in levels for limit in (*level.limits, *level.stored.limits)}
        return Resolved(
            config=config.born_after(later_than_ms),
            source=composed.source,
            on_unavailable=_on_unavailable(self.system.item),
            parent_ids=link.parent_ids,
            cascade=cascade,
            valid_until_ms=until_ms if ends_ms is None else min(until_ms, ends_ms - 1),
            generation=generation,
            ends_ms=ends_ms,
            further_ids=link.further_ids,
            switches=switches,
            seen_ms=oldest_ms,
            on_refused=next((level.on_refused for level in levels if level.on_refused is not None), None),
            tier=read_tier(self.meta.item),
            dropped=frozenset(named - config.by_name.keys()) or NO_NAMES,
            by_override=ends_ms is not None and all(level.ends_ms is not None for level in composed.levels),
            sources=composed.sources,
            pattern=composed.pattern,
        )


class _ByLevels(NamedTuple):
    """The limits of an entity without a record of its own, and the records behind them."""

    records: ConfigRecords
    resolved: Resolved
