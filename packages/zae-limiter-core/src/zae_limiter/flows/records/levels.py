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
from dataclasses import replace
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
from ...schema.configs import Row, config_attributes, override_attributes, read_plain, switch_attributes
from ...schema.keys import audit_plan, pk_plan, plan_of_subject
from ...schema.record import item_keys, reads
from ...values.audit import AuditAction, Cause
from ...values.entities import UNCHANGED, Unchanged
from ...values.limits import Limit, Policy, check_limits
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


class Change(NamedTuple):
    """The columns of a level that change: its limits (``None`` for none), its override (``None`` to end it), fields of
    its switches, and ``extra`` attributes; the others stay.

    With the limits go the attributes that ``kept`` does not name, without limits all of them. The fingerprint is one
    that stays: the provisioner's last write set it, so stored limits that differ from it show a drift. An item with
    neither limits nor a policy, an override or switches is deleted.
    """

    place: Place
    limits: tuple[Limit, ...] | Unchanged | None = UNCHANGED
    extra: Mapping[str, Any] = NOTHING
    kept: tuple[str, ...] = (*POLICIES, FINGERPRINT)
    override: Override | Unchanged | None = UNCHANGED
    switches: Mapping[str, Any] = NOTHING


def get(namespace_state: NamespaceState, level: ConfigPlace, column: Callable[[Row], T]) -> Flow[T]:
    """Return a column of a level, such as ``Row.limits``."""
    item = yield from read(place_of(namespace_state, level).key)
    return reads(lambda stored: column(Row(stored, namespace_state.now())))(item)


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
    refused: dict[str, str] = {}
    if on_refused is not None:
        refused = {ON_REFUSED: str(OnRefused.check("on_refused", on_refused, level[1]))}
    if level == SYSTEM:
        checked = validate_system(limits, on_unavailable, has_policy=bool(refused))
    else:
        checked = check_limits("limits", limits)  # type: ignore[arg-type]  # refuses None
    extra = refused if on_unavailable is None else {**refused, ON_UNAVAILABLE: on_unavailable}
    wanted = Change(place_of(namespace_state, level), UNCHANGED if checked is None else checked, extra)
    return (yield from change(namespace_state, wanted, cause))


def delete_limits(namespace_state: NamespaceState, level: ConfigPlace, cause: Cause) -> Flow[int]:
    """Remove the limits of a level and its policies, if there are any; an override and switches stay."""
    return (yield from change(namespace_state, Change(place_of(namespace_state, level), None), cause))


def set_override(
    namespace_state: NamespaceState, level: ConfigPlace, limits: Sequence[Limit | str], until: datetime, cause: Cause
) -> Flow[int]:
    """Replace an entity's limits at a level until an instant; its own stay stored."""
    override = new_override(limits, until, namespace_state.now())
    wanted = Change(place_of(namespace_state, level), override=override)
    return (yield from change(namespace_state, wanted, cause))


def delete_override(namespace_state: NamespaceState, level: ConfigPlace, cause: Cause) -> Flow[int]:
    """End the override at a level, if one is in force."""
    wanted = Change(place_of(namespace_state, level), override=None)
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
    wanted = Change(place_of(namespace_state, level), switches=given)
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
    after = _item(before, wanted, now_ms)
    was, will_be = read_plain(before, now_ms), read_plain(after, now_ms)
    keeps_limits = wanted.limits is UNCHANGED
    adds = wanted.limits not in (None, UNCHANGED) or wanted.override not in (None, UNCHANGED) or wanted.extra
    if not adds and {**(was or {}), CONFIG_VERSION: 0} == {**(will_be or {}), CONFIG_VERSION: 0}:
        return ()  # what it removes is not there
    action: AuditAction = "limits_set" if wanted.limits is not None else "limits_deleted"
    if keeps_limits and wanted.switches:
        action = "switches_set"
    elif keeps_limits and wanted.override is not UNCHANGED:
        action = "override_set" if wanted.override else "override_deleted"
    subject, resource = place.audited_as, place.resource
    audit_put = audit.event(
        namespace_state, cause, action, subject, before=was, after=will_be, resource=resource, number=number
    )
    when = Conditions(absent=(PK,)) if before is None else as_read(before, CONFIG_VERSION)
    write = Delete(place.key, when) if after is None else Put({**after, EVENT_ID: audit_put.item[EVENT_ID]}, when)
    return write, audit_put


@reads
def _columns(before: Item | None, now_ms: int) -> tuple[tuple[Limit, ...], Override | None, Switches, int]:
    row = Row(before, now_ms)
    return row.stored(), row.override(), row.switches(), row.version()


def _item(before: Item | None, wanted: Change, now_ms: int) -> Item | None:
    """Return the new item of a config, ``None`` for none."""
    limits, override, switches, version = _columns(before, now_ms)
    limits = limits if isinstance(wanted.limits, Unchanged) else wanted.limits or ()
    override = override if isinstance(wanted.override, Unchanged) else wanted.override
    kept = () if wanted.limits is None else wanted.kept
    extra = {**{name: value for name, value in (before or {}).items() if name in kept}, **wanted.extra}
    switches = replace(switches, **wanted.switches)
    if not limits and override is None and not switches and not POLICIES & extra.keys():
        return None
    beside = {} if override is None else override_attributes(override, alone=not limits and not switches)
    fixed = dict(wanted.place.fixed)
    if not limits and wanted.place.own is not None:  # lists read the end of the override from the index, 0 for none
        entity_id, resource = wanted.place.own
        until_ms = 0 if override is None else override.until_ms
        fixed[GSI3SK] = keys.gsi3_sk_entity(entity_id, until_ms)
        fixed[GSI4SK] = keys.gsi4_sk_entity_config(resource, entity_id, until_ms)
    elif not limits and RESOURCE in fixed:  # the system is in no list
        fixed[GSI4SK] = keys.gsi4_sk_without_limits(fixed[GSI4SK])
    attributes = {**extra, **config_attributes(limits), **beside, **switch_attributes(switches)}
    return {**fixed, **attributes, CONFIG_VERSION: version + 1}
