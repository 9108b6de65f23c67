"""The provisioner and the planner of a stack or a file, as commands ask them. The commands decide what to ask."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from attrs import evolve

from zae_limiter_manifest import Answer, Plan, Request

from ..columns import counted
from ..connection import Connection
from ..errors import CommandError
from ..progress import reporter, silent
from .asking import as_command_errors
from .function import Function, GoesOn, OutOfReach
from .in_process import InProcess
from .showing import refuse
from .watching import watched


@dataclass(frozen=True)
class Provisioner:
    """The function that writes limits, in a Lambda or in this process; ``report`` gets the progress of a long apply."""

    connection: Connection
    report: Callable[[str], None] = field(default=silent)

    def ask(self, request: Request) -> Answer:
        """Send a request and return the answer. Raises ``CommandError`` without an answer, and errors of botocore."""
        return self._function.ask(request)

    def apply(self, request: Request) -> Iterator[Answer]:
        """Yield all that was done so far, after each invocation, until nothing is left or nothing more can be done."""
        total = answer = self._apply(request)
        yield total
        while answer.remaining and answer.plan and answer.plan.changes and not _is_stopped(answer):
            self.report(f"{request.namespace}: {counted(answer.remaining, 'change')} left, continuing")
            answer = self._apply(evolve(request, expected_serial=answer.plan.serial, expected_plan=None))
            total = _together(total, answer)
            yield total

    def _apply(self, request: Request) -> Answer:
        """Apply, and show the progress meanwhile. If that is cut short, raise a ``CommandError`` that says who holds
        the lock until when, how to watch the apply, and how to stop it.
        """
        planner = Planner(self.connection)
        try:
            with watched(planner.ask, request.namespace) if self.report is not silent else nullcontext():
                return self._function.apply(request)
        except GoesOn as error:
            raise CommandError(*_goes_on(planner, request.namespace, str(error))) from error

    @cached_property
    def _function(self) -> Function | InProcess:
        return _function_of(self.connection, "provisioner")


@dataclass(frozen=True)
class Planner:
    """The function that only reads.

    If there is none, or the caller may not invoke it, the provisioner answers. That is so in stacks of releases without
    a planner, and for principals whose policy is of such a release. ``report`` gets a line about it.
    """

    connection: Connection
    report: Callable[[str], None] = field(default=silent)

    def ask(self, request: Request) -> Answer:
        """Send a request and return the answer. Raises ``CommandError`` without an answer, and errors of botocore."""
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
    def _function(self) -> Function | InProcess:
        return _function_of(self.connection, "planner")

    @cached_property
    def _instead(self) -> Provisioner:
        return Provisioner(self.connection)


def _function_of(connection: Connection, kind: Literal["planner", "provisioner"]) -> Function | InProcess:
    return Function(connection, kind) if connection.file is None else InProcess(connection, kind)


def _is_stopped(answer: Answer) -> bool:
    return any(failure.code == "stopped" for failure in answer.errors)


def _goes_on(planner: Planner, namespace: str, why: str) -> list[str]:
    """Return what to say of an apply whose answer is not awaited any more: who holds the lock until when, how to watch
    the apply, and how to stop it.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    where = f"{planner.connection.option} --namespace {namespace}"
    until = "until it ends"
    try:
        state = planner.ask(Request("watch", namespace)).state
    except (CommandError, BotoCoreError, ClientError, KeyboardInterrupt):
        state = None  # the apply goes on, whether that can be looked at or not
    if state is not None and state.lock is None:
        return [
            f"{why}; the lock of {namespace} is free now: the apply has ended, or it was sent and may still begin",
            f"see whether it has ended, and what it did: zae-limiter limits status {where}",
            f"watch it if it has begun: zae-limiter limits status --follow {where}",
        ]
    if state is not None and state.lock is not None:
        until = f"until {state.lock.expires_at} at most, for {state.lock.owner}"
    return [
        f"{why}; the apply goes on in the Lambda, and holds the lock of {namespace} {until}",
        f"watch it: zae-limiter limits status --follow {where}",
        f"stop it at its next checkpoint: zae-limiter limits stop {where}",
    ]


def _together(before: Answer, after: Answer) -> Answer:
    """Join two answers to parts of one apply: all changes that were made, and the last error of each address."""
    if before.plan is None or after.plan is None:
        return evolve(before, status="partial", errors=(*before.errors, *after.errors))
    plan: Plan = evolve(after.plan, changes=(*before.plan.changes, *after.plan.changes))
    made = {change.address for change in after.plan.changes}
    failed_again = {failure.address for failure in after.errors}
    old = [each for each in before.errors if each.address not in made and each.address not in failed_again]
    return Answer.applied(plan, errors=(*old, *after.errors), remaining=after.remaining)


def ask(connection: Connection, action: Any, namespace: str, **fields: Any) -> Answer:
    """Return the answer of the planner, or to ``unlock`` that of the provisioner. Raises ``CommandError``, also for a
    field that no request may have.
    """
    with as_command_errors():
        request = Request(action, namespace, **fields)
    asked = Provisioner if action == "unlock" else Planner
    answer = asked(connection, reporter(quiet=False)).ask(request)
    refuse(namespace, answer)
    return answer
