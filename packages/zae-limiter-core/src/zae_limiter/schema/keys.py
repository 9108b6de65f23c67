"""Partition keys, sort keys and index keys of every record: builders, and parsers where a key is read.

An entity id or a resource has its own characters in a key if they are ASCII letters, digits and ``_ - . ~ : @ /``; each
other one is percent-encoded (RFC 3986). So none holds a ``#`` or ``$``, which only the keys have.

Callers pass names that ``naming`` has checked.
"""

import re
from functools import lru_cache
from typing import Final
from unicodedata import is_normalized

from ..runtime.named_tuple import NamedTuple
from ..values.naming import DEFAULT_RESOURCE, RESOURCE_SUBJECT, SYSTEM_SUBJECT, TIER_SUBJECT, check_resource, check_tier

REGISTRY: Final = "_"  # the namespace id under which all namespaces are registered

# The prefixes that a query's begins_with narrows to. Table sort keys start with "#", index sort keys do not.
USAGE_PREFIX: Final = "#USAGE#"
AUDIT_PREFIX: Final = "#AUDIT#"
ALERT_PREFIX: Final = "#ALERT#"
CONFIG_PREFIX: Final = "#CONFIG#"
PROVISIONER_PREFIX: Final = "#PROVISIONER"
APPLY_PREFIX: Final = "#APPLY#"
MANIFEST_PREFIX: Final = "#MANIFEST#"
NAMESPACE_PREFIX: Final = "#NAMESPACE#"
NSID_PREFIX: Final = "#NSID#"
BOUNDS_PREFIX: Final = "#BOUNDS#"
CHILD_PREFIX: Final = "CHILD#"
PARENT_PREFIX: Final = "#PARENT#"
INDEX_BUCKET_PREFIX: Final = "BUCKET#"
INDEX_USAGE_PREFIX: Final = "USAGE#"
INDEX_AUDIT_PREFIX: Final = "AUDIT#"
INDEX_CONFIG_PREFIX: Final = "CONFIG#"
ROW_OF_EXTENDING: Final = "#+"  # ends the row of a level whose limits add to those of the next one

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.\-~:@/]{1,512}")  # names that are the same in keys


def encode(name: str) -> str:
    """Return an entity id or a resource as keys have it; no two names have the same."""
    return name if _PLAIN.fullmatch(name) else _encode(name)


@lru_cache(maxsize=16_384)
def _encode(name: str) -> str:
    from urllib.parse import quote  # most names are plain

    return quote(name, safe=":@/")


def decode(part: str) -> str:
    """Return the entity id or resource that ``encode`` turns into this text. Raises ``ValueError`` for any other
    text.
    """
    if _PLAIN.fullmatch(part):  # nothing is encoded in most names, and a read of usage has a name in each row
        return part
    from urllib.parse import unquote

    name = unquote(part, errors="strict")
    if encode(name) != part or not is_normalized("NFC", name):
        raise ValueError(f"no name in a key: {part!r}")
    return name


class AuditAddress(NamedTuple):
    """The namespace and the subject in a partition key of audit events."""

    namespace_id: str
    entity_id: str


class EntityConfigAddress(NamedTuple):
    """The resource and the entity in an entity config's index keys; ``until_ms`` if it has no limits but an override's:
    the end of that, 0 for none. ``extends``: its limits add to those of the next level.
    """

    resource: str
    entity_id: str
    until_ms: int | None = None
    extends: bool = False


def pk_prefix(ns: str) -> str:
    """Return the text that begins each partition key of a namespace, and no key of another one."""
    return f"{ns}/"


def pk_system(ns: str) -> str:
    """Return the partition of a namespace's system records; for ``REGISTRY``, that of all namespaces."""
    return f"{ns}/SYSTEM#"


def pk_resource(ns: str, resource: str) -> str:
    """Return the partition of a resource's records."""
    return f"{ns}/RESOURCE#{encode(resource)}"


def pk_entity(ns: str, entity: str) -> str:
    """Return the partition of an entity's records, except its buckets."""
    return f"{ns}/ENTITY#{encode(entity)}"


def pk_bucket(ns: str, entity: str, resource: str, shard: int) -> str:
    """Return the partition of one bucket item."""
    return f"{ns}/BUCKET#{encode(entity)}#{encode(resource)}#{shard}"


def pk_buckets_of_namespace(ns: str) -> str:
    """Return what the partition keys of all buckets of a namespace begin with."""
    return f"{ns}/BUCKET#"


