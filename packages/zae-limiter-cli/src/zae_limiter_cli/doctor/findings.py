"""What a check finds, and how checks are made so that none of them ends the others."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ..connection import Connection
from ..errors import message_of, one_line

State = Literal["ok", "warn", "fail", "unknown", "n/a"]

SILENCES: Final = 2  # requests without an answer, after which AWS is not asked any more


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found. ``fix`` says what to do, for a state that is not well, and ``commands`` are to be pasted
    for it.

    ``unknown``: the check could not be made, and the message says why; ``n/a``: there is no such thing here.
    """

    check: str
    state: State
    message: str
    fix: str = ""
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    commands: tuple[str, ...] = ()


class Checks:
    """Makes checks one after the other. One that raises is ``unknown``, with the reason; one without an answer fails.

    In an outage each request costs its whole time-out, so after two requests without an answer no check of AWS is made.
    """

    def __init__(self) -> None:
        self._silences = 0

    def make(self, check: str, look: Callable[[], Finding], *, fix: str = "") -> Finding:
        """Return what ``look`` finds; ``fix`` is what helps if AWS refuses to show it."""
        if self._silences >= SILENCES:
            return Finding(check, "unknown", "AWS was not asked: it did not answer the checks before")
        try:
            return look()
        except Exception as error:  # noqa: BLE001  a check that breaks must not hide what the others find
            if _is_silence(error):
                self._silences += 1
                return Finding(check, "fail", _reason(error), "check the network, --region and --endpoint-url")
            return Finding(check, "unknown", _reason(error), fix if _is_refusal(error) else "")


def to_paste(connection: Connection, command: str, *words: str) -> str:
    """Return a command that goes to the AWS of the connection; ``words`` are quoted."""
    given = {"--region": connection.region, "--profile": connection.profile, "--endpoint-url": connection.endpoint_url}
    aws = [word for option, value in given.items() if value is not None for word in (option, value)]
    return " ".join((command, *map(shlex.quote, (*words, *aws))))


def refused(error: Exception) -> str | None:
    """Return the code of AWS's error; ``None`` for any other error."""
    response = getattr(error, "response", None)
    return response.get("Error", {}).get("Code") if isinstance(response, dict) else None


def _reason(error: Exception) -> str:
    told = message_of(error)
    return one_line(told) if told else f"the check broke: {one_line(f'{type(error).__name__}: {error}')[:300]}"


def _is_refusal(error: Exception) -> bool:
    code = refused(error) or ""
    return "AccessDenied" in code or "NotAuthorized" in code or code == "UnauthorizedOperation"


def _is_silence(error: Exception) -> bool:
    from botocore.exceptions import ConnectionError as NoConnection
    from botocore.exceptions import HTTPClientError

    from zae_limiter import RateLimiterUnavailable

    return isinstance(error, (NoConnection, HTTPClientError, RateLimiterUnavailable))
