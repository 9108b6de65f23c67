"""A client of one Lambda of a stack: it packs requests and reads pages. Others decide what to ask."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from attrs import evolve

from zae_limiter_manifest import Answer, FormatError, Request, next_page, pack, unpack
from zae_limiter_manifest.delegation import alias_of

from ..connection import Connection
from ..errors import CommandError
from ..skipped import add, listen

LAMBDA_SECONDS: Final = 900
POLICIES: Final = {"planner": "InvokePlannerPolicy", "provisioner": "InvokeProvisionerPolicy"}


class OutOfReach(CommandError):
    """The function is missing, or the caller may not invoke it; nothing was sent. ``reason`` says which."""

    def __init__(self, reason: str, way_out: str) -> None:
        super().__init__(f"{reason}: {way_out}")
        self.reason = reason


class GoesOn(Exception):
    """The wait for an apply's answer ended, and it goes on in the Lambda; the text says why."""


@dataclass(frozen=True)
class Function:
    """The planner or the provisioner of a stack."""

    connection: Connection
    kind: Literal["planner", "provisioner"]

    @property
    def name(self) -> str:
        """The function's name."""
        return f"{self.connection.name}-limits-{self.kind}"

    def ask(self, request: Request) -> Answer:
        """Send a request and return the answer with all its pages. Raises ``CommandError`` without an answer, and
        errors of botocore.
        """
        listen()
        try:
            pages = [self._invoke(request)]
            while (after := next_page(pages[-1])) is not None:
                pages.append(self._invoke(evolve(request, next=after)))
            told = unpack(pages)
            add(told.get("unreadable"))
            return Answer.from_dict(told)
        except FormatError as error:
            raise CommandError(f"{self.name}: {error}; does its version fit? See `zae-limiter status`") from error

    def apply(self, request: Request) -> Answer:
        """Apply as ``ask`` does. Raises ``GoesOn`` if the wait for the answer ended."""
        from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

        try:
            return self.ask(request)
        except KeyboardInterrupt:
            raise GoesOn("stopped waiting") from None
        except (ConnectionClosedError, ReadTimeoutError) as error:
            raise GoesOn(str(error).removesuffix(".")) from error

    def _invoke(self, request: Request) -> Mapping[str, Any]:
        answer = self._send(request.namespace, _payload(request))
        told = self._read(answer["Payload"].read())
        if "FunctionError" in answer or not isinstance(told, dict):
            raise CommandError(f"{self.name} failed: {_problem(told)}; its log says more")
        return told

    def _send(self, namespace: str, payload: bytes) -> Mapping[str, Any]:
        """Invoke the function; if the caller may not, its alias for this namespace, which a policy may grant alone."""
        from botocore.exceptions import ClientError

        try:
            return self._call(payload)
        except ClientError as error:
            refusal = self._out_of_reach(error.response["Error"], namespace)
            if refusal is None:
                raise
            if error.response["Error"]["Code"] == "AccessDeniedException":
                with suppress(ClientError, ValueError):  # what was refused first says what to do
                    return self._call(payload, Qualifier=alias_of(namespace))
            raise refusal from error

    def _call(self, payload: bytes, **qualifier: str) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self._client.invoke(FunctionName=self.name, Payload=payload, **qualifier)
        return answer

    def _read(self, payload: bytes) -> Any:
        try:
            return json.loads(payload)
        except (ValueError, RecursionError) as error:
            way_out = "check --endpoint-url, and any proxy before it"
            raise CommandError(f"{self.name}: the answer is not JSON: {way_out}") from error

    def _out_of_reach(self, told: Mapping[str, Any], namespace: str) -> OutOfReach | None:
        """Return the meaning of an error of AWS; ``None`` for any other error."""
        match told.get("Code"):
            case "ResourceNotFoundException":
                way_out = f"has `zae-limiter deploy --name {self.connection.name}` created one here?"
                return OutOfReach(f"there is no function {self.name}", way_out)
            case "AccessDeniedException":
                one = f"delegation list --policy {namespace}{' --plan-only' if self.kind == 'planner' else ''}"
                way_out = (
                    f"{told.get('Message')}; the stack's {POLICIES[self.kind]} allows it, "
                    f"and so does `zae-limiter {one}` for this namespace alone"
                )
                return OutOfReach(f"you may not invoke {self.name}", way_out)
        return None

    @cached_property
    def _client(self) -> Any:
        # An apply that is sent again would find the lock of the first, which goes on without a listener.
        return self.connection.client("lambda", read_seconds=LAMBDA_SECONDS + 10, attempts=1)


def _payload(request: Request) -> bytes:
    try:
        return json.dumps(pack(request.to_dict()), separators=(",", ":")).encode()
    except FormatError as error:
        way_out = "move limits that many entities share into a resource"
        raise CommandError(f"{request.namespace}: {error}; {way_out}") from error


def _problem(told: object) -> str:
    return str(told.get("errorMessage", told)) if isinstance(told, Mapping) else str(told)