def pk_buckets(entity_pk: str) -> str:
    """Return the text that begins the partition key of each bucket of an entity, by the partition of its records."""
    return entity_pk.replace("/ENTITY#", "/BUCKET#", 1) + "#"


def pk_audit(ns: str, entity: str) -> str:
    """Return the partition of a subject's audit events: an entity id, ``audit_system()``, ``audit_resource(…)``
    or ``audit_tier(…)``.
    """
    prefix = _prefix_of(entity)
    return f"{ns}/AUDIT#{prefix}{encode(entity.removeprefix(prefix))}"


def pk_audit_of_namespace(ns: str) -> str:
    """Return what the partition keys of all audit events of a namespace begin with: in GSI4, the sort keys of those
    that were written before ``gsi4_sk_audit``.
    """
    return f"{ns}/AUDIT#"


def pk_idempotency(ns: str, entity: str) -> str:
    """Return the partition of the idempotency keys of an entity's buckets."""
    return f"{ns}/IDEMPOTENCY#{encode(entity)}"


def sk_idempotency(resource: str, key: str) -> str:
    """Return the sort key of an idempotency key of a bucket; it is encoded like a name."""
    return f"#KEY#{encode(resource)}#{encode(key)}"


def pk_call(ns: str, entity: str, resource: str, suffix: int | str) -> str:
    """Return the partition of calls with an idempotency key, of those that have a suffix: a key hashes to one."""
    return f"{ns}/CALL#{encode(entity)}#{encode(resource)}#{suffix}"


def sk_call(key: str) -> str:
    """Return the sort key of a call with an idempotency key; it is encoded like a name."""
    return f"#KEY#{encode(key)}"


def audit_system() -> str:
    """Return the subject of a system config's audit events."""
    return SYSTEM_SUBJECT


def audit_resource(resource: str) -> str:
    """Return the subject of a resource config's audit events."""
    return f"{RESOURCE_SUBJECT}{resource}"


def sk_meta() -> str:
    """Return the sort key of an entity's record."""
    return "#META"


def sk_state() -> str:
    """Return the sort key of a bucket."""
    return "#STATE"


def sk_config(resource: str | None = None) -> str:
    """Return the sort key of a config; for that of an entity or a tier, on one ``resource`` or ``_default_``."""
    return "#CONFIG" if resource is None else f"{CONFIG_PREFIX}{encode(resource)}"


def sk_usage(resource: str, window_key: str) -> str:
    """Return the sort key of a usage snapshot."""
    return f"{USAGE_PREFIX}{encode(resource)}#{window_key}"


def sk_version() -> str:
    """Return the sort key of the version record."""
    return "#VERSION"


def sk_migration() -> str:
    """Return the sort key of the progress of a migration."""
    return "#MIGRATION"


def sk_audit(event_id: str) -> str:
    """Return the sort key of an audit event; it sorts like the event id."""
    return f"{AUDIT_PREFIX}{event_id}"


def sk_provisioner(part: int = 0) -> str:
    """Return the sort key of the provisioner's state: of its head, or of the ``part`` with a number."""
    return f"{PROVISIONER_PREFIX}#{part}" if part else PROVISIONER_PREFIX


def pk_applies(ns: str) -> str:
    """Return the partition of the history of applies."""
    return f"{ns}/APPLIES#"


def sk_apply(serial: int | str, place: int | str = 0) -> str:
    """Return the sort key of an apply, or of the part of its manifest at a place; both sort by the serial."""
    digits = f"{serial:012}" if isinstance(serial, int) else serial
    return f"{MANIFEST_PREFIX}{digits}#{place}" if place else f"{APPLY_PREFIX}{digits}"


def sk_namespace(name: str) -> str:
    """Return the sort key of a namespace in the registry, by its name."""
    return f"{NAMESPACE_PREFIX}{name}"


def sk_bounds(name: str) -> str:
    """Return the sort key of the bounds of a namespace in the registry, by its name."""
    return f"{BOUNDS_PREFIX}{name}"


def sk_parent(parent: str) -> str:
    """Return the sort key of an entity's link to a further parent."""
    return f"{PARENT_PREFIX}{encode(parent)}"


def is_sk_parent(sk: str) -> bool:
    """Return whether a sort key is that of an entity's link to a further parent."""
    return sk.startswith(PARENT_PREFIX)


def sk_nsid(ns: str) -> str:
    """Return the sort key of a namespace in the registry, by its id."""
    return f"{NSID_PREFIX}{ns}"


def gsi1_pk_parent(ns: str, parent: str) -> str:
    """Return the partition of a parent's children."""
    return f"{ns}/PARENT#{encode(parent)}"


