# Generated from aio/limits.py by `just variants`: edit that one.
"""The sync repository's methods for what is stored on levels: limits, tiers, switches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ..flows import acquire, records
from ..flows.validation import OwnPlace, check_no_policy
from ..schema.configs import Row
from ..values.entities import UNCHANGED, Unchanged
from ..values.limits import Limit, Policy
from .flow_runner import SyncFlowRunner

if TYPE_CHECKING:
    from ..values.bulk import BulkResult
    from ..values.on_refused import OnRefused
    from ..values.overrides import Override
    from ..values.resolution import LevelLimits, ResolvedLimits, SystemDefaults
    from ..values.switches import Cascading, ResolvedSwitches, Switches


class SyncLimitMethods(SyncFlowRunner):
    """Limits of the system, of resources and of entities. Every change is audited; ``principal`` is its author. Each
    method raises ``ValidationError``.
    """

    def set_system_defaults(
        self,
        limits: Sequence[Limit | str] | None,
        on_unavailable: Policy | None = None,
        *,
        on_refused: OnRefused | None = None,
        principal: str | None = None,
    ) -> None:
        """Replace the limits of the system level; without ``on_unavailable`` the stored policy stays, and so does
        ``on_refused``.

        With either of them, ``limits`` may be empty or ``None``: the stored ones stay. Raises ``ValidationError``.
        """
        state, cause = self.namespace_state, self._cause(principal)
        wanted = records.levels.set_limits(
            state, records.levels.SYSTEM, limits, cause, on_unavailable=on_unavailable, on_refused=on_refused
        )
        self._run(wanted)

    def get_system_defaults(self) -> SystemDefaults:
        """Return the system's limits, and its policy for an unavailable store."""
        return self._run(records.levels.get(self.namespace_state, records.levels.SYSTEM, Row.limits_and_policy))

    def delete_system_defaults(self, *, principal: str | None = None) -> None:
        """Remove the system's limits and its policy."""
        self._run(records.levels.delete_limits(self.namespace_state, records.levels.SYSTEM, self._cause(principal)))

    def set_resource_defaults(
        self,
        resource: str,
        limits: Sequence[Limit | str],
        *,
        extends: bool = False,
        on_refused: OnRefused | None = None,
        principal: str | None = None,
    ) -> None:
        """Replace the limits of a resource; without ``on_refused`` the stored one stays.

        ``UNLIMITED`` in place of limits says that it has none. With ``extends`` they add to the system's.
        """
        state, cause = self.namespace_state, self._cause(principal)
        level = records.levels.of_resource(resource)
        self._run(records.levels.set_limits(state, level, limits, cause, on_refused=on_refused, extends=extends))

    def get_resource_defaults(self, resource: str) -> LevelLimits:
        """Return the limits of a resource; empty if none are set."""
        return self._run(records.levels.get(self.namespace_state, records.levels.of_resource(resource), Row.limits))

    def delete_resource_defaults(self, resource: str, *, principal: str | None = None) -> None:
        """Remove the limits of a resource."""
        cause = self._cause(principal)
        self._run(records.levels.delete_limits(self.namespace_state, records.levels.of_resource(resource), cause))

    def set_limits(
        self,
        entity_id: str,
        limits: Sequence[Limit | str],
        resource: str = "_default_",
        *,
        extends: bool = False,
        override_until: datetime | None = None,
        on_refused: OnRefused | None = None,
        principal: str | None = None,
    ) -> int:
        """Replace an entity's own limits on a resource, or on all resources (``_default_``).

        With ``override_until``, a ``datetime`` with a time zone and at most 366 days from now, they are an override:
        they hold until then, and the entity's own, which stay stored, from then on. Without it, an override stays.
        Without ``on_refused``, which no override has, the one stored beside the limits stays.

        ``UNLIMITED`` in place of limits says that the entity has none, whatever the levels below have. With ``extends``
        the limits add to those of the next level, and override those of the same name; an override with ``extends``
        adds to what would hold without it.

        Invalidates the live buckets, and returns their number: every process applies the new limits from its next
        request on. Raises an ``InfrastructureError`` if one was not invalidated; the same call may then be repeated.
        """
        state, cause = self.namespace_state, self._cause(principal)
        if override_until is None:
            level = records.levels.of_entity(entity_id, resource)
            return self._run(
                records.levels.set_limits(state, level, limits, cause, on_refused=on_refused, extends=extends)
            )
        check_no_policy(on_refused)
        level = records.levels.of_entity(entity_id, resource)
        return self._run(records.levels.set_override(state, level, limits, override_until, cause, extends=extends))

    def get_limits(self, entity_id: str, resource: str = "_default_") -> LevelLimits:
        """Return an entity's own limits on a resource, or on all (``_default_``), override or not: a list that knows
        whether it is ``unlimited`` or ``extends`` the next level; empty if none are set.
        """
        return self._run(
            records.levels.get(self.namespace_state, records.levels.of_entity(entity_id, resource), Row.limits)
        )

    def delete_limits(self, entity_id: str, resource: str = "_default_", *, principal: str | None = None) -> int:
        """Remove an entity's own limits on a resource, or on all (``_default_``); an override in force stays.

        Invalidates the live buckets, and returns their number, like ``set_limits``.
        """
        cause = self._cause(principal)
        return self._run(
            records.levels.delete_limits(self.namespace_state, records.levels.of_entity(entity_id, resource), cause)
        )


