"""The item of a config: its limits, its override, its switches, its policy and its fingerprint."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from ..values.limits import Limit, PolicyText, check_on_unavailable
from ..values.naming import check_identifier, check_resource
from ..values.on_refused import OnRefused
from ..values.overrides import Override
from ..values.provisioner import StoredConfig
from ..values.switches import NO_SWITCHES, Switches
from .attributes import (
    CONFIG_VERSION,
    ENTITY_ID,
    FINGERPRINT,
    ON_REFUSED,
    ON_UNAVAILABLE,
    OVERRIDE_UNTIL,
    RESOURCE,
    SWITCHES,
    TTL,
    ConfigPrefix,
    limit_attributes,
    parse_limit_attribute,
)
from .limit_fields import limit_fields, read_limit
from .record import number, optional, reads, text

Item = dict[str, Any]

OVERRIDE_GRACE_MS: Final = 60_000  # from the end of an override until DynamoDB may remove an item that has nothing else


def config_attributes(limits: Iterable[Limit], prefix: ConfigPrefix = "l") -> Item:
    """Return the limits as the attributes of a config item."""
    found = (limit_fields(limit, limit_attributes(limit.name, prefix)) for limit in limits)
    return {name: value for each in found for name, value in each.items()}


@reads
def read_limits(item: Item | None, prefix: ConfigPrefix = "l") -> tuple[Limit, ...]:
    """Return the own limits of a config item, sorted by name; none if there is no item. Those of its override:
    ``o``.
    """
    if item is None:
        return ()
    config_version(item)
    return tuple(read_limit(item, name, limit_attributes(name, prefix)) for name in _limit_names(prefix, *item))


@lru_cache(maxsize=1024)  # items of one kind of limits have the same attributes
def _limit_names(prefix: ConfigPrefix, *attributes: str) -> tuple[str, ...]:
    """Return the names of the limits that have attributes in a config item, sorted."""
    found = (parse_limit_attribute(name, prefix) for name in attributes)
    return tuple(sorted(each.limit for each in found if each is not None and each.field == "capacity"))


@reads
def read_override(item: Item | None, now_ms: int) -> Override | None:
    """Return the override in force at an instant; ``None`` if there is none, or if it has ended."""
    until_ms = override_end(item)
    if item is None or until_ms is None or now_ms >= until_ms:
        return None
    return Override(read_limits(item, "o"), until_ms)


@reads
def override_end(item: Item | None) -> int | None:
    """Return the end of an item's override (epoch ms), passed or not; ``None`` without one."""
    return None if item is None else optional(number, item, OVERRIDE_UNTIL)


@reads
def read_own_place(item: Item) -> tuple[str, str]:
    """Return the entity and the resource (or ``_default_``) of an entity config."""
    resource = check_resource(RESOURCE, item[RESOURCE], allow_default=True)
    return check_identifier(ENTITY_ID, item[ENTITY_ID]), resource


@reads
def config_version(item: Item) -> int:
    """Return the version of a config, which each change raises."""
    return number(item, CONFIG_VERSION)


def override_attributes(override: Override, *, alone: bool) -> Item:
    """Return an override as attributes; with ``alone`` the item has nothing else, and expires after the override."""
    expiry = {TTL: -(-(override.until_ms + OVERRIDE_GRACE_MS) // 1000)} if alone else {}
    return {**config_attributes(override.limits, "o"), OVERRIDE_UNTIL: override.until_ms, **expiry}


@reads
def read_switches(item: Item | None) -> Switches:
    """Return the switches of a config item; none are set if there is no item."""
    if item is None or item.keys().isdisjoint(SWITCHES.values()):
        return NO_SWITCHES
    return Switches(**{field: item[name] for field, name in SWITCHES.items() if name in item})


def switch_attributes(switches: Switches) -> Item:
    """Return the switches that are set, and their reason, as attributes."""
    values = ((name, getattr(switches, field)) for field, name in SWITCHES.items())
    return {name: value for name, value in values if value is not None}


@reads
def read_on_unavailable(item: Item | None) -> PolicyText | None:
    """Return the policy of a system config, ``None`` if it has none."""
    value = (item or {}).get(ON_UNAVAILABLE)
    return None if value is None else check_on_unavailable(value)


@reads
def read_on_refused(item: Item | None) -> OnRefused | None:
    """Return what a config says of refusals, ``None`` if it says nothing."""
    value = None if item is None else optional(text, item, ON_REFUSED)
    return None if value is None else OnRefused.parse(ON_REFUSED, value)


@reads
def read_config(item: Item, now_ms: int) -> StoredConfig | None:
    """Return a config item as a value; ``None`` if it has nothing but an override that has ended."""
    limits, override, switches = read_limits(item), read_override(item, now_ms), read_switches(item)
    if not limits and override is None and not switches and override_end(item) is not None:
        return None
    fingerprint, on_refused = optional(text, item, FINGERPRINT), read_on_refused(item)
    return StoredConfig(limits, read_on_unavailable(item), fingerprint, override, switches, on_refused)


def other_attributes(config: StoredConfig) -> Item:
    """Return the attributes of a config item beside its limits and its switches."""
    on_refused = None if config.on_refused is None else str(config.on_refused)
    attributes = {ON_UNAVAILABLE: config.on_unavailable, FINGERPRINT: config.fingerprint, ON_REFUSED: on_refused}
    return {name: value for name, value in attributes.items() if value is not None}
