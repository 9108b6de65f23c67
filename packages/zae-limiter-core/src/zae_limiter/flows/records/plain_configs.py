"""A stored config as an audit event has it."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ...operations.values import Item
from ...schema.attributes import CONFIG_VERSION, ON_REFUSED, ON_UNAVAILABLE
from ...schema.configs import (
    config_version,
    override_end,
    read_limits,
    read_on_refused,
    read_on_unavailable,
    read_override,
    read_switches,
)
from ...schema.limit_fields import plain_fields
from ...values.limits import Limit
from ...values.on_refused import OnRefused
from ...values.overrides import Override
from ...values.switches import Switches


def plain(item: Item | None, now_ms: int) -> dict[str, Any] | None:
    """Return a config item as an audit event has it; ``None`` for one that has nothing but an override that has
    ended.
    """
    if item is None:
        return None
    policy, override, limits = read_on_unavailable(item), read_override(item, now_ms), read_limits(item)
    switches = read_switches(item)
    if not limits and override is None and not switches and override_end(item) is not None:
        return None
    policies = {**({} if policy is None else {ON_UNAVAILABLE: policy}), **refused_attributes(read_on_refused(item))}
    overrides = {} if override is None else {"override": _plain_override(override)}
    switched = {"switches": plain_switches(switches)} if switches else {}
    return {"limits": _plain_limits(limits), CONFIG_VERSION: config_version(item), **policies, **overrides, **switched}


def plain_switches(switches: Switches) -> dict[str, Any]:
    """Return switches as plain values, by field, without those that are not set."""
    return {name: value for name, value in asdict(switches).items() if value is not None}


def _plain_override(override: Override) -> dict[str, Any]:
    until = override.until.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"until": until, "limits": _plain_limits(override.limits)}


def _plain_limits(limits: Sequence[Limit]) -> dict[str, dict[str, Any]]:
    return {limit.name: plain_fields(limit) for limit in limits}


def refused_attributes(on_refused: OnRefused | None, resource: str | None = None) -> dict[str, str]:
    """Return the attribute of a policy for the refusals of ``resource``, or of all. Raises ``ValidationError``."""
    return {} if on_refused is None else {ON_REFUSED: str(OnRefused.check("on_refused", on_refused, resource))}
