# Generated from aio/usage.py by `just variants`: edit that one.
"""The sync repository's methods for usage."""

from datetime import datetime

from ..flows.records import usage
from ..values.usage import EntityUsage, UsagePage, UsageSummary, Window
from .flow_runner import SyncFlowRunner


class SyncUsageMethods(SyncFlowRunner):
    """Usage by the hour and by the day."""

    def get_usage_snapshots(
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
        asked = usage.validate_usage(entity_id, resource, window, start, end)
        return self._run(usage.get_snapshots(self.namespace_state, asked, limit=limit, behind=next))

    def get_usage_summary(
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
        asked = usage.validate_usage(entity_id, resource, window, start, end)
        return self._run(usage.get_summary(self.namespace_state, asked))

    def get_top_usage(
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
        asked = usage.validate_top(resource, by, window, start, end, limit)
        return self._run(usage.get_top(self.namespace_state, asked, by=by, limit=limit))
