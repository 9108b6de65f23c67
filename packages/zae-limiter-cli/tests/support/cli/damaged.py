"""A file with a record of every kind, and copies of the records with one value damaged in each.

Lives here: the records, their kinds, and how values are damaged. Never: a reader, a claim.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from support.core.damage import GONE, leaves, wrong
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.maintenance import SyncMaintenance, VersionRecord, run, set_bounds
from zae_limiter.operations.values import Item, Key, Put, Scan
from zae_limiter.schema import keys
from zae_limiter.schema.alerts import Told, told_item
from zae_limiter.schema.attributes import PK, SK
from zae_limiter.schema.items import BucketId
from zae_limiter.schema.registry import progress_item
from zae_limiter.schema.usage import is_hourly
from zae_limiter.values.versions import MigrationProgress
from zae_limiter_manifest import Request, load
from zae_limiter_provisioner.in_process import perform

ENTITY, RESOURCE, TIER, NAMESPACE = "entity-v", "resource-v", "tier-v", "namespace-v"
MANIFEST: Final = """
namespace: default
resources:
  gpt-4:
    limits: {rpm: 60/min}
"""
INDEX_KEYS: Final = tuple(f"GSI{number}{part}" for number in range(1, 5) for part in ("PK", "SK"))


@dataclass(frozen=True, slots=True)
class Damaged:
    """A copy of a record, with the value at ``path`` damaged as ``how`` says."""

    kind: str
    path: str
    how: str
    item: Item
    name: str
    """The entity, resource, tier or namespace, or the serial, that no other copy has."""

    @property
    def key(self) -> tuple[str, str]:
        """The key of the copy."""
        return self.item[PK], self.item[SK]

    def __str__(self) -> str:
        return f"{self.kind} {self.path} {self.how}"


def kind_of(item: Item) -> str:
    """The kind of a record, by its key."""
    pk, sk = item[PK], item[SK]
    if sk.startswith("#CONFIG"):
        level = pk.partition("/")[2].partition("#")[0].lower()
        return f"{level} config"
    if sk.startswith(keys.USAGE_PREFIX):
        return "hourly usage" if is_hourly(sk) else "daily usage"
    if sk == keys.PROVISIONER_PREFIX:
        return "provisioner"
    return str(sk).lstrip("#").partition("#")[0].lower()


def fill(path: Path) -> SyncRepository:
    """A file with a record of every kind, and a sound one beside each of a list."""
    repository = SyncRepository.sqlite(path)
    limiter = SyncRateLimiter(repository)
    applied = perform(repository._store, "file", Request.of("apply", load(MANIFEST)))
    assert applied.status == "applied", applied
    SyncMaintenance(repository).set_version_record(VersionRecord(1, "0.1.0", "0.1.0"))
    repository._store.perform(Put(progress_item(MigrationProgress("m", 1, 1, 5, 5, ("a", "b")))))
    repository.set_system_defaults([Limit.per_minute("rpm", 50)], "block")
    for entity in ("sound", ENTITY):
        repository.create_entity(f"{entity}-up", name="up")
    run(repository, set_bounds("default", json.dumps({"limits": {"rpm": "10000/min"}})))
    for tier in ("sound-tier", TIER):
        repository.set_tier_limits(tier, [Limit.per_minute("rpm", 70)], "gpt-4")
    for name, resource in (("sound", "sound-r"), (ENTITY, RESOURCE)):
        _fill_one(limiter, name, resource)
    for name in ("sound-ns", NAMESPACE):
        repository.register_namespace(name)
    return repository


def _fill_one(limiter: SyncRateLimiter, name: str, resource: str) -> None:
    """The records of an entity, and of a resource."""
    repository = limiter.repository
    repository.set_resource_defaults(resource, [Limit.per_minute("rpm", 80)])
    repository.set_resource_switches(resource, bypass=False, reason="why")
    parents = [f"{name}-up", "sound-up"] if name != "sound" else [f"{name}-up"]
    repository.create_entity(name, name="n", parent_ids=parents, tier="sound-tier", metadata={"k": 1})
    limits = [
        Limit.custom("rpm", 60, schedule=["now: mon-sun 50/min"], alert=[80]),
        Limit.per_month("usd", 90),
        Limit.concurrent("slots", 5),
    ]
    repository.set_limits(name, limits, "gpt-4")
    later = datetime.now(UTC) + timedelta(hours=2)
    repository.set_limits(name, [Limit.per_minute("rpm", 40)], "gpt-4o", override_until=later)
    repository.set_switches(name, "gpt-4", bypass=False, cascade="on", reason="why")
    for _ in range(2):
        with limiter.acquire(name, "gpt-4", {"rpm": 1, "usd": 1}):
            pass
    try:
        with limiter.acquire(name, "gpt-4", {"rpm": 60}):
            pass
    except RateLimitExceeded:
        pass
    with limiter.acquire(name, "gpt-4", {"rpm": 1}):
        pass
    repository.credit_bucket(name, "gpt-4", {"rpm": 1}, idempotency_key="once")
    bucket = BucketId(repository.namespace_id, name, "gpt-4")
    repository._store.perform(Put(told_item(bucket, "rpm", Told(1, 80), 10**12, spread=True)))


def items_of(repository: SyncRepository) -> list[Item]:
    """All items of the file."""
    return repository._store.perform(Scan(10_000)).items


def damaged_copies(items: Sequence[Item], ways: Sequence[str] = ()) -> list[Damaged]:
    """A copy of each record of a list for each of its values and each way to damage it, under a key of its own."""
    found: dict[tuple[str, str, str], Damaged] = {}
    for item in items:
        text = json.dumps(item)
        own = next((each for each in (ENTITY, RESOURCE, TIER, NAMESPACE) if f"{each}" in item[PK] + item[SK]), None)
        if own is None and kind_of(item) not in SERIAL_KINDS:
            continue
        for path, value in leaves(item):
            if path[0] in (PK, SK):
                continue
            for how, damaged in wrong(value, _others(value)).items():
                what = kind_of(item), ".".join(map(str, path)), how
                if what in found or (ways and how not in ways):
                    continue
                number = len(found)
                copy = _copy(item, text, own, number)
                place = tuple(
                    each.replace(own, f"{own}{number}") if own and isinstance(each, str) else each for each in path
                )
                _put(copy, place, _others(_at(copy, place)) if how == "another's" else damaged)
                found[what] = Damaged(*what, copy, f"{own}{number}" if own else str(10_000 + number))
    return [*found.values()]


SERIAL_KINDS: Final = ("apply",)


def _copy(item: Item, text: str, own: str | None, number: int) -> Item:
    """The record once more, of another entity, resource, tier, namespace or serial."""
    if own is None:
        serial = f"{item['serial']:012}"
        copy: Item = json.loads(text.replace(serial, f"{10_000 + number:012}"))
        return {**copy, "serial": 10_000 + number}
    copy = json.loads(text.replace(own, f"{own}{number}"))
    if own == NAMESPACE:
        copy = json.loads(json.dumps(copy).replace(item["namespace_id"], f"{item['namespace_id']}{number}"))
    return copy


def _others(value: Any) -> Any:
    """What a record of another entity has in place of a value."""
    if isinstance(value, str):
        for own in (ENTITY, RESOURCE, TIER, NAMESPACE):
            value = value.replace(own, "sound")
        return value
    return value + 1 if type(value) is int else value


def _at(item: Any, path: tuple[Any, ...]) -> Any:
    for name in path:
        item = item[name]
    return item


def _put(item: Any, path: tuple[Any, ...], value: Any) -> None:
    above = _at(item, path[:-1])
    if value is GONE:
        del above[path[-1]]
    else:
        above[path[-1]] = value


def write(repository: SyncRepository, copies: Sequence[Damaged]) -> None:
    """Write the copies; one whose index key is not text is not in that index, as with DynamoDB."""
    for each in copies:
        item = {name: value for name, value in each.item.items() if name not in INDEX_KEYS or isinstance(value, str)}
        repository._store.perform(Put(item))


def replace(path: Path, key: tuple[str, str], item: Item) -> None:
    """Overwrite one record in a file."""
    with sqlite3.connect(path) as database:
        database.execute("UPDATE items SET item = ?, counters = NULL WHERE pk = ? AND sk = ?", (json.dumps(item), *key))
    database.close()


def key_of(item: Item) -> Key:
    """The key of an item."""
    return Key(item[PK], item[SK])
