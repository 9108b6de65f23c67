"""Set, get and delete the stored limits of each level.

``resolution`` says which level wins, ``bulk_configs`` changes many at once, ``listing`` lists them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from ...operations.values import NOTHING, Conditions, Delete, Item, Key, Put
from ...schema import keys
from ...schema.attributes import (
    CONFIG_VERSION,
    ENTITY_ID,
    EVENT_ID,
    FINGERPRINT,
    GSI3PK,
    GSI3SK,
    GSI4PK,
    GSI4SK,
    ON_REFUSED,
    ON_UNAVAILABLE,
    PK,
    RESOURCE,
    SK,
)
from ...schema.configs import (
    config_attributes,
    config_version,
    override_attributes,
    read_limits,
    read_on_unavailable,
    read_override,
    read_switches,
    switch_attributes,
)
from ...values.audit import AuditAction, Cause
from ...values.entities import UNCHANGED, Unchanged
from ...values.limits import Limit, OnUnavailable, Policy, check_limits
from ...values.naming import check_resource
from ...values.on_refused import OnRefused
from ...values.overrides import Override, new_override
from ...values.switches import Switches
from ..bucket.telling import tell_own
from ..optimistic import Write, as_read, optimistic
from ..process.namespace_state import NamespaceState
from ..retry import read
from ..steps import Flow
from ..validation import OwnPlace, validate_own_place, validate_system
from . import audit
from .plain_configs import plain, refused_attributes

POLICIES: Final = frozenset((ON_UNAVAILABLE, ON_REFUSED))  # which a config may have without limits


class Place(NamedTuple):
    """The place of a config: the key of its item, its fixed attributes, and the subject of its audit events."""

    key: Key
    fixed: Mapping[str, str]
    audited_as: str
    resource: str | None


class Change(NamedTuple):
    """The limits that a place is to have, ``None`` for none; ``extra`` are its other new attributes.

    With ``keeps_limits`` the stored limits stay. ``kept`` names the other attributes that stay, unless ``extra`` has
    them. The fingerprint is one of them: the provisioner's last write set it, so stored limits that differ from it show
    a drift. An override in force stays, unless ``override`` is another one, or ``None`` to end it. The switches stay,
    unless ``switches`` are others. An item with neither limits nor a policy, an override or switches is deleted.
    """

    place: Place
    limits: tuple[Limit, ...] | None
    extra: Mapping[str, Any] = NOTHING
    kept: tuple[str, ...] = (*POLICIES, FINGERPRINT)
    keeps_limits: bool = False
    override: Override | Unchanged | None = UNCHANGED
    switches: Switches | Unchanged = UNCHANGED


def system_place(namespace_state: NamespaceState) -> Place:
    """Return the place of the system config."""
    key = Key(keys.pk_system(namespace_state.namespace_id), keys.sk_config())
    return Place(key, {GSI4PK: keys.gsi4_pk(namespace_state.namespace_id), GSI4SK: key.pk}, keys.audit_system(), None)


def resource_place(namespace_state: NamespaceState, resource: str) -> Place:
    """Return the place of a resource config."""
    key = Key(keys.pk_resource(namespace_state.namespace_id, resource), keys.sk_config())
    fixed = {GSI4PK: keys.gsi4_pk(namespace_state.namespace_id), GSI4SK: key.pk, RESOURCE: resource}
    return Place(key, fixed, keys.audit_resource(resource), resource)


def entity_place(namespace_state: NamespaceState, entity_id: str, resource: str) -> Place:
    """Return the place of an entity config, on a resource or on all (``_default_``)."""
    ns = namespace_state.namespace_id
    fixed = {
        GSI3PK: keys.gsi3_pk_entity_config(ns, resource),
        GSI3SK: keys.gsi3_sk_entity(entity_id),
        GSI4PK: keys.gsi4_pk(ns),
        GSI4SK: keys.gsi4_sk_entity_config(resource, entity_id),
        ENTITY_ID: entity_id,
        RESOURCE: resource,
    }
    return Place(Key(keys.pk_entity(ns, entity_id), keys.sk_config(resource)), fixed, entity_id, resource)


def get_system(namespace_state: NamespaceState) -> Flow[tuple[list[Limit], OnUnavailable | None]]:
    """Return the system's limits, and its policy."""
    item = yield from read(system_place(namespace_state).key)
    policy = read_on_unavailable(item)
    return list(read_limits(item)), None if policy is None else OnUnavailable(policy)


