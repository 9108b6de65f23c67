"""The item of a config: its limits, its override, its switches, its policy and its fingerprint."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from .. import values
from ..runtime.dataclass import fields
from ..runtime.named_tuple import NamedTuple
from ..values.limits import ConfigSource, Limit, OnUnavailable, PolicyText, check_on_unavailable
from ..values.naming import check_identifier, check_resource
from ..values.on_refused import OnRefused
from ..values.resolution import Level, LevelLimits, LevelMode, Said, SystemDefaults, check_mode, lifted
from ..values.switches import NO_SWITCHES, Switches
from .attributes import (
    CAPACITY_SUFFIX,
    CONFIG_VERSION,
    ENTITY_ID,
    FINGERPRINT,
    MODE,
    ON_REFUSED,
    ON_UNAVAILABLE,
    OVERRIDE_EXTENDS,
    OVERRIDE_UNTIL,
    PATTERNS,
    RESOURCE,
    SWITCHES,
    TTL,
    ConfigPrefix,
    limit_attributes,
)
from .limit_fields import limit_fields, plain_fields, read_limit
from .record import flag, number, optional, reads, text

Item = dict[str, Any]

OVERRIDE_GRACE_MS: Final = 60_000  # from the end of an override until DynamoDB may remove an item that has nothing else


def config_attributes(limits: Iterable[Limit], prefix: ConfigPrefix = "l") -> Item:
    """Return the limits as the attributes of a config item."""
    return {name: value for each in limits for name, value in _limit_attributes(each, prefix)}


@lru_cache(maxsize=1024)  # many entities have equal limits
def _limit_attributes(limit: Limit, prefix: ConfigPrefix) -> tuple[tuple[str, object], ...]:
    return tuple(limit_fields(limit, limit_attributes(limit.name, prefix)).items())


class Row(NamedTuple):
    """The item of a config as it is at an instant, column by column: a damaged column hides no other.

    Each column may raise an error of ``UNREADABLE``; ``read_config`` and the flows name the item in it.
    """

    item: Item | None
    now_ms: int = 0

    def stored(self, prefix: ConfigPrefix = "l") -> tuple[Limit, ...]:
        """Return the own limits, override or not, sorted by name; those of the override: ``o``."""
        item = self.item
        if item is None:
            return ()
        self.version()
        return tuple(read_limit(item, name, limit_attributes(name, prefix)) for name in _limit_names(prefix, *item))

    def said(self) -> Said:
        """Return the own limits and their mode, override or not."""
        limits = self.stored()
        mode = None if self.item is None else optional(text, self.item, MODE)
        return Said(limits) if mode is None else Said(limits, check_mode(mode, limits))

    def limits(self) -> LevelLimits:
        """Return the own limits as a list; empty if none are set."""
        return LevelLimits(self.said())

    def limits_and_policy(self) -> SystemDefaults:
        """Return the own limits, and the policy of the system."""
        policy = self.on_unavailable()
        return SystemDefaults(self.limits(), None if policy is None else OnUnavailable(policy))

    def version(self) -> int:
        """Return the version, which each change raises; 0 without an item, and for a system with patterns alone."""
        item = self.item
        return 0 if item is None or (PATTERNS in item and CONFIG_VERSION not in item) else number(item, CONFIG_VERSION)

    def override_end(self) -> int | None:
        """Return the end of the override (epoch ms), passed or not; ``None`` without one."""
        return None if self.item is None else optional(number, self.item, OVERRIDE_UNTIL)

    def override(self) -> "values.overrides.Override | None":
        """Return the override in force; ``None`` if there is none, or if it has ended."""
        until_ms = self.override_end()
        if until_ms is None or self.now_ms >= until_ms:
            return None
        extends = optional(flag, self.item or {}, OVERRIDE_EXTENDS) is True
        return values.overrides.Override(self.stored("o"), until_ms, extends)

    def switches(self) -> Switches:
        """Return the switches; none are set if there is no item."""
        item = self.item
        if item is None or item.keys().isdisjoint(SWITCHES.values()):
            return NO_SWITCHES
        return Switches(**{field: item[name] for field, name in SWITCHES.items() if name in item})

    def on_unavailable(self) -> PolicyText | None:
        """Return the policy of a system config, ``None`` if it has none."""
        value = (self.item or {}).get(ON_UNAVAILABLE)
        return None if value is None else check_on_unavailable(value)

    def on_refused(self) -> OnRefused | None:
        """Return what the level says of refusals, ``None`` if it says nothing."""
        value = None if self.item is None else optional(text, self.item, ON_REFUSED)
        return None if value is None else OnRefused.parse(ON_REFUSED, value)


@lru_cache(maxsize=1024)  # items of one kind of limits have the same attributes
def _limit_names(prefix: ConfigPrefix, *attributes: str) -> tuple[str, ...]:
    """Return the names of the limits that have attributes in a config item, sorted."""
    begin, end = f"{prefix}_", CAPACITY_SUFFIX
    found = (name[len(begin) : -len(end)] for name in attributes if name.startswith(begin) and name.endswith(end))
    return tuple(sorted(filter(None, found)))


@reads
def read_own_place(item: Item) -> tuple[str, str]:
    """Return the entity and the resource (or ``_default_``) of an entity config."""
    resource = check_resource(RESOURCE, item[RESOURCE], allow_default=True)
    return check_identifier(ENTITY_ID, item[ENTITY_ID]), resource


def override_attributes(override: "values.overrides.Override", *, alone: bool) -> Item:
    """Return an override as attributes; with ``alone`` the item has nothing else, and expires after the override."""
    expiry = {TTL: -(-(override.until_ms + OVERRIDE_GRACE_MS) // 1000)} if alone else {}
    extends = {OVERRIDE_EXTENDS: True} if override.extends else {}
    return {**config_attributes(override.limits, "o"), OVERRIDE_UNTIL: override.until_ms, **extends, **expiry}


def switch_attributes(switches: Switches) -> Item:
    """Return the switches that are set, and their reason, as attributes."""
    found = ((name, getattr(switches, field)) for field, name in SWITCHES.items())
    return {name: value for name, value in found if value is not None}


@reads
def read_config(item: Item, now_ms: int) -> "values.provisioner.StoredConfig | None":
    """Return a config item as a value; ``None`` if it has nothing but an override that has ended, or patterns."""
    row = Row(item, now_ms)
    said, override, switches, policy = row.said(), row.override(), row.switches(), row.on_unavailable()
    if not (said or override or switches) and (row.override_end() is not None or not row.version()):
        return None
    return values.provisioner.StoredConfig(
        said.limits, policy, optional(text, item, FINGERPRINT), override, switches, row.on_refused(), said.mode
    )


@reads
def read_level(item: Item | None, source: ConfigSource, now_ms: int, read_at_ms: int) -> Level:
    """Return a level by the item of its config, which was read at ``read_at_ms``; an override in force replaces its
    limits.
    """
    row = Row(item, now_ms)
    override, stored = row.override(), row.said()
    said, ends_ms = stored, None
    if override is not None:
        said, ends_ms = lifted(stored, override.limits, extends=override.extends), override.until_ms
    return Level(source, said.limits, stored, ends_ms, row.switches(), row.on_refused(), read_at_ms, said.mode)


class Columns(NamedTuple):
    """All columns of a level at once, as a change finds and leaves them; ``is_over``: there is nothing in force."""

    limits: tuple[Limit, ...] = ()
    override: "values.overrides.Override | None" = None
    switches: Switches = NO_SWITCHES
    on_unavailable: PolicyText | None = None
    on_refused: str | None = None
    version: int = 0
    is_over: bool = True
    mode: LevelMode | None = None

    def plain(self) -> dict[str, Any] | None:
        """Return the level as an audit event has it; ``None`` if there is nothing in force."""
        if self.is_over:
            return None
        found: dict[str, Any] = {"limits": _plain_limits(self.limits), CONFIG_VERSION: self.version}
        if self.mode is not None:
            found[MODE] = self.mode
        if self.on_unavailable is not None:
            found[ON_UNAVAILABLE] = self.on_unavailable
        if self.on_refused is not None:
            found[ON_REFUSED] = self.on_refused
        if self.override is not None:
            until = self.override.until.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            found["override"] = {"until": until, "limits": _plain_limits(self.override.limits)}
            if self.override.extends:
                found["override"]["extends"] = True
        if self.switches:
            switches = {each.name: getattr(self.switches, each.name) for each in fields(self.switches)}
            found["switches"] = {name: value for name, value in switches.items() if value is not None}
        return found


def _plain_limits(limits: Iterable[Limit]) -> Item:
    return {limit.name: dict(_plain_fields(limit)) for limit in limits}


@lru_cache(maxsize=1024)
def _plain_fields(limit: Limit) -> tuple[tuple[str, object], ...]:
    return tuple(plain_fields(limit).items())


@reads
def read_columns(item: Item | None, now_ms: int) -> Columns:
    """Return all columns of a config item; those of none if there is no item."""
    if item is None:
        return Columns()
    row = Row(item, now_ms)
    said, override, switches, on_refused = row.said(), row.override(), row.switches(), row.on_refused()
    is_over = not (said or override or switches) and row.override_end() is not None
    refused = None if on_refused is None else str(on_refused)
    return Columns(said.limits, override, switches, row.on_unavailable(), refused, row.version(), is_over, said.mode)


def other_attributes(config: "values.provisioner.StoredConfig") -> Item:
    """Return the attributes of a config item beside its limits, their mode and its switches."""
    on_refused = None if config.on_refused is None else str(config.on_refused)
    attributes = {ON_UNAVAILABLE: config.on_unavailable, FINGERPRINT: config.fingerprint, ON_REFUSED: on_refused}
    return {name: value for name, value in attributes.items() if value is not None}
