"""Read and change what is stored at a level, whichever level it is and whichever part of it.

A level is a row, named by a subject and a resource (``ConfigPlace``):

| level                  | subject        | resource            | who is told of a change at once |
|------------------------|----------------|---------------------|---------------------------------|
| system                 | none           | none                | nobody                          |
| resource               | none           | its name            | nobody                          |
| plan, on a resource    | ``$PLAN:gold`` | name or ``_default_`` | nobody                        |
| entity, on a resource  | its id         | name or ``_default_`` | the entity's live buckets     |

Its columns are limits, an override (entities alone), switches (all but plans), ``on_refused``, and ``on_unavailable``
(the system alone). A ``Change`` names those that change; one write and one audit event follow for any of them.
``values.resolution`` says which level wins, ``many_levels`` changes many at once, ``listing`` lists them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar

from ...exceptions import ValidationError
from ...operations.values import NOTHING, Conditions, Delete, Item, Key, Put
from ...schema import keys
from ...schema.attributes import (
    CONFIG_VERSION,
    ENTITY_ID,
    EVENT_ID,
    FINGERPRINT,
    GSI3PK,
    GSI3SK,
    GSI4SK,
    ON_REFUSED,
    ON_UNAVAILABLE,
    PK,
    RESOURCE,
)
from ...schema.configs import (
    config_attributes,
    config_version,
    override_attributes,
    override_end,
    read_limits,
    read_on_refused,
    read_on_unavailable,
    read_override,
    read_switches,
    switch_attributes,
)
from ...schema.keys import audit_plan, pk_plan, plan_of_subject
from ...schema.limit_fields import plain_fields
from ...schema.record import item_keys
from ...values.audit import AuditAction, Cause
from ...values.entities import UNCHANGED, Unchanged
from ...values.limits import Limit, OnUnavailable, Policy, check_limits
from ...values.naming import DEFAULT_RESOURCE, check_plan, check_resource
from ...values.on_refused import OnRefused
from ...values.overrides import Override, new_override
from ...values.provisioner import ConfigPlace
from ...values.switches import Switches
from ..bucket.telling import tell_own
from ..optimistic import Write, as_read, optimistic
from ..process.namespace_state import NamespaceState
from ..retry import key_of, read
from ..steps import Flow
from ..validation import OwnPlace, validate_own_place, validate_system
from . import audit

SYSTEM: Final[ConfigPlace] = (None, None)
POLICIES: Final = frozenset((ON_UNAVAILABLE, ON_REFUSED))  # which a config may have without limits

T = TypeVar("T")


def of_resource(resource: object) -> ConfigPlace:
    """Return the level of a resource. Raises ``ValidationError``."""
    return None, check_resource("resource", resource)


def of_plan(plan: str, resource: object) -> ConfigPlace:
    """Return the level of a plan on a resource, or on all (``_default_``). Raises ``ValidationError``."""
    return audit_plan(check_plan("plan", plan)), check_resource("resource", resource, allow_default=True)


def of_entity(entity_id: object, resource: object) -> ConfigPlace:
    """Return the level of an entity on a resource, or on all (``_default_``). Raises ``ValidationError``."""
    return validate_own_place(entity_id, resource)


def of_either(entity_id: str | None, resource: str | None) -> ConfigPlace:
    """Return the level of an entity, else that of a resource, else the system. Raises ``ValidationError``."""
    if entity_id is not None:
        return of_entity(entity_id, DEFAULT_RESOURCE if resource is None else resource)
    return SYSTEM if resource is None else of_resource(resource)


class Place(NamedTuple):
    """The place of a level in the table: the key of its item, its fixed attributes, the subject of its audit events."""

    key: Key
    fixed: Mapping[str, str]
    audited_as: str
    resource: str | None

    @property
    def own(self) -> OwnPlace | None:
        """The entity and the resource, if the level is an entity's: its live buckets are told of a change."""
        return (self.fixed[ENTITY_ID], self.fixed[RESOURCE]) if ENTITY_ID in self.fixed else None


def place_of(namespace_state: NamespaceState, level: ConfigPlace) -> Place:
    """Return the place of a level, whose names are checked."""
    ns, (subject, resource) = namespace_state.namespace_id, level
    if resource is None:
        fixed, subject = item_keys(ns, keys.pk_system(ns), keys.sk_config()), keys.audit_system()
        return Place(key_of(fixed), fixed, subject, None)
    if subject is None:
        fixed, subject = item_keys(ns, keys.pk_resource(ns, resource), keys.sk_config()), keys.audit_resource(resource)
    elif (plan := plan_of_subject(subject)) is not None:
        fixed = item_keys(ns, pk_plan(ns, plan), keys.sk_config(resource))
    else:
        row = keys.gsi4_sk_entity_config(resource, subject)
        fixed = {
            **item_keys(ns, keys.pk_entity(ns, subject), keys.sk_config(resource), row),
            GSI3PK: keys.gsi3_pk_entity_config(ns, resource),
            GSI3SK: keys.gsi3_sk_entity(subject),
            ENTITY_ID: subject,
        }
    return Place(key_of(fixed), {**fixed, RESOURCE: resource}, subject, resource)


