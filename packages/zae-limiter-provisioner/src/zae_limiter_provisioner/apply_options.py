"""The options of an apply: its owner, its author, its conditions, and their form in audit events."""

import os
from dataclasses import dataclass
from typing import Final, Self

from zae_limiter.maintenance import HandledEvent, ProvisionerState
from zae_limiter_manifest import CLI, Address, Plan, Request

from .refusals import Refused

ROLE: Final = "provisioner"
LONGEST_PRINCIPAL: Final = 256


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """The options of one apply; ``principal`` and ``source`` are unverified claims.

    ``alias`` is the one by which the function was invoked, as Lambda tells.
    ``event_id`` identifies an event that may arrive twice. ``lock_timeout`` is in seconds.
    ``targets`` are patterns of the addresses to change; the others stay as they are. ``share`` is the region's share of
    each limit, ``None`` for that of the last apply.
    """

    owner: str = CLI
    take_over: bool = False
    expected_serial: int | None = None
    expected_plan: str | None = None
    principal: str | None = None
    source: str | None = None
    alias: str | None = None
    lock_timeout: int = 0
    event_id: str | None = None
    targets: tuple[str, ...] = ()
    changes_per_second: int | None = None
    share: str | None = None

    @classmethod
    def of(cls, request: Request, alias: str | None = None) -> Self:
        """Return the options of a request from the command line."""
        return cls(
            take_over=request.take_over,
            expected_serial=request.expected_serial,
            expected_plan=request.expected_plan,
            principal=request.principal,
            source=request.source,
            alias=alias,
            lock_timeout=request.lock_timeout,
            targets=request.targets,
            changes_per_second=request.changes_per_second,
            share=request.share,
        )

    def reaches(self, address: Address) -> bool:
        """Return whether the apply may change this address."""
        return not self.targets or any(map(address.fits, self.targets))

    def audited_as(self) -> str:
        """Return the principal of the audit events: the writing function with the alias that was invoked, then the
        claims.
        """
        role = ":".join(filter(None, (os.environ.get("AWS_LAMBDA_FUNCTION_NAME", ROLE), self.alias)))
        claims = ", ".join(filter(None, (self.principal, self.source)))
        return f"{role} (claimed: {claims})"[:LONGEST_PRINCIPAL] if claims else role

    def kept_as(self) -> str | None:
        """Return the principal of the history: the claim, and the alias that was invoked."""
        by = f"by alias {self.alias}" if self.alias else None
        return f"{self.principal} ({by})"[:LONGEST_PRINCIPAL] if self.principal and by else self.principal or by

    def check(self, plan: Plan) -> None:
        """Raise ``Refused`` if this is not the plan that was shown."""
        if self.expected_serial is not None and plan.serial != self.expected_serial:
            message = f"somebody has applied since: the serial is {plan.serial}, not {self.expected_serial}; plan again"
            raise Refused("stale", message)
        if self.expected_plan is not None and plan.changes_hash() != self.expected_plan:
            message = "limits have changed since, so the apply would differ from the plan: plan again"
            raise Refused("different_plan", message)

    def handled_in(self, state: ProvisionerState) -> HandledEvent | None:
        """Return the record of the event, if it was handled before."""
        return next((each for each in state.handled if each.event_id == self.event_id), None)

    def handled_with(self, state: ProvisionerState, *, ok: bool) -> tuple[HandledEvent, ...]:
        """Return the handled events, with this one."""
        ours = () if self.event_id is None else (HandledEvent(self.event_id, ok),)
        return (*state.handled, *ours)
