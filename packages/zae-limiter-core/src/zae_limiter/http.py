"""Make header fields and problem documents for HTTP servers from a lease or a refusal: pure functions.

The fields are those of https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/ (revision 10): ``t`` is
the time until additional quota is there, which is the next whole token. The documents are those of RFC 9457.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import quote

from .rules.registry import window_seconds
from .values.limit_status import LimitStatus
from .values.refusal import AccessDisabled, RateLimitExceeded, never_come

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
QUOTA_EXCEEDED: Final = "https://iana.org/assignments/http-problem-types#quota-exceeded"
STATUS: Final = 429
DISABLED: Final = 403
PLAIN: Final = "!#$&'()*+,/:;<=>?@[]^_`{|}~"  # in the id of an entity; the rest is percent-encoded
MOST: Final = 999_999_999_999_999  # of an integer in structured fields (RFC 9651)


class HasStatuses(Protocol):
    """A lease of either variant, or a ``RateLimitExceeded``."""

    @property
    def entity_id(self) -> str:
        """The entity that asked: the limits of any other one are of an entity above it."""

    @property
    def statuses(self) -> Sequence[LimitStatus]:
        """The statuses of the limits."""


def headers(
    result: HasStatuses,
    *,
    units: Mapping[str, str] | None = None,
    legacy: bool = False,
    entity_ids: bool = False,
    now: float | None = None,
) -> dict[str, str]:
    """Return the header fields of an answer, by name: ``RateLimit-Policy``, ``RateLimit``, and ``Retry-After`` of a
    refusal.

    Each limit is a policy by its name, a parent's is ``parent/NAME``, that of the next bucket above ``parent-2/NAME``.
    Those of draws are ``also/NAME``, ``also-2/NAME``, ``also-2/parent/NAME``. With ``entity_ids`` all of these have the
    id of their entity, ``org/NAME``, and ``org/RESOURCE/NAME`` of another resource. ``units`` has the quota unit of
    limits that count something else than requests, like ``{"tpm": "tokens"}``. ``legacy`` adds ``X-RateLimit-*`` of the
    scarcest limit, as slowapi and Flask-Limiter send them: ``X-RateLimit-Reset`` is an instant in seconds of the epoch,
    ``now`` (by default the system's time) and the ``t`` of the limit. A refusal that can never pass has no
    ``Retry-After``; a lease without statuses (an outage) and ``AccessDisabled`` have no fields, and no shadow limit has
    any. Raises ``ValueError`` for a unit that no field can have.
    """
    named = list(_named(result, entity_ids=entity_ids))
    if not named or isinstance(result, AccessDisabled):
        return {}
    shown = [(name, status) for name, status in named if status.exceeded] or named
    fields = {
        "RateLimit-Policy": ", ".join(_policy(name, status, units or {}) for name, status in named),
        "RateLimit": ", ".join(_quota(name, status) for name, status in shown),
    }
    if isinstance(result, RateLimitExceeded) and (wait := result.retry_after_header) is not None:
        fields["Retry-After"] = wait
    return fields | (_legacy(shown, time.time() if now is None else now) if legacy else {})


def problem(refusal: RateLimitExceeded, *, instance: str | None = None) -> dict[str, Any]:
    """Return the problem document ``quota-exceeded``: JSON of the media type ``application/problem+json``, for status
    429.

    It names limits and amounts, and no entity. ``retry-after`` is in seconds, ``None`` if a retry can never pass. For
    ``AccessDisabled`` it is a plain document of status 403, without the reason.
    """
    if isinstance(refusal, AccessDisabled):
        document = {"type": "about:blank", "title": "Forbidden", "status": DISABLED, "detail": "Access is disabled."}
        return document if instance is None else {**document, "instance": instance}
    violated = [(name, status) for name, status in _named(refusal) if status.exceeded]
    wait = refusal.retry_after_header
    exceeded = {
        "type": QUOTA_EXCEEDED,
        "title": "Quota Exceeded",
        "status": STATUS,
        "detail": "; ".join(_sentence(name, status) for name, status in violated),
        "violated-policies": [name for name, _ in violated],
        "retry-after": None if wait is None else int(wait),
    }
    return exceeded if instance is None else {**exceeded, "instance": instance}


def _named(result: HasStatuses, *, entity_ids: bool = False) -> Iterator[tuple[str, LimitStatus]]:
    for status in result.statuses:
        if not status.limit.shadow:
            by_id = entity_ids and (status.draw or status.entity_id != result.entity_id)
            yield _by_id(status, result.statuses) if by_id else status.name_for(result.entity_id), status


def _by_id(status: LimitStatus, statuses: Sequence[LimitStatus]) -> str:
    """Return the limit's name with the id of its entity, and with the resource of a draw on another one."""
    of = [status.entity_id] if status.resource == statuses[0].resource else [status.entity_id, status.resource]
    return "/".join([*(quote(part, safe=PLAIN) for part in of), status.limit_name])


def _policy(name: str, status: LimitStatus, units: Mapping[str, str]) -> str:
    """Return the quota, and the seconds in which it refills, if it does."""
    limit = status.limit
    unit = f";qu={_string(units[status.limit_name])}" if status.limit_name in units else ""
    seconds = window_seconds(limit)
    window = "" if seconds is None else f";w={_integer(seconds)}"
    return f"{_string(name)};q={_integer(limit.capacity)}{unit}{window}"


def _quota(name: str, status: LimitStatus) -> str:
    """Return what is left, and the seconds until it is enough after a refusal, otherwise until there is more."""
    seconds = _reset_seconds(status)
    reset = "" if math.isinf(seconds) else f";t={_integer(math.ceil(seconds))}"
    return f"{_string(name)};r={_integer(max(0, status.available))}{reset}"


def _reset_seconds(status: LimitStatus) -> float:
    return status.retry_after_seconds if status.exceeded else status.next_token_seconds


def _legacy(named: Sequence[tuple[str, LimitStatus]], now: float) -> dict[str, str]:
    scarcest = min((status for _, status in named), key=lambda status: status.available / max(1, status.limit.capacity))
    fields = {
        "X-RateLimit-Limit": str(scarcest.limit.capacity),
        "X-RateLimit-Remaining": str(max(0, scarcest.available)),
    }
    seconds = _reset_seconds(scarcest)
    return fields if math.isinf(seconds) else {**fields, "X-RateLimit-Reset": str(math.ceil(now + seconds))}


def _sentence(name: str, status: LimitStatus) -> str:
    asked = f"{name}: {status.requested} requested"
    if math.isinf(status.retry_after_seconds):
        if status.limit.blocks:
            return f"{asked}, which is blocked"
        if status.requested <= status.limit.usable_burst:
            return f"{asked}, {max(0, status.available)} available, and {never_come(status.limit)}"
        return f"{asked}, which can never pass: at most {status.limit.burst}"
    return f"{asked}, {max(0, status.available)} available; retry in {math.ceil(status.retry_after_seconds)} s"


def _integer(number: int) -> int:
    """Return an integer of structured fields; replace one that is too large by the largest."""
    return min(number, MOST)


def is_string(text: object) -> bool:
    """Return whether structured fields (RFC 9651) can have the text as a string."""
    return isinstance(text, str) and text.isascii() and text.isprintable()


def _string(text: str) -> str:
    """Return a string of structured fields. Raises ``ValueError`` if the text cannot be one."""
    if not is_string(text):
        raise ValueError(f"no string of a header field: {text!r}")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
