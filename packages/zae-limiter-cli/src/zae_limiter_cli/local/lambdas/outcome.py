"""The end of a call, in Lambda's words."""

import json
import signal
from dataclasses import dataclass

from .runtime_api import MOST_RESPONSE_BYTES, Answered, Exited, InitFailed, TooLarge


@dataclass(frozen=True, slots=True)
class TimedOut:
    """No answer came in time."""


Ending = Answered | TooLarge | InitFailed | Exited | TimedOut


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to the caller, and the line for the log."""

    payload: bytes
    failed: bool
    said: tuple[str, ...] = ()
    status: str | None = None

    @classmethod
    def of(cls, ending: Ending, *, request_id: str, timeout_seconds: int) -> "Outcome":
        """Return the outcome of an ending, in Lambda's words."""
        match ending:
            case Answered(_, payload, failed):
                return cls(payload, failed=failed)
            case InitFailed(payload):
                return cls(payload, failed=True, status="error")
            case TooLarge():
                told = f"Response payload size exceeded maximum allowed payload size ({MOST_RESPONSE_BYTES} bytes)."
                return _error("Function.ResponseSizeTooLarge", told, status="error")
            case TimedOut():
                told = f"Task timed out after {timeout_seconds:.2f} seconds"
                said = f"{request_id} {told}"
                return _error("Sandbox.Timedout", f"RequestId: {request_id} Error: {told}", said, status="timeout")
            case Exited(code):
                told = f"RequestId: {request_id} Error: {_how(code)}"
                return _error("Runtime.ExitError", told, told, "Runtime.ExitError", status="error")


def _error(kind: str, message: str, *said: str, status: str) -> Outcome:
    payload = json.dumps({"errorType": kind, "errorMessage": message}).encode()
    return Outcome(payload, failed=True, said=said, status=status)


def _how(code: int) -> str:
    if code == 0:
        return "Runtime exited without providing a reason"
    if code > 0:
        return f"Runtime exited with error: exit status {code}"
    return f"Runtime exited with error: signal: {(signal.strsignal(-code) or str(-code)).lower()}"
