"""A stack whose resource sends events to the provisioner, and hears its replies.

Lives here: that. Never: a claim.
"""

from typing import Any

import pytest

from zae_limiter_manifest import LimitsManifest, StackProperties
from zae_limiter_provisioner import cloudformation, reply_channel
from zae_limiter_provisioner.handler import on_event

from .provisions import EVERY_LEVEL, World
from .stack_replies import Replies

STACK = "arn:aws:cloudformation:eu-central-1:123456789012:stack/tenants/0f1e2d3c"
OWNER = f"stack:{STACK}/TenantLimits"


class Stack:
    """A stack whose resource sends events, each with a request id of its own."""

    def __init__(self, world: World, replies: Replies, patch: pytest.MonkeyPatch, stack_id: str = STACK) -> None:
        self.world, self.replies, self.stack_id = world, replies, stack_id
        self.store = world.store()
        self.physical_id: str | None = None
        self.count = 0
        patch.setenv("ZAEL_RESPONSE_HOST", "127.0.0.1")
        patch.setattr(cloudformation, "table_of_environment", lambda: world.table(self.store))
        patch.setattr(reply_channel, "PAUSES", (0.01, 0.01, 0.01))

    def event(self, kind: str, wanted: LimitsManifest, **properties: Any) -> dict[str, Any]:
        self.count += 1
        said = texts({"ServiceToken": "arn", **StackProperties(wanted).to_dict(), **properties})
        physical = {} if self.physical_id is None else {"PhysicalResourceId": self.physical_id}
        return {
            "RequestType": kind,
            "RequestId": f"request-{self.count}",
            "ResponseURL": self.replies.url,
            "StackId": self.stack_id,
            "LogicalResourceId": "TenantLimits",
            "ResourceType": "Custom::ZaeLimiterLimits",
            "ResourceProperties": said,
            **physical,
        }

    def send(self, event: dict[str, Any], context: object = None) -> dict[str, Any]:
        self.replies.bodies.clear()
        on_event(event, context)
        told = self.replies.only
        assert all(len(body) < 4096 for body in self.replies.bodies)
        assert (told["RequestId"], told["StackId"]) == (event["RequestId"], self.stack_id)
        return told

    def do(self, kind: str, wanted: LimitsManifest = EVERY_LEVEL, **properties: Any) -> dict[str, Any]:
        told = self.send(self.event(kind, wanted, **properties))
        self.physical_id = told["PhysicalResourceId"]
        return told


def texts(value: Any) -> Any:
    """As CloudFormation hands values over: all scalars as text."""
    if isinstance(value, dict):
        return {key: texts(each) for key, each in value.items()}
    if isinstance(value, list):
        return list(map(texts, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def owner(world: World, *namespace: str) -> str | None:
    """Who owns a namespace."""
    return world.ask("state", *namespace).state.owner  # type: ignore[union-attr]
