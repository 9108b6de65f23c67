"""Send a stack's events of a custom resource to its Lambda, and take the reply, as CloudFormation does.

The reply is a PUT to the event's ResponseURL, which is one of this AWS: it has the access key, as a presigned URL has,
and a token that is used once.

https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref.html
"""

import json
import secrets
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from .functions import Functions
from .wsgi import Answer, Environ, body_of

REPLY_PATH: Final = "/_zae-limiter/custom-resource-replies/"
LARGEST_REPLY: Final = 4096  # bytes, CloudFormation's own bound


@dataclass(frozen=True, slots=True)
class StackResource:
    """A custom resource of a stack, with its properties, of which ``ServiceToken`` names the Lambda."""

    stack_id: str
    logical_id: str
    type: str
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a Lambda replied: the reason is ``None`` if it carried the event out, the id ``None`` if it gave none."""

    problem: str | None
    physical_id: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


class CustomResources:
    """Sends events to functions; ``url`` and ``access_key_id`` are those of this AWS."""

    def __init__(self, functions: Functions, url: str, access_key_id: str) -> None:
        self._functions = functions
        self._url = url
        self._access_key_id = access_key_id
        self._lock = threading.Lock()
        self._open: dict[str, bytes | None] = {}  # by token

    def send(self, kind: str, resource: StackResource, *, region: str, **more: Any) -> Reply:
        """Send a Create, Update or Delete; return the reply. A Lambda that ends without one has failed."""
        token = secrets.token_urlsafe(30)
        name = str(resource.properties.get("ServiceToken", ""))
        event = {
            "RequestType": kind,
            "RequestId": str(uuid.uuid4()),
            "ResponseURL": f"{self._url}{REPLY_PATH}{token}?{urlencode({'X-Amz-Credential': self._access_key_id})}",
            "StackId": resource.stack_id,
            "LogicalResourceId": resource.logical_id,
            "ResourceType": resource.type,
            "ServiceToken": name,
            "ResourceProperties": as_texts(resource.properties),
            **more,
        }
        with self._lock:
            self._open[token] = None
        try:
            problem = self._functions.deliver(name, json.dumps(event).encode(), region=region)
        finally:
            with self._lock:
                body = self._open.pop(token)
        if body is None:
            return Reply(problem or f"{name} ended without a reply; `zae-limiter local logs` has its log")
        return _reply_in(body)

    def take(self, environ: Environ) -> Answer | None:
        """Take a reply that a request brings, the first one of each event; ``None`` for any other request."""
        if not environ["PATH_INFO"].startswith(REPLY_PATH):
            return None
        token = environ["PATH_INFO"].removeprefix(REPLY_PATH)
        body = body_of(environ)
        with self._lock:
            if environ["REQUEST_METHOD"] != "PUT" or self._open.get(token, body) is not None:
                return 403, [("Content-Type", "text/plain")], b"no event waits for this reply\n"
            self._open[token] = body
        return 200, [], b""


def as_texts(value: object) -> Any:
    """Return properties as CloudFormation sends them: every scalar is a text."""
    if isinstance(value, Mapping):
        return {name: as_texts(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_texts(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reply_in(body: bytes) -> Reply:
    if len(body) > LARGEST_REPLY:
        return Reply(f"the Lambda's reply has {len(body)} bytes: CloudFormation takes {LARGEST_REPLY}")
    try:
        told = json.loads(body)
        done, physical_id, data = told["Status"] == "SUCCESS", told.get("PhysicalResourceId"), told.get("Data") or {}
        reason = str(told.get("Reason") or "the Lambda gave no reason")
    except (ValueError, TypeError, KeyError, AttributeError):
        return Reply(f"the Lambda's reply is not JSON object with a Status: {body[:200]!r}")
    if done and not physical_id:
        return Reply("the Lambda's reply has no PhysicalResourceId")
    return Reply(None if done else reason, physical_id, data)
