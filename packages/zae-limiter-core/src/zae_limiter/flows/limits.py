"""Stored limits at three levels: set, get, delete.

Lives here: how a config item changes. Never: which level wins (resolution).
"""

from typing import Any

from ..limits import Limit, OnUnavailable
from ..operations.errors import ConditionFailed
from ..operations.values import Conditions, Delete, Item, Key, Put
from ..schema import keys
from ..schema.items import config_attributes, read_limits, read_on_unavailable
from .commit import ATTEMPTS, RaceLost
from .load import patiently, read
from .scope import Scope
from .steps import Flow


def system_key(scope: Scope) -> Key:
    """Where the limits of the whole namespace stand."""
    return Key(keys.pk_system(scope.namespace_id), keys.sk_config())


def resource_key(scope: Scope, resource: str) -> Key:
    """Where the limits of a resource stand."""
    return Key(keys.pk_resource(scope.namespace_id, resource), keys.sk_config())


def entity_key(scope: Scope, entity_id: str, resource: str) -> Key:
    """Where the limits of an entity stand, on a resource or on all (``_default_``)."""
    return Key(keys.pk_entity(scope.namespace_id, entity_id), keys.sk_config(resource))


def get_limits(key: Key) -> Flow[list[Limit]]:
    """The limits set at a level, by name; none where nothing is set."""
    return list(read_limits((yield from read(key))))


def get_system(scope: Scope) -> Flow[tuple[list[Limit], OnUnavailable | None]]:
    """The system's limits, and what it says for a store that is away."""
    item = yield from read(system_key(scope))
    return list(read_limits(item)), read_on_unavailable(item)


def set_system(scope: Scope, limits: tuple[Limit, ...], on_unavailable: OnUnavailable | None) -> Flow[None]:
    """Replace the system config as a whole; ``on_unavailable`` stays as it was where it is not given."""
    key = system_key(scope)
    index = {"GSI4PK": keys.gsi4_pk(scope.namespace_id), "GSI4SK": key.pk}
    extra = {} if on_unavailable is None else {"on_unavailable": on_unavailable}
    yield from _replace(scope, key, {**index, **config_attributes(limits)}, extra, kept=("on_unavailable",))


def set_resource(scope: Scope, resource: str, limits: tuple[Limit, ...]) -> Flow[None]:
    """Replace the limits of a resource."""
    key = resource_key(scope, resource)
    index = {"GSI4PK": keys.gsi4_pk(scope.namespace_id), "GSI4SK": key.pk, "resource": resource}
    yield from _replace(scope, key, {**index, **config_attributes(limits)}, {})


def set_entity(scope: Scope, entity_id: str, resource: str, limits: tuple[Limit, ...]) -> Flow[None]:
    """Replace the limits of an entity on a resource or, with ``_default_``, on all."""
    ns = scope.namespace_id
    index = {
        "GSI3PK": keys.gsi3_pk_entity_config(ns, resource),
        "GSI3SK": keys.gsi3_sk_entity(entity_id),
        "GSI4PK": keys.gsi4_pk(ns),
        "GSI4SK": keys.gsi4_sk_entity_config(resource, entity_id),
        "entity_id": entity_id,
        "resource": resource,
    }
    yield from _replace(scope, entity_key(scope, entity_id, resource), {**index, **config_attributes(limits)}, {})


def delete(scope: Scope, key: Key) -> Flow[None]:
    """Remove a config; removing what is not there is no error."""
    yield from patiently(Delete(key))
    scope.configs.forget(key)


def _replace(
    scope: Scope, key: Key, attributes: dict[str, Any], extra: dict[str, Any], *, kept: tuple[str, ...] = ()
) -> Flow[None]:
    """Write a config item whole, and count its version; nobody else's write in between is lost."""
    for _ in range(ATTEMPTS):
        before: Item | None = yield from read(key)
        carried = {name: before[name] for name in kept if name in before} if before else {}
        version = before["config_version"] if before else 0
        item = {"PK": key.pk, "SK": key.sk, **carried, **attributes, **extra, "config_version": version + 1}
        when = Conditions(equals={"config_version": version}) if before else Conditions(absent=("PK",))
        try:
            yield from patiently(Put(item, when))
        except ConditionFailed:
            continue
        scope.configs.forget(key)
        return
    raise RaceLost
