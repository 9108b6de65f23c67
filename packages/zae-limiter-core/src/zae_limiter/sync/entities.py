"""The sync repository's methods for entities.

Lives here: a list of methods, each a flow and its checks. Never: a rule.
"""

from collections.abc import Mapping

from ..entities import Entity
from ..flows import entities
from ..flows.outward import checked_entity
from ..naming import check_identifier
from .running import SyncRunning


class SyncEntityMethods(SyncRunning):
    """Entities and their parents. Every change is audited; ``principal`` says whose it is."""

    def create_entity(
        self,
        entity_id: str,
        name: str | None = None,
        parent_id: str | None = None,
        cascade: bool = False,  # noqa: FBT001 - the public signature
        metadata: Mapping[str, str] | None = None,
        *,
        principal: str | None = None,
    ) -> Entity:
        """A new entity; with ``cascade`` its acquires also consume from the parent.

        Raises ``EntityExistsError``, ``EntityNotFoundError`` for an unknown parent, ``ValidationError``.
        """
        new = checked_entity(entity_id, name, parent_id, cascade=cascade, metadata=metadata)
        return self._run(entities.create_entity(self.scope, new, self._cause(principal)))

    def get_entity(self, entity_id: str) -> Entity | None:
        """The entity, ``None`` where there is none."""
        return self._run(entities.get_entity(self.scope, check_identifier("entity_id", entity_id)))

    def get_children(self, parent_id: str) -> list[Entity]:
        """The entities whose parent this is, by id."""
        return self._run(entities.get_children(self.scope, check_identifier("parent_id", parent_id)))
