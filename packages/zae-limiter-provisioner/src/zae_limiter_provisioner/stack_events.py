"""A CloudFormation event and the reply to it, as values. Never here: the handling of an event (cloudformation).

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref.html
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

from zae_limiter_manifest import stack_owner
from zae_limiter_manifest.naming import NameKind, find_name_problem

LARGEST_REPLY: Final = 4096
LONGEST_REASON: Final = 1500

RequestType = Literal["Create", "Update", "Delete"]


@dataclass(frozen=True, slots=True)
class StackEvent:
    """A request of a stack to its resource; ``physical_id`` is ``None`` while the resource is being created."""

    request_type: str
    request_id: str
    stack_id: str
    logical_id: str
    properties: Mapping[str, Any]
    physical_id: str | None

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> Self:
        """Parse an event; missing fields are empty, because even such an event needs a reply."""
        properties = event.get("ResourceProperties")
        return cls(
            str(event.get("RequestType")),
            str(event.get("RequestId", "")),
            str(event.get("StackId", "")),
            str(event.get("LogicalResourceId", "")),
            properties if isinstance(properties, Mapping) else {},
            event.get("PhysicalResourceId"),
        )

    @property
    def owner(self) -> str:
        """The owner name of the stack's resource."""
        return stack_owner(self.stack_id, self.logical_id)

    @property
    def event_id(self) -> str:
        """The identity of the event, equal when the event comes again."""
        return f"{self.request_type} {self.request_id}"

    def physical_id_of(self, namespace: str) -> str:
        """The physical id: the stack's resource and its namespace."""
        return f"{self.owner}/{namespace}"

    @property
    def namespace_named(self) -> str | None:
        """The namespace in the properties, if it is a valid name."""
        named = self.properties.get("Namespace")
        return None if find_name_problem(NameKind.NAMESPACE, named) else str(named)

    def moves_to(self, namespace: str) -> bool:
        """Whether this is an Update from one namespace to another."""
        return self.request_type == "Update" and self.namespace_to_empty != namespace

    @property
    def namespace_to_empty(self) -> str | None:
        """The namespace that a Delete empties.

        It is in the physical id. If CloudFormation invented that id, for lack of a reply, it is in the properties.
        """
        own, _, namespace = (self.physical_id or "").rpartition("/")
        if own != self.owner:
            return self.namespace_named
        return None if find_name_problem(NameKind.NAMESPACE, namespace) else namespace


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply to CloudFormation: success, or failure with a reason."""

    ok: bool
    physical_id: str
    reason: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)

    def body(self, event: StackEvent) -> bytes:
        """The reply as JSON, within the size that CloudFormation accepts."""
        reply = {
            "Status": "SUCCESS" if self.ok else "FAILED",
            "Reason": _cut(self.reason),
            "PhysicalResourceId": self.physical_id,
            "StackId": event.stack_id,
            "RequestId": event.request_id,
            "LogicalResourceId": event.logical_id,
            "Data": dict(self.data),
        }
        body = json.dumps(reply).encode()
        return body if len(body) < LARGEST_REPLY else json.dumps({**reply, "Reason": "", "Data": {}}).encode()


def _cut(reason: str) -> str:
    """Shorten a reason, as ASCII: then it has as many bytes as characters, and escapes take two at most."""
    text = reason.encode("ascii", "replace").decode()
    text = "".join(character if character.isprintable() else " " for character in text)
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 3]}..."
