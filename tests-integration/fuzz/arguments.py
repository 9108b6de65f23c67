"""Arguments for every public method of the library, by the names of its parameters, else by their types.

Lives here: strategies, and which methods there are. Never: a call.
"""

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from functools import cache
from typing import Any, get_type_hints

from hypothesis import strategies as st

from zae_limiter import Draw, Limit, OnRefused, SyncRateLimiter, SyncRepository
from zae_limiter.maintenance import (
    HandledEvent,
    ProvisionerLock,
    ProvisionerState,
    StoredConfig,
    SyncMaintenance,
    VersionRecord,
)
from zae_limiter.values.provisioner import StoredEntity

from .junk import python_junk


class Known(Enum):
    """What only a table can tell; the surface puts it in."""

    OWN_ID = "the id of the own namespace"
    VICTIM_ID = "that of another one, which nobody may touch"
    LAST_TOKEN = "the token of the last page"
    GONE_ID = "the id of the last namespace that was deleted"


@dataclass(frozen=True)
class Call:
    """A method of a repository or of a limiter, and what it is called with; an acquire has calls of its lease, too."""

    method: str
    arguments: Mapping[str, Any]
    block: tuple["Call", ...] = ()


OPENING = {"open", "over", "builder", "in_memory", "sqlite", "close", "limit"}  # and what decorates: it acquires later
ENTITIES = ["e", "p", "user-1", "u@x:1", "auth0|1", "e\u0301", "$", "a/b", "|" * 170, "e" * 256]
RESOURCES = ["r", "gpt-4", "/v1/chat", "日本", "%2F"]
NAMES = ["rpm", "tpm", "self", "a.b"]
SPARE_NAMESPACES = ["spare-1", "spare-2", "own"]

entities, resources = st.sampled_from(ENTITIES), st.sampled_from(RESOURCES)
amounts = st.sampled_from([0, 1, 2, 50, 1000, 10**15]) | st.integers(-5, 200)
consumption = st.dictionaries(st.sampled_from(NAMES), amounts, min_size=1, max_size=2)
some_limits = st.builds(
    lambda name, capacity, more, refill, period: Limit(name, capacity, capacity + more, refill, period),
    st.sampled_from(NAMES),
    st.sampled_from([1, 60, 10**6, 10**15 - 5]),
    st.integers(0, 5),
    st.sampled_from([1, 60, 10**15]),
    st.sampled_from([1, 60, 86400, 3_153_600_000]),
)
draws = st.lists(
    st.builds(
        Draw,
        st.none() | entities,
        st.none() | resources,
        consume=st.none() | consumption,
        cascade=st.none() | st.booleans(),
    ),
    max_size=3,
)
limits = st.lists(some_limits, min_size=1, max_size=3, unique_by=lambda limit: limit.name)
places = st.tuples(entities, resources | st.just("_default_"))
config_places = st.one_of(
    places, st.tuples(st.just("$TIER:gold"), resources), st.tuples(st.none(), resources), st.just((None, None))
)
configs = st.builds(StoredConfig, limits.map(tuple), st.none(), st.none() | st.just("sha256:0"))
states = st.builds(
    ProvisionerState,
    managed_resources=st.lists(resources, max_size=2),
    managed_entities=st.dictionaries(entities, st.lists(resources, min_size=1, max_size=2), max_size=2),
    owner=st.sampled_from([None, "cli", "x" * 2048]),
    lock=st.none() | st.builds(ProvisionerLock, st.just("id"), st.just("me"), st.sampled_from([0, 10**13, 10**40])),
    handled=st.lists(st.builds(HandledEvent, st.just("Create 1"), st.booleans()), max_size=2),
)
times = st.none() | st.datetimes(datetime(2023, 1, 1), datetime(2025, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  hypothesis adds the zone
ends = st.datetimes(datetime(2023, 11, 14), datetime(2024, 11, 20), timezones=st.timezones()) | st.sampled_from(  # noqa: DTZ001  hypothesis adds the zone
    [None, datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=timezone(timedelta(hours=-23)))]
)
tokens = st.sampled_from([None, Known.LAST_TOKEN, Known.LAST_TOKEN, "?", "a", "2024-01-01T10:00:00.000Z-1"])
records = st.builds(StoredEntity, st.none() | entities, name=st.none() | st.text(max_size=5))
metadata = st.none() | st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)

