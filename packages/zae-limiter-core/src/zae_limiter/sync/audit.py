# Generated from aio/audit.py by `just variants`: edit that one.
"""The sync repository's methods for audit events."""

from ..flows.records import audit
from ..values.audit import AuditPage
from .flow_runner import SyncFlowRunner


class SyncAuditMethods(SyncFlowRunner):
    """The audit events of the namespace."""

    def get_audit_events(self, entity_id: str = "$SYSTEM", *, limit: int = 100, start: str | None = None) -> AuditPage:
        """Return up to ``limit`` (1 to 1000) changes, newest first: of an entity, of ``$SYSTEM``, or of
        ``$RESOURCE:gpt-4``.

        ``start`` is the ``next`` of the page before. Raises ``ValidationError``.
        """
        return self._run(audit.get_events(self.namespace_state, entity_id, limit=limit, start=start))
