"""Rules of overrides made wrong, to prove that the simulation finds it."""

from collections.abc import Mapping
from typing import Any, Final
from unittest.mock import patch

from zae_limiter.flows.process import config_cache
from zae_limiter.flows.process.config_cache import ConfigRecords
from zae_limiter.flows.records import levels as stored
from zae_limiter.schema import configs
from zae_limiter.values.overrides import Override
from zae_limiter.values.resolution import Level

LEVELS = ConfigRecords.levels
NEVER_MS: Final = 10**12


def _endless(item: Any, now_ms: int) -> Any:
    """An override holds for ever."""
    until_ms = configs.override_end(item)
    return None if until_ms is None else Override(configs.read_limits(item, "o"), until_ms + NEVER_MS)


def _no_ends(self: ConfigRecords, now_ms: int) -> list[Level]:
    """Resolved limits hold for the life of the cache, whatever ends meanwhile."""
    return [level._replace(ends_ms=None) for level in LEVELS(self, now_ms)]


def _heeding_one_place(self: ConfigRecords, now_ms: int) -> list[Level]:
    """Readers heed the override of an entity on a resource, and not that on all."""
    first, default, *others = LEVELS(self, now_ms)
    return [first, default._replace(limits=default.stored), *others]


OVERRIDE_FAULTS: Final[Mapping[str, Any]] = {
    "an override that never ends": patch.object(config_cache, "read_override", _endless),
    "an override that the cache outlives": patch.object(ConfigRecords, "levels", _no_ends),
    "an override that nobody heeds": patch.object(config_cache, "read_override", lambda *_: None),
    "an override on all resources that nobody heeds": patch.object(ConfigRecords, "levels", _heeding_one_place),
    "an override that goes with a change of the limits beneath it": patch.object(
        stored, "read_override", lambda *_: None
    ),
    "an override in the place of the own limits": patch.object(stored, "read_limits", lambda _: ()),
}

# Seeds of histories that find a fault, where the first one does not
FINDERS = {
    "an override that never ends": 8,
    "an override that nobody heeds": 13,
    "an override on all resources that nobody heeds": 13,
    "an override that the cache outlives": 30,
    "an override in the place of the own limits": 51,
    "an override that goes with a change of the limits beneath it": 550,
}
