# Generated from aio/entities.py by `just variants`: edit that one.
"""The sync repository's methods for entities."""

from collections.abc import Mapping, Sequence

from ..flows import records
from ..values.entities import UNCHANGED, Entity, EntityPage, Json, Unchanged
from .flow_runner import SyncFlowRunner


class SyncEntityMethods(SyncFlowRunner):
    """Entities and their parents. Every change is audited; ``principal`` is its author."""

    def create_entity(
        self,
        entity_id: str,
        name: str | None = None,
        parent_id: str | None = None,
        *,
        cascade: bool = False,
        metadata: Mapping[str, Json] | None = None,
        parent_ids: Sequence[str] | None = None,
        tier: str | None = None,
        exist_ok: bool = False,
        principal: str | None = None,
    ) -> Entity:
        """Create an entity. With ``cascade`` its acquires also consume from its parents, and from the parents of each
        parent that cascades.

        ``parent_ids`` gives up to 4 parents, ``parent_id`` one; an entity has at most 7 ancestors.

        Without limits of its own, the entity has those of its ``tier``, which must have some.

        With ``exist_ok``, an existing entity is returned unchanged.

        Raises ``EntityExistsError``, ``EntityNotFoundError`` for an unknown parent, ``ValidationError``.
        """
        return self._run(
            records.entities.create_entity(
                self.namespace_state,
                entity_id,
                self._cause(principal),
                name=name,
                parent_id=parent_id,
                parent_ids=parent_ids,
                cascade=cascade,
                metadata=metadata,
                tier=tier,
                exist_ok=exist_ok,
            )
        )

    def get_entity(self, entity_id: str) -> Entity | None:
        """Return the entity; ``None`` if it does not exist."""
        return self._run(records.entities.get_entity(self.namespace_state, entity_id))

    def get_children(self, parent_id: str) -> list[Entity]:
        """Return the children of an entity, by id: all that have it among their parents."""
        return self._run(records.entities.get_children(self.namespace_state, parent_id))

    def delete_entity(self, entity_id: str, *, principal: str | None = None) -> None:
        """Remove an entity's record, its own limits on all resources, and its buckets; usage and audit events stay.

        An interrupted delete goes on with the next call. It also removes limits and buckets of an id that was never
        created. Raises ``EntityNotFoundError`` if there is nothing to delete, and ``EntityHasChildrenError`` for a
        parent: then nothing was removed.
        """
        self._run(records.entities.delete_entity(self.namespace_state, entity_id, self._cause(principal)))


class SyncDirectoryMethods(SyncEntityMethods):
    """What the repository alone has: changes of entities, and lists of them."""

    def list_entities(
        self,
        *,
        begins_with: str = "",
        limit: int = 100,
        next: str | None = None,  # noqa: A002 - what the page before calls it
    ) -> EntityPage:
        """Return up to ``limit`` (at most 1000) entities that have a record, limits of their own, or a bucket, in the
        order of their keys; ``begins_with`` is a prefix of their ids.

        ``next`` is that of the page before. A change of the last second may be missing. Raises ``ValidationError``.
        """
        return self._run(
            records.listing.list_entities(self.namespace_state, limit=limit, behind=next, begins_with=begins_with)
        )

    def get_ancestors(self, entity_id: str) -> list[Entity]:
        """Return all ancestors of an entity, nearest first, each once, whether or not it cascades.

        One read for each level. Raises ``EntityNotFoundError`` for the entity.
        """
        return self._run(records.entities.get_ancestors(self.namespace_state, entity_id))

    def update_entity(
        self,
        entity_id: str,
        *,
        name: str | Unchanged | None = UNCHANGED,
        parent_id: str | Unchanged | None = UNCHANGED,
        parent_ids: Sequence[str] | Unchanged | None = UNCHANGED,
        cascade: bool | Unchanged = UNCHANGED,
        metadata: Mapping[str, Json] | Unchanged | None = UNCHANGED,
        tier: str | Unchanged | None = UNCHANGED,
        expected_version: int | None = None,
        principal: str | None = None,
    ) -> Entity:
        """Change the given fields, and return the entity; ``None`` clears a field. ``metadata`` is replaced as a whole.

        With ``expected_version``, the ``version`` that you have read, the change is made to that version only.
        ``parent_ids`` moves the entity under all of these, ``parent_id`` under one; its descendants move along. This
        process applies the change at once, others once their cached config expires. Another ``tier``, which must have
        limits, applies everywhere from the next request on: the live buckets of the entity are invalidated.

        Raises ``StaleEntityError`` for another version, ``EntityNotFoundError`` for the entity and for an unknown
        parent, ``ValidationError`` if an entity would be its own ancestor, or have more than 7 ancestors.
        """
        fields = {
            "name": name,
            "parent_id": parent_id,
            "parent_ids": parent_ids,
            "cascade": cascade,
            "metadata": metadata,
            "tier": tier,
        }
        return self._run(
            records.entities.update_entity(
                self.namespace_state, entity_id, fields, self._cause(principal), expected_version=expected_version
            )
        )
