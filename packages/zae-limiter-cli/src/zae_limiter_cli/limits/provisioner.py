"""A client of the provisioner's Lambda: it packs requests, reads pages, and continues until all is done.

Never: another AWS service, or a decision of what to ask.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from attrs import evolve

from zae_limiter_manifest import Answer, FormatError, Plan, Request, next_page, pack, unpack

from ..connection import Connection
from ..errors import CommandError

LAMBDA_SECONDS: Final = 900


def silent(_: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Provisioner:
    """The function of a stack; ``report`` hears how far a long apply is."""

    connection: Connection
    report: Callable[[str], None] = field(default=silent)

    @property
    def name(self) -> str:
        """The function's name."""
        return f"{self.connection.name}-limits-provisioner"

    def ask(self, request: Request) -> Answer:
        """The answer, all its pages. Raises ``CommandError`` where there is none, and errors of botocore."""
        try:
            pages = [self._invoke(request)]
            while (after := next_page(pages[-1])) is not None:
                pages.append(self._invoke(evolve(request, next=after)))
            return Answer.from_dict(unpack(pages))
        except FormatError as error:
            raise CommandError(f"{self.name}: {error}; does its version fit? See `zae-limiter check`") from error

    def apply(self, request: Request) -> Iterator[Answer]:
        """All that was done so far, after each invocation, until nothing is left or nothing more can be done."""
        total = answer = self.ask(request)
        yield total
        while answer.remaining and answer.plan and answer.plan.changes:
            self.report(f"{request.namespace}: {answer.remaining} changes left, continuing")
            answer = self.ask(evolve(request, expected_serial=answer.plan.serial, expected_plan=None))
            total = _together(total, answer)
            yield total

    def _invoke(self, request: Request) -> Mapping[str, Any]:
        try:
            answer = self._client.invoke(FunctionName=self.name, Payload=_payload(request))
        except self._client.exceptions.ResourceNotFoundException as error:
            stack = self.connection.name
            message = f"there is no function {self.name}: has `zae-limiter deploy --name {stack}` created one here?"
            raise CommandError(message) from error
        told = json.loads(answer["Payload"].read())
        if "FunctionError" in answer or not isinstance(told, dict):
            raise CommandError(f"{self.name} failed: {_problem(told)}; its log says more")
        return told

    @cached_property
    def _client(self) -> Any:
        # An apply that is sent again would meet the lock of the first, which goes on without a listener.
        return self.connection.client("lambda", read_seconds=LAMBDA_SECONDS + 10, attempts=1)


def _payload(request: Request) -> bytes:
    try:
        return json.dumps(pack(request.to_dict()), separators=(",", ":")).encode()
    except FormatError as error:
        way_out = "move limits that many entities share into a resource"
        raise CommandError(f"{request.namespace}: {error}; {way_out}") from error


def _problem(told: object) -> str:
    return str(told.get("errorMessage", told)) if isinstance(told, Mapping) else str(told)


def _together(before: Answer, after: Answer) -> Answer:
    """Two answers to parts of one apply: all that was made; of the errors the last word on each address."""
    if before.plan is None or after.plan is None:
        return evolve(before, status="partial", errors=(*before.errors, *after.errors))
    plan: Plan = evolve(after.plan, changes=(*before.plan.changes, *after.plan.changes))
    made = {change.address for change in after.plan.changes}
    failed_again = {failure.address for failure in after.errors}
    old = [each for each in before.errors if each.address not in made and each.address not in failed_again]
    return Answer.applied(plan, errors=(*old, *after.errors), remaining=after.remaining)
