"""Who asks for an apply, and under which conditions.

Lives here: that, as one value, and what audit events say of it. Never: what is to be applied.
"""

import os
from dataclasses import dataclass
from typing import Final, Self

from zae_limiter import HandledEvent, ProvisionerState
from zae_limiter_manifest import CLI, Plan, Request

from .refusals import Refused

ROLE: Final = "provisioner"
LONGEST_PRINCIPAL: Final = 256


@dataclass(frozen=True, slots=True)
class Asking:
    """Who applies; ``principal`` and ``source`` are what they claim to be.

    ``event_id`` is that of an event which may come twice, ``lock_timeout`` is in seconds.
    """

    owner: str = CLI
    take_over: bool = False
    expected_serial: int | None = None
    expected_plan: str | None = None
    principal: str | None = None
    source: str | None = None
    lock_timeout: int = 0
    event_id: str | None = None

    @classmethod
    def of(cls, request: Request) -> Self:
        """The command line's."""
        return cls(
            take_over=request.take_over,
            expected_serial=request.expected_serial,
            expected_plan=request.expected_plan,
            principal=request.principal,
            source=request.source,
            lock_timeout=request.lock_timeout,
        )

    def audited_as(self) -> str:
        """The principal of the audit events: the function that writes, and behind it what is merely claimed."""
        role = os.environ.get("AWS_LAMBDA_FUNCTION_NAME", ROLE)
        claims = ", ".join(filter(None, (self.principal, self.source)))
        return f"{role} (claimed: {claims})"[:LONGEST_PRINCIPAL] if claims else role

    def check(self, plan: Plan) -> None:
        """Raises ``Refused`` where this is not the plan that was shown."""
        if self.expected_serial is not None and plan.serial != self.expected_serial:
            message = f"somebody has applied since: the serial is {plan.serial}, not {self.expected_serial}; plan again"
            raise Refused("stale", message)
        if self.expected_plan is not None and plan.changes_hash() != self.expected_plan:
            message = "limits have changed since, and what would be done is not what was planned: plan again"
            raise Refused("different_plan", message)

    def handled_in(self, state: ProvisionerState) -> HandledEvent | None:
        """What became of the event, where it was dealt with before."""
        return next((each for each in state.handled if each.event_id == self.event_id), None)

    def handled_with(self, state: ProvisionerState, *, ok: bool) -> tuple[HandledEvent, ...]:
        """The events to remember from now on."""
        ours = () if self.event_id is None else (HandledEvent(self.event_id, ok),)
        return (*state.handled, *ours)
