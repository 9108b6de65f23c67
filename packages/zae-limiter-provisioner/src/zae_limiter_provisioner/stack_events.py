"""A CloudFormation event and the reply to it, as values. ``cloudformation`` handles events.

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref.html
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self, get_args

from zae_limiter_manifest import stack_owner
from zae_limiter_manifest.naming import NameKind, find_name_problem

LARGEST_REPLY: Final = 4096
LONGEST_REASON: Final = 1500

LONGEST_ID: Final = 1024

_STACK_ID_FORM: Final = "arn:PARTITION:cloudformation:REGION:ACCOUNT:stack/NAME/ID"
_STACK_ID_PARTS: Final = (  # each with its expression, and its rule in words
    ("beginning", "arn", "arn"),
    ("partition", "[a-z][a-z-]*", "lower-case letters and hyphens, such as aws"),
    ("service", "cloudformation", "cloudformation"),
    ("region", "[a-z0-9-]+", "lower-case letters, digits and hyphens"),
    ("account", "[0-9]{12}", "12 digits"),
    ("type", "stack", "stack"),
    ("name", "[A-Za-z][A-Za-z0-9-]{0,127}", "a letter, then letters, digits and hyphens, 128 at most"),
    ("id", "[0-9a-f-]{8,36}", "8 to 36 hex digits and hyphens"),
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
        """Parse an event. A field that is missing or no text becomes empty, because even such an event needs a
        reply.
        """
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
    def problem(self) -> str | None:
        """Return why this is not an event of CloudFormation; ``None`` if it is one, so that its owner cannot be guessed
        name.
        """
        found = (
            None if self.request_id else _missing("RequestId"),
            _logical_id_problem(self.logical_id),
            _stack_id_problem(self.stack_id),
            _request_type_problem(self.request_type),
        )
        return "; ".join(filter(None, found)) or None

    @property
    def owner(self) -> str:
        """The owner name of the stack's resource."""
        return stack_owner(self.stack_id, self.logical_id)

    @property
    def event_id(self) -> str:
        """The identity of the event, equal when the event comes again."""
        return f"{self.request_type} {self.request_id}"

    def physical_id_of(self, namespace: str) -> str:
        """Return the physical id: the stack's resource and its namespace."""
        return f"{self.owner}/{namespace}"

    @property
    def namespace_named(self) -> str | None:
        """The namespace in the properties, if it is a valid name."""
        named = self.properties.get("Namespace")
        return None if find_name_problem(NameKind.NAMESPACE, named) else str(named)

    def moves_to(self, namespace: str) -> bool:
        """Return whether this is an Update from one namespace to another."""
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
        """Return the reply as JSON, within the size that CloudFormation accepts."""
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


def _missing(name: str) -> str:
    return f"the event's {name} is missing, empty, or no text of at most {LONGEST_ID} characters"


def _request_type_problem(request_type: str) -> str | None:
    if request_type in get_args(RequestType):
        return None
    return f"the RequestType {request_type!r} must be Create, Update or Delete"


def _logical_id_problem(logical_id: str) -> str | None:
    if not logical_id:
        return _missing("LogicalResourceId")
    fits = _LOGICAL_ID.fullmatch(logical_id)
    return None if fits else f"the LogicalResourceId {logical_id!r} must be 1 to 255 letters and digits"


def _stack_id_problem(stack_id: str) -> str | None:
    """Return why this is not the ARN of a stack: each of its parts that is wrong, with its rule."""
    if not stack_id:
        return _missing("StackId")
    *head, resource = stack_id.split(":", 5)
    parts = [*head, *resource.split("/", 2)]
    if len(parts) != len(_STACK_ID_PARTS):
        return f"the StackId {stack_id!r} is not a stack's: it must have the form {_STACK_ID_FORM}"
    wrong = [
        f"its {name} {part!r} must be {rule}"
        for part, (name, expression, rule) in zip(parts, _STACK_ID_PARTS, strict=True)
        if not re.fullmatch(expression, part)
    ]
    return f"the StackId {stack_id!r} is not a stack's: {'; '.join(wrong)}" if wrong else None


def _text(event: Mapping[str, Any], name: str) -> str:
    """Return a field of an event; empty if it is not text of reasonable length."""
    value = event.get(name)
    return value if isinstance(value, str) and len(value) <= LONGEST_ID else ""


def _cut(reason: str) -> str:
    """Shorten a reason, as ASCII: it has as many bytes as characters then, and escapes take at most two."""
    text = reason.encode("ascii", "replace").decode()
    text = "".join(character if character.isprintable() else " " for character in text)
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 3]}..."