class SyncLevelMethods(SyncLimitMethods):
    """What the repository alone has: overrides, many limits at once, lists of limits, tiers and switches.

    A tier is a set of limits that all entities have whose record names it, where they have none of their own.
    ``create_entity`` and ``update_entity`` give an entity its tier.

    Of the switches, ``disabled=True`` refuses every acquire (``AccessDisabled``), ``bypass=True`` admits and counts
    every acquire, ``cascade="on"`` or ``"off"`` says whether acquires draw on the buckets of parents, whatever the
    entity's own ``cascade`` is. Each switch holds by the first level that sets it: the entity on the resource, the
    entity on all, the resource, the system. ``None`` leaves it to the next level; a switch that is not named stays.
    ``reason`` says why, and replaces the one before.
    """

    def list_resources_with_defaults(self) -> list[str]:
        """Return the resources that have limits, by name; a very recent change may be missing."""
        return self._run(records.listing.resources_with_defaults(self.namespace_state))

    def get_override(self, entity_id: str, resource: str = "_default_") -> Override | None:
        """Return the override in force of an entity on a resource, or on all (``_default_``); ``None`` without one."""
        return self._run(
            records.levels.get(self.namespace_state, records.levels.of_entity(entity_id, resource), Row.override)
        )

    def delete_override(self, entity_id: str, resource: str = "_default_", *, principal: str | None = None) -> int:
        """End an override at once, if one is in force; the entity's own limits hold again.

        Invalidates the live buckets, and returns their number, like ``set_limits``.
        """
        cause = self._cause(principal)
        return self._run(
            records.levels.delete_override(self.namespace_state, records.levels.of_entity(entity_id, resource), cause)
        )

    def list_entities_with_custom_limits(
        self,
        resource: str,
        *,
        limit: int | None = None,
        next: str | None = None,  # noqa: A002 - as `list_entities` names it
        begins_with: str = "",
    ) -> list[str]:
        """Return the entities that have limits of their own on a resource, or with ``_default_`` on all, by id.

        Without ``limit`` it returns them all. With it (1 to 1000) it returns up to so many, in the order of
        ``list_entities``: those behind the id ``next``, of those whose id ``begins_with`` a text. The last id of a page
        is the ``next`` of the following one, and a page that is not full is the last. A very recent change may be
        missing. Raises ``ValidationError``.
        """
        if limit is None:
            records.listing.check_no_page(next, begins_with)
            return self._run(records.listing.entities_with_limits(self.namespace_state, resource))
        return self._run(
            records.listing.page_of_entities_with_limits(
                self.namespace_state, resource, limit=limit, behind=next, begins_with=begins_with
            )
        )

    def list_resources_with_entity_configs(self) -> list[str]:
        """Return the resources on which any entity has limits of its own, by name, including ``_default_``.

        Sends one query for up to a thousand such limits, else about one for each resource. A very recent change may be
        missing.
        """
        return self._run(records.listing.resources_with_entity_limits(self.namespace_state))

    def set_many_limits(
        self,
        changes: Mapping[OwnPlace, Sequence[Limit | str]],
        *,
        extends: bool = False,
        principal: str | None = None,
    ) -> BulkResult[OwnPlace]:
        """Replace the own limits of many entities: ``{(entity_id, resource): limits}``; return which failed.

        Transactions of up to 25 places each, eight at a time; live buckets are invalidated, as by ``set_limits``.
        Raises ``ValidationError`` before any request.
        """
        return self._run(
            records.many_levels.set_many(self.namespace_state, changes, self._cause(principal), extends=extends)
        )

    def delete_many_limits(self, places: Iterable[OwnPlace], *, principal: str | None = None) -> BulkResult[OwnPlace]:
        """Remove the own limits of many entities, named as ``(entity_id, resource)``; return which failed.

        A place without limits counts as done. Raises ``ValidationError`` before any request.
        """
        return self._run(records.many_levels.delete_many(self.namespace_state, places, self._cause(principal)))

    def resolve_limits(self, entity_id: str, resource: str) -> ResolvedLimits:
        """Return the effective limits of an entity on a resource, the policy without the store, and the levels that
        they are of.
        """
        return self._run(acquire.inspection.resolve_limits(self.namespace_state, entity_id, resource))

    # tiers

    def set_tier_limits(
        self,
        tier: str,
        limits: Sequence[Limit | str],
        resource: str = "_default_",
        *,
        extends: bool = False,
        on_refused: OnRefused | None = None,
        principal: str | None = None,
    ) -> None:
        """Replace the limits of a tier on a resource, or on all resources (``_default_``); make the tier if it is new.

        One write, however many entities have the tier. Every process applies it once its cached config expires.
        Without ``on_refused`` the one stored beside the limits stays. ``UNLIMITED`` and ``extends`` as for
        ``set_limits``.
        """
        state, cause = self.namespace_state, self._cause(principal)
        level = records.levels.of_tier(tier, resource)
        self._run(records.levels.set_limits(state, level, limits, cause, on_refused=on_refused, extends=extends))

    def get_tier_limits(self, tier: str, resource: str = "_default_") -> LevelLimits:
        """Return the limits of a tier on a resource, or on all (``_default_``); empty if none are set."""
        return self._run(records.levels.get(self.namespace_state, records.levels.of_tier(tier, resource), Row.limits))

    def delete_tier_limits(self, tier: str, resource: str = "_default_", *, principal: str | None = None) -> None:
        """Remove the limits of a tier on a resource, or on all (``_default_``).

        Raises ``ValidationError`` with their number if entities have the tier, and it has no other limits.
        """
        cause = self._cause(principal)
        self._run(records.levels.delete_tier(self.namespace_state, tier, resource, cause))

    def list_tiers(self) -> dict[str, list[str]]:
        """Return the resources on which each tier has limits, ``_default_`` for all, by the tier's name.

        A very recent change may be missing.
        """
        return self._run(records.levels.list_tiers(self.namespace_state))

    def list_entities_of_tier(self, tier: str) -> list[str]:
        """Return the entities that have a tier, by id; a very recent change may be missing."""
        return self._run(records.levels.entities_of_tier(self.namespace_state, tier))

    # switches

    def set_system_switches(
        self,
        *,
        disabled: bool | Unchanged | None = UNCHANGED,
        bypass: bool | Unchanged | None = UNCHANGED,
        cascade: Cascading | Unchanged | None = UNCHANGED,
        reason: str | None = None,
        principal: str | None = None,
    ) -> None:
        """Change switches of the system level. Other processes apply it once their cached config expires, or at once
        after ``SyncMaintenance(repository).invalidate_live_buckets(for_switches=True)``.
        """
        fields = {"disabled": disabled, "bypass": bypass, "cascade": cascade}
        cause = self._cause(principal)
        self._run(records.levels.set_switches(self.namespace_state, records.levels.SYSTEM, fields, reason, cause))

    def set_resource_switches(
        self,
        resource: str,
        *,
        disabled: bool | Unchanged | None = UNCHANGED,
        bypass: bool | Unchanged | None = UNCHANGED,
        cascade: Cascading | Unchanged | None = UNCHANGED,
        reason: str | None = None,
        principal: str | None = None,
    ) -> None:
        """Change switches of a resource. Other processes apply it once their cached config expires, or at once after
        ``SyncMaintenance(repository).invalidate_live_buckets(resource, for_switches=True)``.
        """
        fields = {"disabled": disabled, "bypass": bypass, "cascade": cascade}
        cause = self._cause(principal)
        self._run(
            records.levels.set_switches(
                self.namespace_state, records.levels.of_resource(resource), fields, reason, cause
            )
        )

    def set_switches(
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

        Invalidates the live buckets, and returns their number: every process applies it from its next request on.
        Raises an ``InfrastructureError`` if one was not invalidated; the same call may then be repeated.
        """
        fields = {"disabled": disabled, "bypass": bypass, "cascade": cascade}
        cause = self._cause(principal)
        level = records.levels.of_entity(entity_id, resource)
        return self._run(records.levels.set_switches(self.namespace_state, level, fields, reason, cause))

    def get_switches(self, entity_id: str | None = None, resource: str | None = None) -> Switches:
        """Return the switches of one level: of an entity on a resource or on all, of a resource, or of the system."""
        return self._run(
            records.levels.get(self.namespace_state, records.levels.of_either(entity_id, resource), Row.switches)
        )

    def resolve_switches(self, entity_id: str, resource: str) -> ResolvedSwitches:
        """Return the switches that hold for an entity on a resource, each with the level that sets it."""
        return self._run(acquire.inspection.resolve_switches(self.namespace_state, entity_id, resource))
