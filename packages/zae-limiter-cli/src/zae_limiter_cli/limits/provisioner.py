"""The provisioner and the planner of a stack, as the commands ask them.

Never: a decision of what to ask.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from attrs import evolve

from zae_limiter_manifest import Answer, Plan, Request

from ..connection import Connection
from .function import Function, OutOfReach


def silent(_: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Provisioner:
    """The function that writes limits; ``report`` hears how far a long apply is."""

    connection: Connection
    report: Callable[[str], None] = field(default=silent)

    def ask(self, request: Request) -> Answer:
        """The answer. Raises ``CommandError`` where there is none, and errors of botocore."""
        return self._function.ask(request)

    def apply(self, request: Request) -> Iterator[Answer]:
        """All that was done so far, after each invocation, until nothing is left or nothing more can be done."""
        total = answer = self.ask(request)
        yield total
        while answer.remaining and answer.plan and answer.plan.changes:
            self.report(f"{request.namespace}: {answer.remaining} changes left, continuing")
            answer = self.ask(evolve(request, expected_serial=answer.plan.serial, expected_plan=None))
            total = _together(total, answer)
            yield total

    @cached_property
    def _function(self) -> Function:
        return Function(self.connection, "provisioner")


@dataclass(frozen=True)
class Planner:
    """The function that only reads.

    Where there is none, or the caller may not invoke it, the provisioner answers: it does so in stacks of releases
    without a planner, and for principals whose policy is of such a release. ``report`` hears of it.
    """

    connection: Connection
    report: Callable[[str], None] = field(default=silent)

    def ask(self, request: Request) -> Answer:
        """The answer. Raises ``CommandError`` where there is none, and errors of botocore."""
        try:
            return self._function.ask(request)
        except OutOfReach as error:
            try:
                answer = self._instead.ask(request)
            except OutOfReach:
                raise error from None
            self.report(f"{request.namespace}: the provisioner answered, because {error.reason}")
            return answer

    @cached_property
    def _function(self) -> Function:
        return Function(self.connection, "planner")

    @cached_property
    def _instead(self) -> Provisioner:
        return Provisioner(self.connection)


def _together(before: Answer, after: Answer) -> Answer:
    """Two answers to parts of one apply: all that was made; of the errors the last word on each address."""
    if before.plan is None or after.plan is None:
        return evolve(before, status="partial", errors=(*before.errors, *after.errors))
    plan: Plan = evolve(after.plan, changes=(*before.plan.changes, *after.plan.changes))
    made = {change.address for change in after.plan.changes}
    failed_again = {failure.address for failure in after.errors}
    old = [each for each in before.errors if each.address not in made and each.address not in failed_again]
    return Answer.applied(plan, errors=(*old, *after.errors), remaining=after.remaining)
