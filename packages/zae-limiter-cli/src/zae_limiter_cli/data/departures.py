"""List what departs from the declared limits right now: switches and overrides, with their end, author and reason.

Every config is read, a hundred with a request: an index has only those that have nothing but a switch or an override.
Audit events say by whom, a query for each subject that is shown.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from ..columns import say_columns
from ..times import iso, shown
from .overrides import blocks, places_in_words
from .places import ALL_RESOURCES
from .showing import plain_limits, word

if TYPE_CHECKING:
    from zae_limiter import Limit, SyncRepository
    from zae_limiter.values import AuditEvent
    from zae_limiter.values.provisioner import ConfigPlace, StoredConfig

What = Literal["disabled", "bypass", "override", "enabled", "no bypass", "cascade on", "cascade off"]
ORDER: Final[tuple[What, ...]] = (
    *("disabled", "bypass", "override"),
    *("enabled", "no bypass", "cascade on", "cascade off"),
)
EVENTS: Final = 50  # of a subject, among which its switch or override is looked for


@dataclass(frozen=True, slots=True)
class Departure:
    """A switch or an override in force. Without ``entity_id`` it is of every entity, without ``resource`` of all.

    ``until`` is ``None`` for what ends by a command alone; ``limits`` are those of an override. ``by`` and ``since``
    are ``None`` where no audit event says it.
    """

    entity_id: str | None
    resource: str | None
    what: What
    until: datetime | None = None
    reason: str | None = None
    limits: "tuple[Limit, ...]" = ()
    by: str | None = None
    since: str | None = None

    @property
    def kind(self) -> str:
        """The action of the audit event that set it."""
        return "override_set" if self.until is not None else "switches_set"


def read_departures(repository: "SyncRepository", most: int) -> tuple[list[Departure], int]:
    """Return the first departures of a namespace, those that refuse first, and the number of all."""
    from zae_limiter.maintenance import SyncMaintenance

    maintenance = SyncMaintenance(repository)
    configs = maintenance.get_configs(maintenance.list_config_places(), skip_unreadable=True)
    found = sorted((each for place, config in configs.items() for each in _of(place, config)), key=_rank)
    return list(_with_authors(repository, found[:most])), len(found)


def _of(place: "ConfigPlace", config: "StoredConfig") -> Iterator[Departure]:
    entity_id, resource = place
    at = Departure(
        entity_id, None if resource == ALL_RESOURCES else resource, "disabled", reason=config.switches.reason
    )
    switches = config.switches
    if switches.disabled is not None:
        yield replace(at, what="disabled" if switches.disabled else "enabled")
    if switches.bypass is not None:
        yield replace(at, what="bypass" if switches.bypass else "no bypass")
    if switches.cascade is not None:
        yield replace(at, what="cascade on" if switches.cascade == "on" else "cascade off")
    if (override := config.override) is not None:
        what: What = "disabled" if blocks(override) else "override"
        yield replace(at, what=what, until=override.until, reason=None, limits=tuple(override.limits))


def _rank(each: Departure) -> tuple[int, str, str]:
    return ORDER.index(each.what), each.entity_id or "", each.resource or ""


def _with_authors(repository: "SyncRepository", found: Sequence[Departure]) -> Iterator[Departure]:
    """Yield departures with their authors, as far as the last events of their subjects say them."""
    events: dict[str, Sequence[AuditEvent]] = {}
    for each in found:
        subject = _subject(each)
        if subject not in events:
            events[subject] = repository.get_audit_events(subject, limit=EVENTS).events
        event = _event_of(each, events[subject])
        yield each if event is None else replace(each, by=event.principal, since=event.at)


def _subject(each: Departure) -> str:
    from zae_limiter.maintenance import audit_resource, audit_system

    if each.entity_id is not None:
        return each.entity_id
    return audit_system() if each.resource is None else audit_resource(each.resource)


def _event_of(each: Departure, events: "Iterable[AuditEvent]") -> "AuditEvent | None":
    """Return the newest event that may have set it: of its kind, or of an apply, which sets all of a level."""
    on = {each.resource, *([ALL_RESOURCES] if each.resource is None else [])}
    kinds = {each.kind, "limits_set"} if each.until is None else {each.kind}
    of = (one for one in events if one.action in kinds and (each.entity_id is None or one.resource in on))
    return next((one for one in of if one.action != "limits_set" or "switches" in (one.after or {})), None)


def say_departures(found: Sequence[Departure]) -> None:
    """Print a row for each departure."""
    head = ("ENTITY", "RESOURCE", "WHAT", "UNTIL (UTC)", "BY", "SINCE (UTC)", "WHY")
    say_columns([head, *map(_cells, found)])


def plain_departure(each: Departure) -> dict[str, Any]:
    """Return a departure as plain values."""
    limits: Mapping[str, Any] = plain_limits(each.limits) if each.limits else {}
    return {
        "entity_id": each.entity_id,
        "resource": each.resource,
        "what": each.what,
        "until": None if each.until is None else iso(each.until),
        "by": each.by,
        "since": each.since,
        "reason": each.reason,
        **({"limits": limits} if limits else {}),
    }


def _text(limit: "Limit") -> str:
    """Return the values of a limit in words, those of its schedule behind them."""
    if not limit.schedule:
        return limit.text
    return f"{replace(limit, schedule=()).text}, schedule {'; '.join(map(str, limit.schedule))}"


def _cells(each: Departure) -> tuple[str, ...]:
    why = each.reason
    if each.what == "override":
        why = ", ".join(f"{limit.name} {_text(limit)}" for limit in each.limits)
    elif each.until is not None:
        why = f"for a time: no {', '.join(limit.name for limit in each.limits)}"
    return (
        each.entity_id or "every entity",
        places_in_words([each.resource or ALL_RESOURCES]),
        each.what,
        "-" if each.until is None else shown(each.until),
        word(each.by),
        "-" if each.since is None else f"{each.since[:10]} {each.since[11:16]}",
        word(why),
    )
