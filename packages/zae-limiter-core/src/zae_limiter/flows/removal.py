"""Removing an entity with all that is its own.

Lives here: what goes, and in which order. Never: how a record or a config changes (entities, limits).
"""

from collections.abc import Sequence
from typing import Any

from ..audit import Cause
from ..exceptions import EntityHasChildrenError, EntityNotFoundError
from ..operations.values import Conditions, Delete, Item, Key, Query
from ..schema import keys
from ..schema.items import CHILDREN, read_entity
from . import audit, bulk, entities, limits
from .load import read
from .optimistic import Write, optimistic
from .pages import delete_all, query_all
from .scope import Scope
from .steps import Flow

CONFIGS_IN_TRANSACTION = 90


def delete_entity(scope: Scope, entity_id: str, cause: Cause) -> Flow[None]:
    """The record and the limits go in one transaction, then the buckets, of which a dead process may leave some.

    Raises ``EntityNotFoundError``, ``EntityHasChildrenError``.
    """

    def attempt() -> Flow[tuple[Sequence[Write], list[Item]]]:
        item = yield from read(entities.meta_key(scope, entity_id))
        if item is None:
            raise EntityNotFoundError(entity_id)
        if item[CHILDREN]:
            raise EntityHasChildrenError(entity_id, item[CHILDREN])
        configs = yield from query_all(Query(item["PK"], begins_with=keys.CONFIG_PREFIX))
        return _writes(scope, item, configs[:CONFIGS_IN_TRANSACTION], cause), configs

    configs = yield from optimistic(cause, attempt)
    for key in (entities.meta_key(scope, entity_id), *map(_key, configs)):
        scope.configs.forget(key)
    yield from _delete_others(scope, configs[CONFIGS_IN_TRANSACTION:], cause.afterwards())
    pk = keys.gsi3_pk_entity(scope.namespace_id, entity_id)
    buckets = yield from query_all(Query(pk, index="GSI3", begins_with=keys.INDEX_BUCKET_PREFIX))
    yield from delete_all(map(_key, buckets))
    _forget_buckets(scope, buckets)


def _writes(scope: Scope, item: Item, configs: Sequence[Item], cause: Cause) -> list[Write]:
    entity = read_entity(item)
    own = {config["resource"]: limits.plain(config) for config in configs}
    before: dict[str, Any] = {**entities.plain(entity), "configs": own}
    return [
        Delete(_key(item), Conditions(equals={"version": entity.version, CHILDREN: 0})),
        audit.event(scope, cause, "entity_deleted", entity.entity_id, before=before, after=None),
        *(Delete(_key(config), Conditions(equals=limits.version_of(config))) for config in configs),
        *([] if entity.parent_id is None else [entities.leave(scope, entity.parent_id)]),
    ]


def _delete_others(scope: Scope, configs: Sequence[Item], cause: Cause) -> Flow[None]:
    """What one transaction has no room for; each is audited by itself."""
    places = [(config["entity_id"], config["resource"]) for config in configs]
    result = yield from bulk.delete_many(scope, places, cause)
    for error in result.failed.values():
        raise error


def _forget_buckets(scope: Scope, buckets: Sequence[Item]) -> None:
    """Have this process know that they are gone: it refuses by what it saw last."""
    for item in buckets:
        _, entity_id, resource, shard = keys.parse_bucket_pk(item["PK"])
        shadow = scope.shadows.get((entity_id, resource, shard))
        if shadow is not None:
            shadow.learn(None, scope.now(), own_writes=0)


def _key(item: Item) -> Key:
    return Key(item["PK"], item["SK"])