def set_system(
    namespace_state: NamespaceState,
    limits: Sequence[Limit | str] | None,
    on_unavailable: Policy | None,
    cause: Cause,
    *,
    on_refused: OnRefused | None = None,
) -> Flow[None]:
    """Replace the system config; limits or policies stay as they are if they are ``None``."""
    refused = refused_attributes(on_refused)
    limits = validate_system(limits, on_unavailable, has_policy=bool(refused))
    extra = refused if on_unavailable is None else {**refused, ON_UNAVAILABLE: on_unavailable}
    wanted = Change(system_place(namespace_state), limits or (), extra, keeps_limits=limits is None)
    yield from change(namespace_state, wanted, cause)


def delete_system(namespace_state: NamespaceState, cause: Cause) -> Flow[None]:
    """Remove the system config, if there is one."""
    yield from change(namespace_state, Change(system_place(namespace_state), None), cause)


def get_resource(namespace_state: NamespaceState, resource: str) -> Flow[list[Limit]]:
    """Return the limits of a resource, sorted by name; empty if none are set."""
    return (yield from _get(resource_place(namespace_state, check_resource("resource", resource))))


def set_resource(
    namespace_state: NamespaceState,
    resource: str,
    limits: Sequence[Limit | str],
    cause: Cause,
    *,
    on_refused: OnRefused | None = None,
) -> Flow[None]:
    """Replace the limits of a resource; its ``on_refused`` stays as it is if that is ``None``."""
    place = resource_place(namespace_state, check_resource("resource", resource))
    wanted = Change(place, check_limits("limits", limits), refused_attributes(on_refused, place.resource))
    yield from change(namespace_state, wanted, cause)


def delete_resource(namespace_state: NamespaceState, resource: str, cause: Cause) -> Flow[None]:
    """Remove the limits of a resource, if there are any."""
    place = resource_place(namespace_state, check_resource("resource", resource))
    yield from change(namespace_state, Change(place, None), cause)


def get_own(namespace_state: NamespaceState, entity_id: str, resource: str) -> Flow[list[Limit]]:
    """Return an entity's own limits on a resource, or on all (``_default_``), sorted by name; empty if none are set."""
    return (yield from _get(entity_place(namespace_state, *validate_own_place(entity_id, resource))))


def set_own(
    namespace_state: NamespaceState,
    entity_id: str,
    resource: str,
    limits: Sequence[Limit | str],
    cause: Cause,
    *,
    on_refused: OnRefused | None = None,
) -> Flow[int]:
    """Replace an entity's own limits on a resource, or on all (``_default_``); the ``on_refused`` beside them stays as
    it is if that is ``None``.
    """
    place = entity_place(namespace_state, *validate_own_place(entity_id, resource))
    wanted = Change(place, check_limits("limits", limits), refused_attributes(on_refused, place.resource))
    return (yield from _change_own(namespace_state, wanted, cause))


def delete_own(namespace_state: NamespaceState, entity_id: str, resource: str, cause: Cause) -> Flow[int]:
    """Remove an entity's own limits on a resource, or on all (``_default_``), if there are any."""
    place = entity_place(namespace_state, *validate_own_place(entity_id, resource))
    return (yield from _change_own(namespace_state, Change(place, None), cause))


def get_override(namespace_state: NamespaceState, entity_id: str, resource: str) -> Flow[Override | None]:
    """Return the override in force of an entity's limits on a resource, or on all (``_default_``)."""
    place = entity_place(namespace_state, *validate_own_place(entity_id, resource))
    item = yield from read(place.key)
    return read_override(item, namespace_state.now())


def set_override(
    namespace_state: NamespaceState,
    entity_id: str,
    resource: str,
    limits: Sequence[Limit | str],
    until: datetime,
    cause: Cause,
) -> Flow[int]:
    """Replace an entity's limits on a resource, or on all (``_default_``), until an instant; its own stay stored."""
    place = entity_place(namespace_state, *validate_own_place(entity_id, resource))
    override = new_override(limits, until, namespace_state.now())
    return (yield from _change_own(namespace_state, Change(place, None, keeps_limits=True, override=override), cause))


def delete_override(namespace_state: NamespaceState, entity_id: str, resource: str, cause: Cause) -> Flow[int]:
    """End the override of an entity's limits on a resource, or on all (``_default_``), if one is in force."""
    place = entity_place(namespace_state, *validate_own_place(entity_id, resource))
    return (yield from _change_own(namespace_state, Change(place, None, keeps_limits=True, override=None), cause))


