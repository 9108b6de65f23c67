"""The answers that every integration gives: header fields, status and body, without I/O and without a framework."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from ..exceptions import ContentionError, RateLimiterUnavailable, ValidationError
from ..http import PROBLEM_MEDIA_TYPE, HasStatuses, headers, is_string, problem
from ..values.refusal import RateLimitExceeded

Answered = RateLimitExceeded | RateLimiterUnavailable | ContentionError
ANSWERED: Final = (RateLimitExceeded, RateLimiterUnavailable, ContentionError)
UNAVAILABLE: Final = 503
UNAVAILABLE_RETRY_SECONDS: Final = "1"  # an unavailable store is asked once a second at least


def refusal_of(error: Exception) -> Answered | None:
    """Return the error if it can be answered; of a group, as ``TaskGroup`` raises, the first one if all can be
    answered.
    """
    if isinstance(error, ExceptionGroup):
        refusals = [refusal_of(each) for each in error.exceptions]
        return refusals[0] if all(refusals) else None
    return error if isinstance(error, ANSWERED) else None


class NotServed(Exception):
    """The request was not served: its leases give back what they hold."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response instead of the application's own."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answers:
    """How answers show limits: the options of ``zae_limiter.http.headers``. Raises ``ValidationError``."""

    units: Mapping[str, str] = field(default_factory=dict, hash=False)
    legacy: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.units, Mapping):
            raise ValidationError("units", self.units, "must map names of limits to units")
        for name, unit in self.units.items():
            if not is_string(unit):
                problem = "must be a string of printable ASCII: a header field shows it"
                raise ValidationError(f"units[{name!r}]", unit, problem)

    def fields(self, result: HasStatuses) -> dict[str, str]:
        """Return the header fields of a lease or a refusal."""
        return headers(result, units=self.units, legacy=self.legacy)

    def to(self, error: Answered, path: str) -> Answer:
        """Return the answer to an error of ``ANSWERED``; the path is the request's, decoded."""
        document, fields = self.document(error)
        body = json.dumps({**document, "instance": _reference(path)}).encode()
        named = {"Content-Type": PROBLEM_MEDIA_TYPE, "Content-Length": str(len(body)), **fields}
        return Answer(document["status"], named, body)

    def document(self, error: Answered) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the problem document and the header fields. They name no entity, and no fault of the store."""
        if isinstance(error, RateLimitExceeded):
            return problem(error), self.fields(error)
        document = {
            "type": "about:blank",
            "title": "Service Unavailable",
            "status": UNAVAILABLE,
            "detail": "The rate limiter cannot decide at the moment; try again.",
        }
        return document, {"Retry-After": UNAVAILABLE_RETRY_SECONDS}


def _reference(path: str) -> str:
    """Return the URI reference of a decoded path on this server, with one slash in front, so that it names no other
    server.
    """
    return "/" + quote(path.lstrip("/"), safe="/:@!$&'()*+,;=", errors="replace")


def served(status: int) -> bool:
    """Return whether an answer of this status keeps the tokens: every one but a server error."""
    return status < 500
