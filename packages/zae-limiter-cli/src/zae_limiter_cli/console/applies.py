"""The applies of a namespace, and the plan of a rollback to one, as the planner has them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import CommandError
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
        """Return the applies, the last one first; none of a namespace that no manifest manages, or out of reach."""
        from botocore.exceptions import BotoCoreError, ClientError

        from zae_limiter_manifest import Request

        try:
            return self._ask(Request("history", self.namespace)).history or ()
        except (CommandError, BotoCoreError, ClientError):
            return ()  # who may read the table may not ask the planner: the changes above are what there is

    def plan_back(self, serial: int) -> Rollback:
        """Return the plan of a rollback. Raises ``CommandError``, and errors of botocore."""
        from zae_limiter_manifest import Request, plans_hash
        from zae_limiter_manifest.render.as_text import render_plan

        kept = self._ask(Request("show", self.namespace, serial=serial))
        if not kept.history or kept.manifest is None:
            raise CommandError(f"{self.namespace}: the answer contains no apply")
        plan = self._ask(Request.of("plan", kept.manifest)).plan
        if plan is None:
            raise CommandError(f"{self.namespace}: the answer contains no plan")
        return Rollback(kept.history[0], render_plan(plan), plans_hash([plan]), len(plan.changes), plan.deleted)

    def _ask(self, request: "Request") -> "Answer":
        from ..limits.showing import refuse

        answer = Planner(self.connection).ask(request)
        refuse(request.namespace, answer)
        return answer
