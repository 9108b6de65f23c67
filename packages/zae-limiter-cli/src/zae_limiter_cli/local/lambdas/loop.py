"""The loop of a Lambda's process where `awslambdaric` has no wheel, over the same Runtime API. It imports the standard
library alone.
"""

import importlib
import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable
from http.client import HTTPConnection, HTTPResponse
from typing import Any, Final

PREFIX: Final = "/2018-06-01/runtime"
KEY_HEADER: Final = "Zae-Limiter-Key"  # by which the Runtime API knows this loop where the system knows no users
Handler = Callable[[Any, "Context"], Any]

_KEY: Final = os.environ.get("AWS_ACCESS_KEY_ID", "")  # of the stack; a handler may change its environment


class Context:
    """What a handler learns about its call; the attributes are Lambda's."""

    def __init__(self, answer: HTTPResponse) -> None:
        self.aws_request_id = str(answer.headers["Lambda-Runtime-Aws-Request-Id"])
        self.invoked_function_arn = str(answer.headers["Lambda-Runtime-Invoked-Function-Arn"])
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = os.environ["AWS_LAMBDA_FUNCTION_VERSION"]
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]
        self._deadline_ms = int(answer.headers["Lambda-Runtime-Deadline-Ms"])

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds that the handler may still take."""
        return max(0, self._deadline_ms - int(time.time() * 1000))


def run(handler_name: str, address: str) -> None:
    """Take calls from the Runtime API at ``address``, one after the other, and answer them."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # nothing has replaced it yet
    logging.getLogger().addHandler(logging.StreamHandler(sys.stdout))
    try:
        handler = _load(handler_name)
    except Exception as error:  # noqa: BLE001  whatever it is, the caller has to learn it
        _post(address, "/init/error", _told(error, ""))
        sys.exit(1)
    while True:
        _take_one(handler, address)


class Unloadable(Exception):
    """There is no such handler; ``kind`` is Lambda's name for the reason."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _load(name: str) -> Handler:
    module, _, function = name.rpartition(".")
    try:
        loaded = importlib.import_module(module.replace("/", "."))
    except ImportError as error:
        raise Unloadable("Runtime.ImportModuleError", f"Unable to import module '{module}': {error}") from error
    except SyntaxError as error:
        raise Unloadable("Runtime.UserCodeSyntaxError", f"Syntax error in module '{module}': {error}") from error
    if not hasattr(loaded, function):
        raise Unloadable("Runtime.HandlerNotFound", f"Handler '{function}' missing on module '{module}'")
    handler: Handler = getattr(loaded, function)
    return handler


def _take_one(handler: Handler, address: str) -> None:
    answer, event = _request(address, "GET", "/invocation/next", None)
    context = Context(answer)
    place = f"/invocation/{context.aws_request_id}"
    try:
        reply = json.dumps(handler(json.loads(event), context)).encode()
    except Exception as error:  # noqa: BLE001  as above
        _post(address, f"{place}/error", _told(error, context.aws_request_id))
    else:
        _request(address, "POST", f"{place}/response", reply)


def _told(error: Exception, request_id: str) -> dict[str, Any]:
    frames = traceback.format_tb(error.__traceback__)[1:]
    told = {
        "errorMessage": str(error),
        "errorType": error.kind if isinstance(error, Unloadable) else type(error).__name__,
        "requestId": request_id,
        "stackTrace": frames,
    }
    sys.stdout.write(f"[ERROR] {told['errorType']}: {error}\nTraceback (most recent call last):\n{''.join(frames)}\n")
    sys.stdout.flush()
    return told


def _post(address: str, place: str, content: dict[str, Any]) -> None:
    _request(address, "POST", place, json.dumps(content).encode())


def _request(address: str, method: str, place: str, body: bytes | None) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection(address)
    try:
        connection.request(method, PREFIX + place, body, {KEY_HEADER: _KEY})
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()
