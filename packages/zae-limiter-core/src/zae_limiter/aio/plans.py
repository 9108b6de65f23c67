# `just variants` writes the blocking variant of this module.
"""The async repository's methods for plans."""

from collections.abc import Sequence

from ..flows.records import levels
from ..flows.records import plans as stored
from ..flows.records.levels import of_plan
from ..schema.configs import Row
from ..values.limits import Limit
from ..values.on_refused import OnRefused
from .flow_runner import FlowRunner


class PlanMethods(FlowRunner):
    """Plans: limits that all entities have whose record names the plan, where they have none of their own.

    ``create_entity`` and ``update_entity`` give an entity its plan. Every change is audited; ``principal`` is its
    author. Each method raises ``ValidationError``.
    """

    async def set_plan_limits(
        self,
        plan: str,
        limits: Sequence[Limit | str],
        resource: str = "_default_",
        *,
        on_refused: OnRefused | None = None,
        principal: str | None = None,
    ) -> None:
        """Replace the limits of a plan on a resource, or on all resources (``_default_``); make the plan if it is new.

        One write, however many entities have the plan. Every process holds them to it within one life of its config
        cache. Without ``on_refused`` the one stored beside the limits stays.
        """
        state, cause = self.namespace_state, await self._cause(principal)
        await self._run(levels.set_limits(state, of_plan(plan, resource), limits, cause, on_refused=on_refused))

    async def get_plan_limits(self, plan: str, resource: str = "_default_") -> list[Limit]:
        """Return the limits of a plan on a resource, or on all (``_default_``); empty if none are set."""
        return await self._run(levels.get(self.namespace_state, of_plan(plan, resource), Row.limits))

    async def delete_plan_limits(self, plan: str, resource: str = "_default_", *, principal: str | None = None) -> None:
        """Remove the limits of a plan on a resource, or on all (``_default_``).

        Raises ``ValidationError`` with their number if entities have the plan, and it has no other limits.
        """
        cause = await self._cause(principal)
        await self._run(stored.delete_plan(self.namespace_state, plan, resource, cause))

    async def list_plans(self) -> dict[str, list[str]]:
        """Return the resources on which each plan has limits, ``_default_`` for all, by the plan's name.

        A very recent change may be missing.
        """
        return await self._run(stored.list_plans(self.namespace_state))

    async def list_entities_of_plan(self, plan: str) -> list[str]:
        """Return the entities that have a plan, by id; a very recent change may be missing."""
        return await self._run(stored.list_entities(self.namespace_state, plan))
