# `just variants` writes the blocking variant of this module.
"""The async repository's methods for switches."""

from ..flows.acquire import inspection
from ..flows.records import levels as stored
from ..flows.records.levels import SYSTEM, of_either, of_entity, of_resource
from ..schema.configs import Row
from ..values.entities import UNCHANGED, Unchanged
from ..values.switches import Cascading, ResolvedSwitches, Switches
from .flow_runner import FlowRunner


class SwitchMethods(FlowRunner):
    """Switches of the system, of resources and of entities. Every change is audited; ``principal`` is its author.

    ``disabled=True`` refuses every acquire (``AccessDisabled``), ``bypass=True`` admits and counts every acquire,
    ``cascade="on"`` or ``"off"`` says whether acquires draw on the buckets of parents, whatever the entity's own
    ``cascade`` is. Each switch holds by the first level that sets it: the entity on the resource, the entity on all,
    the resource, the system. ``None`` leaves it to the next level; a switch that is not named stays. ``reason`` says
    why, and replaces the one before. Each method raises ``ValidationError``.
    """

    async def set_system_switches(
        self,
        *,
        disabled: bool | Unchanged | None = UNCHANGED,
        bypass: bool | Unchanged | None = UNCHANGED,
        cascade: Cascading | Unchanged | None = UNCHANGED,
        reason: str | None = None,
        principal: str | None = None,
    ) -> None:
        """Change switches of the system level. Other processes learn of it within the life of their caches, or at once
        by ``tell_live_buckets(for_switches=True)``.
        """
        fields = {"disabled": disabled, "bypass": bypass, "cascade": cascade}
        cause = await self._cause(principal)
        await self._run(stored.set_switches(self.namespace_state, SYSTEM, fields, reason, cause))

    async def set_resource_switches(
        self,
        resource: str,
        *,
        disabled: bool | Unchanged | None = UNCHANGED,
        bypass: bool | Unchanged | None = UNCHANGED,
        cascade: Cascading | Unchanged | None = UNCHANGED,
        reason: str | None = None,
        principal: str | None = None,
    ) -> None:
        """Change switches of a resource. Other processes learn of it within the life of their caches, or at once by
        ``tell_live_buckets(resource, for_switches=True)``.
        """
        fields = {"disabled": disabled, "bypass": bypass, "cascade": cascade}
        cause = await self._cause(principal)
        await self._run(stored.set_switches(self.namespace_state, of_resource(resource), fields, reason, cause))

    async def set_switches(
        self,
        entity_id: str,
        resource: str = "_default_",
        *,
        disabled: bool | Unchanged | None = UNCHANGED,
        bypass: bool | Unchanged | None = UNCHANGED,
        cascade: Cascading | Unchanged | None = UNCHANGED,
        reason: str | None = None,
        principal: str | None = None,
    ) -> int:
        """Change switches of an entity on a resource, or on all (``_default_``).

        Tells the live buckets of the change, and returns their number: from the next request on, every process obeys
        it. Raises an ``InfrastructureError`` if one was not told; the same call may then be made again.
        """
        fields = {"disabled": disabled, "bypass": bypass, "cascade": cascade}
        cause = await self._cause(principal)
        level = of_entity(entity_id, resource)
        return await self._run(stored.set_switches(self.namespace_state, level, fields, reason, cause))

    async def get_switches(self, entity_id: str | None = None, resource: str | None = None) -> Switches:
        """Return the switches of one level: of an entity on a resource or on all, of a resource, or of the system."""
        return await self._run(stored.get(self.namespace_state, of_either(entity_id, resource), Row.switches))

    async def resolve_switches(self, entity_id: str, resource: str) -> ResolvedSwitches:
        """Return the switches that hold for an entity on a resource, each with the level that sets it."""
        return await self._run(inspection.resolve_switches(self.namespace_state, entity_id, resource))