# By the name of the parameter, where its type says too little; a flag, or a choice of a few words, has its type.
SOUND: dict[str, st.SearchStrategy[Any]] = {
    "entity_id": entities,
    "parent_id": st.none() | entities,
    "tier": st.sampled_from(["gold", "silver"]),
    "resource": resources | st.just("_default_"),
    "consume": consumption,
    "tokens": consumption,
    "limits": limits,
    "draws": draws,
    "max_wait": st.sampled_from([0.0, 0.001, -1, math.nan, "5", None, True]),  # no long one: it would be slept through
    "max_hold": st.sampled_from([None, 0.001, 600, 0, -1, math.nan, math.inf, "5", True]),
    "key_life": st.sampled_from([None, 1, 3600.5, 0, -1, math.nan, math.inf, "5", True]),
    "on_refused": st.sampled_from([None, OnRefused(), OnRefused(0.001, "r"), "wait=1"]),
    "writes_per_second": st.sampled_from([1000, 0, -1, math.nan, math.inf, "5", None, True]),  # none that takes long
    "since": times,
    "idempotency_key": st.sampled_from([None, "invoice-77", "a#b"]),
    "principal": st.sampled_from([None, "ann", "ci@example.com"]),
    "override_until": ends,
    "reason": st.sampled_from([None, "unpaid", "é" * 200, "", "a\nb"]),
    "name": st.sampled_from(SPARE_NAMESPACES),
    "metadata": metadata,
    "places": st.lists(config_places, max_size=3),
    "changes": st.dictionaries(places, limits, max_size=3),
    "configs": st.dictionaries(config_places, st.none() | configs, max_size=3),
    "entity_ids": st.lists(entities, max_size=3),
    "records": st.dictionaries(entities, st.none() | records, max_size=3),
    "by": st.sampled_from(["total_refused", "total_shadowed", "total_uncounted", "rpm"]),
    "limit": st.sampled_from([1, 2, 1000]),
    "start": times,
    "end": times,
    "window": st.sampled_from(["hourly", "daily"]),
    "next": tokens,
    "begins_with": st.sampled_from(["", "e", "key", "auth0|"]),
    "namespace_id": st.sampled_from([*Known, "nobody"]),
    "on_progress": st.none(),
    "record": st.builds(VersionRecord, st.integers(0, 3), st.just("0.1.0"), st.sampled_from(["0.1.0", "9.9.9"])),
    "state": states,
    "expected_serial": st.integers(0, 2),
    "expected_version": st.none() | st.integers(0, 3),
}
SOUND_OF: dict[tuple[str, str], st.SearchStrategy[Any]] = {
    ("get_audit_events", "start"): tokens,
    ("get_namespace_audit_events", "start"): tokens,
    ("get_audit_events", "entity_id"): entities | st.sampled_from(["$SYSTEM", "$RESOURCE:r", "$TIER:gold"]),
    ("delete_many_limits", "places"): st.lists(places, max_size=3),
    ("get_buckets_at", "places"): st.lists(st.tuples(entities, resources), max_size=3),
}
NEVER_JUNK = {"on_progress", "max_wait", "writes_per_second"}  # the caller's own function; a time that may be long


def methods() -> dict[str, type]:
    """Every public method by name, with a class that has it; what opens or closes is left out."""
    found: dict[str, type] = {}
    for cls in (SyncMaintenance, SyncRepository, SyncRateLimiter):
        names = (name for name in dir(cls) if not name.startswith("_") and name not in OPENING)
        found |= {name: cls for name in names if inspect.isfunction(inspect.getattr_static(cls, name))}
    return found


@st.composite
def calls(draw: st.DrawFn) -> Call:
    """A call of any method, whose arguments fit most of the time."""
    name = draw(st.sampled_from(sorted(_METHODS)))
    return Call(name, _arguments(draw, name), draw(_BLOCKS) if name == "acquire" else ())


def _arguments(draw: st.DrawFn, method: str) -> dict[str, Any]:
    chosen, types = {}, _types(method)
    for name, parameter in inspect.signature(getattr(_METHODS[method], method)).parameters.items():
        if name == "self" or (parameter.default is not parameter.empty and draw(st.booleans())):
            continue
        sound = SOUND_OF.get((method, name), SOUND.get(name, st.from_type(types[name])))
        chosen[name] = draw(sound if name in NEVER_JUNK or draw(st.integers(0, 7)) else python_junk)
    return chosen


@cache
def _types(method: str) -> dict[str, Any]:
    return get_type_hints(getattr(_METHODS[method], method))


_METHODS = methods()
_lease_amounts = consumption | st.dictionaries(st.text(max_size=3), python_junk, max_size=2)
_BLOCKS = st.lists(
    st.builds(Call, st.sampled_from(["consume", "adjust", "settle", "release", "would_exceed"]), _lease_amounts)
    | st.builds(Call, st.just("keep"), st.just({}))
    | st.builds(Call, st.just("draw"), st.fixed_dictionaries({"entity_id": entities, "resource": resources})),
    max_size=3,
).map(tuple)