class Row(NamedTuple):
    """What is stored at a level, column by column; a damaged column hides no other. Each may raise ``Unreadable``."""

    item: Item | None
    now_ms: int

    def limits(self) -> list[Limit]:
        """Return the limits, sorted by name, override or not; empty if none are set."""
        return list(read_limits(self.item))

    def limits_and_policy(self) -> tuple[list[Limit], OnUnavailable | None]:
        """Return the limits, and the policy of the system."""
        policy = read_on_unavailable(self.item)
        return self.limits(), None if policy is None else OnUnavailable(policy)

    def override(self) -> Override | None:
        """Return the override in force."""
        return read_override(self.item, self.now_ms)

    def switches(self) -> Switches:
        """Return the switches."""
        return read_switches(self.item)

    def plain(self) -> dict[str, Any] | None:
        """Return the row as an audit event has it; ``None`` for one with nothing but an override that has ended."""
        item = self.item
        if item is None:
            return None
        policy, override, limits = read_on_unavailable(item), self.override(), read_limits(item)
        switches = self.switches()
        if not limits and override is None and not switches and override_end(item) is not None:
            return None
        found: dict[str, Any] = {"limits": _plain_limits(limits), CONFIG_VERSION: config_version(item)}
        if policy is not None:
            found[ON_UNAVAILABLE] = policy
        found |= _refused_attributes(read_on_refused(item))
        if override is not None:
            until = override.until.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            found["override"] = {"until": until, "limits": _plain_limits(override.limits)}
        if switches:
            found["switches"] = {name: value for name, value in asdict(switches).items() if value is not None}
        return found


class Change(NamedTuple):
    """The limits that a place is to have, ``None`` for none; ``extra`` are its other new attributes.

    With ``keeps_limits`` the stored limits stay. ``kept`` names the other attributes that stay, unless ``extra`` has
    them. The fingerprint is one of them: the provisioner's last write set it, so stored limits that differ from it show
    a drift. An override in force stays, unless ``override`` is another one, or ``None`` to end it. Switches stay but
    for the fields in ``switches``. An item with neither limits nor a policy, an override or switches is deleted.
    """

    place: Place
    limits: tuple[Limit, ...] | None
    extra: Mapping[str, Any] = NOTHING
    kept: tuple[str, ...] = (*POLICIES, FINGERPRINT)
    keeps_limits: bool = False
    override: Override | Unchanged | None = UNCHANGED
    switches: Mapping[str, Any] = NOTHING


def get(namespace_state: NamespaceState, level: ConfigPlace, column: Callable[[Row], T]) -> Flow[T]:
    """Return a column of a level, such as ``Row.limits``."""
    item = yield from read(place_of(namespace_state, level).key)
    return column(Row(item, namespace_state.now()))


def set_limits(
    namespace_state: NamespaceState,
    level: ConfigPlace,
    limits: Sequence[Limit | str] | None,
    cause: Cause,
    *,
    on_refused: OnRefused | None = None,
    on_unavailable: Policy | None = None,
) -> Flow[int]:
    """Replace the limits of a level; policies stay as they are if they are ``None``, and so do the system's limits.

    Returns, like each change, the number of live buckets that were told.
    """
    refused = _refused_attributes(on_refused, level[1])
    if level == SYSTEM:
        checked = validate_system(limits, on_unavailable, has_policy=bool(refused))
    else:
        checked = check_limits("limits", limits)  # type: ignore[arg-type]  # refuses None
    extra = refused if on_unavailable is None else {**refused, ON_UNAVAILABLE: on_unavailable}
    wanted = Change(place_of(namespace_state, level), checked, extra, keeps_limits=checked is None)
    return (yield from change(namespace_state, wanted, cause))


def delete_limits(namespace_state: NamespaceState, level: ConfigPlace, cause: Cause) -> Flow[int]:
    """Remove the limits of a level and its policies, if there are any; an override and switches stay."""
    return (yield from change(namespace_state, Change(place_of(namespace_state, level), None), cause))


def set_override(
    namespace_state: NamespaceState, level: ConfigPlace, limits: Sequence[Limit | str], until: datetime, cause: Cause
) -> Flow[int]:
    """Replace an entity's limits at a level until an instant; its own stay stored."""
    override = new_override(limits, until, namespace_state.now())
    wanted = Change(place_of(namespace_state, level), None, keeps_limits=True, override=override)
    return (yield from change(namespace_state, wanted, cause))


def delete_override(namespace_state: NamespaceState, level: ConfigPlace, cause: Cause) -> Flow[int]:
    """End the override at a level, if one is in force."""
    wanted = Change(place_of(namespace_state, level), None, keeps_limits=True, override=None)
    return (yield from change(namespace_state, wanted, cause))


