"""Follow the events of CloudFormation while it works, up to the end of its work."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

from ..errors import CommandError, one_line
from .cloudformation import Stack, find, is_missing

POLL_SECONDS: Final = 3.0

# What follows from another's failure says nothing.
_CANCELLED: Final = ("Resource creation cancelled", "Resource update cancelled", "Resource creation Initiated")


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to one resource of a stack; ``physical`` is its name outside the stack."""

    resource: str
    kind: str
    status: str
    reason: str
    physical: str

    @property
    def failed(self) -> bool:
        """Whether the event is the cause of a failure, rather than its result."""
        return self.status.endswith("_FAILED") and not self.reason.startswith(_CANCELLED)

    @property
    def is_full_bucket(self) -> bool:
        """Whether a bucket could not be deleted because it is not empty."""
        return self.kind == "AWS::S3::Bucket" and self.status == "DELETE_FAILED" and "not empty" in self.reason

    def __str__(self) -> str:
        told = f"{self.status.lower().replace('_', ' '):<27} {self.resource} ({self.kind.removeprefix('AWS::')})"
        if self.failed:
            return one_line(f"{told}: {' '.join(self.reason.split()) or 'CloudFormation gives no reason'}")
        return f"{told}: {self.physical} stays" if self.status == "DELETE_SKIPPED" else told


@dataclass(slots=True)
class Follower:
    """Reports the events of one stack from now on; create it before the work begins.

    Its ``stack_id`` still finds the events of a stack that is deleted; a stack that is yet to be created has none.
    """

    client: Any
    name: str
    report: Callable[[Event], None]
    sleep: Callable[[float], None] = time.sleep
    stack_id: str = ""
    failures: list[Event] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, client: Any, stack: Stack, report: Callable[[Event], None]) -> "Follower":
        """Return a follower of an existing stack, which skips its events so far."""
        follower = cls(client, stack.name, report, stack_id=stack.id)
        follower._seen.update(each["EventId"] for each in islice(follower._pages(), 1))
        return follower

    def wait(self) -> Stack | None:
        """Wait until CloudFormation is done, and return the stack; return ``None`` if it is gone."""
        while (stack := self._look()) is not None and stack.moving:
            self.sleep(POLL_SECONDS)
        return stack

    def _look(self) -> Stack | None:
        stack = find(self.client, self.name)
        if stack is not None:
            self.stack_id = self.stack_id or stack.id
        self._report_new()  # the last ones come when the stack is gone
        return stack if stack is not None and stack.id == self.stack_id else None

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

        if not self.stack_id:
            return
        try:
            for page in self.client.get_paginator("describe_stack_events").paginate(StackName=self.stack_id):
                yield from page["StackEvents"]
        except ClientError as error:
            if not is_missing(error):  # an emulator may forget a stack with its events
                raise


def _event(told: Mapping[str, Any]) -> Event:
    return Event(
        resource=told["LogicalResourceId"],
        kind=told["ResourceType"],
        status=told["ResourceStatus"],
        reason=told.get("ResourceStatusReason", ""),
        physical=told.get("PhysicalResourceId", ""),
    )


def failure(stack: Stack, verb: str, failures: Sequence[Event]) -> CommandError:
    """Return the error that says why a stack could not be created, changed or deleted: a line for each failed event,
    and what to do.
    """
    told = [str(event) for event in failures]
    if stack.reason and not any(event.reason for event in failures):
        told.append(stack.reason)
    told += [
        f"bucket {each.physical} is not empty: {way_to_remove(each.physical)}"
        for each in failures
        if each.is_full_bucket
    ]
    head = f"stack {stack.name} could not be {verb}: it is {stack.status}"
    return CommandError(head, *(f"  {line}" for line in (*told, str(way_out(stack)))))


def way_to_remove(bucket: str) -> str:
    """Return how to delete a bucket of a stack, with all that is in it."""
    return f"empty it in the console of S3, which deletes all versions, then `aws s3 rb s3://{bucket}` removes it"


class WayOut(NamedTuple):
    """What to do about a stack, and the command for it, if there is one."""

    does: str
    command: str = ""

    def __str__(self) -> str:
        """Return both as one text."""
        return f"{self.does}: `{self.command}`" if self.command else self.does


def way_out(stack: Stack) -> WayOut:
    """Return what to do about a stack in this state."""
    name = stack.name
    if stack.status in {"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED"}:
        return WayOut("remove what is left, then deploy again", f"zae-limiter delete --name {name}")
    if stack.status == "UPDATE_ROLLBACK_FAILED":
        command = f"aws cloudformation continue-update-rollback --stack-name {name}"
        return WayOut("fix the cause, then continue the rollback", command)
    if stack.status == "DELETE_FAILED":
        return WayOut("fix the cause, then delete it again", f"zae-limiter delete --name {name}")
    if stack.status == "REVIEW_IN_PROGRESS":
        return WayOut("another change set would create it: execute or delete that change set first")
    if stack.moving:
        return WayOut("wait until CloudFormation is done", f"zae-limiter status --name {name}")
    return WayOut("fix the cause and deploy again: the stack is as before")
