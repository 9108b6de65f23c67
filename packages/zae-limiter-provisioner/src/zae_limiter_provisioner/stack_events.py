"""A CloudFormation event and the reply to it, as values. Never here: the handling of an event (cloudformation).

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref.html
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

from zae_limiter_manifest import stack_owner
from zae_limiter_manifest.naming import NameKind, find_name_problem

LARGEST_REPLY: Final = 4096
LONGEST_REASON: Final = 1500

LONGEST_ID: Final = 1024

_STACK_ID: Final = re.compile(
    r"arn:[a-z][a-z-]*:cloudformation:[a-z0-9-]+:[0-9]{12}:stack/(?P<name>[A-Za-z][A-Za-z0-9-]{0,127})/[0-9a-f-]{8,36}"
)
_LOGICAL_ID: Final = re.compile(r"[A-Za-z0-9]{1,255}")

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
        """Parse an event; what is missing or no text is empty, because even such an event needs a reply."""
        properties = event.get("ResourceProperties")
        return cls(
            _text(event, "RequestType"),
            _text(event, "RequestId"),
            _text(event, "StackId"),
            _text(event, "LogicalResourceId"),
            properties if isinstance(properties, Mapping) else {},
            _text(event, "PhysicalResourceId") or None,
        )

    @property
    def names_a_resource(self) -> bool:
        """Whether the event names a resource of a stack; its owner name is then one that nobody can guess."""
        return bool(_STACK_ID.fullmatch(self.stack_id) and _LOGICAL_ID.fullmatch(self.logical_id) and self.request_id)

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
        return self.request_type == "Update" and self.has_own_id and self.namespace_to_empty != namespace

    @property
    def has_own_id(self) -> bool:
        """Whether this provisioner made the physical id, for this resource."""
        return (self.physical_id or "").rpartition("/")[0] == self.owner

    @property
    def has_invented_id(self) -> bool:
        """Whether CloudFormation may have made the physical id, as it does if the reply to a Create was lost."""
        return self.physical_id is not None and "/" not in self.physical_id

    @property
    def namespace_to_empty(self) -> str | None:
        """The namespace that a Delete empties.

        It is in the physical id. If CloudFormation invented that id, for lack of a reply, it is in the properties.
        """
        if not self.has_own_id:
            return self.namespace_named if self.has_invented_id else None
        namespace = (self.physical_id or "").rpartition("/")[2]
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


def _text(event: Mapping[str, Any], name: str) -> str:
    """A field of an event, empty if it is no text of reasonable length."""
    value = event.get(name)
    return value if isinstance(value, str) and len(value) <= LONGEST_ID else ""


def _cut(reason: str) -> str:
    """Shorten a reason, as ASCII: then it has as many bytes as characters, and escapes take two at most."""
    text = reason.encode("ascii", "replace").decode()
    text = "".join(character if character.isprintable() else " " for character in text)
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 3]}..."
