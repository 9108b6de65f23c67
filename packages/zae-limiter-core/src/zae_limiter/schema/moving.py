"""Give an item of one namespace the keys of another, and make it the beginning of what another stream counts."""

from collections.abc import Mapping

from . import keys
from .attributes import (
    ACQUIRES,
    COUNTERS,
    ENTITY_ID,
    GSI4PK,
    LOCK,
    PK,
    PROGRESS,
    RESOURCE,
    SK,
    STOP,
    WCU,
    WRITE_TOKENS,
    WRITES_THEN,
    parse_bucket_attribute,
    parse_refused_by,
)
from .items import ONE_WRITE, Item
from .partitions import index_partitions
from .table import KEY_ATTRIBUTES
from .usage import is_mark


def namespace_in(item: Item) -> str:
    """Return the id of the namespace, or of the registry, that an item is of."""
    return str(item[PK]).partition("/")[0]


def moved(item: Item, before: str, after: str, *, spread: bool = False) -> Item:
    """Return an item of the namespace ``before`` as one of ``after``: with its values, but as if it were unused.

    ``spread``: index rows of the target have suffixes where this release gives them; else none has, whatever it had.

    A bucket keeps its balances and begins to count: ``consumption`` finds nothing in its first image. A snapshot loses
    the marks of another table's stream, a provisioner's state the lock of an apply that goes on elsewhere.
    """
    rekeyed = {name: _rekeyed(name, value, before, after) for name, value in item.items()}
    if item[SK] == keys.sk_state():
        return _begun(rekeyed | _partitions(rekeyed, after, spread=spread))
    if item[SK].startswith(keys.USAGE_PREFIX):
        rekeyed |= _partitions(rekeyed, after, spread=spread)
        return {name: value for name, value in rekeyed.items() if not is_mark(name)}
    if item[SK].startswith(keys.ALERT_PREFIX):
        return rekeyed | _partitions(rekeyed, after, spread=spread)
    if item[SK] == keys.sk_provisioner():
        for name in (LOCK, PROGRESS, STOP):
            rekeyed.pop(name, None)
    return rekeyed


def _rekeyed(name: str, value: object, before: str, after: str) -> object:
    if name not in KEY_ATTRIBUTES or not isinstance(value, str):
        return value
    if name == GSI4PK:
        return keys.gsi4_pk(after) if value.partition("#")[0] == keys.gsi4_pk(before) else value
    prefix = keys.pk_prefix(before)
    return keys.pk_prefix(after) + value.removeprefix(prefix) if value.startswith(prefix) else value


def _partitions(item: Item, ns: str, *, spread: bool) -> Item:
    """Return the partition keys of the rows of an entity's item in the target's indexes, as far as it has them."""
    found = index_partitions(ns, str(item.get(ENTITY_ID)), str(item.get(RESOURCE)), spread=spread)
    return {name: value for name, value in found.items() if name in item}


def _begun(bucket: Mapping[str, object]) -> Item:
    """Return a bucket whose counters begin: what they counted is in the snapshots, and would be counted again. No write
    to it has a token yet.
    """
    begun: Item = {}
    for name, value in bucket.items():
        attribute = parse_bucket_attribute(name)
        if name == ACQUIRES:
            begun[name] = 0
        elif name in COUNTERS or name == WRITES_THEN or name in WRITE_TOKENS or parse_refused_by(name) is not None:
            continue
        elif attribute is not None and attribute.field == "consumed":
            begun[name] = ONE_WRITE if attribute.limit == WCU else 0
        else:
            begun[name] = value
    return begun
