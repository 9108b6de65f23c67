"""The item of a config: its limits, its policy and its fingerprint."""

from collections.abc import Iterable
from typing import Any

from ..limits import Limit, OnUnavailable, check_on_unavailable
from ..provisioner import StoredConfig
from .attributes import FINGERPRINT, ON_UNAVAILABLE, limit_attributes, parse_limit_attribute

Item = dict[str, Any]


def config_attributes(limits: Iterable[Limit]) -> dict[str, int | bool]:
    """The limits as the attributes of a config item."""
    attributes: dict[str, int | bool] = {}
    for limit in limits:
        at = limit_attributes(limit.name)
        attributes[at.capacity] = limit.capacity
        attributes[at.burst] = limit.burst
        attributes[at.refill_amount] = limit.refill_amount
        attributes[at.refill_period] = limit.refill_period
        if limit.shadow:
            attributes[at.shadow] = True
    return attributes


def read_limits(item: Item | None) -> tuple[Limit, ...]:
    """The limits of a config item, sorted by name; none if there is no item."""
    if item is None:
        return ()
    found = map(parse_limit_attribute, item)
    names = sorted(each.limit for each in found if each is not None and each.field == "capacity")
    return tuple(_read_limit(item, name) for name in names)


def _read_limit(item: Item, name: str) -> Limit:
    at = limit_attributes(name)
    capacity: int = item[at.capacity]
    return Limit(
        name=name,
        capacity=capacity,
        burst=int(item.get(at.burst, capacity)),
        refill_amount=item[at.refill_amount],
        refill_period=item[at.refill_period],
        shadow=item.get(at.shadow, False),
    )


def read_on_unavailable(item: Item | None) -> OnUnavailable | None:
    """The policy of a system config, ``None`` if it has none."""
    value = (item or {}).get(ON_UNAVAILABLE)
    return None if value is None else check_on_unavailable(value)


def read_config(item: Item) -> StoredConfig:
    """A config item as a value."""
    return StoredConfig(read_limits(item), read_on_unavailable(item), item.get(FINGERPRINT))


def other_attributes(config: StoredConfig) -> Item:
    """The attributes of a config item beside its limits."""
    attributes = {ON_UNAVAILABLE: config.on_unavailable, FINGERPRINT: config.fingerprint}
    return {name: value for name, value in attributes.items() if value is not None}