def gsi1_sk_child(entity: str) -> str:
    """Return the sort key of a child in GSI1."""
    return f"{CHILD_PREFIX}{encode(entity)}"


def gsi2_pk_resource(ns: str, resource: str, suffix: int | None = None) -> str:
    """Return the partition of a resource's buckets and usage: of those with a suffix, or of those without."""
    return f"{ns}/RESOURCE#{encode(resource)}{_suffix(suffix)}"


def gsi2_sk_bucket(entity: str, shard: int) -> str:
    """Return the sort key of a bucket in GSI2."""
    return f"{INDEX_BUCKET_PREFIX}{encode(entity)}#{shard}"


def gsi2_sk_usage(window_key: str, entity: str) -> str:
    """Return the sort key of a usage snapshot in GSI2."""
    return f"{INDEX_USAGE_PREFIX}{window_key}#{encode(entity)}"


def gsi3_pk_entity_config(ns: str, resource: str) -> str:
    """Return the partition of the entities with limits of their own on a resource."""
    return f"{ns}/ENTITY_CONFIG#{encode(resource)}"


def gsi3_sk_entity(entity: str, until_ms: int | None = None, *, extends: bool = False) -> str:
    """Return the sort key of an entity config in GSI3; ``until_ms``: the end of an override, if it has no other limits;
    0 if it has none at all. ``extends``: its limits add to those of the next level.
    """
    if extends:
        return f"{encode(entity)}{ROW_OF_EXTENDING}"
    return encode(entity) if until_ms is None else f"{encode(entity)}#{until_ms}"


def gsi3_pk_entity(ns: str, entity: str) -> str:
    """Return the partition of an entity's buckets."""
    return f"{ns}/ENTITY#{encode(entity)}"


def gsi3_sk_bucket(resource: str, shard: int) -> str:
    """Return the sort key of a bucket in GSI3."""
    return f"{INDEX_BUCKET_PREFIX}{encode(resource)}#{shard}"


def gsi4_pk(ns: str, suffix: int | None = None) -> str:
    """Return the partition of all records of a namespace without a suffix, or of those with one. Their sort key is the
    item's PK, but for entity configs, usage snapshots and audit events.
    """
    return f"{ns}{_suffix(suffix)}"


def gsi4_sk_entity_config(resource: str, entity: str, until_ms: int | None = None, *, extends: bool = False) -> str:
    """Return the sort key of an entity config in GSI4; ``until_ms`` and ``extends`` as in GSI3."""
    return f"{INDEX_CONFIG_PREFIX}{encode(resource)}#{gsi3_sk_entity(entity, until_ms, extends=extends)}"


def gsi4_sk_without_limits(pk: str) -> str:
    """Return the sort key in GSI4 of the config of a resource that has switches, and no limits."""
    return f"{pk}#0"


def gsi4_sk_extending(pk: str) -> str:
    """Return the sort key in GSI4 of the config of a resource whose limits add to those of the system."""
    return f"{pk}{ROW_OF_EXTENDING}"


def gsi4_sk_usage(window_key: str, resource: str, entity: str) -> str:
    """Return the sort key of a usage snapshot in GSI4: window, resource, entity."""
    return f"{INDEX_USAGE_PREFIX}{window_key}#{encode(resource)}#{encode(entity)}"


def gsi4_sk_audit(event_id: str) -> str:
    """Return the sort key of an audit event in GSI4; it sorts like the event id."""
    return f"{INDEX_AUDIT_PREFIX}{event_id}"


def gsi4_after_resource(resource: str) -> str:
    """Return a sort key behind every entity config of ``resource``, and before those of the next resource."""
    return f"{INDEX_CONFIG_PREFIX}{encode(resource)}$"  # "$" follows "#", and no name has either


def parse_bucket_pk(pk: str) -> tuple[str, str, str, int]:
    """Return namespace, entity, resource and shard in a bucket's partition key. Raises ``ValueError`` for others."""
    ns, rest = _after(pk, "BUCKET#")
    entity, resource, shard = _split(rest, 3, "bucket")
    if not shard.isdecimal():
        raise ValueError(f"not a bucket: {rest!r}")
    return ns, decode(entity), decode(resource), int(shard)


def parse_audit_pk(pk: str) -> AuditAddress:
    """Return the namespace and the subject in a key of audit events. Raises ``ValueError`` for any other key."""
    ns, subject = _after(pk, "AUDIT#")
    prefix = _prefix_of(subject)
    return AuditAddress(ns, prefix + decode(subject.removeprefix(prefix)))