def _get(place: Place) -> Flow[list[Limit]]:
    return list(read_limits((yield from read(place.key))))


def change(namespace_state: NamespaceState, wanted: Change, cause: Cause) -> Flow[None]:
    """Change or delete a whole config item, with its audit event; lose no other write in between."""

    def attempt() -> Flow[tuple[Sequence[Write], None]]:
        before = yield from read(wanted.place.key)
        return writes_of(namespace_state, wanted, before, cause), None

    yield from optimistic(cause, attempt)
    namespace_state.configs.forget(wanted.place.key)


def _change_own(namespace_state: NamespaceState, wanted: Change, cause: Cause) -> Flow[int]:
    """Change the config of an entity, and tell its live buckets; return their number. Raises ``StoreError`` if one of
    them was not told; the config is changed then, and the same call may be made again.
    """
    yield from change(namespace_state, wanted, cause)
    return (yield from tell_place(namespace_state, wanted.place))


def tell_place(namespace_state: NamespaceState, place: Place) -> Flow[int]:
    """Tell the live buckets of an entity that its config at a place was changed; return their number, or raise."""
    told = yield from tell_own(namespace_state, [own_place_of(place)])
    for error in told.failed.values():
        raise error
    return told.buckets


def own_place_of(place: Place) -> OwnPlace:
    """Return the entity and the resource of an entity's place."""
    return place.fixed[ENTITY_ID], place.fixed[RESOURCE]


def writes_of(
    namespace_state: NamespaceState, wanted: Change, before: Item | None, cause: Cause, *, number: int = 0
) -> tuple[Write, ...]:
    """Return the write of a change, and that of its audit event; none if there is nothing to delete."""
    place, now_ms = wanted.place, namespace_state.now()
    after, was = _item(wanted, before, now_ms), plain(before, now_ms)
    if _takes_nothing(wanted, before, now_ms):
        return ()
    when = Conditions(absent=(PK,)) if before is None else as_read(before, CONFIG_VERSION)
    audit_put = audit.event(
        namespace_state,
        cause,
        _action(wanted),
        place.audited_as,
        before=was,
        after=plain(after, now_ms),
        resource=place.resource,
        number=number,
    )
    write = Delete(place.key, when) if after is None else Put({**after, EVENT_ID: audit_put.item[EVENT_ID]}, when)
    return write, audit_put


def _takes_nothing(wanted: Change, before: Item | None, now_ms: int) -> bool:
    """Return whether a change adds nothing, and what it removes is not there."""
    if wanted.limits is not None or wanted.override not in (None, UNCHANGED) or wanted.extra:
        return False
    was = plain(before, now_ms) or {}
    stays = wanted.switches in (UNCHANGED, read_switches(before))
    stays = stays and (wanted.override is UNCHANGED or "override" not in was)
    if wanted.keeps_limits or not was or not stays:
        return stays
    return not was["limits"] and not POLICIES & was.keys() and ("override" in was or "switches" in was)


def _action(wanted: Change) -> AuditAction:
    if wanted.keeps_limits and wanted.switches is not UNCHANGED:
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
    switches = read_switches(before) if isinstance(wanted.switches, Unchanged) else wanted.switches
    if not limits and override is None and not switches and not POLICIES & extra.keys():
        return None
    beside = {} if override is None else override_attributes(override, alone=not limits and not switches)
    version = config_version(before) + 1 if before else 1
    key, fixed = wanted.place.key, wanted.place.fixed
    if not limits and RESOURCE in fixed:  # the system is in no list
        fixed = {**fixed, **_index_keys_until(fixed, 0 if override is None else override.until_ms)}
    attributes = {**extra, **config_attributes(limits), **beside, **switch_attributes(switches)}
    return {PK: key.pk, SK: key.sk, **fixed, **attributes, CONFIG_VERSION: version}


def _index_keys_until(fixed: Mapping[str, str], until_ms: int) -> dict[str, str]:
    """Return the index keys of an item without limits of its own, from which lists read the end of its override; 0 if
    it has switches alone.
    """
    if ENTITY_ID not in fixed:
        return {GSI4SK: keys.gsi4_sk_without_limits(fixed[GSI4SK])}
    entity_id, resource = fixed[ENTITY_ID], fixed[RESOURCE]
    return {
        GSI3SK: keys.gsi3_sk_entity(entity_id, until_ms),
        GSI4SK: keys.gsi4_sk_entity_config(resource, entity_id, until_ms),
    }
