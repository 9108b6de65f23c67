"""The events of CloudFormation while it works, and the end of its work."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from ..errors import CommandError
from .cloudformation import Stack, find, is_missing

POLL_SECONDS: Final = 3.0

# What follows from another's failure tells nothing.
_CANCELLED: Final = ("Resource creation cancelled", "Resource update cancelled", "Resource creation Initiated")


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to one resource of a stack."""

    resource: str
    kind: str
    status: str
    reason: str

    @property
    def failed(self) -> bool:
        """Whether this is why something did not work, rather than what came of that."""
        return self.status.endswith("_FAILED") and not self.reason.startswith(_CANCELLED)

    def __str__(self) -> str:
        told = f"{self.status.lower().replace('_', ' '):<27} {self.resource} ({self.kind.removeprefix('AWS::')})"
        return f"{told}: {' '.join(self.reason.split())}" if self.failed else told


@dataclass(slots=True)
class Follower:
    """Tells the events of one stack that came after it was made, which is before the work is begun."""

    client: Any
    name: str
    report: Callable[[Event], None]
    sleep: Callable[[float], None] = time.sleep
    failures: list[Event] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def skip(self) -> "Follower":
        """Pass over what has happened so far: the newest event, and all before it."""
        self._seen.update(each["EventId"] for each in islice(self._pages(), 1))
        return self

    def wait(self) -> Stack | None:
        """The stack when CloudFormation is done with it, ``None`` when it is gone."""
        while (stack := find(self.client, self.name)) is not None:
            self._report_new()
            if not stack.moving:
                break
            self.sleep(POLL_SECONDS)
        return stack

    def _report_new(self) -> None:
        fresh = []
        for each in self._pages():  # the newest first
            if each["EventId"] in self._seen:
                break
            fresh.append(each)
        for each in reversed(fresh):
            self._seen.add(each["EventId"])
            event = _event(each)
            if event.failed:
                self.failures.append(event)
            self.report(event)

    def _pages(self) -> Iterator[Mapping[str, Any]]:
        from botocore.exceptions import ClientError

        try:
            for page in self.client.get_paginator("describe_stack_events").paginate(StackName=self.name):
                yield from page["StackEvents"]
        except ClientError as error:
            if not is_missing(error):  # the next look finds no stack
                raise


def _event(told: Mapping[str, Any]) -> Event:
    return Event(
        resource=told["LogicalResourceId"],
        kind=told["ResourceType"],
        status=told["ResourceStatus"],
        reason=told.get("ResourceStatusReason", ""),
    )


def failure(stack: Stack, verb: str, failures: Sequence[Event]) -> CommandError:
    """Why the stack could not be made, changed or deleted: a line, one for each event that failed, and the way out."""
    lines = [f"stack {stack.name} could not be {verb}: it is {stack.status}"]
    lines += [f"  {event}" for event in failures] or [f"  {stack.reason}" for _ in (1,) if stack.reason]
    return CommandError("\n".join([*lines, f"  {way_out(stack)}"]))


def way_out(stack: Stack) -> str:
    """What to do about a stack in this state."""
    name = stack.name
    if stack.status in {"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED"}:
        return f"remove what is left with `zae-limiter delete --name {name}`, then deploy again"
    if stack.status == "UPDATE_ROLLBACK_FAILED":
        return f"fix the cause, then `aws cloudformation continue-update-rollback --stack-name {name}`"
    if stack.status == "DELETE_FAILED":
        return f"fix the cause, then `zae-limiter delete --name {name}` again"
    if stack.status == "REVIEW_IN_PROGRESS":
        return "another change set would create it: execute or delete that change set first"
    if stack.moving:
        return f"wait until CloudFormation is done: `zae-limiter status --name {name}`"
    return "fix the cause and deploy again: the stack is as before"
