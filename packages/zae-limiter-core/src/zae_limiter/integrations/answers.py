"""The answers that every integration gives: header fields, status and body, without I/O and without a framework."""

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, TypedDict, cast, get_args
from urllib.parse import quote

from ..exceptions import (
    ContentionError,
    IdempotencyKeyError,
    InvalidIdentifierError,
    RateLimiterUnavailable,
    ValidationError,
)
from ..flows.acquire.requests import EachCallOptions
from ..flows.validation import validate_flag
from ..http import (
    DISABLED,
    PROBLEM_MEDIA_TYPE,
    HasStatuses,
    Names,
    Show,
    check_show,
    headers,
    is_string,
    plain_problem,
    problem,
)
from ..runtime.dataclass import dataclass, field, replace
from ..values.refusal import RateLimitExceeded


class InvalidClientId(InvalidIdentifierError):
    """A request has chosen an id that no entity or resource can have: its answer is a 400."""


Answered = RateLimitExceeded | RateLimiterUnavailable | ContentionError | InvalidClientId | IdempotencyKeyError
ANSWERED: Final = (
    RateLimitExceeded,
    RateLimiterUnavailable,
    ContentionError,
    InvalidClientId,
    IdempotencyKeyError,
)
INVALID: Final = 400
OTHER_REQUEST: Final = 422
UNAVAILABLE: Final = 503
Style: TypeAlias = Literal["problem", "openai"]
STYLES: Final = get_args(Style)
JSON_MEDIA_TYPE: Final = "application/json"
_OPENAI_KINDS: Final[Mapping[int, tuple[str, str | None]]] = {
    INVALID: ("invalid_request_error", None),
    OTHER_REQUEST: ("invalid_request_error", None),
    DISABLED: ("invalid_request_error", "access_disabled"),
    UNAVAILABLE: ("server_error", "limiter_unavailable"),
}
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
    """How answers show limits: options of ``zae_limiter.http``, and their ``style``. Raises ``ValidationError``.

    ``style="openai"``: the body is an error of OpenAI's API, the fields have its names, too. ``payment_required``: 402
    in place of 429 where money is used up.
    """

    show: Show = "own"
    names: Names | None = None
    units: Mapping[str, str] = field(default_factory=dict, hash=False)
    legacy: bool = False
    style: Style = "problem"
    payment_required: bool = False

    def __post_init__(self) -> None:
        check_show(self.show)
        if self.style not in STYLES:
            raise ValidationError("style", self.style, f"must be one of {', '.join(STYLES)}")
        validate_flag("payment_required", self.payment_required)
        if self.names is not None and not callable(self.names):
            raise ValidationError("names", self.names, "must be a function of a LimitStatus that returns its name")
        if not isinstance(self.units, Mapping):
            raise ValidationError("units", self.units, "must map names of limits to units")
        for name, unit in self.units.items():
            if not is_string(unit):
                problem = "must be a string of printable ASCII: a header field shows it"
                raise ValidationError(f"units[{name!r}]", unit, problem)

    def fields(self, result: HasStatuses) -> dict[str, str]:
        """Return the header fields of a lease or a refusal."""
        openai = self.style == "openai"
        return headers(result, show=self.show, names=self.names, units=self.units, legacy=self.legacy, openai=openai)

    def showing(self, show: Show | None) -> "Answers":
        """Return the answers of a route that shows more or less than others."""
        return self if show is None else replace(self, show=show)

    def to(self, error: Answered, path: str) -> Answer:
        """Return the answer to an error of ``ANSWERED``; the path is the request's, decoded."""
        document, fields = self.document(error)
        if self.style == "openai":
            return _answer(document["status"], JSON_MEDIA_TYPE, self._openai(error, document), fields)
        # A URI reference on this server: with one slash in front, so that it names no other one.
        instance = "/" + quote(path.lstrip("/"), safe="/:@!$&'()*+,;=", errors="replace")
        return _answer(document["status"], PROBLEM_MEDIA_TYPE, {**document, "instance": instance}, fields)

    def document(self, error: Answered) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the problem document and the header fields. They name no entity, and no fault of the store."""
        if isinstance(error, RateLimitExceeded):
            document = problem(error, show=self.show, names=self.names, payment_required=self.payment_required)
            return document, self.fields(error)
        if isinstance(error, InvalidClientId):
            detail = "An id in the request is empty, too long, reserved, or has characters that no id can have."
            return plain_problem(INVALID, "Bad Request", detail), {}
        if isinstance(error, IdempotencyKeyError):
            detail = "The Idempotency-Key was used for a request of another size; take another key."
            return plain_problem(OTHER_REQUEST, "Unprocessable Content", detail), {}
        detail = "The rate limiter cannot decide at the moment; try again."
        fields = {} if self.show == "nothing" else {"Retry-After": UNAVAILABLE_RETRY_SECONDS}
        return plain_problem(UNAVAILABLE, "Service Unavailable", detail), fields

    def _openai(self, error: Answered, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body of OpenAI's API for a problem document."""
        kind, code = _OPENAI_KINDS.get(document["status"], ("requests", "rate_limit_exceeded"))
        message = document["detail"]
        if isinstance(error, RateLimitExceeded) and "violated-policies" in document:
            message = f"{document['title']}: {message}."
            if self.units.get(error.primary_violation.limit_name) == "tokens":
                kind = "tokens"
            if error.reason == "quota" or (error.reason == "never" and error.primary_violation.limit.unit):
                kind = code = "insufficient_quota"
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _answer(status: int, media_type: str, document: Mapping[str, Any], fields: Mapping[str, str]) -> Answer:
    body = json.dumps(document).encode()
    return Answer(status, {"Content-Type": media_type, "Content-Length": str(len(body)), **fields}, body)


class AnswerOptions(TypedDict, total=False):
    """How answers show limits: the fields of ``Answers``."""

    show: Show
    names: Names | None
    units: Mapping[str, str]
    legacy: bool
    style: Style
    payment_required: bool


class Options(EachCallOptions, AnswerOptions, total=False):
    """The options of ``acquire`` but for its draws, and how answers show limits."""


def split(options: Options) -> tuple[Answers, EachCallOptions]:
    """Return both kinds of options. Raises ``ValidationError`` for those of answers."""
    rest: dict[str, Any] = {**options}
    own = {name: rest.pop(name) for name in AnswerOptions.__annotations__ if name in rest}
    return Answers(**own), cast("EachCallOptions", rest)


def served(status: int) -> bool:
    """Return whether an answer of this status keeps the tokens: every one but a server error."""
    return status < 500