def set_switches(
    namespace_state: NamespaceState, level: ConfigPlace, fields: Mapping[str, Any], reason: str | None, cause: Cause
) -> Flow[int]:
    """Change switches of a level; those of ``fields`` that are ``UNCHANGED`` stay."""
    given = {name: value for name, value in fields.items() if value is not UNCHANGED}
    if not given:
        raise ValidationError("switches", given, "name at least one of disabled, bypass and cascade")
    given["reason"] = reason
    Switches(**given)  # before anything is read
    wanted = Change(place_of(namespace_state, level), None, keeps_limits=True, switches=given)
    return (yield from change(namespace_state, wanted, cause))


def change(namespace_state: NamespaceState, wanted: Change, cause: Cause) -> Flow[int]:
    """Change or delete a whole config item, with its audit event; lose no other write in between.

    Then tell the live buckets of an entity, and return their number. Raises ``StoreError`` if one of them was not told;
    the config is changed then, and the same call may be made again.
    """

    def attempt() -> Flow[tuple[Sequence[Write], None]]:
        before = yield from read(wanted.place.key)
        return writes_of(namespace_state, wanted, before, cause), None

    yield from optimistic(cause, attempt)
    namespace_state.configs.forget(wanted.place.key)
    return 0 if wanted.place.own is None else (yield from tell_buckets(namespace_state, wanted.place.own))


def tell_buckets(namespace_state: NamespaceState, place: OwnPlace) -> Flow[int]:
    """Tell the live buckets of an entity at a place that their limits have changed; return their number, or raise."""
    told = yield from tell_own(namespace_state, [place])
    for error in told.failed.values():
        raise error
    return told.buckets


def writes_of(
    namespace_state: NamespaceState, wanted: Change, before: Item | None, cause: Cause, *, number: int = 0
) -> tuple[Write, ...]:
    """Return the write of a change, and that of its audit event; none if there is nothing to delete."""
    place, now_ms = wanted.place, namespace_state.now()
    after, was = _item(wanted, before, now_ms), Row(before, now_ms).plain()
    will_be = Row(after, now_ms).plain()
    adds = wanted.limits is not None or wanted.override not in (None, UNCHANGED) or wanted.extra
    if not adds and _without_version(was) == _without_version(will_be):  # what it removes is not there
        return ()
    when = Conditions(absent=(PK,)) if before is None else as_read(before, CONFIG_VERSION)
    audit_put = audit.event(
        namespace_state,
        cause,
        _action(wanted),
        place.audited_as,
        before=was,
        after=will_be,
        resource=place.resource,
        number=number,
    )
    write = Delete(place.key, when) if after is None else Put({**after, EVENT_ID: audit_put.item[EVENT_ID]}, when)
    return write, audit_put


def _without_version(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None else {name: value for name, value in row.items() if name != CONFIG_VERSION}


def _action(wanted: Change) -> AuditAction:
    if wanted.keeps_limits and wanted.switches:
        return "switches_set"
    if wanted.keeps_limits and wanted.override is not UNCHANGED:
        return "override_set" if wanted.override else "override_deleted"
    return "limits_set" if wanted.limits is not None or wanted.keeps_limits else "limits_deleted"


def _item(wanted: Change, before: Item | None, now_ms: int) -> Item | None:
    """Return the new item of a config, ``None`` for none."""
    limits = read_limits(before) if wanted.keeps_limits else wanted.limits or ()
    override = read_override(before, now_ms) if isinstance(wanted.override, Unchanged) else wanted.override
    kept = wanted.kept if wanted.limits is not None or wanted.keeps_limits else ()
    carried = {name: value for name, value in (before or {}).items() if name in kept}
    extra = {**carried, **wanted.extra}
    switches = replace(read_switches(before), **wanted.switches)
    if not limits and override is None and not switches and not POLICIES & extra.keys():
        return None
    beside = {} if override is None else override_attributes(override, alone=not limits and not switches)
    version = config_version(before) + 1 if before else 1
    fixed = dict(wanted.place.fixed)
    if not limits and wanted.place.own is not None:  # lists read the end of the override from the index, 0 for none
        entity_id, resource = wanted.place.own
        until_ms = 0 if override is None else override.until_ms
        fixed[GSI3SK] = keys.gsi3_sk_entity(entity_id, until_ms)
        fixed[GSI4SK] = keys.gsi4_sk_entity_config(resource, entity_id, until_ms)
    elif not limits and RESOURCE in fixed:  # the system is in no list
        fixed[GSI4SK] = keys.gsi4_sk_without_limits(fixed[GSI4SK])
    attributes = {**extra, **config_attributes(limits), **beside, **switch_attributes(switches)}
    return {**fixed, **attributes, CONFIG_VERSION: version}


def _plain_limits(limits: Sequence[Limit]) -> dict[str, dict[str, Any]]:
    return {limit.name: plain_fields(limit) for limit in limits}


def _refused_attributes(on_refused: OnRefused | None, resource: str | None = None) -> dict[str, str]:
    """Return the attribute of a policy for the refusals of ``resource``, or of all. Raises ``ValidationError``."""
    return {} if on_refused is None else {ON_REFUSED: str(OnRefused.check("on_refused", on_refused, resource))}
