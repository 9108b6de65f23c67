# `just variants` writes the blocking variant of this module.
"""The async repository's methods for audit events."""

from ..flows.records import audit
from ..values.audit import AuditPage
from .flow_runner import FlowRunner


class AuditMethods(FlowRunner):
    """The audit events of the namespace."""

    async def get_audit_events(
        self, entity_id: str = "$SYSTEM", *, limit: int = 100, start: str | None = None
    ) -> AuditPage:
        """Return up to ``limit`` (1 to 1000) changes, newest first: of an entity, of ``$SYSTEM``, or of
        ``$RESOURCE:gpt-4``.

        ``start`` is the ``next`` of the page before. Raises ``ValidationError``.
        """
        return await self._run(audit.get_events(self.namespace_state, entity_id, limit=limit, start=start))
