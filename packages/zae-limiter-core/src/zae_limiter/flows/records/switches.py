"""Set, get and resolve the switches of the levels, which are stored beside the limits.

``values.switches`` says which level's word holds, ``limits`` writes the records, ``bucket.telling`` tells live buckets.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...exceptions import ValidationError
from ...schema.configs import read_switches
from ...values.audit import Cause
from ...values.entities import UNCHANGED
from ...values.naming import DEFAULT_RESOURCE, check_resource
from ...values.switches import ResolvedSwitches, Switches
from ..bucket.serving import cached_bucket, resolve
from ..optimistic import Write, optimistic
from ..process.namespace_state import NamespaceState
from ..retry import read
from ..steps import Flow
from ..validation import validate_bucket, validate_own_place
from .limits import Change, Place, entity_place, resource_place, system_place, tell_place, writes_of

Fields = Mapping[str, Any]


def set_system(namespace_state: NamespaceState, fields: Fields, reason: str | None, cause: Cause) -> Flow[None]:
    """Change switches of the system; those of ``fields`` that are ``UNCHANGED`` stay."""
    yield from _change(namespace_state, system_place(namespace_state), fields, reason, cause)


def set_resource(
    namespace_state: NamespaceState, resource: str, fields: Fields, reason: str | None, cause: Cause
) -> Flow[None]:
    """Change switches of a resource."""
    place = resource_place(namespace_state, check_resource("resource", resource))
    yield from _change(namespace_state, place, fields, reason, cause)


def set_own(
    namespace_state: NamespaceState, entity_id: str, resource: str, fields: Fields, reason: str | None, cause: Cause
) -> Flow[int]:
    """Change switches of an entity on a resource, or on all; tell its live buckets, and return their number."""
    place = entity_place(namespace_state, *validate_own_place(entity_id, resource))
    yield from _change(namespace_state, place, fields, reason, cause)
    return (yield from tell_place(namespace_state, place))


def _change(
    namespace_state: NamespaceState, place: Place, fields: Fields, reason: str | None, cause: Cause
) -> Flow[None]:
    given = {name: value for name, value in fields.items() if value is not UNCHANGED}
    if not given:
        raise ValidationError("switches", given, "name at least one of disabled, bypass and cascade")
    Switches(**given, reason=reason)  # before anything is read

    def attempt() -> Flow[tuple[tuple[Write, ...], None]]:
        before = yield from read(place.key)
        switches = replace(read_switches(before), **given, reason=reason)
        wanted = Change(place, None, keeps_limits=True, switches=switches)
        return writes_of(namespace_state, wanted, before, cause), None

    yield from optimistic(cause, attempt)
    namespace_state.configs.forget(place.key)


def get_switches(namespace_state: NamespaceState, entity_id: str | None, resource: str | None) -> Flow[Switches]:
    """Return the switches of one level."""
    place = _place(namespace_state, entity_id, resource)
    return read_switches((yield from read(place.key)))


def get_resolved_switches(namespace_state: NamespaceState, entity_id: str, resource: str) -> Flow[ResolvedSwitches]:
    """Return the switches that hold for an entity on a resource."""
    cached = cached_bucket(namespace_state, *validate_bucket(entity_id, resource))
    resolved = yield from resolve(namespace_state, cached, bucket_too=False)
    return resolved.switches or ResolvedSwitches()


def _place(namespace_state: NamespaceState, entity_id: str | None, resource: str | None) -> Place:
    """Return the place of a level: of an entity on a resource or on all, of a resource, or of the system."""
    if entity_id is not None:
        own = validate_own_place(entity_id, DEFAULT_RESOURCE if resource is None else resource)
        return entity_place(namespace_state, *own)
    if resource is not None:
        return resource_place(namespace_state, check_resource("resource", resource))
    return system_place(namespace_state)
