"""Lambda's Invoke over HTTP.

https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
"""

import base64
import json
import logging
import re
import threading
import time
import uuid
from typing import Final
from urllib.parse import parse_qs

from .lambdas.environment import Call
from .lambdas.function import Function
from .lambdas.pool import Pool, Throttled
from .moto_server import function_of
from .wsgi import Answer, Environ, body_of, scope_of

MOST_BYTES: Final = {"RequestResponse": 6_291_456, "Event": 1_048_576, "DryRun": 6_291_456}
PAUSES_OF_EVENTS: Final = (0, 1, 2)  # seconds; Lambda tries an asynchronous call three times, too, minutes apart

_PATH: Final = re.compile(r"/2015-03-31/functions/([^/]+)/invocations/?")
logger = logging.getLogger(__name__)


def called(environ: Environ) -> str | None:
    """Return the name or ARN of the function that a request calls; ``None`` for any other request."""
    found = _PATH.fullmatch(environ["PATH_INFO"])
    return found[1] if found and environ["REQUEST_METHOD"] == "POST" else None


class Functions:
    """Answers calls of the functions that moto knows."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def answer(self, name: str, environ: Environ) -> Answer:
        """Return Lambda's answer to a call of a function."""
        kind = environ.get("HTTP_X_AMZ_INVOCATION_TYPE", "RequestResponse")
        qualifier = parse_qs(environ.get("QUERY_STRING", "")).get("Qualifier", [None])[0]
        alias = qualifier or _qualifier_in(name)
        call = Call(body_of(environ) or b"{}", str(uuid.uuid4()), environ.get("HTTP_X_AMZ_CLIENT_CONTEXT"), alias)
        refusal = _refusal(kind, call.payload)
        if refusal is not None:
            return refusal
        region, _ = scope_of(environ)
        found = function_of(name, region=region, qualifier=qualifier)
        if found is None:
            return _error(404, "ResourceNotFoundException", f"Function not found: {name}", "User")
        function, code = found
        if kind == "DryRun":
            return 204, [], b""
        if kind == "Event":
            threading.Thread(target=self._run_event, args=(function, code, call), daemon=True).start()
            return 202, [("X-Amzn-RequestId", call.request_id)], b""
        return self._run(function, code, call, tail=environ.get("HTTP_X_AMZ_LOG_TYPE") == "Tail")

    def deliver(self, name: str, payload: bytes, *, region: str) -> str | None:
        """Send an event to a function as an asynchronous call does, and wait; return why that failed, or ``None``."""
        if len(payload) > MOST_BYTES["Event"]:
            return f"the event has {len(payload)} bytes: Lambda takes {MOST_BYTES['Event']}"
        found = function_of(name, region=region, qualifier=None)
        if found is None:
            return f"there is no function {name!r}"
        done = self._run_event(*found, Call(payload, str(uuid.uuid4()), alias=_qualifier_in(name)))
        return None if done else f"{name} failed {len(PAUSES_OF_EVENTS)} times; `zae-limiter local logs` says why"

    def _run(self, function: Function, code: bytes, call: Call, *, tail: bool) -> Answer:
        try:
            outcome, log = self._pool.run(function, code, call)
        except Throttled:
            return _error(429, "TooManyRequestsException", "Rate Exceeded.", "User")
        headers = [
            ("Content-Type", "application/json"),
            ("X-Amz-Executed-Version", function.version),
            ("X-Amzn-RequestId", call.request_id),
        ]
        if outcome.failed:
            headers.append(("X-Amz-Function-Error", "Unhandled"))
        if tail:
            headers.append(("X-Amz-Log-Result", base64.b64encode(log).decode()))
        return 200, headers, outcome.payload

    def _run_event(self, function: Function, code: bytes, call: Call) -> bool:
        for pause in PAUSES_OF_EVENTS:
            time.sleep(pause)
            try:
                outcome, _ = self._pool.run(function, code, call)
            except Throttled:
                continue
            if not outcome.failed:
                return True
        logger.warning("%s failed %d times on event %s", function.name, len(PAUSES_OF_EVENTS), call.request_id)
        return False


def _qualifier_in(name: str) -> str | None:
    """Return the version or the alias that a name or an ARN of a function ends with."""
    parts = name.split(":")
    named = parts[6:] if parts[0] == "arn" else parts
    return named[1] if len(named) > 1 else None


def _refusal(kind: str, payload: bytes) -> Answer | None:
    most = MOST_BYTES.get(kind)
    if most is None:
        return _error(400, "InvalidParameterValueException", f"there is no invocation type {kind!r}", "User")
    if len(payload) > most:
        told = f"{len(payload)} byte payload is too large for the {kind} invocation type (limit {most} bytes)"
        return _error(413, "RequestTooLargeException", told, "User")
    try:
        json.loads(payload)
    except ValueError as error:
        told = f"Could not parse request body into json: {error}"
        return _error(400, "InvalidRequestContentException", told, "User")
    return None


def _error(status: int, code: str, message: str, kind: str) -> Answer:
    body = json.dumps({"Type": kind, "message": message, "Message": message}).encode()
    return status, [("Content-Type", "application/json"), ("X-Amzn-ErrorType", code)], body
