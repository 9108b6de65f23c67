"""The applies of a namespace, and the plan of a rollback to one, as the planner has them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import CommandError, message_of
from ..limits.kept import whole_of
from ..limits.provisioner import Planner

if TYPE_CHECKING:
    from zae_limiter_manifest import Answer, ApplyEntry, Request

    from ..connection import Connection


@dataclass(frozen=True, slots=True)
class Rollback:
    """What a rollback to ``entry`` would change, as text, and the hash that binds the rollback to it."""

    entry: "ApplyEntry"
    text: str
    hash: str
    changes: int
    deleted: int


@dataclass(frozen=True, slots=True)
class Applies:
    """Asks the planner of a stack or of a file about one namespace."""

    connection: "Connection"
    namespace: str

    def list_last(self) -> "tuple[ApplyEntry, ...]":
        """Return the applies, the last one first. Raises ``CommandError`` if the planner does not answer."""
        from zae_limiter_manifest import Request

        return self._ask(Request("history", self.namespace)).history or ()

    def plan_back(self, serial: int) -> Rollback:
        """Return the plan of a rollback. Raises ``CommandError``, also for an apply that was for its targets alone."""
        from zae_limiter_manifest import Request, plans_hash
        from zae_limiter_manifest.consequences import consequences_of
        from zae_limiter_manifest.render.as_text import render_plan
        from zae_limiter_manifest.render.views import View

        entry, manifest = whole_of(self.namespace, self._ask(Request("show", self.namespace, serial=serial)))
        plan = self._ask(Request.of("plan", manifest)).plan
        if plan is None:
            raise CommandError(f"{self.namespace}: the answer contains no plan")
        notes = {self.namespace: consequences_of(manifest, plan).lines}
        return Rollback(
            entry, render_plan(plan, view=View(notes=notes)), plans_hash([plan]), len(plan.changes), plan.deleted
        )

    def _ask(self, request: "Request") -> "Answer":
        from botocore.exceptions import BotoCoreError, ClientError

        from zae_limiter.maintenance import without_passwords

        from ..limits.showing import refuse

        try:
            answer = Planner(self.connection).ask(request)
        except (BotoCoreError, ClientError) as error:
            raise CommandError(without_passwords(message_of(error) or str(error))) from error
        refuse(request.namespace, answer)
        return answer
