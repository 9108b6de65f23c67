# Generated from aio/audit.py by `just variants`: edit that one.
"""The sync repository's methods for audit events."""

from datetime import datetime

from ..flows.records import audit
from ..values.audit import AuditKind, AuditPage
from .flow_runner import SyncFlowRunner


class SyncAuditMethods(SyncFlowRunner):
    """The audit events of the namespace."""

    def get_audit_events(self, entity_id: str = "$SYSTEM", *, limit: int = 100, start: str | None = None) -> AuditPage:
        """Return up to ``limit`` (1 to 1000) changes, newest first: of an entity, of ``$SYSTEM``, or of
        ``$RESOURCE:gpt-4``.

        ``start`` is the ``next`` of the page before. Raises ``ValidationError``.
        """
        return self._run(audit.get_events(self.namespace_state, entity_id, limit=limit, start=start))

    def get_namespace_audit_events(
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
        asked = audit.validate_asked(since, principal, kind)
        return self._run(audit.get_namespace_events(self.namespace_state, asked, limit=limit, start=start))