def parse_resource_pk(pk: str) -> str:
    """Return the resource in a resource's partition key. Raises ``ValueError`` for any other key."""
    return decode(_after(pk, "RESOURCE#")[1])


def parse_entity_pk(pk: str) -> tuple[str, str]:
    """Return the namespace and the entity in an entity's partition key. Raises ``ValueError`` for any other key."""
    ns, entity = _after(pk, "ENTITY#")
    return ns, decode(entity)


def parse_usage_sk(sk: str) -> tuple[str, str]:
    """Return the resource and the window's name in a snapshot's sort key. Raises ``ValueError`` for any other key."""
    if not sk.startswith(USAGE_PREFIX):
        raise ValueError(f"not a usage snapshot: {sk!r}")
    resource, key = _split(sk.removeprefix(USAGE_PREFIX), 2, "usage snapshot")
    return decode(resource), key


def parse_entity_config_sk(gsi4_sk: str) -> EntityConfigAddress:
    """Return the address in an entity config's sort key in GSI4. Raises ``ValueError`` for any other key."""
    prefix, _, rest = gsi4_sk.partition("#")
    resource, separator, entity = rest.partition("#")
    if not separator or prefix != "CONFIG":
        raise ValueError(f"not an entity config: {gsi4_sk!r}")
    return parse_entity_sk(resource, entity)


def parse_entity_sk(resource: str, gsi3_sk: str) -> EntityConfigAddress:
    """Return the address in an entity config's sort key in GSI3, on a resource as keys have it.

    Raises ``ValueError`` for any other key.
    """
    if gsi3_sk.endswith(ROW_OF_EXTENDING):
        return EntityConfigAddress(decode(resource), decode(gsi3_sk.removesuffix(ROW_OF_EXTENDING)), extends=True)
    entity, *end = gsi3_sk.split("#")
    if end and not (len(end) == 1 and end[0].isdecimal() and str(int(end[0])) == end[0]):
        raise ValueError(f"not an entity config: {gsi3_sk!r}")
    return EntityConfigAddress(decode(resource), decode(entity), int(end[0]) if end else None)


def _suffix(suffix: int | None) -> str:
    return "" if suffix is None else f"#{suffix}"


def _split(text: str, count: int, record: str) -> list[str]:
    """Return the parts of a key. Raises ``ValueError`` if there are not so many."""
    parts = text.split("#")
    if len(parts) != count:
        raise ValueError(f"not a {record}: {text!r}")
    return parts


def _prefix_of(subject: str) -> str:
    if subject == SYSTEM_SUBJECT:
        return subject
    return next((each for each in (RESOURCE_SUBJECT, TIER_SUBJECT) if subject.startswith(each)), "")


def _after(pk: str, record: str) -> tuple[str, str]:
    ns, slash, rest = pk.partition("/")  # a name may have slashes: the first one ends the namespace id
    if not slash or not rest.startswith(record):
        raise ValueError(f"not a {record} key: {pk!r}")
    return ns, rest[len(record) :]


# The keys of tiers: limits of all entities whose record names the tier. A tier's name has ASCII letters, digits and
# `_ - .` alone (`check_tier`), so keys have it as it is.


def pk_tier(ns: str, tier: str) -> str:
    """Return the partition of a tier's configs; with an empty name, what those of all tiers begin with."""
    return f"{ns}/TIER#{tier}"


def gsi3_pk_tier(ns: str, tier: str) -> str:
    """Return the partition of the entities that have a tier; the sort key is the entity, encoded."""
    return f"{ns}/TIER#{tier}"


def audit_tier(tier: str) -> str:
    """Return the subject of a tier's audit events."""
    return f"{TIER_SUBJECT}{tier}"


def tier_of_subject(subject: str | None) -> str | None:
    """Return the tier that a subject of audit events names; ``None`` for any other subject."""
    if not isinstance(subject, str) or not subject.startswith(TIER_SUBJECT):
        return None
    return check_tier("tier", subject.removeprefix(TIER_SUBJECT))


def parse_tier_key(ns: str, pk: str, sk: str) -> tuple[str, str]:
    """Return the tier and the resource (or ``_default_``) in the key of a tier's config. Raises ``ValueError`` for any
    other key.
    """
    prefix = pk_tier(ns, "")
    if not pk.startswith(prefix) or not sk.startswith(CONFIG_PREFIX):
        raise ValueError(f"not the config of a tier: {pk!r}, {sk!r}")
    part = sk.removeprefix(CONFIG_PREFIX)
    resource = part if part == DEFAULT_RESOURCE else check_resource("resource", decode(part))
    return check_tier("tier", pk.removeprefix(prefix)), resource
