"""What lives here: a stack's resource that holds limits, as CloudFormation drives it: events, and the replies to them.
What never does: a claim, or what a handler does with an event.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from support.provisioner.stack_replies import Replies, response_url
from support.provisioner.stack_sender import texts
from zae_limiter_manifest import LimitsManifest, StackProperties

STACK_ID = "arn:aws:cloudformation:us-east-1:123456789012:stack/tenants/0f1e2d3c"
Event = dict[str, Any]


@dataclass
class Resource:
    """``Custom::ZaeLimiterLimits`` of one stack; ``invoke`` hands an event to the provisioner."""

    invoke: Callable[[Event], object]
    replies: Replies
    physical_id: str | None = None
    numbers: Iterator[int] = field(default_factory=count)

    def event(self, kind: str, wanted: LimitsManifest, **properties: Any) -> Event:
        """What CloudFormation would send now."""
        return {
            "RequestType": kind,
            "RequestId": f"request-{next(self.numbers)}",
            "ResponseURL": self.replies.url,
            "StackId": STACK_ID,
            "LogicalResourceId": "TenantLimits",
            "ResourceProperties": texts({**StackProperties(wanted).to_dict(), **properties}),
            **({} if self.physical_id is None else {"PhysicalResourceId": self.physical_id}),
        }

    def send(self, event: Event) -> dict[str, Any]:
        """The one reply to an event."""
        self.replies.bodies.clear()
        self.invoke(event)
        return self.replies.only

    def do(self, kind: str, wanted: LimitsManifest, **properties: Any) -> dict[str, Any]:
        """The reply to a new event, whose physical id is the resource's from now on."""
        told = self.send(self.event(kind, wanted, **properties))
        self.physical_id = told["PhysicalResourceId"]
        return told


@contextmanager
def resource(invoke: Callable[[Event], object]) -> Iterator[Resource]:
    """A resource that nobody has created yet, with a ResponseURL that handlers of this process accept."""
    with response_url() as replies, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZAEL_RESPONSE_HOST", "127.0.0.1")
        yield Resource(invoke, replies)
