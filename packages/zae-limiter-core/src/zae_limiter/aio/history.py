# `just variants` writes the blocking variant of this module.
"""The async repository's methods for usage and audit events."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from ..flows import records
from .flow_runner import FlowRunner

if TYPE_CHECKING:
    from ..values.audit import AuditKind, AuditPage
    from ..values.usage import EntityUsage, UsagePage, UsageSummary, Window


class HistoryMethods(FlowRunner):
    """Usage by the hour and by the day, and the audit events of the namespace."""

    async def get_usage_snapshots(
        self,
        *,
        entity_id: str | None = None,
        resource: str | None = None,
        window: Window = "hourly",
        start: datetime | None = None,
        end: datetime | None = None,
        limit: int = 100,
        next: str | None = None,  # noqa: A002 - what the page before calls it
    ) -> UsagePage:
        """Return up to ``limit`` (at most 1000) snapshots of an entity, of a resource, of an entity on a resource, or
        with neither of the whole namespace.

        The windows begin at or after ``start`` and before ``end``; the oldest is first. For an entity on all resources,
        one resource follows the other. ``next`` is that of the page before. Raises ``ValidationError``.
        """
        asked = records.usage.validate_usage(entity_id, resource, window, start, end)
        return await self._run(records.usage.get_snapshots(self.namespace_state, asked, limit=limit, behind=next))

    async def get_usage_summary(
        self,
        *,
        entity_id: str | None = None,
        resource: str | None = None,
        window: Window = "hourly",
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> UsageSummary:
        """Return the snapshots of an entity, of a resource, of an entity on a resource, or with neither of the whole
        namespace, summed by limit. Of several entities, a call that cascaded counts once, at the entity that was asked.

        The windows begin at or after ``start`` and before ``end``. Raises ``ValidationError``.
        """
        asked = records.usage.validate_usage(entity_id, resource, window, start, end)
        return await self._run(records.usage.get_summary(self.namespace_state, asked))

    async def get_top_usage(
        self,
        resource: str | None = None,
        *,
        by: str = "total_refused",
        window: Window = "hourly",
        start: datetime | None = None,
        end: datetime | None = None,
        limit: int = 10,
    ) -> tuple[EntityUsage, ...]:
        """Return the ``limit`` (at most 1000) entities with the most of ``by`` on a resource, with their sums; most
        first. Without a resource, each entity on each resource of the namespace has its place.

        ``by`` is ``total_refused``, ``total_shadowed``, ``total_uncounted``, ``total_events``, or the name of a limit.
        The windows begin at or after ``start`` and before ``end``. Reads every snapshot of them. Raises
        ``ValidationError``.
        """
        asked = records.usage.validate_top(resource, by, window, start, end, limit)
        return await self._run(records.usage.get_top(self.namespace_state, asked, by=by, limit=limit))

    async def get_audit_events(
        self, entity_id: str = "$SYSTEM", *, limit: int = 100, start: str | None = None
    ) -> AuditPage:
        """Return up to ``limit`` (1 to 1000) changes, newest first: of an entity, of ``$SYSTEM``, or of
        ``$RESOURCE:gpt-4``.

        ``start`` is the ``next`` of the page before. Raises ``ValidationError``.
        """
        return await self._run(records.audit.get_events(self.namespace_state, entity_id, limit=limit, start=start))

    async def get_namespace_audit_events(
        self,
        since: datetime,
        *,
        principal: str | None = None,
        kind: AuditKind | None = None,
        limit: int = 100,
        start: str | None = None,
    ) -> AuditPage:
        """Return up to ``limit`` (1 to 1000) changes of the whole namespace, newest first, from ``since`` on.

        ``since`` is a ``datetime`` with a time zone. ``principal`` asks for the changes of one author, ``kind`` for
        those of ``limits``, an ``override``, an ``entity`` or a ``bucket``. ``start`` is the ``next`` of the page
        before. Reads the events of the page alone, or with ``principal`` or ``kind`` those among which they are. A
        change of the last moment may be missing. Raises ``ValidationError``.
        """
        asked = records.audit.validate_asked(since, principal, kind)
        return await self._run(
            records.audit.get_namespace_events(self.namespace_state, asked, limit=limit, start=start)
        )
